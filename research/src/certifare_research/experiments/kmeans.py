"""K-means encoders (appendix C, figure 7): a restricted encoder that does not look at groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare import FairTreeEncoder
from certifare.encoders.information import retained_information
from certifare.encoders.proxies import Space, find_centres
from certifare.encoders.training import in_memory
from certifare.foundation.randomness import stream
from certifare.frontier.paths import PROBE_RECORDS, RETAINED_RECORDS, GrowthPath, PartCounts
from certifare.frontier.settings import Setting
from certifare.tables.frames import Frame
from certifare_research.datasets import Dataset
from certifare_research.experiments import charts, published
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import Block, Page, Run
from certifare_research.experiments.growths import (
    Point,
    by_split,
    claims_of,
    explore,
    front,
    independent_parts,
    over,
    table_of,
    within,
)

CELLS = (2, 5, 10, 20, 50, 100, 200, 500)
#: Limits of the authors' stored k-means.
SHOWN = (0.10, 0.15, 0.20, 0.30)


def encoders(run: Run, item: Sequence[Any]) -> list[dict[str, Any]]:
    """Return records of all encoders of one kind on one split."""
    kind, split = item
    seed = run.seed + split
    dataset = run.load("ca")
    parts = independent_parts(dataset, SHARES, seed)
    if kind == "kmeans":
        points = clusters(dataset, parts, run.grid(cells=CELLS).cells, seed)
    else:
        points = explore(dataset, parts, run.grid(kinds=[kind], gammas=(0.3, 0.7, 0.9)), seed=seed)
    return [{**point.record(), "split": split} for point in points]


def clusters(
    dataset: Dataset, parts: Mapping[str, NDArray[np.int64]], numbers: Sequence[int], seed: int
) -> Iterator[Point]:
    """Yield encoders whose cells are what is nearest to each of k centres, found among the training records."""
    tables = {name: table_of(dataset.take(rows)) for name, rows in parts.items()}
    train, compared = tables["train"], next(table for name, table in tables.items() if name != "train")
    encoder = FairTreeEncoder(random_state=seed)
    training = in_memory(encoder.prepare(train.features, train.labels, sensitive_features=train.groups))
    space = Space.fit(training.fields, training.bins)
    points, fields = space.points(training.fields), {n: Frame(t.features).fields() for n, t in tables.items()}
    rows = stream(seed, "probe records").permutation(np.flatnonzero(compared.labelled))[:PROBE_RECORDS]
    probe = Frame(compared.take(np.sort(rows)[:RETAINED_RECORDS]).features).fields()
    categorical = [column.categorical for column in training.columns]
    for k in numbers:
        centres = find_centres(points, k, seed)
        found, setting = len(centres), Setting("kmeans", None, None, k)
        counts = {
            n: PartCounts.of(t, space.nearest(fields[n], centres).astype(np.int64), found) for n, t in tables.items()
        }
        retained = retained_information(probe, categorical, space.nearest(probe, centres), found).mean
        path = GrowthPath(setting, {found: np.arange(found)}, counts, np.zeros(0, np.uint16), {found: retained})
        yield Point(setting, found, path)


def run(run: Run) -> Page:
    """Compare with the fair tree."""
    splits = len(run.splits)
    kinds = {"k-means": "kmeans", "fair tree": "tree"}
    found = run.each(encoders, [(kind, split) for kind in kinds.values() for split in run.splits])
    records = [r for own in found for r in own]
    clusters = [r for r in records if r["kind"] == "kmeans"]
    figures = ("accuracy", "distance", "adversary", "lower", "bound")
    rows = [
        [k, *(over([r[figure] for r in clusters if r["cells"] == k], splits) for figure in figures)]
        for k in sorted({r["cells"] for r in clusters})
    ]
    best_rows, points = [], []
    for name, kind in kinds.items():
        own = [r for r in records if r["kind"] == kind]
        for words, by in (("T*", "bound"), ("measured", "distance")):
            best_rows.append([f"{name}, {words} ≤", *within(own, SHOWN, splits, by)])
            points += front(by_split(own)[0], by, f"{name}, {words}")
    stored = [published.anchor("ACSIncome-CA-2014", "kmeans", f"acc@T<={v:.2f}") for v in SHOWN]
    best_rows.append(["authors' k-means (2014), T* ≤", *stored])
    return Page(
        title="K-means encoders",
        text="ACSIncome-CA 2018. The same certificate works for any restricted encoder; one that ignores the "
        "groups is worth little. Means over splits ± standard deviation; best on the test records.",
        blocks=[
            Block("k-means", ["k", "accuracy", "distance", "adversary", "L", "T*"], rows),
            Block("Best accuracy", ["", *[f"{v:.2f}" for v in SHOWN]], best_rows),
        ],
        records=records,
        claims=[c for own in by_split(records) for c in claims_of(own, f"ca {own[0]['split']}")],
        chart=charts.fronts(points),
    )
