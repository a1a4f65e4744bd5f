"""``certifare certify --column``: what an existing model says of each record, as a representation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from certifare.errors import TableError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    from pathlib import Path

    from certifare.encoders import FairTreeEncoder
    from certifare.foundation.storage import FilePath
    from certifare.tables.reading import Reading
    from certifare.tables.table import Table


def column_of_database(place: tuple[str, str], column: str, cuts: Sequence[float] | None) -> FairTreeEncoder:
    """Make the encoder of a column of a table in a database, which is asked for its values and nothing else."""
    from certifare.encoders.existing import MOST_VALUES, encoder_of
    from certifare.encoders.sql import quoted, quoted_table, table_parts
    from certifare.engines.sql.warehouse import connect
    from certifare.tables.roles import absent

    address, table = place
    with connect(address) as warehouse:
        names = list(warehouse.columns(table_parts(table)))
        if column not in names:
            raise absent(column, names, "column to certify")
        wanted = quoted(column, warehouse.dialect)
        source = quoted_table(table_parts(table), warehouse.dialect)
        query = f"SELECT DISTINCT {wanted} FROM {source} WHERE {wanted} IS NOT NULL LIMIT {MOST_VALUES + 1}"  # noqa: S608
        values = [_plain(row[0]) for row in warehouse.query(query)]
    kinds = {bool: "boolean", int: "number", float: "number", str: "text"}
    types = {kinds.get(type(value)) for value in values}
    if len(types) != 1 or None in types:
        raise TableError(f"Column {column!r} holds no numbers, booleans or text that can be told apart.")
    return encoder_of(column, types.pop(), values, cuts)  # type: ignore[arg-type]


def column_of_files(
    paths: Sequence[FilePath],
    column: str,
    cuts: Sequence[float] | None,
    reading: Reading,
    *,
    sensitive_file: FilePath | None = None,
    labelled: bool,
    **csv: Any,
) -> tuple[FairTreeEncoder, Table]:
    """Read a file, or several, once: make the encoder of a column of it, and the table of its records."""
    from certifare.encoders.existing import encoder_of_arrow
    from certifare.encoders.records import csv_format, table_of_records
    from certifare.tables.joins import read_files
    from certifare.tables.roles import absent

    csv = csv_format(reading, csv)
    native, notes = read_files(paths if len(paths) > 1 else paths[0], **csv)
    if column not in native.column_names:
        raise absent(column, native.column_names, "column to certify")
    encoder = encoder_of_arrow(native.column(column), column, cuts)
    missing = csv["missing"]
    return encoder, table_of_records(
        encoder, native, reading, labelled=labelled, notes=notes, missing=missing, sensitive_file=sensitive_file
    )


def written_column(encoder: FairTreeEncoder, path: Path | None = None) -> str:
    """Write the encoder of a column, if that was asked for; return the digest of its file."""
    import msgspec

    from certifare.document import digest
    from certifare.encoders.format import format_json

    content = (format_json(msgspec.to_builtins(encoder.to_document())) + "\n").encode("utf-8")
    if path is not None:
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
    return digest(content)


def _plain(value: Any) -> Any:
    from decimal import Decimal

    from certifare.foundation.levels import plain

    return plain(float(value) if isinstance(value, Decimal) else value)
