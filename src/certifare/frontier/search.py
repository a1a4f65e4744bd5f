"""A search: the table in its parts, every encoder that was tried on them, and the certificates of a few.

Fitting and choosing see the train and select parts only. Of the certify part nothing is known before
:meth:`Search.certify` but how many records of each group it has, and that can be called once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import (
    CellCounts,
    Certificate,
    Exclusion,
    FixedSequence,
    Subsample,
    one_per_cluster,
    thin,
)
from certifare.certificates.assumptions import READS_GROUP
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import Claim
from certifare.certificates.exact import epsilon_at
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look
from certifare.certificates.population import Phrase
from certifare.certificates.provenance import Provenance
from certifare.certificates.sampling import assumptions_of, check_population
from certifare.certificates.tail import Tail
from certifare.certification.ledger import NO_LEDGER, Ledger, Traces, statement_of
from certifare.encoders.hashes import count_repeats
from certifare.encoders.weighting import representative_rows
from certifare.errors import ArgumentError, EncoderError, GroupError, RoleError
from certifare.foundation.formatting import amount
from certifare.foundation.levels import sort_key
from certifare.foundation.progress import listening
from certifare.foundation.randomness import stream
from certifare.frontier.capping import CapForecast, choose_cap
from certifare.frontier.fronts import knee, pareto
from certifare.frontier.glimpse import glimpses
from certifare.frontier.ordering import SHOWN, WORTH_TESTING, chain
from certifare.frontier.paths import Explorer, GrowthPath, PartCounts
from certifare.frontier.settings import Grid, Setting
from certifare.frontier.target import Outlook, Prediction
from certifare.frontier.utility import (
    beyond_chance,
    check_utility,
    left_out_beyond_chance,
    promised,
    utility_of,
)
from certifare.tables.frames import Frame
from certifare.tables.reading import POOLED, Reading
from certifare.tables.splitting import CERTIFY, PARTS, split
from certifare.tables.table import Table, refuse_quantity, suggest_comparison

#: Labels whose names say that they are the positive one.
POSITIVE_NAMES = frozenset({"1", "1.0", "true", "yes", "y"})
PARTED = "The certification records are other rows of the table than the training records, parted from them at random."
"""Why the certificate of a search need not look its records up among the training records."""
#: A sensitive column of more numbers than this is probably a quantity.
MANY_NUMBERS = 12
#: Told what is being done, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Candidate:
    """An encoder that was tried.

    Attributes
    ----------
    path : GrowthPath
        The growth that it comes from.
    cells : int
    accuracy, explained : float
        Of the cells' forecasts, on the select part (:class:`~certifare.frontier.utility.Estimates`).
    auc : float or None
    utility : float
        What encoders are compared by, on the select and training parts.
    promising : bool
        Whether its forecasts seem to go with the label beyond chance, on the select part, or on the train part where
        the other has too few records to show it.
    retained : float
        Retained information, on the select part.
    outlook : Outlook
        What may be expected of its certificate.
    prediction : Prediction
        Of its certificate at full ε.
    """

    path: GrowthPath
    cells: int
    accuracy: float
    explained: float
    auc: float | None
    utility: float
    promising: bool
    retained: float
    outlook: Outlook
    prediction: Prediction

    @property
    def setting(self) -> Setting:
        """The parameters of its growth."""
        return self.path.setting


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What group-aware cells would have given, on the select records.

    Attributes
    ----------
    limit : float
        Largest predicted bound.
    measure : str
        The utility that encoders are compared by.
    utility : float
        Of the best group-aware cells; ``cells`` is their number.
    cells : int
    own : float or None
        The utility of the best encoder that does not read the group.
    """

    limit: float
    measure: str
    utility: float
    cells: int
    own: float | None

    def __str__(self) -> str:
        own = "nothing" if self.own is None else f"at most {self.own:.1%}"
        return (
            f"group-aware cells would tell about {self.utility:.1%} ({self.measure}) at a predicted T* ≤ "
            f"{self.limit:g}, others {own}, as the select records show (--group-aware)"
        )


@dataclass(frozen=True, eq=False)
class Sample:
    """Independent records of a part, and how they were drawn from it."""

    table: Table
    exclusions: tuple[Exclusion, ...] = ()
    assumptions: tuple[str, ...] = ()
    effective_size: float | None = None
    population: tuple[Phrase, ...] = ()
    tail: Tail | None = None


