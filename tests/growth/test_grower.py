"""Growth, best first, and what it leads records to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import (
    Bins,
    Codes,
    Criterion,
    Dictionary,
    Growth,
    Histogram,
    MemorySource,
    Targets,
    encode,
    fit_bins,
    grow,
)
from certifare.growth.threads import BLOCK_ROWS


def people(n: int, seed: int = 0) -> tuple[tuple[Bins, ...], Codes, Targets]:
    """A table with continuous and categorical columns, text, missing values, and an effect on label and group."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(17, 90, n).astype(np.float64), rng.normal(40, 10, n)
    job, town = rng.integers(0, 400, n), rng.integers(0, 12, n)
    age[rng.random(n) < 0.05] = np.nan
    wealth = np.nan_to_num(age, nan=50) / 40 + np.sin(job) + rng.normal(size=n)
    group = (np.cos(3 * job) + 0.1 * town + rng.normal(size=n) > 0.5).astype(int)
    label = (wealth + 0.3 * group > 1.5).astype(int)
    columns = [age, hours, job, Dictionary(np.where(rng.random(n) < 0.1, -1, town), tuple("abcdefghijkl"))]
    bins = fit_bins(columns, ["age", "hours", "job", "town"], [False, False, True, True])
    return bins, encode(bins, columns), Targets.from_columns([label], group, (2,), 2)


def grown(
    n: int = 5_000, max_cells: int = 30, min_cell_size: int = 20, gamma: float = 0.5, n_threads: int = 1, **kwargs
) -> tuple[Growth, Codes, Targets]:  # type: ignore[no-untyped-def]
    bins, codes, targets = people(n)
    criterion = Criterion(gamma, "demographic_parity", (2,), 2)
    source = MemorySource(codes, targets, n_threads)
    return grow(source, bins, criterion, max_cells=max_cells, min_cell_size=min_cell_size, **kwargs), codes, targets


def assert_same(one: Growth, other: Growth) -> None:
    assert one.n_cells == other.n_cells
    assert_array_equal(one.node_counts, other.node_counts)
    for a, b in zip(one.splits, other.splits, strict=True):
        assert (a.node, a.column, a.threshold, a.gain) == (b.node, b.column, b.threshold, b.gain)
        assert_array_equal(a.goes_left, b.goes_left)


def test_cells_hold_the_records_they_count() -> None:
    growth, codes, targets = grown()
    assert growth.n_cells == 30
    for k in (1, 2, 7, 30):
        cells = growth.apply(codes, k)
        counts = np.zeros((k, 4), dtype=np.int64)
        np.add.at(counts, (cells, targets.classes), 1)
        assert_array_equal(counts, growth.cell_counts(k))
        assert counts.sum(axis=1).min() >= 20


def test_every_smaller_tree_is_a_prefix() -> None:
    whole, _, _ = grown(max_cells=25)
    for k in (1, 2, 3, 10, 24):
        smaller, _, _ = grown(max_cells=k)
        assert_same(smaller, Growth(whole.splits[: k - 1], whole.node_counts[: 2 * k - 1]))


def test_the_largest_gain_splits_first() -> None:
    """When a split is made, no other leaf that could be split then had a larger gain."""
    growth, _, _ = grown()
    for j, split in enumerate(growth.splits):
        later = [s.gain for s in growth.splits[j + 1 :] if s.node < 2 * j + 1]
        assert all(gain <= split.gain + 1e-12 for gain in later)


def test_each_split_lowers_the_criterion_by_its_gain() -> None:
    growth, _, _ = grown(gamma=0.7)
    criterion = Criterion(0.7, "demographic_parity", (2,), 2)

    def total(k: int) -> float:
        counts = growth.cell_counts(k)
        return float((counts.sum(axis=1) * criterion.impurity(counts)).sum() / counts.sum())

    for j, split in enumerate(growth.splits):
        assert total(j + 1) - total(j + 2) == pytest.approx(split.gain, abs=1e-12)
        assert split.gain > 0


def test_leaves_are_listed_from_left_to_right() -> None:
    growth, codes, _ = grown(max_cells=4)
    leaves = growth.leaves()
    assert sorted(leaves) == sorted(set(range(7)) - {split.node for split in growth.splits})
    cells = growth.apply(codes)
    root = growth.splits[0]
    goes_left = root.goes_left[codes.columns[root.column]]
    assert cells[goes_left].max() < cells[~goes_left].min()


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_grow_and_apply_alike(n_threads: int) -> None:
    one, codes, _ = grown(n=40_000)
    several, _, _ = grown(n=40_000, n_threads=n_threads)
    assert_same(one, several)
    assert_array_equal(one.apply(codes), one.apply(codes, n_threads=n_threads))


def test_growing_twice_from_one_source() -> None:
    bins, codes, targets = people(5_000)
    source = MemorySource(codes, targets)
    for gamma in (0.2, 0.8, 0.2):
        criterion = Criterion(gamma, "demographic_parity", (2,), 2)
        again = grow(source, bins, criterion, max_cells=20, min_cell_size=50)
        fresh = grow(MemorySource(codes, targets), bins, criterion, max_cells=20, min_cell_size=50)
        assert_same(again, fresh)


