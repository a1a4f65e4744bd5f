"""Retained information: how much of the table itself the cells keep.

Take two records at random, and two from the same cell. A column is retained as far as the second pair agrees more
than the first: half the mean squared difference of two records is the variance (numbers), the probability that
they differ is the Gini impurity (categories). A cell's own mean is never compared with the record that made it, so
many small cells gain nothing by chance.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.growth import Dictionary
from certifare.tables.frames import Field, scaled


@dataclass(frozen=True, slots=True)
class RetainedInformation:
    """Share of each column's variance that the cells explain, on the given records."""

    mean: float  # mean over the columns; columns that do not vary are left out
    columns: dict[str, float]  # each column's share. Slightly below 0 where cells explain nothing

    def __str__(self) -> str:
        return f"{self.mean:.3f} of the spread of {len(self.columns)} columns is retained"


def retained_information(
    fields: Sequence[Field], categorical: Sequence[bool], cells: NDArray[np.integer], n_cells: int
) -> RetainedInformation:
    """Measure retained information on held-out records."""
    return next(Spreads(fields, categorical).along(cells, n_cells, [np.arange(n_cells)]))


class Spreads:
    """Columns of some records, read once to be compared with many cells; parameters as above."""

    def __init__(self, fields: Sequence[Field], categorical: Sequence[bool]) -> None:
        kinds = list(zip(fields, categorical, strict=True))
        numbers = [(f.name, *_centred(f)) for f, is_categorical in kinds if not is_categorical]
        categories = [(f.name, *_codes(f)) for f, is_categorical in kinds if is_categorical]
        numbers, categories = [one for one in numbers if one[1] > 0.0], [one for one in categories if one[1] > 0.0]
        self._names = [name for name, *_ in numbers] + [name for name, *_ in categories]
        self._totals = np.array([total for _, total, _ in numbers] + [total for _, total, _ in categories])
        values = np.array([column for *_, column in numbers]).reshape(-1, len(fields[0]))
        self._present = (~np.isnan(values)).astype(np.float64)
        self._values = np.nan_to_num(values)
        # Records by value: the values of all columns are numbered; those that occur once agree with no other.
        found, n_values = [np.zeros((2, 0), dtype=np.int64)], 0
        self._column_of = np.zeros(0, dtype=np.int64)
        for i, (*_, codes) in enumerate(categories):
            often = np.flatnonzero((np.bincount(codes) > 1)[codes])
            found.append(np.stack([codes[often] + n_values, often]))
            n_values += int(codes.max()) + 1
            self._column_of = np.concatenate([self._column_of, np.full(n_values - len(self._column_of), i)])
        self._code, self._record = np.hstack(found)
        self._n_categories = len(categories)

    def along(
        self, cells: NDArray[np.integer], n_cells: int, starts: Iterable[NDArray[np.int64]]
    ) -> Iterator[RetainedInformation]:
        """Measure what these records' cells retain if runs of cells are merged, given the first cell of each run."""
        sizes = np.bincount(cells, minlength=n_cells)
        place = (np.arange(len(self._values))[:, None] * n_cells + cells).ravel()
        powers = np.stack(
            [
                np.bincount(place, weights=weights.ravel(), minlength=len(self._values) * n_cells)
                for weights in (self._present, self._values, self._values**2)
            ]
        ).reshape(3, -1, n_cells)
        pairs, records = np.unique(self._code * n_cells + cells[self._record], return_counts=True)
        code, cell = np.divmod(pairs, n_cells)
        for first in starts:
            k = len(first)
            present, sums, squares = np.add.reduceat(powers, first, axis=2)
            merged = (np.searchsorted(first, np.arange(n_cells), side="right") - 1)[cell]
            new = np.flatnonzero(np.diff(code * k + merged, prepend=-1))
            together = np.add.reduceat(records, new) if len(new) else records
            where = self._column_of[code[new]] * k + merged[new]
            agree = np.bincount(where, weights=together * (together - 1), minlength=self._n_categories * k)
            of_all = np.broadcast_to(np.add.reduceat(sizes, first), (self._n_categories, k))
            within = np.vstack(
                [
                    (squares - sums**2 / np.maximum(present, 1)) / np.maximum(present - 1, 1),
                    1.0 - agree.reshape(of_all.shape) / np.maximum(of_all * (of_all - 1.0), 1.0),
                ]
            )
            counts = np.vstack([present, of_all])
            within = np.where(counts > 1, within, self._totals[:, None])  # one record alone explains nothing
            shares = (1.0 - (counts * within).sum(axis=1) / counts.sum(axis=1) / self._totals).tolist()
            columns = dict(zip(self._names, shares, strict=True))
            yield RetainedInformation(float(np.mean(shares)) if shares else 0.0, columns)


def _centred(field: Field) -> tuple[float, NDArray[np.float64]]:
    """Return the variance of numbers that are present, and the numbers, scaled and about their mean; others are NaN."""
    values = np.full(len(field), np.nan)
    present = ~field.missing()
    if present.sum() < 2:
        return 0.0, values
    own = scaled(np.asarray(field.column, dtype=np.float64)[present])[0]
    values[present] = own - own.mean()
    return float(own.var(ddof=1)), values


def _codes(field: Field) -> tuple[float, NDArray[np.int64]]:
    """Return the probability that two records' categories differ, and the records' codes."""
    column = field.column
    codes = np.asarray(column.indices if isinstance(column, Dictionary) else field.levels().codes, dtype=np.int64) + 1
    counts, n = np.bincount(codes), len(codes)
    return float(1.0 - (counts * (counts - 1)).sum() / max(n * (n - 1.0), 1.0)), codes
