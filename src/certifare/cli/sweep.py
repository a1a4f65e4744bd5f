"""``certifare sweep``: many encoders, what they tell about the label, and their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as RichTable

from certifare.cli.common import (
    CLAIM,
    Json,
    RequiredLabel,
    RequiredSensitive,
    check_distance,
    emit,
    err,
    listed,
    out,
    show_notes,
    stages,
)
from certifare.cli.options import CsvOptions, SearchOptions, with_options
from certifare.cli.support import of_search, refuse_ignored

if TYPE_CHECKING:
    from certifare.frontier import Frontier
    from certifare.frontier.sweeping import Point


@with_options
def sweep(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.")],
    label: RequiredLabel = None,
    sensitive: RequiredSensitive = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write every encoder tried to this .csv file.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the frontier: .svg or .html.")] = None,
    correction: Annotated[
        str,
        typer.Option(
            help="simultaneous: certify m encoders together, each at ε/m. holdout: predict bounds, certify none.",
            rich_help_panel=CLAIM,
            autocompletion=lambda: ["simultaneous", "holdout"],
        ),
    ] = "simultaneous",
    candidates: Annotated[
        str,
        typer.Option(
            help="With simultaneous: certify the encoders on the predicted front, or all.",
            rich_help_panel=CLAIM,
            autocompletion=lambda: ["front", "all"],
        ),
    ] = "front",
    max_bound: Annotated[
        float | None, typer.Option("--max", help="Also name the best encoder within this bound.")
    ] = None,
    *,
    search: SearchOptions,
    csv: CsvOptions,
    as_json: Json = False,
) -> None:
    """Try many encoders and print the frontier of utility and certified distance."""
    from certifare.bundle import write_rows
    from certifare.errors import GroupError, RoleError
    from certifare.foundation.storage import atomic_file
    from certifare.frontier import sweep as sweep_table
    from certifare.tables.table import read_table

    if not label:
        raise RoleError("Which column is to be predicted? Pass --label.")
    if not sensitive:
        raise GroupError("Which column holds the groups? Pass --sensitive.")
    simultaneous = ("simultaneous",) if correction == "simultaneous" else ()
    refuse_ignored(context, *of_search(data, search.metric, search.kind), *simultaneous)
    check_distance("--max", max_bound)
    _check_places(output, plot)
    columns = {"label": listed(label), "sensitive": listed(sensitive), **search.table()}
    reading, grid = {**columns, **csv.reading()}, search.grid()
    with stages(quiet=as_json) as progress:
        progress(f"reading {data.name}", 0, 1)
        if search.label_quantiles is not None:
            reading["label_cuts"] = _quantiles(data, search.label_quantiles, search, reading)
        frontier = sweep_table(
            read_table(data, **reading),
            grid,
            min_cells=search.min_cells,
            correction=correction,  # type: ignore[arg-type]  # checked there
            candidates=candidates,  # type: ignore[arg-type]  # checked there
            n_jobs=search.jobs,
            ledger=search.ledger,
            progress=progress,
            **search.claim(),
            **search.how(),
        )
        knee = frontier.best(min_cells=search.min_cells)
        best = None if max_bound is None else frontier.best(max_bound, min_cells=search.min_cells)
        if output is not None:
            with atomic_file(output) as name:
                write_rows(name, frontier.rows())
        if plot is not None:
            progress("drawing", 0, 1)
            frontier.plot(best or knee).save(plot)
    written = [path for path in (output, plot) if path is not None]
    emit(_document(frontier, knee, best), as_json, lambda: _show(frontier, knee, best, written))


def _check_places(output: Path | None, plot: Path | None) -> None:
    """Refuse places that could not be written to, before any work is done."""
    from certifare.errors import ArgumentError
    from certifare.foundation.display import SUFFIXES
    from certifare.foundation.storage import check_file, check_writable

    if output is not None and output.suffix.lower() != ".csv":
        raise ArgumentError(f"--output {output}: name a file that ends in .csv.")
    if plot is not None and plot.suffix.lower() not in SUFFIXES:
        raise ArgumentError(f"--plot {plot}: name a file that ends in {' or '.join(SUFFIXES)}.")
    for path in (output, plot):
        if path is not None:
            check_file(path)
            check_writable(path.parent)


def _quantiles(data: Path, number: int, search: SearchOptions, reading: dict[str, Any]) -> tuple[float, ...]:
    """Find where the label is cut into bands; certification records have no say in it."""
    from certifare.tables.splitting import training_quantiles

    return training_quantiles(
        data,
        number,
        parts=search.parts(),
        seed=search.seed,
        by_group=search.pool_groups is None,
        **{name: value for name, value in reading.items() if name != "label_cuts"},
    )


def _document(frontier: Frontier, knee: Point, best: Point | None) -> dict[str, Any]:
    """Say what was found, for machines."""
    import msgspec

    return {
        "correction": frontier.correction,
        "confidence": frontier.confidence,
        "metric": frontier.metric,
        "utility": frontier.utility,
        "tried": len(frontier),
        "certified": sum(point.certified for point in frontier.points),
        "front": [point.to_dict() for point in frontier.pareto()],
        "knee": knee.to_dict(),
        "best": None if best is None else best.to_dict(),
        "look": msgspec.to_builtins(frontier.look),
        "notes": list(frontier.notes),
    }


def _show(frontier: Frontier, knee: Point, best: Point | None, written: list[Path]) -> None:
    from certifare.certificates.rounding import percent
    from certifare.cli.chart import draw_points

    certified = sum(point.certified for point in frontier.points)
    out.print(_front(frontier, knee, best))
    out.print()
    width = max(20, min(60, out.width - 12))
    out.print(draw_points(frontier.points, frontier.pareto(), best or knee, utility=frontier.utility, width=width))
    out.print()
    if certified:
        out.print(
            f"{len(frontier):,} encoders tried; {certified} certified together at {percent(frontier.confidence)}: "
            "choose any of them."
        )
        out.print(frontier.certificate(frontier.usable[0]).look_words)
    else:
        out.print(f"{len(frontier):,} encoders tried, none certified: bounds are predictions from other records.")
    circled = best or knee
    out.print(f"The chart marks point {circled.number}, {'the best within the bound' if best else 'the knee'}.")
    for path in written:
        err.print(f"written to {path}")
    show_notes(frontier.notes)


def _front(frontier: Frontier, knee: Point, best: Point | None) -> RichTable:
    """Lay out the encoders on the frontier, one in a row."""
    from certifare.certificates.rounding import round_down, round_up

    certified = any(point.certified for point in frontier.points)
    table = RichTable(
        "point",
        "T*" if certified else "predicted T*",
        "interval",
        "utility",
        "accuracy",
        "AUC",
        "explained",
        "cells",
        "retained",
        "encoder",
        "",
        box=None,
        pad_edge=False,
    )
    for point in frontier.pareto():
        gamma = "" if point.gamma is None else f", γ = {point.gamma:g}, cells ≥ {point.min_cell_size}"
        marks = [name for name, marked in (("knee", knee), ("best", best)) if marked == point]
        lower = "" if point.lower is None else f"[{round_down(point.lower, 3)}, {round_up(point.bound, 3)}]"
        table.add_row(
            str(point.number),
            round_up(point.bound),
            lower,
            f"{point.utility:.2%}",
            f"{point.accuracy:.2%}",
            "" if point.auc is None else f"{point.auc:.3f}",
            f"{point.explained:.1%}",
            str(point.cells),
            f"{point.retained:.1%}",
            f"{point.kind}{gamma}",
            ", ".join(marks),
        )
    return table
