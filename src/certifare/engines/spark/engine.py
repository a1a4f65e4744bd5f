"""Count, sample and encode Spark DataFrames, or Parquet files, on executors.

The work travels as bytes in a broadcast (:mod:`certifare.engines.wire`), each partition as Arrow data, and its result
comes back as bytes. Executors merge results, so that the driver gets few, however many partitions there are. They need
certifare, of the same version.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from certifare.engines.blocks import FramePiece, Piece, Share, group_columns
from certifare.engines.parquet.engine import ParquetPiece, pieces_of
from certifare.engines.wire import RESULTS, EncoderBytes, from_bytes, read_work, to_bytes, write_work
from certifare.errors import CertifareError, TableError
from certifare.foundation.version import __version__

if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.tables.parquet import ParquetFiles

T = TypeVar("T")

#: How often Spark is asked how many tasks are done.
POLL_SECONDS = 0.5
#: Number of results that are merged at a time, by an executor or at last by the driver.
FAN_IN = 8
#: Columns of the dataframe of results: the number of the piece, or of the pieces that were merged; and the result.
RESULT = "number int, result binary"


class SparkEngine:
    """Processes the partitions of a Spark DataFrame on its executors.

    A partition of an executor that is lost is computed again on another. It must hold the same records then, in any
    order; if it does not, the job stops with an error.
    """

    where = "on a cluster"
    schema: pa.Schema

    def __init__(self, frame: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._frame = frame
        self._context = _context_of(frame)
        self.schema = to_arrow_schema(frame.schema)

    @functools.cached_property
    def _n_tasks(self) -> int:
        """About how many partitions there are; Spark may join some when it reads other columns."""
        return int(self._frame.rdd.getNumPartitions())

    def _tasks(self, names: list[str]) -> tuple[Any, Callable[..., Iterator[Piece]]]:
        """Return a dataframe whose partitions are tasks that read some columns, and what makes pieces of a task."""
        # Columns that the work does not read need not be moved to Python.
        read = [f"`{name.replace('`', '``')}`" for name in names]
        return _plainly_named(self._frame.select(*read)), functools.partial(_partition, names)

    def reduce(self, work: Callable[[Any], T], merge: Callable[[Sequence[T]], T], progress: Share | None = None) -> T:
        """Merge the results of ``work`` for all partitions, in order."""
        sent = self._context.broadcast(write_work(work))
        frame, pieces = self._tasks(list(work.columns))  # type: ignore[attr-defined]
        parts = frame.mapInArrow(functools.partial(_run, sent, __version__, pieces), RESULT)
        join = functools.partial(_merge, RESULTS[type(work)], merge)
        n = self._n_tasks
        while n > FAN_IN:
            n = -(-n // FAN_IN)
            together = parts.selectExpr(f"int(number / {FAN_IN}) AS bundle", "number", "result")
            parts = together.repartition(n, "bundle").mapInArrow(join, RESULT)
        try:
            with _watching(self._context, progress):
                rows = sorted(_collected(parts), key=lambda row: row[0])
        finally:
            sent.unpersist()
        if not rows:
            raise TableError("The dataframe has columns but no records.")
        results: list[T] = [from_bytes(bytes(content), RESULTS[type(work)]) for _, content in rows]
        return merge(results)


class SparkFiles(SparkEngine):
    """Processes Parquet files on Spark, whose executors read them themselves."""

    def __init__(self, files: ParquetFiles, session: Any) -> None:
        pieces = pieces_of(files, sent=True)
        self.schema = files.schema
        self._context = session.sparkContext
        self._frame = session.range(0, len(pieces), 1, len(pieces))
        self._pieces = self._context.broadcast(to_bytes(pieces))

    def _tasks(self, names: list[str]) -> tuple[Any, Callable[..., Iterator[Piece]]]:
        return self._frame, functools.partial(_row_groups, self._pieces)


def encode_spark(encoder: RestrictedEncoder, frame: Any, sensitive_features: Any = None) -> Any:
    """Encode a Spark DataFrame lazily; ``sensitive_features`` are names of its columns."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    groups = group_columns(sensitive_features, "Spark")
    schema = to_arrow_schema(frame.schema)
    # Types follow from the encoder and the columns, not from the records.
    example = _encoded(encoder, schema.empty_table(), groups).schema
    sent = _context_of(frame).broadcast(msgspec.msgpack.encode(EncoderBytes.of(encoder)))
    encode = functools.partial(_encode, sent, groups, schema.names)
    return _plainly_named(frame).mapInArrow(encode, from_arrow_schema(example))


