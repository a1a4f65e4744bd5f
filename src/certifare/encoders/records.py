"""Read records for a fitted encoder: the same way to certify, count, encode and verify.

Features are the columns that the encoder was fitted with, read as the types that it was fitted with; other columns may
play a role. :func:`read_records` reads a whole file with its roles, :func:`open_records` reads batch by batch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from certifare.certificates import CellCounts
from certifare.errors import CountsError, FileError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import INTERSECTION, UNKNOWN, name_of
from certifare.foundation.storage import FilePath
from certifare.tables.files import MISSING, TEXT, Batches, open_batches
from certifare.tables.joins import join_groups, read_files
from certifare.tables.quality import as_notes
from certifare.tables.reading import Reading
from certifare.tables.roles import Comparison, Roles, absent, parse_role
from certifare.tables.table import Table

if TYPE_CHECKING:
    from certifare.encoders import RestrictedEncoder

#: Where a bundle keeps the fingerprint of the training records, next to the encoder's file.
FINGERPRINT = Path("private", "fingerprint.npz")

#: Before the name of a column that holds a cell's typical values, so that nobody takes them for the person's own. It is
#: in the header, not in a second file: a header is never lost on the way.
TYPICAL = "typical_"

#: What a CSV file's text is read as, for the types of columns that encoders know.
_TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "text": TEXT}


def load_fitted(path: str | os.PathLike[str]) -> RestrictedEncoder:
    """Read an encoder's file, and the fingerprint of its training records if the producer's folder has it.

    With a fingerprint, records that the encoder was fitted on can be recognised (``fingerprint_`` is not None).
    """
    # Verifying a certificate alone needs no encoder, nor scikit-learn, which is slow to import.
    from certifare.encoders import Fingerprint, load_encoder

    encoder = load_encoder(path)
    fingerprint = Path(path).parent / FINGERPRINT
    if fingerprint.exists():
        loaded = Fingerprint.load(fingerprint)
        if loaded.names != tuple(column.name for column in encoder.columns_):
            raise FileError(
                f"{str(fingerprint)!r} belongs to another encoder: it covers {listing(loaded.names)}. Remove it, or "
                "put back the one that was written with this encoder."
            )
        encoder.fingerprint_ = loaded
    return encoder


def typical_rows(encoder: RestrictedEncoder, records: pa.Table) -> pa.Table:
    """Return the typical values of each cell, of the types that the records have, in columns ``typical_…``."""
    rows = encoder.representatives_like(records)
    return rows.rename_columns([f"{TYPICAL}{name}" for name in rows.column_names])


def with_typical(encoded: pa.Table, rows: pa.Table) -> pa.Table:
    """Add the typical values of each record's cell, which is in the column ``cell``."""
    values = rows.take(encoded.column("cell"))
    return pa.table([*encoded.columns, *values.columns], names=[*encoded.column_names, *values.column_names])


def read_records(
    encoder: RestrictedEncoder,
    path: FilePath | Sequence[FilePath],
    reading: Reading,
    *,
    labelled: bool = True,
    sensitive_file: FilePath | None = None,
    on: str | None = None,
    **csv: Any,
) -> Table:
    """Read a CSV, Parquet, Arrow or Feather file of records of a fitted encoder, as a reading says."""
    types = _feature_types(encoder)
    csv = csv_format(reading, csv)
    native, notes = read_files(path, types, **csv)
    check_columns(encoder, native.column_names)
    return table_of_records(
        encoder,
        native,
        reading,
        labelled=labelled,
        notes=notes,
        sensitive_file=sensitive_file,
        on=on,
        missing=csv["missing"],
    )


def table_of_records(
    encoder: RestrictedEncoder,
    native: pa.Table,
    reading: Reading,
    *,
    labelled: bool = True,
    notes: Sequence[str] = (),
    sensitive_file: FilePath | None = None,
    on: str | None = None,
    missing: Sequence[str] = MISSING,
) -> Table:
    """Make records of a fitted encoder of a table that was read; the parameters are those of :func:`read_records`."""
    roles = Roles.read_as(reading, tuple(column.name for column in encoder.columns_))
    native, roles, joined = join_groups(native, roles, sensitive_file, on, missing)
    if not labelled or roles.given is not None:
        roles = replace(roles, label=(), label_cuts=())
    table = Table.from_frame(native, roles)
    if reading.kept_groups is not None:
        # Which groups are pooled was fixed before these records were looked at.
        table = table.pooled(reading.kept_groups)
    return replace(table.of_labelled(), findings=(*as_notes((*notes, *joined)), *table.findings))


