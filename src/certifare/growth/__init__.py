"""Grow a fair tree: from columns to codes, from codes to counts, from counts to splits.

The modules follow the data: :mod:`~certifare.growth.binning` turns columns into codes,
:mod:`~certifare.growth.histograms` counts the classes (label and group) of each code in each node,
:mod:`~certifare.growth.criterion` defines the impurity of a node, :mod:`~certifare.growth.splits` finds a
node's best split, and
:mod:`~certifare.growth.grower` makes the splits, best first.
The package does not depend on tables, encoders or certificates.
"""

import lazy_loader

# Names are loaded on first use: histograms and splits are compiled, and the compiler is slow to import.
# The stub next to this file lists them, for this loader and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
