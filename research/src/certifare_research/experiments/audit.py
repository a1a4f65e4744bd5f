"""Audit: over all runs of all experiments, how often a measured distance on fresh records exceeded its certificate."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from certifare_research.errors import ExperimentError
from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments.framework import Block, Page, Run

COLUMNS = (
    "experiment",
    "encoders",
    "measured distances",
    "above T*",
    "share",
    "lower limit above T*",
    "share",
    "largest excess",
)


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


def certainly_above(claim: Mapping[str, Any]) -> bool | None:
    """Whether the lower 95 % limit of the measured distance is above T*; None where its counts are not known."""
    if claim["measured"] <= claim["bound"]:
        return False
    if not claim.get("counts"):
        return None
    # Each limit of an interval of 90 % holds with 95 %.
    return bool(Outcome.parse(claim["counts"]).interval(0.9, metric=claim["metric"]).lower > claim["bound"])


def summary(name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the exceptions among some claims."""
    certain = [certainly_above(c) for c in claims]
    known = None if None in certain else sum(map(bool, certain))
    above = sum(c["measured"] > c["bound"] for c in claims)
    return {
        "experiment": name,
        "encoders": len({(c["experiment"], c["data"], c["encoder"]) for c in claims}),
        "measured": len(claims),
        "above": above,
        "share": above / len(claims),
        "certainly_above": known,
        "certain_share": None if known is None else known / len(claims),
        "excess": max(0.0, *(c["measured"] - c["bound"] for c in claims)),
    }


def run(run: Run) -> Page:
    """Count the exceptions of each experiment, and of all."""
    claims = read_claims(run.out)
    if not claims:
        raise ExperimentError(f"There are no results in {run.out} to audit: run some experiments first.")
    names = dict.fromkeys(c["experiment"] for c in claims)
    rows = [summary(name, [c for c in claims if c["experiment"] == name]) for name in names]
    rows.append(summary("all", claims))
    return Page(
        title="Audit of the certificates",
        text="Each certificate says: with 95 % confidence no classifier exceeds T*. Over all runs of all experiments: "
        "how often a distance measured on fresh records (majority vote, adversaries, downstream classifiers) exceeded "
        "T*. A measured distance is itself an estimate, and one above T* is no proof that the certificate failed; "
        "where the exact lower 95 % limit of that classifier's distance is above T* as well, chance in the test "
        "records alone hardly explains it.",
        blocks=[
            Block(
                "Measured against certified",
                COLUMNS,
                [
                    [
                        r["experiment"],
                        f"{r['encoders']:,}",
                        f"{r['measured']:,}",
                        r["above"],
                        f"{r['share']:.2%}",
                        r["certainly_above"],
                        None if r["certain_share"] is None else f"{r['certain_share']:.2%}",
                        r["excess"],
                    ]
                    for r in rows
                ],
            )
        ],
        records=rows,
        notes=(
            "Encoders of one split are measured on the same test records and certified on the same others, so excesses "
            "come together: one unlucky part shows in many rows.",
            "Where an experiment has one split, its share is the luck of that split.",
            "Health: the test records hold several years of a patient, which the lower limit takes for independent; it "
            "is somewhat too high there. (Certificates use one record per patient.)",
            "Every certificate is wrong with a probability of at most 5 %, each for itself: encoders that were chosen "
            "among many are certified more strictly (see the main comparison), those counted here are not.",
        ),
    )
