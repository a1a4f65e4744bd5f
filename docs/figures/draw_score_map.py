"""Draw the score map of a boosted encoder: docs/figures/score-map.png.

    python docs/figures/draw_score_map.py [--data PATH]

Needs ACSIncome 2018 (acs_income_2018.parquet); the map is of California.
"""

import argparse
from pathlib import Path

import altair as alt
import numpy as np
import pyarrow.parquet as pq

from certifare import BoostedEncoder

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
    rates = {
        "earn more than $50,000": np.bincount(squares, weights=label, minlength=cells.size),
        "are women": np.bincount(squares, weights=women, minlength=cells.size),
    }
    income, sex = (place.ravel() for place in np.indices(cells.shape))
    axes = {
        "y": alt.Y("income:O", sort="descending", axis=None),
        "x": alt.X("sex:O", axis=None),
    }
    panels = []
    for title, counts in rates.items():
        rows = [
            {"income": int(i), "sex": int(s), "share": float(c / n)}
            for i, s, c, n in zip(income, sex, counts, sizes, strict=True)
            if n
        ]
        color = alt.Color("share:Q", scale=alt.Scale(scheme="viridis", domain=[0, 1]), title=None)
        panels.append(chart(rows, axes, color, f"Share that {title}"))
    rows = [{"income": int(i), "sex": int(s), "cell": int(cells[i, s])} for i, s in zip(income, sex, strict=True)]
    color = alt.Color("cell:N", scale=alt.Scale(scheme="tableau10"), title="cell")
    panels.append(chart(rows, axes, color, f"The {encoder.n_cells_} cells"))
    drawn = alt.hconcat(*panels).resolve_scale(color="independent").configure_view(stroke=None)
    drawn.save(here / "score-map.png", scale_factor=1)
    print(encoder.describe())


def chart(rows: list[dict[str, float]], axes: dict[str, object], color: object, title: str) -> alt.Chart:
    """One panel: squares, coloured."""
    return (
        alt.Chart(
            alt.Data(values=rows),
            title=alt.Title(title, subtitle="right: more likely a woman · up: more likely a high income"),
        )
        .mark_rect()
        .encode(**axes, color=color)
        .properties(width=260, height=260)
    )


if __name__ == "__main__":
    main()
