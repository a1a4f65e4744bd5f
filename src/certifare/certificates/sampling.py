"""Sample independent records from weighted or clustered ones.

The bounds need independent records of the population that the claim is about. Survey weights and clusters
(households, several rows per patient) violate that. Keeping some whole records at random, with a recorded seed, makes
them independent again; the price is a smaller sample, which is reported.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.counts import OTHER_KEPT, THINNED, THINNED_CLUSTERS, CellCounts, Exclusion
from certifare.certificates.population import BY_WEIGHT, ONE_OF_CLUSTER, Phrase, draw_of
from certifare.certificates.tail import Tail
from certifare.errors import ArgumentError, DocumentError
from certifare.foundation.randomness import stream

#: An event that is rarer by chance than this counts as a contradiction.
LUCK = 1e-9
#: Relative rounding error of sums of weights.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Subsample:
    """The records that were kept, and what happened to the others.

    Attributes
    ----------
    keep : ndarray of bool
        True for the records kept.
    exclusions : tuple of Exclusion
        Numbers of records that were left out, and the reasons.
    effective_size : float
        Kish's effective sample size (Σw)²/Σw² of all records, the best that the weights allow.
    seed : int
        The seed of the random choice.
    assumptions : tuple of str
        Assumptions of the sampling.
    population : tuple of str
        The population of a claim from these records (``Certificate.population``).
    beyond : ndarray of bool or None
        With a cap on the weights: the kept records that a second random draw marked as above it
        (:class:`~certifare.certificates.tail.Tail`).
    cap, largest : float or None
        The cap, and the largest weight.
    """

    keep: NDArray[np.bool_]
    exclusions: tuple[Exclusion, ...]
    effective_size: float
    seed: int
    assumptions: tuple[str, ...]
    population: tuple[Phrase, ...]
    beyond: NDArray[np.bool_] | None = None
    cap: float | None = None
    largest: float | None = None

    def tail(self, count: Callable[[NDArray[np.bool_]], CellCounts]) -> Tail | None:
        """Return the weight above the cap, given a function that counts by group and label; None without a cap."""
        if self.beyond is None or self.cap is None or self.largest is None:
            return None
        return Tail.of(self.cap, self.largest, count(self.beyond))


def thin(
    weights: ArrayLike,
    *,
    seed: int = 0,
    part: str = "",
    max_weight: float | None = None,
    cap: float | None = None,
) -> Subsample:
    """Keep record j with probability w_j / max w: an independent sample of the weighted population.

    With a cap, keep it with probability min(w_j, cap) / cap: more records stay, as a sample of the population by capped
    weights, and ``beyond`` shows how much weight is above the cap. A cap that is not below the largest weight has no
    effect.

    Parameters
    ----------
    weights : array-like of float
        Survey weights, not negative.
    seed : int
        Seed of the random choice.
    part : str
        Name of the part, if several parts of a table are thinned with one seed: choices in parts with different names
        are independent. Two parts with the same name, or without one, are thinned alike.
    max_weight : float, optional
        The largest weight in the population. By default the largest one in the sample is used, and the certificate
        says so.
    cap : float, optional
        Must be fixed without looking at these records.

    Examples
    --------
    >>> sample = thin([1.0, 2.0, 2.0, 0.0], seed=1)
    >>> sample.keep.tolist()
    [False, True, True, False]
    """
    w = _weights(weights)
    largest = float(w.max(initial=0.0)) if max_weight is None else max_weight
    scale = largest if cap is None else min(check_cap(cap), largest)
    capped = scale < largest
    keep = stream(seed, "thinning", part).random(len(w)) * scale < w
    # A separate random draw for the weight above the cap: those records are always kept.
    beyond = stream(seed, "beyond the cap", part).random(len(w)) * (largest - scale) < w - scale if capped else None
    return Subsample(
        keep=keep,
        exclusions=(Exclusion(THINNED, int(len(w) - keep.sum())),),
        effective_size=float(w.sum() ** 2 / (w @ w)),
        seed=seed,
        assumptions=assumptions_of(float(w.max()), max_weight, weighted=True),
        population=drawn_population(weighted=True),
        beyond=beyond,
        cap=scale if capped else None,
        largest=largest if capped else None,
    )


def one_per_cluster(
    clusters: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    population: str = "clusters",
    max_weight: float | None = None,
    seed: int = 0,
    part: str = "",
) -> Subsample:
    """Keep at most one random record of each cluster.

    Parameters
    ----------
    clusters : array-like
        The cluster of each record.
    weights : array-like of float, optional
        Survey weights of the records. Within a cluster, a record is chosen in proportion to its weight.
    population : {"clusters", "records"}
        What the claim is about. With ``"clusters"``, a random record of a random cluster: every cluster keeps one.
        With ``"records"``, a random (weighted) record: a cluster is kept with a probability proportional to its
        size (total weight), so that large clusters count as much as their records do.
    max_weight : float, optional
        With ``population="records"``: the largest size (total weight) of a cluster in the population; by default the
        largest one in the sample.
    seed : int
        Seed of the random choice.
    part : str
        Name of the part, as in :func:`thin`.

    Examples
    --------
    >>> one_per_cluster(["a", "a", "b"], seed=0).keep.sum()
    np.int64(2)
    """
    check_population(population, clustered=True)
    _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    w = np.ones(len(cluster)) if weights is None else _weights(weights)
    if len(w) != len(cluster):
        raise ArgumentError(f"weights has {len(w):,} records, clusters has {len(cluster):,}.")
    rng = stream(seed, "one per cluster", part)
    # The largest of u^(1/w) is at each record of a cluster with probability w / Σw (Efraimidis, Spirakis).
    with np.errstate(divide="ignore"):
        key = np.where(w > 0, np.log(rng.random(len(w))) / w, -np.inf)
    order = np.lexsort((key, cluster))
    last_of_cluster = np.append(cluster[order][1:] != cluster[order][:-1], True)
    keep = np.zeros(len(w), dtype=bool)
    keep[order[last_of_cluster]] = True
    keep &= w > 0
    exclusions = [Exclusion(OTHER_KEPT, int(len(w) - keep.sum()))]
    total = np.bincount(cluster, weights=w)
    if population == "records":
        largest = float(total.max()) if max_weight is None else max_weight
        dropped = keep & (rng.random(len(w)) * largest >= total[cluster])
        keep &= ~dropped
        exclusions.append(Exclusion(THINNED_CLUSTERS, int(dropped.sum())))
    return Subsample(
        keep=keep,
        exclusions=tuple(exclusions),
        effective_size=float(total.sum() ** 2 / (total @ total)),
        seed=seed,
        assumptions=assumptions_of(float(total.max()), max_weight, weighted=weights is not None, population=population),
        population=drawn_population(weighted=weights is not None, population=population),
    )


def check_population(population: str, *, clustered: bool) -> None:
    """Raise if a population is unknown, or given without clusters."""
    if population not in ("clusters", "records"):
        raise ArgumentError(f'population={population!r}: choose "clusters" or "records".')
    if population != "clusters" and not clustered:
        raise ArgumentError(
            f"population={population!r} is about clusters of records, and none were given: name them, or leave it out."
        )


def check_cap(cap: float, *, weighted: bool = True, clustered: bool = False) -> float:
    """Raise if a cap is not positive, or if there are no weights to cap."""
    if not weighted:
        raise ArgumentError(f"cap={cap:g} is about weights, and none were given: name them, or leave it out.")
    if clustered:
        raise ArgumentError(
            f"cap={cap:g}: weights are not capped where one record of each cluster is kept. Leave the cap out."
        )
    if math.isnan(cap) or cap <= 0.0:
        raise ArgumentError(f"cap={cap:g}: a cap on weights is above 0.")
    return float(cap)


def _weights(weights: ArrayLike) -> NDArray[np.float64]:
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ArgumentError(
            "Weights must be one finite, non-negative number per record, and not all zero: "
            "replace missing weights or leave those records out."
        )
    return w


def assumptions_of(
    largest: float, max_weight: float | None, *, weighted: bool, population: str | None = None
) -> tuple[str, ...]:
    """Return the assumptions of sampling."""
    clusters = () if population is None else ("Clusters are independent of one another.",)
    if population == "clusters":
        return clusters
    what = "weight" if population is None else "total weight of a cluster" if weighted else "cluster size"
    if max_weight is None:
        return (*clusters, f"The largest {what} in the sample, {largest:g}, is the largest in the population.")
    if not max_weight >= largest:
        raise ArgumentError(f"max_weight={max_weight:g}, but the sample has a {what} of {largest:g}.")
    return clusters


def drawn_population(*, weighted: bool, population: str | None = None) -> tuple[Phrase, ...]:
    """Return the population of a claim from sampled records; the parameters are those of :func:`assumptions_of`."""
    of_cluster: tuple[Phrase, ...] = (ONE_OF_CLUSTER,) if population == "clusters" else ()
    return (*of_cluster, BY_WEIGHT) if weighted else of_cluster


def check_draw(
    population: Iterable[Phrase],
    exclusions: Iterable[Exclusion],
    *,
    records: int,
    effective_size: float | None,
    capped: bool,
) -> None:
    """Raise if a certificate's statements about sampling contradict each other (``docs/theory.md``)."""
    phrases = draw_of(population)
    left_out = {THINNED: 0, OTHER_KEPT: 0, THINNED_CLUSTERS: 0}
    for exclusion in exclusions:
        reason = exclusion.reason.partition(" (")[0]
        if reason in left_out:
            left_out[reason] += exclusion.records
    by_cluster = ONE_OF_CLUSTER in phrases or left_out[OTHER_KEPT] > 0 or left_out[THINNED_CLUSTERS] > 0
    if effective_size is None:
        if capped or phrases or any(left_out.values()):
            raise DocumentError(
                "Records were drawn by weights or clusters, and the certificate states no effective_size."
            )
        return
    if by_cluster and (capped or left_out[THINNED]):
        raise DocumentError(
            "The certificate says that one record of each cluster was kept, and that records were thinned by weight."
        )
    if ONE_OF_CLUSTER in phrases and left_out[THINNED_CLUSTERS]:
        raise DocumentError(
            f"Clusters were thinned to their size, and the certificate says that it is about records {ONE_OF_CLUSTER}."
        )
    thinned = left_out[THINNED] + left_out[THINNED_CLUSTERS]
    if effective_size > (records + thinned) * (1 + ROUNDING):
        raise DocumentError(
            f"The effective size, {effective_size:g}, is larger than the number of records, or of clusters."
        )
    if thinned or capped or ONE_OF_CLUSTER in phrases:
        return
    # All were kept, each with the probability w / max w. (Σw)²/Σw² = n_eff, so that this has a chance of at most
    # (n_eff / n)^n.
    share = effective_size / records
    if share == 0.0 or records * math.log(min(1.0, share)) < math.log(LUCK):
        raise DocumentError(
            f"One record of each cluster was kept, and the certificate does not say that it is about records "
            f"{ONE_OF_CLUSTER}."
            if by_cluster
            else f"The {records:,} records are worth {effective_size:g} by their weights or clusters, and the "
            "certificate names none that a draw left out."
        )
