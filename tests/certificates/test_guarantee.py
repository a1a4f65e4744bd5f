"""The guarantee itself, by simulation: how often does the true distance exceed T*?

``CERTIFARE_FULL=1`` (`make test-slow`) runs at least ten times as many simulations.
"""

import os
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

from certifare import CellCounts, certify_counts, one_per_cluster, thin
from certifare.certificates import METRICS, classifier
from certifare.certificates.claims import combine, metric_of, statistic
from certifare.certificates.exact import difference_limit

EPSILON = 0.05
FULL = bool(os.environ.get("CERTIFARE_FULL"))
RUNS = 20_000 if FULL else 2_000


def total_variation(p, q):
    return np.maximum(p - q, 0).sum()


@cache
def critical_statistic(n0, n1, distance, epsilon):
    """The largest M whose limit lies below the distance; the limit is monotone in M, so M alone tells a miss."""
    low, high = -1, n0 * n1
    while high - low > 1:
        middle = (low + high) // 2
        if difference_limit(n0, n1, middle, epsilon) < distance:
            low = middle
        else:
            high = middle
    return low


def statistics_of(samples0, samples1):
    """M of each simulated pair of count vectors."""
    n0, n1 = int(samples0[0].sum()), int(samples1[0].sum())
    return np.maximum(n1 * samples0.astype(np.int64) - n0 * samples1.astype(np.int64), 0).sum(axis=1)


def assert_at_most(misses, runs, rate):
    """The miss rate is at most ``rate``, up to a binomial error of one in 100,000."""
    assert misses <= binom.ppf(1 - 1e-5, runs, rate), f"{misses} misses in {runs} runs"


