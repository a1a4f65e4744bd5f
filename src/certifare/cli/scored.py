"""``certifare fit --scores``: the score of every record of the table that was fitted, beside the bundle."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.common import READING
from certifare.cli.writer import open_writer

if TYPE_CHECKING:
    from certifare.encoders import RestrictedEncoder

ScoresFile = Annotated[
    Path | None,
    typer.Option(
        "--scores",
        help="Also write the score of each record to this file: .csv or .parquet.",
        rich_help_panel=READING,
    ),
]


def check_scores(path: Path | None) -> None:
    """Refuse a file that scores could not be written to, before any work is done."""
    from certifare.errors import ArgumentError
    from certifare.foundation.storage import check_file, check_writable

    if path is None:
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ArgumentError(f"--scores {path}: name a file that ends in .csv or .parquet.")
    check_file(path)
    check_writable(path.parent)


def write_scores(encoder: RestrictedEncoder, data: Path, output: Path, reading: dict[str, Any]) -> None:
    """Write the scores of all records of a file, batch by batch."""
    import pyarrow as pa

    from certifare.encoders.records import GroupColumns, open_records
    from certifare.foundation.storage import atomic_file
    from certifare.tables.files import open_batches

    fitted = copy(encoder).set_params(output="score")
    groups = None
    if fitted.reads_groups:
        groups = GroupColumns.of(fitted, open_batches(data, {}, **reading).names)
        fitted.set_params(sensitive=None)
    batches = open_records(fitted, data, {} if groups is None else groups.types, **reading)
    with atomic_file(output) as temporary, open_writer(temporary, output.suffix.lower(), False) as write:
        for batch in batches:
            table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
            write(fitted.transform(table, **({} if groups is None else {"sensitive_features": groups.read(table)})))
