"""Bounds of calibrated cells: T* as a function of the plan alone, known before any record is looked at.

If an encoder reads the group, the certification records can *set* its thresholds instead of testing them. A group of n
independent records has n + 1 *gaps*: the places between neighbouring values, and beyond the ends. If the plan says how
many gaps each cell gets, and thresholds are the order statistics that this asks for, then the true shares of the cells
in that group are Dirichlet with the gaps as parameters, whatever the distribution of the records. So the largest total
variation distance between groups has a known distribution, and T* is a quantile of it (``docs/theory.md``).

Every function here takes ``gaps``: whole numbers of at least 1, one row for each cell and one column for each group;
column g adds up to n_g + 1. Two cells and two groups are computed by sums that bracket an integral; all else by Monte
Carlo, whose own error is a part of ε. Both round to the safe side.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from certifare.errors import ArgumentError, UnprovedClaimError
from certifare.foundation.randomness import stream

#: The metrics that order statistics bound: those about one set of records of each group.
CALIBRATED_METRICS = ("demographic_parity", "equal_opportunity")
#: Levels ε for which the Monte Carlo error can be a part of ε.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-4, 0.5
#: Tables drawn for a bound; fewer, down to a tenth, if they are so large that more than a budget of numbers is needed.
DRAWS, _BUDGET = 1_000_000, 10**8
#: The probability that the tables drawn give too small a bound.
MONTE_CARLO_ERROR = 1e-9
#: Plans whose bounds may be computed before one of them is chosen: the error of all together is a part of ε.
MOST_COMPARED = 10_000
#: The largest plan: cells times groups (pairs of groups count an eighth), which bounds the time that anyone's file
#: takes; and records of a group (above it, gammas are not told apart in 64 bits).
MOST_GAPS, MOST_RECORDS = 2**13, 2**40
#: Of more pairs of groups than this, each has the joint bound: bounds of their own would take too much memory.
MOST_PAIRS = 256
#: Numbers drawn at a time, by each thread.
_AT_ONCE = 1 << 20
#: Parts that the range of one group's share is cut into, to bracket the integral.
_PARTS = 1 << 12
#: The probability of each of the two outermost parts.
_TAILS = 1e-7
#: Covers the rounding of the incomplete beta function, and of sums of products of it.
_ROUNDING = 1e-9
#: About the step to which the limit of two cells is searched for.
_FINE = 5e-6
#: Covers the rounding of a distance.
_LAST_DIGITS = 1e-12
#: By how much, beyond Monte Carlo error, a stated limit may be worse than a verifier's own.
_WORSE = 0.02

Gaps = NDArray[np.int64]
_Measure = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def calibrated_bound(gaps: ArrayLike, epsilon: float, *, draws: int = DRAWS) -> float:
    """Return T*: the 1 − ε quantile of the largest distance between groups, rounded up.

    Equal gaps give equal bounds, in every process; the order of cells and groups does not matter.

    Returns: T* in [0, 1].

    >>> round(calibrated_bound([[500, 500], [501, 501]], 0.05), 3)
    0.044
    """
    return _limit(gaps, epsilon, None, draws, upper=True)


def calibrated_limits(
    gaps: ArrayLike, epsilon: float, *, rule: ArrayLike | None = None, draws: int = DRAWS
) -> tuple[float, float]:
    """Return a lower and an upper limit of the largest distance between groups, each at the full ε.

    With a ``rule`` (the probability with which one classifier selects each cell) they are of its own distance. It must
    have been fixed without looking at certification records.

    >>> low, high = calibrated_limits([[400, 300], [300, 350], [301, 351]], 0.05, rule=[0, 0, 1])
    >>> round(low, 3), round(high, 3)
    (0.016, 0.084)
    """
    return _limit(gaps, epsilon, rule, draws, upper=False), _limit(gaps, epsilon, rule, draws, upper=True)


@dataclass(frozen=True, slots=True)
class CalibratedLimits:
    """All limits that a plan gives, each at the full ε: those of single pairs hold by themselves, not together."""

    bound: float
    lower: float
    pairs: tuple[float, ...]

    @classmethod
    def of(cls, gaps: ArrayLike, epsilon: float) -> "CalibratedLimits":
        """Compute the limits of a plan.

        >>> limits = CalibratedLimits.of([[500, 500], [501, 501]], 0.05)
        >>> limits.pairs == (limits.bound,)
        True
        """
        table = check_gaps(gaps)
        lower, bound = calibrated_limits(table, epsilon)
        if not _bounds_pairs(table):
            return cls(bound, lower, (bound,) * math.comb(table.shape[1], 2))
        pairs = _simulate(table, DRAWS // 10, 0, _each_pair)
        return cls(bound, lower, tuple(min(bound, _order_statistic(np.sort(p), epsilon, True)) for p in pairs))

    def unsupported(self, gaps: ArrayLike, epsilon: float, seed: int) -> str | None:
        """Return the first of these stated limits that does not follow from a plan; None if all do.

        A limit is refused if it is better than the plan allows by more than Monte Carlo error, and if it is much worse.
        A lower limit of 0 says nothing, and follows from every plan.
        """
        table = check_gaps(gaps)
        check_level(epsilon)
        if max(self.pairs) > self.bound + _LAST_DIGITS or (
            not _bounds_pairs(table) and min(self.pairs) < self.bound - _LAST_DIGITS
        ):
            return "pairs"
        if len(table) == 1:
            return "bound" if self.bound > _LAST_DIGITS else "lower" if self.lower > 0.0 else None
        sample = None if table.shape == (2, 2) else np.sort(_simulate(table, DRAWS, seed, _largest))
        for name, stated, upper in (("bound", self.bound, True), ("lower", self.lower, False)):
            if not (_follows(table, sample, stated, epsilon, upper=upper) or (stated == 0.0 and not upper)):
                return name
        if _bounds_pairs(table):
            sampled = _simulate(table, DRAWS // 10, seed, _each_pair)
            if not all(
                _follows(table, np.sort(own), stated, epsilon, upper=True)
                for stated, own in zip(self.pairs, sampled, strict=True)
            ):
                return "pairs"
        return None


def check_gaps(gaps: ArrayLike) -> Gaps:
    """Return the gaps of a plan as an array; refuse gaps that no plan has."""
    try:
        given = np.asarray(gaps)
        table = given.astype(np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError("Gaps must be whole numbers, a row for each cell and a column for each group.") from error
    if given.dtype.kind not in "iu" or table.ndim != 2 or not len(table):
        raise ArgumentError("Gaps must be whole numbers, a row for each cell and a column for each group.")
    if table.shape[1] < 2:
        raise ArgumentError("Gaps of one group: a distance between groups needs at least two.")
    if len(table) > most_cells(table.shape[1]):
        raise ArgumentError(
            f"{table.shape[0]:,} cells and {table.shape[1]:,} groups are too many to bound as calibrated cells: use "
            "fewer of either."
        )
    if table.min() < 1:
        raise ArgumentError("Every cell needs at least one gap of every group: use fewer cells, or more records.")
    if float(table.sum(axis=0, dtype=np.float64).max()) > MOST_RECORDS:
        raise ArgumentError(f"More than {MOST_RECORDS:,} records in a group.")
    return table


def most_cells(groups: int) -> int:
    """Return the most cells that can be bounded with a number of groups.

    >>> most_cells(2), most_cells(40)
    (4096, 59)
    """
    return MOST_GAPS // _work(groups)


def check_metric(metric: str) -> None:
    """Refuse a metric that order statistics do not bound."""
    if metric not in CALIBRATED_METRICS:
        raise UnprovedClaimError(
            f"Calibrated cells bound {' and '.join(CALIBRATED_METRICS)}, not {metric}: the records that set a "
            "threshold are those of one label, and thresholds cannot be order statistics of every label at once. "
            "Use an encoder with method='exact'."
        )


def forecast_bound(gaps: ArrayLike, epsilon: float) -> float:
    """Return T* approximately, in some hundred microseconds: to compare plans, never to state.

    The differences of shares are taken for normal, the distance for a multiple of a χ variable with its mean and
    variance; pairs of groups are added up.

    >>> round(forecast_bound([[500, 500], [501, 501]], 0.05), 3)
    0.044
    """
    table = np.asarray(gaps, dtype=np.float64)
    if len(table) == 1:
        return 0.0
    totals = table.sum(axis=0)
    shapes = [_chi_shape(table[:, pair], totals[list(pair)]) for pair in map(list, combinations(range(len(totals)), 2))]
    half, scale = np.array([nu / 2 for nu, _ in shapes]), np.array([scale for _, scale in shapes])
    alone = scale * np.sqrt(2 * special.gammainccinv(half, epsilon))
    low, high = float(alone.max()), float((scale * np.sqrt(2 * special.gammainccinv(half, epsilon / len(half)))).max())
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        above = float(special.gammaincc(half, (middle / scale) ** 2 / 2).sum()) > epsilon
        low, high = (middle, high) if above else (low, middle)
    return min(1.0, high)


def sampled_bound(gaps: ArrayLike, epsilon: float) -> float:
    """Return T* to about a thousandth, from a twentieth of the draws: to choose a plan, never to state.

    >>> round(sampled_bound([[300, 300], [300, 300], [301, 301]], 0.05), 2)
    0.05
    """
    table = _canonical(check_gaps(gaps))
    check_level(epsilon)
    if len(table) == 1 or table.shape == (2, 2):
        return calibrated_bound(table, epsilon)  # takes no longer
    sample = np.sort(_simulate(table, DRAWS // 20, 0, _largest))
    return float(sample[_rank(DRAWS, epsilon) * len(sample) // DRAWS - 1])


def _limit(gaps: ArrayLike, epsilon: float, rule: ArrayLike | None, draws: int, *, upper: bool) -> float:
    """Return the upper or the lower limit of the largest distance, or of one rule's."""
    table = check_gaps(gaps)
    check_level(epsilon)
    scale, values = 1.0, None
    if rule is not None:
        table, values = _merged(table, rule)
        if len(values) == 2:
            # One share tells two cells apart, and the rule shows a part of it.
            scale, values = float(values[1] - values[0]), None
    if len(table) == 1:
        return 0.0
    table = _canonical(table) if values is None else table
    if table.shape == (2, 2):
        limit = _integrated(table.tobytes(), epsilon, upper)
    elif values is None:
        limit = _order_statistic(_sample(table.tobytes(), table.shape[1], draws), epsilon, upper)
    else:
        limit = _order_statistic(np.sort(_simulate(table, draws, 0, partial(_of_rule, values))), epsilon, upper)
    limit *= scale
    return min(1.0, limit + _LAST_DIGITS) if upper else max(0.0, limit - _LAST_DIGITS)


