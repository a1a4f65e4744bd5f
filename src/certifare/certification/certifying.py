"""Count the records that a certificate is about, and certify encoders and existing columns on them.

:func:`count_records` counts records from any source: every source counts its own records as a
:class:`~certifare.tables.reading.Reading` describes, and the checks are here.
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
    """A source of records: memory, Parquet files, a cluster, a database, or counts files."""

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records as the reading describes; raise if this source cannot, and say what to do."""


@dataclass(frozen=True, eq=False)
class TableSource:
    """The records of a table in memory."""

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
    """Count records by cell, group and label, from any source.

    Parameters
    ----------
    encoder : RestrictedEncoder
    source : Source
    reading : Reading
    request : CountRequest, optional

    Returns
    -------
    CountedRecords
        Call its :meth:`~certifare.engines.counting.CountedRecords.certify` for a certificate.
    """
    request = request or CountRequest()
    if not reading.sensitive:
        raise GroupError("Pass --sensitive to name the column that holds the groups (in Python sensitive=).")
    if request.labelled and reading.label is None:
        raise ArgumentError("The metric conditions on labels: name their column with --label (in Python label=).")
    counted = source.count(encoder, reading if request.labelled else reading.unlabelled(), request)
    refuse_quantity(INTERSECTION.join(reading.sensitive), counted.counts.groups, "sensitive column")
    refuse_quantity(str(reading.label), counted.counts.labels or (), "label")
    return _checked(encoder, counted)


def _checked(encoder: Any, counted: CountedRecords) -> CountedRecords:
    """Raise if an existing column has values that its encoder does not know; add its cells to the assumptions."""
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
    """Certify an encoder on records from any source that were not used to fit it.

    Parameters
    ----------
    encoder, source, reading
        As in :func:`count_records`.
    seed : int
        Seed of random choices.
    allow_training_records : bool
        As in :func:`certify`.
    **claim
        Of :class:`~certifare.certificates.Claim`: ``metric``, ``confidence`` …
    """
    if "population" in claim:
        raise ArgumentError("population: it is part of the reading.")
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
    """Certify a fitted encoder on records that were not used to fit it.

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
        Thin to weights capped here, so that more records stay, and bound the part above the cap. Choose it without
        these records, such as by the smallest T* on others (``fit`` does so).
    clusters : array-like, optional
        Clusters of dependent records; one of each is kept (:func:`certifare.one_per_cluster`).
    population : {"clusters", "records"}
        With ``clusters``: what the claim is about.
    missing : {"refuse", "unknown", "drop"}
        What to do with records without a group or label (:meth:`CellCounts.from_cells`). Demographic parity uses no
        labels, and counts records without one. Records that are left out are not sampled.
    seed : int
        Seed of random choices (thinning, clusters, halves). Different records get independent choices, whatever the
        seed.
    exclusions : iterable of Exclusion
        Records that were left out before, to state in the certificate.
    allow_training_records : bool
        Certify even if records were used to fit. The result is then marked as invalid.

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

        if weights is not None or clusters is not None or method == "lemmas":
            raise ArgumentError(
                'weights, clusters and method="lemmas" sample records from the whole table, which must be in memory. '
                "Use X.compute(), or sample the records before."
            )
        return certify_dask(
            encoder,  # type: ignore[arg-type]  # one that can also read blocks
            X,
            y,
            claim,
            sensitive_features=sensitive_features,
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
    """Certify an existing column (a decision, a band, a score): bound the distance between groups of any use of it.

    Parameters
    ----------
    column : array, series or sequence
        The existing model's output for each certification record. The model must not have been fitted on them.
    y : array-like, optional
        Labels, for metrics that condition on them.
    sensitive_features : array-like or table
        The group of each record.
    name : str
        Name of the column.
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
