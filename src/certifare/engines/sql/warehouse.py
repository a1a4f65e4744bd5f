"""Count where the data lives: the encoder's CASE expression, grouped by cell, group and label, run by the database.

Only the counts leave it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.certificate import ASSUMPTIONS
from certifare.certificates.claims import Claim
from certifare.certificates.counts import Exclusion, Missing
from certifare.certificates.issuing import NOT_LOOKED_UP, issue
from certifare.certificates.population import population_of
from certifare.certificates.sampling import Subsample, assumptions_of, drawn_population
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.expressions import DIALECTS, identifier, known_dialect, quoted_table, table_parts
from certifare.engines.counting import Entry, Naming, Tally, group_assumptions
from certifare.engines.sql.queries import (
    INCOMPLETE,
    KEPT,
    REFUSED,
    Draw,
    counts_query,
    draw_query,
    examination,
    key_query,
)
from certifare.errors import (
    ArgumentError,
    CertifareError,
    FileError,
    InfiniteValueError,
    NotPublishableError,
    RoleError,
    UnknownGroupError,
    WarehouseError,
)
from certifare.levels import name_of
from certifare.roles import Comparison, Names, as_names, parse_role


class Warehouse(ABC):
    """A database that can be asked."""

    dialect: str

    def columns(self, table: Sequence[str]) -> dict[str, str]:
        """Name the columns of a table (given by the parts of its name), and their types as the database writes them."""
        with _asking(f"The database cannot read the table {'.'.join(table)!r}"):
            return self._columns(table)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query, and give its rows."""
        with _asking("The database refuses the query"):
            return [tuple(row) for row in self._rows(sql)]

    @abstractmethod
    def _columns(self, table: Sequence[str]) -> dict[str, str]: ...

    @abstractmethod
    def _rows(self, sql: str) -> Iterable[Any]: ...


class DuckDB(Warehouse):
    """A DuckDB connection."""

    dialect = "duckdb"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        return {name: type_ for name, type_, *_ in self._rows(f"DESCRIBE {quoted_table(table, self.dialect)}")}

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._connection.execute(sql).fetchall()  # type: ignore[no-any-return]


class SQLite(Warehouse):
    """A connection of Python's sqlite3."""

    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # SQLite has no hash, and a logarithm only where it was compiled in.
        connection.create_function("MD5", 1, _md5, deterministic=True)
        connection.create_function("LN", 1, math.log, deterministic=True)

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        # A column may hold values of any type, whatever it was declared as: ask for those of its values.
        source = quoted_table(table, self.dialect)
        names = [column[0] for column in self._connection.execute(f"SELECT * FROM {source} LIMIT 0").description]  # noqa: S608
        types = ", ".join(f"GROUP_CONCAT(DISTINCT TYPEOF({_quoted(name, self.dialect)}))" for name in names)
        (found,) = self._rows(f"SELECT {types} FROM {source}")  # noqa: S608
        kinds = [", ".join(sorted({*(types or "").split(",")} - {"null", ""})) for types in found]
        known = {
            "": "NULL",
            "integer": "INTEGER",
            "real": "REAL",
            "integer, real": "REAL",
            "text": "TEXT",
            "blob": "BLOB",
        }
        return {name: known.get(kind, f"mixed: {kind}") for name, kind in zip(names, kinds, strict=True)}

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._connection.execute(sql).fetchall()  # type: ignore[no-any-return]


