"""``certifare certify``: an encoder and fresh records go in, a certificate comes out."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.common import (
    REFUSED,
    Cluster,
    Confidence,
    Delimiter,
    Encoding,
    Json,
    Key,
    Label,
    MetricName,
    MissingMarker,
    Seed,
    Sensitive,
    Weight,
    emit,
    encoder_file,
    err,
    listed,
    out,
    printable,
)


def certify(
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    data: Annotated[Path, typer.Argument(help="Records that played no part in fitting: CSV, Parquet or Arrow.")],
    sensitive: Sensitive = None,
    label: Label = None,
    metric: MetricName = "demographic_parity",
    confidence: Confidence = 0.95,
    method: Annotated[str, typer.Option(help="exact, mcdiarmid, or lemmas (the paper's).")] = "exact",
    candidates: Annotated[int, typer.Option(help="Encoders certified on these records to choose from.")] = 1,
    weight: Weight = None,
    cluster: Cluster = None,
    min_group_size: Annotated[int, typer.Option(help="Refuse groups with fewer records.")] = 30,
    unknown_groups: Annotated[
        bool, typer.Option(help="Count records without a group as a group of their own, instead of leaving them out.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--out", help="Write the certificate to this file.")] = None,
    key: Key = None,
    suppress: Annotated[
        int | None, typer.Option(help="Pool cells with fewer records of a group in the file; T* stays as it is.")
    ] = None,
    max_bound: Annotated[float | None, typer.Option("--max", help="Exit with status 1 if T* is above this.")] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: MissingMarker = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Certify an encoder on records that it has not seen.

    The result bounds the distance between groups of every classifier on the cells.
    """
    from certifare.certificates import certify as certify_records
    from certifare.encoders import load_encoder
    from certifare.errors import ArgumentError, LabelsRequiredError, MissingGroupError
    from certifare.files import MISSING
    from certifare.table import read_table

    file = encoder_file(encoder)
    fitted = load_encoder(file)
    if not sensitive:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    if metric != "demographic_parity" and not label:
        raise LabelsRequiredError(f"--metric {metric} looks at records of each label: name their column with --label.")
    if max_bound is not None and not 0.0 <= max_bound <= 1.0:
        raise ArgumentError(f"--max {max_bound}: a distance between groups lies in [0, 1].")
    if output is None and (key is not None or suppress is not None):
        raise ArgumentError("--key and --suppress are about the certificate's file: name it with --out.")
    table = read_table(
        data,
        label=listed(label),
        sensitive=listed(sensitive),
        weight=weight,
        cluster=cluster,
        categorical=[c.name for c in fitted.columns_ if c.type == "text"],
        missing_groups="unknown" if unknown_groups else "drop",
        delimiter=delimiter,
        encoding=encoding,
        missing=listed(missing) or MISSING,
    )
    certificate = certify_records(
        fitted,
        table.features,
        table.y,
        sensitive_features=table.sensitive,
        metric=metric,
        confidence=confidence,
        method=method,
        candidates=candidates,
        positive=table.positive,
        weights=table.weights,
        clusters=table.clusters,
        min_group_size=min_group_size,
        seed=seed,
        exclusions=table.exclusions,
    )
    if output is not None:
        from certifare.cli.key import signing_key
        from certifare.document import write_document

        signer = None if key is None else signing_key(key)
        write_document(
            output,
            certificate,
            signer,
            encoder=file,
            data_digest=table.digest,
            suppress_below=suppress,
            columns={"sensitive": listed(sensitive), "label": label[0] if label else None},
            command=shlex.join(["certifare", *sys.argv[1:]]),
        )

    def show() -> None:
        out.print(printable(str(certificate)), markup=False, soft_wrap=True)
        for exclusion in certificate.exclusions:
            err.print(f"left out: {exclusion.records:,} records ({exclusion.reason})", markup=False)
        for note in table.notes:
            err.print(f"note: {note}", markup=False)
        if output is not None:
            err.print(f"written to {output}" + (", signed" if key else ", not signed"), markup=False)

    emit(certificate.to_dict(), as_json, show)
    if max_bound is not None and certificate.bound > max_bound:
        err.print(f"T* = {certificate.bound:.6f} is above --max {max_bound}", markup=False)
        raise typer.Exit(REFUSED)
