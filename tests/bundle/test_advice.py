from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.bundle.conftest import GRID, people

from certifare.bundle import produce
from certifare.tables.splitting import split
from certifare.tables.table import Table


def test_advice_comes_true():
    """With the records that were asked for, and with the target that was proposed, there is a solution."""
    asked = produce(people(3000, 2), label="paid", sensitive="sex", target=0.03, grid=GRID)
    assert asked.verdict == "NO SOLUTION"
    target = next(advice.target for advice in asked.advice if advice.target is not None)
    records = next(advice.records for advice in asked.advice if advice.records is not None)
    # Other people of the same population: choosing again on the same records would not be fair.
    outcomes = [produce(people(3000, s), label="paid", sensitive="sex", target=target, grid=GRID) for s in (3, 4, 5)]
    assert sum(outcome.verdict == "PASS" for outcome in outcomes) >= 2
    outcomes = [produce(people(records, s), label="paid", sensitive="sex", target=0.03, grid=GRID) for s in (6, 7, 8)]
    assert sum(outcome.verdict == "PASS" for outcome in outcomes) >= 2


def dealt_at_random(table, part, seed):
    """Deal the labels of one part's people anew, so that nothing tells them; all people stay in their parts."""
    (label,), rows = table.labels, split(table, seed=0)[part]
    codes = label.codes.copy()
    codes[rows] = np.random.default_rng(seed).permutation(codes[rows])
    return replace(table, labels=(replace(label, codes=codes),))


@pytest.mark.parametrize("target", [None, 0.5])
def test_encoders_that_tell_nothing_beyond_chance_are_no_solution(target):
    """Select records show it, and no certification record is looked at."""
    table = Table.from_frame(people(3000, 4), label="paid", sensitive="sex")
    bundle = produce(dealt_at_random(table, "select", 2), target=target, grid=GRID)
    assert bundle.verdict == "NO SOLUTION"
    assert bundle.certificate is bundle.measured is bundle.point is None
    assert bundle.tested == ()
    (advice,) = bundle.advice
    assert "No encoder predicts the label better than chance, as far as 300 select records" in advice.text
    assert "more records, other columns or another label" in advice.text


@pytest.mark.parametrize("target", [None, 0.5])
def test_certification_records_that_show_no_use_of_an_encoder_withhold_nothing(target, tmp_path):
    """Withheld by them, certificates that are delivered would be chosen by them, and fail more often than stated."""
    table = Table.from_frame(people(3000, 4), label="paid", sensitive="sex")
    bundle = produce(dealt_at_random(table, "certify", 0), target=target, grid=GRID)
    assert bundle.verdict == ("DONE" if target is None else "PASS")
    assert bundle.certificate.bound <= (1.0 if target is None else target)
    assert bundle.measured.worthless
    assert bundle.to_dict()["measured"]["worthless"] is True
    assert bundle.measured.little
    assert bundle.warning.startswith("predicts almost nothing (AUC 0.")
    assert bundle.to_dict()["warning"] == bundle.warning
    # The same encoder, with the labels as they are, is of use, and has the same certificate.
    other = produce(table, target=target, grid=GRID, ledger=False)
    assert not other.measured.worthless
    assert other.warning is None
    assert (other.point, other.certificate.bound) == (bundle.point, bundle.certificate.bound)
    for made, said in ((bundle, True), (other, False)):
        folder = made.save(tmp_path / str(said))
        assert ("predict almost nothing" in (folder / "report.html").read_text("utf-8")) is said


def test_advice_is_about_encoders_with_as_many_cells_as_were_asked_for():
    found = [
        produce(people(3000, 4), label="paid", sensitive="sex", target=0.02, grid=GRID, min_cells=fewest, ledger=False)
        for fewest in (2, 8)
    ]
    assert [bundle.verdict for bundle in found] == ["NO SOLUTION"] * 2
    few, many = (next(advice.target for advice in bundle.advice if advice.target is not None) for bundle in found)
    assert few < many
    assert found[0].advice[0].records is not None
    assert found[1].advice[0].text.startswith("No number of records would do")


@pytest.mark.parametrize(
    ("weight", "said"), [(0.3, "with --target 0.3 expect about AUC"), (0.0, "no larger target is expected to help")]
)
def test_a_warning_names_larger_targets_only_if_they_are_expected_to_give_more(weight, said):
    """Within the target only a weak column remains; the other column is bound to the group, and may be of use."""
    rng = np.random.default_rng(0)
    group, weak = rng.integers(0, 2, 8000), rng.integers(0, 2, 8000)
    bound = rng.random(8000) < 0.4 + 0.15 * group
    label = rng.random(8000) < 0.45 + 0.08 * weak + 1.5 * weight * bound
    frame = pd.DataFrame({"weak": weak, "bound": bound.astype(int), "group": group, "y": label})
    bundle = produce(frame, label="y", sensitive="group", target=0.08, grid=GRID, ledger=False)
    assert bundle.measured.little
    assert said in bundle.warning
