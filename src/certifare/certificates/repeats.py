"""Test whether chance explains how often equal records occur.

Independent records of one population may be equal, the more often the fewer values they can have. Copies of a record
are equal because they are of one person. How often records occur does not always tell the two apart: numbers of visits
that vary from person to person look like records that vary in popularity. The columns tell them apart.

**Columns.** Leave some columns out, and group the records that agree in all others. Take a group of two records. If
they are of two people, their values of the left-out columns are two draws: they agree with some probability c, and
differ at the odds (1 - c) : c. If they are copies of one record, they always agree. So count the groups of one size
whose records are equal (*alike*) and the groups of this size whose records differ (*mixed*). By chance, the odds of
mixed groups are about those at which records of two different groups differ in the left-out columns. They are lower
if columns depend on each other, so only a quarter is expected. If mixed groups are rarer whatever is left out, the
equal records are copies.

- Groups of one size are compared because they are equally popular: popular records do not pass for copies.
- A record that half of a table shares is in one group, which counts once.
- Copies are found among rare records, also if most others are equal by chance.
- Columns that follow from each other (a category and its number, the columns of a one-hot code) often stand side by
  side. They never differ alone, so wide tables are left out in blocks of neighbours, and several blocks must agree.
- Leaving out the only column that tells people apart leaves large groups, and no small ones to judge. So one block may
  be crowded.

**Frequencies.** Let f_r be how many different records occur r times. The number of times that one of them occurs is
(nearly) a Poisson variable, whose mean differs from record to record. So E f_r is a mixture of λ^r e^-λ / r!, and by
the Cauchy–Schwarz inequality

    (E f_r)² · r / (r + 1) ≤ E f_(r-1) · E f_(r+1).

A table in which every row was copied breaks it by far: its rows occur ten times, but none of them nine times or eleven.
This shows even in tables of one column, and in tables of few values, where the columns show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.errors import RepeatedRecordsError

DEVIATIONS = 4.0
"""Tolerance of a number of records, in standard deviations."""

MOST_TIMES = 255
"""Records that occur more often are counted as if they occurred this often; nothing is concluded from them."""

REFUSED = 0.5
"""If chance does not explain repeats, and this share of the records has an equal one, no bound is certified."""

MOST_BLOCKS = 8
"""Up to this many columns are left out one by one; more columns in this many blocks."""

DEPENDENCE = 4.0
"""Records that agree in all other columns may agree in a block at odds that are this many times those of others."""

MOST_ODDS = 16.0
"""Higher odds that records differ in a block are reduced to these: such blocks depend most on other columns."""

LEVEL = 1e-6
"""Chance is ruled out if it gives so few mixed groups with a smaller probability than this."""

CROWDED = 0.25
"""A block is crowded if leaving it out gives fewer groups of a size than this share of the records that occur that
often: they are in larger groups."""

ALONE = 0.1
"""Nothing is concluded if fewer than this share of all different records is in groups that are alike."""

NOTABLE = 0.01
"""Copies of a smaller share of all different records are ignored: they do not affect a bound."""


@dataclass(frozen=True, eq=False, slots=True)
class Grouping:
    """Groups of records that agree in all columns but some, counted by size.

    The arrays have the form of :func:`frequencies`.

    - ``alike``: number of groups of each size whose records are equal: these agree in the left-out columns, too.
    - ``mixed``: number of groups of each size that hold different records.
    - ``beside``: number of different records that occur that often and are in mixed groups.
    - ``agreement``: probability that records of two different groups agree in the left-out columns: the higher of two,
      where equal records count as often as they occur, and where they count once.
    """

    alike: NDArray[np.int64]
    mixed: NDArray[np.int64]
    beside: NDArray[np.int64]
    agreement: float

    @property
    def odds(self) -> float:
        """Lowest odds, by chance, that records of a group differ in the left-out columns."""
        return min((1.0 - self.agreement) / max(self.agreement, 1e-9), MOST_ODDS) / DEPENDENCE

    @property
    def is_notable(self) -> bool:
        """Whether enough different records are alone in their group, and enough of these occur several times."""
        alone = int(self.alike.sum())
        return alone >= ALONE * (alone + int(self.beside.sum())) and int(self.alike[2:].sum()) >= NOTABLE * alone


@dataclass(frozen=True, slots=True)
class Repeats:
    """Numbers of records that equal another one.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.certificates.repeats import Repeats
    >>> Repeats.of(np.full(1000, 10))
    Repeats(records=10000, repeated=10000, copied=10000)
    >>> rng = np.random.default_rng(0)
    >>> Repeats.of(np.bincount(rng.integers(0, 2000, 10_000))).copied
    0
    """

    records: int  # number of records that were compared
    repeated: int  # number of those that equal another one in every column
    copied: int  # estimated number of those that chance does not explain; 0 if chance explains all

    @classmethod
    def of(cls, times: NDArray[np.integer], groupings: Sequence[Grouping] = ()) -> Repeats:
        """Test how often different records occur, and the groupings with blocks of columns left out."""
        times = times[times > 0]
        records, repeated = int(times.sum()), int(times[times > 1].sum())
        found = frequencies(times)
        share = max(_repeated_share(found, most_beyond_chance(found)), copied_share(groupings))
        return cls(records, repeated, min(repeated, math.ceil(share * records)))

    @property
    def excessive(self) -> bool:
        """Whether more records are equal than chance explains."""
        return self.copied > 0

    def check(self, what: str = "records") -> tuple[str, ...]:
        """Raise if most records repeat; return the certificate's statement about fewer repeats."""
        if not self.excessive:
            return ()
        found = (
            f"{self.repeated:,} of {self.records:,} {what} equal another one in every column, more often than chance "
            "explains"
        )
        if self.copied >= REFUSED * self.records:
            raise RepeatedRecordsError(
                f"{found}. A bound assumes independent records. If several records belong to the same person, name the "
                "column that identifies people as the cluster (--cluster; in Python clusters=). If every record "
                "belongs to a different person, name a column that numbers the records as the cluster."
            )
        return (f"{found}; they are taken for records of different people. If they are not, the bound is too low.",)


