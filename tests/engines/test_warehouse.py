"""Counts by SQL equal counts of the same records in memory."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from certifare import CellCounts, FairTreeEncoder, KMeansEncoder, certify_counts
from certifare.engines.counting import NOT_LOOKED_UP
from certifare.engines.warehouse import DuckDB, PostgreSQL, Spark, certify_sql, connect, count_sql, counts_query
from certifare.errors import (
    FileError,
    MissingColumnError,
    MissingValueError,
    NotPublishableError,
    WarehouseError,
)

from .conftest import make_people

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def encoder(many_people: pd.DataFrame) -> FairTreeEncoder:
    X = many_people.drop(columns=["paid", "sex", "race"])
    return FairTreeEncoder(max_cells=30, min_cell_size=20).fit(
        X, many_people["paid"], sensitive_features=many_people["sex"]
    )


@pytest.fixture(scope="module")
def fresh() -> pd.DataFrame:
    """Records with categories that the encoder has not seen, and without some groups and labels."""
    frame = make_people(2000, seed=5).astype({"town": "str", "paid": float, "race": float})
    frame.loc[::50, "town"] = 'another town; it\'s "new"'
    frame.loc[::61, "job"] = "astronaut"
    frame.loc[::97, "code"] = 4
    frame.loc[3:5, "sex"] = None
    frame.loc[7:8, "race"] = np.nan
    frame.loc[9, "paid"] = np.nan
    return frame


@pytest.fixture(scope="module")
def duck(fresh: pd.DataFrame) -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.register("fresh", fresh)
        connection.execute("CREATE SCHEMA store")
        connection.execute('CREATE TABLE store."people, all" AS SELECT * FROM fresh')
        yield DuckDB(connection)


@pytest.fixture(scope="module")
def post(fresh: pd.DataFrame, postgres: str) -> Iterator[Any]:
    psycopg = pytest.importorskip("psycopg")
    types = {"object": "text", "str": "text", "float64": "double precision", "int64": "bigint", "bool": "boolean"}
    columns = ", ".join(f'"{name}" {types[str(dtype)]}' for name, dtype in fresh.dtypes.items())
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA store")
        connection.execute(f'CREATE TABLE store."people, all" ({columns})')
        with connection.cursor().copy('COPY store."people, all" FROM STDIN') as copy:
            for row in fresh.itertuples(index=False):
                # NaN stays NaN in number columns: both NULL and NaN are missing.
                copy.write_row(
                    [None if isinstance(v, float) and np.isnan(v) and i % 2 else v for i, v in enumerate(row)]
                )
        yield PostgreSQL(connection)


@pytest.fixture(scope="module")
def spark(fresh: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, which Spark needs")
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    folder = tmp_path_factory.mktemp("spark")
    fresh.to_parquet(folder / "people.parquet", index=False)
    builder = sql.SparkSession.builder.master("local[1]").appName("certifare tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        session.sql("CREATE DATABASE store")
        session.read.parquet(str(folder / "people.parquet")).createOrReplaceTempView("fresh")
        session.sql("CREATE TABLE store.people USING parquet AS SELECT * FROM fresh")
        yield Spark(session)
    finally:
        session.stop()


PEOPLE = ("store", "people, all")


@pytest.fixture(params=["duck", "post", pytest.param("spark", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> tuple[Any, tuple[str, str]]:
    """A warehouse and the table in it; Spark allows no odd names."""
    return request.getfixturevalue(request.param), ("store", "people") if request.param == "spark" else PEOPLE


def test_counts_equal_those_in_memory(encoder: FairTreeEncoder, fresh: pd.DataFrame, place: Any) -> None:
    cells = encoder.apply(fresh)
    warehouse, table = place
    for missing in ("drop", "unknown"):
        found = count_sql(encoder, warehouse, table, sensitive="sex", missing=missing)
        assert found == CellCounts.from_cells(cells, fresh["sex"], None, encoder.n_cells_, missing=missing)
    found = count_sql(encoder, warehouse, table, sensitive=["sex", "race"], label="paid", missing="drop")
    wanted = CellCounts.from_cells(cells, fresh[["sex", "race"]], fresh["paid"], encoder.n_cells_, missing="drop")
    assert found == wanted
    assert found.exclusions
    found = count_sql(encoder, warehouse, table, sensitive="member", label="sex", missing="drop")
    assert found == CellCounts.from_cells(cells, fresh["member"], fresh["sex"], encoder.n_cells_, missing="drop")
    with pytest.raises(MissingValueError, match="3 of 2,000"):
        count_sql(encoder, warehouse, table, sensitive="sex")


def test_roles_by_comparison(encoder: FairTreeEncoder, fresh: pd.DataFrame, place: Any) -> None:
    warehouse, table = place
    age = fresh["age"].map(lambda a: None if np.isnan(a) else "age >= 40.5" if a >= 40.5 else "age < 40.5")
    nurse = fresh["job"].map(lambda j: j if pd.isna(j) else "job == nurse" if j == "nurse" else "job != nurse")
    wanted = CellCounts.from_cells(encoder.apply(fresh), age, nurse, encoder.n_cells_, missing="drop")
    found = count_sql(encoder, warehouse, table, sensitive="age>=40.5", label="job == nurse", missing="drop")
    assert found == wanted


def test_certify(encoder: FairTreeEncoder, fresh: pd.DataFrame, duck: DuckDB) -> None:
    certificate = certify_sql(encoder, duck, PEOPLE, sensitive="sex", label="paid", missing="drop", confidence=0.9)
    counts = CellCounts.from_cells(encoder.apply(fresh), fresh["sex"], None, encoder.n_cells_, missing="drop")
    assert certificate.bound == certify_counts(counts, confidence=0.9).bound
    assert certificate.counts == counts
    assert certificate.assumptions[-1] == NOT_LOOKED_UP
    odds = certify_sql(encoder, duck, PEOPLE, sensitive="sex", label="paid", missing="drop", metric="equalized_odds")
    assert odds.counts.labels == ("0", "1")


def test_connect_to_a_file(encoder: FairTreeEncoder, fresh: pd.DataFrame, tmp_path: Path, monkeypatch: Any) -> None:
    with duckdb.connect(str(tmp_path / "people.db")) as connection:
        connection.register("fresh", fresh)
        connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
    monkeypatch.chdir(tmp_path)
    for address in ("duckdb:///people.db", f"duckdb:///{tmp_path}/people.db"):
        with connect(address) as warehouse:
            assert count_sql(encoder, warehouse, "people", sensitive="race", missing="drop").n_records == 1998
            with pytest.raises(WarehouseError, match="read-only"):
                warehouse.query("DROP TABLE people")


def test_connect_to_a_server(encoder: FairTreeEncoder, post: Any, postgres: str) -> None:
    with connect(postgres) as warehouse:
        assert count_sql(encoder, warehouse, PEOPLE, sensitive="member", missing="drop").n_records == 2000
        with pytest.raises(WarehouseError, match="read-only"):
            warehouse.query('DELETE FROM store."people, all"')


def test_bad_addresses_and_tables(encoder: FairTreeEncoder, duck: DuckDB, tmp_path: Path) -> None:
    for address, error, message in [
        ("duckdb:///nowhere.db", FileError, "nowhere.db"),
        ("mysql://me:secret@host/db", WarehouseError, r"mysql://me:…@host"),
        ("mysql://host/db?user=me&password=secret", WarehouseError, r"password=…'"),
        ("people.db", WarehouseError, "no address"),
        (f"postgresql://me:secret@/db?host={tmp_path}&connect_timeout=2", WarehouseError, "cannot be reached"),
    ]:
        with pytest.raises(error, match=message) as caught, connect(address):
            pass
        assert "secret" not in str(caught.value)
    (tmp_path / "text.db").write_text("this is no database, however long it may be")
    with pytest.raises(WarehouseError, match="cannot be reached"), connect(f"duckdb:///{tmp_path}/text.db"):
        pass
    with pytest.raises(WarehouseError, match="nobody"):
        count_sql(encoder, duck, "nobody", sensitive="sex")
    with pytest.raises(MissingColumnError, match="sexx"):
        count_sql(encoder, duck, PEOPLE, sensitive="sexx")
    duck.query("CREATE TABLE small AS SELECT 1 AS x, 'f' AS sex")
    with pytest.raises(MissingColumnError, match="'age'"):
        count_sql(encoder, duck, "small", sensitive="sex")


def test_query_for_other_databases(encoder: FairTreeEncoder, many_people: pd.DataFrame) -> None:
    for dialect in ("bigquery", "snowflake"):
        text = counts_query(encoder, dialect, "store.people", sensitive=["sex", "age>=60"], label="paid")
        assert text.startswith("SELECT ")
        assert "age >= 60" in text
    kmeans = KMeansEncoder(2).fit(many_people[["age"]].fillna(0))
    with pytest.raises(NotPublishableError, match="certifare count"):
        counts_query(kmeans, "duckdb", "people", sensitive="sex")
