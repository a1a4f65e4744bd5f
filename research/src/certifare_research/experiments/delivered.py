"""What `certifare fit` delivers for a target, measured once on test records that it never saw.

The test records are those of all other experiments. All others are given to ``fit``, which deals them itself: it
trains, puts encoders in order, and certifies on different records. It is told to compare encoders by accuracy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates.claims import Claim
from certifare.certificates.issuing import certify_counts
from certifare.frontier import Grid
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.search import Search
from certifare.tables.table import Table
from certifare_research.datasets import Dataset
from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import LEVELS, QUICK_GRID, Run, claim
from certifare_research.experiments.growths import over, table_of

#: Name → options of the command.
WAYS = {"calibrated cells": "--group-aware", "fit": "", "tree": "--kind tree"}
CLUSTER = "the one it is about"
METRIC = "demographic_parity"


def command(way: str, metric: str = METRIC, retain: float = 0.0) -> str:
    """Return the command that delivers: encoders are compared by accuracy, or by default where tasks are not known."""
    if retain:
        options = {"calibrated cells": "group_aware=True, ", "fit": "", "tree": 'grid=Grid(kinds=["tree"]), '}
        return f"certifare.produce(…, {options[way]}retain={retain:g})"
    words = ["certifare fit", WAYS[way], "--utility accuracy"]
    words += [f"--metric {metric}"] if metric != METRIC else []
    return " ".join(word for word in words if word)


def delivered(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Run one command on one split for each level; return what it delivers, with the test records' outcome.

    Other labels of the data set are predicted as a consumer would: by the majority vote of all records but the test
    records.
    """
    data, way, split, metric, retain, levels = (*item, 0.0, LEVELS)[:6] if len(item) == 4 else item
    test, rest, encoders = searched(run, data, way, split, metric, retain, levels)
    found = []
    for level, encoder, bound in encoders:
        cells, known = (cells_of(encoder, part, way) for part in (test, rest))
        k = int(encoder.n_cells_)
        shares = [np.bincount(cells[test.s == g], minlength=k) / (test.s == g).sum() for g in np.unique(test.s)]
        votes = {"y": encoder.cell_scores()[0].argmax(axis=1)}
        for task, labels in rest.tasks.items():
            votes[task] = np.bincount(known * 2 + labels, minlength=2 * k).reshape(k, 2).argmax(axis=1)
        for task, vote in votes.items():
            labels = test.y if task == "y" else test.tasks[task]
            outcome = Outcome.of(test.s, labels, vote[cells], n_labels=len(test.label_names))
            found.append(
                {
                    "data": data,
                    "kind": way,
                    "command": command(way, metric, retain),
                    "split": split,
                    "level": level,
                    "bound": bound,
                    "cells": k,
                    "task": task,
                    "accuracy": outcome.accuracy,
                    "distance": outcome.distance(metric),
                    "counts": " ".join(map(str, outcome.counts.ravel())),
                    "outcome": outcome.text(metric),
                    "any_classifier": max(float(np.abs(a - b).sum()) / 2 for a, b in combinations(shares, 2)),
                }
            )
    return found


def searched(
    run: Run,
    data: str,
    way: str,
    split: int,
    metric: str = METRIC,
    retain: float = 0.0,
    levels: Sequence[float] = LEVELS,
) -> tuple[Dataset, Dataset, Iterator[tuple[float, Any, float]]]:
    """Return test records, all others, and what a command makes of the others: level, encoder and T*."""
    dataset = run.load(data)
    seed = run.seed + split
    held_out = dataset.parts(SHARES, seed)["test"]
    test, rest = dataset.take(held_out), dataset.take(np.setdiff1d(np.arange(len(dataset)), held_out))
    claim = Claim(metric=metric, population="clusters" if rest.clusters is None else "records")
    options: dict[str, Any] = {"seed": seed, "retain": retain, "n_jobs": 1}
    if not retain:
        options["utility"] = "accuracy"
    search = _calibrated if way == "calibrated cells" else _tested
    return test, rest, search(run, table_of(rest, CLUSTER), claim, way, options, levels)


def cells_of(encoder: Any, part: Dataset, way: str) -> NDArray[np.int64]:
    """Return the cell of each record; calibrated cells read the group."""
    groups = {"sensitive_features": pa.array(part.s)} if way == "calibrated cells" else {}
    return np.asarray(encoder.apply(part.X, **groups), dtype=np.int64)


def accuracies(found: Sequence[Mapping[str, Any]], way: str, level: float) -> list[float]:
    """Return the accuracy of what a command delivered for a level, of each split."""
    return [r["accuracy"] for r in found if (r["kind"], r["level"]) == (way, level)]


def row(found: Sequence[Mapping[str, Any]], way: str, splits: int) -> list[Any]:
    """Return a command's row of a table: accuracy within each level."""
    return [f"{way}: certified, T* ≤", *[over(accuracies(found, way, level), splits) for level in LEVELS]]


def course(found: Sequence[Mapping[str, Any]], ways: Iterable[str], levels: Sequence[float]) -> list[dict[str, Any]]:
    """Return the lines of a chart: means over splits, and over tasks where there are several."""
    return [
        {"series": way, "distance": level, "accuracy": fmean(at), "certified": True}
        for way in ways
        for level in levels
        if (at := accuracies(found, way, level))
    ]


def claims(found: Sequence[Mapping[str, Any]], metric: str = METRIC) -> list[dict[str, Any]]:
    """Return the measured distances of what was delivered beside T*."""
    return [
        claim(
            f"{r['data']} {r['split']}",
            f"{r['kind']} {r['level']}",
            "majority vote" if r["task"] == "y" else f"vote for {r['task']}",
            r["outcome"],
            r["bound"],
            metric,
        )
        for r in found
    ]


def _tested(
    run: Run, table: Table, claim: Claim, way: str, options: dict[str, Any], levels: Sequence[float]
) -> Iterator[tuple[float, Any, float]]:
    """Test encoders in their order for each level, each at full ε, until one fails; deliver the last that passed."""
    kinds = ["tree"] if way == "tree" else Grid().kinds
    labelled = claim.metric != "demographic_parity"
    small: dict[str, Any] = QUICK_GRID if run.quick else {}
    search = Search(table, Grid(kinds=kinds, **small), claim, **options).run()
    tested = []
    for number in search.chain():
        encoder = search.encoder(number)
        cells = search.certify_cells(encoder, search.candidates[number])
        counts = search.certify_sample.table.count(cells, int(encoder.n_cells_), labels=labelled)
        tested.append((encoder, certify_counts(counts, claim.metric).bound))
    for level in levels:
        passed = None
        for encoder, bound in tested:
            if bound > level:
                break
            passed = encoder
        if passed is not None:
            yield level, passed, level


def _calibrated(
    run: Run, table: Table, claim: Claim, way: str, options: dict[str, Any], levels: Sequence[float]
) -> Iterator[tuple[float, Any, float]]:
    """Take the best plan within each level and let the certification records set its thresholds."""
    search = CalibratedSearch(table, claim, **options).run()
    for level in levels:
        number = search.best(level)
        if number is not None:
            encoder, certificate = search._calibrate(number, search.claim)
            yield level, encoder, certificate.bound
