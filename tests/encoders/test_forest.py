import numpy as np
import pytest
from lightgbm import LGBMClassifier

from certifare.encoders.forest import UNIT, Forest, LookUp, right_children


def score(forest, X):
    look_up = LookUp([forest], X.shape[1])
    codes = np.stack([b.encode(column).astype(np.uint16) for b, column in zip(look_up.bins, X.T, strict=True)])
    return look_up.score(codes)[0]


def table(n=3000, n_classes=2, with_missing=True, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 40, n)])
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] / 20 - 1, np.linspace(-1, 1, n_classes + 1)[1:-1])
    if with_missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, y


def fitted(X, y, leaves=31, **options):
    model = LGBMClassifier(
        **{"min_child_samples": 5, **options}, n_estimators=10, num_leaves=leaves, n_jobs=1, verbose=-1
    )
    return model.fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("leaves", [12, 64, 200])
def test_trees_score_as_their_library_does(n_classes, with_missing, leaves):
    model = fitted(*table(n_classes=n_classes, with_missing=with_missing), leaves)
    forest = Forest.of(model.booster_, [False, False, False, True])
    fresh, _ = table(n_classes=n_classes, seed=1)
    expected = model.predict_proba(fresh) if n_classes > 2 else model.predict(fresh, raw_score=True)[:, None]
    np.testing.assert_allclose(score(forest, fresh), expected, rtol=0, atol=10 * UNIT)
    most = max(np.diff(forest.starts)) // 2 + 1
    assert most > leaves // 2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_mean_of_forests_is_a_forest(n_classes):
    X, y = table(n_classes=n_classes)
    models = [fitted(X, y, leaves).booster_ for leaves in (5, 12, 31)]
    forests = [Forest.of(model, [False] * 4) for model in models]
    assert Forest.mean(forests[:1]) is forests[0]
    mean = Forest.mean(forests)
    assert mean.n_classes == n_classes
    assert np.array_equal(mean.right, right_children(mean.feature, mean.starts))
    assert np.array_equal(mean.value, np.rint(mean.value / UNIT) * UNIT)
    expected = np.mean([model.predict(X, raw_score=True).reshape(len(X), -1) for model in models], axis=0)
    np.testing.assert_allclose(score(mean, X), mean.finish(expected), rtol=0, atol=100 * UNIT)


def test_sums_do_not_depend_on_the_order_of_trees():
    X, y = table()
    forest = Forest.of(fitted(X, y).booster_, [False] * 4)
    spans = list(zip(forest.starts[:-1], forest.starts[1:], strict=True))[::-1]
    nodes = np.concatenate([np.arange(a, b) for a, b in spans])
    parts = {name: getattr(forest, name)[nodes] for name in ("feature", "threshold", "missing_left", "right", "value")}
    starts = np.concatenate([[0], np.cumsum([b - a for a, b in spans])])
    backwards = Forest(n_classes=2, baseline=forest.baseline, starts=starts, **parts)
    assert np.array_equal(score(forest, X), score(backwards, X))


def test_thresholds_of_whole_numbers_are_whole():
    X, y = table()
    forest = Forest.of(fitted(X, y).booster_, [False, False, False, True])
    cuts = forest.threshold[forest.feature == 3]
    assert len(cuts)
    assert (cuts == np.floor(cuts)).all()
    assert (forest.threshold[forest.feature == 0] != np.floor(forest.threshold[forest.feature == 0])).any()


def test_splits_on_missing_values_only():
    X = np.array([[np.nan], [1.0]] * 100)
    y = np.array([1, 0] * 100)
    model = fitted(X, y, min_child_samples=1)
    forest = Forest.of(model.booster_, [False])
    assert np.isfinite(forest.threshold).all()
    np.testing.assert_allclose(score(forest, X)[:, 0], model.predict(X, raw_score=True), rtol=0, atol=10 * UNIT)


def test_a_tree_that_is_a_single_leaf_adds_it():
    X, y = np.zeros((50, 2)), np.arange(50) % 5 == 0
    forest = Forest.of(fitted(X, y).booster_, [False] * 2)
    assert set(forest.feature.tolist()) == {-1}
    np.testing.assert_allclose(score(forest, X), np.log(0.2 / 0.8), atol=1e-5)
