"""Levels: the distinct values of a column in order, and the code of each record's value.

Labels, groups, clusters and categories are all read here, from a column of any kind. A record without a value has the
code −1. Values have a natural order (numbers by size, text by its characters); :meth:`Levels.by_name` sorts them by
name, which is the order in tables of counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

#: Name of the group of records without a group, if they are counted.
UNKNOWN = "unknown"
#: Joins the values of several sensitive columns into the name of a group.
INTERSECTION = " × "
#: Integers in a smaller range than this are counted, not sorted, to find the distinct ones.
SMALL_RANGE = 1 << 16


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct values of a column, and the code of each record.

    Examples
    --------
    >>> from certifare.foundation.levels import Levels, intersect
    >>> sex, age = Levels.of(["m", None, "f"], "sex"), Levels.of([40, 30, 40], "age")
    >>> sex.values, sex.codes.tolist()
    (('f', 'm'), [1, -1, 0])
    >>> intersect([sex, age]).names
    ('f × 40', 'm × 40')
    """

    name: str  # name of the column; of several columns: ``sex × race``
    codes: NDArray[np.int64]  # index of each record's value in ``values``; −1 if missing
    values: tuple[Any, ...]  # distinct values, each of which occurs: bool, int, float or str; for intersections, tuples

    @classmethod
    def of(cls, values: Any, name: str) -> Levels:
        """Return the levels of a column: an array, a list, or a pandas, polars or pyarrow series.

        Values of different types in one column are distinguished by their names only.
        """
        import pyarrow as pa

        if isinstance(values, Levels):
            return values
        column = _as_arrow(values)
        if column is None:
            array = np.array(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
            if array.ndim != 1:
                raise ArgumentError(f"{name} must be one value per record; got shape {array.shape}.")
            if array.dtype.kind in "buif":
                return cls.of_numbers(array, name)
            column = _of_objects(array)
        if pa.types.is_floating(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
            return cls.of_numbers(np.asarray(column), name)
        try:
            encoded = _encoded(column)
        except pa.ArrowNotImplementedError:
            encoded = _named(column.to_pylist()).dictionary_encode()
        indices = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return cls.of_dictionary(indices, encoded.dictionary.to_pylist(), name)

    @classmethod
    def of_dictionary(cls, indices: NDArray[Any], values: Sequence[Any], name: str) -> Levels:
        """Return the levels of a coded column: indices into values (−1: missing), some of which may be unused."""
        used = np.flatnonzero(np.bincount(indices[indices >= 0], minlength=len(values))).tolist()
        place = {value: i for i, value in enumerate(sorted({values[i] for i in used if values[i] == values[i]}))}
        table = np.full(len(values) + 1, -1, dtype=np.int64)  # the last entry is for missing values
        table[used] = [place.get(values[i], -1) for i in used]
        return cls(name, table[indices], tuple(map(plain, place)))

    @classmethod
    def of_numbers(cls, numbers: NDArray[Any], name: str, *, boolean: bool = False) -> Levels:
        """Return the levels of numbers (NaN: missing) or booleans; with ``boolean``, numbers become booleans."""
        as_value = bool if boolean or numbers.dtype.kind == "b" else plain
        if numbers.dtype.kind in "bui" and len(numbers):
            low, high = int(numbers.min()), int(numbers.max())
            if high - low < SMALL_RANGE:
                shifted = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64) - low
                shifted = shifted.astype(np.int64)
                present = np.bincount(shifted) > 0
                return cls(
                    name,
                    (np.cumsum(present) - 1)[shifted],
                    tuple(as_value(low + v) for v in np.flatnonzero(present).tolist()),
                )
        missing = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), dtype=bool)
        if not missing.any():
            distinct, codes = np.unique(numbers, return_inverse=True)
        else:
            codes = np.full(len(numbers), -1, dtype=np.int64)
            distinct, codes[~missing] = np.unique(numbers[~missing], return_inverse=True)
        return cls(name, codes, tuple(as_value(value) for value in distinct.tolist()))

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the values."""
        return tuple(map(name_of, self.values))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which records have no value."""
        return self.codes < 0

    def counts(self) -> NDArray[np.int64]:
        """Return the number of records with each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def take(self, rows: NDArray[Any]) -> Levels:
        """Return some of the records, with the same values."""
        return replace(self, codes=self.codes[rows])

    def sorted(self) -> Levels:
        """Sort the values in their natural order, and remove those that no record has."""
        return Levels.of_dictionary(self.codes, self.values, self.name)

    def by_name(self) -> Levels:
        """Sort the values by name: numbers by size, then text. Values with the same name are merged."""
        if all(type(v) in (int, float) and abs(v) < 2**53 for v in self.values):
            return self  # the natural order of numbers is that of their names
        names = sorted(set(self.names), key=sort_key)
        place = {name: i for i, name in enumerate(names)}
        table = np.array([*(place[name] for name in self.names), -1], dtype=np.int64)
        value = dict(zip(reversed(self.names), reversed(self.values), strict=True))
        return Levels(self.name, table[self.codes], tuple(value[name] for name in names))

    def filled(self, value: Hashable) -> Levels:
        """Replace missing values by this one, which is added last unless it exists."""
        if not self.missing.any():
            return self
        values = self.values if value in self.values else (*self.values, value)
        return Levels(self.name, np.where(self.missing, values.index(value), self.codes), values)

    def complete(self, what: str) -> Levels:
        """Raise if a record has no value; ``what`` is its meaning in the message ("label", "group")."""
        missing = self.missing
        if missing.any():
            raise TableError(
                f"Input {what} contains NaN: column {self.name!r} has no value in {int(missing.sum()):,} of "
                f"{len(self):,} records (the first is record {int(missing.argmax())}). Drop those records, or give "
                f"them a {what}."
            )
        return self

    def places(self, known: Sequence[Any]) -> NDArray[np.int64]:
        """Return the index of each value among known ones (−1: unknown), and a last −1 for missing values."""
        place = {value: i for i, value in enumerate(known)}
        return np.array([*(place.get(value, -1) for value in self.values), -1], dtype=np.int64)

    def to_arrow(self) -> pa.DictionaryArray:
        """Return the values of the records as an Arrow dictionary array."""
        import pyarrow as pa

        # Integers were floats if there are other floats, or if they are too large for 64 bits.
        floating = any(isinstance(v, float) or (isinstance(v, int) and abs(v) >= 2**63) for v in self.values)
        values = pa.array(map(float, self.values), pa.float64()) if floating else pa.array(self.values)
        return pa.DictionaryArray.from_arrays(pa.array(self.codes.astype(np.int32), mask=self.missing), values)


def intersect(parts: Sequence[Levels]) -> Levels:
    """Return the levels of several columns together: a tuple of values for each combination that occurs.

    A record with a missing value in one column is missing in the intersection.
    """
    first, *others = parts
    if not others:
        return first
    joint, missing = first.codes, first.missing
    places = [np.arange(len(first.values))]  # indices of each combination's values, by column
    for part in others:
        if len(part) != len(first):
            raise ArgumentError(f"{first.name} has {len(first):,} records, {part.name} has {len(part):,}.")
        missing = missing | part.missing
        present, joint = _compacted(np.where(missing, -1, joint * len(part.values) + part.codes))
        before, own = np.divmod(present, max(1, len(part.values)))
        places = [*(place[before] for place in places), own]
    columns = [[part.values[i] for i in place.tolist()] for part, place in zip(parts, places, strict=True)]
    return Levels(INTERSECTION.join(part.name for part in parts), joint, tuple(zip(*columns, strict=True)))


def _compacted(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the codes that occur, sorted, and the index of each record's code among them; −1 stays."""
    highest = int(codes.max(initial=-1))
    if highest < max(SMALL_RANGE, len(codes)):
        there = np.bincount(codes + 1, minlength=highest + 2) > 0
        there[0] = True
        return np.flatnonzero(there)[1:] - 1, (np.cumsum(there) - 2)[codes + 1]
    found = np.unique(codes)
    found = found[found >= 0]
    return found, np.where(codes < 0, -1, np.searchsorted(found, codes))


