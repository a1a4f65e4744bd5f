"""What every experiment shares: where data come from, what is remembered, and how a page is written.

An experiment is a function from :class:`Run` to :class:`Page`. Its slow parts go through :meth:`Run.each`: they run
side by side in processes, and their results are kept as JSON, so that a run that was interrupted goes on where it
stopped.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import certifare
import certifare_research
from certifare.drawing import Figure, draw_figures
from certifare.frontier import Grid
from certifare_research import extensions
from certifare_research.datasets import Dataset, load_acs_employment, load_acs_income_classes
from certifare_research.datasets.sources import data_folder
from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments.arrays import load

QUICK_RECORDS = 5_000
#: Random splits that the figures of a page are means over.
SPLITS = 5
#: Temporary files are private; results are for everyone.
READABLE = 0o644
#: Distances at which tables ask for the best accuracy.
LEVELS = (0.05, 0.10, 0.15, 0.20)
GRID = {
    "gammas": (0.0, 0.3, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99, 0.999),
    "cells": (2, 3, 5, 8, 12, 20, 32, 50, 100, 200),
    "min_cell_sizes": (100, 600),
}
QUICK_GRID = {"gammas": (0.7,), "cells": (2, 4, 8), "min_cell_sizes": (50,)}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a command asked for.

    - ``data``, ``out``: folders for data files (None: as ``CERTIFARE_DATA`` says) and for results.
    - ``quick``: small samples and grids, which show that everything works and prove nothing.
    - ``baselines``: results of the published methods (``benchmarks/train_baselines.py``); those that come with this
      package unless given. ``also``: results of other methods, shown beside them.
    - ``extensions``: files that register methods and data sets (:mod:`certifare_research.extensions`).
    - ``year``, ``states``: of the American Community Survey, for the data sets ``ca`` (California unless given) and
      ``us``.
    - ``tell``: is told how many of the parts under way are done, and how many there are.
    """

    name: str
    out: Path
    data: Path | None = None
    quick: bool = False
    seed: int = 0
    jobs: int = 2
    baselines: Path | None = None
    also: tuple[Path, ...] = ()
    extensions: tuple[Path, ...] = ()
    year: int = 2018
    states: tuple[str, ...] = ()
    tell: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def load(self, name: str) -> Dataset:
        """Load a data set by its short name; a sample of it in a quick run."""
        if name in extensions.DATASETS:
            dataset = extensions.DATASETS[name]()
        elif name == "classes":
            dataset = load_acs_income_classes("CA", data=self.data)
        elif name.startswith("employment"):
            years = [int(year) for year in name.split("-")[1:]]
            dataset = load_acs_employment("MA", years, sensitive="RAC1P", data=self.data)
        else:
            dataset = load(name, self.data, self.year, self.states)
        return dataset.sample(QUICK_RECORDS, self.seed) if self.quick else dataset

    @property
    def splits(self) -> range:
        """Random splits to compute on: one in a quick run."""
        return range(1 if self.quick else SPLITS)

    def grid(self, **changes: Any) -> Grid:
        """Return the grid of restricted encoders to try."""
        return Grid(**{**GRID, **changes, **(QUICK_GRID if self.quick else {})})

    def each(self, function: Callable[[Run, Any], Any], items: Iterable[Any]) -> list[Any]:
        """Call ``function(run, item)`` for every item, in processes; results (JSON) are kept and not computed again."""
        from joblib import Parallel, delayed

        items = list(items)
        keys = [self._key(function, item) for item in items]
        missing = [i for i, key in enumerate(keys) if not key.is_file()]
        alone = replace(self, tell=None)  # a progress bar stays in this process
        calls = [delayed(_compute)(alone, function, items[i], keys[i]) for i in missing]
        tell = self.tell or (lambda done, total: None)
        tell(len(items) - len(missing), len(items))
        workers = Parallel(n_jobs=min(self.jobs, max(1, len(missing))), return_as="generator_unordered")
        for done, _ in enumerate(workers(calls), len(items) - len(missing) + 1):
            tell(done, len(items))
        return [json.loads(key.read_text()) for key in keys]

    def _key(self, function: Callable[..., Any], item: Any) -> Path:
        """Name the file of a kept result: another for other data, and for another version of the code."""
        made_from = [
            function.__module__,
            function.__qualname__,
            str(data_folder(self.data)),
            _source(function.__module__),
        ]
        made_from += [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.extensions]
        asked = json.dumps([*made_from, item, self.quick, self.seed, self.year, *self.states], sort_keys=True)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:20]
        return self.out / ".state" / f"{self.name}-{digest}.json"


#: Modules of the experiments that the others compute with.
COMMON = ("growths", "arrays", "delivered", "framework")


