"""Blocks of records: features, labels and groups of some rows of a table that is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.errors import RoleError
from certifare.foundation.levels import UNKNOWN, Levels, intersect
from certifare.tables.frames import ColumnType, Field, Frame
from certifare.tables.roles import Comparison, Names, as_names, parse_role
from certifare.tables.table import cut_into_bands, pool_levels

MissingRoles = Literal["refuse", "drop"]


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the records.

    Attributes
    ----------
    fields : tuple of Field
        The features.
    labels, groups : tuple of Field
        Label columns and sensitive columns.
    extra : tuple of Field
        Further columns that are compared to find equal records.
    """

    fields: tuple[Field, ...]
    labels: tuple[Field, ...]
    groups: tuple[Field, ...]
    extra: tuple[Field, ...] = ()

    def __len__(self) -> int:
        return len(next(iter((*self.fields, *self.labels, *self.groups))))

    def complete(self) -> tuple[Block, dict[str, int]]:
        """Leave out records without a label or a group; also return the number of missing values by column."""
        lacking: dict[str, int] = {}
        keep = np.ones(len(self), dtype=bool)
        for field in (*self.labels, *self.groups):
            absent = field.missing()
            if absent.any():
                lacking[field.name] = int(absent.sum())
                keep &= ~absent
        return (self.take(keep) if lacking else self), lacking

    def take(self, keep: NDArray[np.bool_]) -> Block:
        """Return some of the records."""
        columns = (self.fields, self.labels, self.groups, self.extra)
        return Block(*(tuple(field.take(keep) for field in of_kind) for of_kind in columns))


@dataclass(frozen=True, slots=True)
class Feature:
    """The name and type of a feature in the whole table."""

    name: str
    type: ColumnType
    categorical: bool


@dataclass(frozen=True, slots=True)
class Role:
    """A label or sensitive column: its column, its name, and its comparison or cuts, if any."""

    column: str
    name: str
    comparison: Comparison | None = None
    cuts: tuple[float, ...] = ()

    @classmethod
    def of(cls, found: str | Comparison) -> Role:
        """Return the role for a column's name or a comparison."""
        return cls(found.column, str(found), found) if isinstance(found, Comparison) else cls(found, found)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read for it."""
        return (self.column,)

    def read(self, frame: Frame, table: Any) -> Field:
        """Return the values of a table's records."""
        if self.cuts:
            field = _field(self.name, cut_into_bands(_column(table, self.column), self.column, self.cuts))
        elif self.comparison is not None:
            values = self.comparison.evaluate(_column(table, self.column))
            field = Frame(pa.table({self.name: values})).read(0)
        else:
            field = frame.read(self.column)
        return Field(self.name, field.column, field.type, field.categorical)


@dataclass(frozen=True, slots=True)
class PooledRole:
    """Sensitive columns that are intersected to groups; all groups but those kept are pooled."""

    roles: tuple[Role, ...]
    kept: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the groups."""
        return " × ".join(role.name for role in self.roles)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read for it."""
        return tuple(role.column for role in self.roles)

    def read(self, frame: Frame, table: Any) -> Field:
        """Return the group of each record; it is missing if one of the columns is."""
        levels = [role.read(frame, table).levels().by_name() for role in self.roles]
        lacking = np.logical_or.reduce([column.missing for column in levels])
        groups = pool_levels(intersect([column.filled(UNKNOWN) for column in levels]).by_name(), self.kept)
        return _field(self.name, Levels(self.name, np.where(lacking, -1, groups.codes), groups.values))


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks from tables.

    Attributes
    ----------
    features : tuple of Feature
    labels : tuple of Role
    groups : tuple of Role or PooledRole
    extra : tuple of str
        Further columns that are compared to find equal records.
    """

    features: tuple[Feature, ...]
    labels: tuple[Role, ...]
    groups: tuple[Role | PooledRole, ...]
    extra: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are read."""
        roles = [column for role in (*self.labels, *self.groups) for column in role.columns]
        return list(dict.fromkeys([*(feature.name for feature in self.features), *roles, *self.extra]))

    def of(self, positions: Collection[int]) -> BlockReader:
        """Return a reader for some of the features only."""
        return replace(self, features=tuple(f for i, f in enumerate(self.features) if i in positions))

    def read(self, table: Any) -> Block:
        """Read a table (pandas, polars, pyarrow) as a block."""
        frame = Frame(table)
        return Block(
            fields=tuple(frame.read(feature.name).as_type(feature.type) for feature in self.features),
            labels=tuple(role.read(frame, table) for role in self.labels),
            groups=tuple(role.read(frame, table) for role in self.groups),
            extra=tuple(frame.read(name) for name in self.extra),
        )


class Piece(Protocol):
    """A part of a table that is processed separately: a row group of a file, or a partition of a Dask DataFrame."""

    def blocks(self, reading: BlockReader) -> Iterator[Block]:
        """Read the records, in order."""
        ...


def roles_of(texts: Names, names: Sequence[str], role: str) -> tuple[Role, ...]:
    """Parse labels or sensitive columns: names of columns, or comparisons."""
    if not as_names(texts):
        raise RoleError(f"No {role} column was named.")
    return tuple(Role.of(parse_role(text, names, role)) for text in as_names(texts))


def by_piece(positions: NDArray[np.int64], lengths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Split sorted row numbers of the whole table by piece, and count them from the start of each piece.

    >>> [rows.tolist() for rows in by_piece(np.array([0, 4, 5, 9]), [5, 2, 3])]
    [[0, 4], [0], [2]]
    """
    stops = np.cumsum(lengths)
    parts = np.split(positions, np.searchsorted(positions, stops[:-1]))
    return [part - (stop - length) for part, stop, length in zip(parts, stops, lengths, strict=True)]


def _column(table: Any, name: str) -> pa.ChunkedArray:
    """Return a column of a table (pandas, polars, pyarrow) as Arrow data."""
    if isinstance(table, pa.Table):
        return table.column(name)
    found = pa.array(table[name], from_pandas=True)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _field(name: str, levels: Levels) -> Field:
    return Frame(pa.table({name: levels.to_arrow()})).read(0)
