"""Charts of the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 560, 340


def fronts(points: Sequence[Mapping[str, Any]], x_title: str = "distance", facet: str | None = None) -> Any:
    """Accuracy over distance: one line per ``series``, thin and dashed where ``certified`` is false.

    Each point has ``series``, ``distance``, ``accuracy`` and ``certified``.
    """
    import altair as alt

    certified_first = sorted(points, key=lambda point: not point["certified"])

    chart = (
        alt.Chart(alt.Data(values=list(points)))
        .mark_line(point=alt.OverlayMarkDef(size=28))
        .encode(
            x=alt.X("distance:Q", title=x_title),
            y=alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False)),
            color=_colour(certified_first),
            strokeDash=alt.StrokeDash(
                "certified:N", legend=None, scale=alt.Scale(domain=[True, False], range=[[1, 0], [4, 3]])
            ),
            strokeWidth=alt.StrokeWidth(
                "certified:N", legend=None, scale=alt.Scale(domain=[True, False], range=[3.0, 1.2])
            ),
            order="distance:Q",
        )
        .properties(width=WIDTH if facet is None else 260, height=HEIGHT if facet is None else 220)
    )
    if facet is not None:
        chart = chart.facet(facet=alt.Facet(f"{facet}:N", title=None), columns=2)
    return chart


def lines(points: Sequence[Mapping[str, Any]], x: str, y: str, *, log: bool = False) -> Any:
    """Lines of ``y`` over ``x``, one per ``series``."""
    import altair as alt

    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    return (
        alt.Chart(alt.Data(values=list(points)))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", scale=scale),
            y=alt.Y(f"{y}:Q", scale=alt.Scale(zero=False)),
            color=_colour(points),
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def _colour(points: Sequence[Mapping[str, Any]]) -> Any:
    """Give each series a colour of its own, in the order in which they come."""
    import altair as alt

    names = list(dict.fromkeys(point["series"] for point in points))
    scale = alt.Scale(domain=names, scheme="tableau10" if len(names) <= 10 else "tableau20")
    return alt.Color("series:N", title=None, scale=scale)


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
