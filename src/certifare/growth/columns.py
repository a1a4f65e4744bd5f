"""Input columns: numbers or text, checked and grouped by their place in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from certifare.errors import ArgumentError, TableError


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """A column of text, as indices into its distinct values."""

    indices: NDArray[np.integer[Any]]  # -1 if the value is missing
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.indices)


Column: TypeAlias = NDArray[Any] | Dictionary


def check_arrays(columns: Sequence[Column], names: Sequence[str], numeric: Sequence[bool]) -> int:
    """Return the number of rows of the columns. Raise for columns of other types, and for text instead of numbers."""
    for column, name, wants_numbers in zip(columns, names, numeric, strict=True):
        values = column.indices if isinstance(column, Dictionary) else column
        if values.ndim != 1 or len(values) != len(columns[0]):
            raise ArgumentError(f"Column {name!r} has the shape {values.shape}; give {len(columns[0])} values.")
        if not isinstance(column, Dictionary):
            if values.dtype.kind not in "buif":
                raise TableError(f"Column {name!r} has the type {values.dtype}; give numbers, booleans or text.")
            continue
        if wants_numbers:
            example = repr(column.values[0]) if column.values else "nothing"
            raise TableError(f"Column {name!r} holds text ({example}) where numbers are wanted; make it categorical.")
        if values.dtype.kind not in "iu":
            raise TableError(f"Column {name!r} has indices of the type {values.dtype}; give integers.")
        if len(values) and not (values.min() >= -1 and values.max() < len(column.values)):
            raise ArgumentError(f"Column {name!r} has indices outside -1 … {len(column.values) - 1}.")
        if len(set(column.values)) < len(column.values):
            raise ArgumentError(f"Column {name!r} has a dictionary that lists a value twice.")
    return len(columns[0]) if columns else 0


def refuse_infinite(values: NDArray[Any], name: str) -> None:
    """Raise if there is an infinite value.

    The message names no row: the rows may be a part of a file, with other row numbers.
    """
    infinite = values[np.isinf(values)] if values.dtype.kind == "f" else values[:0]
    if len(infinite):
        raise TableError(f"Column {name!r} holds {infinite[0]}; give a finite number, or NaN for a missing value.")


def panels(columns: Mapping[int, NDArray[Any]]) -> Iterator[tuple[NDArray[Any], list[int]]]:
    """Yield adjacent columns of a table as one array (rows × columns), without a copy, and their positions.

    The columns of a row-major array are interleaved; a kernel that reads them together reads memory once. Columns that
    are elsewhere stay separate: one array over unallocated memory would crash the process.
    """
    which: list[int] = []
    gap = 0
    for i, column in columns.items():
        if which:
            last = columns[which[-1]]
            step = _address(column) - _address(last)
            alike = column.dtype == last.dtype and column.strides == last.strides and 0 < step < last.strides[0]
            if alike and (len(which) == 1 or step == gap):
                which.append(i)
                gap = step
                continue
            yield _panel(columns[which[0]], gap, len(which)), which
        which = [i]
    if which:
        yield _panel(columns[which[0]], gap, len(which)), which


def _panel(first: NDArray[Any], gap: int, width: int) -> NDArray[Any]:
    return as_strided(first, (len(first), width), (first.strides[0], gap), writeable=False)


def _address(column: NDArray[Any]) -> int:
    return int(column.__array_interface__["data"][0])
