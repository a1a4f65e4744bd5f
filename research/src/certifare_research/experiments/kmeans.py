"""K-means encoders (appendix C, figure 7): a restricted encoder that does not look at groups."""

from __future__ import annotations

from typing import Any

from certifare_research.experiments import charts, published
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import Block, Page, Run
from certifare_research.experiments.growths import claims_of, explore, front, independent_parts

CELLS = (2, 5, 10, 20, 50, 100, 200, 500)


def encoders(run: Run, kind: str) -> list[dict[str, Any]]:
    """Return records of all encoders of one kind."""
    dataset = run.load("ca")
    parts = independent_parts(dataset, SHARES, run.seed)
    grid = run.grid(kinds=[kind], cells=CELLS) if kind == "kmeans" else run.grid(kinds=[kind], gammas=(0.3, 0.7, 0.9))
    return [point.record() for point in explore(dataset, parts, grid, seed=run.seed)]


def run(run: Run) -> Page:
    """Compare with the fair tree."""
    clusters, trees = run.each(encoders, ["kmeans", "tree"])
    rows = [[r["cells"], r["accuracy"], r["distance"], r["adversary"], r["lower"], r["bound"]] for r in clusters]
    points = []
    for name, records in (("k-means", clusters), ("fair tree", trees)):
        points += front(records, "bound", f"{name}, T*")
        points += front(records, "distance", f"{name}, measured")
    stored = [published.anchor("ACSIncome-CA-2014", "kmeans", f"acc@T<={v:.2f}") for v in (0.10, 0.15, 0.20, 0.30)]
    return Page(
        title="K-means encoders",
        text="ACSIncome-CA 2018. The same certificate works for any restricted encoder; one that ignores the "
        "groups is worth little.",
        blocks=[Block("k-means", ["k", "accuracy", "distance", "adversary", "L", "T*"], rows)],
        records=[*clusters, *trees],
        claims=claims_of([*clusters, *trees], "ca"),
        chart=charts.fronts(points),
        notes=(
            f"The authors' k-means (2014): best accuracy at T* ≤ .10, .15, .20, .30: "
            f"{', '.join(str(v) for v in stored)}.",
        ),
    )
