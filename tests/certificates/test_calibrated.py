"""Bounds of calibrated cells: against integrals, by their properties, and by simulation of whole samples."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from certifare.certificates import calibrated
from certifare.certificates.calibrated import (
    CALIBRATED_METRICS,
    CalibratedLimits,
    _follows,
    _integrated,
    _order_statistic,
    _rank,
    _simulate,
    _tail_of_two,
    calibrated_bound,
    calibrated_limits,
    check_gaps,
    check_metric,
    forecast_bound,
    sampled_bound,
)
from certifare.certificates.claims import METRICS
from certifare.certificates.exact import difference_limit
from certifare.certificates.planning import equal_gaps
from certifare.data import adult
from certifare.errors import ArgumentError, UnprovedClaimError

EPSILON = 0.05
FEW = 100_000
plans = st.integers(2, 4).flatmap(
    lambda groups: st.lists(
        st.lists(st.integers(1, 60), min_size=groups, max_size=groups).map(tuple), min_size=2, max_size=6
    )
)


def tail_of_two(gaps, t):
    """P(|X − Y| > t) by scipy's quadrature."""
    (a0, a1), (b0, b1) = gaps
    x, y = stats.beta(a0, b0), stats.beta(a1, b1)
    return integrate.quad(lambda v: y.pdf(v) * (x.sf(v + t) + x.cdf(v - t)), 0, 1, epsabs=1e-12, limit=500)[0]


@pytest.mark.parametrize("gaps", [[[1, 1], [1, 1]], [[2, 3], [4, 1]], [[10, 30], [20, 9]], [[1, 200], [40, 3]]])
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3])
def test_two_cells_agree_with_quadrature_and_round_to_the_safe_side(gaps, epsilon):
    low, high = calibrated_limits(gaps, epsilon)
    assert epsilon * 0.99 < tail_of_two(gaps, high) <= epsilon
    assert 1 - epsilon <= tail_of_two(gaps, low) < 1 - epsilon * 0.97


def test_two_uniform_shares_have_the_distance_of_a_triangle():
    # P(|X − Y| > t) = (1 − t)² for two uniform variables.
    assert calibrated_bound([[1, 1], [1, 1]], EPSILON) == pytest.approx(1 - math.sqrt(EPSILON), abs=5e-4)


def test_three_cells_agree_with_integration_over_the_shares():
    # Dirichlet(1, 1, 1): uniform on a triangle. Riemann sums over a fine grid of both groups' shares.
    m = 60
    grid = [(i + 1 / 3, j + 1 / 3) for i in range(m) for j in range(m - i)]
    grid += [(i + 2 / 3, j + 2 / 3) for i in range(m - 1) for j in range(m - 1 - i)]
    first = np.array([(i / m, j / m, 1 - (i + j) / m) for i, j in grid])
    distances = np.concatenate([np.abs(first - point).sum(axis=1) / 2 for point in first])
    expected = np.quantile(distances, 1 - EPSILON)
    assert expected * 0.999 < calibrated_bound(np.ones((3, 2), dtype=int), EPSILON) < expected * 1.01


@given(plans, st.floats(0.01, 0.3), st.floats(0.01, 0.3))
@settings(max_examples=15)
def test_a_larger_epsilon_gives_narrower_limits(gaps, one, other):
    wide = calibrated_limits(gaps, min(one, other), draws=FEW)
    narrow = calibrated_limits(gaps, max(one, other), draws=FEW)
    assert 0 <= wide[0] <= narrow[0] <= 1
    assert 0 <= narrow[1] <= wide[1] <= 1


