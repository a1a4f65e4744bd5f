"""Fit and certify on Parquet files larger than memory: read in pieces, and coded into a memory-mapped file.

A record of nine columns takes about twelve bytes in that file. A split moves the records of a node within the file, in
order from both ends, so that the operating system can keep the active part in memory and write the rest to disk.
"""

from __future__ import annotations

import glob
import hashlib
import mmap
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.training import mark_categorical
from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import Block, BlockReader, Feature, MissingRoles, Role
from certifare.engines.coding import Plan
from certifare.engines.counting import CountedRecords, CountRequest, count_pieces, refuse_draw
from certifare.engines.preparing import EngineTraining, Share, StepProgress, check_kind, prepare_over
from certifare.errors import ArgumentError, FileError, MissingColumnError, RoleError, TableError
from certifare.foundation.storage import open_regular
from certifare.growth import Growth, Histogram
from certifare.growth.histograms import Records, RecordSource
from certifare.tables.files import BATCH_ROWS, DataFile, readable, validated
from certifare.tables.frames import Frame
from certifare.tables.reading import Reading
from certifare.tables.roles import Names, Roles

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

T = TypeVar("T")
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

WINDOW = 32
"""Number of results of pieces that are kept before they are merged."""


def prepare_parquet(
    encoder: FairTreeEncoder,
    paths: Paths,
    *,
    label: Names,
    sensitive: Names | None = None,
    drop: Names = (),
    missing: MissingRoles = "refuse",
    folder: str | os.PathLike[str] | None = None,
    progress: StepProgress | None = None,
) -> EngineTraining:
    """Read and code Parquet files in constant memory; ``encoder.fit_from`` fits on the result.

    The cells equal those that ``encoder.fit`` gives for the whole table.

    Parameters
    ----------
    encoder : FairTreeEncoder
        Its ``n_jobs`` is the number of threads that read, code and count.
    paths : path, pattern, or sequence of paths
        One file; a folder, whose Parquet files are read in the order of their names; or a pattern such as
        ``"people/*.parquet"``.
    label, sensitive : str or sequence of str
        Columns, or comparisons such as ``"age>=60"``. Their columns are not features. ``sensitive`` may be left out if
        the encoder names it.
    drop : str or sequence of str
        Columns that are not features.
    missing : {"refuse", "drop"}
        What to do with records without a label or a group.
    folder : path, optional
        Folder of the memory-mapped file, about a byte per record and column; by default the temporary folder.
    progress : callable, optional
        Called with the name of a step and the share of it that is done.

    Returns
    -------
    EngineTraining
    """
    check_kind(encoder, FairTreeEncoder)
    files = ParquetFiles.find(paths)
    if sensitive is None:
        if encoder.sensitive is None:
            raise RoleError('Name the sensitive column: sensitive="sex".')
        sensitive = encoder.sensitive
    reading = files.reading(label, sensitive, drop, encoder.categorical_features)
    engine = ParquetEngine(files, encoder.n_threads, folder)
    return prepare_over(encoder, engine, reading, missing=missing, progress=progress)


