"""``certifare encode``: a table goes in, its representation comes out, in constant memory."""

from __future__ import annotations

import time
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import listed
from certifare.cli.honoured import of_records, refuse_ignored
from certifare.cli.options import CsvFormat, EncoderPath, Json, Replace, declare, with_options
from certifare.cli.progress_bars import progress
from certifare.cli.sources import Certified
from certifare.cli.terminal import emit, err, out
from certifare.cli.writer import open_writer
from certifare.errors import ArgumentError, FileError
from certifare.foundation.formatting import amount
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from certifare.encoders import RestrictedEncoder
    from certifare.encoders.records import GroupColumns


FORMS = ("representatives", "cells", "onehot", "score")


@with_options
def encode(
    context: typer.Context,
    encoder: EncoderPath,
    data: Annotated[Path, typer.Argument(help="Table to encode: CSV, Parquet or Arrow, of any size.")],
    output: Annotated[Path, typer.Argument(help="File to write: .csv or .parquet.")],
    form: Annotated[
        str,
        declare(
            None,
            "What stands for a record: cell and typical values, cell, indicators of cells, or scores.",
            "--as",
            choices=FORMS,
        ),
    ] = "representatives",
    keep: Annotated[
        list[str] | None,
        declare(
            None,
            "Copy this column as it is (the label, say). Patterns and commas, or repeat for several.",
            metavar="COLUMN",
        ),
    ] = None,
    replace: Replace = False,
    spreadsheet_safe: Annotated[
        bool,
        declare(
            None,
            "Put ' before text that a spreadsheet would run as a formula. For .csv.",
            "--spreadsheet-safe",
            rare=True,
            needs="as_csv",
        ),
    ] = False,
    *,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Encode a table, record by record, with a published encoder.

    Each record becomes its cell: the column cell has its number, and columns typical_… the typical values of the
    training records in that cell, which are not the person's own. The table is read and written in batches, so its size
    does not matter. Columns copied with --keep are not covered by the certificate: a classifier that sees them sees
    more than the cell.

    An encoder that was fitted with --group-aware needs the sensitive column. It is read, and left out of the output
    unless --keep names it.
    """
    from certifare.encoders import load_encoder
    from certifare.encoders.records import csv_format
    from certifare.tables.stores import store_address, store_file

    address = store_address(output)
    known = Certified.load(encoder)
    fitted = load_encoder(known.encoder)
    ending = output.suffix.lower()
    refuse_ignored(context, *of_records(data, stated=known.stated), *(["as_csv"] if ending == ".csv" else []))
    _check(form, output, replace)
    reading = csv_format(known.reading, csv.reading())
    kept = _kept_columns(listed(keep), data, reading)
    groups = known.group_columns(fitted, data, reading)
    fitted.set_params(output="cells" if form == "representatives" else form)
    begun = time.perf_counter()
    with (
        progress("encoding", 1.0, quiet=as_json) as advance,
        atomic_file(output) if address is None else store_file(address) as temporary,
        open_writer(temporary, ending, spreadsheet_safe) as write,
    ):
        records = 0
        typical = form == "representatives"
        for encoded, position in _encode(fitted, data, kept, groups, reading, ending, typical):
            write(encoded)
            records += encoded.num_rows
            advance(position)
    seconds = time.perf_counter() - begun
    document = {
        "records": records,
        "cells": fitted.n_cells_,
        "output": address or str(output),
        "seconds": round(seconds, 3),
    }
    emit(document, as_json, lambda: _show(document, groups, kept, seconds))


def _check(form: str, output: Path, replace: bool) -> None:
    """Refuse an output that cannot be written, or exists."""
    if form not in FORMS:
        raise ArgumentError(f"--as {form}: choose representatives, cells, onehot or score.")
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"Cannot write {str(output)!r}: name a file that ends in .csv or .parquet.")
    from certifare.tables.files import DataFile

    file = DataFile(output)
    if file.exists() and not replace:
        raise FileError(f"{str(file)!r} exists already: name another file, or replace it (--replace).")


def _encode(
    fitted: RestrictedEncoder,
    data: Path,
    kept: Sequence[str],
    groups: GroupColumns | None,
    reading: dict[str, Any],
    ending: str,
    typical: bool,
) -> Iterator[tuple[pa.Table, float]]:
    """Encode a table batch by batch; also give the share of it that was read."""
    import pyarrow as pa

    from certifare.encoders.records import open_records, typical_rows, with_typical
    from certifare.tables.files import kind_of, open_batches, text_types

    group_types = groups.types if groups else {}
    batches = open_records(fitted, data, {**dict.fromkeys(kept), **group_types}, **reading)
    from_text = bool(kept) and kind_of(data) == "csv"
    # Text has no types; a Parquet file that is made of it gets those that its values have.
    types = text_types(data, kept, **reading) if from_text and ending == ".parquet" else {}
    # What the encoder reads has its types: 007 would be 7. As it is written, it is read once more.
    read = {*group_types, *(column.name for column in fitted.columns_)}
    again = {name: None for name in kept if from_text and name in read}
    written = open_batches(data, again, **reading) if again else repeat(None)
    first, rows = 0, None
    for batch, texts in zip(batches, written, strict=False):
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        encoded = fitted.transform_from(first, table, None if groups is None else groups.read(table))
        first += len(table)
        if typical:
            rows = typical_rows(fitted, table) if rows is None else rows
            encoded = with_typical(encoded, rows)
        own = {name: (texts if name in again else table).column(name) for name in kept}
        yield _with_kept(encoded, own, types, reading["missing"]), batches.position / (batches.size or 1)


def _kept_columns(keep: Sequence[str], data: Path, reading: dict[str, Any]) -> tuple[str, ...]:
    """Find the columns to copy, each once, in the order in which they were named."""
    from certifare.tables.files import open_batches
    from certifare.tables.roles import select

    names = open_batches(data, {}, **reading).names if keep else ()
    return tuple(dict.fromkeys(name for text in keep for name in select([text], names, "columns to keep")))


def _with_kept(encoded: pa.Table, kept: Mapping[str, Any], types: Mapping[str, pa.DataType], missing: Any) -> pa.Table:
    """Add the columns that are copied, as they were written; one that is encoded as well gets another name."""
    from certifare.tables.files import as_written

    for column, own in kept.items():
        name = column
        while name in encoded.column_names:
            name += "_kept"
        encoded = encoded.append_column(name, as_written(own, types[column], missing) if types else own)
    return encoded


def _show(document: dict[str, Any], groups: GroupColumns | None, kept: Sequence[str], seconds: float) -> None:
    """Print how much was encoded where, and what of it is not covered by the certificate."""
    records = document["records"]
    out.print(
        f"{amount(records, 'record')} in {amount(document['cells'], 'cell')} → {document['output']}", soft_wrap=True
    )
    err.print(f"{seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} records a second")
    if groups is not None:
        read = ", ".join(map(str, groups.roles))
        err.print(f"the group was read ({read}){'' if set(kept) & set(groups.types) else ' and left out'}")
    if kept:
        err.print(f"kept as they are, outside of the certificate: {', '.join(kept)}")
