"""``certifare verify``: the auditor's command."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from certifare.cli.checks import STYLES, print_checks
from certifare.cli.common import (
    COLUMNS,
    INCONCLUSIVE,
    REFUSED,
    REQUIRED,
    Cluster,
    Json,
    PublicKey,
    Weight,
    emit,
    listed,
    out,
    printable,
)
from certifare.cli.options import option, unfold
from certifare.cli.support import refuse_ignored
from certifare.document.policy import Policy

if TYPE_CHECKING:
    from certifare.document import Outcome, Verdict

STATUS: dict[Outcome, int] = {"PASS": 0, "FAIL": REFUSED, "INCONCLUSIVE": INCONCLUSIVE}


def with_policy(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of a policy; the command itself takes the policy that they make."""
    types = get_type_hints(Policy, include_extras=True)
    fields = [_option(field.name, field.default, *get_args(types[field.name])) for field in dataclasses.fields(Policy)]

    def policy(**given: Any) -> Policy:
        return Policy(**{name: value for name, value in given.items() if value is not None})

    return unfold(command, inspect.signature(command, eval_str=True), {"policy": (fields, policy)})


def _option(name: str, default: Any, kind: Any, words: str) -> inspect.Parameter:
    """Make the option of one field: repeated where it holds several names, a switch where it is true or false."""
    several = kind == tuple[str, ...]
    word = {"max_bound": "max"}.get(name, name.removesuffix("s") if several else name)
    form: dict[str, Any] = {"parser": date.fromisoformat, "metavar": "DATE"} if kind == date | None else {}
    info = typer.Option(f"--{word.replace('_', '-')}", help=words, rich_help_panel=REQUIRED, **form)
    annotation: Any = Annotated[list[str] | None if several else kind, info]
    return option(name, None if several else default, annotation)


@with_policy
def verify(
    *,
    context: typer.Context,
    certificate: Annotated[Path, typer.Argument(help="A certificate file, or a bundle's folder.")],
    key: PublicKey = None,
    encoder: Annotated[Path | None, typer.Option(help="The encoder's file, which must be the certified one.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Records of your own, on which the encoder is certified anew.")
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            help='Sensitive column of --data, or a comparison such as "age>=60", if not as certified.',
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of --data, if not as certified.", rich_help_panel=COLUMNS)
    ] = None,
    weight: Weight = None,
    cluster: Cluster = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="A table with columns cell and prediction: the classifier whose own distance you ask for."),
    ] = None,
    policy: Policy,
    as_json: Json = False,
) -> None:
    """Check a certificate: format, signature, encoder, and every figure, recomputed from its counts.

    Exit status: 0 PASS, every required check holds; 1 FAIL, one does not; 2 a file cannot be read; 3 INCONCLUSIVE,
    your own records neither contradict the claim nor suffice to confirm it.
    """
    from certifare.document import verify_document

    refuse_ignored(context, *(("certificate",) if data is None else ()))
    verdict = verify_document(
        certificate,
        policy,
        key=key,
        encoder=encoder,
        data=data,
        sensitive=listed(sensitive),
        label=label,
        weight=weight,
        cluster=cluster,
        predictions=None if predictions is None else read_predictions(predictions),
    )
    emit(verdict.to_dict(), as_json, lambda: print_verdict(verdict))
    if not verdict.passed:
        raise typer.Exit(STATUS[verdict.outcome])


def read_predictions(path: Path) -> list[Any]:
    """Read one prediction for each cell, in the order of the cells."""
    from certifare.errors import MissingColumnError, TableError
    from certifare.tables.files import read_file

    table, _ = read_file(path)
    for name in ("cell", "prediction"):
        if name not in table.column_names:
            raise MissingColumnError(
                f"{str(path)!r} has no column {name!r}: it needs the columns cell and prediction, a row for each cell."
            )
    by_cell = dict(zip(table["cell"].to_pylist(), table["prediction"].to_pylist(), strict=True))
    if len(by_cell) != table.num_rows or set(by_cell) != set(range(len(by_cell))):
        raise TableError(f"{str(path)!r}: the column cell must name each cell 0, 1, 2 … once.")
    if any(value is None for value in by_cell.values()):
        raise TableError(f"{str(path)!r}: a cell has no prediction.")
    return [by_cell[cell] for cell in range(len(by_cell))]


def print_verdict(verdict: Verdict) -> None:
    """Print each check, the outcome, and what was not checked."""
    from rich.text import Text

    print_checks(verdict.checks)
    word = Text(verdict.outcome, STYLES[verdict.outcome])
    if verdict.passed and verdict.claim is not None:
        word.append(f"  {printable(verdict.claim)}", "default not bold")
    out.print()
    out.print(word)
    if verdict.passed and verdict.unchecked:
        out.print(f"Not checked: {', '.join(check.name for check in verdict.unchecked)}.", style="yellow")
