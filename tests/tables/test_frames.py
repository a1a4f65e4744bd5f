from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.errors import ArgumentError, MissingColumnError, TableError
from certifare.growth import Dictionary
from certifare.tables.frames import Field, Frame, check_lengths, read_values
from certifare.tables.roles import parse_role

TABLE = {
    "whole": [3, 1, 2],
    "gaps": [1.5, None, 2.5],
    "flag": [True, False, True],
    "text": ["b", None, "a"],
}


def values_of(field: Field) -> list:
    if isinstance(field.column, Dictionary):
        return [field.column.values[i] if i >= 0 else None for i in field.column.indices]
    return [None if np.isnan(x) else x for x in np.asarray(field.column, dtype=float)]


def test_every_library_gives_the_same_columns(any_dataframe):
    frame = Frame(any_dataframe(TABLE))
    assert frame.names == tuple(TABLE)
    assert len(frame) == 3
    assert [values_of(frame.read(name)) for name in TABLE] == [[3, 1, 2], [1.5, None, 2.5], [1, 0, 1], ["b", None, "a"]]
    assert [frame.read(name).type for name in TABLE] == ["number", "number", "boolean", "text"]
    assert [frame.read(name).categorical for name in TABLE] == [False, False, False, True]


@pytest.mark.parametrize(
    ("column", "type_", "expected"),
    [
        (pd.Series([1, 2, None], dtype="Int64"), "number", [1, 2, None]),
        (pd.Series([True, None], dtype="boolean"), "boolean", [1, None]),
        (pd.Series(["x", None], dtype=object), "text", ["x", None]),
        (pd.Series([1, 2.5, None], dtype=object), "number", [1, 2.5, None]),
        (pd.Series(pd.Categorical(["x", None, "y"])), "text", ["x", None, "y"]),
        (pd.Series(pd.Categorical([5, None, 3])), "number", [5, None, 3]),
        (pl.Series(["x", None], dtype=pl.Categorical), "text", ["x", None]),
        (pl.Series(["x", None], dtype=pl.Enum(["y", "x"])), "text", ["x", None]),
        (pl.Series(["1.5", None]).cast(pl.Decimal(4, 2)), "number", [1.5, None]),
        (pl.Series([None, None]), "number", [None, None]),
        (pa.array(["x", None, "x"]).dictionary_encode(), "text", ["x", None, "x"]),
        (
            pa.chunked_array([pa.array(["x"]).dictionary_encode(), pa.array(["y"]).dictionary_encode()]),
            "text",
            ["x", "y"],
        ),
        (np.array([1, 2], dtype=">i4"), "number", [1, 2]),
        (np.array([1, 2], dtype=np.float16), "number", [1, 2]),
        (["a", "b"], "text", ["a", "b"]),
    ],
    ids=str,
)
def test_every_dtype_is_read_as_its_kind(column, type_, expected):
    (field,) = read_values(column, "label")
    assert field.type == type_
    assert values_of(field) == expected


def test_categorical_dtypes_mark_numbers_as_categories():
    (field,) = read_values(pd.Series(pd.Categorical([5, 3])), "code")
    assert field.categorical


def test_columns_are_read_only_when_asked_for():
    frame = Frame(pd.DataFrame({"a": [1], "when": pd.to_datetime(["2020-01-01"])}))
    assert frame.read("a").column[0] == 1
    with pytest.raises(TableError, match="'when' holds dates"):
        frame.read("when")


def test_arrays_get_names():
    frame = Frame(np.ones((2, 3)))
    assert frame.names == ("x0", "x1", "x2")
    assert not frame.named
    assert not Frame(pd.DataFrame([[1, 2]])).named


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), TableError, "'a'"),
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), TableError, "'a'"),
        (pl.DataFrame({"a": [1]}).lazy(), TableError, "lazy"),
        ([1, 2], TableError, "Reshape your data"),
        (np.array([[1j]]), TableError, "Complex"),
        (pd.DataFrame([[1, 2]], columns=["a", 1]), TableError, "'a', 1"),
        (np.empty((3, 0)), TableError, r"0 feature\(s\)"),
        (5, TableError, "int"),
    ],
)
def test_what_is_no_table_is_refused(table, error, message):
    with pytest.raises(error, match=message):
        Frame(table)


