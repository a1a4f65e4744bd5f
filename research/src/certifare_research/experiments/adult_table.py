"""The experiments that need no data but the Adult table, which comes with certifare."""

from __future__ import annotations

from certifare_research.experiments import ablation, charts, size
from certifare_research.experiments.delivered import METRIC, WAYS, claims, command, course, delivered, row
from certifare_research.experiments.framework import LEVELS, Block, Page, Run

PAIRS = [(name, "tree") for name in ablation.SETTINGS]


def run(run: Run) -> Page:
    """Frontier, sizes of certificates, and ablation on Adult."""
    found = run.each(delivered, [("adult", way, i, METRIC) for way in WAYS for i in run.splits])
    certified = [r for part in found for r in part]
    sizes = run.each(size.certificates, [("adult", "tree")])[0]
    own, tables = ablation.measure(
        run, "adult", PAIRS if not run.quick else PAIRS[1:2], [run.seed + i for i in run.splits]
    )
    frontier = [row(certified, way, len(run.splits)) for way in WAYS]
    rows = [
        [f"{name}, k = {r['k']}", *(r[c] for c in ("cells", "accuracy", "distance", "lemmas", "bound", "lower"))]
        for (name, _), means in tables.items()
        for r in means
    ]
    columns = ["setting", "cells", "accuracy", "distance", "T* (lemmas)", "T* (exact)", "L"]
    return Page(
        title="Adult, which comes with certifare",
        text="UCI Adult (48,842 people; income above 50,000 dollars, by sex): no other file is needed. A fifth of the "
        "records is kept to test. First what `certifare fit` delivers for a target; then certificates as if every "
        "record had been drawn M times; then the paper's ablation of the number of cells.",
        blocks=[
            Block("Accuracy of what fit delivers, T* at most", ["command", *[f"{v:.2f}" for v in LEVELS]], frontier),
            size.show(sizes)[0],
            Block("Ablation of k", columns, rows),
        ],
        records=[
            *({"table": "frontier", **{k: v for k, v in r.items() if k != "outcome"}} for r in certified),
            *({"table": "size", **r} for r in sizes),
            *(
                {"table": "ablation", **{k: v for k, v in r.items() if k != "seconds"}}
                for records in own.values()
                for r in records
            ),
        ],
        claims=claims(certified),
        chart=charts.fronts(course(certified, WAYS, LEVELS), "T*"),
        notes=(
            "; ".join(f"{way}: `{command(way)}`" for way in WAYS) + ".",
            "Means over five splits ± standard deviation. The commands deal the other records themselves; encoders are "
            "chosen and certified on different records, and accuracy is read off the test records once.",
            "Ablation: the three settings of the paper (γ, smallest cell, share of validation as on ACSIncome), "
            "10 % of the records to test.",
        ),
    )
