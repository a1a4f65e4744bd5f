"""Encoders as SQL: one expression that finds the same cells where the data is.

Trees are a ``CASE`` expression; encoders over scores are queries within each other (:mod:`.score_sql`).

Databases compare in their own ways: a collation may take ``a`` for ``A`` or leave out trailing blanks, NaN may equal
itself, names may differ in case alone. Here text is compared byte by byte and numbers as the doubles that ``apply``
sees; NULL and NaN are both missing; a category that was not seen in training goes where ``apply`` sends it.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import sqlglot
from sqlglot import exp

from certifare.errors import ArgumentError, EncoderError, GroupError, RoleError, TableError
from certifare.foundation.levels import INTERSECTION, UNKNOWN, name_of
from certifare.growth import Bins, CategoricalBins, Split
from certifare.tables.frames import Value
from certifare.tables.roles import Comparison, absent, parse_role

if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.tree import FairTreeEncoder

#: How text is compared byte by byte, whatever its collation, in each dialect that certifare writes.
BYTES = {
    "duckdb": "ENCODE(:text)",
    "postgres": ':text COLLATE "C"',
    "sqlite": ":text COLLATE BINARY",
    "spark": "CAST(:text AS BINARY)",
    "databricks": "CAST(:text AS BINARY)",
    "bigquery": "CAST(:text AS BYTES)",
    "snowflake": "TO_BINARY(:text, 'UTF-8')",
    "mysql": "CAST(CONVERT(:text USING utf8mb4) AS BINARY)",
    "redshift": "CAST(:text AS VARBYTE)",
    "trino": "TO_UTF8(:text)",
}

DIALECTS = tuple(BYTES)

#: There NaN is one value, above all others. Elsewhere it equals nothing, or does not exist.
NAN_EQUALS_ITSELF = frozenset({"duckdb", "postgres", "redshift", "spark", "databricks", "snowflake"})
#: There quoted names that differ in case alone are different names.
CASE_MATTERS = frozenset({"postgres", "snowflake"})
#: Whether ``CHAR(n)`` is read with its trailing blanks. Elsewhere the type is refused.
PADDED = {"postgres": True, "snowflake": False, "mysql": False}
#: Characters that no name may hold; quoted, some of them would not stay in it.
FORBIDDEN = {"bigquery": '!"$()*,./;?@[\\]^`{}~'}
#: In bytes, in PostgreSQL, which takes the beginning of a longer one for the name.
LONGEST_NAME = 63
#: Numbers beyond are taken for infinite.
LARGEST = "1.7e308"
#: Decimals with more significant digits are written as text and cast, so that every database reads the same double.
SHORT = 15

DType = exp.DataType.Type
INTEGERS = exp.DataType.INTEGER_TYPES - {DType.BIT, DType.INT128, DType.UINT128, DType.INT256, DType.UINT256}
# Longer integers are turned into doubles like decimals: not every database rounds them once only.
DECIMALS = (exp.DataType.INTEGER_TYPES - INTEGERS - {DType.BIT}) | {DType.DECIMAL, DType.BIGDECIMAL}
TEXTS = exp.DataType.TEXT_TYPES | {DType.ENUM}
READ = TEXTS | INTEGERS | DECIMALS | exp.DataType.FLOAT_TYPES | {DType.BOOLEAN}

#: Types that columns are assumed to have if the database is not asked.
DEFAULT_TYPES = {"number": "DOUBLE", "boolean": "BOOLEAN", "text": "TEXT"}


@dataclass(frozen=True)
class SqlColumn:
    """A column of a database, read as ``apply`` reads the same values; all but its name and kind are expressions."""

    name: str
    kind: Literal["integer", "number", "boolean", "text"]
    raw: Any  # the column itself; text with the blanks that belong to it
    number: Any  # a number or a truth value: a double, or a whole number that can be compared with one
    missing: Any  # condition for a value that is missing; never NULL
    refused: Any  # condition for a value that ``apply`` refuses: an infinite number


def sql_column(name: str, type_: str, dialect: str, wanted: str | None = None) -> SqlColumn:
    """Say how a column is read."""
    column = exp.column(identifier(name, dialect))
    null = exp.Is(this=column, expression=exp.Null())
    known = _known_type(type_, dialect)
    if known.this == DType.NULL:  # a column without any value fits every type
        known = exp.DataType.build(DEFAULT_TYPES[wanted or "text"])
    if wanted is not None and (wanted == "text") != (known.this in TEXTS) and known.this in READ:
        now, then = ("numbers", "text") if wanted == "text" else ("text", "numbers")
        raise TableError(f"Column {name!r} holds {now} ({type_}), but held {then} in the training records.")
    if known.this in TEXTS and not (known.this in (DType.CHAR, DType.NCHAR) and dialect not in PADDED):
        text = exp.cast(column, "TEXT")  # enumerations, and types with an equality of their own
        if known.this in (DType.CHAR, DType.NCHAR) and PADDED[dialect]:
            width = known.expressions[0].this if known.expressions else exp.Literal.number(1)
            text = exp.Pad(this=text, expression=width, is_left=False)
        return SqlColumn(name, "text", text, None, null, None)
    if known.this == DType.BOOLEAN:
        return SqlColumn(name, "boolean", column, exp.cast(column, "INT"), null, None)
    if known.this in INTEGERS:
        return SqlColumn(name, "integer", column, exp.cast(column, "DOUBLE"), null, None)
    if known.this in DECIMALS or known.this in exp.DataType.FLOAT_TYPES:
        exact = exp.cast(column, "TEXT") if known.this in DECIMALS else column
        double = exp.cast(exact, "DOUBLE")
        nan = _is_nan(double, dialect)
        bound = exp.cast(exp.Literal.string(LARGEST), "DOUBLE")
        infinite = exp.and_(exp.GT(this=exp.Abs(this=double.copy()), expression=bound), exp.not_(nan))
        return SqlColumn(name, "number", column, double, exp.or_(null, nan), infinite)
    raise TableError(
        f"Column {name!r} has the type {type_}, which is not read as numbers, truth values or text are; cast it in a "
        "view and count that."
    )


def check_names(names: Iterable[str], dialect: str, table: Iterable[str] | None = None) -> None:
    """Refuse columns that a table lacks, or that the database does not tell from others."""
    names = dict.fromkeys(names)
    known = dict.fromkeys(names if table is None else table)
    fold: Callable[[str], str] = str if dialect in CASE_MATTERS else str.casefold
    alike: dict[str, list[str]] = {}
    for name in known:
        alike.setdefault(fold(name), []).append(name)
    for name in names:
        if name not in known:
            raise absent(name, list(known))
        first, *others = alike[fold(name)]
        if others:
            raise TableError(
                f"Columns {first!r} and {others[0]!r} are one name for {dialect}, which does not tell upper from lower "
                "case: rename one."
            )


def write_sql(encoder: "RestrictedEncoder", dialect: str, table: str | Sequence[str] | None, name: str) -> str:
    """Write a fitted encoder as SQL; see :meth:`RestrictedEncoder.to_sql`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(encoder)
    dialect = known_dialect(dialect)
    roles = group_roles(encoder) if encoder.reads_groups else []
    read = [role.column if isinstance(role, Comparison) else role for role in roles]
    check_names([*(column.name for column in encoder.columns_), *read], dialect)
    columns = feature_columns(encoder, dialect)
    groups = group_conditions(encoder, roles, dialect) if roles else []
    if table is None:
        return write_cell(encoder, columns, dialect, 0, groups)
    if not name.strip():
        raise ArgumentError(f"name={name!r}: the column of cells needs a name.")
    cell = write_cell(encoder, columns, dialect, 1, groups)
    return f"SELECT\n  *,\n{cell} AS {quoted(name, dialect)}\nFROM {quoted_table(table, dialect)}"