def repeats_of_multiplicities(times: Iterable[tuple[int, int]], groupings: Sequence[Grouping] = ()) -> Repeats:
    """Test repeats, given pairs of a number of occurrences and the number of different records that occur that often.

    >>> repeats_of_multiplicities([(1, 900), (2, 50)])
    Repeats(records=1000, repeated=100, copied=0)
    """
    found = np.array([*times], dtype=np.int64).reshape(-1, 2)
    return Repeats.of(np.repeat(found[:, 0], found[:, 1]), groupings)


def blocks_of(n_columns: int) -> list[list[int]]:
    """Split columns into the blocks that are left out in turn.

    >>> blocks_of(3), blocks_of(11)
    ([[0], [1], [2]], [[0, 1], [2, 3], [4, 5], [6], [7], [8], [9], [10]])
    """
    return [block.tolist() for block in np.array_split(np.arange(n_columns), min(n_columns, MOST_BLOCKS))]


def agreement_of(same: float, equal: float, grouped: float, n: int) -> float:
    """Return the probability that two records of different groups agree in the left-out columns.

    - ``same``, ``equal``, ``grouped``: sums of the squares of numbers of records: that agree in the left-out columns,
      that are equal, and that are in one group.
    - ``n``: number of records.
    """
    apart = float(n) ** 2 - grouped
    return (same - equal) / apart if apart > 0.0 else 1.0


