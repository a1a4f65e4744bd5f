"""``certifare fit``: a table goes in; an encoder with its certificate and a report comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from certifare.cli.common import (
    READING,
    REFUSED,
    SEARCH,
    Dataset,
    Json,
    Key,
    RequiredLabel,
    RequiredSensitive,
    command_line,
    emit,
    err,
    listed,
    out,
    printable,
    stages,
)
from certifare.cli.options import CsvOptions, SearchOptions, with_options
from certifare.cli.scored import ScoresFile, check_scores, write_scores
from certifare.cli.support import of_search, refuse_ignored
from certifare.words import amount, one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certifare.bundle import Bundle, Measured
    from certifare.certificates import Interval

VERDICTS = {"PASS": "bold green", "NO SOLUTION": "bold red", "DONE": "bold"}


@with_options
def fit(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.", show_default=False)
    ] = None,
    label: RequiredLabel = None,
    sensitive: RequiredSensitive = None,
    target: Annotated[
        float | None, typer.Option(help="The largest T* to accept; without it, the knee of the frontier is certified.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundle.")] = Path("certifare-bundle"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the folder if it is a bundle.", rich_help_panel=READING)
    ] = False,
    swept: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder of a sweep (sweep --output): make a bundle of one of its points.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    point: Annotated[
        int | None, typer.Option(help="With --from: the number of the point.", min=0, rich_help_panel=SEARCH)
    ] = None,
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
    from certifare.errors import ArgumentError, MissingGroupError, RoleError
    from certifare.frontier.parquet_search import is_large
    from certifare.sweeps import bundle_from

    if swept is not None:
        refuse_ignored(context, "kept")
        if point is None:
            raise ArgumentError("Which point of the sweep? Pass --point; its table and its chart name them.")
    elif data is None:
        raise ArgumentError("Which table? Name a file, or a sweep that was kept with --from.")
    else:
        refuse_ignored(context, *of_search(data, search.metric, search.kind, large=is_large(data)))
        if not label:
            raise RoleError("Which column is to be predicted? Pass --label.")
        if not sensitive:
            raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    check_output(output, replace=replace)
    check_scores(scores)
    signer = _signer(key)
    grid, reading = search.grid(), csv.reading()
    with stages(quiet=as_json) as progress:
        progress(f"reading {(swept or data or Path()).name}", 0, 1)
        bundle = (
            bundle_from(swept, point, data=data, n_jobs=search.jobs, progress=progress)
            if swept is not None and point is not None
            else produce(
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
            if scores is not None and data is not None:
                progress("writing the scores", 0, 1)
                write_scores(bundle.encoder, data, scores, reading)
    emit(
        {**bundle.to_dict(), "bundle": str(output) if solved else None, "signed": solved and key is not None},
        as_json,
        lambda: show_bundle(bundle, output if solved else None, signed=key is not None),
    )
    if not solved:
        raise typer.Exit(REFUSED)


def _signer(key: Path | None) -> Any:
    if key is None:
        return None
    from certifare.cli.key import signing_key

    return signing_key(key)


def show_bundle(bundle: Bundle, folder: Path | None, *, signed: bool) -> None:
    """Print a result: the verdict, the certificate, the frontier, and where the report is."""
    from certifare.cli.chart import draw_points

    out.print(Panel(_verdict(bundle), expand=False, padding=(1, 2)))
    facts = Grid.grid(padding=(0, 3))
    for name, text in _facts(bundle):
        facts.add_row(name, printable(text))
    out.print(facts)
    out.print()
    width = max(20, min(60, out.width - 12))
    points, utility = bundle.frontier.points, bundle.frontier.utility
    out.print(draw_points(points, _front(bundle), bundle.point, bundle.target, utility=utility, width=width))
    if folder is not None:
        out.print()
        # Paths are printed as they are, however long: they are there to be copied.
        unsigned = "" if signed else " (not signed)"
        out.print(f"report        {folder / 'report.html'!s}", soft_wrap=True)
        out.print(f"certificate   {folder / 'certificate.json'!s}{unsigned}", soft_wrap=True)
        out.print(f"next          certifare encode {folder!s} DATA OUTPUT", soft_wrap=True)
        out.print(f"              certifare verify {folder!s}", soft_wrap=True)
        return
    out.print("\nWhat would help", style="bold")
    for advice in bundle.advice:
        out.print(f"  • {advice.text}", soft_wrap=True)
    err.print(
        "Nothing was written. Running again with other seeds until one passes would void the certificate.",
        style="dim",
        soft_wrap=True,
    )


def _verdict(bundle: Bundle) -> Text:
    from certifare.certificates.certificate import percent, round_up

    asked = "" if bundle.target is None else f"  target {bundle.target:g}"
    verdict = Text.assemble((bundle.verdict, VERDICTS[bundle.verdict]), f"{asked}\n\n")
    certificate = bundle.certificate
    if certificate is None:
        if bundle.tested and not any(entry.met for entry in bundle.tested):
            return verdict.append("Not even the safest encoder met the target")
        return verdict.append(
            f"No encoder{' that met the target' if bundle.tested else ''} tells more about the label than chance does"
        )
    verdict.append(
        f"With {percent(certificate.confidence)} confidence no classifier on the {certificate.counts.n_cells} cells "
        f"has {one(certificate.claim.distance.words)} above "
    )
    return verdict.append(f"T* = {round_up(certificate.bound)}", "bold")


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Say what was found, a name and a text at a time."""
    from certifare.certificates.certificate import round_down, round_up

    certificate, point = bundle.certificate, bundle.point
    if certificate is not None and point is not None:
        interval = f"[{round_down(certificate.lower)}, {round_up(certificate.bound)}]"
        own = "" if certificate.sequence is None else f"; its own limit {round_up(bundle.limit)} is not claimed"
        yield "interval", f"{interval}, estimate {certificate.estimate:.4f}{own}"
        sizes = " + ".join(f"{n:,} ({group})" for group, n in certificate.counts.group_sizes.items())
        fresh = "" if certificate.look is None or certificate.look > 1 else " that were not looked at before"
        yield "certified on", f"{sizes} records{fresh}"
        gamma = "" if point.gamma is None else f", γ = {point.gamma:g}"
        gamma += "" if point.max_distance is None else f", distance ≤ {point.max_distance:g} on training records"
        reads = "; it reads the group, and so must whoever encodes" if bundle.encoder.reads_groups else ""
        yield "encoder", f"{point.kind}, {point.cells} cells{gamma}{reads}"
    how = f"{bundle.tried:,} encoders compared on other records"
    if bundle.order:
        passed = sum(entry.met for entry in bundle.tested)
        how += (
            f"; {len(bundle.order)} put in order there and tested at full ε until one failed: {passed} "
            f"{'passes' if passed == 1 else 'pass'}"
        )
    elif certificate is not None:
        how += "; one certified, once"
    yield "chosen from", how
    if bundle.measured is not None:
        yield "majority votes", f"{_measured(bundle.measured)}, on the certification records"
        yield "", f"(always the commonest label: accuracy {bundle.measured.performance.baseline:.1%})"
    if bundle.boosting is not None:
        yield "for comparison", f"{_measured(bundle.boosting)}: gradient boosting on the table itself"
    if certificate is not None:
        for i, sentence in enumerate(certificate.what_follows()):
            yield "" if i else "it follows", sentence
        for words in certificate.cap_words:
            yield "weights", words
        yield "look", certificate.look_words
    if point is not None:
        yield "retained", f"{point.retained:.1%} of the spread of the columns"
    if bundle.group_aware is not None:
        yield "if groups are read", str(bundle.group_aware)
    for exclusion in bundle.exclusions:
        yield "left out", f"{amount(exclusion.records, 'record')}: {exclusion.reason}"
    for note in bundle.notes:
        yield "note", note


