"""Measure how well the cells of an encoder predict a label, from counts alone.

A cell predicts a label by the shares of the label's values among its training records. Three utilities measure these
predictions:

*information*: the share of the label's entropy that the cells explain, by which the log loss is lower than that of the
base rates;
*explained*: the share of the label's variance (Gini impurity) that they explain, by the quadratic loss;
*accuracy*: how often the most likely value, the cell's majority vote, is right.

If a label is rare, accuracy may be blind: no cell has it as its majority, although the cells are informative.

Tables are by cell and value of the label. Several encoders are measured at once if their tables are stacked along a
first axis: they count the same records, and a cell without records changes nothing.
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
from certifare.certificates.means import mean_limits, ratio_limits
from certifare.certificates.tail import clopper_pearson
from certifare.errors import ArgumentError
from certifare.frontier.target import TRAINING_DISCOUNT

#: Utilities by which an encoder may be chosen.
UTILITIES = ("information", "explained", "accuracy")
#: Number of pseudo-records with the base rates that smooth the shares of a cell.
PSEUDO_RECORDS = 5.0
#: Training records may be predicted better than select records by this many standard errors; more is overfitting.
BELIEVABLE = 2.0

Shares = NDArray[np.float64]
Counts = NDArray[np.int64]


def check_utility(name: str) -> str:
    """Raise if a utility is unknown."""
    if name not in UTILITIES:
        raise ArgumentError(f"utility={name!r}: choose one of {', '.join(UTILITIES)}.")
    return name


def base_rates(train: Counts) -> Shares:
    """Return the shares of a label's values among all training records, smoothed so that none is 0."""
    totals = train.sum(axis=-2)
    shares: Shares = (totals + 1.0) / (totals.sum(axis=-1, keepdims=True) + totals.shape[-1])
    return shares


def forecasts(train: Counts) -> Shares:
    """Return each cell's shares of a label's values among training records, shrunk towards the base rates."""
    prior = PSEUDO_RECORDS * base_rates(train)[..., None, :]
    shares: Shares = (train + prior) / (train.sum(axis=-1, keepdims=True) + PSEUDO_RECORDS)
    return shares


def losses(utility: str, shares: Shares) -> Shares:
    """Return the loss of each prediction (row) if the true value is that of the column."""
    if utility == "information":
        return -np.log(shares)
    if utility == "explained":
        squared: Shares = 1.0 - 2.0 * shares + (shares**2).sum(axis=-1, keepdims=True)
        return squared
    wrong: Shares = (np.arange(shares.shape[-1]) != shares.argmax(axis=-1)[..., None]).astype(np.float64)
    return wrong


def losses_left_out(utility: str, train: Counts) -> Shares:
    """Return the loss of each cell's leave-one-out prediction for its own training records."""
    prior = PSEUDO_RECORDS * base_rates(train)[..., None, :]
    left = np.maximum(train.sum(axis=-1, keepdims=True) - 1, 0)
    found = np.empty(train.shape)
    for value in range(train.shape[-1]):
        others = train.astype(np.float64)
        others[..., value] = np.maximum(others[..., value] - 1.0, 0.0)
        found[..., value] = losses(utility, (others + prior) / (left + PSEUDO_RECORDS))[..., value]
    return found


def _base_losses(utility: str, base: Shares) -> Shares:
    """Return the loss of the base rates for each value; accuracy is not compared with them."""
    return (
        np.ones((*base.shape[:-1], 1, base.shape[-1])) if utility == "accuracy" else losses(utility, base[..., None, :])
    )


