"""Search on Parquet files that do not fit into memory, as ``certifare fit`` does above a certain size.

Rows are split at random, by row number and a digest of the files. A sample of a million is read into memory, and
encoders are compared on it. All other rows are unused training or certification records: fair trees are fitted on the
former, a whole sweep from one coded file, and encoders are tested on the latter. Encoders that need the table in memory
(boosted ones) are fitted on the sample, and tested on as many records as the trees. All boosted encoders of a search
share one score map, so the certification records are scored once and counted by its squares, of which every such
encoder's cells consist.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates import CellCounts
from certifare.certificates.claims import Claim
from certifare.certification.ledger import Traces
from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.hashes import hash_numbers
from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import BlockReader, Feature, PooledRole, by_piece, roles_of
from certifare.engines.counting import BlockCounter, Finder, Tally, lay_out, merge_tallies
from certifare.engines.parquet.streaming import ParquetEngine, ParquetFiles, ParquetPiece, Paths
from certifare.engines.preparing import EngineTraining, prepare_over
from certifare.errors import ArgumentError, GroupError, RoleError
from certifare.foundation.levels import name_of
from certifare.foundation.randomness import number, stream
from certifare.frontier.paths import Explorer, PartCounts
from certifare.frontier.search import Candidate, Search
from certifare.frontier.settings import Grid, Setting
from certifare.growth.summary import sample_positions
from certifare.tables.files import MISSING, DataFile
from certifare.tables.frames import Field, Frame
from certifare.tables.roles import Roles
from certifare.tables.splitting import CERTIFY, PARTS
from certifare.tables.table import Table

LARGE = 2 * 2**30
"""Tables with more bytes, at eight per value, are not read into memory."""

SAMPLE_RECORDS = 1_000_000
"""Size of the sample on which encoders are compared."""


def is_large(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is Parquet and too large to read into memory."""
    file = DataFile.of(path)
    if file.path.is_dir() or not file.path.exists() or file.kind != "parquet":
        return False
    files = ParquetFiles.find(file)
    return files.n_records * len(files.schema.names) * 8 > LARGE


def search_large(
    path: str | os.PathLike[str], grid: Grid, reading: Mapping[str, Any], claim: Claim | None = None, **options: Any
) -> LargeSearch:
    """Search over a large file, with arguments of :func:`certifare.tables.table.read_table`."""
    csv = {"delimiter": None, "encoding": None, "missing": MISSING, "header": True, "names": (), "decimal": None}
    if reading.get("sensitive_file") is not None or reading.get("on") is not None:
        raise ArgumentError(
            "sensitive_file is joined in memory, but this table is too large for that. Join the files first, for "
            "example in a database (DuckDB reads and writes Parquet)."
        )
    for option, default in csv.items():
        if reading.get(option, default) != default:
            raise ArgumentError(f"{option} is for CSV files, but {os.fspath(path)!r} is not one. Leave it out.")
    roles = Roles.of(**{name: value for name, value in reading.items() if name not in (*csv, "sensitive_file", "on")})
    return LargeSearch(path, grid, roles, claim, **options)


