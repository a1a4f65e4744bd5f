"""Columns to codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError, TableError
from certifare.growth import CategoricalBins, Codes, ContinuousBins, Dictionary, encode, fit_bins
from certifare.growth.binning import MOST_CATEGORIES
from certifare.growth.columns import panels

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
whole = st.integers(-40_000, 110_000).map(float)  # beyond both ends of the window for tables
numbers = st.one_of(whole, finite, st.sampled_from([0.5, -0.0, 1e300, 98_303.0, 98_304.0, -32_768.0, -32_769.0]))
with_missing = st.one_of(numbers, st.just(np.nan))


def slow_continuous(values: list[float], edges: list[float]) -> list[int]:
    return [len(edges) + 1 if v != v else sum(e < v for e in edges) for v in values]


def slow_categorical(values: list[float], categories: list[float]) -> list[int]:
    return [
        len(categories) + 1 if v != v else categories.index(v) if v in categories else len(categories) for v in values
    ]


@given(st.lists(with_missing, max_size=600), st.lists(numbers, max_size=300, unique=True))
def test_continuous_codes_count_the_edges_below(values: list[float], edges: list[float]) -> None:
    bins = ContinuousBins("x", np.array(sorted(edges), dtype=np.float64))
    assert bins.encode(np.array(values)).tolist() == slow_continuous(values, sorted(edges))


@given(st.data(), st.lists(numbers, max_size=300, unique=True))
def test_categorical_codes_are_positions(data: st.DataObject, categories: list[float]) -> None:
    categories = sorted(categories)
    seen = st.sampled_from(categories) if categories else st.just(1.0)
    values = data.draw(st.lists(st.one_of(seen, with_missing), max_size=600))
    bins = CategoricalBins("x", tuple(categories))
    assert bins.encode(np.array(values)).tolist() == slow_categorical(values, categories)


@given(st.lists(with_missing, min_size=1, max_size=400), st.integers(2, 20))
def test_continuous_bins_are_monotone_and_few(values: list[float], max_bins: int) -> None:
    column = np.array(values)
    (bins,) = fit_bins([column], ["x"], [False], max_bins=max_bins)
    assert isinstance(bins, ContinuousBins)
    assert (np.diff(bins.edges) > 0).all()
    assert np.isfinite(bins.edges).all()
    present = np.unique(column[~np.isnan(column)])
    assert len(bins.edges) <= max(min(len(present), max_bins) - 1, 0)
    codes = bins.encode(present)
    assert (np.diff(codes.astype(int)) >= 0).all()
    if len(present) <= max_bins:
        assert_array_equal(codes, np.arange(len(present)))


@pytest.mark.parametrize("scale", [1.0, 0.001], ids=["small whole numbers", "others"])
def test_quantile_bins_hold_about_equally_many(scale: float) -> None:
    values = np.random.default_rng(0).permutation(50_000) * scale
    (bins,) = fit_bins([values], ["x"], [False], max_bins=100, sample_rows=20_000)
    sizes = np.bincount(bins.encode(values))
    assert len(sizes) == 100
    assert sizes.min() > 300
    assert sizes.max() < 700


def test_the_sample_of_quantiles_follows_its_seed() -> None:
    values = np.random.default_rng(0).normal(size=5_000)
    edges = [
        fit_bins([values], ["x"], [False], sample_rows=1_000, seed=seed)[0].edges  # type: ignore[union-attr]
        for seed in (1, 1, 2)
    ]
    assert_array_equal(edges[0], edges[1])
    assert not np.array_equal(edges[0], edges[2])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("categorical", [False, True])
def test_every_numeric_type(dtype: type, categorical: bool) -> None:
    column = np.array([0, 1, 1, 0, 1]).astype(dtype)
    (bins,) = fit_bins([column], ["x"], [categorical], min_category_count=1)
    assert_array_equal(bins.encode(column), [0, 1, 1, 0, 1])


def test_row_wise_column_wise_and_single_columns_are_encoded_alike() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 300, (20_000, 5)).astype(np.float64)
    table[:, 2] += 0.25  # one column that no table serves, between others
    table[rng.random(table.shape) < 0.02] = np.nan
    names, categorical = list("abcde"), [False, True, False, True, True]
    expected: list[np.ndarray] = []
    for layout in (table, np.asfortranarray(table), table[::-1][::-1], table.astype(np.float32).astype(np.float64)):
        columns = [layout[:, c] for c in range(5)]
        for columns_in_order in (columns, [c.copy() for c in columns]):
            for n_threads in (1, 3):
                bins = fit_bins(columns_in_order, names, categorical, n_threads=n_threads)
                codes = encode(bins, columns_in_order, n_threads=n_threads).columns
                expected = expected or list(codes)
                for column, same in zip(codes, expected, strict=True):
                    assert_array_equal(column, same)
    for c in range(5):
        values = table[:, c].tolist()
        slow = slow_categorical if categorical[c] else slow_continuous
        landmarks = bins[c].categories if categorical[c] else bins[c].edges.tolist()  # type: ignore[union-attr]
        assert expected[c][:500].tolist() == slow(values[:500], list(landmarks))


def test_values_far_from_those_in_the_first_rows_are_counted() -> None:
    """The table of counts starts out for the first block's values; it must not stay there."""
    near, far, beyond = np.zeros(30_000), np.zeros(30_000), np.zeros(30_000)
    far[-10:], beyond[-10:] = 50_000, 2e9
    bins = fit_bins([near, far, beyond], list("abc"), [True, True, True])
    assert [b.categories for b in bins] == [(0,), (0, 50_000), (0, 2_000_000_000)]  # type: ignore[union-attr]


