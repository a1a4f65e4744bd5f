"""Draw encoders by utility and distance, in reports and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from certifare.drawing.figure import LINE, SHAPES, Figure, draw_figures, stairs
from certifare.drawing.palette import SERIES
from certifare.drawing.svg import Plane, tag, ticks
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount

#: A dot, a diamond and a ring, in pixels around their place.
DOT, DIAMOND = "M-3 0a3 3 0 1 0 6 0 3 3 0 1 0-6 0", "M0-6L6 0 0 6-6 0Z"
RING = "M-9.5 0a9.5 9.5 0 1 0 19 0 9.5 9.5 0 1 0-19 0"


def draw_scatter(points: Sequence[Mapping[str, Any]], utility: str) -> Drawing:
    """Draw encoders by T* and a utility that is a share, in a chart of its own; points as for the plane."""
    kinds = series_of(points)
    sorts = {"certified": [p for p in points if p["certified"]], "predicted": [p for p in points if not p["certified"]]}
    key = [(tag("path", d=SHAPES[0], class_=f"wedge {colour}"), kind) for kind, colour in kinds.items()]
    key += [(tag("path", d=DIAMOND, class_="ink"), "certified")] if sorts["certified"] else []
    key += [(tag("path", d=DOT, class_="ink"), "predicted")] if sorts["predicted"] else []
    key += [(tag("path", d="M-10 4H0V-4H10", class_="front"), "not beaten by another")]
    present = {sort: len(of_sort) for sort, of_sort in sorts.items() if of_sort}
    counts = " and ".join(f"{number:,} {sort}" for sort, number in present.items())
    description = (
        f"A scatter plot of {amount(len(points), 'encoder')}, {counts}, by T* and {utility}; steps join the best."
    )
    x = f"→ T*, {' or '.join(present)}: upper bound on the distance between groups (0 to 1)"
    plane = scatter_plane(points, percent=True)
    figure = Figure(plane, x, f"↑ utility: {utility} (%)", key=key, height=300, left=62, above=LINE)
    return draw_figures("Utility and distance of encoders", [figure], description)


def scatter_plane(points: Sequence[Mapping[str, Any]], target: float | None = None, *, percent: bool = False) -> Plane:
    """Draw utility against T*: a diamond for each certified encoder, a dot for each predicted one, and their fronts.

    - ``points``: each with ``bound``, ``utility``, ``kind``, ``certified``, ``best`` (whether it is on the front of its
      sort) and ``chosen``; a pointer on it brings up its ``hint``, if it has one.
    - ``percent``: whether utilities are shares, to be written as percentages.
    """
    kinds = series_of(points)
    utilities = [point["utility"] for point in points]
    margin = 0.06 * (max(utilities) - min(utilities)) or 0.01
    right = 1.04 * max(target or 0.0, *(point["bound"] for point in points)) or 1.0
    plane = Plane((0.0, right), (min(utilities) - margin, max(utilities) + margin))
    unit = 100 if percent else 1
    beside = [
        (y / unit, f"{text} %" if percent else text) for y, text in ticks(unit * plane.y[0], unit * plane.y[1], 8)
    ]
    plane.axes(ticks(0.0, right), beside)
    for certified in (False, True):
        front = sorted((p["bound"], p["utility"]) for p in points if p["best"] and p["certified"] is certified)
        if len(front) > 1:
            plane.path(stairs(front), class_="front certain" if certified else "front")
    for point in points:
        if not point["certified"]:
            look = f"predicted {'best ' if point['best'] else ''}{kinds[point['kind']]}"
            plane.dot(point["bound"], point["utility"], 2.2, point.get("hint"), class_=look)
    if target:
        plane.line((target, plane.y[0]), (target, plane.y[1]), class_="target")
        plane.text(target, plane.y[1], f"target {target:.4g}", dy="-1.9em", class_=f"warm {plane.side(target)}")
    for point in points:
        if point["certified"]:
            look = f"certified {kinds[point['kind']]}"
            plane.mark(point["bound"], point["utility"], DIAMOND, point.get("hint"), class_=look)
    for x, y in ((point["bound"], point["utility"]) for point in points if point["chosen"]):
        # Its name stands above the plane, where no point can be.
        plane.line((x, y), (x, plane.y[1]), class_="leader")
        plane.mark(x, y, RING, class_="ring")
        plane.text(x, plane.y[1], "chosen", dy="-.5em", class_=f"strong {plane.side(x)}")
    return plane


def series_of(points: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give each kind of encoder a colour; when these run out, the last."""
    kinds = sorted({point["kind"] for point in points})
    return {kind: SERIES[min(i, len(SERIES) - 1)] for i, kind in enumerate(kinds)}