def check_level(epsilon: float) -> None:
    """Refuse an ε that is too small to hold the Monte Carlo error."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ArgumentError(
            f"Bounds of calibrated cells are computed for ε from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}, not "
            f"{epsilon:.3g}."
        )


def _merged(table: Gaps, rule: ArrayLike) -> tuple[Gaps, NDArray[np.float64]]:
    """Return the gaps of cells that one classifier selects alike, and its probabilities in ascending order."""
    chances = np.asarray(rule, dtype=np.float64)
    if chances.shape != (len(table),) or not ((chances >= 0.0) & (chances <= 1.0)).all():
        raise ArgumentError(f"A rule has one probability between 0 and 1 for each of the {len(table)} cells.")
    values, places = np.unique(chances, return_inverse=True)
    merged = np.zeros((len(values), table.shape[1]), dtype=np.int64)
    np.add.at(merged, places, table)
    return merged, values


def _canonical(table: Gaps) -> Gaps:
    """Put groups and cells in an order that does not depend on the one given."""
    columns = sorted(table.T.tolist(), key=sorted)
    return np.array(sorted(zip(*columns, strict=True)), dtype=np.int64)


# -- two cells ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _integrated(data: bytes, epsilon: float, upper: bool) -> float:
    """Return the upper or the lower limit for two cells and two groups."""
    table = np.frombuffer(data, dtype=np.int64).reshape(2, 2)

    def beyond(distance: float) -> float:
        """Return an upper bound of the probability that the distance is larger, or if not ``upper``, that it is not."""
        low, high = _tail_of_two(table, distance)
        return high if upper else 1.0 - low

    def roughly(distance: float) -> float:
        return sum(_tail_of_two(table, distance, _PARTS // 8)) / 2

    level = epsilon if upper else 1.0 - epsilon
    low, high = 0.0, 1.0
    while high - low > _FINE:
        middle = (low + high) / 2
        low, high = (low, middle) if roughly(middle) <= level else (middle, high)
    slope = (roughly(low - 4 * _FINE) - roughly(high + 4 * _FINE)) / (9 * _FINE)
    # From there on to the safe side, until it is proved.
    found = high if upper else low
    while 0.0 < found < 1.0 and (excess := beyond(found) - epsilon) > 0.0:
        found += (_FINE + min(excess / max(slope, _ROUNDING), 100 * _FINE)) * (1 if upper else -1)
    return min(max(found, 0.0), 1.0)


def _tail_of_two(table: Gaps, distance: float, parts: int = _PARTS) -> tuple[float, float]:
    """Return a lower and an upper bound of P(|X − Y| > distance) for the two groups' shares X, Y of the first cell."""
    (a0, a1), (b0, b1) = table.astype(np.float64).tolist()
    if a1 + b1 < a0 + b0:  # the narrower distribution is cut into parts
        a0, b0, a1, b1 = a1, b1, a0, b0
    edges, steps = _parts(a1, b1, parts)
    above = special.betaincc(a0, b0, np.minimum(edges + distance, 1.0))
    below = special.betainc(a0, b0, np.maximum(edges - distance, 0.0))
    # P(X > y + t) falls in y and P(X < y − t) rises: the ends of each part bracket them.
    high = float(steps @ above[:-1] + steps @ below[1:])
    low = float(steps @ above[1:] + steps @ below[:-1])
    return max(0.0, low - _ROUNDING), min(1.0, high + _ROUNDING)


