"""Which records an encoder has seen, as salted hashes: so that it is not certified on its own training records.

With a fingerprint one can find out whether a given record was in the training data. It lives in memory, and in a
private file if it is saved on purpose; it is never part of the published encoder.

Records are compared in several *views*: with numbers rounded to five digits, three, two or one, and in all columns or
in half of them. So training records are recognised although they were stored as other types, rounded, or changed in one
column. What chance explains is estimated in each view from how often training records resemble each other.
"""

import hashlib
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.repeats import MOST_TIMES, at_most, frequencies, is_chance
from certifare.encoders.hashes import MOST_HASHES, HashSample, hash_rounded, mix
from certifare.errors import FileError
from certifare.foundation.storage import open_regular, write_private
from certifare.tables.frames import Field

FORMAT = "certifare/fingerprint"
VERSION = 2
MAX_BYTES = 1 << 26
"""A file that would take more in memory is refused."""

DIGITS = (18, 10, 6, 3)
"""Binary digits that numbers are rounded to, where records are compared in all columns …"""
HALF_DIGITS = (18, 3)
"""… and in half of them."""
WORDS = {18: "five digits", 10: "three digits", 6: "two digits", 3: "one digit"}
"""The same in decimal digits."""

SLACK = 0.01
"""Share of records beyond chance that is never held against anyone: the two samples may differ a little."""

FACTOR, SHARE = 2.0, 0.02
COARSE_FACTOR, COARSE_SHARE = 3.0, 0.05
"""Records that occurred r times in training may exceed chance by this factor and this share of all records, because a
sample of a part of the population has some kinds of records more often; by more in coarse views."""

SELDOM = 20
"""Records that occurred more often in training are kinds of records, which copies do not tell from others."""

DEVIATIONS = 5.0
"""How many standard deviations the estimate of chance may be off."""

LEVEL = 1e-6
"""An overlap is excessive if chance would explain it with a smaller probability than this."""

MOST_COARSE = 1 << 18
"""So many distinct hashes are kept of each view but the first."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many records an encoder has seen in training, and how many of them chance explains.

    Attributes
    ----------
    records : int
        How many records were looked up.
    seen : int
        How many of them resemble a training record.
    expected : float
        How many of them would if they were fresh records from the training population.
    excessive : bool
        Whether far more were seen than chance explains; see :meth:`Fingerprint.judge`.
    view : str
        How they were compared.
    """

    records: int
    seen: int
    expected: float
    excessive: bool
    view: str

    def __str__(self) -> str:
        return (
            f"{self.seen:,} of {self.records:,} records are among the training records ({self.view}); "
            f"chance explains about {self.expected:,.0f}"
        )


