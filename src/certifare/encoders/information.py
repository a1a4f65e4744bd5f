"""Retained information: how much of the table itself the cells keep.

Take two records at random, and two from the same cell. A column is retained as far as the second pair agrees more
than the first: half the mean squared difference of two records is the variance (numbers), the probability that
they differ is the Gini impurity (categories). A cell's own mean is never compared with the record that made it, so
many small cells gain nothing by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    return Spreads(fields, categorical).retained(cells, n_cells)


class Spreads:
    """Columns of some records, read once to be compared with many cells; parameters as above."""

    def __init__(self, fields: Sequence[Field], categorical: Sequence[bool]) -> None:
        found = {
            field.name: _Categories.of(field) if is_categorical else _Numbers.of(field)
            for field, is_categorical in zip(fields, categorical, strict=True)
        }
        self._columns = {name: column for name, column in found.items() if column is not None}

    def retained(self, cells: NDArray[np.integer], n_cells: int) -> RetainedInformation:
        """Measure what the cells of these records retain."""
        shares = {name: column.share(cells, n_cells) for name, column in self._columns.items()}
        return RetainedInformation(float(np.mean(list(shares.values()))) if shares else 0.0, shares)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers that are present, scaled and about their mean, and their variance."""

    present: NDArray[np.bool_]
    values: NDArray[np.float64]
    total: float

    @classmethod
    def of(cls, field: Field) -> "_Numbers | None":
        """Read a column; None where it does not vary."""
        present = ~field.missing()
        values = np.asarray(field.column, dtype=np.float64)[present]
        if len(values) < 2:
            return None
        values = scaled(values)[0]
        values = values - values.mean()
        total = values.var(ddof=1)
        return cls(present, values, total) if total > 0.0 else None

    def share(self, cells: NDArray[np.integer], n_cells: int) -> float:
        values, where = self.values, cells if len(self.values) == len(cells) else cells[self.present]
        sizes = np.bincount(where, minlength=n_cells)
        sums = np.bincount(where, weights=values, minlength=n_cells)
        squares = np.bincount(where, weights=values * values, minlength=n_cells)
        within = np.full(n_cells, self.total)  # one record alone explains nothing
        many = sizes > 1
        within[many] = (squares[many] - sums[many] ** 2 / sizes[many]) / (sizes[many] - 1)
        return float(1.0 - (sizes * within).sum() / sizes.sum() / self.total)


@dataclass(frozen=True, eq=False)
class _Categories:
    """Codes of categories, and the probability that two records differ."""

    codes: NDArray[np.int64]
    n_values: int
    total: float

    @classmethod
    def of(cls, field: Field) -> "_Categories | None":
        """Read a column; None where it does not vary."""
        codes = _category_codes(field)
        counts = np.bincount(codes)
        total = float(_differ(len(codes), (counts * (counts - 1)).sum()))
        return cls(codes, len(counts), total) if total > 0.0 else None

    def share(self, cells: NDArray[np.integer], n_cells: int) -> float:
        flat = cells.astype(np.int64) * self.n_values + self.codes
        if n_cells * self.n_values <= 4 * len(flat):
            counts = np.bincount(flat, minlength=n_cells * self.n_values).reshape(n_cells, self.n_values)
            sizes, same = counts.sum(axis=1), (counts * (counts - 1)).sum(axis=1)
        else:
            pairs, found = np.unique(flat, return_counts=True)
            where = pairs // self.n_values
            sizes = np.bincount(cells, minlength=n_cells)
            same = np.bincount(where, weights=found * (found - 1), minlength=n_cells)
        within = np.where(sizes < 2, self.total, _differ(sizes, same))
        return float(1.0 - (sizes * within).sum() / sizes.sum() / self.total)


def _category_codes(field: Field) -> NDArray[np.int64]:
    if isinstance(field.column, Dictionary):
        return np.asarray(field.column.indices, dtype=np.int64) + 1
    return field.levels().codes + 1


def _differ(sizes: Any, same: Any) -> Any:
    """Return the probability that two records of a place differ; ``same`` counts the ordered pairs that agree."""
    return 1.0 - same / np.maximum(sizes * (sizes - 1.0), 1.0)
