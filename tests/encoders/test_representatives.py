import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from certifare.encoders.representatives import find_representatives
from certifare.encoders.training import ColumnSchema
from certifare.growth import encode, fit_bins
from certifare.tables.frames import Frame


def representatives(table, cells, ranges, categorical, max_bins=255):
    frame = Frame(table)
    fields = [frame.read(name) for name in frame.names]
    columns = [ColumnSchema(f.name, f.type, c, True) for f, c in zip(fields, categorical, strict=True)]
    data = [field.column for field in fields]
    bins = fit_bins(data, frame.names, categorical, max_bins=max_bins, min_category_count=1)
    return find_representatives(
        columns, fields, bins, encode(bins, data), np.array(cells, dtype=np.int32), np.array(ranges)
    )


def lower_median(values):
    present = sorted(v for v in values if not np.isnan(v))
    if not present or len(present) * 2 < len(values):
        return np.nan
    return present[(len(present) - 1) // 2]


@given(
    st.lists(st.tuples(st.sampled_from([*range(20), np.nan]), st.integers(0, 3)), min_size=1, max_size=60),
    st.sampled_from([3, 255]),
)
def test_medians_of_every_range_of_cells(pairs, max_bins):
    values, cells = map(np.array, zip(*pairs, strict=True))
    ranges = [(a, b) for a in range(4) for b in range(a + 1, 5)]
    found = representatives(pd.DataFrame({"x": values}, dtype=float), cells, ranges, [False], max_bins).values[0]
    expected = [lower_median(values[(cells >= a) & (cells < b)]) for a, b in ranges]
    np.testing.assert_array_equal(found, expected)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 2)), min_size=1, max_size=40))
def test_most_common_categories(pairs):
    values, cells = zip(*pairs, strict=True)
    assume(any(values))
    found = representatives(
        pd.DataFrame({"x": pd.Series(values, dtype=object)}), cells, [(0, 1), (1, 3), (0, 3)], [True]
    )
    for (a, b), value in zip([(0, 1), (1, 3), (0, 3)], found.values[0], strict=True):
        inside = [v for v, c in pairs if a <= c < b]
        if inside:
            assert inside.count(value) == max(inside.count(v) for v in inside)
        else:
            assert value is None


def test_a_median_is_a_value_that_occurs():
    found = representatives(pd.DataFrame({"age": [30, 31, 40, 45]}), [0, 0, 0, 0], [(0, 1)], [False])
    assert found.values[0].tolist() == [31.0]


def test_numbers_that_are_categories():
    found = representatives(pd.DataFrame({"code": [7, 7, 9, np.nan]}), [0, 0, 1, 1], [(0, 1), (1, 2)], [True])
    assert found.values[0].tolist() == pytest.approx([7, 9])


def test_take_keeps_places_in_order():
    found = representatives(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), [0, 1, 2], [(0, 1), (1, 2), (2, 3)], [False])
    assert found.take([2, 0]).values[0].tolist() == [3.0, 1.0]
