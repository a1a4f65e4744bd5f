"""``certifare explain``: why one record is in its cell, and what would lead to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.honoured import of_records, refuse_ignored
from certifare.cli.options import CsvFormat, EncoderPath, Json, with_options
from certifare.cli.sources import Certified
from certifare.cli.terminal import emit, out
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa


@with_options
def explain(
    context: typer.Context,
    encoder: EncoderPath,
    data: Annotated[Path, typer.Argument(help="Table that holds the record: CSV, Parquet or Arrow, of any size.")],
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="Number of the record, from 1; or the only value that it has in a column: id=4711."
        ),
    ],
    *,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Explain why a record is in its cell.

    Shows the cell with its rules and shares, the columns that decided, and for each column the smallest change that
    leads to another cell.
    """
    from certifare.encoders import load_encoder
    from certifare.encoders.records import csv_format

    known = Certified.load(encoder)
    refuse_ignored(context, *of_records(data, stated=known.stated))
    fitted = load_encoder(known.encoder)
    reading = csv_format(known.reading, csv.reading())
    groups = known.group_columns(fitted, data, reading)
    number, record = _find(fitted, data, wanted, reading, {} if groups is None else groups.types)
    of_group = {} if groups is None else {"sensitive_features": groups.read(record)}
    explanation = fitted.explain(record, row=number - 1, **of_group)
    document = {"record": number, **explanation.to_dict()}
    emit(document, as_json, lambda: out.print(f"record {number:,}, {explanation}", soft_wrap=True))


def _number_or_value(text: str) -> tuple[int | None, str, str]:
    """Read which record is asked for: its number, or else a column and its value there."""
    column, equals, value = text.partition("=")
    if equals and column:
        return None, column, value
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ArgumentError(f"Which record is {text!r}? Give its number, from 1, or a column and a value: id=4711.")
    return int(text), "", ""


def _find(
    encoder: Any, path: Path, wanted: str, reading: dict[str, Any], groups: dict[str, Any]
) -> tuple[int, pa.Table]:
    """Read the file until the record is found; by a value to the end, so that there is one only."""
    import pyarrow as pa

    from certifare.encoders.records import open_records
    from certifare.tables.roles import absent

    number, column, value = _number_or_value(wanted)
    batches = open_records(encoder, path, {**({column: None} if column else {}), **groups}, **reading)
    if column and column not in batches.names:
        raise absent(column, batches.names, "column that identifies a record")
    found: list[tuple[int, pa.Table]] = []
    before = 0
    for batch in batches:
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        rows = _matches(table.column(column), value) if number is None else [number - 1 - before]
        found += [(before + i + 1, table.slice(i, 1)) for i in rows if i < table.num_rows]
        before += table.num_rows
        if number is not None and found:
            break
    if len(found) == 1:
        return found[0]
    if number is not None:
        raise ArgumentError(f"There is no record {number:,}: the table has {before:,} records.")
    count = f"{len(found):,} records have" if found else "no record has"
    raise ArgumentError(f"{wanted}: {count} this value in column {column!r}. Name a column that identifies one record.")


def _matches(column: Any, value: str) -> list[int]:
    """Find where a column holds a value, as it is written or as a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        wanted = pa.scalar(value).cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []
    return pc.indices_nonzero(pc.fill_null(pc.equal(column, wanted), False)).to_pylist()  # type: ignore[no-any-return]
