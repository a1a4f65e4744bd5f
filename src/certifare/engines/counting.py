"""Counts of records by cell, group and label, however many pieces, machines or databases they come from.

Everything ends in a list of :class:`Entry`; :func:`lay_out` lays it out as ``CellCounts.from_cells`` would.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.certificate import ASSUMPTIONS, READS_GROUP, VOID
from certifare.certificates.claims import Claim
from certifare.certificates.counts import GROUP_MISSING, LABEL_MISSING, Exclusion, Missing
from certifare.certificates.issuing import FROM_COUNTS, issue
from certifare.certificates.repeats import Repeats
from certifare.certificates.sampling import Subsample
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.fingerprint import Fingerprint, Overlap
from certifare.encoders.hashes import HashSample, hash_records
from certifare.engines.blocks import Block, Feature, Piece, Reading, Role
from certifare.engines.preparing import Share, Worker
from certifare.errors import (
    ArgumentError,
    CellIdError,
    ColumnTypeError,
    EmptyGroupError,
    GroupError,
    MissingValueError,
    SensitiveFeatureError,
    TrainingOverlapError,
)
from certifare.frames import Field
from certifare.levels import INTERSECTION, UNKNOWN, Levels, intersect, name_of, sort_key
from certifare.table import POOLED, band_names

SECOND_SALT = np.uint64(0x9E3779B97F4A7C15)


class Entry(NamedTuple):
    """So many records have this cell, these values of the sensitive columns, and this label; None is missing."""

    cell: int
    groups: tuple[str | None, ...]
    label: str | None
    records: int


def lay_out(entries: Iterable[Entry], n_cells: int, *, labelled: bool, missing: Missing = "refuse") -> CellCounts:
    """Lay entries out as a table of counts.

    Parameters
    ----------
    entries : iterable of Entry
        Equal ones add up.
    n_cells : int
    labelled : bool
        Whether the table has labels.
    missing : {"refuse", "unknown", "drop"}
        What to do with records without a group or label, as in ``CellCounts.from_cells``.

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
            raise CellIdError(f"{records:,} records have the cell {cell}, which lies outside 0 … {n_cells - 1}.")
        total += records
        label_names |= {label} - {None}  # type: ignore[arg-type]
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
        counted[cell, group, label if labelled else None] += records
    if without_group and missing == "refuse":
        raise MissingValueError(
            f"{without_group:,} of {total:,} records lack a group. "
            'Pass missing="unknown" to count them as a group of their own, or missing="drop" to leave them out and '
            "have their number recorded."
        )
    if without_label and missing != "drop":
        raise MissingValueError(
            f'{without_label:,} records lack a label. Remove them, or pass missing="drop" to leave them out and have '
            "their number recorded."
        )
    groups = sorted(parts_of, key=lambda group: [sort_key(part) for part in parts_of[group]])
    if without_group and missing == "unknown" and UNKNOWN not in groups:
        groups.append(UNKNOWN)
    if not groups:
        raise EmptyGroupError("No record has a group: there is nothing to count.")
    labels = sorted(label_names, key=sort_key)
    table = np.zeros((n_cells, len(groups), len(labels) if labelled else 1), dtype=np.int64)
    for (cell, group, label), records in counted.items():
        table[cell, groups.index(group), 0 if label is None else labels.index(label)] += records
    exclusions = [Exclusion(LABEL_MISSING, without_label)]
    if missing == "drop":
        exclusions.append(Exclusion(GROUP_MISSING, without_group))
    return CellCounts(table if labelled else table[:, :, 0], groups, labels if labelled else None, exclusions)


@dataclass(frozen=True)
class Naming:
    """How groups and labels that were counted one by one are named: small groups pooled, a quantity in bands.

    Attributes
    ----------
    label : str or None
        What the bands of the label are named after.
    cuts : tuple of float
        Where the label is cut; nowhere: it stays as it is.
    groups : tuple of str
        If "other groups" is among these, all groups that are not are that one.
    """

    label: str | None = None
    cuts: tuple[float, ...] = ()
    groups: tuple[str, ...] = ()

    def name(self, entry: Entry, *, unknown: bool = False) -> Entry:
        """Name the group and the label of an entry."""
        label, values = entry.label, entry.groups
        if self.cuts and label is not None:
            number = self._number(label)
            # A database may hold NaN, which is no number, and no label.
            lacks = math.isnan(number)
            label = None if lacks else band_names(str(self.label), self.cuts)[bisect_right(self.cuts, number)]
        if POOLED in self.groups:
            lacking = None in values
            group = UNKNOWN if lacking else INTERSECTION.join(str(value) for value in values)
            values = (None,) if lacking and not unknown else (group if group in self.groups else POOLED,)
        return Entry(entry.cell, values, label, entry.records)

    def _number(self, value: str) -> float:
        try:
            return float(value)
        except ValueError:
            raise ColumnTypeError(
                f"Column {self.label!r} holds {value!r}; a label that is cut must be numbers."
            ) from None