@given(plans, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_the_order_of_cells_and_groups_does_not_matter(gaps, random):
    cells = random.sample(gaps, len(gaps))
    order = random.sample(range(len(gaps[0])), len(gaps[0]))
    shuffled = [[row[g] for g in order] for row in cells]
    assert calibrated_bound(shuffled, EPSILON, draws=FEW) == pytest.approx(
        calibrated_bound(gaps, EPSILON, draws=FEW), rel=0.02
    )


@given(plans)
@settings(max_examples=15)
def test_merging_cells_lowers_the_bound(gaps):
    merged = [tuple(a + b for a, b in zip(gaps[0], gaps[1], strict=True)), *gaps[2:]]
    # The two simulations differ by chance.
    assert calibrated_bound(merged, EPSILON, draws=FEW) <= 1.02 * calibrated_bound(gaps, EPSILON, draws=FEW)


def test_the_same_plan_has_the_same_bound_and_fewer_draws_a_larger_one():
    gaps = equal_gaps([200, 300, 250], 6)
    bound = calibrated_bound(gaps, EPSILON)
    assert bound == calibrated_bound(gaps[::-1, ::-1].copy(), EPSILON)
    assert bound < calibrated_bound(gaps, EPSILON, draws=20_000) < 1.05 * bound


def test_too_few_draws_show_nothing():
    assert calibrated_limits(np.ones((3, 2), dtype=int), 0.01, draws=100) == (0.0, 1.0)


def test_one_cell_has_no_distance():
    assert calibrated_limits([[10, 20]], EPSILON) == (0.0, 0.0)
    assert forecast_bound([[10, 20]], EPSILON) == 0.0


def test_a_rule_has_the_limits_of_the_cells_that_it_tells_apart():
    gaps = np.array([[40, 30], [30, 35], [31, 36]])
    two = [[70, 65], [31, 36]]
    assert calibrated_limits(gaps, EPSILON, rule=[0, 0, 1]) == calibrated_limits(two, EPSILON)
    half = calibrated_limits(gaps, EPSILON, rule=[0.25, 0.25, 0.75])
    assert np.allclose(half, np.array(calibrated_limits(two, EPSILON)) / 2, atol=1e-9)
    assert calibrated_limits(gaps, EPSILON, rule=[1, 1, 1]) == (0.0, 0.0)
    soft = calibrated_limits(gaps, EPSILON, rule=[0, 0.5, 1], draws=FEW)
    assert soft[1] < calibrated_bound(gaps, EPSILON, draws=FEW)
    # By hand: the mean of a rule under a Dirichlet draw.
    rng = np.random.default_rng(1)
    rates = [rng.dirichlet(column, size=200_000) @ [0, 0.5, 1] for column in gaps.T]
    assert soft[1] == pytest.approx(np.quantile(abs(rates[0] - rates[1]), 0.95), rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "cells"),
    [([1000, 1000], 2), ([1000, 1000], 16), ([5000, 300], 8), ([90, 300, 700, 200], 6), ([100] * 5, 3)],
)
@pytest.mark.parametrize("skew", [0.0, 0.3])
def test_a_forecast_is_near_the_bound(sizes, cells, skew):
    gaps = equal_gaps(sizes, cells)
    gaps[:, 0] = np.maximum(1, gaps[:, 0] * np.linspace(1 - skew, 1 + skew, cells))
    assert forecast_bound(gaps, EPSILON) == pytest.approx(calibrated_bound(gaps, EPSILON, draws=FEW), rel=0.05)
    assert sampled_bound(gaps, EPSILON) == pytest.approx(calibrated_bound(gaps, EPSILON, draws=FEW), rel=0.03)


@pytest.mark.parametrize(
    ("gaps", "message"),
    [
        ([[1, 2], [0, 3]], "at least one gap"),
        ([[1.5, 2], [1, 3]], "whole numbers"),
        ([[1], [2]], "at least two"),
        ([1, 2], "whole numbers"),
        ([[1, 2], [3]], "whole numbers"),
        ([[2**41, 2], [1, 3]], "More than"),
        (np.ones((40_000, 2), dtype=int), "too many"),
        (np.ones((256, 32), dtype=int), "too many"),
    ],
)
def test_gaps_that_are_no_plan_are_refused(gaps, message):
    with pytest.raises(ArgumentError, match=message):
        calibrated_bound(gaps, EPSILON)


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.6, math.nan])
def test_levels_beyond_monte_carlo_are_refused(epsilon):
    with pytest.raises(ArgumentError, match="from 0.0001 to 0.5"):
        calibrated_bound([[5, 5], [5, 5]], epsilon)


@pytest.mark.parametrize("rule", [[0, 1], [0, 0, 2], [0, 0, 1.01], [0, -0.01, 1], [0, math.nan, 1]])
def test_a_rule_needs_a_probability_for_each_cell(rule):
    with pytest.raises(ArgumentError, match="probability"):
        calibrated_limits([[5, 5], [5, 5], [5, 5]], EPSILON, rule=rule)


def test_metrics_over_several_labels_are_refused_with_the_reason():
    for metric in METRICS:
        if metric in CALIBRATED_METRICS:
            check_metric(metric)
        else:
            with pytest.raises(UnprovedClaimError, match="of one label"):
                check_metric(metric)


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
@pytest.mark.parametrize("draws", [100, 1_000, 100_000])
def test_the_rank_is_the_least_whose_monte_carlo_error_is_small_enough(draws, epsilon):
    """With the error of 10,000 plans compared taken off ε; above all draws if no rank will do."""
    share = 1 - (epsilon - 1e-5)
    rank = _rank(draws, epsilon)
    assert stats.binom.sf(rank - 1, draws, share) <= 1e-9
    assert stats.binom.sf(rank - 2, draws, share) > 1e-9


