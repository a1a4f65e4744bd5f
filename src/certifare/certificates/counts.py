"""Counts of records by cell, group and label, from which certificates are computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.errors import ArgumentError, CountsError, GroupError, TableError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import UNKNOWN, Levels, intersect, name_of

Missing = Literal["refuse", "unknown", "drop"]

#: Reasons for leaving out records without a value in a column that has a role.
GROUP_MISSING, LABEL_MISSING = "group missing", "label missing"
WEIGHT_MISSING, CLUSTER_MISSING = "weight missing", "cluster missing"
GIVEN_MISSING = "value of the given column missing"
#: Reasons for records that sampling leaves out.
THINNED = "left out by thinning to the weights"
OTHER_KEPT = "another record of the same cluster was kept"
THINNED_CLUSTERS = "left out by thinning clusters to their size"
#: Up to here counts are exact as floats.
MAX_RECORDS = 2**53
#: The largest table that is read from a file, and the most groups, labels and exclusions in it.
MOST_ENTRIES, MOST_NAMES = 2**20, 1_000


@dataclass(frozen=True, slots=True, order=True)
class Exclusion:
    """A number of records that were left out of the counts, and the reason."""

    reason: str
    records: int


class _ExclusionForm(msgspec.Struct, forbid_unknown_fields=True):
    reason: str
    records: Annotated[int, msgspec.Meta(ge=0, le=MAX_RECORDS)]


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    """Counts in a file."""

    groups: Annotated[list[str], msgspec.Meta(max_length=MOST_NAMES)]
    table: Any
    labels: Annotated[list[str], msgspec.Meta(max_length=MOST_NAMES)] | None = None
    exclusions: Annotated[list[_ExclusionForm], msgspec.Meta(max_length=MOST_NAMES)] | None = None


class CellCounts:
    """An immutable table cells × groups, or cells × groups × labels, of record counts.

    Parameters
    ----------
    table : array-like of int
        One row per cell, one column per group; a third axis, if any, holds the labels.
    groups : sequence
        Names of the groups.
    labels : sequence, optional
        Names of the labels, for a table with three axes.
    exclusions : iterable of Exclusion
        Records that were left out; they add up like the counts.

    Examples
    --------
    >>> counts = CellCounts([[120, 80], [30, 60]], groups=["f", "m"])
    >>> counts.n_cells, counts.group_sizes
    (2, {'f': 150, 'm': 140})
    >>> (counts + counts).group_sizes
    {'f': 300, 'm': 280}
    """

    __slots__ = ("exclusions", "groups", "labels", "table")

    table: NDArray[np.int64]
    groups: tuple[str, ...]
    labels: tuple[str, ...] | None
    exclusions: tuple[Exclusion, ...]

    def __init__(
        self,
        table: ArrayLike,
        groups: Iterable[object],
        labels: Iterable[object] | None = None,
        exclusions: Iterable[Exclusion] = (),
    ) -> None:
        checked = _whole_numbers(table)
        group_names = _distinct("groups", groups)
        label_names = None if labels is None else _distinct("labels", labels)
        wanted = (len(group_names),) if label_names is None else (len(group_names), len(label_names))
        if checked.shape[1:] != wanted:
            raise CountsError(
                f"The table of counts has shape {checked.shape}, but {len(group_names)} groups"
                + ("" if label_names is None else f" and {len(label_names)} labels")
                + f" were named: its shape must be (cells, {', '.join(map(str, wanted))})."
            )
        checked.setflags(write=False)
        object.__setattr__(self, "table", checked)
        object.__setattr__(self, "groups", group_names)
        object.__setattr__(self, "labels", label_names)
        object.__setattr__(self, "exclusions", merge_exclusions(exclusions))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("CellCounts cannot be changed; make a new one.")

    def __reduce__(self) -> tuple[type[CellCounts], tuple[object, ...]]:
        return CellCounts, (self.table, self.groups, self.labels, self.exclusions)

    @classmethod
    def from_cells(
        cls,
        cells: ArrayLike,
        sensitive_features: Any,
        y: Any = None,
        n_cells: int | None = None,
        *,
        missing: Missing = "refuse",
    ) -> CellCounts:
        """Count records by their cell, group and label.

        Parameters
        ----------
        cells : array-like of int
            The cell id of each record, in 0 … n_cells − 1.
        sensitive_features : array-like or table
            The group of each record. Several columns (a dataframe, a mapping of columns, or a two-dimensional array)
            are intersected.
        y : array-like, optional
            The label of each record.
        n_cells : int, optional
            The number of cells, by default ``max(cells) + 1``. Better pass it: a cell may be empty in a sample.
        missing : {"refuse", "unknown", "drop"}
            What to do with records without a group: raise an error; count them as a group "unknown"; or drop and count
            them. Records without a label raise an error, or are dropped with ``"drop"``. (Demographic parity is also
            about them: count without y for it.)

        Examples
        --------
        >>> CellCounts.from_cells([0, 1, 1, 0], ["f", "m", "f", "f"], n_cells=3).table.tolist()
        [[2, 0], [1, 1], [0, 0]]
        """
        return PlacedRecords.of(cells, sensitive_features, y, n_cells, missing=missing).count()

    @property
    def n_cells(self) -> int:
        """Number of cells, including empty ones."""
        return int(self.table.shape[0])

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.table.sum())

    @property
    def group_sizes(self) -> dict[str, int]:
        """Number of records of each group."""
        sizes = self._by_group().sum(axis=0)
        return {group: int(size) for group, size in zip(self.groups, sizes, strict=True)}

    def _by_group(self) -> NDArray[np.int64]:
        """Return the cells × groups table, summed over labels."""
        return self.table if self.table.ndim == 2 else self.table.sum(axis=2)

    def without_labels(self) -> CellCounts:
        """Return the same records by cell and group only."""
        return CellCounts(self._by_group(), self.groups, exclusions=self.exclusions)

    def given_label(self, label: object) -> CellCounts:
        """Return the records with this label, by cell and group."""
        if self.labels is None:
            raise ArgumentError(
                "These counts have no labels. Count with y= to make statements about records of one label."
            )
        name = name_of(label)
        if name not in self.labels:
            raise CountsError(f"No label {name!r} among {listing(self.labels)}.")
        return CellCounts(self.table[:, :, self.labels.index(name)], self.groups, exclusions=self.exclusions)

    def of_groups(self, *groups: object) -> CellCounts:
        """Return the records of these groups, in this order."""
        names = [name_of(group) for group in groups]
        for name in names:
            if name not in self.groups:
                raise GroupError(f"No group {name!r} among {listing(self.groups)}.")
        chosen = [self.groups.index(name) for name in names]
        return CellCounts(self.table[:, chosen], names, self.labels, self.exclusions)

    def like(self, other: CellCounts) -> CellCounts:
        """Return these counts with the groups and labels of another table, in its order.

        Groups that the other table does not have are left out; labels that it does not have raise an error.
        """
        if other.labels is None:
            return self.without_labels().of_groups(*other.groups)
        if self.labels is None:
            raise ArgumentError("These counts have no labels, and those they are to be like have some.")
        unknown = [label for label in self.labels if label not in other.labels]
        if unknown:
            raise CountsError(f"No label {unknown[0]!r} among {listing(other.labels)}.")
        chosen = self.of_groups(*other.groups)
        return CellCounts(chosen._spread(other.groups, other.labels), other.groups, other.labels, self.exclusions)

    def with_exclusions(self, exclusions: Iterable[Exclusion]) -> CellCounts:
        """Return the same counts with other exclusions."""
        return CellCounts(self.table, self.groups, self.labels, exclusions)

    def merge_cells(self, mapping: ArrayLike, n_cells: int | None = None) -> CellCounts:
        """Return the counts after cell i became cell ``mapping[i]``."""
        ids, k = _cell_ids(mapping, n_cells)
        if len(ids) != self.n_cells:
            raise CountsError(f"mapping has {len(ids)} entries for {self.n_cells} cells.")
        table = np.zeros((k, *self.table.shape[1:]), dtype=np.int64)
        np.add.at(table, ids, self.table)
        return CellCounts(table, self.groups, self.labels, self.exclusions)

    def __add__(self, other: object) -> CellCounts:
        """Add counts of the same cells from other records; groups and labels are matched by name."""
        if not isinstance(other, CellCounts):
            return NotImplemented
        if self.n_cells != other.n_cells:
            raise CountsError(
                f"Cannot add counts of {self.n_cells} cells to counts of {other.n_cells} cells: "
                "they come from different encoders."
            )
        if (self.labels is None) != (other.labels is None):
            raise CountsError("Cannot add counts with labels to counts without.")
        groups = tuple(dict.fromkeys(self.groups + other.groups))
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = tuple(dict.fromkeys(self.labels + other.labels))
        table = self._spread(groups, labels) + other._spread(groups, labels)
        return CellCounts(table, groups, labels, self.exclusions + other.exclusions)

    def _spread(self, groups: Sequence[str], labels: Sequence[str] | None) -> NDArray[np.int64]:
        """Return the table for more groups and labels, with zeros for the new ones."""
        columns = [groups.index(group) for group in self.groups]
        if labels is None or self.labels is None:
            table = np.zeros((self.n_cells, len(groups)), dtype=np.int64)
            table[:, columns] = self.table
            return table
        table = np.zeros((self.n_cells, len(groups), len(labels)), dtype=np.int64)
        table[:, np.array(columns)[:, None], [labels.index(label) for label in self.labels]] = self.table
        return table

    def __eq__(self, other: object) -> bool:
        """Return whether tables, names and exclusions are equal."""
        if not isinstance(other, CellCounts):
            return NotImplemented
        return (
            self.groups == other.groups
            and self.labels == other.labels
            and self.exclusions == other.exclusions
            and np.array_equal(self.table, other.table)
        )

    def __hash__(self) -> int:
        return hash((self.groups, self.labels, self.exclusions, self.table.tobytes()))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{group}: {size:,}" for group, size in self.group_sizes.items())
        labels = "" if self.labels is None else f", {len(self.labels)} labels"
        return f"<CellCounts: {self.n_cells} cells, {sizes}{labels}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dictionaries, strings and integers for JSON."""
        return {
            "groups": list(self.groups),
            "labels": None if self.labels is None else list(self.labels),
            "table": self.table.tolist(),
            "exclusions": [{"reason": e.reason, "records": e.records} for e in self.exclusions],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CellCounts:
        """Read and validate the result of :meth:`to_dict`."""
        try:
            form = msgspec.convert(dict(document), _Form)
            rows: Any = list[list[int]] if form.labels is None else list[list[list[int]]]
            counted = msgspec.convert(form.table, rows)
        except msgspec.ValidationError as error:
            raise CountsError(f"Not a table of counts: {error}") from error
        exclusions = [Exclusion(found.reason, found.records) for found in form.exclusions or ()]
        counts = cls(counted, form.groups, form.labels, exclusions)
        if counts.table.size > MOST_ENTRIES:
            found = f"{counts.table.size:,} counts"
            raise CountsError(f"{found}, where {MOST_ENTRIES:,} are the most that are read from a file.")
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRecords:
    """Records by cell, group and label, to be counted in parts with the same groups and labels."""

    places: NDArray[np.int64]
    shape: tuple[int, ...]
    groups: tuple[str, ...]
    labels: tuple[str, ...] | None
    known: NDArray[np.bool_]
    exclusions: tuple[Exclusion, ...]
    times: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        cells: ArrayLike,
        sensitive_features: Any,
        y: Any,
        n_cells: int | None,
        *,
        missing: Missing,
        drop_unlabelled: bool = False,
        times: NDArray[np.int64] | None = None,
    ) -> PlacedRecords:
        """Place records; the parameters are those of :meth:`CellCounts.from_cells`, and two more.

        - ``drop_unlabelled``: leave out and count records without a label, whatever ``missing`` is.
        - ``times``: how many equal records each entry stands for; by default one.
        """

        def records(which: NDArray[np.bool_]) -> int:
            return int(which.sum() if times is None else times[which].sum())

        if missing not in ("refuse", "unknown", "drop"):
            raise ArgumentError(f'missing={missing!r}: choose "refuse", "unknown" or "drop".')
        ids, k = _cell_ids(cells, n_cells)
        columns = [Levels.of(column, "sensitive_features").by_name() for column in columns_of(sensitive_features)]
        groups = intersect(columns)
        twice = [name for name in groups.names if groups.names.count(name) > 1]
        if twice:
            raise GroupError(f"Two groups would be called {twice[0]!r}: rename the values of one of the columns.")
        groups = groups.by_name()
        _same_length(ids, groups.codes, "cells", "sensitive_features")
        lacking = groups.missing
        exclusions = [Exclusion(GROUP_MISSING, records(lacking))]
        if lacking.any() and missing == "refuse":
            raise TableError(
                f'{records(lacking):,} of {records(ids >= 0):,} records lack a group. Pass missing="unknown" to count '
                'them as a separate group, or missing="drop" to leave them out and record their number.'
            )
        if missing == "unknown":
            groups, exclusions = groups.filled(UNKNOWN).by_name(), []
        if not groups.values:
            raise GroupError("No record has a group, so there is nothing to count.")
        known = ~groups.missing
        places, shape = ids * len(groups.values) + groups.codes, (k, len(groups.values))
        if y is None:
            return cls(places, shape, groups.names, None, known, merge_exclusions(exclusions), times)
        labels = Levels.of(y, "y")
        _same_length(ids, labels.codes, "cells", "y")
        lacking = known & labels.missing
        # Labels that only occur in records that are left out do not count.
        labels = replace(labels, codes=np.where(known, labels.codes, -1)).sorted().by_name()
        if lacking.any() and missing != "drop" and not drop_unlabelled:
            raise TableError(
                f'{records(lacking):,} records lack a label. Remove them, or pass missing="drop" to leave them out and '
                "record their number."
            )
        if not labels.values:
            raise ArgumentError("No record has a label. Name another column, or give records with labels.")
        exclusions.append(Exclusion(LABEL_MISSING, records(lacking)))
        places, known = places * len(labels.values) + labels.codes, known & ~lacking
        return cls(
            places,
            (*shape, len(labels.values)),
            groups.names,
            labels.names,
            known,
            merge_exclusions(exclusions),
            times,
        )

    def count(self, rows: NDArray[np.bool_] | None = None) -> CellCounts:
        """Count all known records, or some of them; the caller must then account for the others."""
        counted = self.known if rows is None else self.known & rows
        times = None if self.times is None else self.times[counted]
        table = np.bincount(self.places[counted], times, minlength=int(np.prod(self.shape))).reshape(self.shape)
        return CellCounts(table, self.groups, self.labels, self.exclusions if rows is None else ())


