"""Entries: how many records have a cell, a group and a label. They are counted in pieces, added up and laid out."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts
from certifare.certificates.counts import Missing, PlacedRecords
from certifare.engines.blocks import Block
from certifare.errors import TableError
from certifare.foundation.levels import INTERSECTION, UNKNOWN, Levels, intersect, name_of
from certifare.tables.reading import POOLED, Reading
from certifare.tables.table import band_names


class Entry(NamedTuple):
    """The number of records with this cell, these values of the sensitive columns and this label; None is missing."""

    cell: int
    groups: tuple[str | None, ...]
    label: str | None
    records: int


def entries_of(block: Block, cells: NDArray[Any], n_cells: int) -> list[Entry]:
    """Count the records of a block by cell, group and first label."""
    # Claims condition on the first of several labels.
    columns = [field.levels().filled(None) for field in (*block.groups, *block.labels[:1])]
    joint = intersect([Levels("cell", cells.astype(np.int64), tuple(range(n_cells))), *columns])
    entries = []
    for (cell, *values), n in zip(joint.values, joint.counts().tolist(), strict=True):
        names = [None if value is None else name_of(value) for value in values]
        label = names.pop() if block.labels else None
        entries.append(Entry(cell, tuple(names), label, n))
    return entries


def add_entries(parts: Iterable[Iterable[Entry]]) -> tuple[Entry, ...]:
    """Add up the entries of parts of a table."""
    counted: Counter[tuple[int, tuple[str | None, ...], str | None]] = Counter()
    for entries in parts:
        for cell, groups, label, records in entries:
            counted[cell, groups, label] += records
    return tuple(Entry(*key, records) for key, records in counted.items())


def lay_out(
    entries: Iterable[Entry],
    n_cells: int,
    *,
    labelled: bool,
    missing: Missing = "refuse",
    drop_unlabelled: bool = False,
) -> CellCounts:
    """Turn entries, of which equal ones are added up, into a table of counts.

    - ``missing``: what to do with records without a group or label, as in ``CellCounts.from_cells``.
    - ``drop_unlabelled``: leave out and count records without a label, whatever ``missing`` is.

    >>> entries = [Entry(0, ("f",), None, 3), Entry(1, ("m",), None, 2), Entry(0, ("f",), None, 1)]
    >>> lay_out(entries, 3, labelled=False).table.tolist()
    [[4, 0], [0, 2], [0, 0]]
    """
    found = add_entries([entries])
    return PlacedRecords.of(
        np.array([entry.cell for entry in found], dtype=np.int64),
        dict(enumerate(zip(*(entry.groups for entry in found), strict=True))),
        [entry.label for entry in found] if labelled else None,
        n_cells,
        missing=missing,
        drop_unlabelled=drop_unlabelled,
        times=np.array([entry.records for entry in found], dtype=np.int64),
    ).count()


def name_entry(entry: Entry, reading: Reading) -> Entry:
    """Rename the group and the label of an entry by a reading: pool small groups, cut a numeric label into bands."""
    label, values = entry.label, entry.groups
    if reading.label_cuts and label is not None:
        try:
            number = float(label)
        except ValueError:
            raise TableError(
                f"Column {reading.label!r} holds {label!r}. A label with cuts must hold numbers."
            ) from None
        # A database may hold NaN, which is not a label.
        bands = band_names(str(reading.label), reading.label_cuts)
        label = None if math.isnan(number) else bands[bisect_right(reading.label_cuts, number)]
    if reading.kept_groups is not None:
        lacking = None in values
        group = UNKNOWN if lacking else INTERSECTION.join(str(value) for value in values)
        pooled = group if group in reading.kept_groups else POOLED
        values = (None,) if lacking and not reading.unknown_groups else (pooled,)
    return Entry(entry.cell, values, label, entry.records)
