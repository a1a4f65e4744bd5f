"""Accuracy against the certified distance, for every encoder, on real data.

    python benchmarks/frontier.py [--quick] [--data PATH] [--datasets ca health transfer us] [--seed 0] [--only TEXT]

Each data set is split 50 % / 30 % / 20 % into training, certification and test records. Encoders are grown on the
first part for many settings; T* is the exact bound at 95 % on the second; accuracy is that of the cells' majority
vote (majorities from training records) on the third. For each limit on T* the tables show the best test accuracy
among the settings that keep it; then the setting that looks best on the certification records, which was not chosen
on the test records; then, of those within one point of it, the one that retains most of the table.

ca, us: ACSIncome 2018, income above $50,000, groups by sex. health: Heritage Health, Charlson index, groups by age 60.
transfer: the same without the columns of conditions, five of which are the tasks that no encoder was told of.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certifare import BoostedEncoder, CellCounts, FairTreeEncoder, certify_counts
from certifare.encoders.grown import GrownEncoder
from certifare.encoders.information import retained_information
from certifare.tables.frames import Field, Frame

LIMITS = (0.02, 0.03, 0.05, 0.08, 0.10, 0.15, 0.30)
GAMMAS = (
    0.0,
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.55,
    0.6,
    0.62,
    0.64,
    0.66,
    0.68,
    0.7,
    0.72,
    0.74,
    0.76,
    0.78,
    0.8,
    0.825,
)
GAMMAS += (0.85, 0.875, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.955, 0.96, 0.965, 0.97, 0.975)
GAMMAS += (0.98, 0.985, 0.99, 0.993, 0.996, 0.999)
CELLS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 30, 50, 100, 200, 400)
CONDITIONS = ("MISCHRT", "NEUMENT", "ARTHSPIN", "METAB3", "MSC2a3")
RETAIN = {"ca": (0.25,), "transfer": (0.25, 0.5, 0.8), "health": (), "us": ()}


@dataclass(frozen=True)
class Data:
    """A table with its label, its groups, and further labels that no encoder sees; split by a seed."""

    name: str
    X: Any
    y: NDArray[np.int64]
    s: NDArray[np.int64]
    categorical: list[str]
    tasks: NDArray[np.int64]
    seed: int

    @cached_property
    def parts(self) -> list[NDArray[np.int64]]:
        """Training, certification and test records."""
        order = np.random.default_rng(self.seed).permutation(len(self.y))
        return np.split(order, [int(0.5 * len(order)), int(0.8 * len(order))])

    def of(self, part: int) -> Any:
        """Features of a part."""
        return self.X.iloc[self.parts[part]]

    @cached_property
    def test_fields(self) -> list[Field]:
        """Columns of the test records."""
        frame = Frame(self.of(2))
        return [frame.read(name) for name in frame.names]


@dataclass(frozen=True)
class Point:
    """One encoder with k cells: what it costs and what it keeps.

    Its cells are unions of the cells of the largest encoder from the same growth.
    """

    data: Data
    largest: list[NDArray[Any]]
    merged: NDArray[Any]

    @property
    def k(self) -> int:
        """How many cells it has."""
        return int(self.merged.max()) + 1

    def cells(self, part: int) -> NDArray[np.int64]:
        """Cells of a part's records."""
        return self.merged[self.largest[part]].astype(np.int64)

    @cached_property
    def bound(self) -> float:
        """T*, or infinity if the distance in the sample is beyond every limit already."""
        s = self.data.s[self.data.parts[1]]
        counts = CellCounts.from_cells(self.cells(1), s, n_cells=self.k)
        shares = counts.table / counts.table.sum(axis=0)
        if np.maximum(shares[:, 0] - shares[:, 1], 0.0).sum() > max(LIMITS):
            return float("inf")
        return float(certify_counts(counts).bound)

    @cached_property
    def test(self) -> float:
        """Accuracy on the test records."""
        return self._accuracy(self.data.y, 2)

    @cached_property
    def selection(self) -> float:
        """Accuracy on the certification records."""
        return self._accuracy(self.data.y, 1)

    @cached_property
    def tasks(self) -> float:
        """Mean accuracy of the tasks that the encoder was not told of, on the test records."""
        return float(np.mean([self._accuracy(task, 2) for task in self.data.tasks.T]))

    @cached_property
    def retained(self) -> float:
        """Retained information on the test records."""
        marked = [field.name in self.data.categorical for field in self.data.test_fields]
        return retained_information(self.data.test_fields, marked, self.cells(2), self.k).mean

    def _accuracy(self, y: NDArray[np.int64], part: int) -> float:
        votes = np.bincount(self.cells(0) * 2 + y[self.data.parts[0]], minlength=2 * self.k).reshape(self.k, 2)
        return float((votes.argmax(axis=1)[self.cells(part)] == y[self.data.parts[part]]).mean())


