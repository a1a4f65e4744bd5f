"""Choose plans along one score: places of records between the groups' own order and the common one, cut into cells.

A record's *place* is (1 − θ) · (its rank within its group) + θ · (its rank among all records), by out-of-fold scores of
training records. With θ = 0 every cell has the same share of every group; θ > 0 spends distance on the order between
groups. For each θ a dynamic programme cuts the places into cells. It weighs the loss of information about the label
against Σ √(π(1 − π)) over the cells' shares π, which is what T* grows with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.calibrated import most_cells
from certifare.encoders.plans import GapPlan, PlanPath, round_to_gaps
from certifare.errors import EncoderError

#: Places are cut between this many bins.
BINS = 64
#: Mixtures of own and common rank: fine near 0, where most of a small target is spent.
THETAS = tuple((np.arange(49) / 48) ** 2)
#: Prices of a cell's √(π(1 − π)), in units of the loss per record.
PRICES = np.geomspace(1e-5, 0.3, 28)
#: If a group has fewer certification records, there are also plans with each of these numbers of cells at each of these
#: prices: the others step over most masses that few cells can have.
FEW_RECORDS, FEW_CELLS = 2_000, range(2, 9)
FEW_PRICES = np.geomspace(1e-3, 10.0, 28)
#: With fewer training records than this, plans are made and compared by how likely the label is at each score.
FEW_LABELS = 5_000


@dataclass(frozen=True, eq=False)
class ScoredRecords:
    """Training records as plans along one score see them.

    - ``scores``: out of fold.
    - ``ties``: uniform numbers that put equal scores in order.
    - ``groups``, ``labels``: codes of each record.
    - ``counted``: the records that the metric is about: all, or those with the positive label.
    """

    scores: NDArray[np.float64]
    ties: NDArray[np.float64]
    groups: NDArray[np.int64]
    labels: NDArray[np.int64]
    counted: NDArray[np.bool_]
    n_groups: int
    n_classes: int

    def falls(self) -> bool:
        """Say whether the second of two labels goes with low scores."""
        _, common = self.ranks()
        return bool(common[self.labels == 1].mean() < common[self.labels == 0].mean())

    def expected(self) -> NDArray[np.float64] | None:
        """Return how likely each label is at each record's score, if records are few; None if labels say it better.

        The second of two labels becomes ever more likely, and equal scores are alike.
        """
        from scipy.optimize import isotonic_regression

        if len(self.scores) >= FEW_LABELS or self.n_classes != 2:
            return None
        _, place, n = np.unique(self.scores, return_inverse=True, return_counts=True)
        second = isotonic_regression(np.bincount(place, weights=self.labels) / n, weights=n).x[place]
        return np.column_stack([1.0 - second, second])

    def ranks(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each record's rank among the counted records of its group, and among all counted ones, in [0, 1]."""
        order = np.lexsort((self.ties, self.scores))
        counted = self.counted[order].astype(np.float64)
        own, common = np.empty(len(order)), np.empty(len(order))
        common[order] = (np.cumsum(counted) - counted / 2) / max(counted.sum(), 1.0)
        for group in range(self.n_groups):
            here = self.groups[order] == group
            of_group = counted[here]
            own[order[here]] = (np.cumsum(of_group) - of_group / 2) / max(of_group.sum(), 1.0)
        return own, common


