"""The exact upper confidence limit for a difference of two binomial proportions.

One question carries every claim of the package. X ~ Bin(n0, a) and Y ~ Bin(n1, b) are independent, b is
unknown, and the integer M = n1·X − n0·Y was observed. Which values of the difference d = a − b are compatible
with a statistic as small as M? With

    β(d) = sup over b of P(n1·X − n0·Y ≤ M),   a = b + d,

the limit is U = sup {d : β(d) ≥ ε}, and P(d > U) ≤ ε whatever b is. The proof, and why the plug-in total
variation distance may stand in for M, is in ``docs/theory.md``.

:func:`difference_limit` returns a number that is never below U, for every ε from ``SMALLEST_EPSILON`` to
``LARGEST_EPSILON``; others are refused. It looks for the smallest d at which β(d) < ε can be *proved*. The proof
covers the range of b by intervals [lo, hi]: the tail falls in a and rises in b, so over the interval it is at most its
value at the corner a = lo + d, b = hi. Two upper bounds of such a tail serve:

*tilted*: a closed form (exponential change of measure and the Berry–Esseen theorem), sharp for large samples;
*summed*: the sum itself, for all others.

Every approximation inside is an upper bound of the tail: what is cut off is added, and roundings are covered by
a margin (``docs/theory.md`` has the account). So an unfinished search yields a larger limit, never a smaller one.
"""

import math
from decimal import Decimal
from functools import lru_cache

from certifare.errors import ArgumentError
from certifare.foundation.compiler import kernel

#: The levels ε for which the arithmetic below is proved to round to the safe side. A bound at a smaller one would
#: cost 15 radii and more; one at a larger would fail more often than it holds.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-100, 0.5
#: The search stops when the limit is known to this share of the Hoeffding radius …
TOLERANCE = 0.01
#: … or to this much, which only matters beyond a billion records.
FINEST = 1e-6
#: Above this many records in a group tails are not summed; the closed form decides alone.
MAX_TAIL_RECORDS = 2**31
#: The constant of the Berry–Esseen theorem for independent summands of different distributions (Shevtsova 2010).
BERRY_ESSEEN = 0.5600
#: Share of ε that the summation windows may leave out (and add back).
_CUT_OFF = 1e-5
#: Covers the rounding of a + b, of the reported limit itself, and of sums and means of a few limits.
_ROUNDING = 1e-12
#: Weights are scaled down by this when they exceed its inverse: the largest product of two sums stays below 2⁶⁵⁰.
_SCALE = 2.0**-200
#: Beyond this many standard deviations the normal tail is bounded by Mills' ratio, lest its factors overflow.
_FAR = 20.0
#: A record's tilt above which the tilted law is not computed; Chernoff's bound needs none.
_STEEP = 30.0


