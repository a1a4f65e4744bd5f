"""A fixed sequence: encoders tested against a target one after another, each at the full ε, until one fails.

The encoders, their order and the target are fixed before any certification record is used. With probability 1 − ε
*every* encoder that passed has a distance of at most the target: an error needs the first one above the target to pass,
and which one that is is a fact of the population (``docs/theory.md``). So the last one that passed may be published,
with the target as its bound, whatever the length of the sequence.

For the other encoders only the test statistics are stored: two numbers of records and M for each pair of groups and
stratum. Anyone can recompute the bounds, without learning their cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from certifare.certificates.claims import (
    RECOMPUTATION_TOLERANCE,
    Claim,
    combine,
    statistic,
)
from certifare.certificates.counts import CellCounts
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.tail import Tail, distance_level, raised
from certifare.errors import ArgumentError, DocumentError

#: More than rounding adds to a limit.
HAIR = 1e-9
#: n_0, n_1 and M of a pair of groups in a stratum.
Statistic = tuple[int, int, int]


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoder that was tested.

    Attributes
    ----------
    encoder : str or None
        SHA-256 digest of the encoder's document without training statistics; None if only counts are known.
    cells : int
    statistics : tuple of (n_0, n_1, M)
        For each pair of groups in each stratum, in the order of the certificate's parts.
    limit : float
        The upper confidence bound at full ε, which was tested against the target. It is not claimed on its own.
    """

    encoder: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)] | None = None
    cells: Annotated[int, msgspec.Meta(ge=1)]
    statistics: tuple[Statistic, ...]
    limit: float


