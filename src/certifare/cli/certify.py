"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import check_distance, cuts_of, listed, second_file, signing_key
from certifare.cli.column import CertifiedColumn, ColumnName, Cuts, EncoderOutput, column_of_files, write_column
from certifare.cli.csv_options import CsvFormat
from certifare.cli.honoured import of_records, refuse_ignored
from certifare.cli.option_classes import with_options
from certifare.cli.options import (
    Confidence,
    Dataset,
    Each,
    JoinKey,
    Json,
    KeepLedger,
    Key,
    LabelCuts,
    Looks,
    MinGroupSize,
    OwnMetric,
    PositiveLabel,
    SensitiveFile,
    Suppress,
)
from certifare.cli.published import command_line
from certifare.cli.record_options import DatabaseOptions, RoleOptions
from certifare.cli.running import REFUSED
from certifare.cli.sources import (
    Certified,
    checksum_salt,
    count_database,
    counts_files,
    load_counts,
    read_source,
    trace_counts,
    trace_database,
)
from certifare.cli.terminal import emit, err, out, printable, show_left_out, show_notes
from certifare.cli.terms_options import TermsOptions
from certifare.errors import ArgumentError, CountsError, LooksError

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import Ledger, Traces
    from certifare.engines.counting import CountedRecords, CountRequest
    from certifare.tables.files import DataFile
    from certifare.tables.reading import Reading
    from certifare.tables.table import Table


