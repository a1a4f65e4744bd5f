"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import ENCODER, check_distance, cuts_of, signing_key
from certifare.cli.column import written_column
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import (
    CLAIM,
    COLUMNS,
    METRIC,
    METRICS,
    SENSITIVE_FILE,
    ClaimOptions,
    CsvFormat,
    DatabaseOptions,
    Json,
    Options,
    RoleOptions,
    SuppressOptions,
    declare,
    option,
    with_options,
)
from certifare.cli.published import command_line
from certifare.cli.running import REFUSED
from certifare.cli.sources import Counted, RecordsToCount, find_records
from certifare.cli.terminal import emit, err, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError, LooksError
from certifare.foundation.storage import atomic_folder, check_file, check_folder, check_writable

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import Ledger
    from certifare.tables.reading import Reading

OUTPUT = (
    "Write the certificate to this file. With --column also a new folder (a name without an ending), which gets the "
    "column's cells as an encoder, too."
)


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
        needs="column",
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
    output: Annotated[Path | None, declare(None, OUTPUT, "--output", "-o")] = None,
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
            needs="cut",
        ),
    ] = None,
    sensitive_file: Annotated[Path | None, declare(COLUMNS, SENSITIVE_FILE, rare=True, needs="memory")] = None,
    metric: Annotated[
        str | None, declare(CLAIM, f"{METRIC}; that of the bundle's certificate unless given.", choices=METRICS)
    ] = None,
    claimed: ClaimOptions,
    published: SuppressOptions,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Certify an encoder on records that it has not seen.

    The result bounds the distance between groups of every classifier on the cells. The records can stay where they
    are: in a database that counts them (--sql, --table), or with several holders who send their counts files.
    The certificate of a bundle says how records are read; name columns for an encoder without one.
    With --column there is no encoder: the bound is about every rule that reads only that column of the records.
    """
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import open_ledger

    check_distance("--max", max_bound)
    place = find_records(encoder, data or [], database, itself.column, itself.cuts)
    certified = place.claim
    metric = metric or (METRICS[0] if certified is None else certified.metric)
    where = place.conditions(roles)
    cut = metric != METRICS[0] and ("unread" in where or roles.label is not None)
    holds = {"equal_opportunity": metric == "equal_opportunity", "cut": cut}
    refuse_ignored(context, *where, *(name for name, true in holds.items() if true))
    terms, signer = published.terms(), signing_key(published.key)
    bundled = itself.column is not None and output is not None and not output.suffix
    if output is not None:
        (check_folder if bundled else check_file)(output)
        check_writable(output.parent)
    ledger = open_ledger()
    claim = Claim(
        metric=metric,
        confidence=ledger.confidence_of_look(claimed.confidence, claimed.looks),
        positive=claimed.positive,
        min_group_size=claimed.min_group_size,
        given=roles.given or (place.reading.given or None if metric == METRICS[0] else None),
    )
    counted = place.count(
        _reading(place, roles, csv, claim, label_cuts),
        {"sensitive_file": sensitive_file, **csv.reading()},
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
    certificate = _at_look(ledger, counted, certificate, claimed.looks)
    if output is not None:
        named = {"suppress_below": published.suppress, "terms": terms, "command": command_line(context)}
        _write(output, certificate, counted, signer, reading=reading, bundled=bundled, **named)
    notes = (*notes, *(() if ledger.reason is None else (ledger.reason,)))
    written = () if output is None else (f"written to {output}" + (", signed" if signer else ", not signed"),)
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


def _reading(
    place: RecordsToCount, roles: RoleOptions, csv: CsvFormat, claim: Claim, label_cuts: str | None
) -> Reading:
    """Return how the records are read."""
    import msgspec

    reading = roles.reading(place.reading, roles.named_label, csv, label_cuts=cuts_of(label_cuts))
    return msgspec.structs.replace(reading, given=msgspec.UNSET) if claim.given is None and reading.given else reading


def _write(
    output: Path, certificate: Certificate, counted: Counted, signer: Any, *, bundled: bool, **named: Any
) -> None:
    """Write the certificate to a file, or that of a column to a new folder, with its cells as an encoder."""
    from certifare.document import write_document

    if not bundled:
        write_document(output, certificate, signer, **counted.named, **named)
        return
    with atomic_folder(output) as folder:
        written_column(counted.column, folder / ENCODER)
        write_document(folder / "certificate.json", certificate, signer, **counted.named, **named)


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
