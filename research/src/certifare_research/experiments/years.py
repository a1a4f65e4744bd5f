"""Two years (appendix H.3, figure 13): whether the gap to the unfair classifier grows with the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from certifare_research.evaluation.outcomes import Outcome
from certifare_research.evaluation.pareto import pareto_front
from certifare_research.evaluation.protocol import as_matrix
from certifare_research.experiments import charts
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import best, claims_of, explore, independent_parts

YEARS = ("employment-2018", "employment-2017-2018")


def encoders(run: Run, item: Sequence[str]) -> dict[str, Any]:
    """Fit encoders of one kind on one or two years, and the unfair classifier."""
    data, kind = item
    dataset = run.load(data)
    parts = independent_parts(dataset, run.shares(), run.seed)
    grid = run.grid(kinds=[kind], gammas=(0.0, 0.5, 0.85), min_cell_sizes=(100,))
    records = [p.record() for p in explore(dataset, parts, grid, seed=run.seed)]
    known = dataset.take(np.concatenate([parts["train"], parts["select"]]))
    test = dataset.take(parts["test"])
    model = HistGradientBoostingClassifier(random_state=0).fit(as_matrix(known.X), known.y)
    unfair = Outcome.of(test.s, test.y, model.predict(as_matrix(test.X)))
    return {"records": records, "unfair": [unfair.accuracy, unfair.distance()], "n": len(dataset)}


def run(run: Run) -> Page:
    """Compare one year and two."""
    items = [(data, kind) for data in YEARS for kind in run.kinds()]
    results = dict(zip(items, run.each(encoders, items), strict=True))
    rows, points = [], []
    for (data, kind), result in results.items():
        years = data.removeprefix("employment-").replace("-", " and ")
        records = result["records"]
        accuracy, distance = result["unfair"]
        top = max(r["accuracy"] for r in records)
        found = [best(records, v) for v in LEVELS]
        rows.append(
            [
                f"{years}, {kind}",
                f"{result['n']:,}",
                *[None if r is None else r["accuracy"] for r in found],
                top,
                f"{accuracy:.3f} at {distance:.3f}",
                accuracy - top,
            ]
        )
        front = pareto_front([r["accuracy"] for r in records], [r["bound"] for r in records])
        points += [
            {
                "series": f"{years}, {kind}",
                "distance": records[i]["bound"],
                "accuracy": records[i]["accuracy"],
                "certified": True,
            }
            for i in front
        ]
    everything = [r for result in results.values() for r in result["records"]]
    columns = ["", "records", *[f"T* ≤ {v:.2f}" for v in LEVELS], "most accurate", "unfair gradient boosting", "gap"]
    return Page(
        title="One year and two",
        text="ACSEmployment, Massachusetts (the paper: ACSIncome-US 2014 and 2014 with 2015). Twice the data "
        "lowers the certificate; the gap "
        "between the most accurate encoder and the unfair classifier does not grow.",
        blocks=[Block("Best accuracy", columns, rows)],
        records=[{"data": data, **r} for (data, _), result in results.items() for r in result["records"]],
        claims=claims_of(everything, "employment"),
        chart=charts.fronts(points, "T*"),
    )
