"""The charts of a report, each one SVG drawing that fits any width (:mod:`certifare.report.svg`).

Classes say what a thing is; the style sheet says how it looks, in light, in dark and on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from certifare.report.palette import LEANS, SERIES
from certifare.report.svg import Plane, stretched, tag, ticks

#: Differences at which the colour changes, in units of the largest one of a cell.
STEPS = (0.6, 0.3, 0.08, -0.08, -0.3, -0.6)
#: A diamond and a ring, in pixels around their place.
DIAMOND, RING = "M0-6L6 0 0 6-6 0Z", "M-9.5 0a9.5 9.5 0 1 0 19 0 9.5 9.5 0 1 0-19 0"
#: Encoders whose bound is larger than the largest on the front, by this factor, are not drawn.
BEYOND = 1.4
#: Columns whose importance is drawn; the table has all.
MOST_COLUMNS = 15


def draw_charts(data: Mapping[str, Any]) -> dict[str, Markup]:
    """Draw every chart that the data allow, by name."""
    drawn = {name: draw(data) for name, draw in _CHARTS.items()}
    return {name: drawing for name, drawing in drawn.items() if drawing is not None}


def lean(difference: float | None, largest: float) -> str:
    """Name the colour of a difference: the first group's for positive ones, the second's for negative ones.

    A difference that is not known is grey, like one of 0.
    """
    place = 0.0 if difference is None else difference / largest
    return LEANS[sum(place < step for step in STEPS)]


def largest_difference(cells: Mapping[str, Any]) -> float:
    """Return the largest difference of a single cell, either way."""
    return max((abs(row["difference"]) for row in cells["rows"] if row["pool"] is None), default=0.0) or 1.0


def drawn_points(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the encoders that the frontier shows: none far beyond all that could have been chosen."""
    points = [] if not data["frontier"] else [p for p in data["frontier"]["points"] if p["utility"] is not None]
    near = [p["bound"] for p in points if p["best"] or p["certified"]]
    return [p for p in points if p["bound"] <= BEYOND * max(near)]


# -- one chart each -----------------------------------------------------------------------------------------------


def _interval(data: Mapping[str, Any]) -> Markup:
    """T* and the lower limit on a scale."""
    figures, target = data["figures"], data["target"]
    top = min(1.0, max(1.15 * figures["bound"], 1.1 * target["value"] if target else 0.0, 0.02))
    plane = Plane((0.0, top), (0.0, 7.0))
    plane.axes(ticks(0.0, top))
    plane.box((figures["lower"], 2.7), (figures["bound"], 4.3), class_="band")
    for place in (figures["lower"], figures["bound"]):
        plane.line((place, 2.2), (place, 4.8), class_="limit")
    plane.dot(figures["estimate"], 3.5, 5, class_="accent")
    plane.text(figures["bound"], 5.4, f"T* = {figures['bound_text']}", class_=f"strong {_side(figures['bound'], top)}")
    plane.text(figures["lower"], 1.1, f"L = {figures['lower_text']}", class_=_side(figures["lower"], top))
    if target:
        plane.line((target["value"], 0.0), (target["value"], 6.4), class_="target")
        text = f"target {target['value']:.4g}"
        plane.text(target["value"], 6.7, text, class_=f"warm {_side(target['value'], top)}")
    return plane.svg("7.5rem")


