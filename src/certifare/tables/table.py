"""A table about people: feature columns, and columns with roles (label, sensitive, weight, cluster)."""

from __future__ import annotations

import hashlib
import math
import os
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from certifare.certificates.counts import (
    CLUSTER_MISSING,
    GIVEN_MISSING,
    GROUP_MISSING,
    LABEL_MISSING,
    WEIGHT_MISSING,
    CellCounts,
    Exclusion,
)
from certifare.drawing.card import html_card
from certifare.drawing.figure import draw_shares
from certifare.errors import ArgumentError, GroupError, RoleError, TableError
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount, exact
from certifare.foundation.levels import UNKNOWN, Levels, intersect, sort_key
from certifare.foundation.memory import give_back
from certifare.tables.files import MISSING, CsvDialect, read_file
from certifare.tables.frames import Frame, is_categorical, is_text, single_array
from certifare.tables.joins import join_groups
from certifare.tables.quality import TableFinding, as_notes, column_findings, people_findings
from certifare.tables.reading import POOLED
from certifare.tables.roles import Comparison, MissingGroups, Roles, as_names, column_of

#: A label or a sensitive column with more values is probably a number that needs a threshold.
MOST_VALUES = 100
#: Most groups that a notebook shows as bars.
MOST_DRAWN = 30


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a table's columns, which are not copied yet."""

    columns: pa.Table
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, columns: pa.Table | _Rows, rows: NDArray[np.int64]) -> _Rows:
        """Take rows of columns, or of rows of columns."""
        return cls(columns.columns, columns.rows[rows]) if isinstance(columns, _Rows) else cls(columns, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self) -> pa.Table:
        """Copy the rows."""
        return _combined(self.columns.take(pa.array(self.rows)))


