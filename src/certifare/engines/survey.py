"""Collect the values, labels and groups of all records before they are coded. Surveys of parts of a table add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from certifare.encoders.fingerprint import merge_samples, samples_of
from certifare.encoders.hashes import HashSample
from certifare.encoders.training import MOST_LABELS, ColumnSchema, GroupValue
from certifare.engines.blocks import Block, BlockReader, MissingRoles, Piece
from certifare.errors import EncoderError, TableError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import intersect
from certifare.growth import Dictionary
from certifare.growth.columns import check_arrays
from certifare.growth.summary import Summary, merge_summaries, summarize
from certifare.tables.frames import ColumnType, Field, Value


@dataclass(frozen=True, eq=False)
class Survey:
    """Values, labels and groups of some records."""

    lengths: tuple[int, ...]  # records of each piece
    summary: Summary  # values of the features
    types: tuple[ColumnType | None, ...]  # type of each feature; None if it has no values
    missing: tuple[bool, ...]  # whether some records miss the feature
    highest: tuple[float, ...]  # largest number of each feature; -inf if there is none
    labels: Mapping[str, frozenset[Value]]  # values of each label column
    groups: frozenset[GroupValue]  # values of the sensitive column; tuples if there are several
    lacking: Mapping[str, int]  # records left out because a label or group is missing, by column
    hashes: tuple[HashSample, ...]  # of the features, for each view of a fingerprint

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(self.lengths)

    def check(self, missing: MissingRoles) -> None:
        """Raise if no record is left, or if records without a label or group are to be refused."""
        name, count = next(iter(self.lacking.items()), ("", 0))
        if count and missing == "refuse":
            raise TableError(
                f"Input contains NaN: column {name!r}, which holds the label or group, has no value in "
                f'{count:,} records. Leave those out (missing="drop"), or give them a value.'
            )
        if self.n_records == 0:
            raise TableError(
                "There are no records that have a label and a group: 0 sample(s) while a minimum of 1 is required."
            )

    def schema(self, reading: BlockReader) -> tuple[ColumnSchema, ...]:
        """Return the name and type of each feature."""
        return tuple(
            ColumnSchema(feature.name, type_ or feature.type, feature.categorical, missing)
            for feature, type_, missing in zip(reading.features, self.types, self.missing, strict=True)
        )


@dataclass(frozen=True)
class Surveyor:
    """Surveys pieces."""

    reading: BlockReader
    salt: bytes  # for the hashes of records
    n_records: int | None  # total number of records, if known; otherwise it is estimated from one piece
    n_pieces: int  # number of pieces

    def __call__(self, piece: Piece) -> Survey:
        """Survey a piece."""
        whole = merge_surveys([self._survey(block) for block in piece.blocks(self.reading)])
        return replace(whole, lengths=(whole.n_records,))

    def _survey(self, block: Block) -> Survey:
        block, lacking = block.complete()
        names = [feature.name for feature in self.reading.features]
        categorical = [feature.categorical for feature in self.reading.features]
        columns = [field.column for field in block.fields]
        check_arrays(columns, names, [not c for c in categorical])
        lacks_value = [field.missing() for field in block.fields]
        n_records = len(block) * self.n_pieces if self.n_records is None else self.n_records
        return Survey(
            lengths=(len(block),),
            summary=summarize(columns, names, categorical),
            types=tuple(
                None if lacks.all() else field.type for field, lacks in zip(block.fields, lacks_value, strict=True)
            ),
            missing=tuple(bool(lacks.any()) for lacks in lacks_value),
            highest=tuple(_highest(field) for field in block.fields),
            labels={field.name: frozenset(field.levels().values) for field in block.labels},
            groups=frozenset(intersect([field.levels() for field in block.groups]).values),
            lacking=lacking,
            hashes=samples_of(block.fields, self.salt, n_records),
        )


def merge_surveys(surveys: Sequence[Survey]) -> Survey:
    """Add up the surveys of parts of a table, in order."""
    if len(surveys) == 1:
        return surveys[0]
    lacking: dict[str, int] = {}
    labels: dict[str, frozenset[Value]] = {}
    for survey in surveys:
        for name, count in survey.lacking.items():
            lacking[name] = lacking.get(name, 0) + count
        for name, values in survey.labels.items():
            labels[name] = labels.get(name, frozenset()) | values
            if len(labels[name]) > MOST_LABELS:
                raise EncoderError(
                    f"Unknown label type: label {name!r} has more than {MOST_LABELS} distinct values, such as "
                    f"{listing(list(labels[name]), 3)}. Labels are classes: cut numbers into at most {MOST_LABELS} "
                    "bands."
                )
    return Survey(
        lengths=sum((survey.lengths for survey in surveys), ()),
        summary=merge_summaries([survey.summary for survey in surveys]),
        types=tuple(next(filter(None, types), None) for types in zip(*(s.types for s in surveys), strict=True)),
        missing=tuple(map(any, zip(*(survey.missing for survey in surveys), strict=True))),
        highest=tuple(map(max, zip(*(survey.highest for survey in surveys), strict=True))),
        labels=labels,
        groups=frozenset().union(*(survey.groups for survey in surveys)),
        lacking=lacking,
        hashes=merge_samples([survey.hashes for survey in surveys]),
    )


def _highest(field: Field) -> float:
    if isinstance(field.column, Dictionary) or not len(field):
        return -np.inf
    return float(np.fmax.reduce(field.column.astype(np.float64), initial=-np.inf))
