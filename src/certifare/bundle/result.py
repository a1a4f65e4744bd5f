"""The result of a job: an encoder with its certificate and its place on the frontier, or what would help."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from certifare.bundle.advice import Advice, advise, warn_of_little
from certifare.bundle.folder import write_bundle
from certifare.bundle.measuring import Measured, measure_boosting, measure_votes
from certifare.certificates import Certificate, Exclusion
from certifare.certificates.calibrated import CALIBRATED_METRICS
from certifare.certificates.planning import PlanRow, plan_table
from certifare.certificates.rounding import percent, round_up
from certifare.certificates.wording import plain_claim
from certifare.drawing.card import html_card
from certifare.errors import ArgumentError
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount
from certifare.foundation.version import __version__
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.job import Progress
from certifare.frontier.search import Glimpse, Search
from certifare.frontier.sweeping import Frontier, Point, default_parts
from certifare.tables.splitting import CERTIFY

if TYPE_CHECKING:
    import pyarrow as pa

    from certifare.certificates.looks import Look
    from certifare.document import Terms

JobVerdict = Literal["PASS", "NO SOLUTION", "DONE"]


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
        return bundle_of(frontier, frontier.points[number], min_cells=min_cells, target=target)

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
        return write_bundle(
            self, folder, key=key, suppress=suppress, dataset=dataset, terms=terms, command=command, replace=replace
        )

    def certification_records(self) -> pa.Table:
        """Return the certification records, as they were drawn; for calibrated cells, who set the thresholds.

        An auditor may check these with ``certifare verify --certified-on``. They are personal data.
        """
        if self.frontier.search.elsewhere is not None:
            raise ArgumentError("The certification records are not in memory: they stayed where they are.")
        table = self.frontier.search.certify_sample.table
        return table.select(table.column_names)

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


def bundle_of(
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
        measured, look = measure_votes(search, point.number, encoder, certificate), certificate.counted_look
    else:
        advice = advise(search, order, target, min_cells)
    return Bundle(
        verdict="NO SOLUTION" if point is None else "DONE" if target is None else "PASS",
        encoder=encoder,
        certificate=certificate,
        point=point,
        measured=measured,
        boosting=None if point is None else measure_boosting(search),
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
        warning=None
        if measured is None or not measured.little
        else warn_of_little(search, measured, target, min_cells),
        group_aware=_glimpse(search, target, point, min_cells),
        run=_run(search, look),
    )


def _glimpse(
    search: Search | CalibratedSearch, target: float | None, point: Point | None, min_cells: int
) -> Glimpse | None:
    """Say what group-aware cells would have given at the target, or at what was expected of the chosen encoder."""
    if target is None and point is None:
        return None
    limit = target if target is not None else search.candidates[point.number].prediction.bound  # type: ignore[union-attr]
    return search.glimpse(limit, min_cells)


def _run(search: Search | CalibratedSearch, look: Look | None) -> dict[str, Any]:
    """Say how the job was run, as plain data."""
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
