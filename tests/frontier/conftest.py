import numpy as np
import pandas as pd
import pytest

from certifare.frontier import Grid
from certifare.tables.table import Table

SMALL = Grid(kinds=["tree"], gammas=[0.3, 0.8, 0.95], min_cell_sizes=[40], cells=[2, 4, 8, 16])


def people(n, seed):
    """Made-up people: the label depends on age, hours and job; job depends on sex."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    age = rng.normal(45, 12, n).round()
    hours = rng.normal(38, 8, n).round()
    job = np.where(rng.random(n) < 0.35 + 0.3 * (sex == "m"), rng.choice(["a", "b"], n), rng.choice(["c", "d"], n))
    score = 0.06 * (age - 45) + 0.08 * (hours - 38) + 0.8 * (job == "a") - 0.5 * (job == "c") + rng.normal(0, 0.7, n)
    return pd.DataFrame(
        {
            "age": age,
            "hours": hours,
            "job": job,
            "sex": sex,
            "paid": (score > 0).astype(int),
            "promoted": np.where(score + rng.normal(0, 1, n) > 0.5, "yes", "no"),
            "weight": rng.uniform(0.5, 2.0, n),
            "home": rng.integers(0, n // 2, n),
            "region": rng.choice(["n", "s", "w"], n),
        }
    )


def table(n=6000, seed=0, drop=("promoted", "weight", "home", "region"), **roles):
    return Table.from_frame(people(n, seed), **{"label": "paid", "sensitive": "sex", **roles}, drop=drop)


@pytest.fixture(autouse=True, scope="module")
def quick_bounds(few_draws):
    """What is delivered is tested here, and not how large its bound is."""


@pytest.fixture(scope="session")
def small():
    return table()


@pytest.fixture(scope="session")
def make_table():
    return table


@pytest.fixture(scope="session")
def make_people():
    return people


@pytest.fixture(scope="session")
def grid():
    return SMALL
