"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from certifare.cli.column import ColumnName, Cuts, EncoderOutput, column_of_files, encoder_of_table, write_column
from certifare.cli.common import (
    REFUSED,
    Cap,
    Cluster,
    Confidence,
    CountUnknownGroups,
    Dataset,
    JoinKey,
    Json,
    KeepLedger,
    Key,
    Label,
    LabelCuts,
    Looks,
    OwnMetric,
    OwnPopulation,
    PositiveLabel,
    Seed,
    Sensitive,
    SensitiveFile,
    Sql,
    TableName,
    Weight,
    check_distance,
    command_line,
    cuts_of,
    emit,
    err,
    listed,
    out,
    printable,
    second_file,
    show_left_out,
    show_notes,
    signing_key,
    single_label,
)
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.sources import (
    Certified,
    checksum_salt,
    count_database,
    counts_files,
    load_counts,
    read_as,
    read_source,
    trace_counts,
    trace_database,
)
from certifare.cli.support import draw_conditions, of_file, refuse_ignored
from certifare.tables.reading import Reading

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import Ledger, Traces
    from certifare.encoders import FairTreeEncoder
    from certifare.encoders.format import EncoderFile
    from certifare.engines.counting import CountedRecords, CountRequest
    from certifare.tables.files import DataFile
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
    column: ColumnName = None,
    cuts: Cuts = None,
    sensitive: Sensitive = None,
    label: Label = None,
    metric: OwnMetric = None,
    positive: PositiveLabel = None,
    confidence: Confidence = 0.95,
    method: Annotated[str, typer.Option(help="exact, mcdiarmid, or lemmas (the paper's).")] = "exact",
    candidates: Annotated[int, typer.Option(help="Encoders certified on these records to choose from.")] = 1,
    looks: Looks = None,
    ledger: KeepLedger = True,
    label_cuts: LabelCuts = None,
    sensitive_file: SensitiveFile = None,
    on: JoinKey = None,
    weight: Weight = None,
    cap: Cap = None,
    cluster: Cluster = None,
    population: OwnPopulation = None,
    min_group_size: Annotated[int, typer.Option(help="Refuse groups with fewer records.")] = 30,
    unknown_groups: CountUnknownGroups = False,
    sql: Sql = None,
    table_name: TableName = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the certificate to this file.")] = None,
    encoder_output: EncoderOutput = None,
    key: Key = None,
    suppress: Annotated[
        int | None, typer.Option(help="Pool cells with fewer records of a group in the file; T* stays as it is.")
    ] = None,
    dataset: Dataset = None,
    max_bound: Annotated[float | None, typer.Option("--max", help="Exit with status 1 if T* is above this.")] = None,
    *,
    csv: CsvOptions,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Certify an encoder on records that it has not seen.

    The result bounds the distance between groups of every classifier on the cells. The records can stay where they
    are: in a database that counts them (--sql, --table), or with several holders who send their counts files.
    With --column there is no encoder: the bound is about every rule that reads only that column of the records.
    """
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import open_ledger
    from certifare.document import digest
    from certifare.errors import ArgumentError
    from certifare.tables.files import DataFile

    check_distance("--max", max_bound)
    data = data or []
    if column is not None:
        data, encoder = [*([] if encoder is None else [encoder]), *data], None
    elif encoder is None:
        raise ArgumentError("Which encoder? Name its file or bundle; or the column to certify, with --column.")
    records = [DataFile(path) for path in data]
    files = [] if sql is not None or encoder is None else counts_files(records, encoder)
    # With one more counts file than there are data, the first argument is one itself.
    known = None if encoder is None or len(files) > len(records) else Certified.load(encoder)
    base = known.reading if known is not None else Reading()
    drawn = draw_conditions(weight or base.weight, cluster or base.cluster, population or base.population)
    _check_source(context, records, files, drawn, sql=sql, table_name=table_name)
    book = open_ledger(ledger)
    claim = Claim(
        metric=metric or (known.metric if known is not None else "demographic_parity"),
        confidence=book.confidence_of_look(confidence, looks),
        method=method,
        candidates=candidates,
        positive=positive,
        min_group_size=min_group_size,
    )
    if positive is not None and claim.metric != "equal_opportunity":
        raise ArgumentError(f"--positive would be ignored with --metric {claim.metric}: it is for equal_opportunity.")
    if label_cuts is not None and not claim.labelled:
        raise ArgumentError(f"--label-cuts would be ignored with --metric {claim.metric}, which looks at no --label.")
    reading = read_as(
        base if method != "lemmas" else msgspec.structs.replace(base, cap=None),
        sensitive=listed(sensitive),
        label=single_label(label),
        label_cuts=None if label_cuts is None else cuts_of(label_cuts),
        unknown_groups=unknown_groups,
        weight=weight,
        cap=cap,
        cluster=cluster,
        population=population,
        missing_words=(*base.missing_words, *listed(csv.missing)) or None,
        decimal=csv.decimal,
    )
    asked = _Asked(claim, reading, book, seed, recorded=single_label(label) if not claim.labelled else None)
    if sql is not None:
        of_column = None if column is None else encoder_of_table(sql, str(table_name), column, cuts)
        certified = _certify_database(asked, known, of_column, sql, str(table_name))
    elif files:
        certified = _certify_counts(asked, known, files, listed(sensitive), single_label(label))
    else:
        options = {**second_file(sensitive_file, on), **csv.reading()}
        certified = (
            _certify_column(asked, records, str(column), cuts, **options)
            if known is None
            else _certify_files(asked, known.encoder, records, **options)
        )
    digested = certified.context.get("encoder_digest") or digest(certified.context["encoder"])
    certificate = _at_look(book, certified.traces, digested, certified.certificate, looks)
    if encoder_output is not None and certified.column is not None:
        write_column(certified.column, encoder_output)
    _finish(
        certificate,
        output,
        key,
        max_bound,
        as_json,
        (*_taken_over(known, listed(sensitive), single_label(label), claim), *certified.notes, *_not_counted(book)),
        **certified.context,
        suppress_below=suppress,
        dataset=dataset,
        command=command_line(context),
    )


def _check_source(
    context: typer.Context,
    data: Sequence[DataFile],
    files: Sequence[DataFile],
    drawn: Sequence[str],
    *,
    sql: str | None,
    table_name: str | None,
) -> None:
    """Refuse records in two places or in none, and options that would do nothing where they are."""
    from certifare.errors import ArgumentError

    if sql is not None:
        refuse_ignored(context, "sql")
        if data:
            raise ArgumentError("Give either a file or --sql, not both.")
        if table_name is None:
            raise ArgumentError("--sql needs --table: the name of the table to count.")
    elif files:
        refuse_ignored(context, "counts")
    elif not data:
        raise ArgumentError("Which records? Name a file, counts files, or a database with --sql and --table.")
    else:
        refuse_ignored(context, *of_file(*data), *drawn)


@dataclass(frozen=True)
class _Asked:
    """What is to be certified: a claim about records that are read in one way, and the ledger that counts the look."""

    claim: Claim
    reading: Reading
    ledger: Ledger
    seed: int
    recorded: str | None = None  # a label that the metric does not look at, to be named in the document

    def request(self, salt: str = "") -> CountRequest:
        """Say what is to be counted; the digest of an encoder makes checksums its own."""
        from certifare.engines.counting import CountRequest

        return CountRequest(
            labelled=self.claim.labelled,
            seed=self.seed,
            salt=checksum_salt(salt),
            recorded_label=self.recorded,
            halves=self.claim.method == "lemmas",
        )

    def certify(self, counted: CountedRecords) -> tuple[Certificate, Reading]:
        """Certify counts; the positive label is the one that was named, or the reading's."""
        claim, reading = self.claim, self.reading
        if claim.metric == "equal_opportunity":
            claim = dataclasses.replace(claim, positive=claim.positive or reading.positive)
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


