"""Count records by cell, group and label, from any number of pieces, machines or databases.

Every source of records returns :class:`CountedRecords`, from which a certificate, a counts file or a period is made.
Sources that count in pieces first make a :class:`Tally` of :class:`Entry`; :func:`lay_out` turns it into the same table
as ``CellCounts.from_cells``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import Claim
from certifare.certificates.counts import GROUP_MISSING, LABEL_MISSING, Exclusion, Missing
from certifare.certificates.issuing import issue
from certifare.certificates.provenance import Provenance, provenance_of
from certifare.certificates.repeats import Repeats
from certifare.certificates.tail import Tail
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.fingerprint import Fingerprint, Overlap
from certifare.encoders.hashes import RepeatSample, hash_records
from certifare.encoders.records import check_columns
from certifare.engines.blocks import Block, BlockReader, Feature, Piece, Role, roles_of
from certifare.engines.preparing import Share, Worker
from certifare.errors import ArgumentError, CountsError, GroupError, TableError
from certifare.foundation.levels import INTERSECTION, UNKNOWN, Levels, intersect, name_of, sort_key
from certifare.growth import Dictionary
from certifare.tables.frames import Field
from certifare.tables.reading import POOLED, Reading
from certifare.tables.roles import parse_role
from certifare.tables.table import band_names

SECOND_SALT = np.uint64(0x9E3779B97F4A7C15)


class Entry(NamedTuple):
    """The number of records with this cell, these values of the sensitive columns and this label; None is missing."""

    cell: int
    groups: tuple[str | None, ...]
    label: str | None
    records: int


def lay_out(
    entries: Iterable[Entry],
    n_cells: int,
    *,
    labelled: bool,
    missing: Missing = "refuse",
    drop_unlabelled: bool = False,
) -> CellCounts:
    """Turn entries into a table of counts.

    Parameters
    ----------
    entries : iterable of Entry
        Equal ones are added up.
    n_cells : int
    labelled : bool
        Whether the table has labels.
    missing : {"refuse", "unknown", "drop"}
        What to do with records without a group or label, as in ``CellCounts.from_cells``.
    drop_unlabelled : bool
        Leave out and count records without a label, whatever ``missing`` is.

    Examples
    --------
    >>> from certifare.engines.counting import Entry, lay_out
    >>> entries = [Entry(0, ("f",), None, 3), Entry(1, ("m",), None, 2), Entry(0, ("f",), None, 1)]
    >>> lay_out(entries, 3, labelled=False).table.tolist()
    [[4, 0], [0, 2], [0, 0]]
    """
    if missing not in ("refuse", "unknown", "drop"):
        raise ArgumentError(f'missing={missing!r}: choose "refuse", "unknown" or "drop".')
    counted: Counter[tuple[int, str, str | None]] = Counter()
    parts_of: dict[str, tuple[str, ...]] = {}
    label_names: set[str] = set()
    without_group = without_label = total = 0
    for cell, values, label, records in entries:
        if not 0 <= cell < n_cells:
            raise CountsError(f"{records:,} records have the cell {cell}, which is not in 0 … {n_cells - 1}.")
        total += records
        parts = tuple(value for value in values if value is not None)
        if len(parts) < len(values):
            without_group += records
            if missing != "unknown":
                continue
            group = UNKNOWN
        else:
            group = INTERSECTION.join(parts)
            if parts_of.setdefault(group, parts) != parts:
                raise GroupError(f"Two groups would be called {group!r}: rename the values of one of the columns.")
        if labelled and label is None:
            without_label += records
            continue
        label_names |= {label} - {None}  # type: ignore[arg-type]
        counted[cell, group, label if labelled else None] += records
    if without_group and missing == "refuse":
        raise TableError(
            f"{without_group:,} of {total:,} records lack a group. "
            'Pass missing="unknown" to count them as a separate group, or missing="drop" to leave them out and '
            "record their number."
        )
    if without_label and missing != "drop" and not drop_unlabelled:
        raise TableError(
            f'{without_label:,} records lack a label. Remove them, or pass missing="drop" to leave them out and record '
            "their number."
        )
    unknown = {UNKNOWN} if without_group and missing == "unknown" else set()
    groups = sorted({*parts_of, *unknown}, key=sort_key)
    if not groups:
        raise GroupError("No record has a group, so there is nothing to count.")
    if labelled and not label_names:
        raise ArgumentError("No record has a label. Name another column, or give records with labels.")
    labels = sorted(label_names, key=sort_key)
    table = np.zeros((n_cells, len(groups), len(labels) if labelled else 1), dtype=np.int64)
    for (cell, group, label), records in counted.items():
        table[cell, groups.index(group), 0 if label is None else labels.index(label)] += records
    exclusions = [Exclusion(LABEL_MISSING, without_label)]
    if missing == "drop":
        exclusions.append(Exclusion(GROUP_MISSING, without_group))
    return CellCounts(table if labelled else table[:, :, 0], groups, labels if labelled else None, exclusions)


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """What to count, and how.

    Attributes
    ----------
    labelled : bool
        Whether to count by label; records without a label are then left out.
    seed : int
        Seed of random choices.
    salt : bytes
        Salt of the checksum of the records; without it there is no checksum.
    halves : bool
        Whether to split the records at random into two halves, for ``method="lemmas"``.
    recorded_label : str or None
        A label that the claim does not use, but the certificate names: its column must exist.
    allow_training_records : bool
        Count records even if the encoder was fitted on them; the certificate is then marked invalid.
    progress : callable, optional
        Called with the share that is done.
    """

    labelled: bool = False
    seed: int = 0
    salt: bytes = b""
    halves: bool = False
    recorded_label: str | None = None
    allow_training_records: bool = False
    progress: Share | None = None

    def check_label(self, names: Sequence[str]) -> None:
        """Raise if the label to record is not among the columns."""
        if self.recorded_label is not None:
            parse_role(self.recorded_label, names, "label")


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedRecords:
    """Records by cell, group and label, with their provenance.

    Attributes
    ----------
    counts : CellCounts
        Including the records that were left out, and why.
    provenance : Provenance
        What a certificate states about the records.
    training : CellCounts or None
        The encoder's training records, on which a set of cells for the lower bound may be chosen.
    tail : Tail or None
        The weight above the cap, if weights were capped.
    sum_counts : CellCounts or None
        The second random half of the records, if they were split (``method="lemmas"``).
    digest : str or None
        Identifies the records, so that random choices on different records are independent; None if unknown.
    checksum : str or None
        Equal for equal records in any order, by the encoder's columns and a salt; None if unknown.
    overlap : Overlap or None
        Number of the records that are training records; None if they were not looked up.
    positive : str or None
        The label for which a comparison such as ``income>50000`` holds.
    notes : tuple of str
        Warnings for the user.
    """

    counts: CellCounts
    provenance: Provenance
    training: CellCounts | None = None
    tail: Tail | None = None
    sum_counts: CellCounts | None = None
    digest: str | None = None
    checksum: str | None = None
    overlap: Overlap | None = None
    positive: str | None = None
    notes: tuple[str, ...] = ()

    def certify(self, claim: Claim) -> Certificate:
        """Certify the encoder that the records were counted with."""
        if claim.positive is None and claim.distance.strata == "positive":
            claim = replace(claim, positive=self.positive)
        if claim.method == "calibrated":
            raise ArgumentError(
                'method="calibrated" is for the records that set the thresholds of an encoder, and these were counted '
                'in cells that were fixed before: choose method="exact".'
            )
        lemmas = claim.method == "lemmas"
        if lemmas and self.sum_counts is None:
            raise ArgumentError(
                'method="lemmas" splits the records at random, so they must be in memory. Certify a table that '
                'fits, or choose method="exact".'
            )
        evidence = Evidence(
            self.counts,
            tail=self.tail,
            witness=() if claim.labelled else self._witness() or (),
            base_counts=self.counts if lemmas else None,
            sum_counts=self.sum_counts,
        )
        return issue(evidence, claim, self.provenance)

    def _witness(self) -> CellCounts | None:
        """Return the training counts, if they have the same cells and groups."""
        training = self.training
        if training is None or training.n_cells != self.counts.n_cells:
            return None
        return training if set(self.counts.groups) <= set(training.groups) else None


def name_entry(entry: Entry, reading: Reading) -> Entry:
    """Rename the group and the label of an entry by a reading: pool small groups, cut a numeric label into bands."""
    label, values = entry.label, entry.groups
    if reading.label_cuts and label is not None:
        number = _number(label, str(reading.label))
        # A database may hold NaN, which is not a label.
        bands = band_names(str(reading.label), reading.label_cuts)
        label = None if math.isnan(number) else bands[bisect_right(reading.label_cuts, number)]
    if reading.kept_groups is not None:
        lacking = None in values
        group = UNKNOWN if lacking else INTERSECTION.join(str(value) for value in values)
        pooled = group if group in reading.kept_groups else POOLED
        values = (None,) if lacking and not reading.unknown_groups else (pooled,)
    return Entry(entry.cell, values, label, entry.records)


def _number(value: str, column: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise TableError(f"Column {column!r} holds {value!r}. A label with cuts must hold numbers.") from None


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of some records, with samples of their hashes.

    Attributes
    ----------
    entries : tuple of Entry
    found : ndarray of int64 or None
        Result of looking the records up among the training records (:meth:`Fingerprint.look_up`); None if unknown.
    sample : RepeatSample or None
        Sample of hashes of all columns, which shows whether too many records are equal; None if unknown.
    checksum : pair of int
        Sums of hashes of the encoder's columns (modulo 2^64): equal for equal records, in any order and pieces.
    """

    entries: tuple[Entry, ...]
    found: NDArray[np.int64] | None = None
    sample: RepeatSample | None = None
    checksum: tuple[int, int] = (0, 0)

    def named(self, reading: Reading) -> Tally:
        """Rename groups and labels by a reading."""
        return replace(self, entries=tuple(name_entry(entry, reading) for entry in self.entries))

    @property
    def repeats(self) -> Repeats:
        """The number of records that equal another one."""
        return Repeats(0, 0, 0) if self.sample is None else self.sample.judge()

    def overlap(self, fingerprint: Fingerprint | None) -> Overlap | None:
        """Return how many of the records are training records; None if they were not looked up."""
        return None if fingerprint is None or self.found is None else fingerprint.judge(self.found)

    def counted(
        self,
        encoder: RestrictedEncoder,
        *,
        labelled: bool,
        missing: Missing = "refuse",
        drop_unlabelled: bool = False,
        allow_training_records: bool = False,
    ) -> CountedRecords:
        """Return the counts of these records with their provenance."""
        overlap = self.overlap(encoder.fingerprint_)
        seen = self.sample is not None
        # Check for training records first: copies of those are repeats, too.
        provenance = provenance_of(
            overlap, reads_groups=encoder.reads_groups, allow_training_records=allow_training_records
        )
        repeats = self.repeats.check("certification records") if seen else ()
        checksum = write_checksum(self.checksum) if seen else None
        return CountedRecords(
            counts=lay_out(
                self.entries,
                encoder.n_cells_,
                labelled=labelled,
                missing=missing,
                drop_unlabelled=drop_unlabelled,
            ),
            provenance=provenance.assuming(*repeats),
            training=getattr(encoder, "training_counts_", None),
            digest=checksum,
            checksum=checksum,
            overlap=overlap,
            notes=repeats,
        )