def _frontier(data: Mapping[str, Any]) -> Markup | None:
    """Draw utility against T*, certified or predicted: one mark for each encoder tried."""
    points = drawn_points(data)
    if not points:
        return None
    kinds = series_of(points)
    target = data["target"]["value"] if data["target"] else 0.0
    utilities = [point["utility"] for point in points]
    margin = 0.06 * (max(utilities) - min(utilities)) or 0.01
    right = 1.04 * max(target, *(point["bound"] for point in points))
    plane = Plane((0.0, right), (min(utilities) - margin, max(utilities) + margin))
    plane.axes(ticks(0.0, right), ticks(*plane.y, 8))
    plane.path(_stairs([p for p in points if p["best"] and not p["certified"]]), class_="front")
    for point in points:
        if not point["certified"]:
            look = "predicted best" if point["best"] else "predicted"
            plane.dot(point["bound"], point["utility"], 2.2, class_=f"{look} {kinds[point['kind']]}")
    if target:
        plane.line((target, plane.y[0]), (target, plane.y[1]), class_="target")
        plane.text(target, plane.y[1], f"target {target:.4g}", dy="-1.9em", class_=f"warm {_side(target, right)}")
    for point in points:
        if point["certified"]:
            plane.mark(point["bound"], point["utility"], DIAMOND, class_=f"certified {kinds[point['kind']]}")
    for point in points:
        if point["chosen"]:
            # Its name stands above the plane, where no point can be.
            plane.line((point["bound"], point["utility"]), (point["bound"], plane.y[1]), class_="leader")
            plane.mark(point["bound"], point["utility"], RING, class_="ring")
            side = _side(point["bound"], right)
            plane.text(point["bound"], plane.y[1], "chosen", dy="-.5em", class_=f"strong {side}")
    return plane.svg("18rem")


def _ratios(data: Mapping[str, Any]) -> Markup | None:
    """Draw the ratio of selection rates that is guaranteed at each rate."""
    largest = data["four_fifths"]["limits"][data["four_fifths"]["largest"]]
    bound, rate = largest["bound"], largest["rate"]
    if bound >= 1.0:
        return None
    plane = Plane((0.0, 1.0), (0.0, 1.0))
    plane.axes([(r, f"{100 * r:.0f} %") for r, _ in ticks(0.0, 1.0)], ticks(0.0, 1.0))
    curve = [(r, 1.0 - bound / r) for i in range(101) if (r := bound + (1.0 - bound) * (i / 100) ** 2) > 0.0]
    if rate is not None:
        above = [(rate, 0.8), *((r, ratio) for r, ratio in curve if r > rate)]
        plane.path([(rate, 0.0), *above, (1.0, 0.0)], closed=True, class_="area")
    plane.path(curve, class_="curve")
    plane.line((0.0, 0.8), (1.0, 0.8), class_="target")
    plane.text(0.0, 0.8, "0.8", dx="4", dy="-.5em", class_="warm")
    if rate is not None:
        plane.dot(rate, 0.8, 5, class_="ink")
        side = "end" if rate > 0.75 else "start"
        plane.text(rate, 0.8, f"from {largest['rate_text']}", dy="1.6em", class_=f"strong {side}")
    return plane.svg("13rem")


def _map(data: Mapping[str, Any]) -> Markup | None:
    """Draw the score map: squares by two scores, cells outlined and numbered, coloured by their difference."""
    if not data["encoder"] or not data["encoder"]["map"]:
        return None
    drawn = data["encoder"]["map"]
    grid, rows = drawn["cells"], data["cells"]["rows"]
    n, m = len(grid), len(grid[0])
    largest = largest_difference(data["cells"])
    leans = [lean(row["difference"] if row["pool"] is None else None, largest) for row in rows]
    areas: dict[str, str] = {}
    for i, column in enumerate(grid):
        for name, start, end in _runs([leans[cell] for cell in column]):
            areas[name] = areas.get(name, "") + f"M{i} {m - end}h1v{end - start}h-1z"
    borders = "".join(
        f"M{i + 1} {m - end}v{end - start}"
        for i in range(n - 1)
        for differ, start, end in _runs([a != b for a, b in zip(grid[i], grid[i + 1], strict=True)])
        if differ
    ) + "".join(
        f"M{start} {m - j - 1}h{end - start}"
        for j in range(m - 1)
        for differ, start, end in _runs([column[j] != column[j + 1] for column in grid])
        if differ
    )
    plane = Plane((0.0, n), (0.0, m))
    shapes = [tag("path", d=d, class_=name) for name, d in sorted(areas.items())]
    plane.drawn.append(stretched(Markup("").join([*shapes, tag("path", d=borders, class_="border")]), n, m))
    for cell, i, j in _named(grid):
        plane.text(i + 0.5, j + 0.5, str(cell), dy=".35em", class_="name middle")
    plane.axes(_quantiles(drawn["x"]["places"]), _quantiles(drawn["y"]["places"]), grid=False)
    return plane.svg("24rem")


