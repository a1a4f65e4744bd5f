"""Confidence limits of means and of ratios of means that hold for any number of records and any rare event.

:func:`mean_limits` is for a mean of numbers in [0, 1], and for an average of such means, such as an area under the ROC
curve. Whatever the numbers are, their mean is less spread than that of ones and zeros with the same expectation, in
the sense of every convex function; so a binomial variable bounds its tails.

:func:`ratio_limits` is for a ratio of two means over the same records, such as the share of a loss that remains. It
bets against each value of the ratio: if the value is right, no bet gains in expectation, and a capital that has grown
to 1/δ disproves it, except with probability δ. ``docs/theory.md`` proves both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from certifare.certificates.exact import check_epsilon

#: Number of thresholds at which the tail of a mean is bounded; the smallest bound is used.
_THRESHOLDS = 24
#: For more numbers than this the tail is bounded in closed form: binomial tails would lose too many digits.
_MANY = 100_000
#: Number of times that an interval around a limit is halved. The proved end is returned.
_STEPS = 30
#: The largest share of the capital that is bet, because a capital of 0 has no logarithm.
_BOLDEST = 0.99
#: Ratios between which bets keep their stakes: closer together next to 1, where the possible loss changes most.
_PLACES = (
    *(1.0 - 2.0 ** -(j / 4) for j in range(1, 41)),
    1.0,
    *(1.0 + 2.0 ** (j / 4) for j in range(-40, 81)),
)
#: Places at which this many times as much is at risk, or less, are taken together.
_ALIKE = 1.1
#: Covers the rounding of tails, of sums of logarithms, and of the limit itself.
_TAIL_ROUNDING, _ROUNDING = 1e-6, 1e-12

Numbers = NDArray[np.float64]


def mean_limits(mean: float, n: int, epsilon: float) -> tuple[float, float]:
    """Return confidence limits of the expectation of a mean of n i.i.d. numbers in [0, 1], each at level ε/2.

    They also hold for an average of such means that depend on each other.

    - ``mean``: the observed mean.
    - ``n``: how many numbers it is the mean of; if 0, the limits are 0 and 1.
    - ``epsilon``: the probability that the expectation is outside.

    Examples
    --------
    >>> [round(limit, 3) for limit in mean_limits(0.75, 400, 0.05)]
    [0.697, 0.798]
    """
    check_epsilon(epsilon)
    if n < 1:
        return 0.0, 1.0
    return 1.0 - _upper_mean(1.0 - mean, n, epsilon / 2), _upper_mean(mean, n, epsilon / 2)


def _upper_mean(mean: float, n: int, level: float) -> float:
    """Return a number that the expectation exceeds with probability at most ``level``."""
    # If rounding made the sum larger, its tail would be larger, too.
    total = mean * n * (1.0 + _ROUNDING) + _ROUNDING
    if total >= n:
        return 1.0
    first = math.floor(total) + 1
    # The best threshold is some hundredths to some standard deviations above the sum.
    spread = math.sqrt(max(total * (1.0 - total / n), 1.0))
    steps = np.ceil(spread * np.geomspace(0.02, 8.0, _THRESHOLDS)).astype(np.int64) - 1
    thresholds = np.unique(np.minimum(first + steps, n))

    def refuted(share: float) -> bool:
        tail = _closed_form(total, n, share) if n > _MANY else _tail(thresholds, total, n, share)
        return tail < level * (1.0 - _TAIL_ROUNDING)

    return min(_boundary(refuted, 1.0, min(total / n, 1.0)) + _ROUNDING, 1.0)


def _tail(thresholds: NDArray[np.int64], total: float, n: int, share: float) -> float:
    """Bound the probability of so small a sum: the minimum of E(t − B)⁺ / (t − sum), B ~ Bin(n, share)."""
    below = betainc(n - thresholds + 1, thresholds, 1.0 - share)  # P(B < t)
    fewer = np.where(thresholds > 1, betainc(n - thresholds + 1, np.maximum(thresholds - 1, 1), 1.0 - share), 0.0)
    missing = np.maximum(thresholds * below - n * share * fewer, 0.0)
    return float((missing / (thresholds - total)).min())


def _closed_form(total: float, n: int, share: float) -> float:
    """Bound the same by Chernoff's inequality: exp(−n · kl(mean, share))."""
    mean = total / n
    if share >= 1.0:
        return 0.0
    first = mean * math.log(mean / share) if mean > 0.0 else 0.0
    return math.exp(-n * max(first + (1.0 - mean) * math.log((1.0 - mean) / (1.0 - share)), 0.0))


