"""Certify encoders, and columns that are already there, on records that they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from certifare.certificates.claims import Claim
from certifare.certificates.sampling import check_cap, check_population
from certifare.encoders.existing import assuming, column_table, distinct_values, encoder_of, read_column
from certifare.engines.memory.tables import Encoder, place_records
from certifare.frames import is_dask
from certifare.levels import name_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from certifare.certificates import Certificate
    from certifare.certificates.counts import Exclusion, Missing
    from certifare.encoders.tree import FairTreeEncoder


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
        The group of each record; several columns are intersected. Taken from X where the encoder names its
        sensitive columns.
    metric, confidence, method, candidates, positive, min_group_size
        As in :func:`certify_counts`. ``method="lemmas"`` splits the records in two halves: one for base rates and
        cells, one for the sum.
    weights : array-like, optional
        Survey weights; records are thinned to them (:func:`certifare.thin`).
    cap : float, optional
        Thin to weights capped here, so that more records stay, and bound what lies above the cap. Choose it without
        looking at these records: where T* is smallest on others, for instance (``fit`` does so).
    clusters : array-like, optional
        Clusters of dependent records; one of each is kept (:func:`certifare.one_per_cluster`).
    population : {"clusters", "records"}
        With ``clusters``: what the claim is about.
    missing : {"refuse", "unknown", "drop"}
        What to do with records that lack a group or label (:meth:`CellCounts.from_cells`). Demographic parity looks
        at no label, and counts records without one. Records that are left out take no part in a draw.
    seed : int
        Seed of random choices (thinning, clusters, halves). Choices on other records, or on their other cells, are
        independent of these whatever the seed.
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
    reading: dict[str, Any] = {"missing": missing, "allow_training_records": allow_training_records}
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
            **reading,
        )
    labels = y if claim.labelled else None
    placed = place_records(encoder, X, labels, sensitive_features, clustered=clusters is not None, **reading)
    return placed.draw(weights, cap, clusters, population, seed).certify(claim, exclusions)


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
    return certify_as_column(encoder, column_table(field, name), y, sensitive_features=sensitive_features, **options)


def certify_as_column(encoder: FairTreeEncoder, X: Any, y: Any = None, **options: Any) -> Certificate:
    """Certify an encoder of :func:`column_encoder`, and say in the certificate what its cells are."""
    certificate = certify(_Cells(encoder), X, y, **options)
    return assuming(encoder, certificate)


class _Cells:
    """What certification asks of an encoder, and no more: records with equal values of one column are no repeats."""

    def __init__(self, encoder: FairTreeEncoder) -> None:
        self._encoder = encoder
        self.n_cells_ = encoder.n_cells_

    def apply(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.int32]:
        return self._encoder.apply(X)

    def training_overlap(self, X: Any) -> None:
        return None

    def sensitive_features_in(self, X: Any) -> Any:
        return self._encoder.sensitive_features_in(X)