@dataclass(frozen=True, eq=False)
class Tally:
    """What counting some records gave.

    Attributes
    ----------
    entries : tuple of Entry
    found : ndarray of int64 or None
        What looking the records up among the training records gave (:meth:`Fingerprint.look_up`); None if nobody did.
    hashes : HashSample or None
        Of the records, in all columns: they tell which are equal. None where nobody saw the records.
    checksum : pair of int
        Sums of hashes of the records (modulo 2^64): equal for equal records, in any order and in any pieces. Records
        that were not drawn are in it.
    drawn : Subsample or None
        How the records that were counted were drawn from all of them; None: all were counted.
    """

    entries: tuple[Entry, ...]
    found: NDArray[np.int64] | None = None
    hashes: HashSample | None = None
    checksum: tuple[int, int] = (0, 0)
    drawn: Subsample | None = None

    def table(self, n_cells: int, *, labelled: bool, missing: Missing = "refuse") -> CellCounts:
        """Lay the entries out as a table (:func:`lay_out`), with what was left out by drawing."""
        counts = lay_out(self.entries, n_cells, labelled=labelled, missing=missing)
        if self.drawn is None:
            return counts
        return counts.with_exclusions((*counts.exclusions, *self.drawn.exclusions))

    def named(self, naming: Naming, *, unknown: bool = False) -> Tally:
        """Name groups and labels in another way (:class:`Naming`); ``unknown``: those without a group are one."""
        return replace(self, entries=tuple(naming.name(entry, unknown=unknown) for entry in self.entries))

    @property
    def repeats(self) -> Repeats:
        """How many of the records equal another one, of those that were seen."""
        return Repeats(0, 0, False) if self.hashes is None else Repeats.of(self.hashes.sorted().counts)

    def overlap(self, fingerprint: Fingerprint | None) -> Overlap | None:
        """How many of the records are training records; None if they were not looked up."""
        return None if fingerprint is None or self.found is None else fingerprint.judge(self.found)


def merge_tallies(tallies: Sequence[Tally]) -> Tally:
    """Add tallies up."""
    counted: Counter[tuple[int, tuple[str | None, ...], str | None]] = Counter()
    for tally in tallies:
        for cell, groups, label, records in tally.entries:
            counted[cell, groups, label] += records
    return Tally(
        entries=tuple(Entry(*key, records) for key, records in counted.items()),
        found=None if tallies[0].found is None else np.sum([t.found for t in tallies if t.found is not None], axis=0),
        hashes=HashSample.merge([t.hashes for t in tallies if t.hashes is not None]),
        checksum=(sum(t.checksum[0] for t in tallies) % 2**64, sum(t.checksum[1] for t in tallies) % 2**64),
    )


