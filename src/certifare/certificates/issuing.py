"""From counts to a certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.certificate import (
    FIXED_IN_ADVANCE,
    ONE_POPULATION,
    Certificate,
    at_least,
    written,
)
from certifare.certificates.claims import (
    Claim,
    Metric,
    PairBound,
    Witness,
    bound_parts,
    check_groups,
    check_witnesses,
    choose_witnesses,
    combine,
    estimate_of,
    statistic,
    stratum,
)
from certifare.certificates.counts import LABEL_MISSING, CellCounts
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.lemmas import PAPER_BUDGET, lemmas_bound, one_population
from certifare.certificates.population import BY_WEIGHT, population_of
from certifare.certificates.provenance import Provenance
from certifare.certificates.sampling import Subsample
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import CAP_FIXED, Tail, distance_level, lowered
from certifare.errors import (
    ArgumentError,
    CellCountMismatchError,
    ConfidenceError,
    LabelsRequiredError,
)
from certifare.levels import name_of


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
    base_counts: CellCounts | None = None,
    sum_counts: CellCounts | None = None,
    budget: Sequence[float] | None = None,
    min_group_size: int = 30,
) -> Certificate:
    """Bound a distance between groups, for every classifier on the cells, from counts alone.

    Parameters
    ----------
    counts : CellCounts
        The certification sample: records that played no part in making the encoder.
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"}
        The distance. Equalized odds is the mean over labels, or with ``_max`` the largest.
    confidence : float
        1 − ε, the probability with which the bound holds, from 0.5 up.
    method : {"exact", "mcdiarmid", "lemmas"}
        The exact bound; a closed form that is always above it; or the paper's, which needs ``sum_counts``.
    candidates : int
        How many encoders were certified on the same records to choose from. Each gets ε / candidates, so that all
        their certificates hold together.
    sequence : FixedSequence, optional
        Encoders that were tested against a target in a fixed order, of which this one was the last to pass. The bound
        is the target then, and the sequence's length is the number of candidates.
    tail : Tail, optional
        The weight above a cap, where the records were thinned to capped weights (:func:`certifare.thin`). A tenth of ε
        bounds its share, and the bound is raised by that. Not for ``method="lemmas"``.
    drawn : Subsample, optional
        How the records were drawn (:func:`certifare.thin`, :func:`certifare.one_per_cluster`). The certificate says so;
        one of drawn records that does not is refused by :meth:`Certificate.verify`.
    positive : optional
        The positive label for equal opportunity; the last of two labels unless given.
    witness : CellCounts or sequence of Witness, optional
        Counts of *other* records (training records, say), on which the set of cells for the lower limit is chosen; or
        such a set, one for each label where the metric is a mean over labels. Without it the lower limit comes from a
        closed form and is looser.
    base_counts, sum_counts : CellCounts, optional
        For ``method="lemmas"``: the samples for base rates and for the sum, from the same population. ``counts`` serve
        the cells, and base rates as well where there are no ``base_counts``.
    budget : three floats, optional
        For ``method="lemmas"``: shares of ε for base rates, cells and sum.
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
    return issue(
        counts,
        claim,
        Provenance() if drawn is None else Provenance().drawn(drawn),
        sequence=sequence,
        tail=tail,
        witness=witness,
        base_counts=base_counts,
        sum_counts=sum_counts,
        budget=budget,
    )


