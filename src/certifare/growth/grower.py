"""Grow a tree best first: the leaf with the largest gain splits next, so every smaller tree is a prefix of it."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError
from certifare.foundation.compiler import kernel
from certifare.growth.binning import Bins, Codes
from certifare.growth.criterion import Criterion
from certifare.growth.histograms import DistantSource, Histogram, HistogramSource
from certifare.growth.splits import TOLERANCE, Orderings, Split, SplitSearch
from certifare.growth.threads import BLOCK_ROWS, blocks, map_ranges


@dataclass(frozen=True, eq=False)
class Growth:
    """A tree, stored as its splits in the order in which they were made.

    The root is node 0; split j makes nodes 2j+1 (left) and 2j+2 (right). The first k-1 splits are the tree with k
    cells: one growth holds every smaller tree.
    """

    splits: tuple[Split, ...]
    node_counts: NDArray[np.int64]  # (nodes, classes): number of training records of each class in each node

    @property
    def n_cells(self) -> int:
        """Number of cells of the whole tree."""
        return len(self.splits) + 1

    def leaves(self, k: int | None = None) -> NDArray[np.int64]:
        """Return the cells of the tree with k cells, from left to right: a cell's id is its position."""
        split_of = {split.node: j for j, split in enumerate(self.splits[: self._cells(k) - 1])}
        leaves: list[int] = []
        stack = [0]
        while stack:
            node = stack.pop()
            if node in split_of:
                stack += [2 * split_of[node] + 2, 2 * split_of[node] + 1]
            else:
                leaves.append(node)
        return np.array(leaves, dtype=np.int64)

    def cell_counts(self, k: int | None = None) -> NDArray[np.int64]:
        """Return the training records of each class in each cell, (k, classes)."""
        return self.node_counts[self.leaves(k)]

    def apply(self, codes: Codes, k: int | None = None, n_threads: int = 1) -> NDArray[np.int32]:
        """Return the cell of each record in the tree with k cells (by default all)."""
        k = self._cells(k)
        splits = self.splits[: k - 1]
        cells = np.zeros(len(codes), dtype=np.int32)
        if not splits:
            return cells
        used = sorted({split.column for split in splits})
        for split in splits:
            if split.column >= len(codes.columns) or codes.n_codes[split.column] != len(split.goes_left):
                raise ArgumentError(f"Column {split.column} of the codes is not the one that the tree was grown with.")
        nodes = np.array([split.node for split in splits], dtype=np.int64)
        columns = np.array([used.index(split.column) for split in splits], dtype=np.int64)
        sides = [split.goes_left for split in splits]
        goes_left = np.concatenate(sides).view(np.uint8)
        starts = np.concatenate([[0], np.cumsum([len(side) for side in sides])[:-1]]).astype(np.int64)
        cell_of = np.full(2 * k - 1, -1, dtype=np.int32)
        cell_of[self.leaves(k)] = np.arange(k)

        def work(start: int, stop: int) -> None:
            block = np.empty((len(used), BLOCK_ROWS), dtype=np.uint16)
            room, ends = np.empty((2, BLOCK_ROWS), dtype=np.uint32), np.empty((2, len(cell_of)), dtype=np.int64)
            for rows in blocks(start, stop):
                n = rows.stop - rows.start
                for i, column in enumerate(used):
                    block[i, :n] = codes.columns[column][rows]
                _route(block, n, nodes, columns, starts, goes_left, cell_of, room[0], room[1], ends, cells[rows])

        map_ranges(work, len(codes), n_threads)
        return cells

    def _cells(self, k: int | None) -> int:
        if k is None:
            return self.n_cells
        if not 1 <= k <= self.n_cells:
            raise ArgumentError(f"A tree with {k} cells was asked for; this growth has those with 1 to {self.n_cells}.")
        return int(k)


