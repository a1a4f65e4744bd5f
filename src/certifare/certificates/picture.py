"""Draw a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certifare.certificates.rounding import percent, round_down, round_up
from certifare.drawing.figure import Figure, draw_figures
from certifare.drawing.svg import Plane, ticks
from certifare.foundation.display import Drawing

if TYPE_CHECKING:
    from certifare.certificates.certificate import Certificate


def draw_interval(certificate: Certificate) -> Drawing:
    """Draw the interval from the lower limit to T*, which have the confidence each, with the estimate in it."""
    lower, estimate, bound = certificate.lower, certificate.estimate, certificate.bound
    title = f"T* = {round_up(bound)}, estimate {estimate:.4f}, lower limit {round_down(lower)}"
    x = f"{certificate.claim.distance.words}, {percent(certificate.confidence)} confidence each limit"
    plane = interval_plane(lower, estimate, bound)
    described = f"The {x}: an interval on a scale from 0 to {plane.x[1]:.2g}, with the estimate as a dot."
    return draw_figures(title, [Figure(plane, f"→ {x}", height=110, left=16)], described)


def interval_plane(lower: float, estimate: float, bound: float, target: float | None = None) -> Plane:
    """Draw T* and the lower limit on a scale, the estimate as a dot between them, and a target as a line."""
    top = min(1.0, max(1.15 * bound, 1.1 * (target or 0.0), 0.02))
    plane = Plane((0.0, top), (0.0, 7.0))
    plane.axes(ticks(0.0, top))
    plane.box((lower, 2.7), (bound, 4.3), class_="band")
    for place in (lower, bound):
        plane.line((place, 2.2), (place, 4.8), class_="limit")
    plane.dot(estimate, 3.5, 5, class_="accent")
    plane.text(bound, 5.4, f"T* = {round_up(bound)}", class_=f"strong {plane.side(bound)}")
    plane.text(lower, 1.1, f"L = {round_down(lower)}", class_=plane.side(lower))
    if target:
        plane.line((target, 0.0), (target, 6.4), class_="target")
        plane.text(target, 6.7, f"target {target:.4g}", class_=f"warm {plane.side(target)}")
    return plane
