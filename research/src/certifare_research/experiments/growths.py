"""Restricted encoders for experiments: many growths counted at once, and every figure from the counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate, certify_counts, one_per_cluster
from certifare.frontier.fronts import pareto
from certifare.frontier.paths import Explorer, GrowthPath
from certifare.frontier.settings import Grid, Setting
from certifare.tables.table import Table
from certifare_research.datasets import Dataset
from certifare_research.evaluation.lemmas import lemmas_bound, paper_bound
from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments.framework import claim

LABEL, GROUP = "label", "group"
EPSILON = 0.05


def table_of(dataset: Dataset, cluster: str | None = None) -> Table:
    """Return a data set's records as a table with roles; the cluster of each under the name given, if it has one."""
    columns = {LABEL: dataset.y, GROUP: dataset.s}
    if dataset.clusters is None:
        cluster = None
    elif cluster is not None:
        columns[cluster] = dataset.clusters
    frame = dataset.X
    for name, values in columns.items():
        frame = frame.append_column(name, pa.array(values))
    return Table.from_frame(frame, label=LABEL, sensitive=GROUP, cluster=cluster, categorical=dataset.categorical)


def independent_rows(dataset: Dataset, rows: NDArray[np.int64], seed: int = 0, part: str = "") -> NDArray[np.int64]:
    """Rows that are independent: one per cluster, chosen so that they stand for the records; each part by itself."""
    if dataset.clusters is None:
        return rows
    return rows[one_per_cluster(dataset.clusters[rows], population="records", seed=seed, part=part).keep]


@dataclass(frozen=True, eq=False)
class Point:
    """One encoder, as counts of the records of every part by cell."""

    setting: Setting
    cells: int
    path: GrowthPath

    def counts(self, part: str) -> NDArray[np.int64]:
        """Return records of a part by cell, group and label; the last column, of those without a label, is left out."""
        return self.path.at(part, self.cells).groups[:, :, :-1]

    def certificate(self, metric: str = "demographic_parity", candidates: int = 1, times: int = 1) -> Certificate:
        """Certify on the part ``certify``."""
        return certify_counts(
            self._cell_counts("certify", times),
            metric,
            1 - EPSILON,
            candidates=candidates,
            witness=self._cell_counts("train"),
            min_group_size=1,
        )

    def lemmas(self) -> float:
        """T* by the paper's lemmas, which use training and test records besides, as the paper does."""
        return paper_bound([self._cell_counts(part) for part in ("train", "certify", "test")], confidence=1 - EPSILON)

    def _cell_counts(self, part: str, times: int = 1) -> CellCounts:
        table = self.counts(part) * times
        return CellCounts(table, range(table.shape[1]), range(table.shape[2]))

    def vote(self, part: str = "test", by: str = "train") -> Outcome:
        """Outcome of the majority vote of each cell's training records, or of another part's."""
        return _outcome(self.counts(part), self.counts(by).sum(1).argmax(1))

    def adversary(self, part: str = "test") -> Outcome:
        """Outcome of the classifier that is most unfair on the training records: it picks cells by group."""
        train = self.counts("train").sum(2)
        shares = train / np.maximum(train.sum(0, keepdims=True), 1)
        first, second = max(
            combinations(range(shares.shape[1]), 2),
            key=lambda pair: float(np.abs(shares[:, pair[0]] - shares[:, pair[1]]).sum()),
        )
        return _outcome(self.counts(part), (shares[:, second] > shares[:, first]).astype(np.int64))

    def record(self, metric: str = "demographic_parity", by: str = "train") -> dict[str, Any]:
        """Figures of the encoder: accuracy and distances on the test records, T* on the certification records."""
        certificate = self.certificate(metric)
        vote, adversary = self.vote(by=by), self.adversary()
        return {
            "kind": self.setting.kind,
            "gamma": self.setting.gamma,
            "min_cell_size": self.setting.min_cell_size,
            "cells": self.cells,
            "accuracy": vote.accuracy,
            "distance": vote.distance(metric),
            "adversary": adversary.distance(metric),
            "bound": certificate.bound,
            "estimate": certificate.estimate,
            "lower": certificate.lower,
            "retained": self.path.retained.get(self.cells),
            "metric": metric,
            "outcomes": {"majority vote": vote.text(metric), "adversary": adversary.text(metric)},
        }


def _outcome(counts: NDArray[np.int64], choice: NDArray[np.int64]) -> Outcome:
    """Outcome of a classifier that is given by its prediction for each cell."""
    n_labels = max(counts.shape[2], int(choice.max()) + 1)
    result = np.zeros((counts.shape[1], n_labels, n_labels), dtype=np.int64)
    for predicted in range(n_labels):
        result[:, : counts.shape[2], predicted] = counts[choice == predicted].sum(0)
    return Outcome(result)


