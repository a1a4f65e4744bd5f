"""Hashes of records, and samples of them.

Whether a record is in a sample depends on its hash alone, so samples of parts of a table add up, equal records stay
together, and a table is looked up in a sample by the records whose hashes are within its limit.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.repeats import (
    NOTABLE,
    Grouping,
    Repeats,
    agreement_of,
    blocks_of,
    frequencies,
)
from certifare.growth.columns import Column, Dictionary
from certifare.tables.frames import Field

BLOCK = 1 << 16

MOST_HASHES = 1 << 20
"""So many distinct hashes are kept at most."""

MOST_GROUPED = 1 << 14
"""So many different records are kept at most for each block of columns that is left out."""

TINY = 2.0**-20
"""A number below this is taken for zero when numbers are rounded: what rounding leaves of it would be noise."""


def hash_records(fields: Sequence[Field], salt: bytes) -> NDArray[np.uint64]:
    """Hash each record: equal values give equal hashes, whatever table or dtype they come from."""
    return np.asarray(_hash(fields, salt, (0,))[0])


def hash_rounded(fields: Sequence[Field], salt: bytes, digits: Sequence[int]) -> NDArray[np.uint64]:
    """Hash each record with its numbers rounded to these numbers of binary digits, (digits, records).

    Before a column is rounded it is multiplied by a number between ½ and 1 that the salt chooses, so that whole numbers
    and short decimals are not at the edge of a rounding interval: a change in the last digits then changes few hashes.
    Text is not rounded.
    """
    return _hash(fields, salt, tuple(52 - (n - 1) for n in digits))


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all others (the finaliser of splitmix64); overflow is meant."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def share_of(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1, exclusive."""
    return (hashes >> np.uint64(11)).astype(np.float64) / 2.0**53


