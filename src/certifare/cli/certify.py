"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import check_distance, cuts_of, signing_key
from certifare.cli.column import written_column
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import (
    CLAIM,
    COLUMNS,
    METRIC,
    METRICS,
    READING,
    ClaimOptions,
    CsvFormat,
    DatabaseOptions,
    Json,
    Options,
    PublishOptions,
    RoleOptions,
    SecondFileOptions,
    declare,
    option,
    with_options,
)
from certifare.cli.published import command_line
from certifare.cli.running import REFUSED
from certifare.cli.sources import Counted, RecordsToCount, find_records
from certifare.cli.terminal import emit, err, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError, LooksError

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import Ledger
    from certifare.tables.reading import Reading


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(Options):
    """A column that is certified itself."""

    column: str | None = option(
        COLUMNS, "Certify this column itself (a decision, a band, a score) instead of an encoder."
    )
    cuts: str | None = option(
        COLUMNS,
        "With --column: where the score is cut, such as 0.3,0.6. Fixed before these records were looked at.",
        metavar="NUMBERS",
        rare=True,
    )
    encoder_output: Path | None = option(
        READING, "With --column: write the column's cells as an encoder, to count, verify and monitor.", rare=True
    )


@with_options
def certify(
    context: typer.Context,
    encoder: Annotated[
        Path | None, typer.Argument(help="encoder.json, or the bundle it is in. Counts files and --column need none.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Records that played no part in fitting (CSV, Parquet or Arrow), or counts files (certifare count)."
        ),
    ] = None,
    output: Annotated[Path | None, declare(None, "Write the certificate to this file.", "--output", "-o")] = None,
    max_bound: Annotated[float | None, declare(None, "Exit with status 1 if T* is above this.", "--max")] = None,
    *,
    database: DatabaseOptions,
    roles: RoleOptions,
    itself: ColumnOptions,
    label_cuts: Annotated[
        str | None,
        declare(
            COLUMNS,
            "Cut a label that is a quantity into bands at these numbers: 20000,50000.",
            metavar="NUMBERS",
            rare=True,
        ),
    ] = None,
    second: SecondFileOptions,
    metric: Annotated[
        str | None, declare(CLAIM, f"{METRIC}; that of the bundle's certificate unless given.", choices=METRICS)
    ] = None,
    claimed: ClaimOptions,
    published: PublishOptions,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Certify an encoder on records that it has not seen.

    The result bounds the distance between groups of every classifier on the cells. The records can stay where they
    are: in a database that counts them (--sql, --table), or with several holders who send their counts files.
    The certificate of a bundle says how records are read; name columns for an encoder without one.
    With --column there is no encoder: the bound is about every rule that reads only that column of the records.
    """
    import msgspec

    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import open_ledger

    check_distance("--max", max_bound)
    place = find_records(encoder, data or [], database, itself.column, itself.cuts)
    refuse_ignored(context, *place.conditions(roles), *(() if roles.label is None else ("relabelled",)))
    terms = published.terms()
    book = open_ledger(claimed.ledger)
    document = None if place.known is None else place.known.document
    certified = None if document is None else document.certificate.claim
    name = metric or (certified.metric if certified else "demographic_parity")
    claim = Claim(
        metric=name,
        confidence=book.confidence_of_look(claimed.confidence, claimed.looks),
        positive=claimed.positive,
        min_group_size=claimed.min_group_size,
        given=roles.given or (place.reading.given or None if name == "demographic_parity" else None),
    )
    _check_labels(claim, label_cuts)
    reading = roles.reading(place.reading, roles.named_label, csv, label_cuts=cuts_of(label_cuts))
    if claim.given is None and reading.given:
        reading = msgspec.structs.replace(reading, given=msgspec.UNSET)
    counted = place.count(
        reading,
        {**second.second_file(), **csv.reading()},
        labelled=claim.labelled,
        seed=roles.seed,
        # A label that the metric does not look at is named in the document.
        recorded_label=None if claim.labelled else roles.named_label,
    )
    notes = (*_taken_over(place, claim, roles), *(() if place.counts else counted.records.notes))
    if place.counts:
        _check_columns(roles, counted.reading)
        claim = dataclasses.replace(claim, given=counted.reading.given or None)
    claimed_each = certified.each if certified else ()
    each = claimed.each or bool(claimed_each and roles.groups in ((), claimed_each))
    certificate, reading = _certify(counted, claim, each)
    certificate = _at_look(book, counted, certificate, claimed.looks)
    if itself.encoder_output is not None and counted.column is not None:
        written_column(counted.column, itself.encoder_output)
    if output is not None:
        from certifare.document import write_document

        named: dict[str, Any] = {"suppress_below": published.suppress, "dataset": published.dataset, "terms": terms}
        named |= {**counted.named, "reading": reading, "command": command_line(context)}
        write_document(output, certificate, signing_key(published.key), **named)
    notes = (*notes, *(() if book.reason is None else (book.reason,)))
    written = () if output is None else (f"written to {output}" + (", signed" if published.key else ", not signed"),)
    above = max_bound is not None and certificate.bound > max_bound
    if above:
        from certifare.certificates.rounding import round_up

        err.print(f"T* = {round_up(certificate.bound, 6)} is above --max {max_bound}")
    emit(
        certificate.to_dict(),
        as_json,
        lambda: _show(certificate, notes, written),
        outcome="DONE" if max_bound is None else "FAIL" if above else "PASS",
        status=REFUSED if above else 0,
    )


def _check_labels(claim: Claim, label_cuts: str | None) -> None:
    """Refuse options on labels that the metric does not look at."""
    if claim.positive is not None and claim.metric != "equal_opportunity":
        raise ArgumentError(f"--positive would be ignored with --metric {claim.metric}: it is for equal_opportunity.")
    if label_cuts is not None and not claim.labelled:
        raise ArgumentError(f"--label-cuts would be ignored with --metric {claim.metric}, which looks at no --label.")


def _check_columns(roles: RoleOptions, counted: Reading) -> None:
    """Refuse columns that counts are not about."""
    if roles.groups and roles.groups != counted.sensitive:
        raise ArgumentError(f"The counts are by {', '.join(counted.sensitive)}, not by {', '.join(roles.groups)}.")
    if roles.given is not None and roles.given != counted.given:
        raise ArgumentError(f"--given {roles.given}: the counts are not by it. Count with --given {roles.given}.")
    label = roles.named_label
    if label is not None and label != counted.label:
        found = "have no labels" if counted.label is None else f"are by the label {counted.label!r}"
        raise ArgumentError(f"--label {label}: the counts {found}. Leave it out, or count with --label {label}.")


def _certify(counted: Counted, claim: Claim, each: bool) -> tuple[Certificate, Reading]:
    """Certify counts; the positive label is the one that was named, or the reading's."""
    import msgspec

    if claim.metric == "equal_opportunity":
        claim = dataclasses.replace(claim, positive=claim.positive or counted.reading.positive)
    if each:
        claim = dataclasses.replace(claim, each=counted.reading.sensitive)
    certificate = counted.records.certify(claim)
    return certificate, msgspec.structs.replace(counted.reading, positive=certificate.positive)


def _taken_over(place: RecordsToCount, claim: Claim, roles: RoleOptions) -> tuple[str, ...]:
    """Say which columns are read as the bundle's certificate says, because they were not named."""
    if place.known is None or place.known.document is None:
        return ()
    known, notes = place.reading, []
    if not roles.groups and known.sensitive:
        notes.append(f"groups are read from {', '.join(known.sensitive)}")
    if claim.given is not None and roles.given is None:
        notes.append(f"groups are compared within {claim.given}")
    elif claim.labelled and roles.named_label is None and known.label is not None:
        notes.append(f"labels are read from {known.label}")
    for name, role in (("weights", known.weight), ("clusters", known.cluster)):
        if role is not None:
            notes.append(f"records are drawn by the {name} {role}")
    return tuple(f"{note}, as in the certificate of the bundle" for note in notes)


def _at_look(ledger: Ledger, counted: Counted, certificate: Certificate, looks: int | None) -> Certificate:
    """Count a look before anyone sees what it found, and say so in the certificate."""
    from certifare.certification.ledger import statement_of
    from certifare.document import digest

    traces = counted.trace(ledger)
    if traces is None:
        if looks is not None:
            raise LooksError(
                "Looks at records that were drawn, or have no checksum, cannot be counted: leave --looks out."
            )
        return certificate
    encoder = counted.named.get("encoder_digest") or digest(counted.named["encoder"])
    return certificate.at_look(
        ledger.count(traces, [statement_of(encoder, certificate)], certificate.confidence, looks)
    )


def _show(certificate: Certificate, notes: Sequence[str], written: Sequence[str]) -> None:
    """Print the certificate; what was left out, looks and notes go to standard error."""
    out.print(printable(str(certificate)), soft_wrap=True)
    show_left_out(certificate.exclusions)
    for value in certificate.claim.left_out:
        notes = (*notes, f"nothing is claimed within {certificate.claim.given} {value!r}: too few records of a group")
    for words in (*certificate.cap_words, certificate.look_words):
        err.print(words, soft_wrap=True)
    show_notes(notes)
    for words in written:
        err.print(words, soft_wrap=True)
