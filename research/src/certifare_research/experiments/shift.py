"""Shift and missing values (appendix H.4, figure 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates import CellCounts, certify_counts
from certifare_research.datasets import Dataset
from certifare_research.experiments import charts
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import Point, by_split, claims_of, explore, front, independent_parts, within

#: Populations that encoders are taken to; they are fitted in the first. By what: the data sets' names, and words.
POPULATIONS = {
    "states": ("us", ("CA", "TX", "NY", "FL"), "ACSIncome 2018, by sex: from state to state"),
    "years": (
        "employment",
        ("2015", "2016", "2017", "2018"),
        "Employment in Massachusetts, by race: from year to year",
    ),
}
MISSING = (0.0, 0.01, 0.05, 0.1)
SIZES = {"train": 0.5, "certify": 0.3, "test": 0.2}
#: Distances at which the tables of the shift ask for the best accuracy.
SHOWN = (0.02, 0.03, *LEVELS)


def across(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Fit trees in the first population; certify and test there and in the others."""
    by, split = item
    seed = run.seed + split
    name, places, _ = POPULATIONS[by]
    populations = {place: run.load(f"{name}-{place}") for place in places}
    joined, parts = _join(list(populations.values()))
    rows: dict[str, NDArray[np.int64]] = dict(independent_parts(populations[places[0]], SIZES, seed))
    for place, own in zip(places[1:], parts[1:], strict=True):
        there = np.random.default_rng(seed).permutation(own)
        half = len(there) // 2
        rows |= {f"certify {place}": np.sort(there[:half]), f"test {place}": np.sort(there[half:])}
    grid = run.grid(kinds=["tree"], gammas=(0.3, 0.7, 0.9, 0.99), min_cell_sizes=(100,))
    records = []
    for point in explore(joined, rows, grid, seed=seed):
        base = {**point.record(), "by": by, "split": split}
        records.append({**base, "place": places[0]})
        records += [
            {**base, **_elsewhere(point, f" {place}"), "place": place, "first_bound": base["bound"]}
            for place in places[1:]
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
    """Fit on one half, complete; the other half has missing values in training, certification and test records.

    The classifier (each cell's vote) is trained on the other half's training records, as in the paper.
    """
    share, how, split = item
    seed = run.seed + split
    dataset = run.load("us")
    parts = dataset.parts({"train": 0.5, "again": 0.25, "certify": 0.15, "test": 0.1}, seed)
    damaged = np.setdiff1d(np.arange(len(dataset)), parts["train"])
    spoiled = replace(dataset, X=spoil(dataset, parts["train"], damaged, share, how, seed))
    grid = run.grid(kinds=["tree"], gammas=(0.3, 0.7, 0.9, 0.99), min_cell_sizes=(1000,))
    points = explore(spoiled, parts, grid, seed=seed)
    return [{**p.record(by="again"), "missing": share, "how": how, "split": split} for p in points]


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
    """Certificates of one population do not hold for another; those made anew do."""
    splits = len(run.splits)
    found = run.each(across, [(by, split) for by in POPULATIONS for split in run.splits])
    records = [r for part in found for r in part]
    blocks, points, claims = [], [], []
    for by, (name, places, caption) in POPULATIONS.items():
        rows = []
        for place in places:
            own = [r for r in records if (r["by"], r["place"]) == (by, place)]
            excesses = [max(r["distance"], r["adversary"]) - r["first_bound"] for r in own if "first_bound" in r]
            beyond = [f"{sum(e > 0 for e in excesses)} of {len(excesses)}", max(excesses)] if excesses else [None, None]
            for words, limit in (("T* made there", "bound"), ("measured", "distance")):
                rows.append([f"{place}, {words} ≤", *within(own, SHOWN, splits, limit), *beyond])
                points += front(by_split(own)[0], limit, f"{place}, {words}", panel=caption)
            claims += [
                c for of_split in by_split(own) for c in claims_of(of_split, f"{name} {place} {of_split[0]['split']}")
            ]
        last = [f"measured above the certificate of {places[0]}", "by at most"]
        blocks.append(Block(caption, ["certified and tested in", *[f"{v:.2f}" for v in SHOWN], *last], rows))
    return Page(
        title="Distribution shift",
        text="Trees fitted in one population, certified and tested there and in others (the paper: ACSIncome-CA, 2015 "
        "and 2016): the best accuracy. A certificate is about the population its records came from: the last columns "
        "count encoders whose measured distance (of the vote or of an adversary) elsewhere exceeds the certificate of "
        "the first, and by how much, over all splits. (Some do by the chance of the test records, at home as well; "
        "see the [audit](audit.md).) Best on the test records; means over splits ± standard deviation. The chart shows "
        "the first split.",
        blocks=blocks,
        records=records,
        claims=claims,
        chart=charts.fronts(points, "T* (solid) or measured distance (dashed)", facet="panel"),
        notes=(
            "What is different: of ACSIncome there is one year here, so states stand for years; employment in "
            "Massachusetts has four, with groups by race (the sexes hardly differ in it, so that no certificate could "
            "fail). The codes of categories are the same everywhere; in the authors' code each year has its own, so "
            "that their shift is in part one of codes.",
        ),
    )


def imputation(run: Run) -> Page:
    """Missing values cost accuracy, not validity."""
    splits = len(run.splits)
    ways = [(share, how) for share in MISSING for how in ("imputed", "missing") if share or how == "imputed"]
    found = run.each(with_missing, [(*way, split) for way in ways for split in run.splits])
    records = [r for part in found for r in part]
    rows, points = [], []
    for share, how in ways:
        label = "complete" if not share else f"{share:.0%} {how}"
        own = [r for r in records if (r["missing"], r["how"]) == (share, how)]
        rows.append([label, *within(own, (*LEVELS, 1.0), splits)])
        points += front(by_split(own)[0], "bound", label)
    return Page(
        title="Missing values",
        text="ACSIncome-US 2018: trees fitted on one half of the records, complete. In the other half a share of all "
        "values is removed, and either imputed (most common category or mean, as in the paper) or left missing, which "
        "these encoders accept as it is; the classifier is trained, the certificate made and the test done there. Best "
        "on the test records; means over splits ± standard deviation. The chart shows the first split.",
        blocks=[Block("Best accuracy", ["values", *[f"T* ≤ {v:.2f}" for v in LEVELS], "most accurate"], rows)],
        records=records,
        claims=[c for own in by_split(records) for c in claims_of(own, f"us {own[0]['split']}")],
        chart=charts.fronts(points, "T*"),
    )
