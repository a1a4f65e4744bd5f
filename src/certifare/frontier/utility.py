"""How much the cells of an encoder tell about a label: functions of counts alone.

A cell forecasts a label by the shares that the label's values have among its training records. What that is worth is
measured by one of three utilities:

*information*: the share of the label's entropy that the cells explain, by which the log loss is lower than that of the
same base rates for everybody;
*explained*: the share of the label's spread (Gini impurity) that they explain, by the quadratic loss;
*accuracy*: how often the likeliest value, the cell's majority vote, is right.

The first two see what accuracy cannot, where a label is rare: no cell's majority has it, and yet cells tell a lot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import Interval
from certifare.certificates.exact import epsilon_at
from certifare.certificates.lemmas import clopper_pearson
from certifare.certificates.means import mean_limits, ratio_limits
from certifare.errors import ArgumentError
from certifare.frontier.target import TRAINING_DISCOUNT

#: What an encoder may be chosen by.
UTILITIES = ("information", "explained", "accuracy")
#: How many records at the base rates are added to a cell before its shares are taken.
PSEUDO_RECORDS = 5.0
#: So many standard errors may training records be better forecast than select records before they are not believed.
BELIEVABLE = 2.0

Shares = NDArray[np.float64]
Counts = NDArray[np.int64]


def check_utility(name: str) -> str:
    """Refuse a utility that there is not."""
    if name not in UTILITIES:
        raise ArgumentError(f"utility={name!r}: choose one of {', '.join(UTILITIES)}.")
    return name


def base_rates(train: Counts) -> Shares:
    """Shares of a label's values among all training records; none is quite 0."""
    totals = train.sum(axis=0)
    shares: Shares = (totals + 1.0) / (totals.sum() + len(totals))
    return shares


def forecasts(train: Counts) -> Shares:
    """Each cell's shares of a label's values among training records, drawn a little towards the base rates."""
    shares: Shares = (train + PSEUDO_RECORDS * base_rates(train)) / (train.sum(axis=1, keepdims=True) + PSEUDO_RECORDS)
    return shares


def losses(utility: str, shares: Shares) -> Shares:
    """Loss of each forecast (row) if a value (column) comes true."""
    if utility == "information":
        return -np.log(shares)
    if utility == "explained":
        squared: Shares = 1.0 - 2.0 * shares + (shares**2).sum(axis=1, keepdims=True)
        return squared
    wrong: Shares = (np.arange(shares.shape[1]) != shares.argmax(axis=1)[:, None]).astype(np.float64)
    return wrong


def losses_left_out(utility: str, train: Counts) -> Shares:
    """Loss of each cell's forecast for one of its own training records, made from the others."""
    prior = PSEUDO_RECORDS * base_rates(train)
    left = np.maximum(train.sum(axis=1, keepdims=True) - 1, 0)
    found = np.empty(train.shape)
    for value in range(train.shape[1]):
        others = train.astype(np.float64)
        others[:, value] = np.maximum(others[:, value] - 1.0, 0.0)
        found[:, value] = losses(utility, (others + prior) / (left + PSEUDO_RECORDS))[:, value]
    return found


def utility_of(utility: str, train: Sequence[Counts], select: Sequence[Counts]) -> float:
    """Measure the utility of an encoder's cells; the mean over several labels.

    Select records count in full. Training records, each forecast from the others of its cell, count as an eighth: they
    made the cells, as in :mod:`certifare.frontier.target`. Where they are so much better forecast than the select
    records that chance hardly explains it, cells were made of their accidents (a column of very many categories, a rare
    label), and they count as what the select records leave believable.

    Parameters
    ----------
    utility : str
        One of ``UTILITIES``.
    train, select : sequence of ndarray, (cells, values)
        For each label, records by cell and value.
    """
    found = []
    for seen, fresh in zip(train, select, strict=True):
        base = np.ones(seen.shape[1]) if utility == "accuracy" else losses(utility, base_rates(seen)[None])
        shares = forecasts(seen)
        gains = base - losses(utility, shares)
        trained = float((seen * (base - losses_left_out(utility, seen))).sum())
        trained = min(trained, seen.sum() * _believable(gains, shares, fresh))
        without = ((fresh.sum(axis=0) + seen.sum(axis=0) / TRAINING_DISCOUNT) * base).sum()
        found.append(((fresh * gains).sum() + trained / TRAINING_DISCOUNT) / without)
    return float(np.mean(found))


