"""The boosted encoder on a cluster: its models, its map, and what can be done with it afterwards."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.engines.conftest import make_people

from certifare import BoostedEncoder, certify, load_encoder
from certifare.engines.dask import boosting as boosted
from certifare.engines.dask.boosting import Folds
from certifare.errors import EncoderError

from .test_cluster import cut, distribute


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
