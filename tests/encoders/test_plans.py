"""Plans of calibrated cells, and the thresholds that records set by them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.encoders.plans import GapPlan, Thresholds, round_to_gaps, threshold_rules, tree_children
from certifare.errors import EncoderError


def sample(rng, sizes, directions=1, values=None):
    """Records of each group: directions, groups and tie-breaking numbers."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = (
        rng.normal(size=(len(groups), directions)) if values is None else rng.choice(values, (len(groups), directions))
    )
    return found, groups, rng.random(len(groups))


@given(st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=2), min_size=2, max_size=9), st.integers(0, 99))
def test_cells_in_a_row_hold_the_records_that_the_plan_gives_them(gaps, seed):
    """Whatever the values, ties included: each cell holds as many records as gaps, the last one less."""
    gaps = np.array(gaps)
    plan = GapPlan.along(gaps)
    assert np.array_equal(plan.gaps, gaps)
    values, groups, ties = sample(np.random.default_rng(seed), gaps.sum(axis=0) - 1, values=[0.0, 1.0, 2.0])
    cells = plan.calibrate(values, groups, ties).cells(values, groups, ties)
    counts = np.bincount(cells * 2 + groups, minlength=gaps.size).reshape(gaps.shape)
    assert np.array_equal(counts, plan.counts)


def test_thresholds_are_the_order_statistics_that_the_plan_asks_for():
    plan = GapPlan.along(np.array([[2, 1], [2, 4]]))
    values = np.array([30.0, 10.0, 20.0, 5.0, 8.0, 6.0, 7.0])[:, None]
    groups = np.array([0, 0, 0, 1, 1, 1, 1])
    thresholds = plan.calibrate(values, groups, np.linspace(0, 1, 7))
    assert thresholds.at.tolist() == [[20.0, 5.0]]


def test_a_plan_refuses_other_numbers_of_records():
    with pytest.raises(EncoderError, match="The plan is for 3, 4 certification records"):
        GapPlan.along(np.array([[2, 1], [2, 4]])).calibrate(np.zeros((3, 1)), np.array([0, 0, 1]), np.zeros(3))


