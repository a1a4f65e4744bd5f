"""Row ranges for threads. Kernels hold no lock, so threads over ranges of rows use all cores."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

BLOCK_ROWS = 8192
"""Rows that are worked on at a time: all columns of so many fit into a core's own cache."""


def row_ranges(n_rows: int, n_ranges: int) -> list[tuple[int, int]]:
    """Cut rows into at most ``n_ranges`` ranges of about equal length."""
    n_ranges = max(1, min(n_ranges, n_rows))
    return list(pairwise(n_rows * i // n_ranges for i in range(n_ranges + 1)))


def blocks(start: int, stop: int) -> Iterator[slice]:
    """The blocks of a range of rows."""
    for first in range(start, stop, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, stop))


def map_ranges(work: Callable[[int, int], T], n_rows: int, n_threads: int) -> list[T]:
    """What ``work(start, stop)`` returns for each range of rows, in order; each range has a thread of its own."""
    ranges = row_ranges(n_rows, n_threads)
    if len(ranges) == 1:
        return [work(*ranges[0])]
    with ThreadPoolExecutor(len(ranges)) as pool:
        return list(pool.map(lambda rows: work(*rows), ranges))
