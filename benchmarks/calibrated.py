"""Calibrated cells on real tables: AUC and accuracy on records kept aside, by the largest T* that was asked for.

A fifth of each table is kept aside. Of the rest, half learns scores and plans, half sets the thresholds. Beside it:
plain gradient boosting on all of the rest, without any bound.

    python benchmarks/calibrated.py [--tables german compas law adult] [--seeds 5]
    python benchmarks/calibrated.py --misses 3000

The second draws certification samples from a population of ACSIncome's records (or of few different values), lets them
set thresholds by a plan, and counts how often the true distance is above T*, which is to be 5 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from certifare.certificates.calibrated import calibrated_bound
from certifare.certificates.claims import Claim
from certifare.encoders.plans import GapPlan, round_to_gaps
from certifare.frontier.calibrating import CalibratedSearch
from certifare.tables.table import Table

DATA = Path(__file__).parents[2] / "shared" / "data"
TARGETS = (0.02, 0.03, 0.05, 0.08, 0.10, 0.15, 0.20)
Loaded = tuple[pd.DataFrame, str, str]


def german() -> Loaded:
    table = pd.read_parquet(DATA / "german_credit.parquet")
    table["sex"] = np.where(table.pop("A9").astype(str).isin(["A92", "A95"]), "female", "male")
    return table, "y", "sex"


def compas() -> Loaded:
    table = pd.read_parquet(DATA / "compas.parquet")
    table = table[table["race"].isin(["African-American", "Caucasian"])]
    return table.drop(columns=["is_recid", "decile_score", "score_text"]), "two_year_recid", "race"


def law() -> Loaded:
    return pd.read_parquet(DATA / "law_school.parquet"), "pass_bar", "race"


def adult() -> Loaded:
    return pd.read_parquet(DATA / "adult.parquet").drop(columns="split"), "income", "sex"


def acs() -> Loaded:
    table = pd.read_parquet(DATA / "acs_income_2018.parquet")
    return table[table["ST"] == 6].drop(columns="ST"), "PINCP_GT50K", "SEX"


TABLES: dict[str, Callable[[], Loaded]] = {"german": german, "compas": compas, "law": law, "adult": adult, "acs": acs}


def boosting(train: pd.DataFrame, test: pd.DataFrame, label: str, sensitive: str) -> float:
    """Return the AUC of gradient boosting on the columns, without the group."""
    both = pd.concat([train, test]).drop(columns=[label, sensitive])
    numbers = both.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype("category").cat.codes)
    small = len(train) < 5_000
    model = HistGradientBoostingClassifier(
        learning_rate=0.05 if small else 0.1, max_leaf_nodes=8 if small else 31, early_stopping=False, random_state=0
    ).fit(numbers[: len(train)].to_numpy(float), train[label].astype(str))
    return float(
        roc_auc_score(test[label].astype(str), model.predict_proba(numbers[len(train) :].to_numpy(float))[:, 1])
    )


def measure(name: str, seeds: int) -> list[str]:
    """Return the rows of one table."""
    table, label, sensitive = TABLES[name]()
    found: dict[float, list[tuple[float, float, int, float, float]]] = {target: [] for target in TARGETS}
    plain, seconds = [], []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(table))
        test, rest = table.iloc[order[: len(table) // 5]], table.iloc[order[len(table) // 5 :]]
        plain.append(boosting(rest, test, label, sensitive))
        begun = time.process_time()
        search = CalibratedSearch(Table.from_frame(rest, label=label, sensitive=sensitive), Claim(), seed=seed).run()
        chosen = {target: search.best(target) for target in TARGETS}
        seconds.append(time.process_time() - begun)
        for target, number in chosen.items():
            if number is None:
                continue
            encoder, certificate = search._calibrate(number, search.claim)
            X, s = test.drop(columns=[label, sensitive]), test[sensitive]
            cells = encoder.apply(X, sensitive_features=s)
            proba = encoder.cell_scores()[0][cells]
            truth = test[label].astype(str).to_numpy() == str(encoder.classes_[-1])
            shares = [np.bincount(cells[s == g], minlength=encoder.n_cells_) / (s == g).sum() for g in s.unique()]
            measured = max(np.abs(a - b).sum() / 2 for a in shares for b in shares)
            accuracy = float(((proba.argmax(axis=1) == proba.shape[1] - 1) == truth).mean())
            auc = float(roc_auc_score(truth, proba[:, -1]))
            found[target].append((auc, accuracy, encoder.n_cells_, certificate.bound, measured))
    rows = []
    for target, results in found.items():
        cells = ["–"] * 5 if not results else [f"{v:.3f}" for v in np.mean(results, axis=0)]
        if results:
            cells[2] = f"{np.mean([r[2] for r in results]):.0f}"
        rows.append(f"| {name}, {len(table):,} | {target:g} | {len(results)} of {seeds} | {' | '.join(cells)} |")
    rows[0] += f" {np.mean(plain):.3f} | {np.mean(seconds):.1f} |"
    return [rows[0], *(f"{row} | |" for row in rows[1:])]


@dataclass(frozen=True)
class Draws:
    """A population, a plan's size, and how certification samples are drawn."""

    words: str
    sizes: tuple[int, ...]
    cells: int
    values: int = 0
    parted: bool = True


