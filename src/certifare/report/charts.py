"""Charts as SVG: drawn by Altair when the report is made, so that the report itself runs no program.

Each chart is drawn twice, for a wide and for a narrow page; the style sheet shows one of them. Names of groups and
columns are always data, never part of a specification, and what comes back is taken apart and checked before it goes
into the page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from certifare.report.palette import LEANS, SERIES, colour

WIDE, NARROW = 704, 330
#: Cells shown in the chart of cells; the table shows all.
MOST_CELLS = 24
#: Groups shown in the chart of cells; with more, only the two that differ most.
MOST_GROUPS = 4
#: A cell's lean, in units of the largest one.
_STEPS = (-0.6, -0.3, -0.08, 0.08, 0.3, 0.6)
_SVG = "http://www.w3.org/2000/svg"
_TAGS = {"svg", "g", "path", "text", "tspan", "rect", "line", "circle", "clipPath", "defs", "title"}
_ATTRIBUTES = re.compile(r"[a-z][a-zA-Z0-9-]*")

ElementTree.register_namespace("", _SVG)


def charts(data: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Draw every chart that the data allow.

    Returns
    -------
    dict
        Name → ``{"wide": …, "narrow": …}``, each an SVG element as text.
    """
    drawn: dict[str, dict[str, str]] = {}
    for name, draw in _CHARTS.items():
        versions = {}
        for version, width in (("wide", WIDE), ("narrow", NARROW)):
            chart = draw(data, width)
            if chart is not None:
                versions[version] = _svg(chart, f"{name}-{version}")
        if versions:
            drawn[name] = versions
    return drawn


# -- one chart each -----------------------------------------------------------------------------------------------


def _interval(data: Mapping[str, Any], width: int) -> Any:
    """T* and the lower limit on a scale."""
    import altair as alt

    figures, target = data["figures"], data["target"]
    top = min(1.0, max(1.3 * figures["bound"], 1.15 * target["value"] if target else 0.0, 0.02))
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=_axis(None, tick_count=width // 90))
    left, right = {"x": figures["lower"]}, {"x": figures["bound"]}
    # Figures near the right end are written to the left of their place, the others to the right.
    align = "right" if figures["bound"] > 0.5 * top else "left"
    layers = [
        _values([{"x": figures["lower"], "x2": figures["bound"]}])
        .mark_bar(height=22, color=colour("band"))
        .encode(x=x, x2="x2:Q", y=alt.value(46)),
        _values([left, right]).mark_tick(thickness=3, size=34, color=colour("accent")).encode(x=x, y=alt.value(46)),
        _values([{"x": figures["estimate"]}])
        .mark_point(filled=True, size=55, color=colour("accent"), opacity=1)
        .encode(x=x, y=alt.value(46)),
        _label([{**right, "text": f"T* = {figures['bound_text']}"}], align, y=16, size=15, weight="bold").encode(x=x),
        _label([{**left, "text": f"L = {figures['lower_text']}"}], _away(left["x"], top), y=78, size=13).encode(x=x),
    ]
    if target:
        place = {"x": target["value"]}
        layers += [
            _values([place])
            .mark_rule(color=colour("warm"), strokeDash=[5, 3], strokeWidth=1.5)
            .encode(x=x, y=alt.value(24), y2=alt.value(86)),
            _label(
                [{**place, "text": f"target {target['value']:g}"}], _away(place["x"], top), y=96, name="warm"
            ).encode(x=x),
        ]
    return _finished(alt.layer(*layers), width, 104)


def _frontier(data: Mapping[str, Any], width: int) -> Any:
    """Accuracy against T*, one point for each encoder tried."""
    import altair as alt

    if not data["frontier"]:
        return None
    points = [
        {**point, "kind": _short(point["kind"], 24)}
        for point in data["frontier"]["points"]
        if point["accuracy"] is not None
    ]
    if not points:
        return None
    kinds = sorted({p["kind"] for p in points})[: len(SERIES)]
    points = [{**p, "kind": p["kind"] if p["kind"] in kinds else kinds[-1]} for p in points]
    x = alt.X(
        "bound:Q",
        title="T*: what no classifier exceeds",
        scale=alt.Scale(zero=True, nice=True),
        axis=_axis("", tick_count=width // 80),
    )
    y = alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False, nice=True), axis=_axis("", tick_count=5))
    kind = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[colour(name) for name in SERIES[: len(kinds)]]),
        legend=alt.Legend(title=None, orient="top", symbolType="circle", symbolOpacity=1) if len(kinds) > 1 else None,
    )
    layers = [
        _values([p for p in points if p["best"]])
        .mark_line(interpolate="step-after", color=colour("muted"), strokeWidth=1.2)
        .encode(x=x, y=y),
        _values([p for p in points if not p["best"]])
        .mark_point(filled=True, size=22, opacity=0.35)
        .encode(x=x, y=y, color=kind),
        _values([p for p in points if p["best"]])
        .mark_point(filled=True, size=46, opacity=1)
        .encode(x=x, y=y, color=kind),
    ]
    if data["target"]:
        layers.append(
            _values([{"bound": data["target"]["value"]}])
            .mark_rule(color=colour("warm"), strokeDash=[5, 3], strokeWidth=1.5)
            .encode(x=x)
        )
    chosen = [p for p in points if p["chosen"]]
    if chosen:
        middle = (min(p["bound"] for p in points) + max(p["bound"] for p in points)) / 2
        side = "right" if chosen[0]["bound"] > middle else "left"
        layers += [
            _values(chosen)
            .mark_point(filled=False, size=230, strokeWidth=2.4, color=colour("ink"), opacity=1)
            .encode(x=x, y=y),
            *_marked([{**chosen[0], "text": "chosen"}], side, dy=-14, x=x, y=y),
        ]
    return _finished(alt.layer(*layers), width, 300 if width == WIDE else 260)


