"""Records that repeat: whether chance explains how often equal records occur.

Independent records of one population may be equal, the more often the fewer values they can have. Let f_r be how many
different records occur r times. The number of times that one of them occurs is (nearly) a Poisson variable, whose mean
differs from record to record. So E f_r is a mixture of λ^r e^-λ / r!, and by the Cauchy–Schwarz inequality

    (E f_r)² · r / (r + 1) ≤ E f_(r-1) · E f_(r+1).

A table in which every row was copied breaks it by far: its rows occur ten times, but none of them nine times or eleven.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.errors import RepeatedRecordsError

DEVIATIONS = 4.0
"""How many standard deviations a number of records may be off."""

MOST_TIMES = 255
"""Records that occur more often are counted as if they occurred so often; nothing is concluded from them."""

REFUSED = 0.5
"""Where chance does not explain repeats, and this share of the records has an equal one, no bound is certified."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """How many records equal another one.

    Attributes
    ----------
    records : int
        How many there are, in the sample of records that were compared.
    repeated : int
        How many of them are equal, in every column, to another one.
    excessive : bool
        Whether that is more than chance explains.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.certificates.repeats import Repeats
    >>> Repeats.of(np.full(1000, 10))
    Repeats(records=10000, repeated=10000, excessive=True)
    >>> rng = np.random.default_rng(0)
    >>> Repeats.of(np.bincount(rng.integers(0, 2000, 10_000))).excessive
    False
    """

    records: int
    repeated: int
    excessive: bool

    @classmethod
    def of(cls, times: NDArray[np.integer]) -> Repeats:
        """Judge how often different records occur."""
        times = times[times > 0]
        repeated = int(times[times > 1].sum())
        return cls(int(times.sum()), repeated, not is_chance(frequencies(times)))

    def check(self, what: str = "records") -> tuple[str, ...]:
        """Refuse records most of which repeat; return what a certificate must say of fewer."""
        if not self.excessive:
            return ()
        found = (
            f"{self.repeated:,} of {self.records:,} {what} equal another one in every column, more often than chance "
            "explains"
        )
        if self.repeated >= REFUSED * self.records:
            raise RepeatedRecordsError(
                f"{found}. A bound takes records for independent draws. If equal ones are of the same person, name the "
                "column that says of whom a record is as the cluster (--cluster; in Python clusters=), or remove the "
                "repeats. If they are of different people, name a column that numbers the records."
            )
        return (f"{found}; they are taken for records of different people. If they are not, the bound is too low.",)


def frequencies(times: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many different records occur r times, for r from 0 to two above the most that is told apart."""
    return np.bincount(np.minimum(times, MOST_TIMES), minlength=MOST_TIMES + 3)


def is_chance(found: NDArray[np.int64]) -> bool:
    """Say whether chance explains how many different records occur once, twice and so on."""
    r = np.arange(2, MOST_TIMES - 1)
    least = np.maximum(found[r] - DEVIATIONS * np.sqrt(found[r]), 0.0)
    return not (least**2 * r / (r + 1) > at_most(found[r - 1]) * at_most(found[r + 1])).any()


def at_most(found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Upper limit of the mean of a Poisson variable, for a level far below one in a thousand."""
    return found + DEVIATIONS * np.sqrt(found) + 10.0
