"""What the boosted encoder's defaults are worth: each choice changed alone, on other splits than frontier.py's.

    python benchmarks/boosted_choices.py [--data PATH] [--seeds 1 2 3] [--only WORD]

ACSIncome California 2018. For each variant: log-loss of both scores on records outside training, and the test
accuracy at T* <= .03, .05 and .10 of the setting that is most accurate on the certification records, all averaged
over the seeds.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from certifare import BoostedEncoder
from certifare.encoders import scoremap, scores
from certifare.growth import CategoricalBins
from certifare.tables.frames import Frame
from frontier import GAMMAS, Data, Point, acs_income, best

LIMITS = (0.03, 0.05, 0.10)
CELLS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 50)


@contextmanager
def changed(module: Any, **values: Any) -> Iterator[None]:
    """Change constants of a module for a while."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def models(**parameters: Any) -> Any:
    settings = scores.score_settings
    return lambda: changed(scores, score_settings=lambda *about: [{**own, **parameters} for own in settings(*about)])


def by_counts(score_map: scoremap.ScoreMap) -> Any:
    """Order squares by the labels and groups counted in them (directional orderings), not along lines."""
    n = score_map.n_squares
    return (CategoricalBins("square", tuple(range(n))),), [np.arange(n, dtype=np.uint16)]


Variant = tuple[dict[str, Any], Callable[[], Any]]


def variants() -> dict[str, Variant]:
    def nothing() -> Any:
        return changed(scores)

    found: dict[str, Variant] = {"default": ({}, nothing)}
    for grid in (12, 16, 24, 48, 64):
        found[f"grid {grid}"] = ({"grid": grid}, nothing)
    for count in (8, 16, 32, 128):
        found[f"{count} directions"] = ({}, lambda count=count: changed(scoremap, N_DIRECTIONS=count))
    for grid in (12, 24, 31):
        found[f"squares by counts, grid {grid}"] = (
            {"grid": grid},
            lambda: changed(scoremap.ScoreMap, columns=by_counts),
        )
    for folds in (3, 10):
        found[f"{folds} folds"] = ({"folds": folds}, nothing)
    found["no means of categories"] = ({}, lambda: changed(scores, FEW_CATEGORIES=10**9))
    for smoothing in (3.0, 30.0):
        found[f"smoothing {smoothing:g}"] = ({}, lambda s=smoothing: changed(scores, SMOOTHING=s))
    found["all features in each tree"] = ({}, models(colsample_bytree=1.0))
    found["15 leaves, 150 rounds"] = ({}, models(num_leaves=15, n_estimators=150))
    found["63 leaves, 60 rounds"] = ({}, models(num_leaves=63, n_estimators=60))
    found["200 rounds of 0.05"] = ({}, models(n_estimators=200, learning_rate=0.05))
    for size in (30, 400):
        found[f"min_cell_size {size}"] = ({"min_cell_size": size}, nothing)
    return found


def measure(data: Data, variant: Variant) -> list[float]:
    parameters, change = variant
    common = {"categorical_features": data.categorical, "max_cells": max(CELLS), "n_jobs": -1, **parameters}
    train, *others = data.parts
    with change():
        encoder = BoostedEncoder(**common)
        training = encoder.prepare(data.of(0), data.y[train], sensitive_features=data.s[train])
        score_map = training.derived.score_map
        codes, losses = [training.derived.codes], []
        for part, rows in enumerate(others, start=1):
            frame = Frame(data.of(part))
            fields = [frame.read(name) for name in frame.names]
            found = score_map.scores.score(fields)
            codes.append(score_map.locate(found, fields))
            losses.append(
                [log_loss(truth[rows], sigmoid(f[:, 0])) for truth, f in zip((data.y, data.s), found, strict=True)]
            )
        points = []
        for gamma in GAMMAS[::2]:
            grown = BoostedEncoder(**{**encoder.get_params(deep=False), "gamma": gamma}).fit_from(training)
            whole = [grown.apply_codes(part) for part in codes]
            points += [Point(data, whole, grown.cells_at(k)) for k in sorted({min(k, grown.n_cells_) for k in CELLS})]
    chosen = [best(points, limit, lambda p: p.selection) for limit in LIMITS]
    return [*np.mean(losses, axis=0), *(float("nan") if p is None else p.test for p in chosen)]


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="", help="variants whose names contain this")
    arguments = parser.parse_args()
    print("| variant | log-loss y | log-loss s | " + " | ".join(f"T* ≤ {limit:g}" for limit in LIMITS) + " |")
    print("|---|---|---|" + "---|" * len(LIMITS))
    for name, variant in variants().items():
        if arguments.only in name:
            measured = [measure(acs_income(arguments.data, 6, seed), variant) for seed in arguments.seeds]
            print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in np.mean(measured, axis=0)) + " |", flush=True)


if __name__ == "__main__":
    main()
