"""``certifare explain``: why one record is in its cell, and what would lead to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.common import (
    Json,
    emit,
    out,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.sources import Certified
from certifare.cli.support import of_file, refuse_ignored

if TYPE_CHECKING:
    import pyarrow as pa


@with_options
def explain(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    data: Annotated[Path, typer.Argument(help="Table that holds the record: CSV, Parquet or Arrow, of any size.")],
    row: Annotated[int | None, typer.Option(help="Number of the record, from 1.", min=1)] = None,
    identity: Annotated[
        str | None,
        typer.Option("--id", help="The record with this value of a column: id=4711.", metavar="COLUMN=VALUE"),
    ] = None,
    *,
    csv: CsvOptions,
    as_json: Json = False,
) -> None:
    """Explain why a record is in its cell.

    Shows the cell with its rules and shares, the columns that decided, and for each column the smallest change that
    leads to another cell.
    """
    from certifare.encoders import load_encoder
    from certifare.encoders.records import GroupColumns, csv_format
    from certifare.errors import ArgumentError
    from certifare.tables.files import open_batches

    refuse_ignored(context, *of_file(data))
    if (row is None) == (identity is None):
        raise ArgumentError("Which record? Give --row 17, or --id column=value.")
    known = Certified.load(encoder)
    fitted = load_encoder(known.encoder)
    reading = csv_format(known.reading, csv.reading())
    groups = None
    if fitted.reads_groups:
        groups = GroupColumns.of(fitted, open_batches(data, {}, **reading).names, known.reading.sensitive)
        fitted.set_params(sensitive=None)
    number, record = _find(fitted, data, row, identity, reading, {} if groups is None else groups.types)
    explanation = fitted.explain(record, **({} if groups is None else {"sensitive_features": groups.read(record)}))
    document = {"record": number, **explanation.to_dict()}
    emit(document, as_json, lambda: out.print(f"record {number:,}, {explanation}", soft_wrap=True))


def _find(
    encoder: Any, path: Path, row: int | None, identity: str | None, reading: dict[str, Any], besides: dict[str, Any]
) -> tuple[int, pa.Table]:
    """Read the file until the record is found; with --id to the end, so that there is one only."""
    import pyarrow as pa

    from certifare.encoders.records import open_records
    from certifare.errors import ArgumentError
    from certifare.tables.roles import absent

    column, equals, value = (identity or "").partition("=")
    if identity is not None and not equals:
        raise ArgumentError(f"--id {identity}: name a column and its value, such as id=4711.")
    batches = open_records(encoder, path, {**({column: None} if column else {}), **besides}, **reading)
    if column and column not in batches.names:
        raise absent(column, batches.names, "column that identifies a record")
    found: list[tuple[int, pa.Table]] = []
    before = 0
    for batch in batches:
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        places = [row - 1 - before] if row is not None else _matches(table.column(column), value)
        found += [(before + i + 1, table.slice(i, 1)) for i in places if 0 <= i < table.num_rows]
        before += table.num_rows
        if row is not None and found:
            break
    if len(found) == 1:
        return found[0]
    if row is not None:
        raise ArgumentError(f"--row {row}: the table has {before:,} records.")
    count = f"{len(found):,} records have" if found else "no record has"
    raise ArgumentError(f"--id {identity}: {count} this value in column {column!r}. Name a column that identifies one.")


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