@dataclass(frozen=True, eq=False)
class HashSample:
    """Hashes up to ``2^(64-halvings) - 1``, and how many records have each.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.encoders.hashes import HashSample
    >>> hashes = np.array([7, 2**63, 7, 2**40], dtype=np.uint64)
    >>> sample = HashSample.merge([HashSample.of(hashes, 4), HashSample.of(hashes, 4)], most=2)
    >>> sample.hashes.tolist(), sample.counts.tolist(), sample.halvings
    ([7, 1099511627776], [4, 2], 1)
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    halvings: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], n_records: int, most: int = MOST_HASHES) -> "HashSample":
        """Sample the hashes of some of ``n_records`` records."""
        halvings = _halvings(n_records, most)
        kept = hashes[hashes <= _limit(halvings)]
        return cls(kept, np.ones(len(kept), dtype=np.int64), halvings)

    @classmethod
    def merge(cls, samples: Sequence["HashSample"], most: int = MOST_HASHES) -> "HashSample":
        """Sample all records, given the samples of parts of them."""
        halvings = max(sample.halvings for sample in samples)
        hashes = np.concatenate([sample.hashes for sample in samples])
        counts = np.concatenate([sample.counts for sample in samples])
        kept = hashes <= _limit(halvings)
        merged = cls(hashes[kept], counts[kept], halvings)
        # Sorting is the slow part, so it waits until there are too many.
        return merged if len(merged.hashes) <= most else merged.sorted(most)

    def sorted(self, most: int = MOST_HASHES) -> "HashSample":
        """Put each hash once, in order; of too many, keep those up to a lower limit."""
        if not len(self.hashes):
            return self
        if (self.counts == 1).all():  # sorting values is several times faster than finding their order
            ordered, counts = np.sort(self.hashes), self.counts
        else:
            order = np.argsort(self.hashes)
            ordered, counts = self.hashes[order], self.counts[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        hashes, counts = ordered[starts], np.add.reduceat(counts, starts)
        halvings = self.halvings
        while len(hashes) > most:
            halvings += 1
            n_kept = int(np.searchsorted(hashes, _limit(halvings), side="right"))
            hashes, counts = hashes[:n_kept], counts[:n_kept]
        return HashSample(hashes, counts, halvings)


@dataclass(frozen=True, eq=False)
class GroupSample:
    """Sample of the groups of records that agree in all columns but some: whole groups, by the hash of the others."""

    hashes: NDArray[np.uint64]  # of all columns
    rests: NDArray[np.uint64]  # of the columns that are not left out; up to ``2^(64-halvings) - 1``
    counts: NDArray[np.int64]  # how many records have these hashes
    halvings: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], rests: NDArray[np.uint64], n_records: int) -> "GroupSample":
        """Sample groups of some of ``n_records`` records, given hashes of all columns and of those not left out.

        The hash of all columns must be that of the others and of the left-out ones added up.
        """
        halvings = _halvings(n_records, MOST_GROUPED)
        kept = np.flatnonzero(rests <= _limit(halvings))
        return cls(hashes[kept], rests[kept], np.ones(len(kept), dtype=np.int64), halvings)

    @classmethod
    def merge(cls, samples: Sequence["GroupSample"]) -> "GroupSample":
        """Sample the groups of all records, given the samples of parts of them."""
        halvings = max(sample.halvings for sample in samples)
        columns = zip(*((sample.hashes, sample.rests, sample.counts) for sample in samples), strict=True)
        hashes, rests, counts = map(np.concatenate, columns)
        merged = cls(hashes, rests, counts, halvings)._up_to(halvings)
        return merged if len(merged.hashes) <= MOST_GROUPED else merged.sorted()

    def sorted(self) -> "GroupSample":
        """Put each record once; of too many, keep the groups up to a lower limit."""
        order, starts = _runs(self.hashes)
        first, counts = order[starts], self.counts
        if len(starts):
            counts = np.add.reduceat(counts[order], starts)
        sample = GroupSample(self.hashes[first], self.rests[first], counts, self.halvings)
        while len(sample.hashes) > MOST_GROUPED:
            sample = sample._up_to(sample.halvings + 1)
        return sample

    def grouping(self) -> Grouping:
        """Count the groups by size, and compare those that are alike with those that are mixed."""
        sample = self.sorted()
        order, starts = _runs(sample.rests)
        if not len(starts):
            none = frequencies(np.zeros(0, dtype=np.int64))
            return Grouping(none, none, none, 1.0)
        times = sample.counts[order]
        sizes, kinds = np.add.reduceat(times, starts), np.diff(starts, append=len(times))
        left_out, values = _runs((sample.hashes - sample.rests)[order])
        agreements = [
            agreement_of(
                same=_sum_of_squares(np.add.reduceat(counts[left_out], values)),
                equal=_sum_of_squares(counts),
                grouped=_sum_of_squares(np.add.reduceat(counts, starts)),
                n=int(counts.sum()),
            )
            for counts in (times, np.ones_like(times))
        ]
        return Grouping(
            alike=frequencies(sizes[kinds == 1]),
            mixed=frequencies(sizes[kinds > 1]),
            beside=frequencies(times[np.repeat(kinds > 1, kinds)]),
            agreement=max(agreements),
        )

    def _up_to(self, halvings: int) -> "GroupSample":
        kept = self.rests <= _limit(halvings)
        return GroupSample(self.hashes[kept], self.rests[kept], self.counts[kept], halvings)


@dataclass(frozen=True, eq=False)
class RepeatSample:
    """Sample of records that shows whether more of them are equal than chance explains; samples add up.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.encoders.hashes import RepeatSample
    >>> from certifare.tables.frames import Frame
    >>> rng = np.random.default_rng(0)
    >>> visits = np.repeat(rng.normal(size=(1000, 3)), 1 + rng.poisson(0.5, 1000), axis=0)
    >>> samples = [RepeatSample.of(Frame(part).fields(), b"salt") for part in (visits[:700], visits[700:])]
    >>> found = RepeatSample.merge(samples).judge()
    >>> found.records == len(visits), found.excessive
    (True, True)
    """

    whole: HashSample  # of the records in all columns
    left_out: tuple[GroupSample, ...]  # with each block of columns left out in turn

    @classmethod
    def of(cls, fields: Sequence[Field], salt: bytes = b"") -> "RepeatSample":
        """Sample records; samples that are to be merged need the same salt."""
        n = len(fields[0])
        columns = [_HashedColumn.of(i, field, salt) for i, field in enumerate(fields)]
        parts = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)] or [slice(0, 0)]
        return cls.merge([cls._of_rows(columns, rows, n) for rows in parts])

    @classmethod
    def _of_rows(cls, columns: Sequence["_HashedColumn"], rows: slice, n_records: int) -> "RepeatSample":
        """Sample some records. Their hash is a sum over columns, so that leaving out a block is a subtraction."""
        blocks = blocks_of(len(columns))
        of_blocks = np.zeros((len(blocks), rows.stop - rows.start), dtype=np.uint64)
        for sums, block in zip(of_blocks, blocks, strict=True):
            for i in block:
                sums += mix(columns[i].bits(rows) + columns[i].offset)
        hashes = of_blocks.sum(axis=0)
        return cls(
            HashSample.of(hashes, n_records),
            tuple(GroupSample.of(hashes, hashes - sums, n_records) for sums in of_blocks),
        )

    @classmethod
    def merge(cls, samples: Sequence["RepeatSample"]) -> "RepeatSample":
        """Sample all records, given the samples of parts of them."""
        return cls(
            HashSample.merge([sample.whole for sample in samples]),
            tuple(GroupSample.merge(own) for own in zip(*(sample.left_out for sample in samples), strict=True)),
        )

    def judge(self) -> Repeats:
        """Count the records that equal another one, and decide whether chance explains it."""
        times = self.whole.sorted().counts
        # Most tables have hardly any equal records, whatever the columns say.
        is_notable = np.count_nonzero(times > 1) >= NOTABLE * len(times)
        return Repeats.of(times, [own.grouping() for own in self.left_out] if is_notable else ())


def count_repeats(fields: Sequence[Field], roles: Sequence[NDArray[np.int64]] = ()) -> Repeats:
    """Count the records that equal another one in every column, and say whether chance explains it."""
    named = [Field(f"role {i}", codes, "number", False) for i, codes in enumerate(roles)]
    found = RepeatSample.of([*fields, *named]).judge()
    if not found.excessive:
        return found
    own = [role for role, codes in zip(named, roles, strict=True) if not any(_follows(codes, f) for f in fields)]
    return found if len(own) == len(named) else RepeatSample.of([*fields, *own]).judge()


def _follows(codes: NDArray[np.int64], field: Field) -> bool:
    """Whether records with equal values of a column have equal codes."""
    levels = field.levels()
    first = np.full(len(levels.values) + 1, -1, dtype=np.int64)  # the last is that of missing values
    first[levels.codes] = codes
    return bool((first[levels.codes] == codes).all()) and len(levels.values) < len(codes)


def _runs(values: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort values, and find where runs of equal ones start."""
    order = np.argsort(values)
    ordered = values[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))[: len(values)]


