"""Drawings that fit any width: places are shares of the plane, while texts, marks and lines keep their size.

An SVG element without a ``viewBox`` takes percentages, so one drawing serves a wide page, a phone and paper; the style
sheet gives it its colours, in light and dark. Whatever is drawn goes through :func:`tag`, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

#: Sides of the square in which paths are drawn before they are stretched over the plane.
SIDE = 1000


def tag(name: str, *content: Any, **attributes: Any) -> Markup:
    """Make an element: ``class_`` is class, ``text_anchor`` is text-anchor, and None is left out.

    >>> print(tag("text", "a < b", x="50%", class_="muted"))
    <text x="50%" class="muted">a &lt; b</text>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escape, content))}</{name}>")  # noqa: S704  (escaped above)


def ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers from ``low`` to ``high``, about this many at most, each with its text.

    >>> ticks(0, 0.093, 5)
    [(0.0, '0.00'), (0.02, '0.02'), (0.04, '0.04'), (0.06, '0.06'), (0.08, '0.08')]
    """
    least = max(high - low, 1e-9) / most
    power = math.floor(math.log10(least))
    step = next(factor * 10.0**power for factor in (1, 2, 5, 10) if factor * 10.0**power >= least * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, f"{i * step:.{digits}f}") for i in range(first, last + 1)]


@dataclass
class Plane:
    """A plane between two limits on each axis, and what is drawn on it."""

    x: tuple[float, float]
    y: tuple[float, float]
    drawn: list[Markup] = field(default_factory=list)

    def across(self, x: float) -> float:
        """Return the place of x, as a share of the width."""
        return (x - self.x[0]) / (self.x[1] - self.x[0])

    def down(self, y: float) -> float:
        """Return the place of y, as a share of the height, from the top."""
        return (self.y[1] - y) / (self.y[1] - self.y[0])

    def side(self, x: float) -> str:
        """On which side of its place a text stands, so that it stays inside."""
        return "end" if self.across(x) > 0.5 else "start"

    def line(self, start: tuple[float, float], end: tuple[float, float], **attributes: Any) -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = ((_percent(self.across(x)), _percent(self.down(y))) for x, y in (start, end))
        self.drawn.append(tag("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes))

    def box(self, start: tuple[float, float], end: tuple[float, float], **attributes: Any) -> None:
        """Draw a rectangle between two corners."""
        left, right = sorted((self.across(start[0]), self.across(end[0])))
        top, bottom = sorted((self.down(start[1]), self.down(end[1])))
        size = {"width": _percent(right - left), "height": _percent(bottom - top)}
        self.drawn.append(tag("rect", x=_percent(left), y=_percent(top), **size, **attributes))

    def dot(self, x: float, y: float, r: float, hint: str | None = None, **attributes: Any) -> None:
        """Draw a circle of this radius in pixels."""
        place = {"cx": _percent(self.across(x)), "cy": _percent(self.down(y))}
        self.drawn.append(tag("circle", *_hint(hint), **place, r=f"{r:g}", **attributes))

    def mark(self, x: float, y: float, shape: str, hint: str | None = None, **attributes: Any) -> None:
        """Draw a shape, given as a path in pixels around its place."""
        place = {"x": _percent(self.across(x)), "y": _percent(self.down(y))}
        self.drawn.append(tag("svg", tag("path", *_hint(hint), d=shape, **attributes), class_="mark", **place))

    def text(self, x: float, y: float, text: str, **attributes: Any) -> None:
        """Write at a place; ``dx`` and ``dy`` move the text by pixels."""
        place = {"x": _percent(self.across(x)), "y": _percent(self.down(y))}
        self.drawn.append(tag("text", text, **place, **attributes))

    def path(self, points: Iterable[tuple[float, float]], *, closed: bool = False, **attributes: Any) -> None:
        """Draw a line through points, or the area inside."""
        places = [f"{SIDE * self.across(x):.1f} {SIDE * self.down(y):.1f}" for x, y in points]
        d = f"M{'L'.join(places)}{'Z' if closed else ''}"
        self.drawn.append(stretched(tag("path", d=d, **attributes), SIDE, SIDE))

    def axes(self, x: Sequence[tuple[float, str]], y: Sequence[tuple[float, str]] = (), *, grid: bool = True) -> None:
        """Write at places on each axis, outside of the plane, and draw the lines that belong to them."""
        for place, text in x:
            if grid:
                self.line((place, self.y[0]), (place, self.y[1]), class_="grid")
            self.text(place, self.y[0], text, dy="1.4em", class_="muted middle")
        for place, text in y:
            if grid:
                self.line((self.x[0], place), (self.x[1], place), class_="grid")
            self.text(self.x[0], place, text, dx="-8", dy=".35em", class_="muted end")

    def svg(self, height: str) -> Markup:
        """Return the drawing: as wide as there is room, and this high."""
        return tag("svg", *self.drawn, class_="plane", style=f"height: {height}", aria_hidden="true", focusable="false")


def stretched(content: Markup, width: int, height: int) -> Markup:
    """Stretch what is drawn in a rectangle of these sides over the whole plane; lines keep their width."""
    return tag("svg", content, viewBox=f"0 0 {width} {height}", preserveAspectRatio="none", class_="stretched")


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _hint(text: str | None) -> list[Markup]:
    """Make the text that a pointer on a mark brings up."""
    return [] if text is None else [tag("title", text)]
