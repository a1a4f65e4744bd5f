"""Count where the data lives: the encoder's CASE expression, grouped by cell, group and label, run by the database.

Only the counts leave it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from certifare.certificates import CellCounts, Certificate, certify_counts
from certifare.certificates.certificate import ASSUMPTIONS
from certifare.certificates.claims import metric_of
from certifare.certificates.counts import Missing, name_of
from certifare.encoders.base import RestrictedEncoder
from certifare.engines.counting import NOT_LOOKED_UP, Entry, table_of
from certifare.errors import FileError, MissingColumnError, NotPublishableError, WarehouseError
from certifare.roles import Comparison, parse_role

Names = str | Sequence[str]


class Warehouse(Protocol):
    """A database that can be asked."""

    dialect: str

    def columns(self, table: str) -> list[str]:
        """Name the columns of a table (its name is quoted already)."""
        ...

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query, and give its rows."""
        ...


class DuckDB:
    """A DuckDB connection."""

    dialect = "duckdb"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, table: str) -> list[str]:
        """Name the columns of a table."""
        return [column[0] for column in self._execute(f"SELECT * FROM {table} LIMIT 0").description]  # noqa: S608

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query."""
        return list(self._execute(sql).fetchall())

    def _execute(self, sql: str) -> Any:
        import duckdb

        try:
            return self._connection.execute(sql)
        except duckdb.Error as error:
            raise WarehouseError(f"DuckDB refuses the query: {_first_line(error)}") from error


class PostgreSQL:
    """A psycopg connection."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, table: str) -> list[str]:
        """Name the columns of a table."""
        with self._execute(f"SELECT * FROM {table} LIMIT 0") as cursor:  # noqa: S608
            return [column.name for column in cursor.description]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query."""
        with self._execute(sql) as cursor:
            return list(cursor.fetchall())

    def _execute(self, sql: str) -> Any:
        import psycopg

        try:
            return self._connection.execute(sql)
        except psycopg.Error as error:
            raise WarehouseError(f"PostgreSQL refuses the query: {_first_line(error)}") from error


class Spark:
    """A Spark session."""

    dialect = "spark"

    def __init__(self, session: Any) -> None:
        self._session = session

    def columns(self, table: str) -> list[str]:
        """Name the columns of a table."""
        return list(self._ask(lambda: self._session.sql(f"SELECT * FROM {table} LIMIT 0").columns))  # noqa: S608

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query."""
        # Nothing is computed, and little noticed, before the rows are collected.
        return [tuple(row) for row in self._ask(lambda: self._session.sql(sql).collect())]

    def _ask(self, question: Callable[[], Any]) -> Any:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return question()
        except (PySparkException, Py4JError) as error:
            raise WarehouseError(f"Spark refuses the query: {_first_line(error)}") from error


@contextlib.contextmanager
def connect(address: str) -> Iterator[Warehouse]:
    """Connect to a database, for reading only.

    Parameters
    ----------
    address : str
        ``duckdb:///people.db`` (relative) or ``duckdb:////data/people.db`` (absolute),
        ``postgresql://user@host/database``, or ``spark://host:port`` (``spark:`` alone: the session that is configured,
        or a local one). Each needs its driver: ``pip install duckdb``, ``psycopg[binary]``, ``pyspark``.
    """
    scheme = urlsplit(address).scheme
    try:
        if scheme == "duckdb":
            import duckdb

            path = urlsplit(address).path.removeprefix("/")
            if not Path(path).is_file():
                raise FileError(f"There is no file {path!r}; an address looks like duckdb:///people.db.")
            with contextlib.closing(_reach(lambda: duckdb.connect(path, read_only=True), duckdb.Error)) as connection:
                yield DuckDB(connection)
        elif scheme in ("postgresql", "postgres"):
            import psycopg

            with contextlib.closing(_reach(lambda: psycopg.connect(address), psycopg.Error)) as connection:
                connection.read_only = True
                yield PostgreSQL(connection)
        elif scheme == "spark":
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName("certifare")
            builder = builder.master(address) if urlsplit(address).netloc else builder
            # The session stays open: it may be one that was there before.
            yield Spark(_reach(builder.getOrCreate, PySparkException, Py4JError))
        else:
            raise WarehouseError(
                f"{without_password(address)!r} is no address of a database that certifare can ask; it knows "
                "duckdb:///file, postgresql://user@host/database and spark://host:port."
            )
    except ImportError as error:
        driver = {"duckdb": "duckdb", "spark": "pyspark"}.get(scheme, "psycopg[binary]")
        raise WarehouseError(f"The driver for {scheme} is not installed: pip install '{driver}'.") from error


