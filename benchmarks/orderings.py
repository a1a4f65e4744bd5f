"""Which orderings of categories are worth cutting: how the defaults of the growth were chosen.

    python benchmarks/orderings.py    # about five minutes; the second table needs the shared ACSIncome data

First, the gain of the best cut beside that of the best of all ways to part ten random categories. Second, accuracy
(majority vote of the cells) at a bounded distance on ACSIncome, California, for kinds of orderings, shrinkages and
numbers of angles. The bound there is the closed form, which is above T*, and among trees that keep a limit the most
accurate on the test records counts: a comparison of orderings, not a promise.
"""

from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certifare.certificates.exact import hoeffding_radius
from certifare.growth import (
    CategoricalBins,
    Codes,
    Criterion,
    Growth,
    Histogram,
    MemorySource,
    Targets,
    encode,
    fit_bins,
    grow,
    grower,
)
from certifare.growth.splits import SplitSearch
from growth import CATEGORICAL, COLUMNS, DATA, print_table

KINDS = ("paper", "directional", "both")
GAMMAS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
CELLS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200)
LIMITS = (0.04, 0.05, 0.08, 0.10, 0.15)


def shares_of_optimum(counts: NDArray[np.int64], criterion: Criterion) -> list[float] | None:
    """Gain of each kind's best cut over that of the best partition; None where there is next to nothing to gain."""
    left = np.array(list(product([0, 1], repeat=len(counts))))[1:-1] @ counts
    right = counts.sum(axis=0) - left
    after = left.sum(axis=1) * criterion.impurity(left) + right.sum(axis=1) * criterion.impurity(right)
    optimum = float((criterion.impurity(counts.sum(axis=0)) - after / counts.sum()).max())
    if optimum < 1e-4:
        return None
    unseen = np.zeros((2, counts.shape[1]), dtype=np.int64)
    histogram = Histogram(np.ascontiguousarray(np.vstack([counts, unseen]).T), np.array([0, len(counts) + 2]))
    bins = [CategoricalBins("", tuple(range(len(counts))))]
    gains = []
    for kind in KINDS:
        search = SplitSearch(bins, criterion, classes=counts.sum(axis=0), min_cell_size=1, orderings=kind)  # type: ignore[arg-type]
        split = search.best(0, histogram)
        gains.append(split.gain / optimum if split else 0.0)
    return gains


def compare_with_all_partitions(trials: int = 150, n_categories: int = 10) -> None:
    rows = []
    for (n_labels, n_groups), gamma in product(((2, 2), (4, 2), (2, 3), (4, 3)), (0.3, 0.7)):
        rng = np.random.default_rng(0)
        criterion = Criterion(gamma, "demographic_parity", (n_labels,), n_groups)
        shares = []
        for _ in range(trials):
            sizes = rng.integers(20, 300, n_categories)
            classes = rng.dirichlet(np.ones(criterion.n_classes), n_categories)
            counts = np.array([rng.multinomial(n, p) for n, p in zip(sizes, classes, strict=True)])
            shares.append(shares_of_optimum(counts, criterion))
        means = np.mean([share for share in shares if share is not None], axis=0)
        rows.append([f"{n_labels}", f"{n_groups}", f"{gamma}", *(f"{mean:.1%}" for mean in means)])
    print_table(
        f"Gain of the best cut over that of the best of all ways to part {n_categories} categories, mean of {trials}.",
        ["labels", "groups", "gamma", *KINDS],
        rows,
    )


def best_accuracies(seed: int, orderings: str, shrinkage: float, n_angles: int) -> NDArray[np.float64]:
    """Best accuracy within each limit, over gammas and numbers of cells."""
    table = pq.read_table(DATA, filters=[("ST", "=", 6)])
    X = np.column_stack([table[name].to_numpy() for name in COLUMNS]).astype(np.float64)
    y, s = table["PINCP_GT50K"].to_numpy().astype(np.int64), (table["SEX"].to_numpy() == 1).astype(np.int64)
    parts = np.split(np.random.default_rng(seed).permutation(len(y)), [len(y) // 2, len(y) * 4 // 5])
    train, certify, test = parts
    bins = fit_bins(list(X[train].T), COLUMNS, CATEGORICAL)
    codes = [encode(bins, list(X[part].T)) for part in parts]
    source = MemorySource(codes[0], Targets.from_columns([y[train]], s[train], (2,), 2))
    radius = hoeffding_radius(int((s[certify] == 0).sum()), int((s[certify] == 1).sum()), 0.05)
    best = np.zeros(len(LIMITS))
    with patch.object(grower, "SplitSearch", partial(SplitSearch, shrinkage=shrinkage, n_angles=n_angles)):
        for gamma in GAMMAS:
            criterion = Criterion(gamma, "demographic_parity", (2,), 2)
            growth = grow(source, bins, criterion, max_cells=CELLS[-1], min_cell_size=100, orderings=orderings)  # type: ignore[arg-type]
            for k in CELLS:
                if k <= growth.n_cells:
                    within = np.array(LIMITS) >= distance(growth, codes[1], s[certify], k) + radius
                    best = np.maximum(best, within * accuracy(growth, codes[2], y[test], k))
    return best


def distance(growth: Growth, codes: Codes, groups: NDArray[np.int64], k: int) -> float:
    """Largest difference between the groups that any classifier on the cells shows on these records."""
    cells = growth.apply(codes, k)
    shares = [np.bincount(cells[groups == g], minlength=k) / (groups == g).sum() for g in (0, 1)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def accuracy(growth: Growth, codes: Codes, labels: NDArray[np.int64], k: int) -> float:
    """How often the cells' majority label is right."""
    majority = growth.cell_counts(k).reshape(k, 2, 2).sum(axis=2).argmax(axis=1)
    return float((majority[growth.apply(codes, k)] == labels).mean())


def compare_on_acs(seeds: int = 6) -> None:
    settings: list[tuple[str, float, int]] = [("paper", 5, 16), ("both", 5, 16)]
    settings += [("directional", shrinkage, 16) for shrinkage in (0, 2, 5, 10, 20, 50)]
    settings += [("directional", 5, n_angles) for n_angles in (4, 8, 32, 64)]
    rows = []
    for setting in settings:
        best = np.array([best_accuracies(seed, *setting) for seed in range(seeds)])
        errors = best.std(axis=0, ddof=1) / np.sqrt(seeds)
        shown = [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(best.mean(axis=0), errors, strict=True)]
        rows.append([setting[0], f"{setting[1]:g}", f"{setting[2]}", *shown])
    print_table(
        f"Best accuracy with a bounded distance, ACSIncome, California: mean over {seeds} splits, standard error.",
        ["orderings", "shrinkage", "angles", *(f"≤ {limit:g}" for limit in LIMITS)],
        rows,
    )


if __name__ == "__main__":
    compare_with_all_partitions()
    if DATA.exists():
        compare_on_acs()
