import pytest

from certifare_research.experiments.comparison import _behind, _gain, _less


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ({0: 1.0, 1: 1.0, 2: 1.0}, ""),
        ({0: 1.0, 2: 1.0}, " (2 splits)"),
        ({0: 0.25}, " (1 split, 25 % of the epochs)"),
        ({0: 1.0, 1: 1.0, 2: 0.3}, " (split 3: 30 % of the epochs)"),
        ({0: 0.3, 1: 0.3, 2: 0.3}, " (30 % of the epochs)"),
    ],
)
def test_what_is_less_than_published_stands_beside_the_name(lengths, words):
    shorter = [{"split": split, "effort": 0.1} for split in lengths]
    assert _less([*shorter, *({"split": i, "effort": e} for i, e in lengths.items())], splits=3) == words


def measured(kind, split, effort, accuracy, distance=0.04):
    return {"kind": kind, "split": split, "effort": effort, "accuracy": accuracy, "distance": distance}


def test_what_the_longest_training_adds_is_read_off_the_first_split():
    records = [
        measured("FCRL", 0, 0.25, 0.70),
        measured("FCRL", 0, 1.0, 0.73),
        measured("FCRL", 1, 0.25, 0.60),  # another split says nothing
        measured("CVIB", 0, 1.0, 0.80),  # nothing shorter to compare with
        measured("LAFTR", 0, 0.05, 0.75),
        measured("LAFTR", 0, 1.0, 0.71),  # the best of all lengths stays
    ]
    assert _gain(records) == pytest.approx(0.03)
    assert _gain(records[3:4]) is None


def test_how_far_the_published_trees_are_behind_is_a_mean_over_splits():
    records = [
        *(measured("FARE as published", split, 1.0, accuracy) for split, accuracy in enumerate((0.78, 0.80))),
        measured("FARE as published", 1, 1.0, 0.70),
        *(measured("LAFTR", split, 1.0, accuracy) for split, accuracy in enumerate((0.80, 0.81))),
        measured("LAFTR steady", 0, 1.0, 0.99),  # no published configuration
    ]
    assert _behind(records) == pytest.approx(0.015)
    assert _behind(records[3:]) is None
