import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.encoders.information import retained_information
from certifare.growth import Dictionary
from certifare.tables.frames import Field


def number(values):
    return Field("n", np.array(values, dtype=float), "number", False)


def text(values):
    names = sorted({v for v in values if v is not None})
    return Field(
        "t", Dictionary(np.array([names.index(v) if v is not None else -1 for v in values]), tuple(names)), "text", True
    )


def by_pairs(values, cells, differ):
    """The definition: mean difference over pairs of the same cell against that over all pairs."""
    n = len(values)
    total = np.mean([differ(values[i], values[j]) for i in range(n) for j in range(n) if i != j])
    within = []
    for i in range(n):
        mates = [j for j in range(n) if j != i and cells[j] == cells[i]]
        within.append(np.mean([differ(values[i], values[j]) for j in mates]) if mates else total)
    return 1 - np.mean(within) / total


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 2)), min_size=2, max_size=12))
def test_numbers_by_the_definition(pairs):
    values, cells = zip(*pairs, strict=True)
    result = retained_information([number(values)], [False], np.array(cells), 3)
    if len(set(values)) == 1:
        assert result.columns == {}
        return
    expected = by_pairs(values, cells, lambda a, b: (a - b) ** 2)
    assert result.mean == pytest.approx(expected)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 2)), min_size=2, max_size=12))
def test_categories_by_the_definition(pairs):
    values, cells = zip(*pairs, strict=True)
    result = retained_information([text(values)], [True], np.array(cells), 3)
    if len(set(values)) == 1:
        assert result.columns == {}
        return
    assert result.mean == pytest.approx(by_pairs(values, cells, lambda a, b: a != b))


def test_numbers_that_are_categories():
    field = Field("n", np.array([1.0, np.nan, 1.0, np.nan]), "number", False)
    assert retained_information([field], [True], np.array([0, 1, 0, 1]), 2).mean == 1.0


def test_random_cells_retain_nothing():
    rng = np.random.default_rng(0)
    fields = [number(rng.normal(size=5000)), text(rng.choice(["a", "b"], 5000).tolist())]
    result = retained_information(fields, [False, True], rng.integers(0, 500, 5000), 500)
    assert abs(result.mean) < 0.02
    assert set(result.columns) == {"n", "t"}
    assert "2 columns" in str(result)


def test_missing_numbers_are_left_out():
    result = retained_information([number([1, 1, 2, 2, np.nan])], [False], np.array([0, 0, 1, 1, 1]), 2)
    assert result.mean == 1.0
    assert retained_information([number([np.nan, np.nan])], [False], np.array([0, 1]), 2).columns == {}
