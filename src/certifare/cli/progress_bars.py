"""Show how far a command is: a bar on a terminal, lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from certifare.cli.terminal import err, printable
from certifare.foundation.progress import noticing


def _bar(*before: Any, after: Sequence[Any] = (), **options: Any) -> Any:
    """Make a progress bar on standard error, with more columns on its left and in front of the time that is left."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (*before, text, BarColumn(), TaskProgressColumn(), *after, TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True, **options)


@contextmanager
def progress(description: str, total: float | None, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error; yields a function that says how much is done."""
    with _bar(disable=quiet or not err.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def stages(quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Show work that comes in stages; yields a function told the stage, how much is done, and how much there is.

    On a terminal that is a bar, with the time that the stage has left. Elsewhere (a log, a scheduler) each stage is a
    line on standard error when it begins, with the seconds since the start; a long one has a line a minute.
    """
    if quiet:
        yield lambda *_: None
        return
    with noticing(lambda text: err.print(printable(text), soft_wrap=True)), _shown() as tell:
        yield tell


@contextmanager
def _shown() -> Iterator[Callable[[str, int, int], None]]:
    if not err.is_terminal:
        lines = StageLines()
        yield lines.tell
        lines.end()
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with _bar(SpinnerColumn(), after=(TimeElapsedColumn(), TextColumn("left"))) as bar:
        task, before = bar.add_task("reading", total=None), "reading"

        def tell(stage: str, done: int, total: int) -> None:
            nonlocal before
            if stage != before:
                # The time left is that of this stage, and not a mean with what went before.
                bar.reset(task, description=stage, total=total, completed=done)
                before = stage
            bar.update(task, description=stage, completed=done, total=total)

        yield tell


class StageLines:
    """Print stages as lines, for a log.

    The first is held back until there is more to print: the error about a table that cannot be read stands alone.
    """

    #: A long stage prints a line each time this many seconds have passed.
    EVERY = 60.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = self._last = self._since = clock()
        self._stage = self._held = ""

    def tell(self, stage: str, done: int, total: int) -> None:
        """Print a line if the stage is new, or has been going on for long."""
        now = self._clock()
        if not self._stage:
            self._stage, self._since, self._held = stage, now, self._line(now, stage)
        elif stage != self._stage:
            self._stage, self._since = stage, now
            self._print(now, stage)
        elif now - self._last >= self.EVERY:
            left = (now - self._since) * (total - done) / done if done else 0.0
            self._print(now, f"{stage}: {done:,} of {total:,}" + (f", about {left:,.0f} s left" if done else ""))

    def end(self) -> None:
        """Print that all is done."""
        self._print(self._clock(), "done")

    def _print(self, now: float, text: str) -> None:
        self._last = now
        for line in (self._held, self._line(now, text)):
            if line:
                err.print(line, soft_wrap=True)
        self._held = ""

    def _line(self, now: float, text: str) -> str:
        return f"{now - self._begun:6.1f} s  {printable(text)}"
