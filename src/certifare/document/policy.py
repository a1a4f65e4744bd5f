"""The requirements of a verifier for a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from certifare.certificates.claims import metric_of
from certifare.errors import ArgumentError


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Requirements that a certificate must meet to be accepted.

    Figures, texts and digests of a certificate are always checked, whatever the policy.

    Attributes
    ----------
    min_confidence : float
        The lowest confidence: the joint one, of all candidates together and, if looks were counted, of all looks at its
        records. 0 accepts any.
    max_bound : float or None
        The largest T*; if the verifier gives records, also on those; if the verifier gives a classifier, instead the
        largest distance of that classifier.
    metrics : tuple of str
        Accepted metrics; empty: any.
    groups : tuple of str
        Groups that it must be about; it may be about others, too.
    max_looks : int or None
        The most looks at its records, including this certificate. A certificate whose looks were not counted is
        rejected.
    require_signature : bool
        Whether a signature must be checked, which needs a key.
    require_encoder : bool
        Whether the encoder must be compared with the certified one, which needs its file.

    Examples
    --------
    >>> from certifare import CellCounts, Policy, certify_counts
    >>> from certifare.document import sign, make_statement, verify_document
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]), confidence=0.9)
    >>> content = sign(make_statement(c), None).to_bytes()
    >>> verify_document(content, Policy(max_bound=0.3)).outcome
    'FAIL'
    >>> verify_document(content, Policy(max_bound=0.3, min_confidence=0.9)).outcome
    'PASS'
    """

    min_confidence: float = 0.95
    max_bound: float | None = None
    metrics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_looks: int | None = None
    require_signature: bool = False
    require_encoder: bool = False

    def __post_init__(self) -> None:
        if not (_is_number(self.min_confidence) and 0.0 <= self.min_confidence < 1.0):
            raise ArgumentError(f"min_confidence={self.min_confidence!r}: give a confidence in [0, 1).")
        if self.max_bound is not None and not (_is_number(self.max_bound) and 0.0 <= self.max_bound <= 1.0):
            raise ArgumentError(f"max_bound={self.max_bound!r}: give a distance in [0, 1].")
        for name in ("metrics", "groups"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for metric in self.metrics:
            metric_of(metric)
        looks = self.max_looks
        if looks is not None and (isinstance(looks, bool) or not isinstance(looks, int) or looks < 1):
            raise ArgumentError(f"max_looks={looks!r}: give a whole number from 1 up.")
        for name in ("require_signature", "require_encoder"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name}={getattr(self, name)!r}: give True or False.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ArgumentError(f"{name}={values!r}: give a list of names.")
    return tuple(values)
