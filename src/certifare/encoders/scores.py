"""Scores: how likely each label and each group is, given the features.

One model for each target, fitted on all training records, scores records that are encoded. Training records get scores
from models that never saw them: each fold's from models of the other folds. Gradient boosted trees are taken out of
their library as plain arrays and evaluated here, before and after they are saved, so that cells survive a round trip
bit by bit. With few records a model is the mean of several that are fitted in different ways: a mean of sums of trees
is a sum of trees, whose leaves add less.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from certifare.encoders.forest import Forest, LookUp
from certifare.encoders.training import MemoryTraining
from certifare.errors import EncoderError
from certifare.foundation.levels import Levels
from certifare.foundation.memory import give_back
from certifare.foundation.progress import counter
from certifare.foundation.randomness import number, stream
from certifare.growth import Bins, CategoricalBins, ContinuousBins, encode
from certifare.tables.frames import Field

FEW_CATEGORIES = 8
"""A categorical column with more categories also tells the mean of each target in its category."""

FEW_CLASSES = 8
"""A target with more classes tells the mean position of its class instead of the share of each."""

SMOOTHING = 10.0
"""How many records of average behaviour are added to a category before its mean is taken."""

INNER_FOLDS = 5
"""In how many parts the models' own training records are cut, so that no record contributes to its own mean."""

SMALL = {"n_estimators": 80, "learning_rate": 0.15, "min_child_samples": 20, "reg_lambda": 10.0}
LARGE = {"num_leaves": 63, "min_child_samples": 40, "reg_lambda": 30.0}
SLOW = {"learning_rate": 0.06, "num_leaves": 8, "min_child_samples": 5, "reg_lambda": 10.0, "colsample_bytree": 0.5}
FEW = (
    {**SLOW, "n_estimators": 240, "extra_trees": True},
    {**SLOW, "n_estimators": 160, "bagging_fraction": 0.8, "bagging_freq": 1},
)
MODELS: tuple[tuple[int, tuple[dict[str, Any], ...]], ...] = (
    (0, FEW),
    (2_000, (*FEW, {**SMALL, "num_leaves": 8})),
    (5_000, ({**SMALL, "num_leaves": 15},)),
    (16_000, ({**SMALL, "num_leaves": 31},)),
    (50_000, ({**LARGE, "n_estimators": 50, "learning_rate": 0.25},)),
    (200_000, ({**LARGE, "n_estimators": 100, "learning_rate": 0.15},)),
)
"""Settings in LightGBM's words, from these numbers of training records on: of each model of whose sums of trees the
score is the mean."""

WIDE = 32
"""From this many numbers on, LightGBM is faster if it reads rows, and each tree may see all numbers."""

BLOCK_ROWS = 1 << 15

BINNED_AT_ONCE = 1 << 19
"""Numbers that LightGBM bins at a time: it keeps one byte of each, and needs some thirty to bin it."""

