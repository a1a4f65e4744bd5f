"""Draw the curves of scale.md: ``python docs/figures/draw_scale.py`` reads scale.json and writes scale.svg beside it.

``python benchmarks/scale.py --results docs/figures/scale.json`` measures anew.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
INK, PALE, OURS, LIGHT, OTHER = "#263238", "#cfd8dc", "#00796b", "#ef6c00", "#5c6bc0"
WIDTH, HEIGHT, GAP, SIDE = 220, 180, 120, 46


class Curve(NamedTuple):
    """A line through points, named at its last."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


class Panel(NamedTuple):
    """Curves over one axis."""

    title: str
    across: str
    curves: Sequence[Curve]
    logarithmic: bool


def panels(measured: dict[str, Any]) -> list[Panel]:
    """Arrange what is drawn: time by rows, columns, cells and workers."""
    million = 1e6
    rows = [Curve("streamed", [(r["rows"] / million, r["seconds"]) for r in measured["rows"]], OURS)]
    for key, name, colour in (("lightgbm", "LightGBM", LIGHT), ("sklearn", "scikit-learn", OTHER)):
        points = [(r["rows"] / million, r[key]["seconds"]) for r in measured["others"] if key in r]
        rows.append(Curve(name, points, colour))
    columns = [
        Curve(step, [(r["columns"], r["core_steps"][step] / 5) for r in measured["columns"]], colour)
        for step, colour in (("survey", LIGHT), ("code", OTHER), ("grow", OURS))
    ]
    cells = [Curve("grow", [(r["cells"], r["core_steps"]["grow"] / 5) for r in measured["cells"]], OURS)]
    threads = [r for r in measured["workers"] if "threads" in r]
    workers = [r for r in measured["workers"] if r.get("ahead") == 16]
    both = [
        Curve("threads", [(r["threads"], r["seconds"]) for r in threads], OURS),
        Curve("Dask", [(r["workers"], r["prepare_seconds"] + r["grow_seconds"]) for r in workers], LIGHT),
    ]
    return [
        Panel("seconds, 9 columns", "million rows", rows, True),
        Panel("core µs a row, 5 million rows", "columns", columns, False),
        Panel("core µs a row, 5 million rows", "cells", cells, True),
        Panel("seconds, 10 million rows", "processors", both, False),
    ]


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = INK) -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def draw(panel: Panel, left: float, top: float) -> list[str]:
    """One panel, its upper left corner at a place."""
    points = [point for curve in panel.curves for point in curve.points]
    xs, ys = ([point[i] for point in points] for i in (0, 1))

    def spot(x: float, y: float) -> tuple[float, float]:
        if panel.logarithmic:
            low, high = math.log10(min(xs)), math.log10(max(xs))
            floor, roof = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
            across, up = (math.log10(x) - low) / (high - low), (math.log10(y) - floor) / (roof - floor)
        else:
            across, up = x / max(xs), y / (1.08 * max(ys))
        return left + across * WIDTH, top + HEIGHT * (1 - up)

    if panel.logarithmic:
        ticks = [10.0**i for i in range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1)]
    else:
        step = next(s for s in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if max(ys) / s <= 6)
        ticks = [step * i for i in range(int(1.08 * max(ys) / step) + 1)]
    drawn = [text(left, top - 12, panel.title, "start"), text(left + WIDTH / 2, top + HEIGHT + 32, panel.across)]
    for tick in ticks:
        _, y = spot(max(xs), tick) if tick else (0, top + HEIGHT)
        drawn.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{PALE}"/>')
        drawn.append(text(left - 6, y + 4, f"{tick:g}", "end"))
    for x in sorted(set(xs)):
        drawn.append(text(spot(x, max(ys))[0], top + HEIGHT + 16, f"{x:g}"))
    for curve in panel.curves:
        places = [spot(*point) for point in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{curve.colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{curve.colour}"/>' for x, y in places]
        x, y = places[-1]
        drawn.append(text(x + 8, y + 4, curve.name, "start", curve.colour))
    return drawn


def main() -> None:
    """Draw all panels."""
    measured = json.loads((FOLDER / "scale.json").read_text())
    drawn: list[str] = []
    for i, panel in enumerate(panels(measured)):
        drawn += draw(panel, SIDE + (i % 2) * (WIDTH + GAP), 30 + (i // 2) * (HEIGHT + 76))
    width, height = SIDE + 2 * WIDTH + GAP + 80, 2 * (HEIGHT + 76)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
    page = f'{head}font-size="12"><rect width="100%" height="100%" fill="white"/>'
    (FOLDER / "scale.svg").write_text("\n".join([page, *drawn, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
