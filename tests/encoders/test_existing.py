"""Certify a column that is already there."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from certifare import CellCounts, certify_column, certify_counts, load_encoder
from certifare.encoders import column_encoder
from certifare.errors import ArgumentError, TableError


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 4_000)
    score = np.clip(rng.normal(0.45 + 0.1 * (sex == "m"), 0.2), 0, 1)
    return pd.DataFrame({"sex": sex, "score": score, "decision": np.where(score > 0.5, "yes", "no")})


def test_the_bound_is_that_of_the_counts(scored):
    table = pd.crosstab(scored["decision"], scored["sex"])
    expected = certify_counts(CellCounts(table.to_numpy(), groups=table.columns))
    certificate = certify_column(scored["decision"], sensitive_features=scored["sex"], name="decision")
    assert certificate.bound == expected.bound
    assert certificate.estimate == expected.estimate
    assert certificate.lower <= expected.lower  # two empty cells more, for missing and for other values
    assert "no values but those that were found" in certificate.assumptions[-1]


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        (["b", "a", None, "b"], [1, 0, 2, 1]),
        ([2, 7, 2, -1], [1, 2, 1, 0]),
        ([0.5, np.nan, 1.5, 0.5], [0, 2, 1, 0]),
        (np.array([True, False, True]), [1, 0, 1]),
    ],
)
def test_each_value_is_a_cell_before_and_after_a_file(values, cells, tmp_path):
    encoder = column_encoder(values, name="x")
    table = pa.table({"x": pa.array(values, from_pandas=True)})
    assert encoder.apply(table).tolist() == cells
    encoder.save(tmp_path / "e.json")
    loaded = load_encoder(tmp_path / "e.json")
    assert loaded.apply(table).tolist() == cells
    assert loaded.digest() == encoder.digest()


def test_a_new_value_has_a_cell_of_its_own():
    encoder = column_encoder(["a", "b"], name="x")
    assert encoder.apply(pa.table({"x": ["c", "a", None]})).tolist() == [3, 0, 2]


def test_bins_hold_their_upper_end(scored):
    encoder = column_encoder(scored["score"], name="score", cuts=[0.2, 0.5])
    assert encoder.apply(pl.DataFrame({"score": [0.2, 0.2001, 0.5, 0.9, None]})).tolist() == [0, 1, 1, 2, 3]
    certificate = certify_column(scored["score"], sensitive_features=scored["sex"], cuts=[0.2, 0.5], name="score")
    assert certificate.counts.table.sum() == 4_000
    assert "cut at 0.2, 0.5" in certificate.assumptions[-1]
    assert "fixed before" in certificate.assumptions[-1]


def test_every_rule_on_the_column_is_below_the_bound(scored):
    certificate = certify_column(scored["score"], sensitive_features=scored["sex"], cuts=np.arange(0.1, 1.0, 0.1))
    for threshold in np.arange(0.1, 1.0, 0.1):
        rates = (scored["score"] > threshold).groupby(scored["sex"]).mean()
        assert abs(rates["f"] - rates["m"]) <= certificate.bound


@pytest.mark.parametrize(
    ("values", "cuts", "error", "words"),
    [
        (np.arange(300) / 7, None, ArgumentError, "--cuts"),
        ([str(i) for i in range(300)], None, ArgumentError, "group its values first"),
        (["a", "b"], [0.5], TableError, "cannot be cut"),
        ([0.1, 0.2], [0.5, 0.5], ArgumentError, "ascending"),
        ([0.1, 0.2], [], ArgumentError, "ascending"),
        ([0.1, 0.2], [np.inf], ArgumentError, "finite"),
        ([None, None], None, TableError, "no value"),
        (pd.DataFrame({"a": [1], "b": [2]}), None, ArgumentError, "one column"),
    ],
)
def test_what_cannot_be_certified_is_refused(values, cuts, error, words):
    with pytest.raises(error, match=words):
        column_encoder(values, cuts=cuts)


def test_equal_values_are_no_repeats():
    """A score that was made from ranks has each value equally often: that says nothing of copied records."""
    ranks = np.repeat(np.arange(100), 20) / 100
    groups = np.tile(["f", "m"], 1_000)
    assert certify_column(ranks, sensitive_features=groups).bound < 0.3
