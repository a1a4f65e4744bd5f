"""Read dataframes and arrays column by column, and build results of the same kind (pandas, polars, pyarrow, numpy).

A :class:`Frame` reads one column at a time, so that unused columns are never converted. A column is an array of numbers
or a dictionary of text (:data:`certifare.growth.binning.Column`); a :class:`Field` is a column with its name, its type
and whether its dtype is categorical.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from certifare.errors import ArgumentError, MissingColumnError, TableError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import Levels, plain
from certifare.growth.columns import Column, Dictionary

ColumnType: TypeAlias = Literal["number", "boolean", "text"]
#: A value of a label, a group or a category.
Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A column with its name and type."""

    name: str
    column: Column  # numbers (NaN is missing) or text
    type: ColumnType
    categorical: bool  # whether the dtype is categorical: text, categorical and enum columns

    def __len__(self) -> int:
        return len(self.column)

    def take(self, rows: NDArray[Any]) -> Field:
        """Keep some records: rows, or a mask."""
        if isinstance(self.column, Dictionary):
            return replace(self, column=Dictionary(self.column.indices[rows], self.column.values))
        return replace(self, column=self.column[rows])

    def missing(self) -> NDArray[np.bool_]:
        """Return which records have no value."""
        if isinstance(self.column, Dictionary):
            return np.asarray(self.column.indices < 0)
        if self.column.dtype.kind == "f":
            return np.isnan(self.column)
        return np.zeros(len(self.column), dtype=bool)

    def levels(self) -> Levels:
        """Return the distinct values and the code of each record."""
        if isinstance(self.column, Dictionary):
            return Levels.of_dictionary(self.column.indices, self.column.values, self.name)
        return Levels.of_numbers(self.column, self.name, boolean=self.type == "boolean")

    def numbers(self) -> NDArray[np.float64]:
        """Return the values as float64; raise if the column holds text or infinite values."""
        if isinstance(self.column, Dictionary):
            raise TableError(f"Column {self.name!r} holds text, but numbers are needed.")
        values = np.asarray(self.column, dtype=np.float64)
        if np.isinf(values).any():
            # No row number: this may be a batch of a file, or a subset of its records.
            raise TableError(f"Column {self.name!r} holds an infinite value. Make it missing (NaN) or finite.")
        return values

    def as_type(self, wanted: ColumnType) -> Field:
        """Return the column with another type if it has no values at all; otherwise return it unchanged."""
        if (self.type == "text") == (wanted == "text") or not self.missing().all():
            return self
        n = len(self)
        empty: Column = Dictionary(np.full(n, -1), ()) if wanted == "text" else np.full(n, np.nan)
        return Field(self.name, empty, wanted, self.categorical)


