"""Charts that stand alone: a plane with its title, axes and key, in one SVG that brings its colours along."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from unicodedata import east_asian_width

from markupsafe import Markup

from certifare.drawing.palette import SERIES, alone_style
from certifare.drawing.svg import Plane, tag, ticks
from certifare.foundation.display import Drawing

Corner = tuple[float, float]
#: Width of a drawing in pixels, and the room to the right of a plane and between panels.
WIDTH, RIGHT, GAP = 680, 24, 36
#: Height of a line of text, the mean width of a letter, and how much wider those of headings are.
LINE, LETTER, BOLD = 22, 7.0, 1.25
#: One shape for each series, in pixels around its place: a circle, a square, a diamond, two triangles, a plus, a cross.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0 4 4 0 1 0-8 0Z",
    "M-3.6-3.6h7.2v7.2h-7.2Z",
    "M0-5.2L5.2 0 0 5.2-5.2 0Z",
    "M0-4.8L4.8 3.8h-9.6Z",
    "M0 4.8L4.8-3.8h-9.6Z",
    "M-1.6-4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2Z",
    "M-4.5-2.3L-2.3-4.5 0-2.2 2.3-4.5 4.5-2.3 2.2 0 4.5 2.3 2.3 4.5 0 2.2-2.3 4.5-4.5 2.3-2.2 0Z",
)
#: More series than these cannot be told apart.
MOST_SERIES = len(SERIES)


@dataclass(frozen=True)
class Scale:
    """One axis of a panel.

    Attributes
    ----------
    title : str
        What is measured, and in which unit.
    names : sequence of str
        For categories: name i stands between i and i + 1, from the left or from above.
    limits : tuple of float, optional
        Where the axis begins and ends; by the data unless given.
    zero : bool
        Begin at 0, if the data do not go below.
    log, percent : bool
        Use a logarithmic scale; write shares as percentages.
    """

    title: str = ""
    names: Sequence[str] = ()
    limits: tuple[float, float] | None = None
    zero: bool = False
    log: bool = False
    percent: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies on the plane's scale."""
        return math.log10(value) if self.log else value

    def heading(self, arrow: str) -> str:
        """Return the title, with an arrow to where values are larger."""
        return self.title if self.names or not self.title else f"{arrow} {self.title}"

    def span(self, values: Sequence[float], *, vertical: bool) -> tuple[float, float]:
        """Return the plane's limits for these values, with a margin around them."""
        if self.names:
            return (float(len(self.names)), 0.0) if vertical else (0.0, float(len(self.names)))
        if self.limits is not None:
            return self.place(self.limits[0]), self.place(self.limits[1])
        places = [self.place(value) for value in values] or [0.0]
        low, high = min(places), max(places)
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
        return (0.0 if self.zero and low >= 0.0 else low - margin), high + margin

    def marks(self, span: tuple[float, float], room: float, *, vertical: bool) -> list[tuple[float, str]]:
        """Return places on the plane and what is written there, no denser than texts fit into this many pixels."""
        if self.names:
            step = math.ceil(16 * len(self.names) / room) if vertical else 1
            most = 200 if vertical else room / len(self.names)
            return [(i + 0.5, shorten(name, most)) for i, name in enumerate(self.names) if i % step == 0]
        low, high = span
        most_ticks = max(3, int(room / (36 if vertical else 52)))
        if self.log:
            factors = (1, 2, 5) if 3 * (high - low) <= most_ticks else (1,)
            values = [f * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for f in factors]
            return [(math.log10(v), f"{v:,.10g}") for v in values if low <= math.log10(v) <= high]
        if self.percent:
            return [(value / 100, f"{text} %") for value, text in ticks(100 * low, 100 * high, most_ticks)]
        return [(v, f"{v:,.0f}" if abs(high) >= 1000 else text) for v, text in ticks(low, high, most_ticks)]


@dataclass(frozen=True)
class Series:
    """Points or boxes of one name and colour.

    Attributes
    ----------
    name : str
        As in the key; a series without a name is not in it.
    points : sequence of (float, float)
        For ``boxes`` two opposite corners of each, one after the other.
    look : {"line", "dashed", "curve", "steps", "dots", "boxes"}
        Lines mark their points, curves and steps do not; steps keep a value until the next point.
    """

    name: str
    points: Sequence[Corner]
    look: Literal["line", "dashed", "curve", "steps", "dots", "boxes"] = "line"

    def draw(self, plane: Plane, places: Sequence[Corner], number: int) -> None:
        """Draw the series at these places of the plane, in the colour and with the shape of its number."""
        if self.look == "boxes":
            for start, end in zip(places[::2], places[1::2], strict=True):
                plane.box(start, end, class_=f"bar {SERIES[number]}")
            return
        if self.look != "dots" and len(places) > 1:
            plane.path(stairs(places) if self.look == "steps" else places, class_=self._stroke(number))
        if self.look not in ("curve", "steps"):
            for x, y in places:
                plane.mark(x, y, SHAPES[number], class_=f"wedge {SERIES[number]}")

    def sample(self, number: int) -> Markup:
        """Draw what stands for the series in the key, around its place."""
        if self.look == "boxes":
            return tag("path", d="M-6-6h12v12h-12Z", class_=f"bar {SERIES[number]}")
        line = tag("path", d="M-11 0H11", class_=self._stroke(number))
        shape = tag("path", d=SHAPES[number], class_=f"wedge {SERIES[number]}")
        return {"dots": shape, "curve": line, "steps": line}.get(self.look, line + shape)

    def _stroke(self, number: int) -> str:
        return f"course {'dashed ' if self.look == 'dashed' else ''}{SERIES[number]}"


