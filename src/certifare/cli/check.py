"""``certifare check``: whether a table is ready for ``fit``, and what may be expected of it."""

from __future__ import annotations

import shlex
import sys
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from certifare.cli.arguments import check_distance, listed
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import CsvFormat, Json, Label, SearchOptions, Sensitive, TablePath, declare, with_options
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit, out, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from certifare.frontier.readiness import Readiness

#: Mark and style of each severity. The mark alone tells them apart.
MARKS = {"error": ("✗", "bold red"), "warning": ("!", "yellow"), "note": ("·", "dim")}
#: The target that is suggested if one is within reach.
TARGET = 0.08
#: The most groups or labels that are listed.
MOST_LISTED = 12


@with_options
def check(
    context: typer.Context,
    data: TablePath,
    label: Label = None,
    sensitive: Sensitive = None,
    target: Annotated[float | None, declare(None, "The T* that fit would be asked for.")] = None,
    *,
    search: SearchOptions,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Check a table before fit: roles, groups, what is odd about its columns, the T* within reach, and the time.

    Takes the options of fit, and guesses the label and the sensitive column if they are not named. Nothing is fitted,
    and no look at the certification records is spent. Exit status 1 means that fit would refuse the table.
    """
    from certifare.frontier.readiness import check_table

    refuse_ignored(context, *search.conditions(data))
    check_distance("--target", target)
    found = check_table(
        data,
        label=listed(label),
        sensitive=listed(sensitive),
        target=target,
        **search.keywords(csv),
    )
    emit(
        found.to_dict(),
        as_json,
        lambda: _show(found, data, target),
        outcome="READY" if found.ready else "NOT READY",
        status=0 if found.ready else REFUSED,
    )


def _show(found: Readiness, data: Path, target: float | None) -> None:
    """Print what was found, from roles to what to do next."""
    style = "bold green" if found.ready else "bold red"
    out.print(Text.assemble(("READY" if found.ready else "NOT READY", style), f"  {printable(data.name)}"), end="")
    out.print(f": {found.records:,} records, {len(found.columns)} columns" if found.columns else "", soft_wrap=True)
    guess = {role: " (a guess)" if role in found.guessed else "" for role in ("label", "sensitive")}
    for name, counts in found.labels.items():
        out.print(f"label      {printable(name)}{guess['label']}: {_counts(counts)}", soft_wrap=True)
    if found.groups:
        names = printable(", ".join(found.sensitive))
        out.print(f"sensitive  {names}{guess['sensitive']}: {_counts(found.groups)}", soft_wrap=True)
    if found.least_bound is not None:
        plans = ", ".join(f"{row.bound:.3f} with {row.cells} cells" for row in found.plans)
        calibrated = f"; with --group-aware {plans}" if plans else ""
        out.print(f"reach      T* of {found.least_bound:.3f} at best{calibrated}", soft_wrap=True)
    if found.seconds is not None:
        out.print(f"time       fit takes about {_duration(found.seconds)}")
    for finding in found.findings:
        mark, colour = MARKS[finding.severity]
        remedy = "" if finding.remedy is None else f"; {finding.remedy}"
        out.print(Text.assemble((f"{mark} ", colour), printable(finding.text + remedy)), soft_wrap=True)
    if not found.ready:
        out.print("next       correct what is marked ✗, and check again")
        return
    given = [*sys.argv[2:], *(word for role in found.guessed for word in (f"--{role}", *getattr(found, role)))]
    least = 0.0 if found.least_bound is None or "--group-aware" in given else found.least_bound
    given += [] if target is not None else ["--target", f"{max(TARGET, ceil(105 * least) / 100):g}"]
    out.print(printable(f"next       {shlex.join(['certifare', 'fit', *given])}"), soft_wrap=True)


def _counts(counts: Mapping[str, int]) -> str:
    """List values with their numbers of records."""
    shown = [f"{printable(name)} {n:,}" for name, n in list(counts.items())[:MOST_LISTED]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _duration(seconds: float) -> str:
    """Round a duration to a few seconds or to minutes."""
    if seconds < 60:
        return f"{max(5, 5 * round(seconds / 5))} seconds"
    minutes = round(seconds / 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