class Database(Warehouse):
    """A SQLAlchemy connection to a database whose dialect certifare writes.

    DuckDB and SQLite are asked through their own drivers: :class:`DuckDB`, :class:`SQLite`.
    """

    def __init__(self, connection: Any) -> None:
        self.dialect = known_dialect(connection.dialect.name)
        if self.dialect in ("duckdb", "sqlite"):
            raise WarehouseError(f"Give the connection of {self.dialect}'s own driver to DuckDB(…) or SQLite(…).")
        self._connection = connection.execution_options(no_parameters=True)

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        from sqlalchemy import inspect
        from sqlalchemy.sql import quoted_name

        *schema, name = table
        place = quoted_name(".".join(schema), True) if schema else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of types that SQLAlchemy does not know: they are refused here
            found = inspect(self._connection).get_columns(quoted_name(name, True), place)
        return {column["name"]: self._type(column["type"]) for column in found}

    def _type(self, type_: Any) -> str:
        from sqlalchemy import CHAR, Enum, String
        from sqlalchemy.exc import CompileError

        if isinstance(type_, CHAR):
            return f"CHAR({type_.length})" if type_.length else "unknown"
        if isinstance(type_, Enum | String):
            return "TEXT"
        try:
            return str(type_.compile(dialect=self._connection.dialect))
        except CompileError:
            return "unknown"

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._connection.exec_driver_sql(sql)  # type: ignore[no-any-return]


class Spark(Warehouse):
    """A Spark session."""

    dialect = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        return dict(self._session.sql(f"SELECT * FROM {quoted_table(table, self.dialect)}").dtypes)  # noqa: S608

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._session.sql(sql).collect()  # type: ignore[no-any-return]


@contextlib.contextmanager
def connect(address: str) -> Iterator[Warehouse]:
    """Connect to a database, for reading only where it knows of that.

    Parameters
    ----------
    address : str
        ``duckdb:///people.db`` or ``sqlite:///people.db`` (relative; absolute: ``duckdb:////data/people.db``);
        ``spark://host:port`` (``spark:`` alone: the session that is configured, or a local one); or an address of
        SQLAlchemy, such as ``postgresql://user@host/database``. Each needs its driver: ``pip install duckdb``,
        ``pyspark``, or ``certifare[sql]`` with ``psycopg[binary]`` and the like.
    """
    with contextlib.ExitStack() as stack:
        with _asking(f"The {describe_address(address)} cannot be reached"):
            warehouse = _open(address, stack)
        yield warehouse


def _open(address: str, stack: contextlib.ExitStack) -> Warehouse:
    scheme, _, rest = address.partition(":")
    try:
        if scheme in ("duckdb", "sqlite"):
            path = rest.removeprefix("//").removeprefix("/")
            if not Path(path).is_file():
                raise FileError(
                    f"There is no file of the {describe_address(address)}; an address looks like {scheme}:///people.db "
                    f"(absolute: {scheme}:////data/people.db)."
                )
            return _open_duckdb(path, stack) if scheme == "duckdb" else _open_sqlite(path, stack)
        if scheme == "spark":
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName("certifare")
            # The session stays open: it may be one that was there before.
            return Spark((builder.master(address) if rest else builder).getOrCreate())
        if _dialect(address) is None:
            raise WarehouseError(
                "This is no address of a database that certifare can ask; it knows duckdb:///file, sqlite:///file, "
                f"spark://host:port, and SQLAlchemy's (postgresql://user@host/database) of {', '.join(DIALECTS)}."
            )
        return _open_server(address, stack)
    except ImportError:
        drivers = {"duckdb": "'duckdb'", "spark": "'pyspark'", "postgresql": "'certifare[sql]' 'psycopg[binary]'"}
        driver = drivers.get(scheme, "'certifare[sql]', and the driver that SQLAlchemy names for it")
        raise WarehouseError(f"The driver for {_dialect(address)} is not installed: pip install {driver}.") from None


def _open_duckdb(path: str, stack: contextlib.ExitStack) -> Warehouse:
    import duckdb

    # The file may be a stranger's: its views must not read other files, or load code.
    closed = ("enable_external_access", "autoload_known_extensions", "autoinstall_known_extensions")
    config = {**dict.fromkeys(closed, "false"), "lock_configuration": "true"}
    return DuckDB(stack.enter_context(contextlib.closing(duckdb.connect(path, read_only=True, config=config))))


