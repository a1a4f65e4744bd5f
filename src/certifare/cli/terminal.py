"""Print results for people and for programs: text that only shows, one JSON document, notes."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.segment import Segment

from certifare.errors import FileError
from certifare.foundation.formatting import amount

if TYPE_CHECKING:
    from certifare.certificates.counts import Exclusion

#: What signs become if the terminal's encoding lacks them; any other becomes a question mark.
PLAIN = {
    "✓": "ok", "✗": "x", "–": "-", "−": "-", "·": "-", "…": "...", "≤": "<=", "≥": ">=", "→": "->", "×": "x",
    "ε": "eps",
}  # fmt: skip
#: Version of the JSON documents that commands print. It grows if a key is taken away or changes its meaning.
SCHEMA_VERSION = 1


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


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    """Replace what an encoding lacks; a handler of :mod:`codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def accept_any_encoding() -> None:
    """Let text be printed wherever it goes: a locale without UTF-8, or a pipe on Windows, lacks most of our signs."""
    codecs.register_error("certifare", _in_plain_signs)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="certifare")


def print_json(document: Any, indent: int | None = 2) -> None:
    """Print a JSON document; what is not printable in it is escaped, which changes nothing for who parses it."""
    text = json.dumps(document, ensure_ascii=not _prints("ä≤"), indent=indent, allow_nan=False)
    print(re.sub(r"[^\n -~]+", lambda found: found[0] if found[0].isprintable() else _escaped(found[0]), text))


def print_exactly(text: str) -> None:
    """Print text for another program, as it is; if a person looks at it, so that it only shows."""
    if not _prints(text):
        raise FileError(
            f"The encoding of the output ({sys.stdout.encoding}) lacks characters of this text: set PYTHONUTF8=1."
        )
    print("\n".join(map(printable, text.split("\n"))) if sys.stdout.isatty() else text)


def _prints(text: str) -> bool:
    """Return whether standard output has all characters of a text."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def with_outcome(document: Mapping[str, Any], outcome: str, status: int) -> dict[str, Any]:
    """Return a JSON document that begins with its version, what came out, and the exit status."""
    head = {"schema_version": SCHEMA_VERSION, "outcome": outcome, "exit_status": status}
    return {**head, **document, **head}


def emit(
    document: Mapping[str, Any], as_json: bool, show: Callable[[], None], *, outcome: str = "DONE", status: int = 0
) -> None:
    """Print the result as JSON, or let ``show`` print it for people; end with the exit status."""
    if as_json:
        print_json(with_outcome(document, outcome, status))
    else:
        show()
    if status:
        raise typer.Exit(status)


def show_left_out(exclusions: Iterable[Exclusion]) -> None:
    """Tell how many records were left out, and why."""
    for exclusion in exclusions:
        err.print(f"left out: {amount(exclusion.records, 'record')} ({printable(exclusion.reason)})", soft_wrap=True)


def show_notes(notes: Iterable[str]) -> None:
    """Print notes on a result, one on a line."""
    for note in notes:
        err.print(f"note: {printable(note)}", soft_wrap=True)