def known_dialect(dialect: str) -> str:
    """Return the name of a dialect; refuse one whose comparisons are not known."""
    dialect = {"postgresql": "postgres", "mariadb": "mysql"}.get(dialect, dialect)
    if dialect not in BYTES:
        raise EncoderError(f"There is no SQL for the dialect {dialect!r}; give one of {', '.join(DIALECTS)}.")
    return dialect


def feature_columns(
    encoder: "RestrictedEncoder", dialect: str, types: Mapping[str, str] | None = None
) -> dict[str, SqlColumn]:
    """Say how the columns that the encoder looks at are read: all of them, or those that its tree splits."""
    from certifare.encoders.tree import FairTreeEncoder

    used = set(range(len(encoder.columns_)))
    if isinstance(encoder, FairTreeEncoder):
        used = {encoder.growth_.splits[j].column for j in range(encoder.n_cells_ - 1)}
    columns = {}
    for i, column in enumerate(encoder.columns_):
        if i in used:
            identifies = column.name == encoder.identifier
            default = "BIGINT" if identifies and column.type == "number" else DEFAULT_TYPES[column.type]
            found = sql_column(column.name, default if types is None else types[column.name], dialect, column.type)
            # Records that nothing identifies are refused: their cell may depend on it.
            columns[column.name] = replace(found, refused=found.missing) if identifies else found
    return columns


