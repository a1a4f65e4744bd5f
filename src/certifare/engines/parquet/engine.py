"""Count, sample and read Parquet files of any size with threads, a few row groups at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from certifare.engines.blocks import Piece, Share
from certifare.errors import TableError
from certifare.tables.parquet import ParquetFiles, RowGroup

T = TypeVar("T")

#: Number of results of pieces that are kept before they are merged.
WINDOW = 32


@dataclass(frozen=True, eq=False)
class ParquetPiece(Piece):
    """A row group of a file."""

    rows: RowGroup
    number: int
    begins: int

    @property
    def first(self) -> int:
        """The row of its first record among those of all files."""
        return self.begins

    def tables(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Read some columns in batches; those in ``text`` as dictionaries."""
        return self.rows.tables(columns, text)


def pieces_of(files: ParquetFiles, *, sent: bool = False) -> list[ParquetPiece]:
    """Return the row groups of all files; those to be ``sent`` to other machines without what was read of the files."""
    groups = files.row_groups()
    if not groups:
        raise TableError(f"{files.paths[0]!r} has columns but no records.")
    begins = np.cumsum([0, *(rows.metadata.row_group(rows.group).num_rows for rows in groups)]).tolist()
    return [ParquetPiece(replace(rows, metadata=None) if sent else rows, i, begins[i]) for i, rows in enumerate(groups)]


class ParquetEngine:
    """Processes Parquet files with threads."""

    where = "in files too large for it"

    def __init__(self, files: ParquetFiles, n_threads: int = 2) -> None:
        self.pieces = pieces_of(files)
        self.n_threads = n_threads
        self.n_pieces: int = len(self.pieces)
        self.schema = files.schema

    def reduce(self, work: Callable[[Any], T], merge: Callable[[Sequence[T]], T], progress: Share | None = None) -> T:
        """Merge the results of ``work`` for all pieces, in order; only a few are in memory at a time."""
        results: list[T] = []
        for result in self.map(work, progress):
            results.append(result)
            if len(results) > WINDOW:
                results = [merge(results)]
        return merge(results)

    def map(self, work: Callable[[Any], T], progress: Share | None) -> Iterator[T]:
        """Yield the results of pieces in order, computing at most a few ahead."""
        to_come = iter(self.pieces)
        with ThreadPoolExecutor(self.n_threads) as pool:
            waiting = deque(pool.submit(work, piece) for piece in islice(to_come, 2 * self.n_threads))
            try:
                for done in range(1, self.n_pieces + 1):
                    result = waiting.popleft().result()
                    waiting.extend(pool.submit(work, piece) for piece in islice(to_come, 1))
                    if progress is not None:
                        progress(done / self.n_pieces)
                    yield result
            finally:
                for future in waiting:
                    future.cancel()
