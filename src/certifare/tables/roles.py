"""Roles of columns (label, sensitive, weight, cluster), given as names or comparisons such as ``age>=60``.

:class:`Roles` holds the roles of all columns of a table; functions that read a table take one, or its keywords.
A comparison has the form ``column operator value``. Text is never evaluated as code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from certifare.errors import ArgumentError, MissingColumnError, RoleError, TableError
from certifare.foundation.formatting import listing
from certifare.tables.reading import Reading, check_cuts

#: One name, or several.
Names = str | Sequence[str]
#: Whether records without a group are left out, or form a group "unknown".
MissingGroups = Literal["drop", "unknown"]
#: Roles of columns that are not features.
ROLES = ("label", "sensitive", "weight", "cluster", "given")

_OPERATOR = re.compile(r">=|<=|==|!=|≥|≤|≠|=|>|<")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SPELLINGS = {"=": "==", "≥": ">=", "≤": "<=", "≠": "!="}
_OPPOSITE = {">=": "<", "<": ">=", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}
_COMPUTE = {">=": "greater_equal", "<": "less", "<=": "less_equal", ">": "greater", "==": "equal", "!=": "not_equal"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value: two groups, or two labels.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from certifare.tables.roles import parse_role
    >>> role = parse_role("age>=60", ["age", "job"])
    >>> role.evaluate(pa.array([59, 60, None])).to_pylist()
    ['age < 60', 'age >= 60', None]
    """

    column: str
    operator: str
    value: str

    @property
    def true(self) -> str:
        """Name of the records for which the comparison holds."""
        return f"{self.column} {self.operator} {self.value}"

    @property
    def false(self) -> str:
        """Name of the records for which the comparison does not hold."""
        return f"{self.column} {_OPPOSITE[self.operator]} {self.value}"

    def evaluate(self, column: Any) -> pa.Array:
        """Return the name of the side of the comparison that each record is on; missing if its value is missing."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.string()).cast(pa.float64())  # Arrow's own cast may miss the nearest float
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        holds = pc.call_function(_COMPUTE[self.operator], [column, self._operand(column)])
        return pa.DictionaryArray.from_arrays(holds.cast(pa.int8()), pa.array([self.false, self.true]))

    def number(self) -> float:
        """Return the value as a number; raise if it is not a finite number."""
        if not _NUMBER.fullmatch(self.value) or not math.isfinite(float(self.value)):
            raise RoleError(f"{self}: column {self.column!r} holds numbers, but {self.value!r} is not a finite number.")
        return float(self.value)

    def _operand(self, column: pa.Array) -> pa.Scalar:
        type_ = column.type
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            number = self.number()
            return pa.scalar(int(number) if pa.types.is_integer(type_) and number.is_integer() else number)
        if self.operator not in ("==", "!="):
            first = column.drop_null()[:1].to_pylist()
            raise RoleError(
                f"{self}: column {self.column!r} holds {type_}"
                + (f" (such as {str(first[0])[:40]!r})" if first else "")
                + ", which has no order. Compare it with == or !=."
            )
        if pa.types.is_boolean(type_):
            if self.value.lower() not in ("true", "false"):
                raise RoleError(f"{self}: column {self.column!r} holds true and false. Compare it with one of them.")
            return pa.scalar(self.value.lower() == "true")
        if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
            return pa.scalar(self.value, type_)
        raise RoleError(f"{self}: column {self.column!r} holds {type_}, which cannot be compared with text.")

    def __str__(self) -> str:
        return self.true


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of a table's columns.

    Attributes
    ----------
    label, sensitive : tuple of str
        Names of columns, or comparisons such as ``"age>=60"`` (:func:`parse_role`). Several sensitive columns are
        intersected to groups. Columns with a role are not features.
    weight, cluster : str or None
        Columns of survey weights, and of clusters of dependent records.
    given : str or None
        Column, or comparison, within whose values a claim compares groups. Like every column with a role, it is not a
        feature: it is needed to certify, not to encode.
    each : bool
        Whether a claim is about each sensitive column, instead of their intersection.
    categorical : tuple of str
        Columns to read as categories, whatever their type.
    drop : tuple of str
        Columns to leave out: names, or patterns such as ``income_*`` (:func:`select`).
    feature : tuple of str
        The only columns to use as features, named as in ``drop``. Columns with a role are never features.
    features : tuple of str or None
        Use exactly these columns as features, as an encoder that is already fitted needs them, even if one of them is
        sensitive.
    missing_groups : {"drop", "unknown"}
        Whether records without a group are left out, or form a group "unknown".
    label_cuts : tuple of float
        Thresholds that cut a numeric label into bands, in ascending order.

    Examples
    --------
    >>> from certifare.tables.roles import Roles
    >>> roles = Roles.of(label="paid", sensitive=["sex", "age>=60"])
    >>> roles.named()
    {'label': ('paid',), 'sensitive': ('sex', 'age>=60')}
    >>> roles.find(["job", "age", "sex", "paid"]).features
    ('job',)
    """

    label: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    weight: str | None = None
    cluster: str | None = None
    given: str | None = None
    each: bool = False
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    feature: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    missing_groups: MissingGroups = "drop"
    label_cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.missing_groups not in ("drop", "unknown"):
            raise RoleError(f'missing_groups={self.missing_groups!r}: choose "drop" or "unknown".')
        check_cuts(self.label_cuts)
        for role in ("weight", "cluster", "given"):
            if not isinstance(getattr(self, role), str | None):
                raise RoleError(f"{role}={getattr(self, role)!r}: name one column.")
        if self.each and len(self.sensitive) < 2:
            raise RoleError("--each needs several sensitive columns; with one, leave it out.")
        if self.each and self.missing_groups == "unknown":
            raise RoleError(
                "--each needs a value of every sensitive column: leave records without one out (no --unknown-groups)."
            )

    @classmethod
    def of(cls, roles: Roles | None = None, **keywords: Any) -> Roles:
        """Return ``roles`` changed by keywords: each is one name, several, or None if no column has this role."""
        known = [field.name for field in fields(cls)]
        unknown = [name for name in keywords if name not in known]
        if unknown:
            raise ArgumentError(f"Unknown role {', '.join(unknown)}. Choose from {', '.join(known)}.")
        convert = dict.fromkeys(("weight", "cluster", "given", "each", "missing_groups"), lambda value: value)
        convert["label_cuts"] = lambda cuts: tuple(map(float, cuts))
        given = {name: convert.get(name, as_names)(v) for name, v in keywords.items() if v is not None}
        return replace(roles or cls(), **given)

    @classmethod
    def read_as(cls, reading: Reading, features: Sequence[str]) -> Roles:
        """Return the roles in a reading, together with the features of an encoder."""
        return cls.of(
            label=reading.label,
            sensitive=reading.sensitive,
            weight=reading.weight,
            cluster=reading.cluster,
            given=reading.given or None,
            label_cuts=reading.label_cuts,
            missing_groups=reading.missing_groups,
            features=features,
        )

    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the columns that have a role, as the user named them."""
        texts = {role: as_names(getattr(self, role)) for role in ROLES}
        return {role: names for role, names in texts.items() if names}

    def find(self, names: Sequence[str]) -> FoundRoles:
        """Find the columns in a table; raise if a name is not there, or if a column has two roles."""
        parsed = {role: [parse_role(text, names, role) for text in texts] for role, texts in self.named().items()}
        used: dict[str, str] = {}
        for role, found in ((role, found) for role, of_role in parsed.items() for found in of_role):
            if role in ("weight", "cluster") and isinstance(found, Comparison):
                raise RoleError(f"The {role} must be a column, not the comparison {str(found)!r}.")
            name = column_of(found)
            if used.get(name) == role:
                raise RoleError(f"Column {name!r} is named twice (--{role}). Name it once.")
            if name in used:
                raise RoleError(f"Column {name!r} is named as both {used[name]} and {role}. Choose one.")
            used[name] = role
        if self.features is None:
            features = self._features(names, used)
        else:
            features, used = self.features, {}
        for option, wanted in (("feature", self.features or ()), ("categorical", self.categorical)):
            for name in wanted:
                if name not in names:
                    raise absent(name, names, option)
                if name in used:
                    raise RoleError(f"Column {name!r} is the {used[name]}, not a feature, so it cannot be {option}.")
        if not features:
            raise TableError("No feature is left: every column has a role or is dropped.")
        return FoundRoles(features=tuple(features), **{role: tuple(parsed.get(role, ())) for role in ROLES})

    def _features(self, names: Sequence[str], used: Mapping[str, str]) -> Sequence[str]:
        """Return the features: the named columns, or all, without those that are dropped or have a role."""
        left_out = {*used, *select(self.drop, names, "drop")}
        wanted = select(self.feature, names, "feature") if self.feature else names
        for name in self.feature:
            if name in used:
                raise RoleError(f"Column {name!r} is named as both {used[name]} and feature. Choose one.")
        return [name for name in wanted if name not in left_out]


@dataclass(frozen=True, slots=True)
class FoundRoles:
    """The columns found for each role (weight, cluster and given: at most one), and the features."""

    label: tuple[str | Comparison, ...]
    sensitive: tuple[str | Comparison, ...]
    weight: tuple[str | Comparison, ...]
    cluster: tuple[str | Comparison, ...]
    given: tuple[str | Comparison, ...]
    features: tuple[str, ...]


def column_of(role: str | Comparison) -> str:
    """Return the column that a role names, or compares."""
    return role.column if isinstance(role, Comparison) else role


def as_names(names: Names | None) -> tuple[str, ...]:
    """Return a tuple of names, given one name, several or None."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def parse_role(text: str, names: Sequence[str], role: str = "column") -> str | Comparison:
    """Parse a column's name or a comparison.

    A comparison is ``column operator value`` with one of ``>= > <= < == !=``; quote a value with spaces or operators. A
    column whose name looks like a comparison takes precedence. ``role`` is for messages.
    """
    text = text.strip()
    if text in names:
        return text
    first = None
    for operator in _OPERATOR.finditer(text):
        column, value = _unquoted(text[: operator.start()]), _unquoted(text[operator.end() :])
        first = first or column
        if column in names:
            sign = _SPELLINGS.get(operator[0], operator[0])
            if not value:
                raise RoleError(f"{role} {text!r}: the value after {operator[0]!r} is missing.")
            if sign not in ("==", "!=") and not _NUMBER.fullmatch(value):
                raise RoleError(f"{role} {text!r}: {column!r} can only be compared with a number, not with {value!r}.")
            return Comparison(column, sign, value)
    raise absent(first or text, names, role)


