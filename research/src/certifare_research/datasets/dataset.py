"""A data set: features, label, groups, and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare_research.datasets.design import Design, Scaling


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Records about people, ready for an experiment.

    Attributes
    ----------
    name : str
    X : pyarrow.Table
        Features. The sensitive column is not among them.
    y, s : ndarray of int64
        Label and group of each record, as positions in ``label_names`` and ``group_names``.
    categorical : tuple of str
        Columns that hold categories.
    clusters : ndarray, optional
        Which records belong together (those of one patient), where they do.
    tasks : mapping of name to ndarray
        Other labels, for transfer.
    scaling : mapping of column name to {"unit", "standard", "none"}
        How :meth:`design` scales a column; "unit" unless given.
    """

    name: str
    X: pa.Table
    y: NDArray[np.int64]
    s: NDArray[np.int64]
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    clusters: NDArray[np.int64] | None = None
    tasks: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    scaling: Mapping[str, Scaling] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.X.num_rows)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self):,} records, {self.X.num_columns} features, "
            f"labels {self.label_names}, groups {self.group_names})"
        )

    def take(self, rows: NDArray[Any]) -> Dataset:
        """Return some of the records."""
        rows = np.asarray(rows)
        return replace(
            self,
            X=self.X.take(pa.array(rows)),
            y=self.y[rows],
            s=self.s[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            tasks={name: values[rows] for name, values in self.tasks.items()},
        )

    def sample(self, n: int, seed: int = 0) -> Dataset:
        """Return a random sample of at most n records; whole clusters where there are any."""
        if n >= len(self):
            return self
        rng = np.random.default_rng(seed)
        if self.clusters is None:
            return self.take(np.sort(rng.choice(len(self), n, replace=False)))
        names, member = np.unique(self.clusters, return_inverse=True)
        order = rng.permutation(len(names))
        sizes = np.bincount(member)[order]
        chosen = np.zeros(len(names), dtype=bool)
        chosen[order[np.cumsum(sizes) <= n]] = True
        return self.take(np.flatnonzero(chosen[member]))

    def parts(self, shares: Mapping[str, float], seed: int = 0) -> dict[str, NDArray[np.int64]]:
        """Split the records at random into parts of these shares; clusters stay whole.

        (The published code splits Health by record, so that one patient's years land in different parts.)

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from certifare_research.datasets import Dataset
        >>> y = np.zeros(10, dtype=int)
        >>> d = Dataset(name="ten", X=pa.table({"x": range(10)}), y=y, s=y, label_names=("0",), group_names=("0",))
        >>> {name: len(rows) for name, rows in d.parts({"train": 0.7, "test": 0.3}).items()}
        {'train': 7, 'test': 3}
        """
        rng = np.random.default_rng(seed)
        units = np.arange(len(self)) if self.clusters is None else np.unique(self.clusters, return_inverse=True)[1]
        n_units = int(units.max()) + 1 if len(units) else 0
        place = rng.permutation(n_units) / max(n_units, 1)
        ends = np.cumsum([0.0, *shares.values()])
        ends[-1] = np.inf
        return {
            name: np.flatnonzero((place[units] >= ends[i]) & (place[units] < ends[i + 1])).astype(np.int64)
            for i, name in enumerate(shares)
        }

    def design(self) -> Design:
        """Return a design matrix for this data set's columns, to be fitted on training records."""
        return Design(self.categorical, self.scaling)

    def repeated(self, times: int) -> Dataset:
        """Return every record several times (the paper's study of data size)."""
        return self if times == 1 else self.take(np.repeat(np.arange(len(self)), times))
