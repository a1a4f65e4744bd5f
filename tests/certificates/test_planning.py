"""Plans of calibrated cells."""

import pytest

from certifare.certificates.calibrated import calibrated_bound
from certifare.certificates.planning import equal_gaps, plan_table, plan_words, records_needed
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
