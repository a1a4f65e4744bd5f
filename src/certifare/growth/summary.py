"""Count the values of columns, from which bins are made. Summaries of blocks of rows add up."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.errors import TableError
from certifare.growth.columns import Column, Dictionary, refuse_infinite
from certifare.growth.threads import BLOCK_ROWS

SMALL_LOW, SMALL_SPAN = -(1 << 15), 1 << 17
"""Integers in this window (-32,768 … 98,303) are counted and looked up in tables."""

SAMPLE_ROWS = 200_000
"""Number of rows that distinct values and quantiles are computed from, if not all rows are counted."""

EXACT_INTEGERS = 1 << 53
"""Up to here float64 represents all integers."""

ValueCounts: TypeAlias = tuple[NDArray[Any], NDArray[np.int64]]
"""Distinct values (float64, or text as objects), and the number of each."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Counts of the values of columns in some rows.

    - ``tallies``: none for a continuous column that holds anything but small integers: its bins come from a sample
      (:func:`sample_positions`).
    """

    names: tuple[str, ...]
    n_rows: int
    tallies: tuple[ValueCounts | None, ...]

    @property
    def sampled(self) -> list[int]:
        """Columns whose bins come from a sample."""
        return [i for i, tally in enumerate(self.tallies) if tally is None]


def summarize(
    columns: Sequence[Column], names: Sequence[str], categorical: Sequence[bool], n_threads: int = 1
) -> Summary:
    """Summarise columns that :func:`~certifare.growth.columns.check_arrays` has checked."""
    n_rows = len(columns[0]) if columns else 0
    with ThreadPoolExecutor(n_threads) as pool:
        small = list(pool.map(_tally_small, columns))
    tallies: list[ValueCounts | None] = []
    for i, (column, name, is_categorical) in enumerate(zip(columns, names, categorical, strict=True)):
        if isinstance(column, Dictionary):
            counts = np.bincount(column.indices.astype(np.int64) + 1, minlength=len(column.values) + 1)[1:]
            tallies.append((np.array(column.values, dtype=object)[counts > 0], counts[counts > 0]))
            continue
        if (counted := small[i]) is not None:
            tallies.append(counted)
            continue
        refuse_infinite(column, name)
        if not is_categorical:
            tallies.append(None)
            continue
        if column.dtype.kind in "iu" and not -EXACT_INTEGERS <= column.min() <= column.max() <= EXACT_INTEGERS:
            raise TableError(f"Column {name!r} holds integers beyond 2^53; give these categories as text.")
        tallies.append(np.unique(column[~np.isnan(column)].astype(np.float64), return_counts=True))
    return Summary(tuple(names), n_rows, tuple(tallies))


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Add up the summaries of blocks of rows (of the same columns)."""
    if len(summaries) == 1:
        return summaries[0]
    first = summaries[0]
    tallies = tuple(_merge(name, [summary.tallies[i] for summary in summaries]) for i, name in enumerate(first.names))
    return Summary(first.names, sum(summary.n_rows for summary in summaries), tallies)


def sample_positions(n_rows: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows of a sample: one at random from each of ``size`` equal intervals; all if there are fewer."""
    if n_rows <= size:
        return np.arange(n_rows)
    jitter = rng.random(size)
    return ((np.arange(size) + jitter) * (n_rows / size)).astype(np.int64)


def _merge(name: str, tallies: Sequence[ValueCounts | None]) -> ValueCounts | None:
    known = [tally for tally in tallies if tally is not None]
    if len(known) < len(tallies):
        return None
    known = [tally for tally in known if len(tally[0])] or known[:1]
    if len({values.dtype for values, _ in known}) > 1:
        raise TableError(f"Column {name!r} holds text in some records and numbers in others; make it one of them.")
    if known[0][0].dtype != object:
        return _add(known)
    totals: dict[str, int] = {}
    for values, counts in known:
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            totals[value] = totals.get(value, 0) + count
    return np.array(list(totals), dtype=object), np.array(list(totals.values()), dtype=np.int64)


def _add(tallies: Sequence[ValueCounts]) -> ValueCounts:
    values, inverse = np.unique(np.concatenate([values for values, _ in tallies]), return_inverse=True)
    totals = np.zeros(len(values), dtype=np.int64)
    np.add.at(totals, inverse, np.concatenate([counts for _, counts in tallies]))
    return values, totals


def _tally_small(column: Column) -> ValueCounts | None:
    """Count the values of a column that only holds integers in the window and missing values; None of any other."""
    if isinstance(column, Dictionary):
        return None
    if column.dtype.kind == "f":
        first = column[:BLOCK_ROWS]
        if (np.floor(first) != first)[~np.isnan(first)].any():
            return None  # most columns of fractions are known by their first values
        column = column[~np.isnan(column)]
    if not len(column):
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    low, high = float(column.min()), float(column.max())
    if low < SMALL_LOW or high >= SMALL_LOW + SMALL_SPAN:
        return None
    whole = column.astype(np.int32)
    if (whole != column).any():
        return None
    counts = np.bincount(whole - int(low))
    at = np.flatnonzero(counts)
    return at + float(int(low)), counts[at]