def explore(
    dataset: Dataset,
    parts: Mapping[str, NDArray[np.int64]],
    grid: Grid,
    *,
    seed: int = 0,
    **common: Any,
) -> Iterator[Point]:
    """Fit every growth of the grid and yield every encoder on its path.

    ``parts`` has the rows of ``train``, ``certify`` and ``test``, and of what else is to be counted; ``common`` are
    parameters of all encoders, such as ``metric`` and ``retain``.
    """
    tables = {name: table_of(dataset.take(rows)) for name, rows in parts.items()}
    explorer = Explorer(tables.pop("train"), tables, grid, {"random_state": seed, **common})
    for setting in explorer.settings:
        path = explorer.walk(setting)
        for cells in path.starts:
            yield Point(setting, cells, path)


def lemmas_of(encoder: Any, parts: Mapping[str, Dataset]) -> float:
    """T* by the paper's lemmas: base rates from ``train``, cells from ``certify``, the sum from ``test``."""
    tables = [
        np.bincount(np.asarray(encoder.apply(parts[name].X)) * 2 + parts[name].s, minlength=2 * encoder.n_cells_)
        for name in ("train", "certify", "test")
    ]
    base, cells, sums = (table.reshape(-1, 2) for table in tables)
    return min(1.0, float(lemmas_bound(base, cells, sums, EPSILON)))


def distinct(points: Iterable[Point]) -> Iterator[Point]:
    """Leave out encoders that were there before: a growth may not depend on its setting, such as a small cell size."""
    seen = set()
    for point in points:
        counts = [point.path.at(part, point.cells).groups for part in point.path.counts]
        if (digest := hashlib.sha256(b"".join(table.tobytes() for table in counts)).digest()) not in seen:
            seen.add(digest)
            yield point


def independent_parts(dataset: Dataset, shares: Mapping[str, float], seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Split at random; the certification part keeps one record per cluster, and so does the part to choose on."""
    parts = dataset.parts(shares, seed)
    for name in {"select", "certify"} & parts.keys():
        parts[name] = independent_rows(dataset, parts[name], seed, name)
    return parts


def best(records: Iterable[Mapping[str, Any]], limit: float, by: str = "bound") -> Mapping[str, Any] | None:
    """Most accurate record whose ``by`` is at most ``limit``."""
    allowed = [r for r in records if r[by] <= limit]
    return max(allowed, key=lambda r: r["accuracy"]) if allowed else None


def over(values: Sequence[float], splits: int) -> str | float | None:
    """Mean ± standard deviation, and of how many splits where some have no such encoder."""
    if len(values) < 2:
        return None if not values else values[0] if splits == 1 else f"{values[0]:.3f} (1 of {splits})"
    some = "" if len(values) == splits else f" ({len(values)} of {splits})"
    return f"{fmean(values):.3f} ± {stdev(values):.3f}{some}"


def by_split(records: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the records of each split."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(record["split"], []).append(record)
    return [found[split] for split in sorted(found)]


def within(records: Iterable[Mapping[str, Any]], limits: Iterable[float], splits: int, by: str = "bound") -> list[Any]:
    """Best accuracy within each limit, over splits; as it is for records that have one split alone."""
    own = by_split(records)
    found = [[best(of_split, limit, by) for of_split in own] for limit in limits]
    return [over([r["accuracy"] for r in at if r is not None], splits if len(own) > 1 else 1) for at in found]


def front(records: Sequence[Mapping[str, Any]], by: str, series: str, **more: Any) -> list[dict[str, Any]]:
    """Points of a chart: the records that no other beats in accuracy and ``by``, certified where that is the bound.

    (The paper's code removes only records that are beaten strictly in both.)
    """
    return [
        {
            "series": series,
            **more,
            "distance": records[i][by],
            "accuracy": records[i]["accuracy"],
            "certified": by == "bound",
        }
        for i in pareto([r[by] for r in records], [r["accuracy"] for r in records])
    ]


def claims_of(records: Iterable[Mapping[str, Any]], data: str) -> list[dict[str, Any]]:
    """Claims of encoders as :meth:`Point.record` describes them."""
    return [
        claim(
            data,
            _words(r),
            classifier,
            outcome,
            r["bound"],
            r["metric"],
        )
        for r in records
        for classifier, outcome in r["outcomes"].items()
    ]


def _words(record: Mapping[str, Any]) -> str:
    """Name an encoder by its setting."""
    return f"{record['kind']} gamma={record['gamma']} n={record['min_cell_size']} k={record['cells']}"
