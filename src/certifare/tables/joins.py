"""Read a table from several files: files of records with the same columns, or a separate file with the groups."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from certifare.errors import ArgumentError, MissingColumnError, RoleError, TableError
from certifare.foundation.formatting import amount
from certifare.foundation.storage import FilePath
from certifare.tables.files import MISSING, TEXT, read_file
from certifare.tables.frames import is_text
from certifare.tables.roles import Roles, absent, column_of, parse_role


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


def join_groups(
    native: pa.Table, roles: Roles, path: FilePath | None, key: str | None, missing: Sequence[str] = MISSING
) -> tuple[pa.Table, Roles, tuple[str, ...]]:
    """Add the sensitive columns that a second file has, joined by a key column; without a file, change nothing.

    The key is the only column that both files have, unless it is named. Its values are unique in the second file, and
    it is no feature. Records whose key is not there have no group.
    """
    if path is None:
        if key is not None:
            raise ArgumentError(f"on={key!r} needs a second file to join (sensitive_file).")
        return native, roles, ()
    name = Path(path).name
    groups, notes = read_file(path, missing=missing)
    if key is None:
        shared = [column for column in groups.column_names if column in native.column_names]
        if len(shared) != 1:
            common = f"have {', '.join(map(repr, shared))}" if shared else "have no column"
            raise ArgumentError(
                f"The records and {name!r} {common} in common: the key that joins them must be the only such column. "
                "Rename columns, or name the key in Python (on=)."
            )
        (key,) = shared
    for table, where in ((native, "on, in the records"), (groups, f"on, in {name}")):
        if key not in table.column_names:
            raise absent(key, table.column_names, where)
    wanted = _wanted(native.column_names, groups.column_names, roles.sensitive, name)
    found, keys = [*notes], _as_text(groups.column(key))
    if keys.null_count:
        found.append(f"left out {amount(keys.null_count, 'row')} of {name} without a key")
        keys, groups = keys.drop_null(), groups.filter(keys.is_valid())
    counted = pc.value_counts(keys)
    twice = counted.filter(pc.greater(counted.field("counts"), 1))
    if len(twice):
        raise TableError(
            f"The key {key!r} repeats in {name!r} ({amount(len(twice), 'value')}, such as {twice[0]['values']}). "
            "Keep one row for each key: a record has one group."
        )
    own = _as_text(native.column(key))
    place = pc.index_in(own, value_set=keys)
    if place.null_count == len(place):
        raise TableError(f"No key {key!r} of the records occurs in {name!r}. Check that it is the same key.")
    if place.null_count:
        found.append(
            f"{place.null_count:,} of {len(place):,} records have no group: their key is missing, or is not in {name}"
        )
    repeated = len(own) - own.null_count - len(pc.unique(own.drop_null()))
    if repeated and roles.cluster is None:
        found.append(
            f"{amount(repeated, 'record')} share the key {key!r} with another record: if such records are dependent, "
            f"pass --cluster {key}"
        )
    for column in wanted:
        native = native.append_column(column, groups.column(column).take(place))
    if key not in {text for texts in roles.named().values() for text in texts}:
        roles = replace(roles, drop=(*roles.drop, key))
    return native, roles, tuple(found)


def _wanted(names: Sequence[str], others: Sequence[str], sensitive: Sequence[str], file: str) -> list[str]:
    """Return the columns to take from the second file."""
    wanted = []
    for text in sensitive:
        try:
            role = parse_role(text, others, "sensitive")
        except MissingColumnError:
            parse_role(text, list(dict.fromkeys([*names, *others])), "sensitive")
            continue
        column = column_of(role)
        if column in names:
            raise RoleError(f"Both the records and {file!r} have a column {column!r}. Rename one of them.")
        wanted.append(column)
    if not wanted:
        raise ArgumentError(f"{file!r} has none of the sensitive columns. Leave it out, or name one of its columns.")
    return list(dict.fromkeys(wanted))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert keys to text, so that 7, 7.0 and "7" are the same key."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
        if pc.all(pc.equal(pc.floor(column), column), min_count=0).as_py():
            column = column.cast(pa.int64())
    return column.cast(pa.string())
