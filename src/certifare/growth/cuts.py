"""The best split of one node if it pays what it adds to the distance, and if each group may have its own cut.

As in :mod:`~certifare.growth.splits`, a split is a cut of an ordering of the codes that occur in the node. Here each
group may have a cut of its own in that ordering. If every group sends the same share of its records left, the split
tells nothing about the group and adds nothing to the distance.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError
from certifare.foundation.compiler import helper, kernel
from certifare.growth.binning import Bins
from certifare.growth.criterion import Criterion
from certifare.growth.histograms import Histogram
from certifare.growth.splits import N_ANGLES, SHRINKAGE, TOLERANCE, Orderings, Split, SplitSearch


class Price(NamedTuple):
    """What an attempt gains and pays.

    Attributes
    ----------
    coefficients : ndarray of float64, (label axes,)
        What an axis gains when a split makes shares differ.
    strata : ndarray of int64
        In which the distance is taken.
    rates : ndarray of float64, (strata, groups)
        One over the number of records.
    of_distance : float
        What the distance costs, times all records.
    most : float
        An attempt by which the distance grows more, times parts, is none.
    min_size : int
        Records that each side has at least.
    """

    coefficients: NDArray[np.float64]
    strata: NDArray[np.int64]
    rates: NDArray[np.float64]
    of_distance: float
    most: float
    min_size: int


class Attempts(NamedTuple):
    """Room to try cuts in.

    Attributes
    ----------
    before : ndarray, (groups, quantities, cuts)
        What an ordering has before each cut.
    left : ndarray, (groups, quantities, attempts)
        What goes left in each attempt.
    cuts : ndarray of int64, (groups, attempts)
        Where the groups are cut then.
    numbers, places : ndarray
        For the rest.
    """

    before: NDArray[np.float64]
    left: NDArray[np.float64]
    cuts: NDArray[np.int64]
    numbers: NDArray[np.float64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, n_groups: int, n_quantities: int, n_cuts: int) -> "Attempts":
        """Make room for so many cuts of an ordering."""
        return cls(
            np.empty((n_groups, n_quantities, n_cuts)),
            np.empty((n_groups, n_quantities, n_groups * n_cuts)),
            np.empty((n_groups, n_groups * n_cuts), dtype=np.int64),
            np.empty((4, n_groups * n_cuts)),
            np.empty((n_groups + 3, max(n_groups, n_cuts + 1)), dtype=np.int64),
        )


class CutSearch(SplitSearch):
    """Finds the best split of a histogram, with one cut for all groups or one for each.

    A split of n of N records gains ``(1-γ)`` times the decrease of Gini_y, weighted by n/N, and pays γ times the
    increase of the distance ``½ Σ |c_0/n_0 - c_1/n_1|`` over the leaves, where ``n_0`` and ``n_1`` count all records of
    the groups. Of several groups it pays the mean over pairs, of several strata (equalized odds) the mean over these:
    sums over leaves, so that what a split pays does not depend on the other leaves.

    Cuts that are tried, in each ordering of a column in turn:

    - the common ones: each group is cut at the same place;
    - if groups may be cut apart, the matched ones: for every share q, each group's cut is the one that sends nearest to
      q of its records left (of those that the metric looks at).

    Then, if groups may be cut apart, steps: from the best of the column, in its ordering, one group's cut after the
    other is moved to where the gain is largest, until no move gains.

    A group's own cuts lie before its first record, behind each code that it has, and, behind the last of them, at the
    end of the ordering. The largest gain wins; among equal ones (up to ``TOLERANCE`` per record) the first.

    Parameters
    ----------
    bins, criterion, classes, min_cell_size, orderings, n_angles, shrinkage
        As in :class:`~certifare.growth.splits.SplitSearch`; the criterion charges the distance.
    group_aware : bool
        Whether each group may have its own cut.
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
        group_aware: bool = True,
    ) -> None:
        super().__init__(
            bins,
            criterion,
            classes=classes,
            min_cell_size=min_cell_size,
            orderings=orderings,
            n_angles=n_angles,
            shrinkage=shrinkage,
        )
        if criterion.charge != "distance":
            raise ArgumentError(f"charge is {criterion.charge!r}; group-aware trees charge the distance: 'distance'.")
        terms = self._terms
        self._group_aware = group_aware
        self._n_groups = criterion.n_groups
        self._counted = terms.weights[: terms.n_strata + terms.n_label_axes]
        self._strata = np.arange(min(1, terms.n_strata - 1), terms.n_strata, dtype=np.int64)
        sizes = (terms.weights[self._strata] * classes).reshape(len(self._strata), -1, self._n_groups).sum(axis=1)
        # A group without any record adds nothing to the distance.
        self._rates = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        n_pairs = max(self._n_groups * (self._n_groups - 1) // 2, 1)
        # The distance is half the sum of differences, averaged over pairs and strata.
        self._parts = 2.0 * n_pairs * len(self._strata)
        self._price = Price(
            coefficients=terms.coefficients[: terms.n_label_axes],
            strata=self._strata,
            rates=self._rates,
            of_distance=criterion.gamma * self._n_records / self._parts,
            most=np.inf,
            min_size=min_cell_size,
        )

    def best(self, node: int, histogram: Histogram, most: float = np.inf) -> Split | None:
        """Find the split with the largest gain that adds at most ``most`` to the distance; None where there is none."""
        orders = self._orders(histogram)
        n_groups, n_codes, n_quantities = self._n_groups, histogram.counts.shape[1], len(self._counted)
        sums, totals = np.zeros((n_groups, n_quantities, n_codes)), np.zeros((n_groups, n_quantities))
        cuts = np.zeros(n_groups, dtype=np.int64)
        column, which, gain, left_count = _search(
            histogram.counts,
            histogram.sums.reshape(n_groups, -1, n_codes),
            self._counted,
            histogram.offsets,
            tuple(orders),
            tuple(self._price._replace(most=most * self._parts + TOLERANCE)),
            self._group_aware,
            tuple(Attempts.of(n_groups, n_quantities, int(orders.n_present.max()) + 1)),
            sums,
            totals,
            cuts,
        )
        if column < 0:
            return None
        start, stop = histogram.offsets[column], histogram.offsets[column + 1]
        n = totals[:, 0].sum()
        order = orders.codes[which, start : start + orders.n_present[column]] - start
        in_order = sums[:, 0, start + order].sum(axis=0)
        common_cut = int(np.abs(np.cumsum(in_order)[:-1] - left_count).argmin()) + 1

        def side(cut: int) -> NDArray[np.bool_]:
            return _side(order, cut, stop - start, bool(self._continuous[column]), 2 * left_count >= n)

        common = side(common_cut)
        rows = [side(int(cut)) if size else common for cut, size in zip(cuts, totals[:, 0], strict=True)]
        return Split(
            node=node,
            column=column,
            goes_left=np.array(rows) if self._group_aware else common,
            threshold=int(common[:-1].sum()) - 1 if self._continuous[column] else None,
            gain=gain / self._n_records,
            left_count=int(left_count),
            right_count=int(n - left_count),
            common=common if self._group_aware else None,
            distance=self._added(sums[:, :, start + order], cuts, totals),
        )

    def _added(self, in_order: NDArray[np.float64], cuts: NDArray[np.int64], totals: NDArray[np.float64]) -> float:
        """Say what a split adds to the distance."""
        left = np.array([of_group[:, :cut].sum(axis=1) for of_group, cut in zip(in_order, cuts, strict=True)])
        added = 0.0
        for rates, q in zip(self._rates, self._strata, strict=True):
            shares, all_shares = left[:, q] * rates, totals[:, q] * rates
            more, whole = (x[:, None] - x[None, :] for x in (shares, all_shares))
            added += float(np.tril(abs(more) + abs(whole - more) - abs(whole)).sum())
        return added / self._parts


def _side(order: NDArray[np.int64], cut: int, n_codes: int, continuous: bool, unseen_left: bool) -> NDArray[np.bool_]:
    """Which codes go left if the first ``cut`` of an ordering do."""
    goes_left = np.full(n_codes, unseen_left)
    goes_left[order] = np.arange(len(order)) < cut
    if continuous:
        missing = n_codes - 1
        known = order[order != missing]
        inside = known[goes_left[known]]
        threshold = -1 if not len(inside) else missing - 1 if len(inside) == len(known) else int(inside[-1])
        goes_left[:missing] = np.arange(missing) <= threshold
    return goes_left


@kernel
def _search(
    counts: NDArray[np.int64],
    coordinates: NDArray[np.int64],
    counted: NDArray[np.float64],
    offsets: NDArray[np.int64],
    orders: tuple[NDArray[np.int64], ...],
    price: tuple[Any, ...],
    group_aware: bool,
    attempts: tuple[NDArray[Any], ...],
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    best_cuts: NDArray[np.int64],
) -> tuple[int, int, float, float]:
    """Column (-1: none), ordering, gain times records, records on the left; fills the cuts, sums and totals.

    Sums (groups × quantities × codes) hold of each group the size, the strata's sizes and the label axes, the
    ``coordinates`` (groups × coordinates × codes) as the last of them.
    """
    n_groups, n_quantities = totals.shape
    for k in range(len(counts)):
        s = k % n_groups
        for q in range(n_quantities):
            weight = counted[q, k]
            if weight != 0.0:
                for code in range(counts.shape[1]):
                    sums[s, q, code] += weight * counts[k, code]
    n_coordinates = coordinates.shape[1]
    for s in range(n_groups):
        for v in range(n_coordinates):
            for code in range(counts.shape[1]):
                sums[s, n_quantities - n_coordinates + v, code] = coordinates[s, v, code]
    for s in range(n_groups):
        for q in range(n_quantities):
            for code in range(offsets[0], offsets[1]):
                totals[s, q] += sums[s, q, code]

    n = totals[:, 0].sum()
    codes, n_orders, n_present = orders
    strata = price[1]
    before, tried, tried_cuts, numbers, places = attempts
    own, n_own, at, chosen = places[:n_groups], places[n_groups], places[n_groups + 1], places[n_groups + 2]
    best_column, best_order, best_gain, best_left = -1, -1, 0.0, 0.0
    for column in range(len(n_orders)):
        start, p = offsets[column], n_present[column]
        gain, order = -np.inf, -1
        for which in range(n_orders[column]):
            _accumulate(sums, codes[which, start : start + p], before)
            value, found = _best(before, 1, p, totals, price, numbers)
            if value > gain + TOLERANCE * n:
                gain, order = value, which
                chosen[:n_groups] = found
            if not group_aware:
                continue
            for stratum in strata:
                _list_own(before, p, stratum, own, n_own)
                m = _match(p, stratum, own, n_own, at, attempts)
                value, found = _best(tried, 0, m, totals, price, numbers)
                if value > gain + TOLERANCE * n:
                    gain, order = value, which
                    chosen[:n_groups] = tried_cuts[:, found]
        if order < 0:
            continue
        _accumulate(sums, codes[order, start : start + p], before)
        if group_aware:
            _list_own(before, p, 0, own, n_own)
        moved = group_aware
        while moved:
            moved = False
            for s in range(n_groups):
                for g in range(n_groups):
                    for q in range(n_quantities):
                        for m in range(n_own[s]):
                            tried[g, q, m] = before[g, q, own[s, m] if g == s else chosen[g]]
                value, found = _best(tried, 0, n_own[s], totals, price, numbers)
                if value > gain + TOLERANCE * n:
                    gain, moved = value, True
                    chosen[s] = own[s, found]
        if gain > best_gain + TOLERANCE * n:
            best_column, best_order, best_gain, best_left = column, order, gain, 0.0
            for s in range(n_groups):
                best_cuts[s] = chosen[s]
                best_left += before[s, 0, chosen[s]]
    return best_column, best_order, best_gain, best_left


@helper
def _accumulate(sums: NDArray[np.float64], order: NDArray[np.int64], before: NDArray[np.float64]) -> None:
    """Add up what comes before each cut of an ordering."""
    n_groups, n_quantities, _ = sums.shape
    for s in range(n_groups):
        for q in range(n_quantities):
            running = before[s, q, 0] = 0.0
            for i in range(len(order)):
                running += sums[s, q, order[i]]
                before[s, q, i + 1] = running


@helper
def _list_own(
    before: NDArray[np.float64], p: int, stratum: int, own: NDArray[np.int64], n_own: NDArray[np.int64]
) -> None:
    """List each group's own cuts: before all codes, behind each that it has, and behind its last one at the end.

    A group without any record has none. If it has records of the stratum, only codes with such records count.
    """
    for s in range(len(own)):
        q = stratum if before[s, stratum, p] > 0.0 else 0
        m, own[s, 0] = 1, 0
        for i in range(p):
            own[s, m] = i + 1
            m += 1 if before[s, q, i + 1] > before[s, q, i] else 0
        own[s, m - 1] = p
        n_own[s] = m if m > 1 else 0


@helper
def _match(
    p: int,
    stratum: int,
    own: NDArray[np.int64],
    n_own: NDArray[np.int64],
    at: NDArray[np.int64],
    attempts: tuple[NDArray[Any], ...],
) -> int:
    """Try the matched cuts, from the smallest share to the largest; returns how many there are.

    A group goes on to its next cut where the share q passes the middle between its shares at this cut and at the next.
    """
    before, tried, tried_cuts, numbers, _ = attempts
    middles = numbers[0]
    n_groups, n_quantities, _ = before.shape
    for s in range(n_groups):
        at[s] = -1
        middles[s] = -1.0 if n_own[s] > 0 else np.inf
    m = -1  # all groups at their first cut, where none goes left, is no attempt
    while True:
        lowest = np.inf
        for s in range(n_groups):
            lowest = min(lowest, middles[s])
        if lowest == np.inf:
            return m
        for s in range(n_groups):
            if middles[s] == lowest:
                at[s] += 1
                middles[s] = np.inf
                if at[s] + 1 < n_own[s]:
                    q = stratum if before[s, stratum, p] > 0.0 else 0
                    middles[s] = (before[s, q, own[s, at[s]]] + before[s, q, own[s, at[s] + 1]]) / before[s, q, p]
        if m >= 0:
            for s in range(n_groups):
                tried_cuts[s, m] = own[s, at[s]] if n_own[s] > 0 else 0
                for q in range(n_quantities):
                    tried[s, q, m] = before[s, q, tried_cuts[s, m]]
        m += 1


@helper
def _best(
    left: NDArray[np.float64],
    first: int,
    stop: int,
    totals: NDArray[np.float64],
    price: tuple[Any, ...],
    numbers: NDArray[np.float64],
) -> tuple[float, int]:
    """Largest gain, times all records, of the attempts from ``first`` on, and its attempt.

    An attempt sends ``left`` (groups × quantities × attempts) to the left. It gains of the labels as in ``splits``, and
    pays for what the distance grows by.
    """
    coefficients, strata, rates, of_distance, most, min_size = price
    n_groups, n_quantities = totals.shape
    sizes, gains, beyond, added = numbers[0], numbers[1], numbers[2], numbers[3]
    n = totals[:, 0].sum()
    for i in range(first, stop):
        sizes[i] = gains[i] = added[i] = 0.0
    for s in range(n_groups):
        for i in range(first, stop):
            sizes[i] += left[s, 0, i]
    for a in range(len(coefficients)):
        q = n_quantities - len(coefficients) + a
        share = totals[:, q].sum() / n
        for i in range(first, stop):
            beyond[i] = -share * sizes[i]
        for s in range(n_groups):
            for i in range(first, stop):
                beyond[i] += left[s, q, i]
        for i in range(first, stop):
            gains[i] += coefficients[a] * beyond[i] * beyond[i]
    for i in range(first, stop):
        gains[i] *= n / (sizes[i] * (n - sizes[i]))
    for k in range(len(strata)):
        q = strata[k]
        for s in range(n_groups):
            for g in range(s):
                rate_s, rate_g = rates[k, s], rates[k, g]
                more = totals[s, q] * rate_s - totals[g, q] * rate_g
                for i in range(first, stop):
                    left_more = left[s, q, i] * rate_s - left[g, q, i] * rate_g
                    added[i] += abs(left_more) + abs(more - left_more) - abs(more)

    best, found = -np.inf, -1
    for i in range(first, stop):
        gains[i] -= of_distance * added[i]
        if added[i] > most:
            continue
        if gains[i] > best + TOLERANCE * n and sizes[i] >= min_size and n - sizes[i] >= min_size:
            best, found = gains[i], i
    return best, found
