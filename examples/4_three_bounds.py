"""Three bounds on the same counts.

Exact, McDiarmid's closed form, and the paper's, which bounds every cell for itself. The groups are alike here, so a
perfect bound would be next to nothing. What the paper's bound pays for each cell, the exact one does not.
"""

import math

import numpy as np

from certifare import CellCounts, certify_counts
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


rng = np.random.default_rng(0)
points: dict[str, list[tuple[float, float]]] = {}
for cells in (2, 5, 10, 20, 50, 100):
    alike = np.full(cells, 1 / cells)
    halves = [np.stack([rng.multinomial(4_000, alike) for _ in range(2)], axis=1) for _ in range(2)]
    counts = CellCounts(halves[0] + halves[1], groups=["A", "B"])
    lemmas = certify_counts(
        CellCounts(halves[0], groups=["A", "B"]),
        method="lemmas",
        sum_counts=CellCounts(halves[1], groups=["A", "B"]),
    )
    bounds = {
        "exact": certify_counts(counts).bound,
        "McDiarmid": certify_counts(counts, method="mcdiarmid").bound,
        "the paper's": lemmas.bound,
    }
    print(f"{cells:>3} cells: " + ", ".join(f"{name} {up(bound):.4f}" for name, bound in bounds.items()))
    for name, bound in bounds.items():
        points.setdefault(name, []).append((cells, bound))

chart = draw_panels(
    "Two equal groups of 8,000 records",
    [
        Panel(
            [Series(name, places) for name, places in points.items()], Scale("cells", zero=True), Scale("T*", zero=True)
        )
    ],
)