def copied_share(groupings: Sequence[Grouping]) -> float:
    """Estimate the share of copied records from the groupings of all blocks; 0 if chance explains all.

    Sizes of groups are judged class by class (2, 3, 4–5, 6–7, 8–11, …), because copies of different numbers meet in
    mixed groups of larger sizes.
    """
    classes = np.floor(2.0 * np.log2(np.arange(1, MOST_TIMES))).astype(np.int64)
    # Two columns that follow from each other never differ: two blocks suffice only if there are no more.
    n_needed = max(2, min(3, len(groupings) - 1))
    share = 0.0
    for number in range(2, int(classes[-1]) + 1):
        sizes = 1 + np.flatnonzero(classes == number)
        telling = [own for own in groupings if not _is_crowded(own, sizes)]
        if len(telling) >= len(groupings) - 1 and _rules_out_chance(telling, sizes, n_needed):
            shares = [_repeated_share(own.alike, int(sizes[-1])) if own.is_notable else 0.0 for own in telling]
            share = max(share, min(shares))
    return share


def frequencies(times: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the number of different records that occur r times, for r from 0 to ``MOST_TIMES + 2``."""
    return np.bincount(np.minimum(times, MOST_TIMES), minlength=MOST_TIMES + 3)


def is_chance(found: NDArray[np.int64]) -> bool:
    """Return whether chance explains the numbers of different records that occur once, twice and so on."""
    return most_beyond_chance(found) == 0


def most_beyond_chance(found: NDArray[np.int64]) -> int:
    """Return the largest r for which more records occur r times than chance explains; 0 if there is none."""
    r = np.arange(2, MOST_TIMES - 1)
    least = np.maximum(found[r] - DEVIATIONS * np.sqrt(found[r]), 0.0)
    beyond = least**2 * r / (r + 1) > at_most(found[r - 1]) * at_most(found[r + 1])
    return int(r[beyond].max(initial=0))


def at_most(found: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return an upper bound of the mean of a Poisson variable, for a level far below one in a thousand."""
    return found + DEVIATIONS * np.sqrt(found) + 10.0


def _repeated_share(found: NDArray[np.int64], times: int) -> float:
    """Return the share of records with an equal one, if those that occur this many times show copies; 0: none do.

    Records that occur more than twice as often are ignored: they may be popular.
    """
    records = (found * np.arange(len(found)))[: 2 * times + 1]
    return float(records[2:].sum() / max(records.sum(), 1))


def _is_crowded(grouping: Grouping, sizes: NDArray[np.int64]) -> bool:
    alike, mixed, beside = (int(own[sizes].sum()) for own in (grouping.alike, grouping.mixed, grouping.beside))
    return alike + mixed < CROWDED * (alike + beside)


def _rules_out_chance(groupings: Sequence[Grouping], sizes: NDArray[np.int64], n_needed: int) -> bool:
    """Return whether groups of these sizes are mixed more rarely than chance explains, whatever block is left out.

    A block with few groups, or few different values, cannot rule chance out by itself. Such blocks are judged together,
    and none of them may have clearly more mixed groups than chance gives at least. So many of the others are needed.
    """
    n_ruling = 0
    weak = []
    for grouping in groupings:
        n_mixed = int(grouping.mixed[sizes].sum())
        n, chance = n_mixed + int(grouping.alike[sizes].sum()), grouping.odds / (1.0 + grouping.odds)
        if _tail(0, n, chance) >= LEVEL:
            weak.append((n_mixed, n, chance))
        elif _tail(n_mixed, n, chance) >= LEVEL:
            return False
        else:
            n_ruling += 1
    if n_ruling < n_needed:
        return False
    if any(n_mixed > n * chance + 2.0 * math.sqrt(n * chance) + 1.0 for n_mixed, n, chance in weak):
        return False
    n = sum(own[1] for own in weak)
    chance = sum(own[1] * own[2] for own in weak) / max(n, 1)
    return _tail(0, n, chance) >= LEVEL or _tail(sum(own[0] for own in weak), n, chance) < LEVEL


def _tail(found: int, n: int, chance: float) -> float:
    """Bound the probability of so few successes in n independent trials with a mean probability (Hoeffding 1963)."""
    share = found / max(n, 1)
    if not n or share >= chance:
        return 1.0
    distance = (1.0 - share) * math.log((1.0 - share) / (1.0 - chance))
    if found:
        distance += share * math.log(share / chance)
    return math.exp(-n * distance)
