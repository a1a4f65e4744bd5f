"""Render a report as one self-contained HTML file, without network access, scripts or fonts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from certifare.certificates.rounding import round_down, round_up
from certifare.drawing.palette import LEANS, SERIES, plane_style, variables
from certifare.drawing.scatter import series_of
from certifare.foundation.formatting import shortened, undirected
from certifare.report.charts import STEPS, draw_charts, drawn_points, largest_difference, lean

if TYPE_CHECKING:
    from jinja2 import Environment

#: Rows of the frontier's table; frontier.csv has all.
MOST_POINTS = 25
#: Longer tables of cells stay closed in print; the certificate has all cells.
MOST_ROWS = 60
#: Nodes of a tree that are shown unfolded; those below open on demand.
MOST_NODES = 120


def render_html(data: Mapping[str, Any]) -> str:
    """Render a report as an HTML page.

    Parameters
    ----------
    data : mapping
        The result of :func:`certifare.report.report_data`.

    Returns
    -------
    str
        A complete document. All text from data is escaped, and cannot change the direction of other text; a content
        security policy forbids all scripts and connections.
    """
    if data["figures"] is None:
        style = Markup(style_sheet(data["id"]))  # noqa: S704  (a file of our own, and hexadecimal digits)
        return undirected(environment().get_template("refused.html").render(data=data, style=style))
    return undirected(environment().get_template("report.html").render(_context(data)))


def render_parts(data: Mapping[str, Any], sections: Sequence[str], part: str) -> str:
    """Render some sections of a report as a page of its own, for figures that come from another part of the records.

    - ``sections``: names of templates: ``encoder``, ``drives``, ``retained``, ``calibration``.
    - ``part``: what the records are called: ``select``.
    """
    named = {"sections": [f"{name}.html" for name in sections], "part": part}
    return undirected(environment().get_template("parts.html").render(_context(data), **named))


def _context(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the templates of a report are given."""
    largest = largest_difference(data["cells"])
    points = drawn_points(data)
    return {
        "data": data,
        "style": Markup(style_sheet(data["id"])),  # noqa: S704  (a file of our own, and hexadecimal digits)
        "charts": draw_charts(data),
        "series": SERIES,
        "leans": LEANS,
        "lean": partial(lean, largest=largest),
        "breaks": [_signed(step * largest).replace("0.", ".", 1) for step in STEPS],
        "kinds": series_of(points),
        "beyond": len(data["frontier"]["points"]) - len(points) if data["frontier"] else 0,
        "best_points": best_points(data),
        "tree": _nested(data),
        "long": data["figures"]["cells"] > MOST_ROWS,
    }


@cache
def environment() -> Environment:
    """Return the templates of the page, which escape all values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("certifare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.filters |= {"code": _breakable, "command": _command, "quoted": _quoted}
    return environment


def best_points(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the encoders for the table: all certified ones, and a selection of the best predicted ones."""
    points = [] if not data["frontier"] else sorted(data["frontier"]["points"], key=lambda p: p["bound"])
    certified = [p for p in points if p["certified"]]
    predicted = [p for p in points if p["best"] and not p["certified"]]
    step = max(1.0, len(predicted) / MOST_POINTS)
    predicted = [p for i, p in enumerate(predicted) if int(i / step) != int((i - 1) / step)]
    return sorted([*certified, *predicted], key=lambda p: p["bound"])


def _signed(difference: float) -> str:
    text = f"{difference:+.4f}"
    return "0.0000" if float(text) == 0.0 else text.replace("-", "−")


def _sum_records(rows: Sequence[Mapping[str, Any]], group: int) -> int:
    return sum(row["groups"][group]["records"] for row in rows)


def _interval(found: Mapping[str, float] | None, share: bool) -> Any:
    """Write an estimate with its confidence interval, rounded outwards; shares as percentages."""
    if found is None:
        return ""
    times, places, unit = (100, 1, " %") if share else (1, 3, "")
    low, high = round_down(times * found["lower"], places), round_up(times * found["upper"], places)
    text = Markup('<span>{}</span> <span class="quiet">[{}, {}]</span>')
    return text.format(f"{times * found['estimate']:.{places}f}{unit}", low, high)


#: Filters that format figures.
FILTERS = {
    "count": lambda n: f"{n:,}",
    "percent": lambda share: f"{100 * share:.2f} %",
    "signed": _signed,
    "up": round_up,
    "down": round_down,
    "fixed": lambda figure: f"{figure:.4f}",
    "interval": _interval,
    "short": lambda text, most=24: shortened(" ".join(text.split()), most),
    "time": lambda created: created.replace("T", " ").replace("Z", " UTC"),
    "sum_records": _sum_records,
}


def style_sheet(certificate: str | None = None) -> str:
    """Return the style sheet, with the palette in light and dark; a certificate's id is printed on every page."""
    sheet = files("certifare.report").joinpath("templates", "report.css").read_text("utf-8")
    return (
        f":root {{ {variables(dark=False)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {variables(dark=True)} }} }}\n"
        f"{sheet}\n{plane_style()}\n"
        + (
            ""
            if certificate is None
            else f'@page {{ @bottom-left {{ content: "certificate {certificate}"; font: 8pt monospace; }} }}'
        )
    )


def _breakable(digest: str) -> Any:
    """Allow line breaks in a long digest after every eight digits."""
    return Markup("<wbr>").join(escape(digest[i : i + 8]) for i in range(0, len(digest), 8))


def _command(command: str) -> Any:
    """Allow line breaks in a command before an option, but not inside one."""
    first, *options = command.split(" --")
    return escape(first) + Markup("").join(Markup(" <span>--{}</span>").format(option) for option in options)


def _quoted(text: str) -> Any:
    """Show what stands between backquotes as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _nested(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tree's nodes as nested dictionaries, folded if there are too many."""
    nodes = data["encoder"]["nodes"] if data["encoder"] else None
    if not nodes or len(nodes) < 3:
        return None
    depths = sorted(node["depth"] for node in nodes)
    last = depths[-1] if len(depths) <= MOST_NODES else depths[MOST_NODES] - 1
    path: list[dict[str, Any]] = []
    for node in nodes:
        entry = {**node, "children": [], "folded": node["depth"] == last and node["cell"] is None}
        del path[node["depth"] :]
        if path:
            path[-1]["children"].append(entry)
        path.append(entry)
    return path[0]
