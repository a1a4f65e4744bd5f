"""``certifare count``: counts of a holder's records, to be added to those of others and certified together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from certifare.cli.common import (
    COLUMNS,
    Cap,
    Cluster,
    CountUnknownGroups,
    Json,
    Label,
    OwnPopulation,
    Seed,
    Sensitive,
    Sql,
    TableName,
    Weight,
    emit,
    listed,
    out,
    printable,
    progress,
    show_left_out,
    show_notes,
    single_label,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.sources import Certified, checksum_salt, count_database, read_as, read_source
from certifare.cli.support import draw_conditions, of_file, refuse_ignored
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certifare.certificates import CellCounts
    from certifare.tables.files import DataFile


@with_options
def count(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Counts file to write.")],
    data: Annotated[Path | None, typer.Argument(help="Records: CSV, Parquet or Arrow, of any size.")] = None,
    sensitive: Sensitive = None,
    label: Label = None,
    weight: Weight = None,
    cap: Cap = None,
    cluster: Cluster = None,
    population: OwnPopulation = None,
    max_weight: Annotated[
        float | None,
        typer.Option(
            help="Largest weight (or size of a cluster) in the population. Holders must agree on it.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    sql: Sql = None,
    table: TableName = None,
    holder: Annotated[str | None, typer.Option(help="Who counts; written into the file.")] = None,
    unknown_groups: CountUnknownGroups = False,
    *,
    csv: CsvOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Count records by cell, group and label, and write the counts to a file. No record leaves.

    Whoever has the counts files of several holders adds them up with: certifare certify counts/*.json
    """
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.document.counts_files import CountsFile
    from certifare.encoders.records import load_fitted
    from certifare.engines.counting import CountRequest
    from certifare.tables.files import DataFile

    known = Certified.load(encoder)
    records = None if data is None else DataFile(data)
    drawn = {"weight": weight or known.reading.weight, "cluster": cluster or known.reading.cluster}
    _check_source(context, records, sql, table, **drawn, population=population or known.reading.population)
    certified_label = known.document is not None and known.document.certificate.claim.labelled
    named_label = single_label(label) or (known.reading.label if certified_label else None)
    reading = read_as(
        known.reading if named_label is not None else known.reading.unlabelled(),
        sensitive=listed(sensitive),
        label=named_label,
        unknown_groups=unknown_groups,
        weight=weight,
        cap=cap,
        cluster=cluster,
        population=population,
        max_weight=max_weight,
    )
    encoder_digest = digest(known.encoder)
    with progress("counting", 1.0, quiet=as_json) as advance:
        request = CountRequest(
            labelled=reading.label is not None, seed=seed, salt=checksum_salt(encoder_digest), progress=advance
        )
        fitted = load_fitted(known.encoder)
        if records is None:
            counted = count_database(fitted, str(sql), str(table), reading, request)
        else:
            source, _ = read_source(fitted, [records], reading, labelled=reading.label is not None, **csv.reading())
            counted = count_records(fitted, source, reading, request)
    if counted.positive is not None:
        reading = msgspec.structs.replace(reading, positive=counted.positive)
    made = CountsFile.make(counted, encoder_digest, reading, holder=holder)
    made.save(output)
    counts = counted.counts
    document = {"id": made.id, "records": counts.n_records, "groups": counts.group_sizes, "output": str(output)}
    document["notes"] = list(counted.notes)
    emit(document, as_json, lambda: _show(counts, counted.notes, output))


def _check_source(
    context: typer.Context,
    data: DataFile | None,
    sql: str | None,
    table: str | None,
    *,
    weight: str | None,
    cluster: str | None,
    population: str | None,
) -> None:
    """Refuse records in two places or in none, and options that would do nothing where they are."""
    from certifare.errors import ArgumentError

    if (data is None) == (sql is None):
        raise ArgumentError("Where are the records? Name a file, or a database with --sql and --table.")
    where = of_file(data) if data is not None else ("sql",)
    refuse_ignored(context, *where, *draw_conditions(weight, cluster, population))
    if sql is not None and table is None:
        raise ArgumentError("--sql needs --table: the name of the table to count.")


def _show(counts: CellCounts, notes: Sequence[str], output: Path) -> None:
    sizes = ", ".join(f"{printable(group)}: {n:,}" for group, n in counts.group_sizes.items())
    out.print(f"{amount(counts.n_records, 'record')} in {amount(counts.n_cells, 'cell')} ({sizes}) → {output}")
    show_left_out(counts.exclusions)
    show_notes(notes)
