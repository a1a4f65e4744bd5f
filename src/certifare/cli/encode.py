"""``certifare encode``: a table goes in, its representation comes out, in constant memory."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.common import (
    Json,
    emit,
    encoder_file,
    err,
    listed,
    out,
    progress,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored
from certifare.cli.writing import open_writer
from certifare.words import amount

if TYPE_CHECKING:
    import pyarrow as pa


@with_options
def encode(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    data: Annotated[Path, typer.Argument(help="Table to encode: CSV, Parquet or Arrow, of any size.")],
    output: Annotated[Path, typer.Argument(help="File to write: .csv or .parquet.")],
    form: Annotated[
        str, typer.Option("--as", help="What stands for a record: representatives, cells, onehot or score.")
    ] = "representatives",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Copy this column as it is (the label, say). Patterns and commas, or repeat for several."),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            help="For an encoder that reads the group: where it is, if the column is not called as it was in fit. "
            "Repeat for several."
        ),
    ] = None,
    unknown_groups: Annotated[
        bool,
        typer.Option(
            "--unknown-groups",
            help="For an encoder that reads the group: encode records of other groups, or of none, by the thresholds "
            "that the groups have in common.",
        ),
    ] = False,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Put ' before text that a spreadsheet would run as a formula. For .csv.",
        ),
    ] = False,
    *,
    csv: CsvOptions,
    as_json: Json = False,
) -> None:
    """Encode a table, record by record, with a published encoder.

    The table is read and written in batches, so its size does not matter. Columns copied with --keep are not covered
    by the certificate: a classifier that sees them sees more than the cell.

    An encoder that was fitted with --group-aware needs the sensitive column. It is read, and left out of the output
    unless --keep names it.
    """
    import pyarrow as pa

    from certifare.encoders import load_encoder
    from certifare.errors import ArgumentError, UnknownGroupError
    from certifare.files import as_written, kind_of, open_batches, text_types
    from certifare.levels import name_of
    from certifare.records import GroupColumns, open_records
    from certifare.roles import select
    from certifare.storage import atomic_file

    fitted = load_encoder(encoder_file(encoder))
    as_csv = ["as_csv"] if output.suffix.lower() == ".csv" else []
    refuse_ignored(context, *of_file(data), *as_csv, *(["by_group"] if fitted.reads_groups else []))
    if form not in ("representatives", "cells", "onehot", "score"):
        raise ArgumentError(f"--as {form}: choose representatives, cells, onehot or score.")
    fitted.set_params(output=form)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"Cannot write {str(output)!r}: name a file that ends in .csv or .parquet.")
    reading = csv.reading()
    names = open_batches(data, {}, **reading).names if keep else ()
    kept = tuple(dict.fromkeys(name for text in listed(keep) for name in select([text], names, "columns to keep")))
    groups = None
    if fitted.reads_groups:
        groups = GroupColumns.of(fitted, open_batches(data, {}, **reading).names, listed(sensitive))
        # Whoever is of an unknown group is counted over the whole table, before it is refused.
        fitted.set_params(sensitive=None, unknown_groups="common")
    batches = open_records(fitted, data, {**dict.fromkeys(kept), **(groups.types if groups else {})}, **reading)
    # Text has no types; a Parquet file that is made of it gets those that its values have.
    typed = bool(kept) and kind_of(data) == "csv" and output.suffix.lower() == ".parquet"
    types = text_types(data, kept, **reading) if typed else {}
    begun, records, unknown = time.perf_counter(), 0, 0
    with (
        progress("encoding", batches.size or None, quiet=as_json) as advance,
        atomic_file(output) as temporary,
        open_writer(temporary, output.suffix.lower(), spreadsheet_safe) as write,
    ):
        for batch in batches:
            table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
            if groups is None:
                encoded = fitted.transform(table)
            else:
                of_table = groups.read(table)
                unknown += fitted.count_unknown_groups(of_table)
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", ".*records have a group that the encoder was not fitted with")
                    encoded = fitted.transform(table, sensitive_features=of_table)
            for column in kept:
                own = table.column(column)
                encoded = _with(encoded, column, as_written(own, types.get(column, own.type), reading["missing"]))
            write(encoded)
            records += table.num_rows
            advance(batches.position)
        if unknown and not unknown_groups:
            raise UnknownGroupError(
                f"{unknown:,} of {records:,} records have a group that the encoder was not fitted with, or none "
                f"({fitted.group_column_!r}); it knows {', '.join(map(name_of, fitted.groups_))}. Leave these records "
                "out, or pass --unknown-groups: they are then encoded by the thresholds that the groups have in common."
            )
    seconds = time.perf_counter() - begun
    document = {"records": records, "cells": fitted.n_cells_, "output": str(output), "seconds": round(seconds, 3)}
    if groups is not None:
        document["unknown_groups"] = unknown

    def show() -> None:
        out.print(f"{amount(records, 'record')} in {amount(fitted.n_cells_, 'cell')} → {output}", soft_wrap=True)
        err.print(f"{seconds:.1f} s, {records / max(seconds, 1e-9):,.0f} records a second")
        if groups is not None:
            read = ", ".join(map(str, groups.roles))
            err.print(f"the group was read ({read}){'' if set(kept) & set(groups.types) else ' and left out'}")
        if unknown:
            err.print(
                f"{unknown:,} records of unknown groups were encoded by the thresholds that groups have in common"
            )
        if kept:
            err.print(f"kept as they are, outside of the certificate: {', '.join(kept)}")

    emit(document, as_json, show)


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    """Return the table with a column more; one that is encoded as well gets another name."""
    while name in table.column_names:
        name += "_kept"
    return table.append_column(name, column)
