"""FairGini, the impurity of a node, from the counts of its classes.

``FairGini(D) = (1-γ)·Gini_y(D) + γ·(max Gini_s - Gini_s(D))`` with ``Gini = 1 - Σp²``: small if the label
is certain and the groups are mixed. With ``g`` groups ``max Gini_s = 1 - 1/g``, so it is never negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.errors import ArgumentError

GrowthMetric = Literal["demographic_parity", "equal_opportunity", "equalized_odds"]
Charge = Literal["every", "crossing"]

MOST_CLASSES = (1 << 16) - 1


@dataclass(frozen=True, eq=False)
class Targets:
    """The class of each record: its labels and its group, as one small integer.

    - ``classes``: ``((y_1·n_2 + y_2)·n_3 + …)·n_groups + s``.
    - ``n_labels``: number of values of each label column.
    - ``n_groups``: number of groups.
    - ``coordinates`` (records, coordinates): what the encoder is to retain of each record, in addition to its labels:
      integers, so that sums are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import Targets
    >>> targets = Targets.from_columns([np.array([0, 1, 1])], np.array([1, 0, 1]), (2,), 2)
    >>> targets.classes
    array([1, 2, 3], dtype=uint8)
    """

    classes: NDArray[Any]
    n_labels: tuple[int, ...]
    n_groups: int
    coordinates: NDArray[np.int16] | None = None

    @classmethod
    def from_columns(
        cls, labels: Sequence[NDArray[Any]], groups: NDArray[Any], n_labels: Sequence[int], n_groups: int
    ) -> "Targets":
        """Combine label columns (``0 … n_labels[i]-1``) and groups (``0 … n_groups-1``) into classes."""
        n_labels = tuple(int(n) for n in n_labels)
        _check_sizes(n_labels, n_groups)
        if len(labels) != len(n_labels):
            raise ArgumentError(f"{len(labels)} label columns were given, but {len(n_labels)} sizes for them.")
        n_classes = _n_classes(n_labels, n_groups)
        classes: NDArray[Any] = np.zeros(len(groups), dtype=np.uint8 if n_classes < 256 else np.uint16)
        for position, (column, size) in enumerate(zip([*labels, groups], [*n_labels, n_groups], strict=True), start=1):
            column = np.asarray(column)
            name = "the groups" if position > len(labels) else f"label column {position}"
            if column.shape != classes.shape:
                raise ArgumentError(f"{name}: {len(column)} values for {len(classes)} records.")
            if len(column) and (column.min() < 0 or column.max() >= size):
                worst = column.min() if column.min() < 0 else column.max()
                raise ArgumentError(f"{name}: the code {worst} is not one of 0 … {size - 1}.")
            np.multiply(classes, classes.dtype.type(size), out=classes)
            np.add(classes, column.astype(classes.dtype), out=classes)
        return cls(classes, n_labels, n_groups)

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def n_classes(self) -> int:
        """Number of classes: labels × groups."""
        return _n_classes(self.n_labels, self.n_groups)

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of a record."""
        return 0 if self.coordinates is None else self.coordinates.shape[1]


class Terms(NamedTuple):
    """The criterion, prepared for the split search: the sums of class counts that it needs, and how they give a gain.

    A *stratum* is a set of classes that Gini is taken over: all of them, or those with one value of the first label.
    An *axis* is a value whose share of a stratum matters: a label's value, or a group. Of two values, one is enough.
    A coordinate is an axis, too: what matters is its mean, and it belongs to the labels.

    - ``weights`` (sums, classes): what a record of each class adds to each sum: first the strata (number 0: all
      records), then the label axes (of stratum 0), then the group axes of each group stratum in turn, finally the label
      score, whose mean is p_y. For coordinates, which are the last label axes and do not depend on the class, it is 0.
    - ``coefficients`` (axes,): what an axis gains if a split makes shares differ; negative for groups.
    - ``stratum_of`` (axes,): the stratum of each axis.
    - ``n_strata``, ``n_label_axes``, ``n_group_axes``, ``n_coordinates``: group axes are counted per stratum;
      coordinates are also counted as label axes.
    """

    weights: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    stratum_of: NDArray[np.int64]
    n_strata: int
    n_label_axes: int
    n_group_axes: int
    n_coordinates: int = 0


