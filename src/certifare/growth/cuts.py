"""The best split of one node if it pays what it adds to the distance, and if each group may have its own cut.

As in :mod:`~certifare.growth.splits`, a split is a cut of an ordering of the codes that occur in the node. Here each
group may have a cut of its own in that ordering. If every group sends the same share of its records left, the split
tells nothing about the group and adds nothing to the distance.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare.compiler import helper, kernel
from certifare.errors import GrowthError
from certifare.growth.binning import Bins
from certifare.growth.criterion import Criterion
from certifare.growth.histograms import Histogram
from certifare.growth.splits import N_ANGLES, SHRINKAGE, TOLERANCE, Orderings, Split, SplitSearch


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
            raise GrowthError(f"charge is {criterion.charge!r}; group-aware trees charge the distance: 'distance'.")
        terms = self._terms
        self._group_aware = group_aware
        self._n_groups = criterion.n_groups
        self._coefficients = terms.coefficients[: terms.n_label_axes]
        self._counted = terms.weights[: terms.n_strata + terms.n_label_axes]
        self._strata = np.arange(min(1, terms.n_strata - 1), terms.n_strata, dtype=np.int64)
        sizes = (terms.weights[self._strata] * classes).reshape(len(self._strata), -1, self._n_groups).sum(axis=1)
        # A group without any record adds nothing to the distance.
        self._rates = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        n_pairs = max(self._n_groups * (self._n_groups - 1) // 2, 1)
        self._price = 0.5 * criterion.gamma * self._n_records / (n_pairs * len(self._strata))

    def best(self, node: int, histogram: Histogram) -> Split | None:
        """Find the split with the largest gain; None where no split is possible or none gains."""
        orders, n_orders, n_present = self._orders(histogram)
        n_groups, n_codes = self._n_groups, histogram.counts.shape[1]
        sums = np.zeros((n_groups, n_codes, len(self._counted)))
        totals = np.zeros((n_groups, len(self._counted)))
        cuts = np.zeros(n_groups, dtype=np.int64)
        column, which, gain, left_count = _search(
            histogram.counts,
            self._counted,
            histogram.offsets,
            orders,
            n_orders,
            n_present,
            self._coefficients,
            self._strata,
            self._rates,
            self._price,
            self._min_cell_size,
            self._group_aware,
            sums,
            totals,
            np.empty((n_groups, int(n_present.max()) + 1, len(self._counted))),
            np.empty((2, max(n_groups, len(self._counted)))),
            np.empty((4, n_groups), dtype=np.int64),
            cuts,
        )
        if column < 0:
            return None
        start, stop = histogram.offsets[column], histogram.offsets[column + 1]
        n = totals[:, 0].sum()
        order = orders[which, start : start + n_present[column]] - start
        in_order = sums[:, start + order, 0].sum(axis=0)
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
        )


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
    counted: NDArray[np.float64],
    offsets: NDArray[np.int64],
    orders: NDArray[np.int64],
    n_orders: NDArray[np.int64],
    n_present: NDArray[np.int64],
    coefficients: NDArray[np.float64],
    strata: NDArray[np.int64],
    rates: NDArray[np.float64],
    price: float,
    min_size: int,
    group_aware: bool,
    sums: NDArray[np.float64],
    totals: NDArray[np.float64],
    prefix: NDArray[np.float64],
    numbers: NDArray[np.float64],
    places: NDArray[np.int64],
    best_cuts: NDArray[np.int64],
) -> tuple[int, int, float, float]:
    """Column (-1: none), ordering, gain times records, records on the left; fills the cuts, sums and totals.

    Sums (groups × codes × quantities) hold of each group the size, the strata's sizes and the label axes.
    """
    n_groups, n_quantities = totals.shape
    for k in range(len(counts)):
        s = k % n_groups
        for q in range(n_quantities):
            weight = counted[q, k]
            if weight != 0.0:
                for code in range(counts.shape[1]):
                    sums[s, code, q] += weight * counts[k, code]
    whole, middles = numbers[0, :n_quantities], numbers[1]
    for q in range(n_quantities):
        whole[q] = 0.0
        for s in range(n_groups):
            for code in range(offsets[0], offsets[1]):
                totals[s, q] += sums[s, code, q]
            whole[q] += totals[s, q]

    n = whole[0]
    cuts, following, matched_by, chosen = places[0], places[1], places[2], places[3]
    best_column, best_order, best_gain, best_left = -1, -1, 0.0, 0.0
    for column in range(len(n_orders)):
        start, p = offsets[column], n_present[column]
        gain, order = -np.inf, -1
        for which in range(n_orders[column]):
            _accumulate(sums, orders[which, start : start + p], prefix)
            for cut in range(1, p):
                for s in range(n_groups):
                    cuts[s] = cut
                value = _gain(prefix, cuts, totals, whole, coefficients, strata, rates, price, min_size)
                if value > gain + TOLERANCE * n:
                    gain, order = value, which
                    chosen[:] = cuts
            if not group_aware:
                continue
            for stratum in strata:
                for s in range(n_groups):
                    cuts[s] = 0
                    matched_by[s] = stratum if totals[s, stratum] > 0.0 else 0
                    following[s] = _next(prefix, s, matched_by[s], 0, p) if totals[s, 0] > 0.0 else 0
                while True:
                    # Group s goes on where q passes the middle between its share at this cut and at the next.
                    lowest = np.inf
                    for s in range(n_groups):
                        middles[s] = np.inf
                        if cuts[s] < following[s]:
                            q = matched_by[s]
                            middles[s] = (prefix[s, cuts[s], q] + prefix[s, following[s], q]) / totals[s, q]
                            lowest = min(lowest, middles[s])
                    if lowest == np.inf:
                        break
                    for s in range(n_groups):
                        if middles[s] == lowest:
                            cuts[s] = following[s]
                            following[s] = _next(prefix, s, matched_by[s], cuts[s], p)
                    value = _gain(prefix, cuts, totals, whole, coefficients, strata, rates, price, min_size)
                    if value > gain + TOLERANCE * n:
                        gain, order = value, which
                        chosen[:] = cuts
        if order < 0:
            continue
        _accumulate(sums, orders[order, start : start + p], prefix)
        if group_aware:
            gain = _step(prefix, chosen, cuts, p, gain, totals, whole, coefficients, strata, rates, price, min_size)
        if gain > best_gain + TOLERANCE * n:
            best_column, best_order, best_gain, best_left = column, order, gain, 0.0
            for s in range(n_groups):
                best_cuts[s] = chosen[s]
                best_left += prefix[s, chosen[s], 0]
    return best_column, best_order, best_gain, best_left


@helper
def _accumulate(sums: NDArray[np.float64], order: NDArray[np.int64], prefix: NDArray[np.float64]) -> None:
    """Add up what comes before each cut of an ordering: groups × cuts × quantities."""
    n_groups, _, n_quantities = sums.shape
    for s in range(n_groups):
        for q in range(n_quantities):
            prefix[s, 0, q] = 0.0
        for i in range(len(order)):
            for q in range(n_quantities):
                prefix[s, i + 1, q] = prefix[s, i, q] + sums[s, order[i], q]


@helper
def _next(prefix: NDArray[np.float64], s: int, q: int, cut: int, p: int) -> int:
    """Give the next of a group's own cuts: behind the next code with records of it, at the end if that is its last."""
    after = cut
    while after < p and prefix[s, after, q] == prefix[s, cut, q]:
        after += 1
    return p if prefix[s, after, q] == prefix[s, p, q] else after


