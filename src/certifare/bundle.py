"""The whole job: a table goes in; an encoder, its certificate and a report come out.

Candidates are fitted on the train part and compared on the select part. There they are put in order, from safe to bold,
and only then are the certification records looked at: the encoders are tested against the target in that order, each at
full ε, until one fails, and the last that passed is taken. ``docs/theory.md`` shows why that is sound.
"""

from __future__ import annotations

import csv
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from certifare.certificates import Certificate, Exclusion, Interval
from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import CALIBRATED_METRICS
from certifare.certificates.consequences import target_for_ratio
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look
from certifare.certificates.planning import PlanRow, plan_table
from certifare.certificates.rounding import percent, round_up
from certifare.certificates.wording import plain_claim
from certifare.drawing.card import html_card
from certifare.errors import ArgumentError, FileError
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount
from certifare.foundation.storage import atomic_folder, check_folder, write_private
from certifare.foundation.version import __version__
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.job import Progress
from certifare.frontier.large import is_large, open_large
from certifare.frontier.ordering import BEYOND_CHANCE
from certifare.frontier.paths import PartCounts
from certifare.frontier.search import Glimpse, Search
from certifare.frontier.settings import Grid
from certifare.frontier.sweeping import Frontier, Point, default_parts, open_search
from certifare.frontier.target import growth_needed
from certifare.frontier.utility import Performance, base_rates, beyond_chance
from certifare.report.evaluation import evaluate
from certifare.tables.splitting import CERTIFY

if TYPE_CHECKING:
    import pyarrow as pa

    from certifare.document import Terms

#: Below this AUC, or this share of the label's variance if there is no AUC, cells predict almost nothing.
LITTLE_AUC, LITTLE_EXPLAINED = 0.6, 0.02
#: Targets of which a forecast is given if the cells predict almost nothing.
LARGER_TARGETS = (0.05, 0.08, 0.12, 0.2, 0.3)
JobVerdict = Literal["PASS", "NO SOLUTION", "DONE"]
#: Files of a bundle, and of its private folder; a folder with anything else in it is not replaced.
BUNDLE_FILES = frozenset({"encoder.json", "certificate.json", "report.html", "frontier.csv", "findings.json"})
PRIVATE_FILES = frozenset({"README.txt", "fingerprint.npz", "run.json"})
PRIVATE_NOTE = """\
Nothing in this folder may be handed on.

fingerprint.npz  shows anyone who has it whether a given record was among the training records.
                 `certifare certify` reads it, to refuse records that the encoder was fitted on.
run.json         how the bundle was made: parts, seed, encoders tested, results.
"""


@dataclass(frozen=True, slots=True)
class Tested:
    """One encoder of the sequence, and how it did: its own limit at full ε, and whether that met the target.

    The limit decides about the target. By itself it was not fixed in advance, and nothing is claimed with it.
    """

    point: Point
    limit: float
    met: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**self.point.to_dict(), "limit": self.limit, "met": self.met}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a classifier does on the certification records, none of which it was made from."""

    performance: Performance  # accuracy, AUC and explained share
    distance: Interval  # between the groups: of the values of the first label that it predicts
    # Whether its forecasts go with the label no more than chance would have it. That is said, and decides nothing:
    # were such encoders withheld, those that are delivered would be chosen by the certification records
    worthless: bool = False

    @property
    def little(self) -> bool:
        """Return whether its forecasts are of almost no use, or no better than chance."""
        auc, explained = self.performance.auc, self.performance.explained
        low = explained.estimate < LITTLE_EXPLAINED if auc is None else auc.estimate < LITTLE_AUC
        return self.worthless or low

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        distance = msgspec.to_builtins(self.distance)
        return {**self.performance.to_dict(), "distance": distance, "worthless": self.worthless, "little": self.little}


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help where no encoder met the target."""

    text: str
    records: int | None = None  # how many records in all would do, at this estimate
    target: float | None = None  # which target would probably be met


