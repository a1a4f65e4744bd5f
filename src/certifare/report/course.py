"""Render the history of a certificate over several periods as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from certifare.certificates.claims import metric_of
from certifare.certificates.rounding import percent, round_down, round_up
from certifare.drawing.palette import SERIES
from certifare.drawing.svg import Plane, ticks
from certifare.foundation.formatting import undirected
from certifare.report.html import environment, style_sheet

if TYPE_CHECKING:
    from certifare.certification.monitoring import Finding, History

#: The most names of periods below the chart; the others are left out.
MOST_NAMES = 12


def course_data(history: History, findings: Sequence[Finding]) -> dict[str, Any]:
    """Collect the content of the page as plain data: a course, or one for each attribute or value of the column."""
    names = dict.fromkeys(finding.course for finding in findings)
    return {
        "metric": metric_of(history.metric).words,
        "target": history.target,
        "confidence": percent(history.confidence),
        "planned": history.planned,
        "min_group_size": history.min_group_size,
        "n_periods": len(history.periods),
        "outcome": history.latest().outcome if findings else None,
        "courses": [
            {
                "name": name,
                "groups": list(dict.fromkeys(group for f in findings if f.course == name for group in f.groups)),
                "periods": [_period_data(finding) for finding in findings if finding.course == name],
            }
            for name in names
        ],
    }


def _period_data(finding: Finding) -> dict[str, Any]:
    return {
        "number": finding.number,
        "name": finding.name,
        "groups": finding.groups,
        "small": list(finding.small),
        "bound": finding.bound,
        "bound_text": round_up(finding.bound),
        "estimate": finding.estimate,
        "by_chance": finding.by_chance,
        "words": finding.words,
        "lower": finding.lower,
        "lower_text": round_down(finding.lower),
        "outcome": finding.outcome,
        "movements": [
            {
                "group": movement.group,
                "label": movement.label,
                "estimate": movement.estimate,
                "lower": movement.lower,
                "text": round_down(movement.lower),
                "moved": movement.moved,
            }
            for movement in finding.movements
        ],
        "exclusions": [{"reason": e.reason, "records": e.records} for e in finding.exclusions],
    }


def render_course(data: Mapping[str, Any]) -> str:
    """Render the page; all text from data is escaped."""
    style = Markup(style_sheet())  # noqa: S704  (a file of our own)
    target = data["target"]
    drawn = [{"distance": _distance(course, target), "sizes": _group_sizes(course)} for course in data["courses"]]
    page = environment().get_template("course.html").render(data=data, style=style, charts=drawn, series=SERIES)
    return undirected(page)


def _distance(course: Mapping[str, Any], target: float) -> Markup:
    """Draw the confidence interval of each period, and the target."""
    periods = course["periods"]
    top = min(1.0, 1.12 * max(target, *(period["bound"] for period in periods)) or 0.02)
    plane = Plane((0.0, len(periods)), (0.0, top))
    plane.axes(_names(periods), ticks(0.0, top), grid=False)
    plane.line((0.0, target), (len(periods), target), class_="target")
    plane.text(0.0, target, f"target {target:.4g}", dx="4", dy="-.5em", class_="warm")
    for i, period in enumerate(periods):
        middle = i + 0.5
        plane.box((middle - 0.16, period["lower"]), (middle + 0.16, period["bound"]), class_="band")
        for place in (period["lower"], period["bound"]):
            plane.line((middle - 0.22, place), (middle + 0.22, place), class_="limit")
        plane.dot(middle, period["estimate"], 4, class_="warm-dot" if period["outcome"] == "REFUTED" else "accent")
    return plane.svg("16rem")


def _group_sizes(course: Mapping[str, Any]) -> Markup:
    """Draw the number of records of each group in each period."""
    periods = course["periods"]
    top = 1.1 * max(1, *(n for period in periods for n in period["groups"].values()))
    plane = Plane((0.0, len(periods)), (0.0, top))
    plane.axes(_names(periods), [(n, f"{n:,.0f}") for n, _ in ticks(0.0, top, 4)])
    for g, group in enumerate(course["groups"][: len(SERIES)]):
        places = [(i + 0.5, float(period["groups"].get(group, 0))) for i, period in enumerate(periods)]
        if len(places) > 1:
            plane.path(places, class_=f"course {SERIES[g]}")
        for x, y in places:
            plane.dot(x, y, 3, class_=f"predicted best {SERIES[g]}")
    return plane.svg("10rem")


def _names(periods: Sequence[Mapping[str, Any]]) -> list[tuple[float, str]]:
    step = -(-len(periods) // MOST_NAMES)
    return [(i + 0.5, p["name"][:12]) for i, p in enumerate(periods) if (len(periods) - 1 - i) % step == 0]
