"""The exact limit against brute force, closed forms and its own monotonicity."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr
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
from certifare.errors import ArgumentError


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


@given(sizes, sizes, shares, shares, levels)
def test_between_the_estimate_and_hoeffding(n0, n1, first, second, epsilon):
    """For every statistic that records can have; one that they cannot have stands for the largest below it."""
    x, y = round(first * n0), round(second * n1)
    m = n1 * x - n0 * y
    limit = difference_limit(n0, n1, m, epsilon)
    radius = hoeffding_radius(n0, n1, epsilon)
    assert m / (n0 * n1) <= limit <= min(1.0, m / (n0 * n1) + radius) + 1e-11
    # All statistics are multiples of the greatest common divisor, so the event M ≤ m is the same up to the next.
    between = min(m + math.gcd(n0, n1) - 1, n0 * n1 - 1)
    if between > m:
        slack = 1.01 * max(TOLERANCE * radius, FINEST)
        assert difference_limit(n0, n1, between, epsilon) == pytest.approx(limit, abs=slack)


def test_a_statistic_that_no_records_have_may_lie_above_its_limit():
    """With 5 and 5 records M is a multiple of 5. Of M ≤ 24 nobody learns more than of M ≤ 20: U = 2·0.8^(1/10) − 1."""
    closed = 2 * 0.8**0.1 - 1
    for m in (20, 24):
        limit = difference_limit(5, 5, m, 0.2)
        assert closed <= limit <= closed + 1.01 * TOLERANCE * hoeffding_radius(5, 5, 0.2)
        assert limit < 24 / 25
    assert difference_limit(5, 5, 25, 0.2) == 1.0


@given(sizes, sizes, st.floats(-0.9, 0.9), st.integers(1, 10**6))
def test_monotone_in_the_statistic_and_in_epsilon(n0, n1, difference, step):
    m = int(difference * n0 * n1)
    slack = TOLERANCE * hoeffding_radius(n0, n1, 0.05)
    assert difference_limit(n0, n1, m, 0.05) <= difference_limit(n0, n1, m + step, 0.05) + slack
    assert difference_limit(n0, n1, m, 0.05) <= difference_limit(n0, n1, m, 0.01) + slack


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
    assert summed == pytest.approx(float(tail), rel=1e-11, abs=0.0)
    assert summed >= float(tail)


@pytest.mark.parametrize(("n0", "n1"), [(10**6, 10**6 + 1), (10**9, 10**7), (2**33, 2**34), (2**50, 2**51)])
def test_large_samples_follow_the_normal_law(n0, n1):
    """No overflow beyond 64 bits, and the width that the central limit theorem promises."""
    m = n0 * n1 // 20
    limit = difference_limit(n0, n1, m, 0.05)
    sd = math.sqrt(max(b * (1 - b) / n1 + (b + 0.05) * (0.95 - b) / n0 for b in np.linspace(0, 0.95, 2001)))
    assert 1.6449 * sd * 0.999 <= limit - 0.05 <= 1.6449 * sd * 1.02 + 1.1e-6


def test_tails_are_summed_for_up_to_two_billion_records():
    """Five records of a group are too few for the closed form, which decides alone beyond."""
    limits = [difference_limit(n, 5, 5 * (n // 2) - 2 * n, 0.05) for n in (2**20, 2**31, 2**31 + 1)]
    assert limits[1] == pytest.approx(limits[0], abs=0.01)
    assert limits[2] > limits[1] + 0.05


def test_statistic_does_not_overflow():
    n0, n1, m = statistic(np.array([[2**40, 1], [1, 2**40]], dtype=np.int64))
    assert (n0, n1, m) == (2**40 + 1, 2**40 + 1, (2**40 + 1) * (2**40 - 1))


# -- The range of ε, and the arithmetic at its edges ------------------------------------------------------------------


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
def test_levels_outside_the_proved_range_are_refused(epsilon):
    for call in (lambda: difference_limit(50, 50, 100, epsilon), lambda: hoeffding_radius(50, 50, epsilon)):
        with pytest.raises(ArgumentError, match="proved for ε from 1e-100 to 0.5"):
            call()
    with pytest.raises(ArgumentError, match="a record of each group"):
        difference_limit(0, 5, 0, 0.05)


@pytest.mark.parametrize("epsilon", [SMALLEST_EPSILON, 1e-60, 1e-17, 1e-4, LARGEST_EPSILON])
@pytest.mark.parametrize(("n0", "n1", "share"), [(300, 300, 0.1), (900, 60, -0.05), (40, 700, 0.3), (33, 20, 0.0)])
def test_limits_are_sound_and_tight_at_the_edges_of_the_range(n0, n1, share, epsilon):
    """No b contradicts the limit; some b refutes one that is lower by the documented accuracy."""
    m = int(share * n0 * n1)
    limit = difference_limit(n0, n1, m, epsilon)
    if limit < 1.0:
        assert dense_beta(n0, n1, m, limit, points=801) < epsilon
    slack = 1.01 * max(TOLERANCE * hoeffding_radius(n0, n1, epsilon), FINEST) + 1e-11
    assert dense_beta(n0, n1, m, limit - slack, points=801) >= 0.9999 * epsilon


@pytest.mark.parametrize("epsilon", [1e-12, LARGEST_EPSILON])
def test_limits_hold_in_exact_arithmetic(epsilon):
    n0, n1, m = 60, 40, 300
    limit = difference_limit(n0, n1, m, epsilon)
    for i in range(9):
        b = Fraction(1 - limit) * i / 8
        assert rational_tail(n0, n1, m, b + Fraction(limit), b) < Fraction(epsilon)


@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(0, 1) | st.floats(0, 53).map(lambda e: 1 - 2.0**-e) | st.floats(0, 300).map(lambda e: 2.0**-e),
    st.floats(0, 1) | st.floats(0, 53).map(lambda e: 1 - 2.0**-e) | st.floats(0, 300).map(lambda e: 2.0**-e),
    st.floats(-1, 1),
    st.sampled_from([SMALLEST_EPSILON, 1e-16, 0.05, LARGEST_EPSILON]),
)
def test_tails_are_bounded_from_above_with_shares_close_to_0_and_1(n0, n1, a, b, share, epsilon):
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
def test_limits_are_not_too_low_at_very_small_epsilon(n0, n1, m, epsilon, was):
    assert dense_beta(n0, n1, m, was, points=401) >= epsilon
    limit = difference_limit(n0, n1, m, epsilon)
    assert was < limit
    assert dense_beta(n0, n1, m, limit, points=401) < epsilon


def test_the_closed_form_keeps_its_digits():
    tail = rational_tail(1, 30, 0, 1.0, 0.8912775005972731)
    assert float(tail) == pytest.approx(0.0317, abs=1e-4)
    assert exact._tilted_tail(1, 30, math.nextafter(0.0, 2), 1.0, 0.8912775005972731) >= tail


def test_confidence_becomes_epsilon_as_it_is_written():
    assert epsilon_at(0.95) == 0.05
    assert epsilon_at(0.99999996) == 4e-8
    assert epsilon_at(0.5) == 0.5
    assert epsilon_at(1 - 2**-53) == 1e-16
    for confidence in (0.49, 0.000001, 0.0, 1.0, True, "0.95", float("nan")):
        with pytest.raises(ArgumentError):
            epsilon_at(confidence)


# -- the proof at one difference, and its margins ---------------------------------------------------------------------


@cache
def root_of_beta(n0, n1, m, epsilon):
    """The difference at which the largest tail over a dense grid of b is ε."""
    low, high = max(-1.0, m / (n0 * n1) - 1.0), 1.0
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if dense_beta(n0, n1, m, middle, points=1001) >= epsilon else (low, middle)
    return low


SMALL = [(3, 8, -4), (7, 3, 5), (8, 8, 16), (20, 30, 120), (12, 1, 4), (1, 9, -3), (20, 90, 270), (40, 9, -200)]


@pytest.mark.parametrize("epsilon", [LARGEST_EPSILON, 0.05, 1e-4])
@pytest.mark.parametrize(("n0", "n1", "m"), SMALL)
def test_a_proof_succeeds_just_where_no_b_of_a_dense_grid_contradicts_it(n0, n1, m, epsilon):
    """Above the exact limit by three of the narrowest intervals, and nowhere below it."""
    exact_limit = root_of_beta(n0, n1, m, epsilon)
    log_inverse = math.log(4e5) - math.log(epsilon)
    r = math.nextafter(m / (n0 * n1), 2)

    def proves(d, narrowest, summed=True):
        return exact._proves(n0, n1, *divmod(m, n1), r, d, epsilon, log_inverse, narrowest, summed)

    for below in (1e-6, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.4):
        for narrowest in (1e-4, 1e-2):
            assert not proves(max(exact_limit - below, -1.0), narrowest)
            assert not proves(max(exact_limit - below, -1.0), narrowest, summed=False)
    for narrowest in (1e-2, 1e-3, 1e-4):
        if exact_limit + 3 * narrowest < 1.0:
            assert proves(exact_limit + 3 * narrowest, narrowest)


@pytest.mark.parametrize(("n0", "n1"), [(30, 1), (1, 30)])
def test_a_proof_covers_every_b(n0, n1):
    """The tail reaches ε at one end of the range of b alone: an interval that a proof left out would be that one."""
    d = 0.9  # P(M ≤ 0) is about b, or about 1 − a
    assert dense_beta(n0, n1, 0, d) == pytest.approx(0.1)
    assert dense_beta(n0, n1, 0, d, points=3) == pytest.approx(0.1)
    for epsilon, proved in ((0.0999, False), (0.1001, True)):
        log_inverse = math.log(4e5) - math.log(epsilon)
        assert exact._proves(n0, n1, 0, 0, math.nextafter(0.0, 2), d, epsilon, log_inverse, 1e-6, True) is proved


@pytest.mark.parametrize("epsilon", [0.2, 0.05, 1e-3])
@pytest.mark.parametrize(("n0", "n1", "m"), SMALL)
def test_a_refutation_is_a_tail_of_at_least_epsilon(n0, n1, m, epsilon):
    exact_limit = root_of_beta(n0, n1, m, epsilon)
    log_inverse = math.log(4e5) - math.log(epsilon)
    for below in (0.005, 0.02, 0.1, 0.4):
        assert exact._refutes(n0, n1, *divmod(m, n1), max(exact_limit - below, -1.0), epsilon, log_inverse)
    for above in (1e-5, 0.01, 0.1):
        assert not exact._refutes(n0, n1, *divmod(m, n1), min(exact_limit + above, 1.0), epsilon, log_inverse)


@pytest.mark.parametrize(
    ("n", "p", "log_inverse"), [(40, 0.3, 12.0), (900, 0.02, 30.0), (7, 0.5, 3.0), (50, 0.97, 20.0)]
)
def test_a_window_leaves_out_no_more_than_it_says(n, p, log_inverse):
    """By Bernstein's inequality, and no wider than that needs, but for two on either side."""
    first, last = exact._window(n, p, log_inverse)
    outside = binom.cdf(first - 1, n, p) + binom.sf(last, n, p)
    assert outside <= 2 * math.exp(-log_inverse)
    variance = n * p * (1 - p)
    # The smallest t with t² / (2·variance + 2t/3) ≥ log_inverse.
    reach = log_inverse / 3 + math.sqrt(log_inverse**2 / 9 + 2 * variance * log_inverse)
    assert reach**2 / (2 * variance + 2 * reach / 3) == pytest.approx(log_inverse)
    assert (first, last) == (max(0, int(n * p - reach) - 2), min(n, int(n * p + reach) + 2))


