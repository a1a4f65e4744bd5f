"""What is claimed of pooled groups holds, though chance decides which groups they are."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from certifare.certificates import Claim, certify_counts
from certifare.frontier.job import _pool
from certifare.tables.reading import POOLED
from certifare.tables.splitting import split
from certifare.tables.table import Table

#: Groups with their shares, and the cells of each. The last three are near the threshold, and far from each other.
SHARES = {"a": 0.44, "b": 0.44, "c": 0.05, "d": 0.05, "e": 0.02}
CELLS = np.array([[0.5, 0.3, 0.2], [0.45, 0.35, 0.2], [0.95, 0.05, 0.0], [0.02, 0.03, 0.95], [0.1, 0.8, 0.1]])


#: P(y = 1) in each group. Only records with y = 1 have the cells above; the others are elsewhere.
RATES = np.array([0.5, 0.4, 0.55, 0.5, 0.9])


def distance(kept, weights):
    """The true distance, with all groups that are not kept as one, mixed by these weights."""
    pool = np.array([name not in kept for name in SHARES])
    mixed = [(weights[pool] @ CELLS[pool]) / weights[pool].sum()] if pool.any() else []
    return max(abs(p - q).sum() / 2 for p, q in combinations([*CELLS[~pool], *mixed], 2))


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity"])
def test_bounds_of_pooled_groups_fail_at_most_as_often_as_said(metric):
    rng = np.random.default_rng(0)
    shares, claim = np.array(list(SHARES.values())), Claim(metric=metric, min_group_size=1, confidence=0.8)
    within = metric == "equal_opportunity"
    runs, n, epsilon, misses, pools = 100, 1400 if within else 700, 0.2, 0, set()
    for seed in range(runs):
        codes = rng.choice(5, n, p=shares)
        y = (rng.random(n) < RATES[codes]).astype(int)
        cells = (rng.random(n)[:, None] > np.cumsum(CELLS, axis=1)[codes][:, :2]).sum(axis=1)
        if within:
            cells = np.where(y == 1, cells, codes % 3)
        people = pd.DataFrame({"cell": cells, "group": np.array(list(SHARES))[codes], "y": y})
        table = Table.from_frame(people, label="y", sensitive="group")
        rows = split(table, seed=seed, by_group=False)
        kept, _ = _pool(table, rows, 14, claim)
        part = (table if kept is None else table.pooled(kept)).take(rows["certify"])
        counts = part.count(np.asarray(part.features.column("cell")), 3, labels=claim.labelled)
        found = certify_counts(counts, metric=metric, confidence=1 - epsilon, min_group_size=1)
        kept = tuple(SHARES) if kept is None else kept
        pools.add(kept)
        misses += found.bound < distance(kept, shares * RATES if within else shares)
    assert len(pools) >= 3  # chance did decide
    assert misses <= runs * epsilon + 3 * np.sqrt(runs * epsilon * (1 - epsilon))


def test_groups_are_small_by_people_not_by_their_visits():
    """Forty people of a third group, ten visits each: sixteen are certified, though they have 400 records."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(1040), 10)
    people = pd.DataFrame({
        "x": rng.normal(size=len(person)),
        "person": person,
        "group": np.where(person < 500, "a", np.where(person < 1000, "b", "c")),
        "y": rng.integers(0, 2, len(person)),
    })  # fmt: skip
    table = Table.from_frame(people, label="y", sensitive="group", cluster="person")
    kept, (note,) = _pool(table, split(table, by_group=False), 30, Claim())
    assert "'c' (400 records)" in note
    assert kept is not None
    assert table.pooled(kept).groups.names == (*kept, POOLED)
    weights = people.assign(weight=np.where(people["group"] == "c", 0.05, 1.0))
    table = Table.from_frame(weights.drop(columns="person"), label="y", sensitive="group", weight="weight")
    assert "'c'" in _pool(table, split(table, by_group=False), 30, Claim())[1][0]
    alone = Table.from_frame(people.drop(columns="person"), label="y", sensitive="group")
    assert _pool(alone, split(alone, by_group=False), 30, Claim()) == (None, ())