@dataclass(frozen=True, eq=False)
class View:
    """Training records as one view sees them."""

    hashes: NDArray[np.uint32]  # distinct and sorted
    times: NDArray[np.uint8]  # how many records have each; 255 stands for that many or more
    records: int  # how many records there were
    halvings: int  # if there are too many records, only hashes that begin with this many zeros are kept

    @classmethod
    def of(cls, sample: HashSample, divisor: int) -> "View":
        """Make a view of a sample whose records all occur a multiple of ``divisor`` times."""
        times = sample.counts // divisor
        kept = _leading(sample.hashes, sample.halvings)
        return cls(kept, np.minimum(times, MOST_TIMES).astype(np.uint8), int(times.sum()), sample.halvings)

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        """How many different records occurred once, twice and so on."""
        return frequencies(self.times)

    def look_up(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Count records by how often they occurred in training: never, once, twice and so on, (2, times).

        The second row counts equal ones as often as they occurred in training at most: numbers that were rounded more
        than the training records make few different records, which many others share.
        """
        counts = np.zeros((2, MOST_TIMES + 1), dtype=np.int64)
        if not len(self.hashes):
            return counts
        if self.halvings:
            hashes = hashes[hashes >> np.uint64(64 - self.halvings) == 0]
        wanted = np.sort(_leading(hashes, self.halvings))  # looked up in order, several times faster
        starts = np.flatnonzero(np.concatenate([[True], wanted[1:] != wanted[:-1]]))[: len(wanted)]
        wanted, repeats = wanted[starts], np.diff(starts, append=len(wanted))
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        times = np.where(self.hashes[place] == wanted, self.times[place], 0)
        for row, weights in zip(counts, (repeats, np.minimum(repeats, times)), strict=True):
            np.add.at(row, times, weights)
        return counts

    @property
    def chance(self) -> float:
        """Probability that a fresh record from the same population equals a training record.

        It is the share of training records that equal another one: Good and Turing's estimate.
        """
        return 1.0 - float(self.frequencies[1]) / max(self.records, 1)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Salted hashes of training records.

    Attributes
    ----------
    salt : bytes
    names : tuple of str
        The features that were hashed, in order.
    views : tuple of View

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.tables.frames import Frame
    >>> from certifare.encoders.fingerprint import Fingerprint
    >>> frame = Frame(np.random.default_rng(0).normal(size=(1000, 2)))
    >>> fields = [frame.read(0), frame.read(1)]
    >>> print(Fingerprint.of(fields).overlap(fields))
    1,000 of 1,000 records are among the training records (compared up to five digits); chance explains about 0
    """

    salt: bytes
    names: tuple[str, ...]
    views: tuple[View, ...]

    @property
    def records(self) -> int:
        """How many records there were; where every record was copied as often, without the copies."""
        return self.views[0].records

    @classmethod
    def of(cls, fields: Sequence[Field]) -> "Fingerprint":
        """Hash training records with a fresh random salt."""
        return cls.of_parts([fields])

    @classmethod
    def of_parts(cls, parts: Sequence[Sequence[Field]]) -> "Fingerprint":
        """Hash the records of several tables with the same columns, with a fresh random salt."""
        salt, n = secrets.token_bytes(16), sum(len(fields[0]) for fields in parts)
        hashes = [view_hashes(fields, salt) for fields in parts]
        samples = (
            HashSample.merge([HashSample.of(own, n, most) for own in of_view], most)
            for of_view, most in zip(zip(*hashes, strict=True), mosts(len(hashes[0])), strict=True)
        )
        return cls.from_samples(salt, [field.name for field in parts[0]], samples)

    @classmethod
    def from_samples(cls, salt: bytes, names: Sequence[str], samples: Iterable[HashSample]) -> "Fingerprint":
        """Make the fingerprint of records, given samples of all views' hashes, which are taken one at a time."""
        views: list[View] = []
        divisor = 0
        for sample, most in zip(samples, mosts(n_views(len(names))), strict=True):
            whole = sample.sorted(most)
            # A table in which every row was copied is the same sample of people as without the copies.
            divisor = divisor or max(1, int(np.gcd.reduce(whole.counts)))
            views.append(View.of(whole, divisor))
        return cls(salt, tuple(names), tuple(views))

    def overlap(self, fields: Sequence[Field]) -> Overlap:
        """Look up records, and judge what was found."""
        return self.judge(self.look_up(fields))

    def look_up(self, fields: Sequence[Field]) -> NDArray[np.int64]:
        """Count records by how often they occurred in training, in each view; such counts add up over blocks."""
        hashes = view_hashes(fields, self.salt)
        return np.array([view.look_up(row) for view, row in zip(self.views, hashes, strict=True)])

    def judge(self, found: NDArray[np.int64]) -> Overlap:
        """Decide whether more records were found than chance explains.

        Let N_r be the number of records that were found r times in training. Fresh records fall into this class with a
        probability that Good and Turing estimate by (r + 1) f_(r+1) / n, from the numbers f of different training
        records that occurred so often among n. The overlap is excessive if N_r exceeds twice that share and 2 % of the
        records (three times and 5 % in views that see less), or if all N_r of the first view together exceed theirs by
        1 %; and if that number has a probability below one in a million although the estimate is raised by five of its
        standard deviations. Training records fall into class r with the probability r f_r / n, so that a table in which
        every row was copied gives itself away like any other.
        """
        # Where chance does not explain how often training records repeat, it cannot be estimated from that.
        views = self.views if is_chance(self.views[0].frequencies) else self.views[:1]
        for i, (view, counts) in enumerate(zip(views, found, strict=False)):
            n, seen = int(counts[0].sum()), int(counts[0, 1:].sum())
            beyond = _beyond_chance(view, n, counts[1], coarse=i > 0)
            if i == 0:
                beyond = max(beyond, _beyond_chance_together(view, n, seen))
            if beyond:
                return Overlap(n, seen, seen - beyond, True, view_words(i))
        n, seen = int(found[0, 0].sum()), int(found[0, 0, 1:].sum())
        return Overlap(n, seen, n * self.views[0].chance, False, view_words(0))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a private file: with it one can find out whether a record was in the training data."""
        write_private(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return what :meth:`save` writes."""
        content = BytesIO()
        np.savez_compressed(
            content,
            format=np.array(FORMAT),
            version=np.array(VERSION),
            salt=np.frombuffer(self.salt, dtype=np.uint8),
            names=np.array(self.names),
            sizes=np.array([(len(v.hashes), v.records, v.halvings) for v in self.views], dtype=np.int64),
            hashes=np.concatenate([view.hashes for view in self.views]),
            times=np.concatenate([view.times for view in self.views]),
        )
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Fingerprint":
        """Read what :meth:`to_bytes` returned."""
        return cls._read("The fingerprint", lambda: BytesIO(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Fingerprint":
        """Read a file that :meth:`save` wrote."""
        return cls._read(os.fspath(path), lambda: open_regular(path))

    @classmethod
    def _read(cls, path: str, opened: Callable[[], IO[bytes]]) -> "Fingerprint":
        try:
            with opened() as handle, zipfile.ZipFile(handle) as file:
                if str(_member(file, "format")) != FORMAT:
                    raise FileError(f"{path}: this is not a fingerprint.")
                version = int(_member(file, "version"))
                if version != VERSION:
                    raise FileError(
                        f"{path}: version {version} of the fingerprint is not the one that this certifare knows "
                        f"({VERSION}): fit the encoder again, or update certifare."
                    )
                sizes = _member(file, "sizes").astype(np.int64).reshape(-1, 3)
                hashes, times = _member(file, "hashes").astype(np.uint32), _member(file, "times").astype(np.uint8)
                names = tuple(str(name) for name in _member(file, "names"))
                salt = _member(file, "salt").astype(np.uint8).tobytes()
        except FileError:
            raise
        except FileNotFoundError:
            raise FileError(f"There is no file {path}.") from None
        except _DAMAGES as error:
            raise FileError(f"{path}: this is not a fingerprint, or a damaged one ({error}).") from error
        problem = f"{path}: the fingerprint's figures contradict each other."
        stops = np.cumsum(sizes[:, 0])
        fits = len(sizes) == n_views(len(names)) and 0 < len(salt) <= 64 and len(hashes) == len(times)
        if not fits or (sizes < 0).any() or stops[-1] != len(hashes) or (sizes[:, 2] > 63).any():
            raise FileError(problem)
        views = tuple(
            View(of_hashes, of_times, int(records), int(halvings))
            for of_hashes, of_times, (_, records, halvings) in zip(
                np.split(hashes, stops[:-1]), np.split(times, stops[:-1]), sizes, strict=True
            )
        )
        if any((view.times == 0).any() or view.records < int(view.times.sum()) for view in views):
            raise FileError(problem)
        return cls(salt, names, views)


_DAMAGES = (
    ValueError, KeyError, IndexError, EOFError, OSError, TypeError, OverflowError, NotImplementedError, RuntimeError,
    zipfile.BadZipFile, SyntaxError, zlib.error,
)  # fmt: skip


def n_views(n_columns: int) -> int:
    """Return the number of views of a table: only one if it has a single column."""
    return len(DIGITS) + 2 * len(HALF_DIGITS) if n_columns > 1 else 1


def mosts(n: int) -> list[int]:
    """Return the number of distinct hashes to keep of each view; most of the first."""
    return [MOST_HASHES, *[MOST_COARSE] * (n - 1)]


def view_hashes(fields: Sequence[Field], salt: bytes) -> list[NDArray[np.uint64]]:
    """Hash records as each view sees them: all columns at each rounding, then both halves of the columns."""
    if len(fields) == 1:
        return list(hash_rounded(fields, salt, DIGITS[:1]))
    # Which columns are in which half is the salt's choice.
    order = sorted(
        range(len(fields)),
        key=lambda i: hashlib.blake2b(f"{i}\x00half".encode(), key=salt, digest_size=8).digest(),
    )
    of_one, of_other = (
        hash_rounded([fields[i] for i in sorted(part)], salt, DIGITS)
        for part in (order[: len(order) // 2], order[len(order) // 2 :])
    )
    seen_by_half = [DIGITS.index(digits) for digits in HALF_DIGITS]
    alone = [half[i].copy() for half in (of_one, of_other) for i in seen_by_half]
    for one, other in zip(of_one, of_other, strict=True):
        one[:] = mix(one ^ mix(other))
    return [*of_one, *alone]


def view_words(position: int) -> str:
    """Describe how a view compares records."""
    if position < len(DIGITS):
        return f"compared up to {WORDS[DIGITS[position]]}"
    return f"compared in half of the columns, up to {WORDS[HALF_DIGITS[(position - len(DIGITS)) % len(HALF_DIGITS)]]}"


def samples_of(fields: Sequence[Field], salt: bytes, n_records: int) -> tuple[HashSample, ...]:
    """Sample the hashes of some of ``n_records`` records, in each view."""
    hashes = view_hashes(fields, salt)
    return tuple(HashSample.of(row, n_records, most) for row, most in zip(hashes, mosts(len(hashes)), strict=True))


def merge_samples(parts: Sequence[Sequence[HashSample]]) -> tuple[HashSample, ...]:
    """Sample all records, given the samples of parts of them."""
    of_views = list(zip(*parts, strict=True))
    return tuple(HashSample.merge(of_view, most) for of_view, most in zip(of_views, mosts(len(of_views)), strict=True))


def _leading(hashes: NDArray[np.uint64], halvings: int) -> NDArray[np.uint32]:
    """Keep 32 bits after the zeros that all hashes of a sample begin with: enough to distinguish them."""
    return (hashes << np.uint64(halvings) >> np.uint64(32)).astype(np.uint32)


def _beyond_chance(view: View, n: int, counts: NDArray[np.int64], *, coarse: bool) -> float:
    """Return how many records of one class exceed chance; 0 if chance explains them."""
    from scipy.stats import binom

    factor, share = (COARSE_FACTOR, COARSE_SHARE) if coarse else (FACTOR, SHARE)
    of = view.frequencies
    # Kinds of records that occur often do so in all parts of a panel equally often: there is no class above to go by.
    r = np.flatnonzero(counts[: SELDOM + 1])
    r = r[r > 0]
    if not len(r):
        return 0.0
    chance = (r + 1) * of[r + 1] / view.records
    variance = (r + 1) ** 2 * at_most(of[r + 1]) + (r + 1) * (r + 2) * at_most(of[r + 2])
    highest = np.minimum(1.0, factor * chance + DEVIATIONS * np.sqrt(variance) / view.records)
    too_many = (counts[r] > n * (factor * chance + share)) & (binom.sf(counts[r] - 1, n, highest) < LEVEL)
    return float((counts[r] - n * chance)[too_many].sum())


def _beyond_chance_together(view: View, n: int, seen: int) -> float:
    """Return how many records of all classes together exceed chance; 0 if chance explains them (Esty 1983)."""
    from scipy.stats import binom

    if seen <= n * (view.chance + SLACK):  # so it is where nothing was looked up
        return 0.0
    single, pairs = (float(view.frequencies[i]) / view.records for i in (1, 2))
    spread = math.sqrt((single * (1.0 - single) + 2.0 * pairs) / view.records)
    highest = min(1.0, view.chance + DEVIATIONS * spread + DEVIATIONS / view.records)
    return seen - n * view.chance if binom.sf(seen - 1, n, highest) < LEVEL else 0.0


def _member(file: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array of the file, if it is as large as it says, and not too large."""
    info = file.getinfo(f"{name}.npy")
    if info.file_size > MAX_BYTES:
        raise ValueError(f"{name} has {info.file_size:,} bytes, where {MAX_BYTES:,} are the most that are accepted")
    content = BytesIO(file.read(info))
    if np.lib.format.read_magic(content) != (1, 0):
        raise ValueError(f"{name} is of another version of the array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(content)
    if math.prod(shape) * dtype.itemsize > info.file_size:
        raise ValueError(f"{name} claims to be larger than it is")
    content.seek(0)
    return np.lib.format.read_array(content, allow_pickle=False)
