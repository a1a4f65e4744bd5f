import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from certifare.errors import ArgumentError
from certifare.frontier.target import TRAINING_DISCOUNT
from certifare.frontier.utility import (
    PSEUDO_RECORDS,
    UTILITIES,
    Estimates,
    Performance,
    area,
    base_rates,
    beyond_chance,
    check_utility,
    forecasts,
    left_out_beyond_chance,
    losses,
    losses_left_out,
    promised,
    utility_of,
    utility_of_records,
)

FULL = os.environ.get("CERTIFARE_FULL") == "1"


def draw(rng, shares, n):
    """Records by cell and label, where a cell's label is 1 with the cell's share."""
    cells = rng.multinomial(n, np.full(len(shares), 1 / len(shares)))
    ones = rng.binomial(cells, shares)
    return np.stack([cells - ones, ones], axis=1)


def by_record(counts):
    """Cell and label of every record."""
    cells, labels = np.nonzero(counts)
    times = counts[cells, labels]
    return np.repeat(cells, times), np.repeat(labels, times)


@pytest.mark.parametrize("utility", UTILITIES)
def test_utility_is_what_forecasts_save_of_the_loss(utility):
    """Record by record, each training record forecast from all others of its cell."""
    rng = np.random.default_rng(0)
    train, select = draw(rng, [0.1, 0.4, 0.8], 90), draw(rng, [0.1, 0.4, 0.8], 60)
    base = (train.sum(axis=0) + 1) / (train.sum() + 2)

    def loss(p, label):
        if utility == "information":
            return -math.log(p[label])
        if utility == "explained":
            return sum((share - (value == label)) ** 2 for value, share in enumerate(p))
        return float(np.argmax(p) != label)

    lost = without = 0.0
    for part, weight in ((select, 1.0), (train, 1 / TRAINING_DISCOUNT)):
        for cell, label in zip(*by_record(part), strict=True):
            seen = train[cell] - (np.arange(2) == label) * (part is train)
            lost += weight * loss((seen + PSEUDO_RECORDS * base) / (seen.sum() + PSEUDO_RECORDS), label)
            without += weight * (1.0 if utility == "accuracy" else loss(base, label))
    assert utility_of(utility, [train], [select]) == pytest.approx(1 - lost / without)


@pytest.mark.parametrize("utility", UTILITIES)
def test_cells_made_of_accidents_are_seen_through(utility):
    """Eight hundred categories of five people each, parted by how many of them happen to have the label."""
    rng = np.random.default_rng(3)
    categories = draw(rng, np.full(800, 0.3), 4_000)
    high = categories[:, 1] > 0.3 * categories.sum(axis=1)
    train = np.stack([categories[high].sum(axis=0), categories[~high].sum(axis=0)])
    fresh = draw(rng, np.full(800, 0.3), 2_000)
    select = np.stack([fresh[high].sum(axis=0), fresh[~high].sum(axis=0)])
    nothing = utility_of(utility, [train.sum(axis=0)[None]], [select.sum(axis=0)[None]])
    found = utility_of(utility, [train], [select])
    believing = utility_of(utility, [train], [np.zeros_like(select)])  # no select records to doubt them by
    assert found <= nothing
    assert utility == "accuracy" or believing > nothing + 0.1


def test_training_records_are_believed_where_a_label_is_too_rare_for_the_select_records():
    """Two positives in a thousand: forty to train, and none among 300 to select."""
    train = np.array([[9_990, 10], [9_970, 30]])
    select = np.array([[150, 0], [150, 0]])
    assert utility_of("information", [train], [select]) == pytest.approx(
        _unlimited("information", train, select), abs=1e-12
    )
    mistaken = np.array([[9_000, 1_000], [7_000, 3_000]])  # here 300 records show that something is wrong
    assert utility_of("information", [mistaken], [select]) < _unlimited("information", mistaken, select) - 0.01


def _unlimited(utility, train, select):
    """Take training records at their word."""
    base = losses(utility, base_rates(train)[None])
    gains = (select * (base - losses(utility, forecasts(train)))).sum()
    gains += (train * (base - losses_left_out(utility, train))).sum() / TRAINING_DISCOUNT
    return gains / ((select.sum(axis=0) + train.sum(axis=0) / TRAINING_DISCOUNT) * base).sum()


def test_information_sees_a_rare_label_where_accuracy_cannot():
    rng = np.random.default_rng(1)
    train, select = draw(rng, [0.01, 0.2], 20_000), draw(rng, [0.01, 0.2], 4_000)
    assert utility_of("accuracy", [train], [select]) == pytest.approx(0.9, abs=0.01)  # as without any cells
    assert utility_of("information", [train], [select]) > 0.1
    assert beyond_chance([train], [select]) > 10


