"""``certify``: from an encoder and fresh records to a certificate."""

import numpy as np
import pandas as pd
import pytest

from certifare import CellCounts, FairTreeEncoder, certify, certify_counts, load_encoder
from certifare.certificates.assumptions import ASSUMPTIONS, NOT_LOOKED_UP
from certifare.errors import ArgumentError, GroupError, RepeatedRecordsError, TableError, TrainingOverlapError


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    region = rng.choice(["north", "south"], n)
    age, income = rng.normal(40, 12, n), rng.normal(30, 8, n) + 2 * (sex == "m")
    y = (age + income + rng.normal(0, 9, n) > 70).astype(int)
    return pd.DataFrame({"sex": sex, "region": region, "age": age, "income": income}), y


@pytest.fixture(scope="module")
def encoder():
    X, y = people(4_000, 0)
    return FairTreeEncoder(sensitive="sex", max_cells=10, gamma=0.5).fit(X, y)


@pytest.fixture(scope="module")
def fresh():
    return people(3_000, 1)


def test_equals_counting_by_hand(encoder, fresh):
    X, _ = fresh
    by_hand = certify_counts(CellCounts.from_cells(encoder.apply(X), X["sex"], n_cells=encoder.n_cells_))
    for certificate in (certify(encoder, X), certify(encoder, X, sensitive_features=X["sex"])):
        assert certificate.bound == by_hand.bound
        assert certificate.verify() is certificate


def test_training_records_choose_the_witness(encoder, fresh):
    X, _ = fresh
    certificate = certify(encoder, X)
    plain = certify_counts(certificate.counts)
    assert len(certificate.witnesses) == 1
    assert plain.lower < certificate.lower <= certificate.estimate
    training, _ = people(4_000, 0)
    counted = CellCounts.from_cells(encoder.apply(training), training["sex"], n_cells=encoder.n_cells_)
    assert encoder.training_counts_ == counted


def test_a_loaded_encoder_has_a_witness_too(encoder, fresh, tmp_path):
    X, _ = fresh
    encoder.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    assert certify(loaded, X, sensitive_features=X["sex"]).lower == certify(encoder, X).lower
    encoder.save(tmp_path / "bare.json", statistics=False)
    assert certify(load_encoder(tmp_path / "bare.json"), X, sensitive_features=X["sex"]).witnesses == ()


def test_training_records_are_refused(encoder, fresh):
    training, _ = people(4_000, 0)
    with pytest.raises(TrainingOverlapError, match=r"4,000 of 4,000"):
        certify(encoder, training)
    mixed = pd.concat([fresh[0], training[:200]])
    with pytest.raises(TrainingOverlapError, match="200 of 3,200"):
        certify(encoder, mixed)
    void = certify(encoder, training, allow_training_records=True)
    assert void.assumptions[0].startswith("VOID")


def test_a_certificate_says_whether_records_were_looked_up(encoder, fresh, tmp_path):
    X, y = fresh
    assert certify(encoder, X).assumptions == (
        *ASSUMPTIONS,
        "The certification records were looked up: 0 of 3,000 records are among the training records (compared up to "
        "five digits); chance explains about 0.",
    )
    encoder.save(tmp_path / "encoder.json")
    without = certify(load_encoder(tmp_path / "encoder.json"), X, y, sensitive_features=X["sex"])
    assert without.assumptions == (*ASSUMPTIONS, NOT_LOOKED_UP)
    assert certify_counts(without.counts).assumptions == without.assumptions


def test_a_table_of_copies_does_not_certify_on_itself():
    X, y = people(1_000, 0)
    twice = pd.concat([X, X], ignore_index=True)
    encoder = FairTreeEncoder(sensitive="sex", max_cells=10, gamma=0.5).fit(twice, np.tile(y, 2))
    for again in (twice, X, X.astype({"age": "float32"}), X.round(2)):
        with pytest.raises(TrainingOverlapError, match="among the training records"):
            certify(encoder, again)
    assert certify(encoder, people(1_000, 1)[0]).bound < 1


