"""``certifare report``: a certificate as a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from certifare.cli.gathering import gather
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import PublicKey, declare
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit, err, out
from certifare.cli.verdicts import print_failures
from certifare.errors import ArgumentError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Callable


def report(
    context: typer.Context,
    certificate: Annotated[Path, typer.Argument(help="A bundle's folder, or a certificate file.")],
    output: Annotated[
        Path | None,
        declare(
            None, "File to write: .html, .pdf or .json; report.html unless given.", "--output", "-o", needs="written"
        ),
    ] = None,
    key: PublicKey = None,
    as_json: Annotated[bool, declare(None, "Print the report's data as JSON, and write nothing.", "--json")] = False,
) -> None:
    """Write a report: one file that opens without a network, as a page, PDF or JSON.

    The certificate is verified first. Exit status 1 means that it does not hold: the report says at its top what fails.
    """
    refuse_ignored(context, *(() if as_json else ("written",)))
    data, verdict = gather(certificate, key)

    def write() -> None:
        print_failures(verdict, err)
        _write(data, output or Path("report.html"))

    emit(data, as_json, write, outcome=verdict.outcome, status=0 if verdict.passed else REFUSED)


def _write(data: dict[str, Any], path: Path) -> None:
    """Write the report in the form that the file's ending names."""
    import json

    from certifare.report import render_html, render_pdf

    forms: dict[str, Callable[[], str | bytes]] = {
        ".html": lambda: render_html(data),
        ".pdf": lambda: render_pdf(render_html(data)),
        ".json": lambda: json.dumps(data, ensure_ascii=False, indent=2) + "\n",
    }
    if path.suffix.lower() not in forms:
        raise ArgumentError(f"--output {path}: name a file that ends in .html, .pdf or .json.")
    content = forms[path.suffix.lower()]()
    with atomic_file(path) as name:
        name.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    out.print(str(path), soft_wrap=True)