def _open_sqlite(path: str, stack: contextlib.ExitStack) -> Warehouse:
    import sqlite3

    opened = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    connection = stack.enter_context(contextlib.closing(opened))
    # A stranger's views may not call functions with side effects; all queries see one state of the file.
    for statement in ("PRAGMA trusted_schema = OFF", "PRAGMA query_only = ON", "PRAGMA schema_version", "BEGIN"):
        connection.execute(statement).fetchall()
    return SQLite(connection)


def _open_server(address: str, stack: contextlib.ExitStack) -> Warehouse:
    import sqlalchemy

    url = sqlalchemy.make_url(re.sub(r"^postgres(ql)?:", "postgresql+psycopg:", address))
    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    except sqlalchemy.exc.NoSuchModuleError:
        raise ImportError from None
    connection = stack.enter_context(engine.connect())
    if engine.dialect.name == "postgresql":
        connection = connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
    elif engine.dialect.name in ("mysql", "mariadb"):
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        connection.commit()
    return Database(connection)


def describe_address(address: str) -> str:
    """Say which database an address is of. Nothing else of an address is ever kept or printed.

    The name is left out where it cannot be told for sure, as in an address whose password holds ``/`` or ``#``.

    >>> from certifare.engines.sql.warehouse import describe_address
    >>> describe_address("postgresql://me:secret@host/staff"), describe_address("postgresql://me:se#cret@host/staff")
    ("postgres database 'staff'", 'postgres database')
    """
    found = re.fullmatch(r"[\w+]+://(?:[^/?#@]*@)?[^/?#@]*/(\w+(?:\.\w+)*)(?:\?[^/@]*)?", address)
    return " ".join([*filter(None, [_dialect(address)]), "database", *([repr(found[1])] if found else [])])


def _dialect(address: str) -> str | None:
    scheme = address.partition(":")[0].partition("+")[0]
    try:
        return known_dialect({"postgresql": "postgres"}.get(scheme, scheme))
    except NotPublishableError:
        return None


def count_sql(
    encoder: RestrictedEncoder,
    warehouse: Warehouse,
    table: Names,
    *,
    sensitive: Names,
    label: str | None = None,
    missing: Missing = "refuse",
    naming: Naming | None = None,
) -> CellCounts:
    """Count a table by cell, group and label in the database that holds it.

    Equals ``CellCounts.from_cells(encoder.apply(X), …)`` of the same records.

    Parameters
    ----------
    encoder : FairTreeEncoder
    warehouse : Warehouse
        From :func:`connect`, or around a connection of your own: :class:`DuckDB`, :class:`SQLite`,
        :class:`Database`, :class:`Spark`.
    table, sensitive, label
        As in :func:`counts_query`.
    missing : {"refuse", "unknown", "drop"}
        What to do with records without a group or label.
    naming : Naming, optional
        As in :func:`tally_sql`.
    """
    tally = tally_sql(encoder, warehouse, table, sensitive=sensitive, label=label, missing=missing, naming=naming)
    return tally.table(encoder.n_cells_, labelled=label is not None, missing=missing)


def certify_sql(
    encoder: RestrictedEncoder,
    warehouse: Warehouse,
    table: Names,
    *,
    sensitive: Names,
    label: str | None = None,
    missing: Missing = "refuse",
    weight: str | None = None,
    cluster: str | None = None,
    max_weight: float | None = None,
    key: Names = (),
    seed: int = 0,
    naming: Naming | None = None,
    **claim: Any,
) -> Certificate:
    """Certify an encoder on a table in a database; only counts leave it.

    Parameters
    ----------
    encoder, warehouse, table, sensitive, label, missing
        As in :func:`count_sql`. The label is used only if the metric conditions on it.
    weight, cluster, max_weight, key, seed, naming
        As in :func:`tally_sql`.
    **claim
        Of :class:`~certifare.certificates.Claim`: ``metric``, ``confidence``, ``population`` …
    """
    asked = Claim(**claim)
    label = label if asked.labelled else None
    tally = tally_sql(
        encoder,
        warehouse,
        table,
        sensitive=sensitive,
        label=label,
        missing=missing,
        weight=weight,
        cluster=cluster,
        population=asked.population,
        max_weight=max_weight,
        key=key,
        seed=seed,
        part="certify",
        naming=naming,
    )
    counts = tally.table(encoder.n_cells_, labelled=label is not None, missing=missing)
    drawn = tally.drawn
    certificate = issue(counts, asked)
    return msgspec.structs.replace(
        certificate,
        assumptions=(
            *ASSUMPTIONS,
            NOT_LOOKED_UP,
            *group_assumptions(encoder),
            *(() if drawn is None else drawn.assumptions),
        ),
        seed=None if drawn is None else seed,
        effective_size=None if drawn is None else drawn.effective_size,
        population=population_of(certificate.exclusions, *(() if drawn is None else drawn.population)),
    )


