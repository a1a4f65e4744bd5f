"""Drawings that a notebook shows, and that need no network."""

from __future__ import annotations

import html
import os
import re
from dataclasses import dataclass
from pathlib import Path

from certifare.errors import ArgumentError
from certifare.foundation.formatting import undirected
from certifare.foundation.storage import atomic_file

#: What drawings are saved as.
SUFFIXES = (".svg", ".html")
#: What no XML file may hold, whatever the names in it.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<main>{drawing}</main>
</html>
"""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart as SVG, which a notebook shows as it is. It needs no script, no font and no network.

    Attributes
    ----------
    title : str
    markup : str
        The SVG element, in which names from data are escaped.
    """

    title: str
    markup: str

    def svg(self) -> str:
        """Return the chart as an SVG document."""
        return undirected(_NOT_XML.sub("\ufffd", self.markup))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chart to a file: .svg, or .html for a page with the chart in it."""
        suffix = Path(path).suffix.lower()
        if suffix not in SUFFIXES:
            raise ArgumentError(
                f"A drawing cannot be saved as {suffix or 'a file without an ending'}: choose {' or '.join(SUFFIXES)}."
            )
        text = self.svg()
        if suffix == ".html":
            text = _PAGE.format(title=undirected(html.escape(self.title)), drawing=text)
        with atomic_file(path) as name:
            name.write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<Drawing: {self.title}; .save(path) writes {' or '.join(SUFFIXES)}>"
