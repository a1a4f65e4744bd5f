"""From counts to a certificate."""

from __future__ import annotations

from collections.abc import Sequence

from certifare.certificates.bounding import Evidence, compute_figures
from certifare.certificates.certificate import Certificate
from certifare.certificates.claims import Claim, Witness
from certifare.certificates.counts import CellCounts
from certifare.certificates.population import BY_WEIGHT, population_of
from certifare.certificates.provenance import Provenance
from certifare.certificates.sampling import Subsample
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import Tail
from certifare.foundation.levels import name_of


def certify_counts(
    counts: CellCounts,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    method: str = "exact",
    candidates: int = 1,
    *,
    sequence: FixedSequence | None = None,
    tail: Tail | None = None,
    drawn: Subsample | None = None,
    positive: object = None,
    witness: CellCounts | Sequence[Witness] | None = None,
    min_group_size: int = 30,
) -> Certificate:
    """Bound a distance between groups, for every classifier on the cells, from counts alone.

    Parameters
    ----------
    counts : CellCounts
        The certification sample: records that played no part in making the encoder, but for the thresholds of
        calibrated cells.
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"}
        The distance. Equalized odds is the mean over labels, or with ``_max`` the largest.
    confidence : float
        1 − ε, the probability with which the bound holds, from 0.5 up.
    method : {"exact", "calibrated"}
        The exact bound; or that of calibrated cells, whose thresholds in each group were set by these records and no
        others.
    candidates : int
        How many encoders were certified on the same records to choose from. Each gets ε / candidates, so that all
        their certificates hold together.
    sequence : FixedSequence, optional
        Encoders that were tested against a target in a fixed order, of which this one was the last to pass. The bound
        is the target then, and the sequence's length is the number of candidates.
    tail : Tail, optional
        The weight above a cap, where the records were thinned to capped weights (:func:`certifare.thin`). A tenth of ε
        bounds its share, and the bound is raised by that.
    drawn : Subsample, optional
        How the records were drawn (:func:`certifare.thin`, :func:`certifare.one_per_cluster`). The certificate says so;
        one of drawn records that does not is refused by :meth:`Certificate.verify`.
    positive : optional
        The positive label for equal opportunity; the last of two labels unless given.
    witness : CellCounts or sequence of Witness, optional
        Counts of *other* records (training records, say), on which the set of cells for the lower limit is chosen; or
        such a set, one for each label where the metric is a mean over labels. Without it the lower limit comes from a
        closed form and is looser. Not for ``method="calibrated"``.
    min_group_size : int
        Groups with fewer records are refused.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> counts = CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])
    >>> c = certify_counts(counts)
    >>> print(c)
    demographic parity distance of any classifier <= 0.2584 with 95 % confidence (1,500 + 1,400 records, 2 cells)
    """
    claim = Claim(
        metric=metric,
        confidence=confidence,
        method=method,
        candidates=candidates,
        positive=None if positive is None else name_of(positive),
        min_group_size=min_group_size,
    )
    if drawn is not None:
        counts = counts.with_exclusions((*counts.exclusions, *drawn.exclusions))
    provenance = Provenance() if drawn is None else Provenance().drawn(drawn)
    evidence = Evidence(
        counts,
        sequence,
        tail,
        witness if isinstance(witness, CellCounts) else tuple(witness or ()),
    )
    return issue(evidence, claim, provenance)


def issue(evidence: Evidence, claim: Claim, provenance: Provenance | None = None) -> Certificate:
    """Make a certificate: the one place where evidence, a claim and the records' provenance become one."""
    provenance = provenance or Provenance()
    claim = claim.fitted(evidence.counts)
    evidence = evidence.fitted(claim)
    figures = compute_figures(evidence, claim)
    strata = claim.strata(evidence.counts)
    by_weight = () if evidence.tail is None else (BY_WEIGHT,)
    return Certificate(
        metric=claim.metric,
        method=claim.method,
        confidence=float(claim.confidence),
        bound=figures.bound,
        estimate=figures.estimate,
        lower=figures.lower,
        counts=evidence.counts,
        parts=figures.parts,
        candidates=int(claim.candidates) if evidence.sequence is None else evidence.sequence.length,
        sequence=evidence.sequence,
        tail=evidence.tail,
        positive=strata[0] if claim.distance.strata == "positive" else None,
        scope=claim.scope,
        witnesses=evidence.witnesses,
        seed=provenance.seed,
        effective_size=provenance.effective_size,
        population=population_of(evidence.counts.exclusions, *provenance.population, *by_weight),
        assumptions=provenance.assumptions(claim.method, evidence.assumptions(claim.method)),
    )
