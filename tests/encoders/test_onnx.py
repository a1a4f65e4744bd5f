"""Boosted encoders as ONNX: equal cells and scores in onnxruntime."""

import numpy as np
import pandas as pd
import pytest

from certifare import BoostedEncoder, CalibratedEncoder, load_encoder
from certifare.data import adult
from certifare.errors import EncoderError

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime (the extra 'onnx') is not installed")
pytest.importorskip("onnx", reason="onnx (the extra 'onnx') is not installed")


def run(encoder, X, **others):
    """Run the model; gives its outputs by name."""
    session = onnxruntime.InferenceSession(encoder.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    feed = dict(others)
    for column in encoder.columns_:
        if column.name in others:
            continue
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
    encoder = BoostedEncoder(max_cells=3, folds=2, grid=4, min_cell_size=20, retain=0.5)
    with pytest.raises(EncoderError, match="retain"):
        encoder.fit(X, y, sensitive_features=s).to_onnx()


@pytest.mark.parametrize("existing", [False, True])
def test_calibrated_cells_are_equal_on_thresholds_too(tmp_path, existing):
    """Few different scores, so that the hash of the tie column decides about many records."""
    rng = np.random.default_rng(3)
    n = 3_000
    X = pd.DataFrame({"score": rng.integers(0, 30, n) / 7, "person": [f"p{i}" for i in range(n)]})
    X = X if existing else X.assign(b=rng.integers(0, 3, n))
    group = rng.choice(["f", "m"], n)
    y = (X["score"] + (group == "f") + rng.normal(size=n) > 2.5).rename("label")
    encoder = CalibratedEncoder(target=0.3, folds=2, tie_column="person", score_column="score" if existing else None)
    encoder.fit(X[:1000], y[:1000], sensitive_features=group[:1000])
    encoder.calibrate(X[1000:2000], sensitive_features=group[1000:2000])
    encoder.save(tmp_path / "encoder.json")
    encoder, X, group = load_encoder(tmp_path / "encoder.json"), X[2000:].copy(), group[2000:]
    X.loc[2000:2010, "score"] = np.nan
    expected = encoder.apply(X, sensitive_features=group)
    fed = {"person": encoder.tie_numbers(X["person"])[:, None], encoder.group_column_: group.astype(object)[:, None]}
    found = run(encoder, X, **fed)
    assert np.array_equal(found["cell"], expected)
    assert len(set(expected)) == encoder.n_cells_ > 3
    assert np.array_equal(found["score_label"], encoder.predict_proba(X, sensitive_features=group)[:, 1])
    assert (run(encoder, X, **{**fed, "person": 0 * fed["person"]})["cell"] != expected).any()
    fed[encoder.group_column_][:5] = "x"
    assert run(encoder, X, **fed)["cell"][:5].tolist() == [-1] * 5
    encoder.other_group = "f"
    pooled = encoder.apply(X[:5], sensitive_features=["x"] * 5)
    assert run(encoder, X, **fed)["cell"][:5].tolist() == pooled.tolist()
    fed[encoder.group_column_][:5] = ""
    assert run(encoder, X, **fed)["cell"][:5].tolist() == [-1] * 5


def test_calibrated_cells_without_an_onnx_form_are_refused():
    rng = np.random.default_rng(4)
    X, s = pd.DataFrame({"a": rng.normal(size=900), "person": np.arange(900)}), rng.integers(0, 2, 900)
    with pytest.raises(EncoderError, match="certifare fit --tie-column"):
        CalibratedEncoder(target=0.5, folds=2).fit(X, X["a"] > 0, sensitive_features=s).to_onnx()
    y = np.digitize(X["a"], [-0.5, 0.5])
    with pytest.raises(EncoderError, match="more than two values, have no ONNX form"):
        CalibratedEncoder(target=0.5, folds=2, tie_column="person").fit(X, y, sensitive_features=s).to_onnx()


def test_without_statistics_there_are_only_cells(tmp_path):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=800), "b": rng.normal(size=800)})
    encoder = BoostedEncoder(max_cells=4, folds=2, grid=5, min_cell_size=20)
    encoder.fit(X, X["a"] > 0, sensitive_features=rng.integers(0, 2, 800)).save(tmp_path / "e.json", statistics=False)
    found = run(load_encoder(tmp_path / "e.json"), X)
    assert list(found) == ["cell"]
