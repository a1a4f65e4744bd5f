"""Charts of the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from certifare.drawing import Figure, Panel, Plane, Scale, Series
from certifare.drawing.figure import MOST_SERIES, panel_width

#: Panels beside each other.
COLUMNS = 2


def fronts(points: Sequence[Mapping[str, Any]], x_title: str = "distance", facet: str | None = None) -> list[Figure]:
    """Accuracy over distance: one line per ``series``, thin and dashed where ``certified`` is false.

    Each point has ``series``, ``distance``, ``accuracy`` and ``certified``.
    """
    x, y = (_scale(title, points, of) for title, of in ((x_title, "distance"), ("accuracy", "accuracy")))
    panels = []
    for title, own, names in _panels(points, facet):
        certain = {point["series"] for point in points if point["certified"]}
        series = [
            Series(name, _places(own, name, "distance", "accuracy", certified), "line" if certified else "dashed")
            for name in names
            for certified in ((True, False) if name in certain else (False,))
        ]
        panels.append(Panel(series, x, y, title))
    return _figures(panels)


def lines(points: Sequence[Mapping[str, Any]], x: str, y: str, *, log: bool = False) -> list[Figure]:
    """Lines of ``y`` over ``x``, one per ``series``."""
    return _figures(
        [
            Panel(
                [Series(name, _places(own, name, x, y)) for name in names],
                Scale(x, log=log),
                _scale(y, points, y),
                title,
            )
            for title, own, names in _panels(points, None)
        ]
    )


def dots(points: Sequence[Mapping[str, Any]], bound: float) -> list[Figure]:
    """Classifiers as dots over distance and accuracy, and the certified bound as a line."""
    names = dict.fromkeys(point["series"] for point in points)
    series = [Series(name, _places(points, name, "distance", "accuracy"), "dots") for name in names]
    x, y = Scale("distance on test records"), Scale("accuracy")
    return _figures([Panel(series, x, y, rules=[("x", bound, f"T* = {bound:.4f}")])])


def bars(points: Sequence[Mapping[str, Any]], x: str, y: str, *, log: bool = False) -> list[Figure]:
    """Bars of ``x``, one per ``y``."""
    values = [float(point[x]) for point in points]
    start = 10.0 ** math.floor(math.log10(min(values))) if log else 0.0
    corners = [corner for i, value in enumerate(values) for corner in ((start, i + 0.2), (value, i + 0.8))]
    scale = Scale(x, limits=(start, 1.15 * max(values)), log=log)
    names = [str(point[y]) for point in points]
    return _figures([Panel([Series("", corners, "boxes")], scale, Scale(names=names), height=24 * len(names))])


def dendrogram(levels: Sequence[Sequence[int]], names: Sequence[str]) -> list[Figure]:
    """Draw a tree from its path: for each number of cells, in which of them each of the finest cells lies."""
    places = {(0, len(names)): 0}
    plane = Plane((0.0, 1.4 * len(levels)), (float(len(names)), 0.0))
    for depth, level in enumerate(levels[1:], 1):
        starts = [i for i in range(len(level)) if not i or level[i] != level[i - 1]]
        for begin, end in zip(starts, [*starts[1:], len(level)], strict=True):
            if (begin, end) in places:
                continue
            parent = min((p for p in places if p[0] <= begin and end <= p[1]), key=lambda p: p[1] - p[0])
            places[begin, end] = depth
            middle, above = (begin + end) / 2, sum(parent) / 2
            plane.line((places[parent], above), (depth, middle), class_="leader")
    for i, name in enumerate(names):
        plane.text(places.get((i, i + 1), 0), i + 0.5, name, dx="6", dy=".35em")
    return [Figure(plane, "→ splits, in the order in which they were made", height=30 * len(names), left=8)]


def _scale(title: str, points: Sequence[Mapping[str, Any]], name: str) -> Scale:
    """Return one scale for the panels of all these points."""
    low, high = Scale().span([float(point[name]) for point in points], vertical=True)
    return Scale(title, limits=(low, high))


def _places(
    points: Sequence[Mapping[str, Any]], name: str, x: str, y: str, certified: bool | None = None
) -> list[tuple[float, float]]:
    """Return the places of a series from left to right; of a chart of fronts, those certified or those not."""
    return sorted(
        (float(p[x]), float(p[y]))
        for p in points
        if p["series"] == name and (certified is None or bool(p["certified"]) is certified)
    )


def _panels(
    points: Sequence[Mapping[str, Any]], facet: str | None
) -> list[tuple[str, list[Mapping[str, Any]], list[str]]]:
    """Split the points into panels of at most seven series: title, points, series.

    Series that are certified are in each of them. A series has the same colour in the panels of all data. There is no
    panel that would show nothing of its own.
    """
    series = dict.fromkeys(point["series"] for point in points)
    certified = {point["series"] for point in points if point.get("certified")}
    fixed = [name for name in series if name in certified and len(certified) < MOST_SERIES]
    others = [name for name in series if name not in fixed]
    count = max(1, -(-len(others) // (MOST_SERIES - len(fixed))))
    size = max(1, -(-len(others) // count))
    panels = []
    for name in dict.fromkeys("" if facet is None else str(point[facet]) for point in points):
        of_facet = []
        for i in range(count):
            shown = [*fixed, *others[i * size : (i + 1) * size]]
            own = [p for p in points if p["series"] in shown and (facet is None or str(p[facet]) == name)]
            of_facet.append((own, shown))
        of_facet = [pair for pair in of_facet if any(p["series"] not in fixed for p in pair[0])] or of_facet[:1]
        for i, (own, shown) in enumerate(of_facet, 1):
            panels.append((name if len(of_facet) == 1 else f"{name} ({i} of {len(of_facet)})".strip(), own, shown))
    return panels


def _figures(panels: Sequence[Panel]) -> list[Figure]:
    return [panel.figure(panel_width(min(COLUMNS, len(panels)))) for panel in panels]
