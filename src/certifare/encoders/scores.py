"""Scores: how likely each label and each group is, given the features.

Each fold's models see the other folds only, so a training record's own score comes from models that never saw it. A
record that is encoded later gets the mean over the folds. Gradient boosted trees are taken out of scikit-learn as
plain arrays and evaluated here, before and after they are saved, so that cells survive a round trip bit by bit.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from certifare.encoders.training import MemoryTraining
from certifare.errors import EncoderError
from certifare.foundation.compiler import kernel
from certifare.foundation.levels import Levels
from certifare.foundation.progress import counter
from certifare.foundation.randomness import number, stream
from certifare.growth import Bins, CategoricalBins
from certifare.tables.frames import Field

FEW_CATEGORIES = 8
"""A categorical column with more categories also tells the mean of each target in its category."""

FEW_CLASSES = 8
"""A target with more classes tells the mean position of its class instead of the share of each."""

SMOOTHING = 10.0
"""How many records of average behaviour are added to a category before its mean is taken."""

INNER_FOLDS = 5
"""In how many parts the models' own training records are cut, so that no record contributes to its own mean."""

MANY_RECORDS = 200_000

LARGEST = float(np.finfo(np.float64).max)
"""Stands for an infinite threshold: no finite number lies above it."""

BLOCK_ROWS = 1 << 15

