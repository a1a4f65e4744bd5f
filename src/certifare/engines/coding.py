"""Code records as small integers and classes, in the same way for every block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.proxies import Coordinates
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
    groups: tuple[GroupValue, ...]  # the groups
    coordinates: Coordinates | None = None  # coordinates of records that the encoder is to retain, if any

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
        n_coordinates = 0 if self.coordinates is None else self.coordinates.n_coordinates
        return Layout(self.n_codes, self.n_classes, n_coordinates)

    @property
    def n_labels(self) -> tuple[int, ...]:
        """Number of values of each label column."""
        return tuple(len(values) for _, values in self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes, which are combinations of labels and group."""
        return int(np.prod(self.n_labels)) * len(self.groups)

    def blocks(self, piece: Piece) -> Iterator[Block]:
        """Read the records of a piece that have a label and a group."""
        return (block.complete()[0] for block in piece.blocks(self.reading))

    def codes(self, block: Block) -> Codes:
        """Code the features of a block."""
        return encode(
            self.bins, [field.as_type(c.type).column for field, c in zip(block.fields, self.columns, strict=True)]
        )

    def classes(self, block: Block) -> NDArray[Any]:
        """Code the labels and groups of a block as one integer."""
        *labels, groups = self.targets(block)
        return Targets.from_columns(labels, groups, self.n_labels, len(self.groups)).classes

    def write(self, records: Records, start: int, block: Block) -> None:
        """Write the records of a block from row ``start`` on."""
        codes = self.codes(block)
        coordinates = None if self.coordinates is None else self.coordinates.of(codes)
        records.write(start, codes, self.classes(block), coordinates)

    def targets(self, block: Block) -> list[NDArray[np.int64]]:
        """Code each label column of a block, and finally the groups."""
        labels = [_places([field], values) for field, (_, values) in zip(block.labels, self.labels, strict=True)]
        return [*labels, _places(block.groups, self.groups)]


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