@dataclass(frozen=True, eq=False)
class RandomRows:
    """Rows of one part of a random split, by row number.

    Attributes
    ----------
    low, high : float
        A row is in the part if its number, hashed to a number from 0 to 1, is between these.
    without : ndarray of int64
        Sorted rows that are in no part: those of the sample.
    key : int
        Key of the hash, which depends on the seed and the records.
    """

    low: float
    high: float
    without: NDArray[np.int64]
    key: int

    def mask(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """Return which of the rows ``start … start + n_rows - 1`` are in the part."""
        hashes = hash_numbers(start, n_rows, self.key)
        share = (hashes >> np.uint64(11)).astype(np.float64) / 2.0**53
        mask = (share >= self.low) & (share < self.high)
        first, last = np.searchsorted(self.without, [start, start + n_rows])
        mask[self.without[first:last] - start] = False
        return mask


@dataclass(frozen=True)
class Squares:
    """The squares of a boosted encoder's score map, which are counted like cells."""

    encoder: BoostedEncoder

    @property
    def n_cells_(self) -> int:
        """Number of squares."""
        return self.encoder.score_map_.n_squares

    @property
    def fingerprint_(self) -> Fingerprint | None:
        """The fingerprint of the training records."""
        return self.encoder.fingerprint_

    @property
    def reads_groups(self) -> bool:
        """Whether cells depend on the group."""
        return self.encoder.reads_groups

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Return the codes of the groups, if cells depend on them."""
        return self.encoder.group_codes(fields)

    def find_cells(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None = None) -> NDArray[Any]:
        """Return the squares of records."""
        return self.encoder.codes_of(fields, groups).columns[0]


class LargeSearch(Search):
    """Search among encoders on Parquet files.

    Parameters
    ----------
    paths : path, pattern, or sequence of paths
    grid : Grid
    roles : Roles
        Roles that need the whole table in memory (weights, clusters …) are refused.
    claim : Claim, optional
    sample_records : int, optional
        Number of records to read into memory; by default a million.
    folder : path, optional
        Folder of the memory-mapped file of codes.
    **options
        Of :class:`~certifare.frontier.search.Search`.
    """

    _seen = " of the sample"

    def __init__(
        self,
        paths: Paths,
        grid: Grid,
        roles: Roles,
        claim: Claim | None = None,
        *,
        sample_records: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        seed: int = 0,
        n_jobs: int = 2,
        parts: Mapping[str, float] = PARTS,
        **options: Any,
    ) -> None:
        for role in ("weight", "cluster", "continuous", "features", "missing_groups"):
            if getattr(roles, role) not in (None, (), "drop"):
                raise ArgumentError(f"{role} needs the whole table in memory, but this one is too large for that.")
        self._files = ParquetFiles.find(paths)
        self._n_threads = n_jobs
        self._folder = folder
        # The stream depends on the records: different files are split independently, even with the same seed.
        self._file_digest = self._files.digest()
        self._sampled = sample_positions(
            self._files.n_records,
            sample_records or SAMPLE_RECORDS,
            stream(seed, "records in memory", self._file_digest),
        )
        sample = _take(self._files, self._sampled, n_jobs)
        table = Table.from_frame(sample, roles)
        super().__init__(table, grid, claim, seed=seed, n_jobs=n_jobs, parts=parts, **options)
        self._reading = self._read_like(self.table)
        self._checksum = (0, 0)
        self._by_square: Tally | None = None
        n_others = self._files.n_records - len(self._sampled)
        self._n_train = round(n_others * (1.0 - parts[CERTIFY]) * float(table.trainable.mean()))
        self.explorer = _LargeExplorer(
            self.train, {"select": self.select}, grid, self._common(), n_jobs, self._prepare_tree, self._n_train
        )
        self.notes.append(
            f"the table is large: encoders were compared on a sample of {len(table):,} records; trees grew from about "
            f"{self._n_train:,} others, and about {int(self.certify_sizes().sum()):,} more were certified on"
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of records of all files, and of each part; the sample is the select part."""
        counted = {"train": self._n_train, CERTIFY: int(self.certify_sizes().sum())}
        return {**super().sizes, "all": self._files.n_records, **counted}

    @property
    def certify_digest(self) -> str:
        """A digest of the certification records, in any order."""
        return hashlib.sha256(f"{self._checksum[0]:016x}{self._checksum[1]:016x}".encode()).hexdigest()

    def _traces(self) -> Traces:
        """Return the ledger's traces of the certification records: their checksum, and their files."""
        return self.ledger.origin(("records", self.certify_digest), ("files", self._file_digest))

    def _read_like(self, table: Table) -> BlockReader:
        """Return a reader of all records, with columns as in the sample."""
        names = self._files.schema.names
        fields = Frame(table.features).fields()
        groups = roles_of(table.roles.sensitive, names, "sensitive")
        return BlockReader(
            tuple(Feature(field.name, field.type, field.categorical) for field in fields),
            tuple(replace(role, cuts=table.roles.label_cuts) for role in roles_of(table.roles.label, names, "label")),
            # Pooled groups follow from the sample, and so are fixed before any certification record is used.
            (PooledRole(groups, self._group_names()),) if self._pooled else groups,
        )

    def _engine(self, part: str) -> ParquetEngine:
        share = self.parts[CERTIFY]
        low, high = (0.0, share) if part == CERTIFY else (share, 1.0)
        rows = RandomRows(low, high, self._sampled, number(self.seed, "parts", self._file_digest, bits=64))
        engine = ParquetEngine(self._files, self._n_threads, self._folder, rows)
        engine.n_records = round((self._files.n_records - len(self._sampled)) * (high - low))
        return engine

    def _prepare_tree(self, encoder: FairTreeEncoder) -> tuple[EngineTraining, Callable[[Any], PartCounts]]:
        """Code all training records; also return a function that counts them by an encoder's cells."""
        training = prepare_over(encoder, self._engine("train"), self._reading, missing="drop")
        plan = training.plan
        groups = _places([name_of(group) for group in plan.groups], self._group_names(), "group")
        labels = [
            _places([name_of(value) for value in values], own.names, f"label {name!r}")
            for (name, values), own in zip(plan.labels, self.table.labels, strict=True)
        ]
        shape = tuple(len(own.names) for own in self.table.labels)

        def count(fitted: Any) -> PartCounts:
            counts = fitted.growth_.cell_counts(fitted.n_cells_).reshape(-1, *plan.n_labels, len(plan.groups))
            table = np.zeros((len(counts), *shape, len(self._group_names())), dtype=np.int64)
            table[np.ix_(np.arange(len(counts)), *map(np.array, labels), np.array(groups))] = counts
            others = tuple(range(2, table.ndim - 1))
            by_label = [
                table.sum(axis=tuple(axis for axis in range(1, table.ndim) if axis != 1 + i)) for i in range(len(shape))
            ]
            # Files are only read for training records; the number without a label is estimated from the sample.
            groups_first = np.pad(table.sum(axis=others).transpose(0, 2, 1), ((0, 0), (0, 0), (0, 1)))
            return PartCounts(groups_first, tuple(by_label))

        return training, count

    def certify_sizes(self) -> NDArray[np.int64]:
        """Return the expected numbers of certification records of each group and first label, from the sample."""
        n_records = (self._files.n_records - len(self._sampled)) * self.parts[CERTIFY]
        whole = PartCounts.of(self.table, np.zeros(len(self.table), dtype=np.int64), 1).groups[0]
        sizes: NDArray[np.int64] = np.rint(whole * n_records / len(self._sampled)).astype(np.int64)
        sizes[:, :-1] = np.maximum(sizes[:, :-1], 1)
        if self.claim.labelled:
            sizes[:, -1] = 0
        return sizes

    def _certification_counts(self, encoder: Any, candidate: Candidate) -> CellCounts:
        """Count the certification records, which are in the files."""
        if candidate.setting.kind == "boosted":
            if self._by_square is None:
                self._by_square = self._count(Squares(encoder))
            tally = self._by_square
            cell_of = encoder.cell_map_.ravel().tolist()
            entries = [entry._replace(cell=cell_of[entry.cell]) for entry in tally.entries]
        else:
            tally = self._count(encoder)
            entries = list(tally.entries)
        self._checksum = tally.checksum
        self._repeats = tally.repeats.check("certification records")
        self.notes += [note for note in self._repeats if note not in self.notes]
        counts = lay_out(entries, candidate.cells, labelled=self.claim.labelled, missing="drop")
        unknown = [group for group in counts.groups if group not in self._group_names()]
        if unknown:
            raise GroupError(
                f"Group {unknown[0]!r} is so small that the sample has no record of it. Drop it, or pool it."
            )
        return counts

    def _count(self, finder: Finder) -> Tally:
        def report(share: float) -> None:
            if self._progress is not None:
                self._progress("counting certification records", round(100 * share), 100)

        counter = BlockCounter(finder, self._reading, salt=b"certification records")
        return self._engine(CERTIFY).reduce(counter, merge_tallies, progress=report)

    def _group_names(self) -> tuple[str, ...]:
        return () if self.table.groups is None else self.table.groups.names


class _LargeExplorer(Explorer):
    """Fits trees on coded files, one at a time, because each growth reorders the records."""

    def __init__(
        self,
        train: Table,
        parts: Mapping[str, Table],
        grid: Grid,
        common: Mapping[str, Any],
        n_jobs: int,
        prepare_tree: Callable[[FairTreeEncoder], tuple[EngineTraining, Callable[[Any], PartCounts]]],
        n_train: int,
    ) -> None:
        super().__init__(train, parts, grid, common, n_jobs)
        of_all = [setting for setting in grid.settings(n_train) if setting.kind == "tree"]
        self.settings = (*(s for s in self.settings if s.kind != "tree"), *of_all)
        self._prepare_tree = prepare_tree
        self._growing = threading.RLock()

    def prepare(self, kind: str) -> Any:
        """Prepare a kind of encoder: trees from all training records, others from those of the sample."""
        if kind != "tree":
            return super().prepare(kind)
        with self._growing:
            if kind not in self._prepared:
                setting = next(s for s in self.settings if s.kind == kind)
                encoder = setting.encoder(**self.common, n_jobs=self.n_jobs)
                self._prepared[kind], self._count = self._prepare_tree(encoder)
            return self._prepared[kind]

    def fit(self, setting: Setting, *, bare: bool = False) -> Any:
        """Return the fitted encoder of a growth."""
        if setting.kind != "tree":
            return super().fit(setting, bare=bare)
        with self._growing:
            return super().fit(setting, bare=bare)

    def _count_training(self, encoder: Any, setting: Setting) -> PartCounts:
        if setting.kind != "tree":
            return super()._count_training(encoder, setting)
        counted = self._count(encoder)
        scale = counted.groups.sum() / len(self.train)
        unlabelled = np.rint(self._count_unlabelled(encoder, setting) * scale).astype(np.int64)
        return replace(counted, groups=counted.groups + unlabelled)


def _take(files: ParquetFiles, positions: NDArray[np.int64], n_threads: int) -> pa.Table:
    """Read rows by number."""
    lengths = [piece.metadata.row_group(piece.group).num_rows for piece in files.pieces()]

    def take(piece: ParquetPiece, rows: NDArray[np.int64]) -> pa.Table:
        found, start = [], 0
        for table in piece.tables(files.schema.names):
            first, last = np.searchsorted(rows, [start, start + len(table)])
            found.append(table.take(pa.array(rows[first:last] - start)))
            start += len(table)
        return pa.concat_tables(found)

    return ParquetEngine(files, n_threads).reduce(take, pa.concat_tables, by_piece(positions, lengths)).combine_chunks()


def _places(found: Sequence[str], known: Sequence[str], what: str) -> list[int]:
    for name in found:
        if name not in known:
            raise RoleError(f"The {what} {name!r} is so rare that the sample has no record of it: drop it, or pool it.")
    return [known.index(name) for name in found]