def grow(
    source: HistogramSource,
    bins: Sequence[Bins],
    criterion: Criterion,
    *,
    max_cells: int,
    min_cell_size: int,
    orderings: Orderings = "both",
    progress: Callable[[int], Any] | None = None,
) -> Growth:
    """Grow a fair tree, best first.

    Stops at ``max_cells``, or when no split gains, or when every split would leave a cell with fewer than
    ``min_cell_size`` records.

    - ``orderings``: which orderings of a node's categories are tried.
    - ``progress``: called with the number of cells after each split.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import Criterion, MemorySource, Targets, encode, fit_bins, grow
    >>> age, label, group = np.array([30, 31, 40, 41]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> bins = fit_bins([age], ["age"], [False])
    >>> codes = encode(bins, [age])
    >>> source = MemorySource(codes, Targets.from_columns([label], group, (2,), 2))
    >>> growth = grow(source, bins, Criterion(0.5, "demographic_parity", (2,), 2), max_cells=2, min_cell_size=1)
    >>> growth.apply(codes)
    array([0, 0, 1, 1], dtype=int32)
    """
    if max_cells < 1:
        raise ArgumentError(f"max_cells is {max_cells}; give 1 or more.")
    if min_cell_size < 1:
        raise ArgumentError(f"min_cell_size is {min_cell_size}; give 1 or more.")
    histogram = source.root()
    counts = [histogram.classes]
    search = SplitSearch(bins, criterion, classes=counts[0], min_cell_size=min_cell_size, orderings=orderings)
    distant = cast(DistantSource, source) if hasattr(source, "ahead") else None
    splits: list[Split] = []
    queue: list[_Possible] = []

    def consider(node: int, histogram: Histogram) -> None:
        split = search.best(node, histogram) if counts[node].sum() >= 2 * min_cell_size else None
        if split is not None:
            heapq.heappush(queue, (-split.gain, node, split, histogram.left(split.column, split.goes_left)))

    if max_cells > 1:
        consider(0, histogram)
    while queue and len(splits) + 1 < max_cells:
        _, node, split, of_left = _pop_first(queue)
        left, right = 2 * len(splits) + 1, 2 * len(splits) + 2
        splits.append(split)
        counts.append(of_left)
        counts.append(counts[node] - counts[left])
        if progress is not None:
            progress(len(splits) + 1)
        can_go_on = len(splits) + 1 < max_cells
        if can_go_on and max(split.left_count, split.right_count) >= 2 * min_cell_size:
            if distant is not None:
                distant.expect(_probable(queue, min(distant.ahead, max_cells - len(splits) - 2), min_cell_size))
            children = source.split(node, split.column, split.goes_left, left, right)
            consider(left, children[0])
            consider(right, children[1])
    return Growth(tuple(splits), np.array(counts, dtype=np.int64))


_Possible = tuple[float, int, Split, NDArray[np.int64]]
"""A split that may be next: its negative gain, its node, and the records of each class that it sends left."""


def _pop_first(queue: list[_Possible]) -> _Possible:
    """Return the entry with the largest gain; among those equal up to the tolerance, the one with the first node."""
    tied = [heapq.heappop(queue)]
    while queue and tied[0][0] + TOLERANCE >= queue[0][0]:
        tied.append(heapq.heappop(queue))
    first = min(range(len(tied)), key=lambda i: tied[i][1])
    chosen = tied.pop(first)
    for entry in tied:
        heapq.heappush(queue, entry)
    return chosen


def _probable(queue: list[_Possible], most: int, min_cell_size: int) -> list[Split]:
    """Return the first splits of the queue whose children may split again: they will probably be requested next."""
    first = [split for _, _, split, _ in heapq.nsmallest(most, queue)]
    return [split for split in first if max(split.left_count, split.right_count) >= 2 * min_cell_size]


@kernel
def _route(
    block: NDArray[np.uint16],
    n: int,
    nodes: NDArray[np.int64],
    columns: NDArray[np.int64],
    starts: NDArray[np.int64],
    goes_left: NDArray[np.uint8],
    cell_of: NDArray[np.int32],
    rows: NDArray[np.uint32],
    spare: NDArray[np.uint32],
    ends: NDArray[np.int64],
    cells: NDArray[np.int32],
) -> None:
    """Find the cells of a block of records (columns × rows): each split in turn divides the rows of its node."""
    for i in range(n):
        rows[i] = i
    first, last = ends[0], ends[1]
    first[0], last[0] = 0, n
    for j in range(len(nodes)):
        column, start = columns[j], starts[j]
        left, right = first[nodes[j]], 0
        for i in range(first[nodes[j]], last[nodes[j]]):
            row = rows[i]
            to_left = goes_left[start + block[column, row]]
            rows[left] = row
            spare[right] = row
            left += to_left
            right += 1 - to_left
        for i in range(right):
            rows[left + i] = spare[i]
        first[2 * j + 1], last[2 * j + 1] = first[nodes[j]], left
        first[2 * j + 2], last[2 * j + 2] = left, last[nodes[j]]
    for node in range(len(cell_of)):
        if cell_of[node] >= 0:
            for i in range(first[node], last[node]):
                cells[rows[i]] = cell_of[node]
