"""Hashes of records, and samples of them.

Whether a record is in a sample depends on its hash alone, so samples of parts of a table add up, equal records stay
together, and a table is looked up in a sample by the records whose hashes are within its limit.
"""

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.repeats import Repeats
from certifare.compiler import WORTH_COMPILING, helper, kernel
from certifare.frames import Field
from certifare.growth import Dictionary

BLOCK = 1 << 16

MOST_HASHES = 1 << 20
"""So many distinct hashes are kept at most."""

TINY = 2.0**-20
"""A number below this is taken for zero when numbers are rounded: what rounding leaves of it would be noise."""


def hash_records(fields: Sequence[Field], salt: bytes) -> NDArray[np.uint64]:
    """Hash each record: equal values give equal hashes, whatever table or dtype they come from."""
    hashes: NDArray[np.uint64] = _hash(fields, salt, (0,))[0]
    return hashes


def hash_rounded(fields: Sequence[Field], salt: bytes, digits: Sequence[int]) -> NDArray[np.uint64]:
    """Hash each record with its numbers rounded to so many binary digits each, (digits, records).

    Before a column is rounded it is multiplied by a number between ½ and 1 that the salt chooses, so that whole numbers
    and short decimals do not lie where rounding turns over: a change in the last digits of a number then changes few
    hashes. Text is not rounded.

    >>> import numpy as np
    >>> from certifare.frames import Frame
    >>> exact, close = (Frame(np.array([[x, 7.0]])) for x in (40.0, 40.0 + 1e-9))
    >>> one, two = (hash_rounded([f.read(0), f.read(1)], b"salt", [18]) for f in (exact, close))
    >>> bool(one == two)
    True
    """
    return _hash(fields, salt, tuple(52 - (n - 1) for n in digits))


def hash_numbers(start: int, n: int, key: int) -> NDArray[np.uint64]:
    """Hash the numbers ``start … start + n - 1``: rows are dealt by it, whatever they hold."""
    numbers = np.arange(start, start + n, dtype=np.uint64)
    return mix(mix(numbers) ^ mix(np.array([key], dtype=np.uint64)))


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all others (the finaliser of splitmix64); overflow is meant."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


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
        halvings = max(0, math.ceil(math.log2(max(n_records, 1) / most)))
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


def count_repeats(fields: Sequence[Field]) -> Repeats:
    """Count the records that equal another one in every column."""
    sample = HashSample.of(hash_records(fields, secrets.token_bytes(16)), len(fields[0]))
    return Repeats.of(sample.sorted().counts)


def _limit(halvings: int) -> np.uint64:
    return np.uint64(2 ** (64 - halvings) - 1)


def _hash(fields: Sequence[Field], salt: bytes, shifts: tuple[int, ...]) -> NDArray[np.uint64]:
    """Hash records once for each shift: so many last bits of a number are rounded away."""
    n = len(fields[0])
    hashes = np.zeros((len(shifts), n), dtype=np.uint64)
    drop = np.array(shifts, dtype=np.uint64)
    for i, field in enumerate(fields):
        digest = hashlib.blake2b(f"{i}\x00{field.name}".encode("utf-8", "surrogatepass"), key=salt, digest_size=16)
        offset, dither = np.frombuffer(digest.digest(), dtype=np.uint64)
        # The exact hash multiplies by nothing, or numbers that differ could become equal.
        factor = 1.0 if shifts == (0,) else 0.5 + float(dither >> np.uint64(12)) / 2.0**53
        column = field.column
        if isinstance(column, Dictionary):
            table = np.array([*(_hash_text(value, salt) for value in column.values), 0], dtype=np.uint64)
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            if isinstance(column, Dictionary):
                bits, drops = table[column.indices[rows]], np.zeros_like(drop)
            else:
                bits, drops = _bits(column[rows], factor), drop
            if n < WORTH_COMPILING:
                for row, shift in zip(hashes, drops, strict=True):
                    row[rows] = mix(row[rows] ^ mix(_round(bits, shift) + offset))
            else:
                _add(hashes[:, rows], bits, drops, offset)
    return hashes


def _round(bits: NDArray[np.uint64], shift: np.uint64) -> NDArray[np.uint64]:
    """Round the last bits away: to nearest, the size of the number alone."""
    return (bits + ((np.uint64(1) << shift) >> np.uint64(1))) >> shift


_mix_one = helper(mix)
_round_one = helper(_round)


@kernel
def _add(hashes: NDArray[np.uint64], bits: NDArray[np.uint64], shifts: NDArray[np.uint64], offset: np.uint64) -> None:
    """Add a column to the hashes of records."""
    for k in range(len(shifts)):
        for i in range(len(bits)):
            hashes[k, i] = _mix_one(hashes[k, i] ^ _mix_one(_round_one(bits[i], shifts[k]) + offset))


def _bits(values: NDArray[Any], factor: float) -> NDArray[np.uint64]:
    """Bit pattern of numbers as float64, with one zero and one NaN."""
    numbers = values.astype(np.float64) * factor + 0.0
    if factor != 1.0:
        numbers[np.abs(numbers) < TINY] = 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64)


def _hash_text(value: str, salt: bytes) -> int:
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=salt, digest_size=8).digest()
    return int.from_bytes(digest, "little")