NumberOf: TypeAlias = Callable[[Any], NDArray[np.float64]]
"""Makes one number of each of some records (a slice, or rows), when it is needed."""


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Turns records into rows of numbers: numbers as they are, categories as positions and as means of the targets.

    Missing values are NaN.
    """

    bins: tuple[Bins, ...]
    n_groups: int = 0  # if not 0, the group is a number after the columns; NaN if it is unknown

    @property
    def n_numbers(self) -> int:
        """Number of columns before the means."""
        return len(self.bins) + int(self.n_groups > 0)

    @property
    def averaged(self) -> tuple[int, ...]:
        """Columns that also have a mean of the targets for each category."""
        return tuple(
            i for i, b in enumerate(self.bins) if isinstance(b, CategoricalBins) and len(b.categories) > FEW_CATEGORIES
        )

    def codes(self, fields: Sequence[Field]) -> dict[int, NDArray[Any]]:
        """Return the codes of the categorical columns."""
        return {i: b.encode(fields[i].column) for i, b in enumerate(self.bins) if isinstance(b, CategoricalBins)}

    def columns(
        self,
        fields: Sequence[Field],
        codes: Mapping[int, NDArray[Any]],
        means: Sequence[NumberOf],
        groups: NDArray[Any] | None = None,
    ) -> list[NumberOf]:
        """List the numbers of a record: its columns, its group, then ``means``."""
        found = [
            _looked_up(np.append(np.arange(b.n_codes - 1.0), np.nan), codes[i])
            if isinstance(b, CategoricalBins)
            else _numbers_of(fields[i])
            for i, b in enumerate(self.bins)
        ]
        if self.n_groups:
            assert groups is not None  # noqa: S101  (asked for before records are scored)
            known = np.append(np.arange(float(self.n_groups)), np.nan)
            found.append(_looked_up(known, np.minimum(groups, self.n_groups)))
        return [*found, *means]

    def rows(
        self,
        fields: Sequence[Field],
        codes: Mapping[int, NDArray[Any]],
        means: Sequence[NDArray[np.float64]],
        groups: NDArray[Any] | None = None,
    ) -> NDArray[np.float64]:
        """Make the numbers of a few records, with ``means`` (records, values) of each averaged column."""
        of_means = [column.__getitem__ for of_column in means for column in of_column.T]
        return np.column_stack([numbers(slice(None)) for numbers in self.columns(fields, codes, of_means, groups)])

    def means_in(
        self, codes: dict[int, NDArray[Any]], means: Sequence[NDArray[np.float64]]
    ) -> list[NDArray[np.float64]]:
        """Look up the means of records' categories, (records, values) of each averaged column."""
        return [table[codes[i]] for i, table in zip(self.averaged, means, strict=True)]

    def means_of(self, means: Sequence[NDArray[np.float64]]) -> list[tuple[int, int, NDArray[np.float64]]]:
        """List the numbers of a row that are means: where each is, its column, and the mean of each code."""
        columns = [(i, column) for i, table in zip(self.averaged, means, strict=True) for column in table.T]
        return [(self.n_numbers + place, i, column) for place, (i, column) in enumerate(columns)]

    def whole(self, means: Sequence[NDArray[np.float64]]) -> list[bool]:
        """Return which numbers of a row are integers in training."""
        own = [isinstance(b, CategoricalBins) or bool((b.edges == np.floor(b.edges)).all()) for b in self.bins]
        n_means = sum(table.shape[1] for table in means)
        return [*own, *[True] * (self.n_numbers - len(own)), *[False] * n_means]

    def look_up(
        self,
        fields: Sequence[Field],
        means: Sequence[NDArray[np.float64]],
        bins: Sequence[ContinuousBins],
        n_threads: int,
    ) -> list[tuple[int, NDArray[Any], NDArray[Any] | None]]:
        """Find the codes of the numbers of a row without making the numbers, but that of the group.

        Each is a number that trees compare, and its code for each record; or codes of a category for each record, and
        the number's code for each of those.
        """
        codes = self.codes(fields)
        tables: list[tuple[int, int, NDArray[np.float64]]] = [
            (i, i, np.append(np.arange(b.n_codes - 1.0), np.nan))
            for i, b in enumerate(self.bins)
            if isinstance(b, CategoricalBins)
        ]
        tables += self.means_of(means)
        found: list[tuple[int, NDArray[Any], NDArray[Any] | None]] = [
            (n, codes[i], bins[n].encode(numbers)) for n, i, numbers in tables if len(bins[n].edges)
        ]
        # Numbers that no tree compares are looked at, too: text and infinite values are refused in every column.
        plain = [i for i in range(len(self.bins)) if i not in codes]
        cuts = [ContinuousBins(self.bins[i].name, bins[i].edges) for i in plain]
        columns = encode(cuts, [fields[i].column for i in plain], n_threads=n_threads).columns
        return [*found, *((i, column, None) for i, column in zip(plain, columns, strict=True))]


@dataclass(frozen=True, eq=False)
class Scores:
    """Fitted score models.

    - ``means`` (codes, values): for each column in ``features.averaged``, the smoothed mean of the targets in each
      category.
    - ``models``: one per target.
    - ``n_classes``: how many classes each target has.
    """

    features: FeatureMap
    means: tuple[NDArray[np.float64], ...]
    models: tuple[Forest, ...]
    n_classes: tuple[int, ...]

    def score(
        self, fields: Sequence[Field], n_threads: int = 1, groups: NDArray[Any] | None = None
    ) -> list[NDArray[np.float64]]:
        """Score records for each target: (n, 1) for two classes, else (n, classes).

        ``groups`` are the records' positions among the groups, for models that see them.
        """
        n, forests = len(fields[0]), self.look_up
        numbers = self.features.look_up(fields, self.means, forests.bins, n_threads)
        if self.features.n_groups:
            assert groups is not None  # noqa: S101  (asked for before records are scored)
            last = self.features.n_numbers - 1
            known = np.append(np.arange(float(self.features.n_groups)), np.nan)
            numbers.append((last, np.minimum(groups, self.features.n_groups), forests.bins[last].encode(known)))
        outputs = [np.empty((n, 1 if classes == 2 else classes)) for classes in self.n_classes]

        def block(start: int) -> None:
            rows = slice(start, min(start + BLOCK_ROWS, n))
            codes = np.zeros((len(forests.bins), rows.stop - rows.start), dtype=np.uint16)
            for place, column, table in numbers:
                codes[place] = column[rows] if table is None else table[column[rows]]
            for output, found in zip(outputs, forests.score(codes), strict=True):
                output[rows] = found

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(block, range(0, n, BLOCK_ROWS)))
        return outputs

    def probabilities(
        self, fields: Sequence[Field], n_threads: int = 1, groups: NDArray[Any] | None = None
    ) -> list[NDArray[np.float64]]:
        """Return the probability of each class of each target, (n, classes)."""
        found = []
        for score in self.score(fields, n_threads, groups):
            if score.shape[1] == 1:
                second = expit(score)
                score = np.hstack([1.0 - second, second])
            found.append(score)
        return found

    @cached_property
    def look_up(self) -> LookUp:
        """The models' tables."""
        return LookUp(self.models, self.features.n_numbers + sum(table.shape[1] for table in self.means))


