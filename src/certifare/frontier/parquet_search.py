"""The whole job on Parquet files that do not fit into memory: what ``certifare fit`` does above a certain size.

Rows are split at random, by their number and a digest of the files. A sample of a million is read into memory, and
encoders are compared there. All other rows are training or certification records that nobody has looked at: fair trees
grow from the former, a whole sweep from one coded file, and encoders are tested on the latter. Those that need the
table in memory (boosted ones) are fitted on the sample, and tested on as many records as the trees. All boosted
encoders of a search share one map of scores, so the certification records are scored once and counted by its squares,
of which every such encoder's cells are made.
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
from certifare.engines.counting import Finder, Tally, count_over, lay_out
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
"""A table of more bytes, at eight for each value, is not read into memory."""

SAMPLE_RECORDS = 1_000_000
"""Encoders are compared on a sample of so many records."""


def is_large(path: str | os.PathLike[str]) -> bool:
    """Say whether a file is Parquet and too large to be read into memory."""
    file = DataFile.of(path)
    if file.path.is_dir() or not file.path.exists() or file.kind != "parquet":
        return False
    files = ParquetFiles.find(file)
    return files.n_records * len(files.schema.names) * 8 > LARGE


def search_large(
    path: str | os.PathLike[str], grid: Grid, reading: Mapping[str, Any], claim: Claim | None = None, **options: Any
) -> LargeSearch:
    """Search over a large file, given what :func:`certifare.tables.table.read_table` is told."""
    csv = {"delimiter": None, "encoding": None, "missing": MISSING, "header": True, "names": (), "decimal": None}
    if reading.get("sensitive_file") is not None or reading.get("on") is not None:
        raise ArgumentError(
            "sensitive_file is joined in memory, and this table is too large for that: join the files first, in a "
            "database for instance (DuckDB reads and writes Parquet)."
        )
    for option, default in csv.items():
        if reading.get(option, default) != default:
            raise ArgumentError(f"{option} is about CSV files, and {os.fspath(path)!r} is none: leave it out.")
    roles = Roles.of(**{name: value for name, value in reading.items() if name not in (*csv, "sensitive_file", "on")})
    return LargeSearch(path, grid, roles, claim, **options)


@dataclass(frozen=True, eq=False)
class RandomRows:
    """Rows of one part of a random split, by their number.

    Attributes
    ----------
    low, high : float
        A row is in the part if its number, hashed to a number from 0 to 1, lies between these.
    without : ndarray of int64
        Rows that are in no part, sorted: those of the sample.
    key : int
        Of the hash: it knows the seed and the records.
    """

    low: float
    high: float
    without: NDArray[np.int64]
    key: int

    def mask(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """Say which of the rows ``start … start + n_rows - 1`` are in the part."""
        hashes = hash_numbers(start, n_rows, self.key)
        share = (hashes >> np.uint64(11)).astype(np.float64) / 2.0**53
        mask = (share >= self.low) & (share < self.high)
        first, last = np.searchsorted(self.without, [start, start + n_rows])
        mask[self.without[first:last] - start] = False
        return mask


@dataclass(frozen=True)
class Squares:
    """The squares of a boosted encoder's map, to be counted as if they were cells."""

    encoder: BoostedEncoder

    @property
    def n_cells_(self) -> int:
        """How many squares there are."""
        return self.encoder.score_map_.n_squares

    @property
    def fingerprint_(self) -> Fingerprint | None:
        """What tells training records."""
        return self.encoder.fingerprint_

    @property
    def reads_groups(self) -> bool:
        """Whether cells depend on the group."""
        return self.encoder.reads_groups

    def group_codes(self, fields: Sequence[Field]) -> NDArray[np.uint16] | None:
        """Codes of the groups that were read, if cells depend on them."""
        return self.encoder.group_codes(fields)

    def find_cells(self, fields: Sequence[Field], groups: NDArray[np.uint16] | None = None) -> NDArray[Any]:
        """Find the cells of records that were read."""
        return self.encoder.codes_of(fields, groups).columns[0]


class LargeSearch(Search):
    """Encoders tried on Parquet files.

    Parameters
    ----------
    paths : path, pattern, or sequence of paths
    grid : Grid
    roles : Roles
        Those that need the whole table in memory (weights, clusters …) are refused.
    claim : Claim, optional
    sample_records : int, optional
        How many records are read into memory; a million unless given.
    folder : path, optional
        Where the mapped file of codes goes.
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
                raise ArgumentError(f"{role} needs the whole table in memory, and this one is too large for that.")
        self._files = ParquetFiles.find(paths)
        self._n_threads = n_jobs
        self._folder = folder
        # Streams know the records: other files are split independently of these, at the same seed too.
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
        """Records of all files, and of each part; those of the sample make the select part."""
        counted = {"train": self._n_train, CERTIFY: int(self.certify_sizes().sum())}
        return {**super().sizes, "all": self._files.n_records, **counted}

    @property
    def certify_digest(self) -> str:
        """A fingerprint of the certification records, in any order."""
        return hashlib.sha256(f"{self._checksum[0]:016x}{self._checksum[1]:016x}".encode()).hexdigest()

    def _traces(self) -> Traces:
        """Return what the ledger knows the certification records by: their checksum, and the files that they lie in."""
        return self.ledger.origin(("records", self.certify_digest), ("files", self._file_digest))

    def _read_like(self, table: Table) -> BlockReader:
        """Say how all records are read, so that columns mean what they mean in the sample."""
        names = self._files.schema.names
        fields = Frame(table.features).fields()
        groups = roles_of(table.roles.sensitive, names, "sensitive")
        return BlockReader(
            tuple(Feature(field.name, field.type, field.categorical) for field in fields),
            tuple(replace(role, cuts=table.roles.label_cuts) for role in roles_of(table.roles.label, names, "label")),
            # What is pooled follows from the sample, and so is fixed before any certification record is looked at.
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
        """Code all training records; also give what counts them by an encoder's cells, in the order of the sample."""
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
            # Files are read for training records alone; how many lack a label is known from the sample.
            groups_first = np.pad(table.sum(axis=others).transpose(0, 2, 1), ((0, 0), (0, 0), (0, 1)))
            return PartCounts(groups_first, tuple(by_label))

        return training, count

    def certify_sizes(self) -> NDArray[np.int64]:
        """Certification records of each group and first label, as the sample lets expect."""
        n_records = (self._files.n_records - len(self._sampled)) * self.parts[CERTIFY]
        whole = PartCounts.of(self.table, np.zeros(len(self.table), dtype=np.int64), 1).groups[0]
        sizes: NDArray[np.int64] = np.rint(whole * n_records / len(self._sampled)).astype(np.int64)
        sizes[:, :-1] = np.maximum(sizes[:, :-1], 1)
        if self.claim.labelled:
            sizes[:, -1] = 0
        return sizes

    def _certification_counts(self, encoder: Any, candidate: Candidate) -> CellCounts:
        """Count the certification records, which lie in the files."""
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
                f"Group {unknown[0]!r} is so small that the sample has no record of it: drop it, or pool it."
            )
        return counts

    def _count(self, finder: Finder) -> Tally:
        def tell(share: float) -> None:
            if self._progress is not None:
                self._progress("counting certification records", round(100 * share), 100)

        return count_over(finder, self._engine(CERTIFY), self._reading, salt=b"certification records", progress=tell)

    def _group_names(self) -> tuple[str, ...]:
        return () if self.table.groups is None else self.table.groups.names


class _LargeExplorer(Explorer):
    """Grows trees from coded files, one at a time, because each growth puts the records into another order."""

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
    """Read rows by their numbers."""
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
