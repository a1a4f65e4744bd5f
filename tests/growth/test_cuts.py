"""Group-aware growth: equal to the slow reference, split by split; and what matched cuts are for."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import CategoricalBins, Codes, ContinuousBins, Criterion, Growth, MemorySource, Targets, grow
from certifare.growth import splits as splits_module

from . import reference_cuts as slow
from .reference import Problem

GAMMAS = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(17, 20), Fraction(99, 100), Fraction(1)]


@st.composite
def problems(draw: st.DrawFn, n_groups: int = 2, metric: str = "demographic_parity") -> Problem:
    """Small tables: columns that the groups have differently, missing values and categories among them."""
    continuous = draw(st.lists(st.booleans(), min_size=1, max_size=2))
    n_codes = [draw(st.integers(3, 8)) for _ in continuous]
    n = draw(st.integers(n_groups, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = rng.integers(0, n_groups, n)
    columns = []
    for size in n_codes:
        shares = rng.dirichlet(np.full(size, draw(st.sampled_from([0.3, 1.0, 5.0]))), n_groups)
        columns.append([rng.choice(size, p=shares[s]) for s in groups])
    effect = rng.random((len(n_codes), max(n_codes)))
    pull = np.array([[effect[c, code] for c, code in enumerate(row)] for row in np.transpose(columns)]).mean(axis=1)
    labels = (pull + 0.2 * groups / n_groups + 0.2 * rng.normal(size=n) > 0.5).astype(int)
    records = [
        (tuple(int(v) for v in row), (int(labels[i]),), int(groups[i])) for i, row in enumerate(np.transpose(columns))
    ]
    # Every group has a record, so that the reference can tell how many there are.
    records += [((0,) * len(n_codes), (1,), s) for s in range(n_groups)]
    return Problem(
        records=records,
        n_codes=n_codes,
        missing=[size - 1 if is_continuous else None for size, is_continuous in zip(n_codes, continuous, strict=True)],
        gamma=draw(st.sampled_from(GAMMAS)),
        metric=metric,
        min_size=draw(st.integers(1, 4)),
    )


def grow_package(problem: Problem, max_cells: int, **kwargs: Any) -> tuple[Growth, Codes, Targets]:
    bins = [
        CategoricalBins(str(c), tuple(range(size - 2)))
        if missing is None
        else ContinuousBins(str(c), np.arange(size - 2, dtype=np.float64))
        for c, (size, missing) in enumerate(zip(problem.n_codes, problem.missing, strict=True))
    ]
    groups = np.array([r[2] for r in problem.records])
    columns = np.array([r[0] for r in problem.records], dtype=np.uint8).T
    codes = Codes(tuple(np.ascontiguousarray(c) for c in columns), tuple(problem.n_codes)).of_groups(groups)
    n_groups = slow.n_groups(problem)
    targets = Targets.from_columns([np.array([r[1][0] for r in problem.records])], groups, (2,), n_groups)
    criterion = Criterion(
        float(problem.gamma),
        problem.metric,  # type: ignore[arg-type]
        (2,),
        n_groups,
        charge="distance",
    )
    source = MemorySource(codes, targets, n_threads=kwargs.pop("n_threads", 1))
    kwargs = {"group_aware": True, "orderings": "paper"} | kwargs
    growth = grow(source, bins, criterion, max_cells=max_cells, min_cell_size=problem.min_size, **kwargs)
    return growth, codes, targets


def assert_equal_to_reference(problem: Problem, max_cells: int = 6) -> None:
    expected = slow.grow(problem, max_cells)
    growth, codes, targets = grow_package(problem, max_cells)
    assert growth.n_cells == len(expected) + 1
    for split, (reference, common) in zip(growth.splits, expected, strict=True):
        assert (split.node, split.column) == (reference.node, reference.column)
        assert split.goes_left.tolist() == reference.goes_left
        assert split.common is not None
        assert split.common.tolist() == common
        assert split.gain == pytest.approx(float(reference.gain), abs=1e-12)
        assert (split.left_count, split.right_count) == (reference.left_count, reference.right_count)
    cells = growth.apply(codes)
    counts = np.zeros((growth.n_cells, targets.n_classes), dtype=np.int64)
    np.add.at(counts, (cells, targets.classes), 1)
    assert_array_equal(counts, growth.cell_counts())


@settings(max_examples=100, deadline=None)
@given(problems())
def test_group_aware_growth_equals_the_reference_for_two_groups(problem: Problem) -> None:
    assert_equal_to_reference(problem)


@settings(max_examples=50, deadline=None)
@given(problems(n_groups=3))
def test_group_aware_growth_equals_the_reference_for_three_groups(problem: Problem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits_module, "QUANTILES", (1,))
        assert_equal_to_reference(problem)


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds"])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_group_aware_growth_equals_the_reference_for_other_metrics(metric: str, data: st.DataObject) -> None:
    assert_equal_to_reference(data.draw(problems(metric=metric)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_threads_and_common_cuts(data: st.DataObject) -> None:
    """Threads change nothing; without groups' own cuts a split has one row, and a gain that is no larger."""
    problem = data.draw(problems(n_groups=data.draw(st.integers(2, 3))))
    growth, _, _ = grow_package(problem, 6)
    threads, _, _ = grow_package(problem, 6, n_threads=3)
    for one, other in zip(growth.splits, threads.splits, strict=True):
        assert_array_equal(one.goes_left, other.goes_left)
    blind, codes, _ = grow_package(problem, 2, group_aware=False)
    if blind.splits:
        assert blind.splits[0].goes_left.ndim == 1
        assert not blind.group_aware
        assert blind.splits[0].gain <= growth.splits[0].gain + 1e-12
        assert_array_equal(blind.apply(codes), blind.apply(codes.of_groups(None)))