def _certify_files(asked: _Asked, encoder: EncoderFile, data: Sequence[DataFile], **options: Any) -> _Certified:
    """Certify an encoder on files of records."""
    from certifare.certification.certifying import count_records
    from certifare.document import digest
    from certifare.encoders.records import load_fitted

    fitted = load_fitted(encoder)
    source, table = read_source(fitted, data, asked.reading, labelled=asked.claim.labelled, **options)
    counted = count_records(fitted, source, asked.reading, asked.request(digest(encoder)))
    return _of_records(asked, counted, table, {"encoder": encoder})


def _certify_column(
    asked: _Asked, data: Sequence[DataFile], column: str, cuts: str | None, **options: Any
) -> _Certified:
    """Certify a column of files of records, each of which is read once."""
    from certifare.certification.certifying import TableSource, count_records

    fitted, table = column_of_files(data, column, cuts, asked.reading, labelled=asked.claim.labelled, **options)
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


def _certify_database(
    asked: _Asked, known: Certified | None, column: FairTreeEncoder | None, address: str, table: str
) -> _Certified:
    """Certify an encoder, or a column, on a table that its database counts."""
    from certifare.encoders import load_encoder

    fitted = column if known is None else load_encoder(known.encoder)
    assert fitted is not None  # noqa: S101  (there is an encoder or a column)
    counted = count_database(fitted, address, table, asked.reading, asked.request())
    certificate, reading = asked.certify(counted)
    named = {"encoder": known.encoder} if known is not None else write_column(fitted, None)
    traces = trace_database(asked.ledger, address, table, counted.counts)
    return _Certified(certificate, {**named, "reading": reading}, traces, column, counted.notes)


