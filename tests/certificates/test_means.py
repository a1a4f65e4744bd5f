"""Limits of means and of ratios of means: over all samples of small numbers of records, and against exact sums."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest

from certifare.certificates import means
from certifare.certificates.means import mean_limits, ratio_limits
from certifare.errors import ArgumentError


def all_counts(n, shares):
    """All ways in which n records can fall into kinds, with their probabilities."""
    kinds = len(shares)
    for counts in product(range(n + 1), repeat=kinds - 1):
        if sum(counts) <= n:
            whole = (*counts, n - sum(counts))
            ways = math.factorial(n) / math.prod(map(math.factorial, whole))
            yield np.array(whole), ways * math.prod(p**c for p, c in zip(shares, whole, strict=True))


def misses(found, true):
    """Probabilities with which the truth lies below the lower limit, and above the upper one."""
    return (
        sum(chance for (low, _), chance in found if low > true + 1e-12),
        sum(chance for (_, high), chance in found if high < true - 1e-12),
    )


@pytest.mark.parametrize("epsilon", [0.5, 0.2])
@pytest.mark.parametrize("shares", [(0.9, 0.1, 0.0), (0.6, 0.3, 0.1), (0.2, 0.2, 0.6), (0.0, 0.97, 0.03)])
def test_limits_of_a_mean_hold_over_all_samples(shares, epsilon):
    values = np.array([0.0, 0.3, 1.0])
    for n in (1, 4, 9):
        found = [(mean_limits(float(c @ values) / n, n, epsilon), chance) for c, chance in all_counts(n, shares)]
        below, above = misses(found, float(values @ shares))
        assert max(below, above) <= epsilon / 2 + 1e-12


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        ((0.2, 0.3, 0.5), (0.5, 0.3, 0.2)),
        ((0.0, 0.1, 0.9), (0.9, 0.1, 0.0)),
        ((0.5, 0.0, 0.5), (0.0, 1.0, 0.0)),  # as much spread as an area can have
        ((0.1, 0.0, 0.9), (0.0, 1.0, 0.0)),
    ],
)
def test_limits_of_an_area_hold_over_all_samples(positive, negative):
    """As many independent pairs as records of the rarer kind: the area is an average of means over such pairs."""
    epsilon = 0.3
    right = np.array([[0.5, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 0.5]])  # positives of a level, negatives of a level
    true = float(np.array(positive) @ right @ np.array(negative))
    for p, n in ((1, 3), (3, 3), (4, 2)):
        found = [
            (mean_limits(float(a @ right @ b) / (p * n), min(p, n), epsilon), chance * other)
            for a, chance in all_counts(p, positive)
            for b, other in all_counts(n, negative)
        ]
        below, above = misses(found, true)
        assert max(below, above) <= epsilon / 2 + 1e-12


@pytest.mark.parametrize(("mean", "n"), [(0.5, 6), (0.0, 3), (0.85, 7), (1.0, 5), (0.31, 20)])
def test_the_tail_is_the_least_of_the_convex_bounds(mean, n):
    """In rational arithmetic, over all thresholds: what is refuted has a tail below the level, the next has not."""
    epsilon = 0.1
    upper = mean_limits(mean, n, epsilon)[1]
    if mean == 1.0:
        assert upper == 1.0
        return

    def tail(share):
        p, total = Fraction(share), Fraction(mean) * n
        chances = [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)]
        return min(
            sum(chances[i] * (t - i) for i in range(t)) / (t - total)
            for t in range(math.floor(total * (1 + Fraction(1, 10**12))) + 1, n + 1)
            if t > total
        )

    assert tail(upper) <= Fraction(epsilon) / 2
    assert tail(upper - 1e-4) > Fraction(epsilon) / 2


def test_many_numbers_have_limits_in_closed_form_that_are_a_little_wider():
    exact, closed = (mean_limits(0.7, n, 0.05) for n in (means._MANY, means._MANY + 1))
    assert closed[0] < exact[0] < 0.7 < exact[1] < closed[1]
    assert closed[1] - closed[0] < 1.25 * (exact[1] - exact[0])
    assert mean_limits(0.99, 10**9, 0.05)[1] == pytest.approx(0.99 + 2.72 * math.sqrt(0.0099 / 10**9), abs=1e-6)
    assert mean_limits(1.0, 10**9, 0.05) == (pytest.approx(1.0, abs=1e-8), 1.0)


def test_limits_of_a_mean_are_not_much_wider_than_those_of_a_share():
    for successes, n in ((300, 400), (18, 20), (5, 5_000)):
        share = binomtest(successes, n).proportion_ci(0.95, "exact")
        low, high = mean_limits(successes / n, n, 0.05)
        assert low <= share.low
        assert high >= share.high
        assert high - low < 1.35 * (share.high - share.low)


def test_without_records_nothing_is_known():
    assert mean_limits(0.5, 0, 0.05) == (0.0, 1.0)
    lost, without = np.array([0.2, 0.8]), np.array([0.4, 0.5])
    assert ratio_limits(lost, without, np.array([0, 0]), 0.05) == (0.0, 2.0)
    with pytest.raises(ArgumentError):
        mean_limits(0.5, 3, 0.0)


@pytest.mark.parametrize("possible", [None, (np.array([0.0, 2.0, 0.0, 2.0]), np.array([0.08, 0.08, 1.28, 1.28]))])
@pytest.mark.parametrize("shares", [(0.75, 0.1, 0.05, 0.1), (0.8, 0.19, 0.008, 0.002), (0.1, 0.4, 0.4, 0.1)])
def test_limits_of_a_ratio_hold_over_all_samples(shares, possible):
    """Two cells that forecast 5 % and 60 %, and base rates of 20 %: forecasts that are right, that are too bold, …"""
    epsilon = 0.4
    lost = np.array([2 * 0.05**2, 2 * 0.60**2, 2 * 0.95**2, 2 * 0.40**2])
    without = np.array([2 * 0.2**2, 2 * 0.2**2, 2 * 0.8**2, 2 * 0.8**2])
    true = float(lost @ shares) / float(without @ shares)
    for n in (2, 8, 14):
        found = [
            (ratio_limits(lost, without, counts, epsilon, possible=possible), chance)
            for counts, chance in all_counts(n, shares)
        ]
        below, above = misses(found, true)
        assert max(below, above) <= epsilon / 2 + 1e-12
        for (low, high), _ in found:
            assert 0.0 <= low <= min(high, 1.0)


def test_stakes_that_were_too_high_for_what_can_happen_would_miss():
    """A test of the tests: were the kind that was not seen impossible, limits would be too narrow."""
    lost, without, shares = np.array([0.02, 1.9]), np.array([0.08, 1.28]), (0.98, 0.02)
    true = float(lost @ shares) / float(without @ shares)
    known = [(ratio_limits(lost, without, counts, 0.4), chance) for counts, chance in all_counts(12, shares)]
    blind = [
        (ratio_limits(lost, without, counts, 0.4, possible=(lost[:1], without[:1])), chance)
        for counts, chance in all_counts(12, shares)
        if not counts[1]
    ]
    assert max(misses(known, true)) <= 0.2
    assert max(misses(blind, true)) > 0.2


def test_limits_of_a_ratio_close_in_on_it():
    lost, without = np.array([0.02, 0.9]), np.array([0.08, 1.28])
    widths = []
    for n in (400, 40_000, 4_000_000):
        low, high = ratio_limits(lost, without, np.array([0.9 * n, 0.1 * n]), 0.05)
        true = (0.9 * 0.02 + 0.1 * 0.9) / (0.9 * 0.08 + 0.1 * 1.28)
        assert low < true < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 7
    assert widths[2] < widths[1] / 7


@pytest.mark.parametrize(
    ("mean", "n", "epsilon", "limits"),
    [
        (0.31, 20, 0.1, (0.1350480151, 0.5367876206)),
        (0.75, 400, 0.05, (0.6970928432, 0.7979822743)),
        (0.02, 3_000, 0.01, (0.0135200107, 0.0283622442)),
        (0.97, 90_000, 0.05, (0.9686494733, 0.9713091809)),
        (0.02, 200_000, 0.05, (0.0191614648, 0.0208621437)),
        (0.4, 200_000, 0.05, (0.3970270343, 0.4029778846)),
    ],
)
def test_limits_of_a_mean_stay_as_they_are(mean, n, epsilon, limits):
    """To a billionth: files state them, and a limit that moves either way is a change that someone should mean."""
    assert mean_limits(mean, n, epsilon) == pytest.approx(limits, abs=1e-9)


def test_limits_of_a_mean_are_rounded_outwards(monkeypatch):
    limits = []
    for rounding in (0.0, 1e-3):
        monkeypatch.setattr(means, "_ROUNDING", rounding)
        limits.append(mean_limits(0.5, 400, 0.05))
    assert limits[1][0] < limits[0][0] - 1e-3
    assert limits[1][1] > limits[0][1] + 1e-3


@pytest.mark.parametrize(
    ("lost", "without", "counts", "limits"),
    [
        ((0.02, 0.9), (0.08, 1.28), (36, 4), (0.2915452621, 0.6495828789)),
        ((0.005, 0.72, 1.805, 0.32), (0.08, 0.08, 1.28, 1.28), (700, 40, 60, 200), (0.4402096489, 0.6190328101)),
        ((0.1, 0.9), (0.5, 0.5), (70_000, 30_000), (0.6721473613, 0.687816969)),
        ((0.0, 0.3, 2.0), (0.4, 0.4, 0.6), (900, 90, 10), (0.0742189903, 0.1866755806)),
        ((0.0, 0.3, 0.35), (1.9, 2.4, 1.6), (900, 90, 10), (0.0115124111, 0.0208573873)),
        ((0.9, 0.5), (0.5, 0.4), (500, 300), (1.0, 1.6486143873)),
        ((0.9, 5.0), (1.0, 0.9), (380, 20), (0.9364552402, 1.2851676518)),
    ],
)
def test_limits_of_a_ratio_stay_as_they_are(lost, without, counts, limits):
    found = ratio_limits(np.array(lost), np.array(without), np.array(counts), 0.05)
    assert found == pytest.approx(limits, abs=1e-9)
