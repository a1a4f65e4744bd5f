"""Count records inside a database: it runs the encoder's expression and counts by cell, group and label.

Only the counts leave the database.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.sql import DIALECTS, is_read, known_dialect, quoted, quoted_table, table_parts
from certifare.engines.counting import CountRequest, RecordsElsewhere, Tally
from certifare.engines.entries import Entry
from certifare.engines.sql.queries import REFUSED, ask_repeats, counts_query, examination
from certifare.errors import CertifareError, DatabaseError, EncoderError, FileError, GroupError, TableError
from certifare.foundation.levels import name_of
from certifare.tables.reading import Reading
from certifare.tables.roles import Names, as_names, column_of, parse_role


class Warehouse(ABC):
    """A database connection that can run queries."""

    dialect: str
    _connection: Any

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, table: Sequence[str]) -> dict[str, str]:
        """Return the columns of a table (given by the parts of its name), and their types in the database."""
        with _asking(f"The database cannot read the table {'.'.join(table)!r}"):
            return self._columns(table)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query, and return its rows."""
        with _asking("The database refuses the query"):
            return [tuple(row) for row in self._rows(sql)]

    @abstractmethod
    def _columns(self, table: Sequence[str]) -> dict[str, str]: ...

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._connection.execute(sql).fetchall()  # type: ignore[no-any-return]


class DuckDB(Warehouse):
    """A DuckDB connection."""

    dialect = "duckdb"

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        return {name: type_ for name, type_, *_ in self._rows(f"DESCRIBE {quoted_table(table, self.dialect)}")}


class SQLite(Warehouse):
    """A sqlite3 connection; it is given the function MD5, which other databases have and SQLite lacks."""

    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        connection.create_function("MD5", 1, _md5, deterministic=True)

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        # In SQLite a column may hold values of any type, whatever was declared: ask for the types of its values.
        source = quoted_table(table, self.dialect)
        names = [column[0] for column in self._connection.execute(f"SELECT * FROM {source} LIMIT 0").description]  # noqa: S608
        types = ", ".join(f"GROUP_CONCAT(DISTINCT TYPEOF({quoted(name, self.dialect)}))" for name in names)
        (found,) = self._rows(f"SELECT {types} FROM {source}")  # noqa: S608
        kinds = [", ".join(sorted({*(types or "").split(",")} - {"null", ""})) for types in found]
        known = {"": "NULL", "integer": "INTEGER", "real": "REAL", "integer, real": "REAL", "text": "TEXT"}
        known["blob"] = "BLOB"
        return {name: known.get(kind, f"mixed: {kind}") for name, kind in zip(names, kinds, strict=True)}


class Database(Warehouse):
    """A SQLAlchemy connection to a database whose SQL dialect certifare supports.

    DuckDB and SQLite are used through their own drivers: :class:`DuckDB`, :class:`SQLite`.
    """

    def __init__(self, connection: Any) -> None:
        self.dialect = known_dialect(connection.dialect.name)
        if self.dialect in ("duckdb", "sqlite"):
            raise DatabaseError(f"Give the connection of {self.dialect}'s own driver to DuckDB(…) or SQLite(…).")
        super().__init__(connection.execution_options(no_parameters=True))

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        from sqlalchemy import inspect
        from sqlalchemy.sql import quoted_name

        *schema, name = table
        place = quoted_name(".".join(schema), True) if schema else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about types that SQLAlchemy does not know: they are refused here
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

    def _columns(self, table: Sequence[str]) -> dict[str, str]:
        return dict(self._connection.sql(f"SELECT * FROM {quoted_table(table, self.dialect)}").dtypes)  # noqa: S608

    def _rows(self, sql: str) -> Iterable[Any]:
        return self._connection.sql(sql).collect()  # type: ignore[no-any-return]


