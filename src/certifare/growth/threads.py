"""Split rows into ranges for threads. Kernels release the interpreter's lock, so threads use all cores."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

BLOCK_ROWS = 8192
"""Number of rows that are processed at a time: all columns of this many fit into a core's own cache."""


def row_ranges(n_rows: int, n_ranges: int) -> list[tuple[int, int]]:
    """Split rows into at most ``n_ranges`` ranges of about equal length."""
    n_ranges = max(1, min(n_ranges, n_rows))
    return list(pairwise(n_rows * i // n_ranges for i in range(n_ranges + 1)))


def blocks(start: int, stop: int) -> Iterator[slice]:
    """Split a range of rows into blocks."""
    for first in range(start, stop, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, stop))


def map_ranges(work: Callable[[int, int], T], n_rows: int, n_threads: int) -> list[T]:
    """Call ``work(start, stop)`` for each range of rows in its own thread; return the results in order."""
    ranges = row_ranges(n_rows, n_threads)
    if len(ranges) == 1:
        return [work(*ranges[0])]
    with ThreadPoolExecutor(len(ranges)) as pool:
        return list(pool.map(lambda rows: work(*rows), ranges))
