"""Split a table that is not in memory: a random sample to fit on, and certification records that stay where they are.

Each record gets a place from 0 to 1 by a hash of its values, its piece, the number of equal records before it, and a
key that depends on the seed and all records. So places are independent of what records hold, and a piece that is read
again, in any order, gives its records the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.encoders.hashes import hash_records, mix, share_of
from certifare.engines.blocks import Block, BlockReader, Piece
from certifare.engines.entries import Entry, add_entries, entries_of
from certifare.errors import TableError
from certifare.tables.frames import Frame
from certifare.tables.table import arrow_table

#: Column of a sample that holds the place of each record.
PLACE = "\0place"


@dataclass(frozen=True, slots=True)
class Totals:
    """Number of some records, and sums of their hashes modulo 2^64, which are equal for equal records in any order."""

    records: int
    first: int
    second: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> Totals:
        """Add up hashes."""
        return cls(len(hashes), int(hashes.sum(dtype=np.uint64)), int(mix(hashes).sum(dtype=np.uint64)))

    @classmethod
    def merge(cls, parts: Sequence[Totals]) -> Totals:
        """Add up the totals of parts of a table."""
        sums = (sum(getattr(part, name) for part in parts) for name in ("records", "first", "second"))
        records, first, second = sums
        return cls(records, first % 2**64, second % 2**64)

    def digest(self) -> str:
        """Return the totals as hexadecimal digits."""
        return f"{self.records:x}-{self.first:016x}{self.second:016x}"


@dataclass(frozen=True, slots=True)
class RecordHasher:
    """Counts and hashes all records."""

    columns: tuple[str, ...]  # the columns that are hashed

    def __call__(self, piece: Piece) -> Totals:
        """Survey a piece."""
        tables = piece.tables(self.columns)
        return Totals.merge([Totals.of(hash_records(Frame(table).fields(), b"")) for table in tables])


@dataclass(frozen=True, slots=True)
class RandomPlaces:
    """Gives each record a place from 0 to 1."""

    columns: tuple[str, ...]  # the columns that are hashed
    key: int  # depends on the seed and on all records

    def of(self, frame: Frame, number: int) -> NDArray[np.uint64]:
        """Return the places of a table's records, as 64-bit integers; ``number`` is that of the table."""
        hashes = hash_records([frame.read(name) for name in self.columns], b"")
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
        before = np.empty(len(hashes), dtype=np.uint64)
        before[order] = np.arange(len(hashes)) - np.repeat(starts, np.diff(starts, append=len(hashes)))
        # Overflow is meant.
        nth = before + mix(np.array([number], dtype=np.uint64))
        key = np.array([self.key], dtype=np.uint64)
        return mix(mix(hashes + key) ^ mix(nth ^ mix(key)))

    def tables(self, piece: Piece, columns: Sequence[str], text: Sequence[str]) -> Iterator[tuple[Any, Frame, Any]]:
        """Read a piece: tables with these columns and those that are hashed, their frames, and places of records."""
        every = list(dict.fromkeys((*columns, *self.columns)))
        for i, table in enumerate(piece.tables(every, text)):
            frame = Frame(table, keep=True)
            yield table, frame, self.of(frame, (piece.number << 20) + i)


@dataclass(frozen=True, slots=True)
class CertifyPart:
    """Which records are certification records: those whose place is at least ``start``."""

    places: RandomPlaces
    start: float

    def columns(self, reading: BlockReader) -> list[str]:
        """Return the columns that are read to find the records and to read them."""
        return list(dict.fromkeys((*reading.columns, *self.places.columns)))

    def blocks(self, piece: Piece, reading: BlockReader) -> Iterator[tuple[Block, NDArray[np.uint64], Totals]]:
        """Read the certification records of a piece, in blocks, with their places and the totals of all its records."""
        for table, frame, places in self.places.tables(piece, reading.columns, reading.text):
            certified = share_of(places) >= self.start
            yield reading.read(table, frame).take(certified), places[certified], Totals.of(places)


@dataclass(frozen=True, eq=False)
class Sampled:
    """A sample of records, and the sizes of what stays where it is."""

    table: pa.Table | None  # the sampled records, with their places in the column ``PLACE``; None if there are none
    entries: tuple[Entry, ...]  # certification records by group and label
    totals: Totals  # of the places of all records

    @classmethod
    def merge(cls, parts: Sequence[Sampled]) -> Sampled:
        """Join the samples of parts of a table, in order."""
        tables = [part.table for part in parts if part.table is not None]
        try:
            table = pa.concat_tables(tables, promote_options="permissive") if tables else None
        except pa.ArrowException as error:
            raise TableError(f"Columns have other types in other parts of the table: {error}.") from error
        return cls(table, add_entries([part.entries for part in parts]), Totals.merge([part.totals for part in parts]))


@dataclass(frozen=True, slots=True)
class SampleDrawer:
    """Draws a sample, and counts the certification records by group and label."""

    certified: CertifyPart
    share: float  # records whose place is below are sampled
    columns: tuple[str, ...]  # columns of the sample: all that are read
    roles: BlockReader  # labels and groups

    def __call__(self, piece: Piece) -> Sampled:
        """Sample a piece."""
        parts = []
        for table, frame, places in self.certified.places.tables(piece, self.columns, ()):
            shares = share_of(places)
            block = self.roles.read(table, frame).take(shares >= self.certified.start)
            rows = np.flatnonzero(shares < self.share)
            sample = None
            if len(rows):
                sample = arrow_table(table).select(list(self.columns)).take(pa.array(rows))
                sample = sample.replace_schema_metadata(None).append_column(PLACE, pa.array(shares[rows]))
            cells = np.zeros(len(block), dtype=np.int64)
            parts.append(Sampled(sample, tuple(entries_of(block, cells, 1)), Totals.of(places)))
        return Sampled.merge(parts)
