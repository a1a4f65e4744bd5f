"""Restricted encoders of the main comparison: every kind on every split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certifare_research.experiments.framework import LEVELS, Run
from certifare_research.experiments.growths import choose, explore, independent_parts

CELLS = (2, 3, 5, 8, 12, 20, 50)
GROUP_AWARE = {"gammas": (0.05, 0.15), "min_cell_sizes": (100,), "cells": CELLS}
#: Kind of encoder → (kind of growth, parameters of all its encoders, changes of the grid).
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tree": ("tree", {}, {"gammas": (0.5, 0.7, 0.85, 0.95, 0.99), "min_cell_sizes": (100,), "cells": CELLS}),
    "boosted": ("boosted", {}, {"gammas": (0.0, 0.8, 0.95), "min_cell_sizes": (100,), "cells": CELLS}),
    "group-aware tree": ("tree", {"group_aware": True}, GROUP_AWARE),
    "group-aware boosted": ("boosted", {"group_aware": True}, GROUP_AWARE),
}


def restricted(run: Run, item: Sequence[Any]) -> dict[str, Any]:
    """All encoders of one kind on one split of a data set, and those chosen for each level."""
    data, name, split = item
    kind, parameters, changes = KINDS[name]
    dataset = run.load(data)
    seed = run.seed + split
    parts = independent_parts(dataset, run.shares(), seed)
    points = list(explore(dataset, parts, run.grid(kinds=[kind], **changes), seed=seed, **parameters))
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
