"""Tables that are not in memory: search for encoders on a sample, and certify on everything that was not trained on.

There is one way for Parquet files, Dask and Spark: survey all records; draw a random sample into memory; fit and
compare encoders on it; count all certification records where they are, for all encoders in one pass. The certification
records of the sample, which are in memory too, serve to measure accuracy.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts
from certifare.certificates.claims import Claim
from certifare.certificates.counts import given_missing
from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.calibrated_cells import CalibratedEncoder
from certifare.engines.blocks import BlockReader, Feature, Share, Worker, roles_of
from certifare.engines.counting import CERTIFICATION_SALT, BlockCounter, Tally, reader_for, write_checksum
from certifare.engines.entries import Entry, lay_out, name_entry
from certifare.engines.parts import PLACE, CertifyPart, RandomPlaces, RecordHasher, Sampled, SampleDrawer, Totals
from certifare.engines.thresholds import (
    CalibratedCounter,
    CalibratedTally,
    LineTally,
    ThresholdCounter,
    find_thresholds,
)
from certifare.errors import ArgumentError, GroupError, RoleError, TableError
from certifare.foundation.levels import INTERSECTION, name_of
from certifare.foundation.randomness import number
from certifare.frontier.job import Progress
from certifare.tables.elsewhere import engine_of, open_elsewhere
from certifare.tables.files import CsvDialect, DataFile
from certifare.tables.frames import Frame
from certifare.tables.parquet import ParquetFiles
from certifare.tables.quality import as_notes
from certifare.tables.reading import Reading
from certifare.tables.roles import Roles, column_of
from certifare.tables.splitting import CERTIFY
from certifare.tables.table import Table, readable_type

#: Files with more bytes, at eight per value, are not read into memory.
LARGE = 2 * 2**30
#: About how many records are read into memory.
SAMPLE_RECORDS = 1_000_000


def is_large(table: Any) -> bool:
    """Return whether a table stays where it is: a dataframe of a cluster, or Parquet files too large for memory."""
    if not isinstance(table, str | os.PathLike):  # a DataFile is a path, and stays open
        return engine_of(table) is not None
    file = DataFile.of(table)
    if not file.is_folder and (not file.exists() or file.kind != "parquet"):
        return False
    files = ParquetFiles.find(file)
    return files.n_records * len(files.schema.names) * 8 > LARGE


@dataclass(eq=False)
class Elsewhere:
    """Certification records that are not in memory."""

    worker: Worker  # holds all records
    certified: CertifyPart  # which of them are certification records
    rows: Mapping[str, NDArray[np.int64]]  # rows of the sample that are in each part
    n_records: int  # number of all records
    totals: Totals  # of the places of all records
    entries: tuple[Entry, ...]  # certification records by group and label
    digest: str  # of the certification records, once they are counted; before, of all records

    @property
    def n_certify(self) -> int:
        """Number of certification records."""
        return sum(entry.records for entry in self.entries)

    def sizes(self, table: Table, kept_groups: Sequence[str] | None, *, labelled: bool) -> NDArray[np.int64]:
        """Return the number of certification records of each group of a table and first label, the last of none."""
        assert table.groups is not None  # noqa: S101  (checked by the job)
        groups, labels = table.groups.names, table.strata.names
        sizes = np.zeros((len(groups), len(labels) + 1), dtype=np.int64)
        reading = _naming(table, kept_groups)
        for entry in self.entries:
            _, values, label, records = name_entry(entry, reading)
            if None not in values:
                group = _place(INTERSECTION.join(map(str, values)), groups, "group")
                sizes[group, -1 if label is None else _place(label, labels, "label")] += records
        if labelled:
            sizes[:, -1] = 0
        return sizes

    def count(
        self, encoders: Sequence[Any], table: Table, reading: Reading, claim: Claim, progress: Progress | None = None
    ) -> tuple[list[CellCounts], tuple[str, ...]]:
        """Count the certification records by the cells of encoders, in one pass; also return what to note of them."""
        boosted = [encoder for encoder in encoders if isinstance(encoder, BoostedEncoder)]
        # All boosted encoders of a search share a score map, of whose squares their cells consist.
        counted = (*boosted[:1], *(encoder for encoder in encoders if not isinstance(encoder, BoostedEncoder)))
        fields = Frame(table.features).fields()
        features = tuple(Feature(f.name, f.type, f.categorical) for f in fields)
        reader = replace(_roles(self.worker, table.roles), features=features)
        work = BlockCounter(counted, reader, CERTIFICATION_SALT, certified=self.certified)
        tally = self.worker.reduce(work, Tally.merge, progress=shown(progress, "counting records"))
        notes = self._checked(tally)
        tally = tally.named(_naming(table, reading.kept_groups))
        entries = dict(zip(map(id, counted), tally.entries, strict=True))
        found = []
        for encoder in encoders:
            if isinstance(encoder, BoostedEncoder):
                cell_of = encoder.cell_map_.ravel().tolist()
                own = tuple(entry._replace(cell=cell_of[entry.cell]) for entry in entries[id(counted[0])])
            else:
                own = entries[id(encoder)]
            counts = lay_out(own, encoder.n_cells_, labelled=claim.labelled, missing="drop")
            found.append(counts if claim.given is None else counts.with_exclusions(given_missing(counts)))
        return found, notes

    def calibrate(
        self, encoder: CalibratedEncoder, table: Table, claim: Claim, progress: Progress | None = None
    ) -> tuple[CellCounts, tuple[str, ...]]:
        """Let the certification records set the thresholds of an encoder; return their counts, and what to note.

        The encoder has a plan for their numbers. Those in ``table``, the sample, suggest where thresholds lie.
        """
        share = shown(progress, "setting thresholds")
        tie_key = encoder.key_ties(self.digest)
        roles = _roles(self.worker, table.roles)
        reading = reader_for(encoder, roles.labels, roles.groups)
        positive = claim.positive if claim.distance.strata == "positive" else None
        records: dict[str, Any] = {
            "encoder": encoder.without_records(),
            "reading": reading,
            "certified": self.certified,
            "positive": positive,
            "tie_key": tie_key,
        }
        frame = Frame(table.select([column.name for column in encoder.columns_]))
        groups = encoder.read_group_codes(frame, table.sensitive)
        assert groups is not None  # noqa: S101  (the encoder reads groups)
        values = encoder.directions_.values(encoder.read_fields(frame), groups, encoder.n_threads)

        def count(work: ThresholdCounter) -> LineTally:
            tally = self.worker.reduce(work, LineTally.merge, progress=share)
            self._check_unchanged(tally.totals)
            return tally

        work = ThresholdCounter(**records, known=np.zeros(encoder.n_cells_ - 1, dtype=bool))
        thresholds = find_thresholds(work, count, values, groups)
        salt = secrets.token_bytes(16)
        counter = CalibratedCounter(**records, salt=salt, n_records=self.n_records)
        tally = self.worker.reduce(counter, CalibratedTally.merge, progress=share)
        notes = self._checked(tally.counted)
        if tally.identifiers is not None and (tally.identifiers.sorted().counts > 1).any():
            raise encoder.repeated_ties()
        other = encoder.other_group
        kept = None if other is None else [name_of(group) for group in encoder.groups_ if group != other]
        (entries,) = tally.counted.named(_naming(table, kept)).entries
        counts = lay_out(entries, encoder.n_cells_, labelled=claim.labelled, missing="drop")
        if not np.array_equal(tally.inside, encoder.plan_.gaps - 1):
            raise encoder.repeated_ties()  # a record that set a threshold equals another in all respects
        encoder.take_thresholds(thresholds, tally.tied - encoder.plan_.n_groups * (encoder.n_cells_ - 1))
        encoder.know_records(tally.hashes, salt, self.n_records)
        return _as_planned(counts, encoder, positive), notes

    def _checked(self, tally: Tally) -> tuple[str, ...]:
        """Take the digest of certification records that were counted; return what to note about repeated ones."""
        self._check_unchanged(tally.totals)
        self.digest = hashlib.sha256(write_checksum(tally.checksum).encode()).hexdigest()
        return tally.check_repeats()

    def _check_unchanged(self, totals: Totals | None) -> None:
        """Raise if records have other places than when the sample was drawn: some may be in it."""
        if totals != self.totals:
            raise TableError(
                "The table changed while it was read: its partitions hold other records than before. Keep it as it is "
                "(df.persist(), or write it to Parquet files first), then start again."
            )


def open_large(
    table: Any,
    roles: Mapping[str, Any],
    parts: Mapping[str, float],
    seed: int = 0,
    progress: Progress | None = None,
    sample_records: int | None = None,
    besides: Sequence[str | None] = (),
) -> tuple[Table, Elsewhere]:
    """Survey a table, and draw a sample of it; return the sample, and the certification records where they are.

    - ``parts``: shares of the sample; every record beyond it is a certification record.
    - ``sample_records``: about how many records to read into memory; by default a million.
    - ``besides``: columns that are read although they have no role.
    """
    found = _checked_roles(dict(roles))
    worker = open_elsewhere(table)
    names = worker.schema.names
    columns = found.find(names)
    readable = {f.name for f in worker.schema if readable_type(f.type)}
    role_columns = set(map(column_of, (*columns.label, *columns.sensitive, *columns.given)))
    used = [name for name in names if name in role_columns or name in columns.features or name in besides]
    hashed = tuple(name for name in used if name in readable)

    whole = worker.reduce(RecordHasher(hashed), Totals.merge, progress=shown(progress, "surveying records"))
    if not whole.records:
        raise TableError("The table has columns but no records.")
    digest = whole.digest()
    share = min(1.0, (sample_records or SAMPLE_RECORDS) / whole.records)
    # Different tables are split independently at the same seed, because the key depends on the records.
    places = RandomPlaces(hashed, number(seed, "parts", digest, bits=64))
    ordered = [*(part for part in parts if part != CERTIFY), CERTIFY]
    stops = share * np.cumsum([parts[part] for part in ordered]) / sum(parts.values())
    certified = CertifyPart(places, float(stops[-2]))
    work = SampleDrawer(certified, share, tuple(used), _roles(worker, found))
    sampled = worker.reduce(work, Sampled.merge, progress=shown(progress, "drawing a sample"))
    if sampled.table is None:
        raise TableError(f"A sample of {whole.records:,} records is empty: there are too few.")
    # The places travel as a column without a role, so that records without a group take theirs along. Other columns
    # without a role were not read, so the sample cannot drop them.
    dropped = tuple(name for name in used if name not in role_columns and name not in columns.features)
    sample = Table.from_frame(sampled.table.combine_chunks(), replace(found, drop=(*dropped, PLACE)))
    assert sample.others is not None  # noqa: S101  (made from a frame)
    part_of = np.searchsorted(stops[:-1], sample.others.column(PLACE).to_numpy(), side="right")
    rows = {part: np.flatnonzero(part_of == i) for i, part in enumerate(ordered)}
    elsewhere = Elsewhere(worker, certified, rows, whole.records, sampled.totals, sampled.entries, digest)
    note = (
        f"encoders were compared on a sample of {len(sample):,} records in memory; {elsewhere.n_certify:,} of all "
        f"{whole.records:,} were certified on where they are"
    )
    sample = replace(
        sample,
        roles=found,
        others=sample.others.drop_columns([PLACE]),
        records=hashlib.blake2b(digest.encode(), digest_size=32).hexdigest(),
        findings=(*sample.findings, *as_notes([note])),
    )
    return sample, elsewhere


def shown(progress: Progress | None, step: str) -> Share | None:
    """Return the callback of an engine that reports the share of a step in percent."""
    return None if progress is None else lambda share: progress(step, round(100 * share), 100)


def _as_planned(counts: CellCounts, encoder: CalibratedEncoder, positive: str | None) -> CellCounts:
    """Return counts in which the records that set thresholds are where the plan counts them."""
    order = [[name_of(group) for group in encoder.groups_].index(name) for name in counts.groups]
    table = counts.table.copy()
    label = 0 if positive is None else (counts.labels or ()).index(positive)
    table.reshape(*table.shape[:2], -1)[:, :, label] = encoder.plan_.counts[:, order]
    return CellCounts(table, counts.groups, counts.labels, counts.exclusions)


def _naming(table: Table, kept_groups: Sequence[str] | None) -> Reading:
    """Return how groups are pooled; labels are cut when they are read."""
    return Reading(sensitive=table.roles.sensitive, kept_groups=None if kept_groups is None else tuple(kept_groups))


def _roles(worker: Worker, roles: Roles) -> BlockReader:
    """Return a reader of groups and of what claims condition on alone: labels, or the values of a given column."""
    names = worker.schema.names
    labels = roles_of(roles.given or roles.label, names, "given" if roles.given else "label")
    if roles.given is None:
        labels = tuple(replace(role, cuts=roles.label_cuts) for role in labels)
    return BlockReader((), labels, roles_of(roles.sensitive, names, "sensitive"))


def _checked_roles(keywords: dict[str, Any]) -> Roles:
    """Read the roles; refuse what needs the whole table in memory."""
    if keywords.pop("sensitive_file", None) is not None or keywords.pop("on", None) is not None:
        raise ArgumentError(
            "sensitive_file is joined in memory, but this table is too large for that. Join the files first, for "
            "example in a database (DuckDB reads and writes Parquet)."
        )
    for option, value in CsvDialect.extract(keywords).items():
        if value != getattr(CsvDialect, option):
            raise ArgumentError(f"{option} is for CSV files, but this table is not one. Leave it out.")
    roles = Roles.of(keywords.pop("roles", None), **keywords)
    for role in ("weight", "cluster", "features", "missing_groups"):
        if getattr(roles, role) not in (None, (), "drop"):
            raise ArgumentError(
                f"{role} needs the whole table in memory, but this one is too large for that. Leave it out, or draw a "
                "sample of it that fits, and fit that."
            )
    return roles


def _place(name: str, known: Sequence[str], what: str) -> int:
    if name not in known:
        error = GroupError if what == "group" else RoleError
        raise error(f"The {what} {name!r} is so rare that the sample has no record of it: drop it, or pool it.")
    return known.index(name)
