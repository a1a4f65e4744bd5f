"""The report as one HTML file that needs nothing else: no network, no program, no font."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from certifare.report.charts import charts, shown_cells
from certifare.report.palette import LEANS, SERIES, chart_rules, variables

if TYPE_CHECKING:
    from jinja2 import Environment

#: Rows of the frontier's table; the file frontier.csv has all.
MOST_POINTS = 40


def render_html(data: Mapping[str, Any]) -> str:
    """Render a report as a page.

    Parameters
    ----------
    data : mapping
        What :func:`certifare.report.report_data` gathered.

    Returns
    -------
    str
        A complete document. Everything in it that came from data is escaped, and a policy in its head forbids
        scripts and connections altogether.
    """
    from markupsafe import Markup

    if data["figures"] is None:
        refused = _environment().get_template("refused.html")
        return refused.render(data=data, style=Markup(_style()))  # noqa: S704
    # Drawn by us from data that were never markup; checked element by element in charts.py.
    drawn = {
        name: {version: Markup(svg) for version, svg in versions.items()}  # noqa: S704
        for name, versions in charts(data).items()
    }
    template = _environment().get_template("report.html")
    return template.render(
        data=data,
        charts=drawn,
        style=Markup(_style()),  # noqa: S704
        series=SERIES,
        leans=LEANS,
        hidden_cells=sum(r["pool"] in (None, r["cell"]) for r in data["cells"]["rows"])
        - len(shown_cells(data["cells"])),
        best_points=_best_points(data),
        tree=_nested(data),
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("certifare.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda n: f"{n:,}"
    environment.filters["percent"] = lambda share: f"{100 * share:.1f} %"
    environment.filters["signed"] = lambda share: f"{100 * share:+.1f}".replace("-", "−")
    environment.filters["code"] = _breakable
    return environment


def _style() -> str:
    """Return the style sheet, with the palette in light and dark."""
    from importlib.resources import files

    sheet = files("certifare.report").joinpath("templates", "report.css").read_text("utf-8")
    return (
        f":root {{ {variables(dark=False)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {variables(dark=True)} }} }}\n"
        f"@media print {{ :root {{ {variables(dark=False)} }} }}\n{chart_rules()}\n{sheet}"
    )


def _breakable(digest: str) -> Any:
    """Let a long digest break anywhere in fours."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(digest[i : i + 8]) for i in range(0, len(digest), 8))


def _best_points(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not data["frontier"]:
        return []
    points = [p for p in data["frontier"]["points"] if p["best"] or p["chosen"]]
    points = sorted(points, key=lambda p: p["bound"])
    if len(points) > MOST_POINTS:
        step = len(points) / MOST_POINTS
        points = [p for i, p in enumerate(points) if p["chosen"] or int(i / step) != int((i - 1) / step)]
    return points


def _nested(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tree's nodes inside one another, as the page lists them."""
    nodes = data["encoder"]["nodes"] if data["encoder"] else None
    if not nodes or len(nodes) < 3:
        return None
    path: list[dict[str, Any]] = []
    for node in nodes:
        entry = {**node, "children": []}
        del path[node["depth"] :]
        if path:
            path[-1]["children"].append(entry)
        path.append(entry)
    return path[0]