def issue(
    counts: CellCounts,
    claim: Claim,
    provenance: Provenance | None = None,
    *,
    sequence: FixedSequence | None = None,
    tail: Tail | None = None,
    witness: CellCounts | Sequence[Witness] | None = None,
    base_counts: CellCounts | None = None,
    sum_counts: CellCounts | None = None,
    budget: Sequence[float] | None = None,
) -> Certificate:
    """Put a certificate together: the one place where counts, a claim and the records' provenance become one.

    Parameters
    ----------
    counts, sequence, tail, witness, base_counts, sum_counts, budget
        As in :func:`certify_counts`.
    claim : Claim
    provenance : Provenance, optional
        Where the records come from; unless given, they were not compared with the training records.
    """
    provenance = provenance or Provenance()
    method, distance = claim.method, claim.distance
    if sequence is not None and method != "exact":
        raise ArgumentError(f"method={method!r}: a sequence is tested by the exact method.")
    if tail is not None and method == "lemmas":
        raise ArgumentError('method="lemmas" is not proved for capped weights: leave the cap out, or choose "exact".')
    if not claim.labelled:
        counts, tail = _with_unlabelled(counts, distance), None if tail is None else tail.without_labels()
    if sequence is not None:
        claim = replace(claim, candidates=sequence.length)
    strata = claim.check(counts)
    epsilon = claim.epsilon(strata)

    witnesses: tuple[Witness, ...] = ()
    if isinstance(witness, CellCounts):
        _same_cells(counts, witness, "witness")
        witnesses = choose_witnesses(distance, counts, strata, witness)
    elif witness is not None:
        witnesses = tuple(witness)
    check_witnesses(distance, counts, strata, witnesses)
    if tail is not None:
        tail.check(counts)

    tables: tuple[CellCounts, ...] = (counts,)
    pair_bound: PairBound = _exact if method == "exact" else _mcdiarmid
    besides: dict[str, Any] = {}
    of_bound: tuple[str, ...] = ()
    if method == "lemmas":
        besides = _besides(counts, base_counts, sum_counts, budget, strata)
        tables = (besides["base_counts"] or counts, counts, besides["sum_counts"])
        pair_bound = partial(_lemmas, besides["budget"])
        of_bound = (ONE_POPULATION,)
    elif not (base_counts is None and sum_counts is None and budget is None):
        raise ArgumentError(f'base_counts, sum_counts and budget are for method="lemmas", not for {method!r}.')
    if sequence is not None:
        sequence.check(counts, claim, tail)
        pair_bound = partial(_claimed, sequence.target, len(strata) if distance.combine == "mean" else 1)
        besides = {"sequence": sequence}
        of_bound = (FIXED_IN_ADVANCE,)
    if tail is not None:
        besides = {**besides, "tail": tail}
        of_bound = (*of_bound, CAP_FIXED)
    parts = bound_parts(tables, strata, epsilon, pair_bound, None if sequence is not None else tail)
    bound = min(1.0, combine(distance, [(part.label, part.bound) for part in parts]))
    return Certificate(
        metric=claim.metric,
        method=method,
        confidence=float(claim.confidence),
        bound=bound if sequence is None else sequence.target,
        estimate=combine(distance, [(part.label, part.estimate) for part in parts]),
        lower=_lower_limit(distance, counts, strata, epsilon, witnesses, tail),
        counts=counts,
        parts=parts,
        candidates=int(claim.candidates),
        positive=strata[0] if distance.strata == "positive" else None,
        witnesses=witnesses,
        seed=provenance.seed,
        effective_size=provenance.effective_size,
        population=population_of(
            (exclusion for table in tables for exclusion in table.exclusions),
            *provenance.population,
            *(() if tail is None else (BY_WEIGHT,)),
        ),
        assumptions=provenance.assumptions(of_bound),
        **besides,
    )


def _with_unlabelled(counts: CellCounts, metric: Metric) -> CellCounts:
    """Take labels off counts, unless records without a label are missing there: the metric is about these, too."""
    if counts.labels is None:
        return counts
    unlabelled = sum(e.records for e in counts.exclusions if e.reason == LABEL_MISSING)
    if unlabelled:
        raise LabelsRequiredError(
            f"{unlabelled:,} records without a label are not in these counts, but the {metric.words} is about all "
            "records: count again without a label. (counts.without_labels() makes a claim about the others alone.)"
        )
    return counts.without_labels()