def test_a_limit_is_the_distance_of_its_rank_from_either_end():
    """Distances 1 … n in order; nothing is known where the rank is above n, and the outermost where it is n."""
    least = next(n for n in range(100, 1_000) if _rank(n, 0.1) <= n)
    for n in (least - 1, least, 5_000):
        rank, sample = _rank(n, 0.1), np.arange(1.0, n + 1)
        limits = _order_statistic(sample, 0.1, False), _order_statistic(sample, 0.1, True)
        assert limits == ((0.0, 1.0) if n < least else (n + 1 - rank, rank))
    assert _rank(least, 0.1) == least


def test_distances_are_drawn_in_the_same_pieces_everywhere(monkeypatch):
    """A million tables; of large plans a hundred million numbers, or a tenth of the tables. Streams depend on it."""
    monkeypatch.setattr(calibrated, "_shares", lambda table, draws, rng: np.full((1, 1, draws), rng.random()))
    for shape, draws, drawn, piece in (
        ((3, 2), 1_000_000, 1_000_000, 2**20 // 6),
        ((64, 2), 1_000_000, 781_250, 8_192),
        ((4_096, 2), 1_000_000, 100_000, 128),
        ((4_096, 2), 60_000, 60_000, 128),
        ((20, 20), 1_000_000, 10**8 // (20 * 43), 2**20 // 400),
        ((3, 2), 20_000, 20_000, 20_000),
    ):
        found = _simulate(np.ones(shape, dtype=np.int64), draws, 0, lambda shares: shares[0, 0])
        assert len(found) == drawn
        starts = np.flatnonzero(np.diff(found)) + 1
        assert starts.tolist() == list(range(piece, drawn, piece))
    again = _simulate(np.ones((3, 2), dtype=np.int64), 1_000, 0, lambda shares: shares[0, 0])
    assert found[0] == again[0] != _simulate(np.ones((3, 2), dtype=np.int64), 1_000, 1, lambda shares: shares[0, 0])[0]


def test_a_bound_to_choose_by_is_the_quantile_of_a_twentieth_of_the_draws(monkeypatch):
    """At the rank that a bound has among all of them, in proportion."""
    monkeypatch.setattr(calibrated, "_simulate", lambda table, draws, seed, measure: np.arange(draws, 0.0, -1.0) + seed)
    assert sampled_bound(np.ones((3, 2), dtype=int), EPSILON) == _rank(1_000_000, EPSILON) * 50_000 // 1_000_000
    assert sampled_bound([[500, 500], [501, 501]], EPSILON) == calibrated_bound([[500, 500], [501, 501]], EPSILON)
    assert sampled_bound([[10, 20]], EPSILON) == 0.0


def test_roundings_of_two_cells_are_covered():
    """A billionth of a probability, and a trillionth of a distance."""
    gaps = np.array([[30, 41], [20, 60]])
    assert _tail_of_two(gaps, 1.0) == (0.0, 1e-9)
    low, high = _tail_of_two(gaps, 0.0)
    assert low < 1.0 - 1e-9
    assert high == 1.0
    limits = [_integrated(np.sort(gaps, axis=0).tobytes(), EPSILON, upper) for upper in (False, True)]
    found = calibrated_limits(np.sort(gaps, axis=0), EPSILON)
    assert found == pytest.approx((limits[0] - 1e-12, limits[1] + 1e-12), abs=1e-15)


def test_the_largest_plan_and_the_levels_at_both_ends_are_bounded():
    assert check_gaps([[2**40 - 1, 2**40 - 1], [1, 1]]).max() == 2**40 - 1
    with pytest.raises(ArgumentError, match="More than 1,099,511,627,776 records"):
        check_gaps([[2**40, 1], [1, 1]])
    assert len(check_gaps(np.ones((4_096, 2), dtype=int))) == 4_096
    with pytest.raises(ArgumentError, match="4,097 cells and 2 groups are too many"):
        check_gaps(np.ones((4_097, 2), dtype=int))
    two = [[500, 500], [501, 501]]
    assert calibrated_bound(two, 0.5) < calibrated_bound(two, EPSILON) < calibrated_bound(two, 1e-4) < 0.1


@pytest.mark.parametrize("upper", [True, False])
def test_a_stated_limit_follows_from_distances_if_few_are_beyond_it_and_it_is_little_worse(upper):
    """As few as three standard errors allow; two hundredths, and the room that Monte Carlo takes, worse."""
    n = 100_000
    sample, table, few = np.arange(1, n + 1) / n, np.ones((3, 2), dtype=np.int64), int(stats.binom.isf(1e-3, n, 0.05))
    own = _order_statistic(sample, 0.05, upper)
    room = 0.02 * own + abs(own - np.quantile(sample, 0.95 if upper else 0.05))
    best, outwards = (sample[n - few - 1], 1) if upper else (sample[few], -1)
    for stated, follows in (
        (best, True),
        (best - outwards * 5e-13, True),
        (best - outwards * 2e-12, False),
        (own + outwards * (room - 1e-9), True),
        (own + outwards * (room + 1e-9), False),
    ):
        assert _follows(table, sample, stated, 0.05, upper=upper) == follows


@pytest.mark.parametrize("upper", [True, False])
def test_a_stated_limit_of_two_cells_follows_from_the_integral(upper):
    gaps = np.array([[20, 41], [30, 60]])
    own, outwards = calibrated_limits(gaps, 0.05)[upper], 1 if upper else -1
    for stated, follows in (
        (own, True),
        (own - outwards * 1e-4, True),  # the integral is not known that well
        (own - outwards * 1e-3, False),
        (own + outwards * (0.02 * own + 4.9e-5), True),
        (own + outwards * (0.02 * own + 5.1e-5), False),
    ):
        assert _follows(gaps, None, stated, 0.05, upper=upper) == follows


@pytest.mark.parametrize(
    ("gaps", "bound", "lower", "wrong"),
    [
        ([[10, 20]], 0.0, 0.0, None),
        ([[10, 20]], 1e-12, 0.0, None),
        ([[10, 20]], 2e-12, 0.0, "bound"),
        ([[10, 20]], 0.0, 1e-12, "lower"),
        ([[10, 20], [30, 40]], 0.0, 0.0, "bound"),
        ([[10, 20], [30, 40]], 0.3, 0.0, "bound"),
    ],
)
def test_limits_of_one_cell_and_of_nought(gaps, bound, lower, wrong):
    assert CalibratedLimits(bound, lower, (bound,)).unsupported(gaps, EPSILON, 0) == wrong


def test_pairs_of_groups_are_drawn_a_tenth_as_often(monkeypatch):
    calls = []

    def simulated(table, draws, seed, measure):
        calls.append((draws, seed))
        return _simulate(table, FEW, seed, measure)

    monkeypatch.setattr(calibrated, "_simulate", simulated)
    gaps = [[31, 42, 23], [35, 20, 46], [12, 35, 60]]
    calibrated._sample.cache_clear()
    limits = CalibratedLimits.of(gaps, EPSILON)
    assert calls == [(1_000_000, 0), (100_000, 0)]
    assert limits.unsupported(gaps, EPSILON, 5) is None
    assert calls[2:] == [(1_000_000, 5), (100_000, 5)]
    assert calibrated_limits(gaps, EPSILON, rule=[0, 0.5, 1]) != (0.0, 1.0)
    assert calls[4:] == [(1_000_000, 0)] * 2
    two = [[31, 42], [35, 20]]
    assert CalibratedLimits.of(two, EPSILON).unsupported(two, EPSILON, 5) is None
    assert len(calls) == 6  # two cells of two groups need no draws
    assert max(CalibratedLimits.of(gaps[:2], EPSILON).pairs[:2]) < CalibratedLimits.of(gaps[:2], EPSILON).bound
    calibrated._sample.cache_clear()


@pytest.mark.parametrize(
    ("gaps", "epsilon", "limits"),
    [
        ([[1, 1], [1, 1]], 0.3, (0.1632096252, 0.4524080041)),
        ([[2, 3], [4, 1]], 0.05, (0.0577549357, 0.8042497428)),
        ([[10, 30], [20, 9]], 0.01, (0.1705126471, 0.6668366242)),
        ([[1, 200], [40, 3]], 0.05, (0.9113233872, 0.9892384121)),
        ([[500, 500], [501, 501]], 0.3, (0.0085850282, 0.0231832123)),
    ],
)
def test_limits_of_two_cells_stay_as_they_are(gaps, epsilon, limits):
    """To a billionth: certificates state them, and nobody's verifier may come to others by a slip."""
    assert calibrated_limits(gaps, epsilon) == pytest.approx(limits, abs=1e-9)


@pytest.mark.parametrize(
    ("gaps", "epsilon", "forecast"),
    [
        ([[500, 500], [501, 501]], 0.05, 0.0437823447),
        ([[10, 30], [90, 51], [101, 120]], 0.01, 0.3079846384),
        ([[30, 60, 20]] * 3, 0.05, 0.1950543797),
        ([[3, 9], [12, 4], [1, 1], [7, 80]], 0.3, 0.6170045719),
        ([[5] * 5] * 12, 0.01, 0.422855729),
        ([[5, 5]] * 3_000, 0.05, 0.2580012873),
        ([[1, 1], [1, 1]], 1e-4, 1.0),
    ],
)
def test_forecasts_stay_as_they_are(gaps, epsilon, forecast):
    """Plans are compared by them: another forecast is another encoder from the same records."""
    assert forecast_bound(gaps, epsilon) == pytest.approx(forecast, abs=1e-9)


# -- the guarantee, by simulation ------------------------------------------------------------------------------


def population(column):
    """Chances of the values of a column of Adult, a column for each group; values in ascending order."""
    people = adult()
    values, groups = people.features[column].to_numpy(), people.sensitive["sex"].to_numpy()
    levels, codes = np.unique(values, return_inverse=True)
    return [np.bincount(codes[groups == g], minlength=len(levels)) / (groups == g).sum() for g in np.unique(groups)]


def simulate(chances, gaps, runs, *, ties=True, seed=0):
    """Return the true distance of thresholds set by samples from atoms, and the counts of each sample's own cells."""
    rng = np.random.default_rng(seed)
    distances, counts = np.empty(runs), np.empty((runs, *gaps.shape), dtype=np.int64)
    below = [np.concatenate([[0.0], np.cumsum(chance)]) for chance in chances]
    sizes, ranks = gaps.sum(axis=0) - 1, np.cumsum(gaps, axis=0)[:-1]
    for run in range(runs):
        shares = []
        for g, chance in enumerate(chances):
            codes = rng.choice(len(chance), size=sizes[g], p=chance / chance.sum())
            keys = np.sort(codes + rng.random(sizes[g]))
            thresholds = keys[ranks[:, g] - 1]
            code = thresholds.astype(int)
            # A later record lies below a threshold if its value does, or if it ties and its number is smaller.
            share = below[g][code] + chance[code] * (thresholds - code) if ties else below[g][code + 1]
            shares.append(np.diff(np.concatenate([[0.0], share, [1.0]])))
            counts[run, :, g] = np.diff(np.concatenate([[0], ranks[:, g], [sizes[g]]]))
        distances[run] = max(np.abs(a - b).sum() / 2 for a in shares for b in shares)
    return distances, counts


ATOMS = [np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6]), np.array([0.05, 0.9, 0.05])]
SETTINGS = {
    "ages, 2 groups, 6 cells": (lambda: population("age"), equal_gaps([300, 150], 6)),
    "hours, 2 groups, unequal masses": (
        lambda: population("hours_per_week"),
        np.array([[10, 30], [90, 51], [101, 120]]),
    ),
    "three values, 3 groups, 4 cells": (lambda: ATOMS, equal_gaps([90, 200, 60], 4)),
    "one value, 2 groups, 2 cells": (lambda: [np.ones(1), np.ones(1)], equal_gaps([50, 80], 2)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_true_distance_exceeds_the_bound_as_often_as_stated(name):
    make, gaps = SETTINGS[name]
    distances, _ = simulate(make(), gaps, 2_000)
    low, high = calibrated_limits(gaps, EPSILON)
    for misses in (np.sum(distances > high), np.sum(distances < low)):
        assert stats.binom.ppf(1e-5, 2_000, 0.94 * EPSILON) <= misses <= stats.binom.ppf(1 - 1e-5, 2_000, EPSILON)


def test_without_tie_breaking_the_bound_fails():
    distances, _ = simulate(ATOMS, SETTINGS["three values, 3 groups, 4 cells"][1], 200, ties=False)
    bound = calibrated_bound(SETTINGS["three values, 3 groups, 4 cells"][1], EPSILON)
    assert np.mean(distances > bound) > 0.5


def test_the_exact_bound_on_the_records_that_set_the_thresholds_fails():
    make, gaps = SETTINGS["ages, 2 groups, 6 cells"]
    distances, counts = simulate(make(), gaps, 200)
    n0, n1 = counts[0].sum(axis=0).tolist()
    statistics = [sum(max(n1 * a - n0 * b, 0) for a, b in table.tolist()) for table in counts]
    limits = [difference_limit(n0, n1, statistic, EPSILON) for statistic in statistics]
    assert np.mean(distances > limits) > 2 * EPSILON
