"""Certificates from counts alone: of a database that counts its own records, or of counts files of several holders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.cli.common import encoder_file

if TYPE_CHECKING:
    from certifare.certificates import CellCounts, Certificate
    from certifare.document import Document
    from certifare.document.counts_files import CountsFile, Pooled
    from certifare.encoders import FairTreeEncoder
    from certifare.engines.counting import Naming


@dataclass(frozen=True)
class CountedCertificate:
    """A certificate from counts, and what its document says besides.

    Attributes
    ----------
    certificate : Certificate
    context : dict
        The encoder, and columns that groups and labels were read from.
    origins : tuple of tuples of str or None
        What the records came from, for the ledger; None where looks at them cannot be counted.
    column : FairTreeEncoder or None
        The encoder of a column that was certified itself.
    """

    certificate: Certificate
    context: dict[str, Any]
    origins: tuple[tuple[str, ...], ...] | None
    column: FairTreeEncoder | None = None


@dataclass(frozen=True)
class Published:
    """What the certificate beside an encoder says about its columns.

    Attributes
    ----------
    document : Document
    sensitive : tuple of str
    label : str or None
    cuts : tuple of float
        Where the label was cut into bands; nowhere, if it was not.
    groups : tuple of str
        "other groups" among them pools all that are not.
    """

    document: Document
    sensitive: tuple[str, ...]
    label: str | None
    cuts: tuple[float, ...]
    groups: tuple[str, ...]

    @classmethod
    def of(cls, document: Document) -> Published:
        """Read a certificate."""
        from certifare.table import cuts_in_names

        columns, counts = document.statement.predicate.columns, document.certificate.counts
        sensitive, label = (tuple(columns.sensitive), columns.label) if columns is not None else ((), None)
        return cls(document, sensitive, label, cuts_in_names(label, counts.labels), counts.groups)

    @classmethod
    def beside(cls, encoder: Path) -> Published | None:
        """Read the certificate in the bundle that an encoder is in; None if there is none about this encoder."""
        from certifare.document import digest, read_document
        from certifare.errors import CertifareError

        try:
            document = read_document(encoder.parent / "certificate.json")
        except (CertifareError, OSError):
            return None
        return cls.of(document) if document.statement.digest_of("encoder") == digest(encoder) else None

    @property
    def cap(self) -> float | None:
        """The cap of weights, which was chosen on other records than those to come; None if there is none."""
        tail = self.document.certificate.tail
        return None if tail is None else tail.cap

    @property
    def metric(self) -> str:
        """What the certificate bounds."""
        return self.document.certificate.metric

    def positive(self, metric: str, label: str | None) -> str | None:
        """Return the positive label of the same metric and label; None if they are others."""
        return self.document.certificate.positive if (metric, label) == (self.metric, self.label) else None

    def naming(self, label: str | None) -> Naming:
        """Say how records that are counted by these columns are named."""
        from certifare.engines.counting import Naming

        return Naming(label, self.cuts if label == self.label else (), self.groups)


def certify_database(
    encoder: Path | FairTreeEncoder | None,
    address: str,
    table: str,
    *,
    sensitive: Sequence[str],
    label: str | None,
    unknown_groups: bool,
    positive: str | None = None,
    known: Published | None = None,
    metric: str = "demographic_parity",
    **options: Any,
) -> CountedCertificate:
    """Certify an encoder on a table that its database counts.

    Parameters
    ----------
    encoder : path or FairTreeEncoder
        A file; or the encoder of a column.
    address, table : str
        The database, and its table.
    sensitive, label, unknown_groups, positive, metric
        Options of ``certifare certify``.
    known : Published or None
        The certificate beside the encoder, whose positive label counts unless one was named.
    **options
        Of :func:`certifare.engines.sql.warehouse.certify_sql`.
    """
    from certifare.encoders import load_encoder
    from certifare.encoders.existing import assuming
    from certifare.engines.sql.warehouse import certify_sql, connect
    from certifare.errors import MissingGroupError

    if not sensitive:
        raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
    column = None if encoder is None or isinstance(encoder, Path) else encoder
    file = encoder_file(encoder) if isinstance(encoder, Path) else None
    fitted = load_encoder(file) if file is not None else column
    assert fitted is not None  # noqa: S101  (there is one or the other)
    with connect(address) as warehouse:
        certificate = certify_sql(
            fitted,
            warehouse,
            table,
            sensitive=sensitive,
            label=label,
            missing="unknown" if unknown_groups else "drop",
            metric=metric,
            positive=positive_label(positive, metric, label, known) or _compared(label),
            **options,
        )
    place = _place(address)
    # The same table, or another name of it.
    origins = (("table", place, table), ("sizes", place, *_sizes(certificate.counts)))
    if column is not None:
        certificate = assuming(column, certificate)
    named = {} if file is None else {"encoder": file}
    return CountedCertificate(certificate, {**named, **_columns(sensitive, label)}, origins, column)


def counts_files(encoder: Path, data: Sequence[Path]) -> list[Path]:
    """Return the counts files among the arguments of ``certifare certify``; none, if these are records.

    Parameters
    ----------
    encoder : path
        The encoder; or the first of the counts files, if no encoder was named.
    data : sequence of path
        Counts files, or one table.
    """
    from certifare.document.counts_files import is_counts_file
    from certifare.errors import ArgumentError

    files = [encoder, *data] if is_counts_file(encoder) else list(data)
    others = [path for path in files if not is_counts_file(path)]
    if others and len(others) < len(files):
        raise ArgumentError(f"{str(others[0])!r} is no counts file, and the others are: give one kind only.")
    return [] if others else files


def load_counts(files: Sequence[Path]) -> dict[str, CountsFile]:
    """Read counts files, each under the name that messages call it by; one that is given twice is there twice."""
    from certifare.document.counts_files import CountsFile

    loaded: dict[str, CountsFile] = {}
    for path in files:
        name = str(path)
        while name in loaded:
            name += ", again"
        loaded[name] = CountsFile.load(path)
    return loaded


def check_sensitive(pooled: Pooled, sensitive: Sequence[str]) -> None:
    """Refuse counts by other sensitive columns than those that were named, if any were."""
    from certifare.errors import ArgumentError

    if sensitive and tuple(sensitive) != pooled.sensitive:
        raise ArgumentError(f"The counts are by {', '.join(pooled.sensitive)}, not by {', '.join(sensitive)}.")


def certify_files(
    encoder: Path | None,
    files: Sequence[Path],
    *,
    sensitive: Sequence[str],
    label: str | None,
    positive: str | None = None,
    known: Published | None = None,
    metric: str = "demographic_parity",
    **options: Any,
) -> CountedCertificate:
    """Certify an encoder on the counts of several holders.

    Parameters
    ----------
    encoder : path or None
        The encoder, if it was named.
    files : sequence of path
        Counts files.
    sensitive, label
        What the counts must be about, if that was said.
    positive, metric
        Options of ``certifare certify``.
    known : Published or None
        The certificate beside the encoder, whose positive label counts unless one was named.
    **options
        Of :func:`certifare.certify_counts`.
    """
    import msgspec

    from certifare.certificates.certificate import READS_GROUP
    from certifare.document import digest
    from certifare.document.counts_files import pool
    from certifare.encoders.format import read_encoder_document
    from certifare.errors import ArgumentError
    from certifare.records import check_cells

    loaded = load_counts(files)
    named: dict[str, Any] = {}
    reads_group = False
    if encoder is None:
        pooled = pool(loaded)
        named["encoder_digest"] = pooled.encoder
    else:
        named["encoder"] = encoder_file(encoder)
        pooled = pool(loaded, digest(named["encoder"]))
        document = read_encoder_document(named["encoder"])
        check_cells(document.n_cells, pooled.counts)
        reads_group = bool(document.parameters.get("group_aware"))
    check_sensitive(pooled, sensitive)
    if label is not None and label != pooled.label:
        found = "have no labels" if pooled.label is None else f"are by the label {pooled.label!r}"
        raise ArgumentError(f"--label {label}: the counts {found}. Leave it out, or count with --label {label}.")
    chosen = positive_label(positive, metric, pooled.label, known) or _compared(pooled.label)
    certificate = pooled.certify(metric, positive=chosen, **options)
    if reads_group:
        certificate = msgspec.structs.replace(certificate, assumptions=(*certificate.assumptions, READS_GROUP))
    # A checksum is that of one encoder. Sizes of groups are not, but records that were drawn have others every time.
    countable = all(file.checksum is not None and file.drawn is None for file in loaded.values())
    origins = [
        origin
        for file in loaded.values()
        for origin in (("checksum", file.checksum or ""), ("sizes", *file.sensitive, *_sizes(file.counts)))
    ]
    return CountedCertificate(
        certificate, {**named, **_columns(pooled.sensitive, pooled.label)}, tuple(origins) if countable else None
    )


def _sizes(counts: CellCounts) -> tuple[str, ...]:
    """Numbers of records of each group: the same whatever the encoder."""
    return tuple(f"{group}\0{n}" for group, n in sorted(counts.group_sizes.items()))


def _place(address: str) -> str:
    """Name a database, without who asks it: a file by where it lies."""
    scheme, _, rest = address.partition("://")
    # A password may hold any character, so who asks is all before the last @; options behind the name may hold one too.
    place = rest.rpartition("@")[2].partition("?")[0]
    path = Path(place.removeprefix("/"))
    return f"{scheme} {path.resolve() if path.exists() else place}"


def positive_label(given: str | None, metric: str, label: str | None, known: Published | None) -> str | None:
    """Return the positive label: as given, or as in the bundle's certificate; None if nobody said."""
    return given if given is not None or known is None else known.positive(metric, label)


def _compared(label: str | None) -> str | None:
    """Name the label that a comparison is about; None if the label is a column."""
    from certifare.engines.sql.warehouse import parse_blindly
    from certifare.roles import Comparison

    role = None if label is None else parse_blindly(label)
    return role.true if isinstance(role, Comparison) else None


def _columns(sensitive: Sequence[str], label: str | None) -> dict[str, Any]:
    return {"columns": {"sensitive": list(sensitive), "label": label}}
