"""T* by the FARE paper: three lemmas on three samples, joined by a union bound.

The best adversary's balanced accuracy on a cell z is max(α_0·P(s=0|z), α_1·P(s=1|z)) with α_s = 1/(2·P(s)). Its
expectation S over cells gives the total variation distance 2S − 1. The lemmas bound, in turn, the base rates P(s), each
cell's share of a group, and the expectation. certifare's exact bound is several times tighter on the same records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Claim
from certifare.certificates.claims import combine
from certifare.certificates.tail import clopper_pearson

Budget = tuple[float, float, float]
#: Shares of ε that the paper gives to base rates, cells and sum: 0.005, 0.04 and 0.005 of 0.05.
PAPER_BUDGET = (0.1, 0.8, 0.1)


def paper_bound(
    samples: Sequence[CellCounts],
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    budget: Budget = PAPER_BUDGET,
) -> float:
    """T* of the paper, for any metric and number of groups.

    Parameters
    ----------
    samples : three CellCounts
        Counts by the same cells, groups and labels on the samples that serve the three lemmas (base rates, cells, sum),
        all from one population, shares of the groups included. The last must be independent of the other two.
    metric : str
        Name of the metric.
    confidence : float
        1 − ε.
    budget : tuple of three floats
        Shares of ε for the three lemmas; they add up to 1.

    Returns
    -------
    float
        T* in [0, 1].
    """
    claim = Claim(metric=metric, confidence=confidence, min_group_size=1)
    base, cells, sums = samples
    for table in samples:
        claim.check(table)
    epsilon = claim.epsilon(claim.strata(cells))
    pairs = claim.pairs(cells)
    bounds = [
        (pair.label, lemmas_bound(pair.table(base), pair.table(cells), pair.table(sums), epsilon, budget))
        for pair in pairs
    ]
    return min(1.0, combine(claim.distance, bounds))


def lemmas_bound(
    base: NDArray[np.int64],
    cells: NDArray[np.int64],
    sums: NDArray[np.int64],
    epsilon: float,
    budget: Budget = PAPER_BUDGET,
) -> float:
    """T* of the paper for two groups, from tables (cells × 2); ``epsilon`` is the probability that it fails."""
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
