"""What is delivered for a target, and the best that could have been.

    python benchmarks/choice.py [--datasets german compas law adult] [--seeds 5] [--keep FILE]
    python benchmarks/choice.py --splits [--datasets …] [--seeds 5] [--keep FILE]

A fifth of each data set is held out before anything else, and every figure is measured on it. The rest is what a user
has: 50 / 10 / 40 % to train, select and certify; a fixed sequence, each encoder at full ε, by information. *Best*: of
all encoders of the same search whose own limit at full ε meets the target, the one with the highest AUC on the held-out
records; nobody can choose so. *Boosting*: gradient boosting on the table, without a bound.
With ``--splits``: what is delivered now, with other shares of records to train, to select and to certify.

Results are kept line by line (``--keep``), so that a run that was interrupted goes on.
The tables of docs/choosing.md are printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from certifare import Grid
from certifare.certificates.claims import Claim, statistic
from certifare.certificates.exact import difference_limit
from certifare.frontier.ordering import BEYOND_CHANCE
from certifare.frontier.paths import PartCounts
from certifare.frontier.search import Search
from certifare.frontier.utility import Estimates, base_rates, beyond_chance
from certifare.tables.splitting import PARTS, split
from certifare.tables.table import Table
from certifare_research import datasets

EPSILON = 0.05
TARGETS = (0.02, 0.03, 0.05, 0.08, 0.10, 0.15, 0.20)
#: Shares of records to train, select and certify; with less than 1 in all, the others are left out.
SPLITS = ((50, 10, 40), (50, 10, 30), (60, 10, 30), (40, 10, 50), (30, 10, 60), (50, 5, 45), (40, 5, 55), (50, 20, 30))
LOADERS: dict[str, Callable[[], Any]] = {
    "german": datasets.load_german_credit,
    "compas": datasets.load_compas,
    "law": datasets.load_law_school,
    "adult": datasets.load_adult,
    "health": datasets.load_health,
    "ca": lambda: datasets.load_acs_income("CA"),
    "us": datasets.load_acs_income,
}
NAMES = {
    "german": "German credit, by sex",
    "compas": "COMPAS, by race",
    "law": "Law school, by race",
    "adult": "Adult, by sex",
    "health": "Health, by age",
    "ca": "ACSIncome, California, by sex",
    "us": "ACSIncome, all states, by sex",
}


def table_of(dataset: Any) -> Table:
    """Give roles to the columns of a data set."""
    frame = dataset.X
    roles = {"label": dataset.y, "group": dataset.s} | ({} if dataset.clusters is None else {"one": dataset.clusters})
    for name, values in roles.items():
        frame = frame.append_column(f"the {name}", [values])
    return Table.from_frame(
        frame,
        label="the label",
        sensitive="the group",
        cluster="the one" if dataset.clusters is not None else None,
        categorical=dataset.categorical,
    )


class Counts:
    """Every candidate of a search on its certification records and on those held out."""

    def __init__(self, table: Table, held_out: Table, seed: int, parts: Mapping[str, float] = PARTS) -> None:
        claim = Claim() if table.clusters is None else Claim(population="records")
        self.search = Search(table, Grid(), claim, seed=seed, parts=parts).run()
        search, explorer = self.search, self.search.explorer
        for path in search.paths:
            encoder = explorer.fit(path.setting, bare=True)
            for name, part in (("certify", search.certify_sample.table), ("held out", held_out)):
                cells = explorer.cells(encoder, path.setting, name, part)
                path.counts[name] = PartCounts.of(part, cells, int(encoder.n_cells_))
        self.limit = cache(self._limit)
        self.performance = cache(self._performance)

    def _limit(self, number: int, epsilon: float = EPSILON, beyond: float = TARGETS[-1]) -> float:
        """Bound a candidate's distance, by 1 where it is seen to be larger than every target."""
        candidate = self.search.candidates[number]
        table = candidate.path.at("certify", candidate.cells).groups.sum(axis=2)
        n0, n1, m = statistic(table)
        if m / (n0 * n1) > beyond:
            return 1.0
        return difference_limit(n0, n1, m, epsilon)

    def _performance(self, number: int) -> Estimates:
        candidate = self.search.candidates[number]
        found, place = candidate.path.figures("held out"), list(candidate.path.starts).index(candidate.cells)
        return Estimates(*(None if figure is None else figure[place] for figure in astuple(found)))

    def useful(self, number: int) -> bool:
        """Say whether the forecasts of a candidate's cells go with the label, on the certification records."""
        candidate = self.search.candidates[number]
        train, certify = (candidate.path.at(part, candidate.cells).labels for part in ("train", "certify"))
        return beyond_chance(train, certify) > BEYOND_CHANCE

    def figures(self, number: int | None, bound: float) -> dict[str, float] | None:
        """Return what is delivered by a candidate; None where there is none."""
        if number is None:
            return None
        found = self.performance(number)
        assert found.auc is not None
        return {
            "bound": bound,
            "accuracy": found.accuracy,
            "auc": found.auc,
            "explained": found.explained,
            "useful": self.useful(number),
        }

    def boosting(self, held_out: Table) -> dict[str, float]:
        """Measure gradient boosting on the table itself."""
        explorer = self.search.explorer
        (forecasts,) = explorer.boosting(held_out)
        (label,), (train,) = held_out.labels, explorer.train.labels
        found = Estimates.of(
            [forecasts], [base_rates(np.bincount(train.codes, minlength=2)[None])], [np.eye(2, dtype=int)[label.codes]]
        )
        says = forecasts.argmax(axis=1)
        rates = [says[held_out.groups.codes == group].mean() for group in range(len(held_out.groups.names))]
        return {
            "bound": float(max(rates) - min(rates)),
            "accuracy": found.accuracy,
            "auc": found.auc,
            "explained": found.explained,
        }


