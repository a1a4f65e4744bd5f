"""Data size (figure 5): certificates when the data set is repeated M times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from certifare.drawing import Figure
from certifare_research.evaluation.lemmas import lemmas_bound
from certifare_research.experiments import charts
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import Block, Page, Run
from certifare_research.experiments.growths import EPSILON, explore, independent_parts

TIMES = (1, 2, 4, 8, 16, 32)
#: Points of the paper's study: (gamma, min_cell_size, cells).
POINTS = ((0.99, 600, 5), (0.8, 100, 12), (0.7, 100, 20), (0.5, 100, 50))
#: Those in the chart.
SHOWN = ((0.99, 5), (0.8, 12), (0.5, 50))


def certificates(run: Run, item: Sequence[str]) -> list[dict[str, Any]]:
    """T* of each point for each M, exact and by the paper's lemmas."""
    data, kind = item
    dataset = run.load(data)
    parts = independent_parts(dataset, SHARES, run.seed)
    wanted: dict[tuple[float | None, int | None], int] = {(g, n): k for g, n, k in POINTS} if not run.quick else {}
    grid = run.grid(kinds=[kind], gammas=sorted({g for g, _, _ in POINTS}), cells=sorted({k for *_, k in POINTS}))
    records = []
    for point in explore(dataset, parts, grid, seed=run.seed):
        if run.quick or wanted.get((point.setting.gamma, point.setting.min_cell_size)) == point.cells:
            for times in TIMES:
                exact = point.certificate(times=times)
                base, cells, sums = (times * point.counts(part).sum(axis=2) for part in ("train", "certify", "test"))
                records.append(
                    {
                        "kind": kind,
                        "gamma": point.setting.gamma,
                        "cells": point.cells,
                        "M": times,
                        "estimate": exact.estimate,
                        "bound": exact.bound,
                        "lemmas": lemmas_bound(base, cells, sums, EPSILON),
                    }
                )
    return records


def run(run: Run) -> Page:
    """Show how much more data would help."""
    kinds = ("tree", "boosted")[: 1 if run.quick else 2]
    records = [r for part in run.each(certificates, [("ca", kind) for kind in kinds]) for r in part]
    block, chart = show(records)
    return Page(
        title="Data size",
        text="ACSIncome-CA 2018, the certificate computed as if every record had been drawn M times. (Such "
        "bounds hold for a data set "
        "of that size, not for this one.) The last columns are the bound by the paper's lemmas, from the same records.",
        blocks=[block],
        records=records,
        chart=chart,
        notes=(
            "The authors' stored run (2014, k = 9, γ = .99, 82,773 records): .049 at M = 1, .037 at M = 2, by "
            "the lemmas.",
        ),
    )


def show(records: Sequence[Mapping[str, Any]]) -> tuple[Block, list[Figure]]:
    """Return the table and the chart of certificates over M."""
    rows = []
    for key in dict.fromkeys((r["kind"], r["gamma"], r["cells"]) for r in records):
        own = {r["M"]: r for r in records if (r["kind"], r["gamma"], r["cells"]) == key}
        rows.append(
            [
                f"{key[0]}, γ = {key[1]}, k = {key[2]}",
                own[1]["estimate"],
                *[own[m]["bound"] for m in TIMES],
                own[1]["lemmas"],
                own[32]["lemmas"],
            ]
        )
    points = [
        {"series": f"{r['kind']} γ={r['gamma']} k={r['cells']} {how}", "M": r["M"], "T*": r[column]}
        for r in records
        if r["kind"] == "tree" and ((r["gamma"], r["cells"]) in SHOWN or len(rows) < len(POINTS))
        for how, column in (("exact", "bound"), ("lemmas", "lemmas"))
    ]
    columns = ["encoder", "estimate", *[f"M = {m}" for m in TIMES], "lemmas, 1", "lemmas, 32"]
    return Block("T* over M", columns, rows), charts.lines(points, "M", "T*", log=True)
