import numpy as np
import pytest

from certifare.growth import Criterion
from certifare_research.experiments.paper_tree import binned, fair_gini, grow


def test_without_groups_the_criterion_is_gini():
    counts = np.array([[30, 10], [20, 40]])
    assert fair_gini(counts, 0.0, "equal_opportunity") == pytest.approx(1 - 0.4**2 - 0.6**2)


@pytest.mark.parametrize("gamma", [0.3, 0.9])
def test_equalized_odds_weighs_labels_as_certifare_does(gamma):
    counts = np.random.default_rng(0).integers(1, 50, (5, 2, 2))
    own = Criterion(gamma, "equalized_odds", (2,), 2).impurity(counts.reshape(5, 4))
    assert fair_gini(counts, gamma, "equalized_odds") == pytest.approx(own)


def test_equal_opportunity_does_not_weigh_by_positives():
    counts = np.array([[90, 0], [5, 5]])  # one group among the negatives, balance among the positives
    assert fair_gini(counts, 1.0, "equal_opportunity") == pytest.approx(0.0)
    assert np.isnan(fair_gini(np.array([[3, 4], [0, 0]]), 0.5, "equal_opportunity"))


def test_smaller_trees_are_inside_larger_ones_and_cells_are_large_enough():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2000, 3))
    values[:, 2] = rng.integers(0, 3, 2000)
    y, s = (values[:, 0] + rng.normal(size=2000) > 0).astype(int), rng.integers(0, 2, 2000)
    bins = binned(values, np.arange(2000))
    tree = grow(bins, y, s, gamma=0.2, metric="equalized_odds", max_cells=8, min_cell_size=50, categories=(2,))
    cells = tree.apply(bins)
    assert tree.n_cells > 2
    assert np.bincount(cells).min() >= 50
    smaller = grow(bins, y, s, gamma=0.2, metric="equalized_odds", max_cells=3, min_cell_size=50, categories=(2,))
    assert np.array_equal(tree.merged(3)[cells], smaller.apply(bins))


def test_the_first_split_is_the_best_of_all_thresholds():
    rng = np.random.default_rng(2)
    x, s = rng.integers(0, 20, 400), rng.integers(0, 2, 400)
    y = ((x > 11) ^ (rng.random(400) < 0.1)).astype(int)
    tree = grow(x[:, None].astype(np.uint8), y, s, gamma=0.5, metric="equal_opportunity", max_cells=2, min_cell_size=1)

    def impurity(rows):
        counts = np.array([[np.sum((y == a) & (s == b) & rows) for b in (0, 1)] for a in (0, 1)])
        return rows.sum() * fair_gini(counts, 0.5, "equal_opportunity")

    scores = {t: impurity(x <= t) + impurity(x > t) for t in range(19)}
    best = min((t for t in scores if not np.isnan(scores[t])), key=scores.get)
    assert tree.splits[0].left.sum() == best + 1
