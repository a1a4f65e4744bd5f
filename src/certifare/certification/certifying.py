"""Count the records that a certificate is about, and certify encoders and existing columns on them.

:func:`count_records` counts records from any source: every source counts its own records as a
:class:`~certifare.tables.reading.Reading` describes, and the checks are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from certifare.certificates.claims import Claim
from certifare.certificates.counts import given_missing
from certifare.certificates.provenance import provenance_of
from certifare.certificates.sampling import check_cap, check_population
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.calibrated_cells import CalibratedEncoder
from certifare.encoders.existing import (
    check_values,
    column_table,
    distinct_values,
    encoder_of,
    read_column,
    words_of,
)
from certifare.encoders.fingerprint import Overlap
from certifare.encoders.records import check_columns
from certifare.engines.blocks import roles_of
from certifare.engines.counting import BlockCounter, CountedRecords, CountRequest, Tally, reader_for
from certifare.engines.dask.engine import combine_frames, is_dask
from certifare.engines.memory.tables import Encoder, MemoryRecords
from certifare.errors import ArgumentError, GroupError
from certifare.foundation.levels import INTERSECTION, name_of
from certifare.tables.elsewhere import engine_of, open_elsewhere
from certifare.tables.reading import Reading
from certifare.tables.roles import as_names
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
    if request.labelled and reading.label is None and not reading.given:
        raise ArgumentError("The metric conditions on labels: name their column with --label (in Python label=).")
    if reading.given:
        request = replace(request, labelled=True)
    counted = source.count(encoder, reading.counted(labelled=request.labelled), request)
    refuse_quantity(INTERSECTION.join(reading.sensitive), counted.counts.groups, "sensitive column")
    if not reading.given:
        refuse_quantity(str(reading.label), counted.counts.labels or (), "label")
    return _checked(encoder, counted, given=bool(reading.given), allowed=request.allow_training_records)


def _checked(encoder: Any, counted: CountedRecords, *, given: bool, allowed: bool) -> CountedRecords:
    """Raise if an existing column has values that its encoder does not know; add its cells to the assumptions.

    Raise also if the records have set the encoder's thresholds, unless training records are ``allowed``. If records
    were counted by a given column, say so of those without a value.
    """
    if given:
        counted = replace(counted, counts=counted.counts.with_exclusions(given_missing(counted.counts)), positive=None)
    if isinstance(encoder, CalibratedEncoder) and encoder.is_set_by(counted.counts):
        n = counted.counts.n_records
        own = Overlap(n, n, 0.0, True, "they are too near the plan of the thresholds for others")
        found = provenance_of(own, reads_groups=True, allow_training_records=allowed)
        counted = replace(counted, provenance=replace(counted.provenance, void=found.void, looked_up=found.looked_up))
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
        Of :class:`~certifare.certificates.Claim`: ``metric``, ``confidence`` …; ``each=True`` claims each sensitive
        column. The column that a claim is given is part of the reading.
    """
    if "population" in claim:
        raise ArgumentError("population: it is part of the reading.")
    positive = claim.pop("positive", None) or reading.positive
    each = reading.sensitive if claim.pop("each", False) else ()
    asked = Claim(positive=positive, **claim, population=reading.population, each=each, given=reading.given or None)
    request = CountRequest(
        labelled=asked.labelled,
        seed=seed,
        allow_training_records=allow_training_records,
    )
    return count_records(encoder, source, reading, request).certify(asked)