def score_settings(seed: int, n_records: int, n_numbers: int) -> list[dict[str, Any]]:
    """Return LightGBM's settings for the models of a score, by its numbers of training records and of features."""
    chosen = next(models for least, models in reversed(MODELS) if n_records >= least)
    wide = n_numbers >= WIDE
    common = {
        "colsample_bytree": 1.0 if wide else 0.5,
        "force_row_wise": wide,
        "force_col_wise": not wide,
        "enable_bundle": False,
        "feature_pre_filter": False,
        "deterministic": True,
        "n_jobs": 1,
        "verbose": -1,
    }
    seeds = [number(seed, "score models", *([str(i)] if i else [])) for i in range(len(chosen))]
    return [{**common, **settings, "random_state": own} for settings, own in zip(chosen, seeds, strict=True)]


def fit_scores(
    training: MemoryTraining,
    targets: Sequence[Levels],
    n_folds: int,
    seed: int,
    n_threads: int = 1,
    group_aware: bool = False,
) -> tuple[Scores, list[NDArray[np.float64]]]:
    """Fit score models on all training records, and on all but each fold, on as many threads as asked for.

    If ``group_aware``, the models see the group.

    Returns the scores of the models that were fitted on all records, and for each target the training records' scores
    from models that were not fitted on them.
    """
    if not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise EncoderError(f"folds is {n_folds!r}; give a whole number from 2.")
    n_folds = min(int(n_folds), len(training))
    seen = training.groups if group_aware else None
    balanced = targets if seen is None else [*targets, seen]
    fold_of = _assign_folds(balanced, training.units, n_folds, stream(seed, "folds"))
    rare = _rare(targets, fold_of, n_folds)
    features = FeatureMap(training.bins, 0 if seen is None else len(seen.values))
    codes = dict(enumerate(training.codes.columns))
    values = np.hstack([target_values(target) for target in targets])
    means = tuple(_means(codes[i], values, features.bins[i].n_codes) for i in features.averaged)
    part_of = _assign_folds(balanced, training.units, INNER_FOLDS, stream(seed, "inner folds"))
    crossed = [
        numbers
        for i in features.averaged
        for numbers in _crossed_means(codes[i], values, features.bins[i].n_codes, part_of)
    ]
    columns = features.columns(training.fields, codes, crossed, None if seen is None else seen.codes)
    n_classes = tuple(len(target.values) for target in targets)
    out_of_fold = [np.empty((len(training), 1 if n == 2 else n)) for n in n_classes]
    learner = _Boosting(
        columns, len(training), score_settings(seed, len(training), len(columns)), features.whole(means)
    )
    tick = counter((n_folds + 1) * len(targets))

    def fit(fold: int) -> tuple[Forest, ...]:
        """Fit a model for each target on all records but those of a fold, and score these."""
        models = learner.fit(np.flatnonzero((fold_of != fold) | rare), targets, tick)
        own = np.flatnonzero(fold_of == fold)
        if len(own):
            for scores, found in zip(out_of_fold, _score_rows(models, columns, own), strict=True):
                scores[own] = found
        return models

    with ThreadPoolExecutor(n_threads) as pool:
        # The models of all records leave out a fold that is empty. They take longest, so they come first.
        models, *_ = pool.map(fit, [n_folds, *range(n_folds)])
    give_back()
    return Scores(features, means, models, n_classes), out_of_fold


def _looked_up(table: NDArray[np.float64], codes: NDArray[Any]) -> NumberOf:
    """Make a number by looking up a code."""
    return lambda rows: np.asarray(table[codes[rows]])


def _numbers_of(field: Field) -> NumberOf:
    """Make a number by reading it."""
    return lambda rows: field.take(rows).numbers()


def _score_rows(
    models: tuple[Forest, ...], columns: Sequence[NumberOf], rows: NDArray[np.int64]
) -> Sequence[NDArray[np.float64]]:
    """Score some records by each model."""
    look_up = LookUp(models, len(columns))
    codes = np.zeros((len(columns), len(rows)), dtype=np.uint16)
    for i in look_up.used:
        codes[i] = look_up.bins[i].encode(columns[i](rows))
    return look_up.score(codes)


