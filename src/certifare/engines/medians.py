"""Passes over all records after a tree has grown, for representatives that cannot be computed from counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.engines.blocks import Block, Piece
from certifare.engines.coding import Plan
from certifare.growth import Codes, Growth

ValueCountsByNode = dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.int64]]]
"""For a column and a node: sorted distinct values, and the number of records of each."""


@dataclass(frozen=True, eq=False)
class MedianFinder:
    """Counts the values inside the middle bin of each node."""

    plan: Plan
    growth: Growth
    ranges: NDArray[np.int64]  # the range of cells of each node
    wanted: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int64]]]

    def __call__(self, piece: Piece, squares: NDArray[np.uint16] | None = None) -> ValueCountsByNode:
        """Count the values of a piece."""
        return merge_value_counts([self._tally(*parts) for parts in _cells(self.plan, self.growth, piece, squares)])

    def _tally(self, block: Block, codes: Codes, cells: NDArray[np.int32]) -> ValueCountsByNode:
        tallies: ValueCountsByNode = {}
        for c, (places, middle) in self.wanted.items():
            rows = np.flatnonzero(np.isin(codes.columns[c], np.unique(middle)))
            of_rows, cell_of = codes.columns[c][rows], cells[rows]
            numbers = block.fields[c].numbers()[rows]
            for place, code in zip(places.tolist(), middle.tolist(), strict=True):
                low, high = self.ranges[place]
                inside = numbers[(of_rows == code) & (cell_of >= low) & (cell_of < high)]
                tallies[c, place] = np.unique(inside, return_counts=True)
        return tallies


@dataclass(frozen=True, eq=False)
class CellCounter:
    """Counts the codes of all columns in each cell of a growth on score squares."""

    plan: Plan
    growth: Growth

    def __call__(self, piece: Piece, squares: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Count a piece."""
        n_cells, n_codes = self.growth.n_cells, self.plan.n_codes
        counts = np.zeros((n_cells, sum(n_codes)), dtype=np.int64)
        for _, codes, cells in _cells(self.plan, self.growth, piece, squares):
            for column, n, start in zip(codes.columns, n_codes, np.cumsum([0, *n_codes[:-1]]), strict=True):
                flat = np.bincount(cells.astype(np.int64) * n + column, minlength=n_cells * n)
                counts[:, start : start + n] += flat.reshape(n_cells, n)
        return counts


def _cells(
    plan: Plan, growth: Growth, piece: Piece, squares: NDArray[np.uint16] | None
) -> Iterator[tuple[Block, Codes, NDArray[np.int32]]]:
    """Yield the blocks of a piece with their codes and cells."""
    start = 0
    for block in plan.blocks(piece):
        codes = plan.codes(block)
        decided_on = codes
        if squares is not None:
            n_squares = len(growth.splits[0].goes_left) if growth.splits else 1 << 16
            decided_on = Codes((squares[start : start + len(block)],), (n_squares,))
        yield block, codes, growth.apply(decided_on)
        start += len(block)


def add_counts(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add up counts."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def merge_value_counts(parts: Sequence[ValueCountsByNode]) -> ValueCountsByNode:
    """Add up value counts."""
    if len(parts) == 1:
        return parts[0]
    merged: ValueCountsByNode = {}
    for key in parts[0]:
        values, inverse = np.unique(np.concatenate([part[key][0] for part in parts]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate([part[key][1] for part in parts]))
        merged[key] = values, counts
    return merged
