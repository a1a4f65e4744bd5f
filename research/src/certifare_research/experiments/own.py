"""Registered methods, measured as the published ones: the paper's network, and an adversary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from certifare_research import extensions
from certifare_research.evaluation.outcomes import Evaluation, Outcome
from certifare_research.evaluation.protocol import attack, evaluate
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import Run
from certifare_research.experiments.published import PublishedRun

REPEATS = 5


def measure(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Train one method on one split: each setting, each task, and the adversary."""
    name, data, split = item
    method, dataset = extensions.METHODS[name], run.load(data)
    test = dataset.parts(SHARES, run.seed + split)["test"]
    train = np.setdiff1d(np.arange(len(dataset)), test)
    found = []
    for setting in method.settings:
        z = np.asarray(method.encode(dataset.take(train), dataset.X, dataset.s, **setting), dtype=np.float64)
        base = {
            "data": data,
            "split": split,
            "method": name,
            "setting": " ".join(f"{k}={v:g}" for k, v in setting.items()),
        }
        s = dataset.s[test]
        for task, y in {"y": dataset.y, **dataset.tasks}.items():
            repeats = REPEATS if not run.quick else 1
            result = evaluate(z[train], y[train], z[test], y[test], s, "mlp50", repeats=repeats, seed=run.seed)
            counts = [outcome.counts.tolist() for outcome in result.outcomes]
            found.append({**base, "task": task, "classifier": "mlp50", "target": "y", "counts": counts})
        outcome = attack(z[train], dataset.s[train], z[test], dataset.y[test], s, seed=run.seed)
        counts = [outcome.counts.tolist()]
        found.append({**base, "task": "y", "classifier": "boosting", "target": "s", "counts": counts})
    return found


def runs(run: Run, data: Sequence[str], splits: int) -> list[PublishedRun]:
    """Results of all registered methods on some data sets, as if they came from a file."""
    items = [(name, known, split) for name in extensions.METHODS for known in data for split in range(splits)]
    return [
        PublishedRun(
            data=r["data"],
            method=r["method"],
            metric="demographic_parity",
            effort=1.0,
            setting=r["setting"],
            task=r["task"],
            classifier=r["classifier"],
            target=r["target"],
            evaluation=Evaluation.of([Outcome(np.array(c)) for c in r["counts"]]),
            split=r["split"],
        )
        for part in run.each(measure, items)
        for r in part
    ]
