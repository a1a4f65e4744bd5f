"""Design matrices: scaled numbers and one-hot categories, fitted on training records alone.

The published code fits ranges, means and category lists on training *and* validation records; a certificate allows no
such thing, and a comparison on equal terms needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from certifare.errors import TableError
from certifare.growth import Dictionary
from certifare.tables.frames import Field, Frame

Scaling = Literal["unit", "standard", "none"]
MIN_FREQUENCY = 5


class Design:
    """Turns a table into a matrix of numbers.

    Numbers are scaled ("unit": to [0, 1], "standard": mean 0 and deviation 1, or not at all); a missing one becomes
    the training mean. Categories become bits; those seen fewer than five times in training share a last bit with
    those never seen.

    Parameters
    ----------
    categorical : sequence of str, optional
        Columns that hold categories; text columns always do.
    scaling : mapping of column name to {"unit", "standard", "none"}
        "unit" unless given.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare_research.datasets import Design
    >>> table = pd.DataFrame({"age": [20, 40, 60], "job": ["nurse", "cook", "cook"]})
    >>> Design(min_frequency=1).fit(table).transform(table)
    array([[0. , 0. , 1. , 0. ],
           [0.5, 1. , 0. , 0. ],
           [1. , 1. , 0. , 0. ]], dtype=float32)
    """

    def __init__(
        self,
        categorical: Sequence[str] = (),
        scaling: Mapping[str, Scaling] | None = None,
        min_frequency: int = MIN_FREQUENCY,
    ) -> None:
        self.categorical = tuple(categorical)
        self.scaling = dict(scaling or {})
        self.min_frequency = min_frequency

    def fit(self, X: Any) -> Design:
        """Learn ranges and categories of training records."""
        frame = Frame(X)
        self.names_ = frame.names
        self.numbers_: dict[str, tuple[float, float, float]] = {}
        self.categories_: dict[str, NDArray[Any]] = {}
        for name in frame.names:
            field = frame.read(name)
            if name in self.categorical or field.categorical:
                values, counts = np.unique(_plain(field)[~field.missing()], return_counts=True)
                self.categories_[name] = values[counts >= self.min_frequency]
            else:
                self.numbers_[name] = _range(_numbers(field), self.scaling.get(name, "unit"))
        return self

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return len(self.numbers_) + sum(len(values) + 1 for values in self.categories_.values())

    def column_names(self) -> list[str]:
        """Name of each column of the matrix."""
        names = []
        for name in self.names_:
            if name in self.numbers_:
                names.append(name)
            else:
                names += [f"{name}={value}" for value in self.categories_[name]] + [f"{name}=other"]
        return names

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return one row of numbers per record."""
        frame = Frame(X)
        matrix = np.zeros((len(frame), self.width), dtype=np.float32)
        at = 0
        for name in self.names_:
            field = frame.read(name)
            if name in self.numbers_:
                matrix[:, at] = self._scaled(field)
                at += 1
            else:
                codes = self._codes(field)
                matrix[np.arange(len(frame)), at + codes] = 1.0
                at += len(self.categories_[name]) + 1
        return matrix

    def codes(self, X: Any) -> dict[str, NDArray[Any]]:
        """Return scaled numbers and category numbers, column by column: the matrix before its bits are written out."""
        frame = Frame(X)
        fields = {name: frame.read(name) for name in self.names_}
        return {
            name: self._scaled(field) if name in self.numbers_ else self._codes(field) for name, field in fields.items()
        }

    def _scaled(self, field: Field) -> NDArray[np.float32]:
        shift, scale, mean = self.numbers_[field.name]
        values = _numbers(field)
        return ((np.where(np.isnan(values), mean, values) - shift) / scale).astype(np.float32)

    def _codes(self, field: Field) -> NDArray[np.int64]:
        known = self.categories_[field.name]
        codes = np.full(len(field), len(known), dtype=np.int64)
        if len(known):
            values = _plain(field)
            if values.dtype.kind != known.dtype.kind and "U" in (values.dtype.kind, known.dtype.kind):
                raise TableError(
                    f"Column {field.name!r} held {'text' if known.dtype.kind == 'U' else 'numbers'} in the training "
                    "records and does not here: give it the same type."
                )
            found = np.searchsorted(known, values).clip(max=len(known) - 1)
            hit = (known[found] == values) & ~field.missing()
            codes[hit] = found[hit]
        return codes


def _numbers(field: Field) -> NDArray[np.float64]:
    if isinstance(field.column, Dictionary):
        raise TableError(f"Column {field.name!r} holds text: name it among the categorical columns.")
    return np.asarray(field.column, dtype=np.float64)


def _plain(field: Field) -> NDArray[Any]:
    """Values of a column as an array that can be sorted."""
    if isinstance(field.column, Dictionary):
        values = np.array([*field.column.values, ""], dtype=np.str_)
        return values[np.where(field.column.indices < 0, len(values) - 1, field.column.indices)]
    return np.asarray(field.column)


def _range(values: NDArray[np.float64], scaling: Scaling) -> tuple[float, float, float]:
    """Shift, scale and mean."""
    known = values[~np.isnan(values)]
    if not len(known):
        return 0.0, 1.0, 0.0
    mean = float(known.mean())
    if scaling == "unit":
        low, high = float(known.min()), float(known.max())
        return low, (high - low) or 1.0, mean
    if scaling == "standard":
        return mean, float(known.std()) or 1.0, mean
    return 0.0, 1.0, mean
