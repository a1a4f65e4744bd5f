"""The paper's bound against an independent computation with scipy's own Clopper–Pearson intervals."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from certifare import CellCounts
from certifare_research.evaluation.lemmas import lemmas_bound, paper_bound


def independent(base, cells, sums, eps_b=0.005, eps_c=0.04, eps_s=0.005):
    k, n = len(cells), sum(map(sum, sums))
    first, total = sum(row[0] for row in base), sum(map(sum, base))
    q = binomtest(first, total).proportion_ci(1 - eps_b, "exact")
    a0, a1 = 1 / (2 * q.low), 1 / (2 * (1 - q.high))
    t = []
    for c0, c1 in cells:
        if c0 + c1 == 0:
            t.append(max(a0, a1))
        else:
            p = binomtest(c0, c0 + c1).proportion_ci(1 - eps_c / k, "exact")
            t.append(max(a0 * p.high, a1 * (1 - p.low)))
    mean = sum(sum(row) * ti for row, ti in zip(sums, t, strict=True)) / n
    s = mean + (max(t) - min(t)) * math.sqrt(-math.log(eps_s) / (2 * n))
    return min(1.0, max(0.0, 2 * s - 1))


def random_tables(seed, k):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k))
    return [rng.multinomial(n, p, size=2).T for n in (4000, 3000, 5000)]


@pytest.mark.parametrize("k", [2, 5, 40])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_independent_computation(seed, k):
    base, cells, sums = random_tables(seed, k)
    expected = independent(base.tolist(), cells.tolist(), sums.tolist())
    assert lemmas_bound(base, cells, sums, 0.05) == pytest.approx(expected, abs=1e-9)


def test_empty_cell_gets_the_trivial_value():
    base, cells, sums = random_tables(1, 4)
    cells[2] = 0
    expected = independent(base.tolist(), cells.tolist(), sums.tolist())
    assert lemmas_bound(base, cells, sums, 0.05) == pytest.approx(expected, abs=1e-9)
    assert expected < 1.0


def test_golden_value():
    tables = [np.array([[600, 500], [400, 500]])] * 3
    assert lemmas_bound(*tables, 0.05) == pytest.approx(independent(*[t.tolist() for t in tables]), abs=1e-9)
    assert lemmas_bound(*tables, 0.05) == pytest.approx(0.253805346, abs=1e-8)


def test_a_small_group_and_a_large_distance():
    """A group of 4 %, and a bound above .9: no figure is cut off before its time."""
    rng = np.random.default_rng(3)
    for share in (0.04, 0.96):
        tables = []
        for n in (400_000, 300_000, 500_000):
            first, second = round(n * share), round(n * (1 - share))
            tables.append(np.stack([rng.multinomial(first, [0.5, 0.5]), rng.multinomial(second, [0.45, 0.55])], axis=1))
        expected = independent(*[t.tolist() for t in tables])
        assert expected < 0.5
        assert lemmas_bound(*tables, 0.05) == pytest.approx(expected, abs=1e-9)
    apart = [np.array([[970_000, 20_000], [30_000, 980_000]])] * 3
    expected = independent(*[t.tolist() for t in apart])
    assert 0.92 < expected < 1.0
    assert lemmas_bound(*apart, 0.05) == pytest.approx(expected, abs=1e-9)
    assert lemmas_bound(*apart, 0.05) > expected


@pytest.mark.parametrize("group", [0, 1])
def test_either_group_absent_from_base_rates_gives_the_trivial_bound(group):
    tables = random_tables(0, 3)
    tables[0][:, group] = 0
    assert lemmas_bound(*tables, 0.05) == 1.0


def test_any_metric_is_the_largest_or_the_mean_of_pairs_at_the_epsilon_of_each():
    rng = np.random.default_rng(0)
    samples = [CellCounts(rng.multinomial(3_000, [0.3, 0.5, 0.2], size=(3, 2)).transpose(2, 0, 1), "abc", "01")] * 3

    def largest(table, epsilon):
        return max(lemmas_bound(*[table[:, list(pair)]] * 3, epsilon) for pair in ((0, 1), (0, 2), (1, 2)))

    table = samples[0].table
    assert paper_bound(samples) == largest(table.sum(axis=2), 0.05)
    labels = [largest(table[:, :, y], 0.025) for y in (0, 1)]
    assert paper_bound(samples, "equalized_odds") == pytest.approx(np.mean(labels), abs=1e-12)
    assert paper_bound(samples, "equal_opportunity") == largest(table[:, :, 1], 0.05)
    assert paper_bound(samples, budget=(0.2, 0.2, 0.6)) != paper_bound(samples)
    assert paper_bound(samples, confidence=0.9) == largest(table.sum(axis=2), 0.1)
