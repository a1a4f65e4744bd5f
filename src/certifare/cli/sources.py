"""Where commands find records, and how they read them: in a file, in counts files, or in a database."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.cli.arguments import ENCODER, encoder_file
from certifare.errors import ArgumentError, DocumentError

if TYPE_CHECKING:
    from certifare.certificates import CellCounts
    from certifare.certification.ledger import Ledger, Traces
    from certifare.document import Document
    from certifare.document.counts_files import CountsFile
    from certifare.encoders import RestrictedEncoder
    from certifare.encoders.format import EncoderFile
    from certifare.engines.counting import CountedRecords, CountRequest
    from certifare.tables.files import DataFile
    from certifare.tables.reading import Reading
    from certifare.tables.table import Table

MOST_OPEN = 64
"""Of more files of records, the others are opened again to be read: a process may not hold any number of them."""


@dataclass(frozen=True)
class Certified:
    """An encoder's file, and the certificate that lies beside it in its bundle.

    Attributes
    ----------
    encoder : EncoderFile
        Opened once, so that what the certificate was held against is what is used.
    document : Document or None
        None if the bundle has no certificate.
    """

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

    @property
    def metric(self) -> str:
        """What the certificate bounds; demographic parity if there is none."""
        return "demographic_parity" if self.document is None else self.document.certificate.metric


def read_source(
    encoder: RestrictedEncoder, data: Sequence[DataFile], reading: Reading, *, labelled: bool, **options: Any
) -> tuple[Any, Table | None]:
    """Open files of records: in memory, or as a stream if they are Parquet and too large for that.

    Parameters
    ----------
    encoder, reading, labelled, **options
        As in :func:`certifare.encoders.records.read_records`.
    data : sequence of DataFile

    Returns
    -------
    source : Source
    table : Table or None
        None if the records are not in memory.
    """
    from certifare.certification.certifying import TableSource
    from certifare.encoders.records import read_records
    from certifare.engines.counting import PieceRecords
    from certifare.frontier.large import is_large

    if len(data) == 1 and is_large(data[0]) and options.get("sensitive_file") is None:
        return PieceRecords.of(data[0]), None
    table = read_records(encoder, data if len(data) > 1 else data[0], reading, labelled=labelled, **options)
    return TableSource(table), table


def count_database(
    encoder: RestrictedEncoder, address: str, table: str, reading: Reading, request: CountRequest
) -> CountedRecords:
    """Let a database count its own records."""
    from certifare.certification.certifying import count_records
    from certifare.engines.sql.warehouse import DatabaseRecords, connect

    with connect(address) as warehouse:
        return count_records(encoder, DatabaseRecords(warehouse, table), reading, request)


def checksum_salt(encoder_digest: str) -> bytes:
    """Return the salt of checksums of records that were counted by an encoder."""
    return bytes.fromhex(encoder_digest)[:16]


def counts_files(data: Sequence[DataFile], encoder: Path | None = None) -> list[DataFile]:
    """Return the counts files among arguments; none, if these are records.

    Parameters
    ----------
    data : sequence of DataFile
        Counts files, or tables.
    encoder : path, optional
        The encoder; or the first of the counts files, if no encoder was named.
    """
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


def trace_counts(ledger: Ledger, files: dict[str, CountsFile]) -> Traces | None:
    """Return what the ledger knows records by that were counted elsewhere; None if looks at them cannot be counted."""
    from certifare.certification.ledger import sizes_origin

    # A checksum is that of one encoder. Sizes of groups are not, but records that were drawn have others every time.
    if any(file.checksum is None or file.reading.drawn for file in files.values()):
        return None
    return ledger.origin(
        *(
            origin
            for file in files.values()
            for origin in (("checksum", file.checksum or ""), sizes_origin(file.counts))
        )
    )


def trace_database(ledger: Ledger, address: str, table: str, counts: CellCounts) -> Traces:
    """Return what the ledger knows the records of a table in a database by: where they lie, and sizes of groups."""
    from certifare.certification.ledger import sizes_origin

    place = _place(address)
    # The same table, or another name of it.
    return ledger.origin(("table", place, table), sizes_origin(counts))


def _place(address: str) -> str:
    """Name a database, without who asks it: a file by where it lies."""
    scheme, _, rest = address.partition("://")
    # A password may hold any character, so who asks is all before the last @; options behind the name may hold one too.
    place = rest.rpartition("@")[2].partition("?")[0]
    path = Path(place.removeprefix("/"))
    return f"{scheme} {path.resolve() if path.exists() else place}"
