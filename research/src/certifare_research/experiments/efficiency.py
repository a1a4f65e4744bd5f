"""Efficiency (table 4): time and memory of every method on this machine, on ACSIncome-CA repeated M times."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from certifare_research.errors import ExperimentError
from certifare_research.experiments import charts
from certifare_research.experiments.framework import Block, Page, Run

TIMES = (1, 4, 16)
OURS = ("fair tree", "boosted")
#: Steps of the published methods that are timed; the rest of the training is as long again and again.
STEPS = 60
#: Trained for a fixed number of steps, whatever the number of records.
FIXED = ("FairPath",)
#: Table 4 of the paper: time and memory at M = 1, 4, 16 (one core of an i9-7900X and a 1080 Ti).
PAPER = {
    "fair tree": ("3 s, 2.6 GB", "11 s, 3.0 GB", "55 s, 9.1 GB"),
    "FNF": ("19 min, 2.3 GB", "70 min, 4.3 GB", "255 min, 11.1 GB"),
    "FCRL": ("57 min, 2.4 GB", "231 min, 2.4 GB", "938 min, 2.5 GB"),
    "CVIB": ("42 min, 2.4 GB", "174 min, 2.4 GB", "690 min, 2.5 GB"),
    "sIPM-LFR": ("23 min, 3.1 GB", "95 min, 7.4 GB", "out of memory"),
}


def measure(run: Run, item: Sequence[Any]) -> dict[str, Any]:
    """Measure one method in a process of its own, so that its memory is its own."""
    method, times = item
    command = [
        sys.executable,
        "-m",
        __name__,
        method,
        str(times),
        "quick" if run.quick else "full",
        str(run.data or ""),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter and module
    if done.returncode:
        raise ExperimentError(f"{method} at M = {times} failed: {done.stderr.strip().splitlines()[-1:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main(method: str, times: int, size: str, data: str) -> None:
    """Time one method, and print what was measured."""
    run = Run(name="efficiency", out=Path("."), data=Path(data) if data else None, quick=size == "quick")
    dataset = run.load("ca").repeated(times)
    parts = dataset.parts({"train": 0.6, "certify": 0.3, "test": 0.1}, 0)
    before = _peak()
    if method in OURS:
        result = _time_ours(method, dataset, parts)
    else:
        result = _time_published(method, dataset, parts, quick=run.quick)
    print(json.dumps({"method": method, "M": times, "peak_gb": _peak(), "data_gb": before, **result}))


def _time_ours(method: str, dataset: Any, parts: Any) -> dict[str, Any]:
    from certifare.certification import certify
    from certifare.encoders import BoostedEncoder, FairTreeEncoder

    make = {"fair tree": FairTreeEncoder, "boosted": BoostedEncoder}[method]
    small = dataset.take(parts["train"][:2000])
    common: dict[str, Any] = {
        "gamma": 0.85,
        "max_cells": 50,
        "min_cell_size": 100,
        "categorical_features": list(dataset.categorical),
        "n_jobs": 1,
    }
    make(**common).fit(small.X, small.y, sensitive_features=small.s)  # compiles
    train, fresh, test = (dataset.take(parts[name]) for name in ("train", "certify", "test"))
    started = time.perf_counter()
    encoder = make(**common).fit(train.X, train.y, sensitive_features=train.s)
    fitted = time.perf_counter()
    # Repeated records are in both parts: that is what this study of size asks for.
    certify(encoder, fresh.X, sensitive_features=fresh.s, allow_training_records=True)
    encoder.transform(test.X)
    return {"seconds": time.perf_counter() - started, "fit_seconds": fitted - started, "extrapolated": False}


def _time_published(method: str, dataset: Any, parts: Any, quick: bool) -> dict[str, Any]:
    from certifare_research.baselines.grids import grid
    from certifare_research.experiments.arrays import arrays_of

    arrays = arrays_of(dataset, "acs", parts["test"])
    n = int(arrays.train.sum())
    setting = grid(method, "acs", thin=3)[1:2]
    steps = STEPS if not quick else 8
    seconds, done, total = _train_steps(method, arrays, setting, steps, n)
    return {"seconds": seconds * total / done, "extrapolated": done < total, "steps": total}


def _train_steps(method: str, arrays: Any, setting: Any, steps: int, n: int) -> tuple[float, int, int]:
    """Seconds, steps done, and the steps of a whole training."""
    from certifare_research.baselines.adversarial import train_laftr, train_sipm
    from certifare_research.baselines.fairpath import train_fairpath
    from certifare_research.baselines.fnf_discrete import train_fnf_discrete
    from certifare_research.baselines.variational import train_cvib, train_fcrl

    x, y, s = arrays.matrix(), arrays.y.astype(np.float32), arrays.s.astype(np.float32)
    at = arrays.train
    x, y, s = x[at], y[at], s[at]
    common: dict[str, Any] = {"device": "cpu", "max_steps": steps}
    started = time.perf_counter()
    if method in ("CVIB", "FCRL"):
        if method == "CVIB":
            train_cvib(x, y, s, setting, **common)
        else:
            train_fcrl(x, y, s, setting, **common)
        total = 200 * (n // 128)
    elif method == "LAFTR":
        train_laftr(x, y, s, setting, **common)
        total = 500 * (n // 64)
    elif method == "sIPM-LFR":
        train_sipm(x, y, s, setting, **common)
        total = 300 * (n // 512)
    elif method == "FairPath":
        train_fairpath(x, y, s, setting, iterations=steps, device="cpu")
        total = 1000
    else:
        train_fnf_discrete(arrays.discrete[at], y, s, setting, sizes=arrays.discrete_sizes, **common)
        # Two densities; matching costs the same whatever the number of records.
        total = 100 * int(0.8 * n) // 128
        seconds = time.perf_counter() - started
        return seconds, 2 * steps, max(2 * steps, total)
    return time.perf_counter() - started, steps, total


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run(run: Run) -> Page:
    """Measure one after the other: side by side they would disturb each other."""
    methods = [*OURS] if not run.quick else [OURS[0]]
    if find_spec("torch") is not None:
        methods += ["FNF", "FCRL", "CVIB", "sIPM-LFR", "LAFTR", "FairPath"] if not run.quick else ["FCRL"]
    # A step of a published method costs the same whatever M is; their number is what grows.
    items = [(m, t) for m in methods for t in (TIMES if m in OURS and not run.quick else (1,))]
    records = [r for item in items for r in run.each(measure, [item])]
    if not run.quick:
        records += [
            {
                **r,
                "M": t,
                "seconds": r["seconds"] * (1 if r["method"] in FIXED else t),
                "extrapolated": True,
                "peak_gb": None,
            }
            for r in records
            if r["method"] not in OURS
            for t in TIMES[1:]
        ]
    table: dict[str, dict[int, Any]] = {}
    for r in records:
        table.setdefault(r["method"], {})[r["M"]] = r
    rows = [
        [method, *[_words(own.get(m)) for m in TIMES], *PAPER.get(method, ("–", "–", "–"))]
        for method, own in table.items()
    ]
    points = [{"method": r["method"], "seconds": r["seconds"]} for r in records if r["M"] == 1]
    return Page(
        title="Efficiency",
        text="ACSIncome-CA 2018 (50,825 records) repeated M times, on a machine with two cores and no GPU: fit, "
        "certify and encode for restricted encoders (compilation not counted); training for the published methods. "
        "One thread each, one method at a time, and time by the clock: run it on a machine that does nothing else.",
        blocks=[
            Block(
                "Time and peak memory",
                ["method", *[f"M = {m}" for m in TIMES], *[f"paper, M = {m}" for m in TIMES]],
                rows,
            )
        ],
        records=records,
        chart=charts.bars(points, "seconds", "method", log=True),
        notes=(
            f"~: extrapolated from {STEPS} training steps; every step of these methods costs the same, and their "
            "number grows with M (FairPath's is 1,000 whatever M is). Memory was measured at M = 1 alone.",
            "Peak memory is of the whole process, PyTorch and the data included. The paper's M = 1 has 165,546 records "
            "and a GPU.",
        ),
    )


def _words(record: Any) -> str:
    if record is None:
        return "–"
    seconds = record["seconds"]
    shown = (
        f"{seconds:.1f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
    memory = "" if record["peak_gb"] is None else f", {record['peak_gb']:.1f} GB"
    return f"{'~' if record['extrapolated'] else ''}{shown}{memory}"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