def counts_query(
    encoder: RestrictedEncoder,
    dialect: str,
    table: str | Sequence[str],
    *,
    sensitive: Names,
    label: str | None = None,
    columns: Sequence[str] | None = None,
) -> str:
    """Write the query that counts a table by cell, group and label: for databases that certifare cannot reach itself.

    Parameters
    ----------
    encoder : FairTreeEncoder
    dialect : {"duckdb", "postgres", "spark", "bigquery", "snowflake"}
    table : str or sequence of str
        ``"people"``, ``"schema.people"``, or the parts of the name.
    sensitive : str or sequence of str
        Sensitive columns, or comparisons such as ``"age>=60"``.
    label : str, optional
        The label column, or a comparison.
    columns : sequence of str, optional
        The table's columns, to check names against; those of the encoder and of the roles unless given.

    Returns
    -------
    str
        Its rows are: cell, one value for each sensitive column, the label if there is one, number of records.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare import FairTreeEncoder
    >>> from certifare.engines.warehouse import counts_query
    >>> X = pd.DataFrame({"hours": [20, 45] * 50})
    >>> encoder = FairTreeEncoder(min_cell_size=10)
    >>> encoder = encoder.fit(X, X["hours"] > 30, sensitive_features=["f", "m", "m", "f"] * 25)
    >>> counts_query(encoder, "duckdb", "people", sensitive="sex").partition("(SELECT CASE")[0]
    'SELECT "cell", "group_0", COUNT(*) AS "records" FROM '
    """
    if not hasattr(encoder, "to_sql"):
        raise NotPublishableError(
            f"{type(encoder).__name__} cannot be written as SQL; count the records with certifare count instead."
        )
    roles = [("group", text) for text in ([sensitive] if isinstance(sensitive, str) else sensitive)]
    roles += [] if label is None else [("label", label)]
    known = None if columns is None else list(columns)
    if known is not None:
        lost = [column.name for column in encoder.columns_ if column.name not in known]
        if lost:
            raise MissingColumnError(
                f"The table lacks a column that the encoder was fitted with: {lost[0]!r}. It has "
                f"{', '.join(map(repr, known[:12]))}."
            )
    names = []
    inner = [f"{encoder.to_sql(dialect)} AS {_quoted('cell', dialect)}"]
    for i, (role, text) in enumerate(roles):
        names.append(_quoted("label" if role == "label" else f"group_{i}", dialect))
        parsed = parse_role(text, known, role) if known is not None else parse_blindly(text)
        inner.append(f"{_value(parsed, dialect)} AS {names[-1]}")
    by = ", ".join([_quoted("cell", dialect), *names])
    source = quoted_table(table, dialect)
    return (
        f"SELECT {by}, COUNT(*) AS {_quoted('records', dialect)} FROM "  # noqa: S608
        f"(SELECT {', '.join(inner)} FROM {source}) AS {_quoted('cells', dialect)} GROUP BY {by}"
    )


def count_sql(
    encoder: RestrictedEncoder,
    warehouse: Warehouse,
    table: str | Sequence[str],
    *,
    sensitive: Names,
    label: str | None = None,
    missing: Missing = "refuse",
) -> CellCounts:
    """Count a table by cell, group and label in the database that holds it.

    Equals ``CellCounts.from_cells(encoder.apply(X), …)`` of the same records.

    Parameters
    ----------
    encoder : FairTreeEncoder
    warehouse : Warehouse
        From :func:`connect`, or around a connection of your own: :class:`DuckDB`, :class:`PostgreSQL`,
        :class:`Spark`.
    table, sensitive, label
        As in :func:`counts_query`.
    missing : {"refuse", "unknown", "drop"}
        What to do with records without a group or label.
    """
    columns = warehouse.columns(quoted_table(table, warehouse.dialect))
    sql = counts_query(encoder, warehouse.dialect, table, sensitive=sensitive, label=label, columns=columns)
    n_groups = 1 if isinstance(sensitive, str) else len(sensitive)
    entries = []
    for cell, *values, records in warehouse.query(sql):
        named = [_name(value) for value in values]
        entries.append(Entry(int(cell), tuple(named[:n_groups]), named[-1] if label else None, int(records)))
    return table_of(entries, encoder.n_cells_, labelled=label is not None, missing=missing)