def population(rng, k, distance):
    """Two distributions on k cells at about this distance: a random one, and one pulled away from it."""
    p = rng.dirichlet(np.ones(k))
    half = rng.permutation(k) < max(1, k // 2)
    q = np.where(half, p * (1 - distance), p)
    target = np.where(half, 0.0, rng.dirichlet(np.ones(k)) + 1e-9)
    return p, q + (1 - q.sum()) * target / target.sum()


@pytest.mark.parametrize("k", [2, 3, 20, 200])
@pytest.mark.parametrize(("n0", "n1"), [(500, 500), (950, 50), pytest.param(4_000, 6_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("distance", [0.0, 0.05, 0.4, 0.9])
def test_miss_rate_is_at_most_epsilon(k, n0, n1, distance):
    rng = np.random.default_rng([k, n0, int(100 * distance)])
    p, q = population(rng, k, distance)
    true = total_variation(p, q)
    m = statistics_of(rng.multinomial(n0, p, size=RUNS), rng.multinomial(n1, q, size=RUNS))
    assert_at_most((m <= critical_statistic(n0, n1, float(true), EPSILON)).sum(), RUNS, EPSILON)


@pytest.mark.parametrize(("n0", "n1", "distance"), [(1_000, 1_000, 0.2), (5_000, 5_000, 0.1), (2_000, 1_000, 0.3)])
def test_the_bound_is_sharp_at_the_least_favourable_population(n0, n1, distance):
    """With two cells and the worst base rate misses are nearly as frequent as allowed."""
    rng = np.random.default_rng(0)
    a, b = 0.5 + distance / 2, 0.5 - distance / 2
    runs = 20_000
    x, y = rng.binomial(n0, a, runs), rng.binomial(n1, b, runs)
    m = statistics_of(np.stack([x, n0 - x], axis=1), np.stack([y, n1 - y], axis=1))
    misses = (m <= critical_statistic(n0, n1, distance, EPSILON)).sum()
    assert_at_most(misses, runs, EPSILON)
    assert misses > runs * EPSILON / 2


@pytest.mark.parametrize("groups", [3, 5])
def test_several_groups_share_no_epsilon(groups):
    rng = np.random.default_rng(groups)
    sizes = rng.integers(100, 900, groups)
    p = [rng.dirichlet(5 * np.ones(6)) for _ in range(groups)]
    samples = [rng.multinomial(n, q, size=RUNS) for n, q in zip(sizes, p, strict=True)]
    true = max(total_variation(p[i], p[j]) for i, j in combinations(range(groups), 2))
    covered = np.zeros(RUNS, dtype=bool)
    for i, j in combinations(range(groups), 2):
        limit = critical_statistic(int(sizes[i]), int(sizes[j]), float(true), EPSILON)
        covered |= statistics_of(samples[i], samples[j]) > limit
    assert_at_most((~covered).sum(), RUNS, EPSILON)


@pytest.mark.slow
def test_equalized_odds_through_the_whole_code():
    rng = np.random.default_rng(11)
    runs = RUNS // 5
    p = rng.dirichlet(3 * np.ones(4), size=(2, 2))  # group, label
    sizes = np.array([[300, 120], [200, 250]])
    true = [total_variation(p[0, y], p[1, y]) for y in range(2)]
    misses = {"equalized_odds": 0, "equalized_odds_max": 0, "equal_opportunity": 0}
    truth = {"equalized_odds": np.mean(true), "equalized_odds_max": max(true), "equal_opportunity": true[1]}
    for _ in range(runs):
        table = np.stack([[rng.multinomial(sizes[s, y], p[s, y]) for y in range(2)] for s in range(2)])
        counts = CellCounts(table.transpose(2, 0, 1), "fm", "01")
        for metric in misses:
            misses[metric] += certify_counts(counts, metric).bound < truth[metric]
    for count in misses.values():
        assert_at_most(count, runs, EPSILON)


@pytest.mark.slow
def test_lower_limits_hold_too():
    rng = np.random.default_rng(5)
    runs = RUNS // 8
    p, q = population(rng, 12, 0.2)
    true = total_variation(p, q)
    misses = np.zeros(2, dtype=int)
    for _ in range(runs):
        counts, other = (
            CellCounts(np.stack([rng.multinomial(600, p), rng.multinomial(400, q)], axis=1), "fm") for _ in range(2)
        )
        misses += [certify_counts(counts).lower > true, certify_counts(counts, witness=other).lower > true]
    for count in misses:
        assert_at_most(count, runs, EPSILON)


@pytest.mark.slow
def test_interval_of_one_classifier():
    rng = np.random.default_rng(6)
    runs = RUNS // 8 if FULL else 125
    p, q = population(rng, 5, 0.15)
    rules = [np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.9, 0.2, 0.6, 0.5])]
    true = [abs(rule @ (p - q)) for rule in rules]
    misses = np.zeros((2, 2), dtype=int)
    for _ in range(runs):
        certificate = certify_counts(
            CellCounts(np.stack([rng.multinomial(500, p), rng.multinomial(300, q)], axis=1), "fm")
        )
        for i, rule in enumerate(rules):
            interval = certificate.for_classifier(rule)
            misses[i] += [interval.upper < true[i], interval.lower > true[i]]
    for count in misses.flat:
        assert_at_most(count, runs, EPSILON / 2)


@pytest.mark.slow
def test_an_interval_holds_as_a_whole():
    """Two groups, two cells: below and above together no more often than stated. Limits at full ε each would miss more.

    All counts that can come up are enumerated, with their probabilities.
    """
    sizes, shares, distance = (60, 37) if FULL else (40, 25), (0.7, 0.4), 0.3
    chances = [binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, shares, strict=True)]
    missed = {0.95: 0.0, 0.90: 0.0}
    for x, y in product(range(sizes[0] + 1), range(sizes[1] + 1)):
        chance = chances[0][x] * chances[1][y]
        if chance < 1e-6:
            continue
        counts = CellCounts([[x, y], [sizes[0] - x, sizes[1] - y]], "fm")
        for confidence in missed:
            interval = certify_counts(counts, confidence=confidence, min_group_size=1).for_classifier([1, 0])
            missed[confidence] += chance * (not interval.lower - 1e-9 <= distance <= interval.upper)
    assert missed[0.95] <= 0.05
    assert missed[0.90] > 0.06, "each of its limits holds with 95 %"


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_interval_of_one_classifier_for_every_metric(metric, monkeypatch):
    """Three groups, two labels: limits of the largest or mean distance miss no more often than stated.

    Where groups are alike, a lower limit that shared no ε among pairs and labels would be above 0 much more often.
    """
    monkeypatch.setattr(classifier, "difference_limit", cache(difference_limit))
    rng = np.random.default_rng(21)
    runs, n = RUNS // 5, 60
    chosen = metric_of(metric)
    for share in (np.full((3, 2), 0.5), np.array([[0.3, 0.7], [0.5, 0.4], [0.65, 0.5]])):
        whole = share.mean(axis=1)  # both labels are equally frequent
        gaps = {None: np.ptp(whole), "0": np.ptp(share[:, 0]), "1": np.ptp(share[:, 1])}
        looked_at = {"all": [None], "positive": ["1"], "each label": ["0", "1"]}[chosen.strata]
        true = combine(chosen, [(label, gaps[label]) for label in looked_at])
        misses = np.zeros(2, dtype=int)
        for _ in range(runs):
            said = rng.binomial(n, share)
            counts = CellCounts(np.stack([said, n - said]), "abc", "01")
            interval = certify_counts(counts, metric).for_classifier([1, 0])
            misses += [interval.upper < true - 1e-12, interval.lower > true]
        for count in misses:
            assert_at_most(count, runs, EPSILON / 2)


def test_limits_within_all_labels_hold_together():
    """A mean over two labels: each label's own limit is at ε/2. At full ε one of them would fail too often."""
    rng = np.random.default_rng(22)
    n, distance, runs = 400, 0.2, 20_000
    x, y = rng.binomial(n, 0.6, (runs, 2)), rng.binomial(n, 0.4, (runs, 2))
    m = n * np.maximum(x - y, y - x)

    def some_label_misses(epsilon):
        return int((m <= critical_statistic(n, n, distance, epsilon)).any(axis=1).sum())

    assert_at_most(some_label_misses(EPSILON / 2), runs, EPSILON)
    assert some_label_misses(EPSILON) > 1.3 * EPSILON * runs
    table = np.stack([[x[0], n - x[0]], [y[0], n - y[0]]]).transpose(1, 0, 2)
    certificate = certify_counts(CellCounts(table, "fm", "01"), "equalized_odds")
    for label in range(2):
        assert certificate.within(label) == difference_limit(n, n, int(m[0, label]), EPSILON / 2)


@pytest.mark.slow
def test_weights_by_thinning_certify_the_weighted_population():
    """The sample over-represents one cell; weights put it right, and the claim is about the weighted population."""
    rng = np.random.default_rng(7)
    runs, k, n = RUNS // 4 if FULL else 200, 4, 1_500
    weight = np.array([1.0, 3.0, 2.0, 4.0])
    p = np.array([[0.4, 0.2, 0.3, 0.1], [0.1, 0.3, 0.2, 0.4]])
    weighted = p * weight / (p * weight).sum(axis=1, keepdims=True)
    true = total_variation(*weighted)
    misses = 0
    for run in range(runs):
        groups = rng.integers(0, 2, n)
        cells = np.array([rng.choice(k, p=p[0], size=n), rng.choice(k, p=p[1], size=n)])[groups, np.arange(n)]
        keep = thin(weight[cells], seed=run, max_weight=4.0).keep
        misses += certify_counts(CellCounts.from_cells(cells[keep], groups[keep], n_cells=k)).bound < true
    assert_at_most(misses, runs, EPSILON)


def test_clusters_keep_independence_where_counting_all_records_fails():
    """Every household repeats one record many times: counting all rows misses often, one per cluster does not."""
    rng = np.random.default_rng(8)
    runs, households, repeats = RUNS // 4 if FULL else 100, 300, 8
    p = np.array([[0.5, 0.5], [0.35, 0.65]])
    true = total_variation(*p)
    clusters = np.repeat(np.arange(households), repeats)
    honest = naive = 0
    for run in range(runs):
        groups = rng.integers(0, 2, households)
        cells = (rng.random(households) > p[groups, 0]).astype(int)
        groups, cells = np.repeat(groups, repeats), np.repeat(cells, repeats)
        keep = one_per_cluster(clusters, seed=run).keep
        honest += certify_counts(CellCounts.from_cells(cells[keep], groups[keep], n_cells=2)).bound < true
        naive += certify_counts(CellCounts.from_cells(cells, groups, n_cells=2)).bound < true
    assert_at_most(honest, runs, EPSILON)
    assert naive > 3 * EPSILON * runs


def test_simultaneous_candidates():
    """The best of twenty encoders, each certified at ε/20 on the same records, still holds."""
    rng = np.random.default_rng(9)
    runs, n, encoders = RUNS // 20, 400, 20
    p = np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4]])
    maps = [rng.integers(0, 3, 3) for _ in range(encoders)]
    true = [total_variation(*(np.bincount(m, weights=q, minlength=3) for q in p)) for m in maps]
    misses = 0
    for _ in range(runs):
        table = np.stack([rng.multinomial(n, q) for q in p], axis=1)
        bounds = [certify_counts(CellCounts(table, "fm").merge_cells(m, 3), candidates=encoders).bound for m in maps]
        misses += any(b < t for b, t in zip(bounds, true, strict=True))
    assert_at_most(misses, runs, EPSILON)


def test_statistic_of_the_simulation_is_the_statistic_of_the_code():
    table = np.array([[5, 3], [2, 9], [4, 4]])
    assert statistics_of(table[None, :, 0], table[None, :, 1])[0] == statistic(table)[2]
