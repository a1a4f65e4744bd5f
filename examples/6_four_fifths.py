"""The four-fifths rule.

If the group selected most has the rate r, every other has at least r − T*. So the ratio of the rates is at least 1 −
T*/r, and above 0.8 from r = 5·T* on: the smaller T*, the more cautious a classifier may be.
"""

import math

import altair as alt

from certifare import CellCounts, certify_counts


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


points = []
for difference in (0.0, 0.03, 0.08):
    n = 20_000
    table = [[round(n * (0.5 + difference / 2)), round(n * (0.5 - difference / 2))]]
    table.append([n - table[0][0], n - table[0][1]])
    certificate = certify_counts(CellCounts(table, groups=["A", "B"]))
    name = f"T* = {up(certificate.bound):.4f}"
    rates = [i / 100 for i in range(2, 101, 2)]
    points += [{"rate": rate, "ratio": certificate.impact_ratio(rate), "certificate": name} for rate in rates]
    safe = next(rate for rate in rates if certificate.impact_ratio(rate) >= 0.8)
    print(f"{name}: the rule is met by whoever selects at least {safe:.0%} of one group")

lines = (
    alt.Chart(alt.Data(values=points), title="Smallest ratio of selection rates")
    .mark_line()
    .encode(
        x=alt.X("rate:Q", axis=alt.Axis(format="%"), title="rate of the group selected most"),
        y=alt.Y("ratio:Q", title="ratio, at least"),
        color="certificate:N",
    )
)
rule = alt.Chart(alt.Data(values=[{"ratio": 0.8}])).mark_rule(strokeDash=[4, 3]).encode(y="ratio:Q")
chart = lines + rule
