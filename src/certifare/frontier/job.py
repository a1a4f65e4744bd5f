"""A job: the table in its parts, what is claimed, and the certification records, which can be used once.

Fitting and choosing see the other parts only. Of the certify part nothing is known beforehand but how many records of
each group and label it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Exclusion, Subsample, one_per_cluster, thin
from certifare.certificates.claims import Claim, positive_of
from certifare.certificates.exact import epsilon_at
from certifare.certificates.looks import Look
from certifare.certificates.population import Phrase
from certifare.certificates.provenance import Provenance
from certifare.certificates.rounding import percent
from certifare.certificates.sampling import assumptions_of, check_population
from certifare.certificates.tail import Tail
from certifare.certification.ledger import NO_LEDGER, Ledger, Traces
from certifare.errors import ArgumentError, GroupError, LooksError
from certifare.foundation.formatting import amount
from certifare.foundation.memory import give_back
from certifare.foundation.version import __version__
from certifare.frontier.capping import CapForecast, choose_cap
from certifare.frontier.checking import (
    check_part,
    check_repeats,
    check_roles,
    group_findings,
    suggested_comparison,
    training_findings,
)
from certifare.frontier.fronts import knee, pareto
from certifare.frontier.paths import PartCounts
from certifare.frontier.utility import check_utility
from certifare.tables.reading import POOLED, Reading
from certifare.tables.splitting import CERTIFY, split
from certifare.tables.table import Table

if TYPE_CHECKING:
    from certifare.frontier.large import Elsewhere

PARTED = "The certification records are other rows of the table than the training records, parted from them at random."
"""Why the certificate of a search need not look its records up among the training records."""
#: Told what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How a job is done."""

    utility: str = "information"  # what encoders are compared by (:mod:`certifare.frontier.utility`)
    retain: float = 0.0  # weight of the table itself, for tasks that are not known yet
    # Groups that may be expected to have fewer certification records (for metrics that look at records of a label, of
    # each such label), by the numbers of the others, are pooled
    pool_groups: int | None = None
    seed: int = 0
    n_jobs: int = 2  # how many growths are fitted at a time
    ledger: Ledger = NO_LEDGER  # counts looks at the certification records; none unless given
    task: str = ""  # what else the result depends on, such as the target: the same job again is not a new look


@dataclass(frozen=True, eq=False)
class Sample:
    """Independent records of a part, and how they were drawn from it."""

    table: Table
    exclusions: tuple[Exclusion, ...] = ()
    assumptions: tuple[str, ...] = ()
    effective_size: float | None = None
    population: tuple[Phrase, ...] = ()
    tail: Tail | None = None


