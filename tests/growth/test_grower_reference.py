"""The growth equals the slow reference, split by split."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.growth import CategoricalBins, Codes, ContinuousBins, Criterion, Growth, MemorySource, Targets, grow

from .reference import Problem
from .reference import grow as grow_reference

GAMMAS = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(17, 20), Fraction(99, 100), Fraction(1)]


@st.composite
def problems(
    draw: st.DrawFn, metric: str = "demographic_parity", n_labels: tuple[int, ...] = (2,), charge: str = "every"
) -> Problem:
    """Small tables with a few codes per column, some of them rare, missing values among them."""
    continuous = draw(st.lists(st.booleans(), min_size=1, max_size=3))
    n_codes = [draw(st.integers(3, 9)) for _ in continuous]
    n = draw(st.integers(2, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    columns = []
    for size in n_codes:
        shares = rng.dirichlet(np.full(size, draw(st.sampled_from([0.2, 1.0, 5.0]))))
        columns.append(rng.choice(size, n, p=shares))
    effect = rng.random((len(n_codes), max(n_codes), 2))
    pull = np.array([[effect[c, code] for c, code in enumerate(row)] for row in np.transpose(columns)]).mean(axis=1)
    labels = [
        np.minimum((pull[:, 0] + draw(st.sampled_from([0.0, 0.3])) * rng.normal(size=n)) * size, size - 1)
        .clip(0)
        .astype(int)
        for size in n_labels
    ]
    groups = (pull[:, 1] + 0.3 * rng.normal(size=n) > 0.5).astype(int)
    records = [
        (tuple(int(v) for v in row), tuple(int(label[i]) for label in labels), int(groups[i]))
        for i, row in enumerate(np.transpose(columns))
    ]
    return Problem(
        records=records,
        n_codes=n_codes,
        missing=[size - 1 if is_continuous else None for size, is_continuous in zip(n_codes, continuous, strict=True)],
        gamma=draw(st.sampled_from(GAMMAS)),
        metric=metric,
        weights=tuple(Fraction(i + 1) for i in range(len(n_labels))),
        min_size=draw(st.integers(1, 5)),
        charge=charge,
    )


def grow_package(problem: Problem, max_cells: int, n_labels: tuple[int, ...], **kwargs: Any) -> tuple[Growth, Codes]:
    bins = [
        CategoricalBins(str(c), tuple(range(size - 2)))
        if missing is None
        else ContinuousBins(str(c), np.arange(size - 2, dtype=np.float64))
        for c, (size, missing) in enumerate(zip(problem.n_codes, problem.missing, strict=True))
    ]
    columns = np.array([r[0] for r in problem.records], dtype=np.uint8).T
    codes = Codes(tuple(np.ascontiguousarray(column) for column in columns), tuple(problem.n_codes))
    labels = np.array([r[1] for r in problem.records]).T
    targets = Targets.from_columns(list(labels), np.array([r[2] for r in problem.records]), n_labels, 2)
    criterion = Criterion(
        float(problem.gamma),
        problem.metric,  # type: ignore[arg-type]
        n_labels,
        2,
        tuple(float(w) for w in problem.weights),
        problem.positive,
        problem.charge,  # type: ignore[arg-type]
    )
    source = MemorySource(codes, targets, n_threads=kwargs.pop("n_threads", 1))
    growth = grow(source, bins, criterion, max_cells=max_cells, min_cell_size=problem.min_size, **kwargs)
    return growth, codes


def assert_equal_to_reference(problem: Problem, n_labels: tuple[int, ...] = (2,), max_cells: int = 8) -> None:
    expected = grow_reference(problem, max_cells)
    growth, codes = grow_package(problem, max_cells, n_labels, orderings="paper")
    assert growth.n_cells == len(expected) + 1
    for split, slow in zip(growth.splits, expected, strict=True):
        assert (split.node, split.column) == (slow.node, slow.column)
        assert split.goes_left.tolist() == slow.goes_left
        assert split.gain == pytest.approx(float(slow.gain), abs=1e-12)
        assert (split.left_count, split.right_count) == (slow.left_count, slow.right_count)
    nodes = growth.leaves()[growth.apply(codes)]
    counts = np.zeros_like(growth.node_counts)
    for node, (_, labels, group) in zip(nodes, problem.records, strict=True):
        counts[node, np.ravel_multi_index((*labels, group), (*n_labels, 2))] += 1
    np.testing.assert_array_equal(counts[growth.leaves()], growth.cell_counts())


@given(problems())
def test_demographic_parity(problem: Problem) -> None:
    assert_equal_to_reference(problem)


@given(problems(metric="equal_opportunity"))
def test_equal_opportunity(problem: Problem) -> None:
    assert_equal_to_reference(problem)


@given(problems(metric="equalized_odds"))
def test_equalized_odds(problem: Problem) -> None:
    assert_equal_to_reference(problem)


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@given(st.data())
def test_only_splits_that_cross_are_charged(metric: str, data: st.DataObject) -> None:
    assert_equal_to_reference(data.draw(problems(metric=metric, charge="crossing")))


@given(problems(n_labels=(4,)))
def test_four_labels(problem: Problem) -> None:
    assert_equal_to_reference(problem, n_labels=(4,))


@given(problems(metric="equalized_odds", n_labels=(3,)))
def test_equalized_odds_of_three_labels(problem: Problem) -> None:
    assert_equal_to_reference(problem, n_labels=(3,))


def test_the_reference_finds_a_split_that_can_be_checked_by_hand() -> None:
    """Label = code 0, groups in balance on both sides: FairGini falls from 1/4 to 0 at γ = 1/2."""
    records = [((0,), (0,), 0), ((0,), (0,), 1), ((1,), (1,), 0), ((1,), (1,), 1)]
    problem = Problem(records, n_codes=[4], missing=[3], gamma=Fraction(1, 2))
    (split,) = grow_reference(problem, 2)
    assert split.goes_left == [True, False, False, True]  # missing was not seen: sides are equal, so left
    assert split.gain == Fraction(1, 4)
    assert_equal_to_reference(problem, max_cells=2)