def test_columns_in_any_order_and_read_only() -> None:
    table = np.arange(60.0).reshape(10, 6)
    table.flags.writeable = False
    chosen = [5, 0, 2, 4]
    columns = [table[:, c] for c in chosen]
    bins = fit_bins(columns, [str(c) for c in chosen], [False] * 4)
    for column in encode(bins, columns).columns:
        assert_array_equal(column, np.arange(10))


def test_text_categories() -> None:
    indices = np.repeat([2, 0, 1, -1], [6, 5, 4, 3])
    column = Dictionary(indices, ("b", "rare", "a", "absent"))
    (bins,) = fit_bins([column], ["x"], [True])
    assert isinstance(bins, CategoricalBins)
    assert bins.categories == ("a", "b")
    assert_array_equal(bins.encode(column), np.repeat([0, 1, 2, 3], [6, 5, 4, 3]))
    other = Dictionary(np.array([0, 1, -1], dtype=np.int8), ("never seen", "b"))
    assert_array_equal(bins.encode(other), [2, 1, 3])


def test_whole_categories_are_integers_and_others_floats() -> None:
    whole_bins, other = fit_bins([np.repeat([7.0, 3.0], 5), np.repeat([7.5, 3.0], 5)], ["a", "b"], [True, True])
    assert whole_bins.categories == (3, 7)  # type: ignore[union-attr]
    assert [type(c) for c in whole_bins.categories] == [int, int]  # type: ignore[union-attr]
    assert other.categories == (3.0, 7.5)  # type: ignore[union-attr]


@pytest.mark.parametrize("as_text", [True, False])
def test_a_hundred_thousand_categories(as_text: bool) -> None:
    """What 16 bits cannot hold is pooled, the least frequent first."""
    ids = np.concatenate([np.repeat(np.arange(100_000), 5), np.arange(99_000, 100_000)])
    column = Dictionary(ids, tuple(f"{i:06d}" for i in range(100_000))) if as_text else ids * 10
    (bins,) = fit_bins([column], ["x"], [True])
    assert isinstance(bins, CategoricalBins)
    assert len(bins.categories) == MOST_CATEGORIES
    codes = bins.encode(column)
    assert codes.dtype == np.uint16
    assert (codes[ids >= 99_000] < MOST_CATEGORIES).all()
    assert (codes == bins.infrequent_code).sum() == 5 * (100_000 - MOST_CATEGORIES)


def test_width_of_codes() -> None:
    for n, dtype in ((254, np.uint8), (255, np.uint16)):
        column = np.arange(n)
        (categorical,) = fit_bins([column], ["x"], [True], min_category_count=1)
        assert categorical.encode(column).dtype == dtype
    (continuous,) = fit_bins([np.arange(10_000)], ["x"], [False])
    assert continuous.encode(np.arange(10_000)).dtype == np.uint8
    assert continuous.n_codes == 256


