"""GrownEncoder: encoders whose cells are the leaves of a growth, so that every smaller encoder is inside."""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from dataclasses import field as attribute
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.description import Statistics
from certifare.encoders.proxies import Coordinates
from certifare.encoders.representatives import Representatives
from certifare.encoders.training import Training, in_memory
from certifare.errors import EncoderError
from certifare.foundation.levels import INTERSECTION, Levels
from certifare.growth import Charge, Codes, Criterion, Growth, GrowthMetric, Targets
from certifare.tables.frames import Field, Frame


@dataclass(eq=False, repr=False)
class GrownEncoder(RestrictedEncoder):
    """Base of the encoders that grow: what follows from the growth path."""

    gamma: float = 0.85
    max_cells: int = 50
    min_cell_size: int = 100
    metric: GrowthMetric = "demographic_parity"
    _: KW_ONLY
    retain: float = 0.0
    charge: Charge = "every"
    each: bool = False
    label_weights: Sequence[float] | None = None
    positive_label: Any = None

    growth_: Growth = attribute(init=False)
    _node_representatives: Representatives = attribute(init=False)
    _node_statistics: Statistics | None = attribute(init=False)

    def at(self, k: int) -> Self:
        """Give the encoder with k cells from the same growth.

        Its cells are unions of this encoder's cells. It shares their data, so it costs nothing.

        Parameters
        ----------
        k : int
            From 1 to the number of cells that were grown.
        """
        check_is_fitted(self)
        if not isinstance(k, int | np.integer) or not 1 <= k <= self.growth_.n_cells:
            raise EncoderError(f"at({k!r}): this growth has the encoders with 1 to {self.growth_.n_cells} cells.")
        smaller = copy.copy(self)
        smaller.max_cells = int(k)
        smaller.n_cells_ = int(k)
        return smaller

    def cells_at(self, k: int) -> NDArray[np.int32]:
        """Say which cell of ``at(k)`` each of this encoder's cells belongs to.

        ``encoder.cells_at(k)[encoder.apply(X)]`` equals ``encoder.at(k).apply(X)``: a sweep over k applies once.
        """
        ranges = node_ranges(self.growth_, self.n_cells_)
        merged = np.empty(self.n_cells_, dtype=np.int32)
        for cell, node in enumerate(self.at(k).growth_.leaves(k)):
            merged[slice(*ranges[node])] = cell
        return merged

    def starts_at(self, numbers: Iterable[int]) -> dict[int, NDArray[np.int64]]:
        """Say, for each number of cells k, with which of this encoder's cells each cell of ``at(k)`` begins."""
        ranges = node_ranges(self.growth_, self.n_cells_)
        return {k: ranges[self.growth_.leaves(k), 0] for k in numbers}

    def codes(self, X: Any) -> Codes:
        """Prepare records for :meth:`apply_codes`.

        They serve every encoder that was fitted from the same :meth:`prepare`: a sweep reads its records once.
        """
        return self.codes_of(self.read_fields(Frame(X)))

    def apply_codes(self, codes: Codes) -> NDArray[np.int32]:
        """Find the cell of each prepared record."""
        return self.growth_.apply(codes, self.n_cells_, n_threads=self.n_threads)

    @abstractmethod
    def codes_of(self, fields: Sequence[Field]) -> Codes:
        """Find the codes of records, on which the growth decides."""

    def find_cells(
        self,
        fields: Sequence[Field],
        groups: NDArray[np.uint16] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Find the cells of records that were read."""
        return self.apply_codes(self.codes_of(fields))

    def _cell_representatives(self) -> Representatives:
        return self._node_representatives.take(self.growth_.leaves(self.n_cells_))

    def cell_statistics(self) -> Statistics | None:
        """Training statistics of the cells, if they are known."""
        if self._node_statistics is None:
            return None
        return self._node_statistics.take(self.growth_.leaves(self.n_cells_))

    def _check_size(self, training: Training) -> None:
        if not isinstance(self.min_cell_size, int | np.integer) or self.min_cell_size < 1:
            raise EncoderError(f"min_cell_size is {self.min_cell_size!r}; give a whole number from 1.")
        if self.min_cell_size > len(training):
            raise EncoderError(
                f"min_cell_size is {self.min_cell_size:,}, but there are only {len(training):,} records "
                f"(n_samples={len(training)}); give a smaller one."
            )

    def make_criterion(
        self, training: Training, clusters: Levels | None = None, coordinates: Coordinates | None = None
    ) -> tuple[Targets, Criterion]:
        """Classes of the training records and the criterion over them.

        ``retain`` adds the clusters as a label, or coordinates.
        """
        assert training.groups is not None  # noqa: S101  (checked when the records were prepared)
        labels = list(training.labels)
        weights = [1.0] * len(labels) if self.label_weights is None else [float(w) for w in self.label_weights]
        if len(weights) != len(labels):
            raise EncoderError(f"label_weights has {len(weights)} weights, but y has {len(labels)} columns.")
        if clusters is not None:
            weights = [(1.0 - self.retain) * weight / sum(weights) for weight in weights] + [self.retain]
            labels.append(clusters)
        sizes = tuple(len(label.values) for label in labels)
        n_groups = len(training.groups.values)
        targets = Targets.from_columns([label.codes for label in labels], training.groups.codes, sizes, n_groups)
        criterion = Criterion(
            gamma=self.gamma,
            metric=self.metric,
            n_labels=sizes,
            n_groups=n_groups,
            label_weights=tuple(weights),
            positive=self._positive(training.labels[0]),
            charge=self.charge,
            attributes=self._attributes(training.groups),
        )
        if coordinates is not None:
            targets = replace(targets, coordinates=coordinates.of(in_memory(training).codes))
            criterion = replace(
                criterion,
                n_coordinates=coordinates.n_coordinates,
                retain=float(self.retain),
                spread=coordinates.spread,
            )
        return targets, criterion

    def _attributes(self, groups: Levels) -> tuple[tuple[int, ...], ...]:
        """With ``each``: for each sensitive column, the code of its value in each group."""
        if not self.each:
            return ()
        names = [name.split(INTERSECTION) for name in groups.names]
        if len(names[0]) < 2 or len({len(parts) for parts in names}) > 1:
            raise EncoderError("each=True is for several sensitive columns: pass them as columns of a table.")
        found = []
        for values in zip(*names, strict=True):
            place = {value: code for code, value in enumerate(dict.fromkeys(values))}
            found.append(tuple(place[value] for value in values))
        return tuple(found)

    def _positive(self, label: Levels) -> int:
        """Position of the positive label, which equal opportunity is about."""
        if self.metric != "equal_opportunity":
            return min(1, len(label.values) - 1)
        if self.positive_label is None:
            if len(label.values) == 2:
                return 1
            raise EncoderError(
                f"equal_opportunity needs to know the positive label of {label.name!r}, which has "
                f"{len(label.values)} values: give positive_label."
            )
        if self.positive_label not in label.values:
            raise EncoderError(
                f"positive_label is {self.positive_label!r}, but {label.name!r} has the values {label.values}."
            )
        return label.values.index(self.positive_label)

    def _keep(self, growth: Growth, training: Training, codes: Codes | None = None) -> None:
        """Keep a growth, with representatives and statistics of all its nodes."""
        self.growth_ = growth
        self.n_cells_ = growth.n_cells
        if not training.bare:
            ranges = node_ranges(growth, growth.n_cells)
            self._node_representatives = training.representatives(growth, ranges, self.n_threads, codes)
        self._node_statistics = _statistics(growth, training)


def node_ranges(growth: Growth, k: int) -> NDArray[np.int64]:
    """Which cells (numbered from left to right) of the tree with k cells each of its nodes is made of."""
    leaves = growth.leaves(k)
    ranges = np.zeros((2 * len(leaves) - 1, 2), dtype=np.int64)
    ranges[leaves, 0] = np.arange(len(leaves))
    ranges[leaves, 1] = np.arange(len(leaves)) + 1
    for j in reversed(range(k - 1)):
        ranges[growth.splits[j].node] = ranges[2 * j + 1, 0], ranges[2 * j + 2, 1]
    return ranges


def _statistics(growth: Growth, training: Training) -> Statistics:
    assert training.groups is not None  # noqa: S101  (checked when the records were prepared)
    counts = growth.node_counts
    records = counts.sum(axis=1)
    # Clusters that `retain` added are the last label; they are summed away.
    sizes = [len(label.values) for label in training.labels]
    n_groups = len(training.groups.values)
    table = counts.reshape(len(counts), *sizes, -1, n_groups).astype(np.float64)
    shares = table / records.reshape(-1, *([1] * (table.ndim - 1)))
    axes = set(range(1, table.ndim))
    return Statistics(
        records=records,
        groups=shares.sum(axis=tuple(axes - {table.ndim - 1})),
        labels=tuple(shares.sum(axis=tuple(axes - {1 + i})) for i in range(len(sizes))),
    )
