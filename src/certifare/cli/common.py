"""What every command shares: options, output for people and for machines, and errors without a traceback."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args, get_origin

import typer
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from certifare.errors import CertifareError, FileError
from certifare.foundation.formatting import amount
from certifare.foundation.storage import nothing_overwritten

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

    from certifare.certificates.counts import Exclusion

#: What the encoder's file of a bundle is called.
ENCODER = "encoder.json"
#: Exit statuses, beside 0: the claim does not hold; the input is bad; nothing was decided; the user interrupted.
REFUSED, BAD_INPUT, INCONCLUSIVE, INTERRUPTED = 1, 2, 3, 130
#: Exit status of a mistake in certifare itself (EX_SOFTWARE).
BUG = 70
#: An error is told in at most so many characters; names in a file may be as long as the file.
LONGEST_MESSAGE = 2000


def printable(text: str) -> str:
    """Replace what acts on a terminal instead of showing on it: line ends, control characters, changes of direction.

    >>> printable(f"{chr(27)}[31m red")
    '�[31m red'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


class Terminal(Console):
    """A console on which names and values from a file only show: there is no markup, and control characters do not act.

    What is to have a style is printed as :class:`rich.text.Text`; what is to stay in one line goes through
    :func:`printable` first.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Render what is printed, and what is inside of it; rich's own control codes stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


#: Results go to standard output, progress and errors to standard error, so that output can be piped.
out = Terminal()
err = Terminal(stderr=True)

#: Panels that the help of a command is laid out in.
COLUMNS, SEARCH, CLAIM, READING = "Columns", "What to try", "The claim", "Reading and writing"
REQUIRED = "What is required"


def _data_name(name: str | None) -> str | None:
    """Refuse a name that a certificate cannot hold before any work is done."""
    if name is None:
        return None
    from certifare.document.statement import MAX_NAME
    from certifare.errors import ArgumentError

    if not 1 <= len(name) <= MAX_NAME:
        raise ArgumentError(f"--dataset: give a name of 1 to {MAX_NAME} characters, not of {len(name):,}.")
    return name


class Address(str):
    """Where a database is. Like the path of a file, it is not published."""


def suggest(*values: str) -> Callable[[], list[str]]:
    """Make a function that shell completion takes values from."""
    return lambda: list(values)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Seed = Annotated[int, typer.Option(help="Seed of every random choice.", min=0)]
Label = Annotated[
    list[str] | None,
    typer.Option(
        help='Label column, or a comparison such as "income>50000". Repeat for several.', rich_help_panel=COLUMNS
    ),
]
Sensitive = Annotated[
    list[str] | None,
    typer.Option(
        help='Sensitive column, or a comparison such as "age>=60". Repeat to intersect several.',
        rich_help_panel=COLUMNS,
    ),
]
#: The same where a command cannot do without.
RequiredLabel = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        help='Label column, or a comparison such as "income>50000". Repeat for several. Required.',
        rich_help_panel=REQUIRED,
    ),
]
RequiredSensitive = Annotated[
    list[str] | None,
    typer.Option(
        "--sensitive",
        help='Sensitive column, or a comparison such as "age>=60". Repeat to intersect several. Required.',
        rich_help_panel=REQUIRED,
    ),
]
SensitiveFile = Annotated[
    Path | None,
    typer.Option(help="A second file that holds sensitive columns; --on names the key.", rich_help_panel=COLUMNS),
]
JoinKey = Annotated[
    str | None,
    typer.Option(
        "--on", help="With --sensitive-file: the column of both files that joins them.", rich_help_panel=COLUMNS
    ),
]
Weight = Annotated[str | None, typer.Option(help="Column of survey weights.", rich_help_panel=COLUMNS)]
Cap = Annotated[
    float | None,
    typer.Option(
        help="With --weight: thin to weights capped here, and bound what lies above (inf: no cap). The cap of the "
        "bundle's own certificate unless given.",
        rich_help_panel=COLUMNS,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Column that marks dependent records (household, patient).", rich_help_panel=COLUMNS),
]
Sql = Annotated[
    Address | None,
    typer.Option(
        "--sql",
        parser=Address,
        metavar="ADDRESS",
        help="Count in this database: duckdb:///file, sqlite:///file, postgresql://user@host/db, spark://host:port.",
    ),
]
TableName = Annotated[str | None, typer.Option("--table", help="With --sql: the table, or schema.table.")]
CountUnknownGroups = Annotated[
    bool, typer.Option(help="Count records without a group as a group of their own, instead of leaving them out.")
]
Confidence = Annotated[float, typer.Option(help="1 − ε, the confidence of the bound.", rich_help_panel=CLAIM)]
METRIC_NAMES = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
MetricName = Annotated[
    str,
    typer.Option(
        "--metric",
        help="demographic_parity, equal_opportunity, equalized_odds or equalized_odds_max.",
        rich_help_panel=CLAIM,
        autocompletion=suggest(*METRIC_NAMES),
    ),
]
OwnMetric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="As for fit; unless given, what the bundle's certificate bounds, or demographic_parity.",
        rich_help_panel=CLAIM,
        autocompletion=suggest(*METRIC_NAMES),
    ),
]
PositiveLabel = Annotated[
    str | None, typer.Option("--positive", help="The positive label, for equal_opportunity.", rich_help_panel=CLAIM)
]
Population = Annotated[
    str,
    typer.Option(
        help="With --cluster: the claim is about random clusters or records.",
        rich_help_panel=CLAIM,
        autocompletion=suggest("clusters", "records"),
    ),
]
OwnPopulation = Annotated[
    str | None,
    typer.Option(
        "--population",
        help="With --cluster: the claim is about random clusters or records; clusters unless given or certified.",
        rich_help_panel=CLAIM,
        autocompletion=suggest("clusters", "records"),
    ),
]
LabelCuts = Annotated[
    str | None,
    typer.Option(
        help="Where a label that is a quantity is cut into bands: 20000,50000.",
        metavar="NUMBERS",
        rich_help_panel=COLUMNS,
    ),
]
Key = Annotated[
    Path | None, typer.Option(help="Private key to sign with (certifare key new).", rich_help_panel=READING)
]
PublicKey = Annotated[
    Path | None, typer.Option("--key", help="Public key of the one who should have signed the certificate.")
]

Dataset = Annotated[
    str | None,
    typer.Option(help="What to call the data in certificate and report.", callback=_data_name, rich_help_panel=READING),
]
KeepLedger = Annotated[
    bool,
    typer.Option(
        "--ledger/--no-ledger",
        help="Count looks at the certification records (digests only, in your state folder).",
        rich_help_panel=CLAIM,
    ),
]
Looks = Annotated[
    int | None,
    typer.Option(
        help="How many looks at the certification records are planned: each has its share of ε.",
        min=1,
        rich_help_panel=CLAIM,
    ),
]


class Ended(BaseException):
    """The system asked the process to end. Like an interrupt, it cleans up on its way out."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)


