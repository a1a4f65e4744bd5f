"""Encoders that read the group: how it is given or found, and what is refused."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from certifare import CalibratedEncoder, FairTreeEncoder, certify, load_encoder
from certifare.encoders.matching import group_codes
from certifare.errors import ArgumentError, FileError, GroupError
from certifare.tables.frames import Frame

OPTIONS = {"target": 0.2, "folds": 2, "n_jobs": 1}
FEATURES = ["age", "hours", "job"]


def people(n=3000, seed=0):
    """The second group is older and has other jobs; the label depends on age and job within the group."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    male = sex == "m"
    rank = rng.random(n)
    age = np.round(20 + 40 * rank + 12 * male)
    job = rng.choice(["clerk", "nurse", "smith", "driver"], n)
    job = np.where(male & (job == "nurse"), "smith", job).astype(object)
    paid = rank + 0.3 * (job == "smith") + 0.2 * rng.normal(size=n) > 0.6
    age[rng.random(n) < 0.05] = np.nan
    job[rng.random(n) < 0.03] = None
    return pd.DataFrame({"age": age, "hours": rng.normal(38, 6, n).round(1), "job": job, "sex": sex, "paid": paid})


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def encoder(table):
    return CalibratedEncoder(**OPTIONS).fit(table[FEATURES], table["paid"], sensitive_features=table["sex"])


@pytest.fixture(scope="module")
def named(table):
    return CalibratedEncoder(**OPTIONS, sensitive="sex").fit(table.drop(columns="paid"), table["paid"])


def test_the_group_is_given_or_read_from_the_named_column(encoder, named, table):
    X = table[FEATURES]
    cells = encoder.apply(X, sensitive_features=table["sex"])
    assert encoder.reads_groups
    assert encoder.n_cells_ > 2
    assert np.array_equal(named.apply(table), cells)
    assert np.array_equal(encoder.apply(X, sensitive_features=table["sex"].tolist()), cells)
    frame = pl.from_pandas(table)
    assert np.array_equal(encoder.apply(frame, sensitive_features=frame["sex"]), cells)
    assert np.array_equal(named.apply(frame), cells)
    assert encoder.transform(X, sensitive_features=table["sex"]).equals(named.transform(table))
    kept = encoder.retained_information(X, sensitive_features=table["sex"])
    assert kept.mean == named.retained_information(table).mean
    other = np.where(table["sex"] == "f", "m", "f")
    assert not np.array_equal(encoder.apply(X, sensitive_features=other), cells)


def test_encoding_without_the_group_is_refused(encoder, named, table):
    X = table[FEATURES]
    with pytest.raises(GroupError, match="depends on its group: give sensitive_features="):
        encoder.apply(X)
    with pytest.raises(GroupError, match="depends on its group"):
        encoder.transform(X)
    with pytest.raises(GroupError, match="'sex'"):
        named.apply(X)
    with pytest.raises(GroupError, match="given twice"):
        named.apply(table, sensitive_features=table["sex"])
    with pytest.raises(ArgumentError, match="inconsistent"):
        encoder.apply(X, sensitive_features=["f", "m"])
    with pytest.raises(GroupError, match="from 1 columns"):
        encoder.apply(X, sensitive_features=table[["sex", "paid"]])


def test_groups_are_refused_by_encoders_that_do_not_read_them(table):
    X = table[FEATURES]
    blind = FairTreeEncoder(max_cells=3).fit(X, table["paid"], sensitive_features=table["sex"])
    assert not blind.reads_groups
    with pytest.raises(GroupError, match="do not depend on the group"):
        blind.apply(X, sensitive_features=table["sex"])


def test_records_of_unknown_groups_are_counted_and_refused(named, table):
    strange = table.copy()
    strange.loc[:4, "sex"] = "x"
    strange.loc[5:7, "sex"] = None
    with pytest.raises(GroupError, match=r"8 of 3,000 records .*'sex': 5 'x', 3 missing\).*'f', 'm'.*leave the other"):
        named.apply(strange)


def test_groups_are_found_by_their_names():
    """A file may hold as numbers what was text when the encoder was fitted."""
    one = Frame(pd.DataFrame({"s": [2, 1, 2]})).fields()
    assert group_codes(one, ["1", "2"], "s").tolist() == [1, 0, 1]
    two = Frame(pd.DataFrame({"s": ["f", "m"], "r": [1, 1]})).fields()
    assert group_codes(two, [("m", 1), ("f", 1)], "s × r").tolist() == [1, 0]
    assert group_codes(two[:1], ["Unknown", "f", "m"], "s").tolist() == [1, 2]


def test_three_groups_and_intersections(table):
    table = table.assign(race=np.arange(len(table)) % 3)
    for names in ("race", ["sex", "race"]):
        encoder = CalibratedEncoder(**OPTIONS | {"target": 0.4})
        encoder.fit(table[FEATURES], table["paid"], sensitive_features=table[names])
        cells = encoder.apply(table[FEATURES], sensitive_features=table[names])
        fresh = people(3000, seed=3).assign(race=lambda t: np.arange(len(t)) % 3)
        assert len(np.unique(cells)) == encoder.n_cells_
        assert certify(encoder, fresh, sensitive_features=fresh[names]).bound < 0.5


def test_certify_reads_the_groups(encoder, named):
    fresh = people(3000, seed=5)
    X = fresh[FEATURES]
    one = certify(encoder, X, sensitive_features=fresh["sex"])
    assert one == certify(named, fresh)
    # Another attribute can be certified where the encoder finds its own.
    by_paid = certify(named, fresh, sensitive_features=fresh["paid"])
    assert by_paid.counts.groups != one.counts.groups
    with pytest.raises(GroupError, match="3,000 of 3,000"):
        certify(encoder, X, sensitive_features=fresh["paid"])


def test_a_pipeline_needs_no_routing_if_the_column_is_named(table):
    encoder = CalibratedEncoder(**OPTIONS, sensitive="sex", output="onehot")
    pipeline = make_pipeline(encoder, LogisticRegression())
    X, y = table.drop(columns="paid"), table["paid"]
    assert pipeline.fit(X, y).score(X, y) > 0.75


def test_a_pipeline_routes_the_groups(table):
    with sklearn.config_context(enable_metadata_routing=True):
        encoder = CalibratedEncoder(**OPTIONS, output="onehot").set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(encoder, LogisticRegression())
        pipeline.fit(table[FEATURES], table["paid"], sensitive_features=table["sex"])
        assert pipeline.predict(table[FEATURES], sensitive_features=table["sex"]).mean() > 0


def test_fit_transform_gives_what_fit_and_transform_give(encoder, named, table):
    expected = encoder.transform(table[FEATURES], sensitive_features=table["sex"])
    again = clone(encoder).fit_transform(table[FEATURES], table["paid"], sensitive_features=table["sex"])
    assert again.equals(expected)
    assert clone(named).fit_transform(table.drop(columns="paid"), table["paid"]).equals(expected)


@pytest.mark.parametrize(("kind", "version"), [("tree", 2), ("boosted tree", 3), ("kmeans", 1)])
def test_files_of_older_encoders_are_refused_with_the_remedy(table, tmp_path, kind, version):
    path = tmp_path / "encoder.json"
    FairTreeEncoder(max_cells=2).fit(table[FEATURES], table["paid"], sensitive_features=table["sex"]).save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "kind": kind, "version": version}))
    with pytest.raises(FileError, match="Fit it again"):
        load_encoder(path)