def merge_tallies(tallies: Sequence[Tally]) -> Tally:
    """Add up tallies."""
    counted: Counter[tuple[int, tuple[str | None, ...], str | None]] = Counter()
    for tally in tallies:
        for cell, groups, label, records in tally.entries:
            counted[cell, groups, label] += records
    return Tally(
        entries=tuple(Entry(*key, records) for key, records in counted.items()),
        found=None if tallies[0].found is None else np.sum([t.found for t in tallies if t.found is not None], axis=0),
        sample=RepeatSample.merge([t.sample for t in tallies if t.sample is not None]),
        checksum=(sum(t.checksum[0] for t in tallies) % 2**64, sum(t.checksum[1] for t in tallies) % 2**64),
    )


class Finder(Protocol):
    """Assigns records to cells: an encoder, or the score squares that several encoders share."""

    @property
    def n_cells_(self) -> int:
        """Number of cells."""

    @property
    def fingerprint_(self) -> Fingerprint | None:
        """The fingerprint of the training records."""

    @property
    def reads_groups(self) -> bool:
        """Whether cells depend on the group."""

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Return the codes of the groups, if cells depend on them."""

    def find_cells(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None = None) -> NDArray[Any]:
        """Return the cells of records."""


@dataclass(frozen=True)
class BlockCounter:
    """Counts the records of pieces.

    Attributes
    ----------
    encoder : Finder
    reading : BlockReader
    salt : bytes
        For the hashes of records.
    unknown_groups : bool
        Whether records without a group or label count, and so are in the checksum.
    """

    encoder: Finder
    reading: BlockReader
    salt: bytes = b""
    unknown_groups: bool = False

    def __call__(self, piece: Piece) -> Tally:
        """Count the records of a piece."""
        return merge_tallies([self.count(block) for block in piece.blocks(self.reading)])

    def count(self, block: Block) -> Tally:
        """Count the records of a block."""
        fingerprint = self.encoder.fingerprint_
        return Tally(
            entries=tuple(self._tally(block)),
            found=None if fingerprint is None else fingerprint.look_up(block.fields),
            sample=RepeatSample.of((*block.fields, *self._own_roles(block), *block.extra), self.salt),
            checksum=checksum_of(block.take(self._counting(block)).fields, self.salt),
        )

    def _own_roles(self, block: Block) -> list[Field]:
        """Return groups and labels whose columns are not features; those that are add no information."""
        features = {feature.name for feature in self.reading.features}
        roles = (*self.reading.groups, *self.reading.labels)
        fields = (*block.groups, *block.labels)
        return [field for role, field in zip(roles, fields, strict=True) if not features.issuperset(role.columns)]

    def _counting(self, block: Block) -> NDArray[np.bool_]:
        """Return which records count: those with a label, if there is one, and a group, unless it may be unknown."""
        keep = np.ones(len(block), dtype=bool)
        for field in (*block.labels, *(() if self.unknown_groups else block.groups)):
            keep &= ~field.missing()
        return keep

    def _tally(self, block: Block) -> list[Entry]:
        known = np.ones(len(block), dtype=bool)
        for field in block.groups:
            known &= ~field.missing()
        if self.encoder.reads_groups and self.unknown_groups:
            groups = intersect([field.levels().by_name() for field in block.groups]).filled(UNKNOWN)
            named = Field(groups.name, Dictionary(groups.codes, groups.names), "text", True)
            return self._entries(block, self.encoder.find_cells(block.fields, self.encoder.group_codes([named])))
        if self.encoder.reads_groups and not known.all():
            # A record without a group has no cell; lay_out leaves it out.
            without = block.take(~known)
            entries = self._entries(without, np.zeros(len(without), dtype=np.int64))
            return [*entries, *self._tally(block.take(known))] if known.any() else entries
        cells = self.encoder.find_cells(block.fields, self.encoder.group_codes(block.groups))
        return self._entries(block, cells)

    def _entries(self, block: Block, cells: NDArray[Any]) -> list[Entry]:
        columns = [field.levels().filled(None) for field in (*block.groups, *block.labels)]
        joint = intersect([Levels("cell", cells.astype(np.int64), tuple(range(self.encoder.n_cells_))), *columns])
        entries = []
        for (cell, *values), n in zip(joint.values, joint.counts().tolist(), strict=True):
            names = [None if value is None else name_of(value) for value in values]
            groups, labels = names[: len(block.groups)], names[len(block.groups) :]
            # Claims condition on the first of several labels.
            entries.append(Entry(cell, tuple(groups), next(iter(labels), None), n))
        return entries


def count_pieces(
    encoder: RestrictedEncoder,
    worker: Worker,
    names: Sequence[str],
    reading: Reading,
    request: CountRequest,
) -> CountedRecords:
    """Count records in pieces, given the names of their columns."""
    check_columns(encoder, names)
    request.check_label(names)
    groups = roles_of(reading.sensitive, names, "sensitive")
    labels = () if reading.label is None else roles_of(reading.label, names, "label")
    # If the encoder is one column, equal values are not copies of a record, so all columns are compared.
    reader = reader_for(encoder, labels, groups, names if encoder.is_column else ())
    counter = BlockCounter(encoder, reader, request.salt, reading.unknown_groups)
    tally = worker.reduce(counter, merge_tallies, progress=request.progress)
    counted = tally.named(reading).counted(
        encoder,
        labelled=request.labelled,
        missing=reading.missing_groups,
        drop_unlabelled=True,
        allow_training_records=request.allow_training_records,
    )
    return replace(counted, positive=_compared(labels))


def _compared(labels: Sequence[Role]) -> str | None:
    """Return the label for which a comparison holds; None if the label is not a comparison."""
    comparison = labels[0].comparison if labels else None
    return None if comparison is None else comparison.true


def checksum_of(fields: Sequence[Field], salt: bytes) -> tuple[int, int]:
    """Return sums of record hashes: equal for equal records in any order; sums of parts add up (modulo 2^64)."""
    hashes = hash_records(fields, salt)
    return int(hashes.sum(dtype=np.uint64)), int((hashes * (hashes ^ SECOND_SALT)).sum(dtype=np.uint64))


def write_checksum(sums: tuple[int, int]) -> str:
    """Return a checksum as hexadecimal digits."""
    return f"{sums[0]:016x}{sums[1]:016x}"


def refuse_draw(reading: Reading, request: CountRequest, where: str) -> None:
    """Raise if records that are not in memory have to be sampled or split at random."""
    if request.halves:
        raise ArgumentError(
            f'method="lemmas" splits the records at random, which needs all of them in memory, but they are '
            f'{where}. Choose method="exact", or certify an extract that fits.'
        )
    if reading.drawn:
        column = reading.cluster or reading.weight
        raise CountsError(
            f"The records are sampled by the column {column!r}, which needs all of them in memory, but they are "
            f"{where}. Export an extract that fits (the encoder's columns, groups, labels, weights and clusters), and "
            "count that file with certifare count."
        )


def check_counted_by(encoder: RestrictedEncoder, names: Sequence[str]) -> None:
    """Raise if records are counted by other columns than the encoder reads groups from: its cells would differ."""
    if encoder.reads_groups and encoder.sensitive is not None:
        read = [encoder.sensitive] if isinstance(encoder.sensitive, str) else list(encoder.sensitive)
        if list(names) != read:
            raise GroupError(
                f"The encoder reads the group from {read}, but the records are counted by {list(names)}. Use the same "
                "columns, or apply the encoder to records in memory."
            )


def reader_for(
    encoder: RestrictedEncoder, labels: Sequence[Role], groups: Sequence[Role], extra: Sequence[str] = ()
) -> BlockReader:
    """Return a reader of an encoder's features, with the labels and groups to count by."""
    check_counted_by(encoder, [role.name for role in groups])
    features = tuple(Feature(column.name, column.type, column.categorical) for column in encoder.columns_)
    return BlockReader(features, tuple(labels), tuple(groups), tuple(extra))


def one_label(labels: Sequence[Any]) -> None:
    """Raise if there are several label columns: a certificate conditions on one."""
    if len(labels) > 1:
        raise ArgumentError(f"A certificate conditions on one label column, but {len(labels)} were given.")