def test_certification_records_that_repeat_are_refused_or_mentioned(encoder, fresh):
    X, y = fresh
    ten = pd.concat([X[:300]] * 10, ignore_index=True)
    with pytest.raises(RepeatedRecordsError, match=r"3,000 of 3,000 certification records.*clusters="):
        certify(encoder, ten)
    assert certify(encoder, ten, clusters=np.tile(np.arange(300), 10)).counts.n_records == 300
    some = certify(encoder, pd.concat([X, X[:800]]), np.concatenate([y, y[:800]]))
    assert some.assumptions[-1].startswith("1,600 of 3,800 certification records equal another one")


def test_numbers_of_visits_that_vary_from_person_to_person_are_no_chance(encoder, fresh):
    """Counted as independent records, visits of one person promise a bound that is too low."""
    X, _ = fresh
    person = np.repeat(np.arange(len(X)), 1 + np.random.default_rng(0).poisson(0.5, len(X)))
    with pytest.raises(RepeatedRecordsError, match="name the column that identifies people as the cluster"):
        certify(encoder, X.iloc[person])
    assert certify(encoder, X.iloc[person], clusters=person).counts.n_records == len(X)


def test_metrics_with_labels_and_intersections(encoder, fresh):
    X, y = fresh
    odds = certify(encoder, X, y, metric="equalized_odds")
    assert {part.label for part in odds.parts} == {"0", "1"}
    both = certify(encoder, X, sensitive_features=X[["sex", "region"]])
    assert both.counts.groups == ("f × north", "f × south", "m × north", "m × south")
    assert both.bound >= certify(encoder, X).bound - 1e-9


def test_weights_and_clusters(encoder, fresh):
    X, _ = fresh
    rng = np.random.default_rng(2)
    weighted = certify(encoder, X, weights=rng.random(len(X)), seed=7)
    assert weighted.seed == 7
    assert weighted.counts.n_records < len(X)
    assert weighted.counts.n_records + sum(e.records for e in weighted.exclusions) == len(X)
    assert 0.5 * len(X) < weighted.effective_size < len(X)
    clustered = certify(encoder, X, clusters=np.arange(len(X)) // 3)
    assert clustered.counts.n_records == len(X) // 3
    with pytest.raises(ArgumentError, match="weights has 2 records"):
        certify(encoder, X, weights=[1.0, 2.0])


def test_missing_groups(encoder, fresh):
    X, _ = fresh
    X = X.assign(sex=X["sex"].where(np.arange(len(X)) >= 40, None))
    with pytest.raises(TableError, match="40 of 3,000"):
        certify(encoder, X)
    dropped = certify(encoder, X, missing="drop")
    assert [(e.reason, e.records) for e in dropped.exclusions] == [("group missing", 40)]
    assert "unknown" in certify(encoder, X, missing="unknown").counts.groups


def test_groups_must_be_known(fresh):
    X, y = people(1_000, 3)
    features = X.drop(columns=["sex", "region"])
    encoder = FairTreeEncoder(max_cells=4).fit(features, y, sensitive_features=X["sex"])
    with pytest.raises(GroupError, match="sensitive_features"):
        certify(encoder, fresh[0])
    assert certify(encoder, fresh[0], sensitive_features=fresh[0]["sex"]).bound < 1.0


def test_a_cap_needs_weights_and_no_clusters(encoder, fresh):
    X, _ = fresh
    for options in ({}, {"weights": np.ones(len(X)), "clusters": np.arange(len(X))}):
        with pytest.raises(ArgumentError, match="cap"):
            certify(encoder, X, cap=2.0, **options)


def test_records_without_a_group_are_not_beyond_a_cap(encoder, fresh):
    """They take no part in the draw: neither kept nor beyond the cap."""
    X, _ = fresh
    groups = np.where(np.arange(len(X)) % 2, "m", "f").astype(object)
    weights = np.where(np.arange(len(X)) % 10 == 0, 5.0, 1.0)
    groups[weights == 5.0] = None
    certificate = certify(encoder, X, sensitive_features=groups, weights=weights, cap=1.0, missing="drop")
    assert certificate.tail is None  # among records with a group, no weight is above the cap
    groups[:50] = "f"
    certificate = certify(encoder, X, sensitive_features=groups, weights=weights, cap=1.0, missing="drop")
    assert 0 < certificate.tail.beyond[0][0] <= 5
    assert certificate.tail.beyond[1] == (0,)
    assert certificate.verify() is certificate
