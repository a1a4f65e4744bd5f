"""``certifare plan``: the T* of calibrated cells, and the records that a target needs, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.arguments import listed, single_label
from certifare.cli.honoured import of_file, refuse_ignored
from certifare.cli.options import (
    CALIBRATED,
    CLAIM,
    COLUMNS,
    CONFIDENCE,
    LABEL,
    POSITIVE,
    SENSITIVE,
    CsvFormat,
    Json,
    declare,
    with_options,
)
from certifare.cli.printing import show_plans
from certifare.cli.terminal import emit, show_left_out
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.certificates.claims import Claim


@with_options
def plan(
    context: typer.Context,
    data: Annotated[Path | None, typer.Argument(help="Table to count groups in: CSV, Parquet or Arrow.")] = None,
    stated_records: Annotated[
        list[str] | None,
        declare(
            None,
            "Certification records: of two groups together (800), or of each group: f=320, repeated.",
            "--records",
            metavar="N|GROUP=N",
        ),
    ] = None,
    share: Annotated[
        float, declare(None, "With --records 800: the share of one of the two groups.", needs="together")
    ] = 0.5,
    sensitive: Annotated[list[str] | None, declare(COLUMNS, SENSITIVE, metavar="COLUMN", needs="records")] = None,
    label: Annotated[list[str] | None, declare(COLUMNS, LABEL, metavar="COLUMN", needs="positives")] = None,
    metric: Annotated[
        str,
        declare(CLAIM, **CALIBRATED),
    ] = "demographic_parity",
    positive: Annotated[str | None, declare(CLAIM, POSITIVE, needs="positives")] = None,
    target: Annotated[float | None, declare(CLAIM, "Also show the records that this T* needs.")] = None,
    confidence: Annotated[float, declare(CLAIM, CONFIDENCE)] = 0.95,
    *,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Show the T* that calibrated cells (fit --group-aware) reach with a number of records, and the records needed.

    Nothing is fitted. Name the records (--records 800 --share 0.4, or --records f=320 --records m=480), or a table:
    fit certifies on 60 % of its records.
    """
    from certifare.certificates.calibrated import check_metric
    from certifare.certificates.claims import Claim
    from certifare.certificates.exact import epsilon_at
    from certifare.certificates.planning import PLANNED_CELLS, plan_table

    positives = ("positives",) if metric == "equal_opportunity" else ()
    together = ("together",) if any("=" not in text for text in stated_records or ()) else ()
    refuse_ignored(context, *(together if data is None else (*of_file(data), *positives)))
    if (data is None) == (not stated_records):
        raise ArgumentError("How many records? Give --records, for each group or for two together, or a table.")
    check_metric(metric)
    if data is not None:
        sizes = _count(data, sensitive, label, Claim(metric=metric, positive=positive), csv.reading())
    else:
        sizes = _stated(stated_records or (), share)
    rows = plan_table(sizes, PLANNED_CELLS, epsilon_at(confidence), target=target)
    document = {
        "metric": metric,
        "confidence": confidence,
        "records": sizes,
        "target": target,
        "plans": [row.to_dict() for row in rows],
    }
    emit(document, as_json, lambda: show_plans(sizes, rows, target, confidence))


def _stated(records: Sequence[str], share: float) -> dict[str, int]:
    """Return the records of each group, from N or GROUP=N."""
    found: dict[str, int] = {}
    for text in records:
        group, equals, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit() or group in found or (not equals and len(records) > 1):
            raise ArgumentError(
                f"--records {text}: give the number of all records (800), or that of each group once (f=320)."
            )
        found[group] = int(number)
    if "" not in found:
        return found
    first = round(found[""] * share) if 0.0 < share < 1.0 else 0
    if not 0 < first < found[""]:
        raise ArgumentError(f"--share {share:g} of {found['']:,}: give a share that leaves records in both groups.")
    return {"one group": first, "the other": found[""] - first}


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
