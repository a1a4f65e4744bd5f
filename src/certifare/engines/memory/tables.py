"""Count records that are in memory."""

from __future__ import annotations

import hashlib
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.counts import Exclusion, Missing, PlacedRecords
from certifare.certificates.provenance import provenance_of
from certifare.certificates.sampling import Subsample, one_per_cluster, thin
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.hashes import count_repeats, hash_records
from certifare.engines.counting import CountedRecords, checksum_of, write_checksum
from certifare.errors import ArgumentError
from certifare.foundation.levels import Levels
from certifare.tables.frames import Field, Frame, read_values
from certifare.tables.reading import Reading
from certifare.tables.table import Table, readable_type

#: The part of the records that random choices are for, in the purpose of a random stream.
CERTIFY = "certify"


class Encoder(Protocol):
    """What certification needs of an encoder: cells, their number, and a check for training records."""

    n_cells_: int

    def apply(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.integer[Any]]:
        """Return the cell of each record; only an encoder that ``reads_groups`` is given the groups."""

    def training_overlap(self, X: Any) -> Any:
        """Return how many of the records were used to fit; None if unknown."""

    def sensitive_features_in(self, X: Any) -> Any:
        """Return the encoder's sensitive columns from the table."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryRecords:
    """Records in memory, with their groups, labels, weights and clusters."""

    X: Any  # what the encoder reads
    # The group and the label of each record; no ``y`` for metrics that use no label
    groups: Any = None
    y: Any = None
    weights: ArrayLike | None = None
    clusters: ArrayLike | None = None
    population: str = "clusters"  # if there are clusters: whether a claim is about clusters or about records
    cap: float | None = None  # upper limit of the weights
    # The largest weight, or cluster size, in the population; by default the largest one here
    max_weight: float | None = None
    missing: Missing = "refuse"  # what to do with records without a group or label
    exclusions: tuple[Exclusion, ...] = ()  # records that were left out earlier
    digest: str | None = None  # digest of the records; by default it is computed
    extra: tuple[Field, ...] = ()  # further columns that are compared to find equal records
    positive: str | None = None  # the label for which a comparison holds
    notes: tuple[str, ...] = ()

    @classmethod
    def of_table(cls, table: Table, reading: Reading, *, labelled: bool, all_columns: bool = False) -> MemoryRecords:
        """Return the records of a table that was read as a reading describes.

        With ``all_columns``, all columns of the table are compared to find equal records, whatever the encoder reads.
        """
        table = table.of_labelled() if labelled else table
        extra = () if not all_columns or table.others is None else _fields_of(table.others)
        return cls(
            X=table.features,
            groups=table.groups,
            y=table.strata if labelled and (table.labels or table.given is not None) else None,
            weights=table.weights,
            clusters=table.clusters,
            population=reading.population,
            cap=reading.cap,
            max_weight=reading.max_weight,
            missing="drop",  # Records without a group were handled when the table was read.
            exclusions=table.exclusions,
            digest=table.records,
            extra=extra,
            positive=table.positive,
            notes=table.notes,
        )

    @property
    def drawn(self) -> bool:
        """Whether independent records are sampled by weights or clusters."""
        return self.weights is not None or self.clusters is not None

    def count(
        self,
        encoder: Encoder,
        *,
        seed: int = 0,
        salt: bytes = b"",
        allow_training_records: bool = False,
    ) -> CountedRecords:
        """Find the cells of the records, sample independent ones, and count them.

        With ``allow_training_records``, count records even if the encoder was fitted on them; the certificate is then
        marked invalid.
        """
        reads_groups = bool(getattr(encoder, "reads_groups", False))
        groups = encoder.sensitive_features_in(self.X) if self.groups is None else self.groups
        if reads_groups and isinstance(groups, Levels):
            # It reads the groups that are counted, whatever its own column is called.
            encoder = copy(encoder).set_params(sensitive=None)  # type: ignore[attr-defined]
        own = encoder if isinstance(encoder, RestrictedEncoder) else None
        X = self.X if own is None else Frame(self.X, keep=True)
        overlap = encoder.training_overlap(X)
        by_group = reads_groups and getattr(encoder, "sensitive", None) is None
        cells = np.asarray(encoder.apply(X, sensitive_features=groups) if by_group else encoder.apply(X))
        records = PlacedRecords.of(cells, groups, self.y, encoder.n_cells_, missing=self.missing)
        provenance = provenance_of(overlap, reads_groups=reads_groups, allow_training_records=allow_training_records)
        fields = () if own is None else own.read_fields(X)
        repeats: tuple[str, ...] = ()
        if own is not None and self.clusters is None and (not own.is_column or self.extra):
            _, *codes = np.unravel_index(np.maximum(records.places, 0), records.shape)
            roles = [np.where(records.known, of_role, -1) for of_role in codes]
            repeats = count_repeats([*fields, *self.extra], roles).check("certification records")
            provenance = provenance.assuming(*repeats)
        digest = self.digest
        if digest is None and self.drawn:
            digest = self._digest(groups)
        sample = self._draw(records.known, seed, f"{CERTIFY} {digest}")
        counts = records.count(sample.keep)
        if self.drawn:
            provenance = provenance.drawn(sample)
        return CountedRecords(
            counts=counts.with_exclusions((*self.exclusions, *records.exclusions, *sample.exclusions)),
            provenance=provenance,
            training=getattr(encoder, "training_counts_", None),
            tail=sample.tail(records.count),
            digest=digest,
            checksum=write_checksum(checksum_of(fields, salt)) if fields and salt else None,
            overlap=overlap,
            positive=self.positive,
            notes=(*self.notes, *repeats),
        )

    def _draw(self, known: NDArray[np.bool_], seed: int, part: str) -> Subsample:
        """Sample independent records among those with a cell and a group: all, unless there are weights or clusters."""
        columns = []
        for name, column in (("weights", self.weights), ("clusters", self.clusters)):
            values = None if column is None else np.asarray(column)
            if values is not None and len(values) != len(known):
                raise ArgumentError(f"{name} has {len(values):,} records, X has {len(known):,}.")
            columns.append(None if values is None else values[known])
        weights, clusters = columns
        if clusters is not None:
            drawn = one_per_cluster(
                clusters,
                weights=weights,
                population=self.population,
                max_weight=self.max_weight,
                seed=seed,
                part=part,
            )
        elif weights is not None:
            drawn = thin(weights, seed=seed, part=part, max_weight=self.max_weight, cap=self.cap)
        else:
            return Subsample(known, (), float(known.sum()), seed, (), ())
        keep, beyond = known.copy(), known.copy()
        keep[known] = drawn.keep
        beyond[known] = False if drawn.beyond is None else drawn.beyond
        return replace(drawn, keep=keep, beyond=None if drawn.beyond is None else beyond)

    def _digest(self, groups: Any) -> str:
        """Return a digest of the records with their labels, groups, weights and clusters."""
        state = hashlib.blake2b(digest_size=32)
        for name in ("y", "weights", "clusters"):
            values = getattr(self, name)
            if values is not None:
                for field in read_values(values, name):
                    state.update(hash_records([field], b"").tobytes())
        for field in (*read_values(groups, "groups"), *Frame(self.X).fields()):
            state.update(hash_records([field], b"").tobytes())
        return state.hexdigest()


def _fields_of(table: Any) -> tuple[Field, ...]:
    """Return the readable columns of a table as fields."""
    readable = [field.name for field in table.schema if readable_type(field.type)]
    return tuple(Frame(table.select(readable)).fields()) if readable else ()