class FixedSequence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Encoders in the order in which they were tested against a target, up to the first that failed.

    Attributes
    ----------
    target : float
        The largest distance to accept.
    length : int
        Number of encoders in the sequence, including those that were not reached.
    steps : tuple of Step
        The tested ones.

    Examples
    --------
    >>> from certifare.certificates import CellCounts, FixedSequence, certify_counts
    >>> safe = CellCounts([[700, 690], [800, 710]], groups=["f", "m"])
    >>> bold = CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])
    >>> walked = FixedSequence.walk([safe, bold], 0.1)
    >>> walked.passed, [round(step.limit, 2) for step in walked.steps]
    (1, [0.06, 0.26])
    >>> print(certify_counts(safe, sequence=walked))
    demographic parity distance of any classifier <= 0.1000 with 95 % confidence (1,500 + 1,400 records, 2 cells)
    """

    target: float
    length: Annotated[int, msgspec.Meta(ge=1)]
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]

    @property
    def passed(self) -> int:
        """Number of encoders that passed: those before the first whose bound is above the target."""
        limits = [step.limit for step in self.steps]
        return next((i for i, limit in enumerate(limits) if limit > self.target), len(limits))

    @property
    def published(self) -> Step | None:
        """The last encoder that passed; None if the first one failed."""
        return self.steps[self.passed - 1] if self.passed else None

    @classmethod
    def walk(
        cls,
        tables: Iterable[CellCounts],
        target: float,
        claim: Claim | None = None,
        *,
        length: int | None = None,
        encoders: Sequence[str] | None = None,
        tail: Tail | None = None,
    ) -> FixedSequence:
        """Test encoders in order until one fails.

        Parameters
        ----------
        tables : iterable of CellCounts
            The certification counts of each encoder. Only as many are computed as are tested.
        target : float
            The largest distance to accept.
        claim : Claim, optional
            The claim about each encoder; by default demographic parity with 95 % confidence.
        length : int, optional
            Number of encoders, if ``tables`` has no length.
        encoders : sequence of str, optional
            Their digests.
        tail : Tail, optional
            The weight above a cap, if the records were thinned to capped weights; the same for all encoders.
        """
        if not 0.0 < target <= 1.0:
            raise ArgumentError(f"target={target}: give a distance in (0, 1].")
        if length is None:
            tables = list(tables)
            length = len(tables)
        alone = replace(claim or Claim(), candidates=1)
        steps: list[Step] = []
        for counts in tables:
            alone = alone.fitted(counts)
            alone.check(counts)
            if tail is not None:
                tail.check(counts)
            found = statistics_of(counts, alone)
            step = Step(
                encoder=None if encoders is None else encoders[len(steps)],
                cells=counts.n_cells,
                statistics=found,
                limit=limit_of(alone, counts, found, shares_of(counts, alone, tail)),
            )
            steps.append(step)
            if step.limit > target:
                break
        if not steps:
            raise ArgumentError("A sequence needs at least one encoder.")
        return cls(target=float(target), length=length, steps=tuple(steps))

    def check(self, counts: CellCounts, claim: Claim, tail: Tail | None = None) -> None:
        """Recompute every bound, and raise if the sequence does not end with the encoder of these counts."""
        if self.published is None:
            raise DocumentError("No encoder of the sequence passed, so none can be certified by it.")
        if not 0.0 < self.target <= 1.0:
            raise DocumentError("The target of the sequence is no distance between groups.")
        ended = self.length if self.passed == len(self.steps) else self.passed + 1
        if len(self.steps) != ended:
            raise DocumentError(
                f"The sequence of {self.length:,} encoders must go on to the first that fails, and end there."
            )
        named = [step.encoder for step in self.steps if step.encoder is not None]
        if len(named) not in (0, len(self.steps)) or len(set(named)) != len(named):
            raise DocumentError("The sequence names an encoder twice, or names some of them only.")
        alone = replace(claim, candidates=1)
        own = statistics_of(counts, alone)
        sizes = [(n0, n1) for n0, n1, _ in own]
        shares = shares_of(counts, alone, tail)
        for i, step in enumerate(self.steps, 1):
            if [(n0, n1) for n0, n1, _ in step.statistics] != sizes:
                raise DocumentError(f"Encoder {i} of the sequence was tested on other records.")
            if not all(0 <= m <= n0 * n1 for n0, n1, m in step.statistics):
                raise DocumentError(f"Encoder {i} of the sequence has a statistic that no records have.")
            computed = limit_of(alone, counts, step.statistics, shares)
            if not abs(step.limit - computed) <= RECOMPUTATION_TOLERANCE:
                raise DocumentError(
                    f"Encoder {i} of the sequence states the limit {step.limit:.9g}, but its statistics give "
                    f"{computed:.9g}."
                )
        if (self.published.cells, self.published.statistics) != (counts.n_cells, own):
            raise DocumentError("The last encoder that passed is not the one that the counts are about.")


def statistics_of(counts: CellCounts, claim: Claim) -> tuple[Statistic, ...]:
    """Return n_0, n_1 and M of each pair of the claim."""
    return tuple(statistic(pair.table(counts)) for pair in claim.pairs(counts))


def shares_of(counts: CellCounts, claim: Claim, tail: Tail | None) -> tuple[float, ...] | None:
    """Return upper bounds of the weight above the cap for each pair of the claim; None without a cap."""
    if tail is None:
        return None
    epsilon = claim.epsilon(claim.strata(counts))
    return tuple(tail.share(counts, pair, epsilon) for pair in claim.pairs(counts))


def limit_of(
    claim: Claim, counts: CellCounts, statistics: Sequence[Statistic], shares: Sequence[float] | None = None
) -> float:
    """Return the upper confidence bound of the metric, from statistics and, with a cap, the shares above it.

    Of the pairs of a stratum the largest limit counts. A limit that Hoeffding's inequality keeps below another one is
    not computed.
    """
    level = distance_level(claim.epsilon(claim.strata(counts)), capped=shares is not None)
    pairs = [
        (raised(m / (n0 * n1) + hoeffding_radius(n0, n1, level) + HAIR, share), pair.label, (n0, n1, m), share)
        for pair, (n0, n1, m), share in zip(
            claim.pairs(counts), statistics, shares or [0.0] * len(statistics), strict=True
        )
    ]
    largest: dict[str | None, float] = {}
    for at_most, label, (n0, n1, m), share in sorted(pairs, key=lambda entry: -entry[0]):
        if at_most > largest.get(label, 0.0):
            limit = raised(max(0.0, difference_limit(n0, n1, m, level)), share)
            largest[label] = max(limit, largest.get(label, 0.0))
    return min(1.0, combine(claim.distance, list(largest.items())))
