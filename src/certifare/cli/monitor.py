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
    encoder_file,
    err,
    listed,
    out,
    printable,
    show_left_out,
    show_notes,
    single_label,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored

if TYPE_CHECKING:
    from certifare.certificates import CellCounts
    from certifare.document import Document
    from certifare.document.counts_files import Drawn
    from certifare.monitoring import Finding, History


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
    from certifare.cli.from_counts import counts_files
    from certifare.errors import ArgumentError

    data = data or []
    files = [] if sql is not None or not data else counts_files(data[0], data[1:])
    _check_source(context, data, files, sql=sql, table_name=table_name, period=period)
    encoder, document = _certified(bundle, key)
    course, new = _history(
        history, document, encoder, target=target, confidence=confidence, planned=periods, min_group_size=min_group_size
    )
    fresh = bool(data) or sql is not None
    notes: tuple[str, ...] = ()
    if fresh:
        roles = _roles(document, listed(sensitive), label)
        if sql is not None:
            counts, digest = _of_database(encoder, sql, str(table_name), document, **roles), None
        elif files:
            counts, digest = _of_counts(encoder, files, document, **roles), None
        else:
            counts, digest, notes = _of_file(encoder, data[0], document, **roles, **csv.reading())
        notes += _check_values(encoder, document, counts)
        course = course.add(period or data[0].stem, counts, digest=digest)
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
            "metric": course.metric,
            "outcome": None if latest is None else latest.outcome,
            "periods": [finding.to_dict() for finding in findings],
            "notes": list(notes),
            "history": str(history),
            "page": None if page is None else str(page),
        },
        as_json,
        lambda: _show(course, findings, notes),
    )
    if latest is not None and latest.refuted:
        raise typer.Exit(REFUSED)


