"""The exact limit against brute force, closed forms and its own monotonicity."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from certifare.certificates import exact
from certifare.certificates.claims import statistic
from certifare.certificates.exact import (
    FINEST,
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    TOLERANCE,
    difference_limit,
    epsilon_at,
    hoeffding_radius,
)
from certifare.errors import ArgumentError, ConfidenceError


def dense_beta(n0, n1, m, d, points=4001):
    """The largest tail over a dense grid of b: a lower bound of β(d) that needs no cleverness."""
    b = np.linspace(max(0.0, -d), min(1.0, 1.0 - d), points)
    a = np.clip(b + d, 0.0, 1.0)
    x, y = np.arange(n0 + 1), np.arange(n1 + 1)
    event = (n1 * x[:, None] - n0 * y[None, :] <= m).astype(float)
    joint = binom.pmf(x, n0, a[:, None]) @ event
    return float((joint * binom.pmf(y, n1, b[:, None])).sum(axis=1).max())


def statistics_of_all_tables(n0, n1, k):
    """Every M that a table with k cells and these group sizes can have."""

    def compositions(n):
        return [c for c in product(range(n + 1), repeat=k) if sum(c) == n]

    return {
        sum(max(n1 * a - n0 * b, 0) for a, b in zip(first, second, strict=True))
        for first in compositions(n0)
        for second in compositions(n1)
    }


@pytest.mark.parametrize("n0", range(1, 9))
@pytest.mark.parametrize("n1", range(1, 9))
def test_every_small_table_against_brute_force(n0, n1):
    epsilon = 0.05
    for m in sorted(statistics_of_all_tables(n0, n1, 3)):
        limit = difference_limit(n0, n1, m, epsilon)
        if limit < 1.0:
            assert dense_beta(n0, n1, m, limit) < epsilon, (n0, n1, m)
        slack = 1.05 * TOLERANCE * hoeffding_radius(n0, n1, epsilon)
        assert dense_beta(n0, n1, m, limit - slack) >= epsilon * (1 - 1e-6), (n0, n1, m)


@pytest.mark.parametrize("epsilon", [LARGEST_EPSILON, 0.3, 1e-4])
@pytest.mark.parametrize(("n0", "n1", "m"), [(7, 3, 5), (3, 8, -4), (8, 8, 16), (20, 300, 900), (40, 9, -200)])
def test_other_levels_and_negative_differences(n0, n1, m, epsilon):
    limit = difference_limit(n0, n1, m, epsilon)
    if limit < 1.0:
        assert dense_beta(n0, n1, m, limit) < epsilon
    slack = 1.05 * TOLERANCE * hoeffding_radius(n0, n1, epsilon)
    assert dense_beta(n0, n1, m, limit - slack) >= epsilon * (1 - 1e-6)


def test_supremum_at_the_edge_of_the_nuisance():
    # The symmetric point alone would give 0.3352 here: a search that stops there is unsound.
    assert 0.3437 <= difference_limit(20, 300, 900, 0.05) <= 0.3437 + 0.01 * hoeffding_radius(20, 300, 0.05)


@pytest.mark.parametrize("n", [1, 2, 10, 137, 1_000, 16_500, 250_000, 3_000_000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.95])
@pytest.mark.parametrize("epsilon", [0.05, 0.05 / 171])
def test_closed_form_for_equal_groups(n, share, epsilon):
    """Hoeffding (1956): for n0 = n1 the limit is 2U − 1, U of Clopper and Pearson for n + M/n of 2n."""
    successes = n + int(share * n)
    closed = 2 * beta.ppf(1 - epsilon, successes + 1, 2 * n - successes) - 1 if successes < 2 * n else 1.0
    limit = difference_limit(n, n, (successes - n) * n, epsilon)
    assert closed - 1e-12 <= limit <= closed + 1.02 * TOLERANCE * hoeffding_radius(n, n, epsilon)


sizes = st.integers(1, 3_000)
shares = st.integers(0, 10**6).map(lambda i: i / 10**6)
levels = st.sampled_from([0.2, 0.05, 0.001])


@settings(deadline=None, max_examples=150)
@given(sizes, sizes, st.floats(-1, 1), levels)
def test_between_the_estimate_and_hoeffding(n0, n1, difference, epsilon):
    m = int(difference * n0 * n1)
    limit = difference_limit(n0, n1, m, epsilon)
    assert min(1.0, m / (n0 * n1)) <= limit <= min(1.0, m / (n0 * n1) + hoeffding_radius(n0, n1, epsilon)) + 1e-9


@settings(deadline=None, max_examples=60)
@given(sizes, sizes, st.floats(-0.9, 0.9), st.integers(1, 10**6))
def test_monotone_in_the_statistic_and_in_epsilon(n0, n1, difference, step):
    m = int(difference * n0 * n1)
    slack = TOLERANCE * hoeffding_radius(n0, n1, 0.05)
    assert difference_limit(n0, n1, m, 0.05) <= difference_limit(n0, n1, m + step, 0.05) + slack
    assert difference_limit(n0, n1, m, 0.05) <= difference_limit(n0, n1, m, 0.01) + slack


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 60), st.integers(1, 60), shares, shares, st.integers(-400, 400))
def test_tail_bounds_are_above_the_tail(n0, n1, a, b, m):
    x, y = np.arange(n0 + 1), np.arange(n1 + 1)
    joint = np.outer(binom.pmf(x, n0, a), binom.pmf(y, n1, b))
    tail = joint[n1 * x[:, None] - n0 * y[None, :] <= m].sum()
    quotient, remainder = divmod(m, n1)
    log_inverse = math.log(4.0 / (1e-5 * 0.05))
    summed = exact._summed_tail(n0, n1, quotient, remainder, a, b, log_inverse)
    assert tail - 1e-12 <= summed <= tail + 4 * math.exp(-log_inverse) + 1e-9
    tilted = exact._tilted_tail(n0, n1, math.nextafter(m / (n0 * n1), 2), a, b)
    assert tilted >= tail - 1e-12


def test_tail_in_exact_arithmetic():
    """The compiled sum against rational numbers."""
    n0, n1, m, a, b = 30, 17, 44, Fraction(7, 16), Fraction(3, 16)

    def pmf(n, p):
        return [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)]

    pa, pb = pmf(n0, a), pmf(n1, b)
    tail = sum(pa[x] * pb[y] for x in range(n0 + 1) for y in range(n1 + 1) if n1 * x - n0 * y <= m)
    summed = exact._summed_tail(n0, n1, *divmod(m, n1), float(a), float(b), 60.0)
    assert summed == pytest.approx(float(tail), rel=1e-11)
    assert summed >= float(tail)


@pytest.mark.parametrize(("n0", "n1"), [(10**6, 10**6 + 1), (10**9, 10**7), (2**33, 2**34), (2**50, 2**51)])
def test_large_samples_follow_the_normal_law(n0, n1):
    """No overflow beyond 64 bits, and the width that the central limit theorem promises."""
    m = n0 * n1 // 20
    limit = difference_limit(n0, n1, m, 0.05)
    sd = math.sqrt(max(b * (1 - b) / n1 + (b + 0.05) * (0.95 - b) / n0 for b in np.linspace(0, 0.95, 2001)))
    assert 1.6449 * sd * 0.999 <= limit - 0.05 <= 1.6449 * sd * 1.02 + 1.1e-6


def test_statistic_does_not_overflow():
    n0, n1, m = statistic(np.array([[2**40, 1], [1, 2**40]], dtype=np.int64))
    assert (n0, n1, m) == (2**40 + 1, 2**40 + 1, (2**40 + 1) * (2**40 - 1))


# -- item 8: the range of ε, and the arithmetic at its edges ---------------------------------------------------------


def rational_tail(n0, n1, m, a, b):
    """P(n1·X − n0·Y ≤ m) as a fraction: no rounding anywhere."""

    def weights(n, p):
        return [math.comb(n, i) * p.numerator**i * (p.denominator - p.numerator) ** (n - i) for i in range(n + 1)]

    a, b = Fraction(a), Fraction(b)
    below = [0]
    for weight in weights(n0, a):
        below.append(below[-1] + weight)
    total = 0
    for y, weight in enumerate(weights(n1, b)):
        threshold = (m + y * n0) // n1
        total += weight * below[min(max(threshold, -1), n0) + 1]
    return Fraction(total, a.denominator**n0 * b.denominator**n1)


@pytest.mark.parametrize("epsilon", [0.0, 9e-101, 0.51, 0.9, 1.0, float("nan")])
def test_item_8_levels_outside_the_proved_range_are_refused(epsilon):
    for call in (lambda: difference_limit(50, 50, 100, epsilon), lambda: hoeffding_radius(50, 50, epsilon)):
        with pytest.raises(ConfidenceError, match="proved for ε from 1e-100 to 0.5"):
            call()
    with pytest.raises(ArgumentError, match="a record of each group"):
        difference_limit(0, 5, 0, 0.05)


@pytest.mark.parametrize("epsilon", [SMALLEST_EPSILON, 1e-60, 1e-17, 1e-4, LARGEST_EPSILON])
@pytest.mark.parametrize(("n0", "n1", "share"), [(300, 300, 0.1), (900, 60, -0.05), (40, 700, 0.3), (33, 20, 0.0)])
def test_item_8_limits_at_the_edges_of_the_range(n0, n1, share, epsilon):
    """No b contradicts the limit; some b refutes one that is lower by the documented accuracy."""
    m = int(share * n0 * n1)
    limit = difference_limit(n0, n1, m, epsilon)
    if limit < 1.0:
        assert dense_beta(n0, n1, m, limit, points=801) < epsilon
    slack = 1.01 * max(TOLERANCE * hoeffding_radius(n0, n1, epsilon), FINEST) + 1e-11
    assert dense_beta(n0, n1, m, limit - slack, points=801) >= 0.9999 * epsilon


@pytest.mark.parametrize("epsilon", [1e-12, LARGEST_EPSILON])
def test_item_8_limits_in_exact_arithmetic(epsilon):
    n0, n1, m = 60, 40, 300
    limit = difference_limit(n0, n1, m, epsilon)
    for i in range(9):
        b = Fraction(1 - limit) * i / 8
        assert rational_tail(n0, n1, m, b + Fraction(limit), b) < Fraction(epsilon)


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(0, 1) | st.floats(0, 53).map(lambda e: 1 - 2.0**-e) | st.floats(0, 300).map(lambda e: 2.0**-e),
    st.floats(0, 1) | st.floats(0, 53).map(lambda e: 1 - 2.0**-e) | st.floats(0, 300).map(lambda e: 2.0**-e),
    st.floats(-1, 1),
    st.sampled_from([SMALLEST_EPSILON, 1e-16, 0.05, LARGEST_EPSILON]),
)
def test_item_8_tails_with_shares_close_to_0_and_1(n0, n1, a, b, share, epsilon):
    """Weights overflowed there, and the closed form lost its digits: both said 0 where the tail was not."""
    m = int(share * n0 * n1)
    tail = rational_tail(n0, n1, m, a, b)
    log_inverse = math.log(4e5) - math.log(epsilon)
    summed = exact._summed_tail(n0, n1, *divmod(m, n1), a, b, log_inverse)
    assert tail <= Fraction(summed)
    assert summed <= float(tail) * (1 + 1e-9) + 1.01e-5 * epsilon
    tilted = Fraction(exact._tilted_tail(n0, n1, math.nextafter(m / (n0 * n1), 2), a, b))
    assert tilted >= min(tail, 1) or tail < Fraction(1e-300)


@pytest.mark.parametrize(
    ("n0", "n1", "m", "epsilon", "was"),
    [(400, 700, -128_696, 1e-75, 0.10674), (800, 700, -229_895, 1e-90, 0.09379), (800, 700, -157_728, 1e-95, 0.22926)],
)
def test_item_8_limits_that_were_too_low(n0, n1, m, epsilon, was):
    assert dense_beta(n0, n1, m, was, points=401) >= epsilon
    limit = difference_limit(n0, n1, m, epsilon)
    assert was < limit
    assert dense_beta(n0, n1, m, limit, points=401) < epsilon


def test_item_8_a_closed_form_that_lost_its_digits():
    tail = rational_tail(1, 30, 0, 1.0, 0.8912775005972731)
    assert float(tail) == pytest.approx(0.0317, abs=1e-4)
    assert exact._tilted_tail(1, 30, math.nextafter(0.0, 2), 1.0, 0.8912775005972731) >= tail


def test_item_8_confidence_becomes_epsilon_as_it_is_written():
    assert epsilon_at(0.95) == 0.05
    assert epsilon_at(0.99999996) == 4e-8
    assert epsilon_at(0.5) == 0.5
    assert epsilon_at(1 - 2**-53) == 1e-16
    for confidence in (0.49, 0.000001, 0.0, 1.0, True, "0.95", float("nan")):
        with pytest.raises(ConfidenceError):
            epsilon_at(confidence)
