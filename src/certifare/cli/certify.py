"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    MetricName,
    Population,
    RowKey,
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
    one_label,
    out,
    printable,
    second_file,
    show_left_out,
    show_notes,
    signing_key,
)
from certifare.cli.from_counts import Published, certify_database, certify_files, counts_files
from certifare.cli.options import CsvOptions, with_options
from certifare.cli.support import of_file, refuse_ignored

if TYPE_CHECKING:
    from certifare.certificates import Certificate


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
    metric: MetricName = "demographic_parity",
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
    row_key: RowKey = None,
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
    from certifare.certification import certify as certify_records
    from certifare.document import digest
    from certifare.engines.counting import Naming
    from certifare.errors import ArgumentError, LabelsRequiredError, MissingGroupError
    from certifare.ledger import open_ledger
    from certifare.records import load_fitted, read_records
    from certifare.roles import Roles
    from certifare.table import POOLED

    if column is not None:
        data, encoder = [*([] if encoder is None else [encoder]), *(data or ())], None
    elif encoder is None:
        raise ArgumentError("Which encoder? Name its file or bundle; or the column to certify, with --column.")
    files = [] if sql is not None or encoder is None else counts_files(encoder, data or ())
    if sql is not None:
        refuse_ignored(context, "sql", *(("hashed",) if weight is not None or cluster is not None else ()))
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
    reading = csv.reading()
    if max_bound is not None and not 0.0 <= max_bound <= 1.0:
        raise ArgumentError(f"--max {max_bound}: a distance between groups lies in [0, 1].")
    named_label = one_label(label)
    found = open_ledger(ledger)
    claim: dict[str, Any] = {
        "metric": metric,
        "confidence": found.confidence_of_look(confidence, looks),
        "method": method,
        "candidates": candidates,
        "min_group_size": min_group_size,
    }
    labelled = metric_of(metric).labelled
    known = None if encoder is None or encoder in files else Published.beside(encoder_file(encoder))
    notes: tuple[str, ...] = ()
    naming = Naming()
    if not files and not sensitive and known is not None and known.sensitive:
        sensitive = list(known.sensitive)
        if named_label is None and labelled:
            named_label = known.label
        naming = known.naming(named_label if labelled else None)
        notes = (f"groups are read from {', '.join(sensitive)}, as in the certificate of the bundle",)
    if label_cuts is not None:
        if named_label is None:
            raise ArgumentError("--label-cuts cuts a label: name its column with --label.")
        naming = replace(naming, label=named_label, cuts=Roles.of(label_cuts=cuts_of(label_cuts)).label_cuts)
    if sql is not None or files:
        roles: dict[str, Any] = {"sensitive": listed(sensitive), "label": named_label}
        if sql is not None:
            counted = certify_database(
                encoder if column is None else encoder_of_table(sql, str(table_name), column, cuts),
                sql,
                str(table_name),
                **roles,
                unknown_groups=unknown_groups,
                weight=weight,
                cluster=cluster,
                population=population,
                key=listed(row_key),
                seed=seed,
                naming=naming,
                **claim,
            )
        else:
            counted = certify_files(None if encoder in files else encoder, files, **roles, **claim)
        if counted.column is not None:
            counted.context.update(write_column(counted.column, None))
        about = {**counted.context, "suppress_below": suppress, "dataset": dataset, "command": command_line(context)}
        digested = about.get("encoder_digest") or digest(about["encoder"])
        traces = None if counted.origins is None else found.origin(*counted.origins)
        certificate = _at_look(found, traces, digested, counted.certificate, looks)
        if encoder_output is not None and counted.column is not None:
            write_column(counted.column, encoder_output)
        _finish(certificate, output, key, max_bound, as_json, (*notes, *_not_counted(found)), **about)
        return
    if not sensitive:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    if labelled and named_label is None:
        raise LabelsRequiredError(f"--metric {metric} looks at records of each label: name their column with --label.")
    named: dict[str, Any]
    certify_table: Any
    if column is None:
        named = {"encoder": encoder_file(encoder)}  # type: ignore[arg-type]  # one or the other, as was checked
        fitted = load_fitted(named["encoder"])
        certify_table, digested = certify_records, digest(named["encoder"])
        if cap is None and weight is not None and cluster is None and method != "lemmas" and known is not None:
            # It was chosen on other records than these.
            tail = known.document.certificate.tail
            cap = None if tail is None else tail.cap
    else:
        from certifare.certification import certify_as_column

        fitted = encoder_of_file(data, column, cuts, **reading)  # type: ignore[arg-type]  # there are some, as was checked
        named = write_column(fitted, None)
        certify_table, digested = certify_as_column, named["encoder_digest"]
    table = read_records(
        fitted,
        data if len(data) > 1 else data[0],  # type: ignore[arg-type, index]  # there are some, as was checked
        sensitive=listed(sensitive),
        label=named_label,
        labelled=labelled,
        weight=weight,
        cluster=cluster,
        missing_groups="unknown" if unknown_groups else "drop",
        **reading,
        **second_file(sensitive_file, on),
        label_cuts=naming.cuts if labelled else None,
    )
    if POOLED in naming.groups:
        # Which groups these are was fixed before these records were looked at.
        table = table.pooled(naming.groups)
    certificate = certify_table(
        fitted,
        table.features,
        table.labels[0] if table.labels else None,
        sensitive_features=table.groups,
        positive=table.positive,
        weights=table.weights,
        cap=cap,
        clusters=table.clusters,
        population=population,
        seed=seed,
        exclusions=table.exclusions,
        **claim,
    )
    certificate = _at_look(found, found.trace(table), digested, certificate, looks)
    if encoder_output is not None:
        write_column(fitted, encoder_output)
    _finish(
        certificate,
        output,
        key,
        max_bound,
        as_json,
        (*notes, *table.notes, *_not_counted(found)),
        **named,
        data_digest=table.digest,
        suppress_below=suppress,
        dataset=dataset,
        columns={"sensitive": listed(sensitive), "label": named_label},
        command=command_line(context),
    )


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
