"""What a search found, in the terminal: claim, price, what to do next and the report; the rest if asked for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table as RichTable
from rich.text import Text

from certifare.cli.terminal import err, out, printable, show_left_out, show_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from certifare.bundle import Advice, Bundle, Measured
    from certifare.certificates import Interval
    from certifare.certificates.planning import PlanRow

VERDICTS = {"PASS": "bold green", "NO SOLUTION": "bold red", "DONE": "bold"}
#: The joint confidence that ``verify`` asks for unless told otherwise.
USUAL = 0.95


def show_bundle(bundle: Bundle, folder: Path | None, *, signed: bool, verbose: bool = False) -> None:
    """Print a result: four lines; with ``verbose`` also how it was found, and the frontier."""
    from certifare.certificates.planning import plan_words
    from certifare.frontier.calibrating import CalibratedSearch

    for line in _headlines(bundle, folder, signed=signed):
        out.print(line, soft_wrap=True)
    if folder is None:
        aware = () if bundle.group_aware is None else (str(bundle.group_aware),)
        words = [*(advice.text for advice in bundle.advice if advice is not _headline(bundle)), *aware]
        asked = isinstance(bundle.frontier.search, CalibratedSearch)
        cells = f"Cells that read the group{'' if asked else ' (--group-aware)'}"
        if bundle.sizes and not verbose:
            rows = [row for row in bundle.plans() if row.cells in (2, 4, 8, 16)]
            words.append(f"{cells}: {plan_words(rows, bundle.sizes, bundle.target)}")
        if words:
            out.print("\nWhat would help", style="bold")
        for text in words:
            out.print(f"  • {text}", soft_wrap=True)
        if bundle.sizes and verbose:
            out.print(f"\n{cells}", style="bold")
            show_plans(bundle.sizes, bundle.plans(), bundle.target, bundle.confidence)
        err.print(
            "Nothing was written. Running again with other seeds until one passes would void the certificate.",
            style="dim",
            soft_wrap=True,
        )
    if verbose:
        _show_details(bundle)
    show_left_out(bundle.exclusions)
    show_notes(bundle.notes)
    if bundle.group_aware is not None and folder is not None and not verbose:
        show_notes((str(bundle.group_aware),))


def _headline(bundle: Bundle) -> Advice | None:
    """Return the advice that stands beside the verdict; None where the test says more."""
    return None if bundle.certificate is not None or bundle.tested else bundle.advice[0]


def _headlines(bundle: Bundle, folder: Path | None, *, signed: bool) -> Iterator[Text]:
    """Yield the verdict with the claim, the price, what to do next, and where the report is."""
    from certifare.certificates.wording import plain_claim

    verdict = (bundle.verdict, VERDICTS[bundle.verdict])
    if bundle.certificate is None or folder is None:
        asked = "" if bundle.target is None else f" {bundle.target:g}"
        first = _headline(bundle)
        found = f"No encoder met the target{asked}." if first is None else first.text
        yield Text.assemble(verdict, f"  {printable(found)}")
        return
    yield Text.assemble(verdict, f"  {printable(plain_claim(bundle.certificate))}")
    if bundle.measured is not None:
        beside = (
            f"the commonest label alone: accuracy {bundle.measured.performance.baseline:.1%}"
            if bundle.boosting is None
            else f"gradient boosting without a bound: {_figures(bundle.boosting)}"
        )
        yield Text(f"price   {_figures(bundle.measured)}; {beside}")
    if bundle.warning is not None:
        yield Text(f"        {bundle.warning}", "yellow")
    asked = "" if bundle.confidence >= USUAL else f" --confidence {bundle.confidence:.6g}"
    asked += "" if bundle.target is None else f" --max {bundle.target:g}"
    yield from map(Text, what_next(folder, asked, signed=signed))


def what_next(folder: Path, asked: str, *, signed: bool) -> Iterator[str]:
    """Yield what to do with a bundle, and where its report is; paths are whole, because they are there to be copied."""
    name = shlex.quote(str(folder))
    yield printable(f"next    certifare verify {name}{asked} && certifare encode {name} DATA OUTPUT")
    yield printable(f"report  {folder / 'report.html'!s}{'' if signed else ' (the certificate is not signed)'}")


def _figures(measured: Measured) -> str:
    performance = measured.performance
    auc = "" if performance.auc is None else f", AUC {performance.auc.estimate:.3f}"
    return f"accuracy {performance.accuracy.estimate:.1%}{auc}"


def _show_details(bundle: Bundle) -> None:
    """Print what the certificate says, how the encoder was found, and the frontier."""
    from certifare.cli.chart import draw_points

    facts = RichTable.grid(padding=(0, 3))
    for name, text in _facts(bundle):
        facts.add_row(name, printable(text))
    out.print()
    out.print(facts)
    out.print()
    width = max(20, min(60, out.width - 12))
    points, utility = bundle.frontier.points, bundle.frontier.utility
    out.print(draw_points(points, _front(bundle), bundle.point, bundle.target, utility=utility, width=width))


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Say what was found, a name and a text at a time."""
    from certifare.certificates.rounding import percent, round_down, round_up

    certificate, point = bundle.certificate, bundle.point
    if certificate is not None and point is not None:
        interval = f"[{round_down(certificate.lower)}, {round_up(certificate.bound)}]"
        each = f"each limit with {percent(bundle.confidence)} confidence"
        yield "interval", f"{interval}, {each}; estimate {certificate.estimate:.4f}"
        if certificate.sequence is not None:
            own = f"the chosen encoder's own bound is {round_up(bundle.limit)}"
            yield "", f"{own}; it was chosen after testing, so the claim is the target"
        for attribute, bound in certificate.of_each.items():
            yield attribute, f"T* = {round_up(bound)}" + ("" if certificate.sequence else ", by itself")
        if certificate.intersection is not None:
            yield "intersections", f"T* = {round_up(certificate.intersection)}, by itself"
        for value in certificate.claim.left_out:
            yield "not claimed", f"{certificate.claim.given} {value!r}: too few records of a group"
        sizes = " + ".join(f"{n:,} ({group})" for group, n in certificate.counts.group_sizes.items())
        fresh = "" if certificate.look is None or certificate.look > 1 else " that were not looked at before"
        yield "certified on", f"{sizes} records{fresh}"
        name = "θ" if point.kind == "calibrated" else "γ"
        gamma = "" if point.gamma is None else f", {name} = {point.gamma:.3g}"
        reads = "; it reads the group, and encoding needs it too" if bundle.encoder.reads_groups else ""
        yield "encoder", f"{point.kind}, {point.cells} cells{gamma}{reads}"
    how = f"tried {bundle.tried:,} encoders"
    if bundle.order:
        how += f", shortlisted {len(bundle.order)}; {sum(entry.met for entry in bundle.tested)} met the target"
    elif certificate is not None:
        several = certificate.candidates > 1
        how += f"; {certificate.candidates:,} certified together" if several else "; certified one"
    yield "chosen from", how
    if bundle.measured is not None:
        yield "majority votes", f"{_measured(bundle.measured)}, on the certification records"
        performance = bundle.measured.performance
        yield "", f"(always the commonest label: accuracy {performance.baseline:.1%})"
        yield "", f"(in brackets, intervals of {percent(performance.accuracy.confidence)} confidence, each by itself)"
    if bundle.boosting is not None:
        yield "for comparison", f"{_measured(bundle.boosting)}: gradient boosting on the table itself"
    if certificate is not None:
        for i, sentence in enumerate(certificate.what_follows()):
            yield "" if i else "it follows", sentence
        for words in certificate.cap_words:
            yield "weights", words
        yield "look", certificate.look_words
    if point is not None:
        yield "retained", f"keeps {point.retained:.1%} of the columns' variance"
    if bundle.group_aware is not None:
        yield "if groups are read", str(bundle.group_aware)


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
    from certifare.certificates.rounding import round_down, round_up

    if percent:
        limits = round_down(100 * interval.lower, 1), round_up(100 * interval.upper, 1)
        return f"{interval.estimate:.1%} [{limits[0]}, {limits[1]}]"
    return f"{interval.estimate:.3f} [{round_down(interval.lower, 3)}, {round_up(interval.upper, 3)}]"


def _front(bundle: Bundle) -> list[Any]:
    """Return the frontier of all points: predicted bounds, and the certified one if there is one."""
    from certifare.frontier.fronts import pareto

    points = bundle.frontier.points
    return [points[i] for i in pareto([p.bound for p in points], [p.utility for p in points])]


def show_plans(sizes: Mapping[str, int], rows: Sequence[PlanRow], target: float | None, confidence: float) -> None:
    """Print T* by the number of cells, and the records that a target needs."""
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
