"""Counts files: several data holders count their own records; one party adds the counts up and certifies.

No record leaves its holder. A counts file states the digest of its encoder and has an id, so that files of another
encoder and repeated files are refused. A checksum of the records shows whether a holder counted the same records twice.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from certifare.certificates import CellCounts
from certifare.certificates.assumptions import NOT_LOOKED_UP, OTHER_PEOPLE
from certifare.certificates.counts import decode_counts, encode_counts
from certifare.certificates.provenance import Provenance
from certifare.certificates.tail import Tail
from certifare.document.envelopes import parse
from certifare.document.statement import canonical
from certifare.engines.counting import CountedRecords
from certifare.errors import ArgumentError, CertifareError, CountsError, FileError
from certifare.foundation.levels import sort_key
from certifare.foundation.storage import FilePath, atomic_file
from certifare.foundation.version import __version__
from certifare.tables.files import DataFile
from certifare.tables.reading import Reading

VERSION = 4
MAX_BYTES = 16 * 2**20
#: The most assumptions in a file.
MOST_ASSUMPTIONS = 20

Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32,64}$")]
ShortText = Annotated[str, msgspec.Meta(max_length=1_000)]

#: The statement of a certificate if every data holder compared its records with the training records.
LOOKED_UP = "The records were looked up: no holder found more of them among the training records than chance explains."
#: An additional assumption of a certificate if several data holders sampled one record of each cluster.
OWN_CLUSTERS = "No cluster spans several holders: each of them kept one record of each of its own clusters."


class CountsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counts of one data holder, as stored in a file."""

    format: Literal["certifare/counts"] = "certifare/counts"
    version: Annotated[int, msgspec.Meta(ge=1)] = VERSION
    id: Hex
    encoder: Hex
    cells: Annotated[int, msgspec.Meta(ge=1)]
    reading: Reading
    counts: CellCounts
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    effective_size: Annotated[float, msgspec.Meta(gt=0)] | None = None
    tail: Tail | None = None
    assumptions: Annotated[tuple[ShortText, ...], msgspec.Meta(max_length=MOST_ASSUMPTIONS)] = ()
    checksum: Hex | None = None
    looked_up: bool = False
    holder: ShortText | None = None
    created: ShortText
    tool: ShortText = f"certifare {__version__}"

    def __post_init__(self) -> None:
        if self.counts.n_cells != self.cells:
            raise FileError(
                f"The encoder has {self.cells:,} cells, but the table of counts has {self.counts.n_cells:,} rows."
            )
        if not self.reading.sensitive:
            raise FileError("The file does not say which columns the groups were read from.")
        label = self.reading.counted(labelled=True).label
        if (self.counts.labels is None) != (label is None):
            raise FileError(
                "The counts have labels, but no label column is named."
                if label is None
                else f"The label {label!r} is named, but the counts have no labels."
            )
        if self.reading.drawn != (self.seed is not None) or self.reading.drawn != (self.effective_size is not None):
            raise FileError(
                "A seed and a size are needed if records are sampled by weights or clusters, and only then."
            )

    @classmethod
    def make(
        cls, counted: CountedRecords, encoder_digest: str, reading: Reading, *, holder: str | None = None
    ) -> CountsFile:
        """Make the content of a counts file, with a new id."""
        return cls(
            id=secrets.token_hex(16),
            encoder=encoder_digest,
            cells=counted.counts.n_cells,
            reading=reading,
            counts=counted.counts,
            seed=counted.provenance.seed,
            effective_size=counted.provenance.effective_size,
            tail=counted.tail,
            assumptions=counted.provenance.besides,
            checksum=counted.checksum,
            looked_up=counted.overlap is not None,
            holder=holder,
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    def save(self, path: FilePath) -> None:
        """Write the file, completely or not at all."""
        document = msgspec.to_builtins(self, enc_hook=encode_counts)
        with atomic_file(path) as name:
            name.write_bytes(canonical(document) + b"\n")

    @classmethod
    def load(cls, path: FilePath) -> CountsFile:
        """Read and validate a file that :meth:`save` wrote."""
        try:
            data = DataFile.of(path).content(MAX_BYTES + 1)
        except OSError as error:
            raise FileError(f"The file {os.fspath(path)!r} cannot be read: {error.strerror}.") from error
        try:
            content = parse(data)
            version = content.get("version") if isinstance(content, dict) else None
            if isinstance(version, int) and version > VERSION:
                raise FileError(
                    f"{os.fspath(path)!r} has version {version} of the format, but this certifare only reads versions "
                    f"up to {VERSION}. Install a newer one."
                )
            if isinstance(version, int) and version < VERSION:
                raise FileError(
                    f"{os.fspath(path)!r} has version {version} of the format, which does not state how its records "
                    "were read. Count the records again with this certifare."
                )
            return msgspec.convert(content, cls, dec_hook=decode_counts)
        except FileError:
            raise
        except (msgspec.ValidationError, TypeError, OverflowError, CertifareError) as error:
            raise FileError(
                f"{os.fspath(path)!r} is not a counts file (certifare count writes them): {error}"
            ) from error


def pool(
    files: Mapping[str, CountsFile], encoder_digest: str | None = None, reading: Reading | None = None
) -> PooledFiles:
    """Add up counts files."""
    if not files:
        raise ArgumentError("No counts file was given.")
    first_name, first = next(iter(files.items()))
    wanted, of_whom = (first.encoder, repr(first_name)) if encoder_digest is None else (encoder_digest, "the encoder")
    by, by_whom = (first.reading, repr(first_name)) if reading is None else (reading, "the certificate of the bundle")
    ids: dict[str, str] = {}
    checksums: dict[str, str] = {}
    for name, file in files.items():
        if file.encoder != wanted:
            raise CountsError(
                f"{name!r} was counted with another encoder (SHA-256 {file.encoder[:16]}…) than {of_whom} "
                f"({wanted[:16]}…). Count its records again with that one."
            )
        _check_reading(name, file, by, by_whom)
        scales = {file.reading.max_weight, first.reading.max_weight}
        if len(files) > 1 and file.reading.thinned and (None in scales or len(scales) > 1):
            raise CountsError(
                f"{name!r} and {first_name!r} were not thinned to the same largest weight, so their records count "
                "differently. Agree on the largest weight in the population, and count both with --max-weight."
            )
        if file.id in ids:
            raise CountsError(
                f"{name!r} and {ids[file.id]!r} are the same counts (id {file.id[:16]}…). Give each holder's file once."
            )
        ids[file.id] = name
        if file.checksum is not None:
            if file.checksum in checksums:
                raise CountsError(
                    f"{name!r} and {checksums[file.checksum]!r} count the same records (checksum "
                    f"{file.checksum[:16]}…). Leave one of them out."
                )
            checksums[file.checksum] = name
    counts = first.counts
    for file in list(files.values())[1:]:
        counts = counts + file.counts
    return PooledFiles(first.reading, wanted, _counted(list(files.values()), _in_order(counts)))


@dataclass(frozen=True, eq=False)
class PooledFiles:
    """The sum of several counts files."""

    reading: Reading
    encoder: str
    counted: CountedRecords


def _counted(files: Sequence[CountsFile], counts: CellCounts) -> CountedRecords:
    """Return the records of all files together, with their provenance."""
    looked_up = all(file.looked_up for file in files)
    besides = list(dict.fromkeys(text for file in files for text in file.assumptions))
    if len(files) > 1:
        besides.append(OTHER_PEOPLE)
        if files[0].reading.cluster is not None:
            besides.append(OWN_CLUSTERS)
    sizes = [file.effective_size for file in files if file.effective_size is not None]
    provenance = Provenance(
        looked_up=LOOKED_UP if looked_up else NOT_LOOKED_UP,
        besides=tuple(besides),
        seed=files[0].seed if len(files) == 1 else None,
        effective_size=sum(sizes) if sizes else None,
        population=files[0].reading.about,
    )
    checksums = [file.checksum or "" for file in files]
    digest = hashlib.sha256(" ".join(sorted(checksums)).encode()).hexdigest() if all(checksums) else None
    return CountedRecords(counts=counts, provenance=provenance, tail=_tail(files), digest=digest)


def _tail(files: Sequence[CountsFile]) -> Tail | None:
    """Return the weight above the cap; raise if there are several holders: no bound is proved for them."""
    if len(files) > 1 and any(file.reading.cap is not None for file in files):
        raise CountsError("Weights of several holders cannot be capped. Count each file again with --cap inf.")
    return files[0].tail


def _check_reading(name: str, file: CountsFile, wanted: Reading, of_whom: str) -> None:
    """Raise if the records of a file were read or sampled in another way."""
    reading = file.reading
    if (reading.sensitive, reading.label, reading.given) != (wanted.sensitive, wanted.label, wanted.given):
        raise CountsError(
            f"{name!r} was counted by {_columns(reading)}, but {of_whom} is by {_columns(wanted)}. Count its records "
            "again with the same columns."
        )
    if reading.naming != wanted.naming:
        raise CountsError(
            f"{name!r} names groups or labels differently from {of_whom} (small groups pooled, records without a "
            "group counted, a label cut into bands), so a name means different records. Count its records again with "
            "the bundle, certificate.json next to encoder.json, and the same options."
        )
    if reading.draw != wanted.draw:
        raise CountsError(
            f"{name!r} counts {_drawn(reading)}, but {of_whom} is about {_drawn(wanted)}. Count its records again with "
            "the same --weight, --cluster and --population."
        )


def _drawn(reading: Reading) -> str:
    """Describe how records are sampled."""
    if not reading.drawn:
        return "all records"
    weights = "" if reading.weight is None else f" by the weights {reading.weight!r}"
    clusters = "" if reading.cluster is None else f" by the clusters {reading.cluster!r} ({reading.population})"
    return f"records drawn{weights}{clusters}"


def _in_order(counts: CellCounts) -> CellCounts:
    """Sort groups and labels as if all records had been counted at once."""
    groups = sorted(counts.groups, key=sort_key)
    table = counts.table[:, [counts.groups.index(group) for group in groups]]
    if counts.labels is None:
        return CellCounts(table, groups, None, counts.exclusions)
    labels = sorted(counts.labels, key=sort_key)
    return CellCounts(table[:, :, [counts.labels.index(label) for label in labels]], groups, labels, counts.exclusions)


def is_counts_file(path: FilePath) -> bool:
    """Return whether a file looks like a counts file, by its content."""
    file = DataFile.of(path)
    try:
        return not file.is_folder and file.head[:1] == b"{" and b'"certifare/counts"' in file.content(MAX_BYTES + 1)
    except (OSError, FileError):  # an object store's errors are of the second kind
        return False


def _columns(reading: Reading) -> str:
    label = reading.counted(labelled=True).label
    return " and ".join(map(repr, [*reading.sensitive, *([] if label is None else [label])]))