class Job:
    """A table in its parts, and what is claimed.

    - ``table``: with a label and groups.
    - ``claim``: of the certificates. The attribute of this name has the confidence of one look, and the positive
      label.
    - ``parts``: shares of the parts, ``certify`` among them.
    - ``elsewhere``: the certification records, if they are not in memory; ``table`` is then a sample of all records.
    """

    candidates: Any
    """What was tried; numbers of candidates are positions here."""
    labelled = True
    """Whether the table needs a label, which a train part learns."""
    pooling = "pool small groups (--pool-groups)"
    """How small groups can be made larger ones."""

    def __init__(
        self,
        table: Table,
        claim: Claim,
        options: JobOptions,
        parts: Mapping[str, float],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        check_roles(table, labelled=self.labelled)
        self.options = options
        self.parts = dict(parts)
        self.elsewhere = elsewhere
        self.seed = int(options.seed)
        if elsewhere is None:
            self.rows = split(table, parts, self.seed, by_group=options.pool_groups is None)
        else:
            self.rows = dict(elsewhere.rows)
        self._pooled: tuple[str, ...] = ()
        self.kept_groups: tuple[str, ...] | None = None  # all others are pooled
        if options.pool_groups is not None:
            if table.roles.each:
                raise ArgumentError(
                    "--pool-groups pools intersections, and --each claims each column. Compare a column with one of "
                    'its values instead: --sensitive "race==White".'
                )
            n_certify = None if elsewhere is None else elsewhere.n_certify
            self.kept_groups, self._pooled = _pool(table, self.rows, options.pool_groups, claim, n_certify)
            table = table if self.kept_groups is None else table.pooled(self.kept_groups)
        self.table = table
        self.ledger = options.ledger
        self.asked = claim.confidence
        self._traces = self._trace(claim)
        self.claim = replace(
            claim,
            confidence=self.ledger.allot(self._traces, claim.confidence, claim.looks),
            positive=_positive(table, claim),
            each=table.roles.sensitive if table.roles.each else (),
            given=table.roles.given,
        )
        self.look: Look | None = None  # set when the certification records are used
        self.utility = check_utility(options.utility)
        self.retain = float(options.retain)
        check_population(claim.population, clustered=table.clusters is not None)
        self.notes: list[str] = [] if self.ledger.reason is None else [self.ledger.reason]
        self._certified = False
        self._repeats = check_repeats(table)
        self.notes += [*self._repeats, *self._pooled]
        self._progress: Progress | None = None
        self.cap = self._choose_cap()
        self.train = self._weighing("train" if self.labelled else CERTIFY)
        self.certify_sample = self._independent(CERTIFY)
        self._check_sizes()
        assert table.groups is not None  # noqa: S101  (checked at the start)
        #: What else is odd about the table, before anything is fitted.
        of_groups = group_findings(table.groups, self.counted_sizes(), self.pooling)
        self.findings = (*of_groups, *training_findings(self.train))
        self.notes += map(str, self.findings)
        unlabelled = int((~table.labelled).sum())
        if unlabelled:
            counted = (
                "left out"
                if self.claim.labelled and self.claim.given is None
                else "counted as all others, but cannot be learnt from"
            )
            self.notes.append(f"{unlabelled:,} records have no label: they are {counted}")

    def useful(self, min_cells: int = 2) -> list[int]:
        """Return candidates with at least ``min_cells`` cells that seem to predict the label better than chance."""
        return [
            i
            for i, candidate in enumerate(self.candidates)
            if candidate.promising and candidate.utility > 0.0 and candidate.cells >= min_cells
        ]

    def knee(self, min_cells: int = 2) -> list[int]:
        """Choose the candidate after which more utility begins to cost more distance; none where none is useful."""
        useful = self.useful(min_cells)
        return [useful[knee(*self._plane(useful))]] if useful else []

    def front(self, min_cells: int = 2) -> list[int]:
        """Return candidates with at least ``min_cells`` cells that no other beats in predicted bound and utility."""
        numbers = [i for i, candidate in enumerate(self.candidates) if candidate.cells >= min_cells]
        return [numbers[i] for i in pareto(*self._plane(numbers))]

    def _plane(self, numbers: Sequence[int]) -> tuple[list[float], list[float]]:
        """Predicted bounds and utilities."""
        chosen = [self.candidates[i] for i in numbers]
        return [c.prediction.bound for c in chosen], [c.utility for c in chosen]

    def certify_sizes(self) -> NDArray[np.int64]:
        """Certification records of each group and first label: all that is known of them before they are counted."""
        if self.elsewhere is not None:
            return self.elsewhere.sizes(self.table, self.kept_groups, labelled=self.claim.labelled)
        table = self.certify_sample.table
        if not table.labels:
            return table.count(np.zeros(len(table), dtype=np.int64), 1).table.T
        (sizes,) = PartCounts.of(table, np.zeros(len(table), dtype=np.int64), 1).groups
        return np.asarray(sizes)

    def counted_sizes(self) -> NDArray[np.int64]:
        """Certification records of each group that the metric is about: all, or those with the positive label."""
        sizes = self.certify_sizes()
        if self.claim.distance.strata != "positive":
            return np.asarray(sizes.sum(axis=1))
        names = self.certify_sample.table.labels[0].names
        return np.asarray(sizes[:, names.index(str(self.claim.positive))])

    def _use(self, numbers: Sequence[int], progress: Progress | None) -> None:
        """Use the certification records, which can be done once."""
        if self._certified:
            raise ArgumentError(
                "The certification records have been used: a second choice on them would void both certificates. "
                "Certify on new records, or search with another seed before anything is certified."
            )
        if not numbers:
            raise ArgumentError("There is no encoder to certify.")
        self._certified = True
        self._progress = progress
        give_back()

    def _count_look(self, statement: Sequence[str]) -> None:
        """Count this look at the certification records, before anyone sees what it found."""
        look = self.ledger.count(self._traces, statement, self.claim.confidence, self.claim.looks)
        if look is not None and look.joint(self.claim.confidence) < self.asked:
            raise LooksError(
                "Another run looked at these certification records in the meantime, or this one was done before with "
                f"another result: {percent(self.asked)} confidence cannot be reached any more. This look's results are "
                "not shown. Use new records, or ask for less confidence."
            )
        self.look = look

    def _trace(self, claim: Claim) -> Traces:
        """Return what the ledger knows the certification records by, and this job."""
        records = self.table.records
        if self.elsewhere is not None:
            traces = self.ledger.origin(("records", self.elsewhere.digest), ("table", records))
        else:
            traces = self.ledger.trace(self.table.take(self.rows[CERTIFY]), self.table)
        how = replace(self.options, ledger=NO_LEDGER, n_jobs=1)
        parts = (type(self).__name__, records, *map(repr, (self.table.roles, claim, how, self.parts)))
        return self.ledger.of_job(traces, __version__, *parts)

    @property
    def reading(self) -> Reading:
        """How records become those that the certificates are about."""
        roles, claim = self.table.roles, self.claim
        return Reading(
            sensitive=roles.sensitive,
            label=roles.label[0] if roles.label else None,
            label_cuts=roles.label_cuts,
            positive=claim.positive if claim.distance.strata == "positive" else None,
            given=roles.given or msgspec.UNSET,
            kept_groups=self.kept_groups,
            unknown_groups=roles.missing_groups == "unknown",
            weight=roles.weight,
            cap=None if self.cap is None else self.cap.cap,
            cluster=roles.cluster,
            population=claim.population,  # type: ignore[arg-type]  # checked by the claim
            missing_words=self.table.missing_words,
            decimal=self.table.decimal,  # type: ignore[arg-type]  # checked when the file was read
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Records of the whole table, and of each part."""
        sizes = {"all": len(self.table), **{name: len(rows) for name, rows in self.rows.items()}}
        if self.elsewhere is not None:
            sizes |= {"all": self.elsewhere.n_records, CERTIFY: self.elsewhere.n_certify}
        return sizes

    @property
    def certify_digest(self) -> str:
        """A fingerprint of the certification records."""
        return self.certify_sample.table.digest if self.elsewhere is None else self.elsewhere.digest

    def _weighing(self, part: str) -> Table:
        """Take the records of a part, with weights up to the cap."""
        table = self.table.take(self.rows[part])
        if table.weights is None or self.cap is None:
            return table
        return table.changed(weights=np.minimum(table.weights, self.cap.cap))

    def _independent(self, part: str) -> Sample:
        """Draw records of a part that are independent draws of the population that the claim is about.

        Each part has a stream of its own: drawn alike, the select part would say which certification records are kept.
        The stream knows the records, so that other tables are drawn independently at the same seed.
        """
        table = self.table.take(self.rows[part])
        left_out: tuple[Exclusion, ...] = ()
        if self.claim.labelled:
            labelled = table.of_labelled()
            left_out, table = labelled.exclusions[len(table.exclusions) :], labelled
        if table.clusters is not None:
            drawn = one_per_cluster(
                table.clusters,
                weights=table.weights,
                population=self.claim.population,
                seed=self.seed,
                part=f"{part} {self.table.records}",
            )
        elif table.weights is not None:
            drawn = self._thin(table.weights, part)
        else:
            return Sample(table, left_out)
        kept = table.take(np.flatnonzero(drawn.keep)).changed(weights=None, clusters=None)
        left_out = (*left_out, *drawn.exclusions)
        tail = drawn.tail(
            lambda rows: table.take(np.flatnonzero(rows)).count(
                np.zeros(rows.sum(), dtype=np.int64), 1, labels=self.claim.labelled
            )
        )
        return Sample(kept, left_out, drawn.assumptions, drawn.effective_size, drawn.population, tail)

    def _thin(self, weights: NDArray[np.float64], part: str) -> Subsample:
        """Thin to the weights of a part; the largest in the table stands for the largest in the population."""
        assert self.table.weights is not None  # noqa: S101  (a part has weights where the table has)
        largest = float(self.table.weights.max())
        cap = None if self.cap is None else self.cap.cap
        drawn = thin(weights, seed=self.seed, part=f"{part} {self.table.records}", max_weight=largest, cap=cap)
        return replace(drawn, assumptions=assumptions_of(largest, None, weighted=True))

    def _choose_cap(self) -> CapForecast | None:
        """Choose a cap on the weights by training and select records; None without weights, or if no cap is best."""
        table = self.table
        # Forecasts of caps are by groups of whole records: other claims thin to whole weights.
        if table.weights is None or table.clusters is not None or self.claim.each or self.claim.given is not None:
            return None
        rows = np.concatenate([rows for part, rows in self.rows.items() if part != CERTIFY])
        assert table.groups is not None  # noqa: S101  (checked at the start)
        groups, (strata, _) = table.groups.codes[rows], _strata(table, self.claim, rows)
        scale = len(self.rows["certify"]) / len(rows)
        found = choose_cap(
            table.weights[rows], groups, np.stack(strata), self.claim.metric, epsilon_at(self.claim.confidence), scale
        )
        if found is not None:
            self.notes.append(
                f"weights are capped at {found.cap:g}, where training and select records promise the smallest bound; "
                "utility, accuracy, AUC and calibration are by capped weights"
            )
        return found

    def _check_sizes(self) -> None:
        """Refuse groups that are too small to be certified, before anything is fitted."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        sizes, groups = self.certify_sizes()[None], self.table.groups.names
        counts = (
            CellCounts(sizes[:, :, :-1], groups, self.table.strata.names)
            if self.claim.labelled
            else CellCounts(sizes.sum(axis=2), groups)
        )
        try:
            self.claim = self.claim.fitted(counts)
            self.claim.check(counts)
        except GroupError as error:
            raise type(error)(f"{error}{self._what_helps()}") from error
        check_part(self.train, "train")

    def _what_helps(self) -> str:
        """Say what may be done about groups that are too small."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        if suggested := suggested_comparison(self.table.groups):
            return suggested
        if self.claim.each:
            return ' With --each, compare a column with one of its values, such as --sensitive "race==White".'
        if self._pooled:
            return " A larger --pool-groups pools more groups."
        return f" To pool small groups: --pool-groups {self.claim.min_group_size}."

    def _exclusions(self) -> tuple[Exclusion, ...]:
        """Return the records that were left out, before and after the split."""
        before = (Exclusion(f"{e.reason} (of all records, before the split)", e.records) for e in self.table.exclusions)
        return (*before, *self.certify_sample.exclusions)

    def _provenance(self, *besides: str) -> Provenance:
        """Return what certificates say of the certification records."""
        sample = self.certify_sample
        return Provenance(
            looked_up=PARTED,
            besides=(*besides, *self._pooled, *self._repeats, *sample.assumptions),
            seed=self.seed if sample.effective_size is not None else None,
            effective_size=sample.effective_size,
            population=sample.population,
        )


def _pool(
    table: Table, rows: Mapping[str, NDArray[np.int64]], fewest: int, claim: Claim, n_certify: int | None = None
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Choose the groups that are not pooled, None if all stay, and say so. Certification records are not used."""
    assert table.groups is not None  # noqa: S101  (checked at the start)
    if fewest < 1:
        raise ArgumentError(f"pool_groups={fewest}: give a number of records.")
    others = np.concatenate([part for name, part in rows.items() if name != CERTIFY])
    names = table.groups.names
    groups, drawn = table.groups.codes[others], _drawn(table.take(others))
    strata, where = _strata(table, claim, others)
    there = np.stack([np.bincount(groups[at], weights=drawn[at], minlength=len(names)) for at in strata])
    expected = there * ((n_certify or len(rows[CERTIFY])) / len(others))
    present = np.bincount(groups, minlength=len(names)) > 0
    order = [int(i) for i in np.argsort(expected.min(0), kind="stable") if present[i]]
    n_small = int((expected.min(0)[order] < fewest).sum())
    if not n_small and len(order) == len(names):
        return None, ()
    # One small group needs company, and so do several that are small together.
    while n_small and (n_small < 2 or expected[:, order[:n_small]].sum(1).min() < fewest) and n_small < len(order):
        n_small += 1
    if len(order) - n_small < 1:
        raise GroupError(
            f"Pooled, the groups of fewer than {amount(fewest, 'certification record')}{where} leave no other group to "
            "be compared with: pool fewer, or add records."
        )
    kept = {names[i] for i in order[n_small:]}
    pooled = ", ".join(
        f"{name!r} ({amount(int((table.groups.codes == i).sum()), 'record')})"
        for i, name in enumerate(names)
        if name not in kept
    )
    note = (
        f"The group {POOLED!r} pools {pooled}: by the numbers of records that do not certify, a group of it has "
        f"fewer than {amount(fewest, 'certification record')}{where}, or is the next smallest."
    )
    return tuple(name for name in names if name in kept), (note,)


def _strata(table: Table, claim: Claim, rows: NDArray[np.int64]) -> tuple[list[NDArray[np.bool_]], str]:
    """Return which of these records are in each stratum of the metric, and which strata these are, in words."""
    if not claim.labelled:
        return [np.ones(len(rows), dtype=bool)], ""
    labels = table.labels[0]
    if claim.distance.strata == "positive":
        positive = _positive(table, claim)
        return [labels.codes[rows] == labels.names.index(str(positive))], f" with label {positive!r}"
    return [labels.codes[rows] == code for code in range(len(labels.names))], " of each label"


def _drawn(table: Table) -> NDArray[np.float64]:
    """How likely each record is kept where one of each cluster is, or they are thinned to the largest weight."""
    kept = np.ones(len(table))
    if table.clusters is not None:
        kept /= np.bincount(table.clusters)[table.clusters]
    elif table.weights is not None and table.weights.any():
        kept = table.weights / table.weights.max()
    return kept


def _positive(table: Table, claim: Claim) -> str | None:
    """Find the positive label: as given, as the label's comparison says, or as its name does; None if not needed."""
    if not table.labels:
        return None
    names = table.labels[0].names
    positive = claim.positive if claim.positive is not None else table.positive
    if positive is not None:
        if positive not in names:
            raise ArgumentError(f"positive={positive!r} is not among the labels {', '.join(map(repr, names))}.")
        return positive
    return positive_of(names) if claim.distance.strata == "positive" else None
