"""From counts, or from an encoder and records, to a certificate."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.certificate import (
    ASSUMPTIONS,
    FIXED_IN_ADVANCE,
    ONE_POPULATION,
    VOID,
    Certificate,
    at_least,
    written,
)
from certifare.certificates.claims import (
    Metric,
    PairBound,
    Witness,
    bound_parts,
    check_groups,
    check_witnesses,
    choose_witnesses,
    combine,
    estimate_of,
    metric_of,
    statistic,
    strata_of,
    stratum,
    stratum_epsilon,
)
from certifare.certificates.counts import LABEL_MISSING, CellCounts, Exclusion, Missing, PlacedRecords
from certifare.certificates.exact import difference_limit, epsilon_at, hoeffding_radius
from certifare.certificates.lemmas import PAPER_BUDGET, lemmas_bound, one_population
from certifare.certificates.population import population_of
from certifare.certificates.sampling import Subsample, check_cap, check_population, one_per_cluster, thin
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import CAP_FIXED, Tail, distance_level, lowered
from certifare.elsewhere import engine_for
from certifare.errors import (
    ArgumentError,
    CellCountMismatchError,
    ConfidenceError,
    LabelsRequiredError,
    LengthMismatchError,
    TrainingOverlapError,
    UnknownMethodError,
)
from certifare.levels import name_of
from certifare.randomness import stream

METHODS = ("exact", "mcdiarmid", "lemmas")

NOT_LOOKED_UP = "Whether any of the certification records was used to fit the encoder was not looked up."
"""What a certificate says where nobody could compare its records with the training records."""
FROM_COUNTS = (*ASSUMPTIONS, NOT_LOOKED_UP)


def certify_counts(
    counts: CellCounts,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    method: str = "exact",
    candidates: int = 1,
    *,
    sequence: FixedSequence | None = None,
    tail: Tail | None = None,
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
    epsilon_at(confidence)
    if isinstance(candidates, bool) or int(candidates) != candidates or candidates < 1:
        raise ArgumentError(f"candidates={candidates}: give the number of encoders tried, at least 1.")
    if method not in METHODS:
        raise UnknownMethodError(f"Unknown method {method!r}: choose one of {', '.join(METHODS)}.")
    if sequence is not None and method != "exact":
        raise ArgumentError(f"method={method!r}: a sequence is tested by the exact method.")
    chosen = metric_of(metric)
    if tail is not None and method == "lemmas":
        raise ArgumentError('method="lemmas" is not proved for capped weights: leave the cap out, or choose "exact".')
    if chosen.strata == "all":
        counts, tail = _with_unlabelled(counts, chosen), None if tail is None else tail.without_labels()
    positive_name = None if positive is None else name_of(positive)
    strata = strata_of(chosen, counts, positive_name)
    candidates = candidates if sequence is None else sequence.length
    for label in strata:
        check_groups(stratum(counts, label), label, max(1, min_group_size))
    epsilon = stratum_epsilon(metric, confidence, candidates, strata)

    witnesses: tuple[Witness, ...] = ()
    if isinstance(witness, CellCounts):
        _same_cells(counts, witness, "witness")
        witnesses = choose_witnesses(chosen, counts, strata, witness)
    elif witness is not None:
        witnesses = tuple(witness)
    check_witnesses(chosen, counts, strata, witnesses)
    if tail is not None:
        tail.check(counts)

    tables: tuple[CellCounts, ...] = (counts,)
    pair_bound: PairBound = _exact if method == "exact" else _mcdiarmid
    besides: dict[str, Any] = {"assumptions": FROM_COUNTS}
    if method == "lemmas":
        besides = _besides(counts, base_counts, sum_counts, budget, strata)
        tables = (besides["base_counts"] or counts, counts, besides["sum_counts"])
        pair_bound = partial(_lemmas, besides["budget"])
    elif not (base_counts is None and sum_counts is None and budget is None):
        raise ArgumentError(f'base_counts, sum_counts and budget are for method="lemmas", not for {method!r}.')
    if sequence is not None:
        sequence.check(counts, metric, confidence, positive_name, tail)
        pair_bound = partial(_claimed, sequence.target, len(strata) if chosen.combine == "mean" else 1)
        besides = {"sequence": sequence, "assumptions": (*FROM_COUNTS, FIXED_IN_ADVANCE)}
    if tail is not None:
        besides = {**besides, "tail": tail, "assumptions": (*besides["assumptions"], CAP_FIXED)}
    parts = bound_parts(tables, strata, epsilon, pair_bound, None if sequence is not None else tail)
    bound = min(1.0, combine(chosen, [(part.label, part.bound) for part in parts]))
    return Certificate(
        metric=metric,
        method=method,
        confidence=float(confidence),
        bound=bound if sequence is None else sequence.target,
        estimate=combine(chosen, [(part.label, part.estimate) for part in parts]),
        lower=_lower_limit(chosen, counts, strata, epsilon, witnesses, tail),
        counts=counts,
        parts=parts,
        candidates=int(candidates),
        positive=strata[0] if chosen.strata == "positive" else None,
        witnesses=witnesses,
        population=population_of(exclusion for table in tables for exclusion in table.exclusions),
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
    return {**samples, "budget": shares, "assumptions": (*FROM_COUNTS, ONE_POPULATION)}


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


class Encoder(Protocol):
    """What certification asks of an encoder: cells, their number, and whether it has seen these records.

    One that can also compare records (``repeats``, see :class:`certifare.encoders.RestrictedEncoder`) is asked to.
    """

    n_cells_: int

    def apply(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.integer[Any]]:
        """Cell id of each record; only an encoder that ``reads_groups`` is given the groups."""

    def training_overlap(self, X: Any) -> Any:
        """How many of the records were used to fit; None where that is not known."""

    def sensitive_features_in(self, X: Any) -> Any:
        """Return the sensitive columns named by the encoder, taken from the table."""


def certify(
    encoder: Encoder,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    method: str = "exact",
    candidates: int = 1,
    positive: object = None,
    weights: ArrayLike | None = None,
    cap: float | None = None,
    clusters: ArrayLike | None = None,
    population: str = "clusters",
    missing: Missing = "refuse",
    min_group_size: int = 30,
    seed: int = 0,
    exclusions: Iterable[Exclusion] = (),
    allow_training_records: bool = False,
) -> Certificate:
    """Certify a fitted encoder on records that it has not seen.

    Parameters
    ----------
    encoder : RestrictedEncoder
        A fitted encoder.
    X : table
        Certification records, of any kind the encoder accepts. A Dask DataFrame stays on its cluster.
    y : array-like, optional
        Labels, for metrics that condition on them.
    sensitive_features : array-like or table, optional
        The group of each record; several columns are intersected. Taken from X where the encoder names its
        sensitive columns.
    metric, confidence, method, candidates, positive, min_group_size
        As in :func:`certify_counts`. ``method="lemmas"`` splits the records in two halves: one for base rates and
        cells, one for the sum.
    weights : array-like, optional
        Survey weights; records are thinned to them (:func:`certifare.thin`).
    cap : float, optional
        Thin to weights capped here, so that more records stay, and bound what lies above the cap. Choose it without
        looking at these records: where T* is smallest on others, for instance (``fit`` does so).
    clusters : array-like, optional
        Clusters of dependent records; one of each is kept (:func:`certifare.one_per_cluster`).
    population : {"clusters", "records"}
        With ``clusters``: what the claim is about.
    missing : {"refuse", "unknown", "drop"}
        What to do with records that lack a group or label (:meth:`CellCounts.from_cells`). Demographic parity looks
        at no label, and counts records without one. Records that are left out take no part in a draw.
    seed : int
        Seed of random choices (thinning, clusters, halves). Choices on other records, or on their other cells, are
        independent of these whatever the seed.
    exclusions : iterable of Exclusion
        Records that were left out before, to be recorded in the certificate.
    allow_training_records : bool
        Certify even if records were used to fit. The result is then no valid certificate, and says so.

    Returns
    -------
    Certificate
    """
    check_population(population, clustered=clusters is not None)
    if cap is not None:
        check_cap(cap, weighted=weights is not None, clustered=clusters is not None)
    engine = engine_for(X)
    if engine is not None:
        certificate: Certificate = engine.certify(
            encoder,
            X,
            y,
            sensitive_features=sensitive_features,
            metric=metric,
            confidence=confidence,
            method=method,
            candidates=candidates,
            positive=positive,
            weights=weights,
            clusters=clusters,
            missing=missing,
            min_group_size=min_group_size,
            exclusions=exclusions,
            allow_training_records=allow_training_records,
        )
        return certificate
    groups = encoder.sensitive_features_in(X) if sensitive_features is None else sensitive_features
    assumptions = check_overlap(encoder.training_overlap(X), allow_training_records)
    # An encoder that reads groups, and does not know in which column, reads those that are certified.
    by_group = getattr(encoder, "reads_groups", False) and getattr(encoder, "sensitive", None) is None
    cells = np.asarray(encoder.apply(X, sensitive_features=groups) if by_group else encoder.apply(X))
    # The cells stand for the records: draws on other records are independent of these, even at the same seed.
    part = f"certify {hashlib.sha256(cells.astype('<i8').tobytes()).hexdigest()}"
    labels = None if metric_of(metric).strata == "all" else y
    records = PlacedRecords.of(cells, groups, labels, encoder.n_cells_, missing=missing)
    if clusters is None and hasattr(encoder, "repeats"):
        assumptions += encoder.repeats(X, records.places).check("certification records")
    sample = _independent(records.known, weights, cap, clusters, population, seed, part)
    counts, base_counts, sum_counts = records.count(sample.keep), None, None
    if method == "lemmas":
        first = stream(seed, "halves", part).random(len(cells)) < 0.5
        counts = base_counts = records.count(sample.keep & first)
        sum_counts = records.count(sample.keep & ~first)
    left_out = (*exclusions, *records.exclusions, *sample.exclusions)
    counts = CellCounts(counts.table, counts.groups, counts.labels, left_out)
    certificate = certify_counts(
        counts,
        metric,
        confidence,
        method,
        candidates,
        positive=positive,
        tail=sample.tail(records.count),
        witness=training_counts(encoder, counts, metric),
        min_group_size=min_group_size,
        base_counts=base_counts,
        sum_counts=sum_counts,
    )
    random_choice = weights is not None or clusters is not None or method == "lemmas"
    return msgspec.structs.replace(
        certificate,
        assumptions=(*assumptions, *certificate.assumptions[len(FROM_COUNTS) :], *sample.assumptions),
        seed=seed if random_choice else None,
        effective_size=sample.effective_size if weights is not None or clusters is not None else None,
        population=population_of(counts.exclusions, *sample.population),
    )


def check_overlap(overlap: Any, allow_training_records: bool = False) -> list[str]:
    """Refuse certification records that were used to fit; return what the certificate assumes.

    The last of it says whether the records were looked up among the training records.
    """
    if overlap is None:
        return list(FROM_COUNTS)
    if not overlap.excessive:
        return [*ASSUMPTIONS, f"The certification records were looked up: {overlap}."]
    if not allow_training_records:
        raise TrainingOverlapError(
            f"Of the certification records, {overlap}. A certificate needs records that played no part in fitting: "
            "hold some out. (In Python, allow_training_records=True overrides this; the result is then no valid "
            "certificate.)"
        )
    return [f"{VOID}: of the certification records, {overlap}.", *ASSUMPTIONS[1:]]


def _independent(
    known: NDArray[np.bool_],
    weights: ArrayLike | None,
    cap: float | None,
    clusters: ArrayLike | None,
    population: str,
    seed: int,
    part: str,
) -> Subsample:
    """Draw independent records among those that are known."""
    columns = []
    for name, column in (("weights", weights), ("clusters", clusters)):
        values = None if column is None else np.asarray(column)
        if values is not None and len(values) != len(known):
            raise LengthMismatchError(f"{name} has {len(values):,} records, X has {len(known):,}.")
        columns.append(None if values is None else values[known])
    w, cluster = columns
    if cluster is not None:
        drawn = one_per_cluster(cluster, weights=w, population=population, seed=seed, part=part)
    elif w is not None:
        drawn = thin(w, seed=seed, part=part, cap=cap)
    else:
        return Subsample(known, (), float(known.sum()), seed, (), ())
    keep, beyond = known.copy(), known.copy()
    keep[known] = drawn.keep
    beyond[known] = False if drawn.beyond is None else drawn.beyond
    return replace(drawn, keep=keep, beyond=None if drawn.beyond is None else beyond)


def training_counts(encoder: Encoder, counts: CellCounts, metric: str) -> CellCounts | None:
    """Return the encoder's own training counts, on which a witness may be chosen, where it has them."""
    training: CellCounts | None = getattr(encoder, "training_counts_", None)
    if training is None or metric_of(metric).strata != "all":
        return None
    if training.n_cells != counts.n_cells or not set(counts.groups) <= set(training.groups):
        return None
    return training
