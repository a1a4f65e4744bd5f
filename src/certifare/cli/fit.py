"""``certifare fit``: a table goes in; an encoder with its certificate and a report comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.common import (
    READING,
    REFUSED,
    Dataset,
    Json,
    Key,
    RequiredLabel,
    RequiredSensitive,
    command_line,
    emit,
    listed,
    signing_key,
    stages,
)
from certifare.cli.options import CsvOptions, SearchOptions, with_options
from certifare.cli.result import show_bundle
from certifare.cli.scored import ScoresFile, check_scores, write_scores
from certifare.cli.support import of_search, refuse_ignored


@with_options
def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.")],
    label: RequiredLabel = None,
    sensitive: RequiredSensitive = None,
    target: Annotated[
        float | None, typer.Option(help="The largest T* to accept; without it, the knee of the frontier is certified.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundle.")] = Path("certifare-bundle"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the folder if it is a bundle.", rich_help_panel=READING)
    ] = False,
    *,
    search: SearchOptions,
    key: Key = None,
    suppress: Annotated[
        int | None,
        typer.Option(
            help="Pool cells with fewer records of a group in the certificate; T* stays.",
            min=2,
            rich_help_panel=READING,
        ),
    ] = None,
    scores: ScoresFile = None,
    dataset: Dataset = None,
    csv: CsvOptions,
    as_json: Json = False,
) -> None:
    """Find an encoder that keeps most of the label and whose certificate meets a target, and write it as a bundle.

    The table is split at random: encoders are fitted on one part and put in order on another, from safe to bold. Then
    they are tested in that order, each at full ε, on records that were not looked at before, until one fails; the last
    that passed is taken. Exit status 1 means that none did: nothing is written then. A Parquet file too large for
    memory is read as a stream: encoders are compared on a sample of it.
    """
    from certifare.bundle import check_output, produce
    from certifare.errors import GroupError, RoleError
    from certifare.frontier.parquet_search import is_large

    refuse_ignored(context, *of_search(data, search.metric, search.kind, large=is_large(data)))
    if not label:
        raise RoleError("Which column is to be predicted? Pass --label.")
    if not sensitive:
        raise GroupError("Which column holds the groups? Pass --sensitive.")
    check_output(output, replace=replace)
    check_scores(scores)
    signer = signing_key(key)
    grid, reading = search.grid(), csv.reading()
    with stages(quiet=as_json) as progress:
        progress(f"reading {data.name}", 0, 1)
        bundle = produce(
            data,
            label=listed(label),
            sensitive=listed(sensitive),
            **search.table(),
            **reading,
            **search.claim(),
            **search.how(),
            label_quantiles=search.label_quantiles,
            target=target,
            min_cells=search.min_cells,
            grid=grid,
            n_jobs=search.jobs,
            ledger=search.ledger,
            progress=progress,
        )
        solved = bundle.verdict != "NO SOLUTION"
        if solved:
            progress("writing the report", 0, 1)
            bundle.save(
                output,
                key=signer,
                suppress=suppress,
                dataset=dataset,
                command=command_line(context),
                replace=replace,
            )
            if scores is not None:
                progress("writing the scores", 0, 1)
                write_scores(bundle.encoder, data, scores, reading)
    emit(
        {**bundle.to_dict(), "bundle": str(output) if solved else None, "signed": solved and key is not None},
        as_json,
        lambda: show_bundle(bundle, output if solved else None, signed=key is not None),
    )
    if not solved:
        raise typer.Exit(REFUSED)
