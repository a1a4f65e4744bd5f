import pytest

from certifare_research.experiments.comparison import _behind, _rows
from certifare_research.experiments.framework import LEVELS
from certifare_research.experiments.growths import over, within


def measured(kind, split, effort, accuracy, distance=0.04, classifier="mlp50"):
    return {
        "kind": kind,
        "split": split,
        "effort": effort,
        "accuracy": accuracy,
        "distance": distance,
        "classifier": classifier,
        "bound": None,
    }


def test_how_many_splits_a_mean_is_over_stands_beside_it():
    assert over([0.8, 0.9], 2) == "0.850 ± 0.071"
    assert over([0.8, 0.9], 5) == "0.850 ± 0.071 (2 of 5)"
    assert over([0.8], 5) == "0.800 (1 of 5)"
    assert over([], 5) is None
    assert over([0.8], 1) == 0.8


def test_the_best_setting_within_a_level_is_taken_on_each_split():
    records = [measured("FCRL", 0, 1, 0.7), measured("FCRL", 0, 1, 0.9, 0.3), measured("FCRL", 1, 1, 0.8, 0.12)]
    expected = ["0.700 (1 of 2)", "0.700 (1 of 2)", "0.750 ± 0.071", "0.750 ± 0.071"]
    assert within(records, LEVELS, 2, "distance") == expected
    assert within(records[:2], [0.1, 0.3], 5, "distance") == [0.7, 0.9]  # one split alone


def test_the_published_length_and_the_best_length_have_rows_of_their_own():
    records = [
        *(measured("LAFTR", split, 1, 0.79) for split in range(2)),
        measured("LAFTR", 0, 0.1, 0.81),
        *(measured("LAFTR", split, 1, 0.80, classifier="gbm") for split in range(2)),
    ]
    rows = {row[0]: row[1] for row in _rows("LAFTR", records, 2)}
    assert rows == {
        "LAFTR: measured ≤": "0.790 ± 0.000",
        "LAFTR, at its best length: measured ≤": "0.800 ± 0.014",
        "LAFTR, boosting as consumer: measured ≤": "0.800 ± 0.000",
    }


def test_how_far_the_published_trees_are_behind_is_a_mean_over_splits():
    records = [
        *(measured("FARE as published", split, 1.0, accuracy) for split, accuracy in enumerate((0.78, 0.80))),
        measured("FARE as published", 1, 1.0, 0.70),
        *(measured("LAFTR", split, 1.0, accuracy) for split, accuracy in enumerate((0.80, 0.81))),
        measured("LAFTR steady", 0, 1.0, 0.99),  # no published configuration
    ]
    assert _behind(records) == pytest.approx(0.015)
    assert _behind(records[3:]) is None
