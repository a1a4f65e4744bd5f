"""Prepare training records that an engine holds, so that a tree grows on them as it would in memory.

Four passes over the pieces: survey values and hashes; sample the columns that need quantiles; code every record as
small integers, which the engine keeps; and, once the tree has grown, find medians inside bins of several values.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.fitting import check_classes
from certifare.encoders.representatives import Middle, Representatives, modes
from certifare.encoders.training import ColumnSchema, mark_categorical
from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import Block, BlockReader, Feature, MissingRoles, Piece, Role, Share, Worker
from certifare.engines.coding import Plan
from certifare.engines.survey import Survey, Surveyor, merge_surveys
from certifare.errors import EncoderError, GroupError
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import stream
from certifare.growth import Bins, CategoricalBins, Codes, Growth, Histogram, HistogramSource, Targets
from certifare.growth.binning import bins_of
from certifare.growth.summary import SAMPLE_ROWS, sample_positions
from certifare.tables.frames import Frame

NO_CODES = np.zeros(0, dtype=np.int64)
#: Called with the current step ("survey", "sample", "code", "grow", "medians") and the share of it that is done.
StepProgress = Callable[[str, float], Any]
#: For a column and a node: sorted distinct values, and the number of records of each.
ValueCountsByNode = dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.int64]]]


class CodedRecords(HistogramSource, Protocol):
    """Coded records, wherever they are stored. ``root`` starts another growth."""

    def leaves(self, growth: Growth) -> list[Histogram]:
        """Return the histogram of each cell, from left to right, of the tree that was grown last."""
        ...


class Engine(Worker, Protocol):
    """A worker that can also store coded records, and compute histograms of them for a grower."""

    n_pieces: int  # number of pieces
    n_records: int | None  # number of records, if known before they are read

    def code(self, plan: Plan, lengths: Sequence[int], progress: Share | None = None) -> CodedRecords:
        """Code all records; piece i has ``lengths[i]``."""
        ...


@dataclass(frozen=True, eq=False)
class MedianFinder:
    """Counts the values inside the middle bin of each node."""

    plan: Plan
    growth: Growth
    ranges: NDArray[np.int64]  # the range of cells of each node
    wanted: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int64]]]

    def __call__(self, piece: Piece) -> ValueCountsByNode:
        """Count the values of a piece."""
        return merge_value_counts([self._tally(block) for block in self.plan.blocks(piece)])

    def _tally(self, block: Block) -> ValueCountsByNode:
        codes = self.plan.codes(block)
        cells = self.growth.apply(codes)
        tallies: ValueCountsByNode = {}
        for c, (places, middle) in self.wanted.items():
            rows = np.flatnonzero(np.isin(codes.columns[c], np.unique(middle)))
            of_rows, cell_of = codes.columns[c][rows], cells[rows]
            numbers = block.fields[c].numbers()[rows]
            for place, code in zip(places.tolist(), middle.tolist(), strict=True):
                low, high = self.ranges[place]
                inside = numbers[(of_rows == code) & (cell_of >= low) & (cell_of < high)]
                tallies[c, place] = np.unique(inside, return_counts=True)
        return tallies


@dataclass(frozen=True, eq=False)
class EngineTraining:
    """Training records that an engine holds (:class:`~certifare.encoders.training.Training`).

    Only one tree can grow at a time, because growing reorders the records.
    """

    engine: Engine
    plan: Plan  # how records are coded
    survey: Survey
    records: CodedRecords
    fingerprint: Fingerprint
    settings: dict[str, Any]
    progress: StepProgress | None = None

    derived = None
    bare = False
    named = True
    """Columns of files and dataframes have names."""

    def __len__(self) -> int:
        return self.survey.n_records

    @property
    def columns(self) -> tuple[ColumnSchema, ...]:
        """The features."""
        return self.plan.columns

    @property
    def bins(self) -> tuple[Bins, ...]:
        """The bins of the features."""
        return self.plan.bins

    @property
    def labels(self) -> tuple[Levels, ...]:
        """Label columns; the codes are stored with the records."""
        return tuple(Levels(name, NO_CODES, values) for name, values in self.plan.labels)

    @property
    def groups(self) -> Levels:
        """The groups; the codes are stored with the records."""
        return Levels(self.plan.group_name, NO_CODES, self.plan.groups)

    def source(self, targets: Targets, n_threads: int) -> HistogramSource:
        """Return the source of histograms for a grower; the engine decides on the number of threads."""
        return self.records

    def growing(self, max_cells: int) -> Callable[[int], Any] | None:
        """Return the callback that reports how many of ``max_cells`` cells have grown."""
        share = _share(self.progress, "grow")
        return None if share is None else lambda cells: share(cells / max_cells)

    def representatives(
        self, growth: Growth, ranges: NDArray[np.int64], n_threads: int, codes: Codes | None = None
    ) -> Representatives:
        """Compute representatives from the counts of the cells and, if a bin holds several values, from the values."""
        by_cell = np.array([leaf.counts.sum(axis=0) for leaf in self.records.leaves(growth)])
        by_node = np.array([by_cell[low:high].sum(axis=0) for low, high in ranges])
        offsets = np.cumsum([0, *self.plan.n_codes])
        values: list[NDArray[Any]] = []
        wide: dict[int, Middle] = {}
        for c, (column, bins) in enumerate(zip(self.columns, self.bins, strict=True)):
            counts = by_node[:, offsets[c] : offsets[c + 1]]
            if isinstance(bins, CategoricalBins):
                values.append(modes(bins, counts, column.type == "text"))
                continue
            middle = Middle.of(counts)
            values.append(np.full(len(counts), np.nan))
            tally = self.survey.summary.tallies[c]
            if tally is not None and len(tally[0]) == len(bins.edges) + 1:
                values[c][middle.places] = np.append(bins.edges, self.survey.highest[c])[middle.codes]
            elif len(middle.places):
                wide[c] = middle
        if wide:
            finder = MedianFinder(self.plan, growth, ranges, {c: (m.places, m.codes) for c, m in wide.items()})
            found = self.engine.reduce(finder, merge_value_counts, progress=_share(self.progress, "medians"))
            for c, middle in wide.items():
                for place, rank in zip(middle.places.tolist(), middle.ranks.tolist(), strict=True):
                    numbers, how_often = found[c, place]
                    values[c][place] = numbers[np.searchsorted(np.cumsum(how_often), rank, side="right")]
        return Representatives(self.columns, tuple(values))


def check_tree(encoder: object) -> None:
    """Raise if an encoder cannot be fitted on a table that is never in memory as a whole."""
    if not isinstance(encoder, FairTreeEncoder):
        raise EncoderError(
            f"{type(encoder).__name__} needs the whole table in memory. Fit it on a sample of the records (of a Dask "
            "DataFrame: X.sample(frac=…).compute()), or let certifare.produce draw one. FairTreeEncoder can be fitted "
            "on this table."
        )


def feature_reader(
    encoder: FairTreeEncoder, sample: Frame, labels: tuple[Role, ...], groups: tuple[Role, ...]
) -> BlockReader:
    """Return a reader of labels, groups and features, whose types are those of a sample."""
    fields = sample.fields()
    marks = mark_categorical(sample, range(len(fields)), fields, encoder.categorical_features)
    features = tuple(Feature(f.name, f.type, mark) for f, mark in zip(fields, marks, strict=True))
    return BlockReader(features, labels, groups)


def prepare_over(
    encoder: FairTreeEncoder,
    engine: Engine,
    reading: BlockReader,
    *,
    missing: MissingRoles = "refuse",
    progress: StepProgress | None = None,
) -> EngineTraining:
    """Prepare training records over the pieces that an engine holds, like ``encoder.prepare``.

    ``missing`` says what to do with records without a label or a group.
    """
    if encoder.retain:
        raise EncoderError("retain= needs the whole table in memory; set retain=0, or fit on a sample of the records.")
    salt = secrets.token_bytes(16)
    surveyor = Surveyor(reading, salt, engine.n_records, engine.n_pieces)
    survey = engine.reduce(surveyor, merge_surveys, progress=_share(progress, "survey"))
    survey.check(missing)
    plan = Plan(
        reading=reading,
        columns=survey.schema(reading),
        bins=_fit_bins(encoder, engine, reading, survey, _share(progress, "sample")),
        labels=tuple((name, tuple(sorted(values))) for name, values in survey.labels.items()),
        groups=tuple(sorted(survey.groups)),
    )
    check_classes("group", plan.group_name, plan.groups, survey.n_records)
    for name, values in plan.labels:
        check_classes("label", name, values, survey.n_records)
    records = engine.code(plan, survey.lengths, _share(progress, "code"))
    if not encoder.allow_sensitive_feature:
        _refuse_copies(records.root(), plan)
    return EngineTraining(
        engine=engine,
        plan=plan,
        survey=survey,
        records=records,
        fingerprint=Fingerprint.from_samples(salt, [column.name for column in plan.columns], survey.hashes),
        settings={name: encoder.get_params()[name] for name in encoder.settings},
        progress=progress,
    )


def _share(progress: StepProgress | None, step: str) -> Share | None:
    return None if progress is None else lambda share: progress(step, share)


def _fit_bins(
    encoder: FairTreeEncoder, engine: Engine, reading: BlockReader, survey: Survey, progress: Share | None
) -> tuple[Bins, ...]:
    """Fit the same bins as :func:`certifare.growth.fit_bins` for the whole table."""
    sampled = survey.summary.sampled
    samples: Mapping[int, NDArray[np.float64]] = {}
    if sampled:
        positions = sample_positions(survey.n_records, SAMPLE_ROWS, stream(encoder.seed, "bins"))
        chosen = replace(reading, features=tuple(reading.features[i] for i in sampled))
        matrix = engine.reduce(Sampler(chosen, by_piece(positions, survey.lengths)), np.concatenate, progress)
        samples = dict(zip(sampled, matrix.T, strict=True))
    categorical = [feature.categorical for feature in reading.features]
    return bins_of(survey.summary, categorical, samples, max_bins=encoder.max_bins)


@dataclass(frozen=True)
class Sampler:
    """Returns the features of some rows of a piece."""

    reading: BlockReader
    rows: Sequence[NDArray[np.int64]]  # of each piece, in order

    def __call__(self, piece: Piece) -> NDArray[np.float64]:
        """Return numbers, (rows, features)."""
        positions, start, found = self.rows[piece.number], 0, []
        for block in piece.blocks(self.reading):
            block, _ = block.complete()
            first, last = np.searchsorted(positions, [start, start + len(block)])
            rows = positions[first:last] - start
            found.append(np.column_stack([field.numbers()[rows] for field in block.fields]))
            start += len(block)
        return np.concatenate(found)


def by_piece(positions: NDArray[np.int64], lengths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Split sorted row numbers of the whole table by piece, and count them from the start of each piece.

    >>> [rows.tolist() for rows in by_piece(np.array([0, 4, 5, 9]), [5, 2, 3])]
    [[0, 4], [0], [2]]
    """
    stops = np.cumsum(lengths)
    parts = np.split(positions, np.searchsorted(positions, stops[:-1]))
    return [part - (stop - length) for part, stop, length in zip(parts, stops, lengths, strict=True)]


