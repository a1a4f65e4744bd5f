"""Restricted encoders of the main comparison: every kind on every split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.framework import LEVELS, Run
from certifare_research.experiments.growths import choose, distinct, explore, independent_parts

CELLS = (2, 3, 5, 8, 12, 20, 50, 100)
SIZES = {"min_cell_sizes": (100,), "cells": CELLS}
#: This γ with every distance that the cells may have on the training records (:data:`certifare.frontier.settings`).
GROUP_AWARE = {"gammas": (0.07,), **SIZES}
#: Kind of encoder → (kind of growth, parameters of all its encoders, changes of the grid).
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tree": ("tree", {}, SIZES),
    "boosted": ("boosted", {}, SIZES),
    "group-aware tree": ("tree", {"group_aware": True}, GROUP_AWARE),
    "group-aware boosted": ("boosted", {"group_aware": True}, GROUP_AWARE),
}


def restricted(run: Run, item: Sequence[Any]) -> dict[str, Any]:
    """All encoders of one kind on one split of a data set, and those chosen for each level."""
    data, name, split = item
    kind, parameters, changes = KINDS[name]
    dataset = run.load(data)
    seed = run.seed + split
    parts = independent_parts(dataset, SHARES, seed)
    grid = run.grid(kinds=[kind], **changes)
    points = list(distinct(explore(dataset, parts, grid, seed=seed, **parameters)))
    chosen = []
    for level in LEVELS:
        choice = choose(points, level)
        if choice is not None:
            record = choice.point.record()
            attack = choice.point.adversary().interval()
            chosen.append(
                {
                    **record,
                    "kind": name,
                    "level": level,
                    "bound": choice.certificate.bound,
                    "tried": choice.tried,
                    "adversary_lower": attack.lower,
                    "adversary_upper": attack.upper,
                }
            )
    records = [{**point.record(), "kind": name, "split": split} for point in points]
    return {"records": records, "chosen": chosen}
