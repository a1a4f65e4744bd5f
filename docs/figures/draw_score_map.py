"""Draw the score map of a boosted encoder: docs/figures/score-map.svg.

    python docs/figures/draw_score_map.py [--data PATH]

Needs ACSIncome 2018 (acs_income_2018.parquet); the map is of California.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certifare import BoostedEncoder
from certifare.drawing import Figure, Plane, draw_figures

FEATURES = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "RAC1P"]
CODES = ["COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"]


def main() -> None:
    """Fit, count, draw."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=here.parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    table = pq.read_table(arguments.data / "acs_income_2018.parquet").to_pandas()
    table = table[table["ST"] == 6]
    label, women = table["PINCP_GT50K"].rename("income"), (table["SEX"] == 2).rename("woman")
    encoder = BoostedEncoder(gamma=0.93, max_cells=8, grid=24, categorical_features=CODES, n_jobs=-1)
    training = encoder.prepare(table[FEATURES], label, sensitive_features=women)
    encoder.fit_from(training)
    cells = encoder.cell_map_
    squares = training.derived.codes.columns[0]
    sizes = np.bincount(squares, minlength=cells.size)
    figures = []
    for heading, chosen in (("Share that earns more than $50,000", label), ("Share of women", women)):
        counts = np.bincount(squares, weights=chosen, minlength=cells.size)
        figures.append(chart(heading, (counts / np.maximum(sizes, 1)).reshape(cells.shape), cells))
    drawn = draw_figures(f"Score map with {encoder.n_cells_} cells", figures, columns=2)
    drawn.save(here / "score-map.svg")
    print(encoder.describe())


def chart(heading: str, shares: NDArray[np.float64], cells: NDArray[np.int64]) -> Figure:
    """Draw squares by income (up) and sex (right), the darker the larger the share, and the borders of cells."""
    n, m = cells.shape
    plane = Plane((0.0, m), (0.0, n))
    for i, j in np.ndindex(n, m):
        plane.box((j, i), (j + 1, i + 1), class_="bar series-1", opacity=f"{shares[i, j]:.2f}")
    for i, j in np.ndindex(n, m):
        if j + 1 < m and cells[i, j] != cells[i, j + 1]:
            plane.line((j + 1, i), (j + 1, i + 1), class_="zero")
        if i + 1 < n and cells[i, j] != cells[i + 1, j]:
            plane.line((j, i + 1), (j + 1, i + 1), class_="zero")
    return Figure(plane, "→ more likely a woman", "↑ more likely a high income", heading, height=270, left=4)


if __name__ == "__main__":
    main()
