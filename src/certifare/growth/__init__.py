"""How a fair tree grows: from columns to codes, from codes to counts, from counts to splits.

The modules follow the data: :mod:`~certifare.growth.binning` turns columns into codes,
:mod:`~certifare.growth.histograms` counts the classes (label and group) of each code in each node,
:mod:`~certifare.growth.criterion` says what a node is worth, :mod:`~certifare.growth.splits` finds a
node's best split (:mod:`~certifare.growth.cuts` one with a cut for each group), and
:mod:`~certifare.growth.grower` makes the splits, best first.
Nothing here knows tables, encoders or certificates.
"""

import lazy_loader

# Names are loaded when first asked for: histograms and splits compile, and the compiler is slow to import.
# The stub beside this file lists them, for this loader and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