@cache
def _source(module: str) -> str:
    """Digest of the code that computed a result: both packages, but of the experiments its own module alone."""
    packages = (certifare.__path__, certifare_research.__path__)
    files = [file for (folder,) in packages for file in sorted(Path(folder).rglob("*.py"))]
    own = {*COMMON, module.rpartition(".")[2]}
    files = [file for file in files if file.parent.name != "experiments" or file.stem in own]
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def _compute(run: Run, function: Callable[[Run, Any], Any], item: Any, key: Path) -> None:
    for path in run.extensions:
        extensions.read(path)
    result = function(run, item)
    write_text(key, json.dumps(result, allow_nan=False))


@dataclass(frozen=True)
class Block:
    """A table of a page."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Page:
    """What an experiment found.

    - ``text``: what was done. ``notes``: what a reader must know to judge the figures.
    - ``records``: everything, for the CSV file, which leaves out what is no plain value.
    - ``claims``: each measured distance on fresh records beside its certified bound; see :func:`claim`.
    """

    title: str
    text: str
    blocks: Sequence[Block] = ()
    records: Sequence[Mapping[str, Any]] = ()
    chart: Sequence[Figure] | None = None
    notes: Sequence[str] = ()
    claims: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def claim(
    data: str, encoder: str, classifier: str, outcome: str, bound: float, metric: str = "demographic_parity"
) -> dict[str, Any]:
    """Return a classifier's distance on fresh records beside the bound for every classifier.

    ``outcome`` holds its predictions by group, as :meth:`certifare_research.evaluation.Outcome.text` writes them.
    """
    return {
        "data": data,
        "encoder": encoder,
        "classifier": classifier,
        "metric": metric,
        "measured": Outcome.parse(outcome).distance(metric),
        "bound": bound,
        "counts": outcome,
    }


def write_page(page: Page, run: Run) -> list[Path]:
    """Write Markdown, CSV, chart and claims; return the files."""
    run.out.mkdir(parents=True, exist_ok=True)
    written = []
    if page.records:
        written.append(_write_csv(run.out / f"{run.name}.csv", page.records))
    if page.claims:
        written.append(_write_csv(run.out / f"{run.name}.claims.csv", page.claims))
    if page.chart is not None:
        path = run.out / f"{run.name}.svg"
        write_text(path, draw_figures(page.title, page.chart, columns=2).svg())
        written.append(path)
    path = run.out / f"{run.name}.md"
    write_text(path, markdown(page, run))
    return [path, *written]


def markdown(page: Page, run: Run) -> str:
    """Return the page as Markdown."""
    lines = [f"# {page.title}", "", page.text, ""]
    if run.quick:
        lines += ["**A quick run: small samples and grids. The figures mean nothing.**", ""]
    if page.chart is not None:
        lines += [f"![{page.title}]({run.name}.svg)", ""]
    for block in page.blocks:
        lines += [f"## {block.caption[:1].upper()}{block.caption[1:]}", "", *_table(block), ""]
    lines += [f"- {note}" for note in page.notes]
    lines += ["", f"*{provenance(run)}*", ""]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def provenance(run: Run) -> str:
    """Command, date and versions; files by their names alone, and not where data lie, which differs by machine."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("certifare", "numpy", "scikit-learn", "numba"))
    command = ["certifare", "reproduce", run.name, *(["--quick"] if run.quick else [])]
    options = {
        "--seed": [str(run.seed)] if run.seed else [],
        "--year": [str(run.year)] if run.year != Run.year else [],
        "--states": run.states,
        "--baselines": [run.baselines.name] if run.baselines else [],
        "--also": [path.name for path in run.also],
        "--with": [path.name for path in run.extensions],
    }
    command += [word for option, values in options.items() for value in values for word in (option, value)]
    today = datetime.now(UTC).date().isoformat()
    return f"`{shlex.join(command)}`, {today}; Python {platform.python_version()}, {versions}."


def _table(block: Block) -> list[str]:
    head = "| " + " | ".join(block.columns) + " |"
    rule = "|" + "|".join("---" if i == 0 else "---:" for i in range(len(block.columns))) + "|"
    return [head, rule, *("| " + " | ".join(show(value) for value in row) + " |" for row in block.rows)]


def show(value: Any) -> str:
    """Return a value for a table: three digits, a dash for what does not exist."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value).replace("|", "\\|")


def _write_csv(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    records = [{k: v for k, v in record.items() if not isinstance(v, dict | list)} for record in records]
    columns = list(dict.fromkeys(name for record in records for name in record))
    with _whole(path) as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for record in records:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
    return path


def write_text(path: Path, text: str) -> None:
    """Write a file whole, or not at all."""
    with _whole(path) as file:
        file.write(text)


@contextmanager
def _whole(path: Path) -> Iterator[TextIO]:
    """Open a file that takes its place when it is complete; an interruption leaves what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", newline="") as file:
            yield file
        os.chmod(temporary, READABLE)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
