"""Interpretability (section 7): the cells of a small tree, in words."""

from __future__ import annotations

from typing import Any

from certifare.certification import certify
from certifare.encoders import FairTreeEncoder
from certifare_research.experiments.framework import Block, Page, Run
from certifare_research.experiments.growths import independent_parts


def describe(run: Run, data: str) -> dict[str, Any]:
    """Fit the paper's illustrative tree and put its cells into words."""
    dataset = run.load(data)
    parts = independent_parts(dataset, {"train": 0.6, "certify": 0.4}, run.seed)
    train, fresh = dataset.take(parts["train"]), dataset.take(parts["certify"])
    encoder = FairTreeEncoder(
        gamma=0.95, max_cells=6, min_cell_size=50 if run.quick else 1000, categorical_features=list(dataset.categorical)
    ).fit(train.X, train.y, sensitive_features=train.s)
    certificate = certify(encoder, fresh.X, sensitive_features=fresh.s)
    cells = [[line.split(":", 1)[0], line.split(":", 1)[1].strip()] for line in str(encoder.describe()).splitlines()]
    return {"cells": cells, "bound": certificate.bound, "lower": certificate.lower}


def run(run: Run) -> Page:
    """Show what each cell means."""
    (result,) = run.each(describe, ["us"])
    rows = [[name, _short(words)] for name, words in result["cells"]]
    return Page(
        title="A tree that can be read",
        text=f"ACSIncome-US 2018, γ = 0.95, six cells: T* = {result['bound']:.4f}. A person's representation "
        f"is the cell; its rules are "
        "the path in the tree.",
        blocks=[Block("Cells", ["cell", "rules, records, groups, labels"], rows)],
        records=[{"cell": name, "description": words} for name, words in result["cells"]],
        notes=(
            "The paper describes one cell of such a tree (k = 6) in words: older than 24, at least a "
            "Bachelor's degree, occupation in "
            "management, business or science.",
        ),
    )


def _short(words: str, most: int = 420) -> str:
    return words if len(words) <= most else words[: most // 2] + " … " + words[-most // 2 :]
