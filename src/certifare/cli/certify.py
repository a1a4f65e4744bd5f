"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.column import ColumnName, Cuts, EncoderOutput, encoder_of_file, encoder_of_table, write_column
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
    Population,
    PositiveLabel,
    Seed,
    Sensitive,
    SensitiveFile,
    Sql,
    TableName,
    Weight,
    command_line,
    cuts_of,
    emit,
    encoder_file,
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
from certifare.cli.from_counts import Published, certify_database, certify_files, counts_files, positive_label
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored

if TYPE_CHECKING:
    from certifare.certificates import Certificate
    from certifare.cli.from_counts import CountedCertificate
    from certifare.engines.counting import Naming
    from certifare.ledger import Ledger, Traces
    from certifare.table import Table


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
    population: Population = "clusters",
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
    from certifare.certificates.claims import metric_of
    from certifare.document import digest
    from certifare.errors import ArgumentError
    from certifare.ledger import open_ledger
    from certifare.records import load_fitted

    data = data or []
    if column is not None:
        data, encoder = [*([] if encoder is None else [encoder]), *data], None
    elif encoder is None:
        raise ArgumentError("Which encoder? Name its file or bundle; or the column to certify, with --column.")
    files = [] if sql is not None or encoder is None else counts_files(encoder, data)
    _check_source(context, data, files, sql=sql, table_name=table_name, weight=weight, cluster=cluster)
    reading = csv.reading()
    if max_bound is not None and not 0.0 <= max_bound <= 1.0:
        raise ArgumentError(f"--max {max_bound}: a distance between groups lies in [0, 1].")
    named_label = single_label(label)
    found = open_ledger(ledger)
    claim: dict[str, Any] = {
        "confidence": found.confidence_of_look(confidence, looks),
        "method": method,
        "candidates": candidates,
        "min_group_size": min_group_size,
    }
    known = None if encoder is None or encoder in files else Published.beside(encoder_file(encoder))
    metric = metric or ("demographic_parity" if known is None else known.metric)
    claim["metric"] = metric
    labelled = metric_of(metric).labelled
    if positive is not None and metric != "equal_opportunity":
        raise ArgumentError(f"--positive would be ignored with --metric {metric}: it is for equal_opportunity.")
    columns = _columns(listed(sensitive), named_label, label_cuts, labelled=labelled, known=None if files else known)
    if sql is not None:
        counted = certify_database(
            encoder if column is None else encoder_of_table(sql, str(table_name), column, cuts),
            sql,
            str(table_name),
            sensitive=columns.sensitive,
            label=columns.label,
            unknown_groups=unknown_groups,
            naming=columns.naming,
            positive=positive,
            known=known,
            **claim,
        )
        certified = _of_counts(counted, found)
    elif files:
        own = None if encoder in files else encoder
        counted = certify_files(
            own, files, sensitive=columns.sensitive, label=columns.label, positive=positive, known=known, **claim
        )
        certified = _of_counts(counted, found)
    else:
        columns.check(metric)
        if encoder is None:
            fitted: Any = encoder_of_file(data, str(column), cuts, **reading)
        else:
            fitted = load_fitted(encoder_file(encoder))
        if cap is None and weight is not None and cluster is None and method != "lemmas" and known is not None:
            cap = known.cap
        table = _read(
            fitted,
            data,
            columns,
            second=(sensitive_file, on),
            weight=weight,
            cluster=cluster,
            missing_groups="unknown" if unknown_groups else "drop",
            **reading,
        )
        claim["positive"] = positive_label(positive, metric, columns.label, known) or table.positive
        certified = _of_table(
            encoder, fitted, table, columns, found, cap=cap, population=population, seed=seed, **claim
        )
    digested = certified.context.get("encoder_digest") or digest(certified.context["encoder"])
    certificate = _at_look(found, certified.traces, digested, certified.certificate, looks)
    if encoder_output is not None and certified.column is not None:
        write_column(certified.column, encoder_output)
    _finish(
        certificate,
        output,
        key,
        max_bound,
        as_json,
        (*columns.notes, *certified.notes, *_not_counted(found)),
        **certified.context,
        suppress_below=suppress,
        dataset=dataset,
        command=command_line(context),
    )


