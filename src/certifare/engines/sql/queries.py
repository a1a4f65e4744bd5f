"""Queries that count a table in a database: by cell, group and label, of all records or of some that are drawn.

A draw is by a hash: whether a record is kept follows from the MD5 of its key and a salt, so that a database draws the
same records however it orders or parts them (docs/warehouse.md says why that is fair).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from certifare.certificates.counts import (
    CLUSTER_MISSING,
    OTHER_KEPT,
    THINNED,
    THINNED_CLUSTERS,
    WEIGHT_MISSING,
    Missing,
)
from certifare.certificates.sampling import check_population
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
from certifare.errors import ArgumentError, ColumnTypeError, NotPublishableError
from certifare.randomness import number
from certifare.roles import Comparison, Names, as_names, parse_role

REFUSED = -1
"""The cell of records that ``apply`` refuses."""

KEPT, INCOMPLETE = "kept", "incomplete"
"""What became of a record that is counted, or that lacks a group or label; of others, why they are left out."""

BITS = 52
"""Of a hash that make a uniform number: as many hexadecimal digits as a double holds without rounding."""

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
    rows = _rows(encoder, known_dialect(dialect), table, columns, sensitive, label)
    q = rows.quoted
    return (
        f"SELECT {', '.join(rows.shown)}, COUNT(*) AS {q('records')} FROM ({rows.select()}) AS {q('rows')} "  # noqa: S608
        f"GROUP BY {', '.join(rows.by)}"
    )


@dataclass(frozen=True)
class Draw:
    """Which records of a table are drawn, as in :func:`certifare.thin` and :func:`certifare.one_per_cluster`.

    Attributes
    ----------
    weight, cluster : str or None
        Columns.
    population : {"clusters", "records"}
    max_weight : float or None
    key : tuple of str
        Columns that together identify a record.
    seed : int
    part : str
        Which records these are: draws of different parts are independent, whatever the seed.
    """

    weight: str | None
    cluster: str | None
    population: str
    max_weight: float | None
    key: tuple[str, ...]
    seed: int
    part: str

    def __post_init__(self) -> None:
        check_population(self.population, clustered=self.cluster is not None)
        if self.max_weight is not None and not self.thins:
            raise ArgumentError("max_weight is for thinning, and every cluster keeps a record: leave it out.")
        if not self.key:
            raise ArgumentError(
                "In a database, records are drawn by a hash of what identifies them: name those columns (--row-key)."
            )

    @property
    def thins(self) -> bool:
        """Whether records (or clusters) are left out in proportion to their weight."""
        return self.cluster is None or self.population == "records"

    @property
    def roles(self) -> tuple[str, ...]:
        """Columns that say what is drawn."""
        return tuple(name for name in (self.weight, self.cluster) if name is not None)


def draw_query(
    encoder: RestrictedEncoder,
    dialect: str,
    table: Names,
    columns: Mapping[str, str],
    draw: Draw,
    *,
    sensitive: Names,
    label: str | None = None,
    missing: Missing = "refuse",
) -> str:
    """Write the query that draws records and counts what became of all of them.

    Returns
    -------
    str
        Its rows are: cell, groups and label as in :func:`counts_query`, what became of the records, their number;
        then the largest size (total weight) of a cluster, or weight; the sum of these sizes and of their squares; the
        lightest and the heaviest weight.
    """
    rows = _rows(encoder, dialect, table, columns, sensitive, label, (*draw.key, *draw.roles))
    q = rows.quoted
    lacking = [*([] if rows.label is None else [rows.label]), *([] if missing == "unknown" else rows.groups)]
    fates = {
        " OR ".join(f"{name} IS NULL" for name in lacking) or "1 = 0": f"'{INCOMPLETE}'",
        f"{q('cluster')} IS NULL": f"'{CLUSTER_MISSING}'",
        f"{q('weight')} IS NULL": f"'{WEIGHT_MISSING}'",
        f"{q('weight')} <= 0": f"'{THINNED if draw.cluster is None else OTHER_KEPT}'",
    }
    kept = f"{q('fate')} = '{KEPT}'"
    ends = {f"NOT {kept}": q("fate")}
    place, size = "1", q("weight")
    if draw.cluster is not None:
        ends[f"{q('place')} > 1"] = f"'{OTHER_KEPT}'"
        # The largest of u^(1/w) falls on each record of a cluster with probability w / Σw (Efraimidis, Spirakis).
        chance = f"CASE WHEN {kept} THEN LN({_uniform(q('one per cluster'), dialect)}) / {q('weight')} END"
        members = f"PARTITION BY {q('fate')}, {q('cluster')}"
        place = f"ROW_NUMBER() OVER ({members} ORDER BY {chance} DESC, {q('key')})"
        size = f"SUM({q('weight')}) OVER ({members})"
    if draw.thins:
        most = q("largest") if draw.max_weight is None else _sql(number_literal(draw.max_weight, dialect), dialect)
        reason = THINNED if draw.cluster is None else THINNED_CLUSTERS
        ends[f"{_uniform(q('thinning'), dialect)} * {most} >= {q('size')}"] = f"'{reason}'"
    own = {
        "key": _key(draw, dialect),
        "weight": _weight(draw.weight, columns, dialect),
        "cluster": exp.Literal.number(1) if draw.cluster is None else _cluster(draw.cluster, columns, dialect),
    }
    steps = {
        "rows": rows.select(*(f"{_sql(value, dialect)} AS {q(name)}" for name, value in own.items())),
        "known": f"SELECT *, {_case(fates)} AS {q('fate')}, {_hashes(draw, dialect)} FROM {q('rows')}",  # noqa: S608
        "placed": f"SELECT *, {place} AS {q('place')}, {size} AS {q('size')} FROM {q('known')}",  # noqa: S608
        "sized": f"SELECT *, MAX({q('size')}) OVER (PARTITION BY {q('fate')}) AS {q('largest')} FROM {q('placed')}",  # noqa: S608
        "drawn": f"SELECT *, {_case(ends)} AS {q('end')} FROM {q('sized')}",  # noqa: S608
    }
    first = f"CASE WHEN {kept} AND {q('place')} = 1 THEN {q('size')} ELSE 0 END"
    figures = [
        "COUNT(*)",
        f"MAX(CASE WHEN {kept} THEN {q('largest')} END)",
        f"SUM({first})",
        f"SUM({first} * {first})",
        f"MIN({q('weight')})",
        f"MAX({q('weight')})",
    ]
    return (
        f"WITH {', '.join(f'{q(name)} AS ({step})' for name, step in steps.items())} "  # noqa: S608
        f"SELECT {', '.join([*rows.shown, q('end'), *figures])} FROM {q('drawn')} "
        f"GROUP BY {', '.join([*rows.by, q('end')])}"
    )


def key_query(dialect: str, table: Names, draw: Draw) -> str:
    """Write the query that shows whether a key identifies records: their number, with a key, with different keys."""
    key = identifier("key", dialect).sql(dialect=dialect)
    inner = f"SELECT {_sql(_key(draw, dialect), dialect)} AS {key} FROM {quoted_table(table, dialect)}"  # noqa: S608
    return f"SELECT COUNT(*), COUNT({key}), COUNT(DISTINCT {key}) FROM ({inner}) AS {key}"  # noqa: S608


def examination(dialect: str, *, drawing: bool = False) -> tuple[str, tuple[Any, ...]]:
    """Write a query that shows whether a database reads and compares as is taken for granted here.

    Parameters
    ----------
    dialect : str
    drawing : bool
        Whether records are to be drawn by a hash.

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
    if drawing:
        text = exp.Literal.string(ODD_TEXT)
        shown[_uniform(_sql(_md5(text, dialect), dialect), dialect)] = uniform_of(ODD_TEXT)
    return f"SELECT {', '.join(shown)}", tuple(shown.values())


