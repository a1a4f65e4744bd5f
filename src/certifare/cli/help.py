"""The commands and their help, in two steps: ``--help`` shows what most people need, ``--help-all`` every option."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from certifare.cli.terminal import out
from certifare.errors import ArgumentError, MissingPackageError
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Names of entry points by which other distributions bring commands.
GROUP = "certifare.commands"


class Commands(TyperGroup):
    """Commands that are made of functions (or of a group) when they are asked for: each has many options.

    Entry points of other distributions are commands, too. Their modules are imported when the command runs.
    """

    functions: ClassVar[dict[str, Callable[..., None] | typer.Typer]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Made(self.functions)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*self.functions, *_brought()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, or None."""
        if cmd_name in self.functions or not (target := _brought().get(cmd_name)):
            return self.commands.get(cmd_name)
        from importlib.metadata import EntryPoint  # slow to import

        try:
            return _make(EntryPoint(cmd_name, target, GROUP).load())
        except ImportError as error:
            raise MissingPackageError(f"The command {cmd_name!r} cannot be used: {error}.") from error

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show options and commands in panels; typer would import a Markdown parser for it, which takes longer."""
        options = [(", ".join(option.opts), option.help) for option in self.get_params(ctx) if not option.hidden]  # type: ignore[attr-defined]
        commands = [
            (name, made.info.help if isinstance(made, typer.Typer) else made.__doc__)
            for name, made in self.functions.items()
        ]
        commands += [
            (name, f"From {target.partition(':')[0].partition('.')[0]}.") for name, target in _brought().items()
        ]
        out.print(Padding(Text(self.get_usage(ctx), "yellow"), 1), Padding(self.help or "", (0, 1, 1, 1)))
        for title, rows in (("Options", options), ("Commands", commands)):
            grid = Table.grid(padding=(0, 2))
            grid.add_column(style="bold cyan", no_wrap=True)
            for name, text in rows:
                grid.add_row(name, " ".join((text or "").partition("\n\n")[0].split()))
            out.print(Panel(grid, title=title, title_align="left", border_style="dim"))


class _Made(Mapping[str, Any]):
    """Commands by their names, each made when it is asked for."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(self._functions[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def _make(function: Callable[..., None] | typer.Typer) -> Any:
    """Make a command of a function, or a group of an application."""
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(cls=Command)(function)
    return typer.main.get_command(app)


def _brought() -> dict[str, str]:
    """Return the functions that other distributions bring, by the name of the command.

    This reads what importlib.metadata would, which takes a third of the time of a short command.
    """
    found: dict[str, str] = {}
    for path in (path for folder in sys.path for path in Path(folder or ".").glob("*-info/entry_points.txt")):
        _, _, section = path.read_text(encoding="utf-8", errors="replace").partition(f"[{GROUP}]\n")
        lines = (line.partition("=") for line in section.partition("[")[0].splitlines())
        found |= {name.strip(): target.strip() for name, equals, target in lines if equals}
    return {name: target for name, target in found.items() if name not in Commands.functions}


class Command(TyperCommand):
    """A command that hides its rarer options from ``--help``; ``--help-all`` shows them in their panels."""

    _shows_all = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Lines of a docstring's paragraph flow together.
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (self.help or "").split("\n\n"))
        self._rarer: list[Any] = [parameter for parameter in self.params if getattr(parameter, "hidden", False)]
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.metavar = parameter.metavar or str(parameter.name).upper()
            elif getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif getattr(parameter, "multiple", False):
                parameter.metavar = parameter.metavar or "VALUE"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember which help was asked for, and parse; refuse an option that takes one value and is given several."""
        self._shows_all = "--help-all" in args
        *_, order = self.make_parser(ctx).parse_args(list(args))
        for parameter in order:
            single = not (getattr(parameter, "multiple", True) or getattr(parameter, "is_flag", False))
            if single and order.count(parameter) > 1:
                raise ArgumentError(f"{parameter.opts[0]} is given twice, and takes one value.")
        return super().parse_args(ctx, args)

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """Offer both steps on every command, whether or not the second shows more."""
        return ["--help", "--help-all"]

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option that shows help, a flag like others."""
        option: Any = super().get_help_option(ctx)
        option.metavar = ""
        option.help = "Show these options, or all of them, and exit."
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, and say how many options it does not show."""
        number = len(self._rarer)
        hidden = number > 0 and not self._shows_all
        self.epilog = f"{amount(number, 'more option')}: {ctx.command_path} --help-all" if hidden else None
        for parameter in self._rarer:
            parameter.hidden = hidden
        try:
            super().format_help(ctx, formatter)
        finally:
            for parameter in self._rarer:
                parameter.hidden = True