def write_cell(
    encoder: "RestrictedEncoder",
    columns: Mapping[str, SqlColumn],
    dialect: str,
    depth: int = 0,
    groups: Sequence[Any] = (),
) -> str:
    """Write the expression that gives the cell."""
    from certifare.encoders.tree import FairTreeEncoder

    if not isinstance(encoder, FairTreeEncoder):
        from certifare.encoders.score_sql import write_scored

        return "  " * depth + write_scored(encoder, columns, dialect, groups)
    return "\n".join("  " * (depth + below) + line for below, line in _tree_lines(encoder, columns, dialect))


def group_roles(encoder: "RestrictedEncoder") -> list[str | Comparison]:
    """Say which columns, or comparisons, the groups of an encoder were."""
    values = group_values(encoder)
    names = [encoder.group_column_] if len(values[0]) == 1 else encoder.group_column_.split(INTERSECTION)
    if len(names) != len(values[0]):
        raise EncoderError(
            f"The sensitive columns {encoder.group_column_!r} cannot be told apart by their names: rename them."
        )
    return [_role(name, {of_group[i] for of_group in values}) for i, name in enumerate(names)]


def group_values(encoder: "RestrictedEncoder") -> list[tuple[Value, ...]]:
    """Give the values of the sensitive columns that make each group, but for the one that pools all others.

    A table names its groups, in one column: the names of several are taken apart, and what names numbers or truth
    values is taken for those.
    """
    n_columns = encoder.group_column_.count(INTERSECTION) + 1
    values: list[tuple[Value, ...]] = []
    named = [group for group in encoder.groups_ if group != encoder.other_group]
    for group in named:
        parts = tuple(group.split(INTERSECTION)) if isinstance(group, str) else ()
        values.append(group if isinstance(group, tuple) else parts if len(parts) == n_columns else (group,))
    if len({len(of_group) for of_group in values}) > 1:
        values = [(group,) for group in named if not isinstance(group, tuple)]
    return list(zip(*(_read(column) for column in zip(*values, strict=True)), strict=True))


def _read(names: Sequence[Value]) -> Sequence[Value]:
    """Read names of numbers, or of truth values, as such; the name of missing values stays."""
    told = [name for name in names if isinstance(name, str) and name != UNKNOWN]
    if not told or len(told) + list(names).count(UNKNOWN) < len(names):
        return names
    if set(told) <= {"True", "False"}:
        return [name == "True" if name in told else name for name in names]
    try:
        numbers = {name: float(name) for name in told}
    except ValueError:
        return names
    same = all(math.isfinite(number) and name_of(number) == name for name, number in numbers.items())
    return [numbers.get(name, name) for name in names] if same else names  # type: ignore[arg-type]


def group_conditions(
    encoder: "RestrictedEncoder",
    roles: Sequence[str | Comparison],
    dialect: str,
    types: Mapping[str, str] | None = None,
) -> list[Any]:
    """Write the condition under which a record is of each of the encoder's groups."""
    conditions, present = [], []
    values = group_values(encoder)
    if len(roles) != len(values[0]):
        raise GroupError(
            f"The encoder reads the group from {encoder.group_column_!r}, and {len(roles)} columns were given."
        )
    for of_group in values:
        tests = []
        for i, (role, value) in enumerate(zip(roles, of_group, strict=True)):
            name = role.column if isinstance(role, Comparison) else role
            known = [other[i] for other in values if other[i] != UNKNOWN] or [UNKNOWN]
            type_ = "boolean" if isinstance(known[0], bool) else "text" if isinstance(known[0], str) else "number"
            wanted = _compared_type(role) if isinstance(role, Comparison) else type_
            found = DEFAULT_TYPES[wanted] if types is None else types[name]
            strict = wanted if type_ == "text" and not isinstance(role, Comparison) else None
            column = sql_column(name, found, dialect, strict)
            if of_group is values[0]:
                present.append(exp.not_(column.missing.copy()))
            if value == UNKNOWN:
                # A reading that counts missing values as a group calls it so.
                said = not isinstance(role, Comparison) and column.kind == "text"
                named = [is_among(column.raw, [UNKNOWN], name, dialect)] if said else []
                tests.append(exp.or_(column.missing.copy(), *named))
                continue
            tests.append(exp.not_(column.missing.copy()))
            if isinstance(role, Comparison):
                condition = holds(role, column, dialect)
                tests.append(condition if value == role.true else exp.not_(condition))
            elif column.kind == "text":
                tests.append(is_among(column.raw, [name_of(value)], name, dialect))
            else:
                number = number_literal(float(value), dialect)
                tests.append(exp.EQ(this=column.number.copy(), expression=number))
        conditions.append(exp.and_(*tests))
    other = encoder.other_group
    if other is not None:
        rest = exp.and_(*present, *(exp.not_(condition.copy()) for condition in conditions))
        conditions.insert([name_of(group) for group in encoder.groups_].index(other), rest)
    return conditions