def acs_income(folder: Path, state: int | None, seed: int) -> Data:
    table = pq.read_table(folder / "acs_income_2018.parquet").to_pandas()
    if state is not None:
        table = table[table["ST"] == state].reset_index(drop=True)
    return Data(
        f"ACSIncome {'US' if state is None else 'CA'} 2018",
        table[["AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "RAC1P"]],
        table["PINCP_GT50K"].to_numpy().astype(np.int64),
        (table["SEX"] == 1).to_numpy().astype(np.int64),
        ["COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P"],
        np.zeros((len(table), 0), dtype=np.int64),
        seed,
    )


def health(folder: Path, conditions: bool, seed: int) -> Data:
    table = pq.read_table(folder / "health.parquet").to_pandas()
    old = table[[f"AgeAtFirstClaim={band}" for band in ("60-69", "70-79", "80+")]].sum(axis=1)
    tasks = table[[f"PrimaryConditionGroup={name}" for name in CONDITIONS]].to_numpy() > 0
    hidden = ("AgeAtFirstClaim=", "Year", "MemberID", "max_CharlsonIndex")
    if not conditions:
        hidden = (*hidden, "PrimaryConditionGroup=")
    return Data(
        "Health" if conditions else "Health without its conditions",
        table[[name for name in table.columns if not name.startswith(hidden)]],
        (table["max_CharlsonIndex"] != 1).to_numpy().astype(np.int64),
        old.to_numpy().astype(np.int64),
        [],
        tasks.astype(np.int64)[:, : 0 if conditions else None],
        seed,
    )


def grown_points(
    data: Data, encoder: GrownEncoder, settings: Iterable[dict[str, Any]], ks: Iterable[int]
) -> Iterator[Point]:
    """Prepare once, grow once per setting, and take every k from each growth."""
    train = data.parts[0]
    training = encoder.prepare(data.of(0), data.y[train], sensitive_features=data.s[train])
    encoder.fit_from(training)
    own = training.derived.codes if isinstance(encoder, BoostedEncoder) else training.codes
    groups = [{"sensitive_features": data.s[part]} if encoder.reads_groups else {} for part in data.parts]
    codes = [own, *(encoder.codes(data.of(part), **groups[part]) for part in (1, 2))]
    for setting in settings:
        grown = type(encoder)(**{**encoder.get_params(deep=False), **setting}).fit_from(training)
        whole = [grown.apply_codes(part).astype(np.uint16) for part in codes]
        for k in sorted({min(k, grown.n_cells_) for k in ks}):
            yield Point(data, whole, grown.cells_at(k))


def ceiling(data: Data) -> str:
    """Gradient boosting that ignores the groups: accuracy and distance of its own predictions."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, certify, test = data.parts
    model = HistGradientBoostingClassifier(random_state=0).fit(data.of(0), data.y[train])
    predicted = model.predict(data.of(1))
    rates = [predicted[data.s[certify] == group].mean() for group in (0, 1)]
    accuracy = model.score(data.of(2), data.y[test])
    return f"unfair gradient boosting: accuracy {accuracy:.3f} at distance {abs(rates[0] - rates[1]):.3f}"


def best(points: list[Point], limit: float, by: Callable[[Point], float]) -> Point | None:
    return max((p for p in points if p.bound <= limit), key=by, default=None)


def keeping(points: list[Point], limit: float, by: Callable[[Point], float]) -> Point | None:
    """Of the settings within one point of the best, the one that retains most."""
    top = best(points, limit, by)
    near = [p for p in points if p.bound <= limit and top is not None and by(p) >= by(top) - 0.01]
    return max(near, key=lambda p: p.retained, default=None)


def table(rows: dict[str, list[Point]], choose: Callable[[list[Point], float], Point | None], show: Any) -> None:
    print("\n| T* ≤ | " + " | ".join(f"{limit:g}" for limit in LIMITS) + " |")
    print("|---" * (len(LIMITS) + 1) + "|")
    for name, points in rows.items():
        chosen = [choose(points, limit) for limit in LIMITS]
        print(f"| {name} | " + " | ".join("–" if p is None else show(p) for p in chosen) + " |", flush=True)


def report(data: Data, rows: dict[str, list[Point]], notes: list[str]) -> None:
    print(f"\n## {data.name}: {len(data.y):,} records\n")
    for note in notes:
        print(f"- {note}")
    print("\nBest test accuracy:")
    table(rows, lambda points, t: best(points, t, lambda p: p.test), lambda p: f"{p.test:.3f}")
    print("\nTest accuracy of the setting chosen on the certification records:")
    table(rows, lambda points, t: best(points, t, lambda p: p.selection), lambda p: f"{p.test:.3f}")
    print("\nWithin one point of it, the most retained information: test accuracy, retained, cells:")
    show = lambda p: f"{p.test:.3f}, {p.retained:.2f}, {p.k}"  # noqa: E731
    table(rows, lambda points, t: keeping(points, t, lambda p: p.selection), show)
    if data.tasks.shape[1]:
        print("\nFive unseen tasks: mean accuracy, retained information and cells of the best setting for them:")
        show = lambda p: f"{p.tasks:.3f}, {p.retained:.2f}, {p.k}"  # noqa: E731
        table(rows, lambda points, t: best(points, t, lambda p: p.tasks), show)
        print("\nWithin half a point of it, the most retained information:")
        table(rows, lambda points, t: keeping(points, t, lambda p: 2 * p.tasks), show)


def compare(data: Data, quick: bool, retain: Iterable[float], only: str) -> None:
    gammas = GAMMAS[::4] if quick else GAMMAS
    ks = CELLS[::3] if quick else CELLS
    common: dict[str, Any] = {"categorical_features": data.categorical, "max_cells": max(ks), "n_jobs": -1}
    encoders: dict[str, GrownEncoder] = {
        f"fair tree, {orderings}": FairTreeEncoder(orderings=orderings, **common)  # type: ignore[arg-type]
        for orderings in (("paper", "directional", "both") if data.categorical else ("both",))
    }
    encoders["fair tree, only crossing splits charged"] = FairTreeEncoder(charge="crossing", **common)
    encoders["boosted"] = BoostedEncoder(**common)
    for weight in retain:
        keeping_more: dict[str, Any] = {"retain": weight, "charge": "crossing", **common}
        encoders[f"fair tree, retain {weight:g}"] = FairTreeEncoder(**keeping_more)
        encoders[f"boosted, retain {weight:g}"] = BoostedEncoder(**keeping_more)
    rows, notes = {}, [ceiling(data)]
    for name, encoder in encoders.items():
        if only not in name:
            continue
        start = time.perf_counter()
        tried: list[dict[str, Any]] = [{"gamma": gamma} for gamma in gammas]
        rows[name] = list(grown_points(data, encoder, tried, ks))
        notes.append(f"{name}: {len(rows[name])} settings in {time.perf_counter() - start:.0f} s")
    report(data, rows, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--datasets", nargs="+", choices=RETAIN, default=list(RETAIN))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a coarse grid of settings")
    parser.add_argument("--only", default="", help="encoders whose name holds this")
    arguments = parser.parse_args()
    folder, seed = arguments.data, arguments.seed
    load: dict[str, Callable[[], Data]] = {
        "ca": lambda: acs_income(folder, 6, seed),
        "health": lambda: health(folder, True, seed),
        "transfer": lambda: health(folder, False, seed),
        "us": lambda: acs_income(folder, None, seed),
    }
    print(f"# Frontier (seed {seed})")
    for name in arguments.datasets:
        compare(load[name](), arguments.quick, RETAIN[name], arguments.only)


if __name__ == "__main__":
    main()
