"""Count the records that a certificate is about, and certify encoders and existing columns on them.

:func:`count_records` is the one way from records to counts, wherever they lie: every source counts its own records as a
:class:`~certifare.tables.reading.Reading` says, and what must be checked is checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from certifare.certificates.claims import Claim
from certifare.certificates.sampling import check_cap, check_population
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.existing import (
    check_values,
    column_table,
    distinct_values,
    encoder_of,
    read_column,
    words_of,
)
from certifare.engines.counting import CountedRecords, CountRequest
from certifare.engines.memory.tables import Encoder, MemoryRecords
from certifare.errors import ArgumentError, GroupError
from certifare.foundation.levels import INTERSECTION, name_of
from certifare.tables.elsewhere import is_dask
from certifare.tables.reading import Reading
from certifare.tables.table import refuse_quantity

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from certifare.certificates import Certificate
    from certifare.certificates.counts import Exclusion, Missing
    from certifare.tables.table import Table


class Source(Protocol):
    """Where records lie: in memory, in Parquet files, on a cluster, in a database, or in counts files."""

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records as the reading says; refuse what cannot be done here, with the remedy."""


@dataclass(frozen=True, eq=False)
class TableSource:
    """Records of a table that was read as the reading says."""

    table: Table

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records in memory."""
        request.check_label(self.table.column_names)
        records = MemoryRecords.of_table(self.table, reading, labelled=request.labelled, all_columns=encoder.is_column)
        counted = records.count(
            encoder,
            seed=request.seed,
            salt=request.salt,
            halves=request.halves,
            allow_training_records=request.allow_training_records,
        )
        if request.progress is not None:
            request.progress(1.0)
        return counted


def count_records(
    encoder: RestrictedEncoder, source: Source, reading: Reading, request: CountRequest | None = None
) -> CountedRecords:
    """Count records by cell, group and label, wherever they lie, as a reading says.

    Parameters
    ----------
    encoder : RestrictedEncoder
    source : Source
    reading : Reading
    request : CountRequest, optional

    Returns
    -------
    CountedRecords
        From which :meth:`~certifare.engines.counting.CountedRecords.certify` makes a certificate.
    """
    request = request or CountRequest()
    if not reading.sensitive:
        raise GroupError("Which column holds the groups? Pass --sensitive (in Python sensitive=).")
    if request.labelled and reading.label is None:
        raise ArgumentError(
            "The metric looks at records of each label: name their column with --label (in Python label=)."
        )
    counted = source.count(encoder, reading if request.labelled else reading.unlabelled(), request)
    refuse_quantity(INTERSECTION.join(reading.sensitive), counted.counts.groups, "sensitive column")
    refuse_quantity(str(reading.label), counted.counts.labels or (), "label")
    return _checked(encoder, counted)


def _checked(encoder: Any, counted: CountedRecords) -> CountedRecords:
    """Refuse values of an existing column that its encoder does not know; say what its cells are."""
    if not isinstance(encoder, RestrictedEncoder) or not encoder.is_column:
        return counted
    check_values(encoder, counted.counts)
    return replace(counted, provenance=counted.provenance.assuming(*words_of(encoder)))


def certify_records(
    encoder: RestrictedEncoder,
    source: Source,
    reading: Reading,
    *,
    seed: int = 0,
    allow_training_records: bool = False,
    **claim: Any,
) -> Certificate:
    """Certify an encoder on records that it has not seen, wherever they lie.

    Parameters
    ----------
    encoder, source, reading
        As in :func:`count_records`.
    seed : int
        Of random choices.
    allow_training_records : bool
        As in :func:`certify`.
    **claim
        Of :class:`~certifare.certificates.Claim`: ``metric``, ``confidence`` …
    """
    if "population" in claim:
        raise ArgumentError("population: the reading says what a claim is about.")
    positive = claim.pop("positive", None) or reading.positive
    asked = Claim(positive=positive, **claim, population=reading.population)
    request = CountRequest(
        labelled=asked.labelled,
        seed=seed,
        halves=asked.method == "lemmas",
        allow_training_records=allow_training_records,
    )
    return count_records(encoder, source, reading, request).certify(asked)


def certify(
    encoder: Encoder,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    method: str = "exact",
    candidates: int = 1,
    positive: object = None,
    weights: ArrayLike | None = None,
    cap: float | None = None,
    clusters: ArrayLike | None = None,
    population: str = "clusters",
    missing: Missing = "refuse",
    min_group_size: int = 30,
    seed: int = 0,
    exclusions: Iterable[Exclusion] = (),
    allow_training_records: bool = False,
) -> Certificate:
    """Certify a fitted encoder on records that it has not seen.

    Parameters
    ----------
    encoder : RestrictedEncoder
        A fitted encoder.
    X : table
        Certification records, of any kind the encoder accepts. A Dask DataFrame stays on its cluster.
    y : array-like, optional
        Labels, for metrics that condition on them.
    sensitive_features : array-like or table, optional
        The group of each record; several columns are intersected. Taken from X if the encoder names its sensitive
        columns.
    metric, confidence, method, candidates, positive, min_group_size
        As in :func:`certify_counts`. ``method="lemmas"`` splits the records in two halves: one for base rates and
        cells, one for the sum.
    weights : array-like, optional
        Survey weights; records are thinned to them (:func:`certifare.thin`).
    cap : float, optional
        Thin to weights capped here, so that more records stay, and bound what lies above the cap. Choose it without
        looking at these records: by the smallest T* on others, for instance (``fit`` does so).
    clusters : array-like, optional
        Clusters of dependent records; one of each is kept (:func:`certifare.one_per_cluster`).
    population : {"clusters", "records"}
        With ``clusters``: what the claim is about.
    missing : {"refuse", "unknown", "drop"}
        What to do with records that lack a group or label (:meth:`CellCounts.from_cells`). Demographic parity looks
        at no label, and counts records without one. Records that are left out take no part in a draw.
    seed : int
        Seed of random choices (thinning, clusters, halves). Choices on other records are independent of these,
        whatever the seed.
    exclusions : iterable of Exclusion
        Records that were left out before, to be recorded in the certificate.
    allow_training_records : bool
        Certify even if records were used to fit. The result is then no valid certificate, and says so.

    Returns
    -------
    Certificate
    """
    check_population(population, clustered=clusters is not None)
    if cap is not None:
        check_cap(cap, weighted=weights is not None, clustered=clusters is not None)
    claim = Claim(
        metric=metric,
        confidence=confidence,
        method=method,
        candidates=candidates,
        positive=None if positive is None else name_of(positive),
        min_group_size=min_group_size,
        population=population,
    )
    if is_dask(X):
        from certifare.engines.dask.cluster import certify_dask

        return certify_dask(
            encoder,  # type: ignore[arg-type]  # one that can also read pieces
            X,
            y,
            claim,
            sensitive_features=sensitive_features,
            weights=weights,
            clusters=clusters,
            exclusions=exclusions,
            missing=missing,
            allow_training_records=allow_training_records,
        )
    records = MemoryRecords(
        X=X,
        groups=sensitive_features,
        y=y if claim.labelled else None,
        weights=weights,
        clusters=clusters,
        population=population,
        cap=cap,
        missing=missing,
        exclusions=tuple(exclusions),
    )
    counted = records.count(
        encoder, seed=seed, halves=method == "lemmas", allow_training_records=allow_training_records
    )
    return _checked(encoder, counted).certify(claim)


def certify_column(
    column: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    name: str = "column",
    cuts: Sequence[float] | None = None,
    **options: Any,
) -> Certificate:
    """Bound the distance between groups of every rule that reads only this column: a decision, a band, a score.

    Parameters
    ----------
    column : array, series or sequence
        What the existing model said of each certification record. The model must not have been fitted on them.
    y : array-like, optional
        Labels, for metrics that condition on them.
    sensitive_features : array-like or table
        The group of each record.
    name : str
        What the column is called.
    cuts : sequence of float, optional
        The bins of a score, as in :func:`column_encoder`.
    **options
        Of :func:`certifare.certify`.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sex, approved = rng.choice(["f", "m"], 10_000), rng.random(10_000) < 0.3
    >>> print(certify_column(approved, sensitive_features=sex, name="approved"))
    demographic parity distance of any classifier <= 0.0169 with 95 % confidence (4,970 + 5,030 records, 3 cells)
    """
    field = read_column(column, name)
    encoder = encoder_of(name, field.type, [] if cuts is not None else distinct_values(field), cuts)
    return certify(encoder, column_table(field, name), y, sensitive_features=sensitive_features, **options)
