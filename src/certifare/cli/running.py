"""Run the application: exit statuses, errors without a traceback, and an orderly end."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.text import Text

from certifare.cli.terminal import accept_any_encoding, err, print_json, printable, with_outcome
from certifare.errors import CertifareError
from certifare.foundation.formatting import shortened
from certifare.foundation.storage import nothing_overwritten

#: Exit statuses, beside 0: the claim does not hold; the input is bad; nothing was decided; the user interrupted.
REFUSED, BAD_INPUT, INCONCLUSIVE, INTERRUPTED = 1, 2, 3, 130
#: Exit status of a mistake in certifare itself (EX_SOFTWARE).
BUG = 70
#: What the parser of options says about a value, and what people read.
PLAINER = (
    (r"Invalid value for '(.+?)': ", r"\1: "),
    (r"Input should be a valid number, unable to parse string as a number", "give a number"),
    (r"Input should be a valid integer, unable to parse string as an integer", "give a whole number"),
    (r"Input should be greater than or equal to ", "give at least "),
    (r"Got unexpected extra argument\(s\)", "Unexpected arguments"),
    (r"No such option: (\S+) \(Possible options: (.+)\)", r"No such option \1. Did you mean \2?"),
)
#: The longest error message; names in a file may be as long as the file.
LONGEST_MESSAGE = 2000


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
    accept_any_encoding()
    try:
        with _orderly_end(), nothing_overwritten():
            status = app(prog_name="certifare", standalone_mode=False)
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
        status = _usage_error(error) if hasattr(error, "format_message") else _bug(error)
    if status == INTERRUPTED:
        err.print("interrupted: nothing was written")
    sys.exit(status if isinstance(status, int) else 0)


def _usage_error(error: Any) -> int:
    """Report what the argument parser refuses; without any argument it shows the help instead."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    context = getattr(error, "ctx", None)
    hint = "" if context is None else f" See {context.command_path} --help."
    message = error.format_message().rstrip(".")
    for words, plainer in PLAINER:
        message = re.sub(words, plainer, message)
    return _report(f"{message}{'' if message.endswith('?') else '.'}{hint}")


def _report(message: str, status: int = BAD_INPUT) -> int:
    """Print an error, also as JSON if that was asked for; return the exit status."""
    if "--json" in sys.argv:
        print_json(with_outcome({"error": message}, "ERROR", status), indent=None)
    line = shortened(printable(message.replace("\n", " ")), LONGEST_MESSAGE)
    err.print(Text.assemble(("Error: ", "bold red"), line), soft_wrap=True)
    return status


def _bug(error: Exception) -> int:
    """Tell of a mistake in certifare itself, without what the exception says: that may be somebody's data."""
    if os.environ.get("CERTIFARE_DEBUG"):
        traceback.print_exception(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return _report(
        f"This is a mistake in certifare, not in your input: {type(error).__name__} in {Path(where.filename).name}, "
        f"line {where.lineno}. Run the command again with CERTIFARE_DEBUG=1 to see more, and please report it.",
        BUG,
    )
