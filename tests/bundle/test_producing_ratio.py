"""A ratio of selection rates that is asked for sets the target."""

import numpy as np
import pandas as pd
import pytest

from certifare import produce
from certifare.errors import ArgumentError
from certifare.frontier import Grid

GRID = Grid(kinds=["tree"], gammas=[0.5, 0.9, 0.97], min_cell_sizes=[60])
EACH = {"sensitive": ("sex", "race"), "each": True}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], 6_000), "race": rng.choice(["a", "b"], 6_000)})
    table["age"] = rng.normal(40, 12, 6_000).round(1)
    table["product"] = rng.choice(["car", "home"], 6_000)
    table["approved"] = (table["age"] + 3 * (table["sex"] == "m") + rng.normal(0, 8, 6_000) > 42).astype(int)
    return table


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"min_ratio": 0.8, "min_rate": 0.3, "target": 0.1}, "not both"),
        ({"min_ratio": 0.8}, "go together"),
        ({"min_ratio": 1.8, "min_rate": 0.3}, "min_ratio=1.8: give a ratio between 0 and 1"),
        ({"min_ratio": 0.8, "min_rate": 0}, "min_rate=0: give a selection rate"),
        ({"min_ratio": 0.8, "min_rate": 0.3, "given": "product"}, "given= says nothing"),
    ],
)
def test_ratios_that_no_target_can_guarantee_are_refused(people, asked, words):
    with pytest.raises(ArgumentError, match=words):
        produce(people, label="approved", sensitive="sex", **asked)


def test_a_ratio_is_a_target(people):
    bundle = produce(people, label="approved", sensitive="sex", min_ratio=0.7, min_rate=0.5, grid=GRID, ledger=False)
    assert bundle.target == 0.15
    assert any("at least 50 % of some group has selection rates" in note for note in bundle.notes)
    assert bundle.certificate.impact_ratio(0.5) >= 0.7


def test_a_ratio_for_each_attribute_is_promised_within_that_attribute(people, tmp_path):
    bundle = produce(people, label="approved", **EACH, min_ratio=0.7, min_rate=0.9, grid=GRID, ledger=False)
    promise = "at least 90 % of some group of an attribute has, among that attribute's groups, selection rates"
    assert any(promise in note for note in bundle.notes)
    page = (bundle.save(tmp_path / "out") / "report.html").read_text()
    assert "highest rate of any group among the groups of any one attribute" in page
