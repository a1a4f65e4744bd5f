"""What an encoder's file may ask for: limits on memory and work, found from the document before anything large is made.

A short file can ask for much: a split of a column with 60,000 categories is one word in the file and 60,000 entries in
memory, and a tree that is all depth takes quadratic time to be put into words. Each limit is far above what ``fit``
makes, and is named in the error.
"""

from collections.abc import Sequence

from certifare.encoders.forest import WORD
from certifare.encoders.format import (
    BoostedDocument,
    CalibratedDocument,
    EncoderDocument,
    Model,
    TreeDocument,
)
from certifare.errors import FileError

MOST_COLUMNS = 10_000
MOST_CELLS = 1 << 16
MOST_GROUPS = 1_000
"""Groups, and values of a label."""

MOST_STEPS = 1 << 22
"""Steps from the root to every cell of a tree, added up."""

MOST_LEAVES = 1 << 12
"""Leaves of a tree of a score model."""

MOST_ENTRIES = 1 << 24
"""Entries of the tables that score models are looked up in, added up."""

MOST_CODES = 1 << 26
"""Codes of the columns of all splits, added up: the bytes that the splits take in memory."""

MOST_RULES = 1 << 30
"""Codes of the columns of all splits on the ways to all cells, added up: the work of putting the cells into words."""


def check_limits(document: EncoderDocument) -> None:
    """Refuse a document that asks for too much; the :class:`~certifare.errors.FileError` names the limit."""
    _limit(len(document.columns), MOST_COLUMNS, "columns")
    _limit(len(document.groups), MOST_GROUPS, "groups")
    for label in document.labels:
        _limit(len(label.values), MOST_GROUPS, f"values of the label {label.name[:60]!r}")
    if isinstance(document, TreeDocument):
        _limit(len(document.splits) + 1, MOST_CELLS, "cells")
        codes_of = {c.name: len(c.edges or ()) + len(c.categories or ()) + 2 for c in document.columns}
        codes = [codes_of.get(rule.column, 0) for rule in document.splits]
        _limit(sum(codes), MOST_CODES, "codes of splits")
        nodes = [rule.node for rule in document.splits]
        _limit(sum_over_cells(nodes, [1] * len(nodes)), MOST_STEPS, "steps to its cells")
        _limit(sum_over_cells(nodes, codes), MOST_RULES, "codes on the ways to its cells")
    elif isinstance(document, BoostedDocument):
        # Every cell has a square of its own, of which there are few; that is checked when they are laid out.
        _limit(len(document.parents) + 1, MOST_CELLS, "cells")
    elif isinstance(document, CalibratedDocument):
        _limit(len(document.splits) + 1, MOST_CELLS, "cells")
        _limit(len(document.directions), MOST_COLUMNS, "directions")
        nodes = [split.node for split in document.splits]
        _limit(sum_over_cells(nodes, [1] * len(nodes)), MOST_STEPS, "steps to its cells")
    if isinstance(document, BoostedDocument | CalibratedDocument):
        _limit(_entries(document.models), MOST_ENTRIES, "entries of tables of its score models")


def sum_over_cells(parents: Sequence[int], costs: Sequence[int]) -> int:
    """Add up, over all cells, the costs of the splits on the way from the root; split j parts node ``parents[j]``.

    Splits that part no leaf are skipped: they are refused elsewhere.
    """
    above = {0: 0}
    for j, (node, cost) in enumerate(zip(parents, costs, strict=True)):
        if node in above:
            below = above.pop(node) + cost
            above[2 * j + 1] = above[2 * j + 2] = below
    return sum(above.values())


def _entries(models: Sequence[Model]) -> int:
    """Count the entries of the tables that models are looked up in."""
    cuts: dict[int, set[float]] = {}
    trees = [tree for model in models for tree in model.trees]
    for tree in trees:
        for feature, number in zip(tree.features, tree.numbers, strict=False):
            cuts.setdefault(feature, set()).add(number)
    total = 0
    for tree in trees:
        leaves = tree.features.count(-1)
        _limit(leaves, MOST_LEAVES, "leaves in a tree of a score model")
        compared = sum(len(cuts[feature]) + 2 for feature in tree.features if feature >= 0)
        total += -(-leaves // WORD) * compared
    return total


def _limit(found: int, most: int, what: str) -> None:
    if found > most:
        raise FileError(f"The file asks for too much: {found:,} {what}, where {most:,} are the most that are accepted.")
