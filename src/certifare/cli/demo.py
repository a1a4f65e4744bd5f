"""``certifare demo``: the whole job on the table that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from certifare.cli.arguments import check_distance
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import Json, Seed, Verbose, declare
from certifare.cli.printing import show_bundle
from certifare.cli.progress_bars import stages
from certifare.cli.published import command_line
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit, out
from certifare.foundation.storage import open_regular
from certifare.foundation.version import VERIFY_PAGE

#: The bound that the demonstration asks for, and that of its audit kit.
TARGET = 0.08
DATASET = "Adult: 48,842 people from the US census of 1994 (UCI)"


def demo(
    context: typer.Context,
    output: Annotated[
        Path | None,
        declare(None, "Folder to write (certifare-demo; of an audit kit certifare-audit-kit).", "--output", "-o"),
    ] = None,
    replace: Annotated[
        bool, declare(None, "Replace the folder if it is a bundle. One that demo made is, anyway.", "--replace")
    ] = False,
    target: Annotated[float | None, declare(None, f"The largest T* to accept ({TARGET}).")] = None,
    audit_kit: Annotated[
        bool,
        declare(
            None,
            "Write what an auditor is given instead: a signed certificate, the key, records of their own, and "
            "what each check prints.",
            "--audit-kit",
        ),
    ] = False,
    seed: Seed = 0,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Run the whole job on the Adult table: an income above 50,000 dollars is the label, sex the sensitive column.

    UCI Adult, 48,842 people from the US census of 1994 (Becker & Kohavi 1996, CC BY 4.0).
    """
    from certifare.bundle import check_output, produce
    from certifare.data import adult

    refuse_ignored(context, *(() if as_json or audit_kit else ("printed",)))
    check_distance("--target", target)
    if audit_kit:
        _kit(context, output or Path("certifare-audit-kit"), TARGET if target is None else target, seed, as_json)
        return
    output = output or Path("certifare-demo")
    target = TARGET if target is None else target
    replace = replace or _made_here(output)
    check_output(output, replace=replace)
    with stages(quiet=as_json) as progress:
        progress("reading Adult", 0, 1)
        bundle = produce(adult(), target=target, seed=seed, progress=progress, ledger=False)
        solved = bundle.verdict != "NO SOLUTION"
        if solved:
            progress("writing the report", 0, 1)
            bundle.save(output, dataset=DATASET, command=command_line(context), replace=replace)

    def show() -> None:
        about = ": 48,842 people, label: income above 50,000 dollars, sensitive: sex\n"
        out.print(Text.assemble(("Adult", "bold"), about))
        show_bundle(bundle, output if solved else None, signed=False, verbose=verbose)
        if solved:
            out.print(f"        or drop certificate.json on {VERIFY_PAGE}", soft_wrap=True)

    document = {**bundle.to_dict(), "bundle": str(output) if solved else None}
    emit(document, as_json, show, outcome=bundle.verdict, status=0 if solved else REFUSED)


def _kit(context: typer.Context, output: Path, target: float, seed: int, as_json: bool) -> None:
    """Write an audit kit, and say how to begin."""
    from certifare.cli.kit import CHECKS, check_kit, make_kit

    check_kit(output)
    with stages(quiet=as_json) as progress:
        bundle = make_kit(
            output, target=target, seed=seed, dataset=DATASET, command=command_line(context), progress=progress
        )
    solved = bundle.certificate is not None

    def show() -> None:
        out.print(str(bundle), soft_wrap=True)
        if solved:
            out.print(
                f"kit   {output}: README.txt says what is in it, expected/ what each check prints", soft_wrap=True
            )
            out.print(f"next  cd {output} && {CHECKS['2-figures']}", soft_wrap=True)
            out.print(f"      or, without installing anything, drop its files on {VERIFY_PAGE}", soft_wrap=True)

    document = {"verdict": bundle.verdict, "kit": str(output) if solved else None, "checks": CHECKS}
    emit(document, as_json, show, outcome=bundle.verdict, status=0 if solved else REFUSED)


def _made_here(folder: Path) -> bool:
    """Whether a folder is the bundle of a former demonstration, which may be replaced unasked."""
    try:
        with open_regular(folder / "private" / "run.json") as file:
            command = json.loads(file.read(1 << 24))["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return str(command).split()[:2] == ["certifare", "demo"]