def select(texts: Sequence[str], names: Sequence[str], role: str) -> list[str]:
    """Return the columns that match the texts: each is a name, a pattern such as ``income_*``, or several with commas.

    They come in the order of the table. A column whose name contains a comma or a star takes precedence.

    >>> select(["a,b*"], ["c", "b2", "b1", "a"], "feature")
    ['b2', 'b1', 'a']
    """
    there, found = set(names), set()
    for text in texts:
        for part in [text] if text in there else [part.strip() for part in text.split(",")]:
            matching = [part] if part in there else [name for name in names if fnmatchcase(name, part)]
            if not matching:
                raise absent(part, names, role)
            found.update(matching)
    return [name for name in names if name in found]


def absent(name: str, names: Sequence[str], role: str = "column") -> MissingColumnError:
    """Return the error for a column that does not exist, with similar names as a hint."""
    lowered = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), list(lowered), 3, 0.6)
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and set(several) <= set(names):
        hint = f" Name {' and '.join(map(repr, several))} separately: repeat the option, or pass a list."
    elif near:
        hint = f" Did you mean {' or '.join(repr(lowered[n]) for n in near)}?"
    else:
        hint = f" The table has {listing(names, 12)}."
    option = "--" if role in (*ROLES, "feature", "drop", "categorical") else ""
    where = "" if role == "column" else f" ({option}{role})"
    return MissingColumnError(f"No column {name!r}{where}.{hint}")


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'`":
        return text[1:-1]
    return text
