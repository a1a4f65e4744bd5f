"""Audit: over all runs of all experiments, how often a measured distance on fresh records exceeded its certificate."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from certifare.errors import ExperimentError
from certifare.experiments.framework import Block, Page, Run


def read_claims(folder: Path) -> list[dict[str, Any]]:
    """Claims of all experiments that wrote any into this folder."""
    claims = []
    for path in sorted(folder.glob("*.claims.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                claims.append(
                    {
                        **row,
                        "experiment": path.name.removesuffix(".claims.csv"),
                        "measured": float(row["measured"]),
                        "bound": float(row["bound"]),
                    }
                )
    return claims


def run(run: Run) -> Page:
    """Count the exceptions."""
    claims = read_claims(run.out)
    if not claims:
        raise ExperimentError(f"There are no results in {run.out} to audit: run some experiments first.")
    rows = []
    for name in [*dict.fromkeys(c["experiment"] for c in claims), "all"]:
        own = [c for c in claims if name in ("all", c["experiment"])]
        above = [c for c in own if c["measured"] > c["bound"]]
        worst = max((c["measured"] - c["bound"] for c in above), default=0.0)
        encoders = {(c["data"], c["encoder"]) for c in own}
        rows.append([name, f"{len(encoders):,}", f"{len(own):,}", len(above), f"{len(above) / len(own):.2%}", worst])
    return Page(
        title="Audit of the certificates",
        text="Each certificate says: with 95 % confidence no classifier exceeds T*. Over all runs of all "
        "experiments, the share in which a distance measured on "
        "fresh records (majority vote, adversaries, downstream classifiers) exceeded T*. A measured distance "
        "is itself an estimate, so an excess "
        "is no proof that a certificate failed; the share must stay well below 5 %.",
        blocks=[
            Block(
                "Measured against certified",
                ["experiment", "encoders", "measured distances", "above T*", "share", "largest excess"],
                rows,
            )
        ],
        records=[
            {"experiment": r[0], "encoders": r[1], "measured": r[2], "above": r[3], "share": r[4], "excess": r[5]}
            for r in rows
        ],
        notes=(
            "Encoders of one experiment are measured on the same test records, so excesses come together: one unlucky "
            "test part shows in many rows.",
        ),
    )
