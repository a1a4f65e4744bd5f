"""``certifare monitor``: what fresh records say of a certificate, period after period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import check_distance
from certifare.cli.csv_options import CsvFile
from certifare.cli.honoured import of_file, refuse_ignored
from certifare.cli.option_classes import with_options
from certifare.cli.options import Json, PublicKey
from certifare.cli.record_options import DatabaseOptions
from certifare.cli.running import REFUSED
from certifare.cli.sources import Certified, checksum_salt, count_database, counts_files, load_counts, read_source
from certifare.cli.terminal import emit, err, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError, FileError, GroupError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    from certifare.certification.monitoring import Finding, History
    from certifare.document import Document
    from certifare.engines.counting import CountedRecords
    from certifare.tables.files import DataFile


@with_options
def monitor(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="The bundle: certificate.json and encoder.json.")],
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Fresh records of the period (CSV, Parquet or Arrow), or counts files. Omit to show the history."
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
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the history as a page (.html).")] = None,
    key: PublicKey = None,
    *,
    database: DatabaseOptions,
    csv: CsvFile,
    as_json: Json = False,
) -> None:
    """Hold a certificate against fresh records, period after period.

    Each run adds a period to the history: it certifies its records, asks whether the distance is above the target, and
    whether the cells of a group have moved. Error is shared out so that all findings of all periods hold together with
    the confidence. Exit status 1: the target is refuted in this period; else 0. Files of records, counts files and
    databases will do; the certificate says how they are read.
    """
    from certifare.tables.files import DataFile

    records = [DataFile(path) for path in data or ()]
    place = _Place(records, [] if database.sql is not None else counts_files(records), database)
    refuse_ignored(context, *place.conditions())
    place.check(period)
    check_distance("--target", target)
    known, document = _load(bundle, key)
    fixed = {"target": target, "confidence": confidence, "planned": periods, "min_group_size": min_group_size}
    course = _history(history, known, fixed, new_allowed=place.fresh)
    notes: tuple[str, ...] = ()
    if place.fresh:
        counted = _count(known, document, place, csv)
        notes = counted.notes
        course = course.add(period or records[0].path.stem, counted.counts, digest=_digest_of(counted))
    findings = course.findings()
    if output is not None:
        _write_page(output, course, findings)
    if place.fresh:
        course.save(history)
    latest = course.latest() if findings else None
    certified = document.certificate.bound
    emit(
        {
            "confidence": course.confidence,
            "target": course.target,
            "planned": course.planned,
            "min_group_size": course.min_group_size,
            "certified": certified,
            "metric": course.metric,
            "periods": [finding.to_dict() for finding in findings],
            "notes": list(notes),
            "history": str(history),
            "page": None if output is None else str(output),
        },
        as_json,
        lambda: _show(course, findings, notes, certified),
        outcome="DONE" if latest is None else latest.outcome,
        status=REFUSED if latest is not None and latest.refuted else 0,
    )


@dataclass(frozen=True)
class _Place:
    """Where the records of a period are: in a file, in counts files, in a database, or nowhere."""

    records: list[DataFile]
    counts: list[DataFile]
    database: DatabaseOptions

    @property
    def fresh(self) -> bool:
        """Whether there are records."""
        return bool(self.records) or self.database.sql is not None

    def conditions(self) -> tuple[str, ...]:
        """Conditions under which options are honoured."""
        if self.database.sql is not None:
            return ("sql",)
        if self.counts:
            return ("counts",)
        return of_file(self.records[0]) if self.records else ()

    def check(self, period: str | None) -> None:
        """Refuse records in two places, several files of records, and a database's period without a name."""
        if self.fresh:
            self.database.check(self.records)
        if self.database.sql is not None and period is None:
            raise ArgumentError("--sql needs --period: what the period is called.")
        if len(self.records) > 1 and not self.counts:
            raise ArgumentError("Give one file of records for a period, or counts files.")


def _load(bundle: Path, key: Path | None) -> tuple[Certified, Document]:
    """Read the bundle; refuse one without a certificate, or whose certificate does not say where the groups are."""
    known = Certified.load(bundle, key)
    if known.document is None:
        raise ArgumentError(f"{str(bundle)!r} has no certificate.json beside its encoder: there is nothing to monitor.")
    if not known.reading.sensitive:
        raise GroupError(
            "The certificate does not say which column holds the groups: certify the encoder on a table (certifare "
            "certify), or monitor it in Python."
        )
    return known, known.document


