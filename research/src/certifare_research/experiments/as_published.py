"""FARE as published: the paper's orderings, lemmas, and median representatives through the paper's network.

Growing the trees and bounding them needs certifare alone; the network is trained on each representation where there is
a GPU (``benchmarks/train_baselines.py``), and its counts come with this package like those of the other methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, certify_counts
from certifare.encoders import FairTreeEncoder
from certifare_research.baselines.cells import Grown
from certifare_research.datasets import Dataset
from certifare_research.evaluation.protocol import as_matrix
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
}


def growths(dataset: Dataset, name: str, split: int = 0, quick: bool = False) -> Iterator[Grown]:
    """Grow the authors' sweep on one split; the test records are those of all other experiments.

    Each encoder is bounded by the paper's lemmas: base rates from training records, cells from validation records,
    the sum from test records. Where several records belong to one person, one of them is used to certify.
    """
    test = dataset.parts(SHARES, split)["test"]
    known = np.setdiff1d(np.arange(len(dataset)), test)
    for gammas, sizes, smallest, shares in SWEEPS[name]:
        for share in shares:
            inner = dataset.take(known).parts({"train": 1 - share, "certify": share}, split)
            train = known[inner["train"]]
            parts = {"train": train, "certify": known[inner["certify"]], "test": test}
            alone = {k: independent_rows(dataset, rows, split, k) for k, rows in parts.items()}
            for gamma in gammas if not quick else gammas[-2:]:
                encoder = FairTreeEncoder(
                    gamma=gamma,
                    max_cells=max(sizes),
                    min_cell_size=smallest if not quick else 50,
                    orderings="paper",
                    categorical_features=list(dataset.categorical),
                    random_state=split,
                ).fit(dataset.X.take(train), dataset.y[train], sensitive_features=dataset.s[train])
                yield _path(encoder, dataset, alone, sizes, {"gamma": gamma, "min_cell_size": smallest, "share": share})


def _path(
    encoder: FairTreeEncoder,
    dataset: Dataset,
    parts: dict[str, NDArray[np.int64]],
    sizes: tuple[int, ...],
    setting: dict[str, float],
) -> Grown:
    finest = np.asarray(encoder.apply(dataset.X))
    firsts = np.unique(finest, return_index=True)
    present = {int(cell): int(row) for cell, row in zip(*firsts, strict=True)}
    encoders = []
    for k in sizes:
        if k > encoder.n_cells_ or encoder.n_cells_ < 2:
            continue
        smaller = encoder.at(k)
        rows = np.array([present.get(cell, firsts[1][0]) for cell in range(encoder.n_cells_)])
        merged = np.asarray(smaller.apply(dataset.X.take(rows)))
        counts = {name: _count(merged[finest[own]], dataset.s[own], k) for name, own in parts.items()}
        certificate = certify_counts(
            counts["certify"],
            method="lemmas",
            base_counts=counts["train"],
            sum_counts=counts["test"],
            min_group_size=1,
        )
        z = as_matrix(smaller.transform(dataset.X.take(rows)))
        representatives = np.zeros((k, z.shape[1]), dtype=np.float32)
        representatives[merged] = z
        encoders.append(
            {
                "setting": {**setting, "cells": float(k)},
                "bound": float(certificate.bound),
                "merged": merged.astype(np.uint8),
                "representatives": representatives,
            }
        )
    return Grown(finest.astype(np.uint8), encoders)


def _count(cells: NDArray[np.integer[Any]], s: NDArray[np.int64], k: int) -> CellCounts:
    groups = int(s.max()) + 1
    return CellCounts(np.bincount(cells * groups + s, minlength=k * groups).reshape(k, groups), range(groups))