def _measured(measured: Measured) -> str:
    """Write figures with their limits."""
    performance = measured.performance
    figures = [f"accuracy {_interval(performance.accuracy, percent=True)}"]
    if performance.auc is not None:
        figures.append(f"AUC {_interval(performance.auc)}")
    figures.append(f"explained {_interval(performance.explained, percent=True)}")
    figures.append(f"distance {_interval(measured.distance)}")
    return ", ".join(figures)


def _interval(interval: Interval, *, percent: bool = False) -> str:
    """Write an estimate between its limits, which are rounded outwards: 85.3% [84.7, 85.8]."""
    from certifare.certificates.certificate import round_down, round_up

    if percent:
        limits = round_down(100 * interval.lower, 1), round_up(100 * interval.upper, 1)
        return f"{interval.estimate:.1%} [{limits[0]}, {limits[1]}]"
    return f"{interval.estimate:.3f} [{round_down(interval.lower, 3)}, {round_up(interval.upper, 3)}]"


def _front(bundle: Bundle) -> list[Any]:
    """Return the frontier of all points: predicted bounds, and the certified one where there is one."""
    from certifare.frontier.fronts import pareto

    points = bundle.frontier.points
    return [points[i] for i in pareto([p.bound for p in points], [p.utility for p in points])]