@dataclass(frozen=True, eq=False)
class Bundle:
    """The result of :func:`produce`.

    Attributes
    ----------
    verdict : {"PASS", "NO SOLUTION", "DONE"}
        Whether the target was met; DONE where there was none.
    encoder : RestrictedEncoder or None
        The chosen encoder; None if there is no solution, as are the next four.
    certificate : Certificate or None
        Its certificate.
    point : Point or None
        Its place on the frontier.
    measured : Measured or None
        The majority votes of its cells, on the certification records. If they are worthless there, a note says so.
    boosting : Measured or None
        Gradient boosting on the table itself, on the same records: what the certificate costs. None also where no
        boosted encoder was tried.
    frontier : Frontier
        Every encoder that was tried.
    order : tuple of Point
        Those that were put in order to be tested against the target, from safe to bold.
    tested : tuple of Tested
        How far the test went: up to the first that failed.
    target : float or None
    advice : tuple of Advice
        What would help if there is no solution.
    exclusions : tuple of Exclusion
    notes : tuple of str
    warning : str or None
        Says that the cells predict almost nothing, and what larger targets may be expected to give.
    group_aware : Glimpse or None
        What group-aware cells would have given, on the select records; None where they are.
    run : dict
        How it was made, as plain data.
    """

    verdict: JobVerdict
    encoder: Any
    certificate: Certificate | None
    point: Point | None
    measured: Measured | None
    boosting: Measured | None
    frontier: Frontier
    order: tuple[Point, ...]
    tested: tuple[Tested, ...]
    target: float | None
    advice: tuple[Advice, ...]
    exclusions: tuple[Exclusion, ...]
    notes: tuple[str, ...]
    warning: str | None
    group_aware: Glimpse | None
    run: dict[str, Any]

    @staticmethod
    def of(
        frontier: Frontier,
        point: Point,
        *,
        target: float | None = None,
        min_cells: int = 2,
        progress: Progress | None = None,
    ) -> Bundle:
        """Make the bundle of a point of a frontier, with the certificate of that point.

        After :func:`certifare.sweep` with ``simultaneous`` that has its share of ε; with ``holdout`` the point is
        certified now, once.

        Parameters
        ----------
        frontier : Frontier
        point : Point
        target : float, optional
            The target that the point was tested against.
        min_cells : int
            The fewest cells that were asked for.
        progress : callable, optional

        Returns
        -------
        Bundle

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from certifare import Bundle, Grid, sweep
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"x": rng.normal(size=4000), "s": rng.integers(0, 2, 4000)})
        >>> people["y"] = (people["x"] + rng.normal(size=4000) > 0).astype(int)
        >>> frontier = sweep(people, Grid(kinds=["tree"], gammas=[0.5], cells=[2, 4]), label="y", sensitive="s")
        >>> Bundle.of(frontier, frontier.best()).verdict
        'DONE'
        """
        number = frontier.number_of(point)
        if not frontier.points[number].certified and frontier.correction == "holdout":
            frontier.certify(point, progress)
        frontier.certificate(point)  # refuses a point that was not certified with the others
        if progress is not None:
            progress("measuring", 0, 1)
        return _bundle(frontier, frontier.points[number], min_cells=min_cells, target=target)

    @property
    def tried(self) -> int:
        """How many encoders the choice was made from."""
        return len(self.frontier)

    @property
    def confidence(self) -> float:
        """The confidence of the result: of all looks at the certification records together, as it was asked for."""
        search = self.frontier.search
        return search.asked if self.certificate is None else self.certificate.joint_confidence

    @property
    def sizes(self) -> dict[str, int]:
        """Where there is no solution: the records of each group that would set the thresholds of calibrated cells.

        Empty if the metric has none.
        """
        search = self.frontier.search
        if self.certificate is not None or search.claim.metric not in CALIBRATED_METRICS or search.claim.given:
            return {}
        assert search.table.groups is not None  # noqa: S101  (checked when the job was opened)
        scale = default_parts(True)[CERTIFY] / search.parts[CERTIFY] if isinstance(search, Search) else 1.0
        counted = (search.counted_sizes() * scale).astype(int).tolist()
        return dict(zip(search.table.groups.names, counted, strict=True))

    def plans(self) -> tuple[PlanRow, ...]:
        """Return T* of calibrated cells by their number, with the records of :attr:`sizes` in cells of equal shares."""
        return plan_table(self.sizes, epsilon=1.0 - self.confidence, target=self.target) if self.sizes else ()

    @property
    def limit(self) -> float:
        """The chosen encoder's own upper limit at full ε. After a test against a target it is shown, not claimed."""
        if self.certificate is None:
            raise ArgumentError("There is no solution, and so no limit.")
        sequence = self.certificate.sequence
        return self.certificate.bound if sequence is None else sequence.steps[sequence.passed - 1].limit

    def rows(self) -> list[dict[str, Any]]:
        """Return the frontier as plain data: the chosen encoder is marked, those of the sequence have their step."""
        steps = {point.number: step for step, point in enumerate(self.order, 1)}
        rows = self.frontier.rows()
        for row in rows:
            row["step"] = steps.get(row["number"])
            row["chosen"] = self.point is not None and row["number"] == self.point.number
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: the result without the frontier."""
        certificate = self.certificate
        figures = ("bound", "estimate", "lower")
        return {
            "verdict": self.verdict,
            "target": self.target,
            **{name: None if certificate is None else getattr(certificate, name) for name in figures},
            "limit": None if certificate is None else self.limit,
            "confidence": self.confidence,
            "metric": self.frontier.metric,
            "utility": self.frontier.utility,
            "look": self.run["look"],
            "encoder": None if self.point is None else self.point.to_dict(),
            "tried": self.tried,
            "sequence": len(self.order),
            "tested": [entry.to_dict() for entry in self.tested],
            "measured": None if self.measured is None else self.measured.to_dict(),
            "boosting": None if self.boosting is None else self.boosting.to_dict(),
            "follows": [] if certificate is None else list(certificate.what_follows()),
            "group_aware": None if self.group_aware is None else msgspec.to_builtins(self.group_aware),
            "advice": [msgspec.to_builtins(advice) for advice in self.advice],
            "plans": [row.to_dict() for row in self.plans()],
            "exclusions": [msgspec.to_builtins(exclusion) for exclusion in self.exclusions],
            "notes": list(self.notes),
            "warning": self.warning,
        }

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        key: Any = None,
        suppress: int | None = None,
        dataset: str | None = None,
        terms: Terms | Mapping[str, str] | None = None,
        command: str | None = None,
        replace: bool = False,
    ) -> Path:
        """Write the bundle: a folder that appears as a whole or not at all.

        ``encoder.json``, ``certificate.json``, ``report.html``, ``frontier.csv`` and ``findings.json`` may be
        published; what is in ``private/`` may not.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        key : path or signer, optional
            Private key that signs the certificate.
        suppress : int, optional
            Pool cells with a count below this in the certificate, and leave the cells' statistics out of the encoder.
        dataset : str, optional
            What the data are called in the certificate and the report.
        terms : mapping, optional
            What you state in the certificate: ``{"producer": …, "purpose": …, "valid_until": "2030-12-31"}``.
        command : str, optional
            The command that made the bundle, to be recorded.
        replace : bool
            Replace the folder if it is a bundle.

        Returns
        -------
        Path
        """
        from certifare.document import load_private_key, verify_document, write_document
        from certifare.document.verification import ANY
        from certifare.encoders.format import EncoderFile
        from certifare.report import describe_encoder, render_html, report_data
        from certifare.report.findings import Findings

        if self.certificate is None:
            raise ArgumentError("There is no solution, and so nothing to publish: advice says what would help.")
        check_output(folder, replace=replace)
        signer = load_private_key(key) if isinstance(key, str | os.PathLike) else key
        with atomic_folder(folder, replace=is_bundle if replace else None) as temporary:
            encoder_file = EncoderFile.write(
                temporary / "encoder.json", self.encoder.to_document(statistics=suppress is None)
            )
            document = write_document(
                temporary / "certificate.json",
                self.certificate,
                signer,
                encoder=encoder_file,
                data_digest=self.run["certify_digest"],
                selection={
                    "tried": self.tried,
                    "correction": "holdout" if self.certificate.sequence is None else "sequence",
                },
                suppress_below=suppress,
                reading=self.frontier.search.reading,
                dataset=dataset,
                terms=terms,
                command=command,
            )
            rows = self.rows()
            write_rows(temporary / "frontier.csv", rows)
            chosen = next(i for i, row in enumerate(rows) if row["chosen"])
            public = None if signer is None else signer.public_key
            findings = Findings.of(
                target=self.target,
                measured=None if self.measured is None else self.measured.to_dict(),
                boosting=None if self.boosting is None else self.boosting.to_dict(),
                evaluation=self._evaluate(calibrated=suppress is None),
            )
            (temporary / "findings.json").write_bytes(findings.to_bytes())
            data = report_data(
                document,
                verdict=verify_document(document, ANY, key=public, encoder=encoder_file),
                encoder=describe_encoder(encoder_file),
                frontier=rows,
                chosen=chosen,
                **findings.shown(),
            )
            (temporary / "report.html").write_text(render_html(data), encoding="utf-8")
            self._save_private(temporary / "private", command)
        return Path(folder)

    def certification_records(self) -> pa.Table:
        """Return the certification records, as they were drawn; for calibrated cells, who set the thresholds.

        An auditor may check these with ``certifare verify --certified-on``. They are personal data.
        """
        if self.frontier.search.elsewhere is not None:
            raise ArgumentError("The certification records are not in memory: they stayed where they are.")
        table = self.frontier.search.certify_sample.table
        return table.select(table.column_names)

    def _evaluate(self, calibrated: bool) -> dict[str, Any]:
        search = self.frontier.search
        assert self.point is not None  # noqa: S101  (there is a certificate)
        cells = search.certify_cells(self.encoder, search.candidates[self.point.number])
        return evaluate(self.encoder, search.certify_sample.table, cells=cells, calibrated=calibrated)

    def _save_private(self, folder: Path, command: str | None) -> None:
        folder.mkdir(mode=0o700)
        write_private(folder / "README.txt", PRIVATE_NOTE.encode())
        if self.encoder.fingerprint_ is not None:
            self.encoder.fingerprint_.save(folder / "fingerprint.npz")
        log = {**self.run, **self.to_dict(), "command": command}
        write_private(folder / "run.json", (json.dumps(log, ensure_ascii=False, indent=2) + "\n").encode())

    def __repr__(self) -> str:
        return f"<Bundle: {self}>"

    def _repr_html_(self) -> str:
        asked = "" if self.target is None else f", target {self.target:g}"
        rows: list[tuple[str, object]] = [("verdict", f"{self.verdict}{asked}"), ("encoders tried", f"{self.tried:,}")]
        if self.certificate is not None:
            figures = (
                f"T* = {round_up(self.certificate.bound)}, {percent(self.certificate.joint_confidence)} confidence"
            )
            rows.append(("certificate", f"{figures}, {amount(self.certificate.counts.n_records, 'record')}"))
        if self.point is not None:
            gamma = "" if self.point.gamma is None else f", γ = {self.point.gamma:g}"
            rows.append(("encoder", f"{self.point.kind}, {amount(self.point.cells, 'cell')}{gamma}"))
        if self.measured is not None:
            rows.append(("accuracy of majority votes", f"{self.measured.performance.accuracy.estimate:.1%}"))
        rows += [("what would help", advice.text) for advice in self.advice]
        rows += [("left out", f"{amount(e.records, 'record')}: {e.reason}") for e in self.exclusions]
        rows += [("note", note) for note in (self.warning, *self.notes) if note is not None]
        headline = "No encoder met the target." if self.certificate is None else plain_claim(self.certificate)
        return html_card("Bundle", headline, rows, drawing=self.plot())

    def plot(self) -> Drawing:
        """Draw the frontier, with the chosen encoder marked."""
        return self.frontier.plot(self.point)

    def __str__(self) -> str:
        asked = "" if self.target is None else f" (target {self.target:g})"
        return f"{self.verdict}{asked}: {self.advice[0].text if self.certificate is None else self.certificate}"


def produce(
    table: Any,
    *,
    target: float | None = None,
    min_ratio: float | None = None,
    min_rate: float | None = None,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    positive: str | None = None,
    population: str = "clusters",
    min_group_size: int = 30,
    looks: int | None = None,
    ledger: bool = True,
    min_cells: int = 2,
    grid: Grid | None = None,
    utility: str = "information",
    retain: float = 0.0,
    group_aware: bool = False,
    tie_column: str | None = None,
    score_column: str | None = None,
    pool_groups: int | None = None,
    label_quantiles: int | None = None,
    parts: Mapping[str, float] | None = None,
    seed: int = 0,
    n_jobs: int = 2,
    progress: Progress | None = None,
    **roles: Any,
) -> Bundle:
    """Find, certify and describe an encoder for a table.

    Parameters
    ----------
    table : Table, dataframe or path
        A dataframe or a file needs ``label`` and ``sensitive`` as well. A Dask or Spark DataFrame stays on its
        cluster, and large Parquet files (a path, folder or address such as ``s3://…``) where they are
        (:mod:`certifare.frontier.large`).
    target : float, optional
        The largest T* to be accepted: encoders are tested against it in a fixed sequence. Without it one encoder is
        certified, the knee of the frontier.
    min_ratio, min_rate : float, optional
        Instead of a target: every classifier that selects at least ``min_rate`` of some group must have selection rates
        whose ratio is at least ``min_ratio`` (four fifths: 0.8). The largest T* that guarantees it is the target.
    metric, confidence, positive, min_group_size
        Of the certificate (:func:`certifare.certify_counts`).
    population : {"clusters", "records"}
        With clusters: what the claim is about.
    looks : int, optional
        How many looks are planned: each has its share of ε, and all of them hold together with ``confidence``.
    ledger : bool
        Whether looks at the certification records are counted (:mod:`certifare.certification.ledger`).
    min_cells : int
        The fewest cells that the encoder may have.
    grid : Grid, optional
        What to try.
    utility : {"information", "explained", "accuracy"}
        What encoders are compared by (:mod:`certifare.frontier.utility`).
    retain : float
        As in :class:`~certifare.FairTreeEncoder`.
    group_aware : bool
        Let cells read the group: :class:`~certifare.CalibratedEncoder`.
    tie_column : str, optional
        For ``group_aware``: a column that identifies records, whose keyed hash decides about records on a threshold.
    score_column : str, optional
        For ``group_aware``: a column that is a score already. No model is fitted; thresholds are set on this score.
        Without a label every record may set them: ``certifare calibrate``, or
        :class:`~certifare.CalibratedEncoder`.
    pool_groups : int, optional
        Pool groups that may be expected to have fewer certification records, by the numbers of the others.
    label_quantiles : int, optional
        Cut a label that is a quantity into this number of bands, each with about as many training and select records.
    parts : mapping of str to float
        Shares of train, select and certify.
    seed : int
    n_jobs : int
        How many growths are fitted at a time.
    progress : callable, optional
        Told what is being done, how much is done and how much there is.
    **roles
        ``label``, ``sensitive``, ``weight``, ``cluster``, ``categorical``, ``continuous``, ``drop`` …: for a dataframe
        as in :meth:`Table.from_frame`, for a file as in :func:`read_table`.

    Returns
    -------
    Bundle

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare.frontier import Grid
    >>> from certifare.bundle import produce
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=6000), "s": rng.integers(0, 2, 6000)})
    >>> people["y"] = (people["x"] + rng.normal(size=6000) > 0).astype(int)
    >>> bundle = produce(people, label="y", sensitive="s", target=0.15, grid=Grid(kinds=["tree"], gammas=[0.5, 0.9]))
    >>> bundle.verdict, bundle.certificate.bound <= 0.15
    ('PASS', True)
    """
    ratio = None
    if min_ratio is not None or min_rate is not None:
        if roles.get("given") is not None:
            raise ArgumentError("--min-ratio is about selection rates of whole groups, of which --given says nothing.")
        target, ratio = _ratio_target(target, min_ratio, min_rate, metric, each=bool(roles.get("each")))
    if target is not None and not 0.0 < target <= 1.0:
        raise ArgumentError(f"target={target}: give a distance in (0, 1].")
    how: dict[str, Any] = {
        "metric": metric,
        "confidence": confidence,
        "positive": positive,
        "population": population,
        "min_group_size": min_group_size,
        "looks": looks,
        "ledger": ledger,
        "utility": utility,
        "retain": retain,
        "group_aware": group_aware,
        "tie_column": tie_column,
        "score_column": score_column,
        "pool_groups": pool_groups,
        "parts": parts,
        "seed": seed,
        "n_jobs": n_jobs,
        "task": repr((target, min_cells, grid or Grid(), tie_column, score_column)),
    }
    if not is_large(table):
        search = open_search(table, grid, label_quantiles=label_quantiles, **how, **roles)
    elif label_quantiles is not None:
        raise ArgumentError(
            "label_quantiles needs the whole table in memory, and this one is too large for that: cut the label at "
            "fixed numbers (label_cuts)."
        )
    else:
        shares, besides = parts or default_parts(group_aware), (tie_column, score_column)
        sample, elsewhere = open_large(table, roles, shares, seed, progress, besides=besides)
        search = open_search(sample, grid, elsewhere=elsewhere, **how)
    if ratio is not None:
        search.notes.append(ratio)
    return _choose(search, target, min_cells, progress)


def _ratio_target(
    target: float | None, min_ratio: float | None, min_rate: float | None, metric: str, *, each: bool
) -> tuple[float, str]:
    """Return the target that guarantees a ratio of selection rates, and what it guarantees in words."""
    if target is not None:
        raise ArgumentError("Give --target, or --min-ratio and --min-rate, not both.")
    if min_ratio is None or min_rate is None:
        raise ArgumentError(
            "--min-ratio and --min-rate go together: a ratio follows from T* from some selection rate on."
        )
    if metric != "demographic_parity":
        raise ArgumentError(f"--min-ratio is about selection rates of whole groups, and the metric {metric} is not.")
    found = target_for_ratio(min_ratio, min_rate)
    some = "of some group of an attribute has, among that attribute's groups," if each else "of some group has"
    return found, (
        f"asked for: every classifier that selects at least {100 * min_rate:g} % {some} selection rates "
        f"whose ratio is at least {min_ratio:g}, which T* ≤ {found:g} guarantees"
    )


def _choose(
    search: Search | CalibratedSearch, target: float | None, min_cells: int, progress: Progress | None
) -> Bundle:
    """Run a search, put encoders in order, and test them against the target; or certify one."""
    search.run(progress=progress)
    most = max(candidate.cells for candidate in search.candidates)
    if most < min_cells:
        raise ArgumentError(f"No encoder has {min_cells} cells or more; the largest has {most}. Ask for fewer.")
    if target is None:
        frontier = Frontier(search, "holdout")
        knee = search.knee(min_cells)
        if not knee:
            return _bundle(frontier, None, min_cells=min_cells)
        return Bundle.of(frontier, frontier.points[knee[0]], min_cells=min_cells, progress=progress)
    if isinstance(search, CalibratedSearch):
        frontier, best = Frontier(search, "holdout"), search.best(target, min_cells)
        if best is None:
            return _bundle(frontier, None, min_cells=min_cells, target=target)
        return Bundle.of(frontier, frontier.points[best], target=target, min_cells=min_cells, progress=progress)
    numbers = search.chain(min_cells)
    if not numbers:
        return _bundle(Frontier(search, "holdout"), None, min_cells=min_cells, target=target)
    walked, found = search.walk(numbers, target, progress=progress)
    if found is None:
        frontier, chosen = Frontier(search, "holdout"), None
    else:
        number = numbers[walked.passed - 1]
        frontier = Frontier(search, "holdout", {number: found[1]}, {number: found[0]})
        chosen = frontier.points[number]
    if progress is not None:
        progress("measuring", 0, 1)
    return _bundle(
        frontier,
        chosen,
        min_cells=min_cells,
        target=target,
        order=[frontier.points[number] for number in numbers],
        limits=[step.limit for step in walked.steps],
    )


def _bundle(
    frontier: Frontier,
    point: Point | None,
    *,
    min_cells: int,
    target: float | None = None,
    order: Sequence[Point] = (),
    limits: Sequence[float] = (),
) -> Bundle:
    """Describe a result: a certified point, or none."""
    search = frontier.search
    advice: tuple[Advice, ...] = ()
    encoder = certificate = measured = None
    look = search.look
    if point is not None:
        encoder, certificate = frontier.encoder(point), frontier.certificate(point)
        measured, look = _votes(search, point.number, encoder, certificate), certificate.counted_look
    else:
        advice = _advice(search, order, target, min_cells)
    return Bundle(
        verdict="NO SOLUTION" if point is None else "DONE" if target is None else "PASS",
        encoder=encoder,
        certificate=certificate,
        point=point,
        measured=measured,
        boosting=None if point is None else _boosting(search),
        frontier=frontier,
        order=tuple(order),
        tested=tuple(
            Tested(tested, limit, target is not None and limit <= target)
            for tested, limit in zip(order, limits, strict=False)
        ),
        target=target,
        advice=advice,
        exclusions=search.table.exclusions if certificate is None else certificate.exclusions,
        notes=frontier.notes,
        # Delivered all the same: withholding it would be a choice by the certification records.
        warning=None if measured is None or not measured.little else _little(search, measured, target, min_cells),
        group_aware=_glimpse(search, target, point, min_cells),
        run=_run(search, look),
    )


def _little(search: Search | CalibratedSearch, measured: Measured, target: float | None, min_cells: int) -> str:
    """Say that an encoder predicts almost nothing, and what the search expects of larger targets."""
    performance = measured.performance
    figure = (
        f"explains {performance.explained.estimate:.1%} of the label"
        if performance.auc is None
        else f"AUC {performance.auc.estimate:.3f}"
    )
    words = f"predicts almost nothing ({figure}; the commonest label is right for {performance.baseline:.1%})"
    useful, expected = [search.candidates[i] for i in search.useful(min_cells)], {}
    for larger in LARGER_TARGETS:
        within = [candidate for candidate in useful if candidate.prediction.reachable() <= larger]
        if within and larger > (target or measured.distance.estimate):
            best = max(within, key=lambda candidate: candidate.utility)
            expected[f"{larger:g}"] = f"{best.explained:.1%}" if best.auc is None else f"{best.auc:.2f}"
    if not expected:
        return f"{words}."
    what = "of the label explained" if performance.auc is None else "AUC"
    return f"{words}; with --target {' / '.join(expected)} expect about {what} {' / '.join(expected.values())}."


def _glimpse(
    search: Search | CalibratedSearch, target: float | None, point: Point | None, min_cells: int
) -> Glimpse | None:
    """Say what group-aware cells would have given at the target, or at what was expected of the chosen encoder."""
    if target is None and point is None:
        return None
    limit = target if target is not None else search.candidates[point.number].prediction.bound  # type: ignore[union-attr]
    return search.glimpse(limit, min_cells)


def is_bundle(folder: Path) -> bool:
    """Return whether a folder, its private one included, holds nothing but a bundle, and so may be replaced."""
    private = folder / "private"
    return (
        (folder / "certificate.json").exists()
        and _holds_only(folder, BUNDLE_FILES, {"private"})
        and (not private.exists() or _holds_only(private, PRIVATE_FILES))
    )


def _holds_only(folder: Path, files: Set[str], folders: Set[str] = frozenset()) -> bool:
    with os.scandir(folder) as entries:
        return all(
            (entry.name in files and entry.is_file(follow_symlinks=False))
            or (entry.name in folders and entry.is_dir(follow_symlinks=False))
            for entry in entries
        )


def check_output(folder: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Refuse a folder that a bundle could not be saved in, before any work is done."""
    if not replace and Path(folder).is_dir() and is_bundle(Path(folder)):
        raise FileError(
            f"{str(folder)!r} holds a bundle already: name another folder, or replace it (--replace; in Python "
            "replace=True)."
        )
    check_folder(folder, replace=is_bundle if replace else None)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write plain rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: str(v).lower() if isinstance(v, bool) else v for k, v in row.items()})


