"""Fit a BoostedEncoder on a Dask cluster: LightGBM fits the scores on the workers, the client computes the score map.

Records are assigned to folds by row number. LightGBM's trees are converted to plain arrays, so that the encoder can be
published and finds the same cells everywhere. Only the axes of the map come from a sample; squares are counted over all
records.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.forest import Forest
from certifare.encoders.hashes import hash_numbers
from certifare.encoders.scoremap import ScoreMap, fit_axes
from certifare.encoders.scores import INNER_FOLDS, MODEL, SMOOTHING, FeatureMap, Scores, target_values
from certifare.engines.blocks import Block, Piece, by_piece
from certifare.engines.coding import Plan
from certifare.engines.medians import add_counts
from certifare.engines.preparing import EngineTraining
from certifare.errors import EncoderError
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import number, stream
from certifare.growth import Codes, Targets
from certifare.growth.summary import sample_positions

if TYPE_CHECKING:
    from certifare.engines.dask.cluster import DaskEngine

AXIS_RECORDS = 500_000
"""The axes of the map are computed from the scores of at most this many records."""


def map_scores(encoder: BoostedEncoder, engine: DaskEngine, training: EngineTraining) -> EngineTraining:
    """Add scores, the score map and counts of its squares to training records on a cluster."""
    if encoder.score_model is not None:
        raise EncoderError("On a cluster the score model is always LightGBM. Leave score_model=None.")
    if encoder.group_aware:
        raise EncoderError(
            "A group-aware boosted encoder is fitted in memory. Fit it on a sample of the records, or use "
            "FairTreeEncoder(group_aware=True) here."
        )
    plan = training.plan
    folds = Folds(int(encoder.folds), encoder.seed)
    starts = np.cumsum([0, *training.survey.lengths[:-1]]).tolist()
    features = FeatureMap(plan.bins)
    n_classes = (*plan.n_labels, len(plan.groups))
    sums = engine.reduce(Summer(plan, features, folds), _add_lists, starts)
    learner = Learner(engine, plan, features, folds, sums, starts, n_classes)
    scores = learner.fit(None)
    out_of_fold = engine.map(Scorer(plan, [learner.fit(fold) for fold in range(folds.n)], folds), starts)
    score_map = ScoreMap(scores, len(plan.labels), _axes(encoder, engine, training, out_of_fold), None)
    squares = engine.map(Locator(score_map), out_of_fold)
    counts = engine.reduce(SquareCounter(plan, score_map.n_squares), add_counts, squares)
    derived = MappedElsewhere(score_map, Codes((np.zeros(0, dtype=np.uint16),), (score_map.n_squares,)), counts)
    return replace(training, derived=derived, squares=squares)


@dataclass(frozen=True, eq=False)
class MappedElsewhere:
    """Training records on the score map, with only their counts on the client."""

    score_map: ScoreMap
    codes: Codes
    table: NDArray[np.int64]

    def counts(self, targets: Targets) -> NDArray[np.int64]:
        """Return the number of records of each class in each square."""
        return self.table


@dataclass(frozen=True)
class Folds:
    """Assigns records to folds, and to parts of the rest, by row number."""

    n: int
    seed: int

    def of(self, start: int, n_records: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the fold and part of the records from row ``start`` on."""
        places = (hash_numbers(start, n_records, number(self.seed, "folds", bits=64)) >> np.uint64(33)).astype(np.int64)
        return places % self.n, places // self.n % INNER_FOLDS


@dataclass(frozen=True, eq=False)
class Summer:
    """Sums the targets in each category, by fold and part."""

    plan: Plan
    features: FeatureMap
    folds: Folds

    def __call__(self, piece: Piece, start: int) -> list[NDArray[np.float64]]:
        """Sum a piece: for each averaged column (codes, folds, parts, 1 + values); the first value is the count."""
        parts: list[list[NDArray[np.float64]]] = []
        for block in self.plan.blocks(piece):
            codes = self.features.codes(block.fields)
            fold, part = self.folds.of(start, len(block))
            values = np.hstack([np.ones((len(block), 1)), *_target_values(self.plan, block)])
            found: list[NDArray[np.float64]] = []
            for i in self.features.averaged:
                shape = (self.plan.bins[i].n_codes, self.folds.n, INNER_FOLDS)
                place = np.ravel_multi_index((codes[i].astype(np.int64), fold, part), shape)
                size = int(np.prod(shape))
                sums = [np.bincount(place, weights=column, minlength=size).reshape(shape) for column in values.T]
                found.append(np.stack(sums, axis=-1).astype(np.float64))
            parts.append(found)
            start += len(block)
        return _add_lists(parts)