def now(counts: Counts, target: float) -> int | None:
    """Test the chain in its order, each at full ε, until one fails."""
    chosen = None
    for number in _chain(counts):
        if counts.limit(number) > target:
            break
        chosen = number
    return chosen


@cache
def _chain(counts: Counts) -> list[int]:
    return counts.search.chain()


def best(counts: Counts, target: float) -> int | None:
    """Choose on the held-out records themselves."""
    within = [i for i in range(len(counts.search.candidates)) if counts.limit(i) <= target]
    return max(within, key=lambda i: counts.performance(i).auc, default=None)


def run(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is delivered for each target, and the best."""
    dataset = LOADERS[name]()
    rows = dataset.parts({"held out": 0.2, "rest": 0.8}, seed)
    held_out, rest = (table_of(dataset.take(rows[part])) for part in ("held out", "rest"))
    counts = Counts(rest, held_out, seed)
    yield {"data": name, "seed": seed, "way": "boosting", "target": None, "found": counts.boosting(held_out)}
    for target in TARGETS:
        found = {
            "now": counts.figures(now(counts, target), target),
            "best": counts.figures(best(counts, target), target),
        }
        for way, figures in found.items():
            yield {"data": name, "seed": seed, "way": way, "target": target, "found": figures}


def _leaving_out(rest: Table, held_out: Table, seed: int, shares: Mapping[str, float]) -> Counts:
    """Search with the parts that there would be if a further one were there, which is not used."""
    parts = split(rest, shares, seed)
    used = np.sort(np.concatenate([parts[part] for part in PARTS]))
    whole = sum(shares[part] for part in PARTS)
    return Counts(rest.take(used), held_out, seed, {part: shares[part] / whole for part in PARTS})


def run_splits(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is delivered for each target with each split, and T* of the encoder chosen without a target."""
    dataset = LOADERS[name]()
    rows = dataset.parts({"held out": 0.2, "rest": 0.8}, seed)
    held_out, rest = (table_of(dataset.take(rows[part])) for part in ("held out", "rest"))
    for shares in SPLITS:
        parts = {part: share / 100 for part, share in zip(PARTS, shares, strict=True)}
        unused = (100 - sum(shares)) / 100
        counts = (
            _leaving_out(rest, held_out, seed, parts | {"test": unused})
            if unused
            else Counts(rest, held_out, seed, parts)
        )
        base = {"data": name, "seed": seed, "way": "/".join(map(str, shares))}
        alone = next(iter(counts.search.knee()), None)
        found = None if alone is None else counts.figures(alone, counts.limit(alone, beyond=1.0))
        yield base | {"target": None, "found": found}
        for target in TARGETS:
            yield base | {"target": target, "found": counts.figures(now(counts, target), target)}


def splits_page(rows: Sequence[dict[str, Any]]) -> str:
    """Write what the splits deliver as Markdown."""
    lines = [
        "| train / select / certify, % | solved | AUC | the same, solved by all | T\\* alone | AUC alone |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    ways = list(dict.fromkeys(row["way"] for row in rows))
    everywhere = set.intersection(
        *({_place(row) for row in rows if row["way"] == way and row["target"] and row["found"]} for way in ways)
    )
    for way in ways:
        asked = [row for row in rows if row["way"] == way and row["target"]]
        alone = [row["found"] for row in rows if row["way"] == way and not row["target"] and row["found"]]
        auc = np.mean([0.5 if row["found"] is None else row["found"]["auc"] for row in asked])
        shared = [row["found"] for row in asked if _place(row) in everywhere]
        common = f"{_mean(shared, 'auc'):.3f}" if shared else ""
        lines.append(
            f"| {way.replace('/', ' / ')} | {sum(row['found'] is not None for row in asked)} of {len(asked)} | "
            f"{auc:.3f} | {common} | {_mean(alone, 'bound'):.3f} | {_mean(alone, 'auc'):.3f} |"
        )
    return "\n".join(lines) + "\n"


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["data"], row["seed"], row["target"]


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Write accuracy and AUC by data set and target as Markdown, then how far they are from the best encoder."""
    lines = [
        f"| table | gradient boosting, no bound | {' | '.join(f'{target:.2f}' for target in TARGETS)} |",
        "|---|---|" + "---|" * len(TARGETS),
    ]
    losses = []
    for name in (name for name in LOADERS if any(row["data"] == name for row in rows)):
        own = [row for row in rows if row["data"] == name]
        seeds = len({row["seed"] for row in own})
        cells = [_figures([row["found"] for row in own if row["way"] == "boosting"], seeds)]
        for target in TARGETS:
            found = {
                way: {row["seed"]: row["found"] for row in own if row["way"] == way and row["target"] == target}
                for way in ("now", "best")
            }
            cells.append(_figures([figures for figures in found["now"].values() if figures is not None], seeds))
            for seed, ideal in found["best"].items():
                if ideal is not None:
                    delivered = found["now"][seed]
                    losses.append(ideal["auc"] - (0.5 if delivered is None else delivered["auc"]))
        lines.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    lines.append(
        "\nAUC below that of the best encoder, which nobody can choose (0.5 if none was delivered): "
        f"{np.mean(losses):.3f}. A larger target lowers the delivered AUC in {_falls(rows):.1%} of neighbouring "
        "targets."
    )
    return "\n".join(lines) + "\n"


def _figures(found: Sequence[dict[str, float]], seeds: int) -> str:
    """Write accuracy and AUC, and on how many splits there is a result if not on all."""
    if not found:
        return "–"
    some = "" if len(found) == seeds else f" ({len(found)} of {seeds})"
    return f"{_mean(found, 'accuracy'):.3f}, {_mean(found, 'auc'):.3f}".replace("0.", ".") + some


def _mean(found: Sequence[dict[str, float]], key: str) -> float:
    return float(np.mean([figures[key] for figures in found]))


def _falls(rows: Sequence[dict[str, Any]]) -> float:
    """How often a larger target delivers an AUC that is lower by more than 0.005 on the held-out records."""
    auc = {
        (row["data"], row["seed"], row["target"]): 0.5 if row["found"] is None else row["found"]["auc"]
        for row in rows
        if row["way"] == "now"
    }
    steps = [
        auc[data, seed, large] < auc[data, seed, small] - 0.005
        for data, seed, small in auc
        for large in TARGETS
        if TARGETS.index(large) == TARGETS.index(small) + 1
    ]
    return float(np.mean(steps))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=list(LOADERS), default=list(LOADERS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", action="store_true", help="try other shares to train, select and certify")
    parser.add_argument("--keep", type=Path, help="file of results; those that are there are not computed again")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.keep is not None and arguments.keep.exists():
        rows = [json.loads(line) for line in arguments.keep.read_text("utf-8").splitlines()]
    done = {(row["data"], row["seed"]) for row in rows}
    for name in arguments.datasets:
        for seed in range(arguments.seeds):
            if (name, seed) in done:
                continue
            start = time.perf_counter()
            found = list((run_splits if arguments.splits else run)(name, seed))
            rows += found
            if arguments.keep is not None:
                with arguments.keep.open("a", encoding="utf-8") as file:
                    file.write("".join(json.dumps(row) + "\n" for row in found))
            print(f"{name} {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    text = (splits_page if arguments.splits else page)(
        [row for row in rows if row["data"] in arguments.datasets and row["seed"] < arguments.seeds]
    )
    print(text)


if __name__ == "__main__":
    main()
