import numpy as np
import pytest

from certifare import one_per_cluster, thin
from certifare.errors import ArgumentError, LengthMismatchError


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
def test_bad_weights(weights):
    with pytest.raises(ArgumentError, match="Weights must be"):
        thin(weights)


def test_other_bad_input():
    with pytest.raises(ArgumentError, match="max_weight"):
        thin([1.0, 5.0], max_weight=2.0)
    with pytest.raises(ArgumentError, match="population"):
        one_per_cluster([1, 2], population="people")
    with pytest.raises(LengthMismatchError):
        one_per_cluster([1, 2], weights=[1.0])
