"""``certifare demo``: the whole job on the table that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from certifare.cli.common import REFUSED, Json, Seed, command_line, emit, out, stages

#: The bound that the demonstration asks for.
TARGET = 0.08
DATASET = "Adult: 48,842 people from the US census of 1994 (UCI)"
#: Fewer values of gamma than a real search tries, so that it takes seconds.
GAMMAS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.995)


def demo(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundle.")] = Path("certifare-demo"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the folder if it is a bundle. One that demo made is, anyway.")
    ] = False,
    target: Annotated[float, typer.Option(help="The largest T* to accept.")] = TARGET,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit an encoder to the Adult table: what predicts an income above 50,000 dollars, whatever the sex.

    UCI Adult, 48,842 people from the US census of 1994 (Becker & Kohavi 1996, CC BY 4.0).
    """
    from certifare.bundle import check_output, produce
    from certifare.cli.fit import show_bundle
    from certifare.data import adult
    from certifare.frontier import Grid

    replace = replace or _made_here(output)
    check_output(output, replace=replace)
    with stages(quiet=as_json) as progress:
        progress("reading Adult", 0, 1)
        bundle = produce(adult(), target=target, grid=Grid(gammas=GAMMAS), seed=seed, progress=progress, ledger=False)
        solved = bundle.verdict != "NO SOLUTION"
        if solved:
            progress("writing the report", 0, 1)
            bundle.save(output, dataset=DATASET, command=command_line(context), replace=replace)

    def show() -> None:
        about = ": 48,842 people, label: income above 50,000 dollars, sensitive: sex\n"
        out.print(Text.assemble(("Adult", "bold"), about))
        show_bundle(bundle, output if solved else None, signed=False)

    emit({**bundle.to_dict(), "bundle": str(output) if solved else None}, as_json, show)
    if not solved:
        raise typer.Exit(REFUSED)


def _made_here(folder: Path) -> bool:
    """Whether a folder is the bundle of a former demonstration, which may be replaced unasked."""
    from certifare.storage import open_regular

    try:
        with open_regular(folder / "private" / "run.json") as file:
            command = json.loads(file.read(1 << 24))["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return str(command).split()[:2] == ["certifare", "demo"]
