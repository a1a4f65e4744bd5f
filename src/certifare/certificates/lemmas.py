"""The bound of the FARE paper: three lemmas on three samples, joined by a union bound.

The best adversary's balanced accuracy on a cell z is max(α_0·P(s=0|z), α_1·P(s=1|z)) with α_s = 1/(2·P(s)).
Its expectation S over cells gives the total variation distance 2S − 1. The lemmas bound, in turn, the base rates
P(s), each cell's share of a group, and the expectation. Kept for comparison: :mod:`certifare.certificates.exact`
is several times tighter on the same records.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.counts import CellCounts
from certifare.certificates.exact import hoeffding_radius
from certifare.errors import ArgumentError, CountsError

#: Two samples are refused as samples of one population if chance explains their difference less often than this.
IMPLAUSIBLE = 1e-9
#: Covers the error of the inverse of the incomplete beta function, relative to the smaller share.
_ROUNDING = 1e-11
#: Shares of ε that the paper gives to base rates, cells and sum: 0.005, 0.04 and 0.005 of 0.05.
PAPER_BUDGET = (0.1, 0.8, 0.1)


def check_budget(budget: Sequence[float]) -> tuple[float, float, float]:
    """Return shares of ε for base rates, cells and sum; refuse what are not three positive shares of a whole."""
    shares = tuple(float(share) for share in budget)
    if len(shares) != 3 or min(shares) <= 0.0 or not math.isclose(sum(shares), 1.0, rel_tol=1e-9):
        raise ArgumentError(f"budget={shares}: give three positive shares of ε that add up to 1.")
    return shares


def lemmas_bound(
    base: NDArray[np.int64],
    cells: NDArray[np.int64],
    sums: NDArray[np.int64],
    epsilon: float,
    budget: Sequence[float] = PAPER_BUDGET,
) -> float:
    """T* of the paper for two groups.

    - ``base``, ``cells``, ``sums`` (k, 2): counts by cell and group on the samples that serve the three lemmas, all
      from one population, shares of the groups included. ``sums`` must be independent of the other two.
    - ``epsilon``: the probability with which the bound may fail.
    - ``budget``: shares of ε for the three lemmas; they add up to 1.

    Returns: T* in [0, 1].
    """
    epsilon_base, epsilon_cells, epsilon_sum = (share * epsilon for share in budget)
    k = len(cells)

    first = int(base[:, 0].sum())
    low, high = clopper_pearson(np.array([first]), np.array([int(base.sum())]), epsilon_base)
    if low[0] <= 0.0 or high[0] >= 1.0:
        return 1.0
    alpha_0, alpha_1 = 1.0 / (2.0 * low[0]), 1.0 / (2.0 * (1.0 - high[0]))

    low, high = clopper_pearson(cells[:, 0], cells.sum(axis=1), epsilon_cells / k)
    t = np.maximum(alpha_0 * high, alpha_1 * (1.0 - low))

    weights = sums.sum(axis=1)
    n = int(weights.sum())
    mean = float(weights @ t) / n
    s = mean + float(t.max() - t.min()) * math.sqrt(-math.log(epsilon_sum) / (2.0 * n))
    return min(1.0, 2.0 * s - 1.0 + 1e-12)  # S is at least one half


def one_population(counts: CellCounts, other: CellCounts, name: str, *, cells: bool) -> None:
    """Refuse a sample that does not come from the population of the counts.

    The lemmas carry base rates and shares of cells from one sample to another. So the share of records in each group,
    and with ``cells`` in each cell and group, must agree as far as Hoeffding's inequality has it; all comparisons
    together refuse samples of one population with a probability of at most ``IMPLAUSIBLE``.
    """
    first, second = (
        np.concatenate([t.table[: t.n_cells if cells else 0], t.table.sum(axis=0, keepdims=True)])
        for t in (counts, other)
    )
    n, m = counts.n_records, other.n_records
    radius = hoeffding_radius(n, m, IMPLAUSIBLE / (2 * first.size))
    gaps = np.abs(first / n - second / m)
    if gaps.max() > radius:
        cell, group = (int(i) for i in np.unravel_index(int(gaps.argmax()), gaps.shape))
        where = f" in cell {cell}" if cell < len(gaps) - 1 else ""
        raise CountsError(
            f"{name} contradict the counts: {second[cell, group] / m:.2%} of their records are of group "
            f"{counts.groups[group]!r}{where}, against {first[cell, group] / n:.2%}. They must be a sample of the "
            "same population."
        )


def clopper_pearson(
    successes: NDArray[np.int64], trials: NDArray[np.int64], epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided Clopper–Pearson limits at level ε, rounded outwards; [0, 1] where there were no trials."""
    failures = trials - successes
    return _lower_share(successes, failures, epsilon), 1.0 - _lower_share(failures, successes, epsilon)


def _lower_share(successes: NDArray[np.int64], failures: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """One-sided lower limits at level ε/2. Upper limits are those of the failures: 1 − ε/2 would lose digits of ε."""
    from scipy.special import betaincinv

    low = np.zeros(len(successes))
    some = successes > 0
    low[some] = betaincinv(successes[some], failures[some] + 1.0, epsilon / 2) * (1.0 - _ROUNDING)
    return low
