"""Read a table from one file, or stack several files with the same columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from certifare.errors import ArgumentError, TableError
from certifare.foundation.storage import FilePath
from certifare.tables.files import TEXT, read_file
from certifare.tables.frames import is_text


def read_files(
    paths: FilePath | Sequence[FilePath], types: Mapping[str, pa.DataType] | None = None, **reading: Any
) -> tuple[pa.Table, tuple[str, ...]]:
    """Read a table from one file, or from several files with the same columns.

    - ``types``, ``**reading``: as in :func:`certifare.tables.files.read_file`.
    - returns ``table``: if there are several files: the columns that all of them have.
    """
    if isinstance(paths, str | os.PathLike):
        return read_file(paths, types=types, **reading)
    files = [Path(path) for path in paths]
    twice = [path for i, path in enumerate(files) if path.resolve() in [other.resolve() for other in files[:i]]]
    if twice:
        raise ArgumentError(f"{str(twice[0])!r} is listed twice, so its records would count twice. List it once.")
    found = [read_file(path, types=types, **reading) for path in paths]
    tables = [table for table, _ in found]
    notes = [f"{path.name}: {note}" for path, (_, own) in zip(files, found, strict=True) for note in own]
    names = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
    others = sorted({name for table in tables for name in table.column_names} - set(names))
    if others:
        notes.append(f"left out {', '.join(map(repr, others[:5]))}: not all files have these columns")
    columns = {name: _stacked(name, files, [table.column(name) for table in tables]) for name in names}
    return pa.table(columns), tuple(notes)


def _stacked(name: str, files: Sequence[Path], columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Stack the columns of several files; columns of text may have different text types."""
    if len({column.type for column in columns}) > 1 and all(_holds_text(column.type) for column in columns):
        columns = [column.cast(pa.string()).cast(TEXT) for column in columns]
    try:
        stacked = pa.concat_tables([pa.table({name: column}) for column in columns], promote_options="permissive")
    except pa.ArrowException as error:
        held = ", ".join(f"{column.type} in {path.name}" for path, column in zip(files, columns, strict=True))
        raise TableError(f"Column {name!r} holds {held}. Store it with the same type in all files.") from error
    return stacked.column(name)


def _holds_text(type_: pa.DataType) -> bool:
    return is_text(type_.value_type if pa.types.is_dictionary(type_) else type_)
