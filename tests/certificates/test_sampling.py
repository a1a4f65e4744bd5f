import msgspec
import numpy as np
import pandas as pd
import pytest
from tests.certificates.given import Given

from certifare import CellCounts, certify, certify_counts, one_per_cluster, thin
from certifare.certificates.counts import OTHER_KEPT, THINNED, THINNED_CLUSTERS, Exclusion
from certifare.certificates.population import BY_WEIGHT, ONE_OF_CLUSTER
from certifare.certificates.sampling import check_draw
from certifare.certificates.tail import Tail
from certifare.errors import ArgumentError, DocumentError


def test_thinning_keeps_in_proportion_to_the_weights():
    weights = np.tile([1.0, 2.0, 4.0, 0.0], 50_000)
    sample = thin(weights, seed=3)
    kept = [sample.keep[i::4].mean() for i in range(4)]
    assert kept == pytest.approx([0.25, 0.5, 1.0, 0.0], abs=0.01)
    assert sample.effective_size == pytest.approx(len(weights) * (7 / 4) ** 2 / (21 / 4))
    assert sample.exclusions[0].records == (~sample.keep).sum()
    assert "4, is the largest in the population" in sample.assumptions[0]
    known = thin(weights, seed=3, max_weight=8.0)
    assert known.keep.mean() == pytest.approx(sample.keep.mean() / 2, abs=0.01)
    assert known.assumptions == ()


def test_seed_decides():
    weights = np.random.default_rng(0).random(1000)
    assert np.array_equal(thin(weights, seed=5).keep, thin(weights, seed=5).keep)
    assert not np.array_equal(thin(weights, seed=5).keep, thin(weights, seed=6).keep)


def test_one_record_of_each_cluster():
    clusters = np.array(["a", "b", "b", "c", "c", "c"] * 1)
    for seed in range(20):
        sample = one_per_cluster(clusters, seed=seed)
        assert sorted(clusters[sample.keep]) == ["a", "b", "c"]
        assert sample.exclusions[0].records == 3


def test_choice_within_a_cluster_follows_the_weights():
    clusters = np.repeat(np.arange(40_000), 2)
    weights = np.tile([1.0, 3.0], 40_000)
    keep = one_per_cluster(clusters, weights=weights, seed=1).keep
    assert keep[::2].mean() == pytest.approx(0.25, abs=0.01)
    never = one_per_cluster(clusters, weights=np.tile([0.0, 1.0], 40_000), seed=1).keep
    assert not never[::2].any()
    assert never[1::2].all()


def test_record_population_counts_large_clusters_more():
    clusters = np.concatenate([np.arange(30_000), np.repeat(np.arange(30_000, 60_000), 3)])
    sample = one_per_cluster(clusters, population="records", seed=2)
    assert sample.keep[30_000:].sum() == 30_000
    assert sample.keep[:30_000].mean() == pytest.approx(1 / 3, abs=0.01)
    assert np.unique(clusters[sample.keep]).size == sample.keep.sum()


