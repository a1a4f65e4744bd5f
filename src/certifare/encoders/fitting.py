"""FittingEncoder: parameters and attributes of every encoder, and how training records become cells."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.training import ColumnSchema, GroupValue, MemoryTraining, Training, read_training
from certifare.encoders.weighting import repeated_rows, take_rows
from certifare.errors import EncoderError, GroupError
from certifare.tables.elsewhere import engine_of
from certifare.tables.frames import Frame, Value

Output: TypeAlias = Literal["representatives", "cells", "onehot", "score"]


@dataclass(eq=False, repr=False, kw_only=True)
class FittingEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Read and check training records, and hand them to :meth:`_grow`, which makes the cells.

    Encoders are dataclasses of their parameters: a parameter that several encoders have is declared once, and the
    constructor names all of them, as scikit-learn asks.
    """

    max_bins: int = 255
    categorical_features: Any = "from_dtype"
    sensitive: Any = None
    allow_sensitive_feature: bool = False
    output: Output = "representatives"
    random_state: int = 0
    n_jobs: int = 1

    n_cells_: int = attribute(init=False)
    columns_: tuple[ColumnSchema, ...] = attribute(init=False)
    groups_: tuple[GroupValue, ...] = attribute(init=False)
    group_column_: str = attribute(init=False)
    labels_: tuple[tuple[str, tuple[Value, ...]], ...] = attribute(init=False)
    fingerprint_: Fingerprint | None = attribute(init=False)
    n_features_in_: int = attribute(init=False)
    feature_names_in_: NDArray[Any] = attribute(init=False)

    settings: ClassVar[tuple[str, ...]] = (
        "sensitive",
        "categorical_features",
        "allow_sensitive_feature",
        "max_bins",
        "random_state",
    )
    """Names of the parameters that shape a :class:`~certifare.encoders.training.Training`."""

    _needs_labels = True

    @abstractmethod
    def _grow(self, training: Training) -> None:
        """Make the cells and set ``n_cells_``."""

    def _derive(self, training: MemoryTraining) -> MemoryTraining:
        """Add what this kind of encoder computes from the training records before it grows."""
        return training

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Make cells from training records.

        Parameters
        ----------
        X : dataframe or array
            The features; with ``sensitive=`` also the sensitive columns. A Dask DataFrame stays on its cluster.
        y : array, series or table
            The label, or several label columns. Any dtype.
        sensitive_features : array, series or table, optional
            The group of each record, unless ``sensitive=`` names columns of X. Several columns: their intersections.
        sample_weight : array, optional
            Weight of each record. A record is used that often; weights that are not small whole numbers are first
            divided by their mean. ``min_cell_size`` counts records after weighting. Certificates have weights of
            their own.

        Returns
        -------
        self
        """
        return self.fit_from(self.prepare(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight))

    def prepare(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        units: NDArray[np.int64] | None = None,
    ) -> Training:
        """Do the part of ``fit`` that does not depend on how the cells are grown.

        ``encoder.fit_from(training)`` does the rest, for any encoder of the same kind: a sweep over gamma or
        min_cell_size prepares once. ``units`` says which records of a table in memory belong together, such as those
        of one person: score models are tried on other units than they were trained on.
        """
        self._check_output()
        if y is None and self._needs_labels:
            raise EncoderError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if sensitive_features is None and self.sensitive is None:
            raise GroupError(
                f"{type(self).__name__} needs the group of each record: fit(X, y, sensitive_features=…), or name "
                'columns of X in the constructor: sensitive="sex".'
            )
        engine = engine_of(X)
        if sample_weight is not None:
            if engine is not None:
                raise EncoderError("sample_weight is for tables in memory: thin the records on the cluster instead.")
            rows = repeated_rows(sample_weight, len(Frame(X)), self.seed)
            if rows is not None:
                X, y, sensitive_features = (take_rows(values, rows) for values in (X, y, sensitive_features))
                units = rows if units is None else units[rows]
        if engine is not None:
            if engine.prepare is None:
                raise EncoderError(
                    "Trees grow on tables in memory, on Dask and on Parquet files. Fit on a sample of the records, or "
                    "let certifare.produce draw one."
                )
            return engine.prepare(self, X, y, sensitive_features=sensitive_features)  # type: ignore[no-any-return]
        settings = self._settings(FittingEncoder.settings)
        training = read_training(X, y, sensitive_features, settings, self.seed, self.n_threads)
        return self.prepare_from(replace(training, units=units))

    def prepare_from(self, training: MemoryTraining) -> MemoryTraining:
        """Prepare records that an encoder of another kind has read, binned and hashed already."""
        self._check_settings(FittingEncoder.settings, training)
        training = replace(training, settings=self._settings(self.settings), derived=None)
        if training.groups is None:
            raise GroupError("The records were prepared without groups.")
        check_classes("group", training.groups.name, training.groups.values, len(training))
        if self._needs_labels:
            for label in training.labels:
                check_classes("label", label.name, label.values, len(training))
        return self._derive(training)

    def fit_from(self, training: Training) -> Self:
        """Make cells from records that were prepared by an encoder of the same kind."""
        self._check_settings(self.settings, training)
        self._take_columns(training)
        self._grow(training)
        self.fingerprint_ = training.fingerprint
        return self

    def _take_columns(self, training: Training) -> None:
        """Keep what the training records' columns, groups and labels are."""
        self._check_output()
        self.columns_ = training.columns
        self.n_features_in_ = len(training.columns)
        if training.named:
            self.feature_names_in_ = np.array([column.name for column in training.columns], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.groups_ = () if training.groups is None else training.groups.values
        self.group_column_ = "" if training.groups is None else training.groups.name
        self.labels_ = tuple((label.name, label.values) for label in training.labels)

    def _settings(self, names: Sequence[str]) -> dict[str, Any]:
        parameters = self.get_params(deep=False)
        return {name: parameters[name] for name in names}

    def _check_settings(self, names: Sequence[str], training: Training) -> None:
        """Refuse records that were prepared with other settings."""
        for name, value in self._settings(names).items():
            prepared = training.settings.get(name)
            if value is not prepared and str(value) != str(prepared):
                raise EncoderError(f"The records were prepared with {name}={prepared!r}; this encoder has {value!r}.")

    @property
    def seed(self) -> int:
        """Seed of all random choices."""
        seed: Any = self.random_state
        if seed is None:
            return 0
        if isinstance(seed, int | np.integer) and seed >= 0:
            return int(seed)
        raise EncoderError(
            f"random_state is {seed!r}; give a whole number, so that the same records give the same cells."
        )

    @property
    def n_threads(self) -> int:
        """How many threads to use."""
        if isinstance(self.n_jobs, int | np.integer) and (self.n_jobs == -1 or self.n_jobs >= 1):
            return int(self.n_jobs) if self.n_jobs > 0 else os.cpu_count() or 1
        raise EncoderError(f"n_jobs is {self.n_jobs!r}; give a number of threads, or -1 for all processors.")

    def _check_output(self) -> None:
        if self.output not in get_args(Output):
            raise EncoderError(f"output is {self.output!r}; give 'representatives', 'cells', 'onehot' or 'score'.")


def check_classes(what: str, name: str, values: Sequence[Any], n_records: int) -> None:
    """Refuse a column of labels or groups that has a single value."""
    if len(values) < 2:
        raise EncoderError(
            f"All records have one {what}: column {name!r} holds only {values[0]!r} "
            f"(n_samples={n_records}, one class). Two or more are needed."
        )
