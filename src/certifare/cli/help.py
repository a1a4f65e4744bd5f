"""Help in two steps: ``--help`` shows what most people need, ``--help-all`` every option."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from certifare.errors import ArgumentError
from certifare.foundation.formatting import amount


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
