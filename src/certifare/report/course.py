"""Render the history of a certificate over several periods as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from certifare.certificates.claims import metric_of
from certifare.certificates.rounding import percent
from certifare.drawing.palette import SERIES
from certifare.drawing.svg import Plane, ticks
from certifare.foundation.formatting import undirected
from certifare.report.html import environment, style_sheet

if TYPE_CHECKING:
    from certifare.certification.monitoring import Finding, History

#: The most names of periods below the chart; the others are left out.
MOST_NAMES = 12


def render_course(history: History, findings: Sequence[Finding]) -> str:
    """Render the findings of a history as a page: a course, or one for each attribute or value of the given column."""
    courses = [[f for f in findings if f.course == name] for name in dict.fromkeys(f.course for f in findings)]
    page = (
        environment()
        .get_template("course.html")
        .render(
            history=history,
            metric=metric_of(history.metric).words,
            confidence=percent(history.confidence),
            outcome=history.latest().outcome if findings else None,
            courses=[
                {
                    "name": periods[0].course,
                    "groups": (groups := list(dict.fromkeys(group for period in periods for group in period.groups))),
                    "periods": periods,
                    "distance": _distance(periods, history.target),
                    "sizes": _group_sizes(periods, groups),
                }
                for periods in courses
            ],
            style=Markup(style_sheet()),  # noqa: S704  (a file of our own)
            series=SERIES,
        )
    )
    return undirected(page)


def _distance(periods: Sequence[Finding], target: float) -> Markup:
    """Draw the confidence interval of each period, and the target."""
    top = min(1.0, 1.12 * max(target, *(period.bound for period in periods)) or 0.02)
    plane = Plane((0.0, len(periods)), (0.0, top))
    plane.axes(_names(periods), ticks(0.0, top), grid=False)
    plane.line((0.0, target), (len(periods), target), class_="target")
    plane.text(0.0, target, f"target {target:.4g}", dx="4", dy="-.5em", class_="warm")
    for i, period in enumerate(periods):
        middle = i + 0.5
        plane.box((middle - 0.16, period.lower), (middle + 0.16, period.bound), class_="band")
        for place in (period.lower, period.bound):
            plane.line((middle - 0.22, place), (middle + 0.22, place), class_="limit")
        plane.dot(middle, period.estimate, 4, class_="warm-dot" if period.refuted else "accent")
    return plane.svg("16rem")


def _group_sizes(periods: Sequence[Finding], groups: Sequence[str]) -> Markup:
    """Draw the number of records of each group in each period."""
    top = 1.1 * max(1, *(n for period in periods for n in period.groups.values()))
    plane = Plane((0.0, len(periods)), (0.0, top))
    plane.axes(_names(periods), [(n, f"{n:,.0f}") for n, _ in ticks(0.0, top, 4)])
    for g, group in enumerate(groups[: len(SERIES)]):
        places = [(i + 0.5, float(period.groups.get(group, 0))) for i, period in enumerate(periods)]
        if len(places) > 1:
            plane.path(places, class_=f"course {SERIES[g]}")
        for x, y in places:
            plane.dot(x, y, 3, class_=f"predicted best {SERIES[g]}")
    return plane.svg("10rem")


def _names(periods: Sequence[Finding]) -> list[tuple[float, str]]:
    step = -(-len(periods) // MOST_NAMES)
    return [(i + 0.5, p.name[:12]) for i, p in enumerate(periods) if (len(periods) - 1 - i) % step == 0]
