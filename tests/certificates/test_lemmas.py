"""The paper's bound against an independent computation with scipy's own Clopper–Pearson intervals."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from certifare import CellCounts, certify_counts
from certifare.certificates.lemmas import clopper_pearson, lemmas_bound, one_population
from certifare.errors import ArgumentError, CountsError


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


def test_bad_input_is_refused():
    base, cells, sums = (CellCounts(t, "fm") for t in random_tables(0, 6))
    with pytest.raises(ArgumentError, match="a sample of its own"):
        certify_counts(cells, method="lemmas")
    for budget in ((0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.5, 0.5)):
        with pytest.raises(ArgumentError, match="add up to 1"):
            certify_counts(cells, method="lemmas", base_counts=base, sum_counts=sums, budget=budget)
    with pytest.raises(CountsError, match="sum_counts has 1 cells"):
        certify_counts(cells, method="lemmas", base_counts=base, sum_counts=CellCounts([[1, 2]], "fm"))


def test_one_group_absent_from_base_rates_gives_the_trivial_bound():
    tables = random_tables(0, 3)
    tables[0][:, 1] = 0
    assert lemmas_bound(*tables, 0.05) == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(3, 40), (39, 40), (0, 40), (40, 40), (500, 10**6), (0, 0)])
@pytest.mark.parametrize("epsilon", [0.5, 0.05, 1e-12])
def test_limits_of_a_share_are_those_of_scipy_rounded_outwards(successes, trials, epsilon):
    """By 10⁻¹¹ of the smaller share; nothing is known where there were no trials."""
    (low,), (high,) = clopper_pearson(np.array([successes]), np.array([trials]), epsilon)
    expected = beta.ppf(epsilon / 2, successes, trials - successes + 1) if successes else 0.0
    other = beta.ppf(epsilon / 2, trials - successes, successes + 1) if successes < trials else 0.0
    assert low == pytest.approx(expected * (1 - 1e-11), rel=5e-13)
    assert 1 - high == pytest.approx(other * (1 - 1e-11), rel=5e-13, abs=2e-16)


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


@pytest.mark.parametrize("cells", [False, True])
def test_samples_of_one_population_differ_by_hoeffdings_radius_at_most(cells):
    """Every comparison of shares has an equal part of 10⁻⁹, for either side: 4 or 12 of them with two groups."""
    n, m = 10**10, 4 * 10**10
    comparisons = 2 * 2 * (3 if cells else 1)
    radius = math.sqrt((1 / n + 1 / m) * math.log(comparisons / 1e-9) / 2)
    largest = math.floor(radius * m)
    first = np.array([[n // 2, 0], [0, n // 2]])
    for more, refused in ((-3, False), (3, True)):
        second = np.array([[m // 2 + largest + more, 0], [0, m // 2 - largest - more]])
        counts, other = CellCounts(first, "fm"), CellCounts(second, "fm")
        if refused:
            with pytest.raises(CountsError, match="contradict"):
                one_population(counts, other, "sum_counts", cells=cells)
        else:
            one_population(counts, other, "sum_counts", cells=cells)


def test_base_rates_may_come_from_records_in_other_cells():
    """Only the groups' shares are taken from them; the sum needs the same cells."""
    counts, other = CellCounts([[500, 400], [500, 600]], "fm"), CellCounts([[900, 100], [100, 900]], "fm")
    certificate = certify_counts(counts, method="lemmas", base_counts=other, sum_counts=counts)
    assert certificate.base_counts == other
    with pytest.raises(
        CountsError, match="sum_counts contradict the counts: 45.00% .* of group 'f' in cell 0, against"
    ):
        certify_counts(counts, method="lemmas", base_counts=counts, sum_counts=other)
