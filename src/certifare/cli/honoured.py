"""Refuse options that were given and would do nothing: an option is honoured or refused, never ignored.

An option declares what it needs (:func:`certifare.cli.options.declare`): conditions of :data:`CONDITIONS`, or other
options. One of them must hold. ``tests/cli/test_honoured.py`` walks every command, every way of calling it, and every
option.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typer

    from certifare.foundation.storage import FilePath

#: Conditions that a command states, and what they are called in messages. An option that was given is a condition too.
CONDITIONS = {
    # Where the records are.
    "records": "a file of records",
    "csv": "a CSV file",
    "binary": "a Parquet or Arrow file",
    "sql": "a database (--sql)",
    "counts": "counts files",
    "memory": "a table that fits into memory",
    "large": "a Parquet file too large for memory, or on a cluster",
    "fresh": "records of the period",
    # What is known of them.
    "stated": "a certificate that says how records are read",
    "unread": "records in reach, and no certificate that says how they are read",
    "unread_csv": "a CSV file, and no certificate that says how it is read",
    "undrawn": "a file of records, and no certificate that says how to draw them",
    "random": "--weight or --cluster",
    "thinned": "--weight, or --cluster with --population records",
    "capped": "a file of records with weights, and without clusters",
    # What else was asked for.
    "cut": "a metric that looks at labels, and no certificate that says how they are cut",
    "equal_opportunity": "--metric equal_opportunity",
    "together": "the records of two groups together (--records 800)",
    "positives": "a table with --metric equal_opportunity",
    "group_aware": "--group-aware",
    "unlabelled": "no --label",
    "certificate": "a certificate alone",
    "encoder": "an encoder",
    "certified": "a certificate",
    "output": "--output",
    "printed": "a result that is printed (no --json)",
    "written": "a report that is written (no --json)",
    "as_csv": "an output that ends in .csv",
}
#: What options need that say how records are drawn, and how they are read.
DRAWN = frozenset(("memory", "undrawn", "random", "thinned", "capped", "cluster"))
READ = frozenset(("unread", "cut"))
#: What to do instead of giving them: where the records are, what the option needs, and the advice. The first counts.
REMEDIES = (
    ("counts", DRAWN | READ, "The holder of the records says so: certifare count."),
    ("sql", DRAWN, "A database counts all of its records: export an extract, and run certifare count on the file."),
    ("stated", DRAWN | READ | {"unread_csv"}, "The certificate beside the encoder says how records are read."),
    (
        "large",
        DRAWN | READ,
        "Fit on a sample of the records, or join the files first (DuckDB reads and writes Parquet).",
    ),
)


def refuse_ignored(context: typer.Context, *conditions: str) -> None:
    """Refuse options that were given and would do nothing.

    - ``*conditions``: what holds here, of :data:`CONDITIONS`: first where the records are, which the message names.
    """
    spelt = {str(p.name): max(p.opts, key=len) for p in context.command.params if p.param_type_name == "option"}
    needs = needs_of(context.command)
    given = {str(p.name) for p in context.command.params if is_given(context, p)}
    holds = {*conditions, *given}
    for name in spelt:
        needed = needs.get(name)
        if name not in given or not needed or holds & needed:
            continue
        words = " or ".join(CONDITIONS.get(need) or spelt[need] for need in sorted(needed))
        where = f" with {CONDITIONS[conditions[0]]}" if conditions else ""
        remedies = [text for place, about, text in REMEDIES if place in conditions and needed & about]
        remedy = remedies[0] if remedies else "Leave it out."
        raise ArgumentError(f"{spelt[name]} would be ignored{where}: it needs {words}. {remedy}")


def needs_of(command: Any) -> dict[str, frozenset[str]]:
    """Return what options of a command need, by the names of their parameters."""
    found: dict[str, frozenset[str]] = {}
    for parameter in inspect.signature(command.callback, eval_str=True).parameters.values():
        for declared in getattr(parameter.annotation, "__metadata__", ()):
            found[parameter.name] = getattr(declared, "needs", frozenset())
    return found


def of_file(*paths: FilePath) -> tuple[str, ...]:
    """Conditions of files of records, which no certificate says how to read."""
    from certifare.tables.files import kind_of

    return ("records", "csv", "unread_csv") if any(kind_of(path) == "csv" for path in paths) else ("records", "binary")


def of_records(*paths: FilePath, stated: bool) -> Iterator[str]:
    """Yield the conditions of files of records, or of a database's, that a certificate says how to read, or not."""
    for condition in of_file(*paths) if paths else ("sql",):
        if not (stated and condition == "unread_csv"):
            yield condition
    yield "stated" if stated else "unread"


def is_given(context: typer.Context, parameter: Any) -> bool:
    """Whether the user named a parameter, rather than leaving it at its default."""
    source = context.get_parameter_source(parameter.name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT", "PROMPT")
