"""Counts of nodes, and how records are moved between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import Codes, Histogram, MemorySource, Targets
from certifare.growth.histograms import WORTH_A_THREAD


def make(n: int, n_codes: tuple[int, ...], n_labels: int, n_groups: int, seed: int) -> tuple[Codes, Targets]:
    rng = np.random.default_rng(seed)
    columns = tuple(rng.integers(0, size, n).astype(np.uint8 if size <= 256 else np.uint16) for size in n_codes)
    labels, groups = rng.integers(0, n_labels, n), rng.integers(0, n_groups, n)
    return Codes(columns, n_codes), Targets.from_columns([labels], groups, (n_labels,), n_groups)


def direct(codes: Codes, targets: Targets, rows: np.ndarray) -> list[np.ndarray]:
    """Counted without any of the machinery."""
    counts = []
    for column, size in zip(codes.columns, codes.n_codes, strict=True):
        of_column = np.zeros((size, targets.n_classes), dtype=np.int64)
        np.add.at(of_column, (column[rows], targets.classes[rows]), 1)
        counts.append(of_column)
    return counts


def assert_counts(histogram: Histogram, expected: list[np.ndarray]) -> None:
    for column, counts in enumerate(expected):
        assert_array_equal(histogram[column], counts)
    assert_array_equal(histogram.classes, expected[0].sum(axis=0))


@given(
    n=st.integers(1, 3_000),
    n_codes=st.lists(st.sampled_from([2, 3, 17, 256, 257, 700]), min_size=1, max_size=6),
    n_classes=st.sampled_from([(1, 1), (2, 2), (3, 5), (40, 10)]),
    n_threads=st.sampled_from([1, 2, 5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_children_by_subtraction_equal_a_direct_count(
    n: int, n_codes: list[int], n_classes: tuple[int, int], n_threads: int, seed: int
) -> None:
    """Splits on narrow and wide columns, balanced and lopsided, one below the other."""
    codes, targets = make(n, tuple(n_codes), *n_classes, seed)
    source = MemorySource(codes, targets, n_threads)
    rows = {0: np.arange(n)}
    assert_counts(source.root(), direct(codes, targets, rows[0]))
    rng = np.random.default_rng(seed)
    for j in range(6):
        node = int(rng.choice(list(rows)))
        column = int(rng.integers(len(n_codes)))
        goes_left = rng.random(n_codes[column]) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        left, right = 2 * j + 1, 2 * j + 2
        histograms = source.split(node, column, goes_left, left, right)
        of_node = rows.pop(node)
        side = goes_left[codes.columns[column][of_node]]
        rows[left], rows[right] = of_node[side], of_node[~side]
        assert_counts(histograms[0], direct(codes, targets, rows[left]))
        assert_counts(histograms[1], direct(codes, targets, rows[right]))


def test_threads_count_alike() -> None:
    """With enough records that threads do run."""
    codes, targets = make(3 * WORTH_A_THREAD, (50, 300), 2, 2, seed=0)
    goes_left = np.arange(300) % 3 == 0
    counts = []
    for n_threads in (1, 2, 7):
        source = MemorySource(codes, targets, n_threads)
        root = source.root()
        left, right = source.split(0, 1, goes_left, 1, 2)
        counts.append([root.counts, left.counts, right.counts])
    for others in counts[1:]:
        for one, other in zip(counts[0], others, strict=True):
            assert_array_equal(one, other)


def test_codes_are_left_as_they_were() -> None:
    codes, targets = make(1_000, (5, 300), 2, 2, seed=1)
    before = [column.copy() for column in codes.columns], targets.classes.copy()
    source = MemorySource(codes, targets)
    source.root()
    source.split(0, 0, np.array([True, False, True, False, True]), 1, 2)
    for column, same in zip(codes.columns, before[0], strict=True):
        assert_array_equal(column, same)
    assert_array_equal(targets.classes, before[1])


def test_a_new_root_starts_again() -> None:
    codes, targets = make(500, (4,), 2, 2, seed=2)
    source = MemorySource(codes, targets)
    first = source.root()
    source.split(0, 0, np.array([True, False, True, False]), 1, 2)
    assert_array_equal(source.root().counts, first.counts)
    left, right = source.split(0, 0, np.array([True, True, True, False]), 1, 2)
    assert_array_equal(left.counts + right.counts, first.counts)


def test_inputs_that_do_not_fit_are_refused() -> None:
    codes, targets = make(10, (4,), 2, 2, seed=0)
    with pytest.raises(ArgumentError, match="no columns"):
        MemorySource(Codes((), ()), targets)
    with pytest.raises(ArgumentError, match="9 records have codes, but 10 have classes"):
        MemorySource(Codes((codes.columns[0][:9],), (4,)), targets)
    with pytest.raises(ArgumentError, match="n_threads is 0"):
        MemorySource(codes, targets, n_threads=0)
