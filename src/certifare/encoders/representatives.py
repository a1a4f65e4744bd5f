"""Representatives: what a record is replaced by. Per column the median or the most common category of its cell.

They come from training records only. The median is the lower one, so it is a value that occurs and an age stays a
whole number. Two cells may share a representative: cells are told apart by their ids, never by this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import ColumnSchema
from certifare.growth import Bins, CategoricalBins, Codes
from certifare.tables.frames import ColumnType, Field


@dataclass(frozen=True, eq=False)
class Representatives:
    """One value per column and place, a place being a cell or a node of a tree."""

    columns: tuple[ColumnSchema, ...]
    values: tuple[NDArray[Any], ...]  # numbers as float64 with NaN for missing, text as objects with None for missing

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> "Representatives":
        """Keep some places, in the given order."""
        return Representatives(self.columns, tuple(column[places] for column in self.values))

    def table(self) -> dict[str, tuple[ColumnType, NDArray[Any]]]:
        """Columns by name, as :meth:`certifare.tables.frames.Frame.rebuild` takes them."""
        return {c.name: (c.type, values) for c, values in zip(self.columns, self.values, strict=True)}


def find_representatives(
    columns: Sequence[ColumnSchema],
    fields: Sequence[Field],
    bins: Sequence[Bins],
    codes: Codes,
    cells: NDArray[np.int32],
    ranges: NDArray[np.int64],
) -> Representatives:
    """Find the representatives of ranges of cells.

    - ``columns``, ``fields``, ``bins``, ``codes``: the training records.
    - ``cells``: the cell of each.
    - ``ranges`` (places, 2): place p is made of the cells ``ranges[p, 0] … ranges[p, 1] - 1``. The nodes of a tree are
      such places if cells are numbered from left to right.
    """
    n_cells = int(ranges[:, 1].max())
    rows = _Rows(cells, n_cells)
    values: list[NDArray[Any]] = []
    for schema, field, column_bins, column_codes in zip(columns, fields, bins, codes.columns, strict=True):
        by_cell = _count(cells, column_codes, n_cells, column_bins.n_codes)
        cumulated = np.concatenate([np.zeros((1, by_cell.shape[1]), dtype=np.int64), by_cell.cumsum(axis=0)])
        counts = cumulated[ranges[:, 1]] - cumulated[ranges[:, 0]]
        if isinstance(column_bins, CategoricalBins):
            values.append(modes(column_bins, counts, schema.type == "text"))
        else:
            values.append(_medians(column_bins.edges, counts, field.numbers(), column_codes, ranges, rows))
    return Representatives(tuple(columns), tuple(values))


@dataclass(frozen=True, eq=False)
class Middle:
    """Positions of lower medians.

    - ``places``: the places that have a median: at least as many values are present as missing.
    - ``codes``, ``ranks``: the code that the median has, and how many of the values with that code are smaller.
    """

    places: NDArray[np.int64]
    codes: NDArray[np.int64]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> "Middle":
        """Find the middle of each row of counts (places, codes), whose last code is for missing values."""
        cumulated = counts[:, :-1].cumsum(axis=1)
        present = cumulated[:, -1]
        places = np.flatnonzero((present > 0) & (counts[:, -1] <= present))
        cumulated, rank = cumulated[places], (present[places] - 1) // 2
        codes = (cumulated <= rank[:, None]).sum(axis=1)
        below = np.where(codes > 0, cumulated[np.arange(len(places)), np.maximum(codes - 1, 0)], 0)
        return cls(places, codes, rank - below)


class _Rows:
    """Rows in the order of their cells; sorted on first use."""

    def __init__(self, cells: NDArray[np.integer], n_cells: int) -> None:
        self._cells, self._n_cells = cells, n_cells

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        # Small integers are sorted by their digits, in linear time.
        small = self._cells.astype(np.uint16) if self._n_cells <= 1 << 16 else self._cells
        return np.argsort(small, kind="stable")

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.bincount(self._cells, minlength=self._n_cells).cumsum()])

    def of(self, first: int, end: int) -> NDArray[np.int64]:
        """Rows of the cells from ``first`` to ``end - 1``."""
        return self._order[self._starts[first] : self._starts[end]]


def modes(bins: CategoricalBins, counts: NDArray[np.int64], text: bool) -> NDArray[Any]:
    """Return the most common category, the first if tied. Infrequent ones share a code, so they are not counted."""
    counts = np.delete(counts, bins.infrequent_code, axis=1)  # now missing is last
    best = counts.argmax(axis=1)
    empty = counts[np.arange(len(best)), best] == 0
    best[empty] = len(bins.categories)
    known: list[Any] = list(bins.categories)
    if text:
        known.append(None)
    else:
        known.append(np.nan)
    values: NDArray[Any] = np.array(known, dtype=object if text else np.float64)[best]
    return values


def _medians(
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
    numbers: NDArray[np.float64],
    codes: NDArray[Any],
    ranges: NDArray[np.int64],
    rows: "_Rows",
) -> NDArray[np.float64]:
    """Return the lower median of the present values; missing if most values are missing."""
    middle = Middle.of(counts)
    result = np.full(len(counts), np.nan)
    if not len(middle.places):
        return result
    upper = np.append(edges, np.nanmax(numbers))
    if np.array_equal(upper[np.minimum(codes, len(edges))], numbers):
        result[middle.places] = upper[middle.codes]  # every code is one value
        return result
    for place, code, rank in zip(middle.places, middle.codes, middle.ranks, strict=True):
        here = rows.of(*ranges[place])
        result[place] = np.partition(numbers[here[codes[here] == code]], rank)[rank]
    return result


def _count(cells: NDArray[np.integer], codes: NDArray[Any], n_cells: int, n_codes: int) -> NDArray[np.int64]:
    """Count how often each code occurs in each cell."""
    places = cells.astype(np.int64) * n_codes + codes
    return np.bincount(places, minlength=n_cells * n_codes).reshape(n_cells, n_codes)
