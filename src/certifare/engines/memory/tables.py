"""Certify an encoder on a table in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates import Certificate
from certifare.certificates.claims import Claim
from certifare.certificates.counts import Exclusion, Missing, PlacedRecords
from certifare.certificates.issuing import FROM_COUNTS, issue
from certifare.certificates.population import population_of
from certifare.certificates.sampling import Subsample, one_per_cluster, thin
from certifare.engines.counting import check_overlap, group_assumptions, training_counts
from certifare.errors import LengthMismatchError
from certifare.randomness import stream


class Encoder(Protocol):
    """What certification asks of an encoder: cells, their number, and whether it has seen these records.

    One that can also compare records (``repeats``, see :class:`certifare.encoders.RestrictedEncoder`) is asked to.
    """

    n_cells_: int

    def apply(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.integer[Any]]:
        """Cell id of each record; only an encoder that ``reads_groups`` is given the groups."""

    def training_overlap(self, X: Any) -> Any:
        """How many of the records were used to fit; None where that is not known."""

    def sensitive_features_in(self, X: Any) -> Any:
        """Return the sensitive columns named by the encoder, taken from the table."""


def place_records(
    encoder: Encoder,
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    missing: Missing,
    allow_training_records: bool,
    clustered: bool,
) -> PlacedTable:
    """Find the cells of records in memory, and look the records up among the training records."""
    groups = encoder.sensitive_features_in(X) if sensitive_features is None else sensitive_features
    assumptions = check_overlap(encoder.training_overlap(X), allow_training_records)
    # An encoder that reads groups, and does not know in which column, reads those that are certified.
    by_group = getattr(encoder, "reads_groups", False) and getattr(encoder, "sensitive", None) is None
    cells = np.asarray(encoder.apply(X, sensitive_features=groups) if by_group else encoder.apply(X))
    records = PlacedRecords.of(cells, groups, y, encoder.n_cells_, missing=missing)
    if not clustered and hasattr(encoder, "repeats"):
        assumptions += encoder.repeats(X, records.places).check("certification records")
    assumptions += group_assumptions(encoder)
    # The cells stand for the records: draws on other records are independent of these, even at the same seed.
    part = f"certify {hashlib.sha256(cells.astype('<i8').tobytes()).hexdigest()}"
    return PlacedTable(encoder, records, tuple(assumptions), part)


@dataclass(frozen=True, eq=False)
class PlacedTable:
    """Records in memory with their cells.

    Attributes
    ----------
    encoder : Encoder
    records : PlacedRecords
    assumptions : tuple of str
        What a certificate assumes of them.
    part : str
        Names their random choices.
    """

    encoder: Encoder
    records: PlacedRecords
    assumptions: tuple[str, ...]
    part: str

    def draw(
        self, weights: ArrayLike | None, cap: float | None, clusters: ArrayLike | None, population: str, seed: int
    ) -> DrawnTable:
        """Draw records that are independent: all, unless they have weights or clusters."""
        sample = _independent(self.records.known, weights, cap, clusters, population, seed, self.part)
        return DrawnTable(self, sample, weights is not None or clusters is not None, seed)


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """Independent records of a table in memory.

    Attributes
    ----------
    table : PlacedTable
    sample : Subsample
    drawn : bool
        Whether chance took part.
    seed : int
    """

    table: PlacedTable
    sample: Subsample
    drawn: bool
    seed: int

    def certify(self, claim: Claim, exclusions: Iterable[Exclusion] = ()) -> Certificate:
        """Certify the encoder."""
        records, sample = self.table.records, self.sample
        counts, base_counts, sum_counts = records.count(sample.keep), None, None
        if claim.method == "lemmas":
            first = stream(self.seed, "halves", self.table.part).random(len(sample.keep)) < 0.5
            counts = base_counts = records.count(sample.keep & first)
            sum_counts = records.count(sample.keep & ~first)
        counts = counts.with_exclusions((*exclusions, *records.exclusions, *sample.exclusions))
        certificate = issue(
            counts,
            claim,
            tail=sample.tail(records.count),
            witness=training_counts(self.table.encoder, counts, claim),
            base_counts=base_counts,
            sum_counts=sum_counts,
        )
        besides = certificate.assumptions[len(FROM_COUNTS) :]
        return msgspec.structs.replace(
            certificate,
            assumptions=(*self.table.assumptions, *besides, *sample.assumptions),
            seed=self.seed if self.drawn or claim.method == "lemmas" else None,
            effective_size=sample.effective_size if self.drawn else None,
            population=population_of(counts.exclusions, *sample.population),
        )


def _independent(
    known: NDArray[np.bool_],
    weights: ArrayLike | None,
    cap: float | None,
    clusters: ArrayLike | None,
    population: str,
    seed: int,
    part: str,
) -> Subsample:
    """Draw independent records among those that are known."""
    columns = []
    for name, column in (("weights", weights), ("clusters", clusters)):
        values = None if column is None else np.asarray(column)
        if values is not None and len(values) != len(known):
            raise LengthMismatchError(f"{name} has {len(values):,} records, X has {len(known):,}.")
        columns.append(None if values is None else values[known])
    w, cluster = columns
    if cluster is not None:
        drawn = one_per_cluster(cluster, weights=w, population=population, seed=seed, part=part)
    elif w is not None:
        drawn = thin(w, seed=seed, part=part, cap=cap)
    else:
        return Subsample(known, (), float(known.sum()), seed, (), ())
    keep, beyond = known.copy(), known.copy()
    keep[known] = drawn.keep
    beyond[known] = False if drawn.beyond is None else drawn.beyond
    return replace(drawn, keep=keep, beyond=None if drawn.beyond is None else beyond)
