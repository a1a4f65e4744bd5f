"""Set the thresholds of calibrated cells by certification records that are not in memory.

A threshold is an order statistic: the value of the r-th smallest of a group's records, with a tie-breaking number. It
is found exactly in a few passes, without sorting anything where the records are. Each pass counts the records between
*edges*; the edges next to each wanted rank are kept, and moved closer together. Once few records are left between them,
these are listed and put in order. A sample in memory suggests the first edges, which decides how many passes there are,
not what they find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.calibrated_cells import CalibratedEncoder
from certifare.encoders.fingerprint import merge_samples, samples_of
from certifare.encoders.hashes import HashSample, RepeatSample, hash_records
from certifare.encoders.plans import IN_A_CELL, Thresholds
from certifare.engines.blocks import Block, BlockReader, Piece
from certifare.engines.counting import CERTIFICATION_SALT, Tally, checksum_of
from certifare.engines.entries import entries_of
from certifare.engines.parts import CertifyPart, Totals
from certifare.errors import TableError
from certifare.foundation.levels import name_of

#: Number of records that are listed in one pass, for all thresholds together.
MOST_LISTED = 1 << 20
#: About how many edges a pass has for the thresholds of one group.
EDGES = 1 << 13
#: Standard errors of the sample within which the first edges lie.
SURE = 5.0
#: Values with tie-breaking numbers, as value + number·i: NumPy puts complex numbers in the order of both.
Keys = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Line:
    """Which records of one group at one split, by their values along its direction, are counted and listed."""

    split: int
    group: int
    edges: Keys  # in order. Interval i holds the records above edge i − 1 and up to edge i
    listed: NDArray[np.bool_]  # the intervals whose records are listed


@dataclass(frozen=True, eq=False)
class LineTally:
    """The records of each line by interval, and those that are listed."""

    counts: tuple[NDArray[np.int64], ...]
    keys: tuple[Keys, ...]
    totals: Totals  # of the places of all records: they show whether the table was read as before

    @classmethod
    def merge(cls, parts: Sequence[LineTally]) -> LineTally:
        """Add up tallies."""
        return cls(
            tuple(np.sum(own, axis=0) for own in zip(*(part.counts for part in parts), strict=True)),
            tuple(np.concatenate(own) for own in zip(*(part.keys for part in parts), strict=True)),
            Totals.merge([part.totals for part in parts]),
        )


@dataclass(frozen=True, kw_only=True)
class CalibrationRecords:
    """Which records set thresholds, and how equal values are put in order."""

    encoder: CalibratedEncoder  # with the thresholds that are known
    reading: BlockReader
    certified: CertifyPart
    positive: str | None  # the label of the records that set the thresholds; None if all do
    tie_key: int  # for tie-breaking numbers where no column breaks ties

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return self.certified.columns(self.reading)

    def setting(self, block: Block) -> NDArray[np.bool_]:
        """Say which records of a block set thresholds: those with a group, and the label that it is about."""
        keep = block.grouped()
        if self.positive is not None:
            label = block.labels[0].levels().filled(None)
            keep &= np.array([v is not None and name_of(v) == self.positive for v in label.values])[label.codes]
        return keep

    def keyed(
        self, block: Block, places: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint16], NDArray[np.float64]]:
        """Return the values of records with a group along each direction, their groups, and tie-breaking numbers."""
        groups = self.encoder.group_codes(block.groups)
        assert groups is not None  # noqa: S101  (the encoder reads groups)
        ties = self.encoder.calibration_ties(block.fields, places, self.tie_key)
        return self.encoder.directions_.values(block.fields, groups, self.encoder.n_threads), groups, ties


@dataclass(frozen=True, kw_only=True)
class ThresholdCounter(CalibrationRecords):
    """Counts certification records between edges, on their way to splits whose thresholds are not known yet."""

    known: NDArray[np.bool_]  # which splits have thresholds
    lines: tuple[Line, ...] = ()

    def __call__(self, piece: Piece) -> LineTally:
        """Count a piece."""
        return LineTally.merge([self._count(*parts) for parts in self.certified.blocks(piece, self.reading)])

    def _count(self, block: Block, places: NDArray[np.uint64], totals: Totals) -> LineTally:
        setting = self.setting(block)
        block, places = block.take(setting), places[setting]
        counts = [np.zeros(len(line.edges) + 1, dtype=np.int64) for line in self.lines]
        keys = [np.zeros(0, dtype=np.complex128) for _ in self.lines]
        if len(block):
            values, groups, ties = self.keyed(block, places)
            reached = self.encoder.thresholds_.reach(values, groups, ties, self.known)
            for i, line in enumerate(self.lines):
                rows = np.flatnonzero((reached == line.split) & (groups == line.group))
                own = keys_of(values[rows, self.encoder.plan_.directions[line.split]], ties[rows])
                interval = np.searchsorted(line.edges, own, side="left")
                counts[i] = np.bincount(interval, minlength=len(line.edges) + 1)
                keys[i] = own[line.listed[interval]]
        return LineTally(tuple(counts), tuple(keys), totals)


@dataclass(frozen=True, eq=False)
class CalibratedTally:
    """Certification records in the cells that they have set."""

    counted: Tally
    # Records that set thresholds could have been set by, without those that did: one less than the gaps
    inside: NDArray[np.int64]
    tied: int  # records that equal a threshold on their way
    hashes: tuple[HashSample, ...]  # for the fingerprint of the records that the encoder has seen
    identifiers: HashSample | None  # of the column that breaks ties

    @classmethod
    def merge(cls, parts: Sequence[CalibratedTally]) -> CalibratedTally:
        """Add up tallies."""
        identifiers = [part.identifiers for part in parts if part.identifiers is not None]
        return cls(
            Tally.merge([part.counted for part in parts]),
            np.sum([part.inside for part in parts], axis=0),
            sum(part.tied for part in parts),
            merge_samples([part.hashes for part in parts]),
            HashSample.merge(identifiers) if identifiers else None,
        )


@dataclass(frozen=True, kw_only=True)
class CalibratedCounter(CalibrationRecords):
    """Counts the certification records in the cells whose thresholds they have set."""

    salt: bytes  # of the fingerprint
    n_records: int  # number of all records, about

    def __call__(self, piece: Piece) -> CalibratedTally:
        """Count a piece."""
        return CalibratedTally.merge([self._count(*parts) for parts in self.certified.blocks(piece, self.reading)])

    def _count(self, block: Block, places: NDArray[np.uint64], totals: Totals) -> CalibratedTally:
        encoder, thresholds = self.encoder, self.encoder.thresholds_
        known = block.grouped()
        cells, tied = np.zeros(len(block), dtype=np.int64), 0
        inside = np.zeros((encoder.n_cells_, encoder.plan_.n_groups), dtype=np.int64)
        if known.any():
            grouped = block.take(known)
            values, groups, ties = self.keyed(grouped, places[known])
            cells[known] = thresholds.cells(values, groups, ties)
            tied = int(thresholds.on_threshold(values, groups).sum())
            strictly = thresholds.reach(values, groups, ties, np.ones(encoder.n_cells_ - 1, dtype=bool)) == IN_A_CELL
            strictly &= self.setting(grouped)
            np.add.at(inside, (cells[known][strictly], groups[strictly]), 1)
        identifier = [field for field in block.fields if field.name == encoder.tie_column]
        others = [field for field in block.fields if field.name != encoder.tie_column]
        return CalibratedTally(
            Tally(
                (tuple(entries_of(block, cells, encoder.n_cells_)),),
                sample=RepeatSample.of((*others, *block.groups, *block.labels), CERTIFICATION_SALT),
                checksum=checksum_of(block.fields, CERTIFICATION_SALT),
                totals=totals,
            ),
            inside,
            tied,
            samples_of(block.fields, self.salt, self.n_records),
            HashSample.of(hash_records(identifier, CERTIFICATION_SALT), self.n_records) if identifier else None,
        )


LineCount = Callable[[ThresholdCounter], LineTally]


def find_thresholds(
    work: ThresholdCounter, count: LineCount, values: NDArray[np.float64], groups: NDArray[np.integer]
) -> Thresholds:
    """Find the thresholds that certification records set by the plan of an encoder.

    They are those that :meth:`GapPlan.calibrate` finds in memory. Values and groups of a sample say where to look.
    """
    encoder, plan = work.encoder, work.encoder.plan_
    first, ranks = plan.chains
    split_above = (plan.parents - 1) // 2  # −1 for the root
    shape = (len(plan.parents), plan.n_groups)
    found = Thresholds(plan.parents, plan.directions, np.zeros(shape), np.zeros(shape))
    known = np.zeros(len(plan.parents), dtype=bool)
    while not known.all():
        # Thresholds along one direction are found together; others wait until those above them are known.
        starts = [j for j in np.unique(first[~known]).tolist() if not j or known[split_above[j]]]
        reached = found.reach(values, groups, np.full(len(values), 0.5), known)
        wanted = []
        for split in starts:
            chain = np.flatnonzero(first == split)
            for group in range(plan.n_groups):
                rows = np.flatnonzero((reached == split) & (groups == group))
                sample = np.sort(values[rows, plan.directions[split]])
                n = int(plan.node_gaps[plan.parents[split], group]) - 1
                wanted.append(Wanted(split, group, n, chain, ranks[chain, group], sample))
        encoder.thresholds_ = found
        for own, keys in zip(wanted, find_order_statistics(wanted, replace(work, known=known), count), strict=True):
            found.at[own.chain, own.group], found.ties[own.chain, own.group] = keys.real, keys.imag
        known = known | np.isin(first, starts)
    encoder.thresholds_ = found
    return found


@dataclass(frozen=True, eq=False)
class Wanted:
    """Order statistics that are wanted of the records of one group that reach a split."""

    # ``n`` records of the group reach the split
    split: int
    group: int
    n: int
    chain: NDArray[np.int64]  # the splits whose thresholds they are
    ranks: NDArray[np.int64]
    sample: NDArray[np.float64]  # values of some such records, in order

    def first_edges(self) -> Keys:
        """Return edges about where the sample has the wanted ranks."""
        m = len(self.sample)
        if m < 2:
            return closer(np.zeros(0, dtype=np.complex128), np.zeros(1, dtype=np.int64))
        q = self.ranks / (self.n + 1)
        half = SURE * np.sqrt(q * (1.0 - q) / m) + 2.0 / m
        steps = np.linspace(-1.0, 1.0, max(16, EDGES // len(q)))
        at = np.rint((q[:, None] + half[:, None] * steps) * m).astype(np.int64).clip(0, m - 1)
        return np.unique(keys_of(self.sample[np.unique(at)], 2.0))


def find_order_statistics(wanted: Sequence[Wanted], work: ThresholdCounter, count: LineCount) -> list[Keys]:
    """Find order statistics exactly, in as many passes as it takes."""
    few = sum(own.n for own in wanted) <= MOST_LISTED
    edges = [np.zeros(0, dtype=np.complex128) if few else own.first_edges() for own in wanted]
    listed = [np.full(len(own) + 1, few) for own in edges]
    while True:
        lines = [Line(own.split, own.group, e, kept) for own, e, kept in zip(wanted, edges, listed, strict=True)]
        tally = count(replace(work, lines=tuple(lines)))
        ends = [np.cumsum(counts) for counts in tally.counts]
        if any(end[-1] != own.n for own, end in zip(wanted, ends, strict=True)):
            raise TableError("The certification records are other ones than were counted before. Start again.")
        intervals = [np.searchsorted(end, own.ranks, side="left") for own, end in zip(wanted, ends, strict=True)]
        if any(kept.any() for kept in listed):
            return [
                _ranked(keys, own, line, end, interval)
                for keys, own, line, end, interval in zip(tally.keys, wanted, lines, ends, intervals, strict=True)
            ]
        held = [np.unique(interval) for interval in intervals]
        if sum(int(counts[own].sum()) for counts, own in zip(tally.counts, held, strict=True)) <= MOST_LISTED:
            for kept, own in zip(listed, held, strict=True):
                kept[own] = True
            continue
        closed = [closer(e, own) for e, own in zip(edges, held, strict=True)]
        if all(len(new) <= 2 * len(own) for new, own in zip(closed, held, strict=True)):
            raise work.encoder.repeated_ties()  # no edge fits between: too many records are equal in all respects
        edges, listed = closed, [np.full(len(own) + 1, False) for own in closed]


def _ranked(keys: Keys, own: Wanted, line: Line, ends: NDArray[np.int64], interval: NDArray[np.int64]) -> Keys:
    """Return the wanted records among those that were listed."""
    keys = np.sort(keys)
    # Listed records come interval by interval; those of the intervals between are not there.
    counts = np.diff(ends, prepend=0)
    before = np.cumsum(np.where(line.listed, counts, 0)) - np.where(line.listed, counts, 0)
    at = before[interval] + own.ranks - (ends - counts)[interval] - 1
    found: Keys = keys[at]
    return found


def closer(edges: Keys, intervals: NDArray[np.int64]) -> Keys:
    """Return edges within some intervals of others: evenly among all numbers, and among tie-breaking numbers."""
    n = max(16, EDGES // len(intervals) // 3)
    found: list[Keys] = []
    for i in intervals.tolist():
        low = edges[i - 1] if i else complex(-np.inf, -1.0)
        high = edges[i] if i < len(edges) else complex(np.inf, 2.0)
        found.append(np.array([low, high]))
        if low.real == high.real:
            found.append(keys_of(low.real, np.linspace(low.imag, high.imag, n)))
            continue
        found.append(keys_of(numbers_between(low.real, high.real, n), 2.0))
        found.append(keys_of(low.real, np.linspace(low.imag, 2.0, n)))
        found.append(keys_of(high.real, np.linspace(-1.0, high.imag, n)))
    return np.unique(np.concatenate(found))


def numbers_between(low: float, high: float, n: int) -> NDArray[np.float64]:
    """Return about n numbers between two, evenly among all that a double can hold.

    >>> numbers_between(1.0, 4.0, 3).tolist()
    [1.5, 2.0, 3.0]
    """
    first, last = (_position(number) for number in (low, high))
    positions = sorted({first + (last - first) * i // (n + 1) for i in range(1, n + 1)} - {first, last})
    bits = np.array([p if p >= 0 else -(2**63) - p for p in positions], dtype=np.int64)
    return bits.view(np.float64) + 0.0


def _position(number: float) -> int:
    """Return the position of a number among all doubles."""
    bits = int(np.array([number + 0.0]).view(np.int64)[0])
    return bits if bits >= 0 else -(2**63) - bits


def keys_of(values: NDArray[np.float64] | float, ties: NDArray[np.float64] | float) -> Keys:
    """Join values and tie-breaking numbers."""
    values, ties = np.broadcast_arrays(values, ties)
    keys = np.empty(values.shape, dtype=np.complex128)
    keys.real, keys.imag = values, ties
    return keys
