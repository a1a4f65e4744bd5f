"""Plans along one score."""

from dataclasses import replace

import numpy as np
import pytest

from certifare.certificates.calibrated import forecast_bound, most_cells
from certifare.encoders.partition import (
    FEW_LABELS,
    ScoredRecords,
    expected_share,
    explained,
    plan_along,
    plan_without_label,
)


def records(n=4000, shift=1.0, seed=0, counted=None):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    scores = rng.normal(size=n) + shift * groups
    labels = (scores + rng.normal(size=n) > 0.5).astype(np.int64)
    counted = np.ones(n, dtype=bool) if counted is None else counted(labels)
    return ScoredRecords(scores, rng.random(n), groups, labels, counted, 2, 2)


def test_of_few_records_the_label_is_expected_to_rise_with_the_score():
    few = records(500)
    expected = few.expected()
    order = np.argsort(few.scores)
    assert np.all(np.diff(expected[order, 1]) >= 0.0)
    assert expected.sum(axis=1) == pytest.approx(1.0)
    assert expected[:, 1].sum() == pytest.approx(few.labels.sum())
    assert 2 < len(np.unique(expected[:, 1])) < 100
    assert records(FEW_LABELS - 1).expected() is not None
    assert records(FEW_LABELS).expected() is None
    assert replace(few, n_classes=3).expected() is None


def test_equal_scores_are_expected_to_have_the_same_label():
    few = records(300)
    tied = replace(few, scores=np.round(few.scores))
    for value in np.unique(tied.scores):
        (share,) = np.unique(tied.expected()[tied.scores == value, 1])
        if (tied.scores == value).sum() > 50:
            assert share == pytest.approx(tied.labels[tied.scores == value].mean(), abs=0.05)


def test_plans_of_few_records_are_compared_by_expected_labels():
    few = records(600)
    for path in plan_along(few, np.array([200, 300])):
        assert path.likely.sum() == pytest.approx(600)
        for k in path.plans:
            cells = path.cells(k)
            of_cell = np.stack([np.bincount(cells, weights=column, minlength=k) for column in few.expected().T], axis=1)
            share = expected_share(path, k, "accuracy")
            assert share == pytest.approx(of_cell.max(axis=1).sum() / 600)
            assert expected_share(path, k, "information") > explained(of_cell, "information")
    path = next(iter(plan_along(records(FEW_LABELS), np.array([200, 300]))))
    assert path.likely is None
    assert expected_share(path, 2, "information") is None


def test_without_order_between_groups_every_cell_has_equal_shares_of_all_groups():
    first, *_, last = plan_along(records(), np.array([500, 900]))
    assert first.theta == 0.0
    for plan in first.plans.values():
        shares = plan.gaps / plan.gaps.sum(axis=0)
        assert np.abs(shares[:, 0] - shares[:, 1]).max() < 0.004
    assert last.theta == 1.0
    assert max(np.abs(np.diff(plan.gaps / plan.gaps.sum(axis=0), axis=1)).sum() for plan in last.plans.values()) > 0.5


def test_plans_hold_all_gaps_and_every_number_of_cells_once():
    for path in plan_along(records(), np.array([300, 700]), max_cells=12):
        for k, plan in path.plans.items():
            assert 2 <= k <= 12
            assert plan.gaps.shape == (k, 2)
            assert plan.gaps.sum(axis=0).tolist() == [301, 701]
            assert set(path.cells(k)) == set(range(k))


def test_a_smaller_bound_costs_cells_or_order_between_groups():
    found = [
        (forecast_bound(plan.gaps, 0.05), k, path.theta)
        for path in plan_along(records(), np.array([500, 900]))
        for k, plan in path.plans.items()
    ]
    smallest = min(found)
    assert smallest[1] == 2
    assert smallest[2] < 0.01
    assert max(found)[0] > 0.3


def test_for_equal_opportunity_shares_are_those_of_the_positives():
    positives = records(counted=lambda labels: labels == 1)
    path = next(iter(plan_along(positives, np.array([200, 300]))))
    k = max(path.plans)
    cells = path.cells(k)
    shares = np.stack(
        [
            np.bincount(cells[(positives.groups == g) & positives.counted], minlength=k)
            / ((positives.groups == g) & positives.counted).sum()
            for g in (0, 1)
        ],
        axis=1,
    )
    assert np.abs(shares - path.plans[k].gaps / np.array([201, 301])).max() < 0.02


@pytest.mark.parametrize("utility", ["information", "explained", "accuracy"])
def test_labels_become_more_likely_from_cell_to_cell(utility):
    data = records()
    for path in plan_along(data, np.array([2000, 2000]), utility):
        if path.theta == 0.0:
            for k in path.plans:
                cells = path.cells(k)
                shares = np.bincount(cells, weights=data.labels) / np.bincount(cells)
                assert np.all(np.diff(shares) > -0.1)


def test_no_plan_has_more_cells_than_can_be_bounded_with_its_groups():
    groups = np.repeat(np.arange(40), 100)
    ties = np.random.default_rng(0).random(len(groups))
    paths = plan_without_label(ties, ties, groups, np.full(40, 100), 200)
    assert [k for path in paths for k in path.plans] == list(range(2, most_cells(40) + 1))
