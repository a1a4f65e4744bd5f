"""Gradient boosted trees as plain arrays, scored by looking up which leaves each number of a record allows.

Trees are taken out of LightGBM. Thresholds become cuts, and numbers become codes: how many cuts lie
below. Each tree has a table for every number that it compares: for each code, one bit per leaf that a record with this
code can reach. The bits that all tables of a tree have in common are one bit, the record's leaf. So a tree costs one
look-up for each number that it compares, no step waits for the one before, and missing values are a code like others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from certifare.foundation.compiler import kernel
from certifare.growth import ContinuousBins

LARGEST = float(np.finfo(np.float64).max)
"""Stands for an infinite threshold: no finite number lies above it."""

UNIT = 2.0**-20
"""Leaves add multiples of this, so that a sum is exact, and the same, in whatever order it is made."""

DIGITS = 9
"""Significant digits of a threshold between numbers that are not whole."""

WORD = 64
"""Leaves of a tree that share a table; a larger tree has several."""

BLOCK_ROWS = 1024
"""Rows that are looked up together: their codes and one tree's tables stay in a near cache."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Additive trees. Nodes of all trees lie one after another, a node's left child right behind it.

    - ``n_classes``: two classes have one output (log-odds of the second), more have one each.
    - ``baseline`` (outputs,): what the sums start from.
    - ``starts`` (trees + 1,): tree t's nodes are ``starts[t] … starts[t+1]-1``; it adds to output ``t % outputs``.
    - ``feature``: which number a node compares; -1 at a leaf.
    - ``threshold``: at most this goes left.
    - ``missing_left``: where a missing number goes.
    - ``right``: the right child, counted from the tree's start; 0 at a leaf.
    - ``value``: what a leaf adds.
    """

    n_classes: int
    baseline: NDArray[np.float64]
    starts: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    right: NDArray[np.int32]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, booster: Any, whole: Sequence[bool]) -> "Forest":
        """Extract the trees of a model of LightGBM, which has no categories.

        ``whole`` says which numbers are whole: their thresholds are, too. So that a file is short, other thresholds
        have nine digits, and leaves are rounded.
        """
        trees = [_parsed(text) for text in _tree_texts(booster)]
        baseline = np.zeros(booster.num_model_per_iteration())
        starts = np.concatenate([[0], np.cumsum([len(tree) for tree in trees])]).astype(np.int64)
        feature, threshold, missing_left, value = (
            np.array(column) for column in zip(*(node for tree in trees for node in tree), strict=True)
        )
        is_whole = (feature >= 0) & np.asarray(whole, dtype=bool)[feature] & (np.abs(threshold) < 2.0**53)
        different, place = np.unique(threshold, return_inverse=True)
        short = np.array([_short(c) for c in different.tolist()])
        return cls(
            n_classes=max(2, len(baseline)),
            baseline=baseline,
            starts=starts,
            feature=feature.astype(np.int32),
            threshold=np.where(is_whole, np.floor(threshold), short[place]),
            missing_left=missing_left.astype(bool),
            right=right_children(feature, starts),
            value=np.rint(value / UNIT) * UNIT,
        )

    @classmethod
    def mean(cls, forests: Sequence["Forest"]) -> "Forest":
        """Return the forest whose sums are the mean of other forests' sums, up to rounding of the leaves."""
        if len(forests) == 1:
            return forests[0]
        sizes = [np.diff(forest.starts) for forest in forests]
        names = ("feature", "threshold", "missing_left", "right")
        feature, threshold, missing_left, right = (
            np.concatenate([getattr(f, name) for f in forests]) for name in names
        )
        return cls(
            n_classes=forests[0].n_classes,
            baseline=np.mean([forest.baseline for forest in forests], axis=0),
            starts=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64),
            feature=feature,
            threshold=threshold,
            missing_left=missing_left,
            right=right,
            value=np.rint(np.concatenate([forest.value for forest in forests]) / len(forests) / UNIT) * UNIT,
        )

    @property
    def left(self) -> NDArray[np.int32]:
        """The left child of each node, counted from the tree's start; 0 at a leaf."""
        place = np.arange(len(self.feature)) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return np.where(self.feature >= 0, place + 1, 0).astype(np.int32)

    def finish(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn sums into scores: log-odds (n, 1) of the second of two classes, else probabilities."""
        if self.n_classes == 2:
            return raw
        raw -= raw.max(axis=1, keepdims=True)
        np.exp(raw, out=raw)
        raw /= raw.sum(axis=1, keepdims=True)
        return raw


class LookUp:
    """Scores records by several forests at once, from codes that the forests share.

    - ``n_numbers``: how many numbers a record has.
    - ``bins``: for each number the thresholds that it is compared with, by which it becomes a code.
    - ``used``: which numbers are compared at all.
    """

    def __init__(self, forests: Sequence[Forest], n_numbers: int) -> None:
        self._forests = forests
        cuts = [np.unique(np.concatenate([f.threshold[f.feature == i] for f in forests])) for i in range(n_numbers)]
        self.bins = [ContinuousBins(f"number {i}", own) for i, own in enumerate(cuts)]
        self.used = [i for i, own in enumerate(cuts) if len(own)]
        self._tables = [_make_tables(forest, cuts) for forest in forests]

    def score(self, codes: NDArray[np.uint16]) -> list[NDArray[np.float64]]:
        """Score records with these codes, (numbers, records), by each forest: (records, outputs)."""
        found = []
        for forest, tables in zip(self._forests, self._tables, strict=True):
            raw = np.tile(forest.baseline, (codes.shape[1], 1))
            _add_trees(codes, tables, np.empty(BLOCK_ROWS, dtype=np.uint64), raw)
            found.append(forest.finish(raw))
        return found


def right_children(feature: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Find the right child of every node, counted from its tree's start, where nodes are listed left before right."""
    right = np.zeros(len(feature), dtype=np.int32)
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        waiting: list[int] = []
        for i, compared in enumerate((feature[start:stop] >= 0).tolist()):
            if compared:
                waiting.append(i)
            elif waiting:
                right[start + waiting.pop()] = i + 1
    return right


def _short(threshold: float) -> float:
    """Round a threshold, and up if that changes it: a number that equals it stays at most the threshold."""
    short = float(f"{threshold:.{DIGITS}g}")
    if short >= threshold - 1e-12 * abs(threshold):
        return short
    return min(float(f"{threshold + 5 * 10.0**-DIGITS * abs(threshold):.{DIGITS}g}"), LARGEST)


DEFAULT_LEFT, MISSING_IS_NAN = 2, 2
"""Bits of LightGBM's ``decision_type``, and the value of those above: which values are missing."""

_Node = tuple[int, float, bool, float]
"""Feature, threshold, whether missing goes left, and what a leaf adds."""


def _tree_texts(booster: Any) -> list[dict[str, str]]:
    """Split the text of a LightGBM model into the fields of each tree."""
    texts = booster.model_to_string(importance_type="split").partition("\nend of trees")[0].split("\nTree=")[1:]
    return [dict(line.split("=", 1) for line in text.split("\n")[1:] if "=" in line) for text in texts]


def _parsed(tree: dict[str, str]) -> list[_Node]:
    """List the nodes of a tree of LightGBM, left before right."""
    values = [float(value) for value in tree["leaf_value"].split()]
    if len(values) == 1:
        return [(-1, 0.0, False, values[0])]
    feature, kind, left, right = (
        [int(value) for value in tree[name].split()]
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    cuts = [float(value) for value in tree["threshold"].split()]
    listed: list[_Node] = []
    waiting = [0]
    while waiting:
        i = waiting.pop()
        if i < 0:
            listed.append((-1, 0.0, False, values[~i]))
            continue
        waiting += [right[i], left[i]]
        # Where no value was missing in training, LightGBM takes a missing one for zero.
        to_left = bool(kind[i] & DEFAULT_LEFT) if kind[i] >> 2 == MISSING_IS_NAN else cuts[i] >= 0.0
        listed.append((feature[i], cuts[i], to_left, 0.0))
    return listed


def _make_tables(forest: Forest, cuts: Sequence[NDArray[np.float64]]) -> tuple[NDArray[Any], ...]:
    """Make the tables of all trees, in pieces of at most 64 leaves.

    Returns, for each piece, the output that it adds to, where its tables begin (and end: one entry more), and what its
    leaves add (one entry more: nothing, for a record whose leaf is in another piece); for each table, the number that
    it is for and where it begins; all tables.
    """
    compares, trees = forest.feature >= 0, np.arange(len(forest.starts) - 1)
    tree_of = np.repeat(trees, np.diff(forest.starts))
    n_pieces = -(-np.bincount(tree_of[~compares], minlength=len(trees)) // WORD)
    tree_of_piece = np.repeat(trees, n_pieces)
    first_leaf = WORD * (np.arange(len(tree_of_piece)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces))
    # Every piece has a table for each number that its tree compares.
    tree, number = np.divmod(np.unique(tree_of[compares] * len(cuts) + forest.feature[compares]), len(cuts))
    n_tables = np.bincount(tree, minlength=len(trees))
    firsts = np.concatenate([[0], np.cumsum(n_tables[tree_of_piece])])
    begins = np.cumsum(n_tables) - n_tables
    shift = np.repeat(begins[tree_of_piece] - firsts[:-1], n_tables[tree_of_piece])
    numbers = number[np.arange(firsts[-1]) + shift]
    offsets = np.concatenate([[0], np.cumsum(np.array([len(own) + 2 for own in cuts])[numbers])])
    cut_of = np.zeros(len(forest.feature), dtype=np.int64)
    for i in np.unique(number):
        here = forest.feature == i
        cut_of[here] = np.searchsorted(cuts[i], forest.threshold[here])
    values, tables = np.zeros((len(tree_of_piece), WORD + 1)), np.empty(offsets[-1], dtype=np.uint64)
    nodes = forest.starts, forest.feature, cut_of, forest.missing_left, forest.right, forest.value
    room = np.empty(len(forest.feature), dtype=np.uint64), np.zeros(len(cuts), dtype=np.int64)
    _fill(nodes, (tree_of_piece, first_leaf), (firsts, numbers, offsets), room, values, tables)
    return tree_of_piece % len(forest.baseline), firsts, values, numbers, offsets[:-1], tables


@kernel
def _fill(nodes: Any, pieces: Any, layout: Any, room: Any, values: Any, tables: Any) -> None:
    """Fill the tables of all pieces, and what their leaves add.

    A table starts with all leaves of its piece. Each node that compares the table's number takes, for each code, the
    leaves on the other side out of it.
    """
    starts, feature, cuts, missing_left, right, value = nodes
    trees, first_leaves = pieces
    firsts, numbers, offsets = layout
    below, table_of = room
    for piece in range(len(trees)):
        start, stop = starts[trees[piece]], starts[trees[piece] + 1]
        leaf = -first_leaves[piece]
        for node in range(start, stop):
            if feature[node] < 0:
                below[node] = 0
                if 0 <= leaf < WORD:
                    below[node] = np.uint64(1) << np.uint64(leaf)
                    values[piece, leaf] = value[node]
                leaf += 1
        for node in range(stop - 1, start - 1, -1):  # children come after their parents
            if feature[node] >= 0:
                below[node] = below[node + 1] | below[start + right[node]]
        for table in range(firsts[piece], firsts[piece + 1]):
            table_of[numbers[table]] = table
            for code in range(offsets[table], offsets[table + 1]):
                tables[code] = below[start]
        for node in range(start, stop):
            if feature[node] >= 0:
                table = table_of[feature[node]]
                lasts = offsets[table] + cuts[node] + 1
                missing = offsets[table + 1] - 1
                not_left, not_right = ~below[node + 1], ~below[start + right[node]]
                for code in range(offsets[table], lasts):
                    tables[code] &= not_right
                for code in range(lasts, missing):
                    tables[code] &= not_left
                tables[missing] &= not_right if missing_left[node] else not_left


@intrinsic
def _lowest_bit(typing_context: Any, word: Any) -> Any:
    """Find the position of the lowest bit of a word; 64 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.uint64(types.uint64), generate


@kernel
def _add_trees(codes: Any, all_tables: Any, found: Any, raw: Any) -> None:
    """Add every tree's leaf values to the outputs."""
    outputs, firsts, values, numbers, offsets, tables = all_tables
    for begin in range(0, codes.shape[1], len(found)):
        n = min(len(found), codes.shape[1] - begin)
        for piece in range(len(outputs)):
            for i in range(n):
                found[i] = ~np.uint64(0)
            table, stop = firsts[piece], firsts[piece + 1]
            while table + 1 < stop:
                one, other = codes[numbers[table], begin:], codes[numbers[table + 1], begin:]
                of_one, of_other = tables[offsets[table] :], tables[offsets[table + 1] :]
                for i in range(n):
                    found[i] &= of_one[one[i]] & of_other[other[i]]
                table += 2
            if table < stop:
                one, of_one = codes[numbers[table], begin:], tables[offsets[table] :]
                for i in range(n):
                    found[i] &= of_one[one[i]]
            value, output = values[piece], outputs[piece]
            for i in range(n):
                raw[begin + i, output] += value[_lowest_bit(found[i])]
