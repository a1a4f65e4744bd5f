"""The ledger: it remembers certification records, so that repeated looks at them are counted.

It is a file in the user's state folder, and holds only salted digests. For each look it stores the ε spent, digests of
where the records came from, the sizes of their groups, and a sample of the records, each column hashed separately,
whatever its role. Two looks share records if

- they have an origin in common: the file or dataframe, the records in any order, or the order of the groups in them;
- or records of one are among those of the other, in some of the columns that both have. New records are compared with
  the sample in all of these columns, in each, in parts of them, and in those whose values agree. So records are
  recognised in another order, as a subset, and after columns were dropped or scaled. Different people may have equal
  records by chance; how often the new records equal each other shows how often this happens (Good–Turing);
- or they have no column in common, and their groups are equally large: a file, and counts of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import math
import os
import secrets
import sqlite3
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import bdtrc

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.exact import epsilon_at
from certifare.certificates.looks import Look, confidence_left, confidence_of_look
from certifare.certificates.rounding import percent
from certifare.encoders.hashes import mix
from certifare.errors import FileError, LooksError
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import stream
from certifare.foundation.storage import open_regular
from certifare.tables.table import Table

#: Environment variable with the state folder; ``off`` switches the ledger off.
VARIABLE, OFF = "CERTIFARE_STATE", "off"
FILE = "ledger.sqlite"
VERSION = 2
#: Records kept of a look; fewer for wide tables, up to this many values, but at least the last number of records.
SAMPLE, VALUES, LEAST_SAMPLE = 512, 1 << 16, 64
#: If there are more looks, the oldest are deleted.
MOST_LOOKS = 2_000
#: Records are shared if chance explains the matches with a smaller probability than this level, even if its estimate is
#: raised by this many standard deviations. A look too many costs confidence; one too few would overstate it.
LEVEL, DEVIATIONS = 1e-3, 3.0
#: A column agrees with an earlier look if this share of the look's values occur in it.
AGREEING = 0.9
#: A column numbers the records, and does not describe people, if its values are different multiples of one step that
#: fill more than this share of their range, although random ones would repeat more often than this.
FILLED, REPEATS = 0.01, 8
#: The order of the groups identifies records if its first records compress to more bytes than this, and more than any
#: repeating pattern would.
ORDER_BYTES, ORDER_RECORDS = 48, 1 << 16
#: First word of an origin that consists of group sizes.
SIZES = "sizes"
#: The bits that represent a missing value: those of NaN.
MISSING_BITS = 0x7FF8000000000000
_NUMERIC = tuple("+-.0123456789")
#: Seconds to wait for another run that holds the ledger.
PATIENCE = 60.0

SCHEMA = """
CREATE TABLE about (version INTEGER NOT NULL, salt BLOB NOT NULL);
CREATE TABLE looks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, statement BLOB NOT NULL, epsilon TEXT NOT NULL, origins TEXT NOT NULL,
    sizes TEXT NOT NULL, shared TEXT NOT NULL, columns TEXT NOT NULL, records INTEGER NOT NULL, sample BLOB NOT NULL
);
"""


@dataclass(frozen=True, eq=False)
class Traces:
    """What the ledger knows about the certification records of a look.

    Looks that share an origin share records. Sizes are compared if two looks have no column in common; there are no
    columns if the records were counted elsewhere. The same job again is not a new look.
    """

    origins: frozenset[str] = frozenset()
    sizes: frozenset[str] = frozenset()
    columns: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)
    job: str | None = None

    @cached_property
    def _comparisons(self) -> dict[tuple[str, ...], _Comparison]:
        return {}

    def share_records(self, names: Sequence[str], sample: NDArray[np.uint32]) -> bool:
        """Return whether these records contain a sample of an earlier look (a row for each of the named columns)."""
        place = {name: i for i, name in enumerate(names) if name in self.columns}
        shared = tuple(sorted(place))
        if not shared or not sample.shape[1]:
            return False
        if shared not in self._comparisons:
            self._comparisons[shared] = _Comparison({name: self.columns[name] for name in shared})
        return self._comparisons[shared].finds(sample[[place[name] for name in shared]])


class _View(NamedTuple):
    """The records in some of the columns."""

    distinct: NDArray[np.uint64]  # hashes, sorted
    chance: float  # probability that a fresh record is among them

    @classmethod
    def of(cls, records: NDArray[np.uint64], level: float) -> _View:
        """Estimate the chance from the share of records that occur once (Good–Turing).

        If a full sample of matches would be no surprise at the level, the hashes are not needed and not kept.
        """
        distinct, times = np.unique(records, return_counts=True)
        n, once, twice = len(records), int((times == 1).sum()), int((times == 2).sum())
        single = once / n
        spread = math.sqrt((single * (1.0 - single) + 2.0 * twice / n) / n)
        # Hashes of one column have 32 bits, and may be equal by chance.
        chance = min(1.0, 1.0 - single + DEVIATIONS * (spread + 1.0 / n) + n / 2**32)
        if chance**SAMPLE >= level:
            distinct = distinct[:1].copy()
        return cls(distinct, chance)


class _Comparison:
    """Compares the records of a look with samples of earlier looks, in columns that both have.

    They are compared in all columns, in each column, in parts from repeated halving of the columns, and in the columns
    that agree. Each of these comparisons has an equal share of the level.
    """

    def __init__(self, columns: Mapping[str, NDArray[np.uint32]]) -> None:
        names = sorted(columns)
        self._columns = [columns[name] for name in names]
        self._factors = np.array([int(name[:16], 16) | 1 for name in names], dtype=np.uint64)
        self._values = [np.unique(column) for column in self._columns]
        self._sets = _halvings(len(names))
        self._level = LEVEL / (len(self._sets) + 1)
        # Records repeat if there are fewer combinations of values than records.
        digits = np.log([len(values) for values in self._values])
        combinations = np.array([digits[a:b].sum() for a, b in self._sets]) - math.log(len(self._columns[0]))
        self._least_chance = 1.0 - np.exp(np.minimum(0.0, combinations))
        self._views: dict[bytes, _View] = {}

    def finds(self, sample: NDArray[np.uint32]) -> bool:
        """Return whether more of a sample (a row for each column) is among the records than chance explains."""
        n, n_records = sample.shape[1], len(self._columns[0])
        among = np.array([_occurs(row, values) for row, values in zip(sample, self._values, strict=True)])
        hashes = sample * self._factors[:, np.newaxis]
        agreeing = np.flatnonzero(among.mean(axis=1) >= AGREEING)
        if len(agreeing) and self._finds(agreeing, hashes, among):
            return True
        # A record that is among these is among them in each column.
        packed = np.packbits(among, axis=1)
        packed = np.concatenate([packed, packed[:1]])  # the last slices end here
        most = np.unpackbits(np.bitwise_and.reduceat(packed, self._sets.ravel())[::2], axis=1).sum(axis=1)
        if n_records < n:
            most = np.where(most > 0, n_records, 0)
        for i in np.flatnonzero(bdtrc(most - 1.0, min(n, n_records), self._least_chance) < self._level):
            columns = np.arange(*self._sets[i])
            if self._finds(columns, hashes, among):
                return True
            if n_records >= SAMPLE:
                self._least_chance[i] = self._view(columns).chance
        return False

    def _finds(self, columns: NDArray[np.intp], hashes: NDArray[np.uint64], among: NDArray[np.bool_]) -> bool:
        """Return whether more of a sample is among the records, in some columns, than chance explains.

        If there are fewer records than in the sample, they are searched in the sample: the larger side estimates it.
        """
        earlier, n_records = hashes[columns].sum(axis=0), len(self._columns[0])
        if n_records < len(earlier):
            n, tried, view = n_records, self._hash(columns), _View.of(earlier, self._level)
        else:
            n, tried, view = len(earlier), earlier[among[columns].all(axis=0)], self._view(columns)
        if bdtrc(len(tried) - 1.0, n, view.chance) >= self._level:
            return False
        return bool(bdtrc(_occurs(tried, view.distinct).sum() - 1.0, n, view.chance) < self._level)

    def _view(self, columns: NDArray[np.intp]) -> _View:
        key = columns.tobytes()
        if key not in self._views:
            self._views[key] = _View.of(self._hash(columns), self._level)
        return self._views[key]

    def _hash(self, columns: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return hashes of the records in some columns."""
        records = np.zeros(len(self._columns[0]), dtype=np.uint64)
        for i in columns:
            records += self._columns[i] * self._factors[i]
        return records


