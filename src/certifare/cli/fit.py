"""``certifare fit``: a table goes in; an encoder with its certificate and a report comes out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.arguments import check_distance, signing_key
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import (
    Address,
    CsvFormat,
    Json,
    Options,
    Replace,
    RequiredLabel,
    RequiredSensitive,
    SearchOptions,
    SuppressOptions,
    TablePath,
    Verbose,
    declare,
    option,
    with_options,
)
from certifare.cli.printing import show_bundle
from certifare.cli.progress_bars import stages
from certifare.cli.published import command_line
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit
from certifare.errors import ArgumentError


class GoalOptions(Options):
    """What a certificate has to reach, and where the work is done."""

    target: float | None = option(None, "The largest T* to accept; without it, the knee of the frontier is certified.")
    engine: Address | None = option(
        None,
        "Work on a cluster, which reads the Parquet files itself: dask://host:8786, spark://host:7077; dask: starts "
        "workers on this machine, spark: a session as configured here.",
        parser=Address,
        metavar="ADDRESS",
        rare=True,
        needs="binary",
    )


@with_options
def fit(
    context: typer.Context,
    data: TablePath,
    label: RequiredLabel,
    sensitive: RequiredSensitive,
    *,
    goal: GoalOptions,
    output: Annotated[Path, declare(None, "Folder for the bundle.", "--output", "-o")] = Path("certifare-bundle"),
    replace: Replace = False,
    search: SearchOptions,
    published: SuppressOptions,
    csv: CsvFormat,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Find an encoder that keeps most of the label and whose certificate meets a target, and write it as a bundle.

    The table is split at random: encoders are fitted on one part and put in order on another, from safe to bold. Then
    they are tested in that order, each at full ε, on records that were not looked at before, until one fails; the last
    that passed is taken. If cells may read the group, the other records set its thresholds instead, by a plan
    whose bound is known beforehand. Exit status 1 means that no encoder meets the target: nothing is written then. A
    Parquet file too large for memory is read as a stream, or on a cluster (--engine): encoders are compared on a sample
    of it.
    """
    from certifare.bundle import check_output, produce
    from certifare.engines.clusters import open_on
    from certifare.frontier.large import is_large

    terms = published.terms()
    large = goal.engine is not None or is_large(data)
    refuse_ignored(context, *search.conditions(data, large=large), *(() if as_json else ("printed",)))
    check_distance("--target", goal.target)
    if published.suppress is not None and search.group_aware:
        raise ArgumentError(
            "--suppress: the counts of calibrated cells are their plan, which T* is computed from. Leave it out."
        )
    check_output(output, replace=replace)
    signer = signing_key(published.key)
    with (
        stages(quiet=as_json) as progress,
        nullcontext(data) if goal.engine is None else open_on(goal.engine, data) as table,
    ):
        progress(f"reading {data.name}", 0, 1)
        bundle = produce(
            table,
            label=tuple(label),
            sensitive=tuple(sensitive),
            target=goal.target,
            progress=progress,
            **search.keywords(csv),
        )
        solved = bundle.verdict != "NO SOLUTION"
        if solved:
            progress("writing the report", 0, 1)
            named = {"suppress": published.suppress, "terms": terms, "command": command_line(context)}
            bundle.save(output, key=signer, replace=replace, **named)  # type: ignore[arg-type]
    emit(
        {**bundle.to_dict(), "bundle": str(output) if solved else None, "signed": solved and signer is not None},
        as_json,
        lambda: show_bundle(bundle, output if solved else None, signed=signer is not None, verbose=verbose),
        outcome=bundle.verdict,
        status=0 if solved else REFUSED,
    )