def _plainly_named(frame: Any) -> Any:
    """Return a dataframe with other names of columns: ``mapInArrow`` takes no name with a dot or a backtick."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


def _run(
    sent: Any, version: str, pieces: Callable[..., Iterator[Piece]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do the work with the pieces of a task, on an executor."""
    if version != __version__:
        raise RuntimeError(f"The executor has certifare {__version__}, the driver {version}: install the same version.")
    work = read_work(sent.value)
    for piece in pieces(batches):
        yield _result(piece.number, work(piece))


def _merge(
    result: type[T], merge: Callable[[Sequence[T]], T], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Merge the results of each bundle of pieces, in order, on an executor."""
    bundles: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for bundle, number, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            bundles.setdefault(bundle, []).append((number, content))
    for bundle, parts in bundles.items():
        merged = merge([from_bytes(content, result) for _, content in sorted(parts)])
        yield _result(bundle, merged)


def _result(number: int, result: Any) -> pa.RecordBatch:
    columns = {"number": pa.array([number], pa.int32()), "result": pa.array([to_bytes(result)], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def _partition(names: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    """Return the partition of a task as one piece; none if it is empty."""
    from pyspark import TaskContext

    found = [batch for batch in batches if batch.num_rows]
    if found:
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        yield FramePiece(pa.Table.from_batches(found).rename_columns(names), number)


def _row_groups(sent: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    """Return the row groups whose numbers a task has."""
    pieces = from_bytes(sent.value, list[ParquetPiece])
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pieces[number]


def _encode(
    sent: Any, groups: Sequence[str] | None, names: list[str], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Encode a partition, on an executor."""
    encoder = msgspec.msgpack.decode(sent.value, type=EncoderBytes).read()
    for batch in batches:
        yield from _encoded(encoder, pa.Table.from_batches([batch]).rename_columns(names), groups).to_batches()


def _encoded(encoder: RestrictedEncoder, table: pa.Table, groups: Sequence[str] | None) -> pa.Table:
    return encoder.transform(table, sensitive_features=None if groups is None else table.select(list(groups)))


def _context_of(frame: Any) -> Any:
    try:
        return frame.sparkSession.sparkContext
    except Exception as error:
        raise TableError(
            "Spark Connect is not supported. Use a classic session: SparkSession.builder.master(…).getOrCreate()."
        ) from error


def _collected(frame: Any) -> list[Any]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return frame.collect()  # type: ignore[no-any-return]
    except (PySparkException, Py4JError) as error:
        raise _explained(str(error)) from error


def _explained(message: str) -> CertifareError:
    """Find the error that an executor raised in what Spark says of it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    own = next((line for line in reversed(raised) if line.startswith(("certifare.errors.", "RuntimeError:"))), None)
    if own is not None:
        return TableError(own.partition(": ")[2])
    lost = [line for line in lines if "ExecutorLostFailure" in line or "executor lost" in line.lower()]
    return TableError(f"Spark could not finish the job: {[*lost, *raised[::-1], *lines, 'unknown'][0][:300]}")


@contextlib.contextmanager
def _watching(context: Any, progress: Share | None) -> Iterator[None]:
    """Report the share of Spark's tasks that are done, while a job runs."""
    if progress is None:
        yield
        return
    done, tracker = threading.Event(), context.statusTracker()

    def poll() -> None:
        while not done.wait(POLL_SECONDS):
            stages = [found for i in tracker.getActiveStageIds() if (found := tracker.getStageInfo(i))]
            total = sum(stage.numTasks for stage in stages)
            if total:
                progress(sum(stage.numCompletedTasks for stage in stages) / total)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    progress(1.0)
