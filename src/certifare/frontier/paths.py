"""Fit each growth once, and count records for every encoder on its path.

Cells of a growth are numbered from left to right, and the cells of a smaller encoder are runs of adjacent ones. So the
records are encoded once per growth and counted by cell, group and label; the counts of all smaller encoders are sums
over runs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.information import Spreads
from certifare.encoders.training import MemoryTraining
from certifare.encoders.weighting import representative_rows
from certifare.foundation.randomness import stream
from certifare.frontier.settings import Grid, Setting
from certifare.frontier.utility import Estimates, Performance, base_rates, forecasts
from certifare.tables.frames import Field, Frame
from certifare.tables.table import Table

if TYPE_CHECKING:
    from certifare.growth import Codes

#: The most records on which encoders are compared record by record …
PROBE_RECORDS = 20_000
#: … and on which retained information is measured.
RETAINED_RECORDS = 2_500


@dataclass(frozen=True, eq=False)
class PartCounts:
    """Counts of one part of a table by cell."""

    groups: NDArray[np.int64]  # by group and first label; records without a label are last
    labels: tuple[NDArray[np.int64], ...]  # by each label, for records that have it

    @classmethod
    def of(cls, table: Table, cells: NDArray[Any], n_cells: int) -> PartCounts:
        """Count the records of a table."""
        by_label = tuple(
            np.bincount((cells * len(y.names) + y.codes)[y.codes >= 0], minlength=n_cells * len(y.names)).reshape(
                n_cells, -1
            )
            for y in table.labels
        )
        with_label = table.count(cells, n_cells, labels=True).table
        all_records = table.count(cells, n_cells).table
        return cls(np.dstack([with_label, all_records - with_label.sum(axis=2)]), by_label)

    def merged(self, starts: NDArray[np.int64]) -> PartCounts:
        """Return the counts after runs of cells were merged; ``starts`` are their first cells."""
        return PartCounts(
            np.add.reduceat(self.groups, starts, axis=0),
            tuple(np.add.reduceat(table, starts, axis=0) for table in self.labels),
        )


@dataclass(frozen=True, eq=False)
class GrowthPath:
    """The counts of one growth."""

    setting: Setting
    # For each number of cells on the path, the finest cells at which a cell begins
    starts: dict[int, NDArray[np.int64]]
    counts: dict[str, PartCounts]  # records of each part by finest cell; ``train`` is always included
    probe: NDArray[np.uint16]  # the finest cell of each probe record
    retained: dict[int, float]  # retained information of each encoder on the path

    def at(self, part: str, k: int) -> PartCounts:
        """Return the counts of a part under the encoder with k cells."""
        return self.counts[part].merged(self.starts[k])

    def labels(self, part: str) -> list[NDArray[np.int64]]:
        """Return a part's counts by cell and value of each label, for all encoders: (encoders, cells, values)."""
        found = []
        for table in self.counts[part].labels:
            stacked = np.zeros((len(self.starts), *table.shape), dtype=np.int64)
            for own, starts in zip(stacked, self.starts.values(), strict=True):
                own[: len(starts)] = np.add.reduceat(table, starts, axis=0)
            found.append(stacked)
        return found

    def figures(self, part: str) -> Estimates:
        """Measure the predictions of all encoders on a part."""
        train = self.labels("train")
        return Estimates.of([forecasts(t) for t in train], [base_rates(t) for t in train], self.labels(part))

    def performance(
        self, k: int, counts: Sequence[NDArray[np.int64]], confidence: float = 0.95, candidates: int = 1
    ) -> Performance:
        """Measure the same with confidence intervals (:class:`~certifare.frontier.utility.Performance`)."""
        train = self.at("train", k).labels
        found = [forecasts(t) for t in train], [base_rates(t) for t in train]
        return Performance.of(*found, counts, confidence, candidates)

    def votes(self, k: int) -> list[NDArray[np.int64]]:
        """Return for each label the most likely value in each cell."""
        return [forecasts(table).argmax(axis=1) for table in self.at("train", k).labels]

    def probe_cells(self, k: int) -> NDArray[np.int64]:
        """Return the cell of each probe record under the encoder with k cells."""
        return np.searchsorted(self.starts[k], self.probe, side="right") - 1


