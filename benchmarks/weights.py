"""What a cap on the weights is worth: the same encoders on the same records, thinned to whole and to capped weights.

Adult's survey weights (``fnlwgt``) reach seven times their mean. Run as ``python benchmarks/weights.py DATA``, where
DATA is a folder with ``adult.parquet``; takes two minutes. The figures are means over seeds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Made-up repetitions are nobody's looks.
os.environ["CERTIFARE_STATE"] = "off"

import numpy as np
import pandas as pd

from certifare import Grid, Table, certify
from certifare.certificates import Claim
from certifare.frontier.search import Search

GRID = Grid(kinds=["tree"], gammas=[0.9, 0.99], min_cell_sizes=[100], cells=[2, 4, 8, 16, 32, 64])
SEEDS = 5


def adult(folder: Path) -> pd.DataFrame:
    """Read the table, texts as texts."""
    table = pd.read_parquet(folder / "adult.parquet").drop(columns="split")
    return table.astype({name: str for name, kind in table.dtypes.items() if str(kind) == "category"})


def rows(people: pd.DataFrame, sensitive: str, metric: str) -> pd.DataFrame:
    """Certify each encoder of a search with and without the cap that the search chose."""
    found = []
    for seed in range(SEEDS):
        table = Table.from_frame(people, label="income", sensitive=sensitive, weight="fnlwgt")
        search = Search(table, GRID, Claim(metric=metric, min_group_size=1), seed=seed, n_jobs=1).run()
        part = people.iloc[search.rows["certify"]]
        for number, candidate in enumerate(search.candidates):
            if candidate.cells not in GRID.cells:
                continue
            encoder = search.encoder(number)
            for name, cap in (("whole", None), ("capped", None if search.cap is None else search.cap.cap)):
                certificate = certify(
                    encoder,
                    part[[column.name for column in encoder.columns_]],
                    part["income"],
                    sensitive_features=part[sensitive],
                    metric=metric,
                    weights=part["fnlwgt"].to_numpy(),
                    cap=cap,
                    seed=seed,
                    min_group_size=1,
                )
                found.append(
                    {
                        "cells": candidate.cells,
                        "weights": name,
                        "gamma": candidate.setting.gamma,
                        "bound": certificate.bound,
                        "lower": certificate.lower,
                        "kept": certificate.counts.n_records / len(part),
                        "cap": np.nan if certificate.tail is None else certificate.tail.cap / part["fnlwgt"].mean(),
                    }
                )
    return pd.DataFrame(found)


if __name__ == "__main__":
    people = adult(Path(sys.argv[1]))
    for sensitive, metric in (("sex", "demographic_parity"), ("race", "demographic_parity"), ("sex", "equalized_odds")):
        figures = rows(people, sensitive, metric)
        print(f"\n{sensitive}, {metric}")
        print(
            figures.groupby(["gamma", "cells", "weights"])[["bound", "lower", "kept", "cap"]].mean().unstack().round(4)
        )