def _votes(search: Search | CalibratedSearch, number: int, encoder: Any, certificate: Certificate) -> Measured:
    """Measure the forecasts of the chosen encoder's cells, in spite of the choice: each candidate has a share of ε."""
    candidate, table = search.candidates[number], search.certify_sample.table
    counted = PartCounts.of(table, search.certify_cells(encoder, candidate), candidate.cells)
    return Measured(
        candidate.path.performance(
            candidate.cells, counted.labels, certificate.confidence, candidates=certificate.candidates
        ),
        certificate.for_classifier(candidate.path.votes(candidate.cells)[0]),
        beyond_chance(candidate.path.at("train", candidate.cells).labels, counted.labels) <= BEYOND_CHANCE,
    )


def _boosting(search: Search | CalibratedSearch) -> Measured | None:
    """Measure gradient boosting on the table itself, where it was fitted. It was not chosen: it has the whole of ε."""
    table, train = search.certify_sample.table, search.train
    forecasts = search.boosting(table)
    if forecasts is None:
        return None
    labelled = [y.codes >= 0 for y in table.labels]
    predicted = forecasts[0].argmax(axis=1)
    counts = table.count(predicted, forecasts[0].shape[1], labels=search.claim.labelled)
    claim = replace(search.claim, method="mcdiarmid", min_group_size=1)
    certificate = issue(Evidence(counts, tail=search.certify_sample.tail), claim)
    return Measured(
        Performance.of(
            [p[known] for p, known in zip(forecasts, labelled, strict=True)],
            [base_rates(np.bincount(y.codes[y.codes >= 0], minlength=len(y.names))[None]) for y in train.labels],
            [
                np.eye(len(y.names), dtype=np.int64)[y.codes[known]]
                for y, known in zip(table.labels, labelled, strict=True)
            ],
            search.claim.confidence,
            by_cell=False,
        ),
        certificate.for_classifier(np.arange(counts.n_cells)),
    )


