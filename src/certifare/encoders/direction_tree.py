"""Plans over several directions: a tree that splits every group at equal shares, for several labels or for ``retain``.

At each node the direction and the share are chosen that explain most of the targets (labels, and coordinates of the
columns if the table itself is to be retained). Every group is split at the same share of its own order, so the plan
gives each cell the same share of every group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.plans import GapPlan, PlanPath, tree_children
from certifare.foundation.compiler import kernel

#: A node may be split at multiples of one part in this many.
SHARES = 32


@dataclass(frozen=True, eq=False)
class Directed:
    """Training records as plans over several directions see them.

    - ``values`` (records, directions): scores out of fold, then coordinates.
    - ``ties``: uniform numbers that put equal values in order.
    - ``counted``: the records that the metric is about.
    - ``targets`` (records, targets): what cells are to explain; scaled, so that squared deviations can be added up.
    """

    values: NDArray[np.float64]
    ties: NDArray[np.float64]
    groups: NDArray[np.int64]
    counted: NDArray[np.bool_]
    targets: NDArray[np.float64]
    n_groups: int


@dataclass(frozen=True, eq=False)
class DirectionTree:
    """A tree of planned splits; its first k − 1 splits are the tree with k cells.

    - ``parents``, ``directions`` (splits,): as in :class:`~certifare.encoders.plans.GapPlan`.
    - ``shares`` (splits,): the share of every group that goes left.
    - ``nodes`` (records,): the leaf of each training record.
    """

    parents: NDArray[np.int64]
    directions: NDArray[np.int64]
    shares: NDArray[np.float64]
    nodes: NDArray[np.int64]

    def plan(self, k: int, sizes: NDArray[np.int64]) -> GapPlan | None:
        """Return the plan with k cells for certification samples of these sizes; None if a group is too small."""
        nodes = np.zeros((2 * k - 1, len(sizes)), dtype=np.int64)
        nodes[0] = sizes + 1
        left = np.zeros((k - 1, len(sizes)), dtype=np.int64)
        for j in range(k - 1):
            gaps = nodes[self.parents[j]]
            if gaps.min() < 2:
                return None
            left[j] = np.rint(self.shares[j] * gaps).astype(np.int64).clip(1, gaps - 1)
            nodes[2 * j + 1], nodes[2 * j + 2] = left[j], gaps - left[j]
        return GapPlan(self.parents[: k - 1], self.directions[: k - 1], left, nodes[0])

    def path(self, cells: Sequence[int], sizes: NDArray[np.int64]) -> PlanPath:
        """Return the plans with these numbers of cells, as far as the tree and the groups allow them."""
        first = _leaf_numbers(self.parents)
        path = PlanPath(None, first[self.nodes], {}, {})
        for j in reversed(range(len(self.parents))):
            first[self.parents[j]] = first[2 * j + 1]  # of an inner node, the finest cell of its leftmost leaf
        for k in cells:
            plan = self.plan(k, sizes) if 2 <= k <= len(self.parents) + 1 else None
            if plan is not None:
                leaves = np.setdiff1d(np.arange(2 * k - 1), self.parents[: k - 1])
                path.plans[k], path.starts[k] = plan, np.sort(first[leaves])
        return path


def _leaf_numbers(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cell of every leaf, by node; cells are numbered from left to right."""
    numbers = np.zeros(2 * len(parents) + 1, dtype=np.int64)
    for j, pair in enumerate(tree_children(parents).tolist()):
        for side, child in enumerate(pair):
            if child < 0:
                numbers[2 * j + 1 + side] = -1 - child
    return numbers


def grow_directions(records: Directed, max_cells: int, min_cell_size: int) -> DirectionTree:
    """Grow a tree, the best split first."""
    nodes = np.zeros(len(records.groups), dtype=np.int64)
    rows = {0: np.arange(len(nodes))}
    best = {0: _best_split(records, rows[0], min_cell_size)}
    parents: list[int] = []
    directions: list[int] = []
    shares: list[float] = []
    while len(parents) < max_cells - 1:
        node = max(best, key=lambda n: best[n][0])
        gain, direction, step = best.pop(node)
        if gain <= 0.0:
            break
        here = rows.pop(node)
        goes_left = _ranks(records, here, direction) < (step + 1) / SHARES
        parents.append(node)
        directions.append(direction)
        shares.append((step + 1) / SHARES)
        for side, kept in enumerate((here[goes_left], here[~goes_left])):
            child = 2 * len(parents) - 1 + side
            nodes[kept] = child
            rows[child] = kept
            best[child] = _best_split(records, kept, min_cell_size)
    return DirectionTree(
        np.array(parents, dtype=np.int64), np.array(directions, dtype=np.int64), np.array(shares), nodes
    )


def _ranks(records: Directed, rows: NDArray[np.int64], direction: int) -> NDArray[np.float64]:
    """Return the rank of each record among the counted ones of its group, in [0, 1]."""
    order = np.lexsort((records.ties[rows], records.values[rows, direction]))
    ranks = np.empty(len(rows))
    ordered = rows[order]
    ranks[order] = _ranks_in_order(records.groups[ordered], records.counted[ordered], records.n_groups)
    return ranks


@kernel
def _ranks_in_order(groups: Any, counted: Any, n_groups: int) -> Any:
    totals = np.zeros(n_groups)
    for i in range(len(groups)):
        totals[groups[i]] += counted[i]
    below = np.zeros(n_groups)
    ranks = np.empty(len(groups))
    for i in range(len(groups)):
        g = groups[i]
        ranks[i] = (below[g] + 0.5 * counted[i]) / max(totals[g], 1.0)
        below[g] += counted[i]
    return ranks


def _best_split(records: Directed, rows: NDArray[np.int64], min_cell_size: int) -> tuple[float, int, int]:
    """Return the largest gain of a split of these records, its direction, and its share in steps."""
    best = (0.0, 0, 0)
    sizes = np.bincount(records.groups[rows], minlength=records.n_groups)
    if sizes.min() < 2 * min_cell_size:
        return best
    for direction in range(records.values.shape[1]):
        bins = (_ranks(records, rows, direction) * SHARES).astype(np.int64).clip(0, SHARES - 1)
        n, sums, by_group = _sums(bins, rows, records.targets, records.groups, records.n_groups)
        n, sums, by_group = n.cumsum(), sums.cumsum(axis=0), by_group.cumsum(axis=0)
        left, right = n[:-1], n[-1] - n[:-1]
        fine = np.minimum(by_group[:-1], by_group[-1] - by_group[:-1]).min(axis=1) >= min_cell_size
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = (sums[:-1] ** 2).sum(axis=1) / left + ((sums[-1] - sums[:-1]) ** 2).sum(axis=1) / right
        gain = np.where(fine, gain - (sums[-1] ** 2).sum() / n[-1], 0.0)
        step = int(gain.argmax())
        best = max(best, (float(gain[step]), direction, step))
    return best


@kernel
def _sums(bins: Any, rows: Any, targets: Any, groups: Any, n_groups: int) -> Any:
    n = np.zeros(SHARES)
    sums = np.zeros((SHARES, targets.shape[1]))
    by_group = np.zeros((SHARES, n_groups))
    for i in range(len(rows)):
        b, row = bins[i], rows[i]
        n[b] += 1.0
        by_group[b, groups[row]] += 1.0
        for t in range(targets.shape[1]):
            sums[b, t] += targets[row, t]
    return n, sums, by_group