def _cells(data: Mapping[str, Any], width: int) -> Any:
    """Share of each group that falls into each cell, with limits."""
    import altair as alt

    cells = data["cells"]
    shown = _shown_groups(cells)
    rows = shown_cells(cells)
    records = [
        {
            "cell": row["name"],
            "group": i,
            "share": row["groups"][g]["share"],
            "low": row["groups"][g]["low"],
            "high": row["groups"][g]["high"],
        }
        for row in rows
        for i, g in enumerate(shown)
    ]
    y = alt.Y(
        "cell:N",
        sort=[row["name"] for row in rows],
        title="cell",
        axis=alt.Axis(grid=True, gridColor=colour("grid"), ticks=False, domain=False, labelPadding=8),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
    )
    offset = alt.YOffset("group:O", scale=alt.Scale(paddingOuter=0.35))
    group = alt.Color(
        "group:O",
        scale=alt.Scale(domain=list(range(len(shown))), range=[colour(name) for name in SERIES[: len(shown)]]),
        legend=None,
    )
    x_axis = _axis("", tick_count=width // 90, format="%")
    title = "share of the group in the cell"
    base = _values(records)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, axis=x_axis), x2="high:Q", y=y, yOffset=offset, color=group
    )
    dots = base.mark_point(filled=True, size=42, opacity=1).encode(
        x=alt.X("share:Q", title=title, axis=x_axis), y=y, yOffset=offset, color=group
    )
    chart = alt.layer(bars, dots)
    height = len(rows) * max(22, 9 * len(shown) + 6)
    return _finished(chart, width, height)


def _four_fifths(data: Mapping[str, Any], width: int) -> Any:
    """Draw the ratio of selection rates that is guaranteed at each rate."""
    import altair as alt

    largest = data["four_fifths"]["limits"][data["four_fifths"]["largest"]]
    bound, rate = largest["bound"], largest["rate"]
    line = [{"rate": r / 200, "ratio": max(0.0, 1.0 - bound / (r / 200))} for r in range(1, 201)]
    x = alt.X(
        "rate:Q",
        title="highest selection rate of any group"
        + (", within a label" if data["four_fifths"]["whole_groups"] else ""),
        scale=alt.Scale(domain=[0, 1]),
        axis=_axis("", tick_count=5, format="%"),
    )
    y = alt.Y("ratio:Q", title="guaranteed ratio", scale=alt.Scale(domain=[0, 1]), axis=_axis("", tick_count=5))
    layers = [
        _values([entry for entry in line if rate is not None and entry["rate"] >= rate])
        .mark_area(color=colour("band"), opacity=0.55)
        .encode(x=x, y=y),
        _values(line).mark_line(color=colour("accent"), strokeWidth=2.2).encode(x=x, y=y),
        _values([{"ratio": 0.8}]).mark_rule(color=colour("warm"), strokeDash=[5, 3], strokeWidth=1.5).encode(y=y),
        _values([{"rate": 0.0, "ratio": 0.8, "text": "four fifths"}])
        .mark_text(align="left", dx=6, dy=-8, color=colour("warm"), fontSize=12)
        .encode(x=x, y=y, text="text:N"),
    ]
    if rate is not None:
        side = "right" if rate > 0.75 else "left"
        layers += [
            _values([{"rate": rate, "ratio": 0.8}])
            .mark_point(filled=True, size=70, color=colour("ink"), opacity=1)
            .encode(x=x, y=y),
            *_marked(
                [{"rate": rate, "ratio": 0.8, "text": f"from {largest['rate_text']}"}],
                side,
                dy=16,
                x=x,
                y=y,
            ),
        ]
    return _finished(alt.layer(*layers), width, 230)


