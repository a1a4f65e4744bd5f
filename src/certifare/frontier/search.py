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
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import (
    CellCounts,
    Certificate,
    FixedSequence,
)
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import Claim
from certifare.certificates.issuing import issue
from certifare.certification.ledger import statement_of
from certifare.encoders.weighting import representative_rows
from certifare.errors import ArgumentError, EncoderError
from certifare.foundation.progress import listening
from certifare.foundation.randomness import stream
from certifare.frontier.checking import check_part
from certifare.frontier.glimpse import WORTH_MENTIONING, best_calibrated
from certifare.frontier.job import Job, JobOptions, Progress
from certifare.frontier.ordering import SHOWN, WORTH_TESTING, chain
from certifare.frontier.paths import Explorer, GrowthPath
from certifare.frontier.settings import Grid, Setting
from certifare.frontier.target import Outlook, Prediction
from certifare.frontier.utility import (
    base_rates,
    beyond_chance,
    left_out_beyond_chance,
    promised,
    utility_of,
    utility_of_records,
)
from certifare.tables.splitting import PARTS
from certifare.tables.table import Table

if TYPE_CHECKING:
    from certifare.frontier.large import Elsewhere


@dataclass(frozen=True, eq=False)
class Candidate:
    """An encoder that was tried."""

    path: GrowthPath  # the growth that it comes from
    cells: int
    # Of the cells' forecasts, on the select part (:class:`~certifare.frontier.utility.Estimates`)
    accuracy: float
    explained: float
    auc: float | None
    utility: float  # what encoders are compared by, on the select and training parts
    # Whether its forecasts seem to go with the label beyond chance, on the select part, or on the train part where the
    # other has too few records to show it
    promising: bool
    retained: float  # retained information, on the select part
    outlook: Outlook | None  # what may be expected of its certificate; None if that is known
    prediction: Prediction  # of its certificate at full ε

    @property
    def setting(self) -> Setting:
        """The parameters of its growth."""
        return self.path.setting