def _refuse_copies(root: Histogram, plan: Plan) -> None:
    """Raise if a feature determines the group, as ``fit`` does: each value occurs in one group only."""
    by_group = root.counts.reshape(-1, len(plan.groups), root.counts.shape[1]).sum(axis=0)
    names = [role.name for role in plan.reading.groups]
    partitions = [(" × ".join(names), list(range(len(plan.groups))))]
    if len(names) > 1:
        for i, name in enumerate(names):
            values = sorted({group[i] for group in plan.groups})  # type: ignore[index]
            partitions.append((name, [values.index(group[i]) for group in plan.groups]))  # type: ignore[index]
    for name, part_of in partitions:
        counts = np.zeros((max(part_of) + 1, by_group.shape[1]), dtype=np.int64)
        np.add.at(counts, part_of, by_group)
        for c, column in enumerate(plan.columns):
            occupied = counts[:, root.offsets[c] : root.offsets[c + 1]] > 0
            one_to_one = (occupied.sum(axis=0) <= 1).all() and (occupied.sum(axis=1) == 1).all()
            if one_to_one and len(counts) > 1:
                raise GroupError(
                    f"Column {column.name!r} determines the group: it repeats the sensitive column {name!r}. Drop it, "
                    "or set allow_sensitive_feature=True to keep it as a feature."
                )


def merge_value_counts(parts: Sequence[ValueCountsByNode]) -> ValueCountsByNode:
    """Add up value counts."""
    if len(parts) == 1:
        return parts[0]
    merged: ValueCountsByNode = {}
    for key in parts[0]:
        values, inverse = np.unique(np.concatenate([part[key][0] for part in parts]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, inverse, np.concatenate([part[key][1] for part in parts]))
        merged[key] = values, counts
    return merged