def utility_left_out(utility: str, train: Sequence[Counts]) -> float:
    """Measure the utility of cells on training records, each forecast from the others of its cell."""
    found = []
    for seen in train:
        base = np.ones(seen.shape[1]) if utility == "accuracy" else losses(utility, base_rates(seen)[None])
        gain = (seen * (base - losses_left_out(utility, seen))).sum()
        found.append(float(gain / (seen.sum(axis=0) * base).sum()))
    return float(np.mean(found))


def _believable(gains: Shares, shares: Shares, fresh: Counts) -> float:
    """Return the largest mean gain that the fresh records leave believable.

    That is what they gain, and some standard errors: of the gains that they have, or that they would have if forecasts
    were right, whichever is more (of a rare label there may be none among them).
    """
    n = int(fresh.sum())
    if n < 2:
        return math.inf
    cells = fresh.sum(axis=1, keepdims=True)
    errors = []
    for there in (fresh, cells * shares):
        mean = float((there * gains).sum()) / n
        errors.append(math.sqrt(max(float((there * gains**2).sum()) / n - mean**2, 0.0) / n))
    return float((fresh * gains).sum()) / n + BELIEVABLE * max(errors)


def beyond_chance(train: Sequence[Counts], fresh: Sequence[Counts]) -> float:
    """How many standard errors the forecasts go with the label on fresh records, beyond chance.

    The statistic is the mean logarithm of forecast over base rate. Its mean and its error are those that it has if the
    same labels are dealt to the same records at random. Errors of several labels are added up as if they always fell
    together, which makes the figure smaller, never larger.
    """
    return _standard_errors(
        (np.log(forecasts(seen) / base_rates(seen)), there, there) for seen, there in zip(train, fresh, strict=True)
    )


def left_out_beyond_chance(train: Sequence[Counts]) -> float:
    """Return the same on training records, each forecast from the others of its cell; they count as an eighth."""
    found = _standard_errors(
        (-losses_left_out("information", seen) - np.log(base_rates(seen)), seen, seen) for seen in train
    )
    return found / math.sqrt(TRAINING_DISCOUNT)


def promised(train: Sequence[Counts], fresh: Sequence[Counts]) -> float:
    """Return what :func:`beyond_chance` is expected to be if the forecasts are right."""
    return _standard_errors(
        (np.log(forecasts(seen) / base_rates(seen)), there, there.sum(axis=1, keepdims=True) * forecasts(seen))
        for seen, there in zip(train, fresh, strict=True)
    )


def _standard_errors(found: Iterable[tuple[Shares, Counts, NDArray[Any]]]) -> float:
    """Sum over labels of the mean score beyond chance, in standard errors.

    For each label: the score of a record of each cell and value, the records that chance would deal, and those that
    there are.
    """
    gain = error = 0.0
    for score, dealt, there in found:
        n = int(dealt.sum())
        if n < 2:
            continue
        cells, values = dealt.sum(axis=1) / n, dealt.sum(axis=0) / n
        of_cell, of_value = score @ values, cells @ score
        expected = float(cells @ of_cell)
        centred = score - of_cell[:, None] - of_value + expected
        gain += float((there * score).sum()) / n - expected
        error += math.sqrt(float(cells @ centred**2 @ values) / (n - 1))
    # Cells that all forecast the same have no error, but for roundings.
    return gain / error if error > 1e-12 else -math.inf


# -- figures for people, with their intervals -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimates:
    """What forecasts of a label are worth on some records, as it appears in them; means over several labels.

    Attributes
    ----------
    accuracy : float
        How often the likeliest value is right.
    auc : float or None
        Area under the ROC curve; None where a label has more than two values.
    explained : float
        Share of the label's spread (Gini impurity) that the forecasts explain.
    """

    accuracy: float
    auc: float | None
    explained: float

    @classmethod
    def of(cls, forecasts: Sequence[Shares], bases: Sequence[Shares], counts: Sequence[Counts]) -> Estimates:
        """Measure forecasts, which are given as to :meth:`Performance.of`."""
        found = list(zip(forecasts, bases, counts, strict=True))
        two = all(t.shape[1] == 2 for t in counts)
        return cls(
            accuracy=float(np.mean([_right(p, t) / max(t.sum(), 1) for p, _, t in found])),
            auc=float(np.mean([area(p, t) for p, _, t in found])) if two else None,
            explained=float(np.mean([1.0 - _left(p, base, t) for p, base, t in found])),
        )


