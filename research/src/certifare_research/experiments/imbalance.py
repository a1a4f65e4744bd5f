"""Imbalance of the groups (appendix H.5, figure 14): trees fitted on equally large subsets, one group's share c."""

from __future__ import annotations

from typing import Any

import numpy as np

from certifare_research.experiments import charts
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import best, claims_of, explore, front, independent_parts

IMBALANCES = (0.5, 0.6, 0.7, 0.8, 0.9)


def encoders(run: Run, share: float) -> list[dict[str, Any]]:
    """Fit on a subset; certify and test on all the other records."""
    dataset = run.load("ca")
    parts = independent_parts(dataset, SHARES, run.seed)
    rows, groups = parts["train"], dataset.s[parts["train"]]
    majority = int(np.mean(groups) > 0.5)
    many, few = rows[groups == majority], rows[groups != majority]
    size = int(len(many) / max(IMBALANCES))
    size = min(size, int(len(few) / (1 - min(IMBALANCES))))
    rng = np.random.default_rng(run.seed)
    kept = np.concatenate(
        [rng.choice(many, int(size * share), replace=False), rng.choice(few, size - int(size * share), replace=False)]
    )
    grid = run.grid(kinds=["tree"], gammas=(0.3, 0.7, 0.9, 0.99, 0.999), min_cell_sizes=(100,))
    points = explore(dataset, {**parts, "train": np.sort(kept)}, grid, seed=run.seed)
    return [{**p.record(), "share": share, "records": size} for p in points]


def run(run: Run) -> Page:
    """Show fronts for each share."""
    results = dict(zip(IMBALANCES, run.each(encoders, IMBALANCES), strict=True))
    rows, points = [], []
    for share, records in results.items():
        found = [best(records, v) for v in LEVELS]
        rows.append([f"c = {share}", records[0]["records"], *[None if r is None else r["accuracy"] for r in found]])
        points += front(records, "bound", f"c = {share}")
    everything = [r for records in results.values() for r in records]
    return Page(
        title="Imbalance of the groups",
        text="ACSIncome-CA 2018. The tree is fitted on a subset of fixed size in which the larger group has "
        "the share c (γ up to .999, as in the paper); certification and "
        "test records are the same for all. The paper found that the imbalance changes little. A dash: no encoder "
        "of the grid has so small a T*.",
        blocks=[
            Block("Best accuracy at T* of at most", ["training subset", "records", *[f"{v:.2f}" for v in LEVELS]], rows)
        ],
        records=everything,
        claims=claims_of(everything, "ca"),
        chart=charts.fronts(points, "T*"),
    )