def plan_along(
    records: ScoredRecords, sizes: NDArray[np.int64], utility: str = "information", max_cells: int = BINS
) -> Iterator[PlanPath]:
    """Yield plans along one score, a path for each θ, for certification samples of these sizes by group."""
    own, common = records.ranks()
    expected = records.expected()
    most = int(min(max_cells, sizes.min() + 1, most_cells(len(sizes))))
    for theta in THETAS:
        place = (1.0 - theta) * own + theta * common
        edges = np.unique(np.quantile(place, np.arange(1, BINS) / BINS))
        bins = np.searchsorted(edges, place, side="left")
        n_bins = len(edges) + 1
        likely = None if expected is None else _sums(bins, expected, n_bins)
        labels = _monotone(_table(bins, records.labels, n_bins, records.n_classes) if likely is None else likely)
        groups = _table(bins[records.counted], records.groups[records.counted], n_bins, records.n_groups)
        loss, size = _losses(labels, groups, utility)
        kinds: list[Iterable[NDArray[np.int64]]] = [_cuts(loss, size)]
        if theta == 0.0 and sizes.min() < FEW_RECORDS:
            kinds += _cuts_into_few(loss, size)
        for cuts in kinds:
            path = PlanPath(float(theta), bins.astype(np.int32), {}, {}, likely)
            for starts in cuts:
                k = len(starts)
                if 2 <= k <= most and k not in path.plans:
                    shares = np.add.reduceat(groups, starts, axis=0) / groups.sum(axis=0)
                    path.starts[k], path.plans[k] = starts, GapPlan.along(round_to_gaps(shares, sizes + 1))
            yield path


def plan_without_label(
    scores: NDArray[np.float64],
    ties: NDArray[np.float64],
    groups: NDArray[np.int64],
    sizes: NDArray[np.int64],
    max_cells: int,
    shares: Sequence[float] | None = None,
) -> Iterator[PlanPath]:
    """Yield plans whose cells hold equal shares of every group, one for each number of cells; or the shares given.

    No score decides about a plan. ``scores``, ``ties`` and ``groups`` say which records a cell is described by.
    """
    everyone = np.ones(len(scores), dtype=bool)
    own, _ = ScoredRecords(scores, ties, groups, groups, everyone, len(sizes), 1).ranks()
    most = int(min(max_cells, BINS, sizes.min() + 1, most_cells(len(sizes))))
    for wanted in [np.full(k, 1 / k) for k in range(2, most + 1)] if shares is None else [_checked(shares, most)]:
        k = len(wanted)
        cells = np.searchsorted(wanted.cumsum()[:-1], own, side="left")
        gaps = round_to_gaps(np.repeat(wanted[:, None], len(sizes), axis=1), sizes + 1)
        yield PlanPath(0.0, cells, {k: np.arange(k)}, {k: GapPlan.along(gaps)})


def _checked(shares: Sequence[float], most: int) -> NDArray[np.float64]:
    """Return shares of cells as an array; refuse what adds up to something else than 1."""
    found = np.asarray(shares, dtype=np.float64)
    if found.ndim != 1 or not 2 <= len(found) <= most or not (found > 0.0).all() or abs(found.sum() - 1.0) > 1e-9:
        raise EncoderError(f"shares={list(shares)}: give 2 to {most} positive numbers that add up to 1.")
    return found


def _table(rows: NDArray[np.int64], columns: NDArray[np.int64], n_rows: int, n_columns: int) -> NDArray[np.int64]:
    return np.bincount(rows * n_columns + columns, minlength=n_rows * n_columns).reshape(n_rows, n_columns)


