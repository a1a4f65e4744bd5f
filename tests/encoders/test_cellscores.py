"""Scores: label frequencies of the cell, the same before and after a file."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from certifare import BoostedEncoder, CalibratedEncoder, FairTreeEncoder, certify, load_encoder
from certifare.encoders.cellscores import score_names
from certifare.encoders.existing import column_encoder
from certifare.errors import EncoderError

KINDS = {
    "tree": lambda: FairTreeEncoder(gamma=0.3, max_cells=6, min_cell_size=50),
    "boosted": lambda: BoostedEncoder(gamma=0.3, max_cells=6, min_cell_size=50, folds=2, grid=6),
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=2_000), "b": rng.choice(["x", "y", "z"], 2_000)})
    s = rng.integers(0, 2, 2_000)
    y = np.where(X["a"] + (X["b"] == "x") + rng.normal(size=2_000) > 0.3, "yes", "no")
    rating = np.digitize(X["a"] + 0.5 * rng.normal(size=2_000), [-0.5, 0.5])
    return X, y, rating, s


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_the_label_frequencies_of_the_cell(kind, people):
    X, y, _, s = people
    encoder = KINDS[kind]().fit(X, y, sensitive_features=s)
    scores = encoder.predict_proba(X)
    assert encoder.classes_.tolist() == ["no", "yes"]
    assert np.allclose(scores.sum(axis=1), 1.0)
    assert ((scores > 0) & (scores < 1)).all()
    cells = encoder.apply(X)
    for cell in range(encoder.n_cells_):
        inside = cells == cell
        if kind != "boosted":  # whose training records were placed by models that never saw them
            assert scores[inside, 1] == pytest.approx((y[inside] == "yes").mean(), abs=0.005 + 5 / inside.sum())
        assert len(np.unique(scores[inside, 1])) <= 1
    assert encoder.predict(X).tolist() == np.where(scores[:, 1] > 0.5, "yes", "no").tolist()
    assert (encoder.predict(X) == y).mean() > 0.65


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels_and_classes_survive_a_file(kind, people, tmp_path):
    X, y, rating, s = people
    labels = pd.DataFrame({"approved": y, "rating": rating})
    encoder = KINDS[kind]().fit(X, labels, sensitive_features=s)
    approved, rated = encoder.predict_proba(X)
    assert approved.shape == (2_000, 2)
    assert rated.shape == (2_000, 3)
    assert encoder.predict(X).shape == (2_000, 2)
    encoder.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    assert all(map(np.array_equal, loaded.predict_proba(X), (approved, rated)))
    assert (loaded.predict(X) == encoder.predict(X)).all()
    table = loaded.set_params(output="score").transform(pl.from_pandas(X))
    assert table.columns == ["score_approved", "score_rating_0", "score_rating_1", "score_rating_2"]
    assert list(loaded.get_feature_names_out()) == table.columns
    assert np.array_equal(table["score_rating_2"].to_numpy(), rated[:, 2])


def test_rare_labels_keep_their_scores(people):
    X, _, _, s = people
    y = np.zeros(2_000, dtype=int)
    y[:2] = 1  # one in a thousand
    encoder = FairTreeEncoder(max_cells=2, min_cell_size=900, gamma=0.0).fit(X, y, sensitive_features=s)
    assert encoder.predict_proba(X)[:, 1].mean() == pytest.approx(0.001, rel=0.05)


def test_without_statistics_there_are_no_scores(people, tmp_path):
    X, y, _, s = people
    encoder = KINDS["tree"]().fit(X, y, sensitive_features=s)
    encoder.save(tmp_path / "encoder.json", statistics=False)
    with pytest.raises(EncoderError, match="saved without its cells' statistics"):
        load_encoder(tmp_path / "encoder.json").predict_proba(X)
    with pytest.raises(EncoderError, match="fitted without labels"):
        column_encoder(X["b"], name="b").predict(X)


def test_the_certificate_bounds_scores(people):
    X, y, _, s = people
    encoder = KINDS["tree"]().fit(X[:1_000], y[:1_000], sensitive_features=s[:1_000])
    certificate = certify(encoder, X[1_000:], sensitive_features=s[1_000:])
    scores = encoder.predict_proba(X[1_000:])[:, 1]
    gap = abs(scores[s[1_000:] == 0].mean() - scores[s[1_000:] == 1].mean())
    assert gap <= certificate.estimate <= certificate.bound


def test_group_aware_scores_need_the_group(people):
    X, y, _, s = people
    encoder = CalibratedEncoder(target=0.3, max_cells=4, folds=2).fit(X, y, sensitive_features=s)
    assert encoder.predict_proba(X, sensitive_features=s).shape == (2_000, 2)


def test_names_never_meet():
    names = [name for name, _, _ in score_names([("a_b", ["c", "d", "e"]), ("a", ["b_c", "x", "y"])])]
    assert len(set(names)) == 6
