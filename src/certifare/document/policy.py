"""What a verifier requires of a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from certifare.errors import ArgumentError


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What a certificate must be like to be accepted.

    Whatever a policy says, the document must hold together: figures, words and digests are always checked.

    Attributes
    ----------
    min_confidence : float
        The least confidence. It is the joint one, which holds for all candidates together and, where looks were
        counted, for all looks at its records. 0 accepts any.
    max_bound : float or None
        The largest T*; with records of one's own, also of the certificate on those; with a classifier of one's own,
        instead, the largest distance of that.
    metrics : tuple of str
        Its metric must be one of these; empty: any.
    groups : tuple of str
        It must be about these groups, and may be about others besides.
    max_candidates : int or None
        The most encoders that may have shared ε on its records.
    not_before : date or None
        The earliest day (UTC) on which it may have been made, as it says itself.
    max_age : int or None
        The most days that may have passed since it was made, as it says itself.
    max_looks : int or None
        The most times that its records may have been looked at, this certificate included. One whose looks were not
        counted does not meet it.
    require_signature : bool
        A signature must have been checked, so a key must be given.
    require_encoder : bool
        The encoder must have been compared with the certified one, so its file must be given.

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
    max_candidates: int | None = None
    not_before: date | None = None
    max_age: int | None = None
    max_looks: int | None = None
    require_signature: bool = False
    require_encoder: bool = False

    def __post_init__(self) -> None:
        if not (_is_number(self.min_confidence) and 0.0 <= self.min_confidence < 1.0):
            raise ArgumentError(f"min_confidence={self.min_confidence!r}: a confidence lies in [0, 1).")
        if self.max_bound is not None and not (_is_number(self.max_bound) and 0.0 <= self.max_bound <= 1.0):
            raise ArgumentError(f"max_bound={self.max_bound!r}: a distance between groups lies in [0, 1].")
        for name in ("metrics", "groups"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        if self.metrics:
            from certifare.certificates.claims import metric_of

            for metric in self.metrics:
                metric_of(metric)
        for name, least in (("max_candidates", 1), ("max_age", 0), ("max_looks", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ArgumentError(f"{name}={value!r}: give a whole number from {least} up.")
        if self.not_before is not None and (
            isinstance(self.not_before, datetime) or not isinstance(self.not_before, date)
        ):
            raise ArgumentError(f"not_before={self.not_before!r}: give a day, such as date(2030, 1, 31).")
        for name in ("require_signature", "require_encoder"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name}={getattr(self, name)!r}: give True or False.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ArgumentError(f"{name}={values!r}: give a list of names.")
    return tuple(values)
