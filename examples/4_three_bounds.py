"""Three bounds on the same counts.

Exact, McDiarmid's closed form, and the paper's, which bounds every cell for itself. The groups are alike here, so a
perfect bound would be next to nothing. What the paper's bound pays for each cell, the exact one does not.
"""

import math

import altair as alt
import numpy as np

from certifare import CellCounts, certify_counts


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


rng = np.random.default_rng(0)
points = []
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
    points += [{"cells": cells, "bound": bound, "method": name} for name, bound in bounds.items()]

chart = (
    alt.Chart(alt.Data(values=points), title="Two equal groups of 8,000 records")
    .mark_line(point=True)
    .encode(x=alt.X("cells:Q"), y=alt.Y("bound:Q", title="T*"), color=alt.Color("method:N", sort=list(bounds)))
)
