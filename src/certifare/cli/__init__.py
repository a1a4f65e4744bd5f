"""The command ``certifare``. One module per command; nothing heavy is imported before a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from certifare.cli import key
from certifare.cli.calibrate import calibrate
from certifare.cli.certify import certify
from certifare.cli.check import check
from certifare.cli.count import count
from certifare.cli.demo import demo
from certifare.cli.encode import encode
from certifare.cli.explain import explain
from certifare.cli.fit import fit
from certifare.cli.help import Commands
from certifare.cli.monitor import monitor
from certifare.cli.plan import plan
from certifare.cli.report import report
from certifare.cli.running import run
from certifare.cli.show import show
from certifare.cli.sign import sign
from certifare.cli.sql import sql
from certifare.cli.studio import studio
from certifare.cli.sweep import sweep
from certifare.cli.verify import verify
from certifare.foundation.version import __version__

Commands.functions = {
    **{
        command.__name__: command
        for command in (
            *(demo, plan, check, fit, calibrate, encode, certify, count, sign, verify, monitor, sweep, show, explain),
            *(sql, report, studio),
        )
    },
    "key": key.app,
}
app = typer.Typer(
    name="certifare",
    cls=Commands,
    help="Representations of tables about people, with a certificate that bounds how differently any classifier can "
    "treat the groups.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(value: bool) -> None:
    if value:
        print(f"certifare {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    run(app)
