"""RestrictedEncoder: what every encoder with finitely many cells can do, whatever its cells are made of."""

import copy
import html
import os
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from certifare.certificates.counts import CellCounts
from certifare.encoders.cellscores import cell_scores, score_names
from certifare.encoders.description import Description, Statistics, describe
from certifare.encoders.fingerprint import Fingerprint, Overlap
from certifare.encoders.information import RetainedInformation, retained_information
from certifare.encoders.representatives import Representatives
from certifare.encoders.training import (
    ColumnSchema,
    GroupValue,
    MemoryTraining,
    Training,
    read_groups,
    read_training,
    sensitive_positions,
)
from certifare.encoders.weighting import repeated_rows, take_rows
from certifare.errors import (
    EncoderError,
    MissingColumnError,
    SensitiveFeatureError,
)
from certifare.frames import ColumnType, Field, Frame, Value, check_lengths, is_dask, read_values
from certifare.levels import name_of
from certifare.notebook import Drawing
from certifare.words import amount, listing

if TYPE_CHECKING:
    from certifare.encoders.explanation import Explanation
    from certifare.encoders.importances import Importances

Output: TypeAlias = Literal["representatives", "cells", "onehot", "score"]


@dataclass(eq=False, repr=False, kw_only=True)
class RestrictedEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the encoders: a record goes in, one of ``n_cells_`` cells comes out.

    A subclass says how cells are made (:meth:`_grow`) and how a record's cell is found (:meth:`find_cells`);
    tables, groups, representatives, descriptions and the training fingerprint are here. Encoders are dataclasses of
    their parameters: what several have is declared once, and the constructor names all of them, as scikit-learn asks.

    Attributes
    ----------
    n_cells_ : int
        How many cells there are; ids are ``0 … n_cells_ - 1``.
    columns_ : tuple of ColumnSchema
        The features, in order: without the sensitive columns.
    groups_ : tuple
        The groups, sorted; tuples where several sensitive columns intersect.
    group_column_ : str
        Name of the sensitive column, or of several: ``sex × race``.
    labels_ : tuple of (str, tuple)
        Name and sorted values of each label column.
    fingerprint_ : Fingerprint or None
        Salted hashes of the training records; None for an encoder read from a file.
    n_features_in_ : int
        How many features there are.
    feature_names_in_ : ndarray of str
        Their names, if they have names.
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

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
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
            How much each record weighs: it is taken that often, in proportion to the mean weight unless weights are
            small whole numbers. ``min_cell_size`` counts what is taken. Certificates have weights of their own.

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
        min_cell_size prepares once. ``units`` tells which records of a table in memory belong together, such as one
        person's: score models are tried on other units than they saw.
        """
        self._check_output()
        if y is None and self._needs_labels:
            raise EncoderError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if sensitive_features is None and self.sensitive is None and self._needs_groups:
            raise SensitiveFeatureError(
                f"{type(self).__name__} needs the group of each record: fit(X, y, sensitive_features=…), or name "
                'columns of X in the constructor: sensitive="sex".'
            )
        if sample_weight is not None:
            if is_dask(X):
                raise EncoderError("sample_weight is for tables in memory: thin the records on the cluster instead.")
            rows = repeated_rows(sample_weight, len(Frame(X)), self.seed)
            if rows is not None:
                X, y, sensitive_features = (take_rows(values, rows) for values in (X, y, sensitive_features))
                units = rows if units is None else units[rows]
        if is_dask(X):
            from certifare.engines.dask.cluster import prepare_dask

            return prepare_dask(self, X, y, sensitive_features=sensitive_features)
        parameters = self.get_params(deep=False)
        training = read_training(
            X,
            y,
            sensitive_features,
            sensitive=self.sensitive,
            categorical_features=parameters["categorical_features"],
            allow_sensitive_feature=bool(parameters["allow_sensitive_feature"]),
            max_bins=int(parameters["max_bins"]),
            seed=self.seed,
            n_threads=self.n_threads,
            settings={name: parameters[name] for name in RestrictedEncoder.settings},
        )
        return self.prepare_from(replace(training, units=units))

    def prepare_from(self, training: MemoryTraining) -> MemoryTraining:
        """Do what :meth:`prepare` does with records that an encoder of another kind prepared.

        What was read, coded and hashed is taken over.
        """
        parameters = self.get_params(deep=False)
        settings = {name: parameters[name] for name in self.settings}
        for name in RestrictedEncoder.settings:
            if not _same_settings({name: settings[name]}, {name: training.settings[name]}):
                raise EncoderError(f"The records were prepared with {name}={training.settings[name]!r}.")
        training = replace(training, settings=settings, derived=None)
        if self._needs_groups:
            if training.groups is None:
                raise SensitiveFeatureError("The records were prepared without groups.")
            check_classes("group", training.groups.name, training.groups.values, len(training))
        if self._needs_labels:
            for label in training.labels:
                check_classes("label", label.name, label.values, len(training))
        return self._derive(training)

    def fit_from(self, training: Training) -> Self:
        """Make cells from records that were prepared by an encoder of the same kind."""
        parameters = self.get_params(deep=False)
        settings = {name: parameters[name] for name in self.settings}
        if not _same_settings(settings, training.settings):
            raise EncoderError(
                f"The records were prepared with {training.settings}, but this encoder has {settings}; "
                "prepare them with it."
            )
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
        self._grow(training)
        self.fingerprint_ = training.fingerprint
        return self

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group too, so that encoding needs it."""
        return False

    @property
    def is_column(self) -> bool:
        """Whether the cells are the values or bins of one existing column, and nothing was fitted."""
        return False

    def apply(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.int32]:
        """Find the cell of each record.

        Columns are matched by name, in any order; other columns are ignored. A table without names is matched by
        position. Missing values and unseen categories are fine.

        Parameters
        ----------
        X : dataframe or array
        sensitive_features : array, series or table, optional
            The group of each record, for an encoder that reads it (:attr:`reads_groups`), unless ``sensitive=`` names
            columns of X.

        Returns
        -------
        ndarray of int32
            Ids from 0 to ``n_cells_ - 1``.
        """
        frame = Frame(X)
        return self.find_cells(self.read_fields(frame), self._groups(frame, sensitive_features))

    def transform(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Replace each record by its cell's representative (or id, indicator or score: parameter ``output``).

        Parameters
        ----------
        X : dataframe or array
        sensitive_features : array, series or table, optional
            As in :meth:`apply`.

        Returns
        -------
        dataframe or array
            Of the same kind as X, unless ``set_output`` asks for another.
        """
        check_is_fitted(self)
        self._check_output()
        frame = Frame(X)
        cells = self.find_cells(self.read_fields(frame), self._groups(frame, sensitive_features))
        asked = _get_output_config("transform", self)["dense"]
        kind = frame.kind if asked == "default" else str(asked)
        if self.output == "representatives":
            return frame.rebuild(self._cell_representatives().table(), cells, kind)
        if self.output == "cells":
            return frame.rebuild({"cell": ("number", np.arange(self.n_cells_))}, cells, kind)
        if self.output == "score":
            scores = self.cell_scores()
            return frame.rebuild(
                {name: ("number", scores[i][:, j]) for name, i, j in score_names(self.labels_)}, cells, kind
            )
        indicators: dict[str, tuple[ColumnType, Any]] = {
            name: ("number", (cells == i).astype(np.uint8)) for i, name in enumerate(self.get_feature_names_out())
        }
        return frame.rebuild(indicators, np.arange(len(cells)), kind)

    @property
    def classes_(self) -> NDArray[Any] | list[NDArray[Any]]:
        """Values of the label, in the order of :meth:`predict_proba`; of several labels a list."""
        check_is_fitted(self)
        classes = [np.array(values) for _, values in self.labels_]
        return classes[0] if len(classes) == 1 else classes

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Score each record: how often each label occurred among the training records of its cell.

        The shares are drawn a little towards those of all records, as if each cell had five average records more. What
        reads a score reads the cell, so the certificate bounds it too. The records are not looked at beyond their cell.

        Parameters
        ----------
        X : dataframe or array
        sensitive_features : array, series or table, optional
            As in :meth:`apply`.

        Returns
        -------
        ndarray of float64, (records, classes)
            In the order of :attr:`classes_`; of several labels a list.
        """
        check_is_fitted(self)
        scores = self.cell_scores()
        cells = self.apply(X, **({} if sensitive_features is None else {"sensitive_features": sensitive_features}))
        found = [of_label[cells] for of_label in scores]
        return found[0] if len(found) == 1 else found

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Predict the label with the highest score in each record's cell; of several labels a column each."""
        check_is_fitted(self)
        votes = [
            np.array(values)[s.argmax(axis=1)] for (_, values), s in zip(self.labels_, self.cell_scores(), strict=True)
        ]
        cells = self.apply(X, **({} if sensitive_features is None else {"sensitive_features": sensitive_features}))
        return (
            votes[0][cells] if len(votes) == 1 else np.column_stack([np.asarray(v, dtype=object)[cells] for v in votes])
        )

    def fit_transform(self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None) -> Any:
        """Make cells from training records, then replace these by their cells' representatives."""
        given = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        self.fit(X, y, **{name: value for name, value in given.items() if value is not None})
        if not self.reads_groups or sensitive_features is None:
            return self.transform(X)
        return self.transform(X, sensitive_features=sensitive_features)

    @property
    def representatives_(self) -> NDArray[Any]:
        """One row per cell: numbers, or objects where columns hold text."""
        empty = Frame(np.zeros((1, 1)))
        return empty.rebuild(  # type: ignore[no-any-return]
            self._cell_representatives().table(), np.arange(self.n_cells_), "numpy"
        )

    def at(self, k: int) -> Self:
        """Give the encoder with k cells from the same growth."""
        raise EncoderError(f"{type(self).__name__} has no smaller encoders inside: fit one with {k} cells.")

    def describe(self) -> Description:
        """Put each cell into words: its rules, its size, and the shares of groups and labels in training."""
        check_is_fitted(self)
        groups = (self.group_column_, [name_of(group) for group in self.groups_])
        labels = [(name, [str(value) for value in values]) for name, values in self.labels_]
        return describe(self._rules(), self.cell_statistics(), groups, labels)

    def explain(self, X: Any, *, sensitive_features: Any = None) -> "Explanation":
        """Explain one record: its cell, what led there, and the smallest change of one column that leads elsewhere.

        Parameters
        ----------
        X : dataframe or array
            One record.
        sensitive_features : array, series or table, optional
            Its group, for an encoder that reads it.
        """
        from certifare.encoders.explanation import explain

        return explain(self, X, sensitive_features)

    def importances(
        self, X: Any, y: Any, *, sensitive_features: Any = None, repeats: int = 5, seed: int = 0
    ) -> "Importances":
        """Measure what drives the cells: what goes of the label and of the distance when a column is shuffled.

        Parameters
        ----------
        X : dataframe or array
            Records that were not used to fit.
        y : array, series or table
            Their labels; records without one count for the distance alone.
        sensitive_features : array, series or table, optional
            Their groups, unless ``sensitive=`` names columns of X.
        repeats : int
            How often each column is shuffled; the mean is taken.
        seed : int
        """
        from certifare.encoders.importances import find_importances

        return find_importances(self, X, y, sensitive_features, repeats=repeats, seed=seed)

    def retained_information(self, X: Any, *, sensitive_features: Any = None) -> RetainedInformation:
        """Measure how much of the table the cells keep, on records that were not used to fit."""
        check_is_fitted(self)
        frame = Frame(X)
        fields = self.read_fields(frame)
        cells = self.find_cells(fields, self._groups(frame, sensitive_features))
        categorical = [column.categorical for column in self.columns_]
        return retained_information(fields, categorical, cells, self.n_cells_)

    @property
    def training_counts_(self) -> CellCounts | None:
        """Training records by cell and group, on which a witness may be chosen; None if unknown."""
        statistics = self.cell_statistics()
        if statistics is None or not self.groups_:
            return None
        table = np.rint(statistics.records[:, None] * statistics.groups)
        return CellCounts(table, [name_of(group) for group in self.groups_])

    def training_overlap(self, X: Any) -> Overlap | None:
        """Count the records that were used to fit; None if this encoder does not know (it was read from a file)."""
        check_is_fitted(self)
        if self.fingerprint_ is None:
            return None
        names = tuple(column.name for column in self.columns_)
        if self.fingerprint_.names != names:
            raise EncoderError(
                f"The fingerprint belongs to another encoder: it covers {listing(self.fingerprint_.names)}."
            )
        return self.fingerprint_.overlap(self.read_fields(Frame(X)))

    def sensitive_features_in(self, X: Any) -> NDArray[Any] | dict[str, NDArray[Any]]:
        """Take the groups from a table, if ``sensitive=`` named their columns.

        Returns
        -------
        ndarray, or dict of str to ndarray
            The sensitive column; several by name. Missing values are None in text and NaN in numbers.
        """
        if self.sensitive is None:
            raise SensitiveFeatureError(
                "The encoder does not know which column is sensitive: pass sensitive_features=."
            )
        frame = Frame(X)
        found = {
            frame.names[i]: frame.rebuild(_as_table(frame.read(i)), np.arange(len(frame)), "numpy")[:, 0]
            for i in sensitive_positions(frame, self.sensitive)
        }
        return next(iter(found.values())) if len(found) == 1 else found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that ``transform`` gives."""
        check_is_fitted(self)
        if input_features is not None:
            names = self._without_sensitive(np.asarray(input_features, dtype=object))
            if hasattr(self, "feature_names_in_") and not np.array_equal(names, self.feature_names_in_):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features ({self.n_features_in_}), "
                    f"got {len(names)}"
                )
        if self.output == "cells":
            return np.array(["cell"], dtype=object)
        if self.output == "onehot":
            return np.array([f"cell_{i}" for i in range(self.n_cells_)], dtype=object)
        if self.output == "score":
            return np.array([name for name, _, _ in score_names(self.labels_)], dtype=object)
        if input_features is not None:
            return names
        return np.array([column.name for column in self.columns_], dtype=object)

    def __str__(self) -> str:
        if not hasattr(self, "n_cells_"):
            return repr(self)
        labels = ", ".join(name for name, _ in self.labels_)
        about = [f"label {labels}"] if labels else []
        about += [f"groups by {self.group_column_}"] if self.group_column_ else []
        columns = amount(len(self.columns_), "column")
        return f"{type(self).__name__}: {amount(self.n_cells_, 'cell')} of {columns}{''.join(f', {a}' for a in about)}"

    def _repr_html_(self) -> str:
        """Show a fitted encoder by its cells, another as scikit-learn shows it."""
        if not hasattr(self, "n_cells_"):
            return str(self._repr_html_inner())
        return f"<p>{html.escape(str(self))}</p>{self.describe()._repr_html_()}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def plot(self) -> Drawing:
        """Draw how many training records each cell has, and of which groups they are."""
        import altair as alt

        cells = self.describe()
        if any(cell.records is None for cell in cells):
            raise EncoderError("The encoder was saved without statistics of its cells: there is nothing to draw.")
        rows = [
            {
                "cell": cell.cell,
                "group": group,
                "records": share * (cell.records or 0),
                "rules": "; ".join(cell.rules) or "every record",
            }
            for cell in cells
            for group, share in (next(iter(cell.groups.values())) if cell.groups else {"all": 1.0}).items()
        ]
        chart = alt.Chart(alt.InlineData(values=rows)).mark_bar()
        return Drawing(
            chart.encode(
                x=alt.X("records:Q", title="training records"),
                y=alt.Y("cell:O", title="cell"),
                color=alt.Color("group:N", title=self.group_column_ or None),
                tooltip=["cell:O", "group:N", alt.Tooltip("records:Q", format=",.0f"), "rules:N"],
            ).properties(width=480, title=str(self))
        )

    def _without_sensitive(self, names: NDArray[Any]) -> NDArray[Any]:
        """Leave the sensitive columns out of the names of columns that ``fit`` was given."""
        if self.sensitive is None or len(names) == self.n_features_in_:
            return names
        taken = [self.sensitive] if isinstance(self.sensitive, str | int | np.integer) else list(self.sensitive)
        places = {place % len(names) for place in taken if isinstance(place, int | np.integer)}
        return names[[i not in places and name not in taken for i, name in enumerate(names)]]

    def save(self, path: str | os.PathLike[str], *, statistics: bool = True) -> None:
        """Write the encoder as JSON; :func:`~certifare.encoders.load_encoder` reads it.

        The file holds what is needed to find cells and representatives, and nothing that tells whether a given
        record was in the training data.

        Parameters
        ----------
        path : path
        statistics : bool
            Whether to include each cell's number of training records (exact) and its shares of groups and labels
            (three digits), which ``describe`` shows and scores are made of. Leave them out where even such figures
            must not be published: the file then has cells and no scores.
        """
        from certifare.encoders.format import EncoderFile

        EncoderFile.write(path, self.to_document(statistics=statistics))

    def to_document(self, *, statistics: bool = True) -> Any:
        """Give what :meth:`save` writes, as one of the structures of :mod:`certifare.encoders.format`."""
        check_is_fitted(self)
        return self._to_document(statistics)

    def digest(self) -> str:
        """SHA-256 digest of the encoder as it is saved, training statistics left out."""
        from certifare.encoders.format import digest_of

        check_is_fitted(self)
        return digest_of(self._to_document(statistics=False))

    # What a kind of encoder must say.

    _needs_labels = True
    _needs_groups = True

    def _derive(self, training: MemoryTraining) -> MemoryTraining:
        """Add to the training records what this kind of encoder needs besides."""
        return training

    @abstractmethod
    def _grow(self, training: Training) -> None:
        """Make the cells and set ``n_cells_``."""

    @abstractmethod
    def find_cells(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None = None) -> NDArray[np.int32]:
        """Find the cell of each record; ``groups`` from :meth:`group_codes`, for an encoder that reads them."""

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Find the groups of records among those of the encoder, from the sensitive columns, if it reads them."""
        return None

    @abstractmethod
    def _cell_representatives(self) -> Representatives:
        """Give the representatives of the cells."""

    @abstractmethod
    def cell_statistics(self) -> Statistics | None:
        """Training statistics of the cells, if they are known."""

    @abstractmethod
    def _rules(self) -> list[tuple[str, ...]]:
        """Rules of the cells, in words."""

    @abstractmethod
    def _to_document(self, statistics: bool) -> Any:
        """Describe the encoder completely, as one of the structures of :mod:`certifare.encoders.format`."""

    # What they share.

    @property
    def seed(self) -> int:
        """Seed of all random choices."""
        seed = self.get_params(deep=False)["random_state"]
        if seed is None:
            return 0
        if isinstance(seed, int | np.integer) and seed >= 0:
            return int(seed)
        raise EncoderError(
            f"random_state is {seed!r}; give a whole number, so that the same records give the same cells."
        )

    @property
    def n_threads(self) -> int:
        """How many threads work."""
        if isinstance(self.n_jobs, int | np.integer) and (self.n_jobs == -1 or self.n_jobs >= 1):
            return int(self.n_jobs) if self.n_jobs > 0 else os.cpu_count() or 1
        raise EncoderError(f"n_jobs is {self.n_jobs!r}; give a number of threads, or -1 for all processors.")

    def _check_output(self) -> None:
        if self.output not in get_args(Output):
            raise EncoderError(f"output is {self.output!r}; give 'representatives', 'cells', 'onehot' or 'score'.")

    def cell_scores(self) -> tuple[NDArray[np.float64], ...]:
        """Give the score of each class in each cell, for each label column."""
        return cell_scores(self.cell_statistics(), [name for name, _ in self.labels_])

    def count_unknown_groups(self, sensitive_features: Any) -> int:
        """Count the records whose group an encoder that reads it does not know, or that have none."""
        known = copy.copy(self).set_params(unknown_groups="common")
        groups = known.group_codes(read_values(sensitive_features, "sensitive"))
        return 0 if groups is None else int((groups == len(self.groups_)).sum())

    def _groups(self, frame: Frame, sensitive_features: Any) -> NDArray[np.uint16] | None:
        """Find the groups of records that are to be encoded, if the encoder reads them."""
        if not self.reads_groups:
            if sensitive_features is not None:
                raise SensitiveFeatureError(
                    "sensitive_features was given, but the cells do not depend on the group: leave it out."
                )
            return None
        if sensitive_features is None and self.sensitive is None:
            raise SensitiveFeatureError(
                "The encoder is group-aware, so a record's cell depends on its group: give sensitive_features=, or fit "
                'with the name of a column, sensitive="sex".'
            )
        fields, _ = read_groups(frame, sensitive_features, self.sensitive)
        check_lengths({"X": len(frame)} | {f"sensitive {field.name!r}": len(field) for field in fields})
        groups = self.group_codes(fields)
        unknown = 0 if groups is None else int((groups == len(self.groups_)).sum())
        if unknown:
            warnings.warn(
                f"{unknown:,} of {len(frame):,} records have a group that the encoder was not fitted with, or none; "
                "they were encoded by the thresholds that the groups have in common.",
                UserWarning,
                stacklevel=3,
            )
        return groups

    def read_fields(self, frame: Frame) -> tuple[Field, ...]:
        """Read the features from a table, matched by name or position."""
        check_is_fitted(self)
        wanted = [column.name for column in self.columns_]
        named = hasattr(self, "feature_names_in_")
        if named and frame.named:
            there = set(frame.names)
            missing = [name for name in wanted if name not in there]
            if missing:
                raise MissingColumnError(
                    f"The table lacks columns that the encoder was fitted with: {listing(missing)}. "
                    f"It has {listing(frame.names)}."
                )
            positions = [frame.position(name) for name in wanted]
        else:
            if named != frame.named:
                _warn_names(type(self).__name__, named)
            positions = self._positions(frame)
        return tuple(frame.read(i).as_type(column.type) for i, column in zip(positions, self.columns_, strict=True))

    def _positions(self, frame: Frame) -> list[int]:
        """Match columns by position; sensitive ones given by position may be there or not."""
        positions = list(range(len(frame.names)))
        if len(positions) != self.n_features_in_ and self.sensitive is not None:
            sensitive = [self.sensitive] if isinstance(self.sensitive, str | int | np.integer) else list(self.sensitive)
            if len(positions) == self.n_features_in_ + len(sensitive) and not any(
                isinstance(s, str) for s in sensitive
            ):
                taken = {frame.position(int(s)) for s in sensitive}
                positions = [i for i in positions if i not in taken]
        if len(positions) != self.n_features_in_:
            raise MissingColumnError(
                f"X has {len(frame.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return positions

    def _get_metadata_request(self) -> Any:
        """Say which metadata the methods take: those that encode want the groups that ``fit`` does, or none at all."""
        request = super()._get_metadata_request()
        of_fit = request.fit.requests.get("sensitive_features")
        for method in (request.transform, request.predict, request.predict_proba):
            if not self.reads_groups:
                method.requests.pop("sensitive_features", None)
            elif method.requests.get("sensitive_features") is None and of_fit is not None:
                method.add_request(param="sensitive_features", alias=of_fit)
        return request

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.target_tags.required = self._needs_labels
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def check_classes(what: str, name: str, values: Sequence[Any], n_records: int) -> None:
    """Refuse labels or groups of which there is one only."""
    if len(values) < 2:
        raise EncoderError(
            f"All records have one {what}: column {name!r} holds only {values[0]!r} "
            f"(n_samples={n_records}, one class). Two or more are needed."
        )


def _same_settings(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] is other.get(name) or str(one[name]) == str(other.get(name)) for name in one)


def _warn_names(encoder: str, fitted_with_names: bool) -> None:
    warnings.warn(
        f"X does not have valid feature names, but {encoder} was fitted with feature names"
        if fitted_with_names
        else f"X has feature names, but {encoder} was fitted without feature names",
        UserWarning,
        stacklevel=4,
    )


def _as_table(field: Field) -> dict[str, Any]:
    from certifare.growth import Dictionary

    if isinstance(field.column, Dictionary):
        return {field.name: ("text", np.array([*field.column.values, None], dtype=object)[field.column.indices])}
    return {field.name: (field.type, field.column)}
