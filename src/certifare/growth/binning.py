"""Turn columns into codes: small integers that histograms count.

Edges and categories must be fitted on training records only, or the certificate is not valid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError, TableError
from certifare.foundation.randomness import stream
from certifare.growth.columns import Column, Dictionary, check_arrays, panels, refuse_infinite
from certifare.growth.summary import SAMPLE_ROWS, SMALL_LOW, SMALL_SPAN, Summary, sample_positions, summarize
from certifare.growth.threads import blocks, map_ranges

MOST_CATEGORIES = (1 << 16) - 2
"""Codes have at most 16 bits, and two of them are for infrequent and for missing values."""


@dataclass(frozen=True, eq=False)
class ContinuousBins:
    """Edges of a numeric column: the code of x is the number of edges below it, so ``code <= t`` iff ``x <= edges[t]``.

    Missing values have the code ``len(edges) + 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import ContinuousBins
    >>> ContinuousBins("age", np.array([18.0, 65.0])).encode(np.array([18, 19, 65, 66, np.nan]))
    array([0, 1, 1, 2, 3], dtype=uint8)
    """

    name: str
    edges: NDArray[np.float64]

    @property
    def n_codes(self) -> int:
        """Number of codes, including the one for missing values."""
        return len(self.edges) + 2

    @property
    def missing_code(self) -> int:
        """The code of missing values."""
        return len(self.edges) + 1

    def encode(self, column: Column) -> NDArray[Any]:
        """Return the codes of a column: uint8 if there are at most 256, otherwise uint16."""
        return encode([self], [column]).columns[0]


@dataclass(frozen=True, eq=False)
class CategoricalBins:
    """Categories of a column, sorted: all text or all numbers. The code of a category is its position.

    Infrequent and unseen values have the code ``len(categories)``, missing ones the next.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import CategoricalBins
    >>> CategoricalBins("state", (2, 6)).encode(np.array([6, 2, 50, np.nan]))
    array([1, 0, 2, 3], dtype=uint8)
    """

    name: str
    categories: tuple[str, ...] | tuple[float | int, ...]

    @property
    def n_codes(self) -> int:
        """Number of codes, including those for infrequent and for missing values."""
        return len(self.categories) + 2

    @property
    def infrequent_code(self) -> int:
        """The code of values that were rare or absent when the bins were fitted."""
        return len(self.categories)

    @property
    def missing_code(self) -> int:
        """The code of missing values."""
        return len(self.categories) + 1

    @property
    def is_text(self) -> bool:
        """Whether the categories are text."""
        return bool(self.categories) and isinstance(self.categories[0], str)

    def encode(self, column: Column) -> NDArray[Any]:
        """Return the codes of a column: uint8 if there are at most 256, otherwise uint16."""
        return encode([self], [column]).columns[0]


Bins: TypeAlias = ContinuousBins | CategoricalBins


@dataclass(frozen=True, eq=False)
class Codes:
    """Columns of codes."""

    columns: tuple[NDArray[Any], ...]
    n_codes: tuple[int, ...]  # number of codes of each column: they are ``0 … n_codes-1``

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.n_codes):
            raise ArgumentError(f"{len(self.columns)} columns of codes were given, but {len(self.n_codes)} sizes.")
        for position, (column, n_codes) in enumerate(zip(self.columns, self.n_codes, strict=True)):
            if column.dtype not in (np.uint8, np.uint16) or column.shape != (len(self),):
                raise ArgumentError(
                    f"Column {position} of codes is {column.dtype} {column.shape}; give uint8 or uint16."
                )
            # Kernels rely on codes being in range, so they are checked here, once.
            if len(column) and int(column.max()) >= n_codes:
                raise ArgumentError(f"Column {position} has the code {column.max()}; the codes are 0 … {n_codes - 1}.")

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def fit_bins(
    columns: Sequence[Column],
    names: Sequence[str],
    categorical: Sequence[bool],
    *,
    max_bins: int = 255,
    min_category_count: int = 5,
    sample_rows: int = SAMPLE_ROWS,
    seed: int = 0,
    n_threads: int = 1,
) -> tuple[Bins, ...]:
    """Fit the edges and categories of training columns.

    - ``columns``: one-dimensional; NaN, or the index -1, is a missing value.
    - ``categorical``: which columns hold categories rather than numbers.
    - ``max_bins``: a continuous column with at most this many distinct values keeps them all; one with more gets about
      this many bins, cut at quantiles.
    - ``min_category_count``: rarer categories are pooled as infrequent. So are the least frequent beyond 65,534.
    - ``sample_rows``: number of rows that distinct values and quantiles of a column are computed from, unless it holds
      small integers, which are all counted.
    - ``seed``: seed of that sample.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import encode, fit_bins
    >>> age = np.array([30.0, 31.0, 30.0, np.nan])
    >>> bins = fit_bins([age], ["age"], [False])
    >>> encode(bins, [age]).columns[0]
    array([0, 1, 0, 2], dtype=uint8)
    """
    if not 2 <= max_bins <= MOST_CATEGORIES:
        raise ArgumentError(f"max_bins is {max_bins}; give a number from 2 to {MOST_CATEGORIES}.")
    if sample_rows < 1:
        raise ArgumentError(f"sample_rows is {sample_rows}; give 1 or more.")
    n_rows = check_arrays(columns, names, [not c for c in categorical])
    summary = summarize(columns, names, categorical, n_threads)
    rows = sample_positions(n_rows, sample_rows, stream(seed, "bins"))
    samples = {i: cast(NDArray[Any], columns[i])[rows] for i in summary.sampled}
    return bins_of(summary, categorical, samples, max_bins=max_bins, min_category_count=min_category_count)


def bins_of(
    summary: Summary,
    categorical: Sequence[bool],
    samples: Mapping[int, NDArray[Any]],
    *,
    max_bins: int = 255,
    min_category_count: int = 5,
) -> tuple[Bins, ...]:
    """Compute edges and categories from the summary of all rows, and from samples of the columns that need one."""
    bins: list[Bins] = []
    for i, (name, is_categorical) in enumerate(zip(summary.names, categorical, strict=True)):
        tally = summary.tallies[i]
        if tally is None:
            tally = np.unique(samples[i][~np.isnan(samples[i])].astype(np.float64), return_counts=True)
        if is_categorical:
            bins.append(CategoricalBins(name, _categories(*tally, min_category_count)))
        else:
            bins.append(ContinuousBins(name, _edges(*tally, max_bins)))
    return tuple(bins)


def encode(bins: Sequence[Bins], columns: Sequence[Column], *, n_threads: int = 1) -> Codes:
    """Return the codes of columns under fitted bins.

    - ``columns``: in the order of the bins.

    Raises ``TableError``: if a column holds text where it held numbers when the bins were fitted, or the other way
    round.
    """
    names = [b.name for b in bins]
    n_rows = check_arrays(columns, names, [isinstance(b, ContinuousBins) for b in bins])
    for b, column in zip(bins, columns, strict=True):
        if isinstance(b, CategoricalBins) and b.categories and b.is_text != isinstance(column, Dictionary):
            now, then = ("numbers", "text") if b.is_text else ("text", "numbers")
            raise TableError(f"Column {b.name!r} holds {now}, but held {then} in the training records.")
    n_codes = tuple(b.n_codes for b in bins)
    codes = tuple(np.empty(n_rows, dtype=np.uint8 if n <= 256 else np.uint16) for n in n_codes)
    steps = _steps(bins, columns, codes)

    def work(start: int, stop: int) -> None:
        for rows in blocks(start, stop):
            for step in steps:
                step(rows)

    map_ranges(work, n_rows, n_threads)
    return Codes(codes, n_codes)


def _categories(values: NDArray[Any], counts: NDArray[np.int64], min_count: int) -> tuple[Any, ...]:
    """Return the values that are frequent enough, sorted; whole numbers as int."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    most_frequent = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    kept = np.sort(most_frequent[counts[most_frequent] >= min_count])
    categories = values[kept].tolist()
    if all(isinstance(value, float) and value.is_integer() for value in categories):
        return tuple(int(value) for value in categories)
    return tuple(categories)


