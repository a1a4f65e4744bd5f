"""A database says of equal records what is said of the same records in memory."""

import contextlib
import sqlite3
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from certifare.encoders.hashes import count_repeats
from certifare.encoders.sql import DIALECTS
from certifare.engines.sql.queries import agreement_query, ask_repeats, grouping_query, multiplicities_query
from certifare.engines.sql.warehouse import DuckDB, SQLite, Warehouse, connect
from certifare.errors import RepeatedRecordsError
from certifare.tables.frames import Frame

duckdb = pytest.importorskip("duckdb")
sqlglot = pytest.importorskip("sqlglot")


def people(n: int, values: int = 0) -> pd.DataFrame:
    """People with missing values and text that some collations take for one; precise ones, or of few values."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.normal(size=n) if not values else rng.integers(0, values, n).astype(float)})
    frame["town"] = rng.choice(["Ulm", "ULM", "ulm ", "é", None], n)
    frame["age"] = rng.integers(18, 60, n)
    frame["paid"] = rng.random(n) < 0.5
    frame.loc[::7, "income"] = np.nan
    return frame


def visits(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return frame.iloc[np.repeat(np.arange(len(frame)), 1 + rng.poisson(0.5, len(frame)))].reset_index(drop=True)


TABLES = {
    "copies": visits(people(3000)),
    "chance": people(3000, values=4),
    "copies and chance": visits(people(3000, values=1000)),
    "different": people(500),
    "one column": people(500, values=20)[["income"]],
}


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    with contextlib.ExitStack() as stack:
        if request.param == "duckdb":
            connection = stack.enter_context(duckdb.connect())
            for name, table in TABLES.items():
                connection.register(name, table)
            yield DuckDB(connection)
        elif request.param == "sqlite":
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
            for name, table in TABLES.items():
                table.to_sql(name, connection, index=False)
            yield SQLite(connection)
        else:
            sqlalchemy = pytest.importorskip("sqlalchemy")
            address = request.getfixturevalue("postgres")
            engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
            for name, table in TABLES.items():
                table.to_sql(name, engine, index=False)
            engine.dispose()
            yield stack.enter_context(connect(address))


@pytest.mark.parametrize("name", TABLES)
def test_the_same_as_in_memory(place: Warehouse, name: str) -> None:
    found = ask_repeats(place.query, place.dialect, [name], place.columns([name]))
    assert found == count_repeats(Frame(TABLES[name]).fields())
    if name == "copies":
        with pytest.raises(RepeatedRecordsError):
            found.check()
    else:
        assert found.excessive == ("copies" in name)


def test_columns_are_left_out_only_if_records_are_equal() -> None:
    with duckdb.connect() as connection:
        connection.register("people", TABLES["different"])
        asked: list[str] = []
        warehouse = DuckDB(connection)

        def ask(sql: str) -> list[tuple[object, ...]]:
            asked.append(sql)
            return warehouse.query(sql)

        ask_repeats(ask, "duckdb", "people", warehouse.columns(["people"]))
        assert len(asked) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_queries_are_of_the_dialect(dialect: str) -> None:
    columns = {"a": "INT", "b": "VARCHAR(20)"}
    for sql in (
        multiplicities_query(dialect, "people", columns),
        grouping_query(dialect, "people", columns, [0]),
        agreement_query(dialect, "people", columns, [0]),
    ):
        assert isinstance(sqlglot.parse_one(sql, dialect=dialect), sqlglot.exp.Select)
