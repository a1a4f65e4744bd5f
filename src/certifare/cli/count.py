"""``certifare count``: counts of a holder's records, to be added to those of others and certified together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import listed
from certifare.cli.csv_options import CsvFormat
from certifare.cli.honoured import of_records, refuse_ignored
from certifare.cli.option_classes import with_options
from certifare.cli.options import COLUMNS, Json
from certifare.cli.progress_bars import progress
from certifare.cli.record_options import DatabaseOptions, RoleOptions
from certifare.cli.sources import Certified, checksum_salt, count_database, read_source
from certifare.cli.terminal import emit, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from certifare.certificates import CellCounts
    from certifare.engines.counting import CountedRecords
    from certifare.tables.files import DataFile
    from certifare.tables.reading import Reading


@with_options
def count(
    context: typer.Context,
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Counts file to write.")],
    data: Annotated[Path | None, typer.Argument(help="Records: CSV, Parquet or Arrow, of any size.")] = None,
    *,
    database: DatabaseOptions,
    roles: RoleOptions,
    max_weight: Annotated[
        float | None,
        typer.Option(
            help="Largest weight (or size of a cluster) in the population. Holders must agree on it.",
            rich_help_panel=COLUMNS,
            hidden=True,
        ),
    ] = None,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Count records by cell, group and label, and write the counts to a file. No record leaves.

    Add up the counts files of several holders with: certifare certify counts/*.json
    """
    import msgspec

    from certifare.document import digest
    from certifare.document.counts_files import CountsFile
    from certifare.tables.files import DataFile

    known = Certified.load(encoder)
    records = [] if data is None else [DataFile(data)]
    database.check(records)
    where = of_records(*records, stated=known.stated)
    refuse_ignored(context, *where, *roles.draw_conditions(known.reading, records))
    reading = _reading(known, roles, max_weight, csv)
    with progress("counting", 1.0, quiet=as_json) as advance:
        counted = _count(known, records, database, reading, csv, seed=roles.seed, progress=advance)
    if counted.positive is not None:
        reading = msgspec.structs.replace(reading, positive=counted.positive)
    made = CountsFile.make(counted, digest(known.encoder), reading)
    made.save(output)
    counts = counted.counts
    document = {
        "id": made.id,
        "records": counts.n_records,
        "groups": counts.group_sizes,
        "output": str(output),
        "notes": list(counted.notes),
    }
    emit(document, as_json, lambda: _show(counts, counted.notes, output))


def _reading(known: Certified, roles: RoleOptions, max_weight: float | None, csv: CsvFormat) -> Reading:
    """Return how records are read; a label only if it was named, or the certificate is about labels."""
    claim = None if known.document is None else known.document.certificate.claim
    certified_label = claim is not None and claim.labelled and claim.given is None
    if roles.named_label is not None and (roles.given or known.reading.given):
        raise ArgumentError("Records are counted by a label or by a given column: leave --label or --given out.")
    label = roles.named_label or (known.reading.label if certified_label else None)
    base = known.reading if label is not None else known.reading.unlabelled()
    words = (*base.missing_words, *listed(csv.missing)) or None
    return roles.reading(base, label, max_weight=max_weight, missing_words=words, decimal=csv.decimal)


def _count(
    known: Certified,
    records: Sequence[DataFile],
    database: DatabaseOptions,
    reading: Reading,
    csv: CsvFormat,
    **request: Any,
) -> CountedRecords:
    """Count records in a file, or let the database count its own."""
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.encoders.records import load_fitted
    from certifare.engines.counting import CountRequest

    fitted, labelled = load_fitted(known.encoder), reading.counted(labelled=True).label is not None
    asked = CountRequest(labelled=labelled, salt=checksum_salt(digest(known.encoder)), **request)
    if not records:
        return count_database(fitted, *database.place, reading, asked)
    source, _ = read_source(fitted, records, reading, labelled=labelled, **csv.reading())
    return count_records(fitted, source, reading, asked)


def _show(counts: CellCounts, notes: Sequence[str], output: Path) -> None:
    sizes = ", ".join(f"{printable(group)}: {n:,}" for group, n in counts.group_sizes.items())
    out.print(f"{amount(counts.n_records, 'record')} in {amount(counts.n_cells, 'cell')} ({sizes}) → {output}")
    show_left_out(counts.exclusions)
    show_notes(notes)
