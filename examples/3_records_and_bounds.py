"""How many records?

The same shares of cells, counted on more and more records: the estimate stays, T* comes down to it, and the lower
limit comes up.
"""

import math

import altair as alt

from certifare import CellCounts, certify_counts


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


points = []
for n in (250, 500, 1_000, 2_000, 5_000, 10_000, 50_000):
    table = [[round(n * a), round(n * b)] for a, b in ((0.40, 0.34), (0.36, 0.38), (0.24, 0.28))]
    certificate = certify_counts(CellCounts(table, groups=["A", "B"]))
    print(f"{n:>6,} of each group: [{certificate.lower:.4f}, {up(certificate.bound):.4f}]")
    points += [
        {"records": n, "value": value, "what": what}
        for what, value in (("T*", certificate.bound), ("estimate", certificate.estimate), ("L", certificate.lower))
    ]

chart = (
    alt.Chart(alt.Data(values=points), title="More records, tighter limits")
    .mark_line(point=True)
    .encode(
        x=alt.X("records:Q", scale=alt.Scale(type="log"), title="records of each group"),
        y=alt.Y("value:Q", title="distance"),
        color=alt.Color("what:N", title=None, sort=["T*", "estimate", "L"]),
    )
)
