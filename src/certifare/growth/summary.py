"""Count the values of columns, from which bins are made. Summaries of blocks of rows add up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.errors import TableError
from certifare.growth.columns import Column, Dictionary, panels, refuse_infinite
from certifare.growth.threads import BLOCK_ROWS, blocks, map_ranges

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
    small = _tally({i: c for i, c in enumerate(columns) if not isinstance(c, Dictionary)}, n_rows, n_threads)
    tallies: list[ValueCounts | None] = []
    for i, (column, name, is_categorical) in enumerate(zip(columns, names, categorical, strict=True)):
        if isinstance(column, Dictionary):
            counts = np.bincount(column.indices.astype(np.int64) + 1, minlength=len(column.values) + 1)[1:]
            tallies.append((np.array(column.values, dtype=object)[counts > 0], counts[counts > 0]))
            continue
        if i in small:
            tallies.append(small[i])
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


def _tally(columns: Mapping[int, NDArray[Any]], n_rows: int, n_threads: int) -> dict[int, ValueCounts]:
    """Count the values of columns that only hold integers in the window (and missing values)."""
    from certifare.growth.lookup import tally

    def work(start: int, stop: int) -> dict[int, ValueCounts]:
        found = {}
        for panel, which in panels(columns):
            left = np.ones(len(which), dtype=np.bool_)
            # Most columns stay near their first values, and a small table of counts is faster.
            for low, span in (_window(panel[start : min(start + BLOCK_ROWS, stop)]), (SMALL_LOW, SMALL_SPAN)):
                counts, is_small = np.zeros((len(which), span), dtype=np.uint32), left.copy()
                for rows in blocks(start, stop):
                    tally(panel[rows].astype(np.float64, copy=False), low, counts, is_small)
                    if not is_small.any():
                        break
                for c in np.flatnonzero(is_small):
                    at = np.flatnonzero(counts[c])
                    found[which[c]] = (at + float(low), counts[c, at].astype(np.int64))
                left &= ~is_small
                if not left.any():
                    break
        return found

    found = map_ranges(work, n_rows, n_threads)
    return {i: _add([tallied[i] for tallied in found]) for i in columns if all(i in tallied for tallied in found)}


def _window(values: NDArray[Any]) -> tuple[int, int]:
    """Return the start and length of a window twice as wide as these values need, within the largest window."""
    finite = values[np.isfinite(values)]
    low, high = (int(finite.min()), int(finite.max())) if len(finite) else (0, 0)
    margin = (high - low) // 2 + 1
    low, high = (min(max(end, SMALL_LOW), SMALL_LOW + SMALL_SPAN - 1) for end in (low - margin, high + margin))
    return low, high - low + 1
