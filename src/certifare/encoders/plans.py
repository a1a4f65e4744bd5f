"""Plans of calibrated cells: how many gaps of every group each cell gets, and the thresholds that records set by it.

A plan is a binary tree. At each inner node it names a *direction* (a number that every record has) and says how many
gaps of each group go left. It is fixed on training records and on the numbers of certification records; then the
certification records set the thresholds as order statistics (:meth:`GapPlan.calibrate`), and T* follows from the gaps
alone (:mod:`certifare.certificates.calibrated`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammainc

from certifare.certificates.calibrated import Gaps
from certifare.errors import EncoderError
from certifare.foundation.compiler import kernel

#: Counts that other records come as near to a plan with a smaller probability than this are of those that filled it.
UNLIKELY = 1e-6
#: Where records are that no split waits for.
IN_A_CELL, SET_A_THRESHOLD = -1, -2


@dataclass(frozen=True, eq=False)
class GapPlan:
    """Gaps of each group that go left at each inner node of a binary tree.

    - ``parents`` (splits,): the node that split j divides into nodes 2j + 1 (left) and 2j + 2 (right); node 0 is
      the root.
    - ``directions`` (splits,): which number of a record split j compares.
    - ``left`` (splits, groups): gaps of each group that go left.
    - ``totals`` (groups,): gaps of each group: one more than its certification records.
    """

    parents: NDArray[np.int64]
    directions: NDArray[np.int64]
    left: Gaps
    totals: NDArray[np.int64]

    @classmethod
    def along(cls, gaps: Gaps) -> GapPlan:
        """Return the plan of cells in a row along one direction, as a balanced tree.

        Examples
        --------
        >>> plan = GapPlan.along(np.array([[4, 5], [3, 3], [4, 3]]))
        >>> plan.gaps.tolist()
        [[4, 5], [3, 3], [4, 3]]
        """
        below = np.concatenate([np.zeros((1, gaps.shape[1]), dtype=np.int64), gaps.cumsum(axis=0)])
        parents: list[int] = []
        left: list[Gaps] = []
        waiting = [(0, 0, len(gaps))]
        while waiting:
            node, first, end = waiting.pop(0)
            if end - first > 1:
                middle = (first + end) // 2
                parents.append(node)
                left.append(below[middle] - below[first])
                waiting += [(2 * len(parents) - 1, first, middle), (2 * len(parents), middle, end)]
        shape = (len(parents), gaps.shape[1])
        plan = cls(
            np.array(parents, dtype=np.int64),
            np.zeros(len(parents), dtype=np.int64),
            np.array(left, dtype=np.int64).reshape(shape),
            gaps.sum(axis=0),
        )
        vars(plan)["gaps"] = gaps  # known already
        return plan

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.parents) + 1

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(self.totals)

    @cached_property
    def node_gaps(self) -> Gaps:
        """Gaps of every node, (nodes, groups)."""
        nodes = np.zeros((2 * self.n_cells - 1, self.n_groups), dtype=np.int64)
        nodes[0] = self.totals
        for j, parent in enumerate(self.parents.tolist()):
            nodes[2 * j + 1], nodes[2 * j + 2] = self.left[j], nodes[parent] - self.left[j]
        return nodes

    @cached_property
    def children(self) -> NDArray[np.int32]:
        """Where each split leads, (splits, 2): to another split, or to a cell c, written as −1 − c."""
        return tree_children(self.parents)

    @cached_property
    def chains(self) -> tuple[NDArray[np.int64], Gaps]:
        """For each split, the first of the splits above it that compare the same direction, and ranks there.

        So the threshold of group g at split j has the rank ``ranks[j, g]`` among the records that reach split
        ``first[j]``. The thresholds of cells in a row are order statistics of all records of a group.
        """
        split_of = {int(node): j for j, node in enumerate(self.parents)}
        first = np.arange(len(self.parents))
        below = np.zeros_like(self.left)  # the rank of the threshold just left of each split's node
        for j in range(len(self.parents)):
            for side, node in enumerate((2 * j + 1, 2 * j + 2)):
                child = split_of.get(node)
                if child is not None and self.directions[child] == self.directions[j]:
                    first[child] = first[j]
                    below[child] = below[j] + (self.left[j] if side else 0)
        return first, below + self.left

    @cached_property
    def gaps(self) -> Gaps:
        """Gaps of the cells from left to right, (cells, groups): what T* is computed from."""
        gaps = np.empty((self.n_cells, self.n_groups), dtype=np.int64)
        if self.n_cells == 1:
            gaps[0] = self.totals
        for j, (left, right) in enumerate(self.children.tolist()):
            if left < 0:
                gaps[-1 - left] = self.node_gaps[2 * j + 1]
            if right < 0:
                gaps[-1 - right] = self.node_gaps[2 * j + 2]
        return gaps

    @property
    def counts(self) -> Gaps:
        """Certification records of each cell, with the record of a threshold in the cell just left of it."""
        counts = self.gaps.copy()
        counts[-1] -= 1
        return counts

    def is_filled_by(self, counts: Gaps) -> bool:
        """Say whether counts are too near the plan for other records: those that set the thresholds have just these.

        The shares of cells are Dirichlet, so counts of as many other records have twice the variance of a sample. Some
        may be off even if they are the same: other random numbers may have parted the records on a threshold.
        """
        if not np.array_equal(counts.sum(axis=0) + 1, self.totals):
            return False
        expected = self.gaps * (1.0 - 1.0 / self.totals)
        # Whole numbers are half a record off on average.
        off = float(((np.abs(counts - expected) + 0.5) ** 2 / (2.0 * expected)).sum())
        return bool(gammainc((self.n_cells - 1) * self.n_groups / 2, off / 2) < UNLIKELY)

    def check_sizes(self, groups: NDArray[np.integer[Any]]) -> None:
        """Raise if there are other numbers of records by group than the plan is for."""
        sizes = np.bincount(groups, minlength=self.n_groups)
        if not np.array_equal(sizes + 1, self.totals):
            raise EncoderError(
                f"The plan is for {', '.join(f'{n:,}' for n in self.totals - 1)} certification records by group, and "
                f"there are {', '.join(f'{n:,}' for n in sizes)}."
            )

    def calibrate(
        self, values: NDArray[np.float64], groups: NDArray[np.integer[Any]], ties: NDArray[np.float64]
    ) -> Thresholds:
        """Set the thresholds of every group by its certification records."""
        self.check_sizes(groups)
        at = np.empty((len(self.parents), self.n_groups))
        tie = np.empty_like(at)
        for group in range(self.n_groups):
            inside = {0: np.flatnonzero(groups == group)}
            for j, (parent, direction) in enumerate(zip(self.parents.tolist(), self.directions.tolist(), strict=True)):
                rows = inside.pop(parent)
                rows = rows[np.lexsort((ties[rows], values[rows, direction]))]
                rank = int(self.left[j, group])
                at[j, group], tie[j, group] = values[rows[rank - 1], direction], ties[rows[rank - 1]]
                inside[2 * j + 1], inside[2 * j + 2] = rows[: rank - 1], rows[rank:]
        return Thresholds(self.parents, self.directions, at, tie)

    def misplaced(
        self, thresholds: Thresholds, values: NDArray[np.float64], groups: NDArray[np.integer[Any]]
    ) -> list[tuple[int, int]]:
        """Return the splits and groups whose threshold is not the order statistic of records that the plan asks for.

        Records whose value equals a threshold may have gone to either side: random numbers have put them in order. So
        a threshold is in its place if some order of equal values puts it there.
        """
        found = []
        for group in range(self.n_groups):
            surely = {0: np.flatnonzero(groups == group)}
            perhaps = dict(surely)
            for j, (parent, direction) in enumerate(zip(self.parents.tolist(), self.directions.tolist(), strict=True)):
                inside, around = surely.pop(parent), perhaps.pop(parent)
                here, at = values[around, direction], thresholds.at[j, group]
                own = values[inside, direction]
                rank, n = int(self.left[j, group]), int(self.node_gaps[parent, group]) - 1
                below, above = int((own < at).sum()), int((own > at).sum())
                enough = (here <= at).sum() >= rank and (here >= at).sum() > n - rank
                if below >= rank or above > n - rank or not enough or not (here == at).any():
                    found.append((j, group))
                surely[2 * j + 1], surely[2 * j + 2] = inside[own < at], inside[own > at]
                perhaps[2 * j + 1], perhaps[2 * j + 2] = around[here <= at], around[here >= at]
        return found


@dataclass(frozen=True, eq=False)
class PlanPath:
    """Plans whose cells are runs of the same finest cells, by their number of cells.

    - ``theta``: how much of the order between groups is kept, for cells along one score.
    - ``finest``: the finest cell of each training record.
    - ``starts``: for each number of cells, which of the finest cells begin a cell.
    - ``likely``: how many training records of each label are expected in each finest cell, if plans are compared by
      that.
    """

    theta: float | None
    finest: NDArray[np.integer[Any]]
    starts: dict[int, NDArray[np.int64]]
    plans: dict[int, GapPlan]
    likely: NDArray[np.float64] | None = None

    def cells(self, k: int) -> NDArray[np.int64]:
        """Return the cell of each training record in the plan with k cells."""
        found: NDArray[np.int64] = np.searchsorted(self.starts[k], self.finest, side="right") - 1
        return found


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The thresholds of each group at each inner node, and how they find the cell of a record.

    - ``parents``, ``directions``: as in :class:`GapPlan`.
    - ``at`` (splits, groups): a record with a smaller value goes left.
    - ``ties`` (splits, groups): a record with an equal value goes left if its tie-breaking number is at most this.
    """

    parents: NDArray[np.int64]
    directions: NDArray[np.int64]
    at: NDArray[np.float64]
    ties: NDArray[np.float64]

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.parents) + 1

    @cached_property
    def children(self) -> NDArray[np.int32]:
        """Where each split leads, as in :attr:`GapPlan.children`."""
        return tree_children(self.parents)

    def along(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return thresholds and tie-breaking numbers, (splits, groups), between cells in a row along one direction."""
        last = np.zeros(len(self.parents), dtype=np.int64)  # the cell to the left of each split
        for j in range(len(self.parents)):
            child = self.children[j, 0]
            while child >= 0:
                child = self.children[child, 1]
            last[j] = -1 - child
        order = np.argsort(last)
        at, ties = self.at[order], self.ties[order]
        rises = (np.diff(at, axis=0) > 0) | ((np.diff(at, axis=0) == 0) & (np.diff(ties, axis=0) >= 0))
        if self.directions.any() or not rises.all() or not np.isfinite(at).all():
            raise EncoderError("The thresholds are not in the order of the cells: encode with certifare.")
        return at, ties

    def cells(
        self, values: NDArray[np.float64], groups: NDArray[np.integer[Any]], ties: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """Find the cell of each record."""
        return self._walked(values, groups, ties)[0]

    def on_threshold(self, values: NDArray[np.float64], groups: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Say which records equal a threshold on their way, so that the tie-breaking number decides about them."""
        return self._walked(values, groups, np.full(len(values), 0.5))[1]

    def _walked(
        self, values: NDArray[np.float64], groups: NDArray[np.integer[Any]], ties: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        if self.n_cells == 1:
            return np.zeros(len(values), dtype=np.int32), np.zeros(len(values), dtype=bool)
        tree = self.children, self.directions, self.at, self.ties
        return _walk(np.ascontiguousarray(values), groups.astype(np.int64), ties, tree)  # type: ignore[no-any-return]

    def reach(
        self,
        values: NDArray[np.float64],
        groups: NDArray[np.integer[Any]],
        ties: NDArray[np.float64],
        known: NDArray[np.bool_],
    ) -> NDArray[np.int32]:
        """Lead each record to the first split whose threshold is not known yet.

        Returns splits, or IN_A_CELL, or SET_A_THRESHOLD for a record that equals a known one in value and tie.
        """
        tree = self.children, self.directions, self.at, self.ties
        return _reach(np.ascontiguousarray(values), groups.astype(np.int64), ties, tree, known)  # type: ignore[no-any-return]


def tree_children(parents: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return where each split of a tree leads: to another split, or to a cell c, written as −1 − c.

    Cells are numbered from left to right.

    Examples
    --------
    >>> tree_children(np.array([0, 2])).tolist()
    [[-1, 1], [-2, -3]]
    """
    split_of = {int(node): j for j, node in enumerate(parents)}
    children = np.zeros((len(parents), 2), dtype=np.int32)
    n_cells = 0
    waiting = [(0, 0, 0)] if len(parents) else []  # a node, and the place that leads to it
    while waiting:
        node, split, side = waiting.pop()
        own = split_of.get(node)
        if own is None:
            n_cells += 1
            children[split, side] = -n_cells
            continue
        if node:
            children[split, side] = own
        waiting += [(2 * own + 2, own, 1), (2 * own + 1, own, 0)]
    return children


@kernel
def _walk(values: Any, groups: Any, ties: Any, tree: Any) -> Any:
    """Lead each record down the tree; also say whether it met a threshold that equals its value."""
    children, directions, at, tie = tree
    cells = np.empty(len(values), dtype=np.int32)
    equal = np.zeros(len(values), dtype=np.bool_)
    for i in range(len(values)):
        g, split = groups[i], 0
        while split >= 0:
            value, threshold = values[i, directions[split]], at[split, g]
            goes_left = value < threshold
            if value == threshold:
                equal[i] = True
                goes_left = ties[i] <= tie[split, g]
            split = children[split, 0 if goes_left else 1]
        cells[i] = -1 - split
    return cells, equal


@kernel
def _reach(values: Any, groups: Any, ties: Any, tree: Any, known: Any) -> Any:
    """Lead each record down the tree as far as thresholds are known."""
    children, directions, at, tie = tree
    reached = np.empty(len(values), dtype=np.int32)
    for i in range(len(values)):
        g, split = groups[i], 0
        while split >= 0 and known[split]:
            value, threshold = values[i, directions[split]], at[split, g]
            goes_left = value < threshold
            if value == threshold:
                goes_left = ties[i] < tie[split, g]
                if ties[i] == tie[split, g]:
                    split = SET_A_THRESHOLD
                    break
            split = max(children[split, 0 if goes_left else 1], IN_A_CELL)
        reached[i] = split
    return reached


def round_to_gaps(shares: NDArray[np.float64], totals: Sequence[int] | NDArray[np.int64]) -> Gaps:
    """Round shares (cells, groups) to whole gaps that add up to the totals, at least one for each cell.

    Examples
    --------
    >>> round_to_gaps(np.array([[0.5, 0.2], [0.5, 0.8]]), [11, 4]).tolist()
    [[6, 1], [5, 3]]
    """
    ends = np.rint(np.cumsum(shares, axis=0) / shares.sum(axis=0) * np.asarray(totals)).astype(np.int64)
    k = len(shares)
    # At least one gap for each cell, from the left, and room for those that follow.
    place = np.arange(k)[:, None]
    ends = np.maximum.accumulate(np.maximum(ends - place, 1), axis=0) + place
    ends = np.minimum(ends, np.asarray(totals) - (k - 1 - place))
    gaps: Gaps = np.diff(ends, axis=0, prepend=0)
    return gaps


def threshold_rules(
    thresholds: Thresholds, directions: Sequence[str], groups: Sequence[str], log_odds: bool = False
) -> list[tuple[str, ...]]:
    """Put the cells between thresholds into words: for each direction, the range of every group.

    If the first direction holds ``log_odds``, its probabilities are stated.
    """
    at = np.where(log_odds & (thresholds.directions == 0)[:, None], expit(thresholds.at), thresholds.at)
    shape = (len(directions), len(groups))
    nodes = {0: (np.full(shape, -np.inf), np.full(shape, np.inf))}
    for j, (parent, direction) in enumerate(
        zip(thresholds.parents.tolist(), thresholds.directions.tolist(), strict=True)
    ):
        low, high = nodes.pop(parent)
        middle, above = high.copy(), low.copy()
        middle[direction] = np.minimum(high[direction], at[j])
        above[direction] = np.maximum(low[direction], at[j])
        nodes[2 * j + 1], nodes[2 * j + 2] = (low, middle), (above, high)
    rules: list[tuple[str, ...]] = [()] * thresholds.n_cells
    for j, pair in enumerate(thresholds.children.tolist()):
        for side, child in enumerate(pair):
            if child < 0:
                low, high = nodes[2 * j + 1 + side]
                rules[-1 - child] = tuple(
                    f"{name} {_ranges(low[d], high[d], groups)}"
                    for d, name in enumerate(directions)
                    if np.isfinite(low[d]).any() or np.isfinite(high[d]).any()
                )
    return rules


def _ranges(low: NDArray[np.float64], high: NDArray[np.float64], groups: Sequence[str]) -> str:
    texts = []
    for a, b, group in zip(low.tolist(), high.tolist(), groups, strict=True):
        ends = ([f"> {a:.4g}"] if np.isfinite(a) else []) + ([f"≤ {b:.4g}"] if np.isfinite(b) else [])
        # Between equal thresholds lie records with this very value, some of them.
        texts.append(f"{f'some = {a:.4g}' if a == b else ' and '.join(ends)} ({group})")
    return ", ".join(texts)