TREE_ROWS = 128
"""Rows that go down a tree together: few enough to stay in the nearest cache."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Additive trees. Nodes of all trees lie one after another; children are counted from their tree's start.

    Attributes
    ----------
    n_classes : int
        Two classes have one output (log-odds of the second), more have one each.
    baseline : ndarray of float64, (outputs,)
        What the sums start from.
    starts : ndarray of int64, (trees + 1,)
        Tree t's nodes are ``starts[t] … starts[t+1]-1``; it adds to output ``t % outputs``.
    feature : ndarray of int32
        Which number a node compares; -1 at a leaf.
    threshold : ndarray of float64
        At most this goes left.
    missing_left : ndarray of bool
        Where a missing number goes.
    left, right : ndarray of int32
    value : ndarray of float64
        What a leaf adds.
    """

    n_classes: int
    baseline: NDArray[np.float64]
    starts: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, model: Any) -> "Forest | None":
        """Take the trees out of a fitted HistGradientBoostingClassifier; None if it is something else."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        if type(model) is not HistGradientBoostingClassifier:
            return None
        trees = [predictor.nodes for iteration in model._predictors for predictor in iteration]
        nodes = np.concatenate(trees) if trees else np.zeros(0, dtype=[])
        if not trees or nodes["is_categorical"].any():
            return None
        leaf = nodes["is_leaf"].astype(bool)
        return cls(
            n_classes=len(model.classes_),
            baseline=np.array(model._baseline_prediction, dtype=np.float64).ravel(),
            starts=np.concatenate([[0], np.cumsum([len(tree) for tree in trees])]).astype(np.int64),
            feature=np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32),
            threshold=np.where(leaf, 0.0, np.minimum(nodes["num_threshold"], LARGEST)),
            missing_left=nodes["missing_go_to_left"].astype(bool) & ~leaf,
            left=np.where(leaf, 0, nodes["left"]).astype(np.int32),
            right=np.where(leaf, 0, nodes["right"]).astype(np.int32),
            value=np.where(leaf, nodes["value"], 0.0),
        )

    def score(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score records (rows of numbers): log-odds (n, 1) of the second of two classes, else probabilities."""
        raw = np.tile(self.baseline, (len(matrix), 1))
        _add_trees(matrix, self.starts, *self._steps, self.value, np.empty(TREE_ROWS, dtype=np.int32), raw)
        if self.n_classes == 2:
            return raw
        raw -= raw.max(axis=1, keepdims=True)
        np.exp(raw, out=raw)
        raw /= raw.sum(axis=1, keepdims=True)
        return raw

    @cached_property
    def _steps(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Depth of each tree; then of each node feature, threshold, way of missing numbers, and both children.

        Leaves lead to themselves, so that all records take as many steps as their tree is deep, and none has to be
        asked whether it has arrived.
        """
        nodes = np.arange(len(self.feature))
        is_leaf = self.feature < 0
        first = np.repeat(self.starts[:-1], np.diff(self.starts))
        children = np.stack([first + self.left, first + self.right], axis=1)
        children[is_leaf] = nodes[is_leaf, None]
        depth_of = np.zeros(len(nodes), dtype=np.int64)
        waiting = self.starts[:-1]
        depth = 0
        while len(waiting := waiting[~is_leaf[waiting]]):
            depth += 1
            waiting = children[waiting].ravel()
            depth_of[waiting] = depth
        deepest = np.maximum.reduceat(depth_of, self.starts[:-1])
        feature = np.where(is_leaf, 0, self.feature).astype(np.int32)
        return deepest, feature, self.threshold, self.missing_left, children.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Opaque:
    """Any other classifier: it can score, but not be written down."""

    model: Any

    def score(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score records: probability (n, 1) of the second of two classes, else probabilities."""
        probabilities = np.asarray(self.model.predict_proba(matrix), dtype=np.float64)
        return probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities


@dataclass(frozen=True, eq=False)
class Fold:
    """What one fold's models need.

    Attributes
    ----------
    means : tuple of ndarray, (codes, values)
        For each column in ``FeatureMap.averaged``, the smoothed mean of the targets in each category.
    models : tuple of Forest or Opaque
        One per target.
    """

    means: tuple[NDArray[np.float64], ...]
    models: tuple[Forest | Opaque, ...]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """How records become rows of numbers: numbers as they are, categories as positions and as means of the targets.

    Missing values are NaN.

    Attributes
    ----------
    bins : tuple of Bins
    n_groups : int
        If not 0, the record's group is a number, too, behind the columns; NaN if it is none of so many.
    """

    bins: tuple[Bins, ...]
    n_groups: int = 0

    @property
    def n_numbers(self) -> int:
        """How many numbers are the same in every fold."""
        return len(self.bins) + int(self.n_groups > 0)

    @property
    def averaged(self) -> tuple[int, ...]:
        """Columns whose categories are averaged over."""
        return tuple(
            i for i, b in enumerate(self.bins) if isinstance(b, CategoricalBins) and len(b.categories) > FEW_CATEGORIES
        )

    def codes(self, fields: Sequence[Field]) -> dict[int, NDArray[Any]]:
        """Codes of the categorical columns."""
        return {i: b.encode(fields[i].column) for i, b in enumerate(self.bins) if isinstance(b, CategoricalBins)}

    def numbers(
        self, fields: Sequence[Field], codes: dict[int, NDArray[Any]], groups: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Numbers that are the same in every fold, (records, numbers)."""
        matrix = np.empty((len(fields[0]), self.n_numbers))
        if self.n_groups:
            assert groups is not None  # noqa: S101  (asked for before records are scored)
            matrix[:, -1] = np.where(groups < self.n_groups, groups, np.nan)
        for i, (field, bins) in enumerate(zip(fields, self.bins, strict=True)):
            if isinstance(bins, CategoricalBins):
                matrix[:, i] = codes[i]
                matrix[codes[i] == bins.missing_code, i] = np.nan
            else:
                matrix[:, i] = field.numbers()
        return matrix

    def rows(
        self, numbers: NDArray[np.float64], codes: dict[int, NDArray[Any]], means: Sequence[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Rows for one fold's models: the numbers, then the means of each averaged column."""
        looked_up = [table[codes[i]] for i, table in zip(self.averaged, means, strict=True)]
        return np.ascontiguousarray(np.hstack([numbers, *looked_up]))


@dataclass(frozen=True, eq=False)
class Scores:
    """Fitted score models of all folds.

    Attributes
    ----------
    features : FeatureMap
    folds : tuple of Fold
    n_classes : tuple of int
        How many classes each target has.
    """

    features: FeatureMap
    folds: tuple[Fold, ...]
    n_classes: tuple[int, ...]

    def score(
        self, fields: Sequence[Field], n_threads: int = 1, groups: NDArray[Any] | None = None
    ) -> list[NDArray[np.float64]]:
        """Mean score over the folds, for each target: (n, 1) for two classes, else (n, classes).

        ``groups`` are the records' positions among the groups, for models that see them.
        """
        codes = self.features.codes(fields)
        numbers = self.features.numbers(fields, codes, groups)
        outputs = [np.empty((len(numbers), 1 if n == 2 else n)) for n in self.n_classes]

        def block(start: int) -> None:
            rows = slice(start, start + BLOCK_ROWS)
            of_rows = {i: column[rows] for i, column in codes.items()}
            totals = [np.zeros((len(numbers[rows]), output.shape[1])) for output in outputs]
            for fold in self.folds:
                matrix = self.features.rows(numbers[rows], of_rows, fold.means)
                for total, model in zip(totals, fold.models, strict=True):
                    total += model.score(matrix)
            for output, total in zip(outputs, totals, strict=True):
                output[rows] = total / len(self.folds)

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(block, range(0, len(numbers), BLOCK_ROWS)))
        return outputs

    def probabilities(
        self, fields: Sequence[Field], n_threads: int = 1, groups: NDArray[Any] | None = None
    ) -> list[NDArray[np.float64]]:
        """Probability of each class of each target, (n, classes): what the mean scores say."""
        found = []
        for score, model in zip(self.score(fields, n_threads, groups), self.folds[0].models, strict=True):
            if score.shape[1] == 1:
                second = expit(score) if isinstance(model, Forest) else score
                score = np.hstack([1.0 - second, second])
            found.append(score)
        return found

    def check_publishable(self) -> None:
        """Refuse models that cannot be written as trees."""
        for fold in self.folds:
            for model in fold.models:
                if isinstance(model, Opaque):
                    raise EncoderError(
                        f"The score model {type(model.model).__name__} cannot be written as JSON. Only scikit-learn's "
                        "HistGradientBoostingClassifier without categorical_features can: leave score_model=None."
                    )


def default_model(seed: int, n_records: int = 0) -> Any:
    """Gradient boosting with the settings that scored best out of fold (see docs/boosted.md).

    Where many records can be learnt from, three times as many trees gain .002 of accuracy. Who fits a model for the
    labels alone can afford them, and says how many records there are.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=300 if n_records >= MANY_RECORDS else 100,
        learning_rate=0.1,
        max_leaf_nodes=31,
        min_samples_leaf=40,
        max_features=0.3,
        early_stopping=False,
        random_state=number(seed, "score models"),
    )


def fit_scores(
    training: MemoryTraining,
    targets: Sequence[Levels],
    model: Any,
    n_folds: int,
    seed: int,
    n_threads: int = 1,
    group_aware: bool = False,
) -> tuple[Scores, list[NDArray[np.float64]]]:
    """Fit score models fold by fold, folds side by side on as many threads as asked for.

    If ``group_aware``, the models see the group.

    Returns
    -------
    Scores
    list of ndarray
        For each target the training records' scores, from models that never saw them.
    """
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    n_folds = min(n_folds, len(training))
    seen = training.groups if group_aware else None
    fold_of = _assign_folds(targets if seen is None else [*targets, seen], training.units, n_folds, seed)
    rare = _rare(targets, fold_of, n_folds)
    features = FeatureMap(training.bins, 0 if seen is None else len(seen.values))
    codes = features.codes(training.fields)
    numbers = features.numbers(training.fields, codes, None if seen is None else seen.codes)
    values = np.hstack([target_values(target) for target in targets])
    n_classes = tuple(len(target.values) for target in targets)
    out_of_fold = [np.empty((len(training), 1 if n == 2 else n)) for n in n_classes]

    tick = counter(n_folds * len(targets))

    def fit_fold(fold: int) -> Fold:
        others, own = np.flatnonzero((fold_of != fold) | rare), np.flatnonzero(fold_of == fold)
        of_others = {i: column[others] for i, column in codes.items()}
        of_own = {i: column[own] for i, column in codes.items()}
        sizes = [features.bins[i].n_codes for i in features.averaged]
        means = [_means(of_others[i], values[others], n) for i, n in zip(features.averaged, sizes, strict=True)]
        crossed = [
            _crossed_means(of_others[i], values[others], n, seed) for i, n in zip(features.averaged, sizes, strict=True)
        ]
        matrix = np.ascontiguousarray(np.hstack([numbers[others], *crossed]))
        # Some models refuse a column without any value; as a constant it tells them as little.
        matrix[:, np.isnan(matrix).all(axis=0)] = 0.0
        models: list[Forest | Opaque] = []
        # Threads that wait for each other at every node lose more than they gain where other work is running.
        with threadpool_limits(1, user_api="openmp"):
            for target in targets:
                fitted = clone(model).fit(matrix, target.codes[others])
                models.append(Forest.of(fitted) or Opaque(fitted))
                tick()
        matrix = features.rows(numbers[own], of_own, means)
        for scores, fitted_model in zip(out_of_fold, models, strict=True):
            scores[own] = fitted_model.score(matrix)
        return Fold(tuple(means), tuple(models))

    with ThreadPoolExecutor(n_threads) as pool:
        folds = tuple(pool.map(fit_fold, range(n_folds)))
    return Scores(features, folds, n_classes), out_of_fold


def _assign_folds(
    targets: Sequence[Levels], units: NDArray[np.int64] | None, n_folds: int, seed: int
) -> NDArray[np.int64]:
    """Deal records to folds, each combination of target values evenly; a unit's records to one fold."""
    codes = [target.codes for target in targets]
    unit = None
    if units is not None:
        # A unit counts as its first record does.
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        codes = [column[first] for column in codes]
    shuffled = stream(seed, "folds").permutation(len(codes[0]))
    order = shuffled[np.lexsort([column[shuffled] for column in reversed(codes)])]
    fold_of = np.empty(len(order), dtype=np.int64)
    fold_of[order] = np.arange(len(order)) % n_folds
    return fold_of if unit is None else fold_of[unit]


def _rare(targets: Sequence[Levels], fold_of: NDArray[np.int64], n_folds: int) -> NDArray[np.bool_]:
    """Mark the few records with a value that occurs in one fold only: every model must have seen it."""
    rare = np.zeros(len(fold_of), dtype=bool)
    for target in targets:
        per_fold = np.zeros((len(target.values), n_folds), dtype=np.int64)
        np.add.at(per_fold, (target.codes, fold_of), 1)
        rare |= ((per_fold > 0).sum(axis=1) == 1)[target.codes]
    return rare


def target_values(target: Levels) -> NDArray[np.float64]:
    """Give what is averaged over a category: the share of each class but the first, or the position of many."""
    n = len(target.values)
    if n > FEW_CLASSES:
        return np.asarray(target.codes / (n - 1.0))[:, None]
    return np.asarray(target.codes[:, None] == np.arange(1, n), dtype=np.float64)


def _means(codes: NDArray[Any], values: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Mean of the values in each category, drawn a little towards the overall mean."""
    sizes = np.bincount(codes, minlength=n_codes)[:, None]
    sums = np.column_stack([np.bincount(codes, weights=column, minlength=n_codes) for column in values.T])
    means: NDArray[np.float64] = (sums + SMOOTHING * values.mean(axis=0)) / (sizes + SMOOTHING)
    return means


def _crossed_means(codes: NDArray[Any], values: NDArray[np.float64], n_codes: int, seed: int) -> NDArray[np.float64]:
    """Means for the records that the models are fitted on: each record's from the parts that it is not in."""
    part_of = stream(seed, "inner folds").permutation(len(codes)) % INNER_FOLDS
    result = np.empty((len(codes), values.shape[1]))
    for part in range(INNER_FOLDS):
        inside = part_of == part
        if inside.any():
            result[inside] = _means(codes[~inside], values[~inside], n_codes)[codes[inside]]
    return result


@kernel
def _add_trees(
    matrix: Any,
    starts: Any,
    depths: Any,
    feature: Any,
    threshold: Any,
    missing_left: Any,
    children: Any,
    value: Any,
    nodes: Any,
    raw: Any,
) -> None:
    """Add every tree's leaf values to the outputs, tree after tree.

    A few rows go down a tree together, a step at a time and without a branch: the processor works on several at once.
    """
    n_outputs, size = raw.shape[1], len(nodes)
    one = np.uint8(1)
    for first in range(0, len(matrix), size):
        n = min(size, len(matrix) - first)
        for tree in range(len(starts) - 1):
            for i in range(n):
                nodes[i] = starts[tree]
            for _ in range(depths[tree]):
                for i in range(n):
                    # Unsigned indices are not checked for being negative.
                    node = np.uint32(nodes[i])
                    x = matrix[first + i, np.uint32(feature[node])]
                    to_left = np.uint8(x <= threshold[node]) | (np.uint8(x != x) & np.uint8(missing_left[node]))
                    nodes[i] = children[node, one - to_left]
            output = tree % n_outputs
            for i in range(n):
                raw[first + i, output] += value[np.uint32(nodes[i])]