class _Boosting:
    """LightGBM on some records, whose numbers are binned once, a few columns at a time.

    - ``settings``: of each model of which the mean is taken.
    - ``whole``: which numbers are whole.
    """

    def __init__(
        self, columns: Sequence[NumberOf], n_records: int, settings: Sequence[dict[str, Any]], whole: Sequence[bool]
    ) -> None:
        self._settings = [
            ({name: value for name, value in own.items() if name != "n_estimators"}, own["n_estimators"])
            for own in settings
        ]
        self._whole = whole
        width = max(1, BINNED_AT_ONCE // n_records)
        self._binned = self._bin(columns[:width], n_records)
        for first in range(width, len(columns), width):
            block = self._bin(columns[first : first + width], n_records)
            with warnings.catch_warnings():
                # It warns that it does not keep the numbers themselves.
                warnings.simplefilter("ignore", UserWarning)
                self._binned.add_features_from(block)

    def _bin(self, columns: Sequence[NumberOf], n_records: int) -> Any:
        from lightgbm import Dataset

        matrix = np.empty((n_records, len(columns)))
        for own, numbers in zip(matrix.T, columns, strict=True):
            own[:] = numbers(slice(None))
            # A column without any value tells nothing, as a constant does.
            if np.isnan(own).all():
                own[:] = 0.0
        return Dataset(matrix, np.zeros(n_records), params=self._settings[0][0]).construct()

    def fit(self, rows: NDArray[np.int64], targets: Sequence[Levels], tick: Callable[[], Any]) -> tuple[Forest, ...]:
        """Fit a model for each target."""
        from lightgbm import train

        records = self._binned.subset(rows.tolist()).construct()
        models = []
        for target in targets:
            records.set_label(target.codes[rows])
            n = len(target.values)
            objective = {"objective": "binary"} if n == 2 else {"objective": "multiclass", "num_class": n}
            forests = []
            for settings, rounds in self._settings:
                # Otherwise the model would be written to text and read again, only to be written once more.
                model = train({**settings, **objective}, records, rounds, keep_training_booster=True)
                forests.append(Forest.of(model, self._whole))
                del model  # it holds histograms of all its leaves
            models.append(Forest.mean(forests))
            tick()
        return tuple(models)


def _assign_folds(
    targets: Sequence[Levels], units: NDArray[np.int64] | None, n_folds: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Assign records to folds, each combination of target values evenly; a unit's records to one fold."""
    codes = [target.codes for target in targets]
    unit = None
    if units is not None:
        # A unit counts as its first record does.
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        codes = [column[first] for column in codes]
    shuffled = rng.permutation(len(codes[0]))
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
    """Return what is averaged over a category: the share of each class but the first, or the position of many."""
    n = len(target.values)
    if n > FEW_CLASSES:
        return np.asarray(target.codes / (n - 1.0))[:, None]
    return np.asarray(target.codes[:, None] == np.arange(1, n), dtype=np.float64)


def _means(codes: NDArray[Any], values: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Return the mean of the values in each category, shrunk towards the overall mean."""
    sizes = np.bincount(codes, minlength=n_codes)[:, None]
    sums = np.column_stack([np.bincount(codes, weights=column, minlength=n_codes) for column in values.T])
    means: NDArray[np.float64] = (sums + SMOOTHING * values.mean(axis=0)) / (sizes + SMOOTHING)
    return means


def _crossed_means(
    codes: NDArray[Any], values: NDArray[np.float64], n_codes: int, part_of: NDArray[np.int64]
) -> list[NumberOf]:
    """Return what makes the means of training records: each record's from the parts that it is not in."""
    place = codes.astype(np.int64) * INNER_FOLDS + part_of
    sizes, *sums = (
        np.bincount(place, weights=column, minlength=n_codes * INNER_FOLDS).reshape(n_codes, INNER_FOLDS)
        for column in (None, *values.T)
    )
    others = [table.sum(axis=1, keepdims=True) - table for table in (sizes, *sums)]
    overall = [table.sum(axis=0) / np.maximum(others[0].sum(axis=0), 1) for table in others[1:]]
    means = [
        (table + SMOOTHING * mean) / (others[0] + SMOOTHING) for table, mean in zip(others[1:], overall, strict=True)
    ]
    return [partial(_mean_of, table, codes, part_of) for table in means]


def _mean_of(table: NDArray[np.float64], codes: NDArray[Any], part_of: NDArray[np.int64], rows: Any) -> Any:
    """Look up the means of some training records: a row of the table for each code, a column for each part."""
    return table[codes[rows], part_of[rows]]
