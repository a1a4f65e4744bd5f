"""Thresholds of each group on a score that is there already, for a table without a label.

Nothing is learnt, so every record sets thresholds: cells hold equal shares of every group, or shares that were stated,
and T* follows from the number of records of each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from certifare.certificates import Certificate
from certifare.certificates.claims import Claim
from certifare.certificates.planning import PlanRow, plan_table
from certifare.certification.ledger import open_ledger, statement_of
from certifare.encoders.calibrated_cells import CalibratedEncoder
from certifare.encoders.training import in_memory
from certifare.frontier.calibrating import Calibration
from certifare.tables.reading import Reading
from certifare.tables.splitting import CERTIFY
from certifare.tables.table import Table


@dataclass(frozen=True, eq=False)
class Scored:
    """What came of a score.

    - ``encoder``, ``certificate``: both None if no cells have T* within the target.
    - ``sizes``: the records of each group that set thresholds.
    - ``plans``: T* by number of cells, if there is no certificate.
    - ``digest``: of the records.
    - ``reading``: how they were read.
    """

    encoder: CalibratedEncoder | None
    certificate: Certificate | None
    target: float
    sizes: dict[str, int]
    plans: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    digest: str
    reading: Reading

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        certificate = {} if self.certificate is None else self.certificate.to_dict()
        return {
            "verdict": "NO SOLUTION" if self.certificate is None else "PASS",
            "target": self.target,
            "records": self.sizes,
            "plans": [row.to_dict() for row in self.plans],
            "notes": list(self.notes),
            **certificate,
        }


def calibrate_score(
    table: Table, score: str, target: float, *, shares: Sequence[float] | None, max_cells: int, **keywords: Any
) -> Scored:
    """Set thresholds of each group on a column that is a score, so that T* is within a target."""
    names = [field.name for field in fields(Claim)]
    claim = Claim(**{name: keywords.pop(name) for name in names if name in keywords})
    ledger = open_ledger(keywords.pop("ledger", True))
    task = repr((score, target, shares, max_cells))
    job = ScoreCalibration(
        table, score, claim, shares=shares, max_cells=max_cells, ledger=ledger, task=task, **keywords
    )
    assert job.table.groups is not None  # noqa: S101  (checked when the job was opened)
    sizes = dict(zip(job.table.groups.names, job.counted_sizes().tolist(), strict=True))
    encoder, certificate = job.calibrate(target) or (None, None)
    plans = () if certificate is not None else plan_table(sizes, epsilon=1.0 - claim.confidence, target=target)
    notes = (*job.table.notes, *job.notes)
    return Scored(encoder, certificate, target, sizes, plans, notes, job.certify_digest, job.reading)


class ScoreCalibration(Calibration):
    """A job whose records all set thresholds on an existing score.

    - ``table``: with groups and without labels.
    - ``score``: the column that is the score.
    - ``shares``: the share of every group in each cell, from the lowest scores up; equal shares unless given.
    - ``tie_column``: as in :class:`~certifare.encoders.calibrated_cells.CalibratedEncoder`.
    - ``**options``: of :class:`~certifare.frontier.job.JobOptions`.
    """

    candidates = ()
    labelled = False
    pooling = "merge small groups in the table"

    def __init__(
        self,
        table: Table,
        score: str,
        claim: Claim | None = None,
        *,
        shares: Sequence[float] | None = None,
        max_cells: int = 200,
        tie_column: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(table, claim, {CERTIFY: 1.0}, tie_column=tie_column, score_column=score, **options)
        self.shares, self.max_cells = shares, max_cells

    def calibrate(self, target: float) -> tuple[CalibratedEncoder, Certificate] | None:
        """Let all records set thresholds, by the plan with the most cells within a target; None if there is none."""
        parameters: dict[str, Any] = {
            "target": target,
            "max_cells": self.max_cells,
            "confidence": self.claim.confidence,
            "score_column": self.score_column,
            "shares": self.shares,
            "tie_column": self.tie_column,
            "random_state": self.seed,
        }
        encoder = CalibratedEncoder(**parameters)
        table = self.certify_sample.table
        training = in_memory(encoder.prepare(self.features(table), sensitive_features=table.groups))
        chosen = encoder.choose(encoder.plans(training, self.counted_sizes()), training)
        if chosen is None:
            return None
        self._use([0], None)
        encoder, certificate = self._set_thresholds(encoder, training, *chosen, self.claim)
        self._count_look([statement_of(encoder.digest(), certificate)])
        return encoder, certificate.at_look(self.look)