def test_sparse_tables_are_refused():
    from scipy.sparse import csr_array

    with pytest.raises(TableError, match="Sparse"):
        Frame(csr_array(np.eye(2)))


@pytest.mark.parametrize("values", [["a", 1], [{"k": 1}, {"k": 2}], [b"a", b"b"], ["\ud800"]])
def test_mixed_and_nested_values_are_refused(values):
    with pytest.raises(TableError, match="'x0'"):
        Frame(np.array([[v] for v in values], dtype=object)).read(0)


def test_missing_columns_are_named():
    with pytest.raises(MissingColumnError, match=r"No column 'c'. The table has 'a', 'b'"):
        Frame(pd.DataFrame({"a": [1], "b": [2]})).read("c")
    with pytest.raises(MissingColumnError, match="No column 2"):
        Frame(np.ones((1, 2))).read(2)


def test_infinite_numbers_and_text_are_refused_as_numbers():
    with pytest.raises(TableError, match="'a' holds an infinite value."):
        Field("a", np.array([0.0, np.inf]), "number", False).numbers()
    with pytest.raises(TableError, match="'a' holds text"):
        Field("a", Dictionary(np.array([0]), ("x",)), "text", True).numbers()


def test_a_column_without_values_fits_every_type():
    empty = Field("a", np.array([np.nan, np.nan]), "number", False)
    assert isinstance(empty.as_type("text").column, Dictionary)
    full = Field("a", np.array([1.0]), "number", False)
    assert full.as_type("text") is full


@given(st.lists(st.one_of(st.integers(-100, 100), st.integers(-(2**40), 2**40)), min_size=1))
def test_levels_of_integers(values):
    found = read_values(np.array(values), "y")[0].levels()
    assert list(found.values) == sorted(set(values))
    assert [found.values[c] for c in found.codes] == values


@given(st.lists(st.one_of(st.text(max_size=3), st.none()), min_size=1))
def test_levels_of_text(values):
    field = read_values(pa.array(values, type=pa.string()), "y")[0]
    if None in values:
        with pytest.raises(TableError, match="'y' has no value"):
            field.levels().complete("label")
        return
    found = field.levels().complete("label")
    assert list(found.values) == sorted(set(values))
    assert [found.values[c] for c in found.codes] == values


def test_levels_keep_python_types():
    assert read_values([True, False], "y")[0].levels().values == (False, True)
    assert read_values([1.0, 2.0], "y")[0].levels().values == (1, 2)
    assert read_values([0.5, 2.0], "y")[0].levels().values == (0.5, 2)


def test_several_columns_of_values():
    names = [field.name for field in read_values(pd.DataFrame({"a": [1], "b": [2]}), "label")]
    assert names == ["a", "b"]
    assert [field.name for field in read_values(np.ones((2, 2)), "label")] == ["label_0", "label_1"]
    assert [field.name for field in read_values(np.ones((2, 1)), "label")] == ["label"]
    with pytest.raises(TableError, match="3 dimensions"):
        read_values(np.ones((2, 2, 2)), "label")


def test_lengths_must_agree():
    check_lengths({"X": 3, "y": 3})
    with pytest.raises(ArgumentError, match=r"X: 3, y: 4"):
        check_lengths({"X": 3, "y": 4})


