import numpy as np
import pandas as pd
import pytest

from certifare.errors import ArgumentError
from certifare_research.evaluation.classifiers import CLASSIFIERS, TWELVE, make_classifier
from certifare_research.evaluation.protocol import as_matrix, attack, evaluate


@pytest.fixture
def halves():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 1200)
    z = rng.normal(size=(1200, 3)) + np.array([0.0, 1.0, 0.0]) * s[:, None]
    y = (z[:, 0] > 0).astype(int)
    return (z[:600], y[:600], s[:600]), (z[600:], y[600:], s[600:])


def test_text_becomes_positions():
    z = as_matrix(pd.DataFrame({"a": ["x", "z", None, "y"], "b": [1.0, 2.0, np.nan, 4.0]}))
    np.testing.assert_array_equal(z, [[0, 1], [2, 2], [-1, -1], [1, 4]])


@pytest.mark.parametrize("name", ["logistic", "raw-tree100", "mlp50", "raw-forest100"])
def test_classifiers_learn(halves, name):
    (z, y, _), (z_test, y_test, s_test) = halves
    result = evaluate(z, y, z_test, y_test, s_test, name, repeats=2)
    assert result.accuracy > 0.9
    assert len(result.outcomes) == 2
    assert result.max_distance() >= result.mean_distance()


def test_adversary_finds_what_is_there(halves):
    (z, _, s), (z_test, y_test, s_test) = halves
    outcome = attack(z, s, z_test, y_test, s_test)
    # The best distance of two unit normals one apart is 0.383.
    assert 0.2 < outcome.distance() < 0.5
    assert outcome.interval().lower > 0.15
    blind = attack(z[:, :1], s, z_test[:, :1], y_test, s_test)
    assert blind.interval().lower < 0.05


def test_a_model_can_be_trained_to_predict_the_group(halves):
    assert len(TWELVE) == 12
    (z, y, s), (z_test, y_test, s_test) = halves
    by_label, by_group = (evaluate(z, own, z_test, y_test, s_test, "logistic", repeats=1) for own in (y, s))
    assert by_group.mean_distance() > by_label.mean_distance()


def test_every_classifier_can_be_made():
    for name in CLASSIFIERS:
        assert hasattr(make_classifier(name, 3), "fit")
    with pytest.raises(ArgumentError, match="mlp50"):
        make_classifier("oracle")