def _certify_counts(
    asked: _Asked, known: Certified | None, files: Sequence[DataFile], sensitive: Sequence[str], label: str | None
) -> _Certified:
    """Certify an encoder on the counts of several holders."""
    from certifare.certificates.assumptions import READS_GROUP
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.encoders.records import check_cells
    from certifare.errors import ArgumentError, CountsError

    loaded = load_counts(files)
    if known is None:
        pooled = pool(loaded)
        named: dict[str, Any] = {"encoder_digest": pooled.encoder}
    else:
        wanted = asked.reading if asked.claim.labelled else asked.reading.unlabelled()
        pooled = pool(loaded, digest(known.encoder), wanted if known.document is not None else None)
        named = {"encoder": known.encoder}
        document = known.encoder.document
        check_cells(document.n_cells, pooled.counted.counts)
        if document.reads_groups != (READS_GROUP in pooled.counted.provenance.besides):
            raise CountsError(
                "The counts do not say what the encoder does with the group: count the records again with it."
            )
    if sensitive and tuple(sensitive) != pooled.reading.sensitive:
        raise ArgumentError(f"The counts are by {', '.join(pooled.reading.sensitive)}, not by {', '.join(sensitive)}.")
    if label is not None and label != pooled.reading.label:
        found = "have no labels" if pooled.reading.label is None else f"are by the label {pooled.reading.label!r}"
        raise ArgumentError(f"--label {label}: the counts {found}. Leave it out, or count with --label {label}.")
    asked = dataclasses.replace(asked, reading=pooled.reading)
    certificate, reading = asked.certify(pooled.counted)
    return _Certified(certificate, {**named, "reading": reading}, trace_counts(asked.ledger, loaded))


def _taken_over(known: Certified | None, sensitive: Sequence[str], label: str | None, claim: Claim) -> tuple[str, ...]:
    """Say which columns are read as the bundle's certificate says, because they were not named."""
    if known is None or known.document is None:
        return ()
    notes = []
    if not sensitive and known.reading.sensitive:
        notes.append(f"groups are read from {', '.join(known.reading.sensitive)}, as in the certificate of the bundle")
    if claim.labelled and label is None and known.reading.label is not None:
        notes.append(f"labels are read from {known.reading.label}, as in the certificate of the bundle")
    for name, role in (("weights", known.reading.weight), ("clusters", known.reading.cluster)):
        if role is not None:
            notes.append(f"records are drawn by the {name} {role}, as in the certificate of the bundle")
    return tuple(notes)


def _at_look(ledger: Any, traces: Any, encoder: str, certificate: Certificate, looks: int | None) -> Certificate:
    """Count a look before anyone sees what it found, and say so in the certificate."""
    from certifare.certification.ledger import statement_of
    from certifare.errors import LooksError

    if traces is None:
        if looks is not None:
            raise LooksError(
                "Looks at records that were drawn, or have no checksum, cannot be counted: leave --looks out."
            )
        return certificate
    return certificate.at_look(
        ledger.count(traces, [statement_of(encoder, certificate)], certificate.confidence, looks)
    )


def _not_counted(ledger: Any) -> tuple[str, ...]:
    return () if ledger.reason is None else (ledger.reason,)


def _finish(
    certificate: Certificate,
    output: Path | None,
    key: Path | None,
    max_bound: float | None,
    as_json: bool,
    notes: Sequence[str],
    **context: Any,
) -> None:
    """Write and print a certificate; end with status 1 if it is above the bound that was asked for."""
    if output is not None:
        from certifare.document import write_document

        write_document(output, certificate, signing_key(key), **context)

    def show() -> None:
        out.print(printable(str(certificate)), soft_wrap=True)
        show_left_out(certificate.exclusions)
        for words in certificate.cap_words:
            err.print(words, soft_wrap=True)
        err.print(certificate.look_words, soft_wrap=True)
        show_notes(notes)
        if output is not None:
            err.print(f"written to {output}" + (", signed" if key else ", not signed"))

    emit(certificate.to_dict(), as_json, show)
    if max_bound is not None and certificate.bound > max_bound:
        from certifare.certificates.rounding import round_up

        err.print(f"T* = {round_up(certificate.bound, 6)} is above --max {max_bound}")
        raise typer.Exit(REFUSED)
