"""Print a report as PDF with Chromium, if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from certifare.errors import FileError

#: Programs that can print pages, in the order in which they are tried.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
#: Printing takes a second, longer on a busy machine.
PATIENCE = 120


def render_pdf(page: str) -> bytes:
    """Print an HTML page as PDF, with every table open.

    Parameters
    ----------
    page : str
        The result of :func:`certifare.report.render_html`.

    Returns
    -------
    bytes
        A PDF file on A4, with its headings as outline, tagged for screen readers.

    Raises
    ------
    FileError
        If Chromium is not on the path, or fails to print.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise FileError(
            "Chromium prints the PDF, but is not on the path. Install it (Debian's package is called chromium), "
            "or write report.html and print that from any browser."
        )
    with tempfile.TemporaryDirectory(prefix="certifare-print-", ignore_cleanup_errors=True) as folder:
        source, target = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, "utf-8")
        options = [
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={target}",
        ]
        # Chromium's own sandbox does not work for root, as in a container. The page runs no script anyway.
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")
        try:
            done = subprocess.run(  # noqa: S603  (a program from the path, and our own file)
                [program, *options, source.as_uri()], capture_output=True, timeout=PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FileError(f"{program} did not print the report: {error}.") from error
        if not target.exists():
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise FileError(f"{program} did not print the report: {said[-1] if said else 'it gave no reason'}.")
        return target.read_bytes()
