"""Plans of calibrated cells."""

import math

import numpy as np
import pytest

from certifare.certificates import planning
from certifare.certificates.calibrated import MOST_RECORDS, calibrated_bound
from certifare.certificates.planning import PlanRow, equal_gaps, plan_table, plan_words, records_needed
from certifare.errors import ArgumentError


def test_a_plan_shows_the_bounds_and_the_records_that_a_target_needs():
    rows = plan_table({"f": 320, "m": 480}, cells=(2, 6, 12, 400), target=0.05)
    assert [row.cells for row in rows] == [2, 6, 12]  # 320 records have no 400 gaps
    assert [round(row.bound, 3) for row in rows] == [0.071, 0.103, 0.133]
    for row in rows:
        sizes = [int(row.needed * 0.4), int(row.needed * 0.6)]
        assert 0.048 < calibrated_bound(equal_gaps(sizes, row.cells), 0.05) <= 0.05
    with pytest.raises(ArgumentError, match="at least two"):
        plan_table({"f": 3})
    with pytest.raises(ArgumentError, match="whole number"):
        plan_table({"f": 3, "m": 0})
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        records_needed(0.0, 2, {"f": 1, "m": 1})


def test_a_group_without_enough_records_for_two_cells_is_said_to_be_too_small():
    assert plan_table({"f": 1, "m": 500}, cells=(3, 4)) == ()
    assert "too few" in plan_words((), {"f": 1, "m": 500})


def test_gaps_of_equal_cells_add_up_to_one_more_than_the_records():
    gaps = equal_gaps([10, 33, 7], 4)
    assert gaps.sum(axis=0).tolist() == [11, 34, 8]
    assert gaps.max(axis=0).tolist() == [3, 9, 2]


def test_cells_are_planned_from_two_up_to_one_for_each_gap_of_the_smallest_group():
    rows = plan_table({"f": np.int64(5), "m": 90}, cells=(1, 2, 5, 6, 7))
    assert [row.cells for row in rows] == [2, 5, 6]
    assert {row.needed for row in rows} == {None}
    assert rows[0].bound == calibrated_bound(equal_gaps([5, 90], 2), 0.05)
    for sizes in ({"f": True, "m": 5}, {"f": 2.0, "m": 5}, {"f": MOST_RECORDS + 1, "m": 5}):
        with pytest.raises(ArgumentError, match="whole number, at least 1"):
            plan_table(sizes)


def test_records_needed_are_enough_and_few_more_wherever_the_forecast_begins(monkeypatch):
    """With a T* of 2/√n, n gaps in all: 1,600 for 0.05. A forecast that is too small is made up for in steps of 1 %."""
    monkeypatch.setattr(planning, "calibrated_bound", lambda gaps, epsilon, draws: 2 / math.sqrt(gaps.sum()))
    for factor, most in ((1.0, 1_600), (0.9, 1_620), (0.1, 1_620), (1.1, 1_940)):
        monkeypatch.setattr(
            planning, "forecast_bound", lambda gaps, epsilon, factor=factor: 2 * factor / math.sqrt(gaps.sum())
        )
        assert 1_600 <= records_needed(0.05, 4, {"f": 3, "m": 5}) <= most
    assert records_needed(0.9, 6, {"f": 0.4, "m": 0.6}) == 100
    assert records_needed(0.9, 60, {"f": 1, "m": 9}) == 600
    with pytest.raises(ArgumentError, match=r"planned for \(1,099,511,627,776\)"):
        records_needed(1e-9, 2, {"f": 1, "m": 1})


@pytest.mark.parametrize(
    ("target", "shares"),
    [(1.0, (1, 1)), (-0.1, (1, 1)), (0.1, (1,)), (0.1, (1, 0)), (0.1, (1, math.inf)), (0.1, (1, math.nan))],
)
def test_what_needs_no_records_or_too_many_is_refused(target, shares):
    with pytest.raises(ArgumentError):
        records_needed(target, 2, dict(zip("fm", shares, strict=False)))


def test_a_plan_in_words_rounds_its_bounds_up():
    sizes = {"f": 1_320, "m": 480}
    assert plan_words([PlanRow(2, 0.0701, 1_600)], sizes, 0.05) == (
        "With 1,320 + 480 certification records T* is 0.071 for 2 cells. T* ≤ 0.05 needs about 1,600 for 2 cells."
    )
    rows = [PlanRow(2, 0.07), PlanRow(3, 0.08), PlanRow(4, 0.09)]
    for target in (None, 0.05):
        assert plan_words(rows, sizes, target) == (
            "With 1,320 + 480 certification records T* is 0.070 for 2 cells, 0.080 for 3 and 0.090 for 4."
        )
    assert rows[0].to_dict() == {"cells": 2, "bound": 0.07, "records_needed": None}