def _edges(values: NDArray[np.float64], counts: NDArray[np.int64], max_bins: int) -> NDArray[np.float64]:
    """Return all distinct values except the last, or quantiles if there are too many."""
    kept = np.arange(len(values) - 1)
    if len(values) > max_bins:
        ranks = np.arange(1, max_bins) * (counts.sum() - 1) // max_bins
        at = np.unique(np.searchsorted(np.cumsum(counts), ranks, side="right"))
        kept = at[at < len(values) - 1]
    return np.asarray(values[kept], dtype=np.float64)


_Encoding: TypeAlias = Callable[[slice], None]
"""Encodes some columns of the rows in a slice."""


def _steps(bins: Sequence[Bins], columns: Sequence[Column], codes: Sequence[NDArray[Any]]) -> list[_Encoding]:
    """Return the functions that together encode all columns of a block of rows."""
    steps: list[_Encoding] = []
    small: dict[int, NDArray[Any]] = {}
    for i, (b, column) in enumerate(zip(bins, columns, strict=True)):
        if isinstance(column, Dictionary):
            steps.append(_text_step(b, column, codes[i]))
        elif _is_small(_landmarks(b)):
            small[i] = column
        else:
            steps.append(_search_step(b, column, codes[i]))
    for panel, which in panels(small):
        steps.append(_table_step([bins[i] for i in which], panel, [codes[i] for i in which]))
    return steps