def test_what_the_windows_leave_out_and_every_rounding_is_added():
    """The sum over windows that cut off much is above the tail, by four times what each end may leave out."""
    n0, n1, m, a, b = 200, 150, 3000, Fraction(5, 8), Fraction(3, 8)
    tail = rational_tail(n0, n1, m, a, b)
    for log_inverse in (1.0, 3.0, 8.0, 40.0):
        summed = exact._summed_tail(n0, n1, *divmod(m, n1), float(a), float(b), log_inverse)
        assert Fraction(summed) >= tail
        assert summed <= 1.0 + 4 * math.exp(-log_inverse)
    # Where windows hold everything, what is added is the margin for roundings alone, and four times exp(−log_inverse).
    steps = n0 + n1
    margin = 1.0 + (steps + 16) * 2.0**-48
    assert summed == pytest.approx(float(tail) * margin + 4 * math.exp(-40.0), rel=steps * 2.0**-50, abs=0.0)
    assert summed > float(tail) * (1 + steps * 2.0**-49)


def tilted_tail(n0, n1, r, a, b):
    """θ and the closed form in 60 digits: Newton's steps, normal law, Berry–Esseen theorem, margins for roundings."""
    with localcontext() as context:
        context.prec = 60
        a, b, r = Decimal(a), Decimal(b), Decimal(r)
        theta, means, variances = Decimal(0), (a, b), (a * (1 - a), b * (1 - b))
        for _ in range(3):
            theta += (means[0] - means[1] - r) / (variances[0] / n0 + variances[1] / n1)
            tilted = [a * (-theta / n0).exp(), b * (theta / n1).exp()]
            means = (tilted[0] / (1 - a + tilted[0]), tilted[1] / (1 - b + tilted[1]))
            variances = tuple(mean * (1 - mean) for mean in means)
        exponent = n0 * (1 - a + tilted[0]).ln() + n1 * (1 - b + tilted[1]).ln() + theta * r
        variance = variances[0] / n0 + variances[1] / n1
        sigma = variance.sqrt()
        gap = (r - (means[0] - means[1])) / sigma
        x = theta * sigma - gap
        # E'[exp(θ(R − r)); R ≤ r] with a normal R of the tilted mean and variance; far out, by Mills' ratio.
        if x > 20:
            normal = (-gap * gap / 2).exp() / (x * (2 * Decimal(math.pi)).sqrt())
        else:
            normal = (theta * sigma * (theta * sigma - 2 * gap) / 2 + Decimal(float(log_ndtr(-float(x))))).exp()
        third = sum(v * (1 - 2 * v) / n**2 for v, n in zip(variances, (n0, n1), strict=True))
        expected = normal + 2 * Decimal("0.56") * third / sigma**3
        margins = Decimal(2) ** -44 / sigma, theta * Decimal(2) ** -47 + Decimal("1e-9")
        bare = exponent.exp() * min(Decimal(1), expected)
        return theta, float(bare), float((exponent + margins[1]).exp() * min(Decimal(1), expected + margins[0]))


