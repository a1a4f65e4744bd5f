"""Print the checks of a certificate: whether each holds, and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from certifare.cli.terminal import out, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from certifare.document import Check, Outcome, Verdict

STYLES: dict[Outcome, str] = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}


def print_verdict(verdict: Verdict) -> None:
    """Print each check, the outcome, and what was not checked."""
    print_checks(verdict.checks)
    word = Text(verdict.outcome, STYLES[verdict.outcome])
    claims = [text for text in (verdict.headline, verdict.claim) if text is not None and verdict.passed]
    word.append("\n".join(f"  {printable(text)}" for text in claims), "default not bold")
    out.print()
    out.print(word)
    if verdict.passed and verdict.unchecked:
        out.print(f"Not checked: {', '.join(check.name for check in verdict.unchecked)}.", style="yellow")


def print_failures(verdict: Verdict, console: Console = out) -> None:
    """Print what fails, if anything does, before anything else is shown."""
    if verdict.failures:
        console.print("FAIL  Verification failed.", style=STYLES["FAIL"])
        print_checks(verdict.failures, console)
        console.print()


def print_checks(checks: Iterable[Check], console: Console = out) -> None:
    """Print checks, one in a line: whether it holds, what it is about, what was found."""
    marks = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "yellow")}
    table = RichTable.grid(padding=(0, 2))
    for check in checks:
        mark, style = ("?", "bold yellow") if check.undecided else marks[check.ok]
        # What fails is in red as a whole.
        table.add_row(
            Text(mark, style),
            Text(check.name, style),
            Text(printable(check.message), style if check.ok is False else ""),
        )
    console.print(table)