@dataclass(frozen=True)
class Figure:
    """A plane, and what is written around it.

    Attributes
    ----------
    plane : Plane
    x, y : str
        Titles of the axes.
    heading : str
    key : sequence of (Markup, str)
        What stands for each series, drawn around its place, and the name.
    height, left, above : int
        Height of the plane, and the room for texts to its left and above it, in pixels.
    """

    plane: Plane
    x: str
    y: str = ""
    heading: str = ""
    key: Sequence[tuple[Markup, str]] = ()
    height: int = 260
    left: int = 56
    above: int = 0

    def draw(self, width: float) -> tuple[Markup, float]:
        """Draw it in this width; return the height, too."""
        drawn, y = [], 0.0
        for line in textwrap.wrap(self.heading, int(width / (BOLD * LETTER)))[:2]:
            drawn.append(tag("text", shorten(line, width / BOLD), x=0, y=f"{y + 14:g}", class_="strong"))
            y += LINE
        if self.key:
            x = 0.0
            for sample, name in self.key:
                shown = shorten(name, width - 32)
                if x and x + 32 + text_width(shown) > width:
                    x, y = 0.0, y + LINE
                drawn.append(tag("g", sample, transform=f"translate({x + 11:g} {y + 11:g})"))
                drawn.append(tag("text", shown, x=f"{x + 28:g}", y=f"{y + 15.5:g}"))
                x += 44 + text_width(shown)
            y += LINE + 6
        if self.y:
            drawn.append(tag("text", shorten(self.y, width), x=0, y=f"{y + 14:g}", class_="muted"))
            y += LINE + 4
        y += self.above
        size = {"width": f"{width - self.left - RIGHT:g}", "height": self.height}
        drawn.append(tag("svg", *self.plane.drawn, x=self.left, y=f"{y:g}", **size))
        y += self.height + 2 * LINE
        if self.x:
            drawn.append(tag("text", shorten(self.x, width), x=0, y=f"{y:g}", class_="muted"))
        return Markup("").join(drawn), y + 8


@dataclass(frozen=True)
class Panel:
    """Series over two axes.

    Attributes
    ----------
    series : sequence of Series
        Of at most seven names: more cannot be told apart. Series of one name have one colour and one place in the key;
        one without points keeps its colour free.
    x, y : Scale
    heading : str
    rules : sequence of (str, float, str)
        Lines across the whole panel: the axis ("x" or "y"), the value, and a text.
    height : int
    """

    series: Sequence[Series]
    x: Scale
    y: Scale
    heading: str = ""
    rules: Sequence[tuple[Literal["x", "y"], float, str]] = ()
    height: int = 260

    def figure(self, width: float) -> Figure:
        """Draw the series on a plane for a figure of this width."""
        corners = [point for series in self.series for point in series.points]
        values = [[point[i] for point in corners] for i in (0, 1)]
        for axis, value, _ in self.rules:
            values["xy".index(axis)].append(value)
        across, down = self.x.span(values[0], vertical=False), self.y.span(values[1], vertical=True)
        beside = self.y.marks(down, self.height, vertical=True)
        left = math.ceil(max((text_width(text) for _, text in beside), default=0.0)) + 14
        plane = Plane(across, down)
        plane.axes(self.x.marks(across, width - left - RIGHT, vertical=False), grid=not self.x.names)
        plane.axes((), beside, grid=not self.y.names)
        for axis, value, text in self.rules:
            if axis == "x":
                place = self.x.place(value)
                plane.line((place, down[0]), (place, down[1]), class_="target")
                side = (
                    {"dx": "-6", "class_": "warm end"} if plane.across(place) > 0.5 else {"dx": "6", "class_": "warm"}
                )
                plane.text(place, down[1], text, dy="1em", **side)
            else:
                place = self.y.place(value)
                plane.line((across[0], place), (across[1], place), class_="target")
                plane.text(across[1], place, text, dy="-.5em", class_="warm end")
        numbers = {name: number for number, name in enumerate(dict.fromkeys(series.name for series in self.series))}
        for series in self.series:
            series.draw(plane, [(self.x.place(x), self.y.place(y)) for x, y in series.points], numbers[series.name])
        firsts = {series.name: series for series in reversed(self.series) if series.points}
        key = [(firsts[name].sample(number), name) for name, number in numbers.items() if name in firsts and name]
        return Figure(plane, self.x.heading("→"), self.y.heading("↑"), self.heading, key, self.height, left)