@dataclass(frozen=True, slots=True)
class Performance:
    """What forecasts of a label are worth on some records; means over several labels.

    Each interval holds with its confidence as a whole, for every number of records and however rare a value is.

    Attributes
    ----------
    records : int
    accuracy : Interval
        Of the likeliest value, by Clopper and Pearson.
    auc : Interval or None
        Area under the ROC curve, by the tails of a binomial; None where a label has more than two values.
    explained : Interval
        Share of the label's spread (Gini impurity) that the forecasts explain, by betting.
    baseline : float
        Accuracy of always guessing the value that is commonest among training records.
    """

    records: int
    accuracy: Interval
    auc: Interval | None
    explained: Interval
    baseline: float

    @classmethod
    def of(
        cls,
        forecasts: Sequence[Shares],
        bases: Sequence[Shares],
        counts: Sequence[Counts],
        confidence: float = 0.95,
        candidates: int = 1,
        *,
        by_cell: bool = True,
    ) -> Performance:
        """Measure forecasts that were made without these records.

        Parameters
        ----------
        forecasts : sequence of ndarray, (rows, values)
            For each label what was forecast, for a cell or for a record.
        bases : sequence of ndarray, (values,)
            Shares of each label's values among training records.
        counts : sequence of ndarray, (rows, values)
            How many records of each row turned out to have each value.
        confidence : float
            With which each of the intervals holds.
        candidates : int
            Among how many the choice was made on these records: each has a share of ε.
        by_cell : bool
            Whether the rows are all that there can be, as cells are. If not, a record may have any forecast.
        """
        found = list(zip(forecasts, bases, counts, strict=True))
        estimates = Estimates.of(forecasts, bases, counts)
        # A mean of limits holds if all of them do.
        level = epsilon_at(confidence) / candidates / len(found)

        def interval(estimate: float, limits: Sequence[tuple[float, float]]) -> Interval:
            lower, upper = (float(np.mean(side)) for side in zip(*limits, strict=True))
            return Interval(
                lower=min(lower, estimate), estimate=estimate, upper=max(upper, estimate), confidence=confidence
            )

        return cls(
            records=max(int(t.sum()) for t in counts),
            accuracy=interval(estimates.accuracy, [_accuracy_limits(p, t, level) for p, _, t in found]),
            auc=None
            if estimates.auc is None
            else interval(estimates.auc, [_area_limits(p, t, level) for p, _, t in found]),
            explained=interval(
                estimates.explained, [_explained_limits(p, base, t, level, by_cell) for p, base, t in found]
            ),
            baseline=float(np.mean([t[:, base.argmax()].sum() / max(t.sum(), 1) for _, base, t in found])),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def area(shares: Shares, counts: Counts) -> float:
    """Area under the ROC curve of the second value's share; one half where there is but one kind of record.

    >>> area(np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[30, 10], [10, 30]]))
    0.75
    """
    # Rows with equal scores are one level: their records are ties.
    level = np.unique(shares[:, 1], return_inverse=True)[1]
    negative, positive = (np.bincount(level, weights=counts[:, value]) for value in (0, 1))
    n, p = negative.sum(), positive.sum()
    if not n or not p:
        return 0.5
    # For each level, the share of the other kind that a record is placed on the right side of; ties count half.
    above = (np.cumsum(negative) - negative / 2) / n
    return float(positive @ above / p)


def _area_limits(shares: Shares, counts: Counts, epsilon: float) -> tuple[float, float]:
    # The area is an average, over all ways to pair them, of the mean over as many independent pairs as can be made.
    return mean_limits(area(shares, counts), int(counts.sum(axis=0).min()), epsilon)


def _right(shares: Shares, counts: Counts) -> int:
    """How many records have the value that was the likeliest."""
    return int(counts[np.arange(len(counts)), shares.argmax(axis=1)].sum())


def _accuracy_limits(shares: Shares, counts: Counts, epsilon: float) -> tuple[float, float]:
    low, high = clopper_pearson(np.array([_right(shares, counts)]), np.array([int(counts.sum())]), epsilon)
    return float(low[0]), float(high[0])


def _quadratic(shares: Shares, base: Shares) -> tuple[Shares, Shares]:
    """Loss of each forecast, and that of the base rates, if a value (column) comes true."""
    return losses("explained", shares), np.broadcast_to(losses("explained", base[None]), shares.shape)


def _left(shares: Shares, base: Shares, counts: Counts) -> float:
    """Share of the base rates' loss that the forecasts leave; all of it where there is no record."""
    lost, without = _quadratic(shares, base)
    return float((counts * lost).sum() / (counts * without).sum()) if counts.any() else 1.0


def _explained_limits(
    shares: Shares, base: Shares, counts: Counts, epsilon: float, by_cell: bool
) -> tuple[float, float]:
    # Of all forecasts those that are sure of a value have the largest losses, and the smallest.
    possible = None if by_cell else _quadratic(np.eye(len(base)), base)
    low, high = ratio_limits(*_quadratic(shares, base), counts, epsilon, possible=possible)
    return 1.0 - high, 1.0 - low
