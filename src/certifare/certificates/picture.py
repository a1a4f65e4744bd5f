"""Draw a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certifare.certificates.rounding import percent, round_down, round_up
from certifare.foundation.display import Drawing

if TYPE_CHECKING:
    from certifare.certificates.certificate import Certificate


def draw_interval(certificate: Certificate) -> Drawing:
    """Draw the interval from the lower limit to T*, which have the confidence each, with the estimate in it."""
    import altair as alt

    lower, estimate, bound = certificate.lower, certificate.estimate, certificate.bound
    row = {"what": "T*", "low": lower, "high": bound, "estimate": estimate}
    base = alt.Chart(alt.InlineData(values=[row])).encode(y=alt.Y("what:N", title=None, axis=None))
    title = f"{certificate.claim.distance.words}, {percent(certificate.confidence)} confidence each limit"
    across = alt.Scale(domain=[0.0, min(1.0, max(1.15 * bound, 0.02))])
    layers = [
        base.mark_bar(size=14, opacity=0.35).encode(x=alt.X("low:Q", title=title, scale=across), x2="high:Q"),
        base.mark_tick(size=28, thickness=2).encode(x="high:Q"),
        base.mark_tick(size=28, thickness=2).encode(x="low:Q"),
        base.mark_circle(size=60).encode(x="estimate:Q"),
    ]
    limits = f"T* = {round_up(bound)}, estimate {estimate:.4f}, lower limit {round_down(lower)}"
    return Drawing(alt.layer(*layers).properties(width=480, height=60, title=limits))
