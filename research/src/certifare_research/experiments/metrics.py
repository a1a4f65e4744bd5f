"""Equal opportunity and equalized odds (appendix D.2, figure 9), on Health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certifare.frontier.settings import GAMMAS
from certifare_research.experiments import charts, published
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import best, choose, claims_of, distinct, explore, front, independent_parts

WORDS = {"equal_opportunity": "Equal opportunity", "equalized_odds": "Equalized odds"}
SHORT = {"equal_opportunity": "eopp", "equalized_odds": "eo"}


def encoders(run: Run, item: Sequence[str]) -> dict[str, Any]:
    """Fit encoders of one kind, grown and certified for one metric."""
    metric, kind = item
    dataset = run.load("health")
    parts = independent_parts(dataset, SHARES, run.seed)
    grid = run.grid(kinds=[kind], gammas=GAMMAS, min_cell_sizes=(100, 1000))
    points = list(distinct(explore(dataset, parts, grid, seed=run.seed, metric=metric)))
    chosen = {f"{level}": choose(points, level, metric) for level in LEVELS}
    return {
        "records": [point.record(metric) for point in points],
        "chosen": {k: None if c is None else c.point.vote().accuracy for k, c in chosen.items()},
    }


def page(run: Run, metric: str) -> Page:
    """Compare certified and measured distances of one metric."""
    items = [(metric, "tree"), (metric, "boosted")]
    ours = dict(zip(("tree", "boosted"), run.each(encoders, items), strict=True))
    rows: list[list[Any]] = []
    points: list[dict[str, Any]] = []
    for kind, result in ours.items():
        rows.append([f"{kind}: certified, T* ≤", *[result["chosen"][f"{v}"] for v in LEVELS]])
        found = [best(result["records"], v) for v in LEVELS]
        rows.append(
            [f"{kind}: each certified for itself, best on test", *[None if r is None else r["accuracy"] for r in found]]
        )
        points += front(result["records"], "bound", kind)
    runs = published.select(published.runs_of(run), data="health", split=0)
    for method in published.METHODS:
        own = [
            {"accuracy": r.evaluation.accuracy, "distance": r.evaluation.mean_distance(metric)}
            for r in published.select(runs, method=method, task="y", classifier="mlp50", target="y")
            if r.metric in ("demographic_parity", metric)
        ]
        found = [best(own, v, "distance") for v in LEVELS]
        label = f"{method}: {'measured ≤' if own else published.ABSENT}"
        rows.append([label, *[None if r is None else r["accuracy"] for r in found]])
        points += front(own, "distance", method)
    short = SHORT[metric]
    stored = [published.anchor("health_notransfer", f"tree-{short}", f"acc@T<={v:.2f}", short) for v in LEVELS]
    rows.append(["authors' FARE: T* ≤", *stored])
    for method in ("FCRL", "FNF", f"fnf-{short}"):
        stored = [published.anchor("health_notransfer", method, f"acc@mean<={v:.2f}", short) for v in LEVELS]
        rows.append([f"authors' {method}: measured ≤", *stored])
    return Page(
        title=WORDS[metric],
        text=f"Health; encoders grown for {WORDS[metric].lower()} and certified for it, published methods "
        f"measured as in the main comparison "
        "(FNF also trained for this metric).",
        blocks=[Block("Best accuracy at", ["distance", *[f"{v:.2f}" for v in LEVELS]], rows)],
        records=[r for result in ours.values() for r in result["records"]],
        claims=claims_of([r for result in ours.values() for r in result["records"]], f"health {metric}"),
        chart=charts.fronts(points, "T* (solid) or measured distance (dashed)"),
        notes=(
            "The authors' trees for these metrics suffer from a wrong denominator in the left child and "
            "collapse for γ ≥ 0.5.",
            *_less(runs, metric),
        ),
    )


def _less(runs: Sequence[published.PublishedRun], metric: str) -> list[str]:
    """Say whether FNF was trained for this metric with fewer epochs than published, as nothing else was."""
    most = max((r.effort for r in published.select(runs, method="FNF", metric=metric)), default=1.0)
    words = f"FNF was trained for this metric with {most * 100:.0f} % of its epochs, for want of time on a GPU"
    return [] if most == 1 else [f"{words}; other methods with all."]


def opportunity(run: Run) -> Page:
    """Equal opportunity."""
    return page(run, "equal_opportunity")


def odds(run: Run) -> Page:
    """Equalized odds."""
    return page(run, "equalized_odds")