def tally_sql(
    encoder: RestrictedEncoder,
    warehouse: Warehouse,
    table: Names,
    *,
    sensitive: Names,
    label: str | None = None,
    missing: Missing = "refuse",
    weight: str | None = None,
    cluster: str | None = None,
    population: str = "clusters",
    max_weight: float | None = None,
    key: Names = (),
    seed: int = 0,
    part: str = "count",
    naming: Naming | None = None,
) -> Tally:
    """Count a table in its database: all records, or independent ones that are drawn there.

    Parameters
    ----------
    encoder, warehouse, table, sensitive, label, missing
        As in :func:`count_sql`. Records without a group take part in a draw where they are a group of their own.
    weight, cluster : str, optional
        Columns of survey weights and of clusters: records are thinned, and one of each cluster kept, as
        :func:`certifare.thin` and :func:`certifare.one_per_cluster` do, but by a hash of ``key`` and ``seed``.
    population, max_weight
        As in :func:`certifare.one_per_cluster` and :func:`certifare.thin`.
    key : str or sequence of str
        With ``weight`` or ``cluster``: columns that together identify a record.
    seed : int
        Of the draw.
    part : str
        What the draw is for; draws for different purposes, or on other records, are independent.
    naming : Naming, optional
        Pools groups, and cuts the label, after the database has counted them one by one.
    """
    naming = naming or Naming()
    roles: dict[str, Any] = {"sensitive": sensitive, "label": label}
    draw = None
    if weight is not None or cluster is not None:
        draw = Draw(weight, cluster, population, max_weight, as_names(key), seed, part)
    elif key or max_weight is not None or population != "clusters":
        raise ArgumentError(
            "key, max_weight and population are about a draw, and there is no weight or cluster for one."
        )
    sql, expected = examination(warehouse.dialect, drawing=draw is not None)
    found = warehouse.query(sql)
    if found != [expected]:
        raise WarehouseError(
            f"The database reads or compares texts and numbers in another way than {warehouse.dialect} should: it "
            f"answers {found} instead of {expected}. Look at its settings (escapes in texts, character set)."
        )
    columns = warehouse.columns(table_parts(table))
    n_groups, labelled = len(as_names(sensitive)), label is not None
    rows = warehouse.query(counts_query(encoder, warehouse.dialect, table, columns, **roles))
    entries = [_entry(row, n_groups, labelled) for row in rows]
    if draw is None:
        return Tally(tuple(entries)).named(naming, unknown=missing == "unknown")
    # The counts stand for the records: draws on other records are independent of these, even at the same seed.
    digest = hashlib.sha256(repr(sorted(map(repr, entries))).encode()).hexdigest()
    draw = replace(draw, part=f"{part} {digest}")
    # Written before any other query: it looks whether the table has the columns.
    sql = draw_query(encoder, warehouse.dialect, table, columns, draw, missing=missing, **roles)
    ((records, with_key, keys),) = warehouse.query(key_query(warehouse.dialect, table, draw))
    if not int(records) == int(with_key) == int(keys):
        raise RoleError(
            f"{' and '.join(map(repr, draw.key))} does not identify the records: {int(records):,} have "
            f"{int(keys):,} different values, {int(records) - int(with_key):,} have none. Name further columns."
        )
    return _drawn(warehouse.query(sql), draw, n_groups, labelled).named(naming, unknown=missing == "unknown")


