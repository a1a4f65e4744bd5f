"""People, and a bundle made of them."""

import numpy as np
import pandas as pd
import pytest

from certifare.bundle import produce
from certifare.frontier import Grid

GRID = Grid(kinds=["tree"], gammas=[0.3, 0.8, 0.95], min_cell_sizes=[40], cells=[2, 4, 8, 16])


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    age = rng.normal(45, 12, n).round()
    job = np.where(rng.random(n) < 0.4 + 0.2 * (sex == "m"), rng.choice(["a", "b"], n), rng.choice(["c", "d"], n))
    score = 0.07 * (age - 45) + 0.8 * (job == "a") - 0.5 * (job == "c") + rng.normal(0, 0.7, n)
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "paid": np.where(score > 0, "yes", "no")})


@pytest.fixture(autouse=True, scope="module")
def quick_bounds(few_draws):
    """What is delivered is tested here, and not how large its bound is."""


@pytest.fixture(scope="module")
def bundle():
    return produce(people(8000, 0), label="paid", sensitive="sex", target=0.12, grid=GRID)