@dataclass(frozen=True, eq=False)
class ParquetRecords:
    """Records of Parquet files of any size, counted in constant memory.

    Attributes
    ----------
    paths : path, pattern, or sequence of paths
    """

    paths: Paths

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records with the encoder's ``n_jobs`` threads."""
        refuse_draw(reading, request, "in files too large for it")
        files = ParquetFiles.find(self.paths)
        engine = ParquetEngine(files, encoder.n_threads)
        return count_pieces(encoder, engine, files.schema.names, reading, request)


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that form one table.

    Attributes
    ----------
    paths : tuple of str
    metadata : tuple of pyarrow.parquet.FileMetaData
    schema : pyarrow.Schema
        Schema of the first file; the others have its columns, too.
    """

    paths: tuple[str, ...]
    metadata: tuple[FileMetaData, ...]
    schema: pa.Schema

    @classmethod
    def find(cls, paths: Paths) -> ParquetFiles:
        """Find files by path, folder or pattern."""
        files = [DataFile.of(path) for path in _expand(paths)]
        found = [os.fspath(file) for file in files]
        for path, file in zip(found, files, strict=True):
            if file.kind != "parquet":
                raise FileError(f"{path!r} is not a Parquet file; tables larger than memory must be Parquet.")
        try:
            metadata = tuple(file.metadata for file in files)
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"A Parquet file is damaged: {error}.") from error
        schemas = [m.schema.to_arrow_schema() for m in metadata]
        for path, schema in zip(found, schemas, strict=True):
            there = set(schema.names)
            lost = [name for name in schemas[0].names if name not in there]
            if lost:
                raise MissingColumnError(f"{path!r} has no column {lost[0]!r}, which {found[0]!r} has.")
        return cls(tuple(found), metadata, schemas[0])

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(m.num_rows for m in self.metadata)

    def digest(self) -> str:
        """Return a digest of all files, which identifies the records for random streams and the ledger."""
        state = hashlib.blake2b(digest_size=32)
        for path in self.paths:
            with open_regular(path) as file:
                while block := file.read(1 << 24):
                    state.update(block)
        return state.hexdigest()

    def pieces(self, rows: Rows | None = None) -> list[ParquetPiece]:
        """Return the row groups of all files; of each, the chosen rows (by default all)."""
        pieces = []
        start = 0
        for path, metadata in zip(self.paths, self.metadata, strict=True):
            for group in range(metadata.num_row_groups):
                if metadata.row_group(group).num_rows:
                    pieces.append(ParquetPiece(path, metadata, group, start, rows))
                    start += metadata.row_group(group).num_rows
        return pieces

    def reading(self, label: Names, sensitive: Names, drop: Names = (), categorical: Any = "from_dtype") -> BlockReader:
        """Return a reader of the files, whose features are all columns without a role that are not dropped."""
        found = Roles.of(label=label, sensitive=sensitive, drop=drop).find(self.schema.names)
        frame = Frame(self.schema.empty_table().select(found.features))
        fields = frame.fields()
        marks = mark_categorical(frame, range(len(fields)), fields, categorical)
        features = tuple(Feature(f.name, f.type, mark) for f, mark in zip(fields, marks, strict=True))
        return BlockReader(features, tuple(map(Role.of, found.label)), tuple(map(Role.of, found.sensitive)))


class Rows(Protocol):
    """Some rows of a table."""

    def mask(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """Return which of the rows ``start … start + n_rows - 1`` are among them."""
        ...


@dataclass(frozen=True, eq=False)
class ParquetPiece:
    """A row group of a file.

    Attributes
    ----------
    path : str
    metadata : pyarrow.parquet.FileMetaData
    group : int
        Index of the row group.
    start : int
        Number of rows of the table before it.
    rows : Rows or None
        Rows of the table to read.
    """

    path: str
    metadata: FileMetaData
    group: int
    start: int = 0
    rows: Rows | None = None

    def tables(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Read some columns in batches; those in ``text`` as dictionaries."""
        import pyarrow.parquet as pq

        start = self.start
        with (
            readable(self.path),
            pq.ParquetFile(self.path, metadata=self.metadata, read_dictionary=list(text)) as file,
        ):
            for batch in file.iter_batches(
                BATCH_ROWS, row_groups=[self.group], columns=list(columns), use_threads=False
            ):
                table = pa.Table.from_batches([validated(batch)])
                yield table if self.rows is None else table.filter(pa.array(self.rows.mask(start, len(table))))
                start += len(table)

    def blocks(self, reading: BlockReader) -> Iterator[Block]:
        """Read the columns of a reader in batches."""
        text = [feature.name for feature in reading.features if feature.type == "text"]
        return (reading.read(table) for table in self.tables(reading.columns, text))


