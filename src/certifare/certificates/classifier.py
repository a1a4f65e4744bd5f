"""Confidence intervals for the distance of one given classifier on the cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.calibrated import SMALLEST_EPSILON, calibrated_limits
from certifare.certificates.claims import gaps_of, stratum
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.rounding import percent, round_down, round_up
from certifare.certificates.tail import distance_level, lowered, raised
from certifare.errors import ArgumentError, UnprovedClaimError
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from certifare.certificates.certificate import Certificate

_Scores = Sequence[NDArray[np.float64]]

#: More than all roundings of a limit.
_SLACK = 1e-9


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate between two limits, which hold together with the stated confidence: each has half of ε."""

    lower: float
    estimate: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} in [{round_down(self.lower)}, {round_up(self.upper)}] ({percent(self.confidence)})"


def classifier_interval(certificate: Certificate, predictions: ArrayLike) -> Interval:
    """Return the interval for a classifier's distance (:meth:`Certificate.for_classifier`)."""
    scores = _scores(certificate, np.asarray(predictions))
    within = _calibrated_limits if certificate.method == "calibrated" else _limits_within
    limits = [within(certificate, scores, label) for label in certificate.claim.strata(certificate.counts)]
    mean = certificate.claim.distance.combine == "mean"
    lower, estimate, upper = (math.fsum(v) / len(v) if mean else max(v) for v in zip(*limits, strict=True))
    return Interval(lower=lower, estimate=estimate, upper=min(upper, 1.0), confidence=certificate.confidence)


def _scores(certificate: Certificate, values: NDArray[np.generic]) -> _Scores:
    """Return the classifier's score of each cell, one for each class; refuse what is not one entry per cell."""
    n_cells = certificate.counts.n_cells
    if values.ndim != 1 or len(values) != n_cells:
        raise ArgumentError(
            f"{amount(values.size, 'prediction')} for {amount(n_cells, 'cell')}: give one for each cell."
        )
    for pool in certificate.pools:
        if len(np.unique(values[list(pool)])) > 1:
            shown = f"{', '.join(map(str, pool[:6]))}{' …' if len(pool) > 6 else ''}"
            raise UnprovedClaimError(
                f"The classifier treats cells differently that are published as one pool (cells {shown}), so its own "
                f"interval cannot be computed. T* = {round_up(certificate.bound)} holds for it as for every other."
            )
    if values.dtype.kind == "f" and not np.isin(values, (0.0, 1.0)).all():
        probabilities = values.astype(np.float64)
        if not (np.all(probabilities >= 0.0) and np.all(probabilities <= 1.0)):
            raise ArgumentError("Probabilities must lie in [0, 1].")
        return [probabilities]
    classes = np.unique(values)
    # Two classes have one distance; a constant classifier has none.
    return [(values == c).astype(np.float64) for c in (classes[1:] if len(classes) <= 2 else classes)]


def _limits_within(certificate: Certificate, scores: _Scores, label: str | None) -> tuple[float, float, float]:
    """Lower limit, estimate and upper limit in one stratum, largest over classes and pairs of groups.

    Each side has half of ε. The worst class, pair and sign are facts of the population: upper limits of a maximum
    share no ε. Lower limits of a maximum do.
    """
    claim, tail = certificate.claim, certificate.tail
    strata = claim.strata(certificate.counts)
    epsilon = claim.epsilon(strata) / 2
    counts = certificate.counts
    pairs = claim.pairs(counts)
    ways = max(1, len(scores)) * 2 * len(pairs)
    if claim.distance.combine == "mean":
        ways //= len(strata)
    level, level_shared = (distance_level(e, capped=tail is not None) for e in (epsilon, epsilon / ways))
    lower = estimate = upper = above = above_shared = 0.0
    for pair in (pair for pair in pairs if pair.label == label):
        if tail is not None:
            above, above_shared = (tail.share(counts, pair, e) for e in (epsilon, epsilon / ways))
        table = pair.table(counts)
        # The largest difference first: limits that cannot be the largest are not computed, which takes long.
        both = [(ordered, score, _mean_gap(ordered, score)) for ordered in (table, table[:, ::-1]) for score in scores]
        for ordered, score, gap in sorted(both, key=lambda one: -one[2]):
            estimate = max(estimate, gap)
            if raised(gap + hoeffding_radius(*_sizes(ordered), level) + _SLACK, above) > upper:
                upper = max(upper, raised(_gap_limit(ordered, score, level), above))
            if gap + _SLACK > lower:
                lower = max(lower, lowered(-_gap_limit(ordered[:, ::-1], score, level_shared), above_shared))
    return lower, estimate, upper


def _calibrated_limits(certificate: Certificate, scores: _Scores, label: str | None) -> tuple[float, float, float]:
    """Return the same from a plan: selection rates are known Beta variables, and so is what they differ by.

    Which class is the worst depends on the thresholds, so that classes share ε.
    """
    counts, claim, tail = certificate.counts, certificate.claim, certificate.tail
    epsilon = claim.epsilon((label,)) / (2 * max(1, len(scores)))
    level = distance_level(epsilon, capped=tail is not None)
    if level < SMALLEST_EPSILON:
        raise UnprovedClaimError(
            f"{len(scores):,} classes share ε = {claim.epsilon((label,)):.3g}, and that is too little for each. T* = "
            f"{round_up(certificate.bound)} holds for the classifier as for every other."
        )
    above = 0.0 if tail is None else max(tail.share(counts, pair, epsilon) for pair in claim.pairs(counts))
    gaps, table = gaps_of(counts, label), stratum(counts, label).table
    lower = estimate = upper = 0.0
    for score in scores:
        low, high = calibrated_limits(gaps, level, rule=score)
        lower, upper = max(lower, lowered(low, above)), max(upper, raised(high, above))
        pairs = permutations(range(len(counts.groups)), 2)
        estimate = max(estimate, *(_mean_gap(table[:, pair], score) for pair in map(list, pairs)))
    # A plan of equal shares shows no difference, and the true shares differ by chance.
    return lower, min(max(estimate, lower), upper), upper


def _sizes(pair: NDArray[np.int64]) -> tuple[int, int]:
    """Return the numbers of records of both groups."""
    n0, n1 = (int(n) for n in pair.sum(axis=0))
    return n0, n1


def _mean_gap(pair: NDArray[np.int64], score: NDArray[np.float64]) -> float:
    """Difference of two groups' mean scores."""
    n0, n1 = _sizes(pair)
    first, second = (math.fsum((column * score).tolist()) for column in pair.T)
    return first / n0 - second / n1


def _gap_limit(pair: NDArray[np.int64], score: NDArray[np.float64], epsilon: float) -> float:
    """Upper confidence limit of E[score | first group] − E[score | second group]."""
    n0, n1 = _sizes(pair)
    if np.isin(score, (0.0, 1.0)).all():
        c0, c1 = (int(c) for c in pair[score == 1.0].sum(axis=0))
        return difference_limit(n0, n1, n1 * c0 - n0 * c1, epsilon)
    spread = float(score.max() - score.min())
    return _mean_gap(pair, score) + spread * hoeffding_radius(n0, n1, epsilon) + 1e-12
