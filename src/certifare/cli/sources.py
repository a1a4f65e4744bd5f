"""Where commands find records, and how they count them: in files, in counts files, or in a database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.cli.arguments import ENCODER, cuts_of, encoder_file
from certifare.cli.column import column_of_database, column_of_files, written_column
from certifare.cli.honoured import of_records
from certifare.cli.options import DatabaseOptions, RoleOptions
from certifare.errors import ArgumentError, CountsError, DocumentError

if TYPE_CHECKING:
    from certifare.certificates.claims import Claim
    from certifare.certification.ledger import Ledger, Traces
    from certifare.document import Document
    from certifare.document.counts_files import CountsFile
    from certifare.encoders import RestrictedEncoder
    from certifare.encoders.format import EncoderFile
    from certifare.encoders.records import GroupColumns
    from certifare.engines.counting import CountedRecords, CountRequest
    from certifare.tables.files import DataFile
    from certifare.tables.reading import Reading

#: Of more files of records, the others are opened again to be read: a process may not hold any number of them.
MOST_OPEN = 64


@dataclass(frozen=True)
class Certified:
    """An encoder's file, opened once, and the certificate that lies beside it in its bundle, if there is one."""

    encoder: EncoderFile
    document: Document | None

    @classmethod
    def load(cls, path: Path, key: Path | None = None) -> Certified:
        """Read a bundle, or an encoder's file. A certificate that lies beside it must hold, and be about it."""
        from certifare.document import Policy, digest, read_document, verify_document
        from certifare.encoders.format import EncoderFile

        found = encoder_file(path)
        encoder, beside = EncoderFile(found), found.parent / "certificate.json"
        if not os.path.lexists(beside):
            return cls(encoder, None)
        document = read_document(beside)
        if found.name != ENCODER and document.statement.digest_of("encoder") != digest(encoder):
            return cls(encoder, None)  # It is about the bundle's encoder, and another file of the folder was named.
        verdict = verify_document(document, Policy(min_confidence=0.0), key=key, encoder=encoder)
        if verdict.failures:
            failures = "; ".join(f"{check.name}: {check.message}" for check in verdict.failures)
            raise DocumentError(
                f"The certificate beside the encoder, {str(beside)!r}, does not hold: {failures} Put back the one that "
                "was written with this encoder, or move it away."
            )
        return cls(encoder, document)

    @property
    def reading(self) -> Reading:
        """How the certificate's records were read; an empty reading if no certificate says so."""
        from certifare.tables.reading import Reading

        found = None if self.document is None else self.document.statement.predicate.reading
        return found or Reading()

    @property
    def stated(self) -> bool:
        """Whether a certificate says how records are read."""
        return self.document is not None and self.document.statement.predicate.reading is not None

    def group_columns(self, fitted: RestrictedEncoder, data: Path, reading: dict[str, Any]) -> GroupColumns | None:
        """Find the group's columns in a table, if the encoder reads the group; it is then given with the records."""
        from certifare.encoders.records import GroupColumns
        from certifare.tables.files import open_batches

        if not fitted.reads_groups:
            return None
        groups = GroupColumns.of(fitted, open_batches(data, {}, **reading).names, self.reading.sensitive)
        fitted.set_params(sensitive=None)
        return groups


@dataclass(frozen=True)
class Counted:
    """Counts of records by cell, and what is known of the records.

    - ``reading``: how the records were read.
    - ``named``: what a certificate's document says of encoder and records: keywords of ``write_document``.
    - ``trace``: given a ledger, returns what it knows the records by; None if looks at them cannot be counted.
    - ``column``: the encoder of a column that was counted itself.
    """

    records: CountedRecords
    reading: Reading
    named: dict[str, Any]
    trace: Callable[[Ledger], Traces | None]
    column: Any = None


