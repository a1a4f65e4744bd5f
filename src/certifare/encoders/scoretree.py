"""What the tree of a group-aware boosted encoder grows over: scores that know the group, and the table's columns.

Whoever may read the group needs no map. Of all rules that read it, those with the best accuracy at a given distance
accept a record if P(y|x,s) is above a threshold of its group. So the score of the labels is a column like any other,
and a tree with a cut for each group grows over it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.forest import Forest
from certifare.encoders.scoremap import MOST_AXES, probabilities, side_axes
from certifare.encoders.scores import Scores
from certifare.encoders.training import ColumnSchema
from certifare.foundation.levels import Levels
from certifare.growth import Bins, Codes, ContinuousBins, encode
from certifare.tables.frames import Field

FEWEST_BINS, MOST_BINS = 8, 255
"""Bins of a score, for each group."""

MOST_CODES = 1 << 12
"""Bins of a score, for all groups together."""

RECORDS_PER_BIN = 25


@dataclass(frozen=True, eq=False)
class Score:
    """A score of the labels, as a column.

    Attributes
    ----------
    name : str
    weights : ndarray of float64 or None
        What each class probability counts; None: there is a single score of two classes, taken as is.
    edges : ndarray of float64
    """

    name: str
    weights: NDArray[np.float64] | None
    edges: NDArray[np.float64]

    def along(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the values of the column."""
        return scores[:, 0] if self.weights is None else (scores * self.weights).sum(axis=1)


@dataclass(frozen=True, eq=False)
class ScoreTree:
    """Columns of a tree over scores.

    Attributes
    ----------
    scores : Scores
        Of models that see the group.
    columns : tuple of Score
    table : tuple of Bins
        The table's columns, where ``retain`` asked for them; they come after the scores.
    """

    scores: Scores
    columns: tuple[Score, ...]
    table: tuple[Bins, ...]

    @cached_property
    def bins(self) -> tuple[Bins, ...]:
        """Bins of all columns."""
        return score_bins(self.columns, self.table)

    def codes(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None, n_threads: int = 1) -> Codes:
        """Find the codes of records."""
        table = encode(self.table, [field.column for field in fields], n_threads=n_threads) if self.table else None
        return self.locate(self.scores.score(fields, n_threads, groups), table, groups)

    def locate(self, scores: Sequence[NDArray[np.float64]], table: Codes | None, groups: NDArray[Any] | None) -> Codes:
        """Find the codes of records whose scores, and whose table's codes, are known."""
        together = _together(scores)
        own = encode(self.bins[: len(self.columns)], [score.along(together) for score in self.columns])
        columns = own.columns if table is None else (*own.columns, *table.columns)
        return Codes(columns, tuple(b.n_codes for b in self.bins)).of_groups(groups)

    def in_words(self, columns: Sequence[ColumnSchema]) -> tuple[tuple[Bins, ...], tuple[ColumnSchema, ...]]:
        """Give the columns as rules name them: a score of two classes as a probability."""
        log_odds = all(isinstance(model, Forest) for model in self.scores.models)
        return columns_in_words(self.columns, self.table, columns, log_odds)


def score_bins(scores: Sequence[Score], table: Sequence[Bins]) -> tuple[Bins, ...]:
    """Bins of scores, and behind them those of the table's columns."""
    return (*(ContinuousBins(score.name, score.edges) for score in scores), *table)


def columns_in_words(
    scores: Sequence[Score], table: Sequence[Bins], columns: Sequence[ColumnSchema], log_odds: bool
) -> tuple[tuple[Bins, ...], tuple[ColumnSchema, ...]]:
    """Bins and columns of a tree over scores, for its rules; scores of two classes are log-odds or probabilities."""
    bins: list[Bins] = []
    for score in scores:
        edges = score.edges
        if score.weights is None and log_odds:
            edges = 1.0 / (1.0 + np.exp(-np.clip(edges, -500.0, 500.0)))
        bins.append(ContinuousBins(score.name, edges.round(4)))
    schemas = [ColumnSchema(score.name, "number", False, False) for score in scores]
    return (*bins, *table), (*schemas, *(columns if table else ()))


def fit_columns(
    scores: Sequence[NDArray[np.float64]],
    labels: Sequence[Levels],
    groups: Levels,
    n_bins: int | None,
    label_weights: Sequence[float],
    taken: Sequence[str],
) -> tuple[Score, ...]:
    """Cut the scores at the quantiles of each group, from out-of-fold scores of training records.

    One label of two classes has one score. Otherwise class probabilities are reduced to their first principal
    directions, four at most.

    Parameters
    ----------
    scores : sequence of ndarray
        For each label column.
    labels, groups : Levels
    n_bins : int or None
        Bins for each group; None: chosen from the number of records.
    label_weights : sequence of float
    taken : sequence of str
        Names of the table's columns, which no score may have.
    """
    together = _together(scores)
    sizes = np.bincount(groups.codes, minlength=len(groups.values))
    most = max(MOST_CODES // len(sizes), 2)
    columns = []
    for name, weights, _ in side_axes(labels, together, [np.sqrt(w) for w in label_weights], MOST_AXES):
        while name in taken:
            name += "′"
        column = Score(name, weights, np.zeros(0))
        along = column.along(together)
        edges = [np.zeros(0)]
        for group, size in enumerate(sizes.tolist()):
            n = min(max(size // RECORDS_PER_BIN, FEWEST_BINS), MOST_BINS) if n_bins is None else n_bins
            n = min(n, most)
            if size:
                edges.append(np.quantile(along[groups.codes == group], np.arange(1, n) / n, method="lower"))
        found = np.unique(np.concatenate(edges))
        columns.append(Score(name, weights, found[found < along.max()]))
    return tuple(columns)


def _together(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Scores of all labels side by side."""
    return scores[0] if len(scores) == 1 else np.hstack([probabilities(score) for score in scores])