@contextlib.contextmanager
def connect(address: str) -> Iterator[Warehouse]:
    """Connect to a database, read-only if it supports that.

    - ``address``: ``duckdb:///people.db`` or ``sqlite:///people.db`` (absolute: ``duckdb:////data/people.db``);
      ``spark://host:port`` (``spark:`` alone: the configured session, or a local one); or an address of SQLAlchemy,
      such as ``postgresql://user@host/database``. Each needs its driver.
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
                    f"There is no file for the {describe_address(address)}. Addresses look like {scheme}:///people.db "
                    f"(absolute: {scheme}:////data/people.db)."
                )
            return _open_duckdb(path, stack) if scheme == "duckdb" else _open_sqlite(path, stack)
        if scheme == "spark":
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName("certifare")
            # The session stays open: it may have existed before.
            return Spark((builder.master(address) if rest else builder).getOrCreate())
        if _dialect(address) is None:
            raise DatabaseError(
                "certifare does not support this database address. It supports duckdb:///file, sqlite:///file, "
                f"spark://host:port, and SQLAlchemy's (postgresql://user@host/database) for {', '.join(DIALECTS)}."
            )
        return _open_server(address, stack)
    except ImportError:
        drivers = {"duckdb": "'duckdb'", "spark": "'pyspark'", "postgresql": "'certifare[sql]' 'psycopg[binary]'"}
        driver = drivers.get(scheme, "'certifare[sql]', and SQLAlchemy's driver for it")
        raise DatabaseError(f"The driver for {_dialect(address)} is not installed: pip install {driver}.") from None


def _open_duckdb(path: str, stack: contextlib.ExitStack) -> Warehouse:
    import duckdb

    # The file may be hostile: its views must not read other files, or load code.
    closed = ("enable_external_access", "autoload_known_extensions", "autoinstall_known_extensions")
    config = {**dict.fromkeys(closed, "false"), "lock_configuration": "true"}
    return DuckDB(stack.enter_context(contextlib.closing(duckdb.connect(path, read_only=True, config=config))))


def _open_sqlite(path: str, stack: contextlib.ExitStack) -> Warehouse:
    opened = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None)
    connection = stack.enter_context(contextlib.closing(opened))
    # Views in a hostile file must not call functions with side effects; all queries see one state of the file.
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
    """Return the kind and name of the database of an address. Nothing else of an address is ever kept or printed.

    The name is left out if it is ambiguous, as in an address whose password holds ``/`` or ``#``.

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
    except EncoderError:
        return None


@dataclass(frozen=True, eq=False)
class DatabaseRecords(RecordsElsewhere):
    """Records of a table in a database, which counts them by queries; only the counts leave it."""

    # From :func:`connect`, or made from your own connection: :class:`DuckDB`, :class:`SQLite`, :class:`Database`,
    # :class:`Spark`
    warehouse: Warehouse
    table: Names  # ``"people"``, ``"schema.people"``, or the parts of the name

    where = "in a database"

    def columns(self) -> Mapping[str, str]:
        """Return the columns of the table, and their types in the database."""
        return self.warehouse.columns(table_parts(self.table))

    def tally(
        self, encoder: RestrictedEncoder, reading: Reading, columns: Mapping[str, str], request: CountRequest
    ) -> Tally:
        """Ask the database for the counts, by its own values, and for the number of equal records."""
        warehouse, label = self.warehouse, reading.label
        sql, expected = examination(warehouse.dialect)
        found = warehouse.query(sql)
        if found != [expected]:
            raise DatabaseError(
                f"The database reads or compares text and numbers differently from {warehouse.dialect}: it answers "
                f"{found} instead of {expected}. Check its settings (escapes in text, character set)."
            )
        query = counts_query(encoder, warehouse.dialect, self.table, columns, sensitive=reading.sensitive, label=label)
        entries = tuple(_entry(row, reading) for row in warehouse.query(query))
        named = [column_of(parse_role(text, list(columns))) for text in (*reading.sensitive, *as_names(label))]
        if encoder.is_column:  # Equal values of one column are not copies, so all columns are compared.
            named = [name for name, type_ in columns.items() if is_read(type_, warehouse.dialect)]
        compared = {name: columns[name] for name in (*(column.name for column in encoder.columns_), *named)}
        repeats = ask_repeats(warehouse.query, warehouse.dialect, self.table, compared)
        return Tally((entries,), repeats=repeats)


def _entry(row: Sequence[Any], reading: Reading) -> Entry:
    """Convert a row of counts (cell, groups, label, number of records) to an entry."""
    cell, *values, records = row
    n_groups, labelled = len(reading.sensitive), reading.label is not None
    if cell is None and None in values[:n_groups] and not reading.unknown_groups:
        cell = 0  # A record without a group has no cell; lay_out leaves it out.
    if cell is None:
        raise GroupError(
            f"{int(records):,} records have a group that the encoder was not fitted with, or none. Leave them out, for "
            "example in a view."
        )
    if cell == REFUSED:
        raise TableError(
            f"{int(records):,} records hold an infinite number in a column that the encoder uses, or no value in the "
            "one that breaks ties. Make the number missing (NULL) or finite, fill in the value, or leave such records "
            "out, for example in a view."
        )
    names = [_name(value) for value in values]
    return Entry(int(cell), tuple(names[:n_groups]), names[n_groups] if labelled else None, int(records))


def _md5(text: str | None) -> str | None:
    return None if text is None else hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _name(value: Any) -> str | None:
    """Return the name of a value as in ``CellCounts.from_cells``; None if it is missing."""
    return None if value is None else name_of(float(value) if isinstance(value, Decimal) else value)


@contextlib.contextmanager
def _asking(failure: str) -> Iterator[None]:
    """Replace a driver's error by our own: its message may contain the address, a password or values."""
    try:
        yield
    except CertifareError:
        raise
    except Exception as error:
        cause = getattr(error, "orig", None) or error
        state = getattr(cause, "sqlstate", None)
        raise DatabaseError(f"{failure} ({type(cause).__name__}{f', SQLSTATE {state}' if state else ''}).") from None
