"""Find the best split of a node from its histogram.

For any column, a split is a cut of an ordering of the codes that occur in the node: codes before the cut go left, the
others right. Continuous columns have their natural order, with missing values last or first.
Categorical columns have several orders: the paper's, and the directional ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError
from certifare.foundation.compiler import helper, kernel
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

INSERTION_ONLY = 48
"""Up to this many codes, insertion sort alone is the fastest."""

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


class Room(NamedTuple):
    """Arrays in which a kernel orders the codes of a node: kernels that allocate arrays take longer to compile."""

    order: NDArray[np.int64]
    by_label: NDArray[np.int64]
    rank: NDArray[np.int64]
    spare: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, n_codes: int) -> "Room":
        """Allocate arrays for this many codes."""
        return cls(*np.empty((5, max(n_codes, 257)), dtype=np.int64))


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
        self._quantiles = np.array(QUANTILES if "paper" in names else (), dtype=np.int64)
        self._shrinkage = shrinkage
        self._terms = criterion.terms()
        self._continuous = np.array([isinstance(b, ContinuousBins) for b in bins], dtype=np.bool_)
        self._categorical = np.flatnonzero(~self._continuous).tolist()
        self._n_records = int(classes.sum())
        self._min_cell_size = min_cell_size
        self._overall = _overall(self._terms, classes) if criterion.charge == "crossing" else None

    def best(self, node: int, histogram: Histogram) -> Split | None:
        """Find the split with the largest gain; None if no split is possible or none gains."""
        terms, offsets = self._terms, histogram.offsets
        sums, totals, keys = self._keys(histogram)
        n_codes = sums.shape[1]
        side = np.empty(n_codes, dtype=np.bool_)
        column, threshold, gain, left_count = _search(
            sums,
            totals,
            offsets,
            self._continuous,
            keys,
            self._quantiles,
            tuple(terms),
            self._overall,
            self._min_cell_size,
            tuple(Room.of(n_codes)),
            np.empty((terms.n_strata + len(terms.coefficients) + 1, n_codes)),
            side,
        )
        if column < 0:
            return None
        goes_left = side[offsets[column] : offsets[column + 1]].copy()
        return Split(
            node=node,
            column=column,
            goes_left=goes_left,
            threshold=threshold if self._continuous[column] else None,
            gain=gain / self._n_records,
            left_count=int(left_count),
            right_count=int(totals[0] - left_count),
        )

    def _keys(self, histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return sums and totals, and the keys that sort categories: p_y, p_s, then one row per direction."""
        sums, totals, shares, positions = tabulate(self._terms, histogram, self._categorical, self._shrinkage)
        cosines, sines = self._directions
        if not self._categorical:  # a score map has tens of thousands of codes, and sorts none of them
            return sums, totals, shares
        keys = np.zeros((2 + len(cosines), shares.shape[1]))
        keys[:2] = shares
        for codes in histogram.ranges(self._categorical):
            keys[2:, codes] = cosines * positions[0, codes] + sines * positions[1, codes]
        return sums, totals, keys


