"""Blocks of records: features, labels and groups of some rows of a table that is never in memory as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.errors import GroupError, MissingColumnError, RoleError
from certifare.tables.frames import ColumnType, Field, Frame, read_arrow
from certifare.tables.roles import Comparison, Names, as_names, parse_role
from certifare.tables.table import cut_into_bands

T = TypeVar("T")
MissingRoles = Literal["refuse", "drop"]
#: Called with the share of a step that is done.
Share = Callable[[float], Any]


@dataclass(frozen=True, eq=False)
class Block:
    """Some of the records."""

    fields: tuple[Field, ...]  # the features
    # Label columns and sensitive columns
    labels: tuple[Field, ...]
    groups: tuple[Field, ...]
    # The row of each record in the table. The rows of a dataframe's partition follow those of no other partition
    rows: NDArray[np.int64]
    extra: tuple[Field, ...] = ()  # further columns that are compared to find equal records

    def __len__(self) -> int:
        return len(next(iter((*self.fields, *self.labels, *self.groups))))

    def complete(self) -> tuple[Block, dict[str, int]]:
        """Leave out records without a label or a group; also return the number of missing values by column."""
        fields = (*self.labels, *self.groups)
        lacking = {field.name: n for field in fields if (n := int(field.missing().sum()))}
        return (self.take(self.having(fields)) if lacking else self), lacking

    def having(self, fields: Sequence[Field]) -> NDArray[np.bool_]:
        """Return which records have a value in all of these fields."""
        known = np.ones(len(self), dtype=bool)
        for field in fields:
            known &= ~field.missing()
        return known

    def grouped(self) -> NDArray[np.bool_]:
        """Return which records have a group."""
        return self.having(self.groups)

    def take(self, keep: NDArray[np.bool_]) -> Block:
        """Return some of the records."""
        kinds = (self.fields, self.labels, self.groups, self.extra)
        fields, labels, groups, extra = (tuple(field.take(keep) for field in of_kind) for of_kind in kinds)
        return Block(fields, labels, groups, self.rows[keep], extra)


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

    def read(self, frame: Frame, table: Any) -> Field:
        """Return the values of a table's records."""
        if self.cuts:
            values: Any = cut_into_bands(_column(table, self.column), self.column, self.cuts).to_arrow()
        elif self.comparison is not None:
            values = self.comparison.evaluate(_column(table, self.column))
        else:
            return replace(frame.read(self.column), name=self.name)
        return read_arrow(values, self.name)


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks from tables."""

    features: tuple[Feature, ...]
    labels: tuple[Role, ...]
    groups: tuple[Role, ...]
    extra: tuple[str, ...] = ()  # further columns that are compared to find equal records

    @property
    def columns(self) -> list[str]:
        """Names of all columns that are read."""
        roles = [role.column for role in (*self.labels, *self.groups)]
        return list(dict.fromkeys([*(feature.name for feature in self.features), *roles, *self.extra]))

    @property
    def text(self) -> list[str]:
        """Names of the features that hold text."""
        return [feature.name for feature in self.features if feature.type == "text"]

    def read(self, table: Any, frame: Frame | None = None, first: int = 0) -> Block:
        """Read a table (pandas, polars, pyarrow) as a block.

        ``frame`` may hold columns that were read already; ``first`` is the row of the first record.
        """
        frame = Frame(table) if frame is None else frame
        return Block(
            fields=tuple(frame.read(feature.name).as_type(feature.type) for feature in self.features),
            labels=tuple(role.read(frame, table) for role in self.labels),
            groups=tuple(role.read(frame, table) for role in self.groups),
            rows=np.arange(first, first + len(frame), dtype=np.int64),
            extra=tuple(frame.read(name) for name in self.extra),
        )


class Piece(ABC):
    """A part of a table that is processed separately: a row group of a file, or a partition of a dataframe."""

    number: int  # its position in the table

    @property
    def first(self) -> int:
        """The row of its first record; pieces of unknown lengths have rows that are far apart."""
        return self.number << 40

    @abstractmethod
    def tables(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[Any]:
        """Read some columns as tables (pandas or pyarrow), in order; ``text`` are columns that hold text."""

    def blocks(self, reading: BlockReader) -> Iterator[Block]:
        """Read the records, in order."""
        first = self.first
        for table in self.tables(reading.columns, reading.text):
            block = reading.read(table, first=first)
            yield block
            first += len(block)


@dataclass(frozen=True, eq=False)
class FramePiece(Piece):
    """A partition of a dataframe, as one table."""

    frame: Any
    number: int = 0

    def tables(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[Any]:
        """Give the whole partition."""
        names, pandas = list(columns), hasattr(self.frame, "iloc")
        there = set(self.frame.columns if pandas else self.frame.column_names)
        lost = [name for name in names if name not in there]
        if lost:
            raise MissingColumnError(f"Partition {self.number} has no column {lost[0]!r}, which the dataframe has.")
        yield self.frame[names] if pandas else self.frame.select(names)


class Worker(Protocol):
    """Holds the pieces of a table and processes each in place."""

    schema: pa.Schema  # the table's columns
    where: str  # where the table is, in words: "on a cluster"

    def reduce(self, work: Callable[[Any], T], merge: Callable[[Sequence[T]], T], progress: Share | None = None) -> T:
        """Merge the results of ``work(piece)`` for all pieces, in order."""
        ...


def roles_of(texts: Names, names: Sequence[str], role: str) -> tuple[Role, ...]:
    """Parse labels or sensitive columns: names of columns, or comparisons."""
    if not as_names(texts):
        raise RoleError(f"No {role} column was named.")
    return tuple(Role.of(parse_role(text, names, role)) for text in as_names(texts))


def group_columns(sensitive_features: Any, frame: str) -> tuple[str, ...] | None:
    """Return the names of the columns that hold the groups of a dataframe on a cluster; None if none are given."""
    if sensitive_features is None:
        return None
    if not isinstance(sensitive_features, str | list | tuple):
        raise GroupError(f"sensitive_features: name the columns of the {frame} DataFrame that hold the groups.")
    return as_names(sensitive_features)


def _column(table: Any, name: str) -> pa.ChunkedArray:
    """Return a column of a table (pandas, polars, pyarrow) as Arrow data."""
    if isinstance(table, pa.Table):
        return table.column(name)
    found = pa.array(table[name], from_pandas=True)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