def test_steps_come_close_to_the_best_of_all_combinations() -> None:
    """All pairs of cuts of all orderings: what the search finds is never more, and seldom less."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(25):
        n, size = 120, 8
        groups = rng.integers(0, 2, n)
        spread = rng.dirichlet(np.full(size, 1.5), 2)
        column = np.array([rng.choice(size, p=spread[s]) for s in groups])
        labels = (rng.random(n) < np.linspace(0.1, 0.9, size)[column]).astype(int)
        records = [((int(c),), (int(y),), int(s)) for c, y, s in zip(column, labels, groups, strict=True)]
        gamma = Fraction(int(rng.integers(1, 9)), 10)
        problem = Problem(records, [size + 2], [size + 1], gamma, min_size=5)
        optimum = max(o.best_of_all() for o in slow.orderings(problem, records, 0))
        growth, _, _ = grow_package(problem, 2)
        if optimum > Fraction(1, 1000):
            found = growth.splits[0].gain
            assert found <= float(optimum) + 1e-12
            shares.append(found / float(optimum))
    assert len(shares) > 15
    assert np.mean(shares) > 0.98


def shifted(n: int = 4000) -> tuple[Codes, Targets, list[ContinuousBins]]:
    """The second group's values are those of the first, moved up; the label depends on the rank within the group."""
    rng = np.random.default_rng(1)
    rank, groups = rng.integers(0, 40, n), np.arange(n) % 2
    column = (rank + 10 * groups).astype(np.uint8)
    labels = (rank >= 20).astype(int)
    bins = [ContinuousBins("age", np.arange(50.0))]
    return (
        Codes((column,), (52,)).of_groups(groups),
        Targets.from_columns([labels], groups, (2,), 2),
        bins,
    )


def test_matched_cuts_keep_the_label_and_add_no_distance() -> None:
    codes, targets, bins = shifted()
    criterion = Criterion(0.9, "demographic_parity", (2,), 2, charge="distance")
    source = MemorySource(codes, targets)
    growth = grow(source, bins, criterion, max_cells=2, min_cell_size=50, group_aware=True)
    (split,) = growth.splits
    assert [split.of(s).threshold for s in (0, 1)] == [19, 29]
    assert split.of(None).threshold == split.threshold
    counts = growth.cell_counts().reshape(2, 2, 2)
    assert counts[0, 1].sum() == counts[1, 0].sum() == 0  # each cell has one label
    shares = counts.sum(axis=1) / counts.sum(axis=(0, 1))
    assert abs(shares[:, 0] - shares[:, 1]).max() < 0.03  # the groups differ by chance in the sample
    blind = grow(source, bins, replace(criterion, gamma=0.1, charge="every"), max_cells=2, min_cell_size=50)
    counts = blind.cell_counts().reshape(2, 2, 2)
    assert counts[0, 1].sum() + counts[1, 0].sum() > 300  # one threshold for both errs


