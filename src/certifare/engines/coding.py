"""Code records as small integers and classes, in the same way for every block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import ColumnSchema, GroupValue
from certifare.engines.blocks import Block, BlockReader, Piece
from certifare.errors import TableError
from certifare.foundation.levels import intersect
from certifare.growth import Bins, Codes, Targets, encode
from certifare.growth.histograms import Layout, Records
from certifare.tables.frames import Field, Value


@dataclass(frozen=True, eq=False)
class Plan:
    """Bins, labels and groups by which every block is coded."""

    reading: BlockReader
    columns: tuple[ColumnSchema, ...]  # the features
    bins: tuple[Bins, ...]
    labels: tuple[tuple[str, tuple[Value, ...]], ...]  # name and values of each label column
    groups: tuple[GroupValue, ...]

    @property
    def group_name(self) -> str:
        """Name of the groups, as an encoder in memory has it."""
        return " × ".join(role.name for role in self.reading.groups)

    @property
    def n_codes(self) -> tuple[int, ...]:
        """Number of codes of each feature."""
        return tuple(b.n_codes for b in self.bins)

    @property
    def layout(self) -> Layout:
        """The layout of coded records."""
        return Layout(self.n_codes, math.prod(len(values) for _, values in self.labels) * len(self.groups))

    def blocks(self, piece: Piece) -> Iterator[Block]:
        """Read the records of a piece that have a label and a group."""
        return (block.complete()[0] for block in piece.blocks(self.reading))

    def codes(self, block: Block) -> Codes:
        """Code the features of a block."""
        return encode(
            self.bins, [field.as_type(c.type).column for field, c in zip(block.fields, self.columns, strict=True)]
        )

    def write(self, records: Records, piece: Piece, start: int, length: int) -> None:
        """Write the records of a piece, of which there are ``length``, from row ``start`` on."""
        sizes, stop = [len(values) for _, values in self.labels], start + length
        for block in self.blocks(piece):
            if start + len(block) > stop:
                break
            labels = [_places([field], values) for field, (_, values) in zip(block.labels, self.labels, strict=True)]
            targets = Targets.from_columns(labels, _places(block.groups, self.groups), sizes, len(self.groups))
            records.write(start, self.codes(block), targets.classes)
            start += len(block)
        else:
            if start == stop:
                return
        raise TableError(
            f"The table changed while it was read: a partition had {length:,} records, and now has others."
        )


def _places(fields: Sequence[Field], known: Sequence[Any]) -> NDArray[np.int64]:
    """Return the index of each record's value (or combination of values) among the known ones."""
    found = intersect([field.levels().complete("label or group") for field in fields])
    places = found.places(known)
    for value, place in zip(found.values, places.tolist(), strict=False):
        if place < 0:
            raise TableError(
                f"The table changed while it was read: {fields[0].name!r} now holds {value!r}, which it did not before."
            )
    return places[found.codes]