def _check_source(
    context: typer.Context,
    data: Sequence[Path],
    files: Sequence[Path],
    *,
    sql: str | None,
    table_name: str | None,
    weight: str | None,
    cluster: str | None,
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
        capped = ("capped",) if weight is not None and cluster is None else ()
        refuse_ignored(context, *of_file(*data), *capped)


@dataclass(frozen=True)
class _Columns:
    """Where groups and labels are read from, and how they are named.

    Attributes
    ----------
    sensitive : tuple of str
    label : str or None
    labelled : bool
        Whether the metric looks at labels.
    naming : Naming
    notes : tuple of str
        What was not said on the command line.
    """

    sensitive: tuple[str, ...]
    label: str | None
    labelled: bool
    naming: Naming
    notes: tuple[str, ...]

    def check(self, metric: str) -> None:
        """Refuse to read records if nobody says where the groups are, or the labels that the metric looks at."""
        from certifare.errors import LabelsRequiredError, MissingGroupError

        if not self.sensitive:
            raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
        if self.labelled and self.label is None:
            raise LabelsRequiredError(
                f"--metric {metric} looks at records of each label: name their column with --label."
            )


def _columns(
    sensitive: tuple[str, ...], label: str | None, label_cuts: str | None, *, labelled: bool, known: Published | None
) -> _Columns:
    """Take the columns that were named; if none of groups were, those of the bundle's certificate."""
    from certifare.engines.counting import Naming
    from certifare.errors import ArgumentError
    from certifare.roles import Roles

    naming = Naming()
    notes: tuple[str, ...] = ()
    if label is None and labelled and known is not None and known.label is not None:
        label = known.label
        naming = replace(naming, label=label, cuts=known.cuts)
        notes += (f"labels are read from {label}, as in the certificate of the bundle",)
    if not sensitive and known is not None and known.sensitive:
        sensitive = known.sensitive
        naming = known.naming(label if labelled else None)
        notes = (f"groups are read from {', '.join(sensitive)}, as in the certificate of the bundle", *notes)
    if label_cuts is not None:
        if label is None:
            raise ArgumentError("--label-cuts cuts a label: name its column with --label.")
        naming = replace(naming, label=label, cuts=Roles.of(label_cuts=cuts_of(label_cuts)).label_cuts)
    return _Columns(sensitive, label, labelled, naming, notes)


def _read(
    fitted: Any, data: Sequence[Path], columns: _Columns, *, second: tuple[Path | None, str | None], **options: Any
) -> Table:
    """Read the records of one file or several, and of a second one that holds their sensitive columns."""
    from certifare.records import read_records
    from certifare.table import POOLED

    table = read_records(
        fitted,
        data if len(data) > 1 else data[0],
        sensitive=columns.sensitive,
        label=columns.label,
        labelled=columns.labelled,
        label_cuts=columns.naming.cuts if columns.labelled else None,
        **second_file(*second),
        **options,
    )
    # Which groups are pooled was fixed before these records were looked at.
    return table.pooled(columns.naming.groups) if POOLED in columns.naming.groups else table


@dataclass(frozen=True)
class _Certified:
    """A certificate, and what its document and the ledger say besides.

    Attributes
    ----------
    certificate : Certificate
    context : dict
        The encoder, by its file or digest; the records' digest where there is one; the columns.
    traces : Traces or None
        Of the records, for the ledger; None where looks at them cannot be counted.
    column : FairTreeEncoder or None
        The encoder of a column that was certified itself.
    notes : tuple of str
    """

    certificate: Certificate
    context: dict[str, Any]
    traces: Traces | None
    column: Any = None
    notes: tuple[str, ...] = ()


def _of_counts(counted: CountedCertificate, ledger: Ledger) -> _Certified:
    """Take a certificate from counts alone."""
    named = {} if counted.column is None else write_column(counted.column, None)
    traces = None if counted.origins is None else ledger.origin(*counted.origins)
    return _Certified(counted.certificate, {**counted.context, **named}, traces, counted.column)


def _of_table(
    encoder: Path | None, fitted: Any, table: Table, columns: _Columns, ledger: Ledger, **options: Any
) -> _Certified:
    """Certify an encoder on a table; if it is in no file, as that of a column."""
    from certifare.certification import certify as certify_records
    from certifare.certification import certify_as_column

    column = fitted if encoder is None else None
    certificate = (certify_records if column is None else certify_as_column)(
        fitted,
        table.features,
        table.labels[0] if table.labels else None,
        sensitive_features=table.groups,
        weights=table.weights,
        clusters=table.clusters,
        exclusions=table.exclusions,
        **options,
    )
    named = write_column(fitted, None) if encoder is None else {"encoder": encoder_file(encoder)}
    read = {"data_digest": table.digest, "columns": {"sensitive": columns.sensitive, "label": columns.label}}
    return _Certified(certificate, {**named, **read}, ledger.trace(table), column, table.notes)


def _at_look(ledger: Any, traces: Any, encoder: str, certificate: Certificate, looks: int | None) -> Certificate:
    """Count a look before anyone sees what it found, and say so in the certificate."""
    from certifare.errors import LooksError
    from certifare.ledger import statement_of

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
        from certifare.certificates.certificate import round_up

        err.print(f"T* = {round_up(certificate.bound, 6)} is above --max {max_bound}")
        raise typer.Exit(REFUSED)