#: Told encoders that were tried, as soon as they are known.
Found = Callable[[Sequence[Candidate]], None]


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What calibrated cells would give, from training records."""

    limit: float  # largest T*
    measure: str  # the utility that encoders are compared by
    utility: float  # of the best calibrated cells; ``cells`` is their number
    cells: int
    own: float | None  # the utility of the best encoder that does not read the group

    def __str__(self) -> str:
        own = "no encoder that does not read the group" if self.own is None else f"{self.own:.1%} without the group"
        return (
            f"If cells may read the group (--group-aware), about {self.utility:.1%} {self.measure} is within reach at "
            f"T* ≤ {self.limit:g}, instead of {own}."
        )


class Search(Job):
    """Encoders tried on a table, none of which reads the group.

    Arguments are those of :class:`~certifare.frontier.job.Job`, with the fields of its options as keywords.
    """

    def __init__(
        self,
        table: Table,
        grid: Grid,
        claim: Claim | None = None,
        *,
        parts: Mapping[str, float] = PARTS,
        elsewhere: Elsewhere | None = None,
        **options: Any,
    ) -> None:
        if sorted(parts) != sorted(PARTS):
            raise ArgumentError(f"The parts must be {', '.join(PARTS)}; got {', '.join(parts)}.")
        super().__init__(table, claim or Claim(), JobOptions(**options), parts, elsewhere)
        self.grid = grid
        self.paths: list[GrowthPath] = []
        self._found: dict[Setting, tuple[Candidate, ...]] = {}
        self._last_cells: tuple[Any, NDArray[np.int64]] | None = None
        self.select = self._compared()
        check_part(self.select, "select")
        self.explorer = Explorer(self.train, {"select": self.select}, grid, self._common(), self.options.n_jobs)

    # -- fitting ----------------------------------------------------------------------------------------------

    def run(self, *, progress: Progress | None = None, found: Found | None = None) -> Search:
        """Fit and count every growth of the grid.

        - ``found``: told the encoders of each growth as soon as these are counted.
        """
        report = progress or (lambda *_: None)
        settings = self.explorer.settings
        walked: dict[Setting, GrowthPath] = {}
        failure: EncoderError | None = None
        for kind in dict.fromkeys(setting.kind for setting in settings):
            report(f"preparing {kind} encoders", len(walked), len(settings))
            try:
                with listening(lambda done, total: report("fitting scores", done, total)):
                    self.explorer.prepare(kind)
                of_kind = [setting for setting in settings if setting.kind == kind]
                for setting, path in _parallel(self.explorer.walk, of_kind, self.explorer.n_jobs):
                    walked[setting] = path
                    if found is not None:
                        found(self._candidates_on(path))
                    report(f"growing {kind} encoders", len(walked), len(settings))
            except EncoderError as error:
                # One kind may need more records than there are (folds of a rare label); the others may not.
                failure = error
                self.notes.append(f"no {kind} encoders: {error}")
        self.paths = [walked[setting] for setting in settings if setting in walked]
        if not self.paths and failure is not None:
            raise failure
        if not self.candidates:
            raise ArgumentError(
                "No encoder found more than one cell: the columns do not predict the label, or min_cell_size is "
                "too large."
            )
        return self

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All encoders on the paths. Numbers of candidates elsewhere are positions here."""
        return tuple(candidate for path in self.paths for candidate in self._candidates_on(path))

    def _candidates_on(self, path: GrowthPath) -> tuple[Candidate, ...]:
        """Return the encoders of one growth, by their number of cells."""
        if path.setting not in self._found:
            train, select = path.labels("train"), path.labels("select")
            figures = path.figures("select")
            utility, promising = utility_of(self.utility, train, select), _promising(train, select)
            known = path.counts["train"].groups, path.counts["select"].groups, self.certify_sizes()[None]
            seen, fresh, sizes = map(self._by_claim, known)
            outlooks = Outlook.along(seen, fresh, sizes, self.claim, self.cap, path.starts.values())
            self._found[path.setting] = tuple(
                Candidate(
                    path=path,
                    cells=k,
                    accuracy=float(figures.accuracy[i]),
                    explained=float(figures.explained[i]),
                    auc=None if figures.auc is None else float(figures.auc[i]),
                    utility=float(utility[i]),
                    promising=bool(promising[i]),
                    retained=path.retained[k],
                    outlook=outlook,
                    prediction=outlook.predict(1.0 - self.claim.confidence),
                )
                for i, (k, outlook) in enumerate(zip(path.starts, outlooks, strict=True))
            )
        return self._found[path.setting]

    def _by_claim(self, table: NDArray[np.int64]) -> CellCounts:
        """Return counts by cell, group and label as the claim looks at them; the last label is of records without."""
        assert self.table.groups is not None  # noqa: S101  (checked at the start)
        if self.claim.labelled:
            return CellCounts(table[:, :, :-1], self.table.groups.names, self.table.strata.names)
        return CellCounts(table.sum(axis=2), self.table.groups.names)

    # -- choosing ---------------------------------------------------------------------------------------------

    def chain(self, min_cells: int = 2) -> list[int]:
        """Put candidates in the order in which they may be tested against any target, from safe to bold."""
        useful = self.useful(min_cells)
        return [useful[i] for i in chain(*self._plane(useful))]

    def boosting(self, table: Table) -> list[NDArray[np.float64]] | None:
        """Forecast the labels of a table by gradient boosting on its columns; None if none was fitted."""
        return self.explorer.boosting(table)

    def boosting_utility(self) -> float | None:
        """Return the utility of gradient boosting on the select records; None if none was fitted."""
        predicted = self.boosting(self.select)
        if predicted is None:
            return None
        labels = [(train, y) for train, y in zip(self.explorer.train.labels, self.select.labels, strict=True)]
        base = [base_rates(np.bincount(train.codes, minlength=len(train.names))[None]) for train, _ in labels]
        return utility_of_records(self.utility, predicted, base, [y.codes for _, y in labels])

    def glimpse(self, limit: float, min_cells: int = 2) -> Glimpse | None:
        """Say what calibrated cells would give at T* ≤ ``limit``, from training records; None unless that is more."""
        if self.claim.each or self.claim.given is not None:
            return None  # calibrated cells have other claims
        within = [self.candidates[i] for i in self.useful(min_cells)]
        own = max((c.utility for c in within if c.prediction.bound <= limit), default=None)
        found = best_calibrated(self.explorer, self.claim, self.counted_sizes(), self.utility, limit, min_cells)
        if found is None or found[0] <= (own or 0.0) + WORTH_MENTIONING:
            return None
        return Glimpse(limit, self.utility, *found, own)

    def encoder(self, number: int) -> Any:
        """Return the fitted encoder of a candidate."""
        candidate = self.candidates[number]
        encoder = self.explorer.fit(candidate.setting)
        return encoder.at(candidate.cells) if encoder.n_cells_ != candidate.cells else encoder

    # -- certifying -------------------------------------------------------------------------------------------

    def certify(self, numbers: Sequence[int], *, progress: Progress | None = None) -> list[tuple[Any, Certificate]]:
        """Certify some candidates on the certify part, each at ε divided by their number.

        Certification records are used once: after you have seen these certificates, a choice of others is a choice by
        the certification records.
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

        Return what was tested, and the last that passed; None if the first one failed. Certification records are used
        once, as by :meth:`certify`.
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
        # A test that no encoder passed is a look as well.
        self._count_look([self.claim.metric, json.dumps(msgspec.to_builtins(walked))])
        if not walked.passed:
            return walked, None
        encoder, counts = tested[walked.passed - 1]
        certificate = self._certificate(numbers[walked.passed - 1], counts, self.claim, walked)
        return walked, (encoder, certificate.at_look(self.look))

    def _counted(self, numbers: Sequence[int]) -> Iterator[tuple[Any, CellCounts]]:
        """Yield encoders and how they count the certification records, one after another."""
        if self.elsewhere is not None:
            yield from self._counted_elsewhere(numbers)
            return
        for done, number in enumerate(numbers):
            if self._progress is not None:
                self._progress("certifying", done, len(numbers))
            encoder = self.encoder(number)
            yield encoder, self._certification_counts(encoder, self.candidates[number])

    def _counted_elsewhere(self, numbers: Sequence[int]) -> Iterator[tuple[Any, CellCounts]]:
        """Count the certification records where they are, by the cells of all encoders at once."""
        assert self.elsewhere is not None  # noqa: S101  (the caller has checked)
        encoders = []
        for done, number in enumerate(numbers):
            if self._progress is not None:
                self._progress("fitting encoders to be certified", done, len(numbers))
            encoders.append(self.encoder(number))
        counts, self._repeats = self.elsewhere.count(encoders, self.table, self.reading, self.claim, self._progress)
        self.notes += [note for note in self._repeats if note not in self.notes]
        yield from zip(encoders, counts, strict=True)

    def _certificate(
        self, number: int, counts: CellCounts, claim: Claim, sequence: FixedSequence | None = None
    ) -> Certificate:
        witness = self._training_counts(self.candidates[number])
        evidence = Evidence(counts, sequence, self.certify_sample.tail, witness or ())
        return issue(evidence, claim, self._provenance())

    def _certification_counts(self, encoder: Any, candidate: Candidate) -> CellCounts:
        """Count the certification records."""
        sample = self.certify_sample
        counts = sample.table.count(self.certify_cells(encoder, candidate), candidate.cells, labels=self.claim.labelled)
        return counts.with_exclusions(self._exclusions())

    def certify_cells(self, encoder: Any, candidate: Candidate) -> NDArray[np.int64]:
        """Cells of the certification records in memory; those of the candidate that was asked for last are kept."""
        asked = (candidate.setting, candidate.cells)
        if self._last_cells is None or self._last_cells[0] != asked:
            table = self.certify_sample.table
            self._last_cells = asked, self.explorer.cells(encoder, candidate.setting, "certify", table)
        return self._last_cells[1]

    def _compared(self) -> Table:
        """Return the records that encoders are compared on; weighted ones are resampled to their effective number."""
        table = self._weighing("select")
        if table.clusters is not None or table.weights is None:
            return self._independent("select").table
        if self.claim.labelled:
            table = table.of_labelled()
        assert table.weights is not None  # noqa: S101  (a part has weights where the table has)
        rows = representative_rows(table.weights, stream(self.seed, "weights of the select part", self.table.records))
        return table.take(rows).changed(weights=None)

    def _training_counts(self, candidate: Candidate) -> CellCounts:
        """Training records by cell and group: where the set of cells for the lower limit is chosen."""
        return self._by_claim(candidate.path.at("train", candidate.cells).groups)

    # -- parts ------------------------------------------------------------------------------------------------

    def _common(self) -> dict[str, Any]:
        labels = self.table.labels[0]
        native = None
        if self.claim.positive is not None and self.claim.distance.strata == "positive":
            native = labels.values[labels.names.index(self.claim.positive)]
        return {
            "metric": "equalized_odds" if self.claim.metric == "equalized_odds_max" else self.claim.metric,
            "positive_label": native,
            "retain": self.retain,
            "each": bool(self.claim.each),
            # Cells that are to retain more may be finer wherever that costs nothing of the distance.
            "charge": "crossing" if self.retain else "every",
            "random_state": self.seed,
        }


def _promising(train: Sequence[NDArray[np.int64]], select: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Say whether encoders' forecasts seem to go with the label.

    The select records decide, unless they are too few to show it if it were so (a rare label, heavy weights).
    """
    shown = (promised(train, select) < SHOWN) & (left_out_beyond_chance(train) > SHOWN)
    return (beyond_chance(train, select) > WORTH_TESTING) | shown


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
