"""Count the records of one file, of any kind and size, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from certifare.certificates.counts import name_of
from certifare.encoders.base import RestrictedEncoder
from certifare.engines.blocks import Block, Reading, Role
from certifare.engines.counting import Entry, Tally, count_over, one_label, reading_for
from certifare.engines.training import Share
from certifare.files import MISSING, TEXT, Batches, kind_of, open_batches
from certifare.records import open_records
from certifare.roles import Comparison, parse_role

T = TypeVar("T")


def count_file(
    encoder: RestrictedEncoder,
    path: str | os.PathLike[str],
    *,
    sensitive: Sequence[str],
    label: str | None = None,
    salt: bytes | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = MISSING,
    progress: Share | None = None,
) -> Tally:
    """Count a CSV, Parquet or Arrow file by cell, group and label.

    Parameters
    ----------
    encoder : RestrictedEncoder
    path : path
    sensitive : sequence of str
        Sensitive columns, or comparisons such as ``"age>=60"``.
    label : str, optional
    salt : bytes, optional
        For the checksum of the records, if one is wanted.
    delimiter, encoding, missing
        For CSV files, as in :func:`certifare.files.read_file`.
    progress : callable, optional
        Told which share of the file is done.
    """
    names = open_batches(path, {}, delimiter=delimiter, encoding=encoding).names
    groups = [_role(text, names, "sensitive") for text in sensitive]
    labels = [] if label is None else [_role(label, names, "label")]
    one_label(labels)
    types = {
        role.column: TEXT if role.comparison is None or not _is_number(role.comparison.value) else pa.float64()
        for role in (*groups, *labels)
    }
    batches = open_records(encoder, path, types, delimiter=delimiter, encoding=encoding, missing=missing)
    tally = count_over(encoder, FileWorker(batches), reading_for(encoder, labels, groups), salt=salt, progress=progress)
    return _typed(tally) if kind_of(path) == "csv" else tally


class FileWorker:
    """Works on the batches of a file, one after the other."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def reduce(
        self,
        work: Callable[..., T],
        merge: Callable[[Sequence[T]], T],
        each: Sequence[Any] | None = None,
        progress: Share | None = None,
    ) -> T:
        """Work on the file as one piece."""
        return work(FilePiece(self._batches, progress))


class FilePiece:
    """A whole file, read in batches."""

    def __init__(self, batches: Batches, progress: Share | None) -> None:
        self._batches = batches
        self._progress = progress

    def blocks(self, reading: Reading) -> Iterator[Block]:
        """Read one batch after the other."""
        for batch in self._batches:
            yield reading.read(pa.Table.from_batches([batch]))
            if self._progress is not None and self._batches.size:
                self._progress(self._batches.position / self._batches.size)


def _role(text: str, names: Sequence[str], role: str) -> Role:
    parsed = parse_role(text, names, role)
    return Role(parsed.column, str(parsed), parsed) if isinstance(parsed, Comparison) else Role(parsed, parsed)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _typed(tally: Tally) -> Tally:
    """Name values of text columns as if their type had been inferred from all of them, as ``read_table`` does."""
    n_groups = len(tally.entries[0].groups) if tally.entries else 0
    columns = [{entry.groups[i] for entry in tally.entries} for i in range(n_groups)]
    columns.append({entry.label for entry in tally.entries})
    names = [_names(values - {None}) for values in columns]
    entries = tuple(
        Entry(
            entry.cell,
            tuple(None if g is None else of_column[g] for g, of_column in zip(entry.groups, names, strict=False)),
            None if entry.label is None else names[-1][entry.label],
            entry.records,
        )
        for entry in tally.entries
    )
    return replace(tally, entries=entries)


def _names(values: set[Any]) -> dict[str, str]:
    if values and all(_is_number(value) for value in values):
        return {value: name_of(float(value)) for value in values}
    if values and all(value.lower() in ("true", "false") for value in values):
        return {value: value.capitalize() for value in values}
    return {value: value for value in values}