class _Earlier(NamedTuple):
    """An earlier look in the ledger, without its sample.

    ``shared`` are the looks before it that share records with it.
    """

    number: int
    statement: bytes
    epsilon: Decimal
    records: int
    shared: set[int]
    origins: list[str]
    sizes: list[str]
    columns: list[str]


@dataclass(frozen=True)
class Ledger:
    """The file in which looks are counted."""

    path: Path | None  # none if looks are not counted
    reason: str | None = None  # why looks are not counted, if the user did not switch the ledger off

    @cached_property
    def salt(self) -> bytes:
        """Key of the ledger's digests, which reveal nothing without it."""
        with self._open() as connection:
            return bytes(connection.execute("SELECT salt FROM about").fetchone()[0])

    def digest(self, *parts: str) -> str:
        """Return a digest of where records came from."""
        content = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self.salt, digest_size=16).hexdigest()

    def confidence_of_look(self, confidence: float, planned: int | None) -> float:
        """Return the confidence of each of several planned looks; raise if looks cannot be counted."""
        if planned is not None and self.path is None:
            raise LooksError(
                f"Planned looks must be counted, but the ledger is off{f' ({self.reason})' if self.reason else ''}. "
                "Switch it on, or leave --looks out."
            )
        return confidence_of_look(confidence, planned)

    def origin(self, *sources: Sequence[str]) -> Traces:
        """Return the traces of certification records that were counted elsewhere."""
        if self.path is None:
            return Traces()
        sizes, others = (
            frozenset(self.digest(*source) for source in sources if (source[0] == SIZES) == wanted)
            for wanted in (True, False)
        )
        return Traces(others, sizes)

    def trace(self, records: Table, source: Table | None = None) -> Traces:
        """Return the traces of certification records."""
        if self.path is None:
            return Traces()
        whole = records if source is None else source
        tables = (records,) if source is None else (records, source)
        columns = [self._columns(table) for table in tables]
        origins = [self._checksum(table) for table in columns]
        if whole.groups is not None and (order := _order(whole.groups)) is not None:
            origins.append(self.digest("order", order))
        sizes = (self.digest(*sizes_origin(groups)) for table in tables for groups in _groups(table))
        # A column that numbers the records of the whole table also numbers those of a part.
        compared = {name: hashes for name, hashes in columns[0].items() if name in columns[-1]}
        return Traces(frozenset(origins), frozenset(sizes), compared)

    def of_job(self, traces: Traces, *parts: str) -> Traces:
        """Return traces that know the job, which is named by all that its result depends on."""
        if self.path is None:
            return traces
        job = self.digest("job", *parts)
        return replace(traces, job=job, origins=traces.origins | {job})

    def allot(self, traces: Traces, confidence: float, planned: int | None = None) -> float:
        """Return the confidence of the next look, so that all looks at its records hold together with ``confidence``.

        Nothing is counted yet. A job that was done before gets what it had then.
        """
        share = self.confidence_of_look(confidence, planned)
        if self.path is None:
            return share
        with self._open() as connection:
            shared = self._shared(traces, connection)
        before = list(itertools.takewhile(lambda earlier: traces.job not in earlier.origins, shared))
        spent = float(sum((earlier.epsilon for earlier in before), Decimal(0)))
        look = self._checked(Look(number=len(before) + 1, spent=spent, planned=planned))
        spent = max(spent, look.least_spent(confidence))
        left = confidence_left(confidence, spent) if planned is None else share
        if left is not None and (planned is None or look.joint(share) >= confidence):
            return left
        times = "once" if look.number == 2 else f"{look.number - 1} times"
        lower = round(confidence - spent, 9)
        less = f" Or ask for less: --confidence {lower:.4g} leaves this look {percent(confidence)}."
        raise LooksError(
            f"{percent(confidence)} confidence cannot be reached on these certification records, or some of them: they "
            f"were looked at {times} before, which spent ε = {spent:g}. Use new records. If you want several looks at "
            f"the same records, plan them from the first run on (--looks {look.number}).{less if lower > 0.5 else ''}",
            lower if lower > 0.5 else None,
        )

    def count(
        self, traces: Traces, statement: Sequence[str], confidence: float, planned: int | None = None
    ) -> Look | None:
        """Count a look and return its number; None if looks are not counted.

        Certifying the same again on the same records is not a new look.
        """
        if self.path is None:
            return None
        epsilon = Decimal(repr(epsilon_at(confidence)))
        own = hashlib.blake2b("\0".join(statement).encode(), key=self.salt, digest_size=16).digest()
        with self._open() as connection:
            spent, number = Decimal(0), 1
            shared = self._shared(traces, connection)
            for earlier in shared:
                if earlier.statement == own:
                    return self._checked(Look(number=number, spent=float(spent), planned=planned))
                spent, number = spent + earlier.epsilon, number + 1
            look = self._checked(Look(number=number, spent=float(spent), planned=planned))
            self._add(connection, traces, own, epsilon, [earlier.number for earlier in shared])
            return look

    def _checked(self, look: Look) -> Look:
        if look.planned is not None and look.number > look.planned:
            raise LooksError(
                f"{look.planned} looks were planned, but these certification records, or some of them, were used "
                f"{look.number - 1} times before. Certify on fresh records. This look's results are not shown."
            )
        return look

    def _read(self, row: tuple[Any, ...]) -> _Earlier:
        try:
            number, statement, epsilon, records, shared, *lists = row
            numbers = msgspec.json.decode(shared, type=set[int])
            listed = (msgspec.json.decode(text, type=list[str]) for text in lists)
            return _Earlier(int(number), bytes(statement), Decimal(epsilon), int(records), numbers, *listed)
        except (ValueError, ArithmeticError, TypeError) as error:
            raise self._damaged(error) from error

    def _shared(self, traces: Traces, connection: sqlite3.Connection) -> list[_Earlier]:
        """Return the earlier looks that share records with a new one.

        Looks with a common origin use the same records: a look that shares records with one shares them with all.
        """
        rows = connection.execute(
            "SELECT number, statement, epsilon, records, shared, origins, sizes, columns FROM looks ORDER BY number"
        )
        looks = [self._read(row) for row in rows]
        same = _of_origins(looks, traces.origins)
        known = same.union(*(earlier.shared for earlier in looks if earlier.number in same))
        found = {
            earlier.number: earlier.origins
            for earlier in looks
            if earlier.number in known
            or not same.isdisjoint(earlier.shared)
            or self._shares(traces, earlier, connection)
        }
        numbers = found.keys() | _of_origins(looks, itertools.chain.from_iterable(found.values()))
        return [earlier for earlier in looks if earlier.number in numbers]

    def _shares(self, traces: Traces, earlier: _Earlier, connection: sqlite3.Connection) -> bool:
        """Return whether an earlier look with other origins shares records with a new one."""
        if traces.columns.keys().isdisjoint(earlier.columns):
            return not traces.sizes.isdisjoint(earlier.sizes)
        (kept,) = connection.execute("SELECT sample FROM looks WHERE number = ?", (earlier.number,)).fetchone()
        try:
            sample = np.frombuffer(kept, dtype="<u4").reshape(len(earlier.columns), earlier.records)
        except (ValueError, TypeError) as error:
            raise self._damaged(error) from error
        return traces.share_records(earlier.columns, sample)

    def _add(
        self, connection: sqlite3.Connection, traces: Traces, statement: bytes, epsilon: Decimal, shared: Sequence[int]
    ) -> None:
        names = sorted(traces.columns)
        n = len(traces.columns[names[0]]) if names else 0
        kept = min(SAMPLE, max(LEAST_SAMPLE, VALUES // max(1, len(names))))
        rows = np.sort(stream(int.from_bytes(self.salt), "records of a look").permutation(n)[:kept])
        sample = np.array([traces.columns[name][rows] for name in names], dtype="<u4")
        connection.execute(
            "INSERT INTO looks (statement, epsilon, origins, sizes, shared, columns, records, sample) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (statement, str(epsilon), json.dumps(sorted(traces.origins)), json.dumps(sorted(traces.sizes)),
             json.dumps(shared), json.dumps(names), len(rows), sample.tobytes()),
        )  # fmt: skip
        connection.execute("DELETE FROM looks WHERE number <= (SELECT max(number) FROM looks) - ?", (MOST_LOOKS,))

    def _columns(self, table: Table) -> dict[str, NDArray[np.uint32]]:
        """Hash every column of each record, whatever its role, except columns that number the records.

        The keys are digests of the column names. Equal values have equal hashes, whatever their type.
        """
        features, others = table.features, table.others
        columns = list(zip(features.column_names, features.columns, strict=True))
        if others is not None:
            columns += zip(others.column_names, others.columns, strict=True)
        else:
            roles = (*table.labels, *([] if table.groups is None else [table.groups]))
            columns += [(levels.name, pa.chunked_array([levels.to_arrow()])) for levels in roles]
        found = {}
        for name, column in columns:
            bits = self._bits(column)
            if bits is not None:
                key = self.digest("column", name)
                found[key] = _scramble(key, bits)
        return found

    def _bits(self, column: pa.ChunkedArray) -> NDArray[np.uint64] | None:
        """Return 64 bits for each value of a column; None if it numbers the records."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        if pa.types.is_decimal(kind):
            column, kind = column.cast(pa.string()).cast(pa.float64()), pa.float64()
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64) + 0.0  # no −0 …
            bits = numbers.view(np.uint64)
            missing = np.isnan(numbers)
            if missing.any():
                bits = np.where(missing, np.uint64(MISSING_BITS), bits)  # … and only one NaN
            return None if _numbers_records(numbers) else bits
        try:
            encoded = column.dictionary_encode().unify_dictionaries()
        except pa.ArrowNotImplementedError:
            texts = [None if value is None else str(value) for value in column.to_pylist()]
            encoded = pa.chunked_array([texts], type=pa.string()).dictionary_encode()
        indices: NDArray[np.int64] = np.concatenate(
            [chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy() for chunk in encoded.chunks]
        )
        # The last entry is for missing values, whose index is −1.
        return self._bits_of([*encoded.chunk(0).dictionary.to_pylist(), None])[indices]

    def _bits_of(self, values: Sequence[Any]) -> NDArray[np.uint64]:
        """Return 64 bits for the text of each value; for numbers, the bits of the float."""
        keyed = hashlib.blake2b(key=self.salt, digest_size=8)

        def bits(text: str) -> bytes:
            if text[:1] in _NUMERIC:
                with contextlib.suppress(ValueError):
                    return struct.pack("<d", float(text) + 0.0)
            state = keyed.copy()
            state.update(text.encode("utf-8", "surrogatepass"))
            return state.digest()

        missing = struct.pack("<Q", MISSING_BITS)
        joined = b"".join(missing if value is None else bits(str(value)) for value in values)
        return np.frombuffer(joined, dtype="<u8").astype(np.uint64)

    def _checksum(self, columns: Mapping[str, NDArray[np.uint32]]) -> str:
        """Return a digest of records, whatever their order."""
        names = sorted(columns)
        records = np.zeros(len(columns[names[0]]) if names else 0, dtype=np.uint64)
        for name in names:
            records = mix(records + columns[name])
        sums = (int(np.sum(part, dtype=np.uint64)) for part in (records, mix(records + np.uint64(1))))
        return self.digest("records", *names, str(len(records)), *map(str, sums))

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open and lock the ledger; if anything fails, it is left unchanged."""
        assert self.path is not None  # noqa: S101  (callers check)
        try:
            connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            try:
                connection.execute("BEGIN IMMEDIATE")
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                if not tables:
                    for command in SCHEMA.split(";"):
                        connection.execute(command)
                    connection.execute("INSERT INTO about VALUES (?, ?)", (VERSION, secrets.token_bytes(32)))
                if [*connection.execute("SELECT version FROM about")] != [(VERSION,)]:
                    raise FileError(
                        f"The ledger {str(self.path)!r} does not have version {VERSION}, which this certifare needs. "
                        "Use the certifare that wrote it, or move it away to start counting looks again."
                    )
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise self._damaged(error) from error
            raise FileError(
                f"Another run holds the ledger {str(self.path)!r}. Try again, or count no looks (CERTIFARE_STATE=off)."
            ) from error
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> FileError:
        return FileError(
            f"The ledger {str(self.path)!r} is damaged or cannot be read ({error}). Restore a copy, or move it away to "
            "start counting looks again, or do not count them (CERTIFARE_STATE=off; in Python ledger=False)."
        )


#: A ledger that counts nothing.
NO_LEDGER = Ledger(None)


def open_ledger(wanted: bool = True) -> Ledger:
    """Return the user's ledger; one that counts nothing if it is not wanted, off, or not writable."""
    folder = state_folder() if wanted else None
    if folder is None:
        return NO_LEDGER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / FILE
        path.touch(mode=0o600)
        open_regular(path).close()
        # SQLite writes its journal next to the file.
        if not (os.access(folder, os.W_OK) and os.access(path, os.W_OK)):
            raise PermissionError(errno.EACCES, "it cannot be written", str(path))
    except OSError as error:
        return Ledger(None, f"looks are not counted: no ledger can be written in {str(folder)!r} ({error.strerror})")
    return Ledger(path)


def state_folder() -> Path | None:
    """Return the folder for state: CERTIFARE_STATE or the platform's default; None if off."""
    named = os.environ.get(VARIABLE)
    if named:
        return None if named.lower() == OFF else Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "certifare"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "certifare"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "certifare"


def statement_of(encoder: str, certificate: Certificate) -> str:
    """Return a digest of a look's result: which encoder has which certificate."""
    plain = json.dumps(certificate.to_dict(), sort_keys=True)
    return hashlib.sha256(f"{encoder}\0{plain}".encode()).hexdigest()


def sizes_origin(groups: CellCounts | Levels | Mapping[str, int]) -> tuple[str, ...]:
    """Return the group sizes as an origin of records, which does not depend on the encoder or the source.

    >>> sizes_origin({"m": 20, "f": 30, "other": 0})
    ('sizes', 'f', '30', 'm', '20')
    """
    if isinstance(groups, Levels):
        groups = dict(zip(groups.names, groups.counts().tolist(), strict=True))
    sizes = groups.group_sizes if isinstance(groups, CellCounts) else groups
    return (SIZES, *(word for group, n in sorted(sizes.items()) if n for word in (group, str(n))))


def _of_origins(looks: Sequence[_Earlier], origins: Iterable[str]) -> set[int]:
    """Return the looks that have one of the origins, or a common origin with a look that does."""
    known, found = set(origins), set[int]()
    while more := [look for look in looks if look.number not in found and not known.isdisjoint(look.origins)]:
        found.update(look.number for look in more)
        known.update(origin for look in more for origin in look.origins)
    return found


def _groups(table: Table) -> tuple[Levels, ...]:
    """Return the groups of all records, and of those with a label, which some metrics count alone."""
    if table.groups is None:
        return ()
    return (table.groups, table.groups.take(np.flatnonzero(table.labelled)))


def _order(groups: Levels) -> str | None:
    """Return a digest of the order of groups; None if other records may have the same order, such as sorted ones.

    The names of the groups do not matter.
    """
    found, first, codes = np.unique(groups.codes, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first)).astype(np.uint16)[codes]
    steps = np.diff(place[:ORDER_RECORDS])
    shares = np.bincount(codes, minlength=len(found)) / len(codes)
    mixed = np.count_nonzero(steps) >= 0.5 * len(steps) * (1.0 - float(shares @ shares))
    if not mixed or len(zlib.compress(steps.tobytes())) < ORDER_BYTES + len(steps) // 64:
        return None
    return hashlib.blake2b(place.astype("<u2").tobytes(), digest_size=16).hexdigest()


