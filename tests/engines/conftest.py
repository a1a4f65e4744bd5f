"""Clusters of two workers (Dask, Spark), an S3 server, and tables that are hard to read in pieces."""

import logging
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.fs
import pytest
from hypothesis import strategies as st


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client of a cluster of two worker processes with one thread each."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'certifare[dask]')")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def spark(s3_server: dict[str, str]) -> Iterator[Any]:
    """A Spark session with two executors, processes of their own, which can reach the S3 server."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, which Spark needs")
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.pyspark.python": sys.executable,
        **{f"spark.executorEnv.{name}": value for name, value in s3_server.items()},
    }
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").appName("certifare tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[dict[str, str]]:
    """The environment of a client of an S3 server in this process, with the bucket "people"."""
    server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[server]')")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "AKIAWITNESS", "AWS_SECRET_ACCESS_KEY": "do-not-show-me"}
    environment = {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        system, _ = pyarrow.fs.FileSystem.from_uri("s3://people?allow_bucket_creation=true")
        system.create_dir("people")
    yield environment
    running.stop()


@pytest.fixture
def bucket(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty folder on the S3 server, with what is needed to reach it in the environment."""
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    return f"s3://people/{secrets.token_hex(6)}"


def make_people(n: int, seed: int = 0) -> pd.DataFrame:
    """People with every kind of column: small and large numbers, text, categories, truth values; some missing."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], n)
    age = rng.integers(18, 80, n).astype(float)
    job = np.where(rng.random(n) < 0.3 + 0.3 * (sex == "male"), rng.choice(["driver", "smith"], n), "nurse").astype(
        object
    )
    job[rng.random(n) < 0.02] = "lighthouse keeper"
    wage = rng.lognormal(3, 1, n)
    score = 0.05 * (age - 45) + np.log(wage) - 3 + (job == "smith") + rng.normal(size=n)
    age[rng.random(n) < 0.1] = np.nan
    job[rng.random(n) < 0.1] = None
    wage[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "wage": wage,
            "miles": rng.integers(0, 3000, n),
            "job": pd.Series(job, dtype="str"),
            "town": pd.Categorical([f"town {i}" for i in np.minimum(rng.geometric(0.2, n), 12)]),
            "code": rng.choice([-7, 3, 10**7], n),
            "member": rng.random(n) < 0.5,
            "sex": sex,
            "race": rng.integers(1, 4, n),
            "paid": (score > 0).astype(int),
        }
    )


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Tables of any columns, with values that few records have or lack, and two or three labels and groups."""
    n = draw(st.integers(6, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns: dict[str, Any] = {}
    for i in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["count", "number", "code", "text", "category", "truth"]))
        most = draw(st.integers(1, 30))
        common = np.minimum(rng.geometric(draw(st.sampled_from([0.1, 0.5, 0.9])), n), most)
        values = {
            "count": common.astype(float),
            "number": np.round(rng.normal(size=n), draw(st.integers(0, 6))),
            "code": common * 1_000_003.0 - 2_000_006.0,
            "truth": common > most // 2,
        }.get(kind, np.array([f"value {rank}" for rank in common], dtype=object))
        lacks = rng.random(n) < (0.0 if kind == "truth" else draw(st.sampled_from([0.0, 0.0, 0.1, 0.7, 1.0])))
        if lacks.any():
            values[lacks] = None if values.dtype == object else np.nan
        if kind in ("text", "category"):
            values = pd.Series(values, dtype="str").astype("category" if kind == "category" else "str")
        columns[f"{kind} {i}"] = values
    for name, names in (("paid", [0, 1, 2]), ("sex", ["a", "b", "c"])):
        known = names[: draw(st.integers(2, 3))]
        columns[name] = [*known, *rng.choice(known, n - len(known)).tolist()]
    return pd.DataFrame(columns)


@pytest.fixture(scope="session")
def many_people() -> pd.DataFrame:
    """6,000 people."""
    return make_people(6000)


def assert_same_encoder(one: Any, other: Any) -> None:
    """Two encoders are equal in splits, counts, representatives, and all that they know of their columns."""
    assert one.n_cells_ == other.n_cells_
    for a, b in zip(one.growth_.splits, other.growth_.splits, strict=True):
        assert (a.node, a.column, a.threshold, a.gain) == (b.node, b.column, b.threshold, b.gain)
        assert (a.left_count, a.right_count) == (b.left_count, b.right_count)
        np.testing.assert_array_equal(a.goes_left, b.goes_left)
    np.testing.assert_array_equal(one.growth_.node_counts, other.growth_.node_counts)
    for a, b in zip(one.bins_, other.bins_, strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(*(getattr(bins, "edges", None) for bins in (a, b)))
        assert getattr(a, "categories", None) == getattr(b, "categories", None)
    for column, a, b in zip(one.columns_, *(e._node_representatives.values for e in (one, other)), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=column.name)
    for name in ("columns_", "groups_", "labels_", "group_column_"):
        assert getattr(one, name) == getattr(other, name)
    assert list(one.feature_names_in_) == list(other.feature_names_in_)
    assert str(one.describe()) == str(other.describe())
