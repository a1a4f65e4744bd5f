"""Encoders among scikit-learn's: its own checks, pipelines, searches, routing."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from certifare import BoostedEncoder, CalibratedEncoder, FairTreeEncoder
from certifare.tables.frames import Frame


class Alternating:
    """scikit-learn's checks know nothing of groups: every second record is of the second group."""

    def fit(self, X, y=None):
        return super().fit(X, y, sensitive_features=np.arange(len(Frame(X))) % 2)


class Tree(Alternating, FairTreeEncoder):
    pass


class Boosted(Alternating, BoostedEncoder):
    pass


class Reading:
    """A group-aware encoder whose groups follow from the record itself, since scikit-learn's checks give none."""

    @staticmethod
    def groups(X):
        return np.floor(np.nan_to_num(Frame(X).read(0).numbers()) * 1000) % 2

    def fit(self, X, y=None):
        groups = self.groups(X)
        groups[:2] = [0, 1][: len(groups)]
        return super().fit(X, y, sensitive_features=groups)

    def transform(self, X):
        return super().transform(X, sensitive_features=self.groups(X))

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)

    def predict(self, X):
        return super().predict(X, sensitive_features=self.groups(X))

    def predict_proba(self, X):
        return super().predict_proba(X, sensitive_features=self.groups(X))


class Calibrated(Reading, CalibratedEncoder):
    pass


pytestmark = pytest.mark.usefixtures("few_trees")

ENCODERS = [
    Tree(gamma=0.1, min_cell_size=1, max_cells=5),
    Boosted(gamma=0.1, min_cell_size=1, max_cells=5, folds=2, grid=4),
    Calibrated(target=0.9, folds=2),
]


@parametrize_with_checks(ENCODERS)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_transformer_get_feature_names_out,
        checks.check_transformer_get_feature_names_out_pandas,
        checks.check_set_output_transform,
        checks.check_set_output_transform_pandas,
        checks.check_set_output_transform_polars,
        checks.check_global_output_transform_pandas,
        checks.check_global_set_output_transform_polars,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
def test_checks_that_scikit_learn_keeps_for_its_own(check):
    """All but one: scikit-learn refuses columns in another order, certifare finds them by name.

    Names and outputs are handled by what all encoders have in common.
    """
    check("Tree", ENCODERS[0])


@pytest.fixture
def table(people):
    return pd.DataFrame(people)


def test_pipelines_need_no_routing(table):
    X, y = table.drop(columns="income"), table["income"]
    encoder = FairTreeEncoder(gamma=0.3, min_cell_size=50, sensitive="sex", output="onehot")
    pipeline = make_pipeline(encoder, LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.7
    assert np.array_equal(pipeline.predict(X.drop(columns="sex")), pipeline.predict(X))
    assert pipeline[:-1].get_feature_names_out().tolist() == [f"cell_{i}" for i in range(pipeline[0].n_cells_)]


def test_grid_search(table):
    X, y = table.drop(columns="income"), table["income"]
    pipeline = make_pipeline(FairTreeEncoder(min_cell_size=50, sensitive="sex", output="onehot"), LogisticRegression())
    search = GridSearchCV(pipeline, {"fairtreeencoder__gamma": [0.2, 0.999]}, cv=2).fit(X, y)
    assert search.best_params_ == {"fairtreeencoder__gamma": 0.2}


def test_metadata_routing(table):
    X, y = table.drop(columns=["income", "sex"]), table["income"]
    with sklearn.config_context(enable_metadata_routing=True):
        encoder = FairTreeEncoder(gamma=0.3, min_cell_size=50, output="onehot").set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(encoder, LogisticRegression()).fit(X, y, sensitive_features=table["sex"])
    direct = FairTreeEncoder(gamma=0.3, min_cell_size=50).fit(X, y, sensitive_features=table["sex"])
    assert np.array_equal(pipeline[0].apply(X), direct.apply(X))


def test_names_must_fit(table):
    X, y = table.drop(columns=["income", "sex"]), table["income"]
    encoder = FairTreeEncoder(min_cell_size=50).fit(X, y, sensitive_features=table["sex"])
    assert encoder.get_feature_names_out(X.columns).tolist() == list(X.columns)
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(["other"])