def test_cells_that_tell_nothing_are_not_beyond_chance():
    """One test at 5 %: of worthless encoders about one in twenty passes, of useful ones nearly all."""
    passed = {0.0: 0, 0.15: 0}
    for gap in passed:
        for seed in range(400):
            rng = np.random.default_rng([seed, int(100 * gap)])
            shares = [0.3 - gap, 0.3, 0.3 + gap]
            passed[gap] += beyond_chance([draw(rng, shares, 1_000)], [draw(rng, shares, 300)]) > 1.645
    assert passed[0.0] <= 30
    assert passed[0.15] >= 380


def test_of_several_labels_the_mean_is_taken():
    rng = np.random.default_rng(2)
    train = [draw(rng, shares, 500) for shares in ([0.2, 0.8], [0.4, 0.5])]
    select = [draw(rng, shares, 300) for shares in ([0.2, 0.8], [0.4, 0.5])]
    single = [utility_of("information", [t], [s]) for t, s in zip(train, select, strict=True)]
    assert utility_of("information", train, select) == pytest.approx(np.mean(single))
    strong, weak = (beyond_chance([t], [s]) for t, s in zip(train, select, strict=True))
    assert weak < beyond_chance(train, select) < strong


def test_a_value_without_training_records_and_cells_without_any():
    train, select = np.array([[5, 3, 0], [0, 0, 0]]), np.array([[2, 2, 1], [1, 0, 0]])
    for utility in UTILITIES:
        assert math.isfinite(utility_of(utility, [train], [select]))
    assert beyond_chance([train], [np.zeros_like(select)]) == -math.inf
    with pytest.raises(ArgumentError, match="choose one of information, explained, accuracy"):
        check_utility("gini")


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_the_area_is_that_of_scikit_learn(seed, cells):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (cells, 2)) + np.array([[1, 1]] + [[0, 0]] * (cells - 1))
    shares = rng.integers(0, 4, cells) / 4
    cell, label = by_record(counts)
    forecast = np.stack([1 - shares, shares], axis=1)
    assert area(forecast, counts) == pytest.approx(roc_auc_score(label, shares[cell]))
    found = Performance.of([forecast], [np.array([0.5, 0.5])], [counts]).auc
    assert found.estimate == area(forecast, counts)
    assert 0 <= found.lower <= found.estimate <= found.upper <= 1


def shares_of(cells, shares):
    """Exact shares of records by cell and label, as counts of so many that sampling is no matter."""
    return np.round(1e9 * np.stack([cells * (1 - shares), cells * shares], axis=1)).astype(np.int64)


def outside(runs, records, cells, shares, **options):
    """How often the truth lies outside each of the intervals, over samples; and how wide they are, on average."""
    rng = np.random.default_rng(3)

    def sample(n):
        there = rng.multinomial(n, cells)
        ones = rng.binomial(there, shares)
        return np.stack([there - ones, ones], axis=1)

    train = sample(5_000)
    measured = ([forecasts(train)], [base_rates(train)])
    truth = Estimates.of(*measured, [shares_of(cells, shares)])
    names = ("accuracy", "auc", "explained")
    missed, width = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for _ in range(runs):
        found = Performance.of(*measured, [sample(records)], **options)
        for name in names:
            true, interval = getattr(truth, name), getattr(found, name)
            missed[name] += not interval.lower - 1e-6 <= true <= interval.upper + 1e-6
            width[name] += (interval.upper - interval.lower) / runs
    return missed, width


def test_intervals_hold_as_often_as_they_say():
    """The truth lies outside an interval of 95 % at most once in twenty samples: below and above together."""
    runs = 400 if FULL else 150
    missed, width = outside(runs, 400, np.full(4, 0.25), np.array([0.1, 0.3, 0.35, 0.8]))
    allowed = binom.isf(1e-4, runs, 0.05)
    assert all(count <= allowed for count in missed.values()), missed
    assert missed["accuracy"] > runs / 100, "the test could fail"
    assert width["auc"] < 0.17
    assert width["explained"] < 0.28


@pytest.mark.parametrize("records", [200, 500, 2_000])
@pytest.mark.parametrize("candidates", [1, 12])
def test_intervals_hold_for_a_label_of_one_in_a_hundred(records, candidates):
    """Two to twenty records have it. Limits by standard errors missed the truth in up to half of all samples."""
    cells, shares = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.002, 0.005, 0.02, 0.09])
    runs = 250 if FULL else 80
    missed, width = outside(runs, records, cells, shares, candidates=candidates)
    allowed = binom.isf(1e-4, runs, 0.05 / candidates)
    assert all(count <= allowed for count in missed.values()), missed
    if records == 2_000:
        assert width["auc"] < 0.55
        assert width["explained"] < 0.12


