"""What a search found, in the terminal: the verdict, the facts, the frontier, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.table import Table as RichTable
from rich.text import Text

from certifare.cli.terminal import err, out, printable
from certifare.foundation.formatting import amount, one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certifare.bundle import Bundle, Measured
    from certifare.certificates import Interval

VERDICTS = {"PASS": "bold green", "NO SOLUTION": "bold red", "DONE": "bold"}


def show_bundle(bundle: Bundle, folder: Path | None, *, signed: bool) -> None:
    """Print a result: the verdict, the certificate, the frontier, and where the report is."""
    from certifare.cli.chart import draw_points

    out.print(Panel(_verdict(bundle), expand=False, padding=(1, 2)))
    facts = RichTable.grid(padding=(0, 3))
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
    from certifare.certificates.rounding import percent, round_up

    asked = "" if bundle.target is None else f"  target {bundle.target:g}"
    verdict = Text.assemble((bundle.verdict, VERDICTS[bundle.verdict]), f"{asked}\n\n")
    certificate = bundle.certificate
    if certificate is None:
        return verdict.append(
            "Not even the safest encoder met the target"
            if bundle.tested
            else "No encoder tells more about the label than chance does"
        )
    verdict.append(
        f"With {percent(certificate.confidence)} confidence no classifier on the {certificate.counts.n_cells} cells "
        f"has {one(certificate.claim.distance.words)} above "
    )
    return verdict.append(f"T* = {round_up(certificate.bound)}", "bold")


def _facts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Say what was found, a name and a text at a time."""
    from certifare.certificates.rounding import percent, round_down, round_up

    certificate, point = bundle.certificate, bundle.point
    if certificate is not None and point is not None:
        interval = f"[{round_down(certificate.lower)}, {round_up(certificate.bound)}]"
        own = "" if certificate.sequence is None else f"; its own limit {round_up(bundle.limit)} is not claimed"
        each = f"each limit with {percent(certificate.confidence)} confidence"
        yield "interval", f"{interval}, {each}; estimate {certificate.estimate:.4f}{own}"
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
        several = certificate.candidates > 1
        how += f"; {certificate.candidates:,} certified together" if several else "; one certified, once"
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
    from certifare.certificates.rounding import round_down, round_up

    if percent:
        limits = round_down(100 * interval.lower, 1), round_up(100 * interval.upper, 1)
        return f"{interval.estimate:.1%} [{limits[0]}, {limits[1]}]"
    return f"{interval.estimate:.3f} [{round_down(interval.lower, 3)}, {round_up(interval.upper, 3)}]"


def _front(bundle: Bundle) -> list[Any]:
    """Return the frontier of all points: predicted bounds, and the certified one where there is one."""
    from certifare.frontier.fronts import pareto

    points = bundle.frontier.points
    return [points[i] for i in pareto([p.bound for p in points], [p.utility for p in points])]