@dataclass(frozen=True)
class RecordsToCount:
    """The encoder (none if a column or counts files are certified), and where the records are."""

    known: Certified | None
    files: list[DataFile]
    counts: list[DataFile]
    database: DatabaseOptions
    column: str = ""
    cuts: Sequence[float] | None = None

    @property
    def reading(self) -> Reading:
        """How the certificate beside the encoder says that records are read; an empty reading without one."""
        from certifare.tables.reading import Reading

        return Reading() if self.known is None else self.known.reading

    @property
    def claim(self) -> Claim | None:
        """What the certificate beside the encoder claims."""
        document = None if self.known is None else self.known.document
        return None if document is None else document.certificate.claim

    def conditions(self, roles: RoleOptions) -> tuple[str, ...]:
        """Conditions under which options are honoured."""
        stated = self.known is not None and self.known.stated
        if self.database.sql is not None:
            return tuple(of_records(stated=stated))
        if self.counts:
            return ("counts",)
        return (*of_records(*self.files, stated=stated), "memory", *roles.draw_conditions(self.reading, self.files))

    def count(self, reading: Reading, csv: dict[str, Any], *, labelled: bool, **request: Any) -> Counted:
        """Count the records, wherever they are.

        - ``csv``: how files are read: keywords of :func:`certifare.encoders.records.read_records`.
        - ``**request``: other fields of :class:`certifare.engines.counting.CountRequest`.
        """
        from certifare.engines.counting import CountRequest

        if self.counts:
            return self._pooled(reading if labelled and not reading.given else reading.unlabelled())
        asked = CountRequest(labelled=labelled, **request)
        return (
            self._in_database(reading, asked) if self.database.sql is not None else self._in_files(reading, asked, csv)
        )

    def _in_files(self, reading: Reading, asked: CountRequest, csv: dict[str, Any]) -> Counted:
        """Count files of records: in memory, or as a stream if they are Parquet and too large for that."""
        from certifare.certification.certifying import TableSource, count_records
        from certifare.certification.ledger import sizes_origin
        from certifare.document import digest
        from certifare.encoders.records import load_fitted, read_records
        from certifare.engines.counting import PieceRecords
        from certifare.frontier.large import is_large

        encoder: Any
        column = table = None
        if self.known is None:
            column, table = column_of_files(self.files, self.column, self.cuts, reading, labelled=asked.labelled, **csv)
            encoder, salt = column, written_column(column)
            named: dict[str, Any] = {"encoder_digest": salt}
        else:
            encoder, salt = load_fitted(self.known.encoder), digest(self.known.encoder)
            named = {"encoder": self.known.encoder}
            if len(self.files) > 1 or not is_large(self.files[0]) or csv.get("sensitive_file") is not None:
                data = self.files if len(self.files) > 1 else self.files[0]
                table = read_records(encoder, data, reading, labelled=asked.labelled, **csv)
        source: Any = PieceRecords.of(self.files[0]) if table is None else TableSource(table)
        # Checksums of an encoder's counts are its own.
        counted = count_records(encoder, source, reading, replace(asked, salt=bytes.fromhex(salt)[:16]))
        origins = (("checksum", str(counted.checksum)), sizes_origin(counted.counts))

        def trace(ledger: Ledger) -> Traces:
            return ledger.origin(*origins) if table is None else ledger.trace(table)

        named["data_digest"] = None if table is None else table.digest
        return Counted(counted, reading, named, trace, column)

    def _in_database(self, reading: Reading, asked: CountRequest) -> Counted:
        """Let a database count its own records."""
        from certifare.certification.certifying import count_records
        from certifare.certification.ledger import sizes_origin
        from certifare.encoders.records import load_fitted
        from certifare.engines.sql.warehouse import DatabaseRecords, connect

        address, table = self.database.place
        column = None
        if self.known is None:
            fitted: Any = (column := column_of_database(self.database.place, self.column, self.cuts))
            named: dict[str, Any] = {"encoder_digest": written_column(column)}
        else:
            fitted, named = load_fitted(self.known.encoder), {"encoder": self.known.encoder}
        with connect(address) as warehouse:
            counted = count_records(fitted, DatabaseRecords(warehouse, table), reading, asked)
        # The same table, or another name of it.
        origins = (("table", _place(address), table), sizes_origin(counted.counts))
        return Counted(counted, reading, named, lambda ledger: ledger.origin(*origins), column)

    def _pooled(self, wanted: Reading) -> Counted:
        """Add up counts files, which must be about the encoder, if one was named."""
        from certifare.certificates.assumptions import READS_GROUP
        from certifare.document import digest
        from certifare.document.counts_files import pool
        from certifare.encoders.records import check_cells

        files = load_counts(self.counts)
        if self.known is None:
            pooled = pool(files)
            named: dict[str, Any] = {"encoder_digest": pooled.encoder}
        else:
            encoder = self.known.encoder
            pooled = pool(files, digest(encoder), None if self.known.document is None else wanted)
            named = {"encoder": encoder}
            check_cells(encoder.document.n_cells, pooled.counted.counts)
            if encoder.document.reads_groups != (READS_GROUP in pooled.counted.provenance.besides):
                raise CountsError(
                    "The counts do not say what the encoder does with the group: count the records again with it."
                )
        return Counted(pooled.counted, pooled.reading, named, lambda ledger: _trace_counts(ledger, files))