@pytest.mark.parametrize(("k", "n"), [(4, 2_000), (6, 300), (20, 400)])
def test_the_records_that_fill_a_plan_are_recognised_and_others_are_not(k, n):
    plan = GapPlan.along(round_to_gaps(np.linspace(1, 3, 2 * k).reshape(k, 2), [n + 1, n // 2]))
    assert plan.is_filled_by(plan.counts)
    # Ties are parted otherwise when the records are encoded again.
    off = plan.counts.copy()
    off[:2] += [[1, -1], [-1, 1]]
    assert plan.is_filled_by(off)
    assert not plan.is_filled_by(plan.counts + 1)
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        drawn = [rng.multinomial(c.sum(), rng.dirichlet(g)) for g, c in zip(plan.gaps.T, plan.counts.T, strict=True)]
        assert not plan.is_filled_by(np.stack(drawn, axis=1))


def test_a_plan_of_few_records_may_be_filled_by_others():
    for gaps in ([[500, 500], [500, 500]], [[7, 8], [8, 7], [7, 9]], [[8, 9]]):
        plan = GapPlan.along(np.array(gaps))
        assert not plan.is_filled_by(plan.counts)


def test_missing_values_and_equal_ones_have_a_place_in_the_order():
    thresholds = Thresholds(np.array([0]), np.array([0]), np.array([[1.0, np.inf]]), np.array([[0.5, 0.25]]))
    values = np.array([[0.9], [1.0], [1.0], [np.inf], [np.inf]])
    groups, ties = np.array([0, 0, 0, 1, 1]), np.array([0.9, 0.5, 0.6, 0.2, 0.3])
    assert thresholds.cells(values, groups, ties).tolist() == [0, 0, 1, 0, 1]
    assert thresholds.on_threshold(values, groups).tolist() == [False, True, True, True, True]


@given(st.integers(1, 40), st.integers(0, 99))
def test_cells_of_any_tree_are_numbered_from_left_to_right(splits, seed):
    rng = np.random.default_rng(seed)
    leaves, parents = [0], []
    for j in range(splits):
        parents.append(leaves.pop(rng.integers(len(leaves))))
        leaves += [2 * j + 1, 2 * j + 2]
    children = tree_children(np.array(parents))
    found = []

    def walk(split):
        for child in children[split]:
            found.append(-1 - child) if child < 0 else walk(child)

    walk(0)
    assert found == list(range(splits + 1))


def test_gaps_are_at_least_one_and_add_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        k = int(rng.integers(1, 12))
        totals = rng.integers(k, 60, size=3)
        gaps = round_to_gaps(rng.dirichlet(np.full(k, 0.2), size=3).T + 1e-12, totals)
        assert gaps.min() >= 1
        assert np.array_equal(gaps.sum(axis=0), totals)


def test_rules_name_the_range_of_each_group():
    thresholds = Thresholds(np.array([0]), np.array([0]), np.array([[1.5, 2.5]]), np.zeros((1, 2)))
    assert threshold_rules(thresholds, ["score"], ["f", "m"]) == [
        ("score ≤ 1.5 (f), ≤ 2.5 (m)",),
        ("score > 1.5 (f), > 2.5 (m)",),
    ]


def test_rules_of_log_odds_state_probabilities_and_equal_thresholds_state_their_value():
    parents, directions = np.array([0, 1]), np.zeros(2, dtype=np.int64)
    at = np.array([[np.log(4.0), 0.0], [0.0, 0.0]])
    rules = threshold_rules(Thresholds(parents, directions, at, np.zeros((2, 2))), ["P(y = 1)"], ["f", "m"], True)
    assert rules == [
        ("P(y = 1) ≤ 0.5 (f), ≤ 0.5 (m)",),
        ("P(y = 1) > 0.5 and ≤ 0.8 (f), some = 0.5 (m)",),
        ("P(y = 1) > 0.8 (f), > 0.5 (m)",),
    ]


@pytest.mark.parametrize("values", [None, [0.0, 1.0]], ids=["continuous", "two values"])
def test_true_shares_of_a_tree_over_two_directions_are_dirichlet(values):
    """Mean and variance of every cell's true share, by simulation; an atom must be parted by the random numbers."""
    plan = GapPlan(np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([[12], [4], [9]]), np.array([31]))
    rng = np.random.default_rng(3)
    population, _, _ = sample(rng, [40_000], 2, values)
    nobody = np.zeros(len(population), dtype=np.int64)
    of_population = rng.random(len(population))
    shares = []
    for _ in range(300):
        rows = rng.integers(len(population), size=30)
        thresholds = plan.calibrate(population[rows], np.zeros(30, dtype=np.int64), rng.random(30))
        cells = thresholds.cells(population, nobody, of_population)
        shares.append(np.bincount(cells, minlength=4) / len(population))
    gaps = plan.gaps[:, 0]
    mean = gaps / gaps.sum()
    variance = mean * (1 - mean) / (gaps.sum() + 1)
    error = np.sqrt(variance / 300)
    assert np.all(np.abs(np.mean(shares, axis=0) - mean) < 4 * error)
    assert np.var(shares, axis=0) == pytest.approx(variance, rel=0.25)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=9), st.integers(0, 99))
def test_the_cell_is_the_number_of_thresholds_that_a_record_is_beyond(gaps, seed):
    rng = np.random.default_rng(seed)
    plan = GapPlan.along(np.array([gaps, gaps[::-1]]).T)
    values, groups, ties = sample(rng, plan.totals - 1, values=[0.0, 1.0, 2.0])
    thresholds = plan.calibrate(values, groups, ties)
    at, tie = (table.T[groups] for table in thresholds.along())
    left = (values < at) | ((values == at) & (ties[:, None] <= tie))
    assert np.array_equal((~left).sum(axis=1), thresholds.cells(values, groups, ties))


def test_thresholds_out_of_order_are_no_row():
    at = np.array([[2.0], [1.0]])
    for thresholds in (
        Thresholds(np.array([0, 2]), np.array([0, 0]), at, np.zeros((2, 1))),
        Thresholds(np.array([0, 2]), np.array([0, 1]), at[::-1], np.zeros((2, 1))),
        Thresholds(np.array([0, 2]), np.array([0, 0]), np.array([[1.0], [np.inf]]), np.zeros((2, 1))),
    ):
        with pytest.raises(EncoderError, match="not in the order of the cells"):
            thresholds.along()