def _drawn(rows: Sequence[Sequence[Any]], draw: Draw, n_groups: int, labelled: bool) -> Tally:
    """Read what became of the records in a draw."""
    entries, left_out = [], []
    largest = total = squares = 0.0
    n_shown = 1 + n_groups + labelled
    for row in rows:
        shown, (end, records, most, sizes, square, lightest, heaviest) = row[:n_shown], row[n_shown:]
        for weight in (lightest, heaviest):
            if weight is not None and not 0 <= float(weight) < math.inf:
                raise RoleError(
                    f"Column {draw.weight!r} has the weight {float(weight):g}; weights must be finite and not negative."
                )
        largest = max(largest, float(most or 0))
        total, squares = total + float(sizes), squares + float(square)
        if end in (KEPT, INCOMPLETE):
            entries.append(_entry((*shown, records), n_groups, labelled))
        else:
            left_out.append(Exclusion(end, int(records)))
    if not total:
        raise RoleError(f"No record has a weight above zero in column {draw.weight!r}: there is nothing to draw.")
    population = None if draw.cluster is None else draw.population
    words = assumptions_of(largest, draw.max_weight, weighted=draw.weight is not None, population=population)
    hashed = f"Records were drawn by a hash of {' and '.join(draw.key)}, which was not filled with a view to the draw."
    sample = Subsample(
        keep=np.zeros(0, dtype=bool),  # known to the database alone
        exclusions=tuple(left_out),
        effective_size=total**2 / squares,
        seed=draw.seed,
        assumptions=(*words, hashed),
        population=drawn_population(weighted=draw.weight is not None, population=population),
    )
    return Tally(tuple(entries), drawn=sample)


def _entry(row: Sequence[Any], n_groups: int, labelled: bool) -> Entry:
    """Read a row of counts: cell, groups, label, and the number of records as the last."""
    cell, *values, records = row
    if cell is None:
        raise UnknownGroupError(
            f"{int(records):,} records have a group that the encoder was not fitted with, or none; leave them out, in "
            'a view for instance, or give them the thresholds that the groups have in common: unknown_groups="common".'
        )
    if cell == REFUSED:
        raise InfiniteValueError(
            f"{int(records):,} records hold an infinite number in a column that the encoder looks at; make it missing "
            "(NULL) or finite, in a view for instance."
        )
    names = [_name(value) for value in values]
    return Entry(int(cell), tuple(names[:n_groups]), names[n_groups] if labelled else None, int(records))


def _name(value: Any) -> str | None:
    """Name a value as ``CellCounts.from_cells`` does; None if it is missing."""
    return None if value is None else name_of(float(value) if isinstance(value, Decimal) else value)


def parse_blindly(text: str) -> str | Comparison:
    """Understand a role without knowing the table's columns: a comparison if it looks like one."""
    found = re.match(r"\s*(\S.*?)\s*(>=|<=|==|!=|≥|≤|≠|=|>|<)", text)
    return text.strip() if found is None else parse_role(text, [found[1]])


def _quoted(name: str, dialect: str) -> str:
    return str(identifier(name, dialect).sql(dialect=dialect))


def _md5(text: str | None) -> str | None:
    return None if text is None else hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def _asking(failure: str) -> Iterator[None]:
    """Put a driver's error into words of our own: the driver's may hold the address, a password, or values."""
    try:
        yield
    except CertifareError:
        raise
    except Exception as error:
        cause = getattr(error, "orig", None) or error
        state = getattr(cause, "sqlstate", None)
        raise WarehouseError(f"{failure} ({type(cause).__name__}{f', SQLSTATE {state}' if state else ''}).") from None
