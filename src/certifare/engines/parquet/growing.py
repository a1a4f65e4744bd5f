"""Fit and certify on Parquet files larger than memory: read in pieces, and coded into a memory-mapped file.

A record of nine columns takes about twelve bytes in that file. A split moves the records of a node within the file, in
order from both ends, so that the operating system can keep the active part in memory and write the rest to disk.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import MissingRoles, Role, Share
from certifare.engines.coding import Plan
from certifare.engines.parquet.engine import ParquetEngine
from certifare.engines.preparing import EngineTraining, StepProgress, check_tree, feature_reader, prepare_over
from certifare.errors import FileError, RoleError
from certifare.growth import Growth, Histogram
from certifare.growth.histograms import Records, RecordSource
from certifare.tables.frames import Frame
from certifare.tables.parquet import ParquetFiles, Paths
from certifare.tables.roles import Names, Roles


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

    The cells equal those that ``encoder.fit`` gives for the whole table. The encoder's ``n_jobs`` threads read, code
    and count.

    - ``paths``: a file, a folder, a pattern such as ``"people/*.parquet"``, or several files.
    - ``label``, ``sensitive``: columns, or comparisons such as ``"age>=60"``, which are not features. ``sensitive`` may
      be left out if the encoder names it.
    - ``missing``: what to do with records without a label or a group.
    - ``folder``: of the memory-mapped file, about a byte per record and column; by default the temporary folder.
    """
    check_tree(encoder)
    files = ParquetFiles.find(paths)
    if sensitive is None:
        if encoder.sensitive is None:
            raise RoleError('Name the sensitive column: sensitive="sex".')
        sensitive = encoder.sensitive
    found = Roles.of(label=label, sensitive=sensitive, drop=drop).find(files.schema.names)
    sample = Frame(files.schema.empty_table().select(found.features))
    reading = feature_reader(encoder, sample, tuple(map(Role.of, found.label)), tuple(map(Role.of, found.sensitive)))
    engine = GrowingParquetEngine(files, encoder.n_threads, folder)
    return prepare_over(encoder, engine, reading, missing=missing, progress=progress)


class GrowingParquetEngine(ParquetEngine):
    """An engine that also codes records, for a grower, in a memory-mapped file in ``folder``."""

    def __init__(self, files: ParquetFiles, n_threads: int = 1, folder: str | os.PathLike[str] | None = None) -> None:
        super().__init__(files, n_threads)
        self._folder = folder
        self.n_records: int | None = files.n_records

    def code(self, plan: Plan, lengths: Sequence[int], progress: Share | None = None) -> FileSource:
        """Code all records into a memory-mapped file."""
        layout = plan.layout
        records = Records(map_words(sum(lengths), layout.width, self._folder), layout)
        starts = np.cumsum([0, *lengths[:-1]]).tolist()

        for _ in self.map(lambda p: plan.write(records, p, starts[p.number], lengths[p.number]), progress):
            pass
        return FileSource(records, self.n_threads)


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
