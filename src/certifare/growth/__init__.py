"""How a fair tree grows: from columns to codes, from codes to counts, from counts to splits.

The modules follow the data: :mod:`~certifare.growth.binning` turns columns into codes,
:mod:`~certifare.growth.histograms` counts the classes (label and group) of each code in each node,
:mod:`~certifare.growth.criterion` says what a node is worth, :mod:`~certifare.growth.splits` finds a
node's best split (:mod:`~certifare.growth.cuts` one with a cut for each group), and
:mod:`~certifare.growth.grower` makes the splits, best first.
Nothing here knows tables, encoders or certificates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certifare.growth.binning import Bins, CategoricalBins, Codes, ContinuousBins, encode, fit_bins
    from certifare.growth.columns import Column, Dictionary
    from certifare.growth.criterion import Charge, Criterion, GrowthMetric, Targets
    from certifare.growth.grower import Growth, grow
    from certifare.growth.histograms import Histogram, HistogramSource, MemorySource
    from certifare.growth.splits import Orderings, Split

# Loaded when first asked for: histograms and splits compile, and the compiler is slow to import.
_HOME = {
    "Bins": "binning",
    "CategoricalBins": "binning",
    "Charge": "criterion",
    "Codes": "binning",
    "Column": "columns",
    "ContinuousBins": "binning",
    "Criterion": "criterion",
    "Dictionary": "columns",
    "Growth": "grower",
    "Histogram": "histograms",
    "HistogramSource": "histograms",
    "MemorySource": "histograms",
    "GrowthMetric": "criterion",
    "Orderings": "splits",
    "Split": "splits",
    "Targets": "criterion",
    "encode": "binning",
    "fit_bins": "binning",
    "grow": "grower",
}

__all__ = [
    "Bins",
    "CategoricalBins",
    "Charge",
    "Codes",
    "Column",
    "ContinuousBins",
    "Criterion",
    "Dictionary",
    "Growth",
    "GrowthMetric",
    "Histogram",
    "HistogramSource",
    "MemorySource",
    "Orderings",
    "Split",
    "Targets",
    "encode",
    "fit_bins",
    "grow",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