def _advice(
    search: Search | CalibratedSearch, order: Sequence[Point], target: float | None, min_cells: int
) -> tuple[Advice, ...]:
    """Say what would help: more records, or a larger target.

    Nothing here comes from the certification records: following the advice is no choice by them.
    """
    if isinstance(search, CalibratedSearch):
        return _plan_advice(search, target, min_cells)
    if not order or target is None:
        fewer = max((search.candidates[i].cells for i in search.useful()), default=None)
        if fewer is not None:
            words = f"No encoder with {min_cells:,} cells or more predicts the label better than chance"
            return (Advice(f"{words}; some with {fewer:,} do: ask for fewer cells."),)
        return (
            Advice(
                "No encoder predicts the label better than chance, as far as "
                f"{len(search.select):,} select records can show: more records, other columns or another label would "
                "help."
            ),
        )
    candidates = [search.candidates[i] for i in search.useful(min_cells)]
    advice = []
    factors = [
        growth_needed(candidate.outlook, target, 1.0 - search.claim.confidence)
        for candidate in candidates
        if candidate.outlook is not None
    ]
    known = [factor for factor in factors if factor is not None]
    certify_records = len(search.certify_sample.table)
    if known and min(known) > 1.0:
        factor = min(known)
        total = _round_up(factor * len(search.table))
        advice.append(
            Advice(
                f"About {total:,} records instead of {len(search.table):,} would do, at this estimate of the distance: "
                f"{_round_up(factor * certify_records):,} of them to certify on, instead of {certify_records:,}.",
                records=total,
            )
        )
    elif not known:
        advice.append(
            Advice("No number of records would do for the encoders that were tried: their distances are too large. "
                   "Values of gamma closer to 1 make them smaller.")
        )  # fmt: skip
    within_reach = min(candidate.prediction.reachable() for candidate in candidates)
    reachable = math.ceil(1000 * max(within_reach, target + 0.001)) / 1000
    if reachable < 1.0:
        advice.append(
            Advice(f"A target of {reachable:g} would probably be met with as many records.", target=reachable)
        )
    return (*advice, _next_look(search))