def test_a_choice_on_the_records_costs_a_share_and_so_does_each_of_several_labels():
    rng = np.random.default_rng(5)
    table = draw(rng, [0.2, 0.7], 400)
    given_, base = forecasts(table), base_rates(table)
    alone = Performance.of([given_], [base], [table])
    twelve = Performance.of([given_], [base], [table], candidates=12)
    twice = Performance.of([given_] * 2, [base] * 2, [table] * 2)
    halved = Performance.of([given_], [base], [table], confidence=0.975)
    for name in ("accuracy", "auc", "explained"):
        one, chosen, both = (getattr(found, name) for found in (alone, twelve, twice))
        assert one.confidence == chosen.confidence == both.confidence == 0.95
        assert chosen.lower < both.lower < one.lower < one.upper < both.upper < chosen.upper
        assert both.lower == pytest.approx(getattr(halved, name).lower)


def test_what_a_record_could_be_forecast_is_not_what_was_seen():
    """Cells are known beforehand; forecasts of records are not, and the worst of them must be reckoned with."""
    table = draw(np.random.default_rng(6), [0.005, 0.02], 3_000)
    measured = ([forecasts(table)], [base_rates(table)], [table])
    by_cell, by_record = (Performance.of(*measured, by_cell=by_cell).explained for by_cell in (True, False))
    assert by_record.lower < by_cell.lower < by_cell.estimate == by_record.estimate < by_cell.upper < by_record.upper


def test_performance_of_several_labels_and_of_more_than_two_values():
    rng = np.random.default_rng(4)
    two, three = draw(rng, [0.2, 0.7], 400), rng.integers(5, 40, (2, 3))
    tables = [two, three]
    found = Performance.of([forecasts(t) for t in tables], [base_rates(t) for t in tables], tables)
    assert found.auc is None
    assert found.records == max(two.sum(), three.sum())
    right = [t[np.arange(2), t.argmax(axis=1)].sum() / t.sum() for t in tables]
    assert found.accuracy.estimate == pytest.approx(np.mean(right))
    assert found.baseline == pytest.approx(np.mean([t.sum(axis=0).max() / t.sum() for t in tables]))
    assert found.to_dict()["accuracy"]["estimate"] == found.accuracy.estimate
    alone = Performance.of([forecasts(two)], [base_rates(two)], [two])
    assert alone.auc is not None
    assert alone.explained.estimate == pytest.approx(utility_of("explained", [two], [two]), abs=0.02)


def test_one_kind_of_record_has_no_area():
    forecast, base, counts = np.array([[0.5, 0.5]]), np.array([0.9, 0.1]), np.array([[3, 0]])
    assert area(forecast, counts) == 0.5
    found = Performance.of([forecast], [base], [counts]).auc
    assert (found.lower, found.upper) == (0.0, 1.0)
    nothing = Performance.of([forecast], [base], [0 * counts])
    assert (nothing.accuracy.lower, nothing.accuracy.upper) == (0.0, 1.0)
    assert nothing.explained.lower < 0 == nothing.explained.estimate < nothing.explained.upper == 1.0


def test_what_select_records_cannot_show_is_expected_of_them_and_shown_by_training_records():
    """A label of one in two hundred: 60 select records have none, whatever the cells tell."""
    rng = np.random.default_rng(3)
    rare, few = draw(rng, [0.0005, 0.02], 20_000), np.array([[30, 0], [30, 0]])
    assert beyond_chance([rare], [few]) < 1
    assert promised([rare], [few]) < 2
    assert left_out_beyond_chance([rare]) > 2
    clear, fresh = draw(rng, [0.2, 0.8], 2_000), draw(rng, [0.2, 0.8], 400)
    assert promised([clear], [fresh]) == pytest.approx(beyond_chance([clear], [fresh]), rel=0.2)
    worthless = [left_out_beyond_chance([draw(rng, [0.3, 0.3, 0.3], 2_000)]) for _ in range(100)]
    assert max(worthless) < 2


@pytest.mark.parametrize("utility", ["information", "explained", "accuracy"])
def test_the_utility_of_single_records_is_that_of_cells_of_one_record_each(utility):
    shares = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])
    rates, codes = np.array([0.7, 0.3]), np.array([0, 0, -1])
    by_hand = {
        "information": 1.0 - (np.log(0.9) + np.log(0.4)) / (2 * np.log(0.7)),
        "explained": 1.0 - (0.02 + 0.72) / (2 * 0.18),
        "accuracy": 0.5,
    }
    assert utility_of_records(utility, [shares], [rates], [codes]) == pytest.approx(by_hand[utility])