def _landmarks(b: Bins) -> NDArray[np.float64]:
    """Return the edges or categories."""
    return b.edges if isinstance(b, ContinuousBins) else np.asarray(b.categories, dtype=np.float64)


def _is_small(landmarks: NDArray[np.float64]) -> bool:
    """Return whether all are integers in the window of small numbers."""
    if not len(landmarks):
        return True
    in_window = landmarks[0] >= SMALL_LOW and landmarks[-1] < SMALL_LOW + SMALL_SPAN - 1
    return bool(in_window and (landmarks == np.floor(landmarks)).all())


def _text_step(b: Bins, column: Dictionary, codes: NDArray[Any]) -> _Encoding:
    """Encode text by the index of its distinct value. The index -1 takes the last entry, for missing values."""
    categories = b.categories if isinstance(b, CategoricalBins) else ()
    code_of = {category: code for code, category in enumerate(categories)}
    of_values = [code_of.get(value, len(categories)) for value in column.values]
    table = np.array([*of_values, b.missing_code], dtype=codes.dtype)

    def step(rows: slice) -> None:
        codes[rows] = table[column.indices[rows]]

    return step


def _search_step(b: Bins, column: NDArray[Any], codes: NDArray[Any]) -> _Encoding:
    """Encode numbers by a search among the edges or categories."""
    from certifare.growth.lookup import search

    landmarks = np.ascontiguousarray(_landmarks(b))
    exact = isinstance(b, CategoricalBins)

    def step(rows: slice) -> None:
        values = column[rows].astype(np.float64)
        out = np.empty(len(values), dtype=np.uint16)
        if not search(values, landmarks, exact, len(landmarks), b.missing_code, out):
            refuse_infinite(values, b.name)
        codes[rows] = out

    return step


def _table_step(bins: Sequence[Bins], panel: NDArray[Any], codes: Sequence[NDArray[Any]]) -> _Encoding:
    """Encode small integers by a lookup table, for columns that are adjacent in memory."""
    from certifare.growth.lookup import look_up

    lows, tables = [], []
    for b in bins:
        landmarks = _landmarks(b)
        low = int(landmarks[0]) if len(landmarks) else 0
        numbers = np.arange(low, landmarks[-1] + 2 if len(landmarks) else 1)
        table = np.searchsorted(landmarks, numbers)
        unseen = len(landmarks)
        if isinstance(b, CategoricalBins):
            table[np.isin(numbers, landmarks, invert=True)] = unseen
        lows.append(low)
        tables.append(np.append(table, [unseen, b.missing_code]).astype(np.uint16))
    low_of = np.array(lows, dtype=np.int64)
    flat = np.concatenate(tables)
    starts = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
    exact = np.array([isinstance(b, CategoricalBins) for b in bins], dtype=np.bool_)

    def step(rows: slice) -> None:
        values = panel[rows].astype(np.float64, copy=False)
        out = np.empty((len(bins), len(values)), dtype=np.uint16)
        is_finite = np.ones(len(bins), dtype=np.bool_)
        look_up(values, low_of, flat, starts, exact, out, is_finite)
        for c, b in enumerate(bins):
            if not is_finite[c]:
                refuse_infinite(values[:, c], b.name)
            codes[c][rows] = out[c]

    return step
