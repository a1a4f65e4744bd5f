"""Imbalance of the groups (appendix H.5, figure 14): trees fitted on equally large subsets, one group's share c."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from certifare_research.experiments import charts
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import by_split, claims_of, explore, front, independent_parts, within

IMBALANCES = (0.5, 0.6, 0.7, 0.8, 0.9)


def encoders(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Fit on a subset; certify and test on all the other records."""
    share, split = item
    seed = run.seed + split
    dataset = run.load("ca")
    parts = independent_parts(dataset, SHARES, seed)
    rows, groups = parts["train"], dataset.s[parts["train"]]
    majority = int(np.mean(groups) > 0.5)
    many, few = rows[groups == majority], rows[groups != majority]
    size = int(len(many) / max(IMBALANCES))
    size = min(size, int(len(few) / (1 - min(IMBALANCES))))
    rng = np.random.default_rng(seed)
    kept = np.concatenate(
        [rng.choice(many, int(size * share), replace=False), rng.choice(few, size - int(size * share), replace=False)]
    )
    grid = run.grid(kinds=["tree"], gammas=(0.3, 0.7, 0.9, 0.99, 0.999), min_cell_sizes=(100,))
    points = explore(dataset, {**parts, "train": np.sort(kept)}, grid, seed=seed)
    return [{**p.record(), "share": share, "records": size, "split": split} for p in points]


def run(run: Run) -> Page:
    """Show fronts for each share."""
    found = run.each(encoders, [(share, split) for share in IMBALANCES for split in run.splits])
    records = [r for part in found for r in part]
    rows, points = [], []
    for share in IMBALANCES:
        own = [r for r in records if r["share"] == share]
        sizes = sorted({r["records"] for r in own})
        size = f"{sizes[0]:,}" + (f" to {sizes[-1]:,}" if len(sizes) > 1 else "")
        rows.append([f"c = {share}", size, *within(own, LEVELS, len(run.splits))])
        points += front(by_split(own)[0], "bound", f"c = {share}")
    return Page(
        title="Imbalance of the groups",
        text="ACSIncome-CA 2018. The tree is fitted on a subset of fixed size in which the larger group has "
        "the share c (γ up to .999, as in the paper); certification and "
        "test records are the same for all. The paper found that the imbalance changes little. Best on the test "
        "records; means over splits ± standard deviation. The chart shows the first split.",
        blocks=[
            Block("Best accuracy at T* of at most", ["training subset", "records", *[f"{v:.2f}" for v in LEVELS]], rows)
        ],
        records=records,
        claims=[c for r in records for c in claims_of([r], f"ca {r['split']}, c = {r['share']}")],
        chart=charts.fronts(points, "T*"),
    )
