"""Coordinates: sums beside the counts, and splits that explain what is to be retained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import CategoricalBins, Codes, ContinuousBins, Criterion, MemorySource, Targets, grow

N_GROUPS, N_COORDINATES = 2, 3


def example(
    seed: int, n: int = 300, wide: bool = False
) -> tuple[Codes, Targets, list[CategoricalBins | ContinuousBins]]:
    """Two columns, one of them categorical; the coordinates follow them."""
    rng = np.random.default_rng(seed)
    size = 400 if wide else 9
    columns = [rng.integers(0, size, n).astype(np.uint16 if wide else np.uint8), rng.integers(0, 6, n).astype(np.uint8)]
    coordinates = np.column_stack(
        [
            100 * columns[0].astype(np.int64) // size - 50,
            200 * (columns[1] % 2).astype(np.int64) - 100,
            rng.integers(-300, 300, n),
        ]
    ).astype(np.int16)
    targets = Targets.from_columns([rng.integers(0, 2, n)], rng.integers(0, N_GROUPS, n), (2,), N_GROUPS)
    targets = Targets(targets.classes, targets.n_labels, targets.n_groups, coordinates)
    bins = [ContinuousBins("a", np.arange(size - 2.0)), CategoricalBins("b", tuple(range(4)))]
    return Codes(tuple(columns), (size, 6)), targets, bins


def criterion(**changes: object) -> Criterion:
    return Criterion(**{"gamma": 0.3, "metric": "demographic_parity", "n_labels": (2,), "n_groups": N_GROUPS,
                        "n_coordinates": N_COORDINATES, "retain": 0.6, "spread": 5000.0} | changes)  # fmt: skip


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_histograms_hold_the_sums_of_coordinates(wide: bool, n_threads: int) -> None:
    codes, targets, _ = example(0, wide=wide)
    source = MemorySource(codes, targets, n_threads)
    goes_left = np.arange(codes.n_codes[0]) < codes.n_codes[0] // 3
    root = source.root()
    left, right = source.split(0, 0, goes_left, 1, 2)
    for histogram, rows in (
        (root, np.ones(len(codes), dtype=bool)),
        (left, goes_left[codes.columns[0]]),
        (right, ~goes_left[codes.columns[0]]),
    ):
        expected = np.zeros((N_COORDINATES, sum(codes.n_codes)), dtype=np.int64)
        for column, start in zip(codes.columns, (0, codes.n_codes[0]), strict=True):
            for v in range(N_COORDINATES):
                places = (v, start + column[rows].astype(np.int64))
                np.add.at(expected, places, targets.coordinates[rows, v])
        assert_array_equal(histogram.sums, expected)
        assert_array_equal(histogram.classes, np.bincount(targets.classes[rows], minlength=4))


def deviation(coordinates: np.ndarray) -> float:
    """Summed squared deviations from the mean."""
    values = coordinates.astype(float)
    return float(((values - values.mean(axis=0)) ** 2).sum())


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.4]), st.sampled_from([0.5, 1.0]))
def test_a_split_gains_what_it_explains(seed: int, gamma: float, retain: float) -> None:
    codes, targets, bins = example(seed)
    what = criterion(gamma=gamma, retain=retain)
    growth = grow(MemorySource(codes, targets), bins, what, max_cells=2, min_cell_size=10)
    if not growth.splits:
        return
    left = growth.apply(codes) == 0
    n = len(codes)
    blind = criterion(gamma=gamma, retain=0.0, n_coordinates=0)
    counts = [np.bincount(targets.classes[rows], minlength=4) for rows in (np.ones(n, bool), left, ~left)]
    labels = n * blind.gini_labels(counts[0]) - sum(c.sum() * blind.gini_labels(c) for c in counts[1:])
    explained = deviation(targets.coordinates) - deviation(targets.coordinates[left])
    explained -= deviation(targets.coordinates[~left])
    gain = (1 - gamma) * ((1 - retain) * float(labels) + retain * explained / 5000.0) / n
    charge = float(sum(c.sum() * (0.5 - blind.gini_groups(c)) for c in counts[1:])) / n
    charge -= 0.5 - float(blind.gini_groups(counts[0]))
    assert growth.splits[0].gain == pytest.approx(gain - gamma * charge, abs=1e-9)


def test_what_is_retained_decides() -> None:
    """Without weight on the labels, the first split is that of the coordinate with the largest spread."""
    codes, targets, bins = example(3, n=3000)
    first = grow(MemorySource(codes, targets), bins, criterion(gamma=0.0, retain=1.0), max_cells=2, min_cell_size=10)
    assert first.splits[0].column == 1
    assert len({int(cell) for cell in first.apply(codes)[codes.columns[1] % 2 == 0]}) == 1


def test_out_of_range() -> None:
    with pytest.raises(ArgumentError, match="retain is 2"):
        criterion(retain=2.0)
    with pytest.raises(ArgumentError, match="coordinates to retain"):
        criterion(n_coordinates=0)
    with pytest.raises(ArgumentError, match="spread is 0"):
        criterion(spread=0.0)
