"""Charts of the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 560, 340


#: More series than these cannot be told apart in one panel.
MOST = 7
#: Colours that can be told apart, after Okabe and Ito, darkened to a contrast of 3 to 1 on a light page.
COLOURS = ("#0072b2", "#c04f00", "#00795a", "#a3508a", "#8a6d00", "#3f8fc0", "#5f5f5f")


def fronts(points: Sequence[Mapping[str, Any]], x_title: str = "distance", facet: str | None = None) -> Any:
    """Accuracy over distance: one line per ``series``, thin and dashed where ``certified`` is false.

    Each point has ``series``, ``distance``, ``accuracy`` and ``certified``.
    """
    import altair as alt

    ends = [[f([p[name] for p in points]) for f in (min, max)] for name in ("distance", "accuracy")]
    panels = []
    for title, own, series in _panels(points, facet):
        panels.append(
            alt.Chart(alt.Data(values=own), title=title)
            .mark_line(point=alt.OverlayMarkDef(size=28))
            .encode(
                x=alt.X("distance:Q", title=x_title, scale=alt.Scale(domain=ends[0])),
                y=alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False, domain=ends[1])),
                color=_colour(series),
                strokeDash=alt.StrokeDash(
                    "certified:N", legend=None, scale=alt.Scale(domain=[True, False], range=[[1, 0], [4, 3]])
                ),
                strokeWidth=alt.StrokeWidth(
                    "certified:N", legend=None, scale=alt.Scale(domain=[True, False], range=[3.0, 1.2])
                ),
                order="distance:Q",
            )
        )
    return _side_by_side(panels)


def lines(points: Sequence[Mapping[str, Any]], x: str, y: str, *, log: bool = False) -> Any:
    """Lines of ``y`` over ``x``, one per ``series``."""
    import altair as alt

    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    ends = [f(point[y] for point in points) for f in (min, max)]
    panels = []
    for title, own, series in _panels(points, None):
        panels.append(
            alt.Chart(alt.Data(values=own), title=title)
            .mark_line(point=True)
            .encode(
                x=alt.X(f"{x}:Q", scale=scale),
                y=alt.Y(f"{y}:Q", scale=alt.Scale(zero=False, domain=ends)),
                color=_colour(series),
            )
        )
    return _side_by_side(panels)


def _panels(
    points: Sequence[Mapping[str, Any]], facet: str | None
) -> list[tuple[str, list[Mapping[str, Any]], list[str]]]:
    """Deal the points into panels of at most seven series: title, points, series.

    Series that are certified are in each of them. A series has the same colour in the panels of all data.
    """
    series = dict.fromkeys(point["series"] for point in points)
    certified = {point["series"] for point in points if point.get("certified")}
    fixed = [name for name in series if name in certified and len(certified) < MOST]
    others = [name for name in series if name not in fixed]
    count = max(1, -(-len(others) // (MOST - len(fixed))))
    size = max(1, -(-len(others) // count))
    panels = []
    for name in dict.fromkeys("" if facet is None else str(point[facet]) for point in points):
        for i in range(count):
            shown = [*fixed, *others[i * size : (i + 1) * size]]
            own = [p for p in points if p["series"] in shown and (facet is None or str(p[facet]) == name)]
            panels.append((name if count == 1 else f"{name} ({i + 1} of {count})".strip(), own, shown))
    return panels


def _side_by_side(panels: Sequence[Any]) -> Any:
    """Put panels beside each other, each with a key of its own below it."""
    import altair as alt

    if len(panels) == 1:
        return panels[0].properties(width=WIDTH, height=HEIGHT)
    return alt.concat(*(panel.properties(width=300, height=220) for panel in panels), columns=2).resolve_scale(
        color="independent"
    )


def _colour(series: Sequence[str]) -> Any:
    """Give each series of a panel a colour of its own."""
    import altair as alt

    scale = alt.Scale(domain=list(series), range=list(COLOURS[: len(series)]))
    return alt.Color("series:N", title=None, legend=alt.Legend(orient="bottom", columns=3, labelLimit=220), scale=scale)


def dots(points: Sequence[Mapping[str, Any]], bound: float) -> Any:
    """Classifiers as dots over distance and accuracy, and the certified bound as a line."""
    import altair as alt

    dot = (
        alt.Chart(alt.Data(values=list(points)))
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X("distance:Q", title="distance on test records"),
            y=alt.Y("accuracy:Q", scale=alt.Scale(zero=False)),
            color=alt.Color("series:N", title=None),
            shape=alt.Shape("series:N", title=None),
        )
    )
    rule = alt.Chart(alt.Data(values=[{"bound": bound}])).mark_rule(strokeDash=[5, 3], size=2).encode(x="bound:Q")
    return (dot + rule).properties(width=WIDTH, height=HEIGHT)


def bars(points: Sequence[Mapping[str, Any]], x: str, y: str, *, log: bool = False) -> Any:
    """Bars of ``x``, one per ``y``."""
    import altair as alt

    return (
        alt.Chart(alt.Data(values=list(points)))
        .mark_bar()
        .encode(x=alt.X(f"{x}:Q", scale=alt.Scale(type="log" if log else "linear")), y=alt.Y(f"{y}:N", title=None))
        .properties(width=WIDTH)
    )


def dendrogram(levels: Sequence[Sequence[int]], names: Sequence[str]) -> Any:
    """Draw a tree from its path: for each number of cells, in which of them each of the finest cells lies."""
    import altair as alt

    places = {(0, len(names)): 0}
    lines = []
    for depth, level in enumerate(levels[1:], 1):
        starts = [i for i in range(len(level)) if not i or level[i] != level[i - 1]]
        for begin, end in zip(starts, [*starts[1:], len(level)], strict=True):
            if (begin, end) in places:
                continue
            parent = min((p for p in places if p[0] <= begin and end <= p[1]), key=lambda p: p[1] - p[0])
            places[begin, end] = depth
            centre, above = (begin + end - 1) / 2, sum(parent) / 2 - 0.5
            lines.append({"x": above, "x2": centre, "y": places[parent], "y2": depth})
    leaves = [{"x": i, "y": places.get((i, i + 1), 0) + 0.25, "name": name} for i, name in enumerate(names)]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-0.5, len(names) - 0.5]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(reverse=True, domain=[-0.3, len(levels)]))
    rule = alt.Chart(alt.Data(values=lines)).mark_rule(size=2).encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    text = alt.Chart(alt.Data(values=leaves)).mark_text(baseline="top").encode(x=x, y=y, text="name:N")
    return (rule + text).properties(width=WIDTH + 100, height=HEIGHT)
