"""How many records?

The same shares of cells, counted on more and more records: the estimate stays, T* comes down to it, and the lower
limit comes up.
"""

import math

from certifare import CellCounts, certify_counts
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


points: dict[str, list[tuple[float, float]]] = {"T*": [], "estimate": [], "L": []}
for n in (250, 500, 1_000, 2_000, 5_000, 10_000, 50_000):
    table = [[round(n * a), round(n * b)] for a, b in ((0.40, 0.34), (0.36, 0.38), (0.24, 0.28))]
    certificate = certify_counts(CellCounts(table, groups=["A", "B"]))
    print(f"{n:>6,} of each group: [{certificate.lower:.4f}, {up(certificate.bound):.4f}]")
    for what, value in zip(points, (certificate.bound, certificate.estimate, certificate.lower), strict=True):
        points[what].append((n, value))

chart = draw_panels(
    "More records, tighter limits",
    [
        Panel(
            [Series(what, places) for what, places in points.items()],
            Scale("records of each group", log=True),
            Scale("distance", zero=True),
        )
    ],
)
