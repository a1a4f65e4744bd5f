"""Fixtures for all tests: dataframes of every kind, and the shared data where it is present."""

import os

# Tests run side by side, so each has one processor. OpenMP reads this when a library first loads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from tests.services import bucket, client, postgres, s3_server, spark, spark_settings  # noqa: F401  (fixtures)

#: Whether simulations and properties are tried at full size (`make test-slow`).
FULL = os.environ.get("CERTIFARE_FULL") == "1"

# The first example of a test may compile; how long it takes is no finding.
settings.register_profile("certifare", deadline=None, max_examples=300 if FULL else 30)
settings.load_profile("certifare")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of its own for each test, never that of whoever runs them."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("CERTIFARE_STATE", str(folder))
    return folder


@pytest.fixture(scope="module")
def few_trees() -> Iterator[None]:
    """Score models of a few small trees, which are quick to fit and short in a file."""
    settings = {"n_estimators": 6, "num_leaves": 8, "learning_rate": 0.3, "min_child_samples": 20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("certifare.encoders.scores.MODELS", ((0, (settings,)),))
        yield


@pytest.fixture(scope="module")
def few_draws() -> Iterator[None]:
    """Bounds of calibrated cells from a hundredth of the draws: they hold as well, and are a few percent larger."""
    from certifare.certificates import calibrated

    calibrated._sample.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrated, "DRAWS", 100_000)
        patch.setattr(calibrated, "_BUDGET", 0)
        yield
    calibrated._sample.cache_clear()


@pytest.fixture(params=["pandas", "polars"])
def dataframe(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A dataframe constructor: tests that ask for it run once with pandas and once with polars."""
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame}[request.param]


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def any_dataframe(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Like ``dataframe``, with pyarrow tables too."""
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[request.param]


def shared(name: str) -> pd.DataFrame:
    path = SHARED / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{name}.parquet is not in ../shared/data")
    return pq.read_table(path).to_pandas()


@pytest.fixture(scope="session")
def acs() -> pd.DataFrame:
    """ACSIncome, California 2018, 50,825 records; columns that are codes are marked categorical."""
    table = shared("acs_income_2018")
    table = table[table["ST"] == 6].drop(columns="ST").reset_index(drop=True)
    codes = ["COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"]
    return table.astype(dict.fromkeys(codes, "category"))


@pytest.fixture(scope="session")
def adult() -> pd.DataFrame:
    """UCI Adult, 48,842 records."""
    return shared("adult")


@pytest.fixture(scope="session")
def people() -> dict[str, Any]:
    """2,000 made-up people as columns: numbers, text, truth values and missing values; a label and a group.

    The label depends on age, job and hours; the job depends on the group.
    """
    rng = np.random.default_rng(0)
    n = 2000
    sex = rng.choice(["female", "male"], n)
    age = rng.integers(18, 80, n).astype(float)
    hours = np.round(rng.normal(38, 8, n), 1)
    job = np.where(
        rng.random(n) < 0.3 + 0.4 * (sex == "male"),
        rng.choice(["driver", "smith"], n),
        rng.choice(["nurse", "clerk"], n),
    ).astype(object)
    score = 0.05 * (age - 45) + 0.1 * (hours - 38) + (job == "smith") - (job == "clerk") + rng.normal(size=n)
    age[rng.random(n) < 0.05] = np.nan
    job[rng.random(n) < 0.05] = None
    return {
        "age": age,
        "hours": hours,
        "job": job.tolist(),
        "member": (rng.random(n) < 0.5).tolist(),
        "sex": sex.tolist(),
        "income": np.where(score > 0, "high", "low").tolist(),
    }


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser for all pages that are only looked at."""
    from tests.report.browser import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the Debian package chromium to test pages in a browser")
    running = Browser()
    yield running
    running.close()
