"""Counts files: several holders of data count their own records, one party adds the counts up and certifies.

No record leaves its holder. A counts file says which encoder it is about, by digest, and has an id, so that a file from
another encoder is refused and one that is there twice is noticed. It also carries a checksum of the records, so that a
holder who counts the same records twice is noticed too.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from certifare import __version__
from certifare.certificates import CellCounts, Certificate
from certifare.certificates.certificate import ASSUMPTIONS, OTHER_PEOPLE
from certifare.certificates.claims import Claim
from certifare.certificates.counts import MOST_NAMES
from certifare.certificates.issuing import NOT_LOOKED_UP, issue
from certifare.certificates.population import Phrase, population_of
from certifare.certificates.sampling import drawn_population
from certifare.document.envelopes import parse
from certifare.document.statement import canonical
from certifare.errors import (
    ArgumentError,
    CertifareError,
    CountsFileError,
    DrawError,
    DuplicateCountsError,
    EncoderMismatchError,
    FileError,
)
from certifare.levels import INTERSECTION, UNKNOWN, sort_key
from certifare.storage import FilePath, atomic_file, open_regular

VERSION = 3
MAX_BYTES = 16 * 2**20

Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32,64}$")]
ShortText = Annotated[str, msgspec.Meta(max_length=1_000)]

LOOKED_UP = "The records were looked up: no holder found more of them among the training records than chance explains."
"""What a certificate says where every holder compared the records with the training records."""

OWN_CLUSTERS = "No cluster spans several holders: each of them kept one record of each of its own clusters."
"""What a certificate assumes besides where several holders drew one record of each cluster."""


class Drawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a holder drew the records that were counted: thinned to weights, or one of each cluster.

    Attributes
    ----------
    weight, cluster : str or None
        The columns.
    population : {"clusters", "records"}
        With clusters: what a claim is about.
    max_weight : float or None
        The largest weight (or size of a cluster) that the holder was told; None: the largest of its own records.
    seed : int
        Of the draw.
    effective_size : float
        Kish's effective sample size.
    assumptions : tuple of str
        What the draw takes for granted.
    """

    weight: ShortText | None = None
    cluster: ShortText | None = None
    population: Literal["clusters", "records"] = "clusters"
    max_weight: Annotated[float, msgspec.Meta(gt=0)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)]
    effective_size: Annotated[float, msgspec.Meta(ge=0)]
    assumptions: tuple[ShortText, ...] = ()

    @property
    def about(self) -> tuple[Phrase, ...]:
        """Whom a claim from these records is about."""
        population = None if self.cluster is None else self.population
        return drawn_population(weighted=self.weight is not None, population=population)

    @property
    def thinned(self) -> bool:
        """Whether records were left out in proportion to weights, whose scale all holders must then share."""
        return self.cluster is None or self.population == "records"


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a holder named groups and labels: counts that were named in other ways are of other groups and labels.

    Attributes
    ----------
    unknown_groups : bool
        Whether records without a group were counted as one of their own; else they were left out.
    groups : tuple of str
        Where small groups were pooled: those that were kept, and the pool. Empty: none was pooled.
    cuts : tuple of float
        Where a label that is a quantity was cut into bands. Empty: it was not.
    """

    unknown_groups: bool = False
    groups: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)] = ()
    cuts: Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_NAMES)] = ()


class CountsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One holder's counts, as they stand in a file.

    Attributes
    ----------
    id : str
        Random; a copy of the file has the same.
    encoder : str
        SHA-256 digest of the encoder's file.
    cells : int
        How many cells the encoder has; the table of counts has as many rows.
    sensitive, label
        Columns, or comparisons, that groups and labels were read from.
    named : Named
        How their values were named.
    counts : CellCounts
    drawn : Drawn or None
        How the records were drawn before they were counted; None: all were counted.
    checksum : str or None
        Of the records, in any order; None where the database that counted gives none.
    looked_up : bool
        Whether the records were compared with the training records, and found not to be among them.
    holder : str or None
        Who counted, as they call themselves.
    created, tool : str
        When, and with what.
    """

    format: Literal["certifare/counts"] = "certifare/counts"
    version: Annotated[int, msgspec.Meta(ge=1)] = VERSION
    id: Hex
    encoder: Hex
    cells: Annotated[int, msgspec.Meta(ge=1)]
    sensitive: Annotated[tuple[ShortText, ...], msgspec.Meta(min_length=1)]
    label: ShortText | None = None
    named: Named
    counts: CellCounts
    drawn: Drawn | None = None
    checksum: Hex | None = None
    looked_up: bool = False
    holder: ShortText | None = None
    created: ShortText
    tool: ShortText = f"certifare {__version__}"

    def __post_init__(self) -> None:
        if self.counts.n_cells != self.cells:
            raise CountsFileError(
                f"The encoder has {self.cells:,} cells, but the table of counts has {self.counts.n_cells:,} rows."
            )
        if (self.counts.labels is None) != (self.label is None):
            raise CountsFileError(
                "The counts have labels, but no label column is named."
                if self.label is None
                else f"The label {self.label!r} is named, but the counts have no labels."
            )

    @classmethod
    def make(
        cls,
        counts: CellCounts,
        encoder_digest: str,
        *,
        sensitive: Sequence[str],
        label: str | None = None,
        named: Named | None = None,
        drawn: Drawn | None = None,
        checksum: tuple[int, int] | None = None,
        looked_up: bool = False,
        holder: str | None = None,
    ) -> CountsFile:
        """Make the content of a counts file, with an id of its own."""
        return cls(
            id=secrets.token_hex(16),
            encoder=encoder_digest,
            cells=counts.n_cells,
            sensitive=tuple(sensitive),
            label=label,
            named=named or Named(),
            counts=counts,
            drawn=drawn,
            checksum=None if checksum is None else f"{checksum[0]:016x}{checksum[1]:016x}",
            looked_up=looked_up,
            holder=holder,
            created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )

    def save(self, path: FilePath) -> None:
        """Write the file, as a whole or not at all."""
        document = msgspec.to_builtins(self, enc_hook=lambda counts: counts.to_dict())
        with atomic_file(path) as name:
            name.write_bytes(canonical(document) + b"\n")

    @classmethod
    def load(cls, path: FilePath) -> CountsFile:
        """Read a file that :meth:`save` wrote, checking everything."""
        try:
            with open_regular(path) as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise FileError(f"The file {os.fspath(path)!r} cannot be read: {error.strerror}.") from error
        try:
            content = parse(data)
            version = content.get("version") if isinstance(content, dict) else None
            if isinstance(version, int) and version > VERSION:
                raise CountsFileError(
                    f"{os.fspath(path)!r} is in version {version} of the format, and this program knows versions up to "
                    f"{VERSION}: install a newer certifare to read it."
                )
            if isinstance(version, int) and version < VERSION:
                raise CountsFileError(
                    f"{os.fspath(path)!r} is in version {version} of the format, which does not say how many cells the "
                    "encoder has, or how groups and labels were named: count the records again with this certifare."
                )
            return msgspec.convert(content, cls, dec_hook=_decode)
        except CountsFileError:
            raise
        except (msgspec.ValidationError, TypeError, OverflowError, CertifareError) as error:
            raise CountsFileError(
                f"{os.fspath(path)!r} is no counts file (certifare count writes them): {error}"
            ) from error


