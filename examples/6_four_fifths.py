"""The four-fifths rule.

If the group selected most has the rate r, every other has at least r − T*. So the ratio of the rates is at least 1 −
T*/r, and above 0.8 from r = 5·T* on: the smaller T*, the more cautious a classifier may be.
"""

import math

from certifare import CellCounts, certify_counts
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


curves = []
for difference in (0.0, 0.03, 0.08):
    n = 20_000
    table = [[round(n * (0.5 + difference / 2)), round(n * (0.5 - difference / 2))]]
    table.append([n - table[0][0], n - table[0][1]])
    certificate = certify_counts(CellCounts(table, groups=["A", "B"]))
    name = f"T* = {up(certificate.bound):.4f}"
    rates = [i / 100 for i in range(2, 101, 2)]
    curves.append(Series(name, [(rate, certificate.impact_ratio(rate)) for rate in rates], "curve"))
    safe = next(rate for rate in rates if certificate.impact_ratio(rate) >= 0.8)
    print(f"{name}: the rule is met by whoever selects at least {safe:.0%} of one group")

chart = draw_panels(
    "Smallest ratio of selection rates",
    [
        Panel(
            curves,
            Scale("rate of the group selected most", percent=True),
            Scale("ratio, at least"),
            rules=[("y", 0.8, "four fifths")],
        )
    ],
)
