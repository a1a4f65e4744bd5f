"""Calibrated cells on real tables: AUC and accuracy on records kept aside, by the largest T* that was asked for.

A fifth of each table is kept aside. Of the rest, half learns scores and plans, half sets the thresholds. Beside it:
plain gradient boosting on all of the rest, without any bound.

    python benchmarks/calibrated.py [--tables german compas law adult] [--seeds 5] [--write docs/calibrated.md]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from certifare.certificates.claims import Claim
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["german", "compas", "law", "adult"], choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    lines = [
        "| table, rows | T* ≤ | met | AUC | accuracy | cells | T* | measured distance | boosting's AUC | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in given.tables:
        rows = measure(name, given.seeds)
        print("\n".join(rows), flush=True)
        lines += rows
    if given.write:
        given.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