def _sum_of_squares(numbers: NDArray[np.int64]) -> float:
    return float((numbers.astype(np.float64) ** 2).sum())


def _halvings(n_records: int, most: int) -> int:
    return max(0, math.ceil(math.log2(max(n_records, 1) / most)))


def _limit(halvings: int) -> np.uint64:
    return np.uint64(2 ** (64 - halvings) - 1)


def _hash(fields: Sequence[Field], salt: bytes, shifts: tuple[int, ...]) -> NDArray[np.uint64]:
    """Hash records once for each shift, the number of last bits that are rounded away."""
    n = len(fields[0])
    hashes = np.zeros((len(shifts), n), dtype=np.uint64)
    for i, field in enumerate(fields):
        column = _HashedColumn.of(i, field, salt, exact=shifts == (0,))
        # Text is not rounded.
        drop = np.array(shifts, dtype=np.uint64) * np.uint64(not isinstance(field.column, Dictionary))
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            bits = column.bits(rows)
            for row, shift in zip(hashes, drop, strict=True):
                row[rows] = mix(row[rows] ^ mix(_round(bits, shift) + column.offset))
    return hashes


@dataclass(frozen=True, eq=False)
class _HashedColumn:
    """A column whose values become 64 bits each."""

    column: Column
    table: NDArray[np.uint64]  # hashes of the texts, and 0 for a missing one
    factor: float  # what numbers are multiplied by
    offset: np.uint64  # what is added to the bits before they are mixed

    @classmethod
    def of(cls, i: int, field: Field, salt: bytes, *, exact: bool = True) -> "_HashedColumn":
        """Prepare the i-th column of a table."""
        digest = hashlib.blake2b(f"{i}\x00{field.name}".encode("utf-8", "surrogatepass"), key=salt, digest_size=16)
        offset, dither = np.frombuffer(digest.digest(), dtype=np.uint64)
        # The exact hash multiplies by nothing, or numbers that differ could become equal.
        factor = 1.0 if exact else 0.5 + float(dither >> np.uint64(12)) / 2.0**53
        texts = field.column.values if isinstance(field.column, Dictionary) else ()
        table = np.array([*(_hash_text(text, salt) for text in texts), 0], dtype=np.uint64)
        return cls(field.column, table, factor, offset)

    def bits(self, rows: slice) -> NDArray[np.uint64]:
        """Return the bits of some values."""
        if isinstance(self.column, Dictionary):
            return np.asarray(self.table[self.column.indices[rows]])
        # The bit patterns of numbers as float64, with one zero and one NaN.
        numbers = self.column[rows].astype(np.float64) * self.factor + 0.0
        if self.factor != 1.0:
            numbers[np.abs(numbers) < TINY] = 0.0
        numbers[np.isnan(numbers)] = np.nan
        return np.asarray(numbers.view(np.uint64))


def _round(bits: NDArray[np.uint64], shift: np.uint64) -> NDArray[np.uint64]:
    """Round the last bits away: to nearest, the size of the number alone."""
    return (bits + ((np.uint64(1) << shift) >> np.uint64(1))) >> shift


def _hash_text(value: str, salt: bytes) -> int:
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=salt, digest_size=8).digest()
    return int.from_bytes(digest, "little")
