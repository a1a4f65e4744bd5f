import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from certifare import BoostedEncoder, FairTreeEncoder, certify
from certifare.encoders.proxies import N_CLUSTERS
from certifare.errors import EncoderError

pytestmark = pytest.mark.usefixtures("few_trees")


def table_of(n, seed=0):
    """The label depends on three columns, one of which depends on the group."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += s
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n) > 0.5).astype(int)
    return X, y, s


@pytest.fixture(scope="module")
def encoder():
    X, y, s = table_of(3000)
    return BoostedEncoder(gamma=0.6, max_cells=6, folds=3).fit(X, y, sensitive_features=s)


def test_cells_are_regions_of_the_map(encoder):
    assert encoder.cell_map_.shape == (10, 10)
    assert set(encoder.cell_map_.ravel()) == set(range(encoder.n_cells_))


def test_forecasts_are_those_of_the_score_models(encoder):
    """Not of the cells: what is given up by seeing the cell alone is the difference."""
    X, y, s = table_of(2000, seed=1)
    (shares,) = encoder.forecasts(X)
    assert np.allclose(shares.sum(axis=1), 1)
    assert roc_auc_score(y, shares[:, 1]) > 0.85
    classes = BoostedEncoder(max_cells=3, folds=3).fit(X, y + (X[:, 3] > 1), sensitive_features=s)
    assert classes.forecasts(X)[0].shape == (2000, 3)


def test_every_smaller_encoder_is_inside(encoder):
    X, y, s = table_of(3000)
    training = encoder.prepare(X, y, sensitive_features=s)
    for k in range(1, encoder.n_cells_ + 1):
        grown = BoostedEncoder(**{**encoder.get_params(deep=False), "max_cells": k}).fit_from(training)
        assert np.array_equal(encoder.at(k).apply(X), grown.apply(X))
        assert np.array_equal(encoder.cells_at(k)[encoder.cell_map_], encoder.at(k).cell_map_)
    # Their models are written once.
    assert encoder.to_document().models[0] is encoder.at(1).to_document().models[0]


def test_it_keeps_more_of_the_label_than_a_tree_at_the_same_distance():
    X, y, s = table_of(6000)
    fresh, y_fresh, s_fresh = table_of(6000, seed=1)

    def best(encoder):
        training = encoder.prepare(X, y, sensitive_features=s)
        found = 0.0
        for gamma in (0.4, 0.6, 0.8, 0.9):
            grown = type(encoder)(**{**encoder.get_params(deep=False), "gamma": gamma}).fit_from(training)
            for k in (2, 4, 8):
                smaller = grown.at(min(k, grown.n_cells_))
                if certify(smaller, fresh, sensitive_features=s_fresh).bound <= 0.2:
                    votes = [cell.labels["label"]["1"] > 0.5 for cell in smaller.describe()]
                    found = max(found, (np.array(votes)[smaller.apply(fresh)] == y_fresh).mean())
        return found

    assert best(BoostedEncoder(max_cells=8, folds=3)) > best(FairTreeEncoder(max_cells=8)) + 0.03


def test_descriptions_say_where_a_cell_lies(encoder):
    rules = encoder.describe()[0].rules
    assert rules[0].startswith("P(label = 1) from 0.")
    assert rules[1].startswith("P(sensitive = 1) from 0.")
    assert rules[2].endswith("of 100 squares")


def test_several_classes_groups_and_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    race = np.digitize(X[:, 0] + rng.normal(size=1500), [-0.5, 0.5])
    labels = pd.DataFrame({"grade": np.digitize(X[:, 1], [-0.5, 0.5]), "paid": X[:, 2] > 0})
    encoder = BoostedEncoder(gamma=0.3, max_cells=8, folds=2, min_cell_size=30)
    encoder.fit(X, labels, sensitive_features=race)
    assert encoder.n_cells_ > 2
    cells = encoder.apply(X)
    for name in ("grade", "paid"):
        codes = labels[name].astype(int).to_numpy()
        votes = [np.bincount(codes[cells == c], minlength=3).argmax() for c in range(encoder.n_cells_)]
        assert (np.array(votes)[cells] == codes).mean() > np.bincount(codes).max() / 1500 + 0.1


def test_retain_keeps_more_of_the_table():
    X, y, s = table_of(4000)
    fresh, *_ = table_of(2000, seed=1)
    kept = {}
    for weight in (0.0, 0.6):
        encoder = BoostedEncoder(gamma=0.4, max_cells=16, folds=2, retain=weight)
        encoder.fit(X, y, sensitive_features=s)
        kept[weight] = encoder.retained_information(fresh).mean
    assert encoder.cell_map_.shape[-1] == N_CLUSTERS
    assert "cluster in {" in encoder.describe()[0].rules[2]
    assert kept[0.6] > kept[0.0] + 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"folds": 2.5}, "folds is 2.5"),
        ({"grid": 1}, "grid is 1"),
        ({"retain": -1}, "retain is -1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    X, y, s = table_of(100)
    with pytest.raises(EncoderError, match=message):
        BoostedEncoder(**parameters).fit(X, y, sensitive_features=s)
