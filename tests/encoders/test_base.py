"""What every encoder does, whatever its cells are made of."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from certifare import BoostedEncoder, FairTreeEncoder
from certifare.encoders import Fingerprint
from certifare.errors import EncoderError, GroupError, MissingColumnError, TableError

pytestmark = pytest.mark.usefixtures("few_trees")
FEATURES = ["age", "hours", "job", "member"]
ENCODERS = [
    FairTreeEncoder(gamma=0.3, max_cells=8, min_cell_size=50, sensitive="sex"),
    BoostedEncoder(gamma=0.3, max_cells=4, min_cell_size=50, sensitive="sex", folds=2),
]


@pytest.fixture(scope="module", params=ENCODERS, ids=lambda encoder: type(encoder).__name__)
def fitted(request, people):
    table = pd.DataFrame(people)
    return clone(request.param).fit(table.drop(columns="income"), table["income"])


@pytest.fixture
def encoder(fitted):
    return copy.deepcopy(fitted)


@pytest.fixture
def table(people):
    return pd.DataFrame(people)


def test_a_fitted_encoder_knows_features_labels_and_groups(encoder):
    assert encoder.n_cells_ > 1
    assert encoder.n_features_in_ == 4
    assert encoder.feature_names_in_.tolist() == FEATURES
    assert encoder.groups_ == ("female", "male")
    assert encoder.labels_ == (("income", ("high", "low")),)
    assert encoder.representatives_.shape == (encoder.n_cells_, 4)


def test_every_kind_of_table_gives_the_same_cells(encoder, people):
    cells = encoder.apply(pd.DataFrame(people))
    assert cells.dtype == np.int32
    assert set(cells) == set(range(encoder.n_cells_))
    assert np.array_equal(encoder.apply(pl.DataFrame(people)), cells)
    assert np.array_equal(encoder.apply(pa.table(people)), cells)


def test_columns_are_matched_by_name(encoder, table):
    cells = encoder.apply(table)
    shuffled = table[["member", "income", "job", "hours", "age"]].assign(extra="x")
    assert np.array_equal(encoder.apply(shuffled), cells)


def test_records_are_independent_of_each_other(encoder, table):
    cells = encoder.apply(table)
    assert np.array_equal(encoder.apply(table.iloc[::-1]), cells[::-1])
    assert np.array_equal(encoder.apply(table.iloc[7:8]), cells[7:8])
    copied = pickle.loads(pickle.dumps(encoder))  # noqa: S301
    assert np.array_equal(copied.apply(table), cells)


def test_tables_that_do_not_fit_are_refused(encoder, table):
    with pytest.raises(MissingColumnError, match=r"lacks columns that the encoder was fitted with: 'age'"):
        encoder.apply(table.drop(columns="age"))
    for column, value in (("hours", "many"), ("job", 5), ("hours", np.inf)):
        with pytest.raises(TableError, match=f"'{column}'"):
            encoder.apply(table.assign(**{column: value}))


def test_unseen_and_missing_values_have_a_cell(encoder, table):
    strange = table.head(4).assign(age=[np.nan, -1e9, 1e9, np.nan], job=[None, "astronaut", "", None], hours=np.nan)
    for odd in (strange, table.head(3).assign(job=np.nan, age=None)):
        assert set(encoder.apply(odd)) <= set(range(encoder.n_cells_))


def test_transform_gives_representatives_of_the_same_kind(encoder, people, any_dataframe):
    table = any_dataframe(people)
    transformed = encoder.transform(table)
    assert type(transformed) is type(table)
    frame = pd.DataFrame(people)
    cells = encoder.apply(frame)
    expected = encoder.representatives_[cells]
    found = transformed.to_pandas() if hasattr(transformed, "to_pandas") else transformed
    assert list(found.columns) == FEATURES
    for i, name in enumerate(FEATURES):
        want = pd.Series(expected[:, i], dtype=object)
        got = found[name].astype(object).reset_index(drop=True)
        assert ((got == want) | (got.isna() & want.isna())).all()


def test_representatives_are_medians_and_modes(encoder, table):
    if isinstance(encoder, BoostedEncoder):
        pytest.skip("its training cells come from out-of-fold scores")
    cells = encoder.apply(table)
    for cell in range(encoder.n_cells_):
        inside = table[cells == cell]
        hours = np.sort(inside["hours"].to_numpy())
        assert encoder.representatives_[cell, 1] == hours[(len(hours) - 1) // 2]
        counts = inside["job"].value_counts(dropna=False)
        value = encoder.representatives_[cell, 2]
        assert counts[counts.index.isna()].sum() == counts.max() if value is None else counts[value] == counts.max()


def test_dtypes_survive(encoder, table):
    table = table.astype({"hours": np.float32, "job": "category"})
    transformed = encoder.transform(table)
    assert transformed.dtypes["hours"] == np.float32
    assert transformed.dtypes["job"] == "category"
    assert transformed.dtypes["member"] == "bool"
    assert transformed.index.equals(table.index)


def test_cells_and_onehot_are_the_same_cells(encoder, people, dataframe):
    table = dataframe(people)
    cells = encoder.apply(table)
    encoder.set_params(output="cells")
    found = encoder.transform(table)
    assert list(found.columns) == ["cell"] == encoder.get_feature_names_out().tolist()
    assert found["cell"].to_list() == cells.tolist()
    encoder.set_params(output="onehot")
    found = encoder.transform(table)
    assert list(found.columns) == [f"cell_{i}" for i in range(encoder.n_cells_)]
    assert np.array_equal(found.to_numpy().argmax(axis=1), cells)
    assert (found.to_numpy().sum(axis=1) == 1).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_is_followed(encoder, people, library):
    kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    encoder.set_output(transform=library)
    for table in (pd.DataFrame(people), pl.DataFrame(people), pa.table(people)):
        transformed = encoder.transform(table)
        assert isinstance(transformed, kind)
        assert list(transformed.columns) == FEATURES


def test_unfitted_encoders_say_so(table):
    for method in ("apply", "transform", "training_overlap", "retained_information"):
        with pytest.raises(NotFittedError):
            getattr(FairTreeEncoder(), method)(table)
    with pytest.raises(NotFittedError):
        FairTreeEncoder().describe()


def test_descriptions_count_every_record_once(encoder):
    description = encoder.describe()
    assert len(description) == encoder.n_cells_
    assert sum(cell.records for cell in description) == 2000
    for i, cell in enumerate(description):
        assert cell.cell == i
        assert sum(cell.groups["sex"].values()) == pytest.approx(1)
        assert sum(cell.labels["income"].values()) == pytest.approx(1)
        assert f"cell {i}: " in str(cell)
    assert len(description[:2]) == 2
    assert description._repr_html_().count("<tr>") == encoder.n_cells_ + 1


def test_retained_information(encoder, table):
    retained = encoder.retained_information(table)
    assert set(retained.columns) == set(FEATURES)
    assert 0 < retained.mean < 1


def test_training_records_are_recognised(encoder, table):
    assert encoder.training_overlap(table).excessive
    fresh = table.assign(hours=np.random.default_rng(1).normal(size=len(table)))
    assert not encoder.training_overlap(fresh).excessive
    encoder.fingerprint_ = None
    assert encoder.training_overlap(table) is None


def test_a_fingerprint_of_other_columns_is_refused(encoder, table):
    from certifare.tables.frames import Frame

    encoder.fingerprint_ = Fingerprint.of([Frame(table).read("age")])
    with pytest.raises(EncoderError, match="belongs to another encoder"):
        encoder.training_overlap(table)


def test_groups_are_found_in_a_table(encoder, table):
    assert encoder.sensitive_features_in(table).tolist() == table["sex"].tolist()
    encoder.set_params(sensitive=["sex", "member"])
    found = encoder.sensitive_features_in(table)
    assert list(found) == ["sex", "member"]
    assert found["member"].tolist() == table["member"].tolist()
    with pytest.raises(GroupError, match="No column 'sex'"):
        encoder.sensitive_features_in(table.drop(columns="sex"))
    encoder.set_params(sensitive=None)
    with pytest.raises(GroupError, match="pass sensitive_features"):
        encoder.sensitive_features_in(table)


def test_preparing_once_serves_many_encoders(encoder, table):
    X, y = table.drop(columns="income"), table["income"]
    training = encoder.prepare(X, y)
    again = type(encoder)(**encoder.get_params(deep=False)).fit_from(training)
    assert np.array_equal(again.apply(X), encoder.apply(X))
    other = type(encoder)(**{**encoder.get_params(deep=False), "max_bins": 20})
    with pytest.raises(EncoderError, match="prepared with max_bins=255"):
        other.fit_from(training)


def test_threads_give_the_same_cells(encoder, table):
    threaded = type(encoder)(**{**encoder.get_params(deep=False), "n_jobs": 2}).fit(
        table.drop(columns="income"), table["income"]
    )
    assert np.array_equal(threaded.apply(table), encoder.apply(table))


class TestArrays:
    """Tables without names are matched by position."""

    X = np.random.default_rng(0).normal(size=(300, 3))
    s = (X[:, 1] + np.random.default_rng(1).normal(size=300) > 0).astype(int)
    y = (X[:, 0] > 0).astype(int)

    def fit(self, X, **parameters):
        return FairTreeEncoder(gamma=0.1, max_cells=4, min_cell_size=20, **parameters)

    def test_arrays_come_back_as_arrays(self):
        encoder = self.fit(self.X).fit(self.X, self.y, sensitive_features=self.s)
        assert not hasattr(encoder, "feature_names_in_")
        assert encoder.transform(self.X).shape == self.X.shape
        assert encoder.transform(self.X.astype(np.float32)).dtype == np.float32
        assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x2"]

    def test_the_wrong_number_of_columns(self):
        encoder = self.fit(self.X).fit(self.X, self.y, sensitive_features=self.s)
        with pytest.raises(MissingColumnError, match="X has 2 features, but FairTreeEncoder is expecting 3"):
            encoder.apply(self.X[:, :2])

    def test_the_sensitive_column_by_position_may_be_absent_later(self):
        table = np.column_stack([self.X, self.s])
        encoder = self.fit(table, sensitive=3).fit(table, self.y)
        assert encoder.n_features_in_ == 3
        assert np.array_equal(encoder.apply(table), encoder.apply(self.X))
        assert encoder.sensitive_features_in(table).tolist() == self.s.tolist()

    def test_names_on_one_side_only_are_warned_about(self):
        named = pd.DataFrame(self.X, columns=["a", "b", "c"])
        encoder = self.fit(named).fit(named, self.y, sensitive_features=self.s)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            cells = encoder.apply(self.X)
        assert np.array_equal(cells, encoder.apply(named))
        encoder.fit(self.X, self.y, sensitive_features=self.s)
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            encoder.apply(named)
