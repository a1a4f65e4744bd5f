"""What ``retain`` keeps of a table."""

import numpy as np
import pandas as pd
import pytest

from certifare import FairTreeEncoder
from certifare.encoders.proxies import MOST, Coordinates
from certifare.growth import CategoricalBins, ContinuousBins, encode, fit_bins


def columns(n: int = 4000) -> list[np.ndarray]:
    """Three numbers that go together, one that is skewed, and categories."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=n)
    numbers = [common + 0.3 * rng.normal(size=n) for _ in range(3)]
    numbers[1][rng.random(n) < 0.2] = np.nan
    skewed = np.exp(2 * rng.normal(size=n))
    return [*numbers, skewed, rng.choice(5, n, p=[0.5, 0.2, 0.1, 0.1, 0.1])]


@pytest.fixture(scope="module")
def coded():
    table = columns()
    bins = fit_bins(table, list("abcde"), [False] * 4 + [True])
    return bins, encode(bins, table)


def test_all_components_together_are_the_whole_spread(coded):
    bins, codes = coded
    coordinates = Coordinates.fit(codes.columns, bins, 100)
    spread = coordinates.of(codes).astype(float).var(axis=0).sum() / coordinates.spread
    assert spread == pytest.approx(1.0, abs=0.01)


def test_the_leading_components_come_first(coded):
    bins, codes = coded
    few = Coordinates.fit(codes.columns, bins, 2)
    assert few.n_coordinates == 2
    values = few.of(codes).astype(float)
    assert values[:, 0].var() / few.spread > 0.4  # three of five columns go together
    means = np.corrcoef(values[:, 0], columns()[0])[0, 1]
    assert abs(means) > 0.9


def test_records_beyond_the_sample_are_cut_off():
    bins = [ContinuousBins("a", np.arange(10.0)), CategoricalBins("b", (0, 1))]
    sample = [np.array([4, 5] * 50, dtype=np.uint8), np.array([0, 1] * 50, dtype=np.uint8)]
    coordinates = Coordinates.fit(sample, bins)
    far = encode(bins, [np.array([0.0, 1e9, np.nan]), np.array([0.0, 1.0, np.nan])])
    assert np.abs(coordinates.of(far)).max() <= MOST


def test_columns_without_spread_are_fine():
    bins = fit_bins([np.zeros(100), np.arange(100.0) % 7], ["a", "b"], [False, False])
    codes = encode(bins, [np.zeros(100), np.arange(100.0) % 7])
    coordinates = Coordinates.fit(codes.columns, bins)
    assert coordinates.of(codes).astype(float).var(axis=0).sum() / coordinates.spread == pytest.approx(1.0, abs=0.01)


def test_many_categories():
    """More axes than are laid out: the leading components are found one by one."""
    rng = np.random.default_rng(0)
    table = [rng.integers(0, 1500, 20_000), rng.normal(size=20_000)]
    table[1] += table[0] % 2
    bins = fit_bins(table, ["a", "b"], [True, False], min_category_count=1)
    codes = encode(bins, table)
    coordinates = Coordinates.fit(codes.columns, bins, 3)
    assert coordinates.n_coordinates == 3
    assert max(abs(np.corrcoef(values, table[1])[0, 1]) for values in coordinates.of(codes).T) > 0.9


def test_retain_keeps_more_of_the_table(people):
    table = pd.DataFrame(people)
    X, y = table.drop(columns="income"), table["income"]
    kept = {}
    for weight in (0.0, 0.8):
        tree = FairTreeEncoder(gamma=0.3, max_cells=12, min_cell_size=40, sensitive="sex", retain=weight)
        kept[weight] = tree.fit(X, y).retained_information(X).mean
    assert kept[0.8] > kept[0.0] + 0.05