@dataclass(frozen=True, eq=False)
class RowMaker:
    """Makes the training data of models: rows of numbers, and the codes of the targets.

    Attributes
    ----------
    plan, features, folds
    fold : int or None
        The fold whose records are left out.
    means : list of ndarray, (parts, codes, values)
        For each averaged column, the means without each part; a record gets those without its own part.
    """

    plan: Plan
    features: FeatureMap
    folds: Folds
    fold: int | None
    means: list[NDArray[np.float64]]

    def __call__(self, piece: Piece, start: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Make the rows of a piece."""
        rows, targets = [], []
        for block in self.plan.blocks(piece):
            fold, part = self.folds.of(start, len(block))
            others = fold != self.fold
            codes = self.features.codes(block.fields)
            looked_up = [table[part, codes[i]] for i, table in zip(self.features.averaged, self.means, strict=True)]
            rows.append(np.hstack([self.features.numbers(block.fields, codes), *looked_up])[others])
            targets.append(np.column_stack(self.plan.targets(block))[others])
            start += len(block)
        return np.concatenate(rows), np.concatenate(targets)


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores training records with the models that were not fitted on them."""

    plan: Plan
    scores: Sequence[Scores]
    folds: Folds

    def __call__(self, piece: Piece, start: int) -> list[NDArray[np.float64]]:
        """Score a piece: for each target (records, 1) for two classes, else (records, classes)."""
        n_classes = self.scores[0].n_classes
        found: list[list[NDArray[np.float64]]] = [[] for _ in n_classes]
        for block in self.plan.blocks(piece):
            fold_of, _ = self.folds.of(start, len(block))
            outputs = [np.empty((len(block), 1 if n == 2 else n)) for n in n_classes]
            for fold, fitted in enumerate(self.scores):
                own = np.flatnonzero(fold_of == fold)
                for output, scored in zip(outputs, fitted.score([f.take(own) for f in block.fields]), strict=True):
                    output[own] = scored
            for scores, output in zip(found, outputs, strict=True):
                scores.append(output)
            start += len(block)
        return [np.concatenate(scores) for scores in found]


@dataclass(frozen=True, eq=False)
class Locator:
    """Finds the score squares of records."""

    score_map: ScoreMap

    def __call__(self, piece: Piece, scores: Sequence[NDArray[np.float64]]) -> NDArray[np.uint16]:
        """Find the squares of a piece."""
        return self.score_map.locate(scores, ()).columns[0]


@dataclass(frozen=True, eq=False)
class SquareCounter:
    """Counts records by square and class."""

    plan: Plan
    n_squares: int

    def __call__(self, piece: Piece, squares: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Count a piece."""
        n_classes = self.plan.n_classes
        classes = np.concatenate([self.plan.classes(block) for block in self.plan.blocks(piece)])
        flat = squares.astype(np.int64) * n_classes + classes
        return np.bincount(flat, minlength=self.n_squares * n_classes).reshape(self.n_squares, n_classes)


@dataclass(frozen=True, eq=False)
class ScoreSampler:
    """Returns the scores and targets of some records."""

    plan: Plan

    def __call__(
        self, piece: Piece, of_piece: tuple[list[NDArray[np.float64]], NDArray[np.int64]]
    ) -> list[NDArray[Any]]:
        """Return the scores, then the targets, of some rows of a piece."""
        scores, rows = of_piece
        parts = [self.plan.targets(block) for block in self.plan.blocks(piece)]
        targets = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        return [array[rows] for array in (*scores, *targets)]


@dataclass(frozen=True, eq=False)
class Learner:
    """Fits score models with LightGBM over the cluster.

    Attributes
    ----------
    engine, plan, features, folds
    sums : sequence of ndarray
        What :class:`Summer` adds up.
    starts : sequence of int
        The number of each piece's first record.
    n_classes : tuple of int
    """

    engine: DaskEngine
    plan: Plan
    features: FeatureMap
    folds: Folds
    sums: Sequence[NDArray[np.float64]]
    starts: Sequence[int]
    n_classes: tuple[int, ...]

    def fit(self, fold: int | None) -> Scores:
        """Fit a model for each target on all records but those of a fold."""
        left_out = [] if fold is None else [fold]
        kept = [np.delete(table, left_out, axis=1).sum(axis=1) for table in self.sums]  # (codes, parts, 1 + values)
        means = tuple(_means(table.sum(axis=1)) for table in kept)
        crossed = [np.stack([_means(np.delete(t, p, axis=1).sum(axis=1)) for p in range(INNER_FOLDS)]) for t in kept]
        rows = self.engine.map(RowMaker(self.plan, self.features, self.folds, fold, crossed), self.starts)
        models = tuple(self._fit_model(rows, means, target) for target in range(len(self.n_classes)))
        return Scores(self.features, means, models, self.n_classes)

    def _fit_model(self, rows: Sequence[Any], means: Sequence[NDArray[np.float64]], target: int) -> Forest:
        import dask.array as da
        from dask import delayed
        from lightgbm import DaskLGBMRegressor

        whole, n = self.features.whole(means), self.n_classes[target]
        matrices = [da.from_delayed(delayed(_first)(part), (np.nan, len(whole)), np.float64) for part in rows]
        targets = [da.from_delayed(delayed(_second)(part, target), (np.nan,), np.float64) for part in rows]
        # A classifier would number the classes that each worker has; a regressor with this objective takes them as is.
        objective = {"objective": "binary"} if n == 2 else {"objective": "multiclass", "num_class": n}
        model = DaskLGBMRegressor(
            client=self.engine.client, random_state=number(self.folds.seed, "score models"), **MODEL, **objective
        )
        with warnings.catch_warnings():
            # Said at every fit, whatever is set: the cluster decides on threads.
            warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")
            fitted = model.fit(
                da.concatenate(matrices, allow_unknown_chunksizes=True),
                da.concatenate(targets, allow_unknown_chunksizes=True),
            )
        forest = Forest.of_booster(fitted.booster_, n, whole)
        assert forest is not None  # noqa: S101  (no number is marked as a category)
        return forest


def _axes(encoder: BoostedEncoder, engine: DaskEngine, training: EngineTraining, out_of_fold: Sequence[Any]) -> Any:
    """Compute the axes of the map from a sample of the records' scores."""
    plan, lengths = training.plan, training.survey.lengths
    positions = sample_positions(sum(lengths), AXIS_RECORDS, stream(encoder.seed, "axes"))
    each = list(zip(out_of_fold, by_piece(positions, lengths), strict=True))
    sample = engine.reduce(ScoreSampler(plan), _concatenate_lists, each)
    n_targets = len(plan.labels) + 1
    *labels, groups = sample[n_targets:]
    return fit_axes(
        sample[:n_targets],
        [Levels(name, codes, values) for (name, values), codes in zip(plan.labels, labels, strict=True)],
        Levels(plan.group_name, groups, plan.groups),
        None if encoder.grid is None else int(encoder.grid),
        1,
        [1.0] * len(labels) if encoder.label_weights is None else list(encoder.label_weights),
    )


def _target_values(plan: Plan, block: Block) -> list[NDArray[np.float64]]:
    sizes = [*(values for _, values in plan.labels), plan.groups]
    return [target_values(Levels("", c, tuple(v))) for c, v in zip(plan.targets(block), sizes, strict=True)]


def _means(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the values in each category, shrunk towards the overall mean; the first column counts."""
    overall = table[:, 1:].sum(axis=0) / max(table[:, 0].sum(), 1.0)
    means: NDArray[np.float64] = (table[:, 1:] + SMOOTHING * overall) / (table[:, :1] + SMOOTHING)
    return means


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any], column: int) -> Any:
    return pair[1][:, column].astype(np.float64)


def _add_lists(parts: Sequence[list[NDArray[np.float64]]]) -> list[NDArray[np.float64]]:
    return [np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True)]


def _concatenate_lists(parts: Sequence[list[NDArray[Any]]]) -> list[NDArray[Any]]:
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
