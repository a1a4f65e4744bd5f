import pytest

from certifare_research.experiments.comparison import _less


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
