"""Shift and missing values (appendix H.4, figure 11)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates import CellCounts, certify_counts
from certifare_research.datasets import Dataset
from certifare_research.evaluation.pareto import pareto_front
from certifare_research.experiments import charts
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import Point, best, claims_of, explore, independent_parts

YEARS = (2015, 2016, 2018)
MISSING = (0.0, 0.01, 0.05, 0.1)
SIZES = {"train": 0.5, "certify": 0.3, "test": 0.2}


def across_years(run: Run, kind: str) -> list[dict[str, Any]]:
    """Fit on 2015; certify and test on 2015 and on later years."""
    years = {year: run.load(f"employment-{year}") for year in YEARS}
    joined, parts = _join(list(years.values()))
    split = independent_parts(years[YEARS[0]], SIZES, run.seed)
    rows: dict[str, NDArray[np.int64]] = {"train": split["train"], "certify": split["certify"], "test": split["test"]}
    for year, own in zip(YEARS[1:], parts[1:], strict=True):
        later = np.random.default_rng(run.seed).permutation(own)
        half = len(later) // 2
        rows |= {f"certify {year}": np.sort(later[:half]), f"test {year}": np.sort(later[half:])}
    grid = run.grid(kinds=[kind], gammas=(0.3, 0.7, 0.9), min_cell_sizes=(100,))
    records = []
    for point in explore(joined, rows, grid, seed=run.seed):
        base = point.record()
        records.append({**base, "year": YEARS[0]})
        records += [
            {**base, **_elsewhere(point, f" {year}"), "year": year, "first_bound": base["bound"]} for year in YEARS[1:]
        ]
    return records


def _elsewhere(point: Point, suffix: str) -> dict[str, Any]:
    """Accuracy and distances on other records, and a certificate from them."""
    table = point.counts("certify" + suffix).sum(2)
    vote, adversary = point.vote("test" + suffix), point.adversary("test" + suffix)
    certificate = certify_counts(CellCounts(table, range(table.shape[1])), min_group_size=1)
    return {
        "accuracy": vote.accuracy,
        "distance": vote.distance(),
        "adversary": adversary.distance(),
        "bound": certificate.bound,
        "estimate": certificate.estimate,
        "lower": certificate.lower,
        "outcomes": {"majority vote": vote.text(), "adversary": adversary.text()},
    }


def _join(datasets: Sequence[Dataset]) -> tuple[Dataset, list[NDArray[np.int64]]]:
    """Put data sets one below the other; categories keep their codes."""
    first = datasets[0]
    joined = Dataset(
        name=first.name,
        X=pa.concat_tables([d.X for d in datasets]).combine_chunks(),
        y=np.concatenate([d.y for d in datasets]),
        s=np.concatenate([d.s for d in datasets]),
        label_names=first.label_names,
        group_names=first.group_names,
        categorical=first.categorical,
    )
    ends = np.cumsum([0, *[len(d) for d in datasets]])
    return joined, [np.arange(a, b) for a, b in pairwise(ends)]


def with_missing(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Fit on complete records; certify and test on records of which a share of the values is missing."""
    share, how = item
    dataset = run.load("ca")
    parts = independent_parts(dataset, run.shares(), run.seed)
    complete = np.concatenate([parts["train"], parts["select"]])
    damaged = np.setdiff1d(np.arange(len(dataset)), complete)
    X = spoil(dataset, complete, damaged, share, how, run.seed)
    spoiled = Dataset(
        name=dataset.name,
        X=X,
        y=dataset.y,
        s=dataset.s,
        label_names=dataset.label_names,
        group_names=dataset.group_names,
        categorical=dataset.categorical,
    )
    grid = run.grid(kinds=["tree"], gammas=(0.3, 0.7, 0.9), min_cell_sizes=(100,))
    return [{**p.record(), "missing": share, "how": how} for p in explore(spoiled, parts, grid, seed=run.seed)]


