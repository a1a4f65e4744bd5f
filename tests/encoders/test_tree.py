import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certifare import CellCounts, FairTreeEncoder, certify, certify_counts
from certifare.errors import EncoderError, TrainingOverlapError


@pytest.fixture
def table(people):
    return pd.DataFrame(people)


@pytest.fixture
def encoder(table):
    tree = FairTreeEncoder(gamma=0.3, max_cells=12, min_cell_size=50, sensitive="sex")
    return tree.fit(table.drop(columns="income"), table["income"])


def test_every_smaller_encoder_is_inside(encoder, table):
    X, y = table.drop(columns="income"), table["income"]
    cells = encoder.apply(X)
    for k in range(1, encoder.n_cells_ + 1):
        smaller = encoder.at(k)
        grown = FairTreeEncoder(**{**encoder.get_params(deep=False), "max_cells": k}).fit(X, y)
        assert smaller.n_cells_ == grown.n_cells_ == k == smaller.max_cells
        assert np.array_equal(smaller.apply(X), grown.apply(X))
        assert np.array_equal(encoder.cells_at(k)[cells], smaller.apply(X))
        assert encoder.starts_at([k])[k].tolist() == np.unique(encoder.cells_at(k), return_index=True)[1].tolist()
        assert (
            pd.DataFrame(smaller.representatives_).fillna(-1) == pd.DataFrame(grown.representatives_).fillna(-1)
        ).all(axis=None)
        assert str(smaller.describe()) == str(grown.describe())


@pytest.mark.parametrize("k", [0, 13, 2.5, "2"])
def test_larger_encoders_are_not(encoder, k):
    with pytest.raises(EncoderError, match="1 to 12 cells"):
        encoder.at(k)


def test_gamma_trades_the_label_for_the_groups(table):
    X, y = table.drop(columns="income"), table["income"]
    spread = {}
    for gamma in (0.0, 0.99):
        encoder = FairTreeEncoder(gamma=gamma, max_cells=8, min_cell_size=50, sensitive="sex").fit(X, y)
        spread[gamma] = certify_counts(
            CellCounts.from_cells(encoder.apply(X), table["sex"], n_cells=encoder.n_cells_)
        ).estimate
    assert spread[0.99] < spread[0.0]


def test_rules_hold_for_every_record(encoder, table):
    cells = encoder.apply(table)
    for cell in encoder.describe():
        inside = table[cells == cell.cell]
        assert len(inside) == cell.records
        for rule in cell.rules:
            assert holds(rule, inside).all(), rule


def holds(rule: str, table: pd.DataFrame) -> pd.Series:
    """Read a rule as a person would."""
    condition, _, or_missing = rule.partition(" or missing")
    for column in ("age", "hours"):
        if column in condition:
            values = table[column]
            missing = values.isna() if or_missing or rule.endswith("or missing") else False
            low, high = condition.partition(column)[0], condition.partition(column)[2]
            if high.startswith(" > "):
                return (values > float(high[3:])) | missing
            below = values <= float(high[3:]) if high else True
            above = values > float(low.removesuffix(" < ")) if low else True
            return (above & below) | missing
    if "member" in condition:
        return table["member"] == condition.endswith("true")
    names = set(condition.split("{")[1].split("}")[0].split(", "))
    missing = table["job"].isna() if rule.endswith("or missing") else False
    inside = table["job"].isin(names)
    return ((~inside & table["job"].notna()) if " not in " in condition else inside) | missing


def test_several_labels(table):
    X = table[["age", "hours", "job", "member"]]
    y = pd.DataFrame({"old": table["age"] > 50, "busy": table["hours"] > 40})
    one = FairTreeEncoder(gamma=0.0, max_cells=2, min_cell_size=50, label_weights=[1, 0])
    two = FairTreeEncoder(gamma=0.0, max_cells=2, min_cell_size=50, label_weights=[0, 1])
    for encoder, rule in ((one, "age"), (two, "hours")):
        encoder.fit(X, y, sensitive_features=table["sex"])
        assert rule in encoder.describe()[0].rules[0]
        assert set(encoder.describe()[0].labels) == {"old", "busy"}


def test_certify_refuses_training_records(encoder, table):
    for same in (table, table.assign(hours=table["hours"] + 0.01)):
        with pytest.raises(TrainingOverlapError):
            certify(encoder, same)
    rng = np.random.default_rng(0)
    fresh = table.apply(lambda column: rng.permutation(column.to_numpy()))
    certificate = certify(encoder, fresh)
    assert 0 < certificate.estimate < certificate.bound < 1


@settings(max_examples=25)
@given(
    st.integers(2, 3),
    st.integers(2, 3),
    st.lists(st.tuples(*[st.integers(0, 4)] * 3, st.integers(0, 2), st.integers(0, 2)), min_size=30, max_size=60),
)
def test_training_cells_agree_with_the_growth(n_labels, n_groups, rows):
    """However small and odd the table: apply puts training records where the growth counted them."""
    table = np.array(rows)
    y, s = table[:, 3] % n_labels, table[:, 4] % n_groups
    if len(set(y)) < 2 or len(set(s)) < 2:
        return
    encoder = FairTreeEncoder(
        gamma=0.3, max_cells=6, min_cell_size=3, categorical_features=[0], allow_sensitive_feature=True
    )
    encoder.fit(table[:, :3].astype(float), y, sensitive_features=s)
    counts = np.bincount(encoder.apply(table[:, :3].astype(float)), minlength=encoder.n_cells_)
    assert counts.tolist() == [cell.records for cell in encoder.describe()]


def test_each_pays_for_columns_and_not_for_their_intersections():
    """A column that knows whether sex equals race says nothing of either: with ``each`` it costs nothing."""
    rng = np.random.default_rng(0)
    sex, race = rng.integers(0, 2, (2, 4_000))
    same = np.where(rng.random(4_000) < 0.1, 1 - (sex == race), sex == race)
    X = pd.DataFrame({"same": same, "sex": sex, "race": race})
    y = np.where(rng.random(4_000) < 0.2, 1 - same, same)
    options = {"gamma": 0.7, "min_cell_size": 10, "sensitive": ["sex", "race"]}
    assert FairTreeEncoder(**options).fit(X, y).n_cells_ == 1
    assert FairTreeEncoder(**options, each=True).fit(X, y).n_cells_ == 2


def test_each_needs_several_sensitive_columns():
    X = pd.DataFrame({"x": [0, 1] * 50, "sex": [0, 0, 1, 1] * 25, "z": range(100)})
    with pytest.raises(EncoderError, match="several sensitive columns"):
        FairTreeEncoder(min_cell_size=5, each=True, sensitive="sex").fit(X, X["z"] > 50)
