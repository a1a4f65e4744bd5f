"""How often is the truth above the published bound? Whole jobs, on populations whose truth is known, on every path.

A certificate at 95 % may be too low in one job of twenty, and no more often. This draws tables from populations that an
adversary would choose, runs the job on each as a user would, computes the true distance of the encoder that came out by
enumerating the population, and counts. Run as ``python benchmarks/guarantee.py`` (under an hour on two cores);
``--only NAME`` runs the paths whose name contains NAME, ``--share 0.1`` a tenth of the jobs, and
``--write docs/guarantee.md`` writes the table into that page.

Every job runs at the default seed, as people run it, on tables that are sorted by group, columns and label: a random
choice that knows only the number of rows would then be the same choice in every table.

Where the populations come from: all columns divide the groups by the same distance, so that every candidate has about
the same truth and choosing among them means choosing luck; panels are sorted by group, so that the i-th person of one
part resembles the i-th of another; targets lie just below the truth, so that every PASS is an error.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, cached_property, partial
from multiprocessing import get_context
from pathlib import Path

# One thread a job: jobs run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Made-up people are nobody's certification records.
os.environ["CERTIFARE_STATE"] = "off"

import numpy as np
import pandas as pd
import typer
from scipy.stats import beta

import certifare
from certifare import (
    CalibratedEncoder,
    CellCounts,
    FairTreeEncoder,
    Grid,
    History,
    Table,
    certify,
    certify_counts,
    produce,
    sweep,
)
from certifare.bundle import Bundle
from certifare.certificates import Claim, FixedSequence
from certifare.certificates.bounding import Evidence
from certifare.certificates.issuing import issue
from certifare.errors import ArgumentError, CertifareError
from certifare.frontier.large import LARGE
from certifare.frontier.scored import calibrate_score
from certifare.tables.frames import Frame

EPSILON = 0.05
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
#: The table of a page begins here.
MARKER = "<!-- what follows is written by benchmarks/guarantee.py -->"
#: A published figure is compared with the truth up to the rounding of sums.
ROUNDING = 1e-9
#: Tie-breaking numbers that the true shares of calibrated cells are computed for.
TIES = 1_000
PARTS = {"train": 0.2, "select": 0.4, "certify": 0.4}


# -- populations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Population:
    """Kinds of records, and how frequent each is in each group.

    Attributes
    ----------
    kinds : DataFrame
        The features, a row for each kind.
    shares : ndarray, (groups, labels, kinds)
        Shares within each group.
    weights : ndarray or None
        Survey weight of each kind: tables are drawn by ``shares``, claims are about the weighted population.
    unlabelled : ndarray or None
        For each kind, the probability that its label is not known.
    times : int
        How many equal records each person has; with more than one, a column names the person.
    """

    kinds: pd.DataFrame
    shares: np.ndarray
    weights: np.ndarray | None = None
    unlabelled: np.ndarray | None = None
    times: int = 1

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw a table of n records, sorted by group, kind and label: the worst order for draws that are tied."""
        groups, labels, kinds = self.shares.shape
        group = np.sort(rng.integers(0, groups, n))
        joint = np.empty(n, dtype=np.int64)
        for s in range(groups):
            of_group = group == s
            joint[of_group] = np.sort(rng.choice(labels * kinds, int(of_group.sum()), p=self.shares[s].ravel()))
        kind = joint % kinds
        table = self.kinds.iloc[kind].reset_index(drop=True)
        table["group"] = group
        table["label"] = (joint // kinds).astype(float) if self.unlabelled is not None else joint // kinds
        if self.weights is not None:
            table["weight"] = self.weights[kind]
        if self.unlabelled is not None:
            table.loc[rng.random(n) < self.unlabelled[kind], "label"] = np.nan
        if self.times > 1:
            table = table.loc[np.repeat(np.arange(n), self.times)].rename_axis("person").reset_index()
        return table

    def distance(self, encoder: object, metric: str = "demographic_parity") -> float:
        """Compute the true distance of the worst classifier on an encoder's cells."""
        return distance_of(self.by_cell(encoder, metric), metric)

    def by_cell(self, encoder: object, metric: str = "demographic_parity") -> np.ndarray:
        """Compute the frequencies of groups × labels × cells."""
        shares = self.shares
        if self.weights is not None:
            shares = shares * self.weights
        if self.unlabelled is not None and metric != "demographic_parity":
            shares = shares * (1.0 - self.unlabelled)
        by_cell = np.zeros((*shares.shape[:2], encoder.n_cells_))
        for s, of_group in enumerate(shares):
            for cells, weight in _cells_of_kinds(encoder, self.kinds, s):
                for y, of_label in enumerate(of_group):
                    by_cell[s, y] += weight * np.bincount(cells, weights=of_label, minlength=encoder.n_cells_)
        return by_cell


@dataclass(frozen=True, eq=False)
class Crossed(Population):
    """A population whose groups are combinations of columns, of different sizes.

    Attributes
    ----------
    sizes : ndarray, (groups,)
        Share of each group.
    columns : dict of str to ndarray
        Value of each sensitive column in each group: each of several is claimed.
    strata : ndarray or None
        Value of the column "product" in each group, within which the groups of the columns are compared.
    """

    sizes: np.ndarray | None = None
    columns: dict[str, np.ndarray] | None = None
    strata: np.ndarray | None = None

    def draw(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw a table of n records, sorted by group, kind and label."""
        _, labels, kinds = self.shares.shape
        group = np.sort(rng.choice(len(self.sizes), n, p=self.sizes))
        joint = np.empty(n, dtype=np.int64)
        for s in range(len(self.sizes)):
            of_group = group == s
            joint[of_group] = np.sort(rng.choice(labels * kinds, int(of_group.sum()), p=self.shares[s].ravel()))
        table = self.kinds.iloc[joint % kinds].reset_index(drop=True)
        columns = self.columns if self.strata is None else {**self.columns, "product": self.strata}
        return table.assign(label=joint // kinds, **{name: values[group] for name, values in columns.items()})

    @property
    def roles(self) -> dict[str, object]:
        """Keywords by which the columns are claimed."""
        each, given = len(self.columns) > 1, None if self.strata is None else "product"
        return {"label": "label", "sensitive": list(self.columns), "each": each, "given": given}

    @property
    def options(self) -> list[str]:
        """The same as options of commands."""
        options = [option for name in self.columns for option in ("--sensitive", name)]
        options += ["--each"] if len(self.columns) > 1 else []
        return [*options, *([] if self.strata is None else ["--given", "product"]), "--min-group-size", "5"]

    def distance(self, encoder: object, metric: str = "demographic_parity") -> float:
        """Compute the largest true distance, over columns and within each product."""
        by_cell = self.by_cell(encoder, metric) * self.sizes[:, None, None]
        strata = np.zeros(len(self.sizes), dtype=np.int64) if self.strata is None else self.strata
        return max(
            distance_of(
                np.stack([by_cell[(strata == p) & (values == v)].sum(axis=0) for v in np.unique(values)]), metric
            )
            for p in np.unique(strata)
            for values in self.columns.values()
        )


@cache
def crossed(distances: tuple[float, ...] = (0.05, 0.2)) -> Crossed:
    """Columns that divide each of two attributes by a distance of its own, on groups of different sizes."""
    sex, race = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    pull = (np.stack([sex, race]) - 0.5).T @ np.array(distances)
    sizes = np.outer([0.4, 0.6], [0.75, 0.25]).ravel()
    return Crossed(*_even(pull), sizes=sizes, columns={"sex": sex, "race": race})


@cache
def within_products(
    distances: tuple[float, ...] = (0.0, 0.2, 0.5), sizes: tuple[float, ...] = (0.8, 0.14, 0.06)
) -> Crossed:
    """Columns that divide the groups within each of some products, most within the smallest."""
    sex, product = np.repeat([0, 1], len(sizes)), np.tile(np.arange(len(sizes)), 2)
    pull = (sex - 0.5) * np.array(distances)[product]
    return Crossed(*_even(pull), sizes=np.tile(sizes, 2) / 2, columns={"sex": sex}, strata=product)


def _even(pull: np.ndarray, columns: int = 6) -> tuple[pd.DataFrame, np.ndarray]:
    """Return kinds of records, and their shares in groups whose binary columns are pulled this far."""
    kinds = np.array(list(itertools.product([0, 1], repeat=columns)))
    one = np.clip(0.5 + pull[:, None] + 0.25 * (np.arange(2) - 0.5), 0.01, 0.99)[:, :, None, None]
    shares = 0.5 * np.prod(np.where(kinds == 1, one, 1 - one), axis=3)
    return pd.DataFrame(kinds, columns=[f"x{i}" for i in range(columns)]), shares


def _cells_of_kinds(encoder: object, kinds: pd.DataFrame, group: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the cells of all kinds of records of a group; if chance parts equal ones, for each of many outcomes."""
    groups = np.full(len(kinds), group)
    if not isinstance(encoder, CalibratedEncoder):
        yield encoder.apply(kinds, **({"sensitive_features": groups} if encoder.reads_groups else {})), 1.0
        return
    values = encoder.directions_.values(encoder.read_fields(Frame(kinds)), groups)
    for outcome in range(TIES):
        yield encoder.thresholds_.cells(values, groups, np.full(len(kinds), (outcome + 0.5) / TIES)), 1.0 / TIES


def distance_of(by_cell: np.ndarray, metric: str) -> float:
    """Distance of the worst classifier, from frequencies by group, label and cell."""
    if metric == "demographic_parity":
        return _largest(by_cell.sum(axis=1))
    labels = [by_cell[:, y] for y in range(by_cell.shape[1])]
    if metric == "equal_opportunity":
        return _largest(labels[-1])
    distances = [_largest(of_label) for of_label in labels]
    return max(distances) if metric == "equalized_odds_max" else float(np.mean(distances))


def _largest(by_cell: np.ndarray) -> float:
    p = by_cell / by_cell.sum(axis=1, keepdims=True)
    return max(float(np.maximum(a - b, 0).sum()) for a, b in itertools.permutations(p, 2))


@cache
def even_columns(groups: int = 2, distance: float = 0.2, columns: int = 6) -> Population:
    """Binary columns, each of which divides the groups by the same distance among records of either label."""
    return Population(*_even(np.linspace(-0.5, 0.5, groups) * distance, columns))


@cache
def weighted_columns() -> Population:
    """Like :func:`even_columns`, with weights that make the weighted population more unequal than the table."""
    plain = even_columns()
    kinds = plain.kinds.to_numpy()
    return replace(plain, weights=np.array([1.0, 2.0, 4.0])[np.minimum(kinds[:, :3].sum(axis=1), 2)])


@cache
def heavy_tails(heavy: tuple[float, float] = (0.003, 0.003), weight: float = 20.0) -> Population:
    """Like :func:`even_columns`, with a few records of each group that weigh far more than the others.

    They have all columns 0 in one group and all 1 in the other, so that what lies above a cap adds to every distance
    all that it can. With them each column divides the groups by 0.2.
    """
    above = [share * (weight - 1) / (1 + share * (weight - 1)) for share in heavy]
    mean = sum(above) / 2
    light = even_columns(distance=(0.2 - mean) / (1 - mean))
    extremes = light.kinds.iloc[[0, -1]]  # all 0, all 1
    shares = np.concatenate([light.shares * (1 - np.array(heavy))[:, None, None], np.zeros((2, 2, 2))], axis=2)
    for group, share in enumerate(heavy):
        shares[group, :, -2 + group] = share / 2
    weights = np.append(np.ones(len(light.kinds)), [weight, weight])
    return Population(pd.concat([light.kinds, extremes], ignore_index=True), shares, weights)


@cache
def few_scores() -> Population:
    """Give every record one of five scores, of which one belongs to half of the records."""
    chances = np.array([[0.3, 0.1, 0.5, 0.05, 0.05], [0.05, 0.1, 0.5, 0.15, 0.2]])
    return Population(pd.DataFrame({"score": np.arange(5) / 4}), chances[:, None])


@cache
def repeated(weighted: bool = False) -> Population:
    """Like the others, where each person has six equal records: taken for independent ones, they promise too much."""
    return replace(weighted_columns() if weighted else even_columns(), times=6)


@cache
def unlabelled_columns() -> Population:
    """Make half of the population lack most labels, and differ far more between the groups."""
    labelled = even_columns(distance=0.05, columns=5)
    apart = even_columns(distance=0.6, columns=5)
    kinds = pd.concat([labelled.kinds.assign(z=0), apart.kinds.assign(z=1)], ignore_index=True)
    shares = np.concatenate([labelled.shares, apart.shares], axis=2) / 2
    return Population(kinds, shares, unlabelled=np.where(kinds["z"] == 1, 0.95, 0.0))


@dataclass(frozen=True, eq=False)
class Panel:
    """People who come many times; what is recorded depends on the group and on which visit it is.

    Attributes
    ----------
    columns : ndarray of int, (groups, columns, visits)
    weights : ndarray or None
        Weight of each visit.
    leaves_early : float
        Share of people who come only a third of the times.
    """

    columns: np.ndarray
    weights: np.ndarray | None = None
    leaves_early: float = 0.0

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [f"x{i}" for i in range(self.columns.shape[1])]

    def draw(self, people: int, rng: np.random.Generator) -> pd.DataFrame:
        """Draw the visits of some people, sorted by group."""
        n_columns, visits = self.columns.shape[1:]
        group = np.sort(rng.integers(0, 2, people))
        times = np.where(rng.random(people) < self.leaves_early, visits // 3, visits)
        person = np.repeat(np.arange(people), times)
        visit = np.concatenate([np.arange(n) for n in times])
        x = self.columns[group[person], :, visit]
        pull = (x - self.columns.mean(axis=(0, 2))) @ np.linspace(3.0, 0.8, n_columns)
        table = pd.DataFrame(x, columns=self.names)
        table["group"] = group[person]
        table["label"] = (rng.random(len(x)) < 1 / (1 + np.exp(-pull))).astype(int)
        table["person"] = person
        if self.weights is not None:
            table["weight"] = self.weights[visit]
        return table

    def distance(self, encoder: object, population: str = "clusters") -> float:
        """Compute the true distance, for a random visit of a random person or for a random visit."""
        visits = self.columns.shape[2]
        weight = np.ones(visits) if self.weights is None else self.weights
        early = np.where(np.arange(visits) < visits // 3, weight, 0.0)
        if population == "clusters":
            early, weight = early / early.sum(), weight / weight.sum()
        frequency = (1 - self.leaves_early) * weight + self.leaves_early * early
        p = []
        for s, of_group in enumerate(self.columns):
            found = _cells_of_kinds(encoder, pd.DataFrame(of_group.T, columns=self.names), s)
            p.append(sum(w * np.bincount(cells, frequency, encoder.n_cells_) for cells, w in found))
        return _largest(np.stack(p))


@cache
def panel(weighted: bool = False, leaves_early: float = 0.0) -> Panel:
    """Nine columns, each 1 on other visits, rarer ones telling more of the label; each divides the groups by 0.25."""
    rng = np.random.default_rng(2)
    visits, sizes = 24, range(7, 16)
    columns = np.zeros((2, len(sizes), visits), dtype=np.int64)
    for c, size in enumerate(sizes):
        columns[0, c, rng.permutation(visits)[:size]] = 1
        columns[1, c, rng.permutation(visits)[: size - 6]] = 1
    weights = np.tile([1.0, 2.0, 1.0], visits // 3) if weighted else None
    return Panel(columns, weights, leaves_early)


@cache
def households() -> Population:
    """Households of one and of four equal records: groups differ among the small ones only.

    Weights stand for the sizes. Where halves are tied to the draw of one record a household, a half that sees large
    households sees no difference.
    """
    kinds = pd.DataFrame({"x": [0, 1, 2]})
    of_label = np.array([[0.1, 0.5, 0.9], [0.9, 0.5, 0.1]])
    shares = np.array([[0.49, 0.01, 0.5], [0.01, 0.49, 0.5]])[:, None, :] * of_label[None, :, :]
    return Population(kinds, shares, weights=np.array([0.5, 0.5, 1.0]))


#: One cell per column and size: each size of cell leaves another column to split by.
PANEL_PEOPLE = 400
PANEL_GRID = Grid(
    kinds=["tree"],
    gammas=[0.0],
    min_cell_sizes=[
        int(PANEL_PEOPLE * 0.2 * 24 * share) for share in (0.14, 0.185, 0.23, 0.27, 0.31, 0.352, 0.396, 0.437, 0.479)
    ],
    cells=[2],
)
GRID = Grid(kinds=["tree"], gammas=[0.0, 0.5, 0.9], min_cell_sizes=[20, 100], cells=[2, 3, 4, 6])


# -- jobs: each draws a table, does what a user would, and says whether the published figure is too low ---------------

ROLES = {"label": "label", "sensitive": "group"}


def fitting(
    population: Population,
    n: int,
    seed: int,
    *,
    metric: str = "demographic_parity",
    target: float | None = None,
    group_aware: bool = False,
) -> bool:
    """Fit with a target just below the truth of the candidates, or without one."""
    table = population.draw(n, np.random.default_rng([seed, 1]))
    roles = ROLES if population.weights is None else {**ROLES, "weight": "weight"}
    tried: dict[str, object] = {"group_aware": True} if group_aware else {"grid": GRID, "parts": PARTS}
    bundle = produce(table, **roles, target=target, metric=metric, n_jobs=1, min_group_size=5, **tried)
    return _missed(bundle, partial(population.distance, metric=metric))


def calibrating_a_score(seed: int, *, n: int = 600, figure: str = "bound") -> bool:
    """Set thresholds on a score of few values, by all records; a rule on the cells is fixed before they are drawn."""
    population = few_scores()
    table = Table.from_frame(population.draw(n, np.random.default_rng([seed, 6])), sensitive="group", label=())
    scored = calibrate_score(table, "score", 0.25, shares=None, max_cells=6, ledger=False, min_group_size=5)
    by_cell = population.by_cell(scored.encoder).sum(axis=1)
    by_cell /= by_cell.sum(axis=1, keepdims=True)
    if figure == "rule":
        rule = np.arange(by_cell.shape[1]) % 2
        interval = scored.certificate.for_classifier(rule)
        return not interval.lower - ROUNDING <= abs(np.diff(by_cell @ rule)[0]) <= interval.upper + ROUNDING
    truth = _largest(by_cell)
    limit = getattr(scored.certificate, figure)
    return limit < truth - ROUNDING if figure == "bound" else limit > truth + ROUNDING


def _missed(bundle: Bundle, distance: Callable[[object], float]) -> bool:
    """Whether a published bound is too low; without a solution nothing is published."""
    return bundle.certificate is not None and bundle.certificate.bound < distance(bundle.encoder) - ROUNDING


def sweeping(population: Population, n: int, seed: int, *, metric: str = "demographic_parity") -> bool:
    """Certify a front together; all of its bounds must hold."""
    table = Table.from_frame(population.draw(n, np.random.default_rng([seed, 2])), **ROLES)
    frontier = sweep(table, GRID, metric=metric, n_jobs=1, min_group_size=5, parts=PARTS)
    return any(
        point.bound < population.distance(frontier.encoder(point), metric) - ROUNDING
        for point in frontier.points
        if point.certified
    )


def choosing_luck(population: Population, n: int, seed: int, *, group_aware: bool = False) -> bool:
    """Sweep without certifying, take the smallest predicted bound, certify that one."""
    roles = ROLES if population.weights is None else {**ROLES, "weight": "weight"}
    table = Table.from_frame(population.draw(n, np.random.default_rng([seed, 3])), **roles)
    tried: dict[str, object] = {"group_aware": True} if group_aware else {"grid": GRID, "parts": PARTS}
    frontier = sweep(table, correction="holdout", n_jobs=1, min_group_size=5, **tried)
    return _certify_smallest(frontier, population.distance)


def choosing_luck_in_a_panel(people: Panel, seed: int, *, population: str = "clusters") -> bool:
    """Do the same where every person has many records."""
    roles = {**ROLES, "cluster": "person"} | ({} if people.weights is None else {"weight": "weight"})
    table = Table.from_frame(people.draw(PANEL_PEOPLE, np.random.default_rng([seed, 4])), **roles)
    frontier = sweep(
        table, PANEL_GRID, correction="holdout", n_jobs=1, min_group_size=5, parts=PARTS,
        population=population,
    )  # fmt: skip
    return _certify_smallest(frontier, partial(people.distance, population=population))


def _certify_smallest(frontier: object, distance: Callable[[object], float]) -> bool:
    chosen = min(frontier.points, key=lambda point: point.bound)
    bound = frontier.certify(chosen).bound
    return bound < distance(frontier.encoder(chosen)) - ROUNDING


def fitting_a_panel(
    people: Panel, seed: int, *, target: float | None = None, population: str = "clusters", group_aware: bool = False
) -> bool:
    """Fit on a panel, with a target just below the truth of the candidates, or without one."""
    roles = {**ROLES, "cluster": "person"} | ({} if people.weights is None else {"weight": "weight"})
    table = people.draw(PANEL_PEOPLE, np.random.default_rng([seed, 5]))
    tried: dict[str, object] = {"group_aware": True} if group_aware else {"grid": PANEL_GRID, "parts": PARTS}
    bundle = produce(table, **roles, target=target, n_jobs=1, min_group_size=5, population=population, **tried)
    return _missed(bundle, partial(people.distance, population=population))


def fitting_crossed(
    people: Crossed, n: int, seed: int, *, target: float | None, stream: bool = False, **tried: object
) -> bool:
    """Fit for each of several attributes, or within products, with a target just below the truth."""
    from unittest.mock import patch

    table: object = people.draw(n, np.random.default_rng([seed, 11]))
    options = {**people.roles, "target": target, "n_jobs": 1, "min_group_size": 5, **tried}
    if not tried:
        options |= {"grid": GRID, **({} if stream else {"parts": PARTS})}
    with (
        patch("certifare.frontier.large.LARGE", 0 if stream else LARGE),
        patch("certifare.frontier.large.SAMPLE_RECORDS", n // 2),
    ):
        if stream:
            path = workplace() / "crossed.parquet"
            table.to_parquet(path, row_group_size=n // 3)
            table = path
        return _missed(produce(table, **options), people.distance)


@cache
def encoder_of_crossed(people: Crossed) -> tuple[FairTreeEncoder, Path]:
    """Fit an encoder of two cells once, on records of its own, and save it."""
    table = people.draw(4_000, np.random.default_rng(0))
    encoder = FairTreeEncoder(gamma=0.0, max_cells=2, min_cell_size=50)
    encoder.fit(table[people.kinds.columns], table["label"], sensitive_features=table[list(people.columns)])
    path = workplace() / f"crossed-{id(people)}.json"
    encoder.save(path)
    return encoder, path


def certifying_crossed(people: Crossed, n: int, seed: int, *, place: str = "file") -> bool:
    """``certifare certify encoder … --each`` or ``--given product``, wherever the fresh records are."""
    import duckdb

    encoder, encoder_file = encoder_of_crossed(people)
    table = people.draw(n, np.random.default_rng([seed, 12]))
    path, database = workplace() / "crossed-fresh.parquet", workplace() / f"crossed-{seed}.duckdb"
    table.to_parquet(path)
    where: list[object] = [path]
    options = people.options
    if place == "counts":
        where = [workplace() / "crossed-counts.json"]
        where[0].unlink(missing_ok=True)
        counted_by = [option for option in options[:-2] if option != "--each"]
        command("count", encoder_file, path, *counted_by, "--output", where[0])
    elif place == "DuckDB":
        with duckdb.connect(str(database)) as connection:
            connection.register("fresh", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
        where = ["--sql", f"duckdb:///{database}", "--table", "people"]
    elif place == "column":
        # The column is its own encoder of two cells: that is what the truth is computed for.
        name = encoder.columns_[encoder.growth_.splits[0].column].name
        where, encoder_file = ["--column", name], path
    try:
        result = command("certify", encoder_file, *where, *options)
    finally:
        database.unlink(missing_ok=True)
    return result["bound"] < people.distance(encoder) - ROUNDING


def monitoring_each(seed: int, *, records: int = 2_000) -> bool:
    """Watch two attributes for a year in which nothing changes; race is at the target, sex below it."""
    people, rng = crossed(), np.random.default_rng([seed, 78])
    encoder, _ = encoder_of_crossed(people)
    truth = {name: replace(people, columns={name: values}).distance(encoder) for name, values in people.columns.items()}

    def counts() -> CellCounts:
        table = people.draw(records, rng)
        return CellCounts.from_cells(encoder.apply(table[people.kinds.columns]), table[list(people.columns)], n_cells=2)

    certificate = issue(Evidence(counts()), Claim(each=tuple(people.columns)))
    year = History.begin(certificate, "0" * 64, target=max(truth.values()) + ROUNDING, planned=PERIODS)
    for period in range(PERIODS):
        year = year.add(str(period), counts())
    return any(
        f.refuted or f.moved or not f.lower - ROUNDING <= truth[f.course] <= f.bound + ROUNDING for f in year.findings()
    )


@cache
def encoder_of(population: Population, cells: int = 2) -> FairTreeEncoder:
    """Fit an encoder once, on records of its own."""
    table = population.draw(4_000, np.random.default_rng(0)).dropna()
    encoder = FairTreeEncoder(gamma=0.0, max_cells=cells, min_cell_size=50)
    return encoder.fit(table[population.kinds.columns], table["label"].astype(int), sensitive_features=table["group"])


@cache
def panel_encoder(people: Panel) -> FairTreeEncoder:
    """Fit one for a panel."""
    table = people.draw(PANEL_PEOPLE, np.random.default_rng(0))
    encoder = FairTreeEncoder(gamma=0.0, max_cells=2, min_cell_size=1_000)
    return encoder.fit(table[people.names], table["label"], sensitive_features=table["group"])


def certifying(
    population: Population,
    n: int,
    seed: int,
    *,
    cells: int = 2,
    metric: str = "demographic_parity",
    cap: float | None = None,
) -> bool:
    """Certify a given encoder on fresh records."""
    encoder = encoder_of(population, cells)
    table = population.draw(n, np.random.default_rng([seed, 6]))
    certificate = certify(
        encoder,
        table[population.kinds.columns],
        table["label"],
        sensitive_features=table["group"],
        weights=None if population.weights is None else table["weight"],
        cap=cap,
        metric=metric,
        min_group_size=5,
        missing="drop",
    )
    return certificate.bound < population.distance(encoder, metric) - ROUNDING


def certifying_a_panel(people: Panel, seed: int, *, population: str = "clusters") -> bool:
    """Certify a given encoder on the visits of fresh people."""
    encoder = panel_encoder(people)
    table = people.draw(PANEL_PEOPLE // 2, np.random.default_rng([seed, 7]))
    certificate = certify(
        encoder,
        table[people.names],
        sensitive_features=table["group"],
        clusters=table["person"],
        weights=None if people.weights is None else table["weight"],
        population=population,
        min_group_size=5,
    )
    return certificate.bound < people.distance(encoder, population) - ROUNDING


def certifying_households(seed: int, *, n: int = 40_000) -> bool:
    """Certify on households of one or four equal records, one of each kept."""
    population = replace(households(), weights=None)
    encoder = encoder_of(households(), 3)
    table = population.draw(n, np.random.default_rng([seed, 8]))
    household = np.repeat(np.arange(len(table)), np.where(table["x"] == 2, 4, 1))
    certificate = certify(
        encoder,
        table[["x"]].iloc[household],
        sensitive_features=table["group"].iloc[household],
        clusters=household,
    )
    return certificate.bound < population.distance(encoder) - ROUNDING


# -- the same on the command line: files, databases, counts of several holders -----------------------------------


def command(*arguments: object) -> dict[str, object]:
    """Run a command in this process and return what it prints as JSON."""
    from certifare.cli import app

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(typer.Exit):
        app([*map(str, arguments), "--json"], standalone_mode=False)
    return json.loads(printed.getvalue())


@cache
def workplace() -> Path:
    """Return a folder of this process."""
    return Path(tempfile.mkdtemp(prefix="guarantee-"))


@cache
def saved(population: Population) -> tuple[FairTreeEncoder, Path]:
    """Return a fitted encoder and its file."""
    encoder = encoder_of(population)
    path = workplace() / f"encoder-{id(population)}.json"
    encoder.save(path)
    return encoder, path


def drawn(population: Population, n: int, seed: int) -> pd.DataFrame:
    """Draw fresh records, each with a key."""
    table = population.draw(n, np.random.default_rng([seed, 9]))
    return table.assign(key=np.arange(len(table)))


def options_of(population: Population) -> list[str]:
    """Options that a population asks for."""
    options = ["--sensitive", "group", "--min-group-size", "5"]
    if population.times > 1:
        options += ["--cluster", "person"]
    return options + ([] if population.weights is None else ["--weight", "weight"])


def certifying_a_file(population: Population, n: int, seed: int, *, ending: str = "parquet") -> bool:
    """``certifare certify encoder fresh.parquet``."""
    encoder, encoder_file = saved(population)
    path, table = workplace() / f"fresh.{ending}", drawn(population, n, seed)
    table.to_parquet(path) if ending == "parquet" else table.to_csv(path, index=False)
    result = command("certify", encoder_file, path, *options_of(population))
    return result["bound"] < population.distance(encoder) - ROUNDING


def certifying_in_duckdb(population: Population, n: int, seed: int) -> bool:
    """``certifare certify encoder --sql duckdb:///… --table people``."""
    import duckdb

    encoder, encoder_file = saved(population)
    path = workplace() / f"people-{seed}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("fresh", drawn(population, n, seed))
        connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
    try:
        result = command(
            "certify", encoder_file, "--sql", f"duckdb:///{path}", "--table", "people", *options_of(population)
        )
    finally:
        path.unlink()
    return result["bound"] < population.distance(encoder) - ROUNDING


def adding_up_holders(population: Population, n: int, seed: int) -> bool:
    """Three holders count (``certifare count``), one party certifies their counts."""
    encoder, encoder_file = saved(population)
    table = drawn(population, n, seed)
    unit = table["person"] if population.times > 1 else table["key"]
    counts = []
    for holder in range(3):
        path = workplace() / f"holder-{holder}.parquet"
        table[unit % 3 == holder].to_parquet(path)
        counts.append(workplace() / f"holder-{holder}.json")
        counts[-1].unlink(missing_ok=True)
        options = options_of(population)[:2]
        if population.times > 1:
            options += ["--cluster", "person"]
        if population.weights is not None:
            options += ["--weight", "weight"]
            # Holders thin by one scale; within clusters nothing is thinned.
            options += [] if population.times > 1 else ["--max-weight", str(population.weights.max())]
        command("count", encoder_file, path, *options, "--output", counts[-1])
    result = command("certify", encoder_file, *counts, "--min-group-size", "5")
    return result["bound"] < population.distance(encoder) - ROUNDING


def fitting_where_it_is(
    population: Population,
    n: int,
    seed: int,
    *,
    target: float | None = None,
    dask: bool = False,
    group_aware: bool = False,
) -> bool:
    """Do the whole job on a Parquet file as if it were too large for memory, as a stream or on a Dask cluster."""
    from unittest.mock import patch

    path = workplace() / "large.parquet"
    population.draw(n, np.random.default_rng([seed, 10])).to_parquet(path, row_group_size=n // 3)
    table: object = path
    if dask:
        import dask.dataframe as dd

        cluster()
        table = dd.read_parquet(path, split_row_groups=True)
    with (
        patch("certifare.frontier.large.LARGE", 0),
        patch("certifare.frontier.large.SAMPLE_RECORDS", n // 2),
        patch("certifare.engines.thresholds.MOST_LISTED", n // 10),
    ):
        options = {"group_aware": True, "grid": Grid(cells=[2, 3, 4])} if group_aware else {"grid": GRID}
        bundle = produce(table, **ROLES, **options, target=target, n_jobs=1, min_group_size=5)
    assert any("were certified on where they are" in note for note in bundle.notes)
    return _missed(bundle, population.distance)


@cache
def cluster() -> object:
    """Start a cluster of local workers."""
    import distributed

    workers = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", silence_logs=50
    )
    client = distributed.Client(workers)
    atexit.register(lambda: (client.close(), workers.close()))
    return client


def working_on_dask(population: Population, n: int, seed: int) -> bool:
    """Fit and certify on a Dask cluster."""
    import dask.dataframe as dd

    cluster()
    train, fresh = (
        dd.from_pandas(population.draw(n, np.random.default_rng([seed, 11, part])), npartitions=2) for part in range(2)
    )
    columns = list(population.kinds.columns)
    encoder = FairTreeEncoder(gamma=0.0, max_cells=3, min_cell_size=50)
    encoder.fit(train[columns], train["label"], sensitive_features=train["group"])
    certificate = certify(encoder, fresh[columns], sensitive_features=fresh["group"], min_group_size=5)
    return certificate.bound < population.distance(encoder) - ROUNDING


# -- what once went wrong: each of these paths missed far more often before it was mended --------------------


@cache
def ladder(steps: int = 40) -> Population:
    """One column of many values, by which every threshold divides the groups a little; the label goes with it."""
    place = (np.arange(steps) + 0.5) / steps
    shares = np.empty((2, 2, steps))
    for s in range(2):
        density = 1.0 + 0.35 * (2 * s - 1) * np.cos(np.pi * place)
        shares[s, 1] = density / density.sum() * (0.2 + 0.6 * place)
        shares[s, 0] = density / density.sum() * (0.8 - 0.6 * place)
    return Population(pd.DataFrame({"x": np.arange(steps)}), shares)


def fitting_a_fixed_shape(per_group: int, seed: int, *, shuffled: bool = False) -> bool:
    """Fit on tables that all have the same numbers of records in each group, sorted or shuffled."""
    rng = np.random.default_rng([seed, 20])
    population = ladder()
    parts = []
    for s, of_group in enumerate(population.shares):
        joint = np.sort(rng.choice(of_group.size, per_group, p=of_group.ravel()))
        kind, label = joint % of_group.shape[1], joint // of_group.shape[1]
        parts.append(pd.DataFrame({"x": kind, "group": s, "label": label}).sort_values(["x", "label"]))
    table = pd.concat(parts, ignore_index=True)
    if shuffled:
        table = table.sample(frac=1.0, random_state=rng.integers(2**32)).reset_index(drop=True)
    grid = Grid(kinds=["tree"], gammas=[0.0], min_cell_sizes=[20], cells=[2])
    return _missed(produce(table, **ROLES, grid=grid, n_jobs=1, min_group_size=5), population.distance)


@cache
def exact_certificate(cells: int = 9, distance: float = 0.3) -> tuple[object, Path, Population]:
    """Make a certificate whose T* is (all but) the true distance, and say where its encoder is."""
    from certifare.document import make_statement, sign
    from certifare.encoders.existing import column_encoder

    p = np.full((2, cells), 1.0 / cells)
    p[1, : cells // 2] += distance / (cells // 2)
    p[1, cells // 2 :] -= distance / (cells - cells // 2)
    encoder = column_encoder(list(map(str, range(cells))), name="x")
    path = workplace() / "exact-encoder.json"
    encoder.save(path)
    counts = np.zeros((encoder.n_cells_, 2), dtype=np.int64)
    counts[:cells] = np.rint(p.T * 2e9).astype(np.int64)
    certificate = certify_counts(CellCounts(counts, ["0", "1"]))
    words = certify(encoder, pd.DataFrame({"x": ["0", "1"] * 40}), sensitive_features=np.repeat([0, 1], 40)).assumptions
    import msgspec

    certificate = msgspec.structs.replace(certificate, assumptions=words)
    from certifare.document import digest

    statement = make_statement(certificate, encoder_digest=digest(path))
    population = Population(pd.DataFrame({"x": list(map(str, range(cells)))}), np.stack([p, p], axis=1) / 2)
    return sign(statement, None), path, population


def verifying_fresh_records(seed: int, *, per_group: int = 1_000) -> bool:
    """``verify --data``: the verifier's own records contradict a certificate whose T* is the truth."""
    from certifare.document import verify_document

    document, path, population = exact_certificate()
    rng = np.random.default_rng([seed, 21])
    kinds = [np.sort(rng.choice(len(population.kinds), per_group, p=s.sum(axis=0))) for s in population.shares]
    table = pd.DataFrame({"x": np.concatenate(kinds).astype(str), "group": np.repeat([0, 1], per_group)})
    data = Table.from_frame(table, sensitive="group", features=("x",))
    verdict = verify_document(document, certifare.Policy(min_confidence=0.0), encoder=path, data=data)
    found = {check.name: check.ok for check in verdict.checks}
    assert "data" in found, verdict
    return found["data"] is False


def looking_again(seed: int, *, models: int = 20, n: int = 2_000) -> bool:
    """Certify twenty useless models, each a column of one file: one claims 95 % for all that was looked at, and fails.

    Every column has a distance just above the target. A miss is a bound below the truth whose joint confidence is 95 %.
    """
    rng = np.random.default_rng([seed, 22])
    group = np.sort(rng.integers(0, 2, n))
    truth = 0.1
    columns = {f"d{i}": (rng.random(n) < 0.5 + truth * (group - 0.5)).astype(int) for i in range(models)}
    path = workplace() / "scored.csv"
    pd.DataFrame({"id": rng.permutation(10**6)[:n], "group": group, **columns}).to_csv(path, index=False)
    missed = False
    with tempfile.TemporaryDirectory() as state:
        before = os.environ["CERTIFARE_STATE"]
        os.environ["CERTIFARE_STATE"] = state
        try:
            for name in columns:
                found = command("certify", path, "--column", name, "--sensitive", "group")
                joint = found["confidence"] - found["spent"]
                missed |= found["bound"] < truth - ROUNDING and joint >= 1 - EPSILON - ROUNDING
        finally:
            os.environ["CERTIFARE_STATE"] = before
    return missed


def fitting_two_labels(seed: int, *, n: int = 3_000) -> bool:
    """Fit with a second label that is missing for the records that differ between the groups."""
    population = even_columns()
    table = population.draw(n, np.random.default_rng([seed, 23]))
    # The second label is known where the first column does not tell the groups apart.
    rng = np.random.default_rng([seed, 24])
    one = table["x0"] + table["x1"] + table["x2"] + table["x3"] + table["x4"] + table["x5"]
    agrees = (one >= 3) == (table["group"] == 0)
    table["other"] = np.where(agrees | (rng.random(n) < 0.4), table["x1"].astype(float), np.nan)
    bundle = produce(
        table, label=["label", "other"], sensitive="group", metric="equal_opportunity", target=0.1999, grid=GRID,
        n_jobs=1, min_group_size=5, parts=PARTS,
    )  # fmt: skip
    return _missed(bundle, partial(population.distance, metric="equal_opportunity"))


def certifying_new_values(seed: int, *, n: int = 2_000) -> bool:
    """Certify the encoder of a column on records that have values it does not know, one for each group."""
    from certifare.encoders.existing import column_encoder

    path = workplace() / "column-encoder.json"
    if not path.exists():
        column_encoder(["a", "b"], name="x").save(path)
    rng = np.random.default_rng([seed, 25])
    group = np.sort(rng.integers(0, 2, n))
    new = rng.random(n) < 0.3
    x = np.where(new, np.where(group == 1, "c", "d"), rng.choice(["a", "b"], n))
    fresh = workplace() / "fresh-values.csv"
    pd.DataFrame({"x": x, "group": group}).to_csv(fresh, index=False)
    found = command("certify", path, fresh, "--sensitive", "group")
    return found["bound"] < 0.3 - ROUNDING


def draw_people(rng: np.random.Generator, people: int, *, visits: int = 1) -> pd.DataFrame:
    """Draw people with two measurements each, who come up to so many times, each time with the same record."""
    table = even_columns().draw(people, rng).assign(first=rng.normal(size=people), second=rng.normal(size=people))
    return table.loc[np.repeat(np.arange(people), rng.integers(1, visits + 1, people))].reset_index(drop=True)


@cache
def many_people() -> pd.DataFrame:
    """So many people that they stand for all."""
    return draw_people(np.random.default_rng(99), 400_000)


def distance_by_sample(encoder: object) -> float:
    """Estimate the true distance from below, on so many people that it is 0.005 off at most."""
    people = many_people()
    cells = encoder.apply(people[MEASURED])
    by_cell = [np.bincount(cells[people["group"] == s], minlength=encoder.n_cells_) for s in range(2)]
    return _largest(np.stack(by_cell).astype(float)) - 0.005


MEASURED = [*(f"x{i}" for i in range(6)), "first", "second"]


def fitting_visits(seed: int) -> bool:
    """Fit on visits of which nobody says whose they are."""
    table = draw_people(np.random.default_rng([seed, 26]), 500, visits=5)
    bundle = produce(table, **ROLES, grid=GRID, n_jobs=1, min_group_size=5)
    return _missed(bundle, distance_by_sample)


@cache
def encoder_of_measurements() -> FairTreeEncoder:
    """Fit an encoder on people who come once."""
    table = draw_people(np.random.default_rng(98), 4_000)
    encoder = FairTreeEncoder(gamma=0.0, max_cells=2, min_cell_size=50)
    return encoder.fit(table[MEASURED], table["label"], sensitive_features=table["group"])


def certifying_visits(seed: int) -> bool:
    """Certify on visits of which nobody says whose they are."""
    encoder = encoder_of_measurements()
    table = draw_people(np.random.default_rng([seed, 27]), 200, visits=5)
    certificate = certify(encoder, table[MEASURED], sensitive_features=table["group"], min_group_size=5)
    return certificate.bound < distance_by_sample(encoder)


def counting_every_month(seed: int, *, months: int = 5, fixed: int = 5) -> bool:
    """Count a panel every month with a script that always names the same seed, and monitor the counts.

    Nothing changes: any movement that is found, and any limit that is wrong, is a miss.
    """
    people = panel()
    encoder = panel_encoder(people)
    truth = people.distance(encoder)
    with tempfile.TemporaryDirectory() as folder:
        bundle, visits, counts = Path(folder, "bundle"), Path(folder, "month.parquet"), Path(folder, "month.json")
        bundle.mkdir()
        encoder.save(bundle / "encoder.json")
        drawn_by = ("--sensitive", "group", "--cluster", "person", "--seed", fixed)
        for month in range(months):
            people.draw(PANEL_PEOPLE, np.random.default_rng([seed, 28, month])).to_parquet(visits)
            if month == 0:
                command("certify", bundle, visits, *drawn_by, "-o", bundle / "certificate.json")
                continue
            counts.unlink(missing_ok=True)
            command("count", bundle, visits, "--seed", fixed, "-o", counts)
            history = ("--history", Path(folder, "history.json"), "--period", month, "--periods", months)
            found = command("monitor", bundle, counts, "--target", truth, *history)["periods"][-1]
            if found["moved"] or found["lower"] > truth + ROUNDING or found["bound"] < truth - ROUNDING:
                return True
    return False


def delivering_the_useless(seed: int, *, n: int = 1_500) -> bool:
    """Fit where a column predicts next to nothing, and look at delivered certificates alone."""
    population = faint_columns()
    for attempt in itertools.count():
        table = population.draw(n, np.random.default_rng([seed, 29, attempt]))
        with contextlib.suppress(ArgumentError):  # the column seems to tell nothing at all
            bundle = produce(table, **ROLES, grid=FAINT_GRID, n_jobs=1, min_group_size=5)
            if bundle.certificate is not None:
                return _missed(bundle, population.distance)
        if attempt == 200:
            return False
    raise AssertionError


@cache
def faint_columns() -> Population:
    """One column that predicts the label better, the less it divides the groups in a sample.

    Within a group it goes with the label, between the groups against it, and both all but cancel.
    """
    shares = np.empty((2, 2, 2))
    for s in range(2):
        for y in range(2):
            one = 0.5 - 0.2 * (s - 0.5) + 0.18 * (y - 0.5)
            shares[s, y] = (0.9 if s == y else 0.1) * np.array([1 - one, one])
    return Population(pd.DataFrame({"x": [0, 1]}), shares)


FAINT_GRID = Grid(kinds=["tree"], gammas=[0.0], min_cell_sizes=[20], cells=[2])


def measuring_rare_labels(seed: int, *, n: int = 600, rate: float = 0.02) -> bool:
    """Bound the AUC of scores that take a few values, where few records have the label: a limit misses the truth."""
    from certifare.frontier.utility import Performance

    rng = np.random.default_rng([seed, 30])
    scores = np.array([0.005, 0.01, 0.02, 0.05, 0.2])
    p = np.array([[0.5, 0.3, 0.1, 0.07, 0.03], [0.05, 0.1, 0.15, 0.3, 0.4]])
    labels = rng.random(n) < rate
    if labels.sum() in (0, n):
        return False
    counts = np.stack([rng.multinomial(n - labels.sum(), p[0]), rng.multinomial(labels.sum(), p[1])], axis=1)
    found = Performance.of([np.stack([1 - scores, scores], axis=1)], [np.array([1 - rate, rate])], [counts], 0.95)
    truth = sum(p[1, i] * (p[0, :i].sum() + p[0, i] / 2) for i in range(5))
    return found.auc is not None and not found.auc.lower - ROUNDING <= truth <= found.auc.upper + ROUNDING


# -- fixed sequences --------------------------------------------------------------------------------------------------


def walking(length: int, seed: int, *, alike: float = 0.0, safe: int = 0, lower: bool = False) -> bool:
    """Walk along encoders of two cells: the first ``safe`` ones well below the target, the others just above it.

    ``alike`` is the share of records on which all encoders decide alike. With ``lower``, the lower limit of the last
    that passed is judged, which was chosen by the walk.
    """
    rng = np.random.default_rng([seed, 13])
    target, n = 0.2, (700, 500)
    truth = np.where(np.arange(length) < safe, 0.1, target + 1e-4)
    cells = []
    for sign, size in zip((1, -1), n, strict=True):
        common, own = rng.random(size)[:, None], rng.random((size, length))
        place = np.where(rng.random((size, 1)) < alike, common, own)
        cells.append(place < 0.5 + sign * truth / 2)
    tables = [
        CellCounts(np.array([[c[:, i].sum() for c in cells], [(~c[:, i]).sum() for c in cells]]), "fm")
        for i in range(length)
    ]
    walked = FixedSequence.walk(tables, target)
    if not walked.passed:
        return False
    certificate = certify_counts(tables[walked.passed - 1], sequence=walked, witness=CellCounts([[9, 1], [1, 9]], "fm"))
    if lower:
        return certificate.lower > truth[walked.passed - 1] + ROUNDING
    return certificate.bound < truth[walked.passed - 1] - ROUNDING


# -- what follows from a certificate ----------------------------------------------------------------------------------


def deriving(claim: str, metric: str, seed: int) -> bool:
    """Derive another figure from a certificate, where the derived claim exists for the metric."""
    rng = np.random.default_rng([seed, 12])
    # Labels are far apart between the groups, cells tell the label equally well in both: only label metrics are small.
    of_cell = np.array([[0.95, 0.05], [0.05, 0.95]])  # label × cell
    of_label = np.array([[0.1, 0.9], [0.9, 0.1]])  # group × label
    if claim != "impact ratio":
        of_label = np.array([[0.8, 0.2], [0.8, 0.2]])
    shares = of_label[:, :, None] * of_cell[None]
    sample = np.stack([rng.multinomial(2_000, shares[s].ravel()).reshape(2, 2) for s in range(2)])
    certificate = certify_counts(CellCounts(sample.transpose(2, 0, 1), "fm", "01"), metric)
    if claim == "impact ratio":
        rates = shares[:, :, 1].sum(axis=1)
        return certificate.impact_ratio(float(rates.max())) > rates.min() / rates.max() + ROUNDING
    if claim == "shift":
        # A tenth of one group moves, all of it among its positives.
        moved = shares.copy()
        moved[0, 1] = moved[0, 1] + np.array([0.1, -0.1])
        return certificate.under_shift({"f": 0.1, "m": 0.0}) < distance_of(moved, metric) - ROUNDING
    raise ValueError(claim)


# -- the paths -----------------------------------------------------------------------------------------------------


PERIODS, RECORDS = 12, 5_000


def monitored_cells(rng: np.random.Generator, cells: int = 20, distance: float = 0.05) -> np.ndarray:
    """Draw the distributions of the cells of two groups with this distance."""
    first = rng.dirichlet(np.full(cells, 4.0))
    return np.stack([first, moved(first, distance, rng.permutation(cells) < cells // 2)])


def moved(shares: np.ndarray, distance: float, up: np.ndarray) -> np.ndarray:
    """Move so much of a distribution from the other cells into these."""
    return np.where(up, shares * (1 + distance / shares[up].sum()), shares * (1 - distance / shares[~up].sum()))


def counted(rng: np.random.Generator, shares: np.ndarray, n: int) -> CellCounts:
    """Count n records, half of each group."""
    return CellCounts(np.stack([rng.multinomial(n // 2, p) for p in shares], axis=1), ["f", "m"])


def monitoring(
    seed: int, *, planned: int | None = PERIODS, training: bool = True, candidates: int = 1, target: float = 0.05
) -> bool:
    """Watch a certificate for a year in which nothing changes: any alarm, or any limit that is wrong, is a miss.

    The distance is the target: a lower limit above the truth is an alarm. With several candidates, the encoder with the
    smallest distance on the certification records is taken, so that these look better than they are.
    """
    rng = np.random.default_rng([seed, 77])
    encoders = [monitored_cells(rng, distance=target) for _ in range(candidates)]
    samples = [counted(rng, shares, 8_000) for shares in encoders]
    certificates = [certify_counts(sample, candidates=candidates) for sample in samples]
    best = min(range(candidates), key=lambda i: certificates[i].estimate)
    known = counted(rng, encoders[best], 20_000) if training else None
    year = History.begin(certificates[best], "0" * 64, target=target, planned=planned, training=known)
    for period in range(PERIODS):
        year = year.add(str(period), counted(rng, encoders[best], RECORDS))
        finding = year.latest()
        if finding.refuted or finding.moved or finding.bound < target - ROUNDING:
            return True
    return False


def periods_until_found(seed: int, *, cells: int, drift: float, begins: int, training: bool = True) -> int | None:
    """Say in which period after it begins a drift of one group's cells is found; None: not within the year."""
    rng = np.random.default_rng([seed, 78])
    before = monitored_cells(rng, cells, 0.02)
    after = np.stack([before[0], moved(before[1], drift, rng.permutation(cells) < cells // 2)])
    known = counted(rng, before, 20_000) if training else None
    certificate = certify_counts(counted(rng, before, 8_000))
    year = History.begin(certificate, "0" * 64, target=0.2, planned=PERIODS, training=known)
    for period in range(1, PERIODS + 1):
        year = year.add(str(period), counted(rng, after if period >= begins else before, RECORDS))
        if period >= begins and year.latest().moved:
            return period - begins + 1
    return None


def drifts(years: int) -> None:
    """Print how soon a drift is found."""
    print("| cells | drift | begins in period | statistics | found in (median period) | found in the year |")
    print("|--:|--:|--:|---|--:|--:|")
    for cells, drift, begins, training in (
        (10, 0.05, 1, True),
        (20, 0.05, 1, True),
        (20, 0.05, 1, False),
        (20, 0.05, 6, True),
        (20, 0.1, 1, True),
        (50, 0.05, 1, True),
    ):
        job = partial(periods_until_found, cells=cells, drift=drift, begins=begins, training=training)
        found = [job(seed) for seed in range(years)]
        median = np.median([np.inf if period is None else period for period in found])
        share = sum(period is not None for period in found) / years
        words = "published" if training else "left out"
        print(f"| {cells} | {drift} | {begins} | {words} | {median:g} | {share:.0%} |", flush=True)


@dataclass(frozen=True)
class Track:
    """One way through the program, and how many jobs of it are run.

    Attributes
    ----------
    name : str
    jobs : int
    job : callable
        Told a seed; says whether the published figure is below the truth. A claim that does not exist for what was
        asked raises an error: it is refused, which is no miss.
    """

    name: str
    jobs: int
    job: Callable[[int], bool]


def tracks() -> Iterator[Track]:
    """Every path."""
    plain, five, weighted, unlabelled = even_columns(), even_columns(5), weighted_columns(), unlabelled_columns()
    for metric in METRICS:
        yield Track(f"fit to a target, {metric}", 800, partial(fitting, plain, 1_500, metric=metric, target=0.1999))
        yield Track(f"fit without a target, {metric}", 400, partial(fitting, plain, 1_500, metric=metric))
        yield Track(f"sweep, {metric}", 400, partial(sweeping, plain, 1_500, metric=metric))
    for metric in ("demographic_parity", "equal_opportunity"):
        job = partial(fitting, plain, 1_500, metric=metric, target=0.1999, group_aware=True)
        yield Track(f"fit to a target, group-aware, {metric}", 300, job)
    for words, population, n, target in (("five groups", five, 3_000, 0.25), ("weights", weighted, 6_000, 0.1999)):
        job = partial(fitting, population, n, target=target, group_aware=True)
        yield Track(f"fit to a target, group-aware, {words}", 300, job)
    for figure, words in (("bound", "T\\*"), ("lower", "lower limit"), ("rule", "interval of one classifier")):
        job = partial(calibrating_a_score, figure=figure)
        yield Track(f"calibrate, a score of five values, {words}", 1_000, job)
    yield Track("fit without a target, group-aware", 200, partial(fitting, plain, 1_500, group_aware=True))
    yield Track(
        "sweep, smallest prediction certified, group-aware", 300, partial(choosing_luck, plain, 1_500, group_aware=True)
    )
    yield Track("sweep, smallest prediction certified", 1_000, partial(choosing_luck, plain, 1_500))
    yield Track("fit to a target, five groups", 500, partial(fitting, five, 3_000, target=0.1999))
    yield Track(
        "fit without a target, five groups, equalized_odds_max", 300,
        partial(fitting, five, 4_000, metric="equalized_odds_max"),
    )  # fmt: skip
    yield Track("fit to a target, weights", 800, partial(fitting, weighted, 3_000, target=0.1999))
    yield Track("sweep, smallest prediction certified, weights", 1_000, partial(choosing_luck, weighted, 3_000))
    yield Track("fit to a target, capped weights", 400, partial(fitting, heavy_tails(), 3_000, target=0.1999))
    yield Track("fit without a target, capped weights", 200, partial(fitting, heavy_tails(), 3_000))
    yield Track(
        "sweep, smallest prediction certified, capped weights", 300, partial(choosing_luck, heavy_tails(), 3_000)
    )
    yield Track("fit to a target, clusters", 800, partial(fitting_a_panel, panel(), target=0.2499))
    yield Track("fit without a target, clusters", 400, partial(fitting_a_panel, panel()))
    yield Track("sweep, smallest prediction certified, clusters", 1_000, partial(choosing_luck_in_a_panel, panel()))
    yield Track(
        "sweep, smallest prediction certified, clusters of all records", 500,
        partial(choosing_luck_in_a_panel, panel(leaves_early=0.5), population="records"),
    )  # fmt: skip
    yield Track(
        "fit to a target, clusters and weights", 500, partial(fitting_a_panel, panel(weighted=True), target=0.2499)
    )
    yield Track("fit without a target, some labels unknown", 500, partial(fitting, unlabelled, 1_500))
    yield Track(
        "fit without a target, some labels unknown, equal_opportunity", 300,
        partial(fitting, unlabelled, 3_000, metric="equal_opportunity"),
    )  # fmt: skip
    yield Track(
        "fit to a target, group-aware, clusters",
        300,
        partial(fitting_a_panel, panel(), target=0.2499, group_aware=True),
    )
    each, given = crossed(), within_products()
    yield Track("fit to a target, each of two attributes", 500, partial(fitting_crossed, each, 2_000, target=0.1999))
    yield Track("fit without a target, each of two attributes", 200, partial(fitting_crossed, each, 2_000, target=None))
    yield Track(
        "fit to a target, each of two attributes, group-aware", 200,
        partial(fitting_crossed, each, 3_000, target=0.1999, group_aware=True),
    )  # fmt: skip
    yield Track("fit to a target, given a column", 500, partial(fitting_crossed, given, 4_000, target=0.4999))
    yield Track("fit without a target, given a column", 200, partial(fitting_crossed, given, 4_000, target=None))
    yield Track(
        "fit to a target, given a column, stream", 200,
        partial(fitting_crossed, given, 4_000, target=0.4999, stream=True),
    )  # fmt: skip
    for length in (2, 6, 12):
        for words, alike in (("independent", 0.0), ("correlated", 0.9)):
            name = f"sequence of {length} encoders, {words}"
            yield Track(f"{name}, all just above the target", 1_000, partial(walking, length, alike=alike))
            half = partial(walking, length, alike=alike, safe=length // 2)
            yield Track(f"{name}, the second half just above the target", 1_000, half)
    yield Track("sequence of 12 encoders, lower limit", 1_000, partial(walking, 12, safe=12, lower=True))
    # With two cells the exact bound is sharp here: its own rate is close to 5 %, so it takes many jobs to see it.
    yield Track("certify, exact", 4_000, partial(certifying, plain, 600))
    yield Track("certify, exact, weights", 400, partial(certifying, households(), 6_000, cells=3))
    yield Track("certify, exact, clusters", 150, certifying_households)
    yield Track("certify, exact, capped weights", 400, partial(certifying, heavy_tails(), 3_000, cap=1.0))
    yield Track(
        "certify, capped weights, one group with a heavier tail", 400,
        partial(certifying, heavy_tails((0.006, 0.001)), 3_000, cap=1.0),
    )  # fmt: skip
    for metric in METRICS[1:]:
        yield Track(
            f"certify, capped weights, {metric}", 200, partial(certifying, heavy_tails(), 3_000, metric=metric, cap=1.0)
        )
        yield Track(f"certify, {metric}", 500, partial(certifying, plain, 800, metric=metric))
    yield Track("certify, five groups", 500, partial(certifying, five, 2_000))
    yield Track("certify, some labels unknown", 500, partial(certifying, unlabelled, 600))
    yield Track("certify, panel", 1_000, partial(certifying_a_panel, panel()))
    yield Track(
        "certify, panel with weights, all records", 500,
        partial(certifying_a_panel, panel(weighted=True, leaves_early=0.5), population="records"),
    )  # fmt: skip
    yield Track("command certify, DuckDB", 200, partial(certifying_in_duckdb, plain, 600))
    for name, population, n in (
        ("", plain, 600),
        (", weights", weighted, 1_500),
        (", clusters", repeated(), 600),
        (", clusters and weights", repeated(weighted=True), 1_500),
    ):
        yield Track(f"command certify, a file{name}", 200, partial(certifying_a_file, population, n))
        yield Track(f"command certify, counts of three holders{name}", 150, partial(adding_up_holders, population, n))
    for name, people, n in (("each of two attributes", each, 600), ("given a column", given, 1_500)):
        for place in ("file", "DuckDB", "counts", "column"):
            jobs = 600 if place == "file" else 200
            yield Track(f"command certify, {name}, {place}", jobs, partial(certifying_crossed, people, n, place=place))
    yield Track("fit to a target, stream", 500, partial(fitting_where_it_is, plain, 3_000, target=0.1999))
    labels_unknown = partial(fitting_where_it_is, unlabelled, 3_000)
    yield Track("fit without a target, stream, some labels unknown", 300, labels_unknown)
    job = partial(fitting_where_it_is, plain, 3_000, group_aware=True)
    yield Track("fit without a target, group-aware, stream", 200, job)
    on_dask = partial(fitting_where_it_is, plain, 3_000, dask=True)
    yield Track("fit to a target, Dask", 300, partial(on_dask, target=0.1999))
    yield Track("fit without a target, Dask", 200, on_dask)
    yield Track("fit without a target, group-aware, Dask", 200, partial(on_dask, group_aware=True))
    yield Track("fit and certify on Dask", 200, partial(working_on_dask, plain, 600))
    for per_group in (400, 920):
        for order, shuffled in (("sorted", False), ("shuffled", True)):
            name = f"fit, 2 × {per_group} records in each table, {order}"
            yield Track(name, 400, partial(fitting_a_fixed_shape, per_group, shuffled=shuffled))
    yield Track("verify --data, T* is the truth", 1_000, verifying_fresh_records)
    yield Track("certify --column, twenty useless models of one file", 60, looking_again)
    yield Track("fit to a target, a second label missing, equal_opportunity", 300, fitting_two_labels)
    yield Track("certify, values of a column that were not there", 50, certifying_new_values)
    yield Track("fit, people with one to five equal records", 100, fitting_visits)
    yield Track("certify, people with one to five equal records", 100, certifying_visits)
    yield Track("count every month with one seed, clusters", 60, counting_every_month)
    yield Track("fit, a column that predicts next to nothing, what is delivered", 200, delivering_the_useless)
    yield Track("AUC of a rare label", 2_000, measuring_rare_labels)
    yield Track("monitoring, a year of 12 planned periods", 300, monitoring)
    yield Track("monitoring, no end planned", 150, partial(monitoring, planned=None))
    yield Track("monitoring, statistics of the encoder left out", 150, partial(monitoring, training=False))
    yield Track("monitoring, the luckiest of 8 encoders", 150, partial(monitoring, candidates=8))
    yield Track("monitoring, each of two attributes", 150, monitoring_each)
    for metric in METRICS:
        yield Track(f"impact ratio, {metric}", 150, partial(deriving, "impact ratio", metric))
        yield Track(f"shift, {metric}", 150, partial(deriving, "shift", metric))


@dataclass(frozen=True)
class Outcome:
    """What came of the jobs of one path: None where the claim was refused."""

    name: str
    jobs: int
    misses: int | None
    seconds: float

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval of the miss rate (Clopper and Pearson)."""
        assert self.misses is not None
        low = 0.0 if self.misses == 0 else float(beta.ppf(0.025, self.misses, self.jobs - self.misses + 1))
        high = 1.0 if self.misses == self.jobs else float(beta.ppf(0.975, self.misses + 1, self.jobs - self.misses))
        return low, high

    @property
    def holds(self) -> bool:
        """Whether the jobs are compatible with a miss rate of at most ε."""
        return self.misses is None or self.interval[0] <= EPSILON


def run(track: Track, jobs: int, first: int = 0) -> Outcome:
    """Run jobs of a path, one after the other."""
    begun = time.perf_counter()
    misses = 0
    for seed in range(first, first + jobs):
        try:
            misses += bool(track.job(seed))
        except CertifareError:
            if seed == first:
                return Outcome(track.name, 0, None, time.perf_counter() - begun)
            raise
    return Outcome(track.name, jobs, misses, time.perf_counter() - begun)


def _run_named(name: str, jobs: int, first: int) -> Outcome:
    return run(next(track for track in tracks() if track.name == name), jobs, first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[""], help="run the paths whose name contains one of these")
    parser.add_argument("--skip", nargs="*", default=[], help="leave out the paths whose name contains one of these")
    parser.add_argument("--share", type=float, default=1.0, help="share of the jobs to run")
    parser.add_argument(
        "--drift", type=int, metavar="YEARS", help="say instead how soon a drift is found, by monitoring"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", type=Path, help="write the table into this page, behind its marker")
    options = parser.parse_args()
    if options.drift is not None:
        drifts(options.drift)
        return
    begun = time.perf_counter()
    chosen = [
        track
        for track in tracks()
        if any(part in track.name for part in options.only) and not any(part in track.name for part in options.skip)
    ]
    outcomes = []
    # Fresh processes: a fork of one that has threads (Arrow, Dask, numba) is not safe.
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        pending = []
        for track in chosen:
            jobs = max(1, round(track.jobs * options.share))
            # Pieces keep all processes busy; each job's seed is its number, so pieces do not change the result.
            step = max(1, min(50, jobs // options.processes or 1))
            pending.append([pool.submit(_run_named, track.name, min(step, jobs - a), a) for a in range(0, jobs, step)])
        for track, pieces in zip(chosen, pending, strict=True):
            parts = [piece.result() for piece in pieces]
            refused = any(part.misses is None for part in parts)
            outcome = Outcome(
                track.name,
                sum(part.jobs for part in parts),
                None if refused else sum(part.misses for part in parts),
                sum(part.seconds for part in parts),
            )
            outcomes.append(outcome)
            print(row(outcome), flush=True)
            if options.write is not None:
                write(options.write, outcomes)
    jobs = sum(outcome.jobs for outcome in outcomes)
    bad = [outcome.name for outcome in outcomes if not outcome.holds]
    print(f"{jobs:,} jobs on {len(outcomes)} paths in {(time.perf_counter() - begun) / 60:.0f} minutes")
    if bad:
        sys.exit(f"misses above {EPSILON:.0%}: {', '.join(bad)}")


def write(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the table into a page; rows of paths that were not run stay."""
    text, _, table = page.read_text(encoding="utf-8").partition(MARKER)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    rows |= {outcome.name: row(outcome) for outcome in outcomes}
    lines = [rows[track.name] for track in tracks() if track.name in rows]
    jobs = sum(int(line.split("|")[2].replace(",", "").strip() or 0) for line in lines)
    lacking = sum(track.name not in rows for track in tracks())
    others = f"; {lacking} paths have not been run at this size yet (the tests run all)" if lacking else ""
    summary = f"{jobs:,} jobs on {len(lines)} paths, certifare {certifare.__version__}, {date.today()}{others}:"
    head = "| path | jobs | misses | rate | 95 % interval |\n|---|--:|--:|--:|---|"
    first = next((i for i, line in enumerate(lines) if line.startswith("| sequence")), len(lines))
    parts = [["### Fit and sweep", "", head, *lines[:first]], ["### Everything else", "", head, *lines[first:]]]
    tables = "\n\n".join("\n".join(part) for part in parts if len(part) > 3)
    page.write_text(f"{text}{MARKER}\n\n{summary}\n\n{tables}\n", encoding="utf-8")


def row(outcome: Outcome) -> str:
    """Write an outcome as a row of a table."""
    if outcome.misses is None:
        return f"| {outcome.name} | | | | the claim is refused |"
    low, high = outcome.interval
    rate = outcome.misses / outcome.jobs
    return f"| {outcome.name} | {outcome.jobs:,} | {outcome.misses} | {rate:.1%} | {low:.1%} to {high:.1%} |"


if __name__ == "__main__":
    main()
