from pathlib import Path

import pytest

from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments.delivered import delivered
from certifare_research.experiments.framework import Run


@pytest.mark.parametrize(
    ("way", "metric"),
    [
        ("tree", "demographic_parity"),
        ("calibrated cells", "demographic_parity"),
        ("calibrated cells", "equal_opportunity"),
    ],
)
def test_what_is_delivered_keeps_its_level_and_its_figures_follow_from_its_counts(way, metric, tmp_path):
    found = delivered(Run(name="x", out=Path(tmp_path), quick=True), ("adult", way, 0, metric))
    assert found
    for record in found:
        assert record["bound"] <= record["level"]
        counts = [int(n) for n in record["counts"].split()]
        assert record["accuracy"] == pytest.approx(sum(counts[i] for i in (0, 3, 4, 7)) / sum(counts))
        assert Outcome.parse(record["outcome"]).distance(metric) == pytest.approx(record["distance"])
        if metric == "demographic_parity":
            assert record["distance"] <= record["any_classifier"] + 1e-12
