"""A prepared data set as plain arrays, so that training needs PyTorch and NumPy alone (a bare GPU machine)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrays:
    """Design matrix, labels and groups of all records, and which of them are for training.

    - ``family``: which of the paper's configurations applies, "acs", "health" or "transfer".
    - ``numbers``: columns of the design matrix that are no bits.
    - ``codes``, ``sizes``: category numbers; each column becomes as many bits as its size, after the numbers.
    - ``train``: records for training; the others are for the test.
    - ``discrete``, ``discrete_sizes``: category numbers for the discrete flow, where the family uses it.
    - ``tasks`` (records, tasks): other labels.
    """

    name: str
    family: str
    numbers: NDArray[np.float32]
    codes: NDArray[np.int16]
    sizes: tuple[int, ...]
    y: NDArray[np.int8]
    s: NDArray[np.int8]
    train: NDArray[np.bool_]
    discrete: NDArray[np.int16] | None = None
    discrete_sizes: tuple[int, ...] = ()
    tasks: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int8))
    task_names: tuple[str, ...] = ()

    def matrix(self) -> NDArray[np.float32]:
        """Return the design matrix: numbers, then bits."""
        n, width = len(self.y), self.numbers.shape[1]
        x = np.zeros((n, width + sum(self.sizes)), dtype=np.float32)
        x[:, :width] = self.numbers
        starts = width + np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        if self.sizes:
            x[np.arange(n)[:, None], starts + self.codes] = 1.0
        return x

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a compressed file."""
        none = {"discrete": np.zeros((0, 0), dtype=np.int16)} if self.discrete is None else {}
        fields: dict[str, Any] = {name: np.asarray(value) for name, value in {**vars(self), **none}.items()}
        np.savez_compressed(path, **fields)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Arrays:
        """Read what :meth:`save` wrote. Nothing is unpickled."""
        with np.load(Path(path), allow_pickle=False) as file:
            fields = {name: file[name] for name in file.files}
        texts = {name: str(fields[name]) for name in ("name", "family")}
        tuples = {name: tuple(fields[name].tolist()) for name in ("sizes", "discrete_sizes", "task_names")}
        return cls(**{**fields, **texts, **tuples, "discrete": fields["discrete"] if fields["discrete"].size else None})
