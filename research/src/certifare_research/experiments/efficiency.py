"""Efficiency (table 4): time and memory of every method on this machine, each measured to its end."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from certifare_research.errors import ExperimentError
from certifare_research.experiments import charts
from certifare_research.experiments.framework import Block, Page, Run

TIMES = (1, 4, 16)
OURS = ("fair tree", "boosted")
PUBLISHED = ("FNF", "FCRL", "CVIB", "sIPM-LFR", "LAFTR", "FairPath")
#: A state on which every published length of training ends within minutes on one core.
SMALL, STATE = "us-VT", "Vermont"
#: Table 4 of the paper: time and memory at M = 1, 4, 16 (one core of an i9-7900X and a 1080 Ti).
PAPER = {
    "fair tree": ("3 s, 2.6 GB", "11 s, 3.0 GB", "55 s, 9.1 GB"),
    "FNF": ("19 min, 2.3 GB", "70 min, 4.3 GB", "255 min, 11.1 GB"),
    "FCRL": ("57 min, 2.4 GB", "231 min, 2.4 GB", "938 min, 2.5 GB"),
    "CVIB": ("42 min, 2.4 GB", "174 min, 2.4 GB", "690 min, 2.5 GB"),
    "sIPM-LFR": ("23 min, 3.1 GB", "95 min, 7.4 GB", "out of memory"),
}


def times() -> list[dict[str, Any]]:
    """Return how long one setting took on a machine with a GPU: ``benchmarks/train_baselines.py time``.

    ``share`` of the epochs were trained; ``seconds``, scaled to all of them, count start and encoding too often.
    """
    text = (resources.files(__package__) / "times.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    return [{**r, "data": f"ca, {r['place']}", "seconds": r["seconds"] / r["share"]} for r in records]


def measure(run: Run, item: Sequence[Any]) -> dict[str, Any]:
    """Measure one method in a process of its own, so that its memory is its own."""
    method, data, times = item
    size = "quick" if run.quick else "full"
    command = [sys.executable, "-m", __name__, method, data, str(times), size, str(run.data or "")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter and module
    if done.returncode:
        raise ExperimentError(f"{method} on {data}, M = {times}, failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main(method: str, data: str, times: int, size: str, folder: str) -> None:
    """Time one method, and print what was measured."""
    run = Run(name="efficiency", out=Path("."), data=Path(folder) if folder else None, quick=size == "quick")
    dataset = run.load(data).repeated(times)
    parts = dataset.parts({"train": 0.6, "certify": 0.3, "test": 0.1}, 0)
    if method in OURS:
        seconds = _time_ours(method, dataset, parts)
    else:
        seconds = _time_published(method, dataset, parts, effort=1.0 if size == "full" else 0.02)
    print(
        json.dumps(
            {
                "method": method,
                "data": data,
                "M": times,
                "records": len(dataset),
                "seconds": seconds,
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
    )


def _time_ours(method: str, dataset: Any, parts: Any) -> float:
    from certifare.certificates import CellCounts, certify_counts
    from certifare.encoders import BoostedEncoder, FairTreeEncoder

    make = {"fair tree": FairTreeEncoder, "boosted": BoostedEncoder}[method]
    small = dataset.take(parts["train"][:1000])
    common: dict[str, Any] = {
        "gamma": 0.85,
        "max_cells": 50,
        "min_cell_size": 100,
        "categorical_features": list(dataset.categorical),
        "n_jobs": 1,
    }
    make(**common).fit(small.X, small.y, sensitive_features=small.s)  # compiles
    train, fresh, test = (dataset.take(parts[name]) for name in ("train", "certify", "test"))
    started = time.process_time()
    encoder = make(**common).fit(train.X, train.y, sensitive_features=train.s)
    # Not through certify: repeated records are no samples of one population, and it would say so.
    certify_counts(CellCounts.from_cells(encoder.apply(fresh.X), fresh.s, n_cells=encoder.n_cells_))
    encoder.transform(test.X)
    return time.process_time() - started


def _time_published(method: str, dataset: Any, parts: Any, effort: float) -> float:
    """Train one setting from the middle of the grid for its published length, and encode every record."""
    from certifare_research.baselines.grids import encode_grid, grid
    from certifare_research.experiments.arrays import arrays_of

    arrays = arrays_of(dataset, "acs", parts["test"])
    setting = grid(method, "acs", thin=3)[1:2]
    started = time.process_time()
    encode_grid(method, arrays, setting, effort=effort, device="cpu")
    return time.process_time() - started


def run(run: Run) -> Page:
    """Measure one after the other: side by side they would disturb each other."""
    methods = [*OURS] if not run.quick else [OURS[0]]
    items = [(method, "ca", times) for method in methods for times in (TIMES if not run.quick else TIMES[:1])]
    if find_spec("torch") is not None:
        methods += PUBLISHED if not run.quick else ["FCRL"]
    items += [(method, SMALL, 1) for method in methods]
    records = [r for item in items for r in run.each(measure, [item])]
    found = {(r["method"], r["data"], r["M"]): r for r in records}
    own = [
        [method, *[_words(found.get((method, "ca", m))) for m in TIMES], *PAPER.get(method, ("–",) * 3)]
        for method in OURS
    ]
    elsewhere = times()
    other = {(r["method"], r["place"], r["M"]): r for r in elsewhere}
    theirs = [
        [
            method,
            _words(other[method, "one core", 1]),
            *[_words(other[method, "GPU", m]) for m in TIMES],
            *PAPER.get(method, ("–",) * 3),
        ]
        for method in PUBLISHED
    ]
    small = [found[method, SMALL, 1] for method in methods]
    return Page(
        title="Efficiency",
        text="One core: one thread, processor time, so that nothing else on "
        "the machine counts. Restricted encoders: fit, certify and encode (compilation not counted), on ACSIncome-CA "
        f"2018 (50,825 records) repeated M times, as in the paper. All methods: {STATE} ({small[0]['records']:,} "
        "records), where the published number of epochs ends within minutes on one core; one setting from the middle "
        "of the grid. The same setting of each on California: on one core and on a GPU.",
        blocks=[
            Block(
                "Time and peak memory, California",
                ["method", *[f"M = {m}" for m in TIMES], *[f"paper, M = {m}" for m in TIMES]],
                own,
            ),
            Block(
                f"One setting to its end, {STATE}",
                ["method", "processor time", "peak memory", "times the fair tree"],
                [
                    [
                        r["method"],
                        _time(r["seconds"]),
                        f"{r['peak_gb']:.1f} GB",
                        f"{r['seconds'] / small[0]['seconds']:,.0f}",
                    ]
                    for r in small
                ],
            ),
            Block(
                "One setting of each published method, California",
                [
                    *("method", "one core, M = 1", *[f"H200, M = {m}" for m in TIMES]),
                    *[f"paper, M = {m}" for m in TIMES],
                ],
                theirs,
            ),
        ],
        records=[*records, *({k: v for k, v in r.items() if k != "place"} for r in elsewhere)],
        chart=charts.bars(
            [{"method": r["method"], "seconds": r["seconds"]} for r in small], "seconds", "method", log=True
        ),
        notes=(
            "Published lengths: CVIB and FCRL 200 epochs of batches of 128, sIPM-LFR 300 of 512 (the last 100, of the "
            "head alone, are left out), LAFTR 500 of 64, FNF 100 for each group, FairPath 1,000 batches whatever the "
            "number of records.",
            "The published methods on California: another machine (Intel Xeon, one H200), training and encoding of "
            "every record. GPU: nothing else used it; LAFTR in one kernel, the others as CUDA graphs. One core: "
            "processor time. “≤”: scaled from a part of the epochs (“%”), which counts start and encoding too often.",
            "Memory is that of the whole process, PyTorch and the data included, for the GPU that on it. The paper's "
            "M = 1 has 165,546 records and a GPU (1080 Ti).",
        ),
    )


def _time(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _words(record: Any) -> str:
    if record is None:
        return "–"
    share = record.get("share", 1)
    limit, part = ("≤ ", f" ({100 * share:.0f} %)") if share < 1 else ("", "")
    return f"{limit}{_time(record['seconds'])}{part}, {record['peak_gb']:.1f} GB"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
