"""Metrics: which records a distance is about, and how the distances of several groups and labels combine.

A metric takes the records apart into *strata* (all of them, or those of one label). In each stratum the distance
of two groups is the total variation distance of their cells; the stratum's distance is the largest over pairs of
groups, and the metric's is the largest, or the mean, over strata.

A largest distance costs no share of ε: which pair is worst is a fact of the population, and the maximum of the
pairs' bounds is at least the bound of that one pair. A mean needs all of its terms, so ε is divided among them.

A :class:`Claim` says all that is asked of a certificate before any record is counted: the metric, how surely it is to
be bounded and by which method, and about whom. It travels as one value, and is checked once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates.calibrated import Gaps, check_metric
from certifare.certificates.counts import CellCounts
from certifare.certificates.exact import check_epsilon, epsilon_at
from certifare.certificates.tail import Tail, distance_level, raised
from certifare.errors import ArgumentError, GroupError
from certifare.foundation.formatting import amount
from certifare.foundation.levels import name_of

Combine = Literal["max", "mean"]
METHODS = ("exact", "mcdiarmid", "lemmas", "calibrated")
#: Two computations of one figure may differ by the rounding of different machines.
RECOMPUTATION_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Metric:
    """A distance between groups, named as users name it."""

    name: str
    words: str
    strata: Literal["all", "positive", "each label"]
    combine: Combine = "max"

    @property
    def labelled(self) -> bool:
        """Whether it looks at labels, and so is about records that have one."""
        return self.strata != "all"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("demographic_parity", "demographic parity distance", "all"),
        Metric("equal_opportunity", "equal opportunity distance", "positive"),
        Metric("equalized_odds", "equalized odds distance (mean over labels)", "each label", "mean"),
        Metric("equalized_odds_max", "equalized odds distance (largest over labels)", "each label"),
    )
}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bound for one pair of groups in one stratum."""

    groups: tuple[str, str]
    label: str | None
    records: tuple[int, int]
    estimate: float
    bound: float


