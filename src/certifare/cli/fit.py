"""``certifare fit``: a table goes in; an encoder with its certificate and a report comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from certifare.cli.common import (
    CLAIM,
    READING,
    REFUSED,
    SEARCH,
    SPLIT,
    Categorical,
    CellSizes,
    Cluster,
    Confidence,
    Continuous,
    Dataset,
    Delimiter,
    Drop,
    Encoding,
    Gammas,
    GroupSize,
    Jobs,
    Json,
    Key,
    Kinds,
    Label,
    Ledger,
    Looks,
    MaxCells,
    MetricName,
    MissingMarker,
    Parts,
    Population,
    Positive,
    Retain,
    Seed,
    Sensitive,
    UnknownGroups,
    Weight,
    command_line,
    emit,
    err,
    grid_of,
    listed,
    out,
    parts_of,
    printable,
    stages,
)
from certifare.cli.support import of_search, refuse_ignored

if TYPE_CHECKING:
    from certifare.bundle import Bundle

VERDICTS = {"PASS": "bold green", "NO SOLUTION": "bold red", "DONE": "bold"}


def fit(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.")],
    label: Label = None,
    sensitive: Sensitive = None,
    target: Annotated[
        float | None, typer.Option(help="The largest T* to accept; without it, the knee of the frontier is taken.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundle.")] = Path("certifare-bundle"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the folder if it is a bundle.", rich_help_panel=READING)
    ] = False,
    min_cells: Annotated[int, typer.Option(help="The fewest cells to accept.", min=2, rich_help_panel=SEARCH)] = 2,
    max_cells: MaxCells = 200,
    kind: Kinds = None,
    gamma: Gammas = None,
    min_cell_size: CellSizes = None,
    retain: Retain = 0.0,
    metric: MetricName = "demographic_parity",
    positive: Positive = None,
    confidence: Confidence = 0.95,
    single: Annotated[
        bool,
        typer.Option(
            "--single",
            help="Certify one encoder at full ε instead of a shortlist that shares it.",
            rich_help_panel=CLAIM,
        ),
    ] = False,
    looks: Looks = None,
    ledger: Ledger = True,
    weight: Weight = None,
    cluster: Cluster = None,
    population: Population = "clusters",
    categorical: Categorical = None,
    continuous: Continuous = None,
    drop: Drop = None,
    unknown_groups: UnknownGroups = False,
    min_group_size: GroupSize = 30,
    split: Parts = SPLIT,
    key: Key = None,
    suppress: Annotated[
        int | None,
        typer.Option(
            help="Pool cells with fewer records of a group in the certificate; T* stays.",
            min=2,
            rich_help_panel=READING,
        ),
    ] = None,
    dataset: Dataset = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: MissingMarker = None,
    seed: Seed = 0,
    jobs: Jobs = 2,
    as_json: Json = False,
) -> None:
    """Find the most accurate encoder whose certificate meets a target, and write it as a bundle.

    The table is split at random: encoders are fitted on one part, chosen on another, certified on records that were
    not looked at before, and tested on the rest. Exit status 1 means that no encoder met the target: nothing is
    written then. A Parquet file too large for memory is read as a stream: encoders are compared on a sample of it.
    """
    from certifare.bundle import check_output, produce
    from certifare.engines.large import is_large
    from certifare.errors import MissingGroupError, RoleError
    from certifare.files import MISSING
    from certifare.frontier.target import CHANCES

    if not label:
        raise RoleError("Which column is to be predicted? Pass --label.")
    if not sensitive:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    refuse_ignored(context, *of_search(data, metric, kind, large=is_large(data)))
    check_output(output, replace=replace)
    signer = _signer(key)
    grid = grid_of(kind, gamma, min_cell_size, max(max_cells, min_cells))
    with stages(quiet=as_json) as progress:
        progress(f"reading {data.name}", 0, 1)
        bundle = produce(
            data,
            label=listed(label),
            sensitive=listed(sensitive),
            weight=weight,
            cluster=cluster,
            categorical=listed(categorical),
            continuous=listed(continuous),
            drop=listed(drop),
            missing_groups="unknown" if unknown_groups else "drop",
            delimiter=delimiter,
            encoding=encoding,
            missing=listed(missing) or MISSING,
            target=target,
            min_cells=min_cells,
            grid=grid,
            metric=metric,
            confidence=confidence,
            positive=positive,
            retain=retain,
            parts=parts_of(split),
            population=population,
            min_group_size=min_group_size,
            chances=(0.8,) if single else CHANCES,
            seed=seed,
            n_jobs=jobs,
            ledger=ledger,
            looks=looks,
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
    from certifare.certificates.certificate import percent, round_down, round_up
    from certifare.certificates.claims import metric_of
    from certifare.cli.chart import chart

    certificate, test, point = bundle.certificate, bundle.test, bundle.point
    asked = "" if bundle.target is None else f"  target {bundle.target:g}"
    words = metric_of(certificate.metric).words
    claim = Text.assemble(
        (bundle.verdict, VERDICTS[bundle.verdict]),
        f"{asked}\n\nWith {percent(certificate.confidence)} confidence no classifier on the "
        f"{certificate.counts.n_cells} cells has a {words} above ",
        (f"T* = {round_up(certificate.bound)}", "bold"),
    )
    out.print(Panel(claim, expand=False, padding=(1, 2)))

    facts = Grid.grid(padding=(0, 3))
    sizes = " + ".join(f"{n:,} ({printable(group)})" for group, n in certificate.counts.group_sizes.items())
    facts.add_row(
        "interval",
        f"[{round_down(certificate.lower)}, {round_up(certificate.bound)}], estimate {certificate.estimate:.4f}",
    )
    facts.add_row("certified on", f"{sizes} records that were not looked at before")
    gamma = "" if point.gamma is None else f", γ = {point.gamma:g}"
    facts.add_row("encoder", f"{point.kind}, {point.cells} cells{gamma}")
    how = f"{bundle.tried:,} encoders compared on other records"
    if len(bundle.certified) > 1:
        how += f"; {len(bundle.certified)} certified together, each at ε/{len(bundle.certified)}"
    else:
        how += "; one certified, once"
    facts.add_row("chosen from", how)
    facts.add_row(
        "test records",
        f"accuracy {test.accuracy:.1%} of the cells' majority vote (always the commonest label: {test.baseline:.1%}), "
        f"its distance {test.classifier.estimate:.4f}",
    )
    facts.add_row("look", certificate.look_words)
    facts.add_row("retained", f"{test.retained:.1%} of the spread of the columns")
    for exclusion in bundle.exclusions:
        facts.add_row("left out", f"{exclusion.records:,} records: {printable(exclusion.reason)}")
    for note in bundle.notes:
        facts.add_row("note", printable(note))
    out.print(facts)
    out.print()
    width = max(20, min(60, out.width - 12))
    out.print(chart(bundle.frontier.points, _front(bundle), point, bundle.target, width=width))
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


def _front(bundle: Bundle) -> list[Any]:
    """Return the frontier of all points: predicted bounds, and certified ones where there are any."""
    from certifare.frontier.pareto import pareto

    points = bundle.frontier.points
    return [points[i] for i in pareto([p.bound for p in points], [p.accuracy for p in points])]
