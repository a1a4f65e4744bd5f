"""Restricted encoders as plain arrays, so that a machine with NumPy alone can train networks on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Grown:
    """One growth, as the finest cell of each record, and the encoders on its path.

    Each of ``encoders`` has ``setting``, ``bound``, ``merged`` (cell of each finest cell) and ``representatives``
    (cells × features).
    """

    cells: NDArray[np.uint8]
    encoders: list[dict[str, Any]]


def save(path: str | os.PathLike[str], grown: list[Grown]) -> None:
    """Write growths for a machine that has NumPy alone."""
    fields: dict[str, Any] = {"cells": np.stack([g.cells for g in grown])}
    names: list[str] = []
    numbers: list[list[float]] = []
    for i, growth in enumerate(grown):
        for encoder in growth.encoders:
            names = list(encoder["setting"])
            at = len(numbers)
            numbers.append([i, encoder["bound"], *encoder["setting"].values()])
            fields[f"merged{at}"], fields[f"representatives{at}"] = encoder["merged"], encoder["representatives"]
    np.savez_compressed(path, names=np.array(names, dtype=np.str_), numbers=np.array(numbers), **fields)


def load(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, float], float, NDArray[np.float32]]]:
    """Yield each encoder's setting, bound, and representation of every record."""
    with np.load(path, allow_pickle=False) as file:
        names, cells = file["names"].tolist(), file["cells"]
        for at, (growth, bound, *values) in enumerate(file["numbers"].tolist()):
            z = file[f"representatives{at}"][file[f"merged{at}"]][cells[int(growth)]]
            yield dict(zip(names, values, strict=True)), bound, z