def _numbers_records(values: NDArray[np.float64]) -> bool:
    """Return whether numbers count the records, or most of the records that they were taken from."""
    n = len(values)
    low, high = (float(values.min()), float(values.max())) if n else (0.0, 0.0)
    span = high - low
    if not 0.0 < span < math.inf:  # also if some are missing
        return False
    whole = span < 2**53 and bool((values == np.floor(values)).all())
    if whole and span + 1.0 < n:
        return False  # some are repeated
    step = float(np.gcd.reduce((values - low).astype(np.int64))) if whole else span / (n - 1)
    places = span / step + 1.0 if step else math.inf
    if n <= FILLED * places or n * n <= 2.0 * REPEATS * places:
        return False
    for part in (values[:100], values):  # the first few decide for most columns
        place = (part - low) / step
        if np.abs(place - np.rint(place)).max() > 1e-6:
            return False
    return len(np.unique(np.rint(place))) == n


def _halvings(n: int) -> NDArray[np.intp]:
    """Return the start and end of all n columns, of either half and so on, down to single columns."""
    found, whole = [], [(0, n)]
    while whole:
        found += whole
        halved = ((a, b, (a + b) // 2) for a, b in whole if b - a > 1)
        whole = [half for a, b, middle in halved for half in ((a, middle), (middle, b))]
    return np.array(found)


def _occurs(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are among sorted ones."""
    found: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    return found


def _scramble(name: str, bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    offset = np.uint64(int(name[:16], 16))
    return (mix(mix(bits + offset) ^ np.uint64(int(name[16:], 16))) >> np.uint64(32)).astype(np.uint32)