@settings(max_examples=20)
@given(n=st.integers(1, 3 * BLOCK_ROWS), k=st.integers(1, 30))
def test_apply_walks_down_the_tree(n: int, k: int) -> None:
    """Compared with one record at a time, in blocks of any length."""
    growth, codes, _ = grown()
    rng = np.random.default_rng(n)
    others = Codes(
        tuple(rng.integers(0, size, n).astype(c.dtype) for c, size in zip(codes.columns, codes.n_codes, strict=True)),
        codes.n_codes,
    )
    cells = growth.apply(others, k)
    leaves = growth.leaves(k).tolist()
    split_of = {split.node: j for j, split in enumerate(growth.splits[: k - 1])}
    for row in rng.integers(0, n, 20):
        node = 0
        while node in split_of:
            j = split_of[node]
            split = growth.splits[j]
            node = 2 * j + (1 if split.goes_left[others.columns[split.column][row]] else 2)
        assert cells[row] == leaves.index(node)


def test_unseen_and_missing_values_have_a_cell() -> None:
    bins, codes, targets = people(5_000)
    growth = grow(
        MemorySource(codes, targets),
        bins,
        Criterion(0.3, "demographic_parity", (2,), 2),
        max_cells=30,
        min_cell_size=20,
    )
    strange = [np.array([np.nan, 1e9, -5.0]), np.array([np.nan, np.nan, 1e9]), np.array([10**6, -1, 3]),
               Dictionary(np.array([0, -1, 1]), ("nowhere", "a"))]  # fmt: skip
    cells = growth.apply(encode(bins, strange))
    assert ((cells >= 0) & (cells < growth.n_cells)).all()


def test_one_cell_and_data_smaller_than_a_cell() -> None:
    for growth, codes, targets in (
        grown(max_cells=1),
        grown(n=100, min_cell_size=1_000),
        grown(n=100, min_cell_size=51),
    ):
        assert growth.n_cells == 1
        assert growth.splits == ()
        assert_array_equal(growth.leaves(), [0])
        assert_array_equal(growth.apply(codes), np.zeros(len(codes)))
        assert_array_equal(growth.cell_counts(), [np.bincount(targets.classes, minlength=4)])


def test_no_records() -> None:
    bins = fit_bins([np.zeros(0)], ["x"], [False])
    codes = encode(bins, [np.zeros(0)])
    targets = Targets.from_columns([np.zeros(0, dtype=int)], np.zeros(0, dtype=int), (2,), 2)
    growth = grow(
        MemorySource(codes, targets), bins, Criterion(0.5, "demographic_parity", (2,), 2), max_cells=9, min_cell_size=1
    )
    assert growth.n_cells == 1
    assert len(growth.apply(codes)) == 0


def test_constant_and_all_missing_columns_are_never_split() -> None:
    rng = np.random.default_rng(0)
    useful = rng.integers(0, 5, 1_000)
    columns = [np.full(1_000, 7.0), np.full(1_000, np.nan), useful, np.full(1_000, np.nan)]
    bins = fit_bins(columns, list("abcd"), [False, False, True, True])
    targets = Targets.from_columns([(useful > 2).astype(int)], rng.integers(0, 2, 1_000), (2,), 2)
    growth = grow(
        MemorySource(encode(bins, columns), targets), bins, Criterion(0.1, "demographic_parity", (2,), 2),
        max_cells=9, min_cell_size=1,
    )  # fmt: skip
    assert growth.n_cells > 1
    assert {split.column for split in growth.splits} == {2}


def test_a_hundred_thousand_categories_grow() -> None:
    rng = np.random.default_rng(0)
    town = np.repeat(rng.permutation(100_000), 2)
    label = ((town % 2) ^ (rng.random(len(town)) < 0.1)).astype(int)
    bins = fit_bins([town], ["town"], [True], min_category_count=1)
    codes = encode(bins, [town])
    targets = Targets.from_columns([label], rng.integers(0, 2, len(town)), (2,), 2)
    growth = grow(
        MemorySource(codes, targets),
        bins,
        Criterion(0.5, "demographic_parity", (2,), 2),
        max_cells=4,
        min_cell_size=100,
    )
    assert growth.n_cells == 4
    assert_array_equal(np.bincount(growth.apply(codes)), growth.cell_counts().sum(axis=1))


def test_only_what_is_needed_is_asked_of_the_source() -> None:
    """Neither children too small to split nor those of the last split are counted."""

    class Counting:
        def __init__(self, source: MemorySource) -> None:
            self.source, self.asked = source, 0

        def root(self) -> Histogram:
            return self.source.root()

        def split(self, *arguments) -> tuple[Histogram, Histogram]:  # type: ignore[no-untyped-def]
            self.asked += 1
            return self.source.split(*arguments)

    bins, codes, targets = people(1_000)
    criterion = Criterion(0.3, "demographic_parity", (2,), 2)
    for max_cells, min_cell_size, expected in ((2, 1, 0), (3, 1, 1), (50, 334, 0), (50, 251, 1)):
        source = Counting(MemorySource(codes, targets))
        growth = grow(source, bins, criterion, max_cells=max_cells, min_cell_size=min_cell_size)
        assert growth.n_cells > 1
        assert source.asked == expected


def test_progress_is_told() -> None:
    told: list[int] = []
    growth, _, _ = grown(max_cells=6, progress=told.append)
    assert told == [2, 3, 4, 5, 6]
    assert growth.n_cells == 6


def test_requests_out_of_range_are_refused() -> None:
    growth, codes, _ = grown(max_cells=5)
    for k in (0, 6):
        with pytest.raises(ArgumentError, match=f"{k} cells was asked for; this growth has those with 1 to 5"):
            growth.apply(codes, k)
    with pytest.raises(ArgumentError, match="max_cells is 0"):
        grown(max_cells=0)
    with pytest.raises(ArgumentError, match="min_cell_size is 0"):
        grown(min_cell_size=0)
    column = growth.splits[0].column
    fewer = Codes(codes.columns[:column], codes.n_codes[:column])
    with pytest.raises(ArgumentError, match="is not the one that the tree was grown with"):
        growth.apply(fewer)