def _importances(data: Mapping[str, Any]) -> Markup | None:
    """Draw what goes of the label and of the distance when each column is shuffled, a pair of bars each."""
    if not data["importances"]:
        return None
    columns = data["importances"]["columns"][:MOST_COLUMNS]
    values = [column[name] for column in columns for name in ("explained", "distance")]
    low, high = min(0.0, *values), max(0.02, *values)
    plane = Plane((low, 1.05 * high), (0.0, len(columns)))
    plane.axes(ticks(low, 1.05 * high))
    for i, column in enumerate(reversed(columns)):
        plane.box((0.0, i + 0.36), (column["explained"], i + 0.58), class_=f"bar {SERIES[0]}")
        plane.box((0.0, i + 0.12), (column["distance"], i + 0.34), class_=f"bar {SERIES[1]}")
        name = column["column"]
        plane.text(0.0, i + 0.66, name if len(name) <= 40 else name[:39] + "…", class_="start")
    plane.line((0.0, 0.0), (0.0, len(columns)), class_="zero")
    return plane.svg(f"{2.9 * len(columns):.1f}rem")


def _calibration(data: Mapping[str, Any]) -> Markup | None:
    """Draw the frequency of a label among certification records against the cell's score; on the line they agree."""
    if not data["calibration"]:
        return None
    plane = Plane((0.0, 1.0), (0.0, 1.0))
    plane.axes(ticks(0.0, 1.0), ticks(0.0, 1.0))
    plane.line((0.0, 0.0), (1.0, 1.0), class_="target")
    cells = [cell for cell in data["calibration"][0]["cells"] if cell["share"] is not None]
    most = max((cell["records"] for cell in cells), default=1)
    for cell in cells:
        radius = 2.0 + 7.0 * (cell["records"] / most) ** 0.5
        plane.dot(cell["score"], cell["share"], radius, class_=f"predicted {SERIES[0]}")
    return plane.svg("16rem")


_CHARTS: dict[str, Callable[[Mapping[str, Any]], Markup | None]] = {
    "interval": _interval,
    "frontier": _frontier,
    "ratios": _ratios,
    "map": _map,
    "importances": _importances,
    "calibration": _calibration,
}


# -- what charts share --------------------------------------------------------------------------------------------


def series_of(points: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Give each kind of encoder a colour; when these run out, the last."""
    kinds = sorted({point["kind"] for point in points})
    return {kind: SERIES[min(i, len(SERIES) - 1)] for i, kind in enumerate(kinds)}


def _side(place: float, top: float) -> str:
    """On which side of its place a text stands, so that it stays inside."""
    return "end" if place > 0.5 * top else "start"


def _stairs(points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return the corners of a line that rises at each point."""
    corners: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: point["bound"]):
        if corners:
            corners.append((point["bound"], corners[-1][1]))
        corners.append((point["bound"], point["utility"]))
    return corners


def _runs(values: Sequence[Any]) -> list[tuple[Any, int, int]]:
    """Return the stretches of equal values: the value, where it starts, where it ends."""
    runs: list[tuple[Any, int, int]] = []
    for i, value in enumerate(values):
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1], i + 1)
        else:
            runs.append((value, i, i + 1))
    return runs


def _named(grid: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Choose the square in which each cell is named: the one farthest from other cells."""
    cells = np.asarray(grid)
    named = []
    for cell in np.unique(cells).tolist():
        inside = np.pad(cells == cell, 1)
        while True:
            # A square stays while its neighbours are inside, too.
            smaller = inside.copy()
            for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
                smaller &= np.roll(inside, step, axis)
            if not smaller.any():
                break
            inside = smaller
        squares = np.argwhere(inside) - 1
        i, j = squares[np.abs(squares - squares.mean(axis=0)).sum(axis=1).argmin()].tolist()
        named.append((cell, i, j))
    return named


def _quantiles(places: Sequence[float]) -> list[tuple[float, str]]:
    """Mark some bins of an axis in their middle, with the score that they stand for."""
    n = len(places)
    bins = sorted({round((n - 1) * share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
    return [(i + 0.5, f"{places[i]:.2g}") for i in bins]
