"""Certificates from counts alone: of a database that counts its own records, or of counts files of several holders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.cli.common import encoder_file

if TYPE_CHECKING:
    from certifare.certificates import Certificate


@dataclass(frozen=True)
class Counted:
    """A certificate from counts, and what its document says besides.

    Attributes
    ----------
    certificate : Certificate
    context : dict
        Digest of the encoder, and columns that groups and labels were read from.
    """

    certificate: Certificate
    context: dict[str, Any]


def certify_counted(
    encoder: Path,
    data: Sequence[Path],
    *,
    sql: str | None,
    table: str | None,
    sensitive: Sequence[str],
    label: Sequence[str],
    unknown_groups: bool,
    metric: str,
    **options: Any,
) -> Counted | None:
    """Certify from counts, if that is what was asked for; None if ``data`` is a table of records.

    Parameters
    ----------
    encoder : path
        The encoder; or the first of the counts files, if no encoder was named.
    data : sequence of path
        Counts files, or one table.
    sql, table : str or None
        A database that counts, and its table.
    sensitive, label, unknown_groups, metric
        Options of ``certifare certify``.
    **options
        Of :func:`certifare.certify_counts`.
    """
    from certifare.document import digest
    from certifare.engines.federated import CountsFile, is_counts_file, pool
    from certifare.errors import ArgumentError, MissingGroupError

    if sql is not None:
        from certifare.encoders import load_encoder
        from certifare.engines.warehouse import certify_sql, connect

        if data:
            raise ArgumentError("Give either a file or --sql, not both.")
        if table is None:
            raise ArgumentError("--sql needs --table: the name of the table to count.")
        if not sensitive:
            raise MissingGroupError("Which column holds the groups? Pass --sensitive.")
        file = encoder_file(encoder)
        with connect(sql) as warehouse:
            certificate = certify_sql(
                load_encoder(file),
                warehouse,
                table,
                sensitive=sensitive,
                label=label[0] if label else None,
                missing="unknown" if unknown_groups else "drop",
                metric=metric,
                positive=_positive(label[0] if label else None),
                **options,
            )
        return Counted(certificate, _context(digest(file), sensitive, label[0] if label else None))
    files, wanted = ([encoder, *data], None) if is_counts_file(encoder) else (list(data), encoder)
    if not files or not all(is_counts_file(path) for path in files):
        if any(is_counts_file(path) for path in files):
            other = next(path for path in files if not is_counts_file(path))
            raise ArgumentError(f"{str(other)!r} is no counts file, and the others are: give one kind only.")
        return None
    loaded: dict[str, CountsFile] = {}
    for path in files:
        loaded[f"{path}, again" if str(path) in loaded else str(path)] = CountsFile.load(path)
    pooled = pool(loaded, None if wanted is None else digest(encoder_file(wanted)))
    if sensitive and tuple(sensitive) != pooled.sensitive:
        raise ArgumentError(f"The counts are by {', '.join(pooled.sensitive)}, not by {', '.join(sensitive)}.")
    certificate = pooled.certify(metric, positive=_positive(pooled.label), **options)
    return Counted(certificate, _context(pooled.encoder, pooled.sensitive, pooled.label))


def _positive(label: str | None) -> str | None:
    """Name the label that a comparison is about; None if the label is a column."""
    from certifare.engines.warehouse import parse_blindly
    from certifare.roles import Comparison

    role = None if label is None else parse_blindly(label)
    return role.true if isinstance(role, Comparison) else None


def _context(encoder_digest: str, sensitive: Sequence[str], label: str | None) -> dict[str, Any]:
    return {"encoder_digest": encoder_digest, "columns": {"sensitive": list(sensitive), "label": label}}