def _compared_type(role: Comparison) -> str:
    """Give the type of a column, from what it is compared with."""
    if role.value.lower() in ("true", "false"):
        return "boolean"
    try:
        role.number()
    except RoleError:
        return "text"
    return "number"


def _role(name: str, values: set[Value]) -> str | Comparison:
    """Tell a comparison from a column of that name: the groups are then called what the comparison says."""
    found = re.match(r"\s*(\S.*?)\s*(>=|<=|==|!=|>|<)", name)
    if found is not None:
        role = parse_role(name, [found[1]])
        if isinstance(role, Comparison) and values <= {role.true, role.false, UNKNOWN}:
            return role
    return name


def _tree_lines(encoder: "FairTreeEncoder", columns: Mapping[str, SqlColumn], dialect: str) -> list[tuple[int, str]]:
    """Write a tree: lines, and how deep each is."""
    # Children before parents: a tree may be deeper than Python can recurse, and a category may hold a line break, which
    # must not be indented.
    lines = {int(node): [(0, str(cell))] for cell, node in enumerate(encoder.growth_.leaves(encoder.n_cells_))}
    for j in reversed(range(encoder.n_cells_ - 1)):
        split = encoder.growth_.splits[j]
        column = columns[encoder.columns_[split.column].name]
        condition = _goes_left(split, encoder.bins_[split.column], column, dialect)
        lines[split.node] = [
            (0, f"CASE WHEN {condition.sql(dialect=dialect)}"),
            *_deeper("THEN", lines.pop(2 * j + 1)),
            *_deeper("ELSE", lines.pop(2 * j + 2)),
            (0, "END"),
        ]
    return lines[0]


def bytes_of(text: Any, dialect: str) -> Any:
    """Write what stands for a text where texts are compared byte by byte."""
    return exp.replace_placeholders(sqlglot.parse_one(BYTES[dialect], dialect=dialect), text=text.copy())


def is_among(text: Any, values: Sequence[str], column: str, dialect: str) -> Any:
    """Write the condition that a text is one of several, byte by byte."""
    literals = [text_literal(value, column) for value in values]
    left = bytes_of(text, dialect)
    if not isinstance(left, exp.Collate):  # a collation that is named on one side holds for both
        literals = [bytes_of(literal, dialect) for literal in literals]
    return exp.In(this=left, expressions=literals)


def text_literal(value: str, column: str) -> Any:
    """Write a text."""
    if "\x00" in value:
        raise EncoderError(f"Column {column!r} has the category {value!r}; SQL text cannot hold its zero byte.")
    return exp.Literal.string(value)


def number_literal(value: float, dialect: str) -> Any:
    """Write a number so that the database reads this very double."""
    text = repr(int(value)) if float(value).is_integer() and abs(value) < 10**SHORT else repr(float(value))
    digits = text.replace("-", "").replace(".", "").lstrip("0")
    if dialect == "sqlite" and not text.lstrip("-").isdigit():
        return fraction(value)
    if "e" in text or len(digits) > SHORT:
        return exp.cast(exp.Literal.string(text), "DOUBLE")
    return exp.Literal.number(text)


def identifier(name: str, dialect: str) -> Any:
    """Write a name in quotes."""
    if "\x00" in name:
        raise EncoderError(f"SQL cannot hold the zero byte of the name {name!r}: rename it.")
    bad = sorted(set(name) & set(FORBIDDEN.get(dialect, "")))
    if bad:
        raise EncoderError(f"No name may hold {' or '.join(bad)} in {dialect}, as {name!r} does: rename it.")
    if dialect == "postgres" and len(name.encode()) > LONGEST_NAME:
        raise EncoderError(f"PostgreSQL cuts the name {name!r} after {LONGEST_NAME} bytes: rename it.")
    return exp.to_identifier(name, quoted=True)


def quoted(name: str, dialect: str) -> str:
    """Return a name in quotes, as text."""
    return str(identifier(name, dialect).sql(dialect=dialect))


def quoted_table(table: str | Sequence[str], dialect: str) -> str:
    """Quote a table's name, part by part."""
    return ".".join(quoted(part, dialect) for part in table_parts(table))


