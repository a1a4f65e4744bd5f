"""Turn numbers into codes: the kernels of :mod:`~certifare.growth.binning`.

Most columns of tables about people hold small integers: ages, years, codes of categories. Those are looked up in a
table. Other numbers are searched among sorted edges or categories.
"""

import numpy as np
from numpy.typing import NDArray

from certifare.foundation.compiler import kernel


@kernel
def look_up(
    values: NDArray[np.float64], low: float, table: NDArray[np.uint16], exact: bool, codes: NDArray[np.uint16]
) -> bool:
    """Find codes in a table. Return whether all values are finite or NaN.

    The table has the codes of the integers from ``low`` on, then that of values that are not among them (if ``exact``)
    and that of NaN. If not ``exact``, a value between two entries has the code of the next, a value outside the table
    that of the nearest end.
    """
    last, is_finite = len(table) - 3, True
    for i in range(len(values)):
        value = values[i]
        whole = min(max(np.ceil(value), low), low + last)
        at = int(whole - low)
        if exact and whole != value:
            at = last + 1
        if value != value:
            at = last + 2
        is_finite &= abs(value) != np.inf
        codes[i] = table[at]
    return is_finite


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