class Search:
    """Encoders tried on a table.

    Parameters
    ----------
    table : Table
        With a label and groups.
    grid : Grid
    claim : Claim, optional
        Of the certificates. The attribute of this name has the confidence of one look, and the positive label.
    utility : {"information", "explained", "accuracy"}
        What encoders are compared by (:mod:`certifare.frontier.utility`).
    retain : float
        As in :class:`~certifare.FairTreeEncoder`.
    group_aware : bool
        Whether encoders read the group, as in :class:`~certifare.FairTreeEncoder`.
    parts : mapping of str to float
        Shares of train, select and certify.
    seed : int
    n_jobs : int
        How many growths are fitted at a time.
    ledger : Ledger
        Counts looks at the certification records; none unless given.
    pool_groups : int, optional
        Groups that may be expected to have fewer certification records (for metrics that look at records of a label,
        of each such label), by the numbers of the others, are pooled.
    """

    _seen = ""
    """Where the records are that decide what is pooled, in words."""

    def __init__(
        self,
        table: Table,
        grid: Grid,
        claim: Claim | None = None,
        *,
        utility: str = "information",
        retain: float = 0.0,
        group_aware: bool = False,
        parts: Mapping[str, float] = PARTS,
        seed: int = 0,
        n_jobs: int = 2,
        ledger: Ledger = NO_LEDGER,
        pool_groups: int | None = None,
    ) -> None:
        if not table.labels:
            raise RoleError("The table has no label: name one, so that encoders know what to keep.")
        for label in table.labels:
            refuse_quantity(label.name, label.names, "label")
            if len(label.values) < 2:
                found = f"one value only, {label.names[0]!r}" if label.values else "no value in any record"
                raise RoleError(f"The label {label.name!r} has {found}: there is nothing to predict.")
        if table.groups is None:
            raise GroupError("The table has no groups: name a sensitive column.")
        refuse_quantity(table.groups.name, table.groups.names, "sensitive column")
        if len(table.groups.names) < 2:
            raise GroupError(
                f"The sensitive column {table.groups.name!r} has one group only, {table.groups.names[0]!r}: a distance "
                "between groups needs two."
            )
        if sorted(parts) != sorted(PARTS):
            raise ArgumentError(f"The parts must be {', '.join(PARTS)}; got {', '.join(parts)}.")
        claim = claim or Claim()
        self.rows = split(table, parts, int(seed), by_group=pool_groups is None)
        self._pooled: tuple[str, ...] = ()
        self.kept_groups: tuple[str, ...] | None = None  # all others are pooled
        if pool_groups is not None:
            if group_aware:
                raise ArgumentError(
                    "pool_groups: encoders that read the group need each by its own name. Leave one out."
                )
            self.kept_groups, self._pooled = _pool(table, self.rows, pool_groups, claim, self._seen)
            table = table if self.kept_groups is None else table.pooled(self.kept_groups)
        self.table = table
        self.grid = grid
        self.claim = replace(
            claim,
            confidence=ledger.confidence_of_look(claim.confidence, claim.looks),
            positive=_positive(table, claim),
        )
        self.ledger = ledger
        self.look: Look | None = None  # set when the certification records are used
        self.utility = check_utility(utility)
        self.retain = float(retain)
        self.group_aware = bool(group_aware)
        self.parts = dict(parts)
        check_population(claim.population, clustered=table.clusters is not None)
        self.seed = int(seed)
        self.notes: list[str] = [] if ledger.reason is None else [ledger.reason]
        self.paths: list[GrowthPath] = []
        self._certified = False
        self._repeats = _check_repeats(table)
        self.notes += [*self._repeats, *self._pooled, *self._numbers(), *self._guessed(claim)]
        self._progress: Progress | None = None
        self._last_cells: tuple[Any, NDArray[np.int64]] | None = None
        self.cap = self._choose_cap()
        self.train = self._weighing("train")
        self.select = self._compared()
        self.certify_sample = self._independent("certify")
        self._check_sizes()
        self.explorer = Explorer(self.train, {"select": self.select}, grid, self._common(), n_jobs)
        unlabelled = int((~table.labelled).sum())
        if unlabelled:
            counted = "left out" if self.claim.labelled else "counted as all others, but cannot be learnt from"
            self.notes.append(f"{unlabelled:,} records have no label: they are {counted}")

    # -- fitting ----------------------------------------------------------------------------------------------

    def run(self, *, progress: Progress | None = None) -> Search:
        """Fit and count every growth of the grid.

        Parameters
        ----------
        progress : callable, optional
        """
        report = progress or (lambda *_: None)
        settings = self.explorer.settings
        found: dict[Setting, GrowthPath] = {}
        failure: EncoderError | None = None
        for kind in dict.fromkeys(setting.kind for setting in settings):
            report(f"preparing {kind} encoders", len(found), len(settings))
            try:
                with listening(lambda done, total: report("fitting scores", done, total)):
                    self.explorer.prepare(kind)
                of_kind = [setting for setting in settings if setting.kind == kind]
                for setting, path in _parallel(self.explorer.walk, of_kind, self.explorer.n_jobs):
                    found[setting] = path
                    report(f"growing {kind} encoders", len(found), len(settings))
            except EncoderError as error:
                # One kind may need more records than there are (folds of a rare label); the others may not.
                failure = error
                self.notes.append(f"no {kind} encoders: {error}")
        self.paths = [found[setting] for setting in settings if setting in found]
        if not self.paths and failure is not None:
            raise failure
        if not self.candidates:
            raise ArgumentError(
                "No encoder found more than one cell: the columns tell nothing about the label, or min_cell_size is "
                "too large."
            )
        return self

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All encoders on the paths. Numbers of candidates elsewhere are positions here."""
        sizes = self.certify_sizes()
        found = []
        for path in self.paths:
            for k in path.starts:
                train, select = path.at("train", k), path.at("select", k)
                outlook = self._outlook(train, select, sizes)
                figures = path.figures(k, select.labels)
                found.append(
                    Candidate(
                        path=path,
                        cells=k,
                        accuracy=figures.accuracy,
                        explained=figures.explained,
                        auc=figures.auc,
                        utility=utility_of(self.utility, train.labels, select.labels),
                        promising=_promising(train.labels, select.labels),
                        retained=path.retained[k],
                        outlook=outlook,
                        prediction=outlook.predict(1.0 - self.claim.confidence),
                    )
                )
        return tuple(found)

    def certify_sizes(self) -> NDArray[np.int64]:
        """Certification records of each group and first label: all that is known of them before they are counted."""
        table = self.certify_sample.table
        (sizes,) = PartCounts.of(table, np.zeros(len(table), dtype=np.int64), 1).groups
        return np.asarray(sizes)

    def _outlook(self, train: PartCounts, select: PartCounts, sizes: NDArray[np.int64]) -> Outlook:
        """Say what is to be expected of cells that were counted, on so many certification records."""
        # Metrics that look at labels leave out the last column, of records without one.
        counted = slice(-1) if self.claim.labelled else slice(None)
        names = self.certify_sample.table.labels[0].names
        return Outlook.of(
            train.groups[:, :, counted],
            select.groups[:, :, counted],
            sizes[:, counted],
            self.claim.metric,
            0 if self.claim.positive is None else names.index(self.claim.positive),
            self.cap,
        )

    # -- choosing ---------------------------------------------------------------------------------------------

    def useful(self, min_cells: int = 2) -> list[int]:
        """Candidates that seem to tell more about the label than chance does, with at least so many cells."""
        return [
            i
            for i, candidate in enumerate(self.candidates)
            if candidate.promising and candidate.utility > 0.0 and candidate.cells >= min_cells
        ]

    def chain(self, min_cells: int = 2) -> list[int]:
        """Put candidates in the order in which they may be tested against any target, from safe to bold."""
        useful = self.useful(min_cells)
        return [useful[i] for i in chain(*self._plane(useful))]

    def knee(self, min_cells: int = 2) -> list[int]:
        """Choose the candidate after which more utility begins to cost more distance; none where none is useful."""
        useful = self.useful(min_cells)
        return [useful[knee(*self._plane(useful))]] if useful else []

    def front(self, min_cells: int = 2) -> list[int]:
        """Candidates with at least so many cells that no other of them beats in predicted bound and utility."""
        numbers = [i for i, candidate in enumerate(self.candidates) if candidate.cells >= min_cells]
        return [numbers[i] for i in pareto(*self._plane(numbers))]

    def _plane(self, numbers: Sequence[int]) -> tuple[list[float], list[float]]:
        """Predicted bounds and utilities."""
        chosen = [self.candidates[i] for i in numbers]
        return [c.prediction.bound for c in chosen], [c.utility for c in chosen]

    def glimpse(self, limit: float, min_cells: int = 2) -> Glimpse | None:
        """Say what group-aware cells would give at a predicted bound of at most ``limit``, and what these give.

        None where encoders read the group already, where nothing is in memory to grow from, or where neither tells
        anything.
        """
        if self.group_aware:
            return None
        here = [self.candidates[i] for i in self.useful(min_cells)]
        own = [c.utility for c in here if c.prediction.bound <= limit]
        sizes = self.certify_sizes()
        found = []
        for grown in glimpses(self.explorer):
            for k, starts in grown.starts.items():
                train, select = grown.train.merged(starts), grown.select.merged(starts)
                predicted = self._outlook(train, select, sizes).predict(1.0 - self.claim.confidence)
                if k >= min_cells and predicted.bound <= limit:
                    found.append((utility_of(self.utility, train.labels, select.labels), k))
        if not found or max(found)[0] <= 0.0:
            return None
        return Glimpse(limit, self.utility, *max(found), max(own, default=None))

    def encoder(self, number: int) -> Any:
        """Return the fitted encoder of a candidate."""
        candidate = self.candidates[number]
        encoder = self.explorer.fit(candidate.setting)
        return encoder.at(candidate.cells) if encoder.n_cells_ != candidate.cells else encoder

    # -- certifying -------------------------------------------------------------------------------------------

    def certify(self, numbers: Sequence[int], *, progress: Progress | None = None) -> list[tuple[Any, Certificate]]:
        """Certify some candidates on the certify part, each at ε divided by their number.

        Certification records are used once: whoever looks at these certificates and then asks for another has chosen
        on the certification records.

        Returns
        -------
        list of (encoder, Certificate)
        """
        self._use(numbers, progress)
        results = [
            (encoder, self._certificate(number, counts, replace(self.claim, candidates=len(numbers))))
            for number, (encoder, counts) in zip(numbers, self._counted(numbers), strict=True)
        ]
        self._count_look([statement_of(encoder.digest(), certificate) for encoder, certificate in results])
        return [(encoder, certificate.at_look(self.look)) for encoder, certificate in results]

    def walk(
        self, numbers: Sequence[int], target: float, *, progress: Progress | None = None
    ) -> tuple[FixedSequence, tuple[Any, Certificate] | None]:
        """Test candidates against a target on the certify part, in their order and each at full ε, until one fails.

        Certification records are used once, as by :meth:`certify`.

        Returns
        -------
        FixedSequence
            What was tested.
        (encoder, Certificate) or None
            The last that passed; None where the first one failed.
        """
        self._use(numbers, progress)
        tested: list[tuple[Any, CellCounts]] = []
        digests: list[str] = []

        def tables() -> Iterator[CellCounts]:
            for encoder, counts in self._counted(numbers):
                tested.append((encoder, counts))
                digests.append(encoder.digest())
                yield counts

        walked = FixedSequence.walk(
            tables(),
            target,
            self.claim,
            length=len(numbers),
            encoders=digests,
            tail=self.certify_sample.tail,
        )
        # A test that nobody passed is a look as well.
        self._count_look([self.claim.metric, json.dumps(msgspec.to_builtins(walked))])
        if not walked.passed:
            return walked, None
        encoder, counts = tested[walked.passed - 1]
        certificate = self._certificate(numbers[walked.passed - 1], counts, self.claim, walked)
        return walked, (encoder, certificate.at_look(self.look))

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

    def _counted(self, numbers: Sequence[int]) -> Iterator[tuple[Any, CellCounts]]:
        """Yield encoders and how they count the certification records, one after another."""
        for done, number in enumerate(numbers):
            if self._progress is not None:
                self._progress("certifying", done, len(numbers))
            encoder = self.encoder(number)
            yield encoder, self._certification_counts(encoder, self.candidates[number])

    def _certificate(
        self, number: int, counts: CellCounts, claim: Claim, sequence: FixedSequence | None = None
    ) -> Certificate:
        sample = self.certify_sample
        witness = self._training_counts(self.candidates[number])
        provenance = Provenance(
            looked_up=PARTED,
            besides=(
                *((READS_GROUP,) if self.group_aware else ()),
                *self._pooled,
                *self._repeats,
                *sample.assumptions,
            ),
            seed=self.seed if sample.effective_size is not None else None,
            effective_size=sample.effective_size,
            population=sample.population,
        )
        return issue(Evidence(counts, sequence, sample.tail, witness or ()), claim, provenance)

    def _count_look(self, statement: Sequence[str]) -> None:
        """Count this look at the certification records, before anyone sees what it found."""
        self.look = self.ledger.count(self._traces(), statement, self.claim.confidence, self.claim.looks)

    def _traces(self) -> Traces:
        """Return what the ledger knows the certification records by."""
        return self.ledger.trace(self.certify_sample.table, self.table)

    def _certification_counts(self, encoder: Any, candidate: Candidate) -> CellCounts:
        """Count the certification records."""
        sample = self.certify_sample
        counts = sample.table.count(self.certify_cells(encoder, candidate), candidate.cells, labels=self.claim.labelled)
        exclusions = (
            *(Exclusion(f"{e.reason} (of all records, before the split)", e.records) for e in self.table.exclusions),
            *sample.exclusions,
        )
        return counts.with_exclusions(exclusions)

    def certify_cells(self, encoder: Any, candidate: Candidate) -> NDArray[np.int64]:
        """Cells of the certification records in memory; those of the candidate that was asked for last are kept."""
        asked = (candidate.setting, candidate.cells)
        if self._last_cells is None or self._last_cells[0] != asked:
            table = self.certify_sample.table
            self._last_cells = asked, self.explorer.cells(encoder, candidate.setting, "certify", table)
        return self._last_cells[1]

    @property
    def _records(self) -> str:
        """Digest of the records of the whole table."""
        return self.table.records or self.table.digest

    @property
    def reading(self) -> Reading:
        """How records become those that the certificates are about."""
        roles, claim = self.table.roles, self.claim
        return Reading(
            sensitive=roles.sensitive,
            label=roles.label[0],
            label_cuts=roles.label_cuts,
            positive=claim.positive if claim.distance.strata == "positive" else None,
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
        return {"all": len(self.table), **{name: len(rows) for name, rows in self.rows.items()}}

    @property
    def certify_digest(self) -> str:
        """A fingerprint of the certification records."""
        return self.certify_sample.table.digest

    def _training_counts(self, candidate: Candidate) -> CellCounts:
        """Training records by cell and group: where the set of cells for the lower limit is chosen."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        table = candidate.path.at("train", candidate.cells).groups
        if self.claim.labelled:
            return CellCounts(table[:, :, :-1], self.table.groups.names, self.table.labels[0].names)
        return CellCounts(table.sum(axis=2), self.table.groups.names)

    # -- parts ------------------------------------------------------------------------------------------------

    def _weighing(self, part: str) -> Table:
        """Take the records of a part, with weights up to the cap."""
        table = self.table.take(self.rows[part])
        if table.weights is None or self.cap is None:
            return table
        return replace(table, weights=np.minimum(table.weights, self.cap.cap))

    def _compared(self) -> Table:
        """Take the records that encoders are compared on; where they weigh differently, as many as tell as much."""
        table = self._weighing("select")
        if table.clusters is not None or table.weights is None:
            return self._independent("select").table
        if self.claim.labelled:
            table = table.of_labelled()
        assert table.weights is not None  # noqa: S101  (a part has weights where the table has)
        rows = representative_rows(table.weights, stream(self.seed, "weights of the select part", self._records))
        return replace(table.take(rows), weights=None)

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
                part=f"{part} {self._records}",
            )
        elif table.weights is not None:
            drawn = self._thin(table.weights, part)
        else:
            return Sample(table, left_out)
        kept = replace(table.take(np.flatnonzero(drawn.keep)), weights=None, clusters=None)
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
        drawn = thin(weights, seed=self.seed, part=f"{part} {self._records}", max_weight=largest, cap=cap)
        return replace(drawn, assumptions=assumptions_of(largest, None, weighted=True))

    def _choose_cap(self) -> CapForecast | None:
        """Choose a cap on the weights, on training and select records; None where there is none, or none is best."""
        table = self.table
        if table.weights is None or table.clusters is not None:
            return None
        rows = np.concatenate([self.rows["train"], self.rows["select"]])
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
        table = self.certify_sample.table
        counts = table.count(np.zeros(len(table), dtype=np.int64), 1, labels=self.claim.labelled)
        try:
            self.claim.check(counts)
        except GroupError as error:
            raise type(error)(f"{error}{self._what_helps()}") from error
        for part, there in (("train", self.train), ("select", self.select)):
            assert there.groups is not None  # noqa: S101  (checked at the start)
            found = there.groups.codes[there.labelled]
            lacking = np.flatnonzero(np.bincount(found, minlength=len(there.groups.names)) == 0)
            if len(lacking):
                raise ArgumentError(
                    f"Group {there.groups.names[lacking[0]]!r} has no record with a label in the {part} part: pool it "
                    "with another group, or add records of it."
                )

    def _guessed(self, asked: Claim) -> tuple[str, ...]:
        """Say which label is taken for the positive one, where nobody said so and its name does not."""
        positive = self.claim.positive
        said = asked.positive is not None or self.table.positive is not None
        if positive is None or said or positive.lower() in POSITIVE_NAMES:
            return ()
        words = self.claim.distance.words
        return (f"the {words} is about records with the label {positive!r}; another is named with --positive",)

    def _numbers(self) -> tuple[str, ...]:
        """Note groups that are many numbers: a quantity, perhaps, that was to be compared with one."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        suggested = self._comparison()
        each = f"each of the {len(self.table.groups.names)} values of {self.table.groups.name!r} is a group of its own."
        return (each + suggested,) if suggested else ()

    def _comparison(self) -> str:
        """Suggest a comparison where groups are many numbers."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        names = self.table.groups.names
        numbers = [float(name) for name in names if sort_key(name)[0] == 0]
        if len(names) <= MANY_NUMBERS or len(numbers) < len(names):
            return ""
        return suggest_comparison(self.table.groups.name, numbers, "sensitive column")

    def _what_helps(self) -> str:
        """Say what may be done about groups that are too small."""
        if suggested := self._comparison():
            return suggested
        if self._pooled:
            return " A larger --pool-groups pools more groups."
        return f" Small groups are pooled by --pool-groups {self.claim.min_group_size}."

    def _common(self) -> dict[str, Any]:
        labels = self.table.labels[0]
        native = None
        if self.claim.positive is not None and self.claim.distance.strata == "positive":
            native = labels.values[labels.names.index(self.claim.positive)]
        return {
            "metric": "equalized_odds" if self.claim.metric == "equalized_odds_max" else self.claim.metric,
            "positive_label": native,
            "retain": self.retain,
            # Cells that are to retain more may be finer wherever that costs nothing of the distance.
            "charge": "crossing" if self.retain and not self.group_aware else "every",
            "group_aware": self.group_aware,
            "random_state": self.seed,
        }


