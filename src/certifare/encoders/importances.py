"""Feature importance: the loss of predictive power, and of distance, when a column is shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from certifare.errors import ArgumentError, EncoderError
from certifare.foundation.levels import Levels, intersect
from certifare.foundation.randomness import stream
from certifare.tables.frames import Frame, check_lengths, read_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from certifare.encoders.base import RestrictedEncoder


@dataclass(frozen=True, slots=True)
class Importance:
    """The loss when one column is shuffled."""

    column: str
    explained: float  # how much less of the label the cells explain
    distance: float  # how much smaller the distance between the groups is. Below 0: the column made it smaller


@dataclass(frozen=True, slots=True)
class Importances:
    """Importance of all columns. Made by ``encoder.importances``.

    - ``explained``: share of the label's spread (Gini impurity) that the cells explain; the mean over several labels.
    - ``distance``: distance between the groups in these records, of the worst classifier on the cells; the largest over
      pairs.
    - ``columns``: from what matters most, for the label or the distance, to what matters least.
    """

    explained: float
    distance: float
    columns: tuple[Importance, ...]
    records: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{'':24}{'label':>8}{'distance':>10}",
            f"{'with all columns':24}{self.explained:>8.3f}{self.distance:>10.3f}",
        ]
        lines += [f"{c.column[:23]:24}{-c.explained:>+8.3f}{-c.distance:>+10.3f}" for c in self.columns]
        return "\n".join(lines)


def find_importances(
    encoder: RestrictedEncoder,
    X: Any,
    y: Any,
    sensitive_features: Any = None,
    *,
    repeats: int = 5,
    seed: int = 0,
) -> Importances:
    """Shuffle each column, and measure the cells again (``encoder.importances``)."""
    check_is_fitted(encoder)
    if repeats < 1:
        raise ArgumentError(f"repeats={repeats}: give a number of shuffles, at least 1.")
    frame = Frame(X)
    groups = encoder.sensitive_features_in(X) if sensitive_features is None else sensitive_features
    by_group = encoder.reads_groups and encoder.sensitive is None
    codes = encoder.read_group_codes(frame, groups if by_group else None)
    fields = encoder.read_fields(frame)
    labels = [field.levels() for field in read_values(y, "label")]
    group = intersect([field.levels() for field in read_values(groups, "group")])
    check_lengths({"X": len(frame), "sensitive_features": len(group)} | {label.name: len(label) for label in labels})
    if len(group.values) < 2:
        raise EncoderError("All records have one group: a distance between groups needs two.")
    measure = _Measure(encoder.n_cells_, labels, group)
    explained, distance = measure(encoder.find_cells(fields, codes))
    found = []
    for i, field in enumerate(fields):
        if field.name == encoder.identifier:
            continue
        drawn = [stream(seed, "importances", f"{i} {r}").permutation(len(frame)) for r in range(repeats)]
        shuffled = [
            measure(encoder.find_cells([*fields[:i], field.take(rows), *fields[i + 1 :]], codes)) for rows in drawn
        ]
        lost, gone = np.array([explained, distance]) - np.mean(shuffled, axis=0)
        found.append(Importance(field.name, float(lost), float(gone)))
    # Both are shares; a column that matters for one of them matters.
    found.sort(key=lambda column: -max(abs(column.explained), abs(column.distance)))
    return Importances(explained, distance, tuple(found), len(frame))


class _Measure:
    """Counts of labels and groups by cell, of one set of records."""

    def __init__(self, n_cells: int, labels: Sequence[Levels], groups: Levels) -> None:
        self._n_cells, self._labels, self._groups = n_cells, labels, groups

    def __call__(self, cells: NDArray[np.int32]) -> tuple[float, float]:
        explained = [_explained(self._count(cells, label)) for label in self._labels]
        table = self._count(cells, self._groups)
        shares = table / np.maximum(table.sum(axis=0), 1)
        pairs = combinations(range(shares.shape[1]), 2)
        distances = [float(np.maximum(shares[:, a] - shares[:, b], 0.0).sum()) for a, b in pairs]
        return float(np.mean(explained)), max(distances)

    def _count(self, cells: NDArray[np.int32], levels: Levels) -> NDArray[np.int64]:
        known = levels.codes >= 0
        n = len(levels.values)
        flat = cells[known].astype(np.int64) * n + levels.codes[known]
        return np.bincount(flat, minlength=self._n_cells * n).reshape(self._n_cells, n)


def _explained(table: NDArray[np.int64]) -> float:
    """Return the explained share of a label: 1 minus the mean impurity of cells over that of all records."""
    sizes = np.maximum(table.sum(axis=1), 1)
    total = table.sum()
    whole = 1.0 - ((table.sum(axis=0) / max(total, 1)) ** 2).sum()
    within = (sizes - (table**2).sum(axis=1) / sizes)[table.sum(axis=1) > 0].sum() / max(total, 1)
    return float(1.0 - within / whole) if whole > 0 else 0.0