def _besides(
    counts: CellCounts,
    base_counts: CellCounts | None,
    sum_counts: CellCounts | None,
    budget: Sequence[float] | None,
    strata: Sequence[str | None],
) -> dict[str, Any]:
    """Return what the paper's bound needs besides: samples by the groups and labels of the counts, and a budget.

    Base rates that were taken from the counts themselves need no table of their own.
    """
    if sum_counts is None:
        raise ArgumentError('method="lemmas" uses a sample of its own for the sum: pass sum_counts= beside the counts.')
    samples: dict[str, CellCounts | None] = {"base_counts": base_counts, "sum_counts": sum_counts}
    for name, table in samples.items():
        if table is None:
            continue
        _same_cells(counts, table, name)
        alike = table.like(counts)
        for label in strata:
            check_groups(stratum(alike, label), label, 1)
            one_population(stratum(counts, label), stratum(alike, label), name, cells=name == "sum_counts")
        samples[name] = None if name == "base_counts" and np.array_equal(alike.table, counts.table) else alike
    shares = PAPER_BUDGET if budget is None else tuple(float(share) for share in budget)
    if len(shares) != 3 or min(shares) <= 0.0 or not math.isclose(sum(shares), 1.0, rel_tol=1e-9):
        raise ConfidenceError(f"budget={shares}: give three positive shares of ε that add up to 1.")
    return {**samples, "budget": shares}


def _lemmas(budget: tuple[float, float, float], tables: Sequence[NDArray[np.int64]], epsilon: float) -> float:
    base, cells, sums = tables
    return lemmas_bound(base, cells, sums, epsilon, budget)


def _claimed(target: float, labels: int, tables: Sequence[NDArray[np.int64]], epsilon: float) -> float:
    """Return what a sequence says of one pair: the target, or all of it in one label where that bounds a mean."""
    return min(1.0, at_least(labels * written(target)))


def _exact(tables: Sequence[NDArray[np.int64]], epsilon: float) -> float:
    n0, n1, m = statistic(tables[0])
    return max(0.0, difference_limit(n0, n1, m, epsilon))


def _mcdiarmid(tables: Sequence[NDArray[np.int64]], epsilon: float) -> float:
    n0, n1, m = statistic(tables[0])
    return min(1.0, m / (n0 * n1) + hoeffding_radius(n0, n1, epsilon))


def _lower_limit(
    metric: Metric,
    counts: CellCounts,
    strata: Sequence[str | None],
    epsilon: float,
    witnesses: Sequence[Witness],
    tail: Tail | None,
) -> float:
    """Lower confidence limit of the metric: by witnesses, or without them by a closed form."""

    def whole(limit: float, groups: tuple[str, str], label: str | None, epsilon: float) -> float:
        """Make a limit by capped weights one by whole weights."""
        return limit if tail is None else lowered(limit, tail.share(counts, groups, label, epsilon))

    level = distance_level(epsilon, capped=tail is not None)
    limits: list[tuple[str | None, float]] = [(label, 0.0) for label in strata]
    for witness in witnesses:
        c0, c1 = stratum(counts, witness.label).of_groups(*witness.groups).table.T
        n0, n1 = int(c0.sum()), int(c1.sum())
        cells = list(witness.cells)
        m = n1 * int(c0[cells].sum()) - n0 * int(c1[cells].sum())
        limit = -difference_limit(n1, n0, -m, level)
        limits.append((witness.label, whole(limit, witness.groups, witness.label, epsilon)))
    if not witnesses:
        pairs = [(i, j) for j in range(len(counts.groups)) for i in range(j)]
        ways = len(pairs) * (len(strata) if metric.combine == "max" else 1)
        for label in strata:
            table = stratum(counts, label).table
            for i, j in pairs:
                limit = _closed_form_lower(table[:, (i, j)], level / ways)
                limits.append((label, whole(limit, (counts.groups[i], counts.groups[j]), label, epsilon / ways)))
    return min(1.0, max(0.0, combine(metric, limits)))


def _closed_form_lower(table: NDArray[np.int64], epsilon: float) -> float:
    """TV̂ less its largest possible bias and the radius of its concentration (docs/theory.md)."""
    n0, n1 = (int(n) for n in table.sum(axis=0))
    bias = 0.5 * math.sqrt((len(table) - 1) * (1.0 / n0 + 1.0 / n1))
    return estimate_of(table) - bias - hoeffding_radius(n0, n1, epsilon)


def _same_cells(counts: CellCounts, other: CellCounts, name: str) -> None:
    if other.n_cells != counts.n_cells:
        raise CellCountMismatchError(f"{name} has {other.n_cells} cells, the counts have {counts.n_cells}.")
