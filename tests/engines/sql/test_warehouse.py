"""Counts by SQL equal counts of the same records in memory; what a database would count otherwise is refused."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import typer
from tests.engines.conftest import make_people

from certifare import BoostedEncoder, CellCounts, FairTreeEncoder, certify_counts
from certifare.certificates.assumptions import NOT_LOOKED_UP
from certifare.certificates.counts import GROUP_MISSING, LABEL_MISSING, Exclusion
from certifare.certification.certifying import certify_records, count_records
from certifare.cli import app
from certifare.encoders import sql as writing
from certifare.engines.counting import CountRequest
from certifare.engines.sql.queries import counts_query
from certifare.engines.sql.warehouse import (
    Database,
    DatabaseRecords,
    DuckDB,
    Spark,
    SQLite,
    Warehouse,
    connect,
    describe_address,
)
from certifare.errors import (
    ArgumentError,
    CountsError,
    DatabaseError,
    EncoderError,
    FileError,
    GroupError,
    MissingColumnError,
    RoleError,
    TableError,
)
from certifare.foundation.levels import UNKNOWN
from certifare.tables.reading import Reading

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


def count(
    encoder: FairTreeEncoder,
    warehouse: Warehouse,
    table: Any,
    sensitive: str | tuple[str, ...],
    label: str | None = None,
    **how: Any,
) -> CellCounts:
    """Let a database count its records, by these columns."""
    reading = Reading(sensitive=(sensitive,) if isinstance(sensitive, str) else sensitive, label=label, **how)
    request = CountRequest(labelled=label is not None)
    return count_records(encoder, DatabaseRecords(warehouse, table), reading, request).counts


def copy(address: str, name: str, columns: dict[str, str], rows: Any) -> None:
    """Fill a new table of a PostgreSQL server."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(address, autocommit=True) as connection:
        quoted = [f"{psycopg.sql.Identifier(column).as_string()} {type_}" for column, type_ in columns.items()]
        connection.execute(f"CREATE TABLE {name} ({', '.join(quoted)})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as target:
            for row in rows:
                target.write_row(row)


def fill(connection: sqlite3.Connection, name: str, columns: dict[str, str], rows: Any) -> None:
    """Fill a new table of SQLite."""
    quoted = ['"' + column.replace('"', '""') + f'" {type_}' for column, type_ in columns.items()]
    connection.execute(f"CREATE TABLE {name} ({', '.join(quoted)})")
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608


def plain(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Rows of Python values; None for text that is missing."""
    return [
        tuple(None if isinstance(v, float) and np.isnan(v) and isinstance(frame[c].iloc[0], str) else v for c, v in row)
        for row in (
            [*zip(frame.columns, values, strict=True)] for values in frame.astype(object).itertuples(index=False)
        )
    ]


@pytest.fixture(scope="module")
def duck(fresh: pd.DataFrame) -> Iterator[Warehouse]:
    with duckdb.connect() as connection:
        connection.register("fresh", fresh)
        connection.execute("CREATE SCHEMA store")
        connection.execute('CREATE TABLE store."people, all" AS SELECT * FROM fresh')
        yield DuckDB(connection)


@pytest.fixture(scope="module")
def lite(fresh: pd.DataFrame) -> Iterator[Warehouse]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("ATTACH ':memory:' AS store")
        fill(connection, 'store."people, all"', dict.fromkeys(fresh.columns, ""), plain(fresh))
        yield SQLite(connection)


@pytest.fixture(scope="module")
def post(fresh: pd.DataFrame, postgres: str) -> Iterator[Warehouse]:
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("sqlalchemy")
    types = {"object": "text", "str": "text", "float64": "double precision", "int64": "bigint", "bool": "boolean"}
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA store")
    # NaN stays NaN in every second column: both NULL and NaN are missing.
    rows = (
        [None if isinstance(v, float) and np.isnan(v) and i % 2 else v for i, v in enumerate(row)]
        for row in plain(fresh)
    )
    copy(postgres, 'store."people, all"', {name: types[str(dtype)] for name, dtype in fresh.dtypes.items()}, rows)
    with connect(postgres) as warehouse:
        yield warehouse


@pytest.fixture
def warehouse_of_spark(spark: Any, fresh: pd.DataFrame, tmp_path: Path) -> Any:
    fresh.to_parquet(tmp_path / "people.parquet", index=False)
    spark.read.parquet(str(tmp_path / "people.parquet")).createOrReplaceTempView("fresh")
    spark.sql("DROP DATABASE IF EXISTS store CASCADE")
    spark.sql(f"CREATE DATABASE store LOCATION '{tmp_path}/store'")
    spark.sql("CREATE TABLE store.people USING parquet AS SELECT * FROM fresh")
    return Spark(spark)


PEOPLE = ("store", "people, all")


@pytest.fixture(params=["duck", "lite", "post", pytest.param("warehouse_of_spark", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> tuple[Any, tuple[str, str]]:
    """A warehouse and the table in it; Spark allows no odd names."""
    found = request.getfixturevalue(request.param)
    return found, ("store", "people") if found.dialect == "spark" else PEOPLE


def test_counts_equal_those_in_memory(encoder: FairTreeEncoder, fresh: pd.DataFrame, place: Any) -> None:
    cells = encoder.apply(fresh)
    warehouse, table = place
    for missing in ("drop", "unknown"):
        found = count(encoder, warehouse, table, "sex", unknown_groups=missing == "unknown")
        assert found == CellCounts.from_cells(cells, fresh["sex"], None, encoder.n_cells_, missing=missing)
        assert found.exclusions == ((Exclusion(GROUP_MISSING, 3),) if missing == "drop" else ())
    found = count(encoder, warehouse, table, ("sex", "race"), "paid")
    wanted = CellCounts.from_cells(cells, fresh[["sex", "race"]], fresh["paid"], encoder.n_cells_, missing="drop")
    assert found == wanted
    assert found.exclusions == (Exclusion(GROUP_MISSING, 5), Exclusion(LABEL_MISSING, 1))
    found = count(encoder, warehouse, table, "member", "sex")
    member = fresh["member"].astype(int) if warehouse.dialect == "sqlite" else fresh["member"]
    assert found == CellCounts.from_cells(cells, member, fresh["sex"], encoder.n_cells_, missing="drop")
    # Who lacks one of several values is of one group, and a label that is missing is missing all the same.
    found = count(encoder, warehouse, table, ("sex", "race"), "paid", unknown_groups=True)
    rows = fresh["paid"].notna()
    assert found.groups == (*wanted.groups, UNKNOWN)
    assert found.exclusions == (Exclusion(LABEL_MISSING, 1),)
    labels = fresh["paid"][rows]
    groups = fresh[["sex", "race"]][rows]
    complete = CellCounts.from_cells(cells[rows], groups, labels, encoder.n_cells_, missing="unknown")
    np.testing.assert_array_equal(found.table, complete.table)


def test_roles_by_comparison(encoder: FairTreeEncoder, fresh: pd.DataFrame, place: Any) -> None:
    warehouse, table = place
    age = fresh["age"].map(lambda a: None if np.isnan(a) else "age >= 40.5" if a >= 40.5 else "age < 40.5")
    nurse = fresh["job"].map(lambda j: j if pd.isna(j) else "job == nurse" if j == "nurse" else "job != nurse")
    wanted = CellCounts.from_cells(encoder.apply(fresh), age, nurse, encoder.n_cells_, missing="drop")
    found = count(encoder, warehouse, table, "age>=40.5", "job == nurse")
    assert found == wanted
    member = fresh["member"].map({True: "member == 1", False: "member != 1"})
    text = "member == 1"
    if warehouse.dialect != "sqlite":
        member, text = member.str.replace("1", "true"), "member == true"
    found = count(encoder, warehouse, table, text)
    assert found == CellCounts.from_cells(encoder.apply(fresh), member, None, encoder.n_cells_)
    for text in ("sex>=3", "age==old", "age==nan", "age==1_0", "age==1e999"):
        with pytest.raises(RoleError):
            count(encoder, warehouse, table, text)


def test_certificates_are_those_of_memory(encoder: FairTreeEncoder, fresh: pd.DataFrame, duck: DuckDB) -> None:
    people, reading = DatabaseRecords(duck, PEOPLE), Reading(sensitive=("sex",), label="paid")
    certificate = certify_records(encoder, people, reading, confidence=0.9)
    counts = CellCounts.from_cells(encoder.apply(fresh), fresh["sex"], None, encoder.n_cells_, missing="drop")
    assert certificate.bound == certify_counts(counts, confidence=0.9).bound
    assert certificate.counts == counts
    assert certificate.assumptions[-1] == NOT_LOOKED_UP
    assert certificate.seed is None
    odds = certify_records(encoder, people, reading, metric="equalized_odds")
    assert odds.counts.labels == ("0", "1")
    with pytest.raises(RoleError, match="needs a cluster column"):
        Reading(sensitive=("sex",), population="records")


def test_what_a_database_cannot_count_is_refused_with_the_remedy(encoder: FairTreeEncoder, duck: DuckDB) -> None:
    people = DatabaseRecords(duck, PEOPLE)
    for how, name in (({"weight": "wage"}, "wage"), ({"cluster": "code"}, "code")):
        with pytest.raises(CountsError, match=rf"'{name}'.*in a database. Export an extract.*certifare count"):
            certify_records(encoder, people, Reading(sensitive=("sex",), **how))
    with pytest.raises(ArgumentError, match="--label"):
        certify_records(encoder, people, Reading(sensitive=("sex",)), metric="equalized_odds")
    with pytest.raises(GroupError, match="--sensitive"):
        certify_records(encoder, people, Reading(label="paid"))


# Ways in which a database could give another cell than ``apply``.

TEXTS = [
    "nurse",
    "Nurse",
    "NURSE",
    "nurse ",
    "nurse  ",
    " nurse",
    "é",
    "É",
    "e\u0301",
    "",
    " ",
    "ß",
    "ss",
    "a\\b",
    "%s",
]
BIG = 2**53


def odd_people(n: int, seed: int) -> pd.DataFrame:
    """Texts that collations take for equal, and numbers that do not survive a careless conversion."""
    rng = np.random.default_rng(seed)
    tight = rng.choice([0.1, np.nextafter(0.1, 1), 1 / 3, np.nextafter(1 / 3, 0), -0.0, 0.0, 5e-324, np.nan], n)
    frame = pd.DataFrame(
        {
            "text": rng.choice(TEXTS, n).astype(object),
            "big": rng.choice([BIG - 1, BIG, BIG + 1, BIG + 2, -BIG - 1, 10**18, 10**18 + 1], n),
            "tight": tight,
            "wide": rng.lognormal(0, 30, n),
            "group": rng.choice(["f", "F"], n),
        }
    )
    frame.loc[rng.random(n) < 0.1, "text"] = None
    return frame


@pytest.fixture(scope="module")
def odd() -> tuple[FairTreeEncoder, pd.DataFrame, CellCounts]:
    X, noise = odd_people(4000, 0), np.random.default_rng(1).random(4000)
    parts = [X["text"].isin(TEXTS[::2]), X["big"] > BIG, X["tight"] > 0.1, X["wide"] > 1]
    tree = FairTreeEncoder(gamma=0, max_cells=60, min_cell_size=5, categorical_features=["text", "tight"])
    tree.fit(X.drop(columns="group"), sum(p.astype(int) for p in parts) + noise > 2, sensitive_features=X["group"])
    fresh = odd_people(3000, 2)
    fresh.loc[::7, "text"] = "nursE"
    used = {tree.columns_[split.column].name for split in tree.growth_.splits}
    assert used == {"text", "big", "tight", "wide"}
    return tree, fresh, CellCounts.from_cells(tree.apply(fresh), fresh["group"], None, tree.n_cells_)


def test_collations_of_duckdb_do_not_change_cells(odd: Any) -> None:
    tree, people, wanted = odd
    with duckdb.connect(config={"default_collation": "nocase"}) as connection:
        connection.register("people", people)
        for collation in ("NOCASE", "NOACCENT.NOCASE", ""):
            text = f"VARCHAR COLLATE {collation}" if collation else "VARCHAR"
            connection.execute(
                f'CREATE OR REPLACE TABLE odd (text {text}, big BIGINT, tight DOUBLE, wide DOUBLE, "group" {text})'
            )
            connection.execute("INSERT INTO odd SELECT * FROM people")
            assert count(tree, DuckDB(connection), "odd", "group") == wanted


def test_collations_of_sqlite_do_not_change_cells(odd: Any) -> None:
    tree, people, wanted = odd
    for collation in ("NOCASE", "RTRIM"):
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            text = f"TEXT COLLATE {collation}"
            types = {"text": text, "big": "INTEGER", "tight": "REAL", "wide": "REAL", "group": text}
            fill(connection, "odd", types, plain(people))
            assert count(tree, SQLite(connection), "odd", "group") == wanted


def test_collations_of_postgresql_do_not_change_cells(odd: Any, postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    tree, people, wanted = odd
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);"
            "CREATE EXTENSION IF NOT EXISTS citext"
        )
    for i, text in enumerate(["text COLLATE blind", "varchar(9) COLLATE blind", "citext"]):
        types = {"text": text, "big": "bigint", "tight": "float8", "wide": "float8", "group": text}
        copy(postgres, f"odd{i}", types, plain(people))
        with connect(postgres) as warehouse:
            assert count(tree, warehouse, f"odd{i}", "group") == wanted


def test_trailing_blanks_and_numerics_of_postgresql_are_read_as_in_memory(odd: Any, postgres: str) -> None:
    """A column of the type CHAR(n) is read with its blanks; NUMERIC as its nearest double."""
    psycopg = pytest.importorskip("psycopg")
    tree, people, _ = odd
    types = {"text": "char(7)", "big": "numeric(22, 2)", "tight": "numeric", "wide": "numeric", "group": "sex"}
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TYPE sex AS ENUM ('f', 'F')")
    copy(postgres, "typed", types, plain(people))
    with psycopg.connect(postgres) as connection:
        rows = connection.execute("SELECT * FROM typed").fetchall()
    read = pd.DataFrame(rows, columns=list(types))
    assert read["text"].dropna().str.len().eq(7).all()
    numbers = {"big": pa.array(read["big"].tolist()), **{n: read[n].astype(float) for n in ("tight", "wide")}}
    table = pa.table({"text": read["text"], **numbers})
    assert pa.types.is_decimal(table["big"].type)
    wanted = CellCounts.from_cells(tree.apply(table), read["group"], None, tree.n_cells_)
    with connect(postgres) as warehouse:
        assert count(tree, warehouse, "typed", "group") == wanted


def test_decimals_of_duckdb_are_read_as_in_memory(odd: Any) -> None:
    tree, people, _ = odd
    with duckdb.connect() as connection:
        connection.register("people", people)
        connection.execute(
            "CREATE TABLE odd AS SELECT text, big::HUGEINT * 10 AS big, round(tight, 17)::DECIMAL(38, 20) AS tight, "
            "least(wide, 1e15)::DECIMAL(38, 18) AS wide, \"group\"::ENUM('f', 'F') AS \"group\" FROM people"
        )
        table = connection.sql("SELECT * FROM odd").to_arrow_table()
        wanted = CellCounts.from_cells(tree.apply(table), table["group"].to_pylist(), None, tree.n_cells_)
        assert count(tree, DuckDB(connection), "odd", "group") == wanted


def test_large_integers_are_compared_exactly(odd: Any) -> None:
    tree, people, _ = odd
    from certifare.tables.roles import parse_role

    role = parse_role(f"big>={BIG}", list(people.columns))
    groups = role.evaluate(pa.array(people["big"])).to_pylist()
    wanted = CellCounts.from_cells(tree.apply(people), groups, None, tree.n_cells_)
    with duckdb.connect() as connection:
        connection.register("people", people)
        assert count(tree, DuckDB(connection), "people", f"big>={BIG}") == wanted


def test_names_that_differ_only_in_case_are_told_apart_or_refused(postgres: str) -> None:
    n = 400
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"v": rng.normal(size=n), "V": rng.normal(size=n)})
    groups = rng.choice(["f", "m"], n)
    tree = FairTreeEncoder(gamma=0, max_cells=6, min_cell_size=5).fit(
        people, people["V"] > people["v"], sensitive_features=groups
    )
    wanted = CellCounts.from_cells(tree.apply(people), groups, None, tree.n_cells_)
    for dialect in ("duckdb", "sqlite", "spark", "bigquery"):
        with pytest.raises(TableError, match="'v' and 'V'"):
            tree.to_sql(dialect)
    one = FairTreeEncoder(gamma=0, max_cells=6, min_cell_size=5).fit(
        people[["V"]], people["V"] > 0, sensitive_features=groups
    )
    with duckdb.connect() as connection:
        connection.register("people", people.assign(sex=groups))  # DuckDB calls them v and V_1
        for encoder in (tree, one):
            with pytest.raises(MissingColumnError, match="No column 'V'"):
                count(encoder, DuckDB(connection), "people", "sex")
    types = {"v": "float8", "V": "float8", "sex": "text"}
    copy(postgres, "cased", types, plain(people.assign(sex=groups)))
    with connect(postgres) as warehouse:
        assert count(tree, warehouse, "cased", "sex") == wanted


def test_what_apply_refuses_is_refused(odd: Any, postgres: str) -> None:
    tree, people, _ = odd
    infinite = people.assign(wide=np.where(np.arange(len(people)) == 5, -np.inf, people["wide"]))
    types = {"text": "text", "big": "bigint", "tight": "float8", "wide": "float8", "group": "text"}
    copy(postgres, "infinite", types, plain(infinite))
    with contextlib.ExitStack() as stack:
        duck = stack.enter_context(duckdb.connect())
        duck.register("infinite", infinite)
        lite = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
        fill(lite, "infinite", dict.fromkeys(types, ""), plain(infinite))
        for warehouse in (DuckDB(duck), SQLite(lite), stack.enter_context(connect(postgres))):
            with pytest.raises(TableError, match="1 records"):
                count(tree, warehouse, "infinite", "group")
        duck.register("texts", people.assign(wide="1", text=3))
        duck.execute("CREATE TABLE days AS SELECT * REPLACE (DATE '2020-01-01' AS wide) FROM infinite")
        lite.execute("CREATE TABLE texts AS SELECT * FROM infinite")
        lite.execute("UPDATE texts SET wide = 'a lot' WHERE rowid = 3")
        for warehouse, name, message in (
            (DuckDB(duck), "texts", "'text' holds numbers|'wide' holds text"),
            (DuckDB(duck), "days", "'wide' has the type DATE"),
            (SQLite(lite), "texts", "'wide' has the type mixed: real, text"),
        ):
            with pytest.raises(TableError, match=message):
                count(tree, warehouse, name, "group")


def test_a_database_that_compares_otherwise_is_refused(
    encoder: FairTreeEncoder, duck: DuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    duck.query("SET default_collation = 'nocase'")
    monkeypatch.setitem(writing.BYTES, "duckdb", "UPPER(:text)")
    try:
        with pytest.raises(DatabaseError, match="differently from"):
            count(encoder, duck, PEOPLE, "race")
    finally:
        duck.query("RESET default_collation")


def test_a_server_that_escapes_in_texts_is_refused(encoder: FairTreeEncoder, post: Any, postgres: str) -> None:
    """There a backslash in a category would end its quotes."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(postgres.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        connection.exec_driver_sql("SET standard_conforming_strings = off; SET escape_string_warning = off")
        with pytest.raises(DatabaseError):
            count(encoder, Database(connection), PEOPLE, "member")
    engine.dispose()


# Nothing of an address gets out, and a stranger's file reads no other.


def test_nothing_of_an_address_is_printed(tmp_path: Path) -> None:
    for address, words in [
        ("postgresql://me:secret@host/staff", "postgres database 'staff'"),
        ("postgresql://me:se#cret@host/staff", "postgres database"),
        ("postgresql://me:a/secret@host/staff", "postgres database"),
        ("postgresql://me:a@secret@host/staff", "postgres database"),
        ("postgresql://me:a/secret?x@host/staff", "postgres database"),
        ("postgresql://host/staff?user=me&pass%77ord=secret", "postgres database 'staff'"),
        ("postgresql+psycopg://secret", "postgres database"),
        ("secret://host/db", "database 'db'"),
        ("secret", "database"),
        ("duckdb:///people.db", "duckdb database 'people.db'"),
        ("duckdb:///people.db?token=secret", "duckdb database 'people.db'"),
        ("duckdb:md:people?motherduck_token=secret", "duckdb database"),
        ("md:people?motherduck_token=secret", "database"),
    ]:
        assert describe_address(address) == words
    socket = f"host={tmp_path}&connect_timeout=2"
    for address, error, message in [
        ("duckdb:///nowhere.db", FileError, "nowhere.db"),
        ("sqlite:///nowhere.db", FileError, "nowhere.db"),
        ("duckdb:///nowhere.db?token=secret", FileError, "no file for the duckdb database 'nowhere.db'. A"),
        ("duckdb:md:nowhere?motherduck_token=secret", FileError, "no file for the duckdb database. A"),
        ("md:nowhere?motherduck_token=secret", DatabaseError, "does not support this database address"),
        ("sqlite:///nowhere.db?key=secret", FileError, "no file for the sqlite database 'nowhere.db'. A"),
        ("oracle://me:secret@host/db", DatabaseError, "does not support this database address"),
        ("secret", DatabaseError, "does not support this database address"),
        ("mysql+nosuchdriver://me:secret@host/db", DatabaseError, "driver for mysql is not installed"),
        ("postgresql://[secret", DatabaseError, "postgres database cannot be reached"),
        ("postgresql://me:secret@host:secret/db", DatabaseError, "postgres database 'db' cannot be reached"),
        (f"postgresql://me:secret@/db?{socket}", DatabaseError, r"cannot be reached \(OperationalError"),
        (f"postgresql://me:se#cret@/db?{socket}", DatabaseError, "cannot be reached"),
        (f"postgresql:///db?{socket}&pass%77ord=secret", DatabaseError, "cannot be reached"),
        ("postgresql://me@127.0.0.1:1/db?connect_timeout=1&nosuchoption=secret", DatabaseError, "cannot be reached"),
    ]:
        with pytest.raises(error, match=message) as caught, connect(address):
            pass
        assert "cret" not in str(caught.value)
        assert "host" not in str(caught.value).replace("spark://host", "").replace("user@host", "")
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for scheme in ("duckdb", "sqlite"):
        (tmp_path / "text.db").write_text("this is no database, however long it may be")
        with pytest.raises(DatabaseError, match="cannot be reached"), connect(f"{scheme}:///{tmp_path}/text.db"):
            pass


@pytest.mark.parametrize("secret", ["se#cret", "?pass%77ord=secret", "a/secret", "secret%40b"])
def test_no_password_reaches_certificate_counts_or_report(
    encoder: FairTreeEncoder, post: Any, postgres: str, tmp_path: Path, capsys: Any, secret: str
) -> None:
    if secret.startswith("?"):
        address = postgres.replace("?", secret + "&")
    else:
        address = postgres.replace("certifare@", f"certifare:{secret}@")
    encoder.save(tmp_path / "encoder.json")
    place = ["--sql", address, "--table", "secrets.people", "--sensitive", "member"]
    with pytest.raises(DatabaseError, match="cannot read the table 'secrets.people'"):
        run("certify", tmp_path / "encoder.json", *place)
    place[3] = "store.people, all"
    run("certify", tmp_path / "encoder.json", *place, "--output", tmp_path / "certificate.json")
    run("count", tmp_path / "encoder.json", *place, "--output", tmp_path / "counts.json")
    for form in ("html", "json"):
        run("report", tmp_path / "certificate.json", "--output", tmp_path / f"report.{form}")
    printed = capsys.readouterr()
    written = {path.name: path.read_text() for path in tmp_path.iterdir()} | {"out": printed.out, "err": printed.err}
    assert len(written) == 7
    for name, text in written.items():
        assert "cret" not in text, name
        assert postgres.partition("host=")[2] not in text.replace(str(tmp_path), ""), name


def run(*words: Any) -> None:
    """Run a command of certifare; its errors come out as they are."""
    with contextlib.suppress(SystemExit):
        typer.main.get_command(app)([str(word) for word in words], standalone_mode=False)


def test_errors_hold_no_values(post: Any, postgres: str, duck: DuckDB) -> None:
    """What a driver says may quote values; what is said here does not."""
    with connect(postgres) as server:
        for warehouse in (server, duck):
            with pytest.raises(DatabaseError, match=r"refuses the query \(\w+") as caught:
                warehouse.query("SELECT CAST('secret' AS DATE)")
            assert "secret" not in str(caught.value)


def test_a_strangers_duckdb_file_reads_no_other(encoder: FairTreeEncoder, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("age,sex\n1,f\n")
    with duckdb.connect(str(tmp_path / "stranger.db")) as connection:
        connection.execute(f"CREATE VIEW people AS SELECT * FROM read_csv('{tmp_path}/secret.csv')")  # noqa: S608
    with connect(f"duckdb:///{tmp_path}/stranger.db") as warehouse:
        for sql in (
            "SELECT * FROM people",
            f"SELECT * FROM read_text('{tmp_path}/secret.csv')",  # noqa: S608
            f"ATTACH '{tmp_path}/other.db'",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            "SET enable_external_access = true",
            "SET autoload_known_extensions = true",
            "SET lock_configuration = false",
            "INSTALL httpfs",
            "LOAD httpfs",
            "CREATE TABLE mine (i INT)",
        ):
            with pytest.raises(DatabaseError):
                warehouse.query(sql)
        with pytest.raises(DatabaseError):
            count(encoder, warehouse, "people", "sex")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv", "stranger.db"]


def test_a_strangers_sqlite_file_is_only_read(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "stranger.db")) as connection:
        connection.execute("CREATE TABLE people (i)")
        connection.execute("CREATE VIEW evil AS SELECT load_extension('evil.so')")
    before = (tmp_path / "stranger.db").read_bytes()
    with connect(f"sqlite:///{tmp_path}/stranger.db") as warehouse:
        for sql in (
            "SELECT * FROM evil",
            "SELECT load_extension('x')",
            "INSERT INTO people VALUES (1)",
            "DROP TABLE people",
        ):
            with pytest.raises(DatabaseError):
                warehouse.query(sql)
    assert (tmp_path / "stranger.db").read_bytes() == before


def test_connect_to_a_file(encoder: FairTreeEncoder, fresh: pd.DataFrame, tmp_path: Path, monkeypatch: Any) -> None:
    with duckdb.connect(str(tmp_path / "duck #1.db")) as connection:
        connection.register("fresh", fresh)
        connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
    with contextlib.closing(sqlite3.connect(tmp_path / "lite #1.db")) as connection:
        fill(connection, "people", dict.fromkeys(fresh.columns, ""), plain(fresh))
        connection.commit()
    monkeypatch.chdir(tmp_path)
    for address in ("duckdb:///duck #1.db", f"duckdb:///{tmp_path}/duck #1.db", "sqlite:///lite #1.db"):
        with connect(address) as warehouse:
            assert count(encoder, warehouse, "people", "race").n_records == 1998
            with pytest.raises(DatabaseError, match="refuses"):
                warehouse.query("DROP TABLE people")


def test_connect_to_a_server(encoder: FairTreeEncoder, post: Any, postgres: str) -> None:
    with connect(postgres) as warehouse:
        assert count(encoder, warehouse, PEOPLE, "member").n_records == 2000
        with pytest.raises(DatabaseError, match="ReadOnlySqlTransaction, SQLSTATE 25006"):
            warehouse.query('DELETE FROM store."people, all"')


def test_a_connection_of_ones_own(encoder: FairTreeEncoder, post: Any, postgres: str) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(postgres.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        assert count(encoder, Database(connection), PEOPLE, "member").n_records == 2000
    engine.dispose()
    with sqlalchemy.create_engine("sqlite://").connect() as connection, pytest.raises(DatabaseError, match="SQLite"):
        Database(connection)


def test_bad_tables_are_refused(encoder: FairTreeEncoder, place: Any) -> None:
    warehouse, table = place
    with pytest.raises(MissingColumnError, match="sexx"):
        count(encoder, warehouse, table, "sexx")
    with pytest.raises(DatabaseError, match="cannot read the table 'nobody'"):
        count(encoder, warehouse, "nobody", "sex")


def test_a_table_without_the_encoders_columns(encoder: FairTreeEncoder, duck: DuckDB) -> None:
    duck.query("CREATE TABLE small AS SELECT 1 AS x, 'f' AS sex")
    with pytest.raises(MissingColumnError, match="'age'"):
        count(encoder, duck, "small", "sex")


def test_query_for_other_databases(encoder: FairTreeEncoder, many_people: pd.DataFrame) -> None:
    columns = {"number": "FLOAT", "boolean": "BOOLEAN", "text": "STRING"}
    types = {column.name: columns[column.type] for column in encoder.columns_} | {"sex": "STRING", "paid": "INTEGER"}
    for dialect in writing.DIALECTS:
        if dialect not in ("bigquery", "snowflake", "databricks"):
            continue
        text = counts_query(encoder, dialect, "store.people", types, sensitive=["sex", "age>=60"], label="paid")
        assert text.startswith("SELECT ")
        assert "age >= 60" in text
    with pytest.raises(EncoderError, match="no SQL for the dialect 'oracle'"):
        counts_query(encoder, "oracle", "people", types, sensitive="sex")


@pytest.mark.parametrize("database", ["duck", "lite", "post"])
def test_boosted_encoders_are_counted_as_in_memory(
    many_people: pd.DataFrame,
    fresh: pd.DataFrame,
    database: str,
    request: pytest.FixtureRequest,
) -> None:
    X = many_people.drop(columns=["paid", "sex", "race"])
    encoder = BoostedEncoder(max_cells=8, folds=2, min_cell_size=20)
    encoder.fit(X, many_people["paid"], sensitive_features=many_people["sex"])
    known = fresh["sex"].notna()
    cells = np.zeros(len(fresh), dtype=np.int64)
    cells[known] = encoder.apply(fresh.loc[known, X.columns])
    found = count(encoder, request.getfixturevalue(database), ("store", "people, all"), "sex")
    assert found == CellCounts.from_cells(cells, fresh["sex"], None, encoder.n_cells_, missing="drop")
    assert len(np.unique(cells)) == encoder.n_cells_ > 3
