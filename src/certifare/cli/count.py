"""``certifare count``: counts of a holder's records, to be added to those of others and certified together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from certifare.cli.common import (
    COLUMNS,
    Cluster,
    CountUnknownGroups,
    Json,
    Label,
    Population,
    Sensitive,
    Sql,
    TableName,
    Weight,
    emit,
    encoder_file,
    listed,
    out,
    printable,
    progress,
    show_left_out,
    show_notes,
    single_label,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored
from certifare.words import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certifare.certificates import CellCounts
    from certifare.encoders import RestrictedEncoder
    from certifare.engines.counting import Tally


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
    from certifare.document.counts_files import CountsFile, Drawn, Named
    from certifare.engines.counting import Naming
    from certifare.errors import MissingGroupError
    from certifare.records import load_fitted
    from certifare.table import POOLED

    _check_source(context, data, sql, table, weight=weight, cluster=cluster, population=population)
    named_label = single_label(label)
    file = encoder_file(encoder)
    known = Published.beside(file)
    groups = listed(sensitive) or (known.sensitive if known is not None else ())
    if not groups:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    fitted = load_fitted(file)
    encoder_digest = digest(file)
    missing: Literal["unknown", "drop"] = "unknown" if unknown_groups else "drop"
    # Holders who leave the seed to chance draw independently of one another.
    own_seed = secrets.randbits(32) if seed is None else seed
    # Counts are held against the certificate: its groups are pooled, and its label is cut, as they were there.
    naming = known.naming(named_label) if known is not None and known.sensitive == groups else Naming()
    roles: dict[str, Any] = {"sensitive": groups, "label": named_label, "naming": naming}
    draw: dict[str, Any] = {"weight": weight, "cluster": cluster, "population": population, "max_weight": max_weight}
    if data is None:
        counted = _in_database(fitted, str(sql), str(table), **roles, missing=missing)
    else:
        salt = bytes.fromhex(encoder_digest)[:16]
        reading = {"missing_groups": missing, "salt": salt, "seed": own_seed, **csv.reading()}
        counted = _in_file(fitted, data, **roles, **draw, **reading, quiet=as_json)
    counts = counted.tally.table(fitted.n_cells_, labelled=named_label is not None, missing=missing)
    how = counted.tally.drawn
    made = CountsFile.make(
        counts,
        encoder_digest,
        sensitive=groups,
        label=named_label,
        named=Named(
            unknown_groups=unknown_groups, groups=naming.groups if POOLED in naming.groups else (), cuts=naming.cuts
        ),
        drawn=None
        if how is None
        else Drawn(**draw, seed=own_seed, effective_size=how.effective_size, assumptions=how.assumptions),
        checksum=counted.checksum,
        looked_up=counted.looked_up,
        holder=holder,
    )
    made.save(output)
    document = {"id": made.id, "records": counts.n_records, "groups": counts.group_sizes, "output": str(output)}
    document["notes"] = list(counted.notes)
    emit(document, as_json, lambda: _show(counts, counted.notes, output))


def _check_source(
    context: typer.Context,
    data: Path | None,
    sql: str | None,
    table: str | None,
    *,
    weight: str | None,
    cluster: str | None,
    population: str,
) -> None:
    """Refuse records in two places or in none, and options that would do nothing where they are."""
    from certifare.errors import ArgumentError

    if (data is None) == (sql is None):
        raise ArgumentError("Where are the records? Name a file, or a database with --sql and --table.")
    thinned = population == "records" if cluster is not None else weight is not None
    where = of_file(data) if data is not None else ("sql",)
    refuse_ignored(context, *where, *(("thinned",) if thinned else ()))
    if sql is not None and table is None:
        raise ArgumentError("--sql needs --table: the name of the table to count.")


@dataclass(frozen=True)
class _Counted:
    """Records that were counted, and what is known of them besides.

    Attributes
    ----------
    tally : Tally
    checksum : pair of int or None
        Of the records; None where the database that counted gives none.
    looked_up : bool
        Whether the records were compared with the training records.
    notes : tuple of str
    """

    tally: Tally
    checksum: tuple[int, int] | None = None
    looked_up: bool = False
    notes: tuple[str, ...] = ()


def _in_database(fitted: RestrictedEncoder, address: str, table: str, **options: Any) -> _Counted:
    """Let a database count its own records."""
    from certifare.engines.sql.warehouse import connect, tally_sql

    with connect(address) as warehouse:
        return _Counted(tally_sql(fitted, warehouse, table, **options))


def _in_file(fitted: RestrictedEncoder, data: Path, *, cluster: str | None, quiet: bool, **options: Any) -> _Counted:
    """Count the records of a file, and look them up among the training records where these are known."""
    from certifare.engines.counting import check_overlap
    from certifare.engines.memory.batches import count_file

    with progress("counting", 1.0, quiet=quiet) as advance:
        tally = count_file(fitted, data, cluster=cluster, **options, progress=advance)
    looked_up = fitted.fingerprint_ is not None
    if looked_up:
        check_overlap(tally.overlap(fitted.fingerprint_))
    # Records of one cluster may well be alike.
    notes = tally.repeats.check() if cluster is None else ()
    return _Counted(tally, tally.checksum, looked_up, notes)


def _show(counts: CellCounts, notes: Sequence[str], output: Path) -> None:
    sizes = ", ".join(f"{printable(group)}: {n:,}" for group, n in counts.group_sizes.items())
    out.print(f"{amount(counts.n_records, 'record')} in {amount(counts.n_cells, 'cell')} ({sizes}) → {output}")
    show_left_out(counts.exclusions)
    show_notes(notes)