@dataclass(frozen=True)
class Pooled:
    """Counts of several files, added up.

    Attributes
    ----------
    counts : CellCounts
    encoder : str
        Digest of the encoder that all of them are about.
    sensitive, label
        Columns that groups and labels were read from.
    n_files : int
    looked_up : bool
        Whether every holder compared the records with the training records.
    drawn : tuple of Drawn
        How each holder drew the records; empty where all were counted.
    """

    counts: CellCounts
    encoder: str
    sensitive: tuple[str, ...]
    label: str | None
    n_files: int
    looked_up: bool
    drawn: tuple[Drawn, ...] = ()

    def certify(self, metric: str = "demographic_parity", **claim: Any) -> Certificate:
        """Certify on all records together; keywords are those of :class:`~certifare.certificates.Claim`."""
        certificate = issue(self.counts, Claim(metric=metric, **claim))
        assumptions = [*ASSUMPTIONS, LOOKED_UP if self.looked_up else NOT_LOOKED_UP]
        assumptions += dict.fromkeys(text for drawn in self.drawn for text in drawn.assumptions)
        if self.n_files > 1:
            assumptions.append(OTHER_PEOPLE)
            if any(drawn.cluster is not None for drawn in self.drawn):
                assumptions.append(OWN_CLUSTERS)
        only = self.drawn[0] if len(self.drawn) == 1 else None
        return msgspec.structs.replace(
            certificate,
            assumptions=tuple(assumptions),
            seed=None if only is None else only.seed,
            effective_size=sum(drawn.effective_size for drawn in self.drawn) or None,
            population=population_of(certificate.exclusions, *(p for drawn in self.drawn for p in drawn.about)),
        )