@pytest.mark.parametrize("weights", [[-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0], [[1.0]]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ArgumentError, match="Weights must be"):
        thin(weights)


def test_other_bad_input_is_refused():
    with pytest.raises(ArgumentError, match="max_weight"):
        thin([1.0, 5.0], max_weight=2.0)
    with pytest.raises(ArgumentError, match="population"):
        one_per_cluster([1, 2], population="people")
    with pytest.raises(ArgumentError):
        one_per_cluster([1, 2], weights=[1.0])


def test_a_population_without_clusters_is_refused():
    people = pd.DataFrame({"cell": [0, 1] * 50, "group": ["a", "b"] * 50})
    for population in ("records", "people"):
        with pytest.raises(ArgumentError, match="population"):
            certify(Given(), people, population=population)
    assert certify(Given(), people, clusters=np.arange(100), population="records").counts.n_records == 100


def test_parts_are_drawn_independently_at_one_seed():
    """Of two parts that look alike, the same records must not be kept."""
    clusters = np.repeat(np.arange(20_000), 5)
    keep = {part: one_per_cluster(clusters, part=part).keep.reshape(-1, 5) for part in ("select", "certify")}
    alike = (keep["select"].argmax(axis=1) == keep["certify"].argmax(axis=1)).mean()
    assert alike == pytest.approx(1 / 5, abs=0.02)
    weights = np.full(20_000, 0.5)
    kept = [thin(weights, part=part, max_weight=1.0).keep for part in ("select", "certify")]
    assert np.corrcoef(*kept)[0, 1] == pytest.approx(0.0, abs=0.03)


def test_choosing_and_certifying_with_one_seed_draw_independently():
    """Without a search: the encoder with the smallest bound in one call is certified by another.

    Which visit of a person is kept nearly decides on the cell. So whoever knows the draw knows the error to come.
    """
    rng = np.random.default_rng(0)
    persons, jobs = 200, 25
    group = np.repeat([0, 1], 5 * persons // 2)
    visit = np.tile(np.arange(5), persons)
    # The first cell holds 3 visits of 5 in one group and 2 of 5 in the other; one record in fifty is in the other cell.
    rules = [np.array([rng.permutation(5) < 3, rng.permutation(5) < 2]) for _ in range(30)]
    truth = 0.2 * 0.96

    def bound(rule, seed):
        cell = rule[group, visit] ^ (rng.random(len(group)) < 0.02)
        records = pd.DataFrame({"cell": cell.astype(int), "group": group})
        return certify(Given(), records, clusters=np.repeat(np.arange(persons), 5), seed=seed).bound

    misses = 0
    for job in range(jobs):
        chosen = min(rules, key=lambda rule: bound(rule, job))
        misses += bound(chosen, job) < truth
    assert misses <= 4  # of 25 at ε = .05


# -- what a certificate says of a draw must hold together -------------------------------------------------------------


def certified(n=600, **draw):
    rng = np.random.default_rng(0)
    records = pd.DataFrame({"cell": rng.integers(0, 2, n), "group": rng.integers(0, 2, n)})
    return certify(Given(), records, **draw)


SIZES = np.repeat(np.arange(300), np.tile([1, 3], 150))  # clusters of one and of three
DRAWS = {
    "weights": {"weights": np.tile([1.0, 4.0], 300)},
    "equal weights": {"weights": np.full(600, 3.0)},
    "a cap": {"weights": np.tile([1.0, 4.0], 300), "cap": 2.0},
    "a cap that keeps all": {"weights": np.tile([2.0, 4.0], 300), "cap": 1.0},
    "clusters": {"clusters": SIZES},
    "clusters and weights": {"clusters": SIZES, "weights": np.tile([1.0, 4.0], 300)},
    "records of clusters": {"clusters": SIZES, "population": "records"},
    "records of clusters with weights": {
        "clusters": SIZES, "weights": np.tile([1.0, 0.0, 4.0], 200), "population": "records"
    },
    "records of equal clusters": {"clusters": np.arange(600) // 2, "population": "records"},
    "records that are clusters": {"clusters": np.arange(600), "population": "records"},
}  # fmt: skip


@pytest.mark.parametrize("how", DRAWS)
def test_what_an_honest_draw_says_holds_together(how):
    draw = DRAWS[how]
    for seed in range(3):
        assert certified(seed=seed, **draw).verify().effective_size is not None


@pytest.mark.parametrize(
    ("how", "changes", "words"),
    [
        ("clusters", {"population": ()}, "drawn one at random from each cluster"),
        ("clusters", {"population": (), "effective_size": None}, "no effective_size"),
        ("clusters", {"effective_size": None, "seed": None}, "no effective_size"),
        ("clusters", {"seed": None}, "by which seed"),
        ("clusters and weights", {"population": (BY_WEIGHT,)}, "drawn one at random from each cluster"),
        ("records of clusters", {"population": (ONE_OF_CLUSTER,)}, "thinned to their size"),
        ("records of clusters", {"effective_size": None, "seed": None}, "no effective_size"),
        ("weights", {"effective_size": None, "seed": None}, "no effective_size"),
        ("weights", {"effective_size": 600.1}, "larger than the number"),
        ("equal weights", {"effective_size": 400.0}, "none that a draw left out"),
        ("a cap", {"population": (ONE_OF_CLUSTER, BY_WEIGHT)}, "thinned by weight"),
        ("a cap that keeps all", {"population": ()}, "in proportion to their weights"),
        ("records that are clusters", {"effective_size": 500.0}, "none that a draw left out"),
    ],
)
def test_what_contradicts_a_draw_is_refused(how, changes, words):
    certificate = msgspec.structs.replace(certified(**DRAWS[how]), **changes)
    with pytest.raises(DocumentError, match=words):
        certificate.verify()


@pytest.mark.parametrize("reason", [THINNED, OTHER_KEPT, THINNED_CLUSTERS, f"{OTHER_KEPT} (somewhere)"])
def test_a_draw_that_only_its_exclusions_show_is_refused(reason):
    certificate = certify_counts(CellCounts([[300, 200], [100, 90]], "fm", exclusions=[Exclusion(reason, 5)]))
    with pytest.raises(DocumentError, match="no effective_size"):
        certificate.verify()


def test_a_seed_without_a_draw_is_refused():
    with pytest.raises(DocumentError, match="no draw"):
        msgspec.structs.replace(certified(), seed=7).verify()


@pytest.mark.parametrize("population", ["clusters", "records"])
def test_counts_of_drawn_records_are_certified_with_their_draw(population):
    sample = one_per_cluster(SIZES, population=population, seed=4)
    kept = int(sample.keep.sum())
    counts = CellCounts([[kept // 2, kept // 4], [30, kept - kept // 2 - kept // 4 - 30]], "fm")

    certificate = certify_counts(counts, drawn=sample).verify()

    assert certificate.population == sample.population
    assert certificate.exclusions == tuple(sorted(sample.exclusions))
    assert (certificate.seed, certificate.effective_size) == (4, sample.effective_size)
    assert "Clusters are independent of one another." in certificate.assumptions
    assert certificate.bound == certify_counts(counts).bound


def test_luck_at_thinning_is_no_contradiction():
    """One cluster of a hundred is smaller than the others, and stayed by chance: half of all draws are like that."""
    clusters = np.repeat(np.arange(100), [1, *[2] * 99])
    for seed in range(20):
        sample = one_per_cluster(clusters, population="records", seed=seed)
        counts = CellCounts([[30, 30], [int(sample.keep.sum()) - 90, 30]], "fm")
        certify_counts(counts, drawn=sample).verify()


def test_a_cluster_whose_weights_are_all_zero_keeps_no_record():
    clusters = np.array(["a", "a", "b", "b", "c", "d", "d"])
    weights = np.array([0.0, 0.0, 1.0, 2.0, 0.5, 0.0, 3.0])
    for seed in range(20):
        sample = one_per_cluster(clusters, weights=weights, seed=seed)
        assert not sample.keep[weights == 0].any()
        assert sorted(clusters[sample.keep]) == ["b", "c", "d"]
        assert [exclusion.records for exclusion in sample.exclusions] == [4]
        # Totals by cluster: 0, 3, .5 and 3.
        assert sample.effective_size == pytest.approx(6.5**2 / (9 + 0.25 + 9))
        drawn = one_per_cluster(clusters, weights=weights, population="records", seed=seed)
        assert not drawn.keep[weights == 0].any()
        assert {"b", "d"} <= set(clusters[drawn.keep]) <= {"b", "c", "d"}
        assert [exclusion.records for exclusion in drawn.exclusions] == [4, 3 - int(drawn.keep.sum())]


def test_clusters_are_kept_in_proportion_to_their_total_weight():
    """Total weights 1, 2 and 4 of at most 8: an eighth, a quarter and a half of the clusters stay."""
    clusters = np.repeat(np.arange(60_000), 2)
    weights = np.repeat(np.tile([0.5, 1.0, 2.0], 20_000), 2)
    sample = one_per_cluster(clusters, weights=weights, population="records", max_weight=8.0, seed=4)
    kept = [sample.keep.reshape(-1, 2)[i::3].sum(axis=1).mean() for i in range(3)]
    assert kept == pytest.approx([1 / 8, 1 / 4, 1 / 2], abs=0.015)
    assert sample.keep.reshape(-1, 2).sum(axis=1).max() == 1
    assert sum(exclusion.records for exclusion in sample.exclusions) == (~sample.keep).sum()
    alone = one_per_cluster(clusters, weights=weights, population="records", seed=4)
    assert [alone.keep.reshape(-1, 2)[i::3].sum(axis=1).mean() for i in range(3)] == pytest.approx(
        [1 / 4, 1 / 2, 1.0], abs=0.015
    )
    assert alone.keep.reshape(-1, 2)[2::3].sum(axis=1).min() == 1


def test_thinning_keeps_the_heaviest_records_for_certain_and_no_record_without_weight():
    weights = np.tile([0.0, 3.0], 10_000)
    for max_weight, share in ((None, 1.0), (3.0, 1.0), (4.0, 0.75)):
        keep = thin(weights, max_weight=max_weight, seed=1).keep
        assert not keep[::2].any()
        assert keep[1::2].mean() == pytest.approx(share, abs=0.02)
        assert keep[1::2].all() == (share == 1.0)


def test_beyond_the_cap_a_second_coin_is_as_heavy_as_the_weight_above_it():
    weights = np.repeat([2.0, 3.0, 6.0, 10.0], 20_000)
    for max_weight, expected in ((None, [0, 1 / 8, 1 / 2, 1]), (18.0, [0, 1 / 16, 1 / 4, 1 / 2])):
        sample = thin(weights, cap=2.0, max_weight=max_weight, seed=2)
        assert sample.keep.all()
        beyond = sample.beyond.reshape(4, -1)
        assert beyond.mean(axis=1) == pytest.approx(expected, abs=0.015)
        assert not beyond[0].any()
        assert (sample.cap, sample.largest) == (2.0, max_weight or 10.0)


@pytest.mark.parametrize("cap", [10.0, 11.0, np.inf])
def test_a_cap_that_is_not_below_the_largest_weight_has_no_effect(cap):
    weights = np.repeat([2.0, 10.0], 500)
    capped, plain = thin(weights, cap=cap, seed=3), thin(weights, seed=3)
    assert capped.keep.tolist() == plain.keep.tolist()
    assert (capped.beyond, capped.cap, capped.largest) == (None, None, None)


def test_a_draw_with_a_cap_has_a_tail_and_one_without_has_none():
    weights = np.repeat([1.0, 5.0, 9.0], 300)
    sample = thin(weights, cap=3.0, max_weight=12.0, seed=6)

    def count(rows):
        return CellCounts([[int(rows[:600].sum()), int(rows[600:].sum())]], "fm")

    beyond = sample.beyond
    assert sample.tail(count) == Tail(
        cap=3.0, largest=12.0, beyond=((int(beyond[:600].sum()),), (int(beyond[600:].sum()),))
    )
    assert thin(weights, seed=6).tail(count) is None
    assert one_per_cluster(np.arange(900), seed=6).tail(count) is None


def test_what_a_draw_takes_for_granted():
    clusters, weights = np.array([1, 1, 2]), np.array([1.0, 2.0, 4.0])
    independent = "Clusters are independent of one another."
    largest = "The largest {} in the sample, {}, is the largest in the population."
    assert thin(weights).assumptions == (largest.format("weight", 4),)
    assert thin(weights, max_weight=4.0).assumptions == ()
    assert one_per_cluster(clusters).assumptions == (independent,)
    for options, expected in (
        ({}, (independent, largest.format("cluster size", 2))),
        ({"weights": weights}, (independent, largest.format("total weight of a cluster", 4))),
        ({"max_weight": 2.0}, (independent,)),
    ):
        assert one_per_cluster(clusters, population="records", **options).assumptions == expected
    with pytest.raises(ArgumentError, match="max_weight=1.9, but the sample has a cluster size of 2"):
        one_per_cluster(clusters, population="records", max_weight=1.9)


def test_the_seed_is_zero_unless_given():
    clusters = np.repeat(np.arange(50), 3)
    weights = np.tile([1.0, 2.0, 5.0], 50)
    for drawn, same in (
        (one_per_cluster(clusters), one_per_cluster(clusters, seed=0)),
        (thin(weights), thin(weights, seed=0)),
    ):
        assert drawn.seed == 0
        assert drawn.keep.tolist() == same.keep.tolist()


def test_records_that_are_worth_nothing_are_refused():
    with pytest.raises(DocumentError, match="worth"):
        check_draw((), (), records=10, effective_size=5e-324, capped=False)
