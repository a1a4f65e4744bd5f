"""Which records an encoder has seen, as salted hashes: so that it is not certified on its own training records.

A fingerprint tells whoever holds it whether a given record was in the training data. It lives in memory, and in a
private file if it is saved on purpose; it is never part of the published encoder.
"""

import hashlib
import math
import os
import secrets
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.columns import Field
from certifare.compiler import WORTH_COMPILING, helper, kernel
from certifare.errors import EncoderFileError
from certifare.growth import Dictionary
from certifare.storage import open_regular

FORMAT = "certifare/fingerprint"
VERSION = 1

SLACK = 0.01
"""Share of records beyond chance that is never held against anyone: the two samples may differ a little."""

DEVIATIONS = 5.0
"""How many standard deviations the estimate of chance may be off."""

LEVEL = 1e-6
"""An overlap is excessive if chance would explain it with a smaller probability than this."""

BLOCK = 1 << 16

WHOLE = (1 << 64) - 1
"""The largest hash."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many records an encoder has seen in training, and how many of them chance explains.

    Attributes
    ----------
    records : int
        How many records were looked up.
    seen : int
        How many of them are equal, in every feature, to a training record.
    expected : float
        How many of them would be if they were fresh records from the training population.
    excessive : bool
        Whether far more were seen than chance explains; see :meth:`Fingerprint.overlap`.
    """

    records: int
    seen: int
    expected: float
    excessive: bool

    def __str__(self) -> str:
        return (
            f"{self.seen:,} of {self.records:,} records equal a training record; "
            f"by chance about {self.expected:,.0f} would"
        )


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Salted hashes of training records.

    Attributes
    ----------
    salt : bytes
    names : tuple of str
        The features that were hashed, in order.
    hashes : ndarray of uint64
        Distinct and sorted.
    records, singles, pairs : int
        How many records there were, and how many hashes occurred once and twice.
    limit : int
        Of records beyond what memory holds, only those with a hash up to this were kept, and only such are looked up.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.columns import Frame
    >>> from certifare.encoders.fingerprint import Fingerprint
    >>> frame = Frame(np.random.default_rng(0).normal(size=(1000, 2)))
    >>> fields = [frame.read(0), frame.read(1)]
    >>> print(Fingerprint.of(fields).overlap(fields))
    1,000 of 1,000 records equal a training record; by chance about 0 would
    """

    salt: bytes
    names: tuple[str, ...]
    hashes: NDArray[np.uint64]
    records: int
    singles: int
    pairs: int
    limit: int = WHOLE

    @classmethod
    def of(cls, fields: Sequence[Field]) -> "Fingerprint":
        """Hash training records with a fresh random salt."""
        salt = secrets.token_bytes(16)
        hashes = hash_records(fields, salt)
        hashes.sort()
        starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
        repeats = np.diff(starts, append=len(hashes))
        return cls(
            salt=salt,
            names=tuple(field.name for field in fields),
            hashes=hashes[starts],
            records=len(hashes),
            singles=int((repeats == 1).sum()),
            pairs=int((repeats == 2).sum()),
        )

    @property
    def chance(self) -> float:
        """Probability that a fresh record from the same population equals a training record.

        It is the share of training records that equal another one: Good and Turing's estimate.
        """
        return 1.0 - self.singles / self.records

    def overlap(self, fields: Sequence[Field]) -> Overlap:
        """Look records up.

        The overlap is excessive if it exceeds chance by more than 1 % of the records, and if so many matches have a
        probability below one in a million although the estimate of chance is raised by five of its standard
        deviations (Esty 1983).
        """
        return self.judge(*self.look_up(fields))

    def look_up(self, fields: Sequence[Field]) -> tuple[int, int]:
        """Count how many records could be looked up, and how many of them were found. Both add up over blocks."""
        hashes = hash_records(fields, self.salt)
        hashes = np.sort(hashes[hashes <= np.uint64(self.limit)])  # looked up in order, several times faster
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return len(hashes), int((self.hashes[place] == hashes).sum())

    def judge(self, n: int, seen: int) -> Overlap:
        """Say whether ``seen`` of ``n`` records are more than chance explains."""
        return Overlap(n, seen, n * self.chance, n > 0 and self._excessive(seen, n))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a private file. Whoever has it can tell whether a record was in the training data."""
        with open(path, "wb") as file:
            np.savez_compressed(
                file,
                format=np.array(FORMAT),
                version=np.array(VERSION),
                salt=np.frombuffer(self.salt, dtype=np.uint8),
                names=np.array(self.names),
                hashes=self.hashes,
                counts=np.array([self.records, self.singles, self.pairs], dtype=np.int64),
                limit=np.array(self.limit, dtype=np.uint64),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Fingerprint":
        """Read a file that :meth:`save` wrote."""
        try:
            with open_regular(path) as handle, np.load(handle, allow_pickle=False) as file:
                if str(file["format"]) != FORMAT:
                    raise EncoderFileError(f"{path}: this is not a fingerprint.")
                if int(file["version"]) > VERSION:
                    raise EncoderFileError(
                        f"{path}: version {int(file['version'])} is newer than this certifare knows."
                    )
                hashes, counts = file["hashes"], file["counts"]
                loaded = cls(
                    salt=file["salt"].astype(np.uint8).tobytes(),
                    names=tuple(str(name) for name in file["names"]),
                    hashes=hashes.astype(np.uint64),
                    records=int(counts[0]),
                    singles=int(counts[1]),
                    pairs=int(counts[2]),
                    limit=int(file["limit"]),
                )
        except EncoderFileError:
            raise
        except FileNotFoundError:
            raise EncoderFileError(f"There is no file {path}.") from None
        except (ValueError, KeyError, IndexError, EOFError, OSError, TypeError, zipfile.BadZipFile) as error:
            raise EncoderFileError(f"{path}: this is not a fingerprint, or a damaged one ({error}).") from error
        if loaded.records < max(1, len(loaded.hashes)) or not len(loaded.hashes):
            raise EncoderFileError(f"{path}: the fingerprint's counts contradict each other.")
        return loaded

    def _excessive(self, seen: int, n: int) -> bool:
        from scipy.stats import binom

        if seen <= n * (self.chance + SLACK):
            return False
        single = self.singles / self.records
        spread = math.sqrt((single * (1.0 - single) + 2.0 * self.pairs / self.records) / self.records)
        chance = min(1.0, self.chance + DEVIATIONS * spread + DEVIATIONS / self.records)
        return bool(binom.sf(seen - 1, n, chance) < LEVEL)


def hash_records(fields: Sequence[Field], salt: bytes) -> NDArray[np.uint64]:
    """Hash each record's features: equal values give equal hashes, whatever table or dtype they come from."""
    n = len(fields[0])
    hashes = np.zeros(n, dtype=np.uint64)
    for i, field in enumerate(fields):
        key = hashlib.blake2b(f"{i}\x00{field.name}".encode(), key=salt, digest_size=8).digest()
        offset = np.frombuffer(key, dtype=np.uint64)[0]
        column = field.column
        if isinstance(column, Dictionary):
            table = np.array([*(_hash_text(value, salt) for value in column.values), 0], dtype=np.uint64)
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            bits = table[column.indices[rows]] if isinstance(column, Dictionary) else _bits(column[rows])
            if n < WORTH_COMPILING:
                hashes[rows] = mix(hashes[rows] ^ mix(bits + offset))
            else:
                _add(hashes[rows], bits, offset)
    return hashes


def hash_numbers(start: int, n: int, key: int) -> NDArray[np.uint64]:
    """Hash the numbers ``start … start + n - 1``: rows are dealt by it, whatever they hold."""
    numbers = np.arange(start, start + n, dtype=np.uint64)
    return mix(mix(numbers) ^ mix(np.array([key], dtype=np.uint64)))


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all others (the finaliser of splitmix64); overflow is meant."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


_mix_one = helper(mix)


@kernel
def _add(hashes: NDArray[np.uint64], bits: NDArray[np.uint64], offset: np.uint64) -> None:
    """Add a column to the hashes of records."""
    for i in range(len(hashes)):
        hashes[i] = _mix_one(hashes[i] ^ _mix_one(bits[i] + offset))


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Bit pattern of numbers as float64, with one zero and one NaN."""
    numbers = values.astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64)


def _hash_text(value: str, salt: bytes) -> int:
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=salt, digest_size=8).digest()
    return int.from_bytes(digest, "little")
