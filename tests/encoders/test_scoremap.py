import numpy as np
import pytest

from certifare.encoders.scoremap import (
    MOST_SQUARES,
    Axis,
    ScoreMap,
    SquareSource,
    directions,
    fit_axes,
    over_squares,
)
from certifare.foundation.levels import Levels
from certifare.growth import Codes, Criterion, MemorySource, Targets, grow


def binary(seed, n=2000, name="y"):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(n, 1))
    return score, Levels(name, (score[:, 0] + rng.logistic(size=n) > 0).astype(np.int64), ("no", "yes"))


def several(seed, n_classes, n=2000, name="y"):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(n_classes) / 2, n)
    codes = np.array([rng.choice(n_classes, p=p) for p in probabilities])
    return probabilities, Levels(name, codes, tuple(range(n_classes)))


def test_two_binary_targets_have_two_axes():
    (y, label), (s, group) = binary(0), binary(1, name="s")
    axes = fit_axes([y, s], [label], group, 10, 1, [1.0])
    assert [(axis.name, axis.side, axis.weights) for axis in axes] == [
        ("P(y = yes)", "label", None),
        ("P(s = yes)", "group", None),
    ]
    for axis, score in zip(axes, (y, s), strict=True):
        assert len(axis.edges) == 9
        assert (np.diff(axis.coordinates) >= 0).all()
        np.testing.assert_allclose(np.bincount(axis.bins_of(score)), 200, atol=1)
        # Log-odds are logistic noise away from the truth, so bins lie at the logistic function of their scores.
        middle = np.array([score[axis.bins_of(score) == b].mean() for b in range(10)])
        np.testing.assert_allclose(axis.coordinates, 1 / (1 + np.exp(-middle)), atol=0.1)


@pytest.mark.parametrize(("n", "bins"), [(100, 8), (10_000, 20), (1_000_000, 32)])
def test_the_grid_grows_with_the_records(n, bins):
    score = np.linspace(-1, 1, n)[:, None]
    target = Levels("y", (score[:, 0] > 0).astype(np.int64), (0, 1))
    axes = fit_axes([score, score], [target], target, None, 1, [1.0])
    assert [len(axis.coordinates) for axis in axes] == [bins, bins]


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("n_labels", [(2,), (4,), (2, 2), (3, 2, 2)])
@pytest.mark.parametrize("n_clusters", [1, 8])
def test_maps_never_have_too_many_squares(n_labels, n_groups, n_clusters):
    parts = [several(i, n) if n > 2 else binary(i) for i, n in enumerate((*n_labels, n_groups))]
    scores, targets = [p[0] for p in parts], [p[1] for p in parts]
    axes = fit_axes(scores, targets[:-1], targets[-1], None, n_clusters, [1.0] * len(n_labels))
    sides = [axis.side for axis in axes]
    assert 1 <= sides.count("label") <= 3
    assert 1 <= sides.count("group") <= 2
    assert np.prod([len(axis.coordinates) for axis in axes]) * n_clusters <= MOST_SQUARES


def test_constant_scores_make_one_square():
    flat = np.zeros((50, 1))
    target = Levels("y", np.arange(50) % 2, (0, 1))
    axes = fit_axes([flat, flat], [target], target, 8, 1, [1.0])
    assert [len(axis.coordinates) for axis in axes] == [1, 1]


@pytest.mark.parametrize("n_axes", [2, 3, 5])
def test_directions_are_unit_vectors(n_axes):
    np.testing.assert_allclose(np.linalg.norm(directions(n_axes), axis=1), 1)


def small_map():
    axis = Axis("a", "label", None, np.array([0.0, 1.0]), np.array([0.1, 0.4, 0.9]))
    other = Axis("b", "group", None, np.array([0.0]), np.array([0.3, 0.6]))
    return ScoreMap(None, 1, (axis, other), None)


def test_records_are_located_by_their_scores():
    scores = [np.array([[-1.0], [0.0], [0.5], [2.0]]), np.array([[-1.0], [1.0], [0.0], [1.0]])]
    assert small_map().locate(scores, []).columns[0].tolist() == [0, 1, 2, 5]
    assert small_map().shape == (3, 2)


def test_squares_are_ranked_along_directions():
    bins, codes = small_map().columns()
    points = np.array([[a, b] for a in (0.1, 0.4, 0.9) for b in (0.3, 0.6)])
    for direction, column_bins, ranks in zip(directions(2), bins, codes, strict=True):
        keys = points @ direction
        assert (np.diff(keys[np.argsort(ranks, kind="stable")]) >= -1e-9).all()
        assert ranks.max() + 2 == column_bins.n_codes


@pytest.mark.parametrize(("n_classes", "most"), [(1, 6), (1 << 12, 4), (1 << 30, 2)])
def test_more_classes_make_fewer_ranks_but_never_none(n_classes, most):
    bins, codes = small_map().columns(n_classes)
    assert max(ranks.max() for ranks in codes) + 1 == most
    assert all(ranks.max() + 2 == column_bins.n_codes for column_bins, ranks in zip(bins, codes, strict=True))


def test_growing_over_squares_equals_growing_over_records():
    """Counting squares or records is the same: the histograms add up."""
    rng = np.random.default_rng(0)
    score_map = small_map()
    squares = rng.integers(0, 6, 3000)
    label = (rng.random(3000) < squares / 6).astype(int)
    group = (rng.random(3000) < 0.3 + 0.4 * (squares % 2)).astype(int)
    targets = Targets.from_columns([label], group, (2,), 2)
    criterion = Criterion(0.3, "demographic_parity", (2,), 2)
    bins, codes = score_map.columns()
    counts = np.bincount(squares * 4 + targets.classes, minlength=24).reshape(6, 4)
    settings = {"max_cells": 4, "min_cell_size": 10}
    over = grow(SquareSource(counts, codes, [b.n_codes for b in bins]), bins, criterion, **settings)
    of_records = Codes(tuple(column[squares] for column in codes), tuple(b.n_codes for b in bins))
    direct = grow(MemorySource(of_records, targets), bins, criterion, **settings)
    cells = over_squares(over, codes, 6).apply(Codes((squares.astype(np.uint16),), (6,)))
    assert np.array_equal(cells, direct.apply(of_records))
    assert np.array_equal(over.node_counts, direct.node_counts)
