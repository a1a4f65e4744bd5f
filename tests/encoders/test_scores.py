import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from certifare import BoostedEncoder
from certifare.encoders.forest import WORD, Forest
from certifare.encoders.scores import (
    SMOOTHING,
    FeatureMap,
    _crossed_means,
    fit_scores,
    score_settings,
)
from certifare.encoders.training import read_training
from certifare.encoders.tree import FairTreeEncoder
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import number


@pytest.fixture
def greedy(monkeypatch):
    """Let models learn their training records by heart."""
    settings = {"n_estimators": 20, "num_leaves": 60, "min_child_samples": 1, "learning_rate": 0.5}
    monkeypatch.setattr("certifare.encoders.scores.MODELS", ((0, (settings,)),))


def training_of(n=600, n_labels=2, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 12, n)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    y = (np.nan_to_num(age) + 0.2 * job + rng.normal(size=n) > 1).astype(int) + (job > 9) * (n_labels - 2)
    s = (job + rng.integers(0, 6, n) > 8).astype(int)
    return read_training(
        pd.DataFrame({"age": age, "job": [f"j{i:02}" for i in job], "small": rng.choice(["a", "b"], n)}),
        y,
        s,
        FairTreeEncoder().get_params(),
        seed=0,
        n_threads=1,
    )


def test_features_are_numbers_positions_and_means():
    training = training_of()
    features = FeatureMap(training.bins)
    assert features.averaged == (1,)
    codes = features.codes(training.fields)
    numbers = features.rows(training.fields, codes, [])
    assert np.isnan(numbers[:, 0]).sum() == np.isnan(training.fields[0].column).sum()
    assert numbers[:, 1].max() == 11
    means = features.means_in(codes, [np.arange(28.0).reshape(14, 2)])
    rows = features.rows(training.fields, codes, means)
    assert rows.shape == (600, 5)
    assert np.array_equal(rows[:, 3], 2 * codes[1])


@pytest.mark.usefixtures("greedy")
def test_out_of_fold_scores_come_from_models_that_never_saw_the_record():
    """Labels that are pure noise cannot be predicted out of fold, though the models learn them by heart."""
    training = training_of()
    rng = np.random.default_rng(1)
    noise = Levels("noise", rng.integers(0, 2, len(training)), (0, 1))
    scores, out_of_fold = fit_scores(training, [noise], 5, 0)
    outside = ((out_of_fold[0][:, 0] > 0) == noise.codes).mean()
    inside = ((scores.score(training.fields)[0][:, 0] > 0) == noise.codes).mean()
    assert inside > 0.7
    assert abs(outside - 0.5) < 0.08


def test_scores_are_the_same_in_any_batch(monkeypatch):
    training = training_of(n_labels=3)
    targets = [training.labels[0], training.groups]
    scores, out_of_fold = fit_scores(training, targets, 3, 0)
    assert [score.shape for score in out_of_fold] == [(600, 3), (600, 1)]
    together = scores.score(training.fields)
    np.testing.assert_allclose(together[0].sum(axis=1), 1.0)
    monkeypatch.setattr("certifare.encoders.scores.BLOCK_ROWS", 7)
    threaded = scores.score(training.fields, n_threads=3)
    assert all(np.array_equal(a, b) for a, b in zip(together, threaded, strict=True))