class Frame:
    """A dataframe or array whose columns are read one at a time.

    - ``table``: a pandas, polars or pyarrow table (any eager dataframe that narwhals supports), a two-dimensional
      array, or nested lists. Arrays, and dataframes whose column names are not text, get the names ``x0, x1, …``. A
      Frame is returned unchanged.
    - ``keep``: whether to cache columns, so that each is converted only once.
    - ``named``: whether the names come from the table.

    >>> import pandas as pd
    >>> frame = Frame(pd.DataFrame({"age": [30, 41], "job": ["nurse", None]}))
    >>> frame.names, len(frame), frame.read("age").column.tolist()
    (('age', 'job'), 2, [30, 41])
    """

    def __new__(cls, table: Any, keep: bool = False) -> Frame:
        """Return the table itself if it is a Frame, or a new Frame."""
        return table if isinstance(table, Frame) else super().__new__(cls)

    def __init__(self, table: Any, keep: bool = False) -> None:
        if table is self:
            return
        self._kept: dict[int, Field] | None = {} if keep else None
        frame = _as_dataframe(table)
        self._table: nw.DataFrame[Any] | NDArray[Any]
        if frame is None:
            self._table = _as_array(table)
            self.names, self.named = tuple(f"x{i}" for i in range(self._table.shape[1])), False
        else:
            self._table = frame
            _validate(frame.to_native())
            self._columns = list(frame.columns)
            self.names, self.named = _names(self._columns)
        if not self.names:
            raise TableError(
                f"The table has no columns: 0 feature(s) (shape=({len(self)}, 0)) while a minimum of 1 is required."
            )

        self._positions = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self._table)

    @property
    def kind(self) -> str:
        """The kind of table: ``numpy``, or the name of the dataframe library."""
        return str(self._table.implementation.value) if isinstance(self._table, nw.DataFrame) else "numpy"

    def position(self, column: str | int) -> int:
        """Return the position of a column, given its name or position."""
        if isinstance(column, str):
            if column not in self._positions:
                raise MissingColumnError(f"No column {column!r}. The table has {listing(self.names)}.")
            return self._positions[column]
        if not -len(self.names) <= column < len(self.names):
            raise MissingColumnError(f"No column {column}. The table has {len(self.names)} columns.")
        return int(column) % len(self.names)

    def read(self, column: str | int) -> Field:
        """Read one column, by name or position."""
        i = self.position(column)
        if self._kept is not None and i in self._kept:
            return self._kept[i]
        if isinstance(self._table, nw.DataFrame):
            native = self._table.to_native()
            # Access by position is faster: access by name searches all columns.
            series = (
                nw.from_native(native.column(i), series_only=True)
                if isinstance(native, pa.Table)
                else self._table.get_column(self._columns[i])
            )
            field = _read_series(series, self.names[i])
        else:
            field = _read_array(self._table[:, i], self.names[i])
        if self._kept is not None:
            self._kept[i] = field
        return field

    def fields(self) -> list[Field]:
        """Read all columns."""
        return [self.read(i) for i in range(len(self.names))]

    def rebuild(
        self, columns: Mapping[str, tuple[ColumnType, Any]], rows: NDArray[Any], kind: str | None = None
    ) -> Any:
        """Build a table whose row i is row ``rows[i]`` of the given columns.

        Columns that this table has under the same name keep its dtypes if those can hold the values; pandas
        keeps its index.

        - ``columns``: missing values are NaN in numbers and None in text. Whole-number arrays keep their dtype.
        - ``kind``: ``numpy``, ``pandas``, ``polars`` or ``pyarrow``; by default this table's own kind.
        """
        kind = kind or self.kind
        if kind == "numpy":
            return _build_array(columns, None if isinstance(self._table, nw.DataFrame) else self._table)[rows]
        schema: dict[str, nw.dtypes.DType] = {}
        if isinstance(self._table, nw.DataFrame):
            schema = dict(zip(self.names, self._table.schema.values(), strict=True))
        built = [_build_series(name, *column, schema.get(name), kind) for name, column in columns.items()]
        taken = nw.concat([series.to_frame() for series in built], how="horizontal")[rows]
        native = nw.maybe_reset_index(taken).to_native()
        index = nw.maybe_get_index(self._table) if isinstance(self._table, nw.DataFrame) else None
        if index is not None and kind == self.kind:
            native.index = index
        return native


def read_values(values: Any, name: str) -> list[Field]:
    """Read labels or groups as fields: one for a series or list, several for a table; ``name`` is for one without."""
    if isinstance(values, Levels):
        values = (values,)
    if isinstance(values, tuple) and values and all(isinstance(found, Levels) for found in values):
        return [Field(found.name, Dictionary(found.codes, found.values), "text", True) for found in values]
    series = _as_series(values)
    if series is not None:
        own = series.name
        return [_read_series(series, own if isinstance(own, str) and own else name)]
    if _as_dataframe(values) is None:
        array = np.asarray(values)
        if array.ndim == 1:
            return [_read_array(array, name)]
        if array.ndim != 2:
            raise TableError(f"{name} has {array.ndim} dimensions. Give one column, or a table of columns.")
    frame = Frame(values)
    fields = frame.fields()
    if frame.named:
        return fields
    return [replace(f, name=name if len(fields) == 1 else f"{name}_{i}") for i, f in enumerate(fields)]