class _Columns:
    """A field that holds columns; or rows of columns, which are copied whenever the field is read.

    So the parts of a table take memory only while they are read.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, table: Any, owner: type) -> Any:
        if table is None:
            return self
        held = table.__dict__[self._name]
        return held.read() if isinstance(held, _Rows) else held

    def __set__(self, table: Any, held: pa.Table | _Rows | None) -> None:
        table.__dict__[self._name] = held


@dataclass(frozen=True, eq=False)
class Table:
    """Records with features and roles.

    Made by :func:`read_table` and :meth:`from_frame`.

    Attributes
    ----------
    features : pyarrow.Table
        What an encoder may see. Columns with a role are not among them. A table that was taken from another one copies
        its rows of them whenever they are asked for.
    records : str
        Digest of the records in all columns, whatever their roles. Random streams depend on it, so that different
        tables get independent random choices.
    labels : tuple of Levels
        One for each label column, with its own missing values; empty if the table has no label. Records without a label
        are kept: they belong to the population of demographic parity.
    groups : Levels or None
        The group of each record; several sensitive columns are intersected.
    weights, clusters : ndarray or None
        Survey weights; codes of clusters of dependent records.
    given : Levels or None
        The value of each record in the column that a claim is given.
    roles : Roles
        The roles as the user gave them.
    positive : str or None
        The label for which a comparison such as ``income>50000`` holds.
    exclusions : tuple of Exclusion
        Records left out because they lack a group, weight or cluster; or a label (:meth:`of_labelled`).
    findings : tuple of TableFinding
        Assumptions and warnings for the user; :attr:`notes` has them as text.
    others : pyarrow.Table or None
        The columns that are not features, as read: roles, identifiers, dropped columns.
    missing_words : tuple of str
        Text that means a missing value in the CSV file, in addition to the defaults.
    decimal : str or None
        The decimal sign of the CSV file, if it was given.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare.tables.table import Table
    >>> people = pd.DataFrame({"age": [30, 61, 70], "job": ["nurse", None, "cook"], "paid": [0, 1, 1]})
    >>> table = Table.from_frame(people, label="paid", sensitive="age>=60")
    >>> table.features.column_names, table.groups.names, table.labels[0].codes.tolist()
    (['job'], ('age < 60', 'age >= 60'), [0, 1, 1])
    """

    features: pa.Table
    records: str
    labels: tuple[Levels, ...] = ()
    groups: Levels | None = None
    weights: NDArray[np.float64] | None = None
    clusters: NDArray[np.int64] | None = None
    given: Levels | None = None
    roles: Roles = field(default_factory=Roles)
    positive: str | None = None
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[TableFinding, ...] = ()
    source: Path | None = None
    others: pa.Table | None = None
    missing_words: tuple[str, ...] = ()
    decimal: str | None = None

    @classmethod
    def from_frame(cls, frame: Any, roles: Roles | None = None, **keywords: Any) -> Table:
        """Make a table from a dataframe (pandas, polars, pyarrow) and the roles of its columns (:class:`~.Roles`)."""
        native = arrow_table(frame)
        roles = Roles.of(roles, **keywords)
        found = roles.find(native.column_names)
        seen = _typed(native.select(found.features), roles)
        columns = {
            role: _levels(native, getattr(found, role), role, as_names(getattr(roles, role)))
            for role in ("label", "sensitive", "cluster", "given")
            if role != "label" or not roles.label_cuts
        }
        if roles.label_cuts:
            columns["label"] = _cut(native, found.label, roles)
        weights = next((_weights(native.column(str(name)), str(name)) for name in found.weight), None)
        keep, exclusions = _complete(len(seen), columns, weights, roles.missing_groups)
        if not keep.any():
            raise TableError(
                "No record is left: each one has no "
                + " or ".join(f"{e.reason.removesuffix(' missing')} ({e.records:,} records)" for e in exclusions)
                + "."
            )
        others = native.select([name for name in native.column_names if name not in found.features])
        if not keep.all():
            rows = np.flatnonzero(keep)
            seen, others = seen.take(pa.array(rows)), others.take(pa.array(rows))
            columns = {role: [levels.take(rows).sorted() for levels in found] for role, found in columns.items()}
        first = next(iter(found.label), None)
        return cls(
            features=_combined(seen),
            labels=tuple(levels.sorted().by_name() for levels in columns["label"]),
            groups=_groups(columns["sensitive"]),
            weights=None if weights is None else weights[keep],
            clusters=columns["cluster"][0].by_name().codes if columns["cluster"] else None,
            given=next((levels.sorted().by_name() for levels in columns["given"]), None),
            roles=roles,
            positive=first.true if isinstance(first, Comparison) else None,
            exclusions=exclusions,
            findings=(*column_findings(seen, roles), *people_findings(native, found, columns, np.flatnonzero(keep))),
            others=others,
            records=digest_records(native),
        )

    def __len__(self) -> int:
        return self.n_rows

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.__dict__["features"])

    @property
    def notes(self) -> tuple[str, ...]:
        """The findings as text."""
        return tuple(map(str, self.findings))

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, whatever their roles."""
        return [*self.features.column_names, *([] if self.others is None else self.others.column_names)]

    def select(self, names: Sequence[str]) -> pa.Table:
        """Return these columns, whatever their roles."""
        features, others = self.features, self.others
        of = {name: features if name in features.column_names else others for name in names}
        return pa.table({name: source.column(name) for name, source in of.items() if source is not None})

    @property
    def y(self) -> pa.Array | None:
        """The label of each record (the first, if there are several); None if there is no label."""
        return self.labels[0].to_arrow().dictionary_decode() if self.labels else None

    @property
    def sensitive(self) -> pa.Table | None:
        """The groups in the form that encoders take: a table with one column; None if there are no groups."""
        if self.groups is None:
            return None
        return pa.table({self.groups.name: self.groups.to_arrow()})

    def take(self, rows: NDArray[Any]) -> Table:
        """Return these rows in this order; their random streams differ from the whole table's."""
        index = np.asarray(rows, dtype=np.int64)
        taken = hashlib.blake2b(index.astype("<i8").tobytes(), key=self.records[:64].encode(), digest_size=32)
        held, others = self.__dict__["features"], self.__dict__["others"]
        return replace(
            self,
            features=_Rows.of(held, index),
            others=None if others is None else _Rows.of(others, index),
            records=taken.hexdigest(),
            labels=tuple(values.take(rows) for values in self.labels),
            groups=None if self.groups is None else self.groups.take(rows),
            weights=None if self.weights is None else self.weights[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            given=None if self.given is None else self.given.take(rows),
        )

    def changed(self, **attributes: Any) -> Table:
        """Return the table with other attributes; rows of columns that were not copied yet are not copied for it."""
        held = {name: self.__dict__[name] for name in ("features", "others")}
        return replace(self, **held | attributes)

    def pooled(self, kept: Collection[str]) -> Table:
        """Pool all groups but these into one."""
        assert self.groups is not None  # noqa: S101  (callers check that there are groups)
        return self.changed(groups=pool_levels(self.groups, kept))

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which records have the first label, which claims condition on; all records if there is no label."""
        return self.labels[0].codes >= 0 if self.labels else np.ones(len(self), dtype=bool)

    @property
    def trainable(self) -> NDArray[np.bool_]:
        """Which records have every label, so that an encoder can train on them."""
        found: NDArray[np.bool_] = np.logical_and.reduce([y.codes >= 0 for y in self.labels])
        return found if self.labels else np.ones(len(self), dtype=bool)

    @property
    def strata(self) -> Levels:
        """What claims condition on: the given column if there is one, otherwise the first label."""
        return self.labels[0] if self.given is None else self.given

    def of_labelled(self) -> Table:
        """Return the records with what claims condition on: a given value, which all have, or a label.

        Those without a label become an exclusion.
        """
        if self.given is not None:
            return self
        labelled = self.labelled
        if labelled.all():
            return self
        exclusion = Exclusion(LABEL_MISSING, int((~labelled).sum()))
        return self.take(np.flatnonzero(labelled)).changed(exclusions=(*self.exclusions, exclusion))

    def count(self, cells: NDArray[Any], n_cells: int, *, labels: bool = False) -> CellCounts:
        """Count the records by cell and group; or those with a label, by cell, group and label (:attr:`strata`)."""
        if self.groups is None:
            raise GroupError("The table has no groups: name a sensitive column.")
        index = cells.astype(np.int64) * len(self.groups.names) + self.groups.codes
        shape: tuple[int, ...] = (n_cells, len(self.groups.names))
        names, exclusions = None, []
        if labels:
            strata = self.strata
            index = (index * len(strata.names) + strata.codes)[strata.codes >= 0]
            shape, names = (*shape, len(strata.names)), strata.names
            exclusions = [Exclusion(LABEL_MISSING, len(self) - len(index))]
        table = np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)
        return CellCounts(table, self.groups.names, names, exclusions)

    def summary(self) -> list[dict[str, Any]]:
        """Return the name, role, kind and number of missing values of each column."""
        kinds = {
            "label": " × ".join(f"{len(values.names)} values" for values in self.labels),
            "sensitive": f"{0 if self.groups is None else len(self.groups.names)} groups",
            "weight": "continuous",
        }
        rows: list[tuple[str, str, str, int]] = []
        for role, texts in self.roles.named().items():
            missing = int((~self.labelled).sum()) if role == "label" else 0
            rows += [(text, role, kinds.get(role, "identifier"), missing) for text in texts]
        for name, column in zip(self.features.column_names, self.features.columns, strict=True):
            kind = "categorical" if is_categorical(column.type) else "continuous"
            rows.append((name, "feature", kind, int(column.null_count)))
        return [dict(zip(("column", "role", "kind", "missing"), row, strict=True)) for row in rows]

    def __repr__(self) -> str:
        return f"<Table: {self._headline()}>"

    def _headline(self) -> str:
        named = self.roles.named()
        of = [f"{role} {', '.join(named[role])}" for role in ("label", "sensitive") if named.get(role)]
        features = amount(self.features.num_columns, "feature")
        return ", ".join([amount(len(self), "record"), features, *of])

    def _repr_html_(self) -> str:
        rows = [(row["column"], row["role"], row["kind"], f"{row['missing']:,}") for row in self.summary()]
        head = ("column", "role", "kind", "missing")
        return html_card("Table", self._headline(), rows, head=head, drawing=self._draw_groups())

    def _draw_groups(self) -> Drawing | None:
        """Draw the records of each group by label; None without groups, or with too many to show."""
        if self.groups is None or len(self.groups.names) > MOST_DRAWN:
            return None
        label = self.labels[0] if self.labels else Levels("", np.zeros(len(self), dtype=np.int64), ("records",))
        counts = {
            name: np.bincount(self.groups.codes[label.codes == code], minlength=len(self.groups.names)).tolist()
            for code, name in enumerate(label.names)
        }
        unit = f"records by {label.name}" if self.labels else "records"
        return draw_shares("Records of each group", counts, self.groups.names, unit, "group")

    @property
    def digest(self) -> str:
        """A SHA-256 digest of the records, whatever the roles of their columns."""
        return hashlib.sha256(self.records.encode()).hexdigest()


# Set here, because a dataclass takes what stands in its body for a default.
Table.features, Table.others = _Columns("features"), _Columns("others")


def table_of(table: Any, **roles: Any) -> Table:
    """Return a table unchanged, or make one from a dataframe or a file, whose roles are keywords."""
    if isinstance(table, str | os.PathLike):
        return read_table(table, **roles)
    if not isinstance(table, Table):
        return Table.from_frame(table, **roles)
    if roles:
        raise ArgumentError(f"{', '.join(roles)}: this table has its roles already.")
    return table


def read_table(
    path: str | os.PathLike[str],
    roles: Roles | None = None,
    *,
    sensitive_file: str | os.PathLike[str] | None = None,
    on: str | None = None,
    **keywords: Any,
) -> Table:
    """Read a table from a CSV, Parquet, Arrow or Feather file.

    - ``roles``, or keywords of :class:`~certifare.tables.roles.Roles`: of the columns.
    - ``sensitive_file``, ``on``: a second file with sensitive columns, and the key column that joins the two, unless
      it is the only one that both have.
    - Other keywords: of :class:`~certifare.tables.files.CsvDialect`, for a CSV file.
    """
    csv = CsvDialect.extract(keywords)
    native, notes = read_file(path, **csv)
    give_back()
    missing = csv.get("missing", MISSING)
    native, roles, joined = join_groups(native, Roles.of(roles, **keywords), sensitive_file, on, missing)
    table = Table.from_frame(native, roles)
    return replace(
        table,
        findings=(*as_notes((*notes, *joined)), *table.findings),
        source=Path(path),
        missing_words=tuple(word for word in missing if word not in MISSING),
        decimal=csv.get("decimal"),
    )


def arrow_table(frame: Any) -> pa.Table:
    """Return a dataframe (pandas, polars, pyarrow) as an Arrow table."""
    if isinstance(frame, pa.Table):
        Frame(frame)
        return frame
    checked = Frame(frame)
    if checked.kind == "numpy":
        raise TableError("The columns have no names. Give a dataframe, so that roles can refer to columns.")
    try:
        native = nw.from_native(frame, eager_only=True).to_arrow()
    except pa.ArrowException as error:
        # Reading the columns one by one raises an error that names the faulty one.
        for name in checked.names:
            checked.read(name)
        raise TableError(f"The table cannot be read: {error}.") from error
    return native.select(list(checked.names))


def _typed(features: pa.Table, roles: Roles) -> pa.Table:
    """Convert features to the types in the roles; raise if no encoder can read a column."""
    refused = [f for f in features.schema if not readable_type(f.type)]
    if refused:
        dates = all(pa.types.is_temporal(f.type) for f in refused)
        raise TableError(
            f"{'Columns that hold dates or times' if dates else 'Columns that are neither numbers nor text'}: "
            f"{', '.join(f'{f.name!r} ({f.type})' for f in refused)}. Leave them out "
            f"(--drop {shlex.quote(','.join(f.name for f in refused))}; in Python drop=), or convert them to numbers, "
            "such as the year, or the number of days before a fixed date."
        )
    for i, (name, column) in enumerate(zip(features.column_names, features.columns, strict=True)):
        if name in roles.categorical and not (is_categorical(column.type) or pa.types.is_boolean(column.type)):
            features = features.set_column(i, name, column.dictionary_encode())
    return features


def readable_type(type_: pa.DataType) -> bool:
    """Return whether columns of this type can be read: numbers, booleans, text or nulls."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return bool(number or pa.types.is_boolean(type_) or pa.types.is_null(type_) or is_text(type_))


def pool_levels(groups: Levels, kept: Collection[str]) -> Levels:
    """Pool all groups but these into one."""
    values = (*(name for name in groups.names if name in kept and name != POOLED), POOLED)
    place = {name: i for i, name in enumerate(values)}
    codes = np.array([place.get(name, place[POOLED]) for name in groups.names], dtype=np.int64)
    return Levels(groups.name, codes[groups.codes], values).sorted().by_name()


def _cut(native: pa.Table, columns: Sequence[str | Comparison], roles: Roles) -> list[Levels]:
    """Return the bands of the label, from low to high."""
    if len(columns) != 1 or isinstance(columns[0], Comparison):
        raise RoleError("label_cuts needs one label column, not a comparison. Name the column alone.")
    name = columns[0]
    return [cut_into_bands(native.column(name), name, roles.label_cuts).sorted()]


def cut_into_bands(column: pa.ChunkedArray, name: str, cuts: Sequence[float]) -> Levels:
    """Cut a numeric column into bands, from low to high."""
    if is_categorical(column.type) or pa.types.is_boolean(column.type) or not readable_type(column.type):
        raise TableError(f"Column {name!r} holds {column.type}. A label with cuts must hold numbers.")
    numbers = as_numbers(column)
    place = np.searchsorted(np.array(cuts), numbers, side="right")
    return Levels(name, np.where(np.isnan(numbers), -1, place), band_names(name, cuts))


def band_names(name: str, cuts: Sequence[float]) -> tuple[str, ...]:
    """Return the names of the bands between cuts, from low to high.

    >>> band_names("income", [20000, 50000])
    ('income < 20000', '20000 <= income < 50000', 'income >= 50000')
    """
    texts = [exact(cut) for cut in cuts]
    between = (f"{low} <= {name} < {high}" for low, high in pairwise(texts))
    return (f"{name} < {texts[0]}", *between, f"{name} >= {texts[-1]}")


def as_numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return a column as floats, NaN if missing."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # Arrow's own cast may miss the nearest float
        # Integers beyond 2^53 are rounded to the nearest float.
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _levels(native: pa.Table, columns: Sequence[str | Comparison], role: str, texts: Sequence[str]) -> list[Levels]:
    """Return the levels of the columns of a role, named as the user named them."""
    levels = []
    for found, text in zip(columns, texts, strict=True):
        name = column_of(found)
        column = native.column(name)
        if not readable_type(column.type):
            raise TableError(f"Column {name!r} holds {column.type}. The {role} must be numbers, booleans or text.")
        levels.append(Levels.of(found.evaluate(column) if isinstance(found, Comparison) else column, text))
        if any(isinstance(value, float) and math.isinf(value) for value in levels[-1].values):
            # JSON has no infinite numbers, so certificates could not store it.
            raise TableError(
                f"Column {name!r} holds an infinite number; the {role} must be finite. Make it missing, or compare "
                f'the column with a number, as in "{name}>0".'
            )
    return levels


def _complete(
    n_records: int,
    columns: Mapping[str, Sequence[Levels]],
    weights: NDArray[np.float64] | None,
    missing_groups: MissingGroups,
) -> tuple[NDArray[np.bool_], tuple[Exclusion, ...]]:
    """Return which records have a group, cluster and weight, and the numbers of those that do not, by reason."""
    checks = [(CLUSTER_MISSING, levels.missing) for levels in columns["cluster"]]
    if missing_groups == "drop":
        checks += [(GROUP_MISSING, levels.missing) for levels in columns["sensitive"]]
    checks += [(GIVEN_MISSING, levels.missing) for levels in columns["given"]]
    if weights is not None:
        checks.append((WEIGHT_MISSING, np.isnan(weights)))
    keep, exclusions = np.ones(n_records, dtype=bool), []
    for reason, missing in checks:
        lacking = keep & missing
        if lacking.any():
            exclusions.append(Exclusion(reason, int(lacking.sum())))
            keep &= ~lacking
    return keep, tuple(exclusions)


def _groups(columns: Sequence[Levels]) -> Levels | None:
    """Intersect all sensitive columns to groups; a record that misses one of them is in the group "unknown"."""
    if not columns:
        return None
    groups = intersect([column.by_name() for column in columns])
    twice = [name for name, n in Counter(groups.names).items() if n > 1]
    if twice:
        raise GroupError(f"Two groups would be called {twice[0]!r}: rename the values of one of the columns.")
    groups = groups.filled(UNKNOWN)
    return replace(groups, values=groups.names).by_name()


def refuse_quantity(name: str, values: Sequence[str], role: str) -> None:
    """Raise if a label or sensitive columns have too many values: probably a quantity without a threshold.

    ``values`` are names of its values or, of several sensitive columns, of their groups.
    """
    if len(values) <= MOST_VALUES:
        return
    numbers = [float(value) for value in values if sort_key(value)[0] == 0]
    suggested = suggest_comparison(name, numbers, role) if len(numbers) == len(values) else ""
    raise RoleError(
        f"The {role} {name!r} has {len(values):,} different values; at most {MOST_VALUES} are allowed."
        + (suggested or " Merge categories into fewer, or compare a number with a threshold.")
    )


def suggest_comparison(name: str, values: Sequence[Any], role: str) -> str:
    """Suggest a comparison with a round number near the median; return "" if the values are not numbers."""
    numbers = sorted(float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    if len(numbers) < len(values) or not numbers:
        return ""
    bands = ", or cut it (--label-cuts)" if role == "label" else ""
    middle = float(format(numbers[len(numbers) // 2], ".2g"))
    return f' It is a number: compare it with a meaningful threshold, such as "{name}>={middle:g}"{bands}.'


def _weights(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    if is_categorical(column.type) or pa.types.is_boolean(column.type):
        raise TableError(f"Column {name!r} holds {column.type}. Weights must be numbers.")
    weights = single_array(column.cast(pa.float64())).to_numpy(zero_copy_only=False)
    bad = np.isinf(weights) | (weights < 0)
    if bad.any():
        raise RoleError(f"Column {name!r} has the weight {weights[bad][0]:g}. Weights must be finite and not negative.")
    return np.asarray(weights, dtype=np.float64)


def _combined(table: pa.Table) -> pa.Table:
    return table.unify_dictionaries().combine_chunks()


def digest_records(table: pa.Table) -> str:
    """Return a digest of all columns: equal values give equal digests, whatever library or file they come from.

    >>> import pyarrow as pa
    >>> digest_records(pa.table({"x": [1, 2]})) == digest_records(pa.table({"x": [1.0, 2.0]}))
    True
    """
    state = hashlib.blake2b(digest_size=32)
    for name, column in zip(table.column_names, table.columns, strict=True):
        state.update(f"{name}\0{len(column)}\0".encode("utf-8", "surrogatepass"))
        if is_categorical(column.type):
            # Order categories by first occurrence, whatever order the library lists them in.
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            encoded = single_array(plain.dictionary_encode())
            state.update("\0".join(map(str, encoded.dictionary.to_pylist())).encode("utf-8", "surrogatepass"))
            state.update(pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy())
        elif readable_type(column.type) and not pa.types.is_null(column.type):
            state.update((as_numbers(column) + 0.0).tobytes())
        else:
            state.update(str(column.type).encode())
            state.update(repr(column.to_pylist()).encode("utf-8", "surrogatepass"))
    return state.hexdigest()