def spoil(
    dataset: Dataset, complete: NDArray[np.int64], damaged: NDArray[np.int64], share: float, how: str, seed: int
) -> pa.Table:
    """Remove values of the damaged records at random: leave them missing, or impute.

    Imputed is the complete records' most common category, or their mean.
    """
    rng = np.random.default_rng(seed)
    columns = {}
    for name in dataset.X.column_names:
        values = dataset.X[name].to_numpy().astype(np.float64)
        known = values[complete]
        if name in dataset.categorical:
            distinct, counts = np.unique(known, return_counts=True)
            fill = distinct[counts.argmax()]
        else:
            fill = known.mean()
        gone = damaged[rng.random(len(damaged)) < share]
        values = values.copy()
        values[gone] = fill if how == "imputed" else np.nan
        columns[name] = pa.array(values, from_pandas=True)
    return pa.table(columns)


def shift(run: Run) -> Page:
    """Certificates of one year do not hold for another; those made anew do."""
    kinds = run.kinds()
    results = dict(zip(kinds, run.each(across_years, kinds), strict=True))
    rows, points = [], []
    for kind, records in results.items():
        for year in YEARS:
            own = [r for r in records if r["year"] == year]
            found = [best(own, v) for v in LEVELS]
            beyond = [max(r["distance"], r["adversary"]) > r["first_bound"] for r in own if "first_bound" in r]
            rows.append(
                [
                    f"{kind}, {year}",
                    *[None if r is None else r["accuracy"] for r in found],
                    "–" if not beyond else f"{sum(beyond)} of {len(beyond)}",
                ]
            )
            front = pareto_front([r["accuracy"] for r in own], [r["bound"] for r in own])
            points += [
                {
                    "series": f"{kind}, {year}",
                    "distance": own[i]["bound"],
                    "accuracy": own[i]["accuracy"],
                    "certified": True,
                }
                for i in front
            ]
    everything = [r for records in results.values() for r in records]
    columns = [
        "certified and tested on",
        *[f"T* ≤ {v:.2f}" for v in LEVELS],
        "measured distance above the 2015 certificate",
    ]
    return Page(
        title="Distribution shift",
        text="ACSEmployment, Massachusetts: encoders fitted on 2015, certified and tested on 2015, 2016 and "
        "2018 (the paper: ACSIncome-CA, 2015 "
        "and 2016). A certificate is about the population its records came from; the last column counts "
        "encoders whose measured distance in "
        "a later year exceeds the certificate of 2015.",
        blocks=[Block("Best accuracy", columns, rows)],
        records=everything,
        claims=claims_of(everything, "employment"),
        chart=charts.fronts(points, "T*"),
    )


def imputation(run: Run) -> Page:
    """Missing values cost accuracy, not validity."""
    items = [(share, how) for share in MISSING for how in ("imputed", "missing") if share or how == "imputed"]
    results = dict(zip(items, run.each(with_missing, items), strict=True))
    rows, points = [], []
    for (share, how), records in results.items():
        label = "complete" if not share else f"{share:.0%} {how}"
        found = [best(records, v) for v in LEVELS]
        rows.append(
            [label, *[None if r is None else r["accuracy"] for r in found], max(r["accuracy"] for r in records)]
        )
        front = pareto_front([r["accuracy"] for r in records], [r["bound"] for r in records])
        points += [
            {"series": label, "distance": records[i]["bound"], "accuracy": records[i]["accuracy"], "certified": True}
            for i in front
        ]
    everything = [r for records in results.values() for r in records]
    return Page(
        title="Missing values",
        text="ACSIncome-CA 2018: trees fitted on complete records; in the certification and test records a "
        "share of all values is removed, and either "
        "imputed (most common category or mean, as in the paper) or left missing, which these encoders accept "
        "as it is.",
        blocks=[Block("Best accuracy", ["values", *[f"T* ≤ {v:.2f}" for v in LEVELS], "most accurate"], rows)],
        records=everything,
        claims=claims_of(everything, "ca"),
        chart=charts.fronts(points, "T*"),
    )
