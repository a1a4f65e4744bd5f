"""Capped weights: the weight above the cap is not sampled, but bounded.

Thinning to the largest weight of a survey leaves few records. With a cap c, records are kept with probability
min(w, c) / c instead: far more of them, but as a sample of the population by *capped* weights. Within a group that
population differs from the one by whole weights by the share ρ of the weight above the cap. A second random draw, for
records above the cap only, gives a binomial variable whose success probability determines ρ. So (records kept, records
beyond) give an upper bound of ρ, and every distance by capped weights gives one by whole weights (``docs/theory.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates.counts import CellCounts
from certifare.certificates.rounding import percent_up
from certifare.errors import DocumentError

if TYPE_CHECKING:
    from certifare.certificates.claims import Pair

#: Share of ε that bounds the weight above the cap; the rest bounds the distance by capped weights.
TAIL_SHARE = 0.1

#: Covers the error of the inverse of the incomplete beta function, relative to the smaller share.
_ROUNDING = 1e-11

Limit = TypeVar("Limit", float, NDArray[np.float64])


class Tail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weight above a cap, as the certification records show it.

    Attributes
    ----------
    cap : float
        Records were kept with probability min(w, cap) / cap.
    largest : float
        The largest weight in the population.
    beyond : tuple of tuples of int
        For each group of the counts, and each label (one entry if there are none): the number of kept records that are
        *beyond* the cap, by a draw with probability (w − cap) / (largest − cap) for weights above it.
    """

    cap: float
    largest: float
    beyond: tuple[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], ...]

    @classmethod
    def of(cls, cap: float, largest: float, beyond: CellCounts) -> Tail:
        """Make a tail from counts of the records beyond the cap, by the groups and labels of the certificate."""
        totals = beyond.table.sum(axis=0).reshape(len(beyond.groups), -1)
        return cls(cap=float(cap), largest=float(largest), beyond=tuple(map(tuple, totals.tolist())))

    def without_labels(self) -> Tail:
        """Return the same for groups alone."""
        return msgspec.structs.replace(self, beyond=tuple((sum(row),) for row in self.beyond))

    def check(self, counts: CellCounts) -> None:
        """Raise if it does not fit the counts of the records that were kept."""
        if not 0.0 < self.cap < self.largest < math.inf:
            raise DocumentError("the cap on the weights must lie between 0 and the largest weight.")
        kept = counts.table.sum(axis=0).reshape(len(counts.groups), -1).tolist()
        if [len(row) for row in self.beyond] != [len(row) for row in kept]:
            raise DocumentError("the weights above the cap are not by the groups and labels of the counts.")
        if any(b > n for row, sizes in zip(self.beyond, kept, strict=True) for b, n in zip(row, sizes, strict=True)):
            raise DocumentError("more records are beyond the cap than were kept.")

    def share(self, counts: CellCounts, pair: Pair, epsilon: float) -> float:
        """Return an upper bound of the larger of two groups' shares of weight above the cap, at the tail's share of ε.

        Parameters
        ----------
        counts : CellCounts
            Of the certificate.
        pair : Pair
        epsilon : float
            ε of the whole statement.
        """
        column = 0 if pair.label is None or counts.labels is None else counts.labels.index(pair.label)
        kept = counts.table.sum(axis=0).reshape(len(counts.groups), -1)[:, column]
        beyond = np.array(self.beyond)[:, column]
        # Which of the two is larger is a fact of the population, so they share no ε.
        return max(
            share_limit(int(beyond[at].sum()), int(kept[at].sum()), self.cap, self.largest, epsilon)
            for at in map(list, pair.members)
        )

    def words(self, counts: CellCounts, pairs: Sequence[Pair], epsilon: float) -> str:
        """State in a sentence how much weight is above the cap in the groups of these pairs."""
        above = max(self.share(counts, pair, epsilon) for pair in pairs)
        within = "" if pairs[0].label is None else ", among the records of a label,"
        return (
            f"Records were thinned to weights capped at {self.cap:g} (the largest is {self.largest:g}). At most "
            f"{percent_up(above)} of the weight of any group{within} lies above the cap, which T* and the lower limit "
            "allow for; the estimate is by capped weights."
        )


def share_limit(beyond: float, kept: float, cap: float, largest: float, epsilon: float) -> float:
    """Return an upper bound of the share of a group's weight above the cap, at the tail's share of ε.

    Of the records kept, those beyond the cap are a share q = ρ/(1 − ρ) · cap/(largest − cap).
    """
    limit = clopper_pearson(np.array([beyond]), np.array([kept]), 2 * TAIL_SHARE * epsilon)[1][0]
    weight = float(limit) * (largest - cap)
    return min(1.0, weight / (cap + weight) + 1e-12)


def clopper_pearson(
    successes: NDArray[np.int64], trials: NDArray[np.int64], epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided Clopper–Pearson limits at level ε, rounded outwards; [0, 1] where there were no trials."""
    failures = trials - successes
    return _lower_share(successes, failures, epsilon), 1.0 - _lower_share(failures, successes, epsilon)


def _lower_share(successes: NDArray[np.int64], failures: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """One-sided lower limits at level ε/2. Upper limits are those of the failures: 1 − ε/2 would lose digits of ε."""
    from scipy.special import betaincinv

    low = np.zeros(len(successes))
    some = successes > 0
    low[some] = betaincinv(successes[some], failures[some] + 1.0, epsilon / 2) * (1.0 - _ROUNDING)
    return low


def distance_level(epsilon: float, *, capped: bool) -> float:
    """Return the share of ε for the distance in the sample: all, if weights are not capped."""
    return (1.0 - TAIL_SHARE) * epsilon if capped else epsilon


def raised(limit: Limit, share: Limit) -> Limit:
    """Return the upper bound of a difference by whole weights, from that by capped weights and the share above the cap.

    >>> raised(0.1, 0.0), round(raised(0.1, 0.05), 3)
    (0.1, 0.145)
    """
    return limit + share * (1 - limit)


def unraised(limit: float, share: float) -> float:
    """Return the limit by capped weights that was :func:`raised` to this one."""
    return (limit - share) / (1 - share)


def unlowered(limit: float, share: float) -> float:
    """Return the limit by capped weights that was :func:`lowered` to this one."""
    return -unraised(-limit, share)


def lowered(limit: Limit, share: Limit) -> Limit:
    """Return the lower bound by whole weights from that by capped weights: :func:`raised` with groups exchanged."""
    return -raised(-limit, share)
