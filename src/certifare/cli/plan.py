"""``certifare plan``: the T* of calibrated cells, and the records that a target needs, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import listed, single_label
from certifare.cli.csv_options import CsvFormat
from certifare.cli.help import choose
from certifare.cli.honoured import of_file, refuse_ignored
from certifare.cli.option_classes import with_options
from certifare.cli.options import CLAIM, COLUMNS, Confidence, Json, Label, PositiveLabel, Sensitive
from certifare.cli.terminal import emit, out, printable, show_left_out
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.certificates.claims import Claim
    from certifare.certificates.planning import PlanRow


@with_options
def plan(
    context: typer.Context,
    data: Annotated[Path | None, typer.Argument(help="Table to count groups in: CSV, Parquet or Arrow.")] = None,
    stated_records: Annotated[
        list[str] | None,
        typer.Option(
            "--records",
            help="Certification records: of two equal groups together (800), or of each group: f=320, repeated.",
            metavar="N|GROUP=N",
        ),
    ] = None,
    sensitive: Sensitive = None,
    label: Label = None,
    metric: Annotated[
        str,
        choose(
            "Distance that is bounded; equal_opportunity needs --label.",
            "demographic_parity",
            "equal_opportunity",
            rich_help_panel=CLAIM,
        ),
    ] = "demographic_parity",
    positive: PositiveLabel = None,
    target: Annotated[
        float | None, typer.Option(help="Also show the records that this T* needs.", rich_help_panel=CLAIM)
    ] = None,
    confidence: Confidence = 0.95,
    cells: Annotated[
        list[int] | None, typer.Option(help="Number of cells. Repeat for several.", min=2, rich_help_panel=COLUMNS)
    ] = None,
    *,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Show the T* that calibrated cells (fit --group-aware) reach with a number of records, and the records needed.

    Nothing is fitted. Name the records (--records 800, or --records f=320 --records m=480), or a table, of which fit
    certifies on one half.
    """
    from certifare.certificates.calibrated import check_metric
    from certifare.certificates.claims import Claim
    from certifare.certificates.exact import epsilon_at
    from certifare.certificates.planning import PLANNED_CELLS, plan_table

    positives = ("positives",) if metric == "equal_opportunity" else ()
    refuse_ignored(context, *(() if data is None else (*of_file(data), *positives)))
    if (data is None) == (not stated_records):
        raise ArgumentError("How many records? Give --records, for each group or for two together, or a table.")
    check_metric(metric)
    if data is not None:
        sizes = _count(data, sensitive, label, Claim(metric=metric, positive=positive), csv.reading())
    else:
        sizes = _stated(stated_records or ())
    rows = plan_table(sizes, tuple(cells or PLANNED_CELLS), epsilon_at(confidence), target=target)
    document = {
        "metric": metric,
        "confidence": confidence,
        "records": sizes,
        "target": target,
        "plans": [{"cells": row.cells, "bound": row.bound, "records_needed": row.needed} for row in rows],
    }
    emit(document, as_json, lambda: _show(sizes, rows, target, confidence))


def _stated(records: Sequence[str]) -> dict[str, int]:
    """Return the records of each group, from N or GROUP=N."""
    found: dict[str, int] = {}
    for text in records:
        group, equals, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit() or group in found or (not equals and len(records) > 1):
            raise ArgumentError(
                f"--records {text}: give the number of all records (800), or that of each group once (f=320)."
            )
        found[group] = int(number)
    if "" in found and found[""] >= 2:
        return {"one group": found[""] // 2, "the other": found[""] - found[""] // 2}
    return found


def _count(
    data: Path, sensitive: list[str] | None, label: list[str] | None, claim: Claim, reading: dict[str, Any]
) -> dict[str, int]:
    """Return how many records of each group of a table would set thresholds."""
    import numpy as np

    from certifare.certificates.claims import stratum
    from certifare.frontier.sweeping import default_parts
    from certifare.tables.table import read_table

    if not sensitive:
        raise ArgumentError("Which groups? Name a column of the table with --sensitive.")
    if claim.labelled and not label:
        raise ArgumentError(f"--metric {claim.metric} is about records of one label: name its column with --label.")
    table = read_table(data, label=single_label(label) or (), sensitive=listed(sensitive), **reading)
    counts = table.count(np.zeros(len(table), dtype=np.int64), 1, labels=claim.labelled)
    show_left_out((*table.exclusions, *counts.exclusions))
    share = default_parts(group_aware=True)["certify"]
    return {group: int(n * share) for group, n in stratum(counts, claim.strata(counts)[0]).group_sizes.items()}


def _show(sizes: dict[str, int], rows: Sequence[PlanRow], target: float | None, confidence: float) -> None:
    from rich.table import Table as RichTable

    from certifare.certificates.planning import plan_words
    from certifare.certificates.rounding import percent, round_up

    groups = ", ".join(f"{printable(group)}: {n:,}" for group, n in sizes.items())
    out.print(f"certification records   {groups}", soft_wrap=True)
    if not rows:
        out.print(plan_words(rows, sizes), soft_wrap=True)
        return
    table = RichTable(box=None, padding=(0, 3, 0, 0))
    for heading in ("cells", "T*", *(() if target is None else (f"records for T* ≤ {target:g}",))):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row.cells), round_up(row.bound, 3), *(() if row.needed is None else (f"about {row.needed:,}",))
        )
    out.print(table)
    out.print(
        f"With {percent(confidence)} confidence no classifier on calibrated cells has a distance above T*. The "
        "cells hold equal shares of every group; encoding reads the group.",
        soft_wrap=True,
    )
