"""``certifare plan``: the T* of calibrated cells, and the records that a target needs, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

if TYPE_CHECKING:
    from certifare.certificates.planning import PlanRow


@with_options
def plan(
    context: typer.Context,
    data: Annotated[Path | None, typer.Argument(help="Table to count groups in: CSV, Parquet or Arrow.")] = None,
    total: Annotated[
        int | None, typer.Option("--records", help="Certification records, of two groups together.", min=4)
    ] = None,
    share: Annotated[float, typer.Option(help="With --records: the share of one of the two groups.")] = 0.5,
    size: Annotated[
        list[str] | None,
        typer.Option("--size", help="Certification records of a group: f=320. Repeat for each.", metavar="GROUP=N"),
    ] = None,
    sensitive: Sensitive = None,
    label: Label = None,
    certify_share: Annotated[
        float, typer.Option("--certify-share", help="With a table: share of it that sets the thresholds.")
    ] = 0.5,
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
    """Show the T* that calibrated cells (fit --group-aware) reach with so many records, and the records needed.

    Nothing is fitted. Name the records (--records 800 --share 0.4, or --size f=320 --size m=480), or a table.
    """
    from certifare.certificates.calibrated import check_metric
    from certifare.certificates.exact import epsilon_at
    from certifare.certificates.planning import PLANNED_CELLS, plan_table
    from certifare.errors import ArgumentError

    positives = ("positives",) if metric == "equal_opportunity" else ()
    refuse_ignored(context, *(() if data is None else (*of_file(data), *positives)))
    if sum(source is not None for source in (data, total, size or None)) != 1:
        raise ArgumentError("How many records? Give --records, or --size for each group, or a table.")
    check_metric(metric)
    if data is not None:
        sizes = _count(data, sensitive, label, metric, positive, certify_share, csv.reading())
    else:
        sizes = _of_two(total, share) if total is not None else _stated(size or ())
    rows = plan_table(sizes, tuple(cells or PLANNED_CELLS), epsilon_at(confidence), target=target)
    document = {
        "metric": metric,
        "confidence": confidence,
        "records": sizes,
        "target": target,
        "plans": [row.to_dict() for row in rows],
    }
    emit(document, as_json, lambda: show_plans(sizes, rows, target, confidence))


def _of_two(records: int, share: float) -> dict[str, int]:
    """Return the records of two groups."""
    from certifare.errors import ArgumentError

    first = round(records * share) if 0.0 < share < 1.0 else 0
    if not 0 < first < records:
        raise ArgumentError(f"--share {share:g}: give a share between 0 and 1 that leaves records in both groups.")
    return {"one group": first, "the other": records - first}


def _stated(sizes: Sequence[str]) -> dict[str, int]:
    """Return the records of each group, from GROUP=N."""
    from certifare.errors import ArgumentError

    found: dict[str, int] = {}
    for text in sizes:
        group, equals, number = text.rpartition("=")
        if not equals or not number.isascii() or not number.isdigit() or group in found:
            raise ArgumentError(f"--size {text}: give each group once, with its number of records: f=320.")
        found[group] = int(number)
    return found


def _count(
    data: Path,
    sensitive: list[str] | None,
    label: list[str] | None,
    metric: str,
    positive: str | None,
    certify_share: float,
    reading: dict[str, Any],
) -> dict[str, int]:
    """Return how many records of each group of a table would set thresholds."""
    import numpy as np

    from certifare.certificates.claims import Claim, stratum
    from certifare.errors import ArgumentError
    from certifare.tables.table import read_table

    claim = Claim(metric=metric, positive=positive)
    if not sensitive:
        raise ArgumentError("Which groups? Name a column of the table with --sensitive.")
    if claim.labelled and not label:
        raise ArgumentError(f"--metric {metric} is about records of one label: name its column with --label.")
    if not 0.0 < certify_share <= 1.0:
        raise ArgumentError(f"--certify-share {certify_share:g}: give a share above 0, at most 1.")
    table = read_table(data, label=single_label(label) or (), sensitive=listed(sensitive), **reading)
    counts = table.count(np.zeros(len(table), dtype=np.int64), 1, labels=claim.labelled)
    show_left_out((*table.exclusions, *counts.exclusions))
    counted = stratum(counts, claim.strata(counts)[0])
    return {group: int(n * certify_share) for group, n in counted.group_sizes.items()}


def show_plans(sizes: Mapping[str, int], rows: Sequence[PlanRow], target: float | None, confidence: float) -> None:
    """Print T* by the number of cells, and the records that a target needs."""
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
