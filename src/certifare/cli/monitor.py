"""``certifare monitor``: what fresh records say of a certificate, period after period."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import check_distance
from certifare.cli.honoured import of_file, refuse_ignored
from certifare.cli.options import CsvFile, DatabaseOptions, Json, Options, PublicKey, option, with_options
from certifare.cli.running import REFUSED
from certifare.cli.sources import Certified, RecordsToCount, counts_files
from certifare.cli.terminal import emit, err, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError, FileError, GroupError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    from certifare.certification.monitoring import Finding, History
    from certifare.document import Document


class CourseOptions(Options):
    """Where the history is, what this period is called, and what the first run fixes."""

    history: Path = option(
        None, "File that keeps the counts of all periods; made by the first run.", default=Path("history.json")
    )
    period: str | None = option(None, "What the period is called; the file's name unless given.", needs="fresh")
    target: float | None = option(
        None, "First run: what the distance is held against; T* of the certificate unless given."
    )
    confidence: float | None = option(None, "First run: with which all periods hold together; 0.95 unless given.")
    periods: int | None = option(None, "First run: how many periods are planned, which then share ε evenly.", min=1)
    min_group_size: int | None = option(
        None, "First run: fewest records of a group in a period; 30 unless given.", min=1
    )
    output: Path | None = option(None, "Write the history as a page (.html).", "--output", "-o")

    def fixed(self) -> dict[str, Any]:
        """Return what the first run fixes, as far as it was given."""
        given = {"target": self.target, "confidence": self.confidence, "planned": self.periods}
        given["min_group_size"] = self.min_group_size
        return {name: value for name, value in given.items() if value is not None}


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
    *,
    course: CourseOptions,
    key: PublicKey = None,
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

    files = [DataFile(path) for path in data or ()]
    counts = [] if database.sql is not None else counts_files(files)
    fresh = bool(files) or database.sql is not None
    place = ("sql",) if database.sql is not None else ("counts",) if counts else of_file(*files) if files else ()
    refuse_ignored(context, *place, *(("fresh",) if fresh else ()))
    if fresh:
        database.check(files)
    if database.sql is not None and course.period is None:
        raise ArgumentError("--sql needs --period: what the period is called.")
    if len(files) > 1 and not counts:
        raise ArgumentError("Give one file of records for a period, or counts files.")
    check_distance("--target", course.target)
    known, document = _load(bundle, key)
    history = _history(course.history, known, document, course.fixed(), new_allowed=fresh)
    notes: tuple[str, ...] = ()
    if fresh:
        source = RecordsToCount(known, files, counts, database)
        counted = source.count(known.reading, csv.reading(), labelled=document.certificate.claim.labelled).records
        notes = counted.notes
        history = history.add(course.period or files[0].path.stem, counted.counts, digest=counted.checksum_digest)
    findings = history.findings()
    if course.output is not None:
        from certifare.report import render_course

        with atomic_file(course.output) as name:
            name.write_text(render_course(history, findings), encoding="utf-8")
    if fresh:
        history.save(course.history)
    latest = history.latest() if findings else None
    certified = document.certificate.bound
    emit(
        {
            "confidence": history.confidence,
            "target": history.target,
            "planned": history.planned,
            "min_group_size": history.min_group_size,
            "certified": certified,
            "metric": history.metric,
            "periods": [finding.to_dict() for finding in findings],
            "notes": list(notes),
            "history": str(course.history),
            "page": None if course.output is None else str(course.output),
        },
        as_json,
        lambda: _show(history, findings, notes, certified),
        outcome="DONE" if latest is None else latest.outcome,
        status=REFUSED if latest is not None and latest.refuted else 0,
    )


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


def _history(path: Path, known: Certified, document: Document, given: dict[str, Any], *, new_allowed: bool) -> History:
    """Read the history, or begin one; what was fixed by the first run cannot be changed by a later one."""
    from certifare.certification.monitoring import History
    from certifare.document import digest
    from certifare.encoders import load_encoder

    certificate = document.certificate
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
            n = latest.groups.get(group)  # None: an attribute, or a value of the given column
            few = "no record" if n == 0 else f"too few records ({n:,})" if n else "too few records"
            err.print(
                f"{few} of {printable(group)} in this period: nothing is said of them, and the target is not confirmed",
                soft_wrap=True,
            )
        show_left_out(latest.exclusions)
    show_notes(notes)
