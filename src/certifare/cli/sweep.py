"""``certifare sweep``: try many encoders, and show how well each predicts the label and its bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as RichTable

from certifare.cli.arguments import check_distance
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import (
    CsvFormat,
    Json,
    RequiredLabel,
    RequiredSensitive,
    SearchOptions,
    TablePath,
    declare,
    with_options,
)
from certifare.cli.progress_bars import stages
from certifare.cli.terminal import emit, err, out, show_notes
from certifare.errors import ArgumentError
from certifare.foundation.storage import atomic_file, check_file, check_writable

if TYPE_CHECKING:
    from certifare.frontier import Frontier
    from certifare.frontier.sweeping import Point


#: What a frontier is written as, by the ending of the file: a table, or a drawing.
ENDINGS = (".csv", ".svg", ".html")


@with_options
def sweep(
    context: typer.Context,
    data: TablePath,
    label: RequiredLabel,
    sensitive: RequiredSensitive,
    output: Annotated[
        list[Path] | None,
        declare(
            None,
            "Write every encoder tried to a .csv file, or draw the frontier: .svg or .html. Repeat for both.",
            "--output",
            "-o",
            metavar="FILE",
        ),
    ] = None,
    max_bound: Annotated[float | None, declare(None, "Also name the best encoder within this bound.", "--max")] = None,
    *,
    search: SearchOptions,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Try many encoders and print the frontier of utility and certified distance.

    The encoders on the predicted frontier are certified together, each at its share of ε: choose any of them.
    """
    from certifare.frontier import sweep as sweep_table

    refuse_ignored(context, *search.conditions(data))
    check_distance("--max", max_bound)
    _check_places(output or ())
    roles: dict[str, Any] = {"label": tuple(label), "sensitive": tuple(sensitive)}
    with stages(quiet=as_json) as progress:
        progress(f"reading {data.name}", 0, 1)
        frontier = sweep_table(data, progress=progress, **roles, **search.keywords(csv))
        knee = frontier.best()
        best = None if max_bound is None else frontier.best(max_bound)
        for path in output or ():
            progress(f"writing {path.name}", 0, 1)
            _write(frontier, best or knee, path)
    emit(_document(frontier, knee, best), as_json, lambda: _show(frontier, knee, best, output or ()))


def _check_places(paths: Sequence[Path]) -> None:
    """Refuse places that could not be written to, before any work is done."""
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise ArgumentError(
                f"--output {path}: name a file that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}."
            )
        check_file(path)
        check_writable(path.parent)


def _write(frontier: Frontier, marked: Point, path: Path) -> None:
    """Write every encoder as a table, or draw the frontier."""
    from certifare.bundle import write_rows

    if path.suffix.lower() != ".csv":
        frontier.plot(marked).save(path)
        return
    with atomic_file(path) as name:
        write_rows(name, frontier.rows())


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


def _show(frontier: Frontier, knee: Point, best: Point | None, written: Sequence[Path]) -> None:
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
    """Lay out the encoders on the frontier, one in a row; files have all their figures."""
    from certifare.certificates.rounding import round_up

    certified = any(point.certified for point in frontier.points)
    table = RichTable(
        "point",
        "T*" if certified else "predicted T*",
        "utility",
        "accuracy",
        "AUC",
        "cells",
        "encoder",
        "",
        box=None,
        pad_edge=False,
    )
    for point in frontier.pareto():
        gamma = "" if point.gamma is None else f", γ = {point.gamma:g}"
        marks = [name for name, marked in (("knee", knee), ("best", best)) if marked == point]
        table.add_row(
            str(point.number),
            round_up(point.bound),
            f"{point.utility:.2%}",
            f"{point.accuracy:.2%}",
            "" if point.auc is None else f"{point.auc:.3f}",
            str(point.cells),
            f"{point.kind}{gamma}",
            ", ".join(marks),
        )
    return table