def _count(known: Certified, document: Document, place: _Place, csv: CsvFile) -> CountedRecords:
    """Count the records of a period, wherever they are, as the certificate says."""
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.encoders.records import load_fitted
    from certifare.engines.counting import CountRequest

    reading, labelled = known.reading, document.certificate.claim.labelled
    encoder_digest = digest(known.encoder)
    if place.counts:
        wanted = reading if labelled and not reading.given else reading.unlabelled()
        return pool(load_counts(place.counts), encoder_digest, wanted).counted
    fitted = load_fitted(known.encoder)
    request = CountRequest(labelled=labelled, salt=checksum_salt(encoder_digest))
    if place.database.sql is not None:
        return count_database(fitted, *place.database.place, reading, request)
    source, _ = read_source(fitted, place.records, reading, labelled=labelled, **csv.reading())
    return count_records(fitted, source, reading, request)


def _digest_of(counted: CountedRecords) -> str | None:
    """Return what records are recognised by if they come again: a digest of their checksum, in any order."""
    import hashlib

    return None if counted.checksum is None else hashlib.sha256(counted.checksum.encode()).hexdigest()


def _write_page(page: Path, course: History, findings: Sequence[Finding]) -> None:
    from certifare.report import course_data, render_course

    with atomic_file(page) as name:
        name.write_text(render_course(course_data(course, findings)), encoding="utf-8")


def _history(path: Path, known: Certified, options: dict[str, Any], *, new_allowed: bool) -> History:
    """Read the history, or begin one; what was fixed by the first run cannot be changed by a later one."""
    from certifare.certification.monitoring import History
    from certifare.document import digest
    from certifare.encoders import load_encoder

    assert known.document is not None  # noqa: S101  (checked before)
    certificate = known.document.certificate
    given = {name: value for name, value in options.items() if value is not None}
    named, training = digest(known.encoder), load_encoder(known.encoder).training_counts_
    if not path.exists():
        if not new_allowed:
            raise ArgumentError(f"There is no history at {str(path)!r}, and no records to begin one with: name a file.")
        return History.begin(certificate, named, training=training, **given)
    found = History.load(path)
    try:
        found.check_against(certificate, named, training)
    except FileError as error:
        raise FileError(f"{str(path)!r}: {error} Name another file with --history.") from error
    for name, value in given.items():
        if getattr(found, name) != value:
            spelt = {"planned": "periods"}.get(name, name).replace("_", "-")
            raise ArgumentError(
                f"--{spelt} {value}: the history was begun with {getattr(found, name)}, and what was fixed then stays. "
                "Leave it out, or begin a new history."
            )
    return found


def _show(history: History, findings: Sequence[Finding], notes: Sequence[str], certified: float) -> None:
    """Print the course, what was fixed by the first run, and what the last period says."""
    from rich.table import Table as RichTable
    from rich.text import Text

    from certifare.certificates.rounding import percent, round_down, round_up

    styles = {"REFUTED": "bold red", "CONFIRMED": "green", "NOT REFUTED": ""}
    table = RichTable(box=None, padding=(0, 2, 0, 0))
    scoped = any(finding.course is not None for finding in findings)
    for name in (*(("about",) if scoped else ()), "period", "records", "lower limit", "T*", "", "moved"):
        table.add_column(name, justify="right" if name in ("lower limit", "T*") else "left")
    for finding in findings:
        moved = ", ".join(f"{m.group} ≥ {round_down(m.lower)}" for m in finding.moved)
        table.add_row(
            *((printable(str(finding.course)),) if scoped else ()),
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
        latest = history.latest()
        about = "" if latest.course is None else f"{printable(latest.course)}: "
        out.print(f"{about}{latest.words}", soft_wrap=True)
        for group in latest.small:
            n = latest.groups.get(group, 0)
            err.print(
                f"{f'too few records ({n:,})' if n else 'no record'} of {printable(group)} in this period: nothing is "
                "said of them, and the target is not confirmed",
                soft_wrap=True,
            )
        show_left_out(latest.exclusions)
    show_notes(notes)