def draw_panels(title: str, panels: Sequence[Panel], description: str = "") -> Drawing:
    """Draw panels of series, two beside each other, below one title.

    Parameters
    ----------
    title : str
    panels : sequence of Panel
    description : str
        What the chart shows, for those who cannot see it.

    Examples
    --------
    >>> from certifare.drawing import Scale, Panel, Series, draw_panels
    >>> rising = Series("T*", [(0.1, 0.70), (0.2, 0.75)])
    >>> drawing = draw_panels("Accuracy", [Panel([rising], Scale("distance"), Scale("accuracy", percent=True))])
    >>> drawing.svg().startswith("<svg")
    True
    """
    width = panel_width(min(2, len(panels)))
    return draw_figures(title, [panel.figure(width) for panel in panels], description, columns=2)


def draw_figures(title: str, figures: Sequence[Figure], description: str = "", *, columns: int = 1) -> Drawing:
    """Draw framed planes next to each other, below one title."""
    columns = min(columns, len(figures))
    width = panel_width(columns)
    drawn = [tag("rect", width="100%", height="100%", class_="paper")]
    drawn.append(tag("text", shorten(title, (WIDTH - 2 * LINE) / BOLD), x=LINE, y=30, class_="heading"))
    y = 46.0
    for row in range(0, len(figures), columns):
        heights = []
        for column, figure in enumerate(figures[row : row + columns]):
            content, height = figure.draw(width)
            x = LINE + column * (width + GAP)
            drawn.append(tag("g", content, transform=f"translate({x:g} {y:g})"))
            heights.append(height)
        y += max(heights) + 12
    style = Markup(alone_style())  # noqa: S704  (a file of our own)
    about = [tag("title", title), *([tag("desc", description)] if description else []), tag("style", style)]
    size = {"width": WIDTH, "height": f"{y:g}", "viewBox": f"0 0 {WIDTH} {y:g}"}
    whole = tag("svg", *about, *drawn, xmlns="http://www.w3.org/2000/svg", **size, class_="plane alone", role="img")
    return Drawing(title, whole)


def draw_shares(
    title: str, counts: Mapping[str, Sequence[float]], names: Sequence[str], unit: str, bar: str = "cell"
) -> Drawing:
    """Draw a bar for each cell, made up of the counts of each group; of many groups the smaller ones together.

    - ``counts``: for each group its count in each cell.
    - ``names``: of the cells.
    - ``unit``: what is counted.
    - ``bar``: what a bar is.
    """
    groups = sorted(counts, key=lambda group: -sum(counts[group]))
    others = groups[MOST_SERIES - 1 :] if len(groups) > MOST_SERIES else []
    shown = {group: counts[group] for group in groups if group not in others}
    if others:
        shown[f"{len(others):,} other groups"] = [
            sum(column) for column in zip(*(counts[g] for g in others), strict=True)
        ]
    starts, series = [0.0] * len(names), []
    for group, numbers in shown.items():
        ends = [start + number for start, number in zip(starts, numbers, strict=True)]
        boxes = [c for i, (s, e) in enumerate(zip(starts, ends, strict=True)) for c in ((s, i + 0.15), (e, i + 0.85))]
        series.append(Series(group, boxes, "boxes"))
        starts = ends
    x, height = Scale(unit, zero=True), max(60, min(20 * len(names), 1200))
    panel = Panel(series, x, Scale(bar, names=names), height=height)
    return draw_panels(title, [panel], f"A bar for each of {len(names):,} {bar}s: {unit}.")


def panel_width(columns: int) -> float:
    """Return the width of each of several panels next to each other."""
    return (WIDTH - 2 * LINE - (columns - 1) * GAP) / columns


def stairs(points: Sequence[Corner]) -> list[Corner]:
    """Return the corners of a line that keeps each value until the next point.

    >>> stairs([(0, 1), (2, 3)])
    [(0, 1), (2, 1), (2, 3)]
    """
    corners = [((x, before), (x, y)) for (_, before), (x, y) in pairwise(points)]
    return [*points[:1], *(corner for two in corners for corner in two)]


def text_width(text: str) -> float:
    """Estimate the width of a text in pixels."""
    return LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shorten(text: str, room: float) -> str:
    """Put a text on one line, and cut it where it would be wider than this many pixels.

    >>> shorten("twelve letters", 50)
    'twelve…'
    """
    text = " ".join(text.split())
    if text_width(text) <= room:
        return text
    while text and text_width(text) > room - LETTER:
        text = text[:-1]
    return text.rstrip() + "…"
