"""Calibrated cells on real tables: what they keep of the label on records kept aside, by the largest T* asked for.

    python benchmarks/calibrated.py [--tables german compas law adult acs health] [--seeds 5] [--train 0.4]
    python benchmarks/calibrated.py --misses 3000

A fifth of each table is kept aside. The rest is split as ``fit`` splits it, or by ``--train``. Beside it, on the same
records: encoders that do not read the group, by the same targets; fairlearn's ThresholdOptimizer (if it is
installed) and gradient boosting, without any bound; and the *best rule*, which orders all by a mixture of the rank
within the group and among all, with scores learnt from all of the rest, such that the distance that it measures there
is the target: what nobody could guarantee.

The second command draws certification samples from a population of ACSIncome's records (or of few different values),
lets them set thresholds by a plan, and counts how often the true distance is above T*, which is to be 5 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from certifare.certificates.calibrated import calibrated_bound
from certifare.certificates.claims import Claim
from certifare.encoders import CalibratedEncoder
from certifare.encoders.plans import GapPlan, round_to_gaps
from certifare.frontier import Grid
from certifare.frontier.calibrating import CalibratedSearch, choose_parts
from certifare.frontier.search import Search
from certifare.tables.frames import Frame
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


def health() -> Loaded:
    table = pd.read_parquet(DATA / "health.parquet")
    ages = [c for c in table if c.startswith("AgeAtFirstClaim=")]
    old = table[[c for c in ages if c[-5:-3] in ("60", "70") or c.endswith("80+")]].any(axis=1)
    table["60 or older"] = np.where(old, "yes", "no")
    table["ill"] = (table.pop("max_CharlsonIndex") != 1).astype(int)
    return table.drop(columns=[*ages, "MemberID", "Year"]), "ill", "60 or older"


TABLES: dict[str, Callable[[], Loaded]] = {
    "german": german, "compas": compas, "law": law, "adult": adult, "acs": acs, "health": health,
}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """A table in the records to learn and certify from, and the records kept aside."""

    rest: pd.DataFrame
    test: pd.DataFrame
    label: str
    sensitive: str

    @classmethod
    def draw(cls, table: pd.DataFrame, label: str, sensitive: str, seed: int) -> Sample:
        """Put a fifth of the records aside."""
        order = np.random.default_rng(seed).permutation(len(table))
        return cls(table.iloc[order[len(table) // 5 :]], table.iloc[order[: len(table) // 5]], label, sensitive)

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which records kept aside have the last label."""
        return self.test[self.label].astype(str).to_numpy() == max(self.rest[self.label].astype(str))

    def features(self, part: pd.DataFrame) -> pd.DataFrame:
        """Return all columns but the label and the group."""
        return part.drop(columns=[self.label, self.sensitive])

    def encoded(self, encoder: Any) -> dict[str, float]:
        """Measure an encoder on the records kept aside, by the label shares of its cells in training."""
        groups = {"sensitive_features": self.test[self.sensitive]} if encoder.reads_groups else {}
        cells = encoder.apply(self.features(self.test), **groups)
        share = encoder.cell_scores()[0][cells, -1]
        return {**self.figures(share, cells), "cells": encoder.n_cells_}

    def figures(self, share: NDArray[np.float64], told: NDArray[Any]) -> dict[str, float]:
        """Measure forecasts, and the distance of what is told of each record."""
        truth, s = self.truth, self.test[self.sensitive].to_numpy()
        _, codes = np.unique(told, return_inverse=True)
        shares = [np.bincount(codes[s == g], minlength=codes.max() + 1) / (s == g).sum() for g in np.unique(s)]
        return {
            "auc": float(roc_auc_score(truth, share)),
            "accuracy": float(((share > 0.5) == truth).mean()),
            "explained": float(1.0 - ((truth - share) ** 2).mean() / truth.var()),
            "distance": max(float(np.abs(a - b).sum() / 2) for a in shares for b in shares),
        }