class Explorer:
    """Fits growths on training records and counts other records on them.

    - ``train``: encoders are fitted on its records with every label; the others are only counted. Weights say how
      often each record counts.
    - ``parts``: records to count; encoders are compared on the first part.
    - ``common``: parameters of all encoders: ``metric``, ``positive_label``, ``retain``, ``random_state`` …
    - ``n_jobs``: number of threads that prepare a kind of encoder.
    """

    def __init__(
        self, train: Table, parts: Mapping[str, Table], grid: Grid, common: Mapping[str, Any], n_jobs: int = 1
    ) -> None:
        self.train = train if train.trainable.all() else train.take(np.flatnonzero(train.trainable))
        self._unlabelled = train.take(np.flatnonzero(~train.trainable))
        self._counted = _counted(train, stream(common.get("random_state", 0), "weights of the train part"))
        self.parts = dict(parts)
        self.grid = grid
        self.common = dict(common)
        self.n_jobs = n_jobs
        self.settings = tuple(grid.settings(len(self.train)))
        rng = stream(self.common.get("random_state", 0), "probe records")
        self._probe_rows = np.sort(rng.permutation(np.flatnonzero(self.compared.labelled))[:PROBE_RECORDS])
        self.probe = self.compared.take(self._probe_rows)
        self._probe_fields = _fields(self.probe.take(np.arange(min(RETAINED_RECORDS, len(self.probe)))))
        self._probe_spreads: dict[tuple[bool, ...], Spreads] = {}
        self._prepared: dict[str, Any] = {}
        self._codes: dict[tuple[str, str], Codes] = {}
        self._whole: dict[Setting, Any] = {}
        self._lock = threading.Lock()

    @property
    def compared(self) -> Table:
        """The part on which encoders are compared: the first."""
        return next(iter(self.parts.values()))

    def prepare(self, kind: str) -> Any:
        """Prepare one kind of encoder: compute bins and codes, or scores, which all its growths share."""
        with self._lock:
            if kind not in self._prepared:
                setting = next(s for s in self.settings if s.kind == kind)
                encoder = setting.encoder(**self.common, n_jobs=self.n_jobs)
                read = next((found for found in self._prepared.values() if isinstance(found, MemoryTraining)), None)
                self._prepared[kind] = (
                    encoder.prepare(
                        self.train.features,
                        self.train.labels,
                        sensitive_features=self.train.groups,
                        units=self.train.clusters,
                    )
                    if read is None
                    else encoder.prepare_from(read)
                )
            return self._prepared[kind]

    def has_walked(self, kind: str) -> bool:
        """Whether growths of a kind were counted."""
        return (kind, next(iter(self.parts))) in self._codes

    def codes_of(self, kind: str, part: str) -> Codes:
        """Return the codes of a part's records, after growths of a kind were counted."""
        return self._codes[kind, part]

    def fit(self, setting: Setting, *, bare: bool = False) -> Any:
        """Return the fitted encoder of a growth, with all its cells; a bare one has no representatives.

        Complete ones are cached: several encoders of a sequence come from one growth.
        """
        training = self.prepare(setting.kind)
        if bare:
            return setting.encoder(**self.common).fit_from(replace(training, bare=True))
        if setting not in self._whole:
            self._whole[setting] = setting.encoder(**self.common).fit_from(training)
        return self._whole[setting]

    def walk(self, setting: Setting) -> GrowthPath:
        """Fit a growth and count every part on it."""
        encoder = self.fit(setting, bare=True)
        n_cells = int(encoder.n_cells_)
        starts = encoder.starts_at(self.grid.path(n_cells))
        counts = {"train": self._count_training(encoder, setting)}
        probe = np.zeros(0, dtype=np.uint16)
        for i, (name, table) in enumerate(self.parts.items()):
            cells = self.cells(encoder, setting, name, table)
            counts[name] = PartCounts.of(table, cells, n_cells)
            if i == 0:
                probe = cells[self._probe_rows].astype(np.uint16)
        spreads = self._spreads(encoder)
        merged = spreads.along(probe[: len(self._probe_fields[0])], n_cells, starts.values())
        retained = {k: found.mean for k, found in zip(starts, merged, strict=True)}
        return GrowthPath(setting, starts, counts, probe, retained)

    def _spreads(self, encoder: Any) -> Spreads:
        """Return the columns on which retained information is measured, in an encoder's form."""
        categorical = tuple(column.categorical for column in encoder.columns_)
        with self._lock:
            if categorical not in self._probe_spreads:
                self._probe_spreads[categorical] = Spreads(self._probe_fields, categorical)
            return self._probe_spreads[categorical]

    def _count_training(self, encoder: Any, setting: Setting) -> PartCounts:
        """Count the training records, including those without a label."""
        counted = _count(self.train, self._training_cells(encoder, setting), int(encoder.n_cells_), self._counted[True])
        return replace(counted, groups=counted.groups + self._count_unlabelled(encoder, setting))

    def _count_unlabelled(self, encoder: Any, setting: Setting) -> NDArray[np.int64]:
        """Count the records of the train part without a label."""
        n_cells = int(encoder.n_cells_)
        cells = (
            self.cells(encoder, setting, "unlabelled", self._unlabelled) if len(self._unlabelled) else np.zeros(0, int)
        )
        return _count(self._unlabelled, cells, n_cells, self._counted[False]).groups

    def _training_cells(self, encoder: Any, setting: Setting) -> NDArray[np.int64]:
        """Return the cells of the training records; for a boosted encoder, from out-of-fold scores."""
        training = self.prepare(setting.kind)
        codes = training.derived.codes if setting.kind == "boosted" else training.codes
        return _cell_ids(encoder.apply_codes(codes))

    def boosting(self, table: Table) -> list[NDArray[np.float64]] | None:
        """Predict the labels of a table by gradient boosting on its columns; None if no model was fitted."""
        setting = next((s for s in self.settings if s.kind == "boosted"), None)
        if setting is None or "boosted" not in self._prepared:
            return None
        # Its models predict, not its cells: one cell is enough.
        encoder = self.fit(replace(setting, max_cells=1), bare=True)
        forecasts: list[NDArray[np.float64]] = encoder.forecasts(table.features)
        return forecasts

    def cells(self, encoder: Any, setting: Setting, name: str, table: Table) -> NDArray[np.int64]:
        """Return the cells of a part's records, from codes that all growths of a kind share (the slow part)."""
        return _cell_ids(encoder.apply_codes(self._find_codes(encoder, setting.kind, name, table)))

    def _find_codes(self, encoder: Any, kind: str, name: str, table: Table) -> Codes:
        """Return the codes of a part's records, computed once."""
        with self._lock:
            if (kind, name) not in self._codes:
                self._codes[kind, name] = encoder.codes(table.features)
            return self._codes[kind, name]


def _counted(train: Table, rng: np.random.Generator) -> dict[bool, NDArray[np.int64] | None]:
    """Return the rows to count of the records with every label, and of the others; None if each counts once."""
    if train.weights is None:
        return dict.fromkeys((True, False))
    times = np.bincount(representative_rows(train.weights, rng), minlength=len(train))
    return {
        kind: np.repeat(np.arange(kept.sum()), times[kept])
        for kind, kept in ((True, train.trainable), (False, ~train.trainable))
    }


def _count(table: Table, cells: NDArray[np.int64], n_cells: int, rows: NDArray[np.int64] | None) -> PartCounts:
    return (
        PartCounts.of(table, cells, n_cells) if rows is None else PartCounts.of(table.take(rows), cells[rows], n_cells)
    )


def _cell_ids(cells: NDArray[Any]) -> NDArray[np.int64]:
    return cells.astype(np.int64)


def _fields(table: Table) -> list[Field]:
    return Frame(table.features).fields()
