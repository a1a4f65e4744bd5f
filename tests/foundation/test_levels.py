"""Levels of columns of every kind: their order, names, missing values and intersections."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.errors import ArgumentError, TableError
from certifare.foundation.levels import INTERSECTION, Levels, intersect, name_of, sort_key

NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-(2**62), 2**62))
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
TEXTS = st.one_of(st.text(max_size=3), st.sampled_from(["10", "9", "1.0", "1", "unknown", "nan", "True"]))
COLUMNS = st.one_of(*(st.lists(st.one_of(st.none(), kind)) for kind in (NUMBERS, FLOATS, TEXTS, st.booleans())))


def decoded(levels):
    return [None if code < 0 else levels.values[code] for code in levels.codes.tolist()]


def arrow(values):
    return pa.array(values, None if any(value is not None for value in values) else pa.string())


@given(COLUMNS)
def test_values_are_sorted_each_occurs_and_the_records_come_back(values):
    levels = Levels.of(arrow(values), "y")
    assert list(levels.values) == sorted(set(values) - {None})
    assert decoded(levels) == values
    assert levels.missing.tolist() == [value is None for value in values]
    assert levels.counts().tolist() == [values.count(value) for value in levels.values]
    assert levels.to_arrow().to_pylist() == values


@given(COLUMNS, st.data())
def test_every_kind_of_column_gives_the_same_levels(values, data):
    column = arrow(values)
    kinds = {
        "list": lambda: values,
        "objects": lambda: np.array([*values, None], dtype=object)[:-1],
        "chunked": lambda: pa.chunked_array([column[:2], column[2:]], column.type),
        "coded": lambda: pa.chunked_array([column[:2].dictionary_encode(), column[2:].dictionary_encode()]),
        "pandas": lambda: pd.Series(values, dtype=object),
        "categories": lambda: pd.Series(values, dtype=object).astype("category"),
        "nullable": lambda: pd.Series(column, dtype=pd.ArrowDtype(column.type)),
        "polars": lambda: pl.from_arrow(column),
    }
    found = Levels.of(kinds[data.draw(st.sampled_from(sorted(kinds)))](), "y").by_name()
    expected = Levels.of(column, "y").by_name()
    assert found.names == expected.names
    assert found.codes.tolist() == expected.codes.tolist()


@given(st.lists(st.one_of(st.none(), NUMBERS, FLOATS, TEXTS, st.booleans())))
def test_names_are_sorted_numbers_first_and_pool_values_of_one_name(values):
    levels = Levels.of(values, "group").by_name()
    named = [None if value is None else name_of(value) for value in values]
    assert list(levels.names) == sorted(set(named) - {None}, key=sort_key)
    assert [None if code < 0 else levels.names[code] for code in levels.codes] == named


@given(st.lists(st.tuples(*[st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, 1, 9, 10]), st.booleans()])))
def test_intersections_are_the_combinations_that_occur_in_order(rows):
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    levels = intersect([Levels.of(column, name) for column, name in zip(columns, "xyz", strict=True)])
    complete = [None if None in row else row for row in rows]
    assert list(levels.values) == sorted(set(complete) - {None})
    assert decoded(levels) == complete
    assert levels.names == tuple(INTERSECTION.join(map(name_of, value)) for value in levels.values)
    assert levels.name == "x × y × z"


def test_intersections_of_many_values_do_not_overflow():
    many = [Levels.of(np.arange(3000) * (i + 1) % 3001, str(i)) for i in range(8)]
    assert decoded(intersect(many)) == list(zip(*map(decoded, many), strict=True))


def test_one_column_is_its_own_intersection():
    one = Levels.of(["b", "a"], "x")
    assert intersect([one]) is one


def test_columns_of_different_lengths_do_not_intersect():
    with pytest.raises(ArgumentError, match="x has 1 records, y has 2"):
        intersect([Levels.of(["a"], "x"), Levels.of([1, 2], "y")])
    with pytest.raises(ArgumentError, match="one value per record"):
        Levels.of(np.zeros((2, 2)), "x")


def test_values_keep_their_python_types():
    for value, kind in [(True, bool), (1, int), (0.5, float)]:
        assert type(Levels.of(np.array([value]), "y").values[0]) is kind
        assert type(Levels.of(pa.array([value]), "y").values[0]) is kind
    assert Levels.of(np.array([1.0, np.nan]), "y").values == (1,)
    assert type(Levels.of_numbers(np.array([1.0, np.nan]), "y", boolean=True).values[0]) is bool
    assert Levels.of(np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64), "y").values == (2**64 - 2, 2**64 - 1)


def test_zero_has_one_sign_and_decimals_are_numbers():
    assert Levels.of(pa.array([0.0, -0.0, 1.0]), "y").values == (0, 1)
    assert Levels.of([Decimal("1.50"), Decimal("1.5"), Decimal(2)], "y").names == ("1.5", "2")


def test_dates_bytes_and_other_objects_have_names():
    assert Levels.of([datetime.date(2020, 1, 2), None], "y").names == ("2020-01-02",)
    assert Levels.of(np.array(["2020-01-02", "NaT"], dtype="datetime64[D]"), "y").codes.tolist() == [0, -1]
    assert Levels.of([b"f", b"m", None], "y").names == ("f", "m")
    assert Levels.of([("a", 1), "b", pd.NA, pd.NaT], "y").names == ("a × 1", "b")


def test_missing_values_can_be_filled_or_refused():
    levels = Levels.of(["f", None, "m"], "sex")
    assert levels.filled("unknown").values == ("f", "m", "unknown")
    assert levels.filled("unknown").codes.tolist() == [0, 2, 1]
    assert levels.filled("f").codes.tolist() == [0, 0, 1]
    with pytest.raises(TableError, match=r"'sex' has no value in 1 of 3 records \(the first is record 1\)"):
        levels.complete("group")
    whole = levels.take(np.array([0, 2]))
    assert whole.complete("group").filled("unknown") is whole


def test_values_are_found_among_known_ones():
    levels = Levels.of(["f", None, "m", "x"], "sex")
    assert levels.places(["m", "f"])[levels.codes].tolist() == [1, -1, 0, -1]