def calibrated(sample: Sample, seed: int, train: float | None) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield what calibrated cells do at each target that a plan is within, with the split of ``fit`` or a given one."""
    table = Table.from_frame(sample.rest, label=sample.label, sensitive=sample.sensitive)
    searches: dict[float, CalibratedSearch] = {}
    for target in TARGETS:
        share = train or choose_parts(table, Claim(), target)[0]["train"]
        if share not in searches:
            parts = {"train": share, "certify": 1.0 - share}
            searches[share] = CalibratedSearch(table, Claim(), seed=seed, parts=parts).run()
        search = searches[share]
        number = search.best(target)
        if number is not None:
            encoder, certificate = search._calibrate(number, search.claim)
            yield "cells", target, {**sample.encoded(encoder), "bound": certificate.bound}


def blind(sample: Sample, seed: int) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield what encoders do that do not read the group, as ``fit`` finds and tests them."""
    table = Table.from_frame(sample.rest, label=sample.label, sensitive=sample.sensitive)
    search = Search(table, Grid(kinds=("boosted",)), Claim(), seed=seed).run()
    for target in TARGETS:
        of_target = copy(search)  # each target is a run of its own, and they share what was fitted
        numbers = of_target.chain()
        found = of_target.walk(numbers, target)[1] if numbers else None
        if found is not None:
            yield "blind", target, {**sample.encoded(found[0]), "bound": found[1].bound}


def best_rule(sample: Sample) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield the AUC of the largest mixture of ranks whose distance, in 64 bins of the rest, is within a target."""
    encoder = CalibratedEncoder()
    training = encoder.prepare(
        sample.features(sample.rest), sample.rest[sample.label], sensitive_features=sample.rest[sample.sensitive]
    )
    encoder._take_columns(training)
    known, groups = training.derived.values[:, 0], training.groups.codes
    frame = Frame(sample.features(sample.test))
    tested = encoder.read_group_codes(frame, sample.test[sample.sensitive])
    scores = training.derived.directions.values(encoder.read_fields(frame), tested)[:, 0]

    def ranks(of: NDArray[Any], among: NDArray[Any]) -> NDArray[np.float64]:
        ordered = np.sort(among)
        return (np.searchsorted(ordered, of, "left") + np.searchsorted(ordered, of, "right")) / (2 * len(ordered))

    places = []
    for of, where in ((known, groups), (scores, tested)):
        own = np.empty(len(of))
        for g in range(len(training.groups.values)):
            own[where == g] = ranks(of[where == g], known[groups == g])
        places.append((own, ranks(of, known)))
    (own, common), (own_tested, common_tested) = places
    for target in TARGETS:
        for theta in np.linspace(1.0, 0.0, 201):
            place = (1.0 - theta) * own + theta * common
            bins = np.searchsorted(np.quantile(place, np.arange(1, 64) / 64), place)
            shares = [np.bincount(bins[groups == g], minlength=64) / (groups == g).sum() for g in np.unique(groups)]
            if max(np.abs(a - b).sum() / 2 for a in shares for b in shares) <= target:
                mixed = (1.0 - theta) * own_tested + theta * common_tested
                yield "rule", target, {"auc": float(roc_auc_score(sample.truth, mixed))}
                break


def unbounded(sample: Sample) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Yield gradient boosting on the columns, and ThresholdOptimizer on it, as target 1."""
    both = pd.concat([sample.rest, sample.test])
    numbers = sample.features(both).apply(
        lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype("category").cat.codes
    ).to_numpy(float)  # fmt: skip
    small = len(sample.rest) < 5_000
    rest, test = numbers[: len(sample.rest)], numbers[len(sample.rest) :]
    y = (sample.rest[sample.label].astype(str) == max(sample.rest[sample.label].astype(str))).to_numpy()

    def model() -> HistGradientBoostingClassifier:
        rate, leaves = (0.05, 8) if small else (0.1, 31)
        return HistGradientBoostingClassifier(
            learning_rate=rate, max_leaf_nodes=leaves, early_stopping=False, random_state=0
        )

    share = model().fit(rest, y).predict_proba(test)[:, 1]
    yield "boosting", 1.0, sample.figures(share, share > 0.5)
    try:
        from fairlearn.postprocessing import ThresholdOptimizer
    except ImportError:
        return
    # Thresholds that are chosen on the records of the model come out far off: part of them is kept for that.
    n, s = int(0.7 * len(rest)), sample.rest[sample.sensitive].to_numpy()
    optimizer = ThresholdOptimizer(
        estimator=model().fit(rest[:n], y[:n]), constraints="demographic_parity", prefit=True,
        predict_method="predict_proba",
    )  # fmt: skip
    optimizer.fit(rest[n:], y[n:], sensitive_features=s[n:])
    decided = np.asarray(
        optimizer.predict(test, sensitive_features=sample.test[sample.sensitive].to_numpy(), random_state=0)
    )
    yield "optimizer", 1.0, sample.figures(decided.astype(float), decided)