def tabulate(
    terms: Terms, histogram: Histogram, categorical: Sequence[int], shrinkage: float = SHRINKAGE
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Compute the sums and keys of each code that the search needs."""
    n_codes = histogram.counts.shape[1]
    sums, totals = np.empty((len(terms.weights), n_codes)), np.empty(len(terms.weights))
    shares, beyond = np.zeros((2, n_codes)), np.zeros((terms.n_label_axes + terms.n_group_axes, n_codes))
    coordinates = np.zeros((0, n_codes), dtype=np.int64)
    if terms.n_coordinates:
        coordinates = histogram.sums
    _tabulate(
        histogram.counts,
        coordinates,
        histogram.offsets,
        np.array(categorical, dtype=np.int64),
        tuple(terms),
        float(shrinkage),
        sums,
        totals,
        shares,
        beyond,
    )
    if not categorical or len(beyond) == 2:
        return sums, totals, shares, beyond[:2]
    ranges = histogram.ranges(categorical)
    weights = np.sqrt(np.maximum(terms.coefficients[: terms.n_label_axes, None], 0.0))
    labels = beyond[: terms.n_label_axes] * (weights if weights.any() else 1.0)
    groups = beyond[terms.n_label_axes :]
    positions = np.stack([_along_main_axis(labels, sums[0], ranges), _along_main_axis(groups, sums[0], ranges)])
    if terms.n_group_axes > 1:
        shares[1] = positions[1]
    return sums, totals, shares, positions


def _overall(terms: Terms, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of each axis in its stratum, among all records."""
    sums = terms.weights @ classes
    axes = sums[terms.n_strata : terms.n_strata + len(terms.coefficients)]
    shares: NDArray[np.float64] = axes / np.maximum(sums[: terms.n_strata][terms.stratum_of], 1.0)
    return shares


def _along_main_axis(
    points: NDArray[np.float64], sizes: NDArray[np.float64], ranges: Sequence[slice]
) -> NDArray[np.float64]:
    """Return the positions of codes (axes × codes) along the direction of greatest variance in each range of codes."""
    positions: NDArray[np.float64] = points.sum(axis=0)
    if len(points) < 2:
        return positions
    for codes in ranges:
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


@kernel
def _tabulate(
    counts: NDArray[np.int64],
    coordinates: NDArray[np.int64],
    offsets: NDArray[np.int64],
    categorical: NDArray[np.int64],
    terms: tuple[Any, ...],
    shrinkage: float,
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    shares: NDArray[np.float64],
    beyond: NDArray[np.float64],
) -> None:
    """Fill sums and totals, the paper's shares, and the deviation of each code from the node's average on each axis."""
    weights, _, _, n_strata, n_label_axes, n_group_axes, _ = terms
    n_sums, n_classes = weights.shape
    n_codes = counts.shape[1]
    for a in range(n_sums):
        for code in range(n_codes):
            sums[a, code] = 0.0
        for k in range(n_classes):
            weight = weights[a, k]
            if weight != 0.0:
                for code in range(n_codes):
                    sums[a, code] += weight * counts[k, code]
        coordinate = a - (n_strata + n_label_axes - len(coordinates))
        if 0 <= coordinate < len(coordinates):
            for code in range(n_codes):
                sums[a, code] = coordinates[coordinate, code]
        totals[a] = 0.0
        for code in range(offsets[0], offsets[1]):
            totals[a] += sums[a, code]

    # Groups are compared in stratum 0 if it is the only one, else in the others.
    first_stratum = 0 if n_strata == 1 else 1
    first_group = n_strata + n_label_axes
    for column in categorical:
        for code in range(offsets[column], offsets[column + 1]):
            size = sums[0, code]
            per_record = 1.0 / (size + shrinkage) if size > 0.0 else 0.0
            shares[0, code] = sums[n_sums - 1, code] / size if size > 0.0 else 0.0
            for a in range(n_label_axes):
                share = totals[n_strata + a] / totals[0] if totals[0] > 0.0 else 0.0
                beyond[a, code] = (sums[n_strata + a, code] - share * size) * per_record
            for g in range(n_group_axes):
                of_node, of_code, node_size, code_size, excess = 0.0, 0.0, 0.0, 0.0, 0.0
                for stratum in range(first_stratum, n_strata):
                    a = first_group + (stratum - first_stratum) * n_group_axes + g
                    if totals[stratum] > 0.0:
                        of_node += totals[a]
                        of_code += sums[a, code]
                        node_size += totals[stratum]
                        code_size += sums[stratum, code]
                        excess += sums[a, code] - totals[a] / totals[stratum] * sums[stratum, code]
                beyond[n_label_axes + g, code] = excess * per_record
                if code_size > 0.0:
                    shares[1, code] = of_code / code_size
                else:
                    shares[1, code] = of_node / node_size if node_size > 0.0 else 0.0


@kernel
def _search(
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    offsets: NDArray[np.int64],
    continuous: NDArray[np.bool_],
    keys: NDArray[np.float64],
    quantiles: NDArray[np.int64],
    terms: tuple[Any, ...],
    overall: NDArray[np.float64] | None,
    min_size: int,
    room: tuple[NDArray[np.int64], ...],
    numbers: NDArray[np.float64],
    side: NDArray[np.bool_],
) -> tuple[int, int, float, float]:
    """Return column (-1: none), threshold, gain times records, records on the left; fill the column's part of ``side``.

    ``keys`` has a row for each key that sorts categories: p_y, p_s, then one per direction. ``numbers`` is a work
    array.
    """
    n, n_paper = totals[0], len(quantiles)
    order = room[0]
    prefix, gains = numbers[:-1], numbers[-1]
    best_column, best_threshold, best_gain, best_left = -1, -1, 0.0, 0.0
    for column in range(len(continuous)):
        start, stop = offsets[column], offsets[column + 1]
        p = _present(sums, start, stop, order)
        if p < 2:
            continue
        with_missing = order[p - 1] == stop - 1
        first_order, n_orders = _which(continuous[column], with_missing, p, n_paper, len(keys))
        for which in range(first_order, n_orders):
            _arrange(which, continuous[column], start, stop, p, sums, keys, quantiles, room)
            if which < 0:
                continue
            first = which if continuous[column] else 0
            gain, cut = _best_cut(order, p, first, sums, totals, terms, overall, min_size, prefix, gains)
            if gain <= best_gain + TOLERANCE * n:
                continue
            best_column, best_gain, best_left = column, gain, prefix[0, cut]
            for code in range(start, stop):
                side[code] = best_left >= n - best_left
            for i in range(p):
                side[order[i]] = i <= cut
            if continuous[column]:
                # A cut between all values and the missing ones is a threshold above all values.
                apart = with_missing and which == 0 and cut == p - 2
                best_threshold = (stop - 2 if apart else order[cut]) - start
                for code in range(start, stop - 1):
                    side[code] = code - start <= best_threshold
    return best_column, best_threshold, best_gain, best_left


@helper
def _which(continuous: bool, with_missing: bool, p: int, n_paper: int, n_keys: int) -> tuple[int, int]:
    """Return the range of the orderings of a column.

    Orderings -2 and -1 are not cut: they sort by p_y and by p_s, which the paper's orderings need.
    """
    if continuous:
        return 0, 2 if with_missing and p > 2 else 1
    return -2 if n_paper > 0 else 0, n_paper + n_keys - 2


@helper
def _arrange(
    which: int,
    continuous: bool,
    start: int,
    stop: int,
    p: int,
    sums: NDArray[np.float64],
    keys: NDArray[np.float64],
    quantiles: NDArray[np.int64],
    room: tuple[NDArray[np.int64], ...],
) -> None:
    """Put the p codes that occur into one ordering; called in turn, since one may start from the previous one."""
    n_paper = len(quantiles)
    order, by_label, rank, _, _ = room
    if continuous:
        if which == 1:
            for i in range(p - 1, 0, -1):
                order[i] = order[i - 1]
            order[0] = stop - 1
    elif 0 <= which < n_paper:
        _interleave(room, p, quantiles[which])
    else:
        # Each direction starts from the order of its neighbour, the others from the order of the codes.
        if which <= 0 or which == n_paper:
            _present(sums, start, stop, order)
        _sort(room, keys[which + 2 if which < 0 else which - n_paper + 2], p)
        for i in range(p):
            if which == -2:
                by_label[i] = order[i]
            elif which == -1:
                rank[order[i]] = i


@helper
def _present(sums: NDArray[np.float64], start: int, stop: int, order: NDArray[np.int64]) -> int:
    """List the codes that occur in the node; return their number."""
    p = 0
    for code in range(start, stop):
        if sums[0, code] > 0.0:
            order[p] = code
            p += 1
    return p


@helper
def _best_cut(
    order: NDArray[np.int64],
    p: int,
    first_cut: int,
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    terms: tuple[Any, ...],
    overall: NDArray[np.float64] | None,
    min_size: int,
    prefix: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> tuple[float, int]:
    """Return the largest gain over the cuts of one ordering, and its cut. Fill ``prefix[0]`` with the left sizes.

    Cut i sends ``order[0 … i]`` left; cuts before ``first_cut`` are not tried. Let a stratum have N records, N_L and
    N_R of them in the children, π be the share of an axis in it, and D the left child's excess of the axis over N_L·π.
    The axis gains coefficient · D² · N/(N_L·N_R), the increase of its Σp² times records. If ``overall`` gives the axes'
    shares among all records, a group axis counts only if one child has more of it than that and the other less.
    """
    _, coefficients, stratum_of, n_strata, _, _, _ = terms
    n = totals[0]
    for a in range(n_strata + len(coefficients)):
        running = 0.0
        for i in range(p):
            running += sums[a, order[i]]
            prefix[a, i] = running
    low, high = first_cut, p - 1
    while low < high and prefix[0, low] < min_size:
        low += 1
    while low < high and n - prefix[0, high - 1] < min_size:
        high -= 1

    for i in range(low, high):
        gains[i] = 0.0
    for a in range(len(coefficients)):
        coefficient, stratum = coefficients[a], stratum_of[a]
        here = totals[stratum]
        share = totals[n_strata + a] / here if here > 0.0 else 0.0
        for i in range(low, high):
            left = prefix[stratum, i]
            beyond, product = prefix[n_strata + a, i] - share * left, left * (here - left)
            rise = here * beyond * beyond / product if product > 0.0 else 0.0
            if overall is not None and coefficient < 0.0:
                mine = prefix[n_strata + a, i] - overall[a] * left
                rise = rise if _crosses(mine, totals[n_strata + a] - overall[a] * here - mine) else 0.0
            gains[i] += coefficient * rise

    best, cut = -np.inf, -1
    for i in range(low, high):
        if gains[i] > best + TOLERANCE * n:
            best, cut = gains[i], i
    return best, cut


@helper
def _crosses(mine: float, other: float) -> bool:
    """Return whether two children are on different sides, given the excess of each (in records)."""
    return min(mine, other) < -ON_THE_LINE and max(mine, other) > ON_THE_LINE


@helper
def _interleave(room: tuple[NDArray[np.int64], ...], p: int, q: int) -> None:
    """Order as in the paper: q parts by group share, each sorted by label; one of each in turn, highest first."""
    order, by_label, rank, spare, _ = room
    filled = 0
    for j in range(q):
        for i in range(p):
            code = by_label[i]
            if j * p // q <= rank[code] < (j + 1) * p // q:
                spare[filled] = code
                filled += 1
    filled = 0
    for turn in range(p // q + 1):
        for j in range(q - 1, -1, -1):
            at = j * p // q + turn
            if at < (j + 1) * p // q:
                order[filled] = spare[at]
                filled += 1


@helper
def _sort(room: tuple[NDArray[np.int64], ...], key: NDArray[np.float64], p: int) -> None:
    """Sort codes by key, equal ones by code.

    Many codes are first sorted by the leading 16 bits of their place between the smallest and the largest key, one
    byte at a time. Insertion sort then finishes the little that remains.
    """
    order, _, digits, spare, ends = room
    if p > INSERTION_ONLY:
        smallest, largest = np.inf, -np.inf
        for i in range(p):
            value = key[order[i]]
            smallest = value if value < smallest else smallest
            largest = value if value > largest else largest
        scale = 65535.0 / (largest - smallest) if largest > smallest else 0.0
        for shift in range(0, 16, 8):
            for byte in range(257):
                ends[byte] = 0
            for i in range(p):
                code = spare[i] = order[i]
                digits[i] = (int((key[code] - smallest) * scale) >> shift) & 255
                ends[digits[i] + 1] += 1
            for byte in range(256):
                ends[byte + 1] += ends[byte]
            for i in range(p):
                order[ends[digits[i]]] = spare[i]
                ends[digits[i]] += 1
    for i in range(1, p):
        code = order[i]
        value = key[code]
        j = i
        while j > 0:
            before = order[j - 1]
            if key[before] < value or (key[before] == value and before < code):
                break
            order[j] = before
            j -= 1
        order[j] = code
