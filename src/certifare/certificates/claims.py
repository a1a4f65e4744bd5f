"""Claims: which groups are compared among which records, and how the distances combine.

A claim turns a table of counts into a list of :class:`Pair`: two groups, compared among all records or among those of
one *stratum* (a label, or a value of a column). The distance of a pair is the total variation distance of its cells.
The claim's distance is the largest over pairs; for equalized odds it is the mean over labels of the largest.

A largest distance costs no share of ε: which pair is worst is a fact of the population, and the maximum of the
pairs' bounds is at least the bound of that one pair. So several groups, labels, attributes (sex, and race) and values
of a column are all bounded at full ε. A mean needs all of its terms, so ε is divided among them.

A :class:`Claim` says all that is asked of a certificate before any record is counted: the metric, how surely it is to
be bounded and by which method, and about whom. It travels as one value, and is checked once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates.calibrated import Gaps, check_metric
from certifare.certificates.counts import CellCounts
from certifare.certificates.exact import check_epsilon, epsilon_at
from certifare.certificates.sampling import check_population
from certifare.certificates.tail import Tail, distance_level, raised
from certifare.errors import ArgumentError, GroupError
from certifare.foundation.formatting import amount, listing
from certifare.foundation.levels import INTERSECTION, name_of

Combine = Literal["max", "mean"]
METHODS = ("exact", "calibrated")
#: Two computations of one figure may differ by the rounding of different machines.
RECOMPUTATION_TOLERANCE = 1e-9
#: Labels whose names say that they are the positive one of two.
POSITIVE_NAMES = frozenset({"1", "1.0", "true", "yes", "y"})
_ABOVE = re.compile(r" (>=|>|==) ")
#: The most values of a column within which groups are compared.
MOST_STRATA = 50


@dataclass(frozen=True, slots=True)
class Metric:
    """A distance between groups, named as users name it."""

    name: str
    words: str
    strata: Literal["all", "positive", "each label"]
    combine: Combine = "max"

    @property
    def labelled(self) -> bool:
        """Whether the metric is about records with a label."""
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


def positive_of(labels: Sequence[str]) -> str:
    """Return the label whose name says that it is the positive one of two; raise if none does.

    >>> positive_of(["0", "1"]), positive_of(["income < 50000", "income >= 50000"])
    ('1', 'income >= 50000')
    """
    certain = [name for name in labels if name.lower() in POSITIVE_NAMES or _ABOVE.search(name)]
    if len(labels) == 2 and len(certain) == 1:
        return certain[0]
    raise ArgumentError(
        "Which label is the positive one? Name one of "
        f"{', '.join(map(repr, labels))} (--positive; in Python positive=)."
    )


class Scope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a claim divides groups and records, unless it compares the groups of the counts among all records.

    Attributes
    ----------
    each : tuple of str
        Attributes, each of which is claimed; the groups of the counts are their intersections.
    given : str or None
        Column within whose values groups are compared; the labels of the counts are its values.
    left_out : tuple of str
        Values of that column with too few records of a group: the claim is not about them.
    """

    each: tuple[str, ...] = ()
    given: str | None = None
    left_out: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The bound for one pair of groups in one stratum; with several attributes, of one of them."""

    groups: tuple[str, str]
    label: str | None
    records: tuple[int, int]
    estimate: float
    bound: float
    attribute: str | None = None


class Witness(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A set of cells, chosen on other records, that the first group visits more often than the second."""

    groups: tuple[str, str]
    label: str | None
    cells: tuple[int, ...]
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two groups to compare, in one stratum."""

    groups: tuple[str, str]
    label: str | None
    attribute: str | None
    members: tuple[tuple[int, ...], tuple[int, ...]]

    def table(self, counts: CellCounts) -> NDArray[np.int64]:
        """Return the records of the two groups by cell (cells × 2)."""
        table = stratum_table(counts, self.label)
        return np.stack([table[:, list(members)].sum(axis=1) for members in self.members], axis=1)


#: Bounds the distance of two groups from a table (cells × 2) at a level ε.
PairBound = Callable[[NDArray[np.int64], float], float]


def metric_of(name: str) -> Metric:
    """Return the metric of this name."""
    if name not in METRICS:
        raise ArgumentError(f"Unknown metric {name!r}: choose one of {', '.join(METRICS)}.")
    return METRICS[name]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a certificate claims: metric, confidence, method, and whom it is about.

    Attributes
    ----------
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"}
    confidence : float
        1 − ε.
    method : {"exact", "calibrated"}
    candidates : int
        How many encoders share ε.
    positive : str or None
        Name of the positive label, for equal opportunity; may be left out if its name says so, as 1 and yes do.
    min_group_size : int
        Groups with fewer records are refused.
    population : {"clusters", "records"}
        With clusters of records: what is drawn at random.
    looks : int or None
        How many looks at the records are planned, each with its share of ε.
    each : tuple of str
        Names of the attributes, each of which is claimed: counts are by their intersections, and groups of one
        attribute are added up. Empty: the groups of the counts are compared.
    given : str or None
        Column within whose values groups are compared: the counts have its values as labels. For demographic parity.
    left_out : tuple of str
        Values of that column that are not claimed (:meth:`fitted` finds them).

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
    each: tuple[str, ...] = ()
    given: str | None = None
    left_out: tuple[str, ...] = ()

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
        check_population(self.population, clustered=True)
        self._check_scope()

    def _check_scope(self) -> None:
        """Refuse attributes or a column that nothing is proved for."""
        twice = [name for name in self.each if self.each.count(name) > 1]
        if twice:
            raise ArgumentError(f"The attribute {twice[0]!r} is named twice (--sensitive): name each once.")
        if len(self.each) == 1:
            raise ArgumentError("--each needs several sensitive columns; with one, leave it out.")
        if self.given is not None:
            if self.given in self.each:
                raise ArgumentError(f"--given {self.given} is a sensitive column: groups cannot be compared within it.")
            if self.metric != "demographic_parity":
                raise ArgumentError(
                    f"--given is for demographic parity: the metric {self.metric} compares records of a label already."
                )
        elif self.left_out:
            raise ArgumentError("Values are left out of a column that is not named.")
        if self.each and self.left_out:
            raise ArgumentError(
                "With --each no value of the given column is left out: nothing is proved for the others."
            )
        if self.method == "calibrated" and (self.each or self.given is not None):
            raise ArgumentError(
                "Calibrated cells are certified for the groups whose thresholds they have, among all records: leave "
                "--each and --given out, or use cells that do not read the group."
            )

    @property
    def scope(self) -> Scope | msgspec.UnsetType:
        """How groups and records are divided, as certificates state it; unset if they are not."""
        if not self.each and self.given is None:
            return msgspec.UNSET
        return Scope(each=self.each, given=self.given, left_out=self.left_out)

    @property
    def distance(self) -> Metric:
        """The distance that is bounded."""
        metric = METRICS[self.metric]
        if self.given is None:
            return metric
        return replace(metric, words=f"{metric.words} within each {self.stratum}", strata="each label")

    @property
    def stratum(self) -> str:
        """What the records of a stratum share: a label, or a value of the given column."""
        claimed = "claimed " if self.left_out else ""
        return "label" if self.given is None else f"{claimed}value of {self.given!r}"

    @property
    def labelled(self) -> bool:
        """Whether records are counted by a label, or by the column that the claim is given."""
        return self.distance.labelled

    def records_of(self, label: str | None) -> str:
        """Describe the records of a stratum: "with label 'yes'", "with product 'loan'"; "" for all."""
        return "" if label is None else f"with {'label' if self.given is None else self.given} {label!r}"

    def strata(self, counts: CellCounts) -> tuple[str | None, ...]:
        """Labels of the strata that the metric looks at; None stands for all records."""
        if not self.labelled:
            return (None,)
        if counts.labels is None:
            raise ArgumentError(
                f"The metric {self.metric} looks at records of each {self.stratum}, and these counts have none. "
                "Count with y= (CellCounts.from_cells), or pass y= to certify."
            )
        if self.given is not None:
            unknown = set(self.left_out) - set(counts.labels)
            if unknown:
                raise ArgumentError(f"{min(unknown)!r} is left out, and is no value of {self.given!r}.")
            return tuple(value for value in counts.labels if value not in self.left_out)
        if self.distance.strata == "each label":
            return counts.labels
        positive = positive_of(counts.labels) if self.positive is None else self.positive
        if positive not in counts.labels:
            raise ArgumentError(f"positive={positive!r} is not among the labels {', '.join(map(repr, counts.labels))}.")
        return (positive,)

    def divided(self, groups: Sequence[str]) -> tuple[tuple[str | None, dict[str, tuple[int, ...]]], ...]:
        """Return each attribute with its groups, as positions among the groups of the counts.

        >>> Claim(each=("sex", "race")).divided(["f × a", "f × b", "m × a"])
        (('sex', {'f': (0, 1), 'm': (2,)}), ('race', {'a': (0, 2), 'b': (1,)}))
        """
        if not self.each:
            return ((None, {group: (i,) for i, group in enumerate(groups)}),)
        names = [group.split(INTERSECTION) for group in groups]
        wrong = next((g for g, parts in zip(groups, names, strict=True) if len(parts) != len(self.each)), None)
        if wrong is not None:
            raise GroupError(
                f"The group {wrong!r} is no intersection of {listing(self.each)}: for --each, every record needs a "
                f"value of each, groups are not pooled, and no value holds {INTERSECTION!r}."
            )
        found = []
        for attribute, values in zip(self.each, zip(*names, strict=True), strict=True):
            places: dict[str, tuple[int, ...]] = {}
            for i, value in enumerate(values):
                places[value] = (*places.get(value, ()), i)
            found.append((attribute, places))
        return tuple(found)

    def pairs(self, counts: CellCounts) -> tuple[Pair, ...]:
        """Return the comparisons that the claim is about: pairs of groups, of each attribute, in each stratum."""
        divided = self.divided(counts.groups)
        return tuple(
            Pair((first, second), label, attribute, (groups[first], groups[second]))
            for label in self.strata(counts)
            for attribute, groups in divided
            for first, second in combinations(groups, 2)
        )

    def counts_of(self, counts: CellCounts, attribute: str | None) -> CellCounts:
        """Return the counts by the groups of one attribute; as they are if no attribute is named."""
        if attribute is None:
            return counts
        groups = dict(self.divided(counts.groups))[attribute]
        table = np.stack([counts.table[:, list(at)].sum(axis=1) for at in groups.values()], axis=1)
        return CellCounts(table, groups, counts.labels, counts.exclusions)

    def _sizes(self, counts: CellCounts, label: str | None) -> list[tuple[str | None, dict[str, int]]]:
        """Return the number of records of each group of each attribute in a stratum."""
        sizes = stratum_table(counts, label).sum(axis=0)
        return [
            (attribute, {group: int(sizes[list(at)].sum()) for group, at in groups.items()})
            for attribute, groups in self.divided(counts.groups)
        ]

    def smallest(self, counts: CellCounts, label: str | None) -> int:
        """Return the number of records of the smallest group in a stratum."""
        return min(size for _, groups in self._sizes(counts, label) for size in groups.values())

    def fitted(self, counts: CellCounts) -> Claim:
        """Return the claim without the values of the given column in which a group has too few records.

        Which these are depends on the numbers of records alone, not on their cells (``docs/theory.md``).
        """
        if self.given is None:
            return self
        values = self.strata(counts)
        if len(values) > MOST_STRATA:
            raise ArgumentError(
                f"--given {self.given} has {len(values):,} values; at most {MOST_STRATA} are allowed. Merge values "
                "into fewer, or compare a number with a threshold."
            )
        fewest = max(1, self.min_group_size)
        small = [str(value) for value in values if self.smallest(counts, value) < fewest]
        for value in small:
            for _, groups in self._sizes(counts, value):
                least, total = min(groups, key=groups.__getitem__), sum(groups.values())
                if groups[least] == 0 and total >= len(groups) * fewest:
                    raise GroupError(
                        f"No record of group {least!r} among the {total:,} {self.records_of(value)}: there is "
                        "nothing to compare there. Leave these records out, or merge the value with another."
                    )
        if small and self.each:
            raise GroupError(
                f"The value {small[0]!r} of {self.given!r} has too few records of a group. With --each no value is "
                "left out: merge values into fewer, or leave these records out."
            )
        if len(small) == len(values):
            raise GroupError(
                f"No value of {self.given!r} has {amount(fewest, 'certification record')} of "
                "every group. Merge values into fewer, add records, or pass a smaller min_group_size."
            )
        return replace(self, left_out=(*self.left_out, *small))

    def check(self, counts: CellCounts) -> tuple[str | None, ...]:
        """Refuse counts in which a group is absent or too small; return the strata."""
        strata = self.strata(counts)
        if not strata:
            raise GroupError(f"Every value of {self.given!r} is left out: nothing is compared.")
        for label in strata:
            for attribute, groups in self._sizes(counts, label):
                check_sizes(groups, attribute, self.records_of(label), self.min_group_size)
        return strata

    def check_left_out(self, counts: CellCounts) -> None:
        """Refuse counts that leave out a value of the given column with as many records as one that they keep."""
        least = min(self.smallest(counts, label) for label in self.strata(counts))
        for value in self.left_out:
            if self.smallest(counts, value) >= least:
                raise GroupError(
                    f"The value {value!r} of {self.given!r} is left out, but has as many records as another."
                )

    def epsilon(self, strata: Sequence[str | None]) -> float:
        """Return ε for each stratum: divided among candidates, and among strata where their mean is bounded."""
        shares = self.candidates * (len(strata) if self.distance.combine == "mean" else 1)
        return check_epsilon(float(Fraction(epsilon_at(self.confidence)) / shares))


def stratum(counts: CellCounts, label: str | None) -> CellCounts:
    """Return the records of one stratum by cell and group."""
    return counts.without_labels() if label is None else counts.given_label(label)


def stratum_table(counts: CellCounts, label: str | None) -> NDArray[np.int64]:
    """Return the records of one stratum by cell and group, as an array."""
    if label is None:
        return counts.table if counts.labels is None else counts.table.sum(axis=2)
    if counts.labels is None or label not in counts.labels:
        return stratum(counts, label).table  # raises
    return counts.table[:, :, counts.labels.index(label)]


def gaps_of(counts: CellCounts, label: str | None) -> Gaps:
    """Return the gaps of cells whose thresholds these records set: the counts of a stratum, and one more in the last.

    >>> gaps_of(CellCounts([[4, 5], [4, 5]], groups=["f", "m"]), None).tolist()
    [[4, 5], [5, 6]]
    """
    gaps = stratum(counts, label).table.copy()
    gaps[-1] += 1
    return gaps


def check_sizes(sizes: dict[str, int], attribute: str | None, where: str, fewest: int) -> None:
    """Refuse a stratum in which a group is absent or too small."""
    if len(sizes) < 2:
        of = "" if attribute is None else f" of {attribute!r}"
        raise GroupError(f"Only one group{of}, {next(iter(sizes))!r}: a distance between groups needs at least two.")
    where = where and f" {where}"
    for group, size in sizes.items():
        named = f"Group {group!r}" if attribute is None else f"Group {group!r} of {attribute!r}"
        if size == 0:
            raise GroupError(f"{named} has no records{where}. Leave the group out (of_groups), or add records of it.")
        if size < fewest:
            raise GroupError(
                f"{named} has {amount(size, 'certification record')}{where}, and at least {fewest} are asked for "
                "(--min-group-size; in Python min_group_size=). Pool it with another group, add records, or ask for "
                "fewer."
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
    counts: CellCounts,
    claim: Claim,
    pair_bound: PairBound,
    tail: Tail | None = None,
) -> tuple[Part, ...]:
    """Bound every pair of the claim.

    With a cap on the weights, the bound is raised by the share of weight above it.
    """
    parts = []
    epsilon = claim.epsilon(claim.strata(counts))
    level = distance_level(epsilon, capped=tail is not None)
    for pair in claim.pairs(counts):
        table = pair.table(counts)
        sizes = table.sum(axis=0)
        share = 0.0 if tail is None else tail.share(counts, pair, epsilon)
        parts.append(
            Part(
                groups=pair.groups,
                label=pair.label,
                records=(int(sizes[0]), int(sizes[1])),
                estimate=estimate_of(table),
                bound=min(1.0, raised(pair_bound(table, level), share)),
                attribute=pair.attribute,
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


def pair_of(claim: Claim, counts: CellCounts, witness: Witness | Part) -> Pair:
    """Return the pair that a witness or a part is about, in its order."""
    for pair in claim.pairs(counts):
        if (pair.attribute, pair.label) == (witness.attribute, witness.label):
            if pair.groups == witness.groups:
                return pair
            if pair.groups == witness.groups[::-1]:
                return replace(pair, groups=witness.groups, members=pair.members[::-1])
    raise ArgumentError(
        f"A witness is about {' and '.join(map(repr, witness.groups))}"
        + ("" if witness.label is None else f" {claim.records_of(witness.label)}")
        + ", which are no two groups that the claim compares."
    )


def check_witnesses(claim: Claim, counts: CellCounts, witnesses: Sequence[Witness]) -> None:
    """Refuse witnesses that do not fit the counts, or that are more than one where ε is not divided.

    The lower limit of a largest distance rests on one witness, that of a mean on one for each label.
    """
    mean = claim.distance.combine == "mean"
    among = [witness.label if mean else None for witness in witnesses]
    if len(set(among)) != len(among):
        raise ArgumentError(
            f"{len(among)} witnesses: the largest of several lower limits would fail more often than stated. "
            f"Give one{' for each label' if mean else ''}."
        )
    for witness in witnesses:
        pair_of(claim, counts, witness)
        if any(a >= b for a, b in zip(witness.cells, witness.cells[1:], strict=False)) or not all(
            0 <= cell < counts.n_cells for cell in witness.cells
        ):
            raise ArgumentError(
                f"A witness names its cells once each, in order, from 0 to {counts.n_cells - 1}; one names "
                "a cell that does not exist, or names one twice."
            )


def choose_witnesses(claim: Claim, counts: CellCounts, other: CellCounts) -> tuple[Witness, ...]:
    """Choose sets of cells on which groups differ most in ``other``, a table of other records.

    One for the worst pair where the metric is a largest distance; one per stratum where it is a mean.
    """
    worst: dict[str | None, tuple[float, Witness]] = {}
    other = other.of_groups(*counts.groups)
    for pair in claim.pairs(counts):
        if pair.label is not None and pair.label not in (other.labels or ()):
            continue
        table = pair.table(other)
        n0, n1 = (int(n) for n in table.sum(axis=0))
        if not (n0 and n1):
            continue
        cells = tuple(i for i, (a, b) in enumerate(table.tolist()) if n1 * a > n0 * b)
        value, key = estimate_of(table), pair.label if claim.distance.combine == "mean" else None
        if key not in worst or value > worst[key][0]:
            witness = Witness(groups=pair.groups, label=pair.label, cells=cells, attribute=pair.attribute)
            worst[key] = (value, witness)
    return tuple(witness for _, witness in worst.values())
