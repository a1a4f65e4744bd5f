"""What is odd about the columns of a table: identifiers, dates, numbers as text, people with several records."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from certifare.foundation.formatting import listing
from certifare.foundation.levels import Levels
from certifare.tables.frames import is_categorical, single_array
from certifare.tables.roles import Roles, column_of

#: A column whose first values, this many, are all different is probably an identifier.
IDENTIFIER_ROWS = 1000
#: Text that is probably a date, such as 31.12.2024 or 2024-12-31 23:59.
DATE = r"^(\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})([T ]|$)"
#: Up to this many different dates may well be categories.
FEW_DATES = 12
#: Text that is probably a number, possibly with a decimal comma; with more different values than this, not a category.
NUMBER, FEW_NUMBERS = r"^[-+]?\d+([.,]\d+)*$", 30
#: A column probably identifies people if this many of its values would mix groups by chance, and none does …
UNMIXED = 20
#: … and it has at most this many records per value on average.
MOST_VISITS = 100
#: Number of records that are searched for such columns.
PEOPLE_ROWS = 200_000

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class TableFinding:
    """Something about a table that its user should know before an encoder is fitted."""

    # ``error``: nothing can be fitted. ``warning``: the result may be wrong or useless. ``note``: good to know
    severity: Severity
    column: str | None  # the column that it is about
    text: str  # what was found
    remedy: str | None = None  # what to do about it

    def __str__(self) -> str:
        return self.text if self.remedy is None else f"{self.text}; {self.remedy}"


def as_notes(texts: Iterable[str]) -> tuple[TableFinding, ...]:
    """Return texts as notes about no column."""
    return tuple(TableFinding("note", None, text) for text in texts)


def column_findings(features: pa.Table, roles: Roles) -> Iterator[TableFinding]:
    """Find features that look like identifiers, dates, or numbers that are read as text."""
    for field, column in zip(features.schema, features.columns, strict=True):
        name, head = field.name, column.slice(0, IDENTIFIER_ROWS)
        if (pa.types.is_integer(field.type) or is_categorical(field.type)) and (
            features.num_rows >= IDENTIFIER_ROWS == len(head.unique()) and head.null_count == 0
        ):
            remedy = f"drop such a column if it identifies records (--drop {shlex.quote(name)})"
            yield TableFinding("warning", name, f"{name!r}: every record has a different value", remedy)
        if is_categorical(field.type):
            yield from _text_findings(name, head.cast(pa.string()).unique().drop_null(), name in roles.categorical)


def _text_findings(name: str, values: pa.Array, categorical: bool) -> Iterator[TableFinding]:
    """Find dates and numbers among the different values of a text column."""
    if len(values) > FEW_DATES and pc.all(pc.match_substring_regex(values, DATE)).as_py():
        remedy = f"convert them to numbers, or leave them out (--drop {shlex.quote(name)})"
        yield TableFinding("warning", name, f"{name!r}: dates in text form are read as categories", remedy)
    if categorical:
        return
    numbers = pc.match_substring_regex(values, NUMBER)
    share = pc.sum(numbers, min_count=0).as_py() / max(1, len(values))
    others = values.filter(pc.invert(numbers)).slice(0, 3).to_pylist()
    odd = others or values.filter(pc.match_substring(values, ",")).slice(0, 3).to_pylist()
    # Only digits, some with a leading 0: these are codes.
    if len(values) > FEW_NUMBERS and share > 0.5 and odd:
        what = "all but a few values" if others else "values"
        yield TableFinding(
            "warning",
            name,
            f"{name!r}: {what} are numbers, but it is read as text with a category for each value, because of "
            f"{listing(odd)}",
            "if it is numeric, write all numbers in one way (--decimal), and name the text for missing values with "
            "--missing",
        )


def people_findings(
    native: pa.Table, found: Any, columns: Mapping[str, Sequence[Levels]], rows: NDArray[np.int64]
) -> Iterator[TableFinding]:
    """Find columns that seem to identify people if there is no cluster column: their records are dependent.

    Such a column has several records per value, all in one group.
    """
    if columns["cluster"] or not columns["sensitive"]:
        return
    of_columns = np.stack([levels.codes[:PEOPLE_ROWS] for levels in columns["sensitive"]])
    groups = np.unique(of_columns, axis=1, return_inverse=True)[1].ravel()
    head = pa.array(rows[:PEOPLE_ROWS])
    shares = np.bincount(groups) / len(groups)
    roles = set(map(column_of, (*found.label, *found.sensitive, *found.weight)))
    for field in native.schema:
        if field.name in roles or not (pa.types.is_integer(field.type) or is_categorical(field.type)):
            continue
        codes = single_array(native.column(field.name).take(head).dictionary_encode()).indices
        known = ~codes.is_null().to_numpy(zero_copy_only=False)
        values, of_groups = codes.drop_null().to_numpy().astype(np.int64), groups[known]
        sizes = np.bincount(values) if len(values) else np.zeros(0, dtype=np.int64)
        several, distinct = sizes[sizes > 1], int((sizes > 0).sum())
        if len(several) < UNMIXED or len(values) > MOST_VISITS * distinct:
            continue
        first = np.zeros(len(sizes), dtype=np.int64)
        first[values] = of_groups
        expected = (1.0 - (shares[:, None] ** several).sum(axis=0)).sum()
        if (of_groups == first[values]).all() and expected >= UNMIXED:
            yield TableFinding(
                "warning",
                field.name,
                f"{field.name!r} has {distinct:,} values in {len(values):,} records, and no value has records of two "
                "groups",
                f"if it identifies people, name it with --cluster {shlex.quote(field.name)}. A bound assumes "
                "independent records, and is too low if several belong to one person",
            )
