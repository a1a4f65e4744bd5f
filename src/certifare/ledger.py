"""The ledger: which certification records were looked at before, so that a second look is counted as one.

It is a file in the user's state folder, and holds salted digests alone. Of each look it keeps what it spent (ε),
digests of what the records came from, and a sample of the records, each column of each hashed by itself. So records are
recognised in another order, as a part of others, in another split of the same table, and after columns were dropped:
those of a new look are compared with the sample in the columns that both have. Chance matches, where different people
have equal records, are told from shared records by how often the new records equal each other (Good and Turing).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import Certificate
from certifare.certificates.exact import epsilon_at
from certifare.certificates.looks import Look, confidence_of_look
from certifare.encoders.hashes import mix
from certifare.errors import LedgerError, LooksError
from certifare.frames import Frame
from certifare.growth import Dictionary
from certifare.randomness import stream
from certifare.storage import open_regular
from certifare.table import Table

#: Names the state folder; ``off`` switches the ledger off.
VARIABLE, OFF = "CERTIFARE_STATE", "off"
FILE = "ledger.sqlite"
VERSION = 1
#: So many records of a look are kept.
SAMPLE = 512
#: Of more looks than this the oldest are forgotten.
MOST_LOOKS = 2_000
#: Records are shared if chance would explain so many matches with a smaller probability than this, although its
#: estimate is raised by so many standard deviations. A look too many costs confidence; one too few would overstate it.
LEVEL, DEVIATIONS = 1e-3, 3.0
#: So many seconds another run may hold the ledger.
PATIENCE = 60.0

SCHEMA = """
CREATE TABLE about (version INTEGER NOT NULL, salt BLOB NOT NULL);
CREATE TABLE looks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, statement BLOB NOT NULL, epsilon TEXT NOT NULL, origins TEXT NOT NULL,
    columns TEXT NOT NULL, records INTEGER NOT NULL, sample BLOB NOT NULL
);
"""


@dataclass(frozen=True, eq=False)
class Traces:
    """What is known of the certification records of a look.

    Attributes
    ----------
    origins : frozenset of str
        Digests of the records as a set, and of what they were drawn from. Looks that share one share records.
    columns : mapping of str to ndarray of uint32
        Hashes of each record, by column. Empty where the records were counted elsewhere.
    """

    origins: frozenset[str]
    columns: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)

    @cached_property
    def _views(self) -> dict[tuple[str, ...], tuple[NDArray[np.uint64], float]]:
        return {}

    def of_columns(self, names: tuple[str, ...]) -> tuple[NDArray[np.uint64], float]:
        """Return the distinct records in some columns, and how probable it is that a fresh one is among them."""
        if names not in self._views:
            distinct, times = np.unique(_records([self.columns[name] for name in names]), return_counts=True)
            n, once, twice = int(times.sum()), int((times == 1).sum()), int((times == 2).sum())
            single = once / n
            spread = math.sqrt((single * (1.0 - single) + 2.0 * twice / n) / n)
            self._views[names] = distinct, min(1.0, 1.0 - single + DEVIATIONS * (spread + 1.0 / n))
        return self._views[names]

    def share_records(self, names: Sequence[str], sample: NDArray[np.uint32]) -> bool:
        """Say whether a sample of an earlier look, one row for each of the named columns, is among these records."""
        from scipy.stats import binom

        shared = [i for i, name in enumerate(names) if name in self.columns]
        if not shared:
            return False
        distinct, chance = self.of_columns(tuple(names[i] for i in shared))
        earlier = _records(sample[shared])
        # Few records tell little about chance. Then pairs of the earlier look's tell more: each new record is one try.
        times = np.unique(earlier, return_counts=True)[1]
        alike, pairs = int((times * (times - 1)).sum()) / 2, len(earlier) * (len(earlier) - 1) / 2
        if pairs:
            chance = min(chance, len(distinct) * (alike + DEVIATIONS * (math.sqrt(alike) + 1.0)) / pairs)
        seen = int(np.isin(earlier, distinct).sum())
        return bool(seen > 0 and binom.sf(seen - 1, len(earlier), chance) < LEVEL)


@dataclass(frozen=True)
class Ledger:
    """Where looks are counted.

    Attributes
    ----------
    path : Path or None
        None where looks are not counted.
    reason : str or None
        Why not, if that was nobody's wish.
    """

    path: Path | None
    reason: str | None = None

    @cached_property
    def salt(self) -> bytes:
        """Makes the ledger's digests its own: without it they tell nobody anything."""
        with self._open() as connection:
            return bytes(connection.execute("SELECT salt FROM about").fetchone()[0])

    def digest(self, *parts: str) -> str:
        """Digest of what records came from."""
        return hashlib.blake2b("\0".join(parts).encode(), key=self.salt, digest_size=16).hexdigest()

    def confidence_of_look(self, confidence: float, planned: int | None) -> float:
        """Confidence of each of several planned looks; looks that cannot be counted cannot be planned."""
        if planned is not None and self.path is None:
            raise LooksError(
                f"Planned looks must be counted, and the ledger is off{f' ({self.reason})' if self.reason else ''}: "
                "switch it on, or leave --looks out."
            )
        return confidence_of_look(confidence, planned)

    def origin(self, *sources: Sequence[str]) -> Traces:
        """Describe certification records that were counted elsewhere, by what they came from."""
        return Traces(frozenset() if self.path is None else frozenset(self.digest(*source) for source in sources))

    def trace(self, records: Table, source: Table | None = None) -> Traces:
        """Describe certification records.

        Parameters
        ----------
        records : Table
        source : Table, optional
            The table that they were drawn from. Looks at parts of one table share records.
        """
        if self.path is None:
            return Traces(frozenset())
        columns = self._columns(records)
        tables = (columns,) if source is None else (columns, self._columns(source))
        return Traces(frozenset(self._checksum(table) for table in tables), columns)

    def count(
        self, traces: Traces, statement: Sequence[str], confidence: float, planned: int | None = None
    ) -> Look | None:
        """Count a look, and say which one it is; None where looks are not counted.

        A look that certified the same before, on the same records, is the same look: it says nothing new.

        Parameters
        ----------
        traces : Traces
        statement : sequence of str
            Digests of what was certified: encoders, and certificates or tests.
        confidence : float
            Of this look.
        planned : int, optional
            How many looks were planned. One more is refused.
        """
        if self.path is None:
            return None
        epsilon = Decimal(repr(epsilon_at(confidence)))
        own = hashlib.blake2b("\0".join(statement).encode(), key=self.salt, digest_size=16).digest()
        with self._open() as connection:
            spent, number = Decimal(0), 1
            rows = connection.execute("SELECT statement, epsilon, origins, columns, records, sample FROM looks")
            try:
                for earlier, share, origins, names, records, sample in rows:
                    listed = json.loads(names)
                    kept = np.frombuffer(sample, dtype="<u4").reshape(len(listed), records)
                    if traces.origins.isdisjoint(json.loads(origins)) and not traces.share_records(listed, kept):
                        continue
                    if earlier == own:
                        return self._checked(Look(number=number, spent=float(spent), planned=planned))
                    spent, number = spent + Decimal(share), number + 1
            except (ValueError, ArithmeticError, TypeError) as error:
                raise self._damaged(error) from error
            look = self._checked(Look(number=number, spent=float(spent), planned=planned))
            self._add(connection, traces, own, epsilon)
            return look

    def _checked(self, look: Look) -> Look:
        if look.planned is not None and look.number > look.planned:
            raise LooksError(
                f"{look.planned} looks were planned, and these certification records, or some of them, were looked at "
                f"{look.number - 1} times before: certify on fresh records. Nothing of this look is shown."
            )
        return look

    def _add(self, connection: sqlite3.Connection, traces: Traces, statement: bytes, epsilon: Decimal) -> None:
        names = sorted(traces.columns)
        n = len(traces.columns[names[0]]) if names else 0
        rows = np.sort(stream(int.from_bytes(self.salt), "records of a look").permutation(n)[:SAMPLE])
        sample = np.array([traces.columns[name][rows] for name in names], dtype="<u4")
        connection.execute(
            "INSERT INTO looks (statement, epsilon, origins, columns, records, sample) VALUES (?, ?, ?, ?, ?, ?)",
            (statement, str(epsilon), json.dumps(sorted(traces.origins)), json.dumps(names), len(rows),
             sample.tobytes()),
        )  # fmt: skip
        connection.execute("DELETE FROM looks WHERE number <= (SELECT max(number) FROM looks) - ?", (MOST_LOOKS,))

    def _columns(self, table: Table) -> dict[str, NDArray[np.uint32]]:
        """Hash every column of each record. Columns are named by digests of their role, name and type."""
        found = {}
        frame = Frame(table.features)
        for i in range(len(frame.names)):
            read = frame.read(i)
            texts = isinstance(read.column, Dictionary)
            name = self.digest("feature", read.name, "text" if texts else "number")
            if isinstance(read.column, Dictionary):
                found[name] = self._hash_codes(name, read.column.indices, read.column.values)
            else:
                numbers = read.column.astype(np.float64) + 0.0  # one zero …
                numbers[np.isnan(numbers)] = np.nan  # … and one NaN
                found[name] = _scramble(name, numbers.view(np.uint64))
        for role, values in (("sensitive", table.groups), ("label", table.labels[0] if table.labels else None)):
            if values is not None:
                name = self.digest(role, *getattr(table.roles, role))
                found[name] = self._hash_codes(name, values.codes, values.names)
        return found

    def _hash_codes(self, name: str, codes: NDArray[Any], values: Sequence[Any]) -> NDArray[np.uint32]:
        # The last one is that of missing values, whose code is -1.
        table = np.array([int(self.digest("value", str(value))[:16], 16) for value in values] + [0], dtype=np.uint64)
        return _scramble(name, table[codes])

    def _checksum(self, columns: Mapping[str, NDArray[np.uint32]]) -> str:
        """Digest of records in any order."""
        records = _records(list(columns.values()))
        sums = (int(np.sum(part, dtype=np.uint64)) for part in (records, mix(records + np.uint64(1))))
        return self.digest("records", *sorted(columns), str(len(records)), *map(str, sums))

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Hold the ledger: no other run reads or writes it meanwhile, and what fails leaves it as it was."""
        assert self.path is not None  # noqa: S101  (asked before)
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
                    raise LedgerError(
                        f"The ledger {str(self.path)!r} is not of version {VERSION}, which this certifare knows: use "
                        "the certifare that wrote it, or move it away, and looks are counted anew."
                    )
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise self._damaged(error) from error
            raise LedgerError(
                f"The ledger {str(self.path)!r} is held by another run: try again, or do not count looks (--no-ledger)."
            ) from error
        except sqlite3.Error as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> LedgerError:
        return LedgerError(
            f"The ledger {str(self.path)!r} is damaged or cannot be read ({error}): put back a copy of it, or move it "
            "away, and looks are counted anew; or do not count them (--no-ledger; in Python ledger=False)."
        )


#: Counts nothing.
NO_LEDGER = Ledger(None)


def open_ledger(wanted: bool = True) -> Ledger:
    """Find the user's ledger; one that counts nothing where it is not wanted, off, or cannot be written."""
    folder = state_folder() if wanted else None
    if folder is None:
        return NO_LEDGER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / FILE
        path.touch(mode=0o600)
        open_regular(path).close()
        # The journal of a change lies beside it.
        if not (os.access(folder, os.W_OK) and os.access(path, os.W_OK)):
            raise PermissionError(errno.EACCES, "it cannot be written", str(path))
    except OSError as error:
        return Ledger(None, f"looks are not counted: no ledger can be written in {str(folder)!r} ({error.strerror})")
    return Ledger(path)


def state_folder() -> Path | None:
    """Where certifare keeps what it remembers: as CERTIFARE_STATE says, or as the platform does; None if off."""
    named = os.environ.get(VARIABLE)
    if named:
        return None if named.lower() == OFF else Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "certifare"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "certifare"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "certifare"


def statement_of(encoder: str, certificate: Certificate) -> str:
    """Digest of what a look says: which encoder has which certificate."""
    plain = json.dumps(certificate.to_dict(), sort_keys=True)
    return hashlib.sha256(f"{encoder}\0{plain}".encode()).hexdigest()


def _scramble(name: str, bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
    offset = np.uint64(int(name[:16], 16))
    return (mix(mix(bits + offset) ^ np.uint64(int(name[16:], 16))) >> np.uint64(32)).astype(np.uint32)


def _records(columns: Any) -> NDArray[np.uint64]:
    """Hash records, given the hashes of their columns in any order."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        total += mix(column.astype(np.uint64))
    return mix(total)
