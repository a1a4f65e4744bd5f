"""The charts of a report, each one SVG drawing that fits any width (:mod:`certifare.drawing.svg`).

Classes say what a thing is; the style sheet says how it looks, in light, in dark and on paper.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from certifare.certificates.picture import interval_plane
from certifare.certificates.rounding import percent_up
from certifare.drawing.palette import LEANS, SERIES
from certifare.drawing.scatter import scatter_plane
from certifare.drawing.svg import Plane, stretched, tag, ticks
from certifare.foundation.formatting import shortened

#: Differences at which the colour changes, in units of the largest one of a cell.
STEPS = (0.6, 0.3, 0.08, -0.08, -0.3, -0.6)
#: Encoders whose bound is larger than the largest on the front, by this factor, are not drawn.
BEYOND = 1.4
#: Regions of the score map below this share of its squares are numbered in small digits.
SMALL_REGION = 0.01
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
    figures = data["figures"]
    plane = interval_plane(figures["lower"], figures["estimate"], figures["bound"], _target(data))
    return plane.svg("7.5rem")


def _frontier(data: Mapping[str, Any]) -> Markup | None:
    """Draw utility against T*, certified or predicted: one mark for each encoder tried."""
    points = drawn_points(data)
    return scatter_plane(points, _target(data)).svg("18rem") if points else None


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
        plane.text(rate, 0.8, f"from {percent_up(rate)}", dy="1.6em", class_=f"strong {side}")
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
    for cell, i, j, size in _named(grid):
        look = "name middle" if size >= SMALL_REGION * n * m else "name small middle"
        plane.text(i + 0.5, j + 0.5, str(cell), dy=".35em", class_=look)
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
        plane.text(0.0, i + 0.66, shortened(column["column"], 40), class_="start")
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


def _target(data: Mapping[str, Any]) -> float | None:
    return data["target"]["value"] if data["target"] else None


def _runs(values: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Yield the stretches of equal values: the value, where it starts, where it ends."""
    start = 0
    for value, members in itertools.groupby(values):
        end = start + len(list(members))
        yield value, start, end
        start = end


def _named(grid: Sequence[Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """Choose the square in which each region of a cell is numbered, the one farthest from others; and its size."""
    from scipy import ndimage

    cells, named = np.asarray(grid), []
    for cell in np.unique(cells).tolist():
        regions, n = ndimage.label(cells == cell)
        for number in range(1, n + 1):
            region = regions == number
            depth = ndimage.distance_transform_cdt(np.pad(region, 1), "taxicab")
            squares = np.argwhere(depth == depth.max()) - 1
            i, j = squares[np.abs(squares - squares.mean(axis=0)).sum(axis=1).argmin()].tolist()
            named.append((cell, i, j, int(region.sum())))
    return named


def _quantiles(places: Sequence[float]) -> list[tuple[float, str]]:
    """Mark some bins of an axis in their middle, with the score that they stand for."""
    n = len(places)
    bins = sorted({round((n - 1) * share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
    return [(i + 0.5, f"{places[i]:.2g}") for i in bins]