@pytest.mark.parametrize(
    ("n0", "n1", "r", "a", "b"),
    [
        (4000, 9000, 0.05, 0.56, 0.48),
        (100_000, 20_000, 0.10, 0.35, 0.235),
        (500, 500, -0.2, 0.3, 0.4),
        (10**7, 10**8, 0.02, 0.5205, 0.5),
        (10**12, 3 * 10**12, 0.1, 0.300001, 0.2),
        (10**9, 10**15, 0.1, 0.30001, 0.2),
        (3000, 3000, 0.7, 0.97, 0.2),
        (60, 90, 0.1, 0.6, 0.2),
        (10_000, 10_000, 0.0, 0.57, 0.43),
        (10_000, 10_000, 0.0, 0.576, 0.424),
        (300, 300, 0.2, 0.9, 0.1),  # far out, and Newton's steps have not arrived
    ],
)
def test_the_closed_form_in_many_digits(n0, n1, r, a, b):
    """Above the formula, and equal to the formula with what theory adds for roundings."""
    theta, bare, expected = tilted_tail(n0, n1, r, a, b)
    found = exact._tilted_tail(n0, n1, r, a, b)
    assert 0.0 < bare < found < 0.7
    assert found == pytest.approx(expected, rel=2e-11 + float(theta) * 2**-50, abs=0.0)


