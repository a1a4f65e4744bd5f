import numpy as np
import pytest

from certifare.certificates import difference_limit
from certifare.errors import ArgumentError
from certifare_research.evaluation.outcomes import Evaluation, Outcome


def test_figures_by_hand():
    #            group 0: labels 0,0,1,1; group 1: labels 0,1,1,1
    outcome = Outcome.of([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1, 1], [0, 1, 1, 0, 0, 1, 1, 1])
    assert outcome.accuracy == 6 / 8
    assert outcome.majority == 5 / 8
    assert outcome.distance() == pytest.approx(3 / 4 - 2 / 4)
    assert outcome.distance("equal_opportunity") == pytest.approx(1 - 1 / 2)
    assert outcome.distance("equalized_odds") == pytest.approx((1 / 2 + 1 / 2) / 2)


def test_largest_over_classes_and_groups():
    s = np.repeat([0, 1, 2], 100)
    predicted = np.concatenate([np.zeros(100), np.ones(100), np.repeat([0, 1, 2], [30, 30, 40])]).astype(int)
    assert Outcome.of(s, np.zeros(300), predicted).distance() == 1.0


def test_interval_is_the_exact_one():
    s = np.repeat([0, 1], [400, 600])
    predicted = np.concatenate([np.repeat([0, 1], [300, 100]), np.repeat([0, 1], [300, 300])])
    interval = Outcome.of(s, predicted, predicted).interval()
    # Group 1 is selected more often: 1/2 against 1/4.
    assert interval.estimate == pytest.approx(0.25)
    assert interval.upper == pytest.approx(difference_limit(600, 400, 400 * 300 - 600 * 100, 0.025))
    assert 0.15 < interval.lower < 0.25 < interval.upper < 0.35


def test_limits_of_other_metrics_look_at_their_records():
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, 4000), rng.integers(0, 2, 4000)
    predicted = np.where(y == 1, rng.random(4000) < 0.3 + 0.4 * s, rng.random(4000) < 0.5).astype(int)
    outcome = Outcome.of(s, y, predicted)
    among = Outcome.of(s[y == 1], y[y == 1], predicted[y == 1]).interval()
    opportunity = outcome.interval(metric="equal_opportunity")
    assert (opportunity.lower, opportunity.upper) == pytest.approx((among.lower, among.upper))
    for metric in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        limits = outcome.interval(metric=metric)
        assert limits.estimate == pytest.approx(outcome.distance(metric))
        assert limits.lower < limits.estimate < limits.upper


def test_counts_as_text():
    rng = np.random.default_rng(1)
    outcome = Outcome.of(rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.integers(0, 2, 500))
    for metric in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        assert Outcome.parse(outcome.text(metric)).distance(metric) == outcome.distance(metric)
    assert (Outcome.parse(outcome.text("equalized_odds")).counts == outcome.counts).all()
    assert Outcome.parse(outcome.text()).counts.shape == (3, 1, 2)


def test_constant_prediction():
    outcome = Outcome.of([0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0])
    assert outcome.distance() == 0.0
    assert outcome.interval().estimate == 0.0


def test_repeats():
    runs = Evaluation.of([Outcome.of([0, 1], [0, 1], [0, 1]), Outcome.of([0, 1], [0, 1], [0, 0])])
    assert runs.accuracy == 0.75
    assert runs.mean_distance() == 0.5
    assert runs.max_distance() == 1.0


def test_unknown_metric_is_refused():
    with pytest.raises(ArgumentError, match="demographic_parity"):
        Outcome.of([0, 1], [0, 1], [0, 1]).distance("justice")