def _tree(data: Mapping[str, Any], width: int) -> Any:
    """Draw the tree as an icicle: each node as wide as its records, coloured by the group that visits it more."""
    import altair as alt

    encoder = data["encoder"]
    if not encoder or not encoder.get("nodes") or len(encoder["nodes"]) < 3:
        return None
    boxes = _boxes(encoder["nodes"], data["cells"])
    depth = max(box["depth"] for box in boxes) + 1
    row = 34 if depth <= 9 else 24
    x = alt.X("left:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    y = alt.Y("depth:Q", scale=alt.Scale(domain=[0, depth], reverse=True, nice=False), axis=None)
    base = _values(boxes)
    rectangles = base.mark_rect(stroke=colour("paper"), strokeWidth=1.5).encode(
        x=x, x2="right:Q", y=y, y2="below:Q", color=_lean_scale("lean:O")
    )
    # About 6.2 px a character: what does not fit is left to the text below the drawing.
    texts = [box for box in boxes if len(box["text"]) * 6.2 + 8 < (box["right"] - box["left"]) * width]
    labels = (
        _values(texts)
        .mark_text(fontSize=11, color=colour("ink"), baseline="middle")
        .encode(
            x=alt.X("middle:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None),
            y=alt.Y("centre:Q", scale=alt.Scale(domain=[0, depth], reverse=True, nice=False), axis=None),
            text="text:N",
        )
    )
    return _finished(alt.layer(rectangles, labels), width, depth * row)


def _map(data: Mapping[str, Any], width: int) -> Any:
    """Draw the score map: squares by two scores, cells outlined, coloured by the group that visits them more."""
    import altair as alt

    encoder = data["encoder"]
    if not encoder or not encoder.get("map"):
        return None
    grid = encoder["map"]["cells"]
    n, m = len(grid), len(grid[0])
    leans = _leans(data["cells"])
    squares = [
        {"x": i, "x2": i + 1, "y": start, "y2": end, "lean": lean}
        for i, row in enumerate(grid)
        for lean, start, end in _runs([leans[cell] for cell in row])
    ]
    borders = [
        {"x": i + 1, "x2": i + 1, "y": start, "y2": end}
        for i in range(n - 1)
        for differ, start, end in _runs([a != b for a, b in zip(grid[i], grid[i + 1], strict=True)])
        if differ
    ] + [
        {"x": start, "x2": end, "y": j + 1, "y2": j + 1}
        for j in range(m - 1)
        for differ, start, end in _runs([row[j] != row[j + 1] for row in grid])
        if differ
    ]
    size = min(width, 470)
    names = [{"x": i + 0.5, "y": j + 0.5, "text": str(cell)} for cell, i, j in _named(grid, size / max(n, m))]
    x = alt.X(
        "x:Q",
        title=_short(encoder["map"]["x"]["name"], 48),
        scale=alt.Scale(domain=[0, n], nice=False),
        axis=_places_axis(encoder["map"]["x"]["places"]),
    )
    y = alt.Y(
        "y:Q",
        title=_short(encoder["map"]["y"]["name"], 48),
        scale=alt.Scale(domain=[0, m], nice=False),
        axis=_places_axis(encoder["map"]["y"]["places"]),
    )
    layers = [
        _values(squares).mark_rect(strokeWidth=0).encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=_lean_scale("lean:O")),
        _values(borders)
        .mark_rule(color=colour("ink"), strokeWidth=1, opacity=0.75)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q"),
        _values(names).mark_text(fontSize=11, fontWeight="bold", color=colour("ink")).encode(x=x, y=y, text="text:N"),
    ]
    return _finished(alt.layer(*layers), size, size)


_CHARTS: dict[str, Callable[[Mapping[str, Any], int], Any]] = {
    "interval": _interval,
    "frontier": _frontier,
    "cells": _cells,
    "four-fifths": _four_fifths,
    "tree": _tree,
    "map": _map,
}


# -- what charts share --------------------------------------------------------------------------------------------


def shown_cells(cells: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the cells to draw: those on which the two groups differ most, from one group's side to the other's."""
    rows = [row for row in cells["rows"] if row["pool"] in (None, row["cell"])]
    rows = sorted(rows, key=lambda row: -abs(row["difference"]))[:MOST_CELLS]
    return sorted(rows, key=lambda row: -row["difference"])


def _shown_groups(cells: Mapping[str, Any]) -> list[int]:
    groups = list(cells["groups"])
    return list(range(len(groups))) if len(groups) <= MOST_GROUPS else [groups.index(g) for g in cells["pair"]]


def _leans(cells: Mapping[str, Any]) -> list[int]:
    """For each cell, which of the seven colours it has; what a pooled cell's difference is, is not published."""
    largest = _largest(cells)
    return [_lean(0.0 if row["pool"] is not None else row["difference"], largest) for row in cells["rows"]]


def _largest(cells: Mapping[str, Any]) -> float:
    return max((abs(row["difference"]) for row in cells["rows"] if row["pool"] is None), default=0.0) or 1.0


def _lean(difference: float, largest: float) -> int:
    return sum(-difference / largest > step for step in _STEPS)


def _lean_scale(field: str) -> Any:
    import altair as alt

    return alt.Color(
        field,
        scale=alt.Scale(domain=list(range(len(LEANS))), range=[colour(name) for name in LEANS]),
        legend=None,
    )


def _boxes(nodes: Sequence[Mapping[str, Any]], cells: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Lay the nodes of a tree out, given from top to bottom and left to right."""
    sizes = [sum(group["records"] for group in row["groups"]) for row in cells["rows"]]
    if any(row["pool"] is not None for row in cells["rows"]) or not any(sizes):
        sizes = [1] * len(sizes)  # pooled counts do not tell how large each cell is
    total = sum(sizes)
    boxes: list[dict[str, Any]] = []
    above: list[dict[str, Any]] = []
    done = 0
    for node in nodes:
        del above[node["depth"] :]
        name = f"cell {node['cell']}" if node["cell"] is not None else _short(str(node["column"]), 24)
        box = {"depth": node["depth"], "left": done / total, "text": name, "cells": []}
        above.append(box)
        boxes.append(box)
        if node["cell"] is not None:
            done += sizes[node["cell"]]
            for ancestor in above:
                ancestor["cells"].append(node["cell"])
                ancestor["right"] = done / total
    for box in boxes:
        box |= {
            "below": box["depth"] + 1,
            "centre": box["depth"] + 0.5,
            "middle": (box["left"] + box["right"]) / 2,
            "lean": _lean(_difference(cells["rows"], set(box.pop("cells"))), _largest(cells)),
        }
    return boxes


def _difference(rows: Sequence[Mapping[str, Any]], inside: set[int]) -> float:
    """Return the difference on a set of cells; 0 where a pool lies partly inside, so that it is not known."""
    pools = {rows[cell]["pool"] for cell in inside} - {None}
    if any(row["pool"] in pools and row["cell"] not in inside for row in rows):
        return 0.0
    return math.fsum(rows[cell]["difference"] for cell in inside if rows[cell]["pool"] in (None, cell))


def _runs(values: Sequence[Any]) -> list[tuple[Any, int, int]]:
    """Return the stretches of equal values: the value, where it starts, where it ends."""
    runs: list[tuple[Any, int, int]] = []
    for i, value in enumerate(values):
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1], i + 1)
        else:
            runs.append((value, i, i + 1))
    return runs


def _named(grid: Sequence[Sequence[int]], side: float) -> list[tuple[int, int, int]]:
    """Choose the cells to name, large ones first, and the square of each that lies nearest to its middle.

    ``side`` is the size of a square in pixels; names need some distance from one another.
    """
    members: dict[int, list[tuple[int, int]]] = {}
    for i, row in enumerate(grid):
        for j, cell in enumerate(row):
            members.setdefault(cell, []).append((i, j))
    named: list[tuple[int, int, int]] = []
    for cell, squares in sorted(members.items(), key=lambda item: -len(item[1])):
        ci, cj = (sum(square[axis] for square in squares) / len(squares) for axis in (0, 1))
        i, j = min(squares, key=lambda s: (s[0] - ci) ** 2 + (s[1] - cj) ** 2)
        if all(abs(i - a) * side > 20 or abs(j - b) * side > 13 for _, a, b in named):
            named.append((cell, i, j))
    return named


def _places_axis(places: Sequence[float]) -> Any:
    """Ticks in the middle of some bins of the map, labelled with the score that they stand for."""
    import altair as alt

    n = len(places)
    bins = sorted({round((n - 1) * share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
    texts = ", ".join(f"'{places[i]:.2g}'" for i in bins)
    ticks = [i + 0.5 for i in bins]
    return alt.Axis(
        values=ticks,
        labelExpr=f"[{texts}][indexof({ticks}, datum.value)]",
        grid=False,
        tickColor=colour("line"),
        domainColor=colour("line"),
    )


def _values(records: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(records)))


def _axis(title: str | None, *, tick_count: int, format: str | None = None) -> Any:
    import altair as alt

    extra: dict[str, Any] = {} if format is None else {"format": format}
    extra |= {"title": None} if title is None else {}
    return alt.Axis(tickCount=tick_count, domain=False, gridColor=colour("grid"), tickColor=colour("line"), **extra)


def _label(
    records: Sequence[Mapping[str, Any]],
    align: str,
    *,
    y: int,
    size: int = 12,
    weight: str = "normal",
    name: str = "ink",
) -> Any:
    import altair as alt

    dx = {"left": 4, "right": -4, "center": 0}[align]
    return (
        _values(records)
        .mark_text(align=align, dx=dx, fontSize=size, fontWeight=weight, color=colour(name), baseline="middle")
        .encode(y=alt.value(y), text="text:N")
    )


def _marked(records: Sequence[Mapping[str, Any]], align: str, *, dy: int, x: Any, y: Any) -> list[Any]:
    """Name a point, over a halo that keeps the name legible on lines."""
    style = {"align": align, "dx": -12 if align == "right" else 12, "dy": dy, "fontSize": 13, "fontWeight": "bold"}
    text = _values(records)
    return [
        text.mark_text(**style, color=colour("paper"), stroke=colour("paper"), strokeWidth=4, strokeJoin="round")
        .encode(x=x, y=y, text="text:N"),
        text.mark_text(**style, color=colour("ink")).encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip


def _away(place: float, top: float) -> str:
    return "right" if place > 0.75 * top else "left"


def _short(name: str, most: int = 40) -> str:
    name = " ".join(name.split())
    return name if len(name) <= most else name[: most - 1] + "…"


def _finished(chart: Any, width: int, height: int) -> Any:
    import altair as alt

    return (
        chart.properties(width=width, height=height, background="transparent", padding=4)
        .configure(font="sans-serif", aria=False, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=colour("muted"),
            titleColor=colour("muted"),
            titleFontWeight="normal",
            titleFontSize=13,
            labelFontSize=12,
            titlePadding=8,
        )
        .configure_legend(labelColor=colour("ink"), labelFontSize=13, symbolSize=80, labelLimit=220)
    )


# -- into the page -----------------------------------------------------------------------------------------------


def _svg(chart: Any, name: str) -> str:
    """Render a chart, and check and adapt what comes back."""
    import vl_convert

    text = vl_convert.vegalite_to_svg(chart.to_dict(validate=False))
    return adapted(text, name)


def adapted(text: str, name: str) -> str:
    """Return an SVG that may stand in a page: known elements only, no scripts, ids of its own."""
    root = ElementTree.fromstring(text)  # noqa: S314  (our own renderer's output)
    for element in root.iter():
        tag = element.tag.removeprefix(f"{{{_SVG}}}")
        if tag not in _TAGS:
            raise ValueError(f"A chart holds an element {tag!r} that has no place in a report.")
        for attribute, value in list(element.attrib.items()):
            if not _ATTRIBUTES.fullmatch(attribute) or attribute.startswith("on") or "javascript:" in value.lower():
                raise ValueError(f"A chart holds an attribute {attribute!r} that has no place in a report.")
            # Several drawings share one page, and ids are the page's.
            if attribute == "id":
                element.set(attribute, f"{name}-{value}")
            elif value.startswith("url(#"):
                element.set(attribute, f"url(#{name}-{value[5:-1]})")
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return ElementTree.tostring(root, encoding="unicode")