def _plan_advice(search: CalibratedSearch, target: float | None, min_cells: int) -> tuple[Advice, ...]:
    """Say which targets and numbers of records calibrated cells would do with."""
    useful = search.useful(min_cells)
    if target is None or not useful:
        return (Advice(f"No plan with {min_cells:,} cells or more predicts the label better than chance."),)
    reachable = math.ceil(1000 * min(search.bound(i) for i in _smallest(search, useful))) / 1000
    return (
        Advice(f"No calibrated cells have T* ≤ {target:g} with so few records."),
        Advice(f"A target of {reachable:g} would be met with these records; none was looked at.", target=reachable),
        Advice(
            "More records, or fewer or pooled groups: T* falls as one over the root of the smallest group's records."
        ),
    )


def _smallest(search: CalibratedSearch, numbers: Sequence[int]) -> list[int]:
    """Return the plans with the smallest forecasts of T*: few enough to compute T* itself."""
    return sorted(numbers, key=lambda i: search.candidates[i].prediction.bound)[:3]


def _next_look(search: Search | CalibratedSearch) -> Advice:
    """Say what another look at the same certification records costs, or how many fresh ones would do."""
    look, confidence = search.look, search.claim.confidence
    n = int(search.certify_sizes().sum())
    fresh = f"As many fresh records ({n:,}) to certify on would keep {percent(search.asked)}."
    if look is None:
        return Advice(f"Another run on these records is another look at them, and looks are not counted here. {fresh}")
    if look.planned is not None and look.number < look.planned:
        return Advice(f"This was look {look.number} of {look.planned} that are planned: the next one is paid for.")
    after = look.next(confidence)
    return Advice(
        f"Another run on these records would be look {after.number} at them: {percent(search.asked)} confidence cannot "
        f"be reached any more, and both looks together hold with {percent(after.joint(confidence))} "
        f"(--confidence {after.joint(confidence):.4g}). {fresh}"
    )


def _round_up(number: float) -> int:
    """Two significant digits are enough for a forecast."""
    digits = max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    step: int = 10**digits
    return math.ceil(number / step) * step


def _run(search: Search | CalibratedSearch, look: Look | None) -> dict[str, Any]:

    table = search.table
    return {
        "version": __version__,
        "python": platform.python_version(),
        "source": None if table.source is None else table.source.name,
        "records": search.sizes["all"],
        "roles": {role: list(texts) for role, texts in table.roles.named().items()},
        "columns": table.summary(),
        "parts": {name: size for name, size in search.sizes.items() if name != "all"},
        "certification_records": int(search.certify_sizes().sum()),
        "certify_digest": search.certify_digest,
        "look": None
        if look is None
        else {**msgspec.to_builtins(look), "joint_confidence": look.joint(search.claim.confidence)},
        "table_digest": table.digest,
        "seed": search.seed,
        "retain": search.retain,
        "group_aware": isinstance(search, CalibratedSearch),
        "cap": None if search.cap is None else search.cap.cap,
        "growths": len(search.paths),
    }
