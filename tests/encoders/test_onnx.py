"""Boosted encoders as ONNX: equal cells and scores in onnxruntime."""

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from certifare import BoostedEncoder, load_encoder
from certifare.data import adult
from certifare.errors import EncoderError

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime (the extra 'onnx') is not installed")
pytest.importorskip("onnx", reason="onnx (the extra 'onnx') is not installed")


def run(encoder, X, **others):
    """Run the model; gives its outputs by name."""
    session = onnxruntime.InferenceSession(encoder.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    feed = dict(others)
    for column in encoder.columns_:
        values = X[column.name]
        if column.type == "text":
            feed[column.name] = values.astype(object).where(values.notna(), "").to_numpy(dtype=object)[:, None]
        else:
            feed[column.name] = values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feed), strict=True))


def test_cells_and_scores_are_equal_on_real_data(tmp_path):
    """Adult: text with more than eight categories (whose means are looked up), numbers, an unseen category."""
    table, rest = adult().take(range(4_000)), adult().take(range(4_000, 24_000))
    encoder = BoostedEncoder(gamma=0.5, max_cells=16, folds=2)
    encoder.fit(table.features, table.y, sensitive_features=table.sensitive)
    encoder.save(tmp_path / "encoder.json")
    encoder = load_encoder(tmp_path / "encoder.json")
    X = rest.features.to_pandas()
    for name in X.select_dtypes(exclude="number"):
        X[name] = X[name].astype(object)
    X.loc[:50, "occupation"] = None
    X.loc[50:100, "occupation"] = "astronaut"
    X.loc[100:150, "age"] = np.nan
    found = run(encoder, X)
    assert np.array_equal(found["cell"], encoder.apply(X))
    assert np.array_equal(found["score_label"], encoder.predict_proba(X)[:, 1])


@pytest.mark.parametrize("several", [False, True])
def test_several_values_labels_and_groups_have_equal_cells_and_scores(several):
    rng = np.random.default_rng(0)
    n = 1_500
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "code": rng.choice([3, 7, 11, 20], n).astype(float),
            "flag": rng.random(n) < 0.5,
            "town": rng.choice(list("abcdefghijkl"), n).astype(object),
        }
    )
    X.loc[:40, "code"] = np.nan
    rating = np.digitize(X["a"] + (X["town"] < "d") + 0.3 * rng.normal(size=n), [-0.3, 0.6])
    y = pd.DataFrame({"rating": rating, "yes": X["a"] > 0}) if several else rating
    s = rng.choice(["f", "m", "x"], n)
    encoder = BoostedEncoder(
        gamma=0.3, max_cells=10, min_cell_size=20, folds=2, grid=6, categorical_features=["code", "town"]
    )
    encoder.fit(X, y, sensitive_features=s)
    X.loc[40:60, "code"] = 99.0
    found = run(encoder, X)
    assert np.array_equal(found["cell"], encoder.apply(X))
    scores = encoder.predict_proba(X)
    assert np.array_equal(
        found["score_rating_2" if several else "score_label_2"], (scores[0] if several else scores)[:, 2]
    )


def test_encoders_without_an_onnx_form_are_refused():
    rng = np.random.default_rng(1)
    X, y, s = rng.normal(size=(600, 2)), rng.random(600) < 0.5, rng.integers(0, 2, 600)
    options = {"max_cells": 3, "folds": 2, "grid": 4, "min_cell_size": 20}
    for encoder, words in (
        (BoostedEncoder(**options, retain=0.5), "retain"),
        (BoostedEncoder(**options, score_model=make_pipeline(SimpleImputer(), LogisticRegression())), "JSON"),
    ):
        with pytest.raises(EncoderError, match=words):
            encoder.fit(X, y, sensitive_features=s).to_onnx()


def test_without_statistics_there_are_only_cells(tmp_path):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=800), "b": rng.normal(size=800)})
    encoder = BoostedEncoder(max_cells=4, folds=2, grid=5, min_cell_size=20)
    encoder.fit(X, X["a"] > 0, sensitive_features=rng.integers(0, 2, 800)).save(tmp_path / "e.json", statistics=False)
    found = run(load_encoder(tmp_path / "e.json"), X)
    assert list(found) == ["cell"]
