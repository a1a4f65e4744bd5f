"""FARE as published: the paper's orderings, lemmas, and median representatives through the paper's network.

Growing the trees and bounding them needs certifare alone; the network is trained on each representation where there is
a GPU (``benchmarks/train_baselines.py``), and its counts come with this package like those of the other methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts
from certifare.encoders import FairTreeEncoder
from certifare_research.baselines.cells import Grown
from certifare_research.datasets import Dataset
from certifare_research.evaluation.lemmas import PAPER_BUDGET, paper_bound
from certifare_research.evaluation.protocol import as_matrix
from certifare_research.experiments import paper_tree
from certifare_research.experiments.arrays import SHARES
from certifare_research.experiments.growths import independent_rows

METHOD = "FARE as published"
#: The authors' sweeps: (γ, numbers of cells, smallest cell, shares of validation).
SWEEPS: dict[str, tuple[tuple[tuple[float, ...], tuple[int, ...], int, tuple[float, ...]], ...]] = {
    "ca": (
        ((0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99, 0.999), (2, 4, 6, 8, 10, 20, 50, 100, 200), 100, (0.3,)),
        ((0.8, 0.85, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 0.999), tuple(range(2, 11)), 1000, (0.5,)),
    ),
    "us": (((0.3, 0.5, 0.7, 0.9, 0.99, 0.999), (2, 4, 6, 8, 10, 20, 50, 100, 200), 1000, (0.2,)),),
    "health": (((0.3, 0.5, 0.7, 0.8, 0.85), (2, 5, 20, 40, 60, 80, 100, 120), 60, (0.2, 0.5)),),
    "transfer": (
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9, 0.99, 0.999), (2, 4, 6, 8, 10, 20, 50, 100), 500, (0.1, 0.2, 0.5)),
    ),
}


#: The authors' sweeps for other metrics on Health; equalized odds is swept for equal opportunity's γ and one more.
OTHER_METRICS = {
    "equal_opportunity": SWEEPS["health"],
    "equalized_odds": (
        ((0.3, 0.5, 0.7, 0.8, 0.85), (2, 5, 20, 40, 60, 80, 100, 120), 60, (0.2,)),
        ((0.1,), (2, 5, 20, 40, 60, 80, 100, 120), 60, (0.5,)),
    ),
}
#: The authors' shares of ε for base rates, cells and sum; equalized odds has half of ε for each label.
BUDGETS = {"equalized_odds": (0.2, 0.6, 0.2)}


def growths(
    dataset: Dataset, name: str, split: int = 0, quick: bool = False, metric: str = "demographic_parity"
) -> Iterator[Grown]:
    """Grow the authors' sweep on one split; the test records are those of all other experiments.

    Each encoder is bounded by the paper's lemmas: base rates from training records, cells from validation records,
    the sum from test records. Where several records belong to one person, one of them is used to certify.
    """
    test = dataset.parts(SHARES, split)["test"]
    known = np.setdiff1d(np.arange(len(dataset)), test)
    for gammas, sizes, smallest, shares in OTHER_METRICS.get(metric, SWEEPS[name]):
        for share in shares:
            inner = dataset.take(known).parts({"train": 1 - share, "certify": share}, split)
            train = known[inner["train"]]
            parts = {"train": train, "certify": known[inner["certify"]], "test": test}
            alone = {k: independent_rows(dataset, rows, split, k) for k, rows in parts.items()}
            least = smallest if not quick else 50
            for gamma in gammas if not quick else gammas[-2:]:
                if metric == "demographic_parity":
                    path = _tree(dataset, train, gamma, sizes, least, split)
                else:
                    path = _paper_tree(dataset, train, gamma, sizes, least, metric)
                setting = {"gamma": gamma, "min_cell_size": smallest, "share": share}
                yield _bounded(path, dataset, alone, setting, metric)


@dataclass(frozen=True, eq=False)
class _Path:
    """A growth: the finest cell of each record; of each smaller tree, its cells and their representatives."""

    finest: NDArray[np.int64]
    smaller: dict[int, tuple[NDArray[np.int64], NDArray[np.float32]]]


def _tree(
    dataset: Dataset, train: NDArray[np.int64], gamma: float, sizes: tuple[int, ...], least: int, split: int
) -> _Path:
    encoder = FairTreeEncoder(
        gamma=gamma,
        max_cells=max(sizes),
        min_cell_size=least,
        orderings="paper",
        categorical_features=list(dataset.categorical),
        random_state=split,
    ).fit(dataset.X.take(train), dataset.y[train], sensitive_features=dataset.s[train])
    finest = np.asarray(encoder.apply(dataset.X), dtype=np.int64)
    firsts = np.unique(finest, return_index=True)
    present = {int(cell): int(row) for cell, row in zip(*firsts, strict=True)}
    rows = np.array([present.get(cell, firsts[1][0]) for cell in range(encoder.n_cells_)])
    smaller = {}
    for k in sizes if encoder.n_cells_ > 1 else ():
        if k <= encoder.n_cells_:
            own = encoder.at(k)
            merged = np.asarray(own.apply(dataset.X.take(rows)), dtype=np.int64)
            z = as_matrix(own.transform(dataset.X.take(rows)))
            representatives = np.zeros((k, z.shape[1]), dtype=np.float32)
            representatives[merged] = z
            smaller[k] = merged, representatives
    return _Path(finest, smaller)


def _paper_tree(
    dataset: Dataset, train: NDArray[np.int64], gamma: float, sizes: tuple[int, ...], least: int, metric: str
) -> _Path:
    values = as_matrix(dataset.X)
    bins = paper_tree.binned(values, train)
    categories = tuple(dataset.X.column_names.index(name) for name in dataset.categorical)
    tree = paper_tree.grow(
        bins[train],
        dataset.y[train],
        dataset.s[train],
        gamma=gamma,
        metric=metric,
        max_cells=max(sizes),
        min_cell_size=least,
        categories=categories,
    )
    finest = tree.apply(bins)
    smaller = {}
    for k in sizes:
        if k <= tree.n_cells:
            merged = tree.merged(k)
            own = [values[train[merged[finest[train]] == cell]] for cell in range(k)]
            representatives = np.array([np.median(records, axis=0) for records in own], dtype=np.float32)
            for column in categories:
                representatives[:, column] = [np.bincount(r[:, column].astype(np.int64)).argmax() for r in own]
            smaller[k] = merged, representatives
    return _Path(finest, smaller)


def _bounded(
    path: _Path, dataset: Dataset, parts: dict[str, NDArray[np.int64]], setting: dict[str, float], metric: str
) -> Grown:
    encoders = []
    for k, (merged, representatives) in path.smaller.items():
        counts = {name: _count(merged[path.finest[own]], dataset, own, k) for name, own in parts.items()}
        samples = [counts[part] for part in ("train", "certify", "test")]
        encoders.append(
            {
                "setting": {**setting, "cells": float(k)},
                "bound": paper_bound(samples, metric, budget=BUDGETS.get(metric, PAPER_BUDGET)),
                "merged": merged.astype(np.uint8),
                "representatives": representatives,
            }
        )
    return Grown(path.finest.astype(np.uint8), encoders)


def _count(cells: NDArray[np.int64], dataset: Dataset, rows: NDArray[np.int64], k: int) -> CellCounts:
    groups, labels = len(dataset.group_names), len(dataset.label_names)
    flat = (cells * groups + dataset.s[rows]) * labels + dataset.y[rows]
    table = np.bincount(flat, minlength=k * groups * labels).reshape(k, groups, labels)
    return CellCounts(table, range(groups), range(labels))
