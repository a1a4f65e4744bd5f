"""Count, sample and encode the partitions of a Dask DataFrame, or Parquet files, on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from certifare.engines.blocks import FramePiece, Piece, Role, Share, group_columns, roles_of
from certifare.engines.parquet.engine import pieces_of
from certifare.errors import GroupError, TableError
from certifare.tables.elsewhere import comes_from
from certifare.tables.frames import Frame
from certifare.tables.table import arrow_table

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

    from certifare.encoders.base import RestrictedEncoder
    from certifare.tables.parquet import ParquetFiles

T = TypeVar("T")

#: Number of results that one task merges.
FAN_IN = 8


def is_dask(table: Any) -> bool:
    """Return whether a table is a Dask DataFrame or Series."""
    return comes_from(table, "dask", "dask_expr") and hasattr(table, "__dask_graph__")


class DaskEngine:
    """Processes the partitions of a Dask DataFrame on the cluster of the current client.

    A task that was on a worker that is lost runs again on another; its partition is read again.
    """

    where = "on a cluster"
    client: Client
    schema: pa.Schema
    parts: Sequence[Delayed | Piece]  # what a task works on
    n_pieces: int

    def __init__(self, frame: Any) -> None:
        from distributed import get_client

        try:
            self.client = get_client()
        except ValueError as error:
            raise TableError(
                "There is no Dask cluster. Start one with distributed.Client(), or connect to one."
            ) from error
        check_text_names(frame.columns)
        self.schema = arrow_table(frame._meta_nonempty).schema
        self.parts = frame.to_delayed()
        self.n_pieces = len(self.parts)

    def reduce(self, work: Callable[[Any], T], merge: Callable[[Sequence[T]], T], progress: Share | None = None) -> T:
        """Merge the results of ``work`` for all partitions, in order, by a tree of tasks."""
        from dask import delayed
        from distributed import KilledWorker

        shared, run = delayed(work, pure=False), delayed(_work)
        futures = list(self.client.compute([run(shared, part, i) for i, part in enumerate(self.parts)]))
        watch(futures, progress)
        try:
            return tree_merge(self.client, merge, futures).result()  # type: ignore[no-any-return]
        except KilledWorker as error:
            raise TableError(
                "Several workers of the Dask cluster died while they did the same task, mostly because they lack "
                "memory. Make partitions smaller (df.repartition), or give workers more memory; their logs say more."
            ) from error


class DaskFiles(DaskEngine):
    """Processes Parquet files on a Dask cluster, whose workers read them themselves."""

    def __init__(self, files: ParquetFiles, client: Client) -> None:
        self.client, self.schema = client, files.schema
        self.parts = pieces_of(files, sent=True)
        self.n_pieces = len(self.parts)


def encode_dask(encoder: RestrictedEncoder, frame: Any, sensitive_features: Any = None) -> Any:
    """Encode a Dask DataFrame lazily, partition by partition; ``sensitive_features`` are names of its columns."""
    groups = group_columns(sensitive_features, "Dask")
    encode = functools.partial(_encode, encoder=encoder, groups=groups)
    return frame.map_partitions(encode, meta=encode(frame._meta))


def _encode(frame: Any, encoder: RestrictedEncoder, groups: Sequence[str] | None) -> Any:
    # Types follow from the encoder, not from the records: there may be none.
    return encoder.transform(frame, sensitive_features=None if groups is None else frame[list(groups)])


def tree_merge(client: Client, merge: Callable[[Sequence[T]], T], parts: Sequence[Future | Delayed]) -> Future:
    """Merge results on the workers in order, a few at a time."""
    from dask import delayed

    # Send all tasks to the scheduler at once: sending them one by one takes milliseconds each.
    join = delayed(_merge, pure=False)
    parts = list(parts)
    while True:
        parts = [join(merge, *parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        if len(parts) == 1:
            return client.compute(parts[0])


def watch(futures: Sequence[Future], progress: Share | None) -> None:
    """Wait for futures, and report how many are done."""
    from distributed import as_completed, wait

    if progress is None:
        wait(futures)
        return
    for done, _ in enumerate(as_completed(futures), start=1):
        progress(done / len(futures))


def _work(work: Callable[[Piece], T], part: Any, number: int) -> T:
    return work(part if isinstance(part, Piece) else FramePiece(part, number))


def _merge(merge: Callable[[Sequence[T]], T], *parts: T) -> T:
    return merge(parts) if len(parts) > 1 else parts[0]


def check_text_names(names: Sequence[Any]) -> None:
    """Raise if columns have names that are not text."""
    if not all(isinstance(name, str) for name in names):
        raise TableError("Some column names are not text. Convert them: X = X.rename(columns=str).")


def combine_frames(
    encoder: RestrictedEncoder, X: Any, y: Any, sensitive_features: Any
) -> tuple[Any, tuple[Role, ...], tuple[Role, ...]]:
    """Combine features, labels and groups in one dataframe, so that their partitions stay together.

    Labels and groups are names of columns of X, or Dask Series or DataFrames with the same partitions.
    """
    names = list(X.columns)
    check_text_names(names)
    if (sensitive_features is None) == (encoder.sensitive is None):
        raise GroupError("Pass the groups once: sensitive_features=…, or sensitive= in the constructor.")
    groups: tuple[Role, ...]
    frame = X
    if encoder.sensitive is not None:
        listed = [encoder.sensitive] if isinstance(encoder.sensitive, str | int) else list(encoder.sensitive)
        sample = Frame(X._meta_nonempty)
        groups = tuple(Role.of(sample.names[sample.position(s)]) for s in listed)
    else:
        frame, groups = _attach(frame, sensitive_features, "sensitive", names)
    labels: tuple[Role, ...] = ()
    if y is not None:
        frame, labels = _attach(frame, y, "label", names)
    return frame, labels, groups


def _attach(frame: Any, values: Any, what: str, names: Sequence[str]) -> tuple[Any, tuple[Role, ...]]:
    if isinstance(values, str | list | tuple):
        return frame, roles_of(values, names, what)
    if not is_dask(values):
        raise TableError(f"{what}: X is a Dask DataFrame, so give a Dask Series or DataFrame with the same partitions.")
    columns = [(values, values.name)] if values.ndim == 1 else [(values[name], name) for name in values.columns]
    if values.npartitions != frame.npartitions:
        raise TableError(
            f"{what}: {values.npartitions} partitions, but X has {frame.npartitions}. Take both from one dataframe."
        )
    roles = []
    for i, (column, name) in enumerate(columns):
        unused = f"{what} {i}"
        while unused in names:
            unused += "'"
        frame = frame.assign(**{unused: column})
        default = what if len(columns) == 1 else f"{what}_{i}"
        roles.append(Role(unused, name if isinstance(name, str) and name else default))
    return frame, tuple(roles)
