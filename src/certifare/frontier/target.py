"""Predict the bound that an encoder will get, before certification.

Encoders are chosen on the train and select parts; no certification record is used here. The difference of two groups'
shares in each cell is estimated from both parts. The cells were fitted to the training records, so their differences
are too small, and more so with more cells; they count as an eighth of their number, which makes the prediction about
right on average on real data (docs/producer.md shows it). The differences give the expected plug-in distance on a
sample of the certify part's size, including its upward bias, and so the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from certifare.certificates.claims import Claim, Pair, combine, metric_of
from certifare.certificates.counts import CellCounts
from certifare.certificates.tail import distance_level, raised
from certifare.frontier.capping import CapForecast

#: Number of training records that are as informative about a difference as one record that was not used to fit.
TRAINING_DISCOUNT = 8.0
#: Predictions come with this probability of coming true.
LIKELY = 0.8


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of a certificate."""

    estimate: float  # the plug-in distance on the certification records
    bound: float  # expected T*, at the level of the prediction
    spread: float  # standard deviation of the prediction error

    def chance(self, target: float) -> float:
        """Return the probability that the bound will be at most ``target``."""
        return float(ndtr((target - self.bound) / self.spread))

    def reachable(self, chance: float = LIKELY) -> float:
        """Return the smallest target that will be met with this probability."""
        return float(self.bound + ndtri(chance) * self.spread)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Estimated differences between groups in an encoder's cells, from which bounds are predicted."""

    # Estimated difference of each pair of groups in each cell, and the sampling variance for one record: a sample has
    # the variance times (1/n_0 + 1/n_1)
    differences: NDArray[np.float64]
    variances: NDArray[np.float64]
    errors: NDArray[np.float64]  # (1/n_0 + 1/n_1) of the records that the differences were estimated from
    sizes: NDArray[np.float64]  # (1/n_0 + 1/n_1) of the certification records
    metric: str
    cap: CapForecast | None = None  # with a cap on the weights: the predicted share above it

    @classmethod
    def of(
        cls,
        train: CellCounts,
        select: CellCounts,
        certify_sizes: CellCounts,
        claim: Claim,
        cap: CapForecast | None = None,
    ) -> Outlook:
        """Estimate the differences from counts.

        - ``certify_sizes``: certification records in one cell: their numbers are all that is used of them.
        - ``cap``: with a cap on the weights.
        """
        return next(cls.along(train, select, certify_sizes, claim, cap, [np.arange(train.n_cells)]))

    @classmethod
    def along(
        cls,
        train: CellCounts,
        select: CellCounts,
        certify_sizes: CellCounts,
        claim: Claim,
        cap: CapForecast | None,
        starts: Iterable[NDArray[np.int64]],
    ) -> Iterator[Outlook]:
        """Estimate the same for encoders whose cells are runs of these cells, given the first cell of each run."""
        pairs: dict[str | None, list[Pair]] = {}
        for pair in claim.pairs(certify_sizes):
            pairs.setdefault(pair.label, []).append(pair)
        # By stratum, pair, cell and group. Training records count as if there were fewer of them.
        pooled, there = (
            np.array([[pair.table(counts).astype(np.float64) for pair in of_label] for of_label in pairs.values()])
            for counts in (train, certify_sizes)
        )
        pooled /= TRAINING_DISCOUNT
        pooled += np.array([[pair.table(select) for pair in of_label] for of_label in pairs.values()])
        known = np.maximum(pooled.sum(axis=2, keepdims=True), 1.0)
        errors, sizes = (1.0 / known).sum(axis=(2, 3)), (1.0 / np.maximum(there.sum(axis=2), 1.0)).sum(axis=2)
        for runs in starts:
            shares = np.add.reduceat(pooled, runs, axis=2) / known
            mean = shares.mean(axis=3)
            variances = np.maximum(
                (shares * (1.0 - shares) / known).sum(axis=3) / errors[:, :, None], mean * (1.0 - mean) / 4 + 1e-12
            )
            yield cls(shares[..., 0] - shares[..., 1], variances, errors, sizes, claim.metric, cap)

    def without_cap(self) -> Outlook:
        """Return the outlook for records that are thinned to whole weights."""
        return self if self.cap is None else replace(self, cap=None, sizes=self.sizes * self.cap.gain())

    def predict(self, epsilon: float, *, growth: float = 1.0, unbiased: bool = False) -> Prediction:
        """Predict the certificate at level ε.

        - ``epsilon``: the level at which the encoder is certified.
        - ``growth``: factor by which the number of certification records is multiplied.
        - ``unbiased``: whether to remove the noise from the differences, which is better for much larger samples.
        """
        chosen = metric_of(self.metric)
        n_strata = len(self.differences)
        level = epsilon / n_strata if chosen.combine == "mean" else epsilon
        differences = np.abs(self.differences)
        if unbiased:
            noise = self.variances * self.errors[:, :, None]
            differences = np.sqrt(np.maximum(differences**2 - noise, 0.0))
        sizes = self.sizes / growth
        estimates = _mean_absolute(differences, self.variances * sizes[:, :, None]).sum(axis=2) / 2
        estimates = np.minimum(estimates, 1.0)
        radii = -ndtri(distance_level(level, capped=self.cap is not None)) * np.sqrt((1 - estimates**2) * sizes / 4)
        limits = estimates + radii
        if self.cap is not None:
            limits = raised(limits, self.cap.shares(level, growth))
        spreads = np.sqrt((sizes + self.errors) / 4)
        labels = [str(i) for i in range(n_strata)]

        def total(values: NDArray[np.float64]) -> float:
            return combine(
                chosen, [(label, float(value)) for label, row in zip(labels, values, strict=True) for value in row]
            )

        spread = total(spreads)
        if chosen.combine == "mean":
            spread /= math.sqrt(n_strata)
        return Prediction(total(estimates), min(1.0, total(limits)), spread)


def _mean_absolute(means: NDArray[np.float64], variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return E|Z| of normal variables Z."""
    sigma = np.sqrt(variances)
    ratio = means / sigma
    expected: NDArray[np.float64] = sigma * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + means * (
        1 - 2 * ndtr(-ratio)
    )
    return expected


def growth_needed(outlook: Outlook, target: float, epsilon: float, chance: float = LIKELY) -> float | None:
    """Return the factor of certification records that meets the target with this probability; None if none does."""
    # With many records no cap on the weights is needed, and the weight above a cap would remain.
    outlooks = [outlook] if outlook.cap is None else [outlook, outlook.without_cap()]

    def enough(growth: float) -> bool:
        return any(
            found.predict(epsilon, growth=growth, unbiased=True).bound
            + float(ndtri(chance)) * math.sqrt(float((found.sizes / growth / 4).max()))
            <= target
            for found in outlooks
        )

    low, high = 1.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
        if high > 1e6:
            return None
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