def test_records_of_unknown_group_take_the_common_cut() -> None:
    codes, targets, bins = shifted()
    criterion = Criterion(0.9, "demographic_parity", (2,), 2, charge="distance")
    growth = grow(MemorySource(codes, targets), bins, criterion, max_cells=4, min_cell_size=50, group_aware=True)
    unknown = growth.apply(codes.of_groups(np.full(len(codes), 2)))
    by_hand = np.zeros(len(codes), dtype=np.int64)
    for j, split in enumerate(growth.splits):
        here = by_hand == split.node
        left = split.of(None).goes_left[codes.columns[0]]
        by_hand[here] = np.where(left[here], 2 * j + 1, 2 * j + 2)
    assert_array_equal(growth.leaves()[unknown], by_hand)


def test_a_group_aware_tree_needs_groups_and_the_charge() -> None:
    codes, targets, bins = shifted()
    criterion = Criterion(0.5, "demographic_parity", (2,), 2, charge="distance")
    growth = grow(MemorySource(codes, targets), bins, criterion, max_cells=3, min_cell_size=50, group_aware=True)
    with pytest.raises(ArgumentError, match="groups of the records were not given"):
        growth.apply(codes.of_groups(None))
    with pytest.raises(ArgumentError, match="group 3"):
        growth.apply(codes.of_groups(np.full(len(codes), 3)))
    with pytest.raises(ArgumentError, match="have a group"):
        codes.of_groups(np.zeros(3))
    with pytest.raises(ArgumentError, match="charge the distance"):
        grow(MemorySource(codes, targets), bins, replace(criterion, charge="every"), max_cells=3, min_cell_size=50,
             group_aware=True)  # fmt: skip


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds"])
def test_the_distance_stays_below_what_is_allowed(n_groups: int, metric: str) -> None:
    """Each split says what it adds to the distance; together they add no more than they may, and use what they can."""
    rng = np.random.default_rng(n_groups)
    groups = rng.integers(0, n_groups, 300)
    columns = np.array([rng.integers(0, 6, 300) + (groups > 0), rng.integers(0, 7, 300)])
    labels = (columns[0] + rng.normal(size=300) > 3).astype(int)
    rows = zip(columns.T.tolist(), labels.tolist(), groups.tolist(), strict=True)
    problem = Problem(
        records=[(tuple(codes), (label,), group) for codes, label, group in rows],
        n_codes=[9, 9],
        missing=[8, 8],
        gamma=Fraction(1, 100),
        metric=metric,
        min_size=5,
    )
    found = {}
    for most in (0.0, 0.1, 0.3, 1.0):
        growth, codes, _ = grow_package(problem, 8, max_distance=most)
        cells = growth.apply(codes)
        leaves = [[r for r, c in zip(problem.records, cells, strict=True) if c == cell] for cell in range(8)]
        distance = float(slow.distance(problem, [leaf for leaf in leaves if leaf]))
        assert sum(split.distance for split in growth.splits) == pytest.approx(distance, abs=1e-12)
        assert distance <= most + 1e-9
        found[most] = distance
    assert 0.0 <= found[0.0] <= found[0.1] <= found[0.3] <= found[1.0]
    assert found[0.3] > 0.1
    free, _, _ = grow_package(problem, 8)
    assert [split.gain for split in free.splits] == [
        split.gain for split in grow_package(problem, 8, max_distance=1.0)[0].splits
    ]


def test_what_may_be_added_is_for_splits_that_pay_for_it() -> None:
    codes = Codes((np.array([0, 1, 0, 1], dtype=np.uint8),), (3,))
    targets = Targets.from_columns([np.array([0, 1, 0, 1])], np.array([0, 0, 1, 1]), (2,), 2)
    bins = [ContinuousBins("x", np.array([0.0]))]
    criterion = Criterion(0.5, "demographic_parity", (2,), 2)
    with pytest.raises(ArgumentError, match="charge='distance'"):
        grow(MemorySource(codes, targets), bins, criterion, max_cells=2, min_cell_size=1, max_distance=0.1)
