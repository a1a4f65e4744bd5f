"""``certifare count``: counts of a holder's records, to be added to those of others and certified together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from certifare.cli.common import (
    COLUMNS,
    Cluster,
    CountUnknownGroups,
    Json,
    Label,
    Population,
    RowKey,
    Sensitive,
    Sql,
    TableName,
    Weight,
    emit,
    encoder_file,
    listed,
    one_label,
    out,
    printable,
    progress,
    show_left_out,
    show_notes,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored
from certifare.words import amount


@with_options
def count(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Counts file to write.")],
    data: Annotated[Path | None, typer.Argument(help="Records: CSV, Parquet or Arrow, of any size.")] = None,
    sensitive: Sensitive = None,
    label: Label = None,
    weight: Weight = None,
    cluster: Cluster = None,
    population: Population = "clusters",
    max_weight: Annotated[
        float | None,
        typer.Option(
            help="Largest weight (or size of a cluster) in the population. Holders must agree on it.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    sql: Sql = None,
    table: TableName = None,
    row_key: RowKey = None,
    holder: Annotated[str | None, typer.Option(help="Who counts; written into the file.")] = None,
    unknown_groups: CountUnknownGroups = False,
    *,
    csv: CsvOptions,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the draw by --weight or --cluster; random, and written down, unless given.", min=0),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count records by cell, group and label, and write the counts to a file. No record leaves.

    Whoever has the counts files of several holders adds them up with: certifare certify counts/*.json
    """
    import secrets

    from certifare.cli.from_counts import Published
    from certifare.document import digest
    from certifare.document.counts_files import CountsFile, Drawn
    from certifare.engines.counting import Naming, check_overlap
    from certifare.engines.memory.batches import count_file
    from certifare.engines.sql.warehouse import connect, tally_sql
    from certifare.errors import ArgumentError, MissingGroupError
    from certifare.records import load_fitted

    if (data is None) == (sql is None):
        raise ArgumentError("Where are the records? Name a file, or a database with --sql and --table.")
    thinned = population == "records" if cluster is not None else weight is not None
    drawn = weight is not None or cluster is not None
    where = of_file(data) if data is not None else ("sql", "hashed") if drawn else ("sql",)
    refuse_ignored(context, *where, *(("thinned",) if thinned else ()))
    if sql is not None and table is None:
        raise ArgumentError("--sql needs --table: the name of the table to count.")
    named_label = one_label(label)
    file = encoder_file(encoder)
    known = Published.beside(file)
    if not sensitive and known is not None:
        sensitive = list(known.sensitive)
    if not sensitive:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    fitted = load_fitted(file)
    encoder_digest = digest(file)
    on_missing: Literal["unknown", "drop"] = "unknown" if unknown_groups else "drop"
    # Holders who leave the seed to chance draw independently of one another.
    own_seed = secrets.randbits(32) if seed is None else seed
    # Counts are held against the certificate: its groups are pooled, and its label is cut, as they were there.
    published = known is not None and known.sensitive == listed(sensitive)
    naming = known.naming(named_label) if known is not None and published else Naming()
    roles: dict[str, Any] = {"sensitive": listed(sensitive), "label": named_label, "seed": own_seed, "naming": naming}
    draw: dict[str, Any] = {"weight": weight, "cluster": cluster, "population": population, "max_weight": max_weight}
    checksum, looked_up = None, False
    notes: tuple[str, ...] = ()
    if data is None:
        with connect(str(sql)) as warehouse:
            tally = tally_sql(fitted, warehouse, str(table), **roles, **draw, key=listed(row_key), missing=on_missing)
    else:
        with progress("counting", 1.0, quiet=as_json) as advance:
            tally = count_file(
                fitted,
                data,
                **roles,
                **draw,
                missing_groups=on_missing,
                salt=bytes.fromhex(encoder_digest)[:16],
                **csv.reading(),
                progress=advance,
            )
        if fitted.fingerprint_ is not None:
            check_overlap(tally.overlap(fitted.fingerprint_))
            looked_up = True
        if cluster is None:
            notes = tally.repeats.check()
        checksum = tally.checksum
    counts = tally.table(fitted.n_cells_, labelled=named_label is not None, missing=on_missing)
    how = None
    if tally.drawn is not None:
        how = Drawn(
            **draw, seed=own_seed, effective_size=tally.drawn.effective_size, assumptions=tally.drawn.assumptions
        )
    made = CountsFile.make(
        counts,
        encoder_digest,
        sensitive=listed(sensitive),
        label=named_label,
        drawn=how,
        checksum=checksum,
        looked_up=looked_up,
        holder=holder,
    )
    made.save(output)
    document = {"id": made.id, "records": counts.n_records, "groups": counts.group_sizes, "output": str(output)}
    document["notes"] = list(notes)

    def show() -> None:
        sizes = ", ".join(f"{printable(group)}: {n:,}" for group, n in counts.group_sizes.items())
        out.print(f"{amount(counts.n_records, 'record')} in {amount(counts.n_cells, 'cell')} ({sizes}) → {output}")
        show_left_out(counts.exclusions)
        show_notes(notes)

    emit(document, as_json, show)
