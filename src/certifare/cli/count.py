"""``certifare count``: counts of a holder's records, to be added to those of others and certified together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import (
    COLUMNS,
    CsvFormat,
    DatabaseOptions,
    EncoderPath,
    Json,
    RoleOptions,
    declare,
    with_options,
)
from certifare.cli.progress_bars import progress
from certifare.cli.sources import Certified, RecordsToCount
from certifare.cli.terminal import emit, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from certifare.tables.reading import Reading


@with_options
def count(
    context: typer.Context,
    encoder: EncoderPath,
    output: Annotated[Path, declare(None, "Counts file to write.", "--output", "-o")],
    data: Annotated[Path | None, typer.Argument(help="Records: CSV, Parquet or Arrow, of any size.")] = None,
    *,
    database: DatabaseOptions,
    roles: RoleOptions,
    max_weight: Annotated[
        float | None,
        declare(
            COLUMNS,
            "Largest weight (or size of a cluster) in the population. Holders must agree on it.",
            rare=True,
            needs="thinned",
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
    files = [] if data is None else [DataFile(data)]
    database.check(files)
    place = RecordsToCount(known, files, [], database)
    refuse_ignored(context, *place.conditions(roles))
    reading = _reading(known, roles, max_weight, csv)
    labelled = reading.counted(labelled=True).label is not None
    with progress("counting", 1.0, quiet=as_json) as advance:
        counted = place.count(reading, csv.reading(), labelled=labelled, seed=roles.seed, progress=advance).records
    if counted.positive is not None:
        reading = msgspec.structs.replace(reading, positive=counted.positive)
    made = CountsFile.make(counted, digest(known.encoder), reading)
    made.save(output)
    counts = counted.counts

    def show() -> None:
        sizes = ", ".join(f"{printable(group)}: {n:,}" for group, n in counts.group_sizes.items())
        out.print(f"{amount(counts.n_records, 'record')} in {amount(counts.n_cells, 'cell')} ({sizes}) → {output}")
        show_left_out(counts.exclusions)
        show_notes(counted.notes)

    document = {
        "id": made.id,
        "records": counts.n_records,
        "groups": counts.group_sizes,
        "output": str(output),
        "notes": list(counted.notes),
    }
    emit(document, as_json, show)


def _reading(known: Certified, roles: RoleOptions, max_weight: float | None, csv: CsvFormat) -> Reading:
    """Return how records are read; a label only if it was named, or the certificate is about labels."""
    claim = None if known.document is None else known.document.certificate.claim
    certified_label = claim is not None and claim.labelled and claim.given is None
    if roles.named_label is not None and (roles.given or known.reading.given):
        raise ArgumentError("Records are counted by a label or by a given column: leave --label or --given out.")
    label = roles.named_label or (known.reading.label if certified_label else None)
    return roles.reading(
        known.reading if label is not None else known.reading.unlabelled(), label, csv, max_weight=max_weight
    )
