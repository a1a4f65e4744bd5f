"""HTML tables and charts for notebooks, which need no network."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certifare.errors import ArgumentError
from certifare.foundation.formatting import undirected

#: File formats of charts.
SUFFIXES = (".svg", ".png", ".html", ".json")


def html_table(caption: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table as HTML with escaped text; the first entry of each row is its header.

    >>> html_table("a < b", [])
    '<table><caption>a &lt; b</caption><tbody></tbody></table>'
    """
    columns = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr><th scope='row' style='text-align:left'>{html.escape(str(name))}</th>"
        + "".join(f"<td>{html.escape(str(value))}</td>" for value in values)
        + "</tr>"
        for name, *values in rows
    )
    return undirected(
        f"<table><caption>{html.escape(caption)}</caption>"
        + (f"<thead><tr>{columns}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table>"
    )


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart that notebooks show without a script from the network.

    Attributes
    ----------
    chart : altair.Chart
        The Altair chart, to change it.
    """

    chart: Any

    def to_dict(self) -> dict[str, Any]:
        """Return the Vega-Lite specification as plain data."""
        return dict(self.chart.to_dict())

    def svg(self) -> str:
        """Return the chart as SVG."""
        import vl_convert

        return undirected(str(vl_convert.vegalite_to_svg(self.to_dict())))

    def save(self, path: str | os.PathLike[str], *, format: str | None = None) -> None:
        """Write the chart to a file: .svg, .png, .html (with its scripts inside) or .json.

        Parameters
        ----------
        path : path
        format : {"svg", "png", "html", "json"}, optional
            By default the suffix of the path.
        """
        suffix = Path(path).suffix.lower() if format is None else f".{format}"
        if suffix not in SUFFIXES:
            raise ArgumentError(
                f"A chart cannot be saved as {suffix or 'a file without a suffix'}. Choose {', '.join(SUFFIXES)}."
            )
        inline = {"inline": True} if suffix == ".html" else {}
        self.chart.save(os.fspath(path), format=suffix[1:], **inline)

    def _repr_html_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return "<Drawing: .save(path) writes .svg, .png, .html or .json>"
