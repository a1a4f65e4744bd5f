"""The choice among plans of calibrated cells."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from certifare.bundle import produce
from certifare.certificates.calibrated import calibrated_bound, sampled_bound
from certifare.certificates.claims import Claim
from certifare.certificates.planning import equal_gaps
from certifare.encoders.plans import GapPlan
from certifare.errors import ArgumentError
from certifare.frontier.calibrating import PARTS, CalibratedSearch, choose_parts
from certifare.tables.splitting import split
from certifare.tables.table import Table


def test_plans_are_compared_by_what_they_retain_as_far_as_it_is_asked_for():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_500, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "g": rng.integers(0, 2, 1_500), "y": (x[:, 0] > 0).astype(int)})
    search = CalibratedSearch(
        Table.from_frame(frame, label="y", sensitive="g"), Claim(), retain=0.5, max_cells=6, n_jobs=1
    ).run()
    two, three = (replace(search.candidates[i], promising=True) for i in (0, 1))
    search.candidates = (replace(two, utility=0.5, retained=0.1), replace(three, utility=0.4, retained=0.3))
    assert search.best(0.5) == 1
    search.candidates = (replace(two, utility=0.5, retained=0.1), replace(three, utility=0.4, retained=0.19))
    assert search.best(0.5) == 0


def table_of(sizes, rng=None):
    """Return a table of two groups of these sizes; without a generator, every record is like every other."""
    n = sum(sizes)
    x, y = (np.zeros(n), np.arange(n) % 2) if rng is None else (rng.random(n), rng.integers(0, 2, n))
    frame = pd.DataFrame({"x": x, "y": y, "g": np.repeat(["a", "b"], sizes)})
    return Table.from_frame(frame, label="y", sensitive="g")


@pytest.mark.parametrize(
    ("sizes", "target", "share"),
    [
        ((500, 500), 0.2, 0.5),
        ((500, 500), 0.1, 0.6),
        ((500, 500), 0.05, 0.7),
        ((30_000, 30_000), 0.2, 0.6),  # enough train
        ((900, 100), 0.2, 0.6),
        ((997, 3), 0.5, 0.7),
    ],
)
def test_the_target_and_the_sizes_of_groups_say_how_many_records_set_thresholds(sizes, target, share):
    parts, why = choose_parts(table_of(sizes), Claim(), target)
    assert parts == {"train": pytest.approx(1 - share), "certify": share}
    assert (why is None) == (share == 0.6)
    assert choose_parts(table_of(sizes), Claim(metric="equal_opportunity", positive="1"), target) == (PARTS, None)
    assert choose_parts(table_of(sizes), Claim(), None) == (PARTS, None)


def test_the_split_chosen_is_noted_and_a_given_one_wins():
    bundle = produce(table_of((300, 300), np.random.default_rng(0)), target=0.05, group_aware=True, ledger=False)
    assert bundle.frontier.search.parts["certify"] == 0.7
    assert any("70 % of the records set thresholds" in note for note in bundle.notes)
    given = {"train": 0.5, "certify": 0.5}
    bundle = produce(
        table_of((300, 300), np.random.default_rng(0)), target=0.05, group_aware=True, parts=given, ledger=False
    )
    assert bundle.frontier.search.parts == given


def test_a_confidence_too_high_to_simulate_is_refused_before_anything_is_fitted():
    with pytest.raises(ArgumentError, match=r"ε from 0\.0001 to 0\.5"):
        CalibratedSearch(table_of((300, 300), np.random.default_rng(0)), Claim(confidence=0.999999))
    with pytest.raises(ArgumentError, match=r"ε from 0\.0001 to 0\.5"):
        sampled_bound([[300, 300], [300, 300], [301, 301]], 1e-6)


def test_bounds_miss_in_five_percent_of_samples_although_their_groups_choose_the_split():
    # The groups are as large as chance has it, around the sizes where the split changes. Scores are uniform, so a
    # group's share below a threshold is the threshold.
    rng, misses, shares, runs = np.random.default_rng(1), 0, set(), 800
    tables = {}
    for run in range(runs):
        size = int(rng.binomial(200, 0.5))
        if size not in tables:
            tables[size] = table_of((size, 200 - size))
        table = tables[size]
        parts, _ = choose_parts(table, Claim(), 0.1765)
        shares.add(parts["certify"])
        rows = split(table, parts, run)["certify"]
        groups, scores = table.groups.codes[rows], rng.random(len(rows))
        plan = GapPlan.along(equal_gaps(np.bincount(groups).tolist(), 2))
        thresholds = plan.calibrate(scores[:, None], groups, rng.random(len(rows))).at
        misses += float(np.ptp(thresholds)) > calibrated_bound(plan.gaps, 0.05)
    assert shares == {0.6, 0.7}
    assert 0.03 < misses / runs < 0.073
