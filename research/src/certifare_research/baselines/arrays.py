"""A prepared data set as plain arrays, so that training needs PyTorch and NumPy alone (a bare GPU machine)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrays:
    """Design matrix, labels and groups of all records, and which of them are for training.

    Attributes
    ----------
    name : str
    family : {"acs", "health", "transfer"}
        Which of the paper's configurations applies.
    numbers : ndarray of float32
        Columns of the design matrix that are no bits.
    codes, sizes : ndarray of int16, tuple of int
        Category numbers; each column becomes as many bits as its size, after the numbers.
    y, s : ndarray of int8
    train : ndarray of bool
        Records for training; the others are for the test.
    discrete, discrete_sizes
        Category numbers for the discrete flow, where the family uses it.
    tasks : ndarray of int8
        (records, tasks): other labels.
    task_names : tuple of str
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
        np.savez_compressed(
            path,
            name=np.array(self.name),
            family=np.array(self.family),
            numbers=self.numbers,
            codes=self.codes,
            sizes=np.array(self.sizes, dtype=np.int64),
            y=self.y,
            s=self.s,
            train=self.train,
            discrete=np.zeros((0, 0), dtype=np.int16) if self.discrete is None else self.discrete,
            discrete_sizes=np.array(self.discrete_sizes, dtype=np.int64),
            tasks=self.tasks,
            task_names=np.array(self.task_names, dtype=np.str_),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Arrays:
        """Read what :meth:`save` wrote. Nothing is unpickled."""
        with np.load(Path(path), allow_pickle=False) as file:
            discrete = file["discrete"]
            return cls(
                name=str(file["name"]),
                family=str(file["family"]),
                numbers=file["numbers"],
                codes=file["codes"],
                sizes=tuple(file["sizes"].tolist()),
                y=file["y"],
                s=file["s"],
                train=file["train"],
                discrete=discrete if discrete.size else None,
                discrete_sizes=tuple(file["discrete_sizes"].tolist()),
                tasks=file["tasks"],
                task_names=tuple(file["task_names"].tolist()),
            )
