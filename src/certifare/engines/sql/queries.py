"""Queries that count a table in a database, by cell, group and label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.expressions import (
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
    quoted_table,
    sql_column,
    text_literal,
    write_case,
)
from certifare.engines.counting import check_counted_by
from certifare.errors import NotPublishableError
from certifare.roles import Comparison, Names, as_names, parse_role

REFUSED = -1
"""The cell of records that ``apply`` refuses."""

ODD_TEXT = 'it\'s "odd" \\ `text`; -- %s {x}\n é ∀ '
"""What a database must read back unchanged before it is sent the texts of an encoder."""


def counts_query(
    encoder: RestrictedEncoder,
    dialect: str,
    table: Names,
    columns: Mapping[str, str],
    *,
    sensitive: Names,
    label: str | None = None,
) -> str:
    """Write the query that counts a table by cell, group and label: for databases that certifare cannot reach itself.

    Parameters
    ----------
    encoder : FairTreeEncoder
    dialect : str
        One of :data:`certifare.encoders.expressions.DIALECTS`.
    table : str or sequence of str
        ``"people"``, ``"schema.people"``, or the parts of the name.
    columns : mapping of str to str
        All columns of the table and their types, as the database writes them.
    sensitive : str or sequence of str
        Sensitive columns, or comparisons such as ``"age>=60"``.
    label : str, optional
        The label column, or a comparison.

    Returns
    -------
    str
        Its rows are: cell (−1 for records that ``apply`` refuses), one value for each sensitive column, the label if
        there is one, number of records.

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
    if not hasattr(encoder, "to_sql"):
        raise NotPublishableError(
            f"{type(encoder).__name__} cannot be written as SQL; count the records with certifare count instead."
        )
    known = list(columns)
    roles = {f"group_{i}": parse_role(text, known, "group") for i, text in enumerate(as_names(sensitive))}
    if label is not None:
        roles["label"] = parse_role(label, known, "label")
    read = [role.column if isinstance(role, Comparison) else role for role in roles.values()]
    check_names([*(column.name for column in encoder.columns_), *read], dialect, known)
    features = feature_columns(encoder, dialect, columns)
    conditions = []
    if encoder.reads_groups:
        check_counted_by(encoder, [str(role) for name, role in roles.items() if name != "label"])
        group_columns = [role for name, role in roles.items() if name != "label"]
        conditions = group_conditions(encoder, group_columns, dialect, columns)
    cell = write_case(encoder, features, dialect, 0, conditions)
    refused = [column.infinite for column in features.values() if column.infinite is not None]
    if refused:
        cell = f"CASE WHEN {_sql(exp.or_(*refused), dialect)} THEN {REFUSED} ELSE {cell} END"
    quoted = {name: _sql(identifier(name, dialect), dialect) for name in ("cell", *roles, "records", "rows")}
    selected, shown, by = [f"{cell} AS {quoted['cell']}"], [quoted["cell"]], [quoted["cell"]]
    for name, role in roles.items():
        value, is_text = _value(role, columns, dialect)
        selected.append(f"{_sql(value, dialect)} AS {quoted[name]}")
        # Texts that a collation takes for one are different groups.
        by.append(_sql(bytes_of(exp.column(identifier(name, dialect)), dialect), dialect) if is_text else quoted[name])
        shown.append(f"MIN({quoted[name]})" if is_text else quoted[name])
    rows = f"SELECT {', '.join(selected)} FROM {quoted_table(table, dialect)}"  # noqa: S608
    return (
        f"SELECT {', '.join(shown)}, COUNT(*) AS {quoted['records']} FROM ({rows}) AS {quoted['rows']} "  # noqa: S608
        f"GROUP BY {', '.join(by)}"
    )


def examination(dialect: str) -> tuple[str, tuple[Any, ...]]:
    """Write a query that shows whether a database reads and compares as is taken for granted here.

    Parameters
    ----------
    dialect : str

    Returns
    -------
    sql : str
    expected : tuple
        The one row that it must give.
    """

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


def _value(role: str | Comparison, columns: Mapping[str, str], dialect: str) -> tuple[Any, bool]:
    """Write a group or label, NULL where it is missing, and say whether it is text."""
    name = role.column if isinstance(role, Comparison) else role
    column = sql_column(name, columns[name], dialect)
    if isinstance(role, Comparison):
        true, false = text_literal(role.true, name), text_literal(role.false, name)
        case = exp.Case().when(column.missing, exp.Null()).when(holds(role, column, dialect), true).else_(false)
        return case, True
    if column.kind == "number":
        return exp.Case().when(column.missing, exp.Null()).else_(column.number), False
    return column.raw, column.kind == "text"


def _sql(expression: Any, dialect: str) -> str:
    return str(expression.sql(dialect=dialect))
