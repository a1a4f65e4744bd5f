"""Thresholds that are found in passes over pieces are the order statistics that memory would find."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.encoders.plans import IN_A_CELL, GapPlan, Thresholds
from certifare.engines import thresholds as module
from certifare.engines.parts import Totals
from certifare.engines.thresholds import LineTally, ThresholdCounter, find_thresholds, keys_of, numbers_between
from certifare.errors import TableError


class Pieces:
    """Counts arrays in pieces, as a cluster counts its partitions."""

    def __init__(self, values: Any, groups: Any, ties: Any, n_pieces: int = 3) -> None:
        self.records, self.n_pieces, self.passes, self.most = (values, groups, ties), n_pieces, 0, 0

    def __call__(self, work: ThresholdCounter) -> LineTally:
        self.passes += 1
        parts = zip(*(np.array_split(column, self.n_pieces) for column in self.records), strict=True)
        tally = LineTally.merge([self._count(work, *part) for part in parts])
        self.most = max(self.most, sum(map(len, tally.keys)))
        return tally

    def _count(self, work: ThresholdCounter, values: Any, groups: Any, ties: Any) -> LineTally:
        reached = work.encoder.thresholds_.reach(values, groups, ties, work.known)
        counts, keys = [], []
        for line in work.lines:
            rows = (reached == line.split) & (groups == line.group)
            own = keys_of(values[rows, work.encoder.plan_.directions[line.split]], ties[rows])
            interval = np.searchsorted(line.edges, own)
            counts.append(np.bincount(interval, minlength=len(line.edges) + 1))
            keys.append(own[line.listed[interval]])
        return LineTally(tuple(counts), tuple(keys), Totals(0, 0, 0))


def find(plan: GapPlan, values: Any, groups: Any, ties: Any, sample: Any = slice(0)) -> tuple[Thresholds, Pieces]:
    encoder: Any = SimpleNamespace(plan_=plan, thresholds_=None, repeated_ties=lambda: TableError("same value"))
    pieces = Pieces(values, groups, ties)
    nothing: Any = None
    known = np.zeros(plan.n_cells - 1, dtype=bool)
    work = ThresholdCounter(encoder=encoder, reading=nothing, certified=nothing, positive=None, tie_key=0, known=known)
    return find_thresholds(work, pieces, values[sample], groups[sample]), pieces


def random_plan(rng: np.random.Generator, sizes: Any, n_cells: int, n_directions: int) -> GapPlan:
    """A tree that splits a random node along a random direction, at random ranks."""
    nodes = {0: np.asarray(sizes) + 1}
    parents, directions, left = [], [], []
    for j in range(n_cells - 1):
        wide = [node for node, gaps in nodes.items() if gaps.min() >= 2]
        if not wide:
            break
        node = int(rng.choice(wide))
        gaps = nodes.pop(node)
        parents.append(node)
        directions.append(int(rng.integers(n_directions)))
        left.append(rng.integers(1, gaps))
        nodes[2 * j + 1], nodes[2 * j + 2] = left[-1], gaps - left[-1]
    shape = (len(parents), len(sizes))
    return GapPlan(
        np.array(parents, dtype=np.int64),
        np.array(directions, dtype=np.int64),
        np.array(left, dtype=np.int64).reshape(shape),
        np.asarray(sizes) + 1,
    )


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 400), st.integers(1, 3), st.sampled_from([0, 10, 10**6]), st.booleans()
)
def test_thresholds_are_those_of_memory(seed: int, n: int, n_directions: int, atoms: int, guess: bool) -> None:
    """Over trees of several directions, values with and without atoms, infinite ones among them."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(3), rng.integers(0, 3, n)])
    values = rng.normal(size=(len(groups), n_directions)) * 10.0 ** rng.integers(-8, 8)
    if atoms:
        values = rng.integers(-2, 1 + atoms // 4, values.shape).astype(float)
    values[rng.random(len(groups)) < 0.05] = np.inf
    ties = rng.random(len(groups))
    plan = random_plan(rng, np.bincount(groups), 12, n_directions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_LISTED", 3 * plan.n_cells)
        patch.setattr(module, "EDGES", 64)
        found, pieces = find(plan, values, groups, ties, slice(0, len(groups) // 3 if guess else 0))
    wanted = plan.calibrate(values, groups, ties)
    np.testing.assert_array_equal(found.at, wanted.at)
    np.testing.assert_array_equal(found.ties, wanted.ties)
    assert pieces.most <= max(3 * plan.n_cells, 1)
    inside = found.reach(values, groups, ties, np.ones(plan.n_cells - 1, dtype=bool)) == IN_A_CELL
    cells = found.cells(values, groups, ties)
    counts = np.zeros_like(plan.gaps)
    np.add.at(counts, (cells[inside], groups[inside]), 1)
    np.testing.assert_array_equal(counts, plan.gaps - 1)


def test_a_sample_saves_passes_and_few_records_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes, whatever the number of cells in a row; without a sample, a few more."""
    rng = np.random.default_rng(1)
    groups = np.repeat([0, 1], 100_000)
    values, ties = rng.normal(size=(200_000, 1)) + groups[:, None], rng.random(200_000)
    plan = GapPlan.along(np.full((20, 2), 5000) + np.eye(20, 2, dtype=np.int64))
    wanted = plan.calibrate(values, groups, ties)
    monkeypatch.setattr(module, "MOST_LISTED", 4000)
    sample = rng.permutation(200_000)[:10_000]
    for chosen, most_passes in ((sample, 2), (slice(0), 5)):
        found, pieces = find(plan, values, groups, ties, chosen)
        np.testing.assert_array_equal(found.at, wanted.at)
        assert pieces.passes <= most_passes
        assert pieces.most <= 4000


def test_equal_records_without_a_tie_between_them_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 50)
    plan = GapPlan.along(np.array([[301, 300], [300, 301]]))
    with pytest.raises(TableError, match="same value"):
        find(plan, np.zeros((1200, 1)), np.repeat([0, 1], 600), np.full(1200, 0.25))


def test_other_records_than_were_planned_for_are_refused() -> None:
    plan = GapPlan.along(np.array([[301, 300], [300, 301]]))
    with pytest.raises(TableError, match="other ones than were counted before"):
        find(plan, np.zeros((1201, 1)), np.repeat([0, 1], [601, 600]), np.linspace(0, 1, 1201))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.integers(1, 40))
def test_numbers_between_lie_between(one: float, other: float, n: int) -> None:
    low, high = sorted((one, other))
    found = numbers_between(low, high, n)
    assert len(found) <= n
    assert (np.diff(found) > 0).all()
    assert ((found > low) & (found < high)).all()
    if np.isfinite([low, high]).all() and high > np.nextafter(np.nextafter(low, high), high) > low:
        assert len(found) >= 1