def pool(files: Mapping[str, CountsFile], encoder_digest: str | None = None) -> Pooled:
    """Add up counts files.

    Parameters
    ----------
    files : mapping of name to CountsFile
        The names are used in errors.
    encoder_digest : str, optional
        Digest of the encoder to be certified; that of the first file unless given.

    Raises
    ------
    EncoderMismatchError
        A file is about another encoder, read groups or labels from other columns, or named them in another way.
    DuplicateCountsError
        A file is there twice, or two files count the same records.
    DrawError
        Files were drawn in different ways, or with the same random numbers.
    """
    if not files:
        raise ArgumentError("No counts file was given.")
    first_name, first = next(iter(files.items()))
    wanted, of_whom = (first.encoder, repr(first_name)) if encoder_digest is None else (encoder_digest, "the encoder")
    ids: dict[str, str] = {}
    checksums: dict[str, str] = {}
    for name, file in files.items():
        if file.encoder != wanted:
            raise EncoderMismatchError(
                f"{name!r} was counted with another encoder (SHA-256 {file.encoder[:16]}…) than {of_whom} "
                f"({wanted[:16]}…). Count its records again with that one."
            )
        if (file.sensitive, file.label) != (first.sensitive, first.label):
            raise EncoderMismatchError(
                f"{name!r} was counted by {_columns(file)}, but {first_name!r} by {_columns(first)}: these cannot be "
                "added up."
            )
        if file.named != first.named:
            raise EncoderMismatchError(
                f"{name!r} and {first_name!r} name groups or labels in different ways (small groups pooled, "
                "records without a group counted, a label cut into bands): a name stands for different records. "
                "Count both with the same bundle, certificate.json beside encoder.json, and the same options."
            )
        if file.id in ids:
            raise DuplicateCountsError(
                f"{name!r} and {ids[file.id]!r} are the same counts (id {file.id[:16]}…): give each holder's file once."
            )
        ids[file.id] = name
        if file.checksum is not None:
            if file.checksum in checksums:
                raise DuplicateCountsError(
                    f"{name!r} and {checksums[file.checksum]!r} count the same records (checksum "
                    f"{file.checksum[:16]}…): leave one of them out."
                )
            checksums[file.checksum] = name
    _check_draws(files)
    counts = first.counts
    for file in list(files.values())[1:]:
        counts = counts + file.counts
    looked_up = all(file.looked_up for file in files.values())
    drawn = tuple(file.drawn for file in files.values() if file.drawn is not None)
    return Pooled(_in_order(counts), wanted, first.sensitive, first.label, len(files), looked_up, drawn)


def _check_draws(files: Mapping[str, CountsFile]) -> None:
    """Refuse draws that do not make one sample: on another scale, of another population, or by the same numbers."""
    (first_name, first), *others = files.items()
    seeds = {} if first.drawn is None else {first.drawn.seed: first_name}
    for name, file in others:
        if file.drawn is None or first.drawn is None:
            if file.drawn is not first.drawn:
                all_of, part_of = (name, first_name) if file.drawn is None else (first_name, name)
                raise DrawError(
                    f"{part_of!r} counts records drawn by weights or clusters, {all_of!r} counts all of them: these "
                    "cannot be added up. Count both in one way."
                )
            continue
        how, wanted = ((d.weight, d.cluster, d.population, d.max_weight) for d in (file.drawn, first.drawn))
        if how != wanted:
            raise DrawError(
                f"{name!r} was drawn by other weights or clusters, for another population, or with another largest "
                f"weight than {first_name!r}: count both with the same --weight, --cluster, --population and "
                "--max-weight."
            )
        if file.drawn.thinned and file.drawn.max_weight is None:
            raise DrawError(
                f"{name!r} and {first_name!r} were each thinned to their own largest weight, so that their records "
                "count differently: agree on the largest in the population and count again with --max-weight."
            )
        if file.drawn.seed in seeds:
            raise DrawError(
                f"{name!r} and {seeds[file.drawn.seed]!r} were drawn with the same seed, {file.drawn.seed}, so the "
                "draws are not independent: count one of them again with another --seed."
            )
        seeds[file.drawn.seed] = name


def _in_order(counts: CellCounts) -> CellCounts:
    """Put groups and labels into the order that counting all records at once would give."""
    parts = {group: [sort_key(part) for part in group.split(INTERSECTION)] for group in counts.groups}
    groups = sorted(counts.groups, key=lambda group: (group == UNKNOWN, parts[group]))
    table = counts.table[:, [counts.groups.index(group) for group in groups]]
    if counts.labels is None:
        return CellCounts(table, groups, None, counts.exclusions)
    labels = sorted(counts.labels, key=sort_key)
    return CellCounts(table[:, :, [counts.labels.index(label) for label in labels]], groups, labels, counts.exclusions)


def is_counts_file(path: FilePath) -> bool:
    """Say whether a file looks like a counts file, by its first bytes."""
    try:
        with open_regular(path) as file:
            return b'"certifare/counts"' in file.read(MAX_BYTES) if file.read(1) == b"{" else False
    except OSError:
        return False


def _columns(file: CountsFile) -> str:
    return " and ".join(map(repr, [*file.sensitive, *([] if file.label is None else [file.label])]))


def _decode(kind: type, value: object) -> object:
    if kind is CellCounts and isinstance(value, Mapping):
        return CellCounts.from_dict(value)
    raise CountsFileError("counts must be an object with groups and table.")
