"""CalibratedEncoder: cells between thresholds of each group that the certification records set."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from certifare.certificates.assumptions import READS_GROUP
from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import calibrated_bound, check_metric, forecast_bound, most_cells
from certifare.certificates.certificate import Certificate
from certifare.certificates.claims import Claim
from certifare.certificates.counts import CellCounts
from certifare.certificates.issuing import issue
from certifare.certificates.planning import plan_table, plan_words
from certifare.certificates.provenance import Provenance, provenance_of
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.description import Statistics
from certifare.encoders.direction_tree import Directed, grow_directions
from certifare.encoders.fingerprint import Fingerprint, merge_samples, samples_of
from certifare.encoders.fitting import check_classes
from certifare.encoders.hashes import HashSample, hash_records, mix, share_of
from certifare.encoders.matching import group_codes
from certifare.encoders.partition import ScoredRecords, expected_share, explained, plan_along, plan_without_label
from certifare.encoders.plans import GapPlan, PlanPath, Thresholds, threshold_rules
from certifare.encoders.proxies import Coordinates, check_retain
from certifare.encoders.representatives import Representatives, find_representatives
from certifare.encoders.scoremap import MOST_AXES, probabilities, side_axes
from certifare.encoders.scores import Scores, fit_scores
from certifare.encoders.training import MemoryTraining, Training, in_memory
from certifare.errors import ArgumentError, EncoderError, MissingColumnError, TableError, TrainingOverlapError
from certifare.foundation.formatting import amount
from certifare.foundation.levels import Levels, name_of
from certifare.foundation.randomness import number, stream
from certifare.growth import Bins, CategoricalBins, encode
from certifare.tables.frames import Field, Frame, check_lengths, read_values

#: Numbers of cells that are tried where a tree grows over several directions, 4 % apart: T* uses up the target.
CELLS = tuple(sorted({round(2 * 1.04**i) for i in range(136)}))
#: No cell of such a tree has fewer training records of a group.
FEWEST_RECORDS = 20
NOTHING_LEARNT = (
    "Nothing was learnt from any record before the thresholds were set: the score was there, and each cell holds a "
    "share of every group that follows from the number of records or was stated beforehand. What describes a cell (its "
    "typical values, the shares of groups in it) comes from the same records, and T* does not depend on it."
)
ALONE = (
    "A record whose score equals a threshold was encoded alone. Its row decides about its cell, and that is always the "
    "first: all such records get one cell, and the bound is not about them. Encode tables, or calibrate with a column "
    "that identifies records (tie_column=)."
)
#: Numbers that break ties are smaller: from here on a double is not every whole number.
LARGEST_TIE = 2**53
#: Hexadecimal digits of a hash that breaks ties: as many as a double can hold.
TIE_DIGITS = 13


@dataclass(frozen=True, eq=False)
class Direction:
    """A number that every record has: a score of the labels, or a coordinate of the columns.

    - ``weights``: what each class probability counts for, if it is a score of more than two classes.
    - ``coordinate``: which coordinate it is; None if it is a score.
    """

    name: str
    weights: NDArray[np.float64] | None = None
    coordinate: int | None = None


@dataclass(frozen=True, eq=False)
class Directions:
    """How the directions of records are computed.

    - ``scores``: models of the labels that see the group; None if a column of the table is the score itself.
    - ``column``: which column of the table is the score.
    - ``bins``: of the table's columns, which coordinates are looked up by.
    """

    columns: tuple[Direction, ...]
    scores: Scores | None
    coordinates: Coordinates | None
    bins: tuple[Bins, ...]
    column: int | None = None

    def values(
        self, fields: Sequence[Field], groups: NDArray[np.integer[Any]], n_threads: int = 1
    ) -> NDArray[np.float64]:
        """Compute the directions of records, (records, directions)."""
        if self.scores is None:
            assert self.column is not None  # noqa: S101  (checked when the encoder was made)
            return _ordered(fields[self.column].numbers()[:, None])
        scores = self.scores.score(fields, n_threads, groups)
        codes = None
        if self.coordinates is not None:
            codes = encode(self.bins, [field.column for field in fields], n_threads=n_threads)
        return self.along(scores, None if codes is None or self.coordinates is None else self.coordinates.of(codes))

    def along(
        self, scores: Sequence[NDArray[np.float64]], coordinates: NDArray[np.int16] | None
    ) -> NDArray[np.float64]:
        """Compute the directions of records whose scores and coordinates are known."""
        together = _together(scores)
        columns = []
        for column in self.columns:
            if column.coordinate is not None:
                assert coordinates is not None  # noqa: S101  (checked when the encoder was made)
                columns.append(coordinates[:, column.coordinate].astype(np.float64))
            else:
                columns.append(together[:, 0] if column.weights is None else (together * column.weights).sum(axis=1))
        return _ordered(np.column_stack(columns))


@dataclass(frozen=True, eq=False)
class Derived:
    """What calibrated encoders compute from training records before they plan: directions, out of fold."""

    directions: Directions
    values: NDArray[np.float64]
    ties: NDArray[np.float64]


@dataclass(eq=False, repr=False, kw_only=True)
class CalibratedEncoder(RestrictedEncoder):
    """Cells between thresholds of each group, set so that the bound T* is known beforehand.

    Three steps: ``fit`` learns scores P(y | x, s) and a plan on training records; ``calibrate`` lets other records, the
    certification records, set the thresholds of each group by that plan, and returns the certificate; ``transform``
    encodes. T* is a property of the plan (``docs/theory.md``): nothing is tested, and nothing can fail. Encoding
    reads the group.

    The class is long because all three steps work on one state, which no other object may change: scores, plan and
    thresholds. How plans, directions, partitions and files are computed is in other modules.

    Parameters
    ----------
    target : float
        The largest T* to accept. Of all plans within it the most useful is taken.
    max_cells : int
    metric : {"demographic_parity", "equal_opportunity"}
    confidence : float
        1 − ε.
    utility : {"information", "explained", "accuracy"}
        What plans are compared by.
    retain : float
        From 0 to 1: weight of what the cells explain of the columns, for tasks that are not known yet.
    label_weights : sequence of float, optional
        Of several labels.
    positive_label : label value, optional
        For equal opportunity; the last of two unless given.
    score_column : str, optional
        A column of X that is a score already: no model is fitted, and thresholds are set on it. Beside the column
        that breaks ties it must be the only one. Without a label (``y=None``) nothing is learnt from the records:
        cells hold equal shares of every group, and ``fit`` and ``calibrate`` may get the same records.
    shares : sequence of float, optional
        For a score without a label: the share of every group in each cell, from the lowest scores up. ``(0.8, 0.2)``
        is a rule that selects a fifth of each group.
    tie_column : str, optional
        A column of X that identifies records, such as a person's number. Its keyed hash decides about records whose
        score equals a threshold, so a person always gets the same cell. Nothing else looks at it. Without it, the
        record's row in the table decides: equal records that are encoded one at a time, each in row 0, would all get
        one cell, and the bound is not about them.
    other_group : str, optional
        The group that pools all groups but those that have a name of their own: its thresholds are theirs. Without it,
        records of a group that the encoder was not fitted with are refused.
    folds : int
        Plans are made from scores by models that saw the other folds.
    max_bins, categorical_features, sensitive, allow_sensitive_feature, output, random_state, n_jobs
        As in :class:`FairTreeEncoder`.

    Attributes
    ----------
    n_cells_ : int
    plan_ : GapPlan
        How many gaps of each group every cell gets.
    thresholds_ : Thresholds
    tied_ : int
        Certification records that equal a threshold of their group, besides those that set it.
    calibrated_ : bool
        Whether certification records have set the thresholds. Before, they are quantiles of the training records.
    columns_, groups_, labels_, fingerprint_, n_features_in_, feature_names_in_
        As in :class:`~certifare.encoders.base.RestrictedEncoder`.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare import CalibratedEncoder
    >>> rng = np.random.default_rng(0)
    >>> X, group = rng.normal(size=(6000, 3)), rng.integers(0, 2, 6000)
    >>> label = (X[:, 0] + group + rng.normal(size=6000) > 0.5).astype(int)
    >>> encoder = CalibratedEncoder(target=0.1).fit(X[:3000], label[:3000], sensitive_features=group[:3000])
    >>> certificate = encoder.calibrate(X[3000:], sensitive_features=group[3000:])
    >>> certificate.bound <= 0.1
    True
    """

    target: float = 0.05
    max_cells: int = 200
    metric: str = "demographic_parity"
    confidence: float = 0.95
    utility: str = "information"
    retain: float = 0.0
    label_weights: Sequence[float] | None = None
    positive_label: Any = None
    score_column: str | None = None
    shares: Sequence[float] | None = None
    tie_column: str | None = None
    other_group: str | None = None
    folds: int = 3

    settings = (
        *RestrictedEncoder.settings,
        "retain",
        "label_weights",
        "score_column",
        "shares",
        "tie_column",
        "folds",
    )

    directions_: Directions = attribute(init=False)
    plan_: GapPlan = attribute(init=False)
    thresholds_: Thresholds = attribute(init=False)
    calibrated_: bool = attribute(init=False)
    tied_: int = attribute(init=False)
    _tie_key: int = attribute(init=False)
    _training: MemoryTraining | None = attribute(init=False)
    _representatives: Representatives = attribute(init=False)
    _statistics: Statistics | None = attribute(init=False)

    # -- training ---------------------------------------------------------------------------------------------

    @property
    def _needs_labels(self) -> bool:  # type: ignore[override]
        return self.score_column is None

    def _derive(self, training: MemoryTraining) -> MemoryTraining:
        check_metric(self.metric)
        check_retain(self.retain)
        if self.other_group is not None and (training.groups is None or self.other_group not in training.groups.names):
            raise EncoderError(f"other_group={self.other_group!r} is none of the groups of the training records.")
        weights = self._weights(training)
        training = self._hide_ties(training)
        ties = stream(self.seed, "ties of training records").random(len(training))
        if self.shares is not None and (training.labels or self.score_column is None):
            raise EncoderError("shares: with a label the plan says how large cells are. Leave the label or shares out.")
        if self.score_column is not None:
            for label in training.labels:
                check_classes("label", label.name, label.values, len(training))
            directions = self._existing_score(training, self.score_column)
            values = directions.values(training.fields, np.zeros(len(training), dtype=np.int64))
            return replace(training, derived=Derived(directions, values, ties))
        scores, out_of_fold = fit_scores(training, training.labels, self.folds, self.seed, self.n_threads, True)
        coordinates = Coordinates.of_training(training, self.seed) if self.retain else None
        columns = [
            Direction(name, axis)
            for name, axis, _ in side_axes(
                training.labels, _together(out_of_fold), [np.sqrt(w) for w in weights], MOST_AXES
            )
        ]
        if coordinates is not None:
            columns += [Direction(f"component {i + 1}", None, i) for i in range(coordinates.n_coordinates)]
        directions = Directions(tuple(columns), scores, coordinates, training.bins)
        known = None if coordinates is None else coordinates.of(training.codes)
        return replace(training, derived=Derived(directions, directions.along(out_of_fold, known), ties))

    def _weights(self, training: MemoryTraining) -> list[float]:
        weights = [1.0] * len(training.labels) if self.label_weights is None else list(self.label_weights)
        if len(weights) != len(training.labels):
            raise EncoderError(f"label_weights has {len(weights)} weights, but y has {len(training.labels)} columns.")
        return weights

    def _existing_score(self, training: MemoryTraining, score: str) -> Directions:
        """Return the one direction of an existing score."""
        features = [column.name for column in training.columns if column.name != self.tie_column]
        if features != [score]:
            raise EncoderError(
                f"score_column={score!r}: cells of an existing score read no other column, but X has "
                f"{', '.join(map(repr, features))}."
            )
        if self.retain or len(training.labels) > 1:
            raise EncoderError("score_column: a score is about one label, so there is no retain and no second label.")
        place = [column.name for column in training.columns].index(score)
        if training.columns[place].categorical:
            raise EncoderError(f"The score {score!r} holds categories, and a score is a number.")
        return Directions((Direction(score),), None, None, training.bins, place)

    def _hide_ties(self, training: MemoryTraining) -> MemoryTraining:
        """Give the column that breaks ties no categories: models and representatives learn nothing from it."""
        if self.tie_column is None:
            return training
        names = [column.name for column in training.columns]
        if self.tie_column not in names or len(names) < 2:
            raise MissingColumnError(f"No column {self.tie_column!r} (tie_column) beside the features.")
        i = names.index(self.tie_column)
        bins = CategoricalBins(self.tie_column, ())
        codes = list(training.codes.columns)
        codes[i] = bins.encode(training.fields[i].column).astype(codes[i].dtype)
        n_codes = [*training.codes.n_codes[:i], bins.n_codes, *training.codes.n_codes[i + 1 :]]
        return replace(
            training,
            columns=(*training.columns[:i], replace(training.columns[i], categorical=True), *training.columns[i + 1 :]),
            bins=(*training.bins[:i], bins, *training.bins[i + 1 :]),
            codes=replace(training.codes, columns=tuple(codes), n_codes=tuple(n_codes)),
        )

    def plans(self, training: MemoryTraining, sizes: NDArray[np.int64]) -> Iterator[PlanPath]:
        """Yield plans for certification samples of these sizes by group; for equal opportunity, of positive records."""
        assert training.groups is not None  # noqa: S101  (checked when the records were prepared)
        derived: Derived = training.derived
        counted = self.counted(len(training), *training.labels)
        present = np.bincount(training.groups.codes[counted], minlength=len(sizes))
        if min(sizes) < 1 or min(present) < 1:
            return
        if not training.labels:
            scores = derived.values[:, 0], derived.ties, training.groups.codes
            yield from plan_without_label(*scores, sizes, int(self.max_cells), self.shares)
            return
        if len(derived.directions.columns) > 1 or len(training.labels) > 1:
            most = min(int(self.max_cells), most_cells(len(sizes)))
            tree = grow_directions(self._directed(training, counted), most, FEWEST_RECORDS)
            yield tree.path([k for k in CELLS if k <= most], sizes)
            return
        label, groups = training.labels[0], training.groups.codes
        n_classes = len(label.values)
        records = ScoredRecords(derived.values[:, 0], derived.ties, groups, label.codes, counted, len(sizes), n_classes)
        if self.score_column is not None and n_classes == 2 and records.falls():
            records = replace(records, labels=1 - label.codes)
        yield from plan_along(records, sizes, self.utility, int(self.max_cells))

    def counted(self, n: int, *labels: Levels) -> NDArray[np.bool_]:
        """Say which of n records the metric is about: all, or those with the positive label."""
        if self.metric != "equal_opportunity":
            return np.ones(n, dtype=bool)
        if not labels:
            raise EncoderError("equal_opportunity is about records with the positive label: it needs the label, y.")
        label, values = labels[0], labels[0].values
        if self.positive_label is None and len(values) != 2:
            raise EncoderError(
                f"equal_opportunity needs to know the positive label of {label.name!r}, which has {len(values)} "
                "values: give positive_label."
            )
        positive = values[-1] if self.positive_label is None else self.positive_label
        if positive not in values:
            raise EncoderError(f"positive_label is {positive!r}, but {label.name!r} has the values {values}.")
        return np.asarray(label.codes == values.index(positive))

    def _directed(self, training: MemoryTraining, counted: NDArray[np.bool_]) -> Directed:
        """Lay out what a tree over several directions grows from."""
        assert training.groups is not None  # noqa: S101  (checked when the records were prepared)
        derived: Derived = training.derived
        weights, parts = self._weights(training), []
        for label, weight in zip(training.labels, weights, strict=True):
            indicators = (label.codes[:, None] == np.arange(len(label.values))).astype(np.float64)
            impurity = 1.0 - float((indicators.mean(axis=0) ** 2).sum())
            parts.append(indicators * np.sqrt((1.0 - self.retain) * weight / sum(weights) / impurity))
        if derived.directions.coordinates is not None:
            coordinates = derived.directions.coordinates
            parts.append(coordinates.of(training.codes) * np.sqrt(self.retain / coordinates.spread))
        groups = training.groups
        return Directed(derived.values, derived.ties, groups.codes, counted, np.hstack(parts), len(groups.values))

    def _grow(self, training: Training) -> None:
        records = in_memory(training)
        assert records.groups is not None  # noqa: S101  (checked when the records were prepared)
        counted = self.counted(len(records), *records.labels)
        groups = records.groups.codes
        sizes = np.bincount(groups[counted], minlength=len(records.groups.values))
        path, k = self.choose(self.plans(records, sizes), records, exactly=False) or (None, 1)
        if path is None:
            plan, cells = GapPlan.along((sizes + 1)[None]), np.zeros(len(records), dtype=np.int64)
        else:
            plan, cells = path.plans[k], path.cells(k)
        self.adopt(plan, cells, records)
        derived: Derived = records.derived
        self.thresholds_ = plan.calibrate(derived.values[counted], groups[counted], derived.ties[counted])
        self._training = records

    def fit_plan(self, training: MemoryTraining, plan: GapPlan, cells: NDArray[np.int64]) -> Self:
        """Fit with a plan that was chosen already; :meth:`set_thresholds` comes next."""
        self._take_columns(training)
        self.adopt(plan, cells, training)
        self.fingerprint_ = training.fingerprint
        return self

    def adopt(self, plan: GapPlan, cells: NDArray[np.int64], training: MemoryTraining) -> None:
        """Take a plan; representatives and statistics of its cells are those of the training records."""
        self.directions_ = training.derived.directions
        self.plan_ = plan
        self.n_cells_ = plan.n_cells
        self.calibrated_ = False
        self._tie_key = number(self.seed, "ties", bits=63)
        self._training = training
        places = np.arange(self.n_cells_)
        self._representatives = find_representatives(
            training.columns,
            training.fields,
            training.bins,
            training.codes,
            cells.astype(np.int32),
            np.stack([places, places + 1], axis=1),
        )
        self._statistics = Statistics.of_cells(cells, self.n_cells_, training.groups, training.labels)

    # -- calibrating ------------------------------------------------------------------------------------------

    def calibrate(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Certificate:
        """Let certification records set the thresholds, by a plan for their numbers; return the certificate.

        Parameters
        ----------
        X : dataframe or array
            Records that were not used to fit, and are independent draws from the population.
        y : array or series, optional
            Their label; needed for equal opportunity only.
        sensitive_features : array, series or table, optional
            Their groups, unless ``sensitive=`` names columns of X.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        if self._training is None:
            raise EncoderError("This encoder was read from a file: calibrate where it was fitted.")
        training = self._training
        frame = Frame(X)
        labels: tuple[Levels, ...] = ()
        if self.metric == "equal_opportunity" and y is not None:
            (field,) = read_values(y, "label")
            check_lengths({"X": len(frame), "y": len(field)})
            labels = (field.levels().complete("label"),)
        groups = self.read_group_codes(frame, sensitive_features)
        assert groups is not None  # noqa: S101  (the encoder reads groups)
        counted = self.counted(len(frame), *labels)
        sizes = np.bincount(groups[counted], minlength=len(self.groups_))
        chosen = self.choose(self.plans(training, sizes), training)
        if chosen is None:
            names = [name_of(group) for group in self.groups_]
            raise ArgumentError(no_plan(dict(zip(names, sizes.tolist(), strict=True)), self.target, self.confidence))
        path, k = chosen
        fields = self.read_fields(frame)
        provenance = Provenance(looked_up=NOTHING_LEARNT, besides=(READS_GROUP,))
        if training.labels:
            overlap = training.fingerprint.overlap(fields)
            if overlap.excessive:
                raise TrainingOverlapError(
                    f"Of these records, {overlap}. Thresholds are set by records that played no part in fitting: hold "
                    "some out."
                )
            provenance = provenance_of(overlap, reads_groups=True)
        self.adopt(path.plans[k], path.cells(k), training)
        counts = self.set_thresholds(fields, groups, *labels)
        claim = Claim(
            metric=self.metric,
            confidence=self.confidence,
            method="calibrated",
            positive=self._positive_name(*labels) if labels else None,
            min_group_size=1,
        )
        return issue(Evidence(counts), claim, provenance)

    def choose(
        self, paths: Iterable[PlanPath], training: MemoryTraining, *, exactly: bool = True
    ) -> tuple[PlanPath, int] | None:
        """Choose the plan that predicts the labels best among those whose T* is within the target.

        Returns the path and the number of cells; None if there is no such plan. Unless ``exactly``, T* is a forecast,
        and the plan with the smallest is taken if none is within the target.
        """
        epsilon = 1.0 - self.confidence
        # The forecast is within a few percent of T*; whether T* itself is within the target is computed for few.
        bounds = {(path, k): forecast_bound(plan.gaps, epsilon) for path in paths for k, plan in path.plans.items()}
        near = [found for found, bound in bounds.items() if bound <= self.target * (1.05 if exactly else 1.0)]
        if training.labels:
            tables = {path: [_count(path.finest, label) for label in training.labels] for path, _ in near}
            near.sort(key=lambda found: -share_explained(found[0], found[1], tables[found[0]], self.utility))
        else:
            near.sort(key=lambda found: -found[1])  # more cells keep more of the score's order
        if not exactly:
            return next(iter(near or sorted(bounds, key=lambda found: bounds[found])), None)
        return next((f for f in near if calibrated_bound(f[0].plans[f[1]].gaps, epsilon) <= self.target), None)

    def set_thresholds(self, fields: Sequence[Field], groups: NDArray[np.integer[Any]], *labels: Levels) -> CellCounts:
        """Let records set the thresholds by the plan; return their counts, from which the gaps follow.

        Equal opportunity needs their label.
        """
        counted = self.counted(len(groups), *labels)
        records = hashlib.blake2b(hash_records(fields, b"").tobytes() + groups.tobytes()).hexdigest()
        self.key_ties(records)
        if self.tie_column is None:
            ties = stream(self.seed, "ties", records).random(len(groups))
        else:
            ties = self._break_ties(fields, np.arange(len(groups)))
            if len(np.unique(ties)) < len(ties):
                raise self.repeated_ties()
        values = self.directions_.values(fields, groups, self.n_threads)
        thresholds = self.plan_.calibrate(values[counted], groups[counted], ties[counted])
        tied = int(thresholds.on_threshold(values, groups).sum()) - self.plan_.n_groups * (self.n_cells_ - 1)
        self.take_thresholds(thresholds, tied)
        if self._training is not None:
            learnt_from = [self._training.fields] if self._training.labels else []
            self.fingerprint_ = Fingerprint.of_parts([*learnt_from, fields])
        names = [name_of(group) for group in self.groups_]
        if not labels:
            return CellCounts(self.plan_.counts, names)
        label = labels[0]
        cells = self.thresholds_.cells(values, groups, ties).astype(np.int64)
        shape = (self.n_cells_, self.plan_.n_groups, len(label.values))
        places = np.ravel_multi_index((cells, groups.astype(np.int64), label.codes), shape)
        table = np.bincount(places, minlength=int(np.prod(shape))).reshape(shape)
        table[:, :, label.names.index(self._positive_name(label))] = self.plan_.counts
        return CellCounts(table, names, label.names)

    def misplaced(self, X: Any, setting: NDArray[np.bool_], *, sensitive_features: Any = None) -> list[tuple[int, int]]:
        """Return the splits and groups whose thresholds certification records did not set by the plan."""
        frame = Frame(X)
        groups = self.read_group_codes(frame, sensitive_features)
        assert groups is not None  # noqa: S101  (the encoder reads groups)
        fields = self.read_fields(frame)
        values, groups = self.directions_.values(fields, groups, self.n_threads)[setting], groups[setting]
        self.plan_.check_sizes(groups)
        if self.tie_column is None:
            return self.plan_.misplaced(self.thresholds_, values, groups)
        wanted = self.plan_.calibrate(values, groups, self._break_ties(fields, np.arange(len(frame)))[setting])
        wrong = (wanted.at != self.thresholds_.at) | (wanted.ties != self.thresholds_.ties)
        return [(int(j), int(group)) for j, group in np.argwhere(wrong)]

    def is_set_by(self, counts: CellCounts) -> bool:
        """Say whether the counted records seem to be those that set the thresholds."""
        names = [name_of(group) for group in self.groups_]
        if not self.calibrated_ or set(names) != set(counts.groups):
            return False
        table = counts.of_groups(*names).table.reshape(self.n_cells_, len(names), -1)
        filled = [table.sum(axis=2), *np.moveaxis(table, 2, 0)]
        return any(map(self.plan_.is_filled_by, filled))

    def key_ties(self, records: str) -> int:
        """Let ties be broken by keys that depend on the certification records; return the key of these themselves."""
        self._tie_key = number(self.seed, "ties of encoded records", records, bits=63)
        return number(self.seed, "ties", records, bits=63)

    def take_thresholds(self, thresholds: Thresholds, tied: int) -> None:
        """Take the thresholds that certification records have set, and how many others equal one of them."""
        self.thresholds_, self.tied_, self.calibrated_ = thresholds, tied, True

    def know_records(self, samples: Sequence[HashSample], salt: bytes, n_records: int) -> None:
        """Let the fingerprint know the training records and certification records that were hashed with a salt."""
        if self._training is not None:
            own = samples_of(self._training.fields, salt, n_records)
            names = [column.name for column in self.columns_]
            self.fingerprint_ = Fingerprint.from_samples(salt, names, merge_samples([own, samples]))

    def without_records(self) -> CalibratedEncoder:
        """Return the encoder without its training records, to be sent to other machines."""
        sent = copy(self)
        sent._training = sent.fingerprint_ = None
        return sent

    def calibration_ties(self, fields: Sequence[Field], places: NDArray[np.uint64], key: int) -> NDArray[np.float64]:
        """Return the tie-breaking numbers of certification records that have random places of their own."""
        if self.tie_column is not None:
            return self._break_ties(fields, places.view(np.int64))
        return share_of(mix(places ^ mix(np.array([key], dtype=np.uint64))))

    def repeated_ties(self) -> TableError:
        """Return the error that several certification records have the same value in the column that breaks ties."""
        return TableError(
            f"Column {self.tie_column!r} (tie_column) has the same value in several certification records. "
            "Name a column that differs between records; if it identifies people, also name it as the cluster."
        )

    def _positive_name(self, labels: Levels) -> str:
        return labels.names[-1 if self.positive_label is None else labels.values.index(self.positive_label)]

    # -- encoding ---------------------------------------------------------------------------------------------

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group: it does."""
        return True

    @property
    def identifier(self) -> str | None:
        """The column that breaks ties."""
        return self.tie_column

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Find the groups of records; one without thresholds is refused."""
        return group_codes(fields, self.groups_, self.group_column_, self.other_group)

    def find_cells(
        self,
        fields: Sequence[Field],
        groups: NDArray[np.uint16] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Find the cells of records that were read."""
        assert groups is not None  # noqa: S101  (asked for before records are encoded)
        values = self.directions_.values(fields, groups, self.n_threads)
        on_threshold = np.flatnonzero(self.thresholds_.on_threshold(values, groups))
        ties = np.zeros(len(values))
        if rows is None:
            rows = np.arange(len(values))
            if len(rows) == len(on_threshold) == 1 and self.score_column and self.tie_column is None:
                warnings.warn(ALONE, UserWarning, stacklevel=3)
        ties[on_threshold] = self._break_ties([field.take(on_threshold) for field in fields], rows[on_threshold])
        return self.thresholds_.cells(values, groups, ties)

    def _break_ties(self, fields: Sequence[Field], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each record: a keyed hash of its tie column, or of its row and its values."""
        if self.tie_column is not None:
            return hash_ties(next(field for field in fields if field.name == self.tie_column), self._tie_key)
        hashes = hash_records(fields, b"")
        key = mix(np.array([self._tie_key], dtype=np.uint64))
        return share_of(mix(hashes ^ mix(rows.astype(np.uint64)) ^ key))

    def tie_numbers(self, values: Any) -> NDArray[np.float64]:
        """Return the number in [0, 1) that decides about a record on a threshold, from values of the tie column.

        An ONNX model takes these numbers: the first 13 hexadecimal digits of the MD5 hash of the text ``key:value``,
        divided by 16¹³, where the key is ``tie_key`` of ``encoder.json``.
        """
        check_is_fitted(self)
        (field,) = read_values(values, self.tie_column or "tie_column")
        return hash_ties(field, self._tie_key)

    def to_onnx(self) -> Any:
        """Write the encoder as an ONNX model, as :meth:`BoostedEncoder.to_onnx` does.

        It needs a tie column. That input takes :meth:`tie_numbers` (doubles) instead of the column's values.

        Returns
        -------
        onnx.ModelProto
        """
        from certifare.encoders.onnx import write_onnx

        return write_onnx(self)

    def forecasts(self, X: Any, *, sensitive_features: Any = None) -> list[NDArray[np.float64]]:
        """Forecast each label by the score models, not by the cell (as in :meth:`BoostedEncoder.forecasts`)."""
        check_is_fitted(self)
        if self.directions_.scores is None:
            raise EncoderError("The score is a column of the table: there is no model of the label.")
        frame = Frame(X)
        groups = self.read_group_codes(frame, sensitive_features)
        return self.directions_.scores.probabilities(self.read_fields(frame), self.n_threads, groups)

    def _cell_representatives(self) -> Representatives:
        known = self._representatives
        if self.tie_column is None:
            return known
        shown = [i for i, column in enumerate(known.columns) if column.name != self.tie_column]
        return Representatives(tuple(known.columns[i] for i in shown), tuple(known.values[i] for i in shown))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that ``transform`` makes: without the one that breaks ties."""
        names = super().get_feature_names_out(input_features)
        shown: NDArray[Any] = names[names != self.tie_column]
        return shown

    def cell_statistics(self) -> Statistics | None:
        """Training statistics of the cells, if they are known."""
        return self._statistics

    def _rules(self) -> list[tuple[str, ...]]:
        names, columns = [name_of(group) for group in self.groups_], self.directions_.columns
        scores = self.directions_.scores
        log_odds = columns[0].weights is None and scores is not None
        return threshold_rules(self.thresholds_, [column.name for column in columns], names, log_odds)


def hash_ties(field: Field, key: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each value of a column: the first 13 hexadecimal digits of a keyed MD5 hash.

    The text that is hashed is the key, a colon and the value; whole numbers are written without a point. MD5 is what
    databases have, and the key is not a secret: only its independence of the records matters.
    """
    if field.missing().any():
        raise TableError(
            f"{int(field.missing().sum()):,} records have no value in {field.name!r} (tie_column), which is to decide "
            "about their cell. Leave these records out, or fill in the column."
        )
    levels = field.levels()
    if any(isinstance(value, int | float) and abs(value) >= LARGEST_TIE for value in levels.values):
        raise TableError(
            f"Column {field.name!r} (tie_column) holds numbers of more than 15 digits, which files and databases round "
            "to others. Write them as text, with a letter in front, or name another column."
        )
    of_value = [
        int(hashlib.md5(f"{key}:{name}".encode(), usedforsecurity=False).hexdigest()[:TIE_DIGITS], 16)
        for name in levels.names
    ]
    return np.array(of_value, dtype=np.float64)[levels.codes] / 16.0**TIE_DIGITS


def tied_note(encoder: CalibratedEncoder) -> tuple[str, ...]:
    """Say how many certification records equal a threshold, if any do; and where equal records could not be parted."""
    n = encoder.tied_
    words = (
        f"{amount(n, 'certification record')} {'lies' if n == 1 else 'lie'} on a threshold; random numbers part them"
    )
    if encoder.score_column is not None and encoder.tie_column is None:
        words += (
            ", by their row in the table: encode whole tables, not one record at a time, or name a column that "
            "identifies records (--tie-column; in Python tie_column=)"
        )
    return (words,) if n else ()


def no_plan(sizes: Mapping[str, int], target: float, confidence: float) -> str:
    """Say that no plan meets a target with these numbers of certification records, and what would help."""
    rows = plan_table(sizes, cells=(2, 6, 12), epsilon=1.0 - confidence, target=target)
    return (
        f"No calibrated cells have T* ≤ {target:g} with so few records. {plan_words(rows, sizes, target)} "
        "A larger target, more records or merged groups would help."
    )


def share_explained(path: PlanPath, k: int, tables: Sequence[NDArray[np.int64]], utility: str) -> float:
    """Return the share of the labels' loss that the plan with k cells explains; the mean over labels.

    ``tables`` count the training records by finest cell and value, for each label.
    """
    expected = expected_share(path, k, utility)
    if expected is not None:
        return expected
    return float(
        np.mean([explained(np.add.reduceat(table, path.starts[k], axis=0).astype(float), utility) for table in tables])
    )


def _count(cells: NDArray[np.integer[Any]], label: Levels) -> NDArray[np.int64]:
    n = len(label.values)
    return np.bincount(cells * n + label.codes, minlength=(int(cells.max()) + 1) * n).reshape(-1, n)


def _ordered(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Let missing numbers come last in every order."""
    return np.where(np.isnan(values), np.inf, values)


def _together(scores: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Scores of all labels side by side."""
    return scores[0] if len(scores) == 1 else np.hstack([probabilities(score) for score in scores])
