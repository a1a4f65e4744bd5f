"""The paper's bound against an independent computation with scipy's own Clopper–Pearson intervals."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from certifare import CellCounts, certify_counts
from certifare.certificates.lemmas import lemmas_bound
from certifare.errors import ArgumentError, CellCountMismatchError, ConfidenceError


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


def test_through_certify_counts():
    base, cells, sums = (CellCounts(t, "fm") for t in random_tables(0, 6))
    certificate = certify_counts(cells, method="lemmas", base_counts=base, sum_counts=sums)
    assert certificate.bound == lemmas_bound(base.table, cells.table, sums.table, 0.05)
    assert certificate.verify() == certificate
    wider = certify_counts(cells, method="lemmas", base_counts=base, sum_counts=sums, budget=(0.2, 0.2, 0.6))
    assert wider.bound != certificate.bound
    swapped = certify_counts(cells, method="lemmas", base_counts=base.of_groups("m", "f"), sum_counts=sums)
    assert swapped.bound == certificate.bound


def test_bad_input():
    base, cells, sums = (CellCounts(t, "fm") for t in random_tables(0, 6))
    with pytest.raises(ArgumentError, match="a sample of its own"):
        certify_counts(cells, method="lemmas")
    for budget in ((0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.5, 0.5)):
        with pytest.raises(ConfidenceError, match="add up to 1"):
            certify_counts(cells, method="lemmas", base_counts=base, sum_counts=sums, budget=budget)
    with pytest.raises(CellCountMismatchError, match="sum_counts has 1 cells"):
        certify_counts(cells, method="lemmas", base_counts=base, sum_counts=CellCounts([[1, 2]], "fm"))


def test_one_group_absent_from_base_rates_gives_the_trivial_bound():
    tables = random_tables(0, 3)
    tables[0][:, 1] = 0
    assert lemmas_bound(*tables, 0.05) == 1.0
