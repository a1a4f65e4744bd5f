"""The best split of a histogram, and the orderings it comes from."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import CategoricalBins, ContinuousBins, Criterion, Histogram, Split
from certifare.growth.splits import INSERTION_ONLY, SplitSearch, tabulate

METRICS = ["demographic_parity", "equal_opportunity", "equalized_odds"]


def one_column(counts: np.ndarray) -> Histogram:
    """A histogram of one column, from (codes, classes)."""
    return Histogram(np.ascontiguousarray(counts.T, dtype=np.int64), np.array([0, len(counts)]))


def best(
    counts: np.ndarray, criterion: Criterion, *, min_cell_size: int = 1, continuous: bool = False, **kwargs
) -> Split | None:  # type: ignore[no-untyped-def]
    size = len(counts)
    bins = ContinuousBins("x", np.arange(size - 2.0)) if continuous else CategoricalBins("x", tuple(range(size - 2)))
    search = SplitSearch([bins], criterion, classes=counts.sum(axis=0), min_cell_size=min_cell_size, **kwargs)
    return search.best(0, one_column(counts))


def gain_of(goes_left: np.ndarray, counts: np.ndarray, criterion: Criterion) -> float:
    """Gain of a split from the definition."""
    left, right = counts[goes_left].sum(axis=0), counts[~goes_left].sum(axis=0)
    n = counts.sum()
    after = left.sum() * criterion.impurity(left) + right.sum() * criterion.impurity(right)
    return float(criterion.impurity(counts.sum(axis=0)) - after / n)


def best_partition(counts: np.ndarray, criterion: Criterion) -> float:
    """Largest gain over all ways to part the codes; there are two to the power of their number."""
    left = np.array(list(product([0, 1], repeat=len(counts)))) @ counts
    right = counts.sum(axis=0) - left
    left, right = (side[(left.sum(axis=1) > 0) & (right.sum(axis=1) > 0)] for side in (left, right))
    after = left.sum(axis=1) * criterion.impurity(left) + right.sum(axis=1) * criterion.impurity(right)
    gains = criterion.impurity(counts.sum(axis=0)) - after / max(counts.sum(), 1)
    return float(gains.max(initial=0.0))


def gain(split: Split | None) -> float:
    return split.gain if split is not None else 0.0


def tables(codes: int, classes: int, largest: int = 30) -> st.SearchStrategy[np.ndarray]:
    return npst.arrays(np.int64, (codes, classes), elements=st.integers(0, largest))


@given(
    tables(8, 4), st.sampled_from(METRICS), st.sampled_from([0.0, 0.3, 0.85, 1.0]), st.integers(1, 40), st.booleans()
)
def test_a_split_is_what_it_says(
    counts: np.ndarray, metric: str, gamma: float, min_cell_size: int, continuous: bool
) -> None:
    criterion = Criterion(gamma, metric, (2,), 2)  # type: ignore[arg-type]
    split = best(counts, criterion, min_cell_size=min_cell_size, continuous=continuous)
    if split is None:
        return
    assert split.gain == pytest.approx(gain_of(split.goes_left, counts, criterion), abs=1e-12)
    assert split.left_count == counts[split.goes_left].sum()
    assert split.right_count == counts[~split.goes_left].sum()
    assert min(split.left_count, split.right_count) >= min_cell_size
    if continuous:
        assert split.threshold is not None
        assert_array_equal(split.goes_left[:-1], np.arange(7) <= split.threshold)
    else:
        assert split.threshold is None
    unseen = counts.sum(axis=1) == 0
    unseen[:-1] &= not continuous
    assert (split.goes_left[unseen] == (split.left_count >= split.right_count)).all()


@given(tables(9, 4), st.sampled_from(METRICS), st.sampled_from([0.1, 0.5, 0.85, 0.99]))
def test_more_orderings_are_never_worse(counts: np.ndarray, metric: str, gamma: float) -> None:
    criterion = Criterion(gamma, metric, (2,), 2)  # type: ignore[arg-type]
    gains = {name: gain(best(counts, criterion, orderings=name)) for name in ("paper", "directional", "both")}
    assert gains["both"] == pytest.approx(max(gains["paper"], gains["directional"]), abs=1e-12)
    assert gains["both"] <= best_partition(counts, criterion) + 1e-12


@given(tables(8, 4))
def test_the_label_alone_is_parted_as_well_as_possible(counts: np.ndarray) -> None:
    """γ = 0 is the classical case: a cut of the order by p_y is the best of all partitions."""
    criterion = Criterion(0.0, "demographic_parity", (2,), 2)
    optimum = best_partition(counts, criterion)
    assert gain(best(counts, criterion, orderings="paper")) == pytest.approx(optimum, abs=1e-11)
    assert gain(best(counts, criterion, orderings="directional", shrinkage=0.0)) == pytest.approx(optimum, abs=1e-11)


def test_many_angles_come_close_to_the_best_partition() -> None:
    """The criterion is not convex in the sums, so a half-plane is optimal only up to the category it passes through.

    With many small categories that is little; with eight, the mean loss is a few per cent, and never a wrong one.
    """
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(60):
        p_y, p_s = rng.beta(2, 3, 8), rng.beta(3, 3, 8)
        sizes = rng.integers(20, 200, 8)
        cells = np.array([(1 - p_y) * (1 - p_s), (1 - p_y) * p_s, p_y * (1 - p_s), p_y * p_s]).T
        counts = np.array([rng.multinomial(n, p) for n, p in zip(sizes, cells, strict=True)])
        criterion = Criterion(float(rng.choice([0.3, 0.5, 0.7])), "demographic_parity", (2,), 2)
        optimum = best_partition(counts, criterion)
        if optimum > 1e-4:
            few = gain(best(counts, criterion, orderings="directional", shrinkage=0.0))
            many = gain(best(counts, criterion, orderings="directional", shrinkage=0.0, n_angles=720))
            assert few <= many + 1e-12
            assert many <= optimum + 1e-12
            shares.append((few / optimum, many / optimum))
    few, many = np.mean(shares, axis=0)
    assert len(shares) > 40
    assert many > 0.97
    assert few > 0.95


@given(tables(5, 12), st.sampled_from([0.0, 0.5, 0.9]), st.sampled_from(METRICS))
def test_many_labels_and_groups(counts: np.ndarray, gamma: float, metric: str) -> None:
    criterion = Criterion(gamma, metric, (4,), 3)  # type: ignore[arg-type]
    split = best(counts, criterion)
    if split is not None:
        assert split.gain == pytest.approx(gain_of(split.goes_left, counts, criterion), abs=1e-12)
    assert gain(split) <= best_partition(counts, criterion) + 1e-12


def test_several_label_columns_are_told_apart_by_the_one_with_weight() -> None:
    """Codes differ in the second label only; without weight on it, nothing gains."""
    counts = np.zeros((6, 2, 3, 2), dtype=np.int64)
    counts[[0, 2], :, 0] = 10
    counts[[1, 3], :, 2] = 10
    counts = counts.reshape(6, 12)
    split = best(counts, Criterion(0.5, "demographic_parity", (2, 3), 2, (1.0, 1.0)))
    assert split is not None
    assert set(split.goes_left[[0, 2]]) != set(split.goes_left[[1, 3]])
    assert split.gain == pytest.approx(0.5 * 0.5 * 0.5)
    assert best(counts, Criterion(0.5, "demographic_parity", (2, 3), 2, (1.0, 0.0))) is None


def test_main_axis_of_three_groups() -> None:
    """Codes that differ only in groups 1 and 2 lie along that axis; group 0 has nothing to do with it."""
    groups = np.array([[10, 10, 0], [10, 0, 10], [10, 5, 5], [10, 8, 2]])
    criterion = Criterion(0.5, "demographic_parity", (1,), 3)
    histogram = one_column(groups)
    _, _, shares, positions = tabulate(criterion.terms(), histogram, [0], shrinkage=0.0)
    order = np.argsort(positions[1])
    assert order.tolist() in ([0, 3, 2, 1], [1, 2, 3, 0])
    assert_array_equal(shares[1], positions[1])


@given(st.integers(2, 4 * INSERTION_ONLY), st.integers(0, 2**32 - 1), st.sampled_from([2, 40, 10**6]))
def test_orderings_are_sorted_whatever_their_length(n_codes: int, seed: int, largest: int) -> None:
    """A cut by label alone must separate the labels perfectly where they can be, with many ties or none."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((n_codes + 2, 4), dtype=np.int64)
    positive = rng.random(n_codes) < 0.5
    sizes = rng.integers(1, largest, n_codes)
    counts[:n_codes][positive, 2] = sizes[positive]
    counts[:n_codes][~positive, 0] = sizes[~positive]
    if positive.all() or not positive.any():
        return
    for orderings in ("paper", "directional"):
        split = best(counts, Criterion(0.0, "demographic_parity", (2,), 2), orderings=orderings)
        assert split is not None
        assert split.goes_left[:n_codes].tolist() in (positive.tolist(), (~positive).tolist())