class Witness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of cells, chosen on other records, that the first group visits more often than the second."""

    groups: tuple[str, str]
    label: str | None
    cells: tuple[int, ...]


#: Bounds the distance of two groups from tables (cells × 2) at a level ε. Most bounds use one table.
PairBound = Callable[[Sequence[NDArray[np.int64]], float], float]


def metric_of(name: str) -> Metric:
    """Return the metric of this name."""
    if name not in METRICS:
        raise ArgumentError(f"Unknown metric {name!r}: choose one of {', '.join(METRICS)}.")
    return METRICS[name]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is asked of a certificate.

    Attributes
    ----------
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"}
    confidence : float
        1 − ε.
    method : {"exact", "mcdiarmid", "lemmas", "calibrated"}
    candidates : int
        How many encoders share ε.
    positive : str or None
        Name of the positive label, for equal opportunity; the last of two unless given.
    min_group_size : int
        Groups with fewer records are refused.
    population : {"clusters", "records"}
        With clusters of records: what is drawn at random.
    looks : int or None
        How many looks at the records are planned, each with its share of ε.

    Examples
    --------
    >>> claim = Claim(metric="equal_opportunity", confidence=0.9)
    >>> claim.distance.words, claim.labelled
    ('equal opportunity distance', True)
    """

    metric: str = "demographic_parity"
    confidence: float = 0.95
    method: str = "exact"
    candidates: int = 1
    positive: str | None = None
    min_group_size: int = 30
    population: str = "clusters"
    looks: int | None = None

    def __post_init__(self) -> None:
        epsilon_at(self.confidence)  # refuses what no bound is proved for
        if isinstance(self.candidates, bool) or int(self.candidates) != self.candidates or self.candidates < 1:
            raise ArgumentError(f"candidates={self.candidates}: give the number of encoders tried, at least 1.")
        if self.method not in METHODS:
            raise ArgumentError(f"Unknown method {self.method!r}: choose one of {', '.join(METHODS)}.")
        metric_of(self.metric)
        if self.method == "calibrated":
            check_metric(self.metric)
        if self.positive is not None:
            object.__setattr__(self, "positive", name_of(self.positive))
        if self.population not in ("clusters", "records"):
            raise ArgumentError(f'population={self.population!r}: choose "clusters" or "records".')

    @property
    def distance(self) -> Metric:
        """The distance that is bounded."""
        return METRICS[self.metric]

    @property
    def labelled(self) -> bool:
        """Whether it is about records that have a label."""
        return self.distance.labelled

    def strata(self, counts: CellCounts) -> tuple[str | None, ...]:
        """Labels of the strata that the metric looks at; None stands for all records."""
        if not self.labelled:
            return (None,)
        if counts.labels is None:
            raise ArgumentError(
                f"The metric {self.metric} looks at records of each label, and these counts have none. "
                "Count with y= (CellCounts.from_cells), or pass y= to certify."
            )
        if self.distance.strata == "each label":
            return counts.labels
        positive = self.positive
        if positive is None:
            if len(counts.labels) != 2:
                raise ArgumentError(
                    f"Which label is the positive one? Pass positive= one of {', '.join(map(repr, counts.labels))}."
                )
            positive = counts.labels[-1]
        if positive not in counts.labels:
            raise ArgumentError(f"positive={positive!r} is not among the labels {', '.join(map(repr, counts.labels))}.")
        return (positive,)

    def check(self, counts: CellCounts) -> tuple[str | None, ...]:
        """Refuse counts in which a group is absent or too small; return the strata."""
        strata = self.strata(counts)
        for label in strata:
            check_groups(stratum(counts, label), label, max(1, self.min_group_size))
        return strata

    def epsilon(self, strata: Sequence[str | None]) -> float:
        """Return ε for each stratum: divided among candidates, and among strata where their mean is bounded."""
        shares = self.candidates * (len(strata) if self.distance.combine == "mean" else 1)
        return check_epsilon(float(Fraction(epsilon_at(self.confidence)) / shares))


def stratum(counts: CellCounts, label: str | None) -> CellCounts:
    """Return the records of one stratum by cell and group."""
    return counts.without_labels() if label is None else counts.given_label(label)


def gaps_of(counts: CellCounts, label: str | None) -> Gaps:
    """Return the gaps of cells whose thresholds these records set: the counts of a stratum, and one more in the last.

    >>> gaps_of(CellCounts([[4, 5], [4, 5]], groups=["f", "m"]), None).tolist()
    [[4, 5], [5, 6]]
    """
    gaps = stratum(counts, label).table.copy()
    gaps[-1] += 1
    return gaps


def check_groups(counts: CellCounts, label: str | None, min_group_size: int) -> None:
    """Refuse a stratum in which a group is absent or too small."""
    if len(counts.groups) < 2:
        raise GroupError(f"Only one group, {counts.groups[0]!r}: a distance between groups needs at least two.")
    where = "" if label is None else f" with label {label!r}"
    for group, size in counts.group_sizes.items():
        if size == 0:
            raise GroupError(
                f"Group {group!r} has no records{where}. Leave the group out (of_groups), or add records of it."
            )
        if size < min_group_size:
            raise GroupError(
                f"Group {group!r} has {amount(size, 'record')}{where}, fewer than min_group_size={min_group_size}. "
                f"Pool it with another group, add records, or pass min_group_size={size} to certify it anyway."
            )


def statistic(table: NDArray[np.int64]) -> tuple[int, int, int]:
    """n_0, n_1 and M = Σ_i max(n_1·c_0(i) − n_0·c_1(i), 0), in integers of any size."""
    n0, n1 = int(table[:, 0].sum()), int(table[:, 1].sum())
    return n0, n1, sum(max(n1 * a - n0 * b, 0) for a, b in table.tolist())


def estimate_of(table: NDArray[np.int64]) -> float:
    """Plug-in total variation distance of two groups."""
    n0, n1, m = statistic(table)
    return m / (n0 * n1)


