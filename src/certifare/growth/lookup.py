"""Count numbers and turn them into codes: the kernels of :mod:`~certifare.growth.binning`.

Most columns of tables about people hold small integers: ages, years, codes of categories. Those are counted and looked
up in a table, a tile of rows at a time: first all positions in the table, then all entries. Other numbers are searched
among sorted edges or categories.
"""

import numpy as np
from numba import boolean, float64, int64, uint16, uint32
from numpy.typing import NDArray

from certifare.foundation.compiler import helper, kernel, kernel_for, read_only

TILE = 256
"""Rows of a tile: few enough that all columns of a row-wise table stay in the nearest cache."""


def tally(values: NDArray[np.float64], low: int, counts: NDArray[np.uint32], is_small: NDArray[np.bool_]) -> None:
    """Count the integers from ``low`` on in each column (rows × columns) that still ``is_small``.

    NaN is skipped; any other value makes its column not small, and its counts incomplete.
    """
    _tally(values, low, counts, is_small, *_tile())


def look_up(
    values: NDArray[np.float64],
    lows: NDArray[np.int64],
    tables: NDArray[np.uint16],
    starts: NDArray[np.int64],
    exact: NDArray[np.bool_],
    codes: NDArray[np.uint16],
    is_finite: NDArray[np.bool_],
) -> None:
    """Find the codes (columns × rows) of values (rows × columns), and whether all values of a column are finite or NaN.

    The table of a column has the codes of the integers from ``lows[c]`` on, then that of values not in the
    table (if ``exact``) and that of NaN. If not ``exact``, a value between two entries has the code of the next,
    a value outside the table that of the nearest end.
    """
    _look_up(values, lows, tables, starts, exact, codes, is_finite, *_tile())


def _tile() -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
    """Allocate arrays for the values of a tile and their positions: kernels that allocate take longer to compile."""
    return np.empty(TILE), np.empty(TILE, dtype=np.uint32)


@helper
def _positions(
    values: NDArray[np.float64],
    low: float,
    last: float,
    exact: bool | np.bool_,
    tile: NDArray[np.float64],
    positions: NDArray[np.uint32],
) -> bool:
    """Find the positions of values in a table of the integers from ``low``, whose last position is ``last``.

    Returns whether all positions are right. They are not if a value is NaN, infinite or between two numbers; nor, if
    ``exact``, if it is outside the table, which otherwise has the position of the nearest end. The arithmetic runs over
    a whole tile, without gaps or branches, so that it can run on several values at once.
    """
    for i in range(len(values)):
        tile[i] = values[i]
    others = 0
    for i in range(len(tile)):
        position = tile[i] - low
        position = position if position > 0.0 else 0.0
        position = position if position < last else last
        whole = np.int32(position)
        positions[i] = whole
        found = np.float64(whole) + low == tile[i] if exact else np.float64(whole) == position
        others += int(not (found and abs(tile[i]) < np.inf))
    return others == 0


@kernel_for(read_only(float64, 2), int64, uint32[:, ::1], boolean[::1], float64[::1], uint32[::1])
def _tally(
    values: NDArray[np.float64],
    low: int,
    counts: NDArray[np.uint32],
    is_small: NDArray[np.bool_],
    tile: NDArray[np.float64],
    positions: NDArray[np.uint32],
) -> None:
    n_rows, n_columns = values.shape
    last = counts.shape[1] - 1
    for start in range(0, n_rows, TILE):
        for c in range(n_columns):
            if not is_small[c]:
                continue
            column, of_column = values[start : start + TILE, c], counts[c]
            for i in range(len(column), TILE):
                tile[i] = low
            # A literal True would be compiled for separately.
            if _positions(column, low, last, np.bool_(True), tile, positions):
                for i in range(len(column)):
                    of_column[np.uint64(positions[i])] += np.uint32(1)
                continue
            for i in range(len(column)):
                value = column[i]
                if low <= value <= low + last and np.floor(value) == value:
                    of_column[int(value) - low] += np.uint32(1)
                elif value == value:
                    is_small[c] = False


@kernel_for(
    read_only(float64, 2),
    int64[::1],
    uint16[::1],
    int64[::1],
    boolean[::1],
    uint16[:, ::1],
    boolean[::1],
    float64[::1],
    uint32[::1],
)
def _look_up(
    values: NDArray[np.float64],
    lows: NDArray[np.int64],
    tables: NDArray[np.uint16],
    starts: NDArray[np.int64],
    exact: NDArray[np.bool_],
    codes: NDArray[np.uint16],
    is_finite: NDArray[np.bool_],
    tile: NDArray[np.float64],
    positions: NDArray[np.uint32],
) -> None:
    n_rows, n_columns = values.shape
    for start in range(0, n_rows, TILE):
        for c in range(n_columns):
            column, of_column = values[start : start + TILE, c], codes[c, start:]
            low, table = lows[c], tables[starts[c] : starts[c + 1]]
            last = len(table) - 3
            for i in range(len(column), TILE):
                tile[i] = low
            if _positions(column, low, last, exact[c], tile, positions):
                for i in range(len(column)):
                    of_column[i] = table[np.uint64(positions[i])]
                continue
            for i in range(len(column)):
                value = column[i]
                if value != value:
                    of_column[i] = table[last + 2]
                elif exact[c] and not (low <= value <= low + last and np.floor(value) == value):
                    of_column[i] = table[last + 1]
                    is_finite[c] &= abs(value) < np.inf
                else:
                    following = int(min(max(np.ceil(value), low), low + last))
                    of_column[i] = table[following - low]
                    is_finite[c] &= abs(value) < np.inf


@kernel
def search(
    values: NDArray[np.float64],
    edges: NDArray[np.float64],
    exact: bool,
    unseen: int,
    missing: int,
    codes: NDArray[np.uint16],
) -> bool:
    """Find codes among sorted edges: the number of edges below the value. Return whether all values are finite or NaN.

    With ``exact``, a value that is not an edge is ``unseen``.
    """
    is_finite = True
    n = len(edges)
    for i in range(len(values)):
        value = values[i]
        below, length = 0, n
        while length > 0:
            half = (length + 1) >> 1
            below += half * int(edges[below + half - 1] < value)
            length -= half
        is_finite &= abs(value) != np.inf
        if exact and (below == n or edges[below] != value):
            below = unseen
        codes[i] = below if value == value else missing
    return is_finite