def certify(
    encoder: Encoder,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    each: bool = False,
    given: Mapping[str, Any] | None = None,
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
        Certification records, of any kind the encoder accepts. A Dask or Spark DataFrame stays on its cluster; ``y``
        and ``sensitive_features`` are then names of its columns (of Dask, also Series with the same partitions).
    y : array-like, optional
        Labels, for metrics that condition on them.
    sensitive_features : array-like or table, optional
        The group of each record; several columns are intersected. Taken from X if the encoder names its sensitive
        columns.
    each : bool
        Claim each of several sensitive columns (a dataframe, a mapping of columns, those of the encoder; names on a
        cluster) instead of their intersection.
    given : mapping of str to array-like, optional
        One column by its name: groups are compared within its values. For demographic parity.
    metric, confidence, method, candidates, positive, min_group_size
        As in :func:`certify_counts`.
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
        Seed of random choices (thinning, clusters). Different records get independent choices, whatever the
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
        each=_attributes(encoder, X, sensitive_features) if each else (),
        given=_one_name(given),
    )
    strata = y if given is None else next(iter(given.values()))
    if engine_of(X) is not None:
        if weights is not None or clusters is not None:
            raise ArgumentError(
                "weights and clusters sample records from the whole table, which must be in memory. Compute the table, "
                "or sample the records before."
            )
        counted = _count_elsewhere(
            encoder,  # type: ignore[arg-type]  # one that can also read blocks
            X,
            strata if claim.labelled else None,
            sensitive_features,
            missing,
            allow_training_records,
        )
        counts = counted.counts.with_exclusions((*counted.counts.exclusions, *exclusions))
        counted = replace(counted, counts=counts)
    else:
        records = MemoryRecords(
            X=X,
            groups=sensitive_features,
            y=strata if claim.labelled else None,
            weights=weights,
            clusters=clusters,
            population=population,
            cap=cap,
            missing=missing,
            exclusions=tuple(exclusions),
        )
        counted = records.count(encoder, seed=seed, allow_training_records=allow_training_records)
    return _checked(encoder, counted, given=given is not None, allowed=allow_training_records).certify(claim)


def _attributes(encoder: Encoder, X: Any, sensitive_features: Any) -> tuple[str, ...]:
    """Return the names of several sensitive columns: of a dataframe or a mapping, or as the encoder has them.

    The columns of a table on a cluster may be named.
    """
    names = getattr(sensitive_features, "column_names", getattr(sensitive_features, "columns", None))
    if sensitive_features is None:
        names = as_names(getattr(encoder, "sensitive", None))
    elif isinstance(sensitive_features, Mapping) or (engine_of(X) is not None and names is None):
        names = sensitive_features
    found = () if names is None or isinstance(names, str) else tuple(map(str, names))
    if len(found) < 2:
        raise ArgumentError("each needs several sensitive columns with names: a dataframe, or a mapping of columns.")
    return found


def _one_name(given: Mapping[str, Any] | None) -> str | None:
    """Return the name of the column that a claim is given."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ArgumentError('given: pass one column by its name, such as given={"product": products}.')
    return str(next(iter(given)))


def _count_elsewhere(
    encoder: RestrictedEncoder, X: Any, y: Any, sensitive_features: Any, missing: Missing, allow_training_records: bool
) -> CountedRecords:
    """Count a Dask or Spark DataFrame on its cluster."""
    if is_dask(X):
        X, labels, groups = combine_frames(encoder, X, y, sensitive_features)
        if len(labels) > 1:
            raise ArgumentError(f"A certificate conditions on one label column, but {len(labels)} were given.")
        worker = open_elsewhere(X)
    else:
        worker = open_elsewhere(X)
        names = worker.schema.names
        if (sensitive_features is None) == (encoder.sensitive is None):
            raise GroupError("Name the groups' columns once: sensitive_features=…, or sensitive= in the constructor.")
        groups = roles_of(encoder.sensitive if sensitive_features is None else sensitive_features, names, "sensitive")
        labels = () if y is None else roles_of(y, names, "label")
    check_columns(encoder, worker.schema.names)
    counter = BlockCounter((encoder,), reader_for(encoder, labels, groups), unknown_groups=missing == "unknown")
    tally: Tally = worker.reduce(counter, Tally.merge)
    return tally.counted(encoder, labelled=bool(labels), missing=missing, allow_training_records=allow_training_records)


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