def test_threads_fit_the_same_models():
    training = training_of()
    targets = [training.labels[0], training.groups]
    one = fit_scores(training, targets, 3, 0, n_threads=1)[1]
    two = fit_scores(training, targets, 3, 0, n_threads=2)[1]
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_numbers_that_are_binned_in_turn_give_the_same_models(monkeypatch):
    """Also if all numbers that are binned together are missing: such a column tells nothing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(18, 80, 600), "empty": np.nan, "job": rng.choice(list("abcdefghijkl"), 600)})
    y, s = (X["age"] + rng.normal(0, 20, 600) > 40).astype(int), rng.integers(0, 2, 600)
    together = BoostedEncoder(gamma=0.3, min_cell_size=20).fit(X, y, sensitive_features=s)
    monkeypatch.setattr("certifare.encoders.scores.BINNED_AT_ONCE", 1)
    in_turn = BoostedEncoder(gamma=0.3, min_cell_size=20).fit(X, y, sensitive_features=s)
    assert together.n_cells_ > 1
    assert together.digest() == in_turn.digest()


def test_every_model_knows_even_the_rarest_value():
    training = training_of()
    codes = np.arange(len(training)) % 2
    codes[5] = 2
    target = Levels("y", codes, ("a", "b", "rare"))
    scores, out_of_fold = fit_scores(training, [target, training.groups], 5, 0)
    assert scores.models[0].n_classes == 3
    assert np.isfinite(out_of_fold[0]).all()


def test_fewer_records_than_folds():
    training = training_of(n=4)
    target = Levels("y", np.array([0, 1, 0, 1]), (0, 1))
    _, (scores,) = fit_scores(training, [target], 10, 0)
    assert np.isfinite(scores).all()


def test_many_classes_are_averaged_by_position():
    training = training_of()
    many = Levels("y", np.arange(len(training)) % 10, tuple(range(10)))
    scores, out_of_fold = fit_scores(training, [many], 2, 0)
    assert scores.means[0].shape[1] == 1
    assert out_of_fold[0].shape == (len(training), 10)


def test_settings_are_seeded_and_suit_the_size_of_the_table():
    few, (middle,), (large,) = score_settings(3, 1_000, 10), score_settings(3, 6_000, 10), score_settings(4, 60_000, 50)
    assert middle["random_state"] == number(3, "score models") != large["random_state"]
    assert few[0]["num_leaves"] < middle["num_leaves"] < large["num_leaves"] < WORD
    assert len({settings["random_state"] for settings in few}) == len(few) > 1
    assert middle["force_col_wise"]
    assert large["force_row_wise"]


def test_means_of_a_category_leave_out_the_records_of_the_own_part():
    codes, values = np.array([0, 0, 0, 1, 0]), np.array([[1.0], [0.0], [1.0], [1.0], [0.0]])
    part_of = np.array([0, 1, 2, 0, 0])
    (mean,) = _crossed_means(codes, values, 2, part_of)
    found = mean(slice(None))
    for i in range(5):
        others = part_of != part_of[i]
        same = others & (codes == codes[i])
        expected = (values[same].sum() + SMOOTHING * values[others].mean()) / (same.sum() + SMOOTHING)
        assert found[i] == pytest.approx(expected)
    assert np.array_equal(mean(np.array([3, 1])), found[[3, 1]])


@pytest.mark.parametrize("group_aware", [False, True])
def test_the_library_and_the_lookup_score_alike(group_aware, monkeypatch):
    """What trees find from codes is what LightGBM predicts from the rows: the mean of its models."""
    training, kept = training_of(), []
    original = Forest.of

    def keep(booster, whole):
        kept.append(booster)
        return original(booster, whole)

    monkeypatch.setattr(Forest, "of", keep)
    scores, _ = fit_scores(training, [training.labels[0]], 2, 0, group_aware=group_aware)
    groups = training.groups.codes if group_aware else None
    codes = scores.features.codes(training.fields)
    rows = scores.features.rows(training.fields, codes, scores.features.means_in(codes, scores.means), groups)
    found = scores.score(training.fields, groups=groups)[0][:, 0]
    n_models = len(score_settings(0, len(training), rows.shape[1]))
    assert len(kept) == 3 * n_models > 3
    expected = np.mean([model.predict(rows, raw_score=True) for model in kept[:n_models]], axis=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("empty", [np.full(400, np.nan), np.full(400, None)])
def test_a_column_without_any_value_tells_nothing(empty):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(18, 80, 400), "empty": empty})
    y, s = (X["age"] > 40).astype(int), rng.integers(0, 2, 400)
    encoder = BoostedEncoder(gamma=0.3, min_cell_size=20, categorical_features=["empty"] * (empty.dtype == object))
    encoder.fit(X, y, sensitive_features=s)
    assert encoder.n_cells_ > 1
    assert np.array_equal(encoder.apply(X), encoder.apply(X.assign(empty="new" if empty.dtype == object else 1.0)))


@pytest.mark.usefixtures("greedy")
def test_records_that_belong_together_are_scored_by_models_that_saw_none_of_them():
    """Labels are dealt at random to 300 people with four equal records each: there is nothing to learn."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    rows = np.repeat(np.arange(300), 4)
    y = rng.integers(0, 2, 300)
    encoder = BoostedEncoder(folds=5)
    found = {}
    for name, given in {
        "apart": {},
        "together": {"units": rows},
        "weighted": {"sample_weight": np.full(300, 4.0)},
    }.items():
        chosen = np.arange(300) if name == "weighted" else rows
        training = encoder.prepare(people.iloc[chosen], y[chosen], sensitive_features=y[chosen] ^ 1, **given)
        _, (scores, _) = fit_scores(training, (training.labels[0], training.groups), 5, 0)
        found[name] = roc_auc_score(y[rows], scores[:, 0])
    assert found["apart"] > 0.75
    assert found["together"] == found["weighted"]
    assert 0.4 < found["together"] < 0.6
