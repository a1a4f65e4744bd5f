"""Commands that other distributions bring: entry points of the group ``certifare.commands``.

An entry point names a function or a :class:`typer.Typer`; its name is the command's. It is imported when its command
runs, and when the commands are listed, so its module should import nothing heavy. certifare's own commands come first
and never ask for others.
"""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from certifare.cli.help import Command
from certifare.cli.terminal import err, out
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "certifare.commands"


class Commands(TyperGroup):
    """certifare's commands, and those that are installed beside it."""

    @cached_property
    def installed(self) -> dict[str, list[EntryPoint]]:
        """What other distributions bring, by the name of the command; looked up once, and not by our own commands."""
        return installed()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands that can be used; a line on standard error for each that cannot."""
        names = super().list_commands(ctx)
        for name, points in sorted(self.installed.items() if _brings_any() else ()):
            try:
                if name in self.commands:
                    raise ArgumentError(
                        f"{_origins(points)}: certifare has a command {name!r} of its own, which is used."
                    )
                command_of(points)
            except ArgumentError as error:
                if not ctx.resilient_parsing:  # a shell completes words otherwise
                    err.print(Text.assemble(("warning: ", "yellow"), str(error)), soft_wrap=True)
            else:
                names.append(name)
        return names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, or None."""
        if cmd_name in self.commands or not (points := self.installed.get(cmd_name)):
            return super().get_command(ctx, cmd_name)
        try:
            return command_of(points)
        except ArgumentError:
            if ctx.resilient_parsing:  # a shell completes words
                return None
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show options and commands in panels; typer would import a Markdown parser for it, which takes longer."""
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.table import Table

        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        panels = {
            "Options": [(", ".join(option.opts), option.help) for option in self.get_params(ctx) if not option.hidden],  # type: ignore[attr-defined]
            "Commands": [(name, command.short_help or command.help) for name, command in found if not command.hidden],
        }
        out.print(Padding(Text(self.get_usage(ctx), "yellow"), 1), Padding(self.help or "", (0, 1, 1, 1)))
        for title, rows in panels.items():
            grid = Table.grid(padding=(0, 2))
            grid.add_column(style="bold cyan", no_wrap=True)
            for name, text in rows:
                grid.add_row(name, " ".join((text or "").partition("\n\n")[0].split()))
            out.print(Panel(grid, title=title, title_align="left", border_style="dim"))


def _brings_any() -> bool:
    """Whether a distribution has entry points of the group, without importlib.metadata, which is slow to import."""
    listed = (path for folder in sys.path for path in Path(folder or ".").glob("*-info/entry_points.txt"))
    return any(GROUP in path.read_text(encoding="utf-8", errors="replace") for path in listed)


def installed() -> dict[str, list[EntryPoint]]:
    """Return what other distributions bring, by the name of the command."""
    from importlib.metadata import entry_points  # slow to import, and certifare's own commands do without

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


def command_of(points: list[EntryPoint]) -> Any:
    """Return the command that the entry points of one name bring.

    Raises
    ------
    ArgumentError
        It cannot be imported, is no command, or several distributions bring one of this name.
    """
    point = points[0]
    if len(points) > 1:
        raise ArgumentError(f"{_origins(points)}: each brings a command {point.name!r}; uninstall all but one.")
    try:
        found = point.load()
        app = typer.Typer(rich_markup_mode="rich")
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=point.name)
        elif inspect.isfunction(found):
            app.command(point.name, cls=Command)(found)
        else:
            raise TypeError(f"{point.value} is no function and no typer.Typer")
        return typer.main.get_group(app).commands[point.name]
    except (Exception, SystemExit) as error:  # whatever its code does: the other commands work on
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ArgumentError(f"{_origins(points)}: the command {point.name!r} cannot be used ({reason}).") from error


def _origins(points: list[EntryPoint]) -> str:
    """Say which distributions the entry points are of."""
    return " and ".join(sorted({point.dist.name if point.dist else point.value for point in points}))
