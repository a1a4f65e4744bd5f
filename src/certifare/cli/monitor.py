"""``certifare monitor``: what fresh records say of a certificate, period after period."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.common import (
    REFUSED,
    Json,
    Label,
    PublicKey,
    Sensitive,
    Sql,
    TableName,
    emit,
    err,
    listed,
    out,
    printable,
    show_left_out,
    show_notes,
    single_label,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.sources import Certified, checksum_salt, count_database, counts_files, load_counts, read_source
from certifare.cli.support import of_file, refuse_ignored

if TYPE_CHECKING:
    from certifare.certification.monitoring import Finding, History
    from certifare.document import Document
    from certifare.encoders.format import EncoderFile
    from certifare.engines.counting import CountedRecords
    from certifare.tables.files import DataFile
    from certifare.tables.reading import Reading


@with_options
def monitor(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="The bundle: certificate.json and encoder.json.")],
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Fresh records of the period (CSV, Parquet or Arrow), or counts files. None: show the course."
        ),
    ] = None,
    history: Annotated[
        Path, typer.Option(help="File that keeps the counts of all periods; made by the first run.")
    ] = Path("history.json"),
    period: Annotated[str | None, typer.Option(help="What the period is called; the file's name unless given.")] = None,
    target: Annotated[
        float | None,
        typer.Option(help="First run: what the distance is held against; T* of the certificate unless given."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="First run: with which all periods hold together; 0.95 unless given.")
    ] = None,
    periods: Annotated[
        int | None, typer.Option(help="First run: how many periods are planned, which then share ε evenly.", min=1)
    ] = None,
    min_group_size: Annotated[
        int | None, typer.Option(help="First run: fewest records of a group in a period; 30 unless given.", min=1)
    ] = None,
    sensitive: Sensitive = None,
    label: Label = None,
    sql: Sql = None,
    table_name: TableName = None,
    page: Annotated[Path | None, typer.Option(help="Write the course over time to this page (.html).")] = None,
    key: PublicKey = None,
    *,
    csv: CsvOptions,
    as_json: Json = False,
) -> None:
    """Hold a certificate against fresh records, period after period.

    Each run adds a period to the history: it certifies its records, asks whether the distance is above the target, and
    whether the cells of a group have moved. Error is shared out so that all findings of all periods hold together with
    the confidence. Exit status 1: the target is refuted in this period; else 0. Files of records, counts files and
    databases will do; which columns hold the groups is read from the certificate.
    """
    from certifare.errors import ArgumentError
    from certifare.tables.files import DataFile

    records = [DataFile(path) for path in data or ()]
    files = [] if sql is not None else counts_files(records)
    _check_source(context, records, files, sql=sql, table_name=table_name, period=period)
    known = Certified.load(bundle, key)
    encoder, document = known.encoder, known.document
    if document is None:
        raise ArgumentError(f"{str(bundle)!r} has no certificate.json beside its encoder: there is nothing to monitor.")
    course, new = _history(
        history, document, encoder, target=target, confidence=confidence, planned=periods, min_group_size=min_group_size
    )
    fresh = bool(records) or sql is not None
    notes: tuple[str, ...] = ()
    if fresh:
        counted = _count(
            known, _reading(document, listed(sensitive), single_label(label)), records, files, sql, table_name, csv
        )
        notes = counted.notes
        course = course.add(period or records[0].path.stem, counted.counts, digest=_digest_of(counted))
    elif new:
        raise ArgumentError(f"There is no history at {str(history)!r}, and no records to begin one with: name a file.")
    findings = course.findings()
    if page is not None:
        _write_page(page, course, findings)
    if fresh:
        course.save(history)
    latest = findings[-1] if findings else None
    emit(
        {
            "confidence": course.confidence,
            "target": course.target,
            "planned": course.planned,
            "min_group_size": course.min_group_size,
            "certified": document.certificate.bound,
            "metric": course.metric,
            "outcome": None if latest is None else latest.outcome,
            "periods": [finding.to_dict() for finding in findings],
            "notes": list(notes),
            "history": str(history),
            "page": None if page is None else str(page),
        },
        as_json,
        lambda: _show(course, findings, notes, document.certificate.bound),
    )
    if latest is not None and latest.refuted:
        raise typer.Exit(REFUSED)


def _check_source(
    context: typer.Context,
    data: Sequence[DataFile],
    files: Sequence[DataFile],
    *,
    sql: str | None,
    table_name: str | None,
    period: str | None,
) -> None:
    """Refuse records in two places, a period without a name, and options that would do nothing."""
    from certifare.errors import ArgumentError

    if sql is not None:
        refuse_ignored(context, "sql")
        if data:
            raise ArgumentError("Give either a file or --sql, not both.")
        if table_name is None or period is None:
            raise ArgumentError("--sql needs --table, the table to count, and --period, what the period is called.")
    elif files:
        refuse_ignored(context, "counts")
    elif data:
        refuse_ignored(context, *of_file(data[0]))
        if len(data) > 1:
            raise ArgumentError("Give one file of records for a period, or counts files.")
    else:
        refuse_ignored(context)


def _reading(document: Document, sensitive: Sequence[str], label: str | None) -> Reading:
    """Return how records are read: as the certificate says, with columns that are called otherwise."""
    import msgspec

    from certifare.errors import ArgumentError, GroupError
    from certifare.tables.reading import Reading

    if label is not None and not document.certificate.claim.labelled:
        raise ArgumentError("--label: the certificate looks at no label. Leave it out.")
    stated = document.statement.predicate.reading or Reading()
    given = {"sensitive": tuple(sensitive), "label": label}
    reading = msgspec.structs.replace(stated, **{name: value for name, value in given.items() if value})
    if not reading.sensitive:
        raise GroupError("The certificate does not say which column holds the groups: pass --sensitive.")
    return reading


def _count(
    known: Certified,
    reading: Reading,
    data: Sequence[DataFile],
    files: Sequence[DataFile],
    address: str | None,
    table: str | None,
    csv: CsvOptions,
) -> CountedRecords:
    """Count the records of a period, wherever they are, as the certificate says."""
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.encoders.records import load_fitted
    from certifare.engines.counting import CountRequest

    assert known.document is not None  # noqa: S101  (checked before)
    labelled = known.document.certificate.claim.labelled
    encoder_digest = digest(known.encoder)
    if files:
        wanted = reading if labelled else reading.unlabelled()
        return pool(load_counts(files), encoder_digest, wanted).counted
    fitted = load_fitted(known.encoder)
    request = CountRequest(labelled=labelled, salt=checksum_salt(encoder_digest))
    if address is not None:
        return count_database(fitted, address, str(table), reading, request)
    source, _ = read_source(fitted, data, reading, labelled=labelled, **csv.reading())
    return count_records(fitted, source, reading, request)


def _digest_of(counted: CountedRecords) -> str | None:
    """Return what records are recognised by if they come again: a digest of their checksum, in any order."""
    import hashlib

    return None if counted.checksum is None else hashlib.sha256(counted.checksum.encode()).hexdigest()


def _write_page(page: Path, course: History, findings: Sequence[Finding]) -> None:
    from certifare.foundation.storage import atomic_file
    from certifare.report import course_data, render_course

    with atomic_file(page) as name:
        name.write_text(render_course(course_data(course, findings)), encoding="utf-8")


def _history(path: Path, document: Document, encoder: EncoderFile, **options: Any) -> tuple[History, bool]:
    """Read the history, or begin one; what was fixed by the first run cannot be changed by a later one."""
    from certifare.certification.monitoring import History
    from certifare.document import digest
    from certifare.encoders import load_encoder
    from certifare.errors import ArgumentError, FileError

    given = {name: value for name, value in options.items() if value is not None}
    named, training = digest(encoder), load_encoder(encoder).training_counts_
    if not path.exists():
        return History.begin(document.certificate, named, training=training, **given), True
    found = History.load(path)
    try:
        found.check_against(document.certificate, named, training)
    except FileError as error:
        raise FileError(f"{str(path)!r}: {error} Name another file with --history.") from error
    for name, value in given.items():
        if getattr(found, name) != value:
            spelt = {"planned": "periods"}.get(name, name).replace("_", "-")
            raise ArgumentError(
                f"--{spelt} {value}: the history was begun with {getattr(found, name)}, and what was fixed then stays. "
                "Leave it out, or begin a new history."
            )
    return found, False


def _show(history: History, findings: Sequence[Finding], notes: Sequence[str], certified: float) -> None:
    """Print the course, what was fixed by the first run, and what the last period says."""
    from rich.table import Table as RichTable
    from rich.text import Text

    from certifare.certificates.rounding import percent, round_down, round_up

    styles = {"REFUTED": "bold red", "CONFIRMED": "green", "NOT REFUTED": ""}
    table = RichTable(box=None, padding=(0, 2, 0, 0))
    for name in ("period", "records", "lower limit", "T*", "", "moved"):
        table.add_column(name, justify="right" if name in ("lower limit", "T*") else "left")
    for finding in findings:
        moved = ", ".join(f"{m.group} ≥ {round_down(m.lower)}" for m in finding.moved)
        table.add_row(
            printable(finding.name),
            " + ".join(f"{n:,}" for n in finding.groups.values()),
            round_down(finding.lower),
            round_up(finding.bound),
            Text(finding.outcome, styles[finding.outcome]),
            printable(moved),
        )
    out.print(table)
    planned = "" if history.planned is None else f", over {history.planned:,} planned periods"
    out.print(
        f"target {history.target:.4g} (T* of the certificate: {round_up(certified)}); all findings hold together with "
        f"{percent(history.confidence)} confidence{planned}; groups of fewer than {history.min_group_size:,} records "
        "are left out of a period",
        soft_wrap=True,
    )
    if findings:
        out.print(findings[-1].words, soft_wrap=True)
        for group in findings[-1].small:
            n = findings[-1].groups.get(group, 0)
            err.print(
                f"{f'too few records ({n:,})' if n else 'no record'} of {printable(group)} in this period: nothing is "
                "said of them, and the target is not confirmed",
                soft_wrap=True,
            )
        show_left_out(findings[-1].exclusions)
    show_notes(notes)