@dataclass(frozen=True)
class Criterion:
    """FairGini of a node for a trade-off ``gamma`` and a fairness metric.

    - ``gamma``: from 0 (only the labels matter) to 1 (only the groups do).
    - ``metric``: ``demographic_parity``: Gini_s over all records. ``equal_opportunity``: over those whose first label
      is ``positive``; the others are irrelevant for the groups and count with the largest Gini_s. ``equalized_odds``:
      the mean over the first label's values, weighted by their counts.
    - ``n_labels``, ``n_groups``: as in `Targets`.
    - ``label_weights``: Gini_y is the average over label columns with these weights.
    - ``positive``: the positive value of the first label, for equal opportunity.
    - ``charge``: which splits pay for separating the groups: every split, as in the paper, or only those whose children
      are on different sides of a group's share among all records. Children on one side of it do not change the distance
      Σ|p_0 - p_1|/2.
    - ``n_coordinates``: number of coordinates of a record.
    - ``retain``: from 0 to 1: the weight of coordinates in the gain of a split. The mean squared deviation of the
      coordinates, divided by ``spread``, is then added to Gini_y, which has the remaining weight.
    - ``spread``: the mean squared deviation of everything that is to be retained, in the coordinates' units.
    - ``attributes``: if groups are intersections of several columns and each column matters by itself: for each column,
      the code of its value in each group. Gini_s is then the mean over columns.

    Examples
    --------
    >>> from certifare.growth import Criterion
    >>> criterion = Criterion(0.5, "demographic_parity", (2,), 2)
    >>> float(criterion.impurity([10, 0, 0, 10]))  # each label belongs to one group
    0.25
    >>> float(criterion.impurity([10, 10, 0, 0]))  # one label, groups in balance
    0.0
    """

    gamma: float
    metric: GrowthMetric
    n_labels: tuple[int, ...]
    n_groups: int
    label_weights: tuple[float, ...] = (1.0,)
    positive: int = 1
    charge: Charge = "every"
    n_coordinates: int = 0
    retain: float = 0.0
    spread: float = 1.0
    attributes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        _check_sizes(self.n_labels, self.n_groups)
        if any(len(codes) != self.n_groups for codes in self.attributes):
            raise ArgumentError(f"attributes must have a code for each of the {self.n_groups} groups.")
        if not 0.0 <= self.retain <= 1.0 or (self.retain > 0.0 and self.n_coordinates == 0):
            raise ArgumentError(
                f"retain is {self.retain!r}; give a weight from 0 to 1, and above 0 coordinates to retain."
            )
        if not 0.0 < self.spread < np.inf:
            raise ArgumentError(f"spread is {self.spread!r}; give a positive number.")
        if not 0.0 <= self.gamma <= 1.0:
            raise ArgumentError(f"gamma is {self.gamma!r}; give a number from 0 to 1.")
        if self.metric not in ("demographic_parity", "equal_opportunity", "equalized_odds"):
            raise ArgumentError(
                f"metric is {self.metric!r}; give 'demographic_parity', 'equal_opportunity' or 'equalized_odds'."
            )
        if len(self.label_weights) != len(self.n_labels):
            raise ArgumentError(
                f"label_weights has {len(self.label_weights)} weights for {len(self.n_labels)} label columns."
            )
        if not all(0.0 <= w < np.inf for w in self.label_weights) or sum(self.label_weights) <= 0.0:
            raise ArgumentError(f"label_weights is {self.label_weights}; give finite weights ≥ 0, not all of them 0.")
        if self.charge not in ("every", "crossing"):
            raise ArgumentError(f"charge is {self.charge!r}; give 'every' or 'crossing'.")
        if self.metric == "equal_opportunity" and not 0 <= self.positive < self.n_labels[0]:
            raise ArgumentError(
                f"positive is {self.positive}; the first label has the values 0 … {self.n_labels[0] - 1}."
            )

    @property
    def n_classes(self) -> int:
        """Number of classes: labels × groups."""
        return _n_classes(self.n_labels, self.n_groups)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The label weights, scaled to sum to 1."""
        shares: NDArray[np.float64] = np.asarray(self.label_weights, dtype=np.float64) / sum(self.label_weights)
        return shares

    def gini_labels(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return Gini_y of class counts (…, classes), averaged over the label columns."""
        table = self._table(counts)
        total = np.zeros(table.shape[: table.ndim - len(self.n_labels) - 1])
        axes = range(table.ndim - len(self.n_labels) - 1, table.ndim)
        for axis, share in zip(axes, self.shares, strict=False):
            marginal = table.sum(axis=tuple(other for other in axes if other != axis))
            total += share * _gini(marginal, empty=0.0)
        return total

    def gini_groups(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return Gini_s of class counts (…, classes), over the records that the metric uses."""
        table = self._table(counts)
        others = tuple(range(table.ndim - len(self.n_labels), table.ndim - 1))
        by_group = table.sum(axis=others)  # (…, first label, group)
        ginis = [self._gini_attribute(by_group @ members) for members in self._memberships]
        mean: NDArray[np.float64] = np.mean(ginis, axis=0)
        return mean

    def _gini_attribute(self, by_label: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Gini_s of counts (…, first label, group of one attribute)."""
        worst = 1.0 - 1.0 / by_label.shape[-1]
        if self.metric == "demographic_parity":
            return _gini(by_label.sum(axis=-2), empty=worst)
        sizes = by_label.sum(axis=-1)
        total = sizes.sum(axis=-1)
        ginis = _gini(by_label, empty=0.0)
        if self.metric == "equal_opportunity":
            ginis[..., np.arange(self.n_labels[0]) != self.positive] = worst
        mean = (sizes * ginis).sum(axis=-1) / np.maximum(total, 1.0)
        found: NDArray[np.float64] = np.where(total > 0, mean, worst)
        return found

    def impurity(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return FairGini of class counts (…, classes)."""
        worst = float(np.mean([1.0 - 1.0 / members.shape[1] for members in self._memberships]))
        return (1.0 - self.gamma) * self.gini_labels(counts) + self.gamma * (worst - self.gini_groups(counts))

    @property
    def _memberships(self) -> tuple[NDArray[np.float64], ...]:
        """For each attribute, which groups have which of its values (groups × values); the groups if there is one."""
        codes = [np.array(attribute) for attribute in self.attributes] or [np.arange(self.n_groups)]
        return tuple((own[:, None] == np.arange(own.max() + 1)).astype(np.float64) for own in codes)

    def terms(self) -> Terms:
        """Prepare the criterion for the split search."""
        *labels, groups = np.unravel_index(np.arange(self.n_classes), (*self.n_labels, self.n_groups))
        strata = [np.ones(self.n_classes, dtype=bool)]
        if self.metric == "equal_opportunity":
            strata.append(labels[0] == self.positive)
        elif self.metric == "equalized_odds":
            strata.extend(labels[0] == value for value in range(self.n_labels[0]))
        axes, coefficients, stratum_of = [], [], []
        for label, size, share in zip(labels, self.n_labels, self.shares, strict=True):
            for value in _axis_values(size):
                axes.append(label == value)
                coefficients.append((1.0 - self.gamma) * (1.0 - self.retain) * share * _axis_weight(size))
                stratum_of.append(0)
        for _ in range(self.n_coordinates):
            axes.append(np.zeros(self.n_classes, dtype=bool))
            coefficients.append((1.0 - self.gamma) * self.retain / self.spread)
            stratum_of.append(0)
        n_label_axes, memberships = len(axes), self._memberships
        for stratum in range(min(1, len(strata) - 1), len(strata)):
            for members in memberships:
                for value in _axis_values(members.shape[1]):
                    axes.append(strata[stratum] & (members[groups, value] > 0.0))
                    coefficients.append(-self.gamma * _axis_weight(members.shape[1]) / len(memberships))
                    stratum_of.append(stratum)
        return Terms(
            weights=np.array([*strata, *axes, self._label_score(labels)], dtype=np.float64),
            coefficients=np.array(coefficients, dtype=np.float64),
            stratum_of=np.array(stratum_of, dtype=np.int64),
            n_strata=len(strata),
            n_label_axes=n_label_axes,
            n_group_axes=sum(len(_axis_values(members.shape[1])) for members in memberships),
            n_coordinates=self.n_coordinates,
        )

    def _label_score(self, labels: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return the number whose mean is p_y: the label itself, or the weighted mean of several, scaled to 0 … 1."""
        if len(labels) == 1:
            return labels[0].astype(np.float64)
        scaled = [label / max(size - 1, 1) for label, size in zip(labels, self.n_labels, strict=True)]
        return np.asarray(self.shares @ np.array(scaled))

    def _table(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Reshape counts (…, classes) to (…, label, …, group)."""
        counts = np.asarray(counts, dtype=np.float64)
        if counts.shape[-1:] != (self.n_classes,):
            raise ArgumentError(f"counts of {counts.shape[-1:]} classes were given; there are {self.n_classes}.")
        return counts.reshape(*counts.shape[:-1], *self.n_labels, self.n_groups)


def _gini(counts: NDArray[np.float64], empty: float) -> NDArray[np.float64]:
    """Return 1 - Σp² over the last axis; ``empty`` if there are no records."""
    total = counts.sum(axis=-1)
    squares = (counts * counts).sum(axis=-1)
    result: NDArray[np.float64] = np.where(total > 0, 1.0 - squares / np.maximum(total, 1.0) ** 2, empty)
    return result


def _axis_values(size: int) -> range:
    """Return the values that get an axis: of two, the second suffices; of one, none."""
    return range(1, size) if size <= 2 else range(size)


def _axis_weight(size: int) -> int:
    """Return the number of values that an axis represents."""
    return 2 if size == 2 else 1


def _n_classes(n_labels: Sequence[int], n_groups: int) -> int:
    product = int(n_groups)
    for size in n_labels:
        product *= int(size)
    return product


def _check_sizes(n_labels: Sequence[int], n_groups: int) -> None:
    if not n_labels or min(n_labels) < 1 or n_groups < 1:
        raise ArgumentError(f"labels of sizes {tuple(n_labels)} and {n_groups} groups: each needs at least one value.")
    if _n_classes(n_labels, n_groups) > MOST_CLASSES:
        raise ArgumentError(
            f"{' × '.join(map(str, n_labels))} labels × {n_groups} groups are more than {MOST_CLASSES:,} classes; "
            "give fewer label columns, or coarser ones."
        )
