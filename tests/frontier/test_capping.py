"""The cap on weights: chosen on training and select records, where the bound to be expected is smallest."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from certifare import produce
from certifare.certificates import METRICS, Claim
from certifare.certificates.assumptions import CAP_FIXED
from certifare.frontier import job as job_module
from certifare.frontier.capping import choose_cap
from certifare.frontier.search import Search
from certifare.frontier.target import growth_needed


def heavy(n, seed=0, share=0.0005, weight=30.0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < share, weight, rng.uniform(0.5, 2.0, n))


@pytest.fixture
def weighted(make_table):
    """A table in which few records weigh far more than the others."""
    table = make_table(n=6000, weight="weight", drop=("promoted", "home", "region"))
    return replace(table, weights=heavy(len(table)))


def chosen(weights, metric="demographic_parity", groups=2, strata=1, scale=1.0):
    n = len(weights)
    rng = np.random.default_rng(1)
    rows = np.array([np.arange(n) % strata == i for i in range(strata)])
    return choose_cap(weights, rng.integers(0, groups, n), rows, metric, 0.05, scale)


def test_a_cap_is_chosen_where_few_records_weigh_much():
    found = chosen(heavy(20_000))
    assert 1.0 <= found.cap <= 2.0
    assert found.largest == 30.0
    # Half of the records stay, where thinning to the largest weight keeps one of twenty-four.
    assert found.kept.sum() > 10_000


def test_no_cap_is_chosen_where_weights_are_alike():
    assert chosen(np.full(5_000, 3.0)) is None
    assert chosen(np.repeat([1.0, 2.0], 5_000)) is None


def test_more_records_choose_a_larger_cap():
    """What chance hides becomes small, and what lies above the cap does not."""
    rng = np.random.default_rng(2)
    weights = rng.lognormal(0.0, 1.0, 20_000)
    few, many = chosen(weights, scale=0.1), chosen(weights, scale=10.0)
    assert few.cap < many.cap


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_and_several_groups(metric):
    strata = {"demographic_parity": 1, "equal_opportunity": 1}.get(metric, 2)
    found = chosen(heavy(20_000), metric, groups=3, strata=strata)
    assert found.kept.shape == found.beyond.shape == (strata, 3)
    assert found.shares(0.05).shape == (strata, 3)
    assert (found.shares(0.05, growth=100.0) < found.shares(0.05)).all()


def test_the_certification_records_play_no_part_in_the_choice(weighted, grid):
    search = Search(weighted, grid)
    weights = weighted.weights.copy()
    weights[search.rows["certify"]] = np.random.default_rng(9).uniform(1.0, 30.0, len(search.rows["certify"]))
    other = Search(replace(weighted, weights=weights), grid)
    assert search.cap.cap == other.cap.cap


@pytest.mark.parametrize("metric", METRICS)
def test_a_job_with_a_cap(weighted, grid, metric, monkeypatch):
    search = Search(weighted, grid, Claim(metric=metric)).run()
    [(_, certificate)] = search.certify(search.knee())
    assert certificate.tail.cap == search.cap.cap
    assert certificate.tail.largest == weighted.weights.max()
    assert CAP_FIXED in certificate.assumptions
    assert certificate.verify() is certificate
    assert certificate.population == ("in proportion to their weights",) or metric != "demographic_parity"
    prediction = search.candidates[search.knee()[0]].prediction
    assert prediction.bound == pytest.approx(certificate.bound, abs=0.12)
    monkeypatch.setattr(job_module, "choose_cap", lambda *_: None)
    whole = Search(weighted, grid, Claim(metric=metric, min_group_size=1))
    assert len(search.certify_sample.table) > 5 * len(whole.certify_sample.table)


def test_a_walk_with_a_cap(weighted, grid):
    search = Search(weighted, grid).run()
    walked, found = search.walk(search.chain(), 0.5)
    assert found[1].verify().sequence == walked
    assert found[1].tail is not None
    without = msgspec.structs.replace(found[1], tail=None, assumptions=found[1].assumptions)
    with pytest.raises(Exception, match="states the limit"):
        without.verify()


def test_the_largest_weight_of_the_table_stands_for_that_of_the_population(weighted, grid):
    """A training record that weighs more than all certification records is known to exist."""
    row = Search(weighted, grid).rows["train"][0]
    weights = weighted.weights.copy()
    weights[row] = 77.0
    search = Search(replace(weighted, weights=weights), grid)
    assert search.certify_sample.tail.largest == 77.0
    assert "The largest weight in the sample, 77, is the largest in the population." in (
        search.certify_sample.assumptions
    )


def test_clusters_have_no_cap(make_table, grid):
    table = make_table(weight="weight", cluster="home", drop=("promoted", "region"))
    assert Search(replace(table, weights=heavy(len(table))), grid).cap is None


def test_a_bundle_with_a_cap_says_so(weighted, grid, tmp_path):
    bundle = produce(weighted, grid=grid, ledger=False)
    assert bundle.run["cap"] == bundle.certificate.tail.cap
    assert any("capped at" in note for note in bundle.notes)
    folder = bundle.save(tmp_path / "bundle", suppress=10)
    assert "for weights above the cap" in (folder / "report.html").read_text("utf-8")
    assert bundle.measured.distance.upper <= 1.0


def test_records_that_are_needed_for_a_target_below_what_lies_above_the_cap(weighted, grid):
    """More records would be thinned to whole weights: what lies above the cap does not rule a target out."""
    search = Search(weighted, grid).run()
    outlook = search.candidates[search.knee()[0]].outlook
    alike = replace(outlook, differences=np.zeros_like(outlook.differences))
    factor = growth_needed(alike, 0.002, 0.05)
    assert alike.predict(0.05, growth=factor, unbiased=True).bound > 0.005
    assert alike.without_cap().predict(0.05, growth=factor, unbiased=True).bound < 0.002


def test_encoders_are_compared_by_weights_on_as_many_records_as_tell_as_much(weighted, grid):
    """Thinned as the certification records are, a tenth of the select records would be left."""
    search = Search(weighted, grid).run()
    given = weighted.take(search.rows["select"])
    weights = np.minimum(given.weights, search.cap.cap)
    assert len(search.select) == pytest.approx(weights.sum() ** 2 / (weights @ weights), abs=1)
    thinned = weights.sum() / search.cap.cap
    assert len(search.select) > 1.2 * thinned
    paid = [np.average(given.labels[0].codes, weights=weights), search.select.labels[0].codes.mean()]
    assert paid[0] == pytest.approx(paid[1], abs=0.05)
    train = weighted.take(search.rows["train"])
    weights = np.minimum(train.weights, search.cap.cap)
    counted = search.paths[0].counts["train"]
    assert counted.groups.sum() == pytest.approx(weights.sum() ** 2 / (weights @ weights), abs=1)
    shares = counted.labels[0].sum(axis=0) / counted.labels[0].sum()
    assert shares[1] == pytest.approx(np.average(train.labels[0].codes, weights=weights), abs=0.02)
