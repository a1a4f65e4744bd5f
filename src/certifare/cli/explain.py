"""``certifare explain``: why one record is in its cell, and what would lead to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.csv_options import CsvFormat
from certifare.cli.honoured import of_records, refuse_ignored
from certifare.cli.option_classes import with_options
from certifare.cli.options import Json
from certifare.cli.sources import Certified
from certifare.cli.terminal import emit, out
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa


@with_options
def explain(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
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
    from certifare.encoders.records import GroupColumns, csv_format
    from certifare.tables.files import open_batches

    known = Certified.load(encoder)
    refuse_ignored(context, *of_records(data, stated=known.stated))
    fitted = load_encoder(known.encoder)
    reading = csv_format(known.reading, csv.reading())
    groups = None
    if fitted.reads_groups:
        groups = GroupColumns.of(fitted, open_batches(data, {}, **reading).names, known.reading.sensitive)
        fitted.set_params(sensitive=None)
    number, record = _find(fitted, data, _Wanted.of(wanted), reading, {} if groups is None else groups.types)
    explanation = fitted.explain(record, **({} if groups is None else {"sensitive_features": groups.read(record)}))
    document = {"record": number, **explanation.to_dict()}
    emit(document, as_json, lambda: out.print(f"record {number:,}, {explanation}", soft_wrap=True))


@dataclass(frozen=True)
class _Wanted:
    """Which record is asked for: by its number, or by a column and its value."""

    text: str
    number: int | None
    column: str
    value: str

    @classmethod
    def of(cls, text: str) -> _Wanted:
        """Read the argument."""
        column, equals, value = text.partition("=")
        if equals and column:
            return cls(text, None, column, value)
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise ArgumentError(f"Which record is {text!r}? Give its number, from 1, or a column and a value: id=4711.")
        return cls(text, int(text), "", "")

    def places(self, table: pa.Table, before: int) -> list[int]:
        """Find it in a part of the table, which comes after other records."""
        if self.number is None:
            return _matches(table.column(self.column), self.value)
        place = self.number - 1 - before
        return [place] if 0 <= place < table.num_rows else []


def _find(
    encoder: Any, path: Path, wanted: _Wanted, reading: dict[str, Any], besides: dict[str, Any]
) -> tuple[int, pa.Table]:
    """Read the file until the record is found; by a value to the end, so that there is one only."""
    import pyarrow as pa

    from certifare.encoders.records import open_records
    from certifare.tables.roles import absent

    column = wanted.column
    batches = open_records(encoder, path, {**({column: None} if column else {}), **besides}, **reading)
    if column and column not in batches.names:
        raise absent(column, batches.names, "column that identifies a record")
    found: list[tuple[int, pa.Table]] = []
    before = 0
    for batch in batches:
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        found += [(before + i + 1, table.slice(i, 1)) for i in wanted.places(table, before)]
        before += table.num_rows
        if wanted.number is not None and found:
            break
    if len(found) == 1:
        return found[0]
    if wanted.number is not None:
        raise ArgumentError(f"There is no record {wanted.number:,}: the table has {before:,} records.")
    count = f"{len(found):,} records have" if found else "no record has"
    raise ArgumentError(
        f"{wanted.text}: {count} this value in column {column!r}. Name a column that identifies one record."
    )


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