class Finder(Protocol):
    """What records are counted by: an encoder, or the squares that several encoders share."""

    @property
    def n_cells_(self) -> int:
        """How many cells there are."""

    @property
    def fingerprint_(self) -> Fingerprint | None:
        """What tells training records."""

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Codes of the groups that were read, if cells depend on them."""

    def find_cells(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None = None) -> NDArray[Any]:
        """Find the cells of records that were read."""


@dataclass(frozen=True)
class Teller:
    """Counts pieces.

    Attributes
    ----------
    encoder : Finder
    reading : Reading
    salt : bytes
        For the hashes of records.
    """

    encoder: Finder
    reading: Reading
    salt: bytes = b""

    def __call__(self, piece: Piece) -> Tally:
        """Count a piece."""
        return merge_tallies([self.tell(block) for block in piece.blocks(self.reading)])

    def tell(self, block: Block, keep: NDArray[np.bool_] | None = None) -> Tally:
        """Count a block, or some of its records; all of them are looked up and in the checksum."""
        fingerprint = self.encoder.fingerprint_
        hashes = hash_records((*block.fields, *block.groups, *block.labels), self.salt)
        return Tally(
            entries=tuple(self._count(block if keep is None else block.take(keep))),
            found=None if fingerprint is None else fingerprint.look_up(block.fields),
            hashes=HashSample.of(hashes, len(block)),
            checksum=(int(hashes.sum(dtype=np.uint64)), int((hashes * (hashes ^ SECOND_SALT)).sum(dtype=np.uint64))),
        )

    def _count(self, block: Block) -> list[Entry]:
        cells = self.encoder.find_cells(block.fields, self.encoder.group_codes(block.groups))
        columns = [field.levels().filled(None) for field in (*block.groups, *block.labels)]
        joint = intersect([Levels("cell", cells.astype(np.int64), tuple(range(self.encoder.n_cells_))), *columns])
        entries = []
        for (cell, *values), n in zip(joint.values, joint.counts().tolist(), strict=True):
            names = [None if value is None else name_of(value) for value in values]
            groups, labels = names[: len(block.groups)], names[len(block.groups) :]
            # Whoever lacks one of several labels counts as unlabelled, as in memory.
            label = None if None in labels else next(iter(labels), None)
            entries.append(Entry(cell, tuple(groups), label, n))
        return entries


def count_over(
    encoder: Finder,
    worker: Worker,
    reading: Reading,
    *,
    salt: bytes = b"",
    progress: Share | None = None,
) -> Tally:
    """Count the records that someone holds."""
    return worker.reduce(Teller(encoder, reading, salt), merge_tallies, progress=progress)


def certify_tally(
    encoder: RestrictedEncoder,
    tally: Tally,
    claim: Claim,
    *,
    missing: Missing = "refuse",
    exclusions: Iterable[Exclusion] = (),
    allow_training_records: bool = False,
) -> Certificate:
    """Certify an encoder from a tally of records that it has not seen, as :func:`certifare.certify` does.

    ``method="lemmas"`` needs records, not counts, and is not possible here.
    """
    counts = tally.table(encoder.n_cells_, labelled=claim.labelled, missing=missing)
    counts = counts.with_exclusions((*counts.exclusions, *exclusions))
    assumptions = check_overlap(tally.overlap(encoder.fingerprint_), allow_training_records)
    assumptions += tally.repeats.check("certification records")
    assumptions += group_assumptions(encoder)
    certificate = issue(counts, claim, witness=training_counts(encoder, counts, claim))
    return msgspec.structs.replace(certificate, assumptions=tuple(assumptions))


def check_overlap(overlap: Any, allow_training_records: bool = False) -> list[str]:
    """Refuse certification records that were used to fit; return what the certificate assumes.

    The last of it says whether the records were looked up among the training records.
    """
    if overlap is None:
        return list(FROM_COUNTS)
    if not overlap.excessive:
        return [*ASSUMPTIONS, f"The certification records were looked up: {overlap}."]
    if not allow_training_records:
        raise TrainingOverlapError(
            f"Of the certification records, {overlap}. A certificate needs records that played no part in fitting: "
            "hold some out. (In Python, allow_training_records=True overrides this; the result is then no valid "
            "certificate.)"
        )
    return [f"{VOID}: of the certification records, {overlap}.", *ASSUMPTIONS[1:]]


def group_assumptions(encoder: Any) -> tuple[str, ...]:
    """Say what a certificate takes for granted where the encoder reads the group."""
    return (READS_GROUP,) if getattr(encoder, "reads_groups", False) else ()


def training_counts(encoder: Any, counts: CellCounts, claim: Claim) -> CellCounts | None:
    """Return the encoder's own training counts, on which a witness may be chosen, where it has them."""
    training: CellCounts | None = getattr(encoder, "training_counts_", None)
    if training is None or claim.labelled:
        return None
    if training.n_cells != counts.n_cells or not set(counts.groups) <= set(training.groups):
        return None
    return training


def check_counted_by(encoder: RestrictedEncoder, names: Sequence[str]) -> None:
    """Refuse to count by other columns than those that an encoder reads groups from: its cells would be others."""
    if encoder.reads_groups and encoder.sensitive is not None:
        read = [encoder.sensitive] if isinstance(encoder.sensitive, str) else list(encoder.sensitive)
        if list(names) != read:
            raise SensitiveFeatureError(
                f"The encoder reads the group from {read}, and the records are to be counted by {list(names)}: count "
                "them by the same, or apply the encoder to records in memory."
            )


def reading_for(encoder: RestrictedEncoder, labels: Sequence[Role], groups: Sequence[Role]) -> Reading:
    """Say how records of a fitted encoder are read; one that reads groups finds cells by those that are counted."""
    check_counted_by(encoder, [role.name for role in groups])
    features = tuple(Feature(column.name, column.type, column.categorical) for column in encoder.columns_)
    return Reading(features, tuple(labels), tuple(groups))


def one_label(labels: Sequence[Any]) -> None:
    """Refuse several label columns: a certificate conditions on one."""
    if len(labels) > 1:
        raise ArgumentError(f"Certificates condition on one label column, and {len(labels)} were given.")