def check_epsilon(epsilon: float) -> float:
    """Refuse a level for which the computation is not proved."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ArgumentError(
            f"A bound at ε = {epsilon:.3g} was asked for; bounds are proved for ε from {SMALLEST_EPSILON:g} to "
            f"{LARGEST_EPSILON:g}. "
            + (
                "Lower the confidence, or let fewer encoders, labels or classes share it."
                if epsilon < SMALLEST_EPSILON
                else "Ask for a confidence of at least 0.5."
            )
        )
    return epsilon


def epsilon_at(confidence: float) -> float:
    """ε = 1 − confidence, as people write it: 0.05 for 0.95, without the noise of the subtraction.

    The last rounding is covered by the margins of the bounds.
    """
    if isinstance(confidence, bool) or not (isinstance(confidence, int | float) and 0.0 < confidence < 1.0):
        share = isinstance(confidence, int | float) and 1.0 < confidence < 100.0
        meant = f" Did you mean {confidence / 100:g}?" if share else ""
        raise ArgumentError(f"Confidence {confidence}: give a number between 0 and 1, such as 0.95.{meant}")
    return check_epsilon(float(1 - Decimal(repr(float(confidence)))))


def hoeffding_radius(n0: int, n1: int, epsilon: float) -> float:
    """Half-width √((1/n0 + 1/n1)·ln(1/ε)/2) of Hoeffding's inequality for X/n0 − Y/n1, rounded up.

    Parameters
    ----------
    n0, n1 : int
        Numbers of records in the two groups, at least 1.
    epsilon : float
        The probability with which the difference may exceed its mean by more, from 1e-100 to 0.5.
    """
    return _radius(n0, n1, -math.log(check_epsilon(epsilon)))


def _radius(n0: int, n1: int, log_inverse: float) -> float:
    return math.sqrt((1.0 / n0 + 1.0 / n1) * log_inverse / 2.0) + _ROUNDING


def difference_limit(n0: int, n1: int, m: int, epsilon: float) -> float:
    """Upper confidence limit of a − b at level ε, from the observed m = n1·x − n0·y.

    Parameters
    ----------
    n0, n1 : int
        Numbers of records in the two groups, at least 1.
    m : int
        The statistic n1·x − n0·y, a Python integer (it exceeds 64 bits for large samples).
    epsilon : float
        The probability with which the limit may fail, from 1e-100 to 0.5.

    Returns
    -------
    float
        A number in [−1, 1] that is at least the exact limit U(ε). With up to 2³¹ records in each group it exceeds
        U(0.9999·ε) by at most 1.01 × the larger of ``TOLERANCE`` × :func:`hoeffding_radius` and ``FINEST``.

    Raises
    ------
    ArgumentError
        ε is outside the range for which the computation is proved.

    Examples
    --------
    >>> round(difference_limit(20, 300, 900, 0.05), 3)
    0.345
    """
    n0, n1, m = int(n0), int(n1), int(m)
    if min(n0, n1) < 1 or m < -n0 * n1:
        raise ArgumentError(f"n0={n0}, n1={n1}, m={m}: a difference needs a record of each group, and lies above −1.")
    radius = hoeffding_radius(n0, n1, epsilon)
    if m >= n0 * n1:
        return 1.0
    quotient, remainder = divmod(m, n1)
    observed = math.nextafter(m / (n0 * n1), 2.0)
    # Hoeffding's inequality from the other side: this difference and all smaller ones have β ≥ ε.
    compatible = max(-1.0, observed - _radius(n0, n1, -math.log1p(-epsilon)))
    limit: float = _search(n0, n1, quotient, remainder, observed, compatible, epsilon, radius)
    return min(1.0, limit + _ROUNDING)


@kernel
def _window(n: int, p: float, log_inverse: float) -> tuple[int, int]:
    """Smallest and largest value of Bin(n, p) outside of which Bernstein leaves at most 2·exp(−log_inverse)."""
    mean = n * p
    reach = log_inverse / 3.0 + math.sqrt(log_inverse**2 / 9.0 + 2.0 * mean * (1.0 - p) * log_inverse)
    return max(0, int(mean - reach) - 2), min(n, int(mean + reach) + 2)


@kernel
def _summed_tail(n0: int, n1: int, quotient: int, remainder: int, a: float, b: float, log_inverse: float) -> float:
    """Upper bound of P(n1·X − n0·Y ≤ quotient·n1 + remainder), X ~ Bin(n0, a), Y ~ Bin(n1, b).

    Weights of both binomials follow from their neighbour by a ratio, and are normalised by their sums over the
    windows (at least as small as the full sums, so probabilities come out no smaller). For each y the event is
    X ≤ ⌊(M + y·n0)/n1⌋, a threshold that moves up with y, so that one pass over both windows suffices. A window
    may span more than the range of floating-point numbers: then all that was summed is scaled down with the weight.
    """
    y_first, y_last = _window(n1, b, log_inverse)
    x_first, x_last = _window(n0, a, log_inverse)
    if b <= 0.0 or b >= 1.0:
        y_first = y_last = 0 if b <= 0.0 else n1
    if a <= 0.0 or a >= 1.0:
        x_first = x_last = 0 if a <= 0.0 else n0

    step, step_remainder = n0 // n1, n0 % n1
    carried = remainder + y_first * step_remainder  # below n1², so it fits for n1 <= MAX_TAIL_RECORDS
    threshold = quotient + y_first * step + carried // n1
    carried = carried % n1

    odds_a = a / (1.0 - a) if a < 1.0 else 0.0
    odds_b = b / (1.0 - b) if b < 1.0 else 0.0
    x, weight_x, sum_x = x_first, 1.0, 1.0
    below = 0.0  # the weight of X ≤ threshold, within the window
    weight_y, sum_y, total = 1.0, 0.0, 0.0
    for y in range(y_first, y_last + 1):
        if threshold >= x_first:
            while x < threshold and x < x_last:
                weight_x *= (n0 - x) * odds_a / (x + 1)
                sum_x += weight_x
                x += 1
                if weight_x * _SCALE > 1.0:
                    weight_x *= _SCALE
                    sum_x *= _SCALE
                    total *= _SCALE
            below = sum_x
        sum_y += weight_y
        total += weight_y * below
        weight_y *= (n1 - y) * odds_b / (y + 1)
        if weight_y * _SCALE > 1.0:
            weight_y *= _SCALE
            sum_y *= _SCALE
            total *= _SCALE
        threshold += step
        carried += step_remainder
        if carried >= n1:
            carried -= n1
            threshold += 1
    while x < x_last:
        weight_x *= (n0 - x) * odds_a / (x + 1)
        sum_x += weight_x
        x += 1
        if weight_x * _SCALE > 1.0:
            weight_x *= _SCALE
            sum_x *= _SCALE
            total *= _SCALE

    # At most 5 roundings of 2⁻⁵³ a step in each weight and sum; 2⁻⁴⁸ a step is a safe margin for their quotient. What
    # underflowed is less than 2⁻⁹⁰⁰ of it, far below the mass that the windows leave out, which is added.
    margin = 1.0 + (y_last - y_first + x_last - x_first + 16) * 2.0**-48
    tail: float = total / (sum_x * sum_y) * margin + 4.0 * math.exp(-log_inverse)
    return tail


@kernel
def _log_mean(p: float, tilt: float) -> float:
    """Logarithm of E[exp(tilt·B)] = 1 − p + p·exp(tilt) for a Bernoulli variable B, accurate however far it is tilted.

    Near 1 it takes log1p and expm1; far below 1, where those cancel, a sum of two positive terms. It is never below
    ``tilt`` where that is negative, not even where the exponential underflows.
    """
    mean = (1.0 - p) + p * math.exp(tilt)
    if mean < 0.5:
        return max(math.log(mean), tilt)
    return math.log1p(p * math.expm1(tilt))


@kernel
def _tilted_tail(n0: int, n1: int, r: float, a: float, b: float) -> float:
    """Upper bound of P(R ≤ r) for R = X/n0 − Y/n1 and r below its mean, in closed form.

    For every θ > 0, P(R ≤ r) = exp(K(−θ) + θr) · E'[exp(θ(R − r)); R ≤ r] with K the cumulant function of R and
    E' the measure tilted by exp(−θR), under which R is again a sum of independent Bernoulli terms. A normal
    variable in its place changes the expectation by at most twice the Berry–Esseen error; and it is at most 1, which
    is Chernoff's bound. Any θ is sound; three Newton steps bring the tilted mean close to r, where the bound is
    sharpest.
    """
    if a - b <= r:
        return 1.0
    theta = 0.0
    mean_a, mean_b, variance_a, variance_b = a, b, a * (1.0 - a), b * (1.0 - b)
    for _ in range(3):
        theta += (mean_a - mean_b - r) / (variance_a / n0 + variance_b / n1)
        down, up = a * math.exp(-theta / n0), b * math.exp(theta / n1)
        # Both shares by themselves: 1 − mean would lose its digits where the mean is close to 1.
        mean_a, mean_b = down / (1.0 - a + down), up / (1.0 - b + up)
        variance_a, variance_b = mean_a * ((1.0 - a) / (1.0 - a + down)), mean_b * ((1.0 - b) / (1.0 - b + up))
    variance = variance_a / n0 + variance_b / n1
    if not (theta > 0.0 and variance > 0.0):
        return 1.0
    exponent = n0 * _log_mean(a, -theta / n0) + n1 * _log_mean(b, theta / n1) + theta * r
    expected = 1.0
    if theta <= _STEEP * min(n0, n1):
        sigma = math.sqrt(variance)
        gap = (r - (mean_a - mean_b)) / sigma
        x = theta * sigma - gap
        if x > _FAR:
            normal = math.exp(-0.5 * gap * gap) / (x * math.sqrt(2.0 * math.pi))
        else:
            normal = math.exp(0.5 * theta * sigma * (x - gap)) * 0.5 * math.erfc(x / math.sqrt(2.0))
        # E|B − p|³ = p(1−p)(1 − 2p(1−p)) for a Bernoulli variable B.
        third = variance_a * (1.0 - 2.0 * variance_a) / n0 / n0 + variance_b * (1.0 - 2.0 * variance_b) / n1 / n1
        # The tilted mean is known to 2⁻⁴⁶, which moves the normal law by as much over σ; the last term covers that.
        expected = normal + 2.0 * BERRY_ESSEEN * third / (variance * sigma) + 2.0**-44 / sigma
    # The exponent is a sum of terms as large as θ, so its rounding is a multiple of θ·2⁻⁵³.
    bound = math.exp(exponent + theta * 2.0**-47 + 1e-9) * (expected if expected < 1.0 else 1.0)
    return bound if bound < 1.0 else 1.0


@lru_cache(maxsize=1024)  # a certificate's limits are computed again when they are checked
@kernel
def _search(
    n0: int, n1: int, quotient: int, remainder: int, r: float, compatible: float, epsilon: float, radius: float
) -> float:
    """Smallest difference found for which β < ε is proved; r is the observed one, M/(n0·n1), and β(compatible) ≥ ε."""
    tolerance = max(TOLERANCE * radius, FINEST)
    narrowest = tolerance / 8.0
    log_inverse = math.log(4.0 / _CUT_OFF) - math.log(epsilon)
    proved = min(1.0, r + radius)  # Hoeffding's inequality proves it for every b at once

    # The closed form first: it costs nothing, and is sharp where samples are large.
    failed = r
    while proved - failed > tolerance / 4.0:
        d = 0.5 * (failed + proved)
        if _proves(n0, n1, quotient, remainder, r, d, epsilon, log_inverse, narrowest, False):
            proved = d
        else:
            failed = d
    if max(n0, n1) > MAX_TAIL_RECORDS:
        return proved

    # Then sums, unless one refuted point just below shows that they cannot gain more than the tolerance.
    failed = r if _refutes(n0, n1, quotient, remainder, r, epsilon, log_inverse) else compatible
    d = max(failed, proved - tolerance)
    while proved - failed > tolerance / 2.0:
        if _refutes(n0, n1, quotient, remainder, d, epsilon, log_inverse):
            failed = d
            if proved - failed <= 1.001 * tolerance:
                break
        elif _proves(n0, n1, quotient, remainder, r, d, epsilon, log_inverse, narrowest, True):
            proved = d
        else:  # too close to the limit for either; what was proved stands
            failed = d
        d = 0.5 * (failed + proved)
    return proved


@kernel
def _refutes(n0: int, n1: int, quotient: int, remainder: int, d: float, epsilon: float, log_inverse: float) -> bool:
    """Whether some b of a small grid has a tail of at least ε, so that no proof at d can succeed."""
    first, last = max(0.0, -d), min(1.0, 1.0 - d)
    middle = 0.5 * (first + last)
    for i in range(65):
        # Points alternate around the symmetric one, where the supremum usually sits.
        offset = ((i + 1) // 2) / 64.0 * (1.0 if i % 2 else -1.0)
        b = min(max(middle + offset * (last - first), first), last)
        a = min(max(b + d, 0.0), 1.0)
        if _summed_tail(n0, n1, quotient, remainder, a, b, log_inverse) >= epsilon:
            return True
    return False


@kernel
def _proves(
    n0: int,
    n1: int,
    quotient: int,
    remainder: int,
    r: float,
    d: float,
    epsilon: float,
    log_inverse: float,
    narrowest: float,
    summed: bool,
) -> bool:
    """Whether corner bounds show β(d) < ε, with intervals of b no narrower than ``narrowest``.

    Intervals are covered from left to right. Their width adapts: twice as wide after a success, half after a
    failure. Without ``summed`` only the closed form is used.
    """
    last = min(1.0, 1.0 - d)
    low = max(0.0, -d)
    width = (last - low) / 64.0
    while True:
        high = min(low + width, last)
        a = min(max(low + d, 0.0), 1.0)
        success = _tilted_tail(n0, n1, r, a, high) < epsilon
        if summed and not success:
            success = _summed_tail(n0, n1, quotient, remainder, a, high, log_inverse) < epsilon
        if success:
            if high >= last:
                return True
            low = high
            width *= 2.0
        else:
            width = 0.5 * (high - low)
            if width < narrowest:
                return False