def csv_format(reading: Reading, csv: Mapping[str, Any]) -> dict[str, Any]:
    """Return how to read CSV files: by the options, with the missing values and decimal sign of a reading."""
    words = (*csv.get("missing", MISSING), *reading.missing_words)
    return {**csv, "missing": tuple(dict.fromkeys(words)), "decimal": csv.get("decimal") or reading.decimal}


@dataclass(frozen=True)
class GroupColumns:
    """The columns of a file in which an encoder that reads the group finds it."""

    roles: tuple[str | Comparison, ...]  # the sensitive columns, or comparisons of them
    types: dict[str, pa.DataType]  # what they are read as

    @classmethod
    def of(cls, encoder: RestrictedEncoder, names: Sequence[str], given: Sequence[str] = ()) -> GroupColumns:
        """Find the columns that the encoder was fitted with, or those that are given, among a file's."""
        column = encoder.group_column_
        sensitive = encoder.sensitive
        named = [str(name) for name in ([sensitive] if isinstance(sensitive, str | int) else sensitive or ())]
        texts = list(given) or list(named or ([column] if column in names else column.split(INTERSECTION)))
        roles = tuple(parse_role(text, names, "group column of the encoder") for text in texts)
        types = {}
        for i, role in enumerate(roles):
            of_names = (name_of(group) for group in encoder.groups_ if group != encoder.other_group)
            parts = [name.split(INTERSECTION) for name in of_names]
            known = {part[i] for part in parts if len(part) == len(roles)} - {UNKNOWN}
            values = {role.value} if isinstance(role, Comparison) else known
            types[role.column if isinstance(role, Comparison) else role] = _type_of(values)
        return cls(roles, types)

    def read(self, table: pa.Table) -> pa.Table:
        """Return the groups of records, as an encoder takes them."""
        columns = {
            str(role): role.evaluate(table.column(role.column)) if isinstance(role, Comparison) else table.column(role)
            for role in self.roles
        }
        return pa.table(columns)


def _type_of(names: Set[str]) -> pa.DataType:
    """Return the type of a column whose values have these names."""
    if names and names <= {"True", "False"}:
        return pa.bool_()
    try:
        numbers = {name: float(name) for name in names}
    except ValueError:
        return TEXT
    # A code such as 007 is no number: it would come back as 7.
    plain = all(math.isfinite(number) and name_of(number) == name for name, number in numbers.items())
    return pa.float64() if numbers and plain else TEXT


def open_records(
    encoder: RestrictedEncoder,
    path: str | os.PathLike[str],
    others: Mapping[str, pa.DataType | None] | None = None,
    **reading: Any,
) -> Batches:
    """Open a file of records of a fitted encoder, to be read batch by batch in constant memory."""
    types = {**(others or {}), **_feature_types(encoder)}
    batches = open_batches(path, types, **reading)
    check_columns(encoder, batches.names)
    return batches


def check_columns(encoder: RestrictedEncoder, names: Sequence[str]) -> None:
    """Refuse a table that lacks a column which the encoder was fitted with."""
    there = set(names)
    for column in encoder.columns_:
        if column.name not in there:
            raise absent(column.name, names, "feature of the encoder")


def check_cells(n_cells: int, counts: CellCounts) -> None:
    """Refuse counts that have more or fewer cells than the encoder: a bound from them would be about another one."""
    if n_cells != counts.n_cells:
        raise CountsError(
            f"The encoder has {n_cells:,} cells, the counts have {counts.n_cells:,}: they are of another encoder. "
            "Count the records again with this one."
        )


def _feature_types(encoder: RestrictedEncoder) -> dict[str, pa.DataType]:
    return {column.name: _TYPES[column.type] for column in encoder.columns_}