def ratio_limits(
    tops: Numbers,
    bottoms: Numbers,
    counts: NDArray[Any],
    epsilon: float,
    *,
    possible: tuple[Numbers, Numbers] | None = None,
) -> tuple[float, float]:
    """Return confidence limits of E[top] / E[bottom] over i.i.d. records, each at level ε/2.

    The lower limit is at most 1.

    - ``tops``, ``bottoms``: two figures of each kind of record; tops are not negative, bottoms are positive.
    - ``counts``: number of records of each kind.
    - ``epsilon``: the probability that the ratio is outside.
    - ``possible``: tops and bottoms that a record could have, at least the extremes. By default those of all kinds:
      then all kinds must be listed, also those that no record has.

    Examples
    --------
    >>> lost, without = np.array([0.1, 0.9]), np.array([0.5, 0.5])
    >>> [round(limit, 3) for limit in ratio_limits(lost, without, np.array([700, 300]), 0.05)]
    [0.607, 0.757]
    """
    check_epsilon(epsilon)
    all_tops, all_bottoms = (np.ravel(values) for values in (possible or (tops, bottoms)))
    most = float(all_tops.max() / all_bottoms.min())
    there = counts > 0
    top, bottom, times = (np.asarray(values, dtype=np.float64)[there] for values in (tops, bottoms, counts))
    n = float(times.sum())
    if not n:
        return 0.0, most
    # A sum of n logarithms near 1 is wrong by less than n · 10⁻¹⁵.
    wanted = math.log(2.0 / epsilon) + _TAIL_ROUNDING + n * 1e-15
    # From the largest possible stake down to what suits the largest possible spread.
    halvings = 1 + max(0, math.ceil(0.5 * math.log2(n / (2.0 * wanted))))
    stakes = _BOLDEST * 0.5 ** np.arange(halvings)

    def refuted(ratio: float, side: float, risk: float) -> bool:
        """Return whether bets that the ratio is larger (1) or smaller (−1) have multiplied the stakes by 2/ε."""
        gains = (top - ratio * bottom) * (side / risk)
        capitals = [float((times * np.log(1.0 + stake * gains)).sum()) for stake in stakes]
        largest = max(capitals)
        return largest + math.log(sum(math.exp(c - largest) for c in capitals) / halvings) >= wanted

    def limit(places: Sequence[float], side: float) -> float:
        """Go over all ratios from the first place on; the limit is where they are no longer refuted."""
        at = np.array(places)
        # The most that a record can take from a bet, per unit.
        risks = np.maximum((side * (at[:, None] * all_bottoms - all_tops)).max(axis=1), _ROUNDING)
        for out, within in pairwise(_alike(risks)):
            if not refuted(places[within], side, risks[within]):
                return _boundary(partial(refuted, side=side, risk=risks[within]), places[out], places[within])
        return places[-1]

    # The risk grows along the way, so stakes that can be paid at the end of a step can be paid throughout the step.
    # Within a step they stay the same, and the capital falls. The ends of steps are fixed, as stakes must be.
    lower = limit([0.0, *(place for place in _PLACES if place <= 1.0)], 1.0)
    upper = limit([most, *(place for place in reversed(_PLACES) if place < most), 0.0], -1.0)
    return max(lower - _ROUNDING, 0.0), min(upper * (1.0 + _ROUNDING) + _ROUNDING, most)


def _alike(risks: Numbers) -> list[int]:
    """Choose the places at which steps end: as far apart as the risk is about the same."""
    ends, first = [0], 1
    for place in range(1, len(risks)):
        if place + 1 == len(risks) or risks[place + 1] > _ALIKE * risks[first]:
            ends.append(place)
            first = place + 1
    return ends


def _boundary(refuted: Callable[[float], bool], out: float, within: float) -> float:
    """Find the boundary between a refuted and an accepted value; return the last one that is known to be refuted."""
    for _ in range(_STEPS):
        middle = 0.5 * (out + within)
        if refuted(middle):
            out = middle
        else:
            within = middle
    return out