def _check_source(
    context: typer.Context,
    data: Sequence[Path],
    files: Sequence[Path],
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


def _roles(document: Document, sensitive: Sequence[str], label: list[str] | None) -> dict[str, Any]:
    """Return the columns of groups and of the label: those that were named, else those of the certificate."""
    from certifare.errors import ArgumentError

    columns, labelled = document.statement.predicate.columns, document.certificate.counts.labels is not None
    if label is not None and not labelled:
        raise ArgumentError("--label: the certificate looks at no label. Leave it out.")
    named_label = single_label(label) if label else columns.label if columns else None
    return {
        "sensitive": sensitive or (columns.sensitive if columns else ()),
        "label": named_label if labelled else None,
    }


def _write_page(page: Path, course: History, findings: Sequence[Finding]) -> None:
    from certifare.report import course_data, render_course
    from certifare.storage import atomic_file

    with atomic_file(page) as name:
        name.write_text(render_course(course_data(course, findings)), encoding="utf-8")


def _certified(bundle: Path, key: Path | None) -> tuple[Path, Document]:
    """Read and verify a bundle's certificate; it must be about its encoder."""
    from certifare.document import Policy, read_document, verify_document
    from certifare.errors import CertificateMismatchError

    encoder = encoder_file(bundle)
    document = read_document(encoder.parent / "certificate.json")
    verdict = verify_document(document, Policy(min_confidence=0.0), key=key, encoder=encoder)
    if not verdict.passed:
        failures = "; ".join(f"{check.name}: {check.message}" for check in verdict.failures)
        raise CertificateMismatchError(f"The certificate does not hold, so there is nothing to monitor: {failures}")
    return encoder, document


def _history(path: Path, document: Document, encoder: Path, **options: Any) -> tuple[History, bool]:
    """Read the history, or begin one; what was fixed by the first run cannot be changed by a later one."""
    from certifare.document import digest
    from certifare.encoders import load_encoder
    from certifare.errors import ArgumentError, HistoryError
    from certifare.monitoring import History

    given = {name: value for name, value in options.items() if value is not None}
    named = digest(encoder)
    if not path.exists():
        suppression = document.statement.predicate.suppression
        begun = History.begin(
            document.certificate,
            named,
            training=load_encoder(encoder).training_counts_,
            pools=suppression.pooled if suppression else (),
            **given,
        )
        return begun, True
    found = History.load(path)
    of_bundle = History.begin(document.certificate, named)
    if found.encoder != named or found.reference.to_dict() != of_bundle.reference.to_dict():
        raise HistoryError(f"{str(path)!r} is the history of another certificate. Name another file with --history.")
    for name, value in given.items():
        if getattr(found, name) != value:
            spelt = {"planned": "periods"}.get(name, name).replace("_", "-")
            raise ArgumentError(
                f"--{spelt} {value}: the history was begun with {getattr(found, name)}, and what was fixed then stays. "
                "Leave it out, or begin a new history."
            )
    return found, False


def _of_file(
    encoder: Path, path: Path, document: Document, *, sensitive: Sequence[str], label: str | None, **reading: Any
) -> tuple[CellCounts, str, tuple[str, ...]]:
    from certifare.engines.counting import check_overlap
    from certifare.levels import UNKNOWN
    from certifare.records import load_fitted, read_records
    from certifare.table import POOLED, cuts_in_names

    _check_draw(document, None)
    fitted = load_fitted(encoder)
    table = read_records(
        fitted,
        path,
        sensitive=_named(sensitive),
        label=label,
        labelled=label is not None,
        label_cuts=None if label is None else cuts_in_names(label, document.certificate.counts.labels),
        missing_groups="unknown" if UNKNOWN in document.certificate.counts.groups else "drop",
        **reading,
    )
    if POOLED in document.certificate.counts.groups:
        table = table.pooled(document.certificate.counts.groups)
    check_overlap(fitted.training_overlap(table.features))
    if fitted.reads_groups:
        fitted.set_params(sensitive=None)  # the groups that are counted are those that it reads
    cells = fitted.apply(table.features, **({"sensitive_features": table.groups} if fitted.reads_groups else {}))
    counts = table.count(cells, fitted.n_cells_, labels=label is not None)
    return counts.with_exclusions((*counts.exclusions, *table.exclusions)), table.digest, table.notes


def _of_counts(
    encoder: Path, files: Sequence[Path], document: Document, *, sensitive: Sequence[str], label: str | None
) -> CellCounts:
    from certifare.cli.from_counts import check_sensitive, load_counts
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.errors import ArgumentError

    pooled = pool(load_counts(files), digest(encoder))
    for drawn in pooled.drawn or (None,):
        _check_draw(document, drawn)
    check_sensitive(pooled, sensitive)
    if label is not None and label != pooled.label:
        raise ArgumentError(f"The counts are not by the label {label!r}: count with --label {label}.")
    return pooled.counts


def _of_database(
    encoder: Path, address: str, table: str, document: Document, *, sensitive: Sequence[str], label: str | None
) -> CellCounts:
    from certifare.cli.from_counts import Published
    from certifare.encoders import load_encoder
    from certifare.engines.sql.warehouse import connect, count_sql
    from certifare.levels import UNKNOWN

    _check_draw(document, None)
    with connect(address) as warehouse:
        return count_sql(
            load_encoder(encoder),
            warehouse,
            table,
            sensitive=_named(sensitive),
            label=label,
            missing="unknown" if UNKNOWN in document.certificate.counts.groups else "drop",
            naming=Published.of(document).naming(label),
        )


def _check_draw(document: Document, drawn: Drawn | None) -> None:
    """Refuse records that were not drawn as the certification records were: these are of another population."""
    from certifare.certificates.population import draw_of
    from certifare.errors import DrawError

    certificate = document.certificate
    wanted = draw_of(certificate.population)
    thinned = certificate.effective_size is not None or bool(wanted)
    if thinned and drawn is None:
        raise DrawError(
            "The certification records were drawn by weights or clusters, and so must those of a period be: draw and "
            "count them with certifare count and the same --weight, --cluster and --population, and monitor the counts "
            "file."
        )
    if drawn is not None and not thinned:
        raise DrawError(
            "The records of the period were drawn by weights or clusters, and the certification records were not: "
            "count them without --weight and --cluster."
        )
    if drawn is not None and drawn.about != wanted:
        raise DrawError(
            "The records of the period were drawn in another way than the certification records: count them with the "
            "same --weight, --cluster and --population."
        )


def _check_values(encoder: Path, document: Document, counts: CellCounts) -> tuple[str, ...]:
    """Refuse values of a certified column that the certificate does not know; say what is taken for granted of them."""
    from certifare.encoders import load_encoder
    from certifare.encoders.existing import assumed_values
    from certifare.errors import ArgumentError
    from certifare.words import amount

    fitted = load_encoder(encoder)
    assumed = assumed_values(fitted, document.certificate)
    if assumed is None:
        return ()
    words, others = assumed
    new = 0 if others is None else int(counts.table[others].sum())
    if new:
        raise ArgumentError(
            f"{amount(new, 'record')} of the period {'has a value' if new == 1 else 'have values'} of the column "
            f"{fitted.columns_[0].name!r} that the certificate does not know. Rules on the column could tell them "
            "apart, and are not bounded here: certify the column again, on these records (certifare certify --column)."
        )
    return (words,)


def _named(sensitive: Sequence[str]) -> Sequence[str]:
    from certifare.errors import MissingGroupError

    if not sensitive:
        raise MissingGroupError("The certificate does not say which column holds the groups: pass --sensitive.")
    return sensitive


def _show(history: History, findings: Sequence[Finding], notes: Sequence[str]) -> None:
    """Print the course, and what the last period says."""
    from rich.table import Table as RichTable
    from rich.text import Text

    from certifare.certificates.certificate import percent, round_down, round_up

    styles = {"REFUTED": "bold red", "CONFIRMED": "green", "OPEN": ""}
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
    out.print(
        f"target {history.target:.4g}; all findings hold together with {percent(history.confidence)} confidence",
        soft_wrap=True,
    )
    if findings:
        for group in findings[-1].small:
            err.print(f"too few records of {printable(group)} in this period: nothing is said of them")
        show_left_out(findings[-1].exclusions)
    show_notes(notes)
