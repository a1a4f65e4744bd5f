"""Bad input to fit: each kind has its own clear error."""

import numpy as np
import pandas as pd
import pytest

from certifare import FairTreeEncoder
from certifare.encoders.training import read_training
from certifare.errors import ArgumentError, CertifareError, EncoderError, GroupError, MissingColumnError, TableError

N = 40
X = pd.DataFrame({"a": np.arange(N), "b": np.arange(N) % 7})
Y = np.arange(N) % 2
S = np.arange(N) // 2 % 2


def fit(X=X, y=Y, s=S, **parameters):
    return FairTreeEncoder(**{"min_cell_size": 2, "gamma": 0.1, **parameters}).fit(X, y, sensitive_features=s)


def read(X=X, y=Y, s=S, **parameters):
    defaults = {
        "sensitive": None,
        "categorical_features": "from_dtype",
        "allow_sensitive_feature": False,
        "max_bins": 255,
    }
    return read_training(X, y, s, {**defaults, **parameters}, seed=0, n_threads=1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": X.iloc[:0], "y": Y[:0], "s": S[:0]}, TableError, "no records"),
        ({"X": X[[]]}, TableError, "no columns"),
        ({"s": None}, GroupError, 'sensitive="sex"'),
        ({"y": None}, EncoderError, "requires y"),
        ({"s": np.zeros(N)}, EncoderError, "one group: column 'sensitive' holds only 0"),
        ({"y": np.ones(N)}, EncoderError, "one label: column 'label' holds only 1"),
        ({"y": pd.Series([None, *Y[1:]], name="paid")}, TableError, r"'paid' has no value in 1 of 40 records"),
        ({"s": [None, *"ab" * 19, "a"]}, TableError, "'sensitive' has no value"),
        ({"y": Y[:-1]}, ArgumentError, "X: 40, label 'label': 39"),
        ({"s": S[:-1]}, ArgumentError, "sensitive 'sensitive': 39"),
        ({"X": X.assign(a=np.inf)}, TableError, "'a'"),
        ({"X": X.rename(columns={"a": "b"})}, TableError, "'b'"),
        ({"X": X.assign(sex=S)}, GroupError, "'sex' says which group"),
        ({"X": X.assign(sex=np.where(S, "f", "m"))}, GroupError, "'sex' says which group"),
        ({"sensitive": "sex"}, GroupError, "given twice"),
        ({"s": None, "sensitive": "sex"}, GroupError, "No column 'sex'. The table has 'a', 'b'"),
        ({"s": None, "sensitive": ["a", "a"]}, GroupError, "names a column twice"),
        ({"s": None, "sensitive": ["a", "b"]}, TableError, "There is no feature"),
        (
            {"y": np.arange(300.0), "X": pd.DataFrame({"a": np.arange(300)}), "s": np.arange(300) % 2},
            EncoderError,
            "300 distinct",
        ),
        ({"categorical_features": ["c"]}, MissingColumnError, "No column 'c'"),
        ({"categorical_features": [True]}, EncoderError, "mask of 1 values"),
        ({"X": X.assign(a=[str(v) for v in X.a]), "categorical_features": []}, TableError, "'a' holds text"),
        ({"min_cell_size": 41}, EncoderError, "min_cell_size is 41, but there are only 40 records"),
        ({"min_cell_size": 0}, EncoderError, "min_cell_size is 0"),
        ({"gamma": 1.5}, CertifareError, "gamma is 1.5"),
        ({"max_cells": 0}, CertifareError, "max_cells is 0"),
        ({"max_bins": 1}, CertifareError, "max_bins is 1"),
        ({"metric": "accuracy"}, CertifareError, "metric is 'accuracy'"),
        ({"orderings": "any"}, CertifareError, "orderings is 'any'"),
        ({"output": "text"}, EncoderError, "output is 'text'"),
        ({"retain": 2}, EncoderError, "retain is 2"),
        ({"n_jobs": 0}, EncoderError, "n_jobs is 0"),
        ({"random_state": "x"}, EncoderError, "random_state is 'x'"),
        ({"label_weights": [1, 2]}, EncoderError, "label_weights has 2 weights, but y has 1"),
        ({"metric": "equal_opportunity", "positive_label": "yes"}, EncoderError, "positive_label is 'yes'"),
        ({"metric": "equal_opportunity", "y": np.arange(N) % 3}, EncoderError, "give positive_label"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        fit(**arguments)


def test_constant_and_empty_columns_are_no_use_and_no_harm():
    table = X.assign(constant=1, empty=np.nan, nothing=pd.Series([None] * N, dtype=object))
    encoder = fit(table)
    assert encoder.n_cells_ == fit().n_cells_
    assert np.array_equal(encoder.apply(table), fit().apply(X))


def test_a_hundred_thousand_categories_are_pooled():
    n = 200_000
    rng = np.random.default_rng(0)
    rare = rng.integers(0, 100_000, n)
    label = rng.integers(0, 2, n)
    job = np.where(
        rng.random(n) < 0.5, "common" + label.astype(str).astype(object), "rare" + rare.astype(str).astype(object)
    )
    table = pd.DataFrame({"job": job})
    encoder = FairTreeEncoder(gamma=0.1, max_cells=4).fit(table, label, sensitive_features=rng.integers(0, 2, n))
    assert encoder.n_cells_ > 1
    assert encoder.apply(pd.DataFrame({"job": ["common0", "common1"]})).tolist() != [0, 0]


def test_min_cell_size_that_leaves_no_split_gives_one_cell():
    encoder = fit(min_cell_size=30)
    assert encoder.n_cells_ == 1
    assert encoder.apply(X).tolist() == [0] * N


def test_a_copy_of_the_sensitive_column_is_accepted_when_asked_for():
    assert fit(X.assign(sex=S), allow_sensitive_feature=True).n_features_in_ == 3


def test_a_feature_that_only_resembles_the_group_is_accepted():
    nearly = S.copy()
    nearly[-1] = 1 - nearly[-1]
    assert fit(X.assign(sex=nearly)).n_features_in_ == 3


def test_each_of_several_sensitive_columns_is_looked_for():
    groups = pd.DataFrame({"sex": S, "race": np.arange(N) % 3})
    with pytest.raises(GroupError, match="'origin' says which group"):
        fit(X.assign(origin=groups.race * 10), s=groups)


def test_several_sensitive_columns_intersect():
    training = read(s=pd.DataFrame({"sex": S, "race": ["x", "y"] * 20}))
    assert training.groups.name == "sex × race"
    assert training.groups.values == ((0, "x"), (0, "y"), (1, "x"), (1, "y"))
    assert [training.groups.values[c] for c in training.groups.codes[:4]] == [(0, "x"), (0, "y"), (1, "x"), (1, "y")]


def test_combinations_that_do_not_occur_are_no_groups():
    training = read(s=pd.DataFrame({"sex": S, "same": S}))
    assert training.groups.values == ((0, 0), (1, 1))


@pytest.mark.parametrize("asked", [["b"], [1], [False, True], np.array([False, True]), "b"])
def test_categorical_features_by_name_position_and_mask(asked):
    assert [column.categorical for column in read(categorical_features=asked).columns] == [False, True]


def test_categorical_features_count_the_sensitive_column():
    table = X.assign(c=1)[["c", "a", "b"]].assign(c=S)
    training = read(table, s=None, sensitive="c", categorical_features=[2])
    assert [(column.name, column.categorical) for column in training.columns] == [("a", False), ("b", True)]


def test_labels_may_be_anything():
    training = read(y=pd.DataFrame({"paid": np.where(Y, "yes", "no"), "grade": np.arange(N) % 3 / 2}))
    assert [(label.name, label.values) for label in training.labels] == [
        ("paid", ("no", "yes")),
        ("grade", (0, 0.5, 1)),
    ]