@with_options
def certify(
    context: typer.Context,
    encoder: Annotated[
        Path | None,
        typer.Argument(help="encoder.json, or the bundle it is in. Counts files and --column need none."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Records that played no part in fitting (CSV, Parquet or Arrow), or counts files (certifare count)."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the certificate to this file.")] = None,
    max_bound: Annotated[float | None, typer.Option("--max", help="Exit with status 1 if T* is above this.")] = None,
    *,
    database: DatabaseOptions,
    roles: RoleOptions,
    column: ColumnName = None,
    cuts: Cuts = None,
    encoder_output: EncoderOutput = None,
    label_cuts: LabelCuts = None,
    sensitive_file: SensitiveFile = None,
    on: JoinKey = None,
    metric: OwnMetric = None,
    each: Each = False,
    positive: PositiveLabel = None,
    confidence: Confidence = 0.95,
    looks: Looks = None,
    ledger: KeepLedger = True,
    min_group_size: MinGroupSize = 30,
    key: Key = None,
    suppress: Suppress = None,
    dataset: Dataset = None,
    stated: TermsOptions,
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
    place = _find(encoder, data or [], column, database)
    refuse_ignored(context, *place.conditions(roles))
    terms = stated.terms()
    book = open_ledger(ledger)
    claim = Claim(
        metric=metric or place.metric,
        confidence=book.confidence_of_look(confidence, looks),
        positive=positive,
        min_group_size=min_group_size,
        given=roles.given or place.given(metric),
    )
    _check_labels(claim, label_cuts)
    reading = roles.reading(
        place.reading,
        roles.named_label,
        label_cuts=cuts_of(label_cuts),
        missing_words=(*place.reading.missing_words, *listed(csv.missing)) or None,
        decimal=csv.decimal,
    )
    if claim.given is None and reading.given:
        reading = msgspec.structs.replace(reading, given=msgspec.UNSET)
    asked = _Asked(claim, reading, book, roles, each or place.each(roles))
    own = None if column is None else CertifiedColumn(column, cuts)
    certified = _certify(asked, place, own, {**second_file(sensitive_file, on), **csv.reading()})
    certificate = _at_look(book, certified, looks)
    if encoder_output is not None and certified.column is not None:
        write_column(certified.column, encoder_output)
    if output is not None:
        from certifare.document import write_document

        named = {**certified.context, "suppress_below": suppress, "dataset": dataset, "terms": terms}
        write_document(output, certificate, signing_key(key), **named, command=command_line(context))
    notes = (*_taken_over(place.known, asked), *certified.notes, *(() if book.reason is None else (book.reason,)))
    written = () if output is None else (f"written to {output}" + (", signed" if key else ", not signed"),)
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


@dataclass(frozen=True)
class _Place:
    """Where the encoder and the records are.

    Attributes
    ----------
    known : Certified or None
        The encoder; None if there is none, because a column or counts files are certified.
    records, counts : list of DataFile
        Files of records; of these, counts files.
    database : DatabaseOptions
    """

    known: Certified | None
    records: list[DataFile]
    counts: list[DataFile]
    database: DatabaseOptions

    @property
    def reading(self) -> Reading:
        """How the certificate beside the encoder says that records are read; an empty reading without one."""
        from certifare.tables.reading import Reading

        return Reading() if self.known is None else self.known.reading

    @property
    def metric(self) -> str:
        """The metric of that certificate."""
        return "demographic_parity" if self.known is None else self.known.metric

    def given(self, metric: str | None) -> str | None:
        """Return the column that the claim of that certificate is given, unless another metric is asked for."""
        asked = metric or self.metric
        return (self.reading.given or None) if asked == "demographic_parity" else None

    def each(self, roles: RoleOptions) -> bool:
        """Return whether that certificate claims each of several attributes, and no other columns are named."""
        document = None if self.known is None else self.known.document
        claimed = () if document is None else document.certificate.claim.each
        return bool(claimed) and roles.groups in ((), claimed)

    def conditions(self, roles: RoleOptions) -> tuple[str, ...]:
        """Conditions under which options are honoured."""
        stated = self.known is not None and self.known.stated
        if self.database.sql is not None:
            where = of_records(stated=stated)
        elif self.counts:
            return ("counts",)
        else:
            where = *of_records(*self.records, stated=stated), *roles.draw_conditions(self.reading, self.records)
        return where if roles.label is None else (*where, "relabelled")


def _find(encoder: Path | None, data: list[Path], column: str | None, database: DatabaseOptions) -> _Place:
    """Find the encoder and the records; refuse records in two places or in none."""
    from certifare.tables.files import DataFile

    if column is not None:
        data, encoder = [*([] if encoder is None else [encoder]), *data], None
    elif encoder is None:
        raise ArgumentError("Which encoder? Name its file or bundle; or the column to certify, with --column.")
    records = [DataFile(path) for path in data]
    counts = [] if database.sql is not None or encoder is None else counts_files(records, encoder)
    database.check(records or counts)
    # With one more counts file than there are data, the first argument is one itself.
    known = None if encoder is None or len(counts) > len(records) else Certified.load(encoder)
    return _Place(known, records, counts, database)


def _check_labels(claim: Claim, label_cuts: str | None) -> None:
    """Refuse options on labels that the metric does not look at."""
    if claim.positive is not None and claim.metric != "equal_opportunity":
        raise ArgumentError(f"--positive would be ignored with --metric {claim.metric}: it is for equal_opportunity.")
    if label_cuts is not None and not claim.labelled:
        raise ArgumentError(f"--label-cuts would be ignored with --metric {claim.metric}, which looks at no --label.")


@dataclass(frozen=True)
class _Asked:
    """What is to be certified: a claim about records that are read in one way, and the ledger that counts the look."""

    claim: Claim
    reading: Reading
    ledger: Ledger
    roles: RoleOptions
    each: bool = False

    def request(self, salt: str = "") -> CountRequest:
        """Say what is to be counted; the digest of an encoder makes checksums its own."""
        from certifare.engines.counting import CountRequest

        return CountRequest(
            labelled=self.claim.labelled,
            seed=self.roles.seed,
            salt=checksum_salt(salt),
            # A label that the metric does not look at is named in the document.
            recorded_label=None if self.claim.labelled else self.roles.named_label,
        )

    def certify(self, counted: CountedRecords) -> tuple[Certificate, Reading]:
        """Certify counts; the positive label is the one that was named, or the reading's."""
        import msgspec

        claim, reading = self.claim, self.reading
        if claim.metric == "equal_opportunity":
            claim = dataclasses.replace(claim, positive=claim.positive or reading.positive)
        if self.each:
            claim = dataclasses.replace(claim, each=reading.sensitive)
        certificate = counted.certify(claim)
        return certificate, msgspec.structs.replace(reading, positive=certificate.positive)


@dataclass(frozen=True)
class _Certified:
    """A certificate, and what its document and the ledger say besides.

    Attributes
    ----------
    certificate : Certificate
    context : dict
        The encoder, by its file or digest; the records' digest, if there is one; how they were read.
    traces : Traces or None
        Of the records, for the ledger; None if looks at them cannot be counted.
    column : FairTreeEncoder or None
        The encoder of a column that was certified itself.
    notes : tuple of str
    """

    certificate: Certificate
    context: dict[str, Any]
    traces: Traces | None
    column: Any = None
    notes: tuple[str, ...] = ()


def _certify(asked: _Asked, place: _Place, column: CertifiedColumn | None, reading: dict[str, Any]) -> _Certified:
    """Certify an encoder, or a column, wherever the records are."""
    if place.database.sql is not None:
        return _certify_database(asked, place, column)
    if place.counts:
        return _certify_counts(asked, place)
    if column is not None:
        return _certify_column(asked, place.records, column, reading)
    return _certify_files(asked, place, reading)


def _certify_files(asked: _Asked, place: _Place, reading: dict[str, Any]) -> _Certified:
    """Certify an encoder on files of records."""
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.encoders.records import load_fitted

    assert place.known is not None  # noqa: S101  (there is an encoder or a column)
    encoder = place.known.encoder
    fitted = load_fitted(encoder)
    source, table = read_source(fitted, place.records, asked.reading, labelled=asked.claim.labelled, **reading)
    counted = count_records(fitted, source, asked.reading, asked.request(digest(encoder)))
    return _of_records(asked, counted, table, {"encoder": encoder})


def _certify_column(
    asked: _Asked, data: Sequence[DataFile], column: CertifiedColumn, reading: dict[str, Any]
) -> _Certified:
    """Certify a column of files of records, each of which is read once."""
    from certifare.certification.certifying import TableSource, count_records

    fitted, table = column_of_files(data, column, asked.reading, labelled=asked.claim.labelled, **reading)
    named = write_column(fitted, None)
    counted = count_records(fitted, TableSource(table), asked.reading, asked.request(named["encoder_digest"]))
    return dataclasses.replace(_of_records(asked, counted, table, named), column=fitted)


def _of_records(asked: _Asked, counted: CountedRecords, table: Table | None, context: dict[str, Any]) -> _Certified:
    """Certify counts of records, and say what is known of them."""
    from certifare.certification.ledger import sizes_origin

    certificate, reading = asked.certify(counted)
    if table is None:
        traces = asked.ledger.origin(("checksum", str(counted.checksum)), sizes_origin(counted.counts))
        data_digest = None
    else:
        traces, data_digest = asked.ledger.trace(table), table.digest
    return _Certified(
        certificate, {**context, "data_digest": data_digest, "reading": reading}, traces, notes=counted.notes
    )


def _certify_database(asked: _Asked, place: _Place, column: CertifiedColumn | None) -> _Certified:
    """Certify an encoder, or a column, on a table that its database counts."""
    from certifare.encoders import load_encoder

    known, (address, table) = place.known, place.database.place
    fitted: Any = column.of_table(address, table) if column is not None else load_encoder(known.encoder)  # type: ignore[union-attr]
    counted = count_database(fitted, address, table, asked.reading, asked.request())
    certificate, reading = asked.certify(counted)
    named = write_column(fitted, None) if known is None else {"encoder": known.encoder}
    traces = trace_database(asked.ledger, address, table, counted.counts)
    context = {**named, "reading": reading}
    return _Certified(certificate, context, traces, None if column is None else fitted, counted.notes)


def _certify_counts(asked: _Asked, place: _Place) -> _Certified:
    """Certify an encoder on the counts of several holders."""
    from certifare.certificates.assumptions import READS_GROUP
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.encoders.records import check_cells

    known = place.known
    loaded = load_counts(place.counts)
    if known is None:
        pooled = pool(loaded)
        named: dict[str, Any] = {"encoder_digest": pooled.encoder}
    else:
        by_label = asked.claim.labelled and asked.claim.given is None
        wanted = asked.reading if by_label else asked.reading.unlabelled()
        pooled = pool(loaded, digest(known.encoder), wanted if known.document is not None else None)
        named = {"encoder": known.encoder}
        document = known.encoder.document
        check_cells(document.n_cells, pooled.counted.counts)
        if document.reads_groups != (READS_GROUP in pooled.counted.provenance.besides):
            raise CountsError(
                "The counts do not say what the encoder does with the group: count the records again with it."
            )
    _check_columns(asked.roles, pooled.reading)
    claim = dataclasses.replace(asked.claim, given=pooled.reading.given or None)
    asked = dataclasses.replace(asked, reading=pooled.reading, claim=claim)
    certificate, reading = asked.certify(pooled.counted)
    return _Certified(certificate, {**named, "reading": reading}, trace_counts(asked.ledger, loaded))


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


def _taken_over(known: Certified | None, asked: _Asked) -> tuple[str, ...]:
    """Say which columns are read as the bundle's certificate says, because they were not named."""
    if known is None or known.document is None:
        return ()
    notes = []
    if not asked.roles.groups and known.reading.sensitive:
        notes.append(f"groups are read from {', '.join(known.reading.sensitive)}, as in the certificate of the bundle")
    if asked.claim.given is not None and asked.roles.given is None:
        notes.append(f"groups are compared within {asked.claim.given}, as in the certificate of the bundle")
    elif asked.claim.labelled and asked.roles.named_label is None and known.reading.label is not None:
        notes.append(f"labels are read from {known.reading.label}, as in the certificate of the bundle")
    for name, role in (("weights", known.reading.weight), ("clusters", known.reading.cluster)):
        if role is not None:
            notes.append(f"records are drawn by the {name} {role}, as in the certificate of the bundle")
    return tuple(notes)


def _at_look(ledger: Ledger, certified: _Certified, looks: int | None) -> Certificate:
    """Count a look before anyone sees what it found, and say so in the certificate."""
    from certifare.certification.ledger import statement_of
    from certifare.document import digest

    certificate = certified.certificate
    if certified.traces is None:
        if looks is not None:
            raise LooksError(
                "Looks at records that were drawn, or have no checksum, cannot be counted: leave --looks out."
            )
        return certificate
    encoder = certified.context.get("encoder_digest") or digest(certified.context["encoder"])
    return certificate.at_look(
        ledger.count(certified.traces, [statement_of(encoder, certificate)], certificate.confidence, looks)
    )


def _show(certificate: Certificate, notes: Sequence[str], written: Sequence[str]) -> None:
    """Print the certificate; what was left out, looks and notes go to standard error."""
    out.print(printable(str(certificate)), soft_wrap=True)
    show_left_out(certificate.exclusions)
    for words in (*certificate.cap_words, certificate.look_words):
        err.print(words, soft_wrap=True)
    show_notes(notes)
    for words in written:
        err.print(words, soft_wrap=True)
