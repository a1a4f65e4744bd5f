"""Results of the published methods, and the numbers that the paper and its authors' files give."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from certifare_research.errors import ExperimentError
from certifare_research.evaluation.outcomes import Evaluation, Outcome
from certifare_research.experiments.framework import Run

#: Names in the authors' files.
AUTHORS_NAMES = {
    "LAFTR": "laftr", "CVIB": "cvib_supervised", "FCRL": "fcrl", "FNF": "fnf", "sIPM-LFR": "sipm",
    "FairPath": "fair-path", "identity": "noop", "tree": "tree", "kmeans": "kmeans",
}  # fmt: skip

#: What every comparison shows: the published methods, and the records as they are.
METHODS = ("CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath", "LAFTR", "identity")
#: What a page says of a method that was not run.
ABSENT = "no results"


#: Columns of a file of results, and what is meant where one is missing (None: it must be there).
COLUMNS: dict[str, str | None] = {
    "data": None,
    "split": "0",
    "method": None,
    "metric": "demographic_parity",
    "effort": "1",
    "seed": "0",
    "arguments": "",
    "setting": None,
    "task": "y",
    "classifier": "mlp50",
    "target": "y",
    "bound": "",
    "groups": "2",
    "counts": None,
}
#: Columns that name a run: no two rows agree in all of them.
KEY = tuple(name for name in COLUMNS if name not in ("bound", "groups", "counts"))


@dataclass(frozen=True)
class PublishedRun:
    """One setting of a published method on one split, and what classifiers did with its representation.

    ``effort`` is the share of the published epochs, ``arguments`` are those of the training, ``bound`` is T* where the
    method has one.
    """

    data: str
    method: str
    metric: str
    effort: float
    setting: str
    task: str
    classifier: str
    target: str
    evaluation: Evaluation
    split: int = 0
    seed: str = "0"
    arguments: str = ""
    bound: float | None = None


def runs_of(run: Run) -> list[PublishedRun]:
    """Return the results that a command asked for: of the published methods, and of others beside them."""
    return [*read_runs(run.baselines), *(r for path in run.also for r in read_runs(path))]


def read_runs(path: Path | None = None) -> list[PublishedRun]:
    """Read a CSV file that :func:`gather` wrote; the results that come with this package unless one is given.

    A file of your own needs the columns data, method, setting and counts alone (:data:`COLUMNS`).
    """
    source = resources.files(__package__) / "baselines.csv" if path is None else path
    if not source.is_file():
        raise ExperimentError(f"There is no file {source} with results of the published methods.")
    with source.open(encoding="utf-8") as file:
        rows = csv.DictReader(file)
        try:
            runs = [_run(row) for row in rows]
        except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
            raise ExperimentError(
                f"Line {rows.line_num} of {source} is no result of a published method ({error!r}): give a file with "
                "the columns data, method, setting and counts, such as benchmarks/train_baselines.py gather writes."
            ) from error
    if not runs:
        raise ExperimentError(f"The file {source} holds no result of a published method.")
    return runs


def _run(row: Mapping[str, str]) -> PublishedRun:
    full = {name: row.get(name) or default for name, default in COLUMNS.items()}
    full["setting"] = row["setting"]
    if missing := [name for name, value in full.items() if value is None]:
        raise KeyError(missing[0])
    counts = np.array([[int(n) for n in part.split()] for part in row["counts"].split(";")], dtype=np.int64)
    groups = int(full["groups"] or 2)
    labels = math.isqrt(counts.shape[1] // groups)
    return PublishedRun(
        row["data"], row["method"], full["metric"] or "", float(full["effort"] or 1), row["setting"],
        full["task"] or "", full["classifier"] or "", full["target"] or "",
        Evaluation.of([Outcome(c.reshape(groups, labels, labels)) for c in counts]),
        int(full["split"] or 0), full["seed"] or "", full["arguments"] or "",
        float(full["bound"]) if full["bound"] else None,
    )  # fmt: skip


def gather(files: Iterable[Path], out: Path) -> int:
    """Collect JSON lines of ``benchmarks/train_baselines.py``, and files like ``out``, into one CSV file.

    No run is there twice: the first file that has it counts. Runs that differ in their seed alone become one row with
    the counts of all.
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for path in files:
        fresh: dict[tuple[str, ...], dict[str, str]] = {}
        for row in _rows(path):
            several = tuple(row[name] for name in KEY if name != "seed")
            if (known := fresh.get(several)) is None:
                fresh[several] = row
            elif row["seed"] not in known["seed"].split():
                known["seed"] += f" {row['seed']}"
                known["counts"] += f";{row['counts']}"
        for several, row in fresh.items():
            rows.setdefault(several, row)
    ordered = sorted(rows.values(), key=lambda row: [row[name] for name in ("data", "split", "method", "metric")])
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)
    return len(ordered)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                yield {name: row.get(name) or default or "" for name, default in COLUMNS.items()}
        return
    for line in path.read_text().splitlines():
        record: dict[str, Any] = json.loads(line)
        texts = {
            "setting": " ".join(f"{k}={v:g}" for k, v in record["setting"].items()),
            "counts": ";".join(" ".join(map(str, c)) for c in record["counts"]),
            "effort": f"{record.get('effort', 1.0):g}",
            "bound": f"{record['bound']:.6f}" if "bound" in record else "",
        }
        yield {name: texts.get(name, str(record.get(name, default or ""))) for name, default in COLUMNS.items()}


def select(runs: Sequence[PublishedRun], **wanted: Any) -> list[PublishedRun]:
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