def uniform_of(text: str) -> float:
    """Give the number in (0, 1) that a database makes of a text."""
    digits = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[: BITS // 4]
    return (int(digits, 16) + 0.5) / float(2**BITS)


@dataclass(frozen=True)
class _Rows:
    """A query that gives one row per record: its cell, groups and label, and what else is asked for.

    Attributes
    ----------
    dialect : str
    selected : tuple of str
    source : str
        The table.
    groups : tuple of str
        Names of the columns of groups; they are NULL where a group is missing.
    label : str or None
        The same for the label.
    shown, by : tuple of str
        How rows that are counted together are shown, and what they have in common.
    """

    dialect: str
    selected: tuple[str, ...]
    source: str
    groups: tuple[str, ...]
    label: str | None
    shown: tuple[str, ...]
    by: tuple[str, ...]

    def select(self, *others: str) -> str:
        """Write the query."""
        return f"SELECT {', '.join((*self.selected, *others))} FROM {self.source}"  # noqa: S608

    def quoted(self, name: str) -> str:
        """Write a name."""
        return _sql(identifier(name, self.dialect), self.dialect)


def _rows(
    encoder: RestrictedEncoder,
    dialect: str,
    table: Names,
    columns: Mapping[str, str],
    sensitive: Names,
    label: str | None,
    others: Sequence[str] = (),
) -> _Rows:
    if not hasattr(encoder, "to_sql"):
        raise NotPublishableError(
            f"{type(encoder).__name__} cannot be written as SQL; count the records with certifare count instead."
        )
    known = list(columns)
    roles = {f"group_{i}": parse_role(text, known, "group") for i, text in enumerate(as_names(sensitive))}
    if label is not None:
        roles["label"] = parse_role(label, known, "label")
    read = [role.column if isinstance(role, Comparison) else role for role in roles.values()]
    check_names([*(column.name for column in encoder.columns_), *read, *others], dialect, known)
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
    quoted = {name: _sql(identifier(name, dialect), dialect) for name in ("cell", *roles)}
    selected, shown, by = [f"{cell} AS {quoted['cell']}"], [quoted["cell"]], [quoted["cell"]]
    for name, role in roles.items():
        value, is_text = _value(role, columns, dialect)
        selected.append(f"{_sql(value, dialect)} AS {quoted[name]}")
        # Texts that a collation takes for one are different groups.
        by.append(_sql(bytes_of(exp.column(identifier(name, dialect)), dialect), dialect) if is_text else quoted[name])
        shown.append(f"MIN({quoted[name]})" if is_text else quoted[name])
    return _Rows(
        dialect=dialect,
        selected=tuple(selected),
        source=quoted_table(table, dialect),
        groups=tuple(quoted[name] for name in roles if name != "label"),
        label=quoted.get("label"),
        shown=tuple(shown),
        by=tuple(by),
    )


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


def _weight(name: str | None, columns: Mapping[str, str], dialect: str) -> Any:
    """Write a record's weight as a double, NULL where it is missing."""
    if name is None:
        return exp.cast(exp.Literal.number(1), "DOUBLE")
    column = sql_column(name, columns[name], dialect)
    if column.kind not in ("integer", "number"):
        raise ColumnTypeError(f"Column {name!r} has the type {columns[name]}; weights must be numbers.")
    return exp.Case().when(column.missing, exp.Null()).else_(column.number)


def _cluster(name: str, columns: Mapping[str, str], dialect: str) -> Any:
    """Write what clusters are told apart by, NULL where it is missing."""
    try:
        column = sql_column(name, columns[name], dialect)
    except ColumnTypeError:  # a date, a UUID and the like
        return bytes_of(exp.cast(exp.column(identifier(name, dialect)), "TEXT"), dialect)
    if column.kind == "text":
        return bytes_of(column.raw, dialect)
    return exp.Case().when(column.missing, exp.Null()).else_(column.raw)


def _key(draw: Draw, dialect: str) -> Any:
    """Write what identifies a record as hexadecimal digits, NULL where it is missing."""
    return _joined([_md5(exp.cast(exp.column(identifier(name, dialect)), "TEXT"), dialect) for name in draw.key])


def _hashes(draw: Draw, dialect: str) -> str:
    """Write a hash of the key for each choice that is made."""
    key = exp.column(identifier("key", dialect))
    hashes = []
    for purpose, made in (("one per cluster", draw.cluster is not None), ("thinning", draw.thins)):
        if made:
            salt = exp.Literal.string(f"{number(draw.seed, purpose, draw.part, bits=128):032x}")
            name = _sql(identifier(purpose, dialect), dialect)
            hashes.append(f"{_sql(_md5(_joined([salt, key]), dialect), dialect)} AS {name}")
    return ", ".join(hashes)


def _md5(text: Any, dialect: str) -> Any:
    """Write the MD5 of a text as 32 hexadecimal digits."""
    return exp.MD5(this=bytes_of(text, dialect) if dialect == "trino" else text.copy())


def _joined(texts: Sequence[Any]) -> Any:
    return texts[0] if len(texts) == 1 else exp.Concat(expressions=list(texts), safe=False, coalesce=False)


def _uniform(digits: str, dialect: str) -> str:
    """Write the number in (0, 1) that the first digits of a hash make."""
    # Digits are looked up one by one: databases have no common way to read hexadecimal numbers.
    column, alphabet, n = exp.Var(this=digits), exp.Literal.string("0123456789abcdef"), BITS // 4
    terms = []
    for i in range(n):
        digit = exp.Substring(this=column.copy(), start=exp.Literal.number(i + 1), length=exp.Literal.number(1))
        place = exp.cast(exp.StrPosition(this=alphabet.copy(), substr=digit), "BIGINT")
        terms.append(f"{_sql(place, dialect)} * {16 ** (n - 1 - i)}")
    # Positions count from 1.
    total = f"{' + '.join(terms)} - {(16**n - 1) // 15}"
    double = exp.DataType.build("DOUBLE").sql(dialect=dialect)
    return f"((CAST({total} AS {double}) + 0.5) / {2**BITS})"


def _case(choices: Mapping[str, str]) -> str:
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in choices.items())
    return f"CASE {whens} ELSE '{KEPT}' END"


def _sql(expression: Any, dialect: str) -> str:
    return str(expression.sql(dialect=dialect))
