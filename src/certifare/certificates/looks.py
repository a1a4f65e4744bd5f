"""Looks: how often certification records were used, and the joint confidence of all looks.

Each look spends its ε. The certificates of several looks at the same records hold together with 1 minus the sum of what
they spent, by the union bound (docs/theory.md).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

import msgspec

from certifare.certificates.exact import epsilon_at
from certifare.certificates.rounding import percent
from certifare.errors import ArgumentError, DocumentError

#: Statement of a certificate whose looks were not counted.
NOT_COUNTED = "How often the certification records were looked at was not counted."
#: Upper limit of planned looks.
MAX_LOOKS = 1000
#: Digits of the ε of a planned look, rounded down, so that all planned looks together spend at most the total.
DIGITS = 6
#: The least ε that an earlier look counts with, unless the confidence of this one is higher still.
LEAST_SPENT = 1e-6


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One of several looks at certification records."""

    number: int  # number of this look, from 1
    spent: float = 0.0  # the ε of all earlier looks
    planned: int | None = None  # number of planned looks, if any

    def check(self, confidence: float) -> None:
        """Raise if the figures contradict each other, or the confidence of this look."""
        if self.number < 1 or not 0.0 <= self.spent < float("inf"):
            raise DocumentError("looks are numbered from 1, and spent is the sum of their ε.")
        if (self.number == 1) != (self.spent == 0.0):
            raise DocumentError(f"look {self.number}, and earlier looks spent ε = {self.spent:g}.")
        if self.planned is not None and not self.number <= self.planned <= MAX_LOOKS:
            raise DocumentError(f"look {self.number} of {self.planned} that were planned.")
        if self.spent < self.least_spent(confidence) * (1 - 1e-9):
            raise DocumentError(
                f"look {self.number}, and all earlier looks spent no more than ε = {self.spent:g} together."
            )

    def least_spent(self, confidence: float) -> float:
        """Return the least ε that the looks before one with this confidence count with (``docs/theory.md``)."""
        return float((self.number - 1) * Decimal(repr(min(LEAST_SPENT, epsilon_at(confidence)))))

    def next(self, confidence: float) -> Look:
        """Return the look after this one, which has this confidence."""
        spent = Decimal(repr(self.spent)) + Decimal(repr(epsilon_at(confidence)))
        return Look(number=self.number + 1, spent=float(spent))

    def joint(self, confidence: float) -> float:
        """Return the confidence with which this look, all earlier ones and all planned ones hold together."""
        ahead = 1 if self.planned is None else self.planned - self.number + 1
        spent = Decimal(repr(self.spent)) + ahead * Decimal(repr(epsilon_at(confidence)))
        return float(max(Decimal(0), 1 - spent))

    def words(self, confidence: float) -> str:
        """State in a sentence which look at the certification records this is."""
        together = f"all of them hold together with {percent(self.joint(confidence))} confidence"
        if self.planned is not None:
            planned = f"look {self.number} of {self.planned} that are planned"
            return f"By the producer's ledger this is {planned} at the certification records; {together}."
        if self.number == 1:
            return "By the producer's ledger this is the first look at the certification records."
        return (
            f"By the producer's ledger this is look {self.number} at the certification records, or some of them; "
            f"earlier ones spent ε = {self.spent:g}, and {together}."
        )


def confidence_left(confidence: float, spent: float) -> float | None:
    """Return the confidence of a look after others, so that all hold together with ``confidence``; None if none does.

    >>> confidence_left(0.9, 0.05), confidence_left(0.95, 0.05)
    (0.95, None)
    """
    left = Decimal(repr(epsilon_at(confidence))) - Decimal(repr(spent))
    return float(1 - left) if left > 0 else None


def confidence_of_look(confidence: float, planned: int | None) -> float:
    """Return the confidence of each of several planned looks, so that all hold together with ``confidence``.

    >>> confidence_of_look(0.95, 2)
    0.975
    """
    if planned is None:
        return float(confidence)
    if isinstance(planned, bool) or not isinstance(planned, int) or not 1 <= planned <= MAX_LOOKS:
        raise ArgumentError(f"looks={planned!r}: give the number of looks that are planned, from 1 to {MAX_LOOKS:,}.")
    share = Decimal(repr(epsilon_at(confidence))) / planned
    share = share.quantize(Decimal(1).scaleb(share.adjusted() - DIGITS + 1), ROUND_FLOOR)
    return float(1 - share)