def bound_parts(
    tables: Sequence[CellCounts],
    strata: Sequence[str | None],
    epsilon: float,
    pair_bound: PairBound,
    tail: Tail | None = None,
) -> tuple[Part, ...]:
    """Bound every pair of groups in every stratum at level ε; estimates come from the last table.

    With a cap on the weights, the bound is raised by the share of weight above it.
    """
    parts = []
    level = distance_level(epsilon, capped=tail is not None)
    for label in strata:
        cut = [stratum(table, label) for table in tables]
        for pair in combinations(cut[0].groups, 2):
            pair_tables = [table.of_groups(*pair).table for table in cut]
            sizes = pair_tables[-1].sum(axis=0)
            share = 0.0 if tail is None else tail.share(tables[0], pair, label, epsilon)
            parts.append(
                Part(
                    groups=pair,
                    label=label,
                    records=(int(sizes[0]), int(sizes[1])),
                    estimate=estimate_of(pair_tables[-1]),
                    bound=min(1.0, raised(pair_bound(pair_tables, level), share)),
                )
            )
    return tuple(parts)


def combine(metric: Metric, values: Sequence[tuple[str | None, float]]) -> float:
    """Return the metric's value from those of (stratum, pair): largest over pairs, then over or mean of strata."""
    largest: dict[str | None, float] = {}
    for label, value in values:
        largest[label] = max(value, largest.get(label, 0.0))
    if metric.combine == "mean":
        return math.fsum(largest.values()) / len(largest)
    return max(largest.values())


def check_witnesses(
    metric: Metric, counts: CellCounts, strata: Sequence[str | None], witnesses: Sequence[Witness]
) -> None:
    """Refuse witnesses that do not fit the counts, or that are more than one where ε is not divided.

    The lower limit of a largest distance rests on one witness, that of a mean on one for each label.
    """
    among = [witness.label if metric.combine == "mean" else None for witness in witnesses]
    if len(set(among)) != len(among):
        raise ArgumentError(
            f"{len(among)} witnesses: the largest of several lower limits would fail more often than stated. "
            f"Give one{' for each label' if metric.combine == 'mean' else ''}."
        )
    for witness in witnesses:
        if len(set(witness.groups)) != 2 or not set(witness.groups) <= set(counts.groups):
            raise ArgumentError(f"A witness is about two groups of the counts, not {' and '.join(witness.groups)}.")
        if witness.label not in strata:
            raise ArgumentError(f"A witness is about the label {witness.label!r}, which the metric does not look at.")
        if any(a >= b for a, b in zip(witness.cells, witness.cells[1:], strict=False)) or not all(
            0 <= cell < counts.n_cells for cell in witness.cells
        ):
            raise ArgumentError(
                f"A witness names its cells once each, in order, from 0 to {counts.n_cells - 1}; one names "
                "a cell that does not exist, or names one twice."
            )


def choose_witnesses(
    metric: Metric, counts: CellCounts, strata: Sequence[str | None], other: CellCounts
) -> tuple[Witness, ...]:
    """Choose sets of cells on which groups differ most in ``other``, a table of other records.

    One for the worst pair and stratum where the metric is a largest distance; one per stratum where it is a mean.
    """
    found = []
    for label in strata:
        table = stratum(other, label)
        for pair in combinations(counts.groups, 2):
            c = table.of_groups(*pair).table
            n0, n1 = (int(n) for n in c.sum(axis=0))
            if n0 and n1:
                cells = tuple(i for i, (a, b) in enumerate(c.tolist()) if n1 * a > n0 * b)
                found.append((estimate_of(c), Witness(groups=pair, label=label, cells=cells)))
    worst: dict[str | None, tuple[float, Witness]] = {}
    for value, witness in found:
        key = witness.label if metric.combine == "mean" else None
        if key not in worst or value > worst[key][0]:
            worst[key] = (value, witness)
    return tuple(witness for _, witness in worst.values())