@helper
def _step(
    prefix: NDArray[np.float64],
    chosen: NDArray[np.int64],
    cuts: NDArray[np.int64],
    p: int,
    gain: float,
    totals: NDArray[np.float64],
    whole: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    strata: NDArray[np.int64],
    rates: NDArray[np.float64],
    price: float,
    min_size: int,
) -> float:
    """Move one group's cut after the other to where the gain is largest, until no move gains; returns the gain."""
    moved = True
    while moved:
        moved = False
        for s in range(len(cuts)):
            if totals[s, 0] == 0.0:
                continue
            cuts[:] = chosen
            cuts[s] = 0
            while True:
                value = _gain(prefix, cuts, totals, whole, coefficients, strata, rates, price, min_size)
                if value > gain + TOLERANCE * whole[0]:
                    gain, moved = value, True
                    chosen[s] = cuts[s]
                if cuts[s] == p:
                    break
                cuts[s] = _next(prefix, s, 0, cuts[s], p)
    return gain


@helper
def _gain(
    prefix: NDArray[np.float64],
    cuts: NDArray[np.int64],
    totals: NDArray[np.float64],
    whole: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    strata: NDArray[np.int64],
    rates: NDArray[np.float64],
    price: float,
    min_size: int,
) -> float:
    """Gain of cuts times all records: of the labels, as in ``splits``, less the price of what the distance grows by."""
    n_groups, n = len(cuts), whole[0]
    left = 0.0
    for s in range(n_groups):
        left += prefix[s, cuts[s], 0]
    right = n - left
    if left < min_size or right < min_size:
        return -np.inf
    gain = 0.0
    for a in range(len(coefficients)):
        q = len(whole) - len(coefficients) + a
        beyond = -whole[q] / n * left
        for s in range(n_groups):
            beyond += prefix[s, cuts[s], q]
        gain += coefficients[a] * beyond * beyond
    gain *= n / (left * right)
    grows = 0.0
    for k in range(len(strata)):
        q = strata[k]
        for i in range(n_groups):
            left_i, all_i = prefix[i, cuts[i], q] * rates[k, i], totals[i, q] * rates[k, i]
            for j in range(i):
                left_more = left_i - prefix[j, cuts[j], q] * rates[k, j]
                more = all_i - totals[j, q] * rates[k, j]
                grows += abs(left_more) + abs(more - left_more) - abs(more)
    value: float = gain - price * grows
    return value
