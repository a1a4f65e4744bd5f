"""Results of the published methods, and the numbers that the paper and its authors' files give."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from certifare_research.errors import ExperimentError
from certifare_research.evaluation.outcomes import Evaluation, Outcome

#: Names in the authors' files.
AUTHORS_NAMES = {
    "LAFTR": "laftr", "CVIB": "cvib_supervised", "FCRL": "fcrl", "FNF": "fnf", "sIPM-LFR": "sipm",
    "FairPath": "fair-path", "identity": "noop", "tree": "tree", "kmeans": "kmeans",
}  # fmt: skip

#: What every comparison shows: the published methods, and the records as they are.
METHODS = ("CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath", "LAFTR", "identity")
#: What a page says of a method that was not run.
ABSENT = "no results"


@dataclass(frozen=True)
class PublishedRun:
    """One setting of a published method, and what classifiers did with its representation."""

    data: str
    method: str
    metric: str
    effort: float
    setting: str
    task: str
    classifier: str
    target: str
    evaluation: Evaluation


def read_runs(path: Path | None = None) -> list[PublishedRun]:
    """Read a CSV file that :func:`gather` wrote; the results that come with this package unless one is given."""
    source = resources.files(__package__) / "baselines.csv" if path is None else path
    if not source.is_file():
        raise ExperimentError(f"There is no file {source} with results of the published methods.")
    with source.open(encoding="utf-8") as file:
        rows = csv.DictReader(file)
        try:
            runs = [_run(row) for row in rows]
        except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
            raise ExperimentError(
                f"Line {rows.line_num} of {source} is no result of a published method ({error!r}): give a file that "
                "benchmarks/train_baselines.py gather wrote."
            ) from error
    if not runs:
        raise ExperimentError(f"The file {source} holds no result of a published method.")
    return runs


def _run(row: Mapping[str, str]) -> PublishedRun:
    counts = np.array([[int(n) for n in part.split()] for part in row["counts"].split(";")], dtype=np.int64)
    return PublishedRun(
        row["data"], row["method"], row["metric"], float(row["effort"]), row["setting"], row["task"], row["classifier"],
        row["target"], Evaluation.of([Outcome(c.reshape(2, 2, 2)) for c in counts]),
    )  # fmt: skip


def gather(files: Iterable[tuple[Path, float]], out: Path) -> int:
    """Collect JSON lines of ``benchmarks/train_baselines.py`` into one CSV file.

    Each file comes with the effort to note where a line has none. Runs that differ in their seed alone become one row
    with the counts of all.
    """
    rows: list[dict[str, Any]] = []
    seeded: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path, effort in files:
        for line in path.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            row = {
                **{k: record[k] for k in ("data", "method", "metric")},
                "effort": record.get("effort", effort),
                "setting": " ".join(f"{k}={v:g}" for k, v in record["setting"].items()),
                **{k: record[k] for k in ("task", "classifier", "target")},
            }
            counts = ";".join(" ".join(map(str, c)) for c in record["counts"])
            if "seed" in record and (known := seeded.get(tuple(row.values()))):
                known["counts"] += f";{counts}"
                continue
            if "seed" in record:
                seeded[tuple(row.values())] = row
            row["counts"] = counts
            rows.append(row)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def select(runs: Sequence[PublishedRun], **wanted: str) -> list[PublishedRun]:
    """Return runs whose fields have the values asked for."""
    return [r for r in runs if all(getattr(r, name) == value for name, value in wanted.items())]


def anchors() -> list[dict[str, str]]:
    """Return best accuracies of the authors' stored results, per data set, method and metric."""
    text = (resources.files(__package__) / "anchors.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def anchor(dataset: str, method: str, column: str, metric: str = "dp") -> float | None:
    """One of the authors' stored numbers; None where they have none.

    >>> from certifare_research.experiments.published import anchor
    >>> anchor("ACSIncome-CA-2014", "tree", "acc@T<=0.10")
    0.7977
    """
    for row in anchors():
        if (row["dataset"], row["method"], row["metric"]) == (dataset, AUTHORS_NAMES.get(method, method), metric):
            return float(row[column]) if row[column] else None
    return None