def joint_cells(*releases: ArrayLike, n_cells: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Return the joint cells of several releases of the same records.

    Two encodings of the same people reveal more than either. Certifying the joint cells bounds what both together
    allow.

    Parameters
    ----------
    *releases : array-like of int
        Cell ids of the same records under each encoder.
    n_cells : sequence of int
        The number of cells of each encoder.

    Returns
    -------
    cells, n_cells
        Joint cell ids, and their number: the product of the numbers of cells.

    Examples
    --------
    >>> cells, k = joint_cells([0, 1], [2, 0], n_cells=[2, 3])
    >>> cells.tolist(), k
    ([2, 3], 6)
    """
    if not releases or len(releases) != len(n_cells):
        raise ArgumentError("Give the cells of each release and, for each, its number of cells.")
    joint, total = _cell_ids(releases[0], n_cells[0])
    for cells, k in zip(releases[1:], n_cells[1:], strict=True):
        ids, k = _cell_ids(cells, k)
        _same_length(joint, ids, "the first release", "another release")
        joint, total = joint * k + ids, total * k
        if total > MAX_RECORDS:
            raise CountsError(f"The releases have more than {MAX_RECORDS:,} cells together.")
    return joint, total


def encode_counts(value: object) -> object:
    """Convert counts to plain data, for msgspec."""
    if isinstance(value, CellCounts):
        return value.to_dict()
    raise NotImplementedError(f"cannot write {type(value).__name__}")


def decode_counts(kind: type, value: object) -> object:
    """Read counts from plain data, for msgspec: whole numbers only, no truth values."""
    if kind is not CellCounts:
        raise NotImplementedError(f"cannot read {kind.__name__}")
    if isinstance(value, CellCounts):
        return value
    if not isinstance(value, Mapping):
        raise CountsError("counts must be an object with groups and table.")
    return CellCounts.from_dict(value)


def _distinct(what: str, values: Iterable[object]) -> tuple[str, ...]:
    names = tuple(name_of(value) for value in values)
    if not names:
        raise CountsError(f"No {what} were named.")
    if len(set(names)) != len(names):
        raise CountsError(f"Names of {what} must differ: {listing(names)}.")
    return names


def merge_exclusions(exclusions: Iterable[Exclusion]) -> tuple[Exclusion, ...]:
    """Add up exclusions with the same reason."""
    totals: dict[str, int] = {}
    for exclusion in exclusions:
        if not 0 <= exclusion.records <= MAX_RECORDS:
            raise CountsError(f"{exclusion.records} records left out: give a number from 0 to {MAX_RECORDS:,}.")
        totals[exclusion.reason] = totals.get(exclusion.reason, 0) + exclusion.records
    return tuple(Exclusion(reason, records) for reason, records in sorted(totals.items()) if records)


def _whole_numbers(table: ArrayLike) -> NDArray[np.int64]:
    """Return a checked copy of a table of counts."""
    try:
        array = np.array(table)
    except (ValueError, OverflowError) as error:
        raise CountsError("Rows of the table of counts differ in length.") from error
    if array.ndim not in (2, 3) or array.shape[0] == 0:
        raise CountsError(
            f"A table of counts has two axes (cells, groups) or three (cells, groups, labels); got {array.shape}."
        )
    if array.dtype.kind not in "iuf":
        raise CountsError(f"Counts must be whole numbers, not {array.dtype}.")
    broken = array[~np.isfinite(array) | (array != np.rint(array))]
    if len(broken):
        raise CountsError(
            f"Counts must be whole numbers; found {broken[0]}. Weighted records are handled by "
            "certifare.thin, which keeps whole records."
        )
    if np.any(array < 0):
        cell = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise CountsError(f"The count at position {cell} is {array[cell]}; counts cannot be negative.")
    if float(array.sum(dtype=np.float64)) > MAX_RECORDS:
        raise CountsError(f"More than {MAX_RECORDS:,} records in one table.")
    return array.astype(np.int64)


def _cell_ids(cells: ArrayLike, n_cells: int | None) -> tuple[NDArray[np.int64], int]:
    ids = np.asarray(cells)
    if ids.ndim != 1:
        raise CountsError(f"Cells must be one id per record; got shape {ids.shape}.")
    if ids.dtype.kind == "f" and np.all(np.isfinite(ids)) and np.all(ids == np.rint(ids)):
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iu" and len(ids):
        raise CountsError(f"Cell ids must be whole numbers, not {ids.dtype}.")
    if n_cells is None:
        if not len(ids):
            raise CountsError("No records; give n_cells to make an empty table.")
        n_cells = int(ids.max()) + 1
    if n_cells < 1:
        raise CountsError(f"n_cells={n_cells}: at least one cell is needed.")
    outside = (ids < 0) | (ids >= n_cells)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise CountsError(
            f"{int(outside.sum()):,} cell ids lie outside 0 … {n_cells - 1}; "
            f"the first is {ids[first]}, at record {first}."
        )
    return ids.astype(np.int64), int(n_cells)


def given_missing(counts: CellCounts) -> list[Exclusion]:
    """Return the exclusions of counts whose labels are the values of a given column."""
    return [
        Exclusion(GIVEN_MISSING, found.records) if found.reason == LABEL_MISSING else found
        for found in counts.exclusions
    ]


def columns_of(values: Any) -> list[Any]:
    """Return the columns of a table, or the single column that ``values`` is."""
    if isinstance(values, Mapping):
        columns = list(values.values())
    elif hasattr(values, "columns") and hasattr(values, "shape") and len(values.shape) == 2:
        # A dataframe of any library; pyarrow's ``columns`` are arrays, those of others are names.
        columns = [c if hasattr(c, "__array__") else values[c] for c in values.columns]
    elif isinstance(values, np.ndarray) and values.ndim == 2:
        columns = list(values.T)
    else:
        return [values]
    if not columns:
        raise GroupError("sensitive_features has no column.")
    return columns


def _same_length(first: NDArray[Any], second: NDArray[Any], name: str, other: str) -> None:
    if len(first) != len(second):
        raise ArgumentError(f"{name} has {len(first):,} records, {other} has {len(second):,}.")
