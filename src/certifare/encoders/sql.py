"""Tree encoders as SQL: one ``CASE`` expression that finds the same cells where the data is.

NULL and NaN are both missing. A category that was not seen in training goes where ``apply`` sends it. SQL cannot
refuse an infinite number as ``apply`` does: it compares it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from certifare.encoders.training import ColumnSchema
from certifare.errors import NotPublishableError
from certifare.growth import Bins, CategoricalBins, Split

if TYPE_CHECKING:
    from certifare.encoders.tree import FairTreeEncoder

DIALECTS = ("duckdb", "postgres", "spark", "bigquery", "snowflake")

SHORT = 15
"""Decimals with more significant digits are written as text and cast, so that every database reads the same double."""


def write_sql(encoder: "FairTreeEncoder", dialect: str, table: str | Sequence[str] | None, name: str) -> str:
    """Write a fitted tree encoder as SQL; see :meth:`FairTreeEncoder.to_sql`."""
    from sklearn.utils.validation import check_is_fitted
    from sqlglot import exp

    check_is_fitted(encoder)
    if encoder.reads_groups:
        raise NotPublishableError(
            "The encoder is group-aware, and there is no SQL for those yet; set group_aware=False."
        )
    dialect = {"postgresql": "postgres"}.get(dialect, dialect)
    if dialect not in DIALECTS:
        raise NotPublishableError(f"There is no SQL for the dialect {dialect!r}; give one of {', '.join(DIALECTS)}.")
    # Lines with their depths, children before parents: a tree may be deeper than Python can recurse, and a category
    # may hold a line break, which must not be indented.
    lines = {int(node): [(0, str(cell))] for cell, node in enumerate(encoder._growth.leaves(encoder.n_cells_))}
    for j in reversed(range(encoder.n_cells_ - 1)):
        split = encoder._growth.splits[j]
        condition = _goes_left(split, encoder._bins[split.column], encoder.columns_[split.column], dialect)
        lines[split.node] = [
            (0, f"CASE WHEN {condition.sql(dialect=dialect)}"),
            *_deeper("THEN", lines.pop(2 * j + 1)),
            *_deeper("ELSE", lines.pop(2 * j + 2)),
            (0, "END"),
        ]
    if table is None:
        return _joined(lines[0], 0)
    parts = table.split(".") if isinstance(table, str) else list(table)
    source = ".".join(exp.to_identifier(part, quoted=True).sql(dialect=dialect) for part in parts)
    alias = exp.to_identifier(name, quoted=True).sql(dialect=dialect)
    return f"SELECT\n  *,\n{_joined(lines[0], 1)} AS {alias}\nFROM {source}"


def _deeper(word: str, lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    (_, first), *rest = lines
    return [(1, f"{word} {first}"), *((depth + 1, line) for depth, line in rest)]


def _joined(lines: list[tuple[int, str]], depth: int) -> str:
    return "\n".join("  " * (depth + below) + line for below, line in lines)


def _goes_left(split: Split, bins: Bins, column: ColumnSchema, dialect: str) -> Any:
    """Condition under which a record goes left: true, or else (false or NULL) it goes right."""
    from sqlglot import exp

    raw = exp.column(exp.to_identifier(column.name, quoted=True))
    value = exp.cast(raw, {"number": "DOUBLE", "boolean": "INT", "text": "TEXT"}[column.type])
    missing_left = bool(split.goes_left[bins.missing_code])
    missing: list[Any] = [exp.Is(this=raw.copy(), expression=exp.Null())]
    if column.type == "number":
        missing.append(_is_nan(value, dialect))
    if isinstance(bins, CategoricalBins):
        others_left = bool(split.goes_left[bins.infrequent_code])
        listed = [c for c, left in zip(bins.categories, split.goes_left, strict=False) if bool(left) != others_left]
        among = exp.In(this=value.copy(), expressions=[_literal(c, column.name) for c in listed])
        if not others_left:
            tests = [*(missing if missing_left else []), *([among] if listed else [])]
            return exp.or_(*tests) if tests else exp.false()
        outside = exp.not_(among) if listed else exp.true()
    else:
        assert split.threshold is not None  # noqa: S101  (continuous splits have one)
        if split.threshold < len(bins.edges):
            below = exp.LTE(this=value.copy(), expression=_literal(float(bins.edges[split.threshold]), column.name))
            return exp.or_(*missing, below) if missing_left else below
        outside = exp.true()
    if missing_left:
        return exp.or_(*missing, outside)
    return exp.and_(*(exp.not_(test) for test in missing), outside)


def _is_nan(value: Any, dialect: str) -> Any:
    from sqlglot import exp

    if dialect == "bigquery":  # the only one where NaN does not equal itself
        return exp.IsNan(this=value.copy())
    return exp.EQ(this=value.copy(), expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE"))


def _literal(value: str | float, column: str) -> Any:
    from sqlglot import exp

    if isinstance(value, str):
        if "\x00" in value:
            raise NotPublishableError(
                f"Column {column!r} has the category {value!r}; SQL text cannot hold its zero byte."
            )
        return exp.Literal.string(value)
    text = repr(int(value)) if float(value).is_integer() and abs(value) < 10**SHORT else repr(float(value))
    digits = text.replace("-", "").replace(".", "").lstrip("0")
    if "e" in text or len(digits) > SHORT:
        return exp.cast(exp.Literal.string(text), "DOUBLE")
    return exp.Literal.number(text)
