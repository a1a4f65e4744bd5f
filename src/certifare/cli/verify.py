"""``certifare verify``: the auditor's command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.common import REFUSED, Cluster, Json, Weight, emit, listed, out

if TYPE_CHECKING:
    from certifare.document import Verdict


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate file, or a bundle's folder.")],
    key: Annotated[Path | None, typer.Option(help="Public key of the one who should have signed it.")] = None,
    encoder: Annotated[Path | None, typer.Option(help="The encoder's file, which must be the certified one.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Records of your own, on which the encoder is certified anew.")
    ] = None,
    sensitive: Annotated[
        list[str] | None, typer.Option(help="Sensitive column of --data, if it is called differently there.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of --data, if it is called differently.")] = None,
    weight: Weight = None,
    cluster: Cluster = None,
    max_bound: Annotated[float | None, typer.Option("--max", help="The largest bound to accept.")] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="A table with columns cell and prediction: the classifier whose own distance you ask for."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a certificate: format, signature, encoder, and every figure, recomputed from its counts.

    Exit status: 0 if nothing speaks against it, 1 if it is refused, 2 if a file cannot be read.
    """
    from certifare.document import verify_document

    verdict = verify_document(
        certificate,
        key=key,
        encoder=encoder,
        data=data,
        sensitive=listed(sensitive),
        label=label,
        weight=weight,
        cluster=cluster,
        max_bound=max_bound,
        predictions=None if predictions is None else read_predictions(predictions),
    )
    emit(verdict.to_dict(), as_json, lambda: _print(verdict))
    if not verdict.passed:
        raise typer.Exit(REFUSED)


def read_predictions(path: Path) -> list[Any]:
    """Read one prediction for each cell, in the order of the cells."""
    from certifare.errors import MissingColumnError, TableError
    from certifare.files import read_file

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


def _print(verdict: Verdict) -> None:
    from rich.table import Table
    from rich.text import Text

    marks = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "dim")}
    table = Table.grid(padding=(0, 2))
    for check in verdict.checks:
        mark, style = marks[check.ok]
        table.add_row(Text(mark, style), Text(check.name, style), Text(printable(check.message)))
    out.print(table)
    word = Text("PASS", "bold green") if verdict.passed else Text("FAIL", "bold red")
    if verdict.passed and verdict.claim is not None:
        word.append(f"  {printable(verdict.claim)}", "default not bold")
    out.print()
    out.print(word)


def printable(text: str) -> str:
    """Replace control characters: names in a file may not steer the reader's terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
