"""Choose the cap on the weights for certification, on the train and select parts.

A small cap keeps many records but leaves much weight above it; no cap leaves none but keeps few records. For quantiles
of the weights, the train and select parts predict how many certification records will stay and how much weight will be
above the cap, and so the bound of an encoder with a few cells. The cap with the smallest bound is chosen, or none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from certifare.certificates.claims import combine, metric_of
from certifare.certificates.tail import distance_level, raised, share_limit

#: Quantiles of the weights that are tried as caps.
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999)
#: Bias of the plug-in distance for equal groups and eight cells, in units of √(1/n_0 + 1/n_1).
BIAS = 0.4 * math.sqrt(8)


@dataclass(frozen=True, eq=False)
class CapForecast:
    """The predicted numbers of records that a cap keeps and leaves above it."""

    # The cap, and the largest weight of the records that it was chosen on
    cap: float
    largest: float
    # Certification records that will be kept, and will be above the cap (:class:`~certifare.certificates.tail.Tail`)
    kept: NDArray[np.float64]
    beyond: NDArray[np.float64]
    whole: NDArray[np.float64]  # certification records that would be kept without a cap

    @property
    def capped(self) -> bool:
        """Whether any weight is above the cap."""
        return self.cap < self.largest

    def shares(self, epsilon: float, growth: float = 1.0) -> NDArray[np.float64]:
        """Return expected upper bounds of the share of weight above the cap, for strata and pairs of groups.

        - ``epsilon``: ε of the statement about one pair of groups.
        - ``growth``: factor by which the number of certification records is multiplied.
        """
        limits = np.array(
            [
                [
                    share_limit(growth * b, growth * n, self.cap, self.largest, epsilon)
                    for b, n in zip(*row, strict=True)
                ]
                for row in zip(self.beyond, self.kept, strict=True)
            ]
        )
        first, second = self._pairs
        larger: NDArray[np.float64] = np.maximum(limits[:, first], limits[:, second])
        return larger

    def gain(self) -> NDArray[np.float64]:
        """Return the factor by which 1/n_0 + 1/n_1 is larger without the cap, for strata and pairs of groups."""
        gained: NDArray[np.float64] = self._sizes(self.whole) / self._sizes(self.kept)
        return gained

    def _sizes(self, records: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return 1/n_0 + 1/n_1 of pairs of groups."""
        first, second = self._pairs
        # A group without records is refused later; here it has almost none.
        found: NDArray[np.float64] = (1.0 / np.maximum(records, 1e-9)[:, np.stack([first, second])]).sum(axis=1)
        return found

    @property
    def _pairs(self) -> NDArray[np.int64]:
        """Return the first and the second group of each pair."""
        return np.array(list(combinations(range(self.kept.shape[1]), 2))).T

    def bound(self, metric: str, epsilon: float) -> float:
        """Return the expected bound for equal groups."""
        chosen = metric_of(metric)
        level = epsilon / len(self.kept) if chosen.combine == "mean" else epsilon
        spread = np.sqrt(self._sizes(self.kept))
        radius = BIAS - float(ndtri(distance_level(level, capped=self.capped))) / 2
        limits = np.minimum(1.0, radius * spread)
        if self.capped:
            limits = raised(limits, self.shares(level))
        return combine(chosen, [(str(i), float(value)) for i, row in enumerate(limits) for value in row])


def choose_cap(
    weights: NDArray[np.float64],
    groups: NDArray[np.int64],
    strata: NDArray[np.bool_],
    metric: str,
    epsilon: float,
    scale: float,
) -> CapForecast | None:
    """Choose a cap on weights from records that are not certified on; None if no cap is best.

    - ``groups``: the group of each record, from 0.
    - ``strata``: which records are in each stratum of the metric.
    - ``epsilon``: 1 − confidence.
    - ``scale``: number of certification records for each of these records.
    """
    largest = float(weights.max())
    n_groups = int(groups.max()) + 1

    def forecast(cap: float) -> CapForecast:
        capped = np.minimum(weights, cap)
        above = (weights - capped) / (largest - cap) if cap < largest else np.zeros(len(weights))
        kept, beyond, whole = (
            scale * np.array([np.bincount(groups[rows], column[rows], n_groups) for rows in strata])
            for column in (capped / cap, above, weights / largest)
        )
        return CapForecast(cap, largest, kept, beyond, whole)

    positive = weights[weights > 0]
    caps = [*np.unique(np.quantile(positive, QUANTILES)).tolist(), largest]
    best = min((forecast(cap) for cap in caps), key=lambda found: found.bound(metric, epsilon))
    return best if best.capped else None