@lru_cache(maxsize=8)
def _parts(a: float, b: float, parts: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut the range of a Beta variable; return the edges, and the probability of each part."""
    ends = special.betaincinv(a, b, _TAILS), special.betainccinv(a, b, _TAILS)
    edges = np.concatenate([[0.0], np.linspace(*ends, parts), [1.0]])
    # Each half by the tail that is small there, so that differences keep their digits.
    left, right = special.betainc(a, b, edges), special.betaincc(a, b, edges)
    steps = np.where(left[1:] < 0.5, np.diff(left), -np.diff(right))
    return edges, np.maximum(steps, 0.0)


# -- Monte Carlo ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _sample(data: bytes, groups: int, draws: int) -> NDArray[np.float64]:
    """Return simulated distances in ascending order; the limits at all levels come from one sample."""
    sample = _simulate(np.frombuffer(data, dtype=np.int64).reshape(-1, groups), draws, 0, _largest)
    sample.sort()
    return sample


def _order_statistic(sample: NDArray[np.float64], epsilon: float, upper: bool) -> float:
    """Return a limit from sorted distances, with the Monte Carlo error as a part of ε."""
    n = len(sample)
    rank = _rank(n, epsilon)
    if rank > n:
        return 1.0 if upper else 0.0
    return float(sample[rank - 1] if upper else sample[n - rank])


def _rank(n: int, epsilon: float) -> int:
    """Return which of n sorted distances is above the 1 − ε quantile, with the Monte Carlo error as a part of ε."""
    # The r-th smallest lies below the 1 − ε' quantile only if at least r do: a binomial probability.
    return int(stats.binom.isf(MONTE_CARLO_ERROR, n, 1.0 - (epsilon - MOST_COMPARED * MONTE_CARLO_ERROR))) + 1


def _follows(table: Gaps, sample: NDArray[np.float64] | None, stated: float, epsilon: float, *, upper: bool) -> bool:
    """Return whether a stated limit follows from the plan, by our own simulated distances or by the integral."""
    if sample is None:
        if _beyond_two(table, stated, epsilon, upper=upper):
            return False
        own, room = _integrated(_canonical(table).tobytes(), epsilon, upper), 10 * _FINE
    else:
        if _beyond(sample, stated, epsilon, upper=upper):
            return False
        own = _order_statistic(sample, epsilon, upper)
        # The other's Monte Carlo error is as large as one's own.
        room = abs(own - float(np.quantile(sample, 1.0 - epsilon if upper else epsilon)))
    worse = stated - own if upper else own - stated
    return worse <= _WORSE * own + room


def _beyond(sample: NDArray[np.float64], stated: float, epsilon: float, *, upper: bool) -> bool:
    """Return whether more than a share ε of all distances may be beyond a limit, given simulated ones."""
    n = len(sample)
    if upper:
        outside = n - int(np.searchsorted(sample, stated + _LAST_DIGITS, side="right"))
    else:
        outside = int(np.searchsorted(sample, stated - _LAST_DIGITS, side="left"))
    # An honest limit leaves six standard errors of room, so three may be asked for here.
    return outside > float(stats.binom.isf(1e-3, n, epsilon))


def _beyond_two(table: Gaps, stated: float, epsilon: float, *, upper: bool) -> bool:
    """Return the same for two cells and two groups, by the integral."""
    if upper:
        return _tail_of_two(table, stated + _LAST_DIGITS)[0] > epsilon
    return 1.0 - _tail_of_two(table, max(0.0, stated - _LAST_DIGITS))[1] > epsilon


def _work(groups: int) -> int:
    """Return the cost of one cell in one draw: a number of each group, and an eighth of it for each difference."""
    return groups + math.comb(groups, 2) // 8


def _bounds_pairs(table: Gaps) -> bool:
    """Return whether each pair of groups has its own bound."""
    return len(table) > 1 and 1 < math.comb(table.shape[1], 2) <= MOST_PAIRS


def _simulate(table: Gaps, draws: int, seed: int, measure: _Measure) -> NDArray[np.float64]:
    """Draw Dirichlet shares of every group, and measure distances in each draw; draws are the last axis.

    Pieces have random streams of their own, so the result does not depend on the number of threads.
    """
    k, groups = table.shape
    draws = max(min(draws, DRAWS // 10), min(draws, _BUDGET // (k * _work(groups))))
    piece = min(draws, _AT_ONCE // (k * groups))
    digest = hashlib.sha256(repr(table.tolist()).encode()).hexdigest()
    starts = range(0, draws, piece)

    def distances(start: int) -> NDArray[np.float64]:
        rng = stream(seed, "calibrated cells", digest, str(start))
        return measure(_shares(table, min(piece, draws - start), rng))

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1, len(starts))) as pool:
        return np.concatenate(list(pool.map(distances, starts)), axis=-1)


def _shares(table: Gaps, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the shares of all groups and cells repeatedly."""
    k, groups = table.shape
    shares = np.empty((groups, k, draws))
    for g in range(groups):
        for j in range(k):
            rng.standard_gamma(float(table[j, g]), out=shares[g, j])
        shares[g] /= shares[g].sum(axis=0)
    return shares


def _of_rule(rule: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of one rule in each draw."""
    rates = np.einsum("gjn,j->gn", shares, rule)
    return np.asarray(rates.max(axis=0) - rates.min(axis=0))


def _largest(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest distance over pairs of groups in each draw."""
    largest = np.zeros(shares.shape[-1])
    for distances in _of_pairs(shares):
        np.maximum(largest, distances, out=largest)
    return largest


def _each_pair(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of each pair of groups in each draw."""
    return np.stack(list(_of_pairs(shares)))


def _of_pairs(shares: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield the distances of one pair of groups after another."""
    difference = np.empty(shares.shape[1:])
    for one, other in combinations(shares, 2):
        np.subtract(one, other, out=difference)
        np.abs(difference, out=difference)
        yield difference.sum(axis=0) / 2


# -- forecast -------------------------------------------------------------------------------------------------


def _chi_shape(gaps: NDArray[np.float64], totals: NDArray[np.float64]) -> tuple[float, float]:
    """Return ν and the scale of the χ variable with the mean and variance of the distance of two groups."""
    shares = gaps / totals
    weights = shares / np.sqrt(totals + 1)
    variance = (shares * (1 - shares) / (totals + 1)).sum(axis=1)
    sd, mean = np.sqrt(variance), shares[:, 0] - shares[:, 1]
    z = mean / sd
    sign, density = special.erf(z / math.sqrt(2)), np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    folded = 2 * sd * density + mean * sign
    # Cov(|a|, |b|) by its first two Hermite terms; Cov(a, b) = −Σ_g weights_ga · weights_gb, so sums are products.
    signed = sign[:, None] * weights
    first = -(signed.sum(axis=0) ** 2 - (signed**2).sum(axis=0)).sum()
    curved = (2 * density / sd)[:, None] * (weights[:, [0, 0, 1]] * weights[:, [0, 1, 1]])
    second = 0.5 * ((curved.sum(axis=0) ** 2 - (curved**2).sum(axis=0)) * np.array([1, 2, 1])).sum()
    spread = float((variance + mean**2 - folded**2).sum() + first + second) / 4
    if len(gaps) == 2:  # one difference, and the other is its negative
        spread = float(variance[0] + mean[0] ** 2 - folded[0] ** 2)
    centre = float(folded.sum()) / 2
    ratio = max(spread, 1e-12 * centre**2) / centre**2
    nu = math.exp(float(np.interp(math.log(ratio), _LOG_RATIOS, _LOG_NU)))
    return nu, math.sqrt((centre**2 + ratio * centre**2) / nu)


def _chi_ratios() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return variance over squared mean of χ variables, and their ν, both as logarithms, ratios ascending."""
    log_nu = np.linspace(math.log(0.2), math.log(1e7), 4000)
    nu = np.exp(log_nu)
    log_mean = 0.5 * math.log(2) + special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2)
    # For large ν the variance is 1/2 − 1/(8ν): the difference of large numbers would lose it.
    ratio = np.where(nu > 1e3, (0.5 - 1 / (8 * nu)) / nu, nu / np.exp(2 * log_mean) - 1)
    return np.log(ratio[::-1]), log_nu[::-1]


_LOG_RATIOS, _LOG_NU = _chi_ratios()
