"""Find the best split of a node from its histogram.

For any column, a split is a cut of an ordering of the codes that occur in the node: codes before the cut go left, the
others right. Continuous columns have their natural order, with missing values last or first.
Categorical columns have several orders: the paper's, and the directional ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from certifare.errors import ArgumentError
from certifare.foundation.compiler import kernel
from certifare.growth.binning import Bins, ContinuousBins
from certifare.growth.criterion import Criterion, Terms
from certifare.growth.histograms import Histogram

TOLERANCE = 1e-12
"""Gains per record that differ by at most this are equal, and a gain must exceed it to count."""

ON_THE_LINE = 1e-6
"""A child that differs by fewer records from the groups' overall shares is on neither side of them."""

QUANTILES = (1, 2, 4)
"""The paper's orderings: numbers of parts by group share into which categories are cut before they are interleaved."""

N_ANGLES = 16
"""Number of directional orderings."""

SHRINKAGE = 5.0
"""Directional orderings smooth each category with this many records that are like the node's average."""

Orderings: TypeAlias = Literal["paper", "directional", "both"] | tuple[Literal["paper", "directional"], ...]


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a node's records.

    - ``goes_left`` (codes,): for every code of the column, whether it goes left. Codes that the node never saw go where
      more of its records go (left if equal), except that continuous codes follow the threshold.
    - ``threshold``: continuous columns: codes up to this one go left; ``goes_left`` decides for the missing code.
    - ``gain``: decrease of the criterion, weighted by the node's share of all records.
    - ``left_count``, ``right_count``: training records on each side.
    """

    node: int
    column: int
    goes_left: NDArray[np.bool_]
    threshold: int | None
    gain: float
    left_count: int
    right_count: int


class SplitSearch:
    """Finds the best split of a histogram.

    The largest gain wins. Among equal ones (up to `TOLERANCE` per record) the first wins: first column, then first
    ordering (missing right before missing left; the paper's by number of parts, then the directional by angle), then
    smallest cut.

    - ``classes`` (classes,): all records by class. A node's share of them weights its gain, and splits cross the
      groups' shares in them.
    - ``min_cell_size``: each side of a split holds at least this many records.
    - ``orderings``: {"paper", "directional", "both"} or tuple of these
    - ``n_angles``, ``shrinkage``: of the directional orderings.
    """

    def __init__(
        self,
        bins: Sequence[Bins],
        criterion: Criterion,
        *,
        classes: NDArray[np.int64],
        min_cell_size: int,
        orderings: Orderings = "both",
        n_angles: int = N_ANGLES,
        shrinkage: float = SHRINKAGE,
    ) -> None:
        names = _names(orderings)
        angles = np.pi * (np.arange(n_angles) / n_angles - 0.5) if "directional" in names else np.zeros(0)
        # Rounded, so that platform-dependent last digits do not matter.
        self._directions = np.cos(angles).round(12)[:, None], np.sin(angles).round(12)[:, None]
        self._quantiles = QUANTILES if "paper" in names else ()
        self._shrinkage = shrinkage
        self._terms = criterion.terms()
        self._weights = csr_array(self._terms.weights)
        self._continuous = np.array([isinstance(b, ContinuousBins) for b in bins])
        self._categorical = np.flatnonzero(~self._continuous)
        self._n_records = int(classes.sum())
        self._min_cell_size = min_cell_size
        self._overall = _overall(self._terms, classes) if criterion.charge == "crossing" else np.zeros(0)

    def best(self, node: int, histogram: Histogram) -> Split | None:
        """Find the split with the largest gain; None if no split is possible or none gains."""
        terms, offsets = self._terms, histogram.offsets
        # Only codes that occur in the node are looked at.
        present = np.flatnonzero(histogram.counts.sum(axis=0) > 0)
        if not len(present):
            return None
        ends = np.searchsorted(present, offsets)
        sums = self._weights @ histogram.counts.take(present, axis=1).astype(np.float64)
        if terms.n_coordinates:
            last = terms.n_strata + terms.n_label_axes
            sums[last - terms.n_coordinates : last] = histogram.sums[:, present]
        totals = sums[:, : ends[1]].sum(axis=1)
        with_missing = present[ends[1:] - 1] == offsets[1:] - 1
        order, spans = self._orderings(sums, totals, ends, with_missing)
        room = np.empty((len(sums), np.diff(ends).max()))
        which, cut, gain, left_count = _search(
            sums, totals, order, spans, terms.coefficients, terms.stratum_of, self._overall, self._min_cell_size, room
        )
        if which < 0:
            return None
        column, first, stop, first_cut = spans[which].tolist()
        start, n_codes = offsets[column], offsets[column + 1] - offsets[column]
        codes = present[order[first:stop]] - start
        right_count = int(totals[0] - left_count)
        goes_left = np.full(n_codes, left_count >= right_count)
        goes_left[codes[: cut + 1]], goes_left[codes[cut + 1 :]] = True, False
        threshold = None
        if self._continuous[column]:
            # A cut between all values and the missing ones is a threshold above all values.
            only_missing = first_cut == 0 and codes[cut + 1] == n_codes - 1
            threshold = int(n_codes - 2 if only_missing else codes[cut])
            goes_left[:-1] = np.arange(n_codes - 1) <= threshold
        return Split(node, column, goes_left, threshold, gain / self._n_records, int(left_count), right_count)

    def _orderings(
        self,
        sums: NDArray[np.float64],
        totals: NDArray[np.float64],
        ends: NDArray[np.int64],
        with_missing: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """List the orderings of all columns, one behind the other; and of each its column, its ends and its first cut.

        Codes are positions among those that occur; ``ends`` has the first of each column.
        """
        first, sizes = ends[:-1], np.diff(ends)
        natural = np.flatnonzero(self._continuous & (sizes > 1))
        length = int(ends[-1])
        orders = [np.arange(length)]
        spans = [np.stack([natural, first[natural], ends[natural + 1], np.zeros_like(natural)], axis=1)]
        for column in np.flatnonzero(self._continuous & with_missing & (sizes > 2)).tolist():
            orders.append(np.roll(orders[0][ends[column] : ends[column + 1]], 1))  # missing values first
            spans.append(np.array([[column, length, length + sizes[column], 1]]))
            length += int(sizes[column])
        if len(self._categorical):
            column_of = np.repeat(np.arange(len(sizes)), sizes)
            codes = np.flatnonzero(~self._continuous[column_of])
            found = self._sorted_categories(sums[:, codes], totals, column_of[codes])
            orders.append(codes[found].ravel())
            sizes = sizes[self._categorical]
            starts = length + np.cumsum(sizes) - sizes + np.arange(len(found))[:, None] * found.shape[1]
            columns, zeros = np.broadcast_to(self._categorical, starts.shape), np.zeros_like(starts)
            spans.append(np.stack([columns, starts, starts + sizes, zeros], axis=2).reshape(-1, 4))
        table = np.concatenate(spans)
        return np.concatenate(orders), table[np.argsort(table[:, 0], kind="stable")]

    def _sorted_categories(
        self, sums: NDArray[np.float64], totals: NDArray[np.float64], column_of: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Order the codes of all categorical columns, column by column: (orderings, codes)."""
        shares, positions = category_keys(self._terms, sums, totals, column_of, self._shrinkage)
        cosines, sines = self._directions
        orders = _sort(np.vstack([shares, cosines * positions[0] + sines * positions[1]]), column_of)
        return np.vstack([*_interleave(orders[0], orders[1], column_of, self._quantiles), orders[2:]])


def category_keys(
    terms: Terms,
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    column_of: NDArray[np.int64],
    shrinkage: float = SHRINKAGE,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute what sorts the codes of categorical columns: the paper's p_y and p_s; the position by label and by group.

    Codes are those that occur, with the column of each. A position is the smoothed deviation from the node's average,
    along the direction in which codes of the column vary most where there are several axes.
    """
    size = sums[0]
    per_record = 1.0 / (size + shrinkage)
    label_axes = slice(terms.n_strata, terms.n_strata + terms.n_label_axes)
    labels = (sums[label_axes] - (totals[label_axes] / totals[0])[:, None] * size) * per_record
    # Groups are compared in stratum 0 if it is the only one, else in the others.
    strata = slice(min(1, terms.n_strata - 1), terms.n_strata)
    known = totals[strata] > 0.0
    of_stratum, node_sizes = sums[strata][known], totals[strata][known]
    of_axis = sums[label_axes.stop : -1].reshape(len(known), terms.n_group_axes, len(size))[known]
    of_node = totals[label_axes.stop : -1].reshape(len(known), terms.n_group_axes)[known]
    excess = of_axis - (of_node / node_sizes[:, None])[:, :, None] * of_stratum[:, None]
    groups = excess.sum(axis=0) * per_record
    code_size = of_stratum.sum(axis=0)
    average = of_node[:, -1:].sum() / max(node_sizes.sum(), 1.0)
    p_y = sums[-1] / size
    p_s = np.where(code_size > 0.0, of_axis[:, -1:].sum(axis=(0, 1)) / np.maximum(code_size, 1.0), average)
    positions = np.vstack([labels, groups])
    if len(positions) != 2:
        weights = np.sqrt(np.maximum(terms.coefficients[: terms.n_label_axes, None], 0.0))
        labels = labels * (weights if weights.any() else 1.0)
        positions = np.stack([_along_main_axis(side, size, column_of) for side in (labels, groups)])
        if terms.n_group_axes > 1:
            p_s = positions[1]
    return np.stack([p_y, p_s]), positions


def _overall(terms: Terms, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of each axis in its stratum, among all records."""
    sums = terms.weights @ classes
    axes = sums[terms.n_strata : terms.n_strata + len(terms.coefficients)]
    shares: NDArray[np.float64] = axes / np.maximum(sums[: terms.n_strata][terms.stratum_of], 1.0)
    return shares


def _along_main_axis(
    points: NDArray[np.float64], sizes: NDArray[np.float64], column_of: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the positions of codes (axes × codes) along the direction of greatest variance in each column."""
    positions: NDArray[np.float64] = points.sum(axis=0)
    if len(points) < 2:
        return positions
    ends = np.flatnonzero(np.diff(column_of, prepend=-1, append=-1))
    for codes in map(slice, ends, ends[1:]):
        of_column = points[:, codes]
        _, vectors = np.linalg.eigh((of_column * sizes[codes]) @ of_column.T)
        axis = vectors[:, -1]
        # The sign of an eigenvector is arbitrary; its largest component is made positive.
        positions[codes] = (axis * np.sign(axis[np.argmax(np.abs(axis))])) @ of_column
    return positions


def _names(orderings: Any) -> tuple[str, ...]:
    names = (orderings,) if isinstance(orderings, str) else tuple(orderings)
    if names == ("both",):
        return ("paper", "directional")
    if not names or not set(names) <= {"paper", "directional"}:
        raise ArgumentError(f"orderings is {orderings!r}; give 'paper', 'directional' or 'both'.")
    return names


def _sort(keys: NDArray[np.float64], column_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort the codes of each column by each row of keys; equal ones keep their order."""
    order = np.argsort(keys, axis=1, kind="stable")
    by_column = np.argsort(column_of[order].astype(np.uint16), axis=1, kind="stable")
    return np.take_along_axis(order, by_column, axis=1)


def _interleave(
    by_label: NDArray[np.int64], by_group: NDArray[np.int64], column_of: NDArray[np.int64], quantiles: Sequence[int]
) -> list[NDArray[np.int64]]:
    """Order as in the paper: parts by group share, each sorted by label; one of each in turn, highest first."""
    here, sizes = np.arange(len(column_of)), np.bincount(column_of)
    first, n = (np.cumsum(sizes) - sizes)[column_of], sizes[column_of]  # of each code's column
    rank = np.empty_like(here)
    rank[by_group] = here - first
    orders = []
    for parts in quantiles:
        part = ((rank + 1) * parts - 1) // n  # part j has the ranks from ⌊j·n/parts⌋ on
        order = by_label[np.lexsort((part[by_label], column_of))]
        part = part[order]
        turn = here - first - part * n // parts
        orders.append(order[np.lexsort((-part, turn, column_of))])
    return orders


@kernel
def _search(
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    order: NDArray[np.int64],
    spans: NDArray[np.int64],
    coefficients: NDArray[np.float64],
    stratum_of: NDArray[np.int64],
    overall: NDArray[np.float64],
    min_size: int,
    room: NDArray[np.float64],
) -> tuple[int, int, float, float]:
    """Return the ordering with the best cut (-1: none), the cut, its gain times records, and the records on its left.

    Cut i sends the first i + 1 codes of an ordering left. Let a stratum have N records, N_L and N_R of them in the
    children, π be the share of an axis in it, and D the left child's excess of the axis over N_L·π. The axis gains
    coefficient · D² · N/(N_L·N_R), the increase of its Σp² times records. If ``overall`` gives the axes' shares among
    all records, a group axis counts only if one child has more of it than that and the other less. ``room`` is a work
    array: sums on the left of each cut, then gains.
    """
    n, n_axes = totals[0], len(coefficients)
    n_strata = len(sums) - 1 - n_axes
    gains = room[len(sums) - 1]
    best_order, best_cut, best_gain, best_left = -1, -1, 0.0, 0.0
    for which in range(len(spans)):
        first, stop, low = spans[which, 1], spans[which, 2], spans[which, 3]
        high = stop - first - 1
        for a in range(len(sums) - 1):
            running = 0.0
            for i in range(stop - first):
                running += sums[a, order[first + i]]
                room[a, i] = running
        while low < high and room[0, low] < min_size:
            low += 1
        while low < high and n - room[0, high - 1] < min_size:
            high -= 1
        for i in range(low, high):
            gains[i] = 0.0
        for a in range(n_axes):
            coefficient, stratum = coefficients[a], stratum_of[a]
            axis, here = n_strata + a, totals[stratum]
            share = totals[axis] / here if here > 0.0 else 0.0
            for i in range(low, high):
                left = room[stratum, i]
                beyond, product = room[axis, i] - share * left, left * (here - left)
                rise = here * beyond * beyond / product if product > 0.0 else 0.0
                if len(overall) > 0 and coefficient < 0.0:
                    mine = room[axis, i] - overall[a] * left
                    other = totals[axis] - overall[a] * here - mine
                    if not (min(mine, other) < -ON_THE_LINE and max(mine, other) > ON_THE_LINE):
                        rise = 0.0
                gains[i] += coefficient * rise
        largest, cut = -np.inf, -1
        for i in range(low, high):
            if gains[i] > largest + TOLERANCE * n:
                largest, cut = gains[i], i
        if largest > best_gain + TOLERANCE * n:
            best_order, best_cut, best_gain, best_left = which, cut, largest, room[0, cut]
    return best_order, best_cut, best_gain, best_left
