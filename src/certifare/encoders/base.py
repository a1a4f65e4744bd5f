"""RestrictedEncoder: encode, score, describe and save, for every encoder with finitely many cells."""

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from certifare.certificates.counts import CellCounts
from certifare.drawing.card import MOST_ROWS, html_card
from certifare.drawing.figure import draw_shares
from certifare.encoders.cellscores import cell_scores, score_names
from certifare.encoders.description import Description, Statistics, describe, records_described
from certifare.encoders.information import RetainedInformation, retained_information
from certifare.encoders.matching import MatchingEncoder
from certifare.encoders.representatives import Representatives
from certifare.errors import EncoderError
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount
from certifare.foundation.levels import name_of
from certifare.tables.elsewhere import engine_of
from certifare.tables.frames import ColumnType, Field, Frame

if TYPE_CHECKING:
    from certifare.encoders.explanation import Explanation
    from certifare.encoders.importances import Importances


class RestrictedEncoder(MatchingEncoder):
    """Base of the encoders: a record goes in, one of ``n_cells_`` cells comes out.

    A subclass makes the cells (:meth:`_grow`), finds the cell of a record (:meth:`find_cells`), and defines the other
    abstract methods. Training records are handled by :class:`~certifare.encoders.fitting.FittingEncoder`, columns and
    groups of other tables by :class:`~certifare.encoders.matching.MatchingEncoder`.

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

    @abstractmethod
    def find_cells(
        self,
        fields: Sequence[Field],
        groups: NDArray[np.uint16] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Find the cell of each record.

        Parameters
        ----------
        fields : sequence of Field
        groups : ndarray of uint16, optional
            From :meth:`group_codes`, for an encoder that reads them.
        rows : ndarray of int64, optional
            The records' rows in a table that is read in blocks; from 0 unless given. They break ties.
        """

    @abstractmethod
    def _cell_representatives(self) -> Representatives:
        """Return the representatives of the cells."""

    @abstractmethod
    def cell_statistics(self) -> Statistics | None:
        """Return the training statistics of the cells, if they are known."""

    @abstractmethod
    def _rules(self) -> list[tuple[str, ...]]:
        """Return the rules of each cell, in words."""

    @property
    def identifier(self) -> str | None:
        """The column that tells records apart and says nothing about them, if there is one."""
        return None

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
        return self.find_cells(self.read_fields(frame), self.read_group_codes(frame, sensitive_features))

    def transform(self, X: Any, *, sensitive_features: Any = None) -> Any:
        """Replace each record by its cell's representative (or id, indicator or score: parameter ``output``).

        Parameters
        ----------
        X : dataframe or array
            A Dask or Spark DataFrame is encoded on its cluster, lazily.
        sensitive_features : array, series or table, optional
            As in :meth:`apply`; of a Dask or Spark DataFrame, names of its columns.

        Returns
        -------
        dataframe or array
            Of the same kind as X, unless ``set_output`` asks for another.
        """
        check_is_fitted(self)
        engine = engine_of(X)
        if engine is not None and engine.encode is not None:
            self._check_output()
            return engine.encode(self, X, sensitive_features)
        return self.transform_from(0, X, sensitive_features)

    def transform_from(self, first: int, X: Any, sensitive_features: Any = None) -> Any:
        """Do what :meth:`transform` does, for a block of a table whose first record is the table's row ``first``."""
        check_is_fitted(self)
        self._check_output()
        frame = Frame(X)
        rows = np.arange(first, first + len(frame), dtype=np.int64) if first else None
        cells = self.find_cells(self.read_fields(frame), self.read_group_codes(frame, sensitive_features), rows)
        asked = _get_output_config("transform", self)["dense"]
        kind = frame.kind if asked == "default" else str(asked)
        columns: dict[str, tuple[ColumnType, Any]] = {"cell": ("number", np.arange(self.n_cells_))}
        if self.output == "representatives":
            columns = self._cell_representatives().table()
        elif self.output == "score":
            scores = self.cell_scores()
            columns = {name: ("number", scores[i][:, j]) for name, i, j in score_names(self.labels_)}
        elif self.output == "onehot":
            columns = {f"cell_{i}": ("number", (cells == i).astype(np.uint8)) for i in range(self.n_cells_)}
            cells = np.arange(len(cells), dtype=np.int32)
        return frame.rebuild(columns, cells, kind)

    def cell_scores(self) -> tuple[NDArray[np.float64], ...]:
        """Return the score of each class in each cell, for each label column."""
        return cell_scores(self.cell_statistics(), [name for name, _ in self.labels_])

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
        cells = self.apply(X, sensitive_features=sensitive_features)
        found = [of_label[cells] for of_label in scores]
        return found[0] if len(found) == 1 else found

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Predict the label with the highest score in each record's cell; of several labels a column each."""
        check_is_fitted(self)
        votes = [
            np.array(values)[s.argmax(axis=1)] for (_, values), s in zip(self.labels_, self.cell_scores(), strict=True)
        ]
        cells = self.apply(X, sensitive_features=sensitive_features)
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

    def representatives_like(self, frame: Any) -> Any:
        """Return a table of the representatives, one row per cell, of the kind and column types of another table."""
        return Frame(frame).rebuild(self._cell_representatives().table(), np.arange(self.n_cells_))

    def at(self, k: int) -> Self:
        """Give the encoder with k cells from the same growth."""
        raise EncoderError(f"{type(self).__name__} has no smaller encoders inside: fit one with {k} cells.")

    def describe(self) -> Description:
        """Put each cell into words: its rules, its size, and the shares of groups and labels in training."""
        check_is_fitted(self)
        groups = (self.group_column_, [name_of(group) for group in self.groups_])
        labels = [(name, [str(value) for value in values]) for name, values in self.labels_]
        return describe(self._rules(), self.cell_statistics(), groups, labels)

    def explain(self, X: Any, *, sensitive_features: Any = None, row: int = 0) -> "Explanation":
        """Explain one record: its cell, what led there, and the smallest change of one column that leads elsewhere.

        Parameters
        ----------
        X : dataframe or array
            One record.
        sensitive_features : array, series or table, optional
            Its group, for an encoder that reads it.
        row : int
            Its row in the table that was encoded, from 0: where no column breaks ties, the row does.
        """
        from certifare.encoders.explanation import explain

        return explain(self, X, sensitive_features, row)

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
        cells = self.find_cells(fields, self.read_group_codes(frame, sensitive_features))
        shown = [i for i, column in enumerate(self.columns_) if column.name != self.identifier]
        categorical = [self.columns_[i].categorical for i in shown]
        return retained_information([fields[i] for i in shown], categorical, cells, self.n_cells_)

    @property
    def training_counts_(self) -> CellCounts | None:
        """Training records by cell and group, on which a witness may be chosen; None if unknown."""
        statistics = self.cell_statistics()
        if statistics is None or not self.groups_:
            return None
        table = np.rint(statistics.records[:, None] * statistics.groups)
        return CellCounts(table, [name_of(group) for group in self.groups_])

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
        name, _, about = str(self).partition(": ")
        head, rows = self.describe().rows()
        known = self.cell_statistics() is not None and len(rows) <= MOST_ROWS
        return html_card(
            name, f"{about[0].upper()}{about[1:]}", rows, head=head, drawing=self.plot() if known else None
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def plot(self) -> Drawing:
        """Draw how many training records each cell has, and of which groups they are."""
        cells = list(self.describe())
        if any(cell.records is None for cell in cells):
            raise EncoderError("The encoder was saved without statistics of its cells: there is nothing to draw.")
        shares = [next(iter(cell.groups.values())) if cell.groups else {"": 1.0} for cell in cells]
        counts = {
            group: [(cell.records or 0) * of_cell[group] for cell, of_cell in zip(cells, shares, strict=True)]
            for group in shares[0]
        }
        names = [str(cell.cell) for cell in cells]
        return draw_shares(str(self), counts, names, records_described(self.labels_))

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

    def to_sql(self, dialect: str = "duckdb", table: str | Sequence[str] | None = None, name: str = "cell") -> str:
        """Write the encoder as SQL, so that cells are computed where the data is.

        An encoder that reads the group reads it from the column that was called so in ``fit``; records of other groups
        have no cell (NULL).

        Parameters
        ----------
        dialect : str
            One of :data:`certifare.encoders.sql.DIALECTS`; ``duckdb``, ``postgres`` or ``sqlite`` unless it is a tree.
        table : str or sequence of str, optional
            A table (``"people"``, ``"schema.people"``, or the parts of its name as a sequence). The result is then
            a query that adds the cell to every row; without it, an expression.
        name : str
            What to call the column of cells.
        """
        from certifare.encoders.sql import write_sql

        return write_sql(self, dialect, table, name)

    def to_document(self, *, statistics: bool = True) -> Any:
        """Give what :meth:`save` writes, as one of the structures of :mod:`certifare.encoders.documents`."""
        from certifare.encoders.writing import document_of

        check_is_fitted(self)
        return document_of(self, statistics)

    def digest(self) -> str:
        """SHA-256 digest of the encoder as it is saved, training statistics left out."""
        from certifare.encoders.format import digest_of

        return digest_of(self.to_document(statistics=False))