class ParquetEngine:
    """Processes Parquet files with threads.

    Parameters
    ----------
    files : ParquetFiles
    n_threads : int
    folder : path, optional
        Folder of the memory-mapped file.
    rows : Rows, optional
        Rows to process; by default all.
    """

    def __init__(
        self,
        files: ParquetFiles,
        n_threads: int = 1,
        folder: str | os.PathLike[str] | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._pieces = files.pieces(rows)
        if not self._pieces:
            raise TableError(f"{files.paths[0]!r} has columns but no records.")
        self._n_threads = n_threads
        self._folder = folder
        self.n_pieces: int = len(self._pieces)
        self.n_records: int | None = files.n_records

    def reduce(
        self,
        work: Callable[..., T],
        merge: Callable[[Sequence[T]], T],
        each: Sequence[Any] | None = None,
        progress: Share | None = None,
    ) -> T:
        """Merge the results of ``work`` for all pieces, in order; only a few are in memory at a time."""
        results: list[T] = []
        for result in self._map(work, each, progress):
            results.append(result)
            if len(results) > WINDOW:
                results = [merge(results)]
        return merge(results)

    def code(self, plan: Plan, lengths: Sequence[int], progress: Share | None = None) -> FileSource:
        """Code all records into a memory-mapped file."""
        layout = plan.layout
        records = Records(map_words(sum(lengths), layout.width, self._folder), layout)
        starts = np.cumsum([0, *lengths[:-1]]).tolist()

        def write(piece: ParquetPiece, start: int) -> None:
            for block in plan.blocks(piece):
                plan.write(records, start, block)
                start += len(block)

        for _ in self._map(write, starts, progress):
            pass
        return FileSource(records, self._n_threads)

    def _map(self, work: Callable[..., T], each: Sequence[Any] | None, progress: Share | None) -> Iterator[T]:
        """Yield the results of pieces in order, computing at most a few ahead."""
        arguments = [(piece,) if each is None else (piece, each[i]) for i, piece in enumerate(self._pieces)]
        to_come = iter(arguments)
        with ThreadPoolExecutor(self._n_threads) as pool:
            waiting = deque(pool.submit(work, *argument) for argument in islice(to_come, 2 * self._n_threads))
            try:
                for done in range(1, len(arguments) + 1):
                    result = waiting.popleft().result()
                    waiting.extend(pool.submit(work, *argument) for argument in islice(to_come, 1))
                    if progress is not None:
                        progress(done / len(arguments))
                    yield result
            finally:
                for future in waiting:
                    future.cancel()


class FileSource(RecordSource):
    """Computes histograms of records in a memory-mapped file."""

    def __init__(self, records: Records, n_threads: int = 1) -> None:
        super().__init__(records, n_threads)
        self._all = super().root()

    def root(self) -> Histogram:
        """Start another growth, with the histogram of all records."""
        self._runs, self._histograms = {0: self._shares}, {0: self._all}
        return self._all

    def leaves(self, growth: Growth) -> list[Histogram]:
        """Return the histograms of the cells of the tree that was grown last."""
        # The grower does not request children that can never split; they are counted now.
        for j, split in enumerate(growth.splits):
            if split.node in self._histograms:
                self.split(split.node, split.column, split.goes_left, 2 * j + 1, 2 * j + 2)
        return [self._histograms[node] for node in growth.leaves().tolist()]


def map_words(n_records: int, width: int, folder: str | os.PathLike[str] | None = None) -> NDArray[np.uint32]:
    """Map a temporary file of this many words into memory; it is deleted with the array."""
    size = n_records * width * 4
    try:
        with tempfile.TemporaryFile(prefix="certifare-", dir=folder) as file:
            # Reserve the space at once: a mapped file that finds the disk full later would crash the program.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
            else:
                file.truncate(max(size, 1))
            mapped = mmap.mmap(file.fileno(), max(size, 1))
    except OSError as error:
        where = tempfile.gettempdir() if folder is None else os.fspath(folder)
        raise FileError(
            f"The codes need {size / 2**30:.1f} GB in {where!r}, which is not available: {error.strerror or error}. "
            "Name another folder (folder=, or the environment variable TMPDIR)."
        ) from error
    return np.frombuffer(mapped, dtype=np.uint32, count=n_records * width).reshape(n_records, width)


def _expand(paths: Paths) -> Sequence[str | os.PathLike[str]]:
    if not isinstance(paths, str | os.PathLike):
        if not paths:
            raise ArgumentError("No file was given.")
        return paths
    text = os.fspath(paths)
    if Path(text).is_dir():
        found = sorted(str(path) for path in Path(text).rglob("*.parquet"))
        if not found:
            raise TableError(f"The folder {text!r} has no file whose name ends in .parquet.")
        return found
    if Path(text).exists() or not glob.has_magic(text):
        return [paths]
    found = sorted(glob.glob(text, recursive=True))
    if not found:
        raise TableError(f"No file matches {text!r}.")
    return found