@contextmanager
def _orderly_end() -> Iterator[None]:
    """Within this, SIGTERM and SIGHUP are raised as :class:`Ended`, once; where they are ignored (nohup), never."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    caught = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        caught = []

    def end(number: int, _: Any) -> NoReturn:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)  # nothing disturbs the cleaning
        raise Ended(number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def run(app: typer.Typer) -> None:
    """Run the application: a user's mistake is one message on standard error, and an exit status."""
    try:
        with _orderly_end(), nothing_overwritten():
            status = app(standalone_mode=False)
    except typer.Exit as done:
        status = done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except Ended as ended:
        err.print(f"ended by {ended.signal.name}: nothing was written")
        status = 128 + ended.signal
    except CertifareError as error:
        status = _report(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        status = 0
    except OSError as error:
        status = _report(f"{error.filename or 'a file'}: {error.strerror or error}.")
    except MemoryError:
        status = _report("There is not enough memory for this.")
    except Exception as error:
        # The argument parser's own errors know how they want to be shown.
        show = getattr(error, "show", None)
        if show is None:
            status = _bug(error)
        else:
            if _wants_json():
                print_json({"error": error.format_message()}, indent=None)  # type: ignore[attr-defined]
            show()
            status = BAD_INPUT
    if status == INTERRUPTED:
        err.print("interrupted: nothing was written")
    sys.exit(status if isinstance(status, int) else 0)


def _report(message: str) -> int:
    if _wants_json():
        print_json({"error": message}, indent=None)
    line = printable(message.replace("\n", " "))
    if len(line) > LONGEST_MESSAGE:
        line = line[: LONGEST_MESSAGE - 1] + "…"
    err.print(Text.assemble(("error: ", "bold red"), line), soft_wrap=True)
    return BAD_INPUT


def _bug(error: Exception) -> int:
    """Tell of a mistake in certifare itself, without what the exception says: that may be somebody's data."""
    if os.environ.get("CERTIFARE_DEBUG"):
        traceback.print_exception(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    _report(
        f"This is a mistake in certifare, not in your input: {type(error).__name__} in {Path(where.filename).name}, "
        f"line {where.lineno}. Run the command again with CERTIFARE_DEBUG=1 to see more, and please report it."
    )
    return BUG


def _wants_json() -> bool:
    return "--json" in sys.argv


def print_json(document: Any, indent: int | None = 2) -> None:
    """Print a JSON document; what is not printable in it is escaped, which changes nothing for who parses it."""
    text = json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False)
    print(re.sub(r"[^\n -~]+", lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text))


def print_exactly(text: str) -> None:
    """Print text for another program, as it is; if a person looks at it, so that it only shows."""
    print("\n".join(map(printable, text.split("\n"))) if sys.stdout.isatty() else text)


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def emit(document: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print the document as JSON, or let ``show`` print it for people."""
    if as_json:
        print_json(document)
    else:
        show()


def show_left_out(exclusions: Iterable[Exclusion]) -> None:
    """Tell how many records were left out, and why."""
    for exclusion in exclusions:
        err.print(f"left out: {amount(exclusion.records, 'record')} ({printable(exclusion.reason)})", soft_wrap=True)


def show_notes(notes: Iterable[str]) -> None:
    """Tell what else there is to know of a result, a line each."""
    for note in notes:
        err.print(f"note: {printable(note)}", soft_wrap=True)


@contextmanager
def progress(description: str, total: float | None, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on standard error; yields a function that says how much is done."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet or not err.is_terminal) as bar:
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
    if not err.is_terminal:
        lines = StageLines()
        yield lines.tell
        lines.end()
        return
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
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
    """Stages as lines, for whoever reads a log.

    The first is held back until something else is to be said: a table that cannot be read is told of in one line.
    """

    #: A stage that goes on has a line after so many seconds.
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


def second_file(path: Path | None, key: str | None) -> dict[str, Any]:
    """Return the keywords of ``read_table`` for sensitive columns in a file of their own."""
    from certifare.errors import ArgumentError

    if path is None:
        return {}
    if key is None:
        raise ArgumentError(f"By which column is {path.name!r} to be joined? Pass --on.")
    return {"sensitive_file": str(path.absolute()), "on": key}


def cuts_of(text: str | None, quantiles: int | None = None) -> tuple[float, ...] | None:
    """Where the label is cut, from the option; None if it is not."""
    from certifare.errors import ArgumentError

    if text is None:
        return None
    if quantiles is not None:
        raise ArgumentError("Give either --label-cuts or --label-quantiles, not both.")
    try:
        return tuple(float(cut) for cut in text.split(","))
    except ValueError:
        raise ArgumentError(f"--label-cuts {text}: give numbers in ascending order, such as 20000,50000.") from None


def check_distance(option: str, value: float | None) -> None:
    """Refuse a number that is no distance between groups, before any work is done."""
    from certifare.errors import ArgumentError

    if value is not None and not 0.0 <= value <= 1.0:
        raise ArgumentError(f"{option} {value}: give a distance in [0, 1].")


def encoder_file(path: Path) -> Path:
    """Return the encoder's file, given itself or the bundle it is in."""
    found = path / ENCODER if path.is_dir() else path
    if not found.exists():
        raise FileError(f"There is no encoder at {str(path)!r}: give an encoder.json, or the bundle it is in.")
    return found


def signing_key(path: Path | None) -> CryptoSigner | None:
    """Load the private key to sign with, if one was named.

    Its passphrase is asked for, if it has one and a person is there.
    """
    if path is None:
        return None
    from certifare.document import load_private_key
    from certifare.document.keys import PASSPHRASE_VARIABLE, locked

    if locked(path) and PASSPHRASE_VARIABLE not in os.environ and sys.stdin.isatty():
        return load_private_key(path, typer.prompt(f"Passphrase of {path}", hide_input=True, err=True))
    return load_private_key(path)


#: Types of parameters whose values are published as they are. Any other (a path, an address) is private.
PUBLISHED = frozenset({str, int, float, bool, type(None)})


def command_line(context: typer.Context) -> str:
    """Return the command that is running, as it may be published: options as given, but nothing of where files lie.

    What a parameter is declared as decides. A path or an address stands there by the parameter's name alone, so that
    ``certify /home/me/encoder.json people.csv --key me.pem`` becomes ``certify ENCODER DATA --key KEY``.
    """
    declared = inspect.signature(context.command.callback, eval_str=True).parameters  # type: ignore[arg-type]
    words = ["certifare", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is None or source.name.startswith("DEFAULT"):
            continue
        value = context.params[name]
        published = _leaves(declared[name].annotation) <= PUBLISHED
        for entry in value if isinstance(value, list | tuple) else [value]:
            if parameter.param_type_name == "option":
                on = entry is not False or not parameter.secondary_opts
                words.append(parameter.opts[0] if on else parameter.secondary_opts[0])
                if isinstance(entry, bool):
                    continue
            words.append(str(entry) if published else name.upper())
    return shlex.join(words)


def _leaves(annotation: Any) -> set[Any]:
    """Return the plain types that a parameter is declared with: those inside lists and alternatives."""
    if get_origin(annotation) is Annotated:
        return _leaves(get_args(annotation)[0])
    inner = get_args(annotation)
    return set().union(*map(_leaves, inner)) if inner else {annotation}


def listed(values: list[str] | None) -> tuple[str, ...]:
    """Return the values of an option that may be repeated."""
    return tuple(values or ())


def single_label(values: list[str] | None) -> str | None:
    """Return the label, if one was named; refuse several."""
    from certifare.errors import ArgumentError

    if values is not None and len(values) > 1:
        raise ArgumentError("Certificates condition on one label column: pass --label once.")
    return values[0] if values else None
