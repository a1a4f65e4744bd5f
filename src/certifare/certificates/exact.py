"""The exact upper confidence limit for a difference of two binomial proportions.

One question carries every claim of the package. X ~ Bin(n0, a) and Y ~ Bin(n1, b) are independent, b is
unknown, and the integer M = n1·X − n0·Y was observed. Which values of the difference d = a − b are compatible
with a statistic as small as M? With

    β(d) = sup over b of P(n1·X − n0·Y ≤ M),   a = b + d,

the limit is U = sup {d : β(d) ≥ ε}, and P(d > U) ≤ ε whatever b is. The proof, and why the plug-in total
variation distance may stand in for M, is in ``docs/theory.md``.

:func:`difference_limit` returns a number that is never below U and at most 1 % of the Hoeffding radius above
it (or 10⁻⁶, where that is more). It looks for the smallest d at which β(d) < ε can be *proved*. The proof covers
the range of b by intervals
[lo, hi]: the tail falls in a and rises in b, so over the interval it is at most its value at the corner
a = lo + d, b = hi. Two upper bounds of such a tail serve:

*tilted*: a closed form (exponential change of measure and the Berry–Esseen theorem), sharp for large samples;
*summed*: the sum itself, for all others.

Every approximation inside is an upper bound of the tail: what is cut off is added, and roundings are covered by
a margin. So an unfinished search yields a larger limit, never a smaller one.
"""

import math

from certifare.compiler import kernel

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
#: Covers the rounding of a + b and of the reported limit itself.
_ROUNDING = 1e-12


def hoeffding_radius(n0: int, n1: int, epsilon: float) -> float:
    """Half-width √((1/n0 + 1/n1)·ln(1/ε)/2) of Hoeffding's inequality for X/n0 − Y/n1, rounded up."""
    return math.sqrt((1.0 / n0 + 1.0 / n1) * -math.log(epsilon) / 2.0) + _ROUNDING


def difference_limit(n0: int, n1: int, m: int, epsilon: float) -> float:
    """Upper confidence limit of a − b at level ε, from the observed m = n1·x − n0·y.

    Parameters
    ----------
    n0, n1 : int
        Numbers of records in the two groups, at least 1.
    m : int
        The statistic n1·x − n0·y, a Python integer (it exceeds 64 bits for large samples).
    epsilon : float
        The probability with which the limit may fail, in (0, 1).

    Returns
    -------
    float
        A number in [−1, 1] that is at least the exact limit and exceeds it by at most
        ``TOLERANCE`` × :func:`hoeffding_radius`, or ``FINEST`` where that is more.

    Examples
    --------
    >>> round(difference_limit(20, 300, 900, 0.05), 3)
    0.345
    """
    n0, n1, m = int(n0), int(n1), int(m)
    if m >= n0 * n1:
        return 1.0
    radius = hoeffding_radius(n0, n1, epsilon)
    quotient, remainder = divmod(m, n1)
    observed = math.nextafter(m / (n0 * n1), 2.0)
    limit: float = _search(n0, n1, quotient, remainder, observed, epsilon, radius)
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
    X ≤ ⌊(M + y·n0)/n1⌋, a threshold that moves up with y, so that one pass over both windows suffices.
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
            below = sum_x
        sum_y += weight_y
        total += weight_y * below
        weight_y *= (n1 - y) * odds_b / (y + 1)
        threshold += step
        carried += step_remainder
        if carried >= n1:
            carried -= n1
            threshold += 1
    while x < x_last:
        weight_x *= (n0 - x) * odds_a / (x + 1)
        sum_x += weight_x
        x += 1

    # At most 5 roundings of 2⁻⁵³ a step in each weight and sum; 2⁻⁴⁸ a step is a safe margin for their quotient.
    margin = 1.0 + (y_last - y_first + x_last - x_first + 16) * 2.0**-48
    tail: float = total / (sum_x * sum_y) * margin + 4.0 * math.exp(-log_inverse)
    return tail


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
    tilted_a, tilted_b = a, b
    for _ in range(3):
        variance = tilted_a * (1.0 - tilted_a) / n0 + tilted_b * (1.0 - tilted_b) / n1
        theta += (tilted_a - tilted_b - r) / variance
        down, up = math.exp(-theta / n0), math.exp(theta / n1)
        tilted_a = a * down / (1.0 - a + a * down)
        tilted_b = b * up / (1.0 - b + b * up)
    variance_a, variance_b = tilted_a * (1.0 - tilted_a), tilted_b * (1.0 - tilted_b)
    variance = variance_a / n0 + variance_b / n1
    if not (theta > 0.0 and variance > 0.0):
        return 1.0
    exponent = n0 * math.log1p(a * math.expm1(-theta / n0)) + n1 * math.log1p(b * math.expm1(theta / n1)) + theta * r
    sigma = math.sqrt(variance)
    gap = (r - (tilted_a - tilted_b)) / sigma
    z = theta * sigma
    normal = math.exp(z * (0.5 * z - gap)) * 0.5 * math.erfc((z - gap) / math.sqrt(2.0))
    # E|B − p|³ = p(1−p)(1 − 2p(1−p)) for a Bernoulli variable B.
    third = variance_a * (1.0 - 2.0 * variance_a) / n0 / n0 + variance_b * (1.0 - 2.0 * variance_b) / n1 / n1
    error = BERRY_ESSEEN * third / (variance * sigma)
    # The exponent is a difference of terms as large as θ, so its rounding is a multiple of θ·2⁻⁵³.
    bound = math.exp(exponent + theta * 2.0**-48 + 1e-9) * min(1.0, normal + 2.0 * error)
    return bound if bound < 1.0 else 1.0


@kernel
def _search(n0: int, n1: int, quotient: int, remainder: int, r: float, epsilon: float, radius: float) -> float:
    """Smallest difference found for which β < ε is proved; r is the observed difference M/(n0·n1)."""
    tolerance = max(TOLERANCE * radius, FINEST)
    narrowest = tolerance / 8.0
    log_inverse = math.log(4.0 / (_CUT_OFF * epsilon))
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
    failed = r
    d = max(r, proved - tolerance)
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