def _sums(rows: NDArray[np.int64], values: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
    sums = [np.bincount(rows, weights=column, minlength=n_rows) for column in values.T]
    return np.column_stack(sums).astype(np.float64)


def _monotone(counts: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Smooth the counts of two classes, so that the second becomes ever more likely: by place, the rest is noise."""
    from scipy.optimize import isotonic_regression

    sizes = counts.sum(axis=1)
    if counts.shape[1] != 2:
        return counts.astype(np.float64)
    second = isotonic_regression(counts[:, 1] / np.maximum(sizes, 1), weights=np.maximum(sizes, 1e-9)).x
    return np.column_stack([sizes * (1.0 - second), sizes * second])


def lost(counts: NDArray[np.float64], utility: str) -> NDArray[np.float64]:
    """Return what each cell loses if it forecasts its own shares, from its counts of each class (the last axis)."""
    size = counts.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if utility == "accuracy":
            loss = size - counts.max(axis=-1)
        elif utility == "explained":
            loss = size - (counts**2).sum(axis=-1) / size
        else:
            loss = -np.where(counts > 0, counts * np.log(counts / size[..., None]), 0.0).sum(axis=-1)
    found: NDArray[np.float64] = np.nan_to_num(loss)
    return found


def explained(table: NDArray[np.float64], utility: str, of_chance: float = 1.0) -> float:
    """Return the share of a loss that cells explain, less what chance lets them seem to; or the share told right.

    ``of_chance``: how much of that is taken off.
    """
    n, within, whole = table.sum(), lost(table, utility).sum(), float(lost(table.sum(axis=0), utility))
    if utility == "accuracy":
        return float(1.0 - within / n)
    chance = (len(table) - 1) * (whole / n if utility == "explained" else table.shape[1] - 1)
    return float(1.0 - (within + of_chance * chance) / whole)


def expected_share(path: PlanPath, k: int, utility: str) -> float | None:
    """Return the share of the label's loss that k cells are expected to explain; None if labels are counted.

    Half of what chance seems to explain is taken off: what they lose who learn the cells' shares from as many records.
    """
    if path.likely is None:
        return None
    return explained(np.add.reduceat(path.likely, path.starts[k], axis=0), utility, 0.5)


def _losses(
    labels: NDArray[np.float64], groups: NDArray[np.int64], utility: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the loss of a cell of the bins from each first to each last one, and its √(π(1 − π)); last bin first."""
    n = len(labels)
    below = np.concatenate([np.zeros((1, labels.shape[1])), labels.cumsum(axis=0)])
    counts = below[None, :] - below[:, None]  # of the bins from the first index up to the second
    # What another cell seems to gain by chance, and loses on other records.
    loss = (lost(counts, utility) + labels.shape[1] - 1) / max(below[-1].sum(), 1.0)
    shares = np.concatenate([np.zeros((1, groups.shape[1])), groups.cumsum(axis=0)]) / groups.sum(axis=0)
    share = (shares[None, :] - shares[:, None]).mean(axis=2).clip(0.0, 1.0)
    usable = np.triu(np.ones((n + 1, n + 1), dtype=bool), 1) & (share > 0)
    return np.where(usable, loss, np.inf).T, np.sqrt(share * (1.0 - share)).T


def _cuts(loss: NDArray[np.float64], size: NDArray[np.float64]) -> Iterator[NDArray[np.int64]]:
    """Yield, for each price, the first bins of the runs that lose least."""
    n = len(loss) - 1
    cost = loss[:, :, None] + size[:, :, None] * PRICES  # by last bin, first bin and price
    least = np.full((n + 1, len(PRICES)), np.inf)
    least[0] = 0.0
    origin = np.zeros((n + 1, len(PRICES)), dtype=np.int64)
    for end in range(1, n + 1):
        total = least[:end] + cost[end, :end]
        origin[end] = total.argmin(axis=0)
        least[end] = total[origin[end], np.arange(len(PRICES))]
    for column in range(len(PRICES)):
        if not np.isfinite(least[n, column]):
            continue
        starts, end = [], n
        while end > 0:
            end = int(origin[end, column])
            starts.append(end)
        yield np.array(starts[::-1], dtype=np.int64)


def _cuts_into_few(loss: NDArray[np.float64], size: NDArray[np.float64]) -> list[list[NDArray[np.int64]]]:
    """Return, for each price, the first bins of the runs that lose least with each number of cells, each run once."""
    cost = loss[:, :, None] + size[:, :, None] * FEW_PRICES
    least, origins, seen = np.where(np.arange(len(loss)) == 0, 0.0, np.inf)[:, None], [], set()
    found: list[list[NDArray[np.int64]]] = [[] for _ in FEW_PRICES]
    for k in range(1, FEW_CELLS.stop):
        total = cost + least
        origins.append(total.argmin(axis=1))
        least = total.min(axis=1)
        for column in np.flatnonzero(np.isfinite(least[-1])) if k in FEW_CELLS else ():
            starts = [len(loss) - 1]
            for origin in reversed(origins):
                starts.append(int(origin[starts[-1], column]))
            run = tuple(starts[:0:-1])
            if run not in seen:
                seen.add(run)
                found[column].append(np.array(run, dtype=np.int64))
    return [runs for runs in found if runs]