def test_ties_go_to_the_first_column_and_the_smallest_cut() -> None:
    column = np.array([[5, 5, 0, 0], [0, 0, 0, 0], [0, 0, 5, 5], [0, 0, 0, 0]])
    bins = [ContinuousBins(name, np.arange(2.0)) for name in "ab"]
    counts = np.ascontiguousarray(np.concatenate([column, column]).T)
    search = SplitSearch(
        bins, Criterion(0.5, "demographic_parity", (2,), 2), classes=counts[:, :4].sum(axis=1), min_cell_size=1
    )
    split = search.best(0, Histogram(counts, np.array([0, 4, 8])))
    assert split is not None
    assert (split.column, split.threshold) == (0, 0)


def test_missing_values_go_to_the_side_that_gains_more() -> None:
    """Missing values have the label of the low codes, then of the high ones, then of none."""
    low, high = [8, 8, 0, 0], [0, 0, 8, 8]
    criterion = Criterion(0.2, "demographic_parity", (2,), 2)
    with_low = best(np.array([low, low, high, low]), criterion, continuous=True)
    with_high = best(np.array([low, low, high, high]), criterion, continuous=True)
    alone = best(np.array([low, low, low, high]), criterion, continuous=True)
    assert with_low is not None
    assert with_high is not None
    assert alone is not None
    assert with_low.goes_left.tolist() == [True, True, False, True]
    assert with_high.goes_left.tolist() == [True, True, False, False]
    assert alone.goes_left.tolist() == [True, True, True, False]
    assert alone.threshold == 2