def find_records(
    encoder: Path | None,
    data: Sequence[Path],
    database: DatabaseOptions,
    column: str | None = None,
    cuts: str | None = None,
) -> RecordsToCount:
    """Find the encoder and the records; refuse records in two places or in none."""
    from certifare.tables.files import DataFile

    if column is not None:
        data, encoder = [*([] if encoder is None else [encoder]), *data], None
    elif encoder is None:
        raise ArgumentError("Which encoder? Name its file or bundle; or the column to certify, with --column.")
    files = [DataFile(path) for path in data]
    counts = [] if database.sql is not None or encoder is None else counts_files(files, encoder)
    database.check(files or counts)
    # With one more counts file than there are data, the first argument is one itself.
    known = None if encoder is None or len(counts) > len(files) else Certified.load(encoder)
    bins = None if column is None else cuts_of(cuts, "--cuts")
    return RecordsToCount(known, files, counts, database, column or "", bins)


def counts_files(data: Sequence[DataFile], encoder: Path | None = None) -> list[DataFile]:
    """Return the counts files among arguments, which an encoder's may be too; none if these are records."""
    from certifare.document.counts_files import is_counts_file
    from certifare.tables.files import DataFile

    files, records = list(data), []
    if encoder is not None and is_counts_file(first := DataFile(encoder)):
        files = [first, *files]
    for i, file in enumerate(files):
        if not is_counts_file(file):
            records.append(file)
            if i >= MOST_OPEN:
                file.release()
    if records and len(records) < len(files):
        raise ArgumentError(f"{str(records[0])!r} is no counts file, and the others are: give one kind only.")
    return [] if records else files


def load_counts(files: Sequence[DataFile]) -> dict[str, CountsFile]:
    """Read counts files, each under the name that messages call it by; one that is given twice is there twice."""
    from certifare.document.counts_files import CountsFile

    loaded: dict[str, CountsFile] = {}
    for path in files:
        name = str(path)
        while name in loaded:
            name += ", again"
        loaded[name] = CountsFile.load(path)
    return loaded


def _trace_counts(ledger: Ledger, files: dict[str, CountsFile]) -> Traces | None:
    """Return what the ledger knows records by that were counted elsewhere; None if looks at them cannot be counted."""
    from certifare.certification.ledger import sizes_origin

    # A checksum is that of one encoder. Sizes of groups are not, but records that were drawn have others every time.
    if any(file.checksum is None or file.reading.drawn for file in files.values()):
        return None
    pairs = ((("checksum", file.checksum or ""), sizes_origin(file.counts)) for file in files.values())
    return ledger.origin(*(origin for pair in pairs for origin in pair))


def _place(address: str) -> str:
    """Name a database, without who asks it: a file by where it lies."""
    scheme, _, rest = address.partition("://")
    # A password may hold any character, so who asks is all before the last @; options behind the name may hold one too.
    place = rest.rpartition("@")[2].partition("?")[0]
    path = Path(place.removeprefix("/"))
    return f"{scheme} {path.resolve() if path.exists() else place}"
