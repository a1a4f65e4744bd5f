"""Compute the figures of a certificate from its evidence: bound, estimate and lower limit, by method.

:data:`BOUNDS` has one function for each method. A certificate is made (:mod:`~certifare.certificates.issuing`) and
verified (:meth:`Certificate.verify <certifare.certificates.Certificate.verify>`) by the same functions.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates.assumptions import CAP_FIXED, FIXED_IN_ADVANCE, READS_GROUP
from certifare.certificates.calibrated import CalibratedLimits, Gaps
from certifare.certificates.claims import (
    RECOMPUTATION_TOLERANCE,
    Claim,
    Pair,
    PairBound,
    Part,
    Witness,
    bound_parts,
    check_witnesses,
    choose_witnesses,
    combine,
    estimate_of,
    gaps_of,
    pair_of,
    statistic,
)
from certifare.certificates.counts import LABEL_MISSING, CellCounts
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.rounding import at_least, written
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import Tail, distance_level, lowered, raised, unlowered, unraised
from certifare.errors import ArgumentError, CountsError, DocumentError


@dataclass(frozen=True)
class Evidence:
    """What a bound is computed from; :func:`certifare.certify_counts` explains each part."""

    counts: CellCounts
    sequence: FixedSequence | None = None
    tail: Tail | None = None
    witness: CellCounts | tuple[Witness, ...] = ()

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """The sets of cells that the lower limit rests on, if they are chosen."""
        return () if isinstance(self.witness, CellCounts) else self.witness

    def assumptions(self, method: str) -> tuple[str, ...]:
        """Return what a bound by this evidence assumes in addition to what every bound does."""
        return (
            *((READS_GROUP,) if method == "calibrated" else ()),
            *((FIXED_IN_ADVANCE,) if self.sequence is not None else ()),
            *((CAP_FIXED,) if self.tail is not None else ()),
        )

    def check(self, method: str) -> None:
        """Refuse evidence that the method does not use."""
        if self.sequence is not None and method != "exact":
            raise ArgumentError(f"method={method!r}: a sequence is tested by the exact method.")
        if method == "calibrated" and (isinstance(self.witness, CellCounts) or self.witness):
            raise ArgumentError('method="calibrated" has a lower limit without a witness: leave witness out.')

    def fitted(self, claim: Claim) -> Evidence:
        """Return the evidence by the labels that the claim looks at, with witnesses chosen; refuse what cannot fit."""
        self.check(claim.method)
        counts, tail = self.counts, self.tail
        if not claim.labelled:
            counts, tail = _without_labels(counts, claim), None if tail is None else tail.without_labels()
        claim.check(counts)
        witnesses = self.witnesses
        if isinstance(self.witness, CellCounts):
            if self.witness.n_cells != counts.n_cells:
                raise CountsError(f"witness has {self.witness.n_cells} cells, the counts have {counts.n_cells}.")
            witnesses = choose_witnesses(claim, counts, self.witness)
        check_witnesses(claim, counts, witnesses)
        if tail is not None:
            tail.check(counts)
        return replace(self, counts=counts, tail=tail, witness=witnesses)


@dataclass(frozen=True)
class Figures:
    """What a method computes: T*, the estimate, the lower limit, and the bound of every pair of groups."""

    bound: float
    estimate: float
    lower: float
    parts: tuple[Part, ...]


def compute_figures(evidence: Evidence, claim: Claim) -> Figures:
    """Compute the figures of a claim from evidence that was fitted to it."""
    if evidence.sequence is not None:
        claim = replace(claim, candidates=evidence.sequence.length)
    return BOUNDS[claim.method](evidence, claim)


def check_figures(evidence: Evidence, claim: Claim, stated: Figures) -> None:
    """Refuse stated figures that do not follow from evidence that was fitted to the claim.

    Those by Monte Carlo are checked with a random seed of the verifier's own: a producer cannot know what it gives.
    """
    computed = (
        _check_calibrated(evidence, claim, stated) if claim.method == "calibrated" else compute_figures(evidence, claim)
    )
    for name in ("bound", "estimate", "lower"):
        if abs(getattr(stated, name) - getattr(computed, name)) > RECOMPUTATION_TOLERANCE:
            raise DocumentError(
                f"The certificate states {name} = {getattr(stated, name):.9g}, but its counts give "
                f"{getattr(computed, name):.9g}."
            )
    pairs = ([(part.attribute, part.groups) for part in figures.parts] for figures in (computed, stated))
    if next(pairs) != next(pairs) or any(
        abs(a.bound - b.bound) > RECOMPUTATION_TOLERANCE
        or abs(a.estimate - b.estimate) > RECOMPUTATION_TOLERANCE
        or (a.label, a.records) != (b.label, b.records)
        for a, b in zip(computed.parts, stated.parts, strict=True)
    ):
        raise DocumentError("The bounds of single pairs of groups do not follow from the counts.")


def _exact(evidence: Evidence, claim: Claim) -> Figures:
    """Bound by the exact limit; with a sequence, every limit is recomputed and the target is the bound."""
    sequence = evidence.sequence
    if sequence is None:
        return _from_pairs(evidence, claim, _exact_pair)
    sequence.check(evidence.counts, claim, evidence.tail)
    labels = len(claim.strata(evidence.counts)) if claim.distance.combine == "mean" else 1
    # The limits of the sequence allow for the tail already.
    target = _from_pairs(evidence, claim, partial(_target_pair, sequence.target, labels), raised_by_tail=False)
    return replace(target, bound=sequence.target)


def _calibrated(evidence: Evidence, claim: Claim) -> Figures:
    """Bound by what the plan gives: all pairs of groups jointly, and each by itself."""
    plan = _Plan.of(evidence, claim)
    return plan.figures(CalibratedLimits.of(plan.gaps, plan.level))


def _check_calibrated(evidence: Evidence, claim: Claim, stated: Figures) -> Figures:
    """Return stated figures, with limits that the plan supports and all else as the counts give it."""
    plan = _Plan.of(evidence, claim)
    if len(stated.parts) != len(plan.shares):
        raise DocumentError("The bounds of single pairs of groups do not follow from the counts.")
    limits = plan.limits(stated)
    wrong = limits.unsupported(plan.gaps, plan.level, secrets.randbits(64))
    if wrong == "pairs":
        raise DocumentError("The bounds of single pairs of groups do not follow from the counts.")
    if wrong is not None:
        raise DocumentError(
            f"The certificate states {wrong} = {getattr(stated, wrong):.9g}, which the plan that its counts show does "
            "not give."
        )
    figures = plan.figures(limits)
    parts = tuple(msgspec.structs.replace(a, bound=b.bound) for a, b in zip(figures.parts, stated.parts, strict=True))
    return replace(figures, bound=stated.bound, lower=stated.lower, parts=parts)


@dataclass(frozen=True)
class _Plan:
    """What the limits of calibrated cells are computed from, and how capped weights move them."""

    gaps: Gaps
    level: float
    shares: tuple[float, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, evidence: Evidence, claim: Claim) -> _Plan:
        counts, tail = evidence.counts, evidence.tail
        (label,) = strata = claim.strata(counts)
        epsilon = claim.epsilon(strata)
        parts = bound_parts(counts, claim, lambda table, level: 0.0)
        return cls(
            gaps_of(counts, label),
            distance_level(epsilon, capped=tail is not None),
            tuple(0.0 if tail is None else tail.share(counts, pair, epsilon) for pair in claim.pairs(counts)),
            parts,
        )

    def figures(self, limits: CalibratedLimits) -> Figures:
        """Return the figures of a certificate, about whole weights."""
        above = max(self.shares)
        bounds = [raised(bound, share) for bound, share in zip(limits.pairs, self.shares, strict=True)]
        return Figures(
            bound=raised(limits.bound, above),
            estimate=max(part.estimate for part in self.parts),
            lower=max(0.0, lowered(limits.lower, above)),
            parts=tuple(msgspec.structs.replace(p, bound=b) for p, b in zip(self.parts, bounds, strict=True)),
        )

    def limits(self, figures: Figures) -> CalibratedLimits:
        """Return the limits by capped weights that figures about whole weights come from."""
        above = max(self.shares)
        bounds = [unraised(part.bound, share) for part, share in zip(figures.parts, self.shares, strict=True)]
        lower = unlowered(figures.lower, above) if figures.lower > 0.0 else 0.0
        return CalibratedLimits(unraised(figures.bound, above), lower, tuple(bounds))


#: How to compute the figures by each method.
BOUNDS: dict[str, Callable[[Evidence, Claim], Figures]] = {
    "exact": _exact,
    "calibrated": _calibrated,
}


def _from_pairs(
    evidence: Evidence,
    claim: Claim,
    pair_bound: PairBound,
    *,
    raised_by_tail: bool = True,
) -> Figures:
    """Bound every pair of groups, and put the metric together from their bounds."""
    tail = evidence.tail if raised_by_tail else None
    parts = bound_parts(evidence.counts, claim, pair_bound, tail)
    return Figures(
        bound=min(1.0, combine(claim.distance, [(part.label, part.bound) for part in parts])),
        estimate=combine(claim.distance, [(part.label, part.estimate) for part in parts]),
        lower=lower_limit(evidence, claim),
        parts=parts,
    )


def _exact_pair(table: NDArray[np.int64], epsilon: float) -> float:
    n0, n1, m = statistic(table)
    return max(0.0, difference_limit(n0, n1, m, epsilon))


def _target_pair(target: float, labels: int, table: NDArray[np.int64], epsilon: float) -> float:
    """Return the bound of one pair by a sequence: the target; for a mean over labels, all of it in one label."""
    return min(1.0, at_least(labels * written(target)))


def lower_limit(evidence: Evidence, claim: Claim) -> float:
    """Lower confidence limit of the metric: by witnesses, or without them by a closed form."""
    counts, tail, distance = evidence.counts, evidence.tail, claim.distance
    strata = claim.strata(counts)
    epsilon = claim.epsilon(strata)

    def whole(limit: float, pair: Pair, epsilon: float) -> float:
        """Make a limit by capped weights one by whole weights."""
        return limit if tail is None else lowered(limit, tail.share(counts, pair, epsilon))

    level = distance_level(epsilon, capped=tail is not None)
    limits: list[tuple[str | None, float]] = [(label, 0.0) for label in strata]
    for witness in evidence.witnesses:
        pair = pair_of(claim, counts, witness)
        c0, c1 = pair.table(counts).T
        n0, n1 = int(c0.sum()), int(c1.sum())
        cells = list(witness.cells)
        m = n1 * int(c0[cells].sum()) - n0 * int(c1[cells].sum())
        limits.append((witness.label, whole(-difference_limit(n1, n0, -m, level), pair, epsilon)))
    if not evidence.witnesses:
        pairs = claim.pairs(counts)
        ways = len(pairs) // (len(strata) if distance.combine == "mean" else 1)
        for pair in pairs:
            limit = _closed_form_lower(pair.table(counts), level / ways)
            limits.append((pair.label, whole(limit, pair, epsilon / ways)))
    return min(1.0, max(0.0, combine(distance, limits)))


def _closed_form_lower(table: NDArray[np.int64], epsilon: float) -> float:
    """TV̂ less its largest possible bias and the radius of its concentration (docs/theory.md)."""
    n0, n1 = (int(n) for n in table.sum(axis=0))
    bias = 0.5 * math.sqrt((len(table) - 1) * (1.0 / n0 + 1.0 / n1))
    return estimate_of(table) - bias - hoeffding_radius(n0, n1, epsilon)


def _without_labels(counts: CellCounts, claim: Claim) -> CellCounts:
    """Take labels off counts, unless records without a label are missing there: the metric is about these, too."""
    if counts.labels is None:
        return counts
    unlabelled = sum(e.records for e in counts.exclusions if e.reason == LABEL_MISSING)
    if unlabelled:
        raise ArgumentError(
            f"{unlabelled:,} records without a label are not in these counts, but the {claim.distance.words} is about "
            "all records: count again without a label. (counts.without_labels() makes a claim about the others alone.)"
        )
    return counts.without_labels()
