"""The boosted encoder on a cluster: its models, its map, and what can be done with it afterwards."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.engines.conftest import make_people

from certifare import BoostedEncoder, certify, load_encoder
from certifare.errors import EncoderError

from .test_cluster import cut, distribute

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")

from certifare.engines.dask import boosting as boosted  # noqa: E402
from certifare.engines.dask.boosting import Folds, forest_of  # noqa: E402


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_missing", [False, True])
def test_forest_scores_as_lightgbm_does(n_classes: int, with_missing: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], np.linspace(-1, 1, n_classes + 1)[1:-1])
    if with_missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    objective = {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": n_classes}
    model = lightgbm.LGBMRegressor(n_estimators=10, num_leaves=12, verbose=-1, **objective).fit(X, y)
    forest = forest_of(model.booster_, n_classes)
    fresh = rng.normal(size=(500, 4))
    fresh[rng.random(fresh.shape) < 0.2] = np.nan
    raw = model.booster_.predict(fresh, raw_score=n_classes == 2)
    np.testing.assert_allclose(forest.score(fresh), raw.reshape(500, -1), rtol=0, atol=1e-12)


def test_folds_depend_on_the_row_alone() -> None:
    fold, part = Folds(3, seed=5).of(0, 30_000)
    np.testing.assert_array_equal(Folds(3, seed=5).of(1000, 50)[0], fold[1000:1050])
    counts = np.zeros((3, 5))
    np.add.at(counts, (fold, part), 1)
    np.testing.assert_allclose(counts, 2000, rtol=0.1)


@pytest.fixture(scope="module")
def fitted(client: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[BoostedEncoder, pd.DataFrame]:
    people = make_people(6000, seed=40)
    spread = distribute(cut(people, [2500, 4000]), tmp_path_factory.mktemp("boosted"))
    encoder = BoostedEncoder(gamma=0.5, max_cells=12, min_cell_size=50, folds=2, grid=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(boosted.MODEL, "n_estimators", 30)  # processes that wait for each other at every node take long
        encoder.fit(spread.drop(columns=["paid", "sex"]), spread["paid"], sensitive_features=spread["sex"])
    return encoder, people


def test_encoder_from_a_cluster(fitted: tuple[BoostedEncoder, pd.DataFrame]) -> None:
    encoder, people = fitted
    assert encoder.n_cells_ > 4
    assert encoder.cell_map_.shape == (8, 8)
    # Every training record lies in one square, and the nodes count them all.
    assert encoder.growth_.node_counts[0].sum() == len(people)
    np.testing.assert_array_equal(
        encoder.growth_.node_counts[0].reshape(2, 2),
        pd.crosstab(people["paid"], people["sex"]).to_numpy(),
    )
    assert encoder.representatives_.shape == (encoder.n_cells_, 8)
    assert encoder.training_overlap(people).excessive


def test_it_predicts_about_as_well_as_in_memory(fitted: tuple[BoostedEncoder, pd.DataFrame]) -> None:
    encoder, people = fitted
    local = BoostedEncoder(gamma=0.5, max_cells=12, min_cell_size=50, folds=2, grid=8).fit(
        people.drop(columns=["paid", "sex"]), people["paid"], sensitive_features=people["sex"]
    )
    fresh = make_people(6000, seed=41)
    accuracy = {}
    for name, fit in (("cluster", encoder), ("memory", local)):
        counts = fit.growth_.cell_counts(fit.n_cells_).reshape(-1, 2, 2).sum(axis=2)
        accuracy[name] = float((counts.argmax(axis=1)[fit.apply(fresh)] == fresh["paid"]).mean())
    assert accuracy["cluster"] > accuracy["memory"] - 0.03
    assert accuracy["memory"] > 0.65


def test_it_can_be_published_and_certified(
    fitted: tuple[BoostedEncoder, pd.DataFrame], client: Any, tmp_path: Path
) -> None:
    encoder, _ = fitted
    fresh = make_people(2000, seed=42)
    encoder.save(tmp_path / "encoder.json")
    np.testing.assert_array_equal(load_encoder(tmp_path / "encoder.json").apply(fresh), encoder.apply(fresh))
    spread = distribute(cut(fresh, [800]), tmp_path)
    assert certify(encoder, spread, sensitive_features=spread["sex"]).counts == (
        certify(encoder, fresh, sensitive_features=fresh["sex"]).counts
    )


def test_other_models_are_refused(client: Any, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    spread = distribute([make_people(300, 1)], tmp_path)
    with pytest.raises(EncoderError, match="score_model"):
        BoostedEncoder(score_model=LogisticRegression()).fit(
            spread[["age", "wage"]], spread["paid"], sensitive_features=spread["sex"]
        )


def test_group_aware_encoders_are_fitted_in_memory() -> None:
    nowhere: Any = None
    with pytest.raises(EncoderError, match="fitted in memory"):
        boosted.map_scores(BoostedEncoder(group_aware=True), nowhere, nowhere)
