"""A rare label, and a column of very many categories: what training records seem to say is accidents."""

import numpy as np
import pandas as pd

from certifare import Grid, Table
from certifare.frontier.search import Search


def loans(n=12_000, seed=0):
    """Who cannot pay back, one in fifteen, as income and debt show; two visits each, and days tell nothing."""
    rng = np.random.default_rng(seed)
    income, debt = rng.normal(10.2, 0.5, n), rng.gamma(2, 3.0, n)
    risk = 1 / (1 + np.exp(3.6 + 0.9 * (income - 10.2) - 0.12 * debt))
    return pd.DataFrame(
        {
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "income": income,
            "debt": debt,
            "sex": np.repeat(rng.choice(["f", "m"], n // 2), 2),
            "person": np.repeat(np.arange(n // 2), 2),
            "default": (rng.random(n) < risk).astype(int),
        }
    ).assign(day=lambda table: table["day"].dt.strftime("%d.%m.%Y"))


def test_encoders_made_of_accidents_are_not_put_in_order():
    grid = Grid(kinds=["tree", "boosted"], gammas=[0.0, 0.5], min_cell_sizes=[10], cells=[2, 4, 8, 32])
    for seed in range(3):
        table = Table.from_frame(loans(seed=seed), label="default", sensitive="sex", cluster="person")
        search = Search(table, grid, seed=seed).run()
        # Trees that know the days by heart were tried: an order that took all encoders would hold them.
        assert min(candidate.explained for candidate in search.candidates) < -0.2
        chosen = [search.candidates[i] for i in search.chain()]
        assert chosen
        assert min(candidate.explained for candidate in chosen) > -0.1