def test_one_group_and_one_label() -> None:
    """With nothing to keep apart, only the other matters; with neither, nothing gains."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, (60, 2))
    by_label = best(counts, Criterion(0.9, "demographic_parity", (2,), 1))
    assert by_label is not None
    optimum = gain_of(by_label.goes_left, counts, Criterion(0.0, "demographic_parity", (2,), 1))
    assert by_label.gain == pytest.approx(0.1 * optimum)
    assert best(counts, Criterion(0.5, "equal_opportunity", (1,), 2, positive=0)) is None
    assert best(counts[:, :1], Criterion(0.5, "equalized_odds", (1,), 1)) is None


def test_nothing_to_split() -> None:
    criterion = Criterion(0.5, "demographic_parity", (2,), 2)
    one_code = np.array([[5, 5, 5, 5], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert best(one_code, criterion) is None
    alike = np.array([[5, 5, 5, 5], [5, 5, 5, 5], [0, 0, 0, 0]])
    assert best(alike, criterion) is None
    tells_groups_apart = np.array([[5, 0, 5, 0], [0, 5, 0, 5], [0, 0, 0, 0]])
    assert best(tells_groups_apart, criterion) is None


@pytest.mark.parametrize("orderings", ["papers", (), ("paper", "both"), "both,paper"])
def test_unknown_orderings_are_refused(orderings: object) -> None:
    with pytest.raises(ArgumentError, match="orderings is"):
        best(np.ones((3, 4), dtype=np.int64), Criterion(0.5, "demographic_parity", (2,), 2), orderings=orderings)
