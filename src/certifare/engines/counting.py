"""Count records by cell, group and label, from any number of pieces, machines or databases.

Every source of records returns :class:`CountedRecords`, from which a certificate, a counts file or a period is made.
Sources that count in pieces first make a :class:`Tally` of entries, which is laid out as the same table as
``CellCounts.from_cells``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import Claim
from certifare.certificates.counts import Missing
from certifare.certificates.issuing import issue
from certifare.certificates.provenance import Provenance, provenance_of
from certifare.certificates.repeats import Repeats
from certifare.certificates.tail import Tail
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.fingerprint import Overlap
from certifare.encoders.hashes import RepeatSample, hash_records
from certifare.encoders.records import check_columns
from certifare.engines.blocks import Block, BlockReader, Feature, Piece, Role, Share, Worker, roles_of
from certifare.engines.entries import Entry, add_entries, entries_of, lay_out, name_entry
from certifare.engines.parts import CertifyPart, Totals
from certifare.errors import ArgumentError, CountsError, GroupError
from certifare.foundation.levels import UNKNOWN, intersect
from certifare.growth import Dictionary
from certifare.tables.elsewhere import open_elsewhere
from certifare.tables.frames import Field
from certifare.tables.reading import Reading
from certifare.tables.roles import Comparison, parse_role

SECOND_SALT = np.uint64(0x9E3779B97F4A7C15)
CERTIFICATION_SALT = b"certification records"


@dataclass(frozen=True, kw_only=True)
class CountRequest:
    """What to count, and how."""

    labelled: bool = False  # whether to count by label; records without a label are then left out
    seed: int = 0  # seed of random choices
    salt: bytes = b""  # salt of the checksum of the records; without it there is no checksum
    # A label that the claim does not use, but the certificate names: its column must exist
    recorded_label: str | None = None
    # Count records even if the encoder was fitted on them; the certificate is then marked invalid
    allow_training_records: bool = False
    progress: Share | None = None  # called with the share that is done

    def check_label(self, names: Sequence[str]) -> None:
        """Raise if the label to record is not among the columns."""
        if self.recorded_label is not None:
            parse_role(self.recorded_label, names, "label")


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedRecords:
    """Records by cell, group and label, with their provenance."""

    counts: CellCounts  # including the records that were left out, and why
    provenance: Provenance  # what a certificate states about the records
    # The encoder's training records, on which a set of cells for the lower bound may be chosen
    training: CellCounts | None = None
    tail: Tail | None = None  # the weight above the cap, if weights were capped
    # Identifies the records, so that random choices on different records are independent; None if unknown
    digest: str | None = None
    # Equal for equal records in any order, by the encoder's columns and a salt; None if unknown
    checksum: str | None = None
    overlap: Overlap | None = None  # number of the records that are training records; None if they were not looked up
    positive: str | None = None  # the label for which a comparison such as ``income>50000`` holds
    notes: tuple[str, ...] = ()  # warnings for the user

    @property
    def checksum_digest(self) -> str | None:
        """What a history recognises the records by if they come again, in any order; None if unknown."""
        return None if self.checksum is None else hashlib.sha256(self.checksum.encode()).hexdigest()

    def certify(self, claim: Claim) -> Certificate:
        """Certify the encoder that the records were counted with."""
        if claim.positive is None and claim.distance.strata == "positive":
            claim = replace(claim, positive=self.positive)
        if claim.method == "calibrated":
            raise ArgumentError(
                'method="calibrated" is for the records that set the thresholds of an encoder, and these were counted '
                'in cells that were fixed before: choose method="exact".'
            )
        evidence = Evidence(self.counts, tail=self.tail, witness=() if claim.labelled else self._witness() or ())
        return issue(evidence, claim, self.provenance)

    def _witness(self) -> CellCounts | None:
        """Return the training counts, if they have the same cells and groups."""
        training = self.training
        if training is None or training.n_cells != self.counts.n_cells:
            return None
        return training if set(self.counts.groups) <= set(training.groups) else None


@dataclass(frozen=True, eq=False)
class Tally:
    """Some records, counted by the cells of one or several encoders, with samples of their hashes."""

    entries: tuple[tuple[Entry, ...], ...]  # for each encoder
    # Result of looking the records up among the training records (:meth:`Fingerprint.look_up`); None if unknown
    found: NDArray[np.int64] | None = None
    # Sample of hashes of all columns, which shows whether too many records are equal; None if unknown
    sample: RepeatSample | None = None
    # Sums of hashes of the encoder's columns (modulo 2^64): equal for equal records, in any order and pieces
    checksum: tuple[int, int] = (0, 0)
    totals: Totals | None = None  # of the places of all records: they show whether the table was read as before
    repeats: Repeats | None = None  # what a database found out itself about equal records, in place of a sample

    @classmethod
    def merge(cls, parts: Sequence[Tally]) -> Tally:
        """Add up tallies."""
        found = [part.found for part in parts if part.found is not None]
        totals = [part.totals for part in parts if part.totals is not None]
        checksums = zip(*(part.checksum for part in parts), strict=True)
        return cls(
            entries=tuple(add_entries(of_encoder) for of_encoder in zip(*(p.entries for p in parts), strict=True)),
            found=np.sum(found, axis=0) if found else None,
            sample=RepeatSample.merge([part.sample for part in parts if part.sample is not None]),
            checksum=tuple(sum(sums) % 2**64 for sums in checksums),
            totals=Totals.merge(totals) if totals else None,
        )

    def named(self, reading: Reading) -> Tally:
        """Rename groups and labels by a reading."""
        return replace(self, entries=tuple(tuple(name_entry(e, reading) for e in own) for own in self.entries))

    def check_repeats(self) -> tuple[str, ...]:
        """Raise if most records are copies; return what a certificate says about fewer."""
        judged = self.repeats if self.sample is None else self.sample.judge()
        return () if judged is None else judged.check("certification records")

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
        fingerprint = encoder.fingerprint_
        overlap = None if fingerprint is None or self.found is None else fingerprint.judge(self.found)
        # Check for training records first: copies of those are repeats, too.
        provenance = provenance_of(
            overlap, reads_groups=encoder.reads_groups, allow_training_records=allow_training_records
        )
        repeats = self.check_repeats()
        checksum = None if self.sample is None else write_checksum(self.checksum)
        layout: dict[str, Any] = {"labelled": labelled, "missing": missing, "drop_unlabelled": drop_unlabelled}
        return CountedRecords(
            counts=lay_out(self.entries[0], encoder.n_cells_, **layout),
            provenance=provenance.assuming(*repeats),
            training=getattr(encoder, "training_counts_", None),
            digest=checksum,
            checksum=checksum,
            overlap=overlap,
            notes=repeats,
        )


@dataclass(frozen=True)
class BlockCounter:
    """Counts the records of pieces, all or the certification records among them, by the cells of encoders.

    Certification records are counted for several encoders at once, none of which reads the group; for a boosted one by
    the squares of its score map, which all boosted encoders of a search share.
    """

    encoders: tuple[RestrictedEncoder, ...]
    reading: BlockReader
    salt: bytes = b""  # for the hashes of records
    unknown_groups: bool = False  # whether records without a group or label count, and so are in the checksum
    certified: CertifyPart | None = None  # which records are certification records; None: all are counted

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return self.reading.columns if self.certified is None else self.certified.columns(self.reading)

    def __call__(self, piece: Piece) -> Tally:
        """Count the records of a piece."""
        if self.certified is None:
            return Tally.merge([self.count(block) for block in piece.blocks(self.reading)])
        blocks = self.certified.blocks(piece, self.reading)
        return Tally.merge([replace(self.count(block), totals=totals) for block, _, totals in blocks])

    def count(self, block: Block) -> Tally:
        """Count the records of a block."""
        everyone = self.certified is None
        fingerprint = self.encoders[0].fingerprint_ if everyone else None
        # Groups and labels whose columns are features tell no records apart that those do not.
        features = {feature.name for feature in self.reading.features}
        roles = zip((*self.reading.groups, *self.reading.labels), (*block.groups, *block.labels), strict=True)
        others = [field for role, field in roles if role.column not in features]
        # Records count that have a label, if there is one, and a group, unless it may be unknown.
        needed = (*block.labels, *(() if self.unknown_groups else block.groups))
        counting = block.take(block.having(needed)) if everyone else block
        return Tally(
            entries=tuple(tuple(self._tally(encoder, block)) for encoder in self.encoders),
            found=None if fingerprint is None else fingerprint.look_up(block.fields),
            sample=RepeatSample.of((*block.fields, *others, *block.extra), self.salt),
            checksum=checksum_of(counting.fields, self.salt),
        )

    def _tally(self, encoder: RestrictedEncoder, block: Block) -> list[Entry]:
        if self.certified is not None and isinstance(encoder, BoostedEncoder):
            return entries_of(block, encoder.codes_of(block.fields).columns[0], encoder.score_map_.n_squares)
        groups = None
        if encoder.reads_groups and self.unknown_groups:
            known = intersect([field.levels().by_name() for field in block.groups]).filled(UNKNOWN)
            named = Field(known.name, Dictionary(known.codes, known.names), "text", True)
            groups = encoder.group_codes([named])
        elif encoder.reads_groups:
            grouped = block.grouped()
            if not grouped.all():
                # A record without a group has no cell; lay_out leaves it out.
                without = block.take(~grouped)
                entries = entries_of(without, np.zeros(len(without), dtype=np.int64), encoder.n_cells_)
                return [*entries, *(self._tally(encoder, block.take(grouped)) if grouped.any() else [])]
            groups = encoder.group_codes(block.groups)
        return entries_of(block, encoder.find_cells(block.fields, groups, block.rows), encoder.n_cells_)


class RecordsElsewhere(ABC):
    """Records that are not in memory, counted where they are: pieces of a table, or a table of a database."""

    where: str  # in words

    @abstractmethod
    def columns(self) -> Mapping[str, Any]:
        """Return the columns of the table, with their types."""

    @abstractmethod
    def tally(
        self, encoder: RestrictedEncoder, reading: Reading, columns: Mapping[str, Any], request: CountRequest
    ) -> Tally:
        """Count the records by cell, and by groups and label as they are stored."""

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records; only counts come back."""
        refuse_draw(reading, self.where)
        columns = self.columns()
        request.check_label(list(columns))
        label = None if reading.label is None else parse_role(reading.label, list(columns), "label")
        counted = (
            self.tally(encoder, reading, columns, request)
            .named(reading)
            .counted(
                encoder,
                labelled=request.labelled,
                missing=reading.missing_groups,
                drop_unlabelled=True,
                allow_training_records=request.allow_training_records,
            )
        )
        return replace(counted, positive=label.true if isinstance(label, Comparison) else None)


