"""What every command shares: options, output for people and for machines, and errors without a traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from certifare.errors import CertifareError, FileError

#: Exit statuses, beside 0: the claim does not hold; the input is bad; the user interrupted.
REFUSED, BAD_INPUT, INTERRUPTED = 1, 2, 130

#: Results go to standard output, progress and errors to standard error, so that output can be piped.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.", min=0)]
Label = Annotated[
    list[str] | None, typer.Option(help='Label column, or a comparison such as "income>50000". Repeat for several.')
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(help='Sensitive column, or a comparison such as "age>=60". Repeat to intersect several.'),
]
Weight = Annotated[str | None, typer.Option(help="Column of survey weights.")]
Cluster = Annotated[str | None, typer.Option(help="Column that marks dependent records (household, patient).")]
Categorical = Annotated[list[str] | None, typer.Option(help="Read this column as categories. Repeat for several.")]
Continuous = Annotated[list[str] | None, typer.Option(help="Read this column as a quantity. Repeat for several.")]
Drop = Annotated[list[str] | None, typer.Option(help="Leave this column out. Repeat for several.")]
Delimiter = Annotated[str | None, typer.Option(help="Delimiter of a CSV file; recognised unless given.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file; recognised unless given.")]
MissingMarker = Annotated[
    list[str] | None, typer.Option("--missing", help="Text that stands for a missing value. Repeat for several.")
]
Confidence = Annotated[float, typer.Option(help="1 − ε, the confidence of the bound.")]
MetricName = Annotated[
    str, typer.Option("--metric", help="demographic_parity, equal_opportunity, equalized_odds or equalized_odds_max.")
]
Key = Annotated[Path | None, typer.Option(help="Private key to sign with (certifare key new).")]


def run(app: typer.Typer) -> None:
    """Run the application: a user's mistake is one message on standard error, and an exit status."""
    try:
        status = app(standalone_mode=False)
    except typer.Exit as done:
        status = done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except CertifareError as error:
        status = _report(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        status = 0
    except Exception as error:
        # The argument parser's own errors know how they want to be shown.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        status = BAD_INPUT
    if status == INTERRUPTED:
        err.print("interrupted: nothing was written")
    sys.exit(status if isinstance(status, int) else 0)


def _report(message: str) -> int:
    if "--json" in sys.argv:
        print(json.dumps({"error": message}, ensure_ascii=False))
    err.print(f"[bold red]error:[/] {escape(printable(message))}", soft_wrap=True)
    return BAD_INPUT


def emit(document: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print the document as JSON, or let ``show`` print it for people."""
    if as_json:
        print(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        show()


@contextmanager
def progress(description: str, total: float | None, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error; yields a function that says how much is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.update(task, completed=done)


def encoder_file(path: Path) -> Path:
    """Return the encoder's file, given itself or the bundle it is in."""
    found = path / "encoder.json" if path.is_dir() else path
    if not found.exists():
        raise FileError(f"There is no encoder at {str(path)!r}: give an encoder.json, or the bundle it is in.")
    return found


def listed(values: list[str] | None) -> tuple[str, ...]:
    """Return the values of an option that may be repeated."""
    return tuple(values or ())


def printable(text: str) -> str:
    """Replace control characters: names in a file may not steer the reader's terminal."""
    return "".join(character if character.isprintable() or character == "\n" else "\ufffd" for character in text)