def table_parts(table: str | Sequence[str]) -> list[str]:
    """Part a table's name, unless its parts were given; refuse one that is empty, or has an empty part."""
    parts = table.split(".") if isinstance(table, str) else list(table)
    if not parts or not all(part.strip() for part in parts):
        raise ArgumentError(f"table={table!r}: name a table, or schema.table.")
    return parts


def holds(role: Comparison, column: SqlColumn, dialect: str) -> Any:
    """Write a comparison as :meth:`Comparison.evaluate` makes it."""
    if column.kind in ("integer", "number"):
        value = role.number()
        whole = column.kind == "integer" and value.is_integer() and abs(value) < 2**63
        left = column.raw if whole else column.number
        right = exp.Literal.number(int(value)) if whole else number_literal(value, dialect)
        kinds = {">=": exp.GTE, ">": exp.GT, "<=": exp.LTE, "<": exp.LT, "==": exp.EQ, "!=": exp.NEQ}
        return kinds[role.operator](this=left.copy(), expression=right)
    if role.operator not in ("==", "!="):
        what = "text" if column.kind == "text" else "true and false"
        raise RoleError(
            f"{role}: column {column.name!r} holds {what}, which cannot be ordered; compare it with == or !=."
        )
    if column.kind == "text":
        equal = is_among(column.raw, [role.value], column.name, dialect)
    else:
        if role.value.lower() not in ("true", "false"):
            raise RoleError(f"{role}: column {column.name!r} holds true and false.")
        truth = exp.Literal.number(int(role.value.lower() == "true"))
        equal = exp.EQ(this=column.number.copy(), expression=truth)
    return equal if role.operator == "==" else exp.not_(equal)


def is_read(type_: str, dialect: str) -> bool:
    """Say whether columns of a type, as a database writes it, are read: numbers, truth values or text."""
    return _known_type(type_, dialect).this in READ


def _known_type(type_: str, dialect: str) -> Any:
    try:
        return exp.DataType.build(type_, dialect=dialect)
    except sqlglot.errors.SqlglotError:
        return exp.DataType(this=DType.UNKNOWN)


def _deeper(word: str, lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    (_, first), *rest = lines
    return [(1, f"{word} {first}"), *((depth + 1, line) for depth, line in rest)]


def _goes_left(split: Split, bins: Bins, column: SqlColumn, dialect: str) -> Any:
    """Condition under which a record goes left: true, or else (false or NULL) it goes right."""
    missing_left = bool(split.goes_left[bins.missing_code])
    if isinstance(bins, CategoricalBins):
        others_left = bool(split.goes_left[bins.infrequent_code])
        listed = [c for c, left in zip(bins.categories, split.goes_left, strict=False) if bool(left) != others_left]
        if column.kind == "text":
            among = is_among(column.raw, [str(category) for category in listed], column.name, dialect)
        else:
            numbers = [number_literal(float(category), dialect) for category in listed]
            among = exp.In(this=column.number.copy(), expressions=numbers)
        if not others_left:
            tests = [*([column.missing] if missing_left else []), *([among] if listed else [])]
            return exp.or_(*tests) if tests else exp.false()
        outside = exp.not_(among) if listed else exp.true()
    else:
        assert split.threshold is not None  # noqa: S101  (continuous splits have one)
        if split.threshold < 0:
            return column.missing if missing_left else exp.false()
        if split.threshold < len(bins.edges):
            edge = number_literal(float(bins.edges[split.threshold]), dialect)
            below = exp.LTE(this=column.number.copy(), expression=edge)
            return exp.or_(column.missing, below) if missing_left else below
        outside = exp.true()
    if missing_left:
        return exp.or_(column.missing, outside)
    return exp.and_(exp.not_(column.missing), outside)


def _is_nan(double: Any, dialect: str) -> Any:
    if dialect in NAN_EQUALS_ITSELF:
        return exp.EQ(this=double.copy(), expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE"))
    return exp.NEQ(this=double.copy(), expression=double.copy())


def fraction(value: float) -> Any:
    """Write a double as a quotient or product of whole numbers, for a database that rounds decimals as it likes."""
    mantissa, exponent = math.frexp(value)
    number: Any = exp.cast(exp.Literal.number(int(mantissa * 2**53)), "DOUBLE")
    kind = exp.Div if exponent < 53 else exp.Mul
    left = abs(exponent - 53)
    while left:
        step = min(left, 62)
        number = kind(this=number, expression=exp.Literal.number(2**step))
        left -= step
    return exp.Paren(this=number)