@dataclass(frozen=True, eq=False)
class PieceRecords(RecordsElsewhere):
    """Records in the pieces that a worker holds."""

    worker: Worker

    @classmethod
    def of(cls, table: Any) -> PieceRecords:
        """Find the records of a Dask or Spark dataframe, or of Parquet files (a path, pattern, folder or URL)."""
        worker = open_elsewhere(table)
        if worker is None:
            raise ArgumentError("The table is in memory: count it as a table, not in pieces.")
        return cls(worker)

    @property
    def where(self) -> str:  # type: ignore[override]
        """Where the pieces are."""
        return self.worker.where

    def columns(self) -> Mapping[str, Any]:
        """Return the columns of the table, with their types."""
        return dict(zip(self.worker.schema.names, self.worker.schema.types, strict=True))

    def tally(
        self, encoder: RestrictedEncoder, reading: Reading, columns: Mapping[str, Any], request: CountRequest
    ) -> Tally:
        """Count the pieces, and add up."""
        names = list(columns)
        check_columns(encoder, names)
        groups = roles_of(reading.sensitive, names, "sensitive")
        labels = () if reading.label is None else roles_of(reading.label, names, "label")
        # If the encoder is one column, equal values are not copies of a record, so all columns are compared.
        reader = reader_for(encoder, labels, groups, names if encoder.is_column else ())
        counter = BlockCounter((encoder,), reader, request.salt, reading.unknown_groups)
        return self.worker.reduce(counter, Tally.merge, progress=request.progress)


def checksum_of(fields: Sequence[Field], salt: bytes) -> tuple[int, int]:
    """Return sums of record hashes: equal for equal records in any order; sums of parts add up (modulo 2^64)."""
    hashes = hash_records(fields, salt)
    return int(hashes.sum(dtype=np.uint64)), int((hashes * (hashes ^ SECOND_SALT)).sum(dtype=np.uint64))


def write_checksum(sums: tuple[int, int]) -> str:
    """Return a checksum as hexadecimal digits."""
    return f"{sums[0]:016x}{sums[1]:016x}"


def refuse_draw(reading: Reading, where: str) -> None:
    """Raise if records that are not in memory have to be sampled."""
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