def name_of(value: object) -> str:
    """Return the name of a group or label: its text; whole floats are written like integers.

    >>> name_of(1.0), name_of(("female", True))
    ('1', 'female × True')
    """
    if isinstance(value, tuple):
        return INTERSECTION.join(map(name_of, value))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def sort_key(name: str) -> tuple[int, float, str]:
    """Sort numbers by value, then text."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (1, 0.0, name) if math.isnan(number) else (0, number, name)


def plain(value: Any) -> Any:
    """Convert a whole float to int, so that 1.0 and 1 are the same value."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_arrow(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """Return a column of a dataframe library as Arrow data, without a copy; None if it is not one or mixes types."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not hasattr(values, "__arrow_c_stream__"):
        return None
    try:
        return pa.chunked_array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
        return None


def _of_objects(array: NDArray[Any]) -> pa.Array:
    """Convert objects to an Arrow array; objects of mixed or unknown types by their names."""
    import pyarrow as pa

    try:
        column = pa.array(array, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return _named(array.tolist())
    if pa.types.is_floating(column.type) and any(isinstance(value, bool) for value in array.tolist()):
        return _named(array.tolist())  # Arrow would convert booleans to numbers
    return column


def _named(values: Sequence[object]) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if _is_missing(value) else name_of(value) for value in values], pa.string())


def _encoded(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """Encode a column as a dictionary; decimals become the nearest floats, as everywhere."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # not all types can be combined
        column = column.chunk(0)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(pa.float64())
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or a missing value of pandas (which is not equal to itself)."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
