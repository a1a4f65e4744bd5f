"""The certificate: an immutable value that holds a bound and everything needed to compute it again."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.claims import Part, Witness, combine, metric_of, strata_of, stratum
from certifare.certificates.counts import CellCounts, Exclusion, name_of
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.errors import (
    ArgumentError,
    CertifareError,
    CertificateFormatError,
    CertificateMismatchError,
    CountsError,
)

#: What every certificate takes for granted.
ASSUMPTIONS = (
    "The encoder was fixed before the certification records were drawn, and none of them was used to fit it.",
    "The certification records of each group are independent draws from the population that the claim is about.",
)
#: What no certificate says.
NOT_CLAIMED = (
    "Nothing is claimed about individuals, or about groups that were not counted.",
    "Nothing is claimed about the label being just, or about the accuracy of any classifier.",
    "Nothing is claimed about other data joined to the representation.",
)
#: Two computations of one figure may differ by the rounding of different machines.
RECOMPUTATION_TOLERANCE = 1e-9


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate between two limits, each of which holds with the stated confidence."""

    lower: float
    estimate: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} in [{round_down(self.lower)}, {round_up(self.upper)}] ({percent(self.confidence)})"


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upper confidence bound T* on a distance between groups, for every classifier on the cells.

    Made by :func:`certifare.certify` and :func:`certifare.certify_counts`.

    Attributes
    ----------
    bound : float
        T*: with the stated confidence no classifier on the cells has a larger distance.
    estimate : float
        The distance of the worst classifier as it appears in the sample (biased upwards).
    lower : float
        With the stated confidence, some classifier has at least this distance.
    confidence : float
        1 − ε. Where ``candidates`` encoders were tried, it holds for all their certificates together.
    metric, method : str
        What was bounded, and how.
    counts : CellCounts
        The certification sample, by cell, group and (where the metric needs it) label.
    parts : tuple of Part
        The bound of every pair of groups (and label).
    """

    metric: str
    method: str
    confidence: float
    bound: float
    estimate: float
    lower: float
    counts: CellCounts
    parts: tuple[Part, ...]
    candidates: int = 1
    positive: str | None = None
    witnesses: tuple[Witness, ...] = ()
    base_counts: CellCounts | None = None
    sum_counts: CellCounts | None = None
    budget: tuple[float, float, float] | None = None
    seed: int | None = None
    effective_size: float | None = None
    assumptions: tuple[str, ...] = ASSUMPTIONS
    not_claimed: tuple[str, ...] = NOT_CLAIMED

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Records left out, and why."""
        return self.counts.exclusions

    @property
    def worst(self) -> Part:
        """The pair of groups (and label) with the largest bound."""
        return max(self.parts, key=lambda part: part.bound)

    # -- what follows from the bound ------------------------------------------------------------------------

    def impact_ratio(self, rate: float) -> float:
        """Smallest possible ratio of selection rates of a classifier whose highest group rate is ``rate``.

        The four-fifths rule asks for 0.8.

        >>> from certifare import CellCounts, certify_counts
        >>> c = certify_counts(CellCounts([[5000, 5050], [5000, 4950]], groups=["f", "m"]))
        >>> c.impact_ratio(0.5) > 0.9
        True
        """
        if not 0.0 < rate <= 1.0:
            raise ArgumentError(f"rate={rate}: a selection rate lies in (0, 1].")
        return max(0.0, 1.0 - self.bound / rate)

    def rate_for_impact_ratio(self, ratio: float = 0.8) -> float | None:
        """Smallest highest selection rate from which ``ratio`` is guaranteed; None where no rate suffices."""
        if not 0.0 <= ratio < 1.0:
            raise ArgumentError(f"ratio={ratio}: a ratio below 1 is needed.")
        rate = self.bound / (1.0 - ratio)
        return rate if rate <= 1.0 else None

    def under_shift(self, rho: float | Mapping[object, float]) -> float:
        """Bound after each group's distribution of cells moved by at most ρ in total variation.

        Group proportions may change freely. ``rho`` is one number for all groups, or one per group.
        """
        if isinstance(rho, Mapping):
            moves = {name_of(group): float(value) for group, value in rho.items()}
            missing = set(self.counts.groups) - set(moves)
            if missing:
                raise ArgumentError(f"rho lacks the group {sorted(missing)[0]!r}.")
        else:
            moves = dict.fromkeys(self.counts.groups, float(rho))
        if not all(0.0 <= value <= 1.0 for value in moves.values()):
            raise ArgumentError("rho: a total variation distance lies in [0, 1].")
        shifted = [(p.label, p.bound + moves[p.groups[0]] + moves[p.groups[1]]) for p in self.parts]
        return min(1.0, combine(metric_of(self.metric), shifted))

    def under_group_noise(self, error_rates: Sequence[float]) -> float:
        """Bound for the true groups where recorded groups are wrong at known rates (two groups).

        ``error_rates[j]`` is the share of the records *recorded* as group j that belong to the other group; given
        its true group, the error must not depend on the other columns.
        """
        rates = [float(rate) for rate in error_rates]
        if len(self.counts.groups) != 2 or len(rates) != 2:
            raise ArgumentError("Noise correction is known for two groups, with one error rate each.")
        if min(rates) < 0.0 or sum(rates) >= 1.0:
            raise ArgumentError(f"error_rates={rates}: rates cannot be negative and must sum to less than 1.")
        return min(1.0, self.bound / (1.0 - sum(rates)))

    def for_classifier(self, predictions: ArrayLike) -> Interval:
        """Interval for the distance of one classifier, given by its prediction for each cell.

        The classifier must have been made without looking at the certification records. (The bound of the
        certificate itself needs no such care.)

        Parameters
        ----------
        predictions : array-like
            One entry per cell: a class (two or more classes: the distance is the largest over classes), or a
            probability in [0, 1] as floating-point number.
        """
        values = np.asarray(predictions)
        if values.ndim != 1 or len(values) != self.counts.n_cells:
            raise ArgumentError(f"predictions must hold one entry for each of the {self.counts.n_cells} cells.")
        if values.dtype.kind == "f" and not np.isin(values, (0.0, 1.0)).all():
            if not (np.all(values >= 0.0) and np.all(values <= 1.0)):
                raise ArgumentError("Probabilities must lie in [0, 1].")
            scores = [values.astype(np.float64)]
        else:
            classes = np.unique(values)
            # Two classes have one distance; a constant classifier has none.
            scores = [(values == c).astype(np.float64) for c in (classes[1:] if len(classes) <= 2 else classes)]
        limits = [self._classifier_part(scores, label) for label in self._strata()]
        metric = metric_of(self.metric)
        merge = (lambda v: math.fsum(v) / len(v)) if metric.combine == "mean" else max
        lower, estimate, upper = (merge([limit[i] for limit in limits]) for i in range(3))
        return Interval(lower=lower, estimate=estimate, upper=min(upper, 1.0), confidence=self.confidence)

    def _strata(self) -> tuple[str | None, ...]:
        return strata_of(metric_of(self.metric), self.counts, self.positive)

    def _classifier_part(self, scores: Sequence[NDArray[np.float64]], label: str | None) -> tuple[float, float, float]:
        """Lower limit, estimate and upper limit in one stratum, largest over classes and pairs of groups.

        The worst class, pair and sign are facts of the population: upper limits of a maximum share no ε. Lower
        limits of a maximum do.
        """
        epsilon = stratum_epsilon(self.metric, self.confidence, self.candidates, self._strata())
        counts = stratum(self.counts, label)
        g = len(counts.groups)
        ways = max(1, len(scores)) * g * (g - 1)
        if metric_of(self.metric).combine == "max":
            ways *= len(self._strata())
        lower = estimate = upper = 0.0
        for score in scores:
            for first in range(g):
                for second in range(g):
                    if first == second:
                        continue
                    pair = counts.table[:, [first, second]]
                    estimate = max(estimate, _mean_gap(pair, score))
                    upper = max(upper, _gap_limit(pair, score, epsilon))
                    lower = max(lower, -_gap_limit(pair[:, ::-1], score, epsilon / ways))
        return lower, estimate, upper

    # -- computing it again -----------------------------------------------------------------------------------

    def verify(self) -> Certificate:
        """Recompute every figure from the counts; an error names the first that they do not support."""
        from certifare.certificates.certify import certify_counts

        again = certify_counts(
            self.counts,
            self.metric,
            self.confidence,
            self.method,
            self.candidates,
            positive=self.positive,
            witness=self.witnesses or None,
            base_counts=self.base_counts,
            sum_counts=self.sum_counts,
            budget=self.budget,
            min_group_size=1,
        )
        for name in ("bound", "estimate", "lower"):
            stated, computed = getattr(self, name), getattr(again, name)
            if abs(stated - computed) > RECOMPUTATION_TOLERANCE:
                raise CertificateMismatchError(
                    f"The certificate states {name} = {stated:.9g}, but its counts give {computed:.9g}."
                )
        if [part.groups for part in again.parts] != [part.groups for part in self.parts] or any(
            abs(a.bound - b.bound) > RECOMPUTATION_TOLERANCE
            or abs(a.estimate - b.estimate) > RECOMPUTATION_TOLERANCE
            or (a.label, a.records) != (b.label, b.records)
            for a, b in zip(again.parts, self.parts, strict=True)
        ):
            raise CertificateMismatchError("The bounds of single pairs of groups do not follow from the counts.")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries, strings and numbers, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_encode)
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote, checking types, ranges and names; :meth:`verify` checks the figures."""
        try:
            certificate = msgspec.convert(dict(document), cls, dec_hook=_decode)
            certificate._check()
        except CertificateFormatError:
            raise
        except (msgspec.ValidationError, TypeError, CertifareError) as error:
            raise CertificateFormatError(f"Not a certificate: {error}") from error
        return certificate

    def _check(self) -> None:
        for name in ("bound", "estimate", "lower"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise CertificateFormatError(f"Not a certificate: {name} must lie in [0, 1].")
        if not 0.0 < self.confidence < 1.0 or self.candidates < 1:
            raise CertificateFormatError("Not a certificate: confidence or candidates out of range.")
        if not self.parts:
            raise CertificateFormatError("Not a certificate: no pair of groups.")
        self._strata()
        for witness in self.witnesses:
            if not all(0 <= cell < self.counts.n_cells for cell in witness.cells):
                raise CertificateFormatError("Not a certificate: a witness names a cell that does not exist.")

    # -- showing it -------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        words = metric_of(self.metric).words
        if self.bound >= 1.0:
            return f"no bound below 1 on the {words} could be certified ({self._sample()})"
        return (
            f"{words} of any classifier <= {round_up(self.bound)} with {percent(self.confidence)} confidence "
            f"({self._sample()})"
        )

    def _sample(self) -> str:
        sizes = self.counts.group_sizes.values()
        return f"{' + '.join(f'{n:,}' for n in sizes)} records, {self.counts.n_cells} cells"

    def _repr_html_(self) -> str:
        rows = [
            ("bound T*", round_up(self.bound)),
            ("estimate", f"{self.estimate:.4f}"),
            ("lower limit", round_down(self.lower)),
            ("confidence", percent(self.confidence)),
            ("method", self.method),
            ("candidates", str(self.candidates)),
            *((f"records of {group}", f"{n:,}") for group, n in self.counts.group_sizes.items()),
            *((f"excluded: {e.reason}", f"{e.records:,}") for e in self.exclusions),
        ]
        body = "".join(
            f"<tr><th scope='row' style='text-align:left'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in rows
        )
        return f"<table><caption>{html.escape(str(self))}</caption><tbody>{body}</tbody></table>"


def stratum_epsilon(metric: str, confidence: float, candidates: int, strata: Sequence[str | None]) -> float:
    """Return ε for each stratum: divided among candidates, and among strata where their mean is bounded."""
    epsilon = (1.0 - confidence) / candidates
    return epsilon / len(strata) if metric_of(metric).combine == "mean" else epsilon


def _mean_gap(pair: NDArray[np.int64], score: NDArray[np.float64]) -> float:
    n0, n1 = pair.sum(axis=0)
    return float(pair[:, 0] @ score / n0 - pair[:, 1] @ score / n1)


def _gap_limit(pair: NDArray[np.int64], score: NDArray[np.float64], epsilon: float) -> float:
    """Upper confidence limit of E[score | first group] − E[score | second group]."""
    n0, n1 = (int(n) for n in pair.sum(axis=0))
    if np.isin(score, (0.0, 1.0)).all():
        c0, c1 = (int(c) for c in pair[score == 1.0].sum(axis=0))
        return difference_limit(n0, n1, n1 * c0 - n0 * c1, epsilon)
    spread = float(score.max() - score.min())
    return _mean_gap(pair, score) + spread * hoeffding_radius(n0, n1, epsilon) + 1e-12


def round_up(value: float, digits: int = 4) -> str:
    """Decimal text that is never below the value."""
    return str(Decimal(value).quantize(Decimal(10) ** -digits, ROUND_CEILING))


def round_down(value: float, digits: int = 4) -> str:
    """Decimal text that is never above the value."""
    return str(Decimal(value).quantize(Decimal(10) ** -digits, ROUND_FLOOR))


def percent(confidence: float) -> str:
    """Confidence as text, such as "95 %"."""
    return f"{100 * confidence:.6g} %"


def _encode(value: object) -> object:
    if isinstance(value, CellCounts):
        return value.to_dict()
    raise NotImplementedError(f"cannot write {type(value).__name__}")


def _decode(kind: type, value: object) -> object:
    if kind is CellCounts:
        if not isinstance(value, Mapping):
            raise CountsError("counts must be an object with groups and table.")
        return CellCounts.from_dict(value)
    raise NotImplementedError(f"cannot read {kind.__name__}")