def scaled(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Divide numbers by a power of two so that their squares stay finite; return them and the exponent.

    >>> scaled(np.array([2.0**600, -(2.0**600)]))[0].tolist()
    [0.5, -0.5]
    """
    exponent = int(np.frexp(np.abs(values).max())[1]) if len(values) else 0
    return np.ldexp(values, -exponent), exponent


def check_lengths(lengths: Mapping[str, int]) -> None:
    """Raise if the columns have different lengths."""
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {n:,}" for name, n in lengths.items())
        raise ArgumentError(f"Found inputs with inconsistent numbers of samples ({found}). Give one value per record.")


def _as_dataframe(table: Any) -> nw.DataFrame[Any] | None:
    """Return the table as a narwhals dataframe; None if it is not a dataframe."""
    try:
        found = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        names = table.column_names if isinstance(table, pa.Table) else table.columns
        twice = [name for name, count in Counter(map(str, names)).items() if count > 1]
        raise TableError(f"Several columns have the same name: {listing(twice)}. Rename them.") from error
    if isinstance(found, nw.LazyFrame):
        raise TableError("The table is lazy. Collect it first, or compute cells inside the database (to_sql).")
    return found if isinstance(found, nw.DataFrame) else None


def _validate(native: Any) -> None:
    """Raise if Arrow data has invalid offsets: reading it could read other memory or crash the process."""
    if isinstance(native, pa.Table | pa.RecordBatch | pa.ChunkedArray):
        try:
            native.validate(full=True)
        except pa.ArrowInvalid as error:
            raise TableError(f"The Arrow data is damaged: {error}") from error


def _names(columns: list[Any]) -> tuple[tuple[str, ...], bool]:
    text = [isinstance(name, str) for name in columns]
    if all(text):
        return tuple(columns), True
    if any(text):
        raise TableError(
            f"Some column names are text and some are not ({listing(columns)}). Make all of them text: "
            "X.columns = X.columns.astype(str)."
        )
    return tuple(f"x{i}" for i in range(len(columns))), False


def _as_array(table: Any) -> NDArray[Any]:
    from scipy.sparse import issparse

    if issparse(table):
        raise TableError("Sparse data was passed, but dense data is required. Use X.toarray().")
    array = np.asarray(table)
    if array.dtype.kind == "c":
        raise TableError("Complex data not supported. Give real numbers or text.")
    if array.ndim == 0:
        raise TableError(f"Expected a table, got {type(table).__name__}.")
    if array.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using array.reshape(-1, 1) "
            "if it has a single column or array.reshape(1, -1) if it is a single record."
        )
    return array


def _as_series(values: Any) -> nw.Series[Any] | None:
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    _validate(values)
    found = nw.from_native(values, pass_through=True, allow_series=True)
    return found if isinstance(found, nw.Series) else None


def _read_series(series: nw.Series[Any], name: str) -> Field:
    dtype = series.dtype
    if dtype.is_numeric() and not dtype.is_decimal():
        return Field(name, _number_array(series.to_numpy()), "number", False)
    if dtype == nw.Boolean and not series.null_count():
        return Field(name, series.to_numpy(), "boolean", False)
    return _read_objects(series.to_arrow, name)


def _read_array(values: NDArray[Any], name: str) -> Field:
    kind = values.dtype.kind
    if kind == "b":
        return Field(name, values, "boolean", False)
    if kind in "uif":
        return Field(name, _number_array(values), "number", False)
    if kind not in "OUT":
        raise TableError(f"Column {name!r} has the type {values.dtype}. Give numbers, booleans or text.")
    return _read_objects(lambda: pa.array(values.astype(object), from_pandas=True), name)


def _read_objects(convert: Callable[[], Any], name: str) -> Field:
    """Read a column that is first converted to Arrow data, which fails if it mixes types."""
    try:
        array = convert()
    except (pa.ArrowException, UnicodeError) as error:
        raise TableError(
            f"Column {name!r} mixes types, or holds values of an unknown type. Each argument must be a string or a "
            "number, the same throughout a column."
        ) from error
    return read_arrow(array, name)


def _number_array(values: NDArray[Any]) -> NDArray[Any]:
    """Convert numbers to a dtype that compiled code supports."""
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        return values.astype(np.float64)
    if not values.dtype.isnative:
        return values.astype(values.dtype.newbyteorder("="))
    return values


def read_arrow(array: Any, name: str) -> Field:
    """Read an Arrow array or chunked array as a field."""
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    type_ = array.type
    categorical = pa.types.is_dictionary(type_)
    if categorical and not is_text(type_.value_type):
        array = array.dictionary_decode()
        type_ = array.type
    if pa.types.is_null(type_):
        return Field(name, np.full(len(array), np.nan), "number", categorical)
    if pa.types.is_boolean(type_):
        values = array.cast(pa.int8())
        column = values.to_numpy(zero_copy_only=False) if array.null_count else values.to_numpy().astype(bool)
        return Field(name, column, "boolean", categorical)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return Field(name, _number_array(array.to_numpy(zero_copy_only=False)), "number", categorical)
    if pa.types.is_decimal(type_):
        # Through text: Arrow's own cast misses the nearest double of one in ten, which databases and CSV readers find.
        doubles = array.cast(pa.string()).cast(pa.float64())
        return Field(name, doubles.to_numpy(zero_copy_only=False), "number", categorical)
    if not categorical and not is_text(type_):
        hint = "dates: give a number such as the year" if pa.types.is_temporal(type_) else f"values of the type {type_}"
        raise TableError(f"Column {name!r} holds {hint}. Give numbers, booleans or text.")
    if not categorical:
        array = array.dictionary_encode()
    indices = pc.fill_null(array.indices.cast(pa.int64() if len(array.dictionary) > 2**31 else pa.int32()), -1)
    return Field(name, Dictionary(indices.to_numpy(), tuple(array.dictionary.to_pylist())), "text", True)


def is_text(type_: Any) -> bool:
    """Return whether an Arrow type is one of the text types."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def is_categorical(type_: pa.DataType) -> bool:
    """Return whether a column of this Arrow type is read as categories."""
    return bool(pa.types.is_dictionary(type_) or is_text(type_))


def single_array(column: Any) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _build_array(columns: Mapping[str, tuple[ColumnType, Any]], like: NDArray[Any] | None) -> NDArray[Any]:
    if all(type_ != "text" for type_, _ in columns.values()):
        array = np.column_stack([np.asarray(values) for _, values in columns.values()])
        if array.dtype.kind != "f" or like is None or like.dtype.kind not in "uif":
            return array
        with np.errstate(invalid="ignore", over="ignore"):
            cast = array.astype(like.dtype)
        return cast if cast.dtype.kind == "f" or np.array_equal(cast.astype(np.float64), array) else array
    array = np.empty((len(next(iter(columns.values()))[1]), len(columns)), dtype=object)
    for i, (type_, values) in enumerate(columns.values()):
        array[:, i] = list(values) if type_ == "text" else [plain(value) for value in np.asarray(values).tolist()]
    return array


def _build_series(
    name: str, type_: ColumnType, values: Sequence[Any], like: nw.dtypes.DType | None, kind: Any
) -> nw.Series[Any]:
    if type_ == "text":
        series = nw.new_series(name, list(values), nw.String, backend=kind)
        if isinstance(like, nw.Enum) and not set(values) <= {*like.categories, None}:
            return series
        return series.cast(like) if isinstance(like, nw.Categorical | nw.Enum) else series
    numbers = np.asarray(values)
    if numbers.dtype.kind != "f":
        return nw.new_series(name, numbers, backend=kind)
    present = numbers[~np.isnan(numbers)]
    series = nw.new_series(name, numbers, nw.Float64, backend=kind)
    nullable = kind != "pandas"
    if nullable and len(present) < len(numbers):
        series = series.fill_nan(None)
    if like is None:
        like = nw.Boolean() if type_ == "boolean" else nw.Float64()
    whole = bool((present == np.round(present)).all()) and (nullable or len(present) == len(numbers))
    if like == nw.Boolean and whole:
        return series.cast(nw.Boolean)
    if like.is_integer() and whole:
        limits = np.iinfo(str(like).lower())
        if not len(present) or (present.min() >= limits.min and present.max() <= limits.max):
            return series.cast(like)
    if like == nw.Float32:
        return series.cast(like)
    if isinstance(like, nw.Categorical) and not nullable:
        return (series.cast(nw.Int64) if whole else series).cast(like)
    return series
