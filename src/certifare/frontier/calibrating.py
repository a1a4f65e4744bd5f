"""The search for calibrated cells: plans compared on training records, one of them calibrated and certified.

There is no select part, because no certification record is looked at before the plan is chosen, and nothing is tested:
T* of every plan follows from its gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates import Certificate
from certifare.certificates.assumptions import READS_GROUP
from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import calibrated_bound, check_level, check_metric, forecast_bound, sampled_bound
from certifare.certificates.claims import Claim, estimate_of
from certifare.certificates.issuing import issue
from certifare.certificates.planning import equal_gaps
from certifare.certification.ledger import statement_of
from certifare.encoders.calibrated_cells import NOTHING_LEARNT, CalibratedEncoder, tied_note
from certifare.encoders.information import Spreads
from certifare.encoders.partition import expected_share
from certifare.encoders.plans import PlanPath
from certifare.encoders.training import MemoryTraining
from certifare.encoders.weighting import representative_rows
from certifare.errors import ArgumentError
from certifare.foundation.progress import listening
from certifare.foundation.randomness import stream
from certifare.frontier.job import Job, JobOptions, Progress
from certifare.frontier.paths import RETAINED_RECORDS, GrowthPath, PartCounts
from certifare.frontier.search import Candidate, Found
from certifare.frontier.settings import Setting
from certifare.frontier.target import Prediction
from certifare.frontier.utility import left_out_beyond_chance, utility_left_out
from certifare.tables.frames import Frame
from certifare.tables.reading import POOLED
from certifare.tables.roles import absent
from certifare.tables.splitting import CERTIFY
from certifare.tables.table import Table

if TYPE_CHECKING:
    from certifare.frontier.large import Elsewhere

#: Shares of the records that scores and plan are learnt from, and that set the thresholds.
PARTS = {"train": 0.4, CERTIFY: 0.6}
#: Half of the records train if this many cells of equal shares are within the target all the same, and fewer than this
#: many would train otherwise: more of them teach the scores little.
EASY_CELLS, TAUGHT = 8, 5_000
#: Noted of figures that are measured on the records that set the thresholds.
APPROXIMATE = (
    "the certification records set the thresholds, so intervals of accuracy, AUC and explained share, which are "
    "measured on them, are approximate; the bound is exact"
)
#: Noted if each attribute is claimed: what is certified instead, which is more.
BY_INTERSECTION = (
    "thresholds are set for every intersection of the sensitive columns: T* bounds the distance between intersections, "
    "and so between the groups of each column"
)
#: Standard errors that a plan's forecasts must go with the label beyond chance, on training records.
BEYOND_CHANCE = 1.0
#: A plan whose predicted bound exceeds the target by this factor is not computed exactly, which takes long.
NEAR = 1.02
#: One whose T* by a part of the draws exceeds it by this factor is not, either.
CLOSE = 1.003


def choose_parts(table: Table, claim: Claim, target: float | None) -> tuple[Mapping[str, float], str | None]:
    """Choose the shares of train and certify, from the target and the sizes of groups alone; say why, if not the usual.

    No label or feature is looked at: T* holds given the sizes of groups, and so given the shares.
    """
    groups = table.groups
    plain = groups is not None and not table.roles.each and table.weights is None and table.clusters is None
    if target is None or groups is None or not plain or claim.metric != "demographic_parity":
        return PARTS, None
    sizes = np.bincount(groups.codes[groups.codes >= 0], minlength=len(groups.names))

    def within(cells: int, share: float) -> bool:
        planned = (share * sizes).astype(int)
        if len(sizes) < 2 or planned.min() < cells:
            return False
        return forecast_bound(equal_gaps(planned.tolist(), cells), 1.0 - claim.confidence) <= target

    if PARTS["train"] * len(table) < TAUGHT and within(EASY_CELLS, 0.5):
        return {"train": 0.5, CERTIFY: 0.5}, (
            "50 % of the records set thresholds, instead of 60 %: the target leaves room for "
            f"{EASY_CELLS} cells of equal shares, and more records train"
        )
    if not within(2, PARTS[CERTIFY]):
        return {"train": 0.3, CERTIFY: 0.7}, (
            "70 % of the records set thresholds, instead of 60 %: the groups are small for the target, which would not "
            "leave room for two cells of equal shares"
        )
    return PARTS, None


class Calibration(Job):
    """A job whose certification records set the thresholds of cells that read the group.

    - ``table``, ``claim``, ``parts``, ``elsewhere``: as for :class:`~certifare.frontier.job.Job`.
    - ``tie_column``, ``score_column``: as in :class:`~certifare.encoders.calibrated_cells.CalibratedEncoder`; columns
      of the table, dropped or not.
    - ``**options``: of :class:`~certifare.frontier.job.JobOptions`.
    """

    def __init__(
        self,
        table: Table,
        claim: Claim | None,
        parts: Mapping[str, float],
        *,
        tie_column: str | None = None,
        score_column: str | None = None,
        elsewhere: Elsewhere | None = None,
        **options: Any,
    ) -> None:
        if options.get("pool_groups") is not None and (table.roles.each or "train" not in parts):
            raise ArgumentError(
                "--pool-groups pools intersections, and --each claims each column: leave one out."
                if table.roles.each
                else "pool_groups: which groups are pooled is chosen by training records, and there are none."
            )
        claim = claim or Claim()
        check_metric(claim.metric)
        if table.roles.given is not None:
            raise ArgumentError(
                "--given: thresholds of cells that read the group are set among all records of a group, not within the "
                "values of a column. Leave --group-aware out, or fit an encoder for each value."
            )
        self.tie_column, self.score_column = tie_column, score_column
        by_intersection = replace(table, roles=replace(table.roles, each=False))
        arranged = _arranged(by_intersection, tie_column, score_column)
        super().__init__(arranged, claim, JobOptions(**options), parts, elsewhere)
        # Of one look, if several are planned.
        check_level(1.0 - self.claim.confidence)
        if table.roles.each:
            self.notes.append(BY_INTERSECTION)

    def _choose_cap(self) -> None:
        """Weights are not capped: what lies above a cap would be added to T*, which is then not known beforehand."""
        return

    def features(self, table: Table) -> pa.Table:
        """Return what the encoder reads of a table: the features, and the column that breaks ties."""
        features = table.features
        if self.tie_column is None:
            return features
        return features.append_column(self.tie_column, table.select([self.tie_column]).column(0))

    def _set_thresholds(
        self, encoder: CalibratedEncoder, training: MemoryTraining, path: PlanPath, k: int, claim: Claim
    ) -> tuple[CalibratedEncoder, Certificate]:
        """Let the certification records set the thresholds of a plan, and certify the encoder."""
        table = self.certify_sample.table
        encoder.fit_plan(training, path.plans[k], path.cells(k))
        if self.elsewhere is None:
            frame = Frame(self.features(table))
            groups = encoder.read_group_codes(frame, table.sensitive)
            assert groups is not None  # noqa: S101  (the encoder reads groups)
            counts = encoder.set_thresholds(encoder.read_fields(frame), groups, *table.labels[: claim.labelled])
            counts = counts.with_exclusions(self._exclusions())
        else:
            counts, self._repeats = self.elsewhere.calibrate(encoder, table, claim, self._progress)
            self.notes += [note for note in self._repeats if note not in self.notes]
        self.notes += tied_note(encoder)
        provenance = self._provenance(READS_GROUP)
        if not training.labels:
            provenance = replace(provenance, looked_up=NOTHING_LEARNT)
        return encoder, issue(Evidence(counts), replace(claim, method="calibrated"), provenance)


class CalibratedSearch(Calibration):
    """Plans of calibrated cells, for a table.

    Parameters
    ----------
    table, claim, **options
        As for :class:`Calibration`.
    parts : mapping of str to float
        Shares of train and certify.
    max_cells : int
        The most cells of a plan.
    """

    def __init__(
        self,
        table: Table,
        claim: Claim | None = None,
        *,
        parts: Mapping[str, float] = PARTS,
        max_cells: int = 200,
        **options: Any,
    ) -> None:
        if sorted(parts) != sorted(PARTS):
            raise ArgumentError(
                f"The parts of calibrated cells are {' and '.join(PARTS)}, because nothing is selected; got "
                f"{', '.join(parts)}."
            )
        super().__init__(table, claim, parts, **options)
        self.max_cells = max_cells
        self._calibrated: tuple[int, CalibratedEncoder] | None = None

    # -- planning ---------------------------------------------------------------------------------------------

    @cached_property
    def learnt(self) -> Table:
        """The training records with every label; if they weigh differently, resampled to the effective size."""
        return self.train.take(self._learnt_rows)

    @cached_property
    def _learnt_rows(self) -> NDArray[np.int64]:
        rows = np.flatnonzero(self.train.trainable)
        if self.train.weights is None:
            return rows
        drawn = representative_rows(self.train.weights[rows], stream(self.seed, "weights of the train part"))
        found: NDArray[np.int64] = rows[drawn]
        return found

    @cached_property
    def _fitted(self) -> tuple[CalibratedEncoder, MemoryTraining]:
        """An encoder with the score models, and the training records."""
        labels, native = self.table.labels[0], None
        if self.claim.positive is not None and self.claim.distance.strata == "positive":
            native = labels.values[labels.names.index(self.claim.positive)]
        parameters: dict[str, Any] = {
            "max_cells": self.max_cells,
            "metric": self.claim.metric,
            "confidence": self.claim.confidence,
            "utility": self.utility,
            "retain": self.retain,
            "positive_label": native,
            "tie_column": self.tie_column,
            "score_column": self.score_column,
            "random_state": self.seed,
            "n_jobs": self.options.n_jobs,
            "other_group": None if self.kept_groups is None else POOLED,
        }
        encoder = CalibratedEncoder(**parameters)
        # A record that was drawn several times is one unit: no model may see it and be tried on it.
        units = self._learnt_rows if self.learnt.clusters is None else self.learnt.clusters
        training = encoder.prepare(
            self.features(self.learnt), self.learnt.labels, sensitive_features=self.learnt.groups, units=units
        )
        assert isinstance(training, MemoryTraining)  # noqa: S101  (the table is in memory)
        return encoder, training

    def run(self, *, progress: Progress | None = None, found: Found | None = None) -> CalibratedSearch:
        """Fit the scores and make the plans; ``found`` is told these."""
        report = progress or (lambda *_: None)
        report("fitting scores", 0, 1)
        with listening(lambda done, total: report("fitting scores", done, total)):
            _ = self._fitted
        report("planning", 0, 1)
        if not self.candidates:
            raise ArgumentError(
                "No plan has two cells: the smallest group has too few records, or the score tells nothing about the "
                "label."
            )
        if found is not None:
            found(self.candidates)
        return self

    @cached_property
    def _plan_paths(self) -> tuple[PlanPath, ...]:
        encoder, training = self._fitted
        return tuple(encoder.plans(training, self.counted_sizes()))

    @cached_property
    def paths(self) -> list[GrowthPath]:
        """The training records by finest cell, and which of these begin a cell, for each path of plans."""
        table, found = self.learnt, []
        probe = table.take(np.arange(min(RETAINED_RECORDS, len(table))))
        _, training = self._fitted
        spreads = Spreads(
            Frame(probe.features).fields(),
            [column.categorical for column in training.columns if column.name != self.tie_column],
        )
        for path in self._plan_paths:
            n_cells = int(path.finest.max()) + 1
            counts = {"train": PartCounts.of(table, path.finest, n_cells)}
            starts = {k: path.starts[k] for k in sorted(path.plans)}
            merged = spreads.along(path.finest[: len(probe)], n_cells, starts.values())
            retained = {k: one.mean for k, one in zip(starts, merged, strict=True)}
            setting = Setting("calibrated", path.theta, None, max(path.plans, default=1))
            found.append(GrowthPath(setting, starts, counts, np.zeros(0, dtype=np.uint16), retained))
        return found

    @cached_property
    def _numbered(self) -> list[tuple[int, int]]:
        """The path and the number of cells of each candidate."""
        return [(i, k) for i, path in enumerate(self._plan_paths) for k in sorted(path.plans)]

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """All plans. Numbers of candidates elsewhere are positions here."""
        found = []
        for path, plans in zip(self.paths, self._plan_paths, strict=True):
            train = path.labels("train")
            figures = path.figures("train")
            utility, beyond = utility_left_out(self.utility, train), left_out_beyond_chance(train)
            for i, k in enumerate(path.starts):
                expected = expected_share(plans, k, self.utility)
                gaps = plans.plans[k].gaps
                pairs = [gaps[:, [a, b]] for a in range(gaps.shape[1]) for b in range(a)]
                found.append(
                    Candidate(
                        path=path,
                        cells=k,
                        accuracy=float(figures.accuracy[i]),
                        explained=float(figures.explained[i]),
                        auc=None if figures.auc is None else float(figures.auc[i]),
                        utility=float(utility[i]) if expected is None else expected,
                        promising=bool(beyond[i] > BEYOND_CHANCE),
                        retained=path.retained[k],
                        outlook=None,
                        prediction=Prediction(
                            max(map(estimate_of, pairs)), forecast_bound(gaps, 1.0 - self.claim.confidence), 0.0
                        ),
                    )
                )
        return tuple(found)

    def bound(self, number: int) -> float:
        """Return T* of a plan, rounded up."""
        i, k = self._numbered[number]
        return calibrated_bound(self._plan_paths[i].plans[k].gaps, 1.0 - self.claim.confidence)

    def _within(self, number: int, target: float) -> bool:
        """Return whether T* of a plan is within a target; most that are above it are passed over at a glance."""
        i, k = self._numbered[number]
        sampled = sampled_bound(self._plan_paths[i].plans[k].gaps, 1.0 - self.claim.confidence)
        return sampled <= CLOSE * target and self.bound(number) <= target

    def best(self, target: float, min_cells: int = 2) -> int | None:
        """Return the plan of the highest utility with T* within a target; None if there is none."""
        near = [i for i in self.useful(min_cells) if self.candidates[i].prediction.bound <= NEAR * target]
        near.sort(key=lambda i: (-self._kept(self.candidates[i]), self.candidates[i].prediction.bound))
        return next((i for i in near if self._within(i, target)), None)

    def _kept(self, candidate: Candidate) -> float:
        """Return what a plan keeps of the label, and of the columns as far as these are asked for."""
        return (1.0 - self.retain) * candidate.utility + self.retain * candidate.retained

    def glimpse(self, limit: float, min_cells: int = 2) -> None:
        """Return nothing: cells read the group already."""

    # -- calibrating ------------------------------------------------------------------------------------------

    def encoder(self, number: int) -> CalibratedEncoder:
        """Return the encoder of a plan, whose thresholds the certification records have set."""
        if self._calibrated is None or self._calibrated[0] != number:
            raise ArgumentError("An encoder is calibrated when it is certified: certify the plan first.")
        return self._calibrated[1]

    def certify(self, numbers: Sequence[int], *, progress: Progress | None = None) -> list[tuple[Any, Certificate]]:
        """Let the certification records set the thresholds of some plans, each at ε divided by their number."""
        self._use(numbers, progress)
        results = []
        for done, number in enumerate(numbers):
            if progress is not None:
                progress("calibrating", done, len(numbers))
            results.append(self._calibrate(number, replace(self.claim, candidates=len(numbers))))
        self._count_look([statement_of(encoder.digest(), certificate) for encoder, certificate in results])
        self._calibrated = (numbers[-1], results[-1][0])
        return [(encoder, certificate.at_look(self.look)) for encoder, certificate in results]

    def _calibrate(self, number: int, claim: Claim) -> tuple[CalibratedEncoder, Certificate]:
        first, training = self._fitted
        i, k = self._numbered[number]
        if APPROXIMATE not in self.notes:
            self.notes.append(APPROXIMATE)
        encoder = CalibratedEncoder(**first.get_params(deep=False))
        return self._set_thresholds(encoder, training, self._plan_paths[i], k, claim)

    def certify_cells(self, encoder: Any, candidate: Candidate) -> NDArray[np.int64]:
        """Cells of the certification records."""
        table = self.certify_sample.table
        cells = encoder.apply(self.features(table), sensitive_features=table.sensitive)
        return np.asarray(cells, dtype=np.int64)

    def boosting(self, table: Table) -> list[NDArray[np.float64]] | None:
        """Forecast the labels of a table by the score models, which see the group."""
        if self._calibrated is None or self.score_column is not None:
            return None
        return self._calibrated[1].forecasts(self.features(table), sensitive_features=table.sensitive)


def _arranged(table: Table, tie_column: str | None, score_column: str | None) -> Table:
    """Leave the column that breaks ties out of the features; of an existing score, leave out all others."""
    columns = {name: table.features.column(name) for name in table.features.column_names}
    others = {} if table.others is None else {name: table.others.column(name) for name in table.others.column_names}
    for name, option in ((tie_column, "tie_column"), (score_column, "score_column")):
        if name is not None and name not in {**columns, **others}:
            raise absent(name, table.column_names, option)
    if score_column is not None and score_column not in columns:
        columns[score_column] = others[score_column]
    kept = [name for name in columns if name != tie_column and score_column in (None, name)]
    if not kept:
        raise ArgumentError("No feature is left beside the column that breaks ties.")
    rest = {**others, **{name: columns[name] for name in columns if name not in kept}}
    return replace(
        table,
        features=pa.table({name: columns[name] for name in kept}),
        others=pa.table(rest),
        # What is odd about a column matters if something is learnt from it.
        findings=tuple(finding for finding in table.findings if finding.column not in rest),
    )