def test_rebuilding_keeps_kind_dtypes_and_index(any_dataframe):
    table = any_dataframe(
        {"n": np.array([7, 8], dtype=np.int8), "f": np.array([1.5, 2.5], dtype=np.float32), "t": ["a", "b"]}
    )
    frame = Frame(table)
    columns = {
        "n": ("number", np.array([1.0, 2.0])),
        "f": ("number", np.array([0.5, np.nan])),
        "t": ("text", ["x", None]),
    }
    rebuilt = frame.rebuild(columns, np.array([1, 0]))
    assert type(rebuilt) is type(table)
    again = Frame(rebuilt)
    assert again.read("n").column.dtype == np.int8
    assert again.read("f").column.dtype == np.float32
    assert [values_of(again.read(name)) for name in columns] == [[2, 1], [None, 0.5], [None, "x"]]


def test_rebuilding_widens_where_values_do_not_fit(any_dataframe):
    frame = Frame(any_dataframe({"n": np.array([7, 8], dtype=np.int8)}))
    rebuilt = frame.rebuild({"n": ("number", np.array([1000.0, 1.5]))}, np.array([0, 1]))
    assert values_of(Frame(rebuilt).read("n")) == [1000, 1.5]


def test_pandas_keeps_its_index():
    frame = Frame(pd.DataFrame({"a": [1, 2, 3]}, index=[10, 20, 30]))
    assert frame.rebuild({"a": ("number", np.array([5.0]))}, np.zeros(3, dtype=int)).index.tolist() == [10, 20, 30]


def test_categories_come_back_as_categories():
    frame = Frame(
        pd.DataFrame({"c": pd.Categorical(["x", "y"]), "o": pd.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True)})
    )
    rebuilt = frame.rebuild({"c": ("text", ["y"]), "o": ("text", ["hi"])}, np.array([0, 0]))
    assert rebuilt["c"].dtype == "category"
    assert rebuilt["o"].cat.ordered
    other = frame.rebuild({"o": ("text", ["unheard of"])}, np.array([0, 0]))
    assert other["o"].tolist() == ["unheard of", "unheard of"]


def test_arrays_come_back_as_arrays():
    frame = Frame(np.array([[1, 2], [3, 4]]))
    rebuilt = frame.rebuild({"a": ("number", np.array([5.0, 6.0]))}, np.array([1, 1]))
    assert rebuilt.tolist() == [[6], [6]]
    assert rebuilt.dtype == np.int64
    mixed = frame.rebuild({"a": ("number", np.array([5.0])), "t": ("text", [None])}, np.array([0]))
    assert mixed.tolist() == [[5, None]]


def test_decimals_are_read_as_their_nearest_double():
    """Arrow's own cast misses it for some, which CSV files and databases find."""
    texts = [f"{i}.{i * 7919 % 1000:03d}" for i in range(2000)]
    for type_ in (pa.decimal128(15, 3), pa.decimal128(38, 18)):
        column = pa.array([Decimal(text) for text in texts], type_)
        assert Frame(pa.table({"x": column})).read("x").column.tolist() == [float(text) for text in texts]
        holds = parse_role("x==7.433", ["x"]).evaluate(column).to_pylist()
        assert holds.count("x == 7.433") == 1


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_reading_ten_thousand_columns_never_lists_them_again(monkeypatch, make):
    """Listing the columns for each column is what made reading quadratic."""
    frame = Frame(make({f"column_{i}": [1, 2] for i in range(10_000)}))
    listed = []
    monkeypatch.setattr(type(frame._table), "columns", property(lambda self: listed.append(1) or []))
    assert sum(int(frame.read(f"column_{i}").column[0]) for i in range(10_000)) == 10_000
    assert not listed


def test_arrow_tables_that_point_outside_of_themselves_are_refused():
    offsets = np.array([0, 1 << 28, 3], dtype=np.int32)
    text = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")])
    index = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int32()), pa.array(["x"]), safe=False)
    for column in (text, index):
        with pytest.raises(TableError, match="damaged"):
            Frame(pa.table({"a": column}))
        with pytest.raises(TableError, match="damaged"):
            read_values(column, "label")
