"""SQL finds the same cells, row by row, in real databases."""

import contextlib
import copy
import sqlite3
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from certifare import FairTreeEncoder
from certifare.encoders.sql import DIALECTS, FORBIDDEN, identifier, number_literal, text_literal
from certifare.errors import EncoderError

ODD = ["it's", 'say "x"', "back\\slash", "new\nline", "semi;colon--", "/* no */", "%s", "é`ß", "", " "]


def table_of(n, seed):
    """Every type, missing and unseen values, and names that must be quoted."""
    rng = np.random.default_rng(seed)
    number = rng.integers(-3, 9, n).astype(float)
    number[rng.random(n) < 0.15] = np.nan
    return pd.DataFrame(
        {
            'a"ge': number,
            "select": rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n),
            "small": rng.normal(size=n).astype(np.float32),
            "It's a job": pd.Series(np.where(rng.random(n) < 0.1, None, rng.choice(ODD, n)), dtype=object),
            "code": rng.integers(100, 120, n),
            "flag": rng.random(n) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def encoder():
    X = table_of(4000, 0)
    noise = np.random.default_rng(9).random(4000)
    parts = [X['a"ge'].fillna(5) > 3, X["flag"], X["code"] % 3 == 0, X["It's a job"].isin(ODD[:4]), X["small"] > 0]
    score = sum(part.astype(int) for part in parts)
    tree = FairTreeEncoder(gamma=0.1, max_cells=60, min_cell_size=10, categorical_features=["It's a job", "code"])
    return tree.fit(X, score + noise > 3, sensitive_features=np.arange(4000) % 2)


def strange(n=3000):
    table = table_of(n, 1)
    table.loc[::9, "It's a job"] = "unheard of"
    table.loc[::7, "code"] = 7
    table.loc[::11, "select"] = np.nan
    return table


def test_duckdb_finds_the_same_cells(encoder):
    with duckdb.connect() as connection:
        connection.register("given", strange())
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        for k in (1, 2, 10, encoder.n_cells_):
            found = connection.sql(encoder.at(k).to_sql("duckdb", "people")).df()
            assert np.array_equal(found["cell"], encoder.at(k).apply(strange()))
            assert list(found.columns) == [*strange(1).columns, "cell"]
        for missing in ("NULL", "'NaN'::DOUBLE"):
            connection.execute(f"""UPDATE people SET "a""ge" = {missing}, "select" = {missing}, small = {missing}""")  # noqa: S608
            found = connection.sql(encoder.to_sql("duckdb", "people")).df()["cell"]
            nothing = strange().assign(**{'a"ge': np.nan, "select": np.nan, "small": np.nan})
            assert np.array_equal(found, encoder.apply(nothing))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.floats(allow_infinity=False),
            st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=2)),
        ),
        min_size=20,
        max_size=40,
    )
)
def test_duckdb_and_sqlite_agree_on_any_table(rows):
    people = pd.DataFrame(rows, columns=["n", "t"]).astype({"t": pd.ArrowDtype(__import__("pyarrow").string())})
    tree = FairTreeEncoder(gamma=0.0, max_cells=12, min_cell_size=1, allow_sensitive_feature=True)
    tree.fit(people, np.arange(len(people)) % 2, sensitive_features=np.arange(len(people)) // 2 % 2)
    with duckdb.connect() as connection:
        connection.register("people", people)
        assert np.array_equal(connection.sql(tree.to_sql("duckdb", "people")).df()["cell"], tree.apply(people))
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE people (n, t COLLATE NOCASE)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
        found = connection.execute(tree.to_sql("sqlite", "people")).fetchall()
        assert [row[-1] for row in found] == tree.apply(people).tolist()


@pytest.fixture(scope="module")
def database(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


TYPES = {
    'a"ge': "double precision",
    "select": "double precision",
    "small": "real",
    "It's a job": "text",
    "code": "integer",
    "flag": "boolean",
}


def fill(connection, people, name):
    columns = ", ".join(f"{psycopg.sql.Identifier(n).as_string(connection)} {t}" for n, t in TYPES.items())
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} (position integer, {columns})")
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as target:
        for position, row in enumerate(people.itertuples(index=False)):
            target.write_row([position, *(None if v is None or v is pd.NA else v for v in row)])


def test_postgres_finds_the_same_cells(encoder, database):
    people = strange()
    fill(database, people, "people")
    for k in (1, 2, 10, encoder.n_cells_):
        rows = database.execute(encoder.at(k).to_sql("postgres", "public.people") + " ORDER BY position").fetchall()
        assert [row[-1] for row in rows] == encoder.at(k).apply(people).tolist()
    expected = encoder.apply(people.assign(**{'a"ge': np.nan, "small": np.nan})).tolist()
    for missing in ("NULL", "'NaN'"):  # both are missing
        database.execute(f"""UPDATE people SET "a""ge" = {missing}, small = {missing}""")  # noqa: S608
        rows = database.execute(encoder.to_sql("postgresql", "people") + " ORDER BY position").fetchall()
        assert [row[-1] for row in rows] == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_can_be_read_back(encoder, dialect):
    """What sqlglot reads is what was meant: same columns, same categories, nothing broke out of its quotes."""
    if dialect == "bigquery":  # where no name may hold a quote
        renamed = copy.copy(encoder)
        renamed.columns_ = tuple(replace(column, name=column.name.replace('"', "")) for column in encoder.columns_)
        encoder = renamed
    query = sqlglot.parse_one(encoder.to_sql(dialect, "schema.people"), dialect=dialect)
    assert [table.sql() for table in query.find_all(sqlglot.exp.Table)] == ['"schema"."people"']
    assert {column.name for column in query.find_all(sqlglot.exp.Column)} <= {*TYPES, "age", "C", "BINARY"}
    texts = {literal.name for literal in query.find_all(sqlglot.exp.Literal) if literal.is_string}
    assert {text for text in texts if not text.replace("e", "").replace("-", "").replace(".", "").isdigit()} <= {
        *ODD,
        "NaN",
        "utf-8",
        "UTF-8",
    }
    assert len(list(query.find_all(sqlglot.exp.Case))) == encoder.n_cells_ - 1


HOSTILE = [
    "a`b",
    "a``b",
    "a\\`; DROP TABLE people; --",
    "a\\",
    "\\",
    'a"b',
    '"; SELECT 1; --',
    "a'b",
    "a]b[c",
    "new\nline\ttab\rreturn",
    "${x} {{y}} %s %(z)s :w ?",
    "é ∀ \U0001f600 \u202e",
    " leading and trailing ",
    "/* comment */ -- end",
    "select",
    "a.b",
]


@pytest.fixture(scope="module")
def hostile():
    """An encoder and records whose names, and categories, try to end their quotes."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({name: pd.Series(rng.choice([*HOSTILE, None], 3000), dtype=object) for name in HOSTILE})
    y = people.isin(HOSTILE[::2]).sum(axis=1) > len(HOSTILE) // 2
    tree = FairTreeEncoder(gamma=0, max_cells=60, min_cell_size=5, random_state=0)
    return tree.fit(people, y, sensitive_features=np.arange(3000) % 2), people


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_names_stay_in_their_quotes(hostile, dialect):
    tree, _ = hostile
    for name in HOSTILE:
        text = sqlglot.parse_one(text_literal(name, "").sql(dialect=dialect), dialect=dialect)
        assert (text.is_string, text.name) == (True, name)
        try:
            written = identifier(name, dialect).sql(dialect=dialect)
        except EncoderError:
            assert dialect == "bigquery"  # where no name may hold such characters
            assert set(name) & set(FORBIDDEN[dialect])
            continue
        (statement,) = sqlglot.parse(f"SELECT 1 AS {written} FROM {written}", dialect=dialect)  # noqa: S608
        assert statement.expressions[0].alias == name
        assert [table.name for table in statement.find_all(sqlglot.exp.Table)] == [name]
    if dialect == "bigquery":
        with pytest.raises(EncoderError, match="BigQuery|bigquery"):
            tree.to_sql(dialect)
        return
    few = tree.at(20)
    (statement,) = sqlglot.parse(few.to_sql(dialect, HOSTILE[:3], name=HOSTILE[3]), dialect=dialect)
    columns = {column.name for column in statement.find_all(sqlglot.exp.Column)} - {"C", "BINARY"}
    assert columns == {few.columns_[split.column].name for split in few.growth_.splits[:19]}
    texts = {literal.name for literal in statement.find_all(sqlglot.exp.Literal) if literal.is_string}
    assert texts - {"utf-8", "UTF-8"} <= set(HOSTILE)
    assert len(list(statement.find_all(sqlglot.exp.Select))) == 1


def test_hostile_names_give_the_same_cells_in_duckdb_and_sqlite(hostile):
    tree, people = hostile
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in HOSTILE)
    values = ", ".join("?" * len(HOSTILE))
    with duckdb.connect() as duck, contextlib.closing(sqlite3.connect(":memory:")) as lite:
        duck.register("few people", people)
        for name in HOSTILE:
            quoted = '"' + name.replace('"', '""') + '"'
            duck.execute(f'CREATE VIEW {quoted} AS SELECT * FROM "few people"')  # noqa: S608
            few = tree if name == HOSTILE[0] else tree.at(3)
            assert np.array_equal(duck.sql(few.to_sql("duckdb", [name])).df()["cell"], few.apply(people))
        lite.execute(f"CREATE TABLE {quoted} ({names})")
        lite.executemany(f"INSERT INTO {quoted} VALUES ({values})", people.itertuples(index=False, name=None))  # noqa: S608
        found = lite.execute(tree.to_sql("sqlite", [name])).fetchall()
        assert [row[-1] for row in found] == tree.apply(people).tolist()


def test_hostile_names_give_the_same_cells_in_postgresql(hostile, database):
    tree, people = hostile
    odd = "a`\"'\\\n"
    table, *columns = (psycopg.sql.Identifier(name).as_string(database) for name in [odd, *HOSTILE])
    database.execute(f"CREATE TABLE {table} (position integer, {', '.join(f'{name} text' for name in columns)})")
    with database.cursor().copy(f"COPY {table} FROM STDIN") as target:
        for position, row in enumerate(people.itertuples(index=False, name=None)):
            target.write_row([position, *(None if pd.isna(value) else value for value in row)])
    rows = database.execute(tree.to_sql("postgres", [odd]) + " ORDER BY position").fetchall()
    assert [row[-1] for row in rows] == tree.apply(people).tolist()


def test_names_that_no_database_reads_whole_are_refused():
    X, y, s = np.arange(40.0)[:, None], np.arange(40) % 2, np.arange(40) // 2 % 2
    for name, dialect, message in [("a\0b", "duckdb", "zero byte"), ("é" * 32, "postgres", "cuts the name")]:
        tree = FairTreeEncoder(gamma=0, min_cell_size=2, max_cells=3)
        tree.fit(pd.DataFrame(X, columns=[name]), y, sensitive_features=s)
        with pytest.raises(EncoderError, match=message):
            tree.to_sql(dialect)


def test_sqlite_finds_the_same_cells(encoder):
    people = strange()
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        people.to_sql("people", connection, index=False)
        for k in (1, 2, 10, encoder.n_cells_):
            found = connection.execute(encoder.at(k).to_sql("sqlite", "people")).fetchall()
            assert [row[-1] for row in found] == encoder.at(k).apply(people).tolist()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_exactly(number):
    """SQLite rounds decimals as it likes; what is written is read as the very same double all the same."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        assert connection.execute(f"SELECT {number_literal(number, 'sqlite').sql('sqlite')}").fetchone()[0] == number
    written = number_literal(number, "duckdb").sql("duckdb")
    assert duckdb.sql(f"SELECT CAST({written} AS DOUBLE)").fetchall() == [(number,)]


def test_an_expression_or_a_query_with_quoted_names(encoder):
    expression = encoder.at(2).to_sql("duckdb")
    assert expression.startswith("CASE WHEN ")
    assert expression.endswith("\nEND")
    assert encoder.at(1).to_sql("duckdb") == "0"
    query = encoder.at(2).to_sql("postgres", ["my.schema", 'pe"ople'], name="the cell")
    assert query.endswith('AS "the cell"\nFROM "my.schema"."pe""ople"')


def test_what_cannot_be_written():
    with pytest.raises(NotFittedError):
        FairTreeEncoder().to_sql()
    X, y, s = np.arange(40.0)[:, None], np.arange(40) % 2, np.arange(40) // 2 % 2
    tree = FairTreeEncoder(gamma=0, min_cell_size=2, max_cells=3).fit(X, y, sensitive_features=s)
    with pytest.raises(EncoderError, match=r"no SQL for the dialect 'oracle'; give one of duckdb"):
        tree.to_sql("oracle")
    table = pd.DataFrame({"t": ["a\0b", "c\0"] * 20})
    tree = FairTreeEncoder(gamma=0, min_cell_size=2).fit(table, np.arange(40) % 2, sensitive_features=s)
    with pytest.raises(EncoderError, match="zero byte"):
        tree.to_sql("duckdb")


def test_deep_trees_are_written_without_recursion():
    n = 3000
    X = np.arange(float(n))[:, None]
    tree = FairTreeEncoder(gamma=0, min_cell_size=1, max_cells=600, max_bins=5000)
    tree.fit(X, (np.arange(n) * 7919) % 5 // 3, sensitive_features=np.arange(n) % 2)
    with duckdb.connect() as connection:
        connection.execute("SET max_expression_depth TO 100000")
        connection.register("people", pd.DataFrame(X, columns=["x0"]))
        assert np.array_equal(connection.sql(tree.to_sql("duckdb", "people")).df()["cell"], tree.apply(X))