def _sum(table: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over cells and values."""
    found: NDArray[Any] = table.sum(axis=(-2, -1))
    return found


def utility_of(utility: str, train: Sequence[Counts], select: Sequence[Counts]) -> NDArray[np.float64]:
    """Return the utility of an encoder's cells, averaged over labels.

    Select records count in full. Training records, with leave-one-out predictions, count as an eighth: the cells
    were fitted to them (:mod:`certifare.frontier.target`). If they are predicted better than the select records by more
    than chance explains, the cells are overfitted (a column of very many categories, a rare label), and the training
    records count only with the gain that is plausible given the select records.

    - ``utility``: one of ``UTILITIES``.
    - ``train``, ``select``: for each label, the number of records by cell and value.
    """
    found = []
    for seen, fresh in zip(train, select, strict=True):
        base, shares = _base_losses(utility, base_rates(seen)), forecasts(seen)
        gains = base - losses(utility, shares)
        trained = _sum(seen * (base - losses_left_out(utility, seen)))
        trained = np.minimum(trained, _sum(seen) * _believable(gains, shares, fresh))
        weighted = fresh.sum(axis=-2, keepdims=True) + seen.sum(axis=-2, keepdims=True) / TRAINING_DISCOUNT
        found.append((_sum(fresh * gains) + trained / TRAINING_DISCOUNT) / _sum(weighted * base))
    return np.asarray(np.mean(found, axis=0))


def utility_left_out(utility: str, train: Sequence[Counts]) -> NDArray[np.float64]:
    """Measure the utility of cells on training records, each forecast from the others of its cell."""
    found = []
    for seen in train:
        base = _base_losses(utility, base_rates(seen))
        found.append(_sum(seen * (base - losses_left_out(utility, seen))) / _sum(seen * base))
    return np.asarray(np.mean(found, axis=0))


def utility_of_records(
    utility: str, predicted: Sequence[Shares], base: Sequence[Shares], codes: Sequence[NDArray[np.integer[Any]]]
) -> float:
    """Return the utility of predictions for single records, averaged over labels.

    - ``predicted``: for each label, the shares of its values that are predicted.
    - ``base``: its base rates.
    - ``codes``: the true value of each record; −1 if it is missing.
    """
    found = []
    for shares, rates, true in zip(predicted, base, codes, strict=True):
        known = np.flatnonzero(true >= 0)
        lost = losses(utility, np.maximum(shares[known], 1e-12))[np.arange(len(known)), true[known]]
        without = np.ones(len(known)) if utility == "accuracy" else losses(utility, rates[None])[0, true[known]]
        found.append(1.0 - float(lost.sum() / without.sum()))
    return float(np.mean(found))


def _believable(gains: Shares, shares: Shares, fresh: Counts) -> NDArray[np.float64]:
    """Return the largest mean gain that is plausible given fresh records.

    That is their own gain plus some standard errors, which are estimated from their gains, or from the gains that are
    expected if the predictions are right, whichever is larger (a rare label may not occur among them).
    """
    n = _sum(fresh)
    cells, each = fresh.sum(axis=-1, keepdims=True), np.maximum(n, 1)
    squares = [_sum(there * gains**2) / each - (_sum(there * gains) / each) ** 2 for there in (fresh, cells * shares)]
    error = np.sqrt(np.maximum(np.maximum(*squares), 0.0) / each)
    return np.where(n < 2, math.inf, _sum(fresh * gains) / each + BELIEVABLE * error)


def beyond_chance(train: Sequence[Counts], fresh: Sequence[Counts]) -> NDArray[np.float64]:
    """Return by how many standard errors the predictions beat chance on fresh records.

    The statistic is the mean logarithm of predicted share over base rate. Its mean and error under chance are those of
    randomly permuted labels. Errors of several labels are added up as if they were perfectly correlated, which can only
    make the result smaller.
    """
    return _standard_errors((_log_ratios(seen), there, there) for seen, there in zip(train, fresh, strict=True))


def left_out_beyond_chance(train: Sequence[Counts]) -> NDArray[np.float64]:
    """Return the same for training records with leave-one-out predictions; they count as an eighth."""
    found = _standard_errors(
        (-losses_left_out("information", seen) - np.log(base_rates(seen))[..., None, :], seen, seen) for seen in train
    )
    return found / math.sqrt(TRAINING_DISCOUNT)


def promised(train: Sequence[Counts], fresh: Sequence[Counts]) -> NDArray[np.float64]:
    """Return the expected value of :func:`beyond_chance` if the predictions are right."""
    return _standard_errors(
        (_log_ratios(seen), there, there.sum(axis=-1, keepdims=True) * forecasts(seen))
        for seen, there in zip(train, fresh, strict=True)
    )


def _log_ratios(train: Counts) -> Shares:
    """Return the logarithm of predicted share over base rate."""
    return np.log(forecasts(train) / base_rates(train)[..., None, :])


def _standard_errors(found: Iterable[tuple[Shares, Counts, NDArray[Any]]]) -> NDArray[np.float64]:
    """Return the mean score above chance, in standard errors, summed over labels.

    For each label: the score of a record of each cell and value, the records that chance permutes, and the actual
    records.
    """
    gain = error = np.zeros(())
    for score, dealt, there in found:
        n = int(_sum(dealt).max(initial=0))
        if n < 2:
            continue
        cells, values = dealt.sum(axis=-1, keepdims=True) / n, dealt.sum(axis=-2, keepdims=True) / n
        of_cell, of_value = (score * values).sum(axis=-1, keepdims=True), (score * cells).sum(axis=-2, keepdims=True)
        expected = (of_cell * cells).sum(axis=-2, keepdims=True)
        gain = gain + _sum(there * score) / n - expected[..., 0, 0]
        error = error + np.sqrt(_sum(cells * (score - of_cell - of_value + expected) ** 2 * values) / (n - 1))
    # If all cells predict the same, the error is 0 except for rounding.
    return np.where(error > 1e-12, gain / np.maximum(error, 1e-12), -math.inf)


# -- figures for people, with their intervals -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimated quality of predictions of a label on some records; means over several labels."""

    accuracy: NDArray[np.float64]  # how often the most likely value is right
    auc: NDArray[np.float64] | None  # area under the ROC curve; None if a label has more than two values
    explained: NDArray[np.float64]  # share of the label's variance (Gini impurity) that the predictions explain

    @classmethod
    def of(cls, forecasts: Sequence[Shares], bases: Sequence[Shares], counts: Sequence[Counts]) -> Estimates:
        """Measure predictions, with arguments as in :meth:`Performance.of`."""
        found = list(zip(forecasts, bases, counts, strict=True))
        two = all(t.shape[-1] == 2 for t in counts)
        return cls(
            accuracy=np.mean([_right(p, t) / np.maximum(_sum(t), 1) for p, _, t in found], axis=0),
            auc=np.mean([area(p, t) for p, _, t in found], axis=0) if two else None,
            explained=np.mean([1.0 - _left(p, base, t) for p, base, t in found], axis=0),
        )


@dataclass(frozen=True, slots=True)
class Performance:
    """Quality of predictions of a label on some records, with confidence intervals; means over several labels.

    Each interval holds with its confidence for any number of records and any rare value.
    """

    records: int
    accuracy: Interval  # of the most likely value, by Clopper and Pearson
    auc: Interval | None  # area under the ROC curve, by binomial tails; None if a label has more than two values
    explained: Interval  # share of the label's variance (Gini impurity) that the predictions explain, by betting
    baseline: float  # accuracy of always predicting the most common value among training records

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
        """Measure predictions that were made without these records.

        - ``forecasts``: for each label, the predicted shares for a cell or for a record.
        - ``bases``: shares of each label's values among training records.
        - ``counts``: number of records of each row with each value.
        - ``candidates``: number of encoders among which the choice was made on these records: each has a share of ε.
        - ``by_cell``: whether the rows are all possible predictions, as for cells. If not, a record may have any
          prediction.
        """
        found = list(zip(forecasts, bases, counts, strict=True))
        estimates = Estimates.of(forecasts, bases, counts)
        # A mean of bounds holds if all of them do.
        level = epsilon_at(confidence) / candidates / len(found)

        def interval(figure: NDArray[np.float64], limits: Sequence[tuple[float, float]]) -> Interval:
            estimate = float(figure)
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
        """Return plain data for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def area(shares: Shares, counts: Counts) -> Any:
    """Return the area under the ROC curve of the second value's share; one half if all records have one value.

    >>> area(np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[30, 10], [10, 30]]))
    0.75
    """
    if shares.ndim > 2:
        return np.array([area(*one) for one in zip(shares, counts, strict=True)])
    # Rows with equal scores are ties.
    level = np.unique(shares[:, 1], return_inverse=True)[1]
    negative, positive = (np.bincount(level, weights=counts[:, value]) for value in (0, 1))
    n, p = negative.sum(), positive.sum()
    if not n or not p:
        return 0.5
    # For each score, the share of the other value that is ranked correctly; ties count half.
    above = (np.cumsum(negative) - negative / 2) / n
    return float(positive @ above / p)


def _area_limits(shares: Shares, counts: Counts, epsilon: float) -> tuple[float, float]:
    # The area is an average, over all pairings, of the mean over independent pairs.
    return mean_limits(area(shares, counts), int(counts.sum(axis=0).min()), epsilon)


def _right(shares: Shares, counts: Counts) -> NDArray[np.int64]:
    """Return the number of records that have the most likely value."""
    return _sum(np.take_along_axis(counts, shares.argmax(axis=-1)[..., None], axis=-1))


def _accuracy_limits(shares: Shares, counts: Counts, epsilon: float) -> tuple[float, float]:
    low, high = clopper_pearson(np.array([_right(shares, counts)]), np.array([int(counts.sum())]), epsilon)
    return float(low[0]), float(high[0])


def _quadratic(shares: Shares, base: Shares) -> tuple[Shares, Shares]:
    """Return the losses of the predictions and of the base rates if the true value is that of the column."""
    return losses("explained", shares), np.broadcast_to(losses("explained", base[..., None, :]), shares.shape)


def _left(shares: Shares, base: Shares, counts: Counts) -> NDArray[np.float64]:
    """Return the share of the base rates' loss that remains with the predictions; 1 if there are no records."""
    lost, without = (_sum(counts * loss) for loss in _quadratic(shares, base))
    return np.where(without > 0.0, lost / np.where(without > 0.0, without, 1.0), 1.0)


def _explained_limits(
    shares: Shares, base: Shares, counts: Counts, epsilon: float, by_cell: bool
) -> tuple[float, float]:
    # Predictions that are certain of a value have the largest and the smallest losses.
    possible = None if by_cell else _quadratic(np.eye(len(base)), base)
    low, high = ratio_limits(*_quadratic(shares, base), counts, epsilon, possible=possible)
    return 1.0 - high, 1.0 - low