SETTINGS = (
    Draws("two groups", (200, 200), 2),
    Draws("two groups", (200, 200), 6),
    Draws("two groups", (300, 1_700), 12),
    Draws("two groups", (1_000, 1_000), 24),
    Draws("two groups", (10_000, 10_000), 48),
    Draws("three groups", (150, 400, 900), 6),
    Draws("five groups", (90, 150, 300, 500, 700), 8),
    Draws("five groups", (2_000, 3_000, 4_000, 5_000, 6_000), 32),
    Draws("two groups, scores of 3 values", (200, 300), 4, 3),
    Draws("two groups, scores of 3 values", (1_000, 1_000), 12, 3),
    Draws("four groups, scores of 10 values", (90, 200, 300, 700), 6, 10),
    Draws("two groups, a tree over three directions", (400, 600), 8),
    Draws("two groups, scores of 3 values, **ties not parted**", (1_000, 1_000), 12, 3, False),
)


def misses(setting: Draws, runs: int, rng: np.random.Generator) -> tuple[float, int]:
    """Return T* of a plan, and how many samples give a true distance above it."""
    n_groups = len(setting.sizes)
    scores = _population(setting, n_groups)
    sizes = np.array(setting.sizes)
    shares = rng.dirichlet(np.full(setting.cells, 3.0))
    shares = np.stack([rng.dirichlet(200 * shares) for _ in range(n_groups)], axis=1)  # a plan that orders groups
    plan = GapPlan.along(round_to_gaps(shares, sizes + 1))
    if "tree" in setting.words:
        plan = GapPlan(plan.parents, np.arange(setting.cells - 1) % 3, plan.left, plan.totals)
    bound = calibrated_bound(plan.gaps, 0.05)
    above = 0
    for _ in range(runs):
        rows = [rng.integers(len(of_group), size=n) for of_group, n in zip(scores, sizes, strict=True)]
        values = np.concatenate([of_group[r] for of_group, r in zip(scores, rows, strict=True)])
        groups = np.repeat(np.arange(n_groups), sizes)
        ties = rng.random(len(values)) if setting.parted else np.zeros(len(values))
        thresholds = plan.calibrate(values, groups, ties)
        found = []
        for group, of_group in enumerate(scores):
            drawn = rng.random(len(of_group)) if setting.parted else np.zeros(len(of_group))
            cells = thresholds.cells(of_group, np.full(len(of_group), group), drawn)
            found.append(np.bincount(cells, minlength=setting.cells) / len(of_group))
        above += max(np.abs(a - b).sum() / 2 for a in found for b in found) > bound
    return bound, above


def _population(setting: Draws, n_groups: int) -> list[NDArray[np.float64]]:
    """Return records of each group: three numbers of ACSIncome, with a little noise, or few different values."""
    table = pd.read_parquet(DATA / "acs_income_2018.parquet", columns=["AGEP", "WKHP", "SCHL", "RAC1P", "SEX"])
    code = (table["SEX"] - 1 + 2 * (table["RAC1P"] != 1)).to_numpy() if n_groups > 2 else (table["SEX"] - 1).to_numpy()
    found = []
    rng = np.random.default_rng(1)
    for group in range(n_groups):
        rows = table[code == group % (code.max() + 1)].sample(60_000, replace=True, random_state=group)
        values = rows[["AGEP", "WKHP", "SCHL"]].to_numpy(float)
        if setting.values:
            values = np.floor(rng.beta(2, 2 + group, size=(60_000, 3)) * setting.values)
        else:
            values = values + rng.normal(size=values.shape)
        found.append(np.ascontiguousarray(values))
    return found


def show_misses(runs: int) -> None:
    print("| | records by group | cells | T* | misses |\n|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for setting in SETTINGS:
        bound, above = misses(setting, runs, rng)
        sizes = " + ".join(f"{n:,}" for n in setting.sizes)
        print(f"| {setting.words} | {sizes} | {setting.cells} | {bound:.3f} | {above / runs:.1%} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["german", "compas", "law", "adult"], choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--misses", type=int, help="draws of each setting")
    given = parser.parse_args(arguments)
    if given.misses:
        show_misses(given.misses)
        return
    lines = [
        "| table, rows | T* ≤ | met | AUC | accuracy | cells | T* | measured distance | boosting's AUC | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in given.tables:
        rows = measure(name, given.seeds)
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