def measure(name: str, seeds: int, train: float | None, cells_only: bool) -> None:
    """Print the rows of one table."""
    table, label, sensitive = TABLES[name]()
    found: dict[tuple[str, float], list[dict[str, float]]] = {}
    seconds: dict[str, float] = {}
    for seed in range(seeds):
        sample = Sample.draw(table, label, sensitive, seed)
        ways = {
            "cells": lambda: calibrated(sample, seed, train), "blind": lambda: blind(sample, seed),  # noqa: B023
            "rule": lambda: best_rule(sample), "boosting": lambda: unbounded(sample),  # noqa: B023
        }  # fmt: skip
        for way, run in list(ways.items())[: 1 if cells_only else None]:
            begun = time.process_time()
            for kind, target, figures in run():
                found.setdefault((kind, target), []).append(figures)
            seconds[way] = seconds.get(way, 0.0) + (time.process_time() - begun) / seeds

    def mean(kind: str, target: float, figure: str) -> str:
        values = [f[figure] for f in found.get((kind, target), ())]
        digits = 0 if figure == "cells" else 3
        some = f" ({len(values)} of {seeds})" if 0 < len(values) < seeds and figure == "auc" else ""
        return f"{np.mean(values):.{digits}f}{some}" if values else "–"

    print(f"\n{name}: {len(table):,} rows, means of {seeds} splits\n")
    print("| T* ≤ | AUC | accuracy | explained | cells | T* | measured | blind: AUC | accuracy | best rule: AUC |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for target in TARGETS:
        own = [mean("cells", target, f) for f in ("auc", "accuracy", "explained", "cells", "bound", "distance")]
        others = [mean("blind", target, "auc"), mean("blind", target, "accuracy"), mean("rule", target, "auc")]
        print(f"| {target:g} | {' | '.join([*own, *others])} |")
    for kind, words in (
        () if cells_only else (("boosting", "gradient boosting"), ("optimizer", "ThresholdOptimizer, decisions"))
    ):
        figures = [f"{f} {mean(kind, 1.0, f)}" for f in ("auc", "accuracy", "distance")]
        print(f"\n{words}: {', '.join(figures)}")
    print(f"\nprocessor seconds of a split: {', '.join(f'{k} {v:.1f}' for k, v in seconds.items())}", flush=True)


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
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument(
        "--train", type=float, help="share of the rest that learns scores and plans; that of fit if left out"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cells-only", action="store_true", help="leave out what calibrated cells are compared with")
    parser.add_argument("--misses", type=int, help="draws of each setting")
    given = parser.parse_args(arguments)
    if given.misses:
        show_misses(given.misses)
        return
    for name in given.tables:
        measure(name, given.seeds, given.train, given.cells_only)


if __name__ == "__main__":
    main()