@pytest.mark.parametrize(("gap", "far"), [(0.139, False), (0.142, True)])
def test_the_closed_form_on_both_sides_of_where_the_normal_law_is_bounded(gap, far):
    """Beyond 20 standard deviations Mills' ratio takes over, which is larger by one part in 400."""
    n = 10_000
    theta, _, expected = tilted_tail(n, n, 0.0, 0.5 + gap / 2, 0.5 - gap / 2)
    assert (float(theta) * math.sqrt(2 * 0.25 / n) > 20) is far
    assert exact._tilted_tail(n, n, 0.0, 0.5 + gap / 2, 0.5 - gap / 2) == pytest.approx(expected, rel=1e-10, abs=0.0)


@pytest.mark.parametrize(
    ("place", "tail"),
    [
        # The tilt is 29.2 a record: the normal law is bounded. At 31.3 it is Chernoff's bound, which would be lowered.
        ((5, 3, -0.011978585752351112, 0.99999989540866, 0.0335087038091155), 0.041185928427801374),
        ((50, 2, -0.7516696126540575, 0.5597127516385216, 0.642542188408846), 1.9342084459107092e-05),
    ],
)
def test_the_normal_law_is_bounded_up_to_a_tilt_of_thirty_a_record(place, tail):
    assert exact._tilted_tail(*place) == pytest.approx(tail, rel=1e-9, abs=0.0)


def test_the_limit_of_a_difference_of_minus_one_is_near_it():
    assert -1.0 < difference_limit(10**5, 10**5, -(10**10), 0.05) < -0.999


@pytest.mark.parametrize(("n0", "n1", "epsilon"), [(5, 5, 0.2), (30, 900, 0.05), (10**6, 3, 1e-20)])
def test_the_radius_of_hoeffding(n0, n1, epsilon):
    expected = math.sqrt((1 / n0 + 1 / n1) * math.log(1 / epsilon) / 2)
    assert expected + 0.99e-12 <= hoeffding_radius(n0, n1, epsilon) <= expected + 1.01e-12


@pytest.mark.parametrize(
    ("p", "tilt"), [(0.3, 0.2), (0.3, -0.2), (0.999, -30.0), (1.0, -800.0), (0.2, 5.0), (1.0, -3.0), (0.6, -1.5)]
)
def test_the_logarithm_of_a_mean_in_many_digits(p, tilt):
    with localcontext() as context:
        context.prec = 400
        expected = float((1 - Decimal(p) + Decimal(p) * Decimal(tilt).exp()).ln())
    assert exact._log_mean(p, tilt) == pytest.approx(expected, rel=1e-14, abs=0.0)
    assert exact._log_mean(1.0, tilt) >= min(tilt, 0.0)