def _check_repeats(table: Table) -> tuple[str, ...]:
    """Refuse a table most of whose records repeat, before it is split: equal ones would be on both sides.

    Returns what the certificate says of fewer. With clusters, equal records of one of them stay on one side.
    """
    if table.clusters is not None:
        return ()
    roles = (*table.labels, *([] if table.groups is None else [table.groups]))
    return count_repeats(Frame(table.features).fields(), [values.codes for values in roles]).check()


def _promising(train: Sequence[NDArray[np.int64]], select: Sequence[NDArray[np.int64]]) -> bool:
    """Say whether an encoder's forecasts seem to go with the label.

    The select records decide, unless they are too few to show it if it were so (a rare label, heavy weights).
    """
    if beyond_chance(train, select) > WORTH_TESTING:
        return True
    return promised(train, select) < SHOWN and left_out_beyond_chance(train) > SHOWN


def _parallel(work: Callable[[Setting], GrowthPath], settings: Sequence[Setting], n_jobs: int) -> Any:
    """Yield settings and their results, as they are finished. What has not begun is dropped when the caller stops."""
    pool = ThreadPoolExecutor(max(1, n_jobs))
    try:
        waiting: dict[Future[GrowthPath], Setting] = {pool.submit(work, setting): setting for setting in settings}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _pool(
    table: Table, rows: Mapping[str, NDArray[np.int64]], fewest: int, claim: Claim, seen: str = ""
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
    expected = there * (len(rows[CERTIFY]) / len(others))
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
        f"The group {POOLED!r} pools {pooled}: by the numbers of training and select records{seen}, a group of it has "
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
    """Find the positive label: as given, as the label's comparison says, or the last of two; None if none is needed."""
    names = table.labels[0].names
    positive = claim.positive if claim.positive is not None else table.positive
    if positive is not None:
        if positive not in names:
            raise ArgumentError(f"positive={positive!r} is not among the labels {', '.join(map(repr, names))}.")
        return positive
    if claim.distance.strata == "positive":
        if len(names) != 2:
            raise ArgumentError(f"Which label is the positive one? Name one of {', '.join(map(repr, names))}.")
        return names[-1]
    return None
