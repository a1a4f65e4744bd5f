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
from certifare.certificates.counts import GROUP_MISSING, LABEL_MISSING, Exclusion, Missing
from certifare.engines.blocks import Block
from certifare.errors import ArgumentError, CountsError, GroupError, TableError
from certifare.foundation.levels import INTERSECTION, UNKNOWN, Levels, intersect, name_of, sort_key
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
    columns = [field.levels().filled(None) for field in (*block.groups, *block.labels)]
    joint = intersect([Levels("cell", cells.astype(np.int64), tuple(range(n_cells))), *columns])
    entries = []
    for (cell, *values), n in zip(joint.values, joint.counts().tolist(), strict=True):
        names = [None if value is None else name_of(value) for value in values]
        groups, labels = names[: len(block.groups)], names[len(block.groups) :]
        # Claims condition on the first of several labels.
        entries.append(Entry(cell, tuple(groups), next(iter(labels), None), n))
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
    """Turn entries into a table of counts.

    - ``entries``: equal ones are added up.
    - ``labelled``: whether the table has labels.
    - ``missing``: what to do with records without a group or label, as in ``CellCounts.from_cells``.
    - ``drop_unlabelled``: leave out and count records without a label, whatever ``missing`` is.

    Examples
    --------
    >>> from certifare.engines.entries import Entry, lay_out
    >>> entries = [Entry(0, ("f",), None, 3), Entry(1, ("m",), None, 2), Entry(0, ("f",), None, 1)]
    >>> lay_out(entries, 3, labelled=False).table.tolist()
    [[4, 0], [0, 2], [0, 0]]
    """
    if missing not in ("refuse", "unknown", "drop"):
        raise ArgumentError(f'missing={missing!r}: choose "refuse", "unknown" or "drop".')
    counted: Counter[tuple[int, str, str | None]] = Counter()
    parts_of: dict[str, tuple[str, ...]] = {}
    label_names: set[str] = set()
    without_group = without_label = total = 0
    for cell, values, label, records in entries:
        if not 0 <= cell < n_cells:
            raise CountsError(f"{records:,} records have the cell {cell}, which is not in 0 … {n_cells - 1}.")
        total += records
        parts = tuple(value for value in values if value is not None)
        if len(parts) < len(values):
            without_group += records
            if missing != "unknown":
                continue
            group = UNKNOWN
        else:
            group = INTERSECTION.join(parts)
            if parts_of.setdefault(group, parts) != parts:
                raise GroupError(f"Two groups would be called {group!r}: rename the values of one of the columns.")
        if labelled and label is None:
            without_label += records
            continue
        label_names |= {label} - {None}  # type: ignore[arg-type]
        counted[cell, group, label if labelled else None] += records
    if without_group and missing == "refuse":
        raise TableError(
            f"{without_group:,} of {total:,} records lack a group. "
            'Pass missing="unknown" to count them as a separate group, or missing="drop" to leave them out and '
            "record their number."
        )
    if without_label and missing != "drop" and not drop_unlabelled:
        raise TableError(
            f'{without_label:,} records lack a label. Remove them, or pass missing="drop" to leave them out and record '
            "their number."
        )
    unknown = {UNKNOWN} if without_group and missing == "unknown" else set()
    groups = sorted({*parts_of, *unknown}, key=sort_key)
    if not groups:
        raise GroupError("No record has a group, so there is nothing to count.")
    if labelled and not label_names:
        raise ArgumentError("No record has a label. Name another column, or give records with labels.")
    labels = sorted(label_names, key=sort_key)
    table = np.zeros((n_cells, len(groups), len(labels) if labelled else 1), dtype=np.int64)
    for (cell, group, label), records in counted.items():
        table[cell, groups.index(group), 0 if label is None else labels.index(label)] += records
    exclusions = [Exclusion(LABEL_MISSING, without_label)]
    if missing == "drop":
        exclusions.append(Exclusion(GROUP_MISSING, without_group))
    return CellCounts(table if labelled else table[:, :, 0], groups, labels if labelled else None, exclusions)


def name_entry(entry: Entry, reading: Reading) -> Entry:
    """Rename the group and the label of an entry by a reading: pool small groups, cut a numeric label into bands."""
    label, values = entry.label, entry.groups
    if reading.label_cuts and label is not None:
        number = _number(label, str(reading.label))
        # A database may hold NaN, which is not a label.
        bands = band_names(str(reading.label), reading.label_cuts)
        label = None if math.isnan(number) else bands[bisect_right(reading.label_cuts, number)]
    if reading.kept_groups is not None:
        lacking = None in values
        group = UNKNOWN if lacking else INTERSECTION.join(str(value) for value in values)
        pooled = group if group in reading.kept_groups else POOLED
        values = (None,) if lacking and not reading.unknown_groups else (pooled,)
    return Entry(entry.cell, values, label, entry.records)


def _number(value: str, column: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise TableError(f"Column {column!r} holds {value!r}. A label with cuts must hold numbers.") from None
