"""SQL queries that count a table's records by cell, group and label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from certifare.certificates.repeats import (
    MOST_TIMES,
    NOTABLE,
    Grouping,
    Repeats,
    agreement_of,
    blocks_of,
    frequencies,
    repeats_of_multiplicities,
)
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.sql import (
    bytes_of,
    check_names,
    feature_columns,
    fraction,
    group_conditions,
    holds,
    identifier,
    is_among,
    known_dialect,
    number_literal,
    quoted,
    quoted_table,
    sql_column,
    text_literal,
    write_cell,
)
from certifare.engines.counting import check_counted_by
from certifare.errors import TableError
from certifare.tables.roles import Comparison, Names, as_names, column_of, parse_role

#: The cell of records that ``apply`` would refuse.
REFUSED = -1
#: Text that a database must return unchanged before it is sent the texts of an encoder.
ODD_TEXT = 'it\'s "odd" \\ `text`; -- %s {x}\n é ∀ '


def counts_query(
    encoder: RestrictedEncoder,
    dialect: str,
    table: Names,
    columns: Mapping[str, str],
    *,
    sensitive: Names,
    label: str | None = None,
) -> str:
    """Return the query that counts a table by cell, group and label, for databases that certifare cannot connect to.

    Its rows are: cell (−1 for records that ``apply`` would refuse), a value for each sensitive column, the label if
    there is one, number of records.

    - ``dialect``: one of :data:`certifare.encoders.sql.DIALECTS`.
    - ``table``: ``"people"``, ``"schema.people"``, or the parts of the name.
    - ``columns``: all columns of the table and their types, as the database names them.
    - ``sensitive``, ``label``: columns, or comparisons such as ``"age>=60"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare import FairTreeEncoder
    >>> from certifare.engines.sql.warehouse import counts_query
    >>> X = pd.DataFrame({"hours": [20, 45] * 50})
    >>> encoder = FairTreeEncoder(min_cell_size=10)
    >>> encoder = encoder.fit(X, X["hours"] > 30, sensitive_features=["f", "m", "m", "f"] * 25)
    >>> columns = {"hours": "INTEGER", "sex": "VARCHAR"}
    >>> counts_query(encoder, "duckdb", "people", columns, sensitive="sex").partition(" FROM ")[0]
    'SELECT "cell", MIN("group_0"), COUNT(*) AS "records"'
    """
    dialect = known_dialect(dialect)
    known = list(columns)
    groups = [parse_role(text, known, "sensitive") for text in as_names(sensitive)]
    roles = {f"group_{i}": role for i, role in enumerate(groups)}
    if label is not None:
        roles["label"] = parse_role(label, known, "label")
    check_names([*(column.name for column in encoder.columns_), *map(column_of, roles.values())], dialect, known)
    features = feature_columns(encoder, dialect, columns)
    check_counted_by(encoder, list(map(str, groups)))
    conditions = group_conditions(encoder, groups, dialect, columns) if encoder.reads_groups else []
    cell = write_cell(encoder, features, dialect, 0, conditions)
    refused = [column.refused for column in features.values() if column.refused is not None]
    if refused:
        cell = f"CASE WHEN {_sql(exp.or_(*refused), dialect)} THEN {REFUSED} ELSE {cell} END"
    called = {name: quoted(name, dialect) for name in ("cell", *roles, "records", "rows")}
    selected, shown, by = [f"{cell} AS {called['cell']}"], [called["cell"]], [called["cell"]]
    for name, role in roles.items():
        value, is_text = _value(role, columns, dialect)
        selected.append(f"{_sql(value, dialect)} AS {called[name]}")
        # Texts that a collation treats as equal are different groups.
        by.append(_sql(bytes_of(exp.column(identifier(name, dialect)), dialect), dialect) if is_text else called[name])
        shown.append(f"MIN({called[name]})" if is_text else called[name])
    rows = f"SELECT {', '.join(selected)} FROM {quoted_table(table, dialect)}"  # noqa: S608
    return (
        f"SELECT {', '.join(shown)}, COUNT(*) AS {called['records']} FROM ({rows}) AS {called['rows']} "  # noqa: S608
        f"GROUP BY {', '.join(by)}"
    )


def multiplicities_query(dialect: str, table: Names, columns: Mapping[str, str]) -> str:
    """Return the query that counts how many different records occur once, twice and so on.

    Its rows are: number of occurrences, number of different records. ``columns`` are those that are compared.
    """
    compared = _Compared.of(dialect, table, columns)
    return _counted_by(("times",), compared.kinds(()), ("COUNT(*)",), compared.quoted)


def grouping_query(dialect: str, table: Names, columns: Mapping[str, str], left_out: Iterable[int]) -> str:
    """Return the query that groups records by all columns except some, which are given by position.

    Its rows are: size of a group (:data:`MOST_TIMES` for that and more), whether its records differ (0 or 1),
    number of such groups, sums of squares of their sizes and of their numbers of different records.
    """
    compared = _Compared.of(dialect, table, columns)
    q, left_out = compared.quoted, set(left_out)
    sized = compared.sized([name for i, name in enumerate(compared.names) if i not in left_out])
    shown = f"CASE WHEN {q('size')} > {MOST_TIMES} THEN {MOST_TIMES} ELSE {q('size')} END AS {q('told')}"
    mixed = f"CASE WHEN {q('kinds')} > 1 THEN 1 ELSE 0 END AS {q('mixed')}"
    groups = f"SELECT {q('size')}, {q('kinds')}, {shown}, {mixed} FROM ({sized}) AS {q('groups')}"  # noqa: S608
    return _counted_by(("told", "mixed"), groups, ("COUNT(*)", *compared.squares), q)


def agreement_query(dialect: str, table: Names, columns: Mapping[str, str], left_out: Iterable[int]) -> str:
    """Return the query that sums squared numbers of records, and of different ones, that agree in some columns."""
    compared = _Compared.of(dialect, table, columns)
    agreeing = compared.sized([compared.names[i] for i in left_out])
    return f"SELECT {', '.join(compared.squares)} FROM ({agreeing}) AS {compared.quoted('counted')}"  # noqa: S608


def ask_repeats(
    ask: Callable[[str], Iterable[Sequence[Any]]], dialect: str, table: Names, columns: Mapping[str, str]
) -> Repeats:
    """Count the records of a table that equal another one in every column, and test whether chance explains it.

    Columns are left out only if a notable share of the records has an equal one.

    - ``ask``: runs a query and returns its rows, like :meth:`certifare.engines.sql.warehouse.Warehouse.query`.
    - ``columns``: the columns that are compared, and their types, as the database names them.
    """
    found = [(int(times), int(n)) for times, n in ask(multiplicities_query(dialect, table, columns))]
    different = sum(n for _, n in found)
    if sum(n for times, n in found if times > 1) < NOTABLE * different or len(columns) < 2:
        return repeats_of_multiplicities(found)
    groupings = []
    for block in blocks_of(len(columns)):
        groups = [*ask(grouping_query(dialect, table, columns, block))]
        (same,) = ask(agreement_query(dialect, table, columns, block))
        groupings.append(_grouping_of(found, groups, same))
    return repeats_of_multiplicities(found, groupings)


def examination(dialect: str) -> tuple[str, tuple[Any, ...]]:
    """Return a query that tests whether a database reads and compares values as certifare assumes, and its only row."""

    def truth(condition: Any) -> Any:
        return exp.Case().when(condition, exp.Literal.number(1)).else_(exp.Literal.number(0))

    text, third = exp.Literal.string("a"), 1 / 3
    shown = {
        _sql(exp.Literal.string(ODD_TEXT), dialect): ODD_TEXT,
        _sql(truth(is_among(text, ["A", "a ", "á", "", "aa"], "", dialect)), dialect): 0,
        _sql(truth(is_among(text, ["b", "a"], "", dialect)), dialect): 1,
        _sql(truth(exp.EQ(this=number_literal(third, dialect), expression=fraction(third))), dialect): 1,
    }
    return f"SELECT {', '.join(shown)}", tuple(shown.values())


@dataclass(frozen=True)
class _Compared:
    """The columns in which records are compared, by exact values, whatever the database treats as equal."""

    dialect: str
    names: tuple[str, ...]  # quoted aliases of the columns
    source: str  # the query that selects them

    @classmethod
    def of(cls, dialect: str, table: Names, columns: Mapping[str, str]) -> _Compared:
        """Select columns of a table."""
        known_dialect(dialect)
        check_names(columns, dialect, columns)
        names = tuple(quoted(f"column_{i}", dialect) for i in range(len(columns)))
        values = [
            f"{_sql(_told_apart(name, columns, dialect), dialect)} AS {alias}"
            for name, alias in zip(columns, names, strict=True)
        ]
        return cls(dialect, names, f"SELECT {', '.join(values)} FROM {quoted_table(table, dialect)}")  # noqa: S608

    def kinds(self, shown: Sequence[str]) -> str:
        """Return the query that counts equal records, and shows some of their columns."""
        return (
            f"SELECT {', '.join([*shown, 'COUNT(*)'])} AS {self.quoted('times')} "  # noqa: S608
            f"FROM ({self.source}) AS {self.quoted('rows')} GROUP BY {', '.join(self.names)}"
        )

    def sized(self, shown: Sequence[str]) -> str:
        """Return the query that groups records by some columns: the size of each group, and its different records."""
        q = self.quoted
        return (
            f"SELECT SUM({q('times')}) AS {q('size')}, COUNT(*) AS {q('kinds')} "  # noqa: S608
            f"FROM ({self.kinds(shown)}) AS {q('records')} GROUP BY {', '.join(shown)}"
        )

    @property
    def squares(self) -> tuple[str, ...]:
        """Sums of squared sizes of groups, and of squared numbers of different records."""
        double = exp.DataType.build("DOUBLE").sql(dialect=self.dialect)
        names = (self.quoted("size"), self.quoted("kinds"))
        return tuple(f"SUM(CAST({name} AS {double}) * CAST({name} AS {double}))" for name in names)

    def quoted(self, name: str) -> str:
        """Return a quoted name."""
        return quoted(name, self.dialect)


def _counted_by(by: Sequence[str], inner: str, figures: Sequence[str], quoted: Callable[[str], str]) -> str:
    names = ", ".join(quoted(name) for name in by)
    return f"SELECT {names}, {', '.join(figures)} FROM ({inner}) AS {quoted('counted')} GROUP BY {names}"  # noqa: S608


def _grouping_of(times: Sequence[tuple[int, int]], groups: Sequence[Sequence[Any]], same: Sequence[Any]) -> Grouping:
    """Combine the rows of the two queries for a left-out block with how often records occur."""
    counted = np.zeros((2, MOST_TIMES + 3), dtype=np.int64)
    for size, is_mixed, n, *_ in groups:
        counted[int(is_mixed), int(size)] += int(n)
    occurring = frequencies(np.repeat([r for r, _ in times], [n for _, n in times]))
    grouped = [sum(float(row[3 + i]) for row in groups) for i in range(2)]
    equal = [sum(n * float(r) ** power for r, n in times) for power in (2, 0)]
    totals = [sum(n * r**power for r, n in times) for power in (1, 0)]
    agreements = [agreement_of(float(same[i]), equal[i], grouped[i], totals[i]) for i in range(2)]
    return Grouping(counted[0], counted[1], occurring - counted[0], max(agreements))


def _value(role: str | Comparison, columns: Mapping[str, str], dialect: str) -> tuple[Any, bool]:
    """Return the expression of a group or label (NULL if missing), and whether it is text."""
    name = column_of(role)
    column = sql_column(name, columns[name], dialect)
    if isinstance(role, Comparison):
        true, false = text_literal(role.true, name), text_literal(role.false, name)
        case = exp.Case().when(column.missing, exp.Null()).when(holds(role, column, dialect), true).else_(false)
        return case, True
    if column.kind == "number":
        return exp.Case().when(column.missing, exp.Null()).else_(column.number), False
    return column.raw, column.kind == "text"


def _told_apart(name: str, columns: Mapping[str, str], dialect: str) -> Any:
    """Return the expression by which values of a column are compared, NULL if missing."""
    try:
        column = sql_column(name, columns[name], dialect)
    except TableError:  # a date, a UUID and the like
        return bytes_of(exp.cast(exp.column(identifier(name, dialect)), "TEXT"), dialect)
    if column.kind == "text":
        return bytes_of(column.raw, dialect)
    return exp.Case().when(column.missing, exp.Null()).else_(column.raw)


def _sql(expression: Any, dialect: str) -> str:
    return str(expression.sql(dialect=dialect))