def test_constant_all_missing_and_empty_columns() -> None:
    constant, nothing = np.full(20, 3.0), np.full(20, np.nan)
    bins = fit_bins([constant, nothing, constant, nothing], list("abcd"), [False, False, True, True])
    codes = encode(bins, [constant, nothing, constant, nothing])
    assert [np.unique(column).tolist() for column in codes.columns] == [[0], [1], [0], [1]]
    unseen = encode(bins, [np.array([9.0, -9.0, np.nan])] * 4)
    assert [column.tolist() for column in unseen.columns] == [[0, 0, 1], [0, 0, 1], [1, 1, 2], [0, 0, 1]]
    bins = fit_bins([np.zeros(0), np.zeros(0)], list("ab"), [False, True])
    assert len(encode(bins, [np.zeros(0), np.zeros(0)])) == 0


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.1], ids=["table", "search"])
def test_infinite_values_are_refused_by_name(categorical: bool, scale: float) -> None:
    column = np.arange(20_000) % 50 * scale
    bins = fit_bins([column], ["height"], [categorical])
    column[12_345] = -np.inf
    with pytest.raises(TableError, match="'height' holds -inf; give"):
        encode(bins, [column], n_threads=2)
    with pytest.raises(TableError, match="'height' holds -inf; give"):
        fit_bins([column], ["height"], [categorical])


def test_text_and_numbers_are_not_exchanged() -> None:
    text, number = Dictionary(np.zeros(5, dtype=int), ("a",)), np.arange(5)
    with pytest.raises(TableError, match="'x' holds text \\('a'\\) where numbers are wanted"):
        fit_bins([text], ["x"], [False])
    (of_text, of_numbers) = fit_bins([text, number], ["t", "n"], [True, True], min_category_count=1)
    with pytest.raises(TableError, match="'t' holds numbers, but held text"):
        of_text.encode(number)
    with pytest.raises(TableError, match="'n' holds text, but held numbers"):
        of_numbers.encode(text)
    (continuous,) = fit_bins([number], ["c"], [False])
    with pytest.raises(TableError, match="'c' holds text"):
        continuous.encode(text)
    with pytest.raises(TableError, match="'x' has the type object"):
        fit_bins([np.array(["a", 1], dtype=object)], ["x"], [True])
    with pytest.raises(TableError, match="beyond 2\\^53"):
        fit_bins([np.array([2**60, 2**60 + 1])], ["x"], [True])


def test_broken_columns_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'b' has the shape \\(4,\\); give 5 values"):
        fit_bins([np.zeros(5), np.zeros(4)], ["a", "b"], [False, False])
    with pytest.raises(ArgumentError, match="'a' has indices outside -1 … 0"):
        fit_bins([Dictionary(np.array([1]), ("x",))], ["a"], [True])
    with pytest.raises(ArgumentError, match="lists a value twice"):
        fit_bins([Dictionary(np.array([1]), ("x", "x"))], ["a"], [True])
    with pytest.raises(ArgumentError, match="max_bins is 1"):
        fit_bins([np.zeros(5)], ["a"], [False], max_bins=1)
    with pytest.raises(ArgumentError, match="sample_rows is 0"):
        fit_bins([np.zeros(5)], ["a"], [False], sample_rows=0)


def test_codes_out_of_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="Column 0 has the code 3; the codes are 0 … 2"):
        Codes((np.array([0, 3], dtype=np.uint8),), (3,))
    with pytest.raises(ArgumentError, match="int64"):
        Codes((np.array([0, 1]),), (3,))
    with pytest.raises(ArgumentError, match="1 columns of codes were given, but 2 sizes"):
        Codes((np.zeros(2, dtype=np.uint8),), (3, 3))


def test_columns_that_lie_far_apart_are_read_one_by_one():
    """One column on the heap and one that the system mapped: taken for one array, they ended the process."""
    far = np.arange(4_000_000, dtype=np.int64) % 50
    near = np.arange(3_000, dtype=np.int64) % 50
    edges = np.arange(10.0, 40.0, 10.0)
    bins = [ContinuousBins("near", edges), ContinuousBins("far", edges)]
    for columns in ([near, far[:3_000]], [far[:3_000], near]):
        codes = encode(bins, columns)
        assert np.array_equal(codes.columns[0], codes.columns[1])


def test_columns_of_a_row_wise_array_are_read_together():
    table = np.arange(30, dtype=np.int64).reshape(10, 3)
    ((panel, which),) = panels({i: table[:, i] for i in range(3)})
    assert which == [0, 1, 2]
    assert np.array_equal(panel, table)
    assert [which for _, which in panels({i: np.asfortranarray(table)[:, i] for i in range(3)})] == [[0], [1], [2]]