def certify_sql(
    encoder: RestrictedEncoder,
    warehouse: Warehouse,
    table: str | Sequence[str],
    *,
    sensitive: Names,
    label: str | None = None,
    metric: str = "demographic_parity",
    missing: Missing = "refuse",
    **options: Any,
) -> Certificate:
    """Certify an encoder on a table in a database; only counts leave it.

    Parameters
    ----------
    encoder, warehouse, table, sensitive, label, missing
        As in :func:`count_sql`. The label is used only if the metric conditions on it.
    metric : str
    **options
        Other options of :func:`certifare.certify_counts`.
    """
    label = label if metric_of(metric).strata != "all" else None
    counts = count_sql(encoder, warehouse, table, sensitive=sensitive, label=label, missing=missing)
    certificate = certify_counts(counts, metric, **options)
    return msgspec.structs.replace(certificate, assumptions=(*ASSUMPTIONS, NOT_LOOKED_UP))


def quoted_table(table: str | Sequence[str], dialect: str) -> str:
    """Quote a table's name, part by part."""
    return ".".join(_quoted(part, dialect) for part in (table.split(".") if isinstance(table, str) else table))


def _quoted(name: str, dialect: str) -> str:
    from sqlglot import exp

    return str(exp.to_identifier(name, quoted=True).sql(dialect=dialect))


def parse_blindly(text: str) -> str | Comparison:
    """Understand a role without knowing the table's columns: a comparison if it looks like one."""
    found = re.match(r"\s*(\S.*?)\s*(>=|<=|==|!=|≥|≤|≠|=|>|<)", text)
    return text.strip() if found is None else parse_role(text, [found[1]])


def _value(role: str | Comparison, dialect: str) -> str:
    """Write a group or label as SQL: the column, or one of the two names of a comparison."""
    from sqlglot import exp

    if not isinstance(role, Comparison):
        return _quoted(role, dialect)
    column = exp.column(exp.to_identifier(role.column, quoted=True))
    kind = {">=": exp.GTE, ">": exp.GT, "<=": exp.LTE, "<": exp.LT, "==": exp.EQ, "!=": exp.NEQ}[role.operator]
    try:
        number = float(role.value)
    except ValueError:
        operand: Any = exp.Literal.string(role.value)
        absent = exp.Is(this=column, expression=exp.Null())
    else:
        operand = exp.Literal.number(repr(int(number)) if number.is_integer() else repr(number))
        column = exp.cast(column, "DOUBLE")
        nan = exp.IsNan(this=column.copy()) if dialect == "bigquery" else _equals_nan(column)
        absent = exp.or_(exp.Is(this=column.copy(), expression=exp.Null()), nan)
    case = (
        exp.Case()
        .when(absent, exp.Null())
        .when(kind(this=column.copy(), expression=operand), exp.Literal.string(role.true))
        .else_(exp.Literal.string(role.false))
    )
    return str(case.sql(dialect=dialect))


def _equals_nan(column: Any) -> Any:
    from sqlglot import exp

    return exp.EQ(this=column.copy(), expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE"))


def _name(value: Any) -> str | None:
    """Name a value as ``CellCounts.from_cells`` does; None if it is missing."""
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return None
    if isinstance(value, Decimal):
        value = float(value)
    return name_of(value)


def _reach(open_: Callable[[], Any], *failures: type[Exception]) -> Any:
    try:
        return open_()
    except failures as error:
        raise WarehouseError(f"The database cannot be reached: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def without_password(address: str) -> str:
    """Hide the password in an address, if there is one: before the host, or among the options behind it.

    >>> without_password("postgresql://me:secret@host/db"), without_password("postgresql://host/db?user=me&password=x")
    ('postgresql://me:…@host/db', 'postgresql://host/db?user=me&password=…')
    """
    password = urlsplit(address).password
    hidden = address if password is None else address.replace(f":{password}@", ":…@", 1)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1…", hidden, flags=re.IGNORECASE)
