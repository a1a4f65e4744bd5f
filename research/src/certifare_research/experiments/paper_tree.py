"""Trees for equal opportunity and equalized odds by the paper's criterion, which certifare's own growth does not have.

The paper weighs Gini_s of the records with a label by *all* records of a child; certifare weighs it by the records
with that label, so that no split is paid for telling groups apart. Columns are numbers here (Health); of a category's
values, each is tried against the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 256
_EPSILON = float(np.finfo(np.float64).eps)


def fair_gini(counts: NDArray[Any], gamma: float, metric: str) -> NDArray[np.float64]:
    """FairGini of (…, label, group) counts; NaN where it is about records that are not there."""
    n = counts.sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        labels = 1 - ((counts.sum(-1) / n[..., None]) ** 2).sum(-1)
        per_label = counts.sum(-1)
        groups = 1 - ((counts / per_label[..., None]) ** 2).sum(-1)
        worst = groups[..., 1] if metric == "equal_opportunity" else (groups * per_label).sum(-1) / n
    result: NDArray[np.float64] = (1 - gamma) * labels + gamma * (0.5 - worst)
    return result


@dataclass(frozen=True)
class _Split:
    gain: float
    cell: int
    column: int
    left: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PaperTree:
    """Splits in the order in which they were made; the right child of split i is cell i + 1."""

    splits: tuple[_Split, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.splits) + 1

    def apply(self, bins: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the cell of each record."""
        cells = np.zeros(len(bins), dtype=np.int64)
        for i, split in enumerate(self.splits):
            own = np.flatnonzero(cells == split.cell)
            cells[own[~split.left[bins[own, split.column]]]] = i + 1
        return cells

    def merged(self, k: int) -> NDArray[np.int64]:
        """For each cell, its cell in the tree with k cells."""
        to = np.arange(self.n_cells)
        for i in range(k, self.n_cells):
            to[i] = to[self.splits[i - 1].cell]
        return to


def grow(
    bins: NDArray[np.uint8],
    y: NDArray[np.integer[Any]],
    s: NDArray[np.integer[Any]],
    *,
    gamma: float,
    metric: str,
    max_cells: int,
    min_cell_size: int,
    categories: tuple[int, ...] = (),
) -> PaperTree:
    """Grow best first, as the paper does: the split that lowers FairGini most, weighed by records, comes next."""
    n, d = bins.shape
    flat = (np.arange(d) * BINS)[None] + bins
    classes = 2 * y + s
    rows: dict[int, NDArray[np.int64]] = {0: np.arange(n)}

    def search(cell: int) -> _Split | None:
        own = rows[cell]
        if len(own) < 2 * min_cell_size:
            return None
        index = flat[own] * 4 + classes[own][:, None]
        table = np.bincount(index.ravel(), minlength=d * BINS * 4).reshape(d, BINS, 2, 2)
        total = table[0].sum(0)
        impurity = float(fair_gini(total, gamma, metric))
        if not impurity > _EPSILON:
            return None
        left = table.cumsum(1)
        left[list(categories)] = table[list(categories)]
        right = total - left
        sizes = left.sum((-2, -1))
        others = len(own) - sizes
        children = sizes * fair_gini(left, gamma, metric) + others * fair_gini(right, gamma, metric)
        gains = np.where(
            (sizes >= min_cell_size) & (others >= min_cell_size) & ~np.isnan(children),
            (len(own) * impurity - children) / n,
            -np.inf,
        )
        column, at = divmod(int(gains.argmax()), BINS)
        if not gains[column, at] >= -_EPSILON:
            return None
        where = np.arange(BINS)
        return _Split(float(gains[column, at]), cell, column, where == at if column in categories else where <= at)

    waiting = {0: search(0)}
    made: list[_Split] = []
    while len(made) + 1 < max_cells:
        best = max((split for split in waiting.values() if split is not None), key=lambda c: c.gain, default=None)
        if best is None:
            break
        made.append(best)
        own = rows[best.cell]
        goes_left = best.left[bins[own, best.column]]
        rows[best.cell], rows[len(made)] = own[goes_left], own[~goes_left]
        waiting |= {cell: search(cell) for cell in (best.cell, len(made))}
    return PaperTree(tuple(made))


def binned(values: NDArray[np.float64], known: NDArray[Any]) -> NDArray[np.uint8]:
    """Replace each column's values by their rank; more than 256 are cut at quantiles of the known records."""
    columns = []
    for column in values.T:
        distinct = np.unique(column[known])
        if len(distinct) > BINS:
            distinct = np.unique(np.quantile(column[known], np.linspace(0, 1, BINS), method="lower"))
        columns.append(np.searchsorted(distinct, column).clip(max=BINS - 1).astype(np.uint8))
    return np.stack(columns, axis=1)
