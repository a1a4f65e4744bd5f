"""Fit and certify encoders on a Dask cluster: workers keep coded records, the client asks for counts.

Each task gets complete :class:`Orders`: every split made so far, and the nodes to count. A split only sorts a block of
records, and a block remembers which splits it has applied. So orders can be repeated or delayed, or run on a block that
was read and coded again after a worker was lost: the counts are the same.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from certifare.certificates import Certificate
from certifare.certificates.claims import Claim
from certifare.certificates.counts import Exclusion, Missing
from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.records import check_columns
from certifare.encoders.training import mark_categorical
from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import Block, BlockReader, Feature, Role
from certifare.engines.coding import Plan
from certifare.engines.counting import (
    BlockCounter,
    CountedRecords,
    CountRequest,
    count_pieces,
    merge_tallies,
    one_label,
    reader_for,
    refuse_draw,
)
from certifare.engines.medians import add_counts
from certifare.engines.preparing import EngineTraining, Share, StepProgress, check_kind, prepare_over
from certifare.errors import GroupError, TableError
from certifare.growth import Growth, Histogram, Split
from certifare.growth.histograms import Layout, Records
from certifare.tables.elsewhere import is_dask
from certifare.tables.frames import Frame
from certifare.tables.reading import Reading

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

T = TypeVar("T")

AHEAD = 16
"""Number of splits that are computed in one round."""

FAN_IN = 8
"""Number of results that one task merges."""

BLOCKS_PER_THREAD = 2
"""Coded partitions are joined until there are at most this many blocks for each thread of the cluster."""

BLOCK_COST = 4 << 20
"""Another block delays a round by about the time to count this many bytes of coded records."""


def prepare_dask(
    encoder: FairTreeEncoder | BoostedEncoder,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    client: Client | None = None,
    progress: StepProgress | None = None,
) -> EngineTraining:
    """Read and code a Dask DataFrame on the cluster; ``encoder.fit_from`` fits on the result.

    The cells equal those that ``encoder.fit`` gives for the computed table.

    Parameters
    ----------
    encoder : FairTreeEncoder or BoostedEncoder
    X : dask.dataframe.DataFrame
        The features; with ``sensitive=`` in the encoder also the sensitive columns.
    y, sensitive_features : Dask Series or DataFrame
        Labels and groups, with the same partitions as X.
    client : distributed.Client, optional
        By default the current client.
    progress : callable, optional
        Called with the name of a step and the share of it that is done.
    """
    check_kind(encoder, FairTreeEncoder, BoostedEncoder)
    frame, labels, groups, features = _combine(encoder, X, y, sensitive_features)
    sample = Frame(frame[features]._meta_nonempty)
    fields = [sample.read(name) for name in features]
    marks = mark_categorical(sample, range(len(fields)), fields, encoder.categorical_features)
    reading = BlockReader(
        tuple(Feature(f.name, f.type, mark) for f, mark in zip(fields, marks, strict=True)), labels, groups
    )
    engine = DaskEngine(frame, client)
    training = prepare_over(encoder, engine, reading, progress=progress)
    if isinstance(encoder, BoostedEncoder):
        from certifare.engines.dask.boosting import map_scores

        return map_scores(encoder, engine, training)
    return training


def certify_dask(
    encoder: RestrictedEncoder,
    X: Any,
    y: Any,
    claim: Claim,
    *,
    sensitive_features: Any = None,
    missing: Missing = "refuse",
    exclusions: Iterable[Exclusion] = (),
    allow_training_records: bool = False,
) -> Certificate:
    """Certify an encoder on a Dask DataFrame of records that were not used to fit it; only counts leave the workers.

    Parameters
    ----------
    encoder : RestrictedEncoder
    X, y, sensitive_features
        As in :func:`prepare_dask`; ``y`` for metrics that condition on labels.
    claim : Claim
    missing, exclusions, allow_training_records
        As in :func:`certifare.certify`.
    """
    frame, labels, groups, _ = _combine(encoder, X, y, sensitive_features)
    one_label(labels)
    check_columns(encoder, list(frame.columns))
    counter = BlockCounter(encoder, reader_for(encoder, labels, groups))
    tally = DaskEngine(frame).reduce(counter, merge_tallies)
    counted = tally.counted(
        encoder, labelled=claim.labelled, missing=missing, allow_training_records=allow_training_records
    )
    counts = counted.counts
    counts = counts.with_exclusions((*counts.exclusions, *exclusions))
    return replace(counted, counts=counts).certify(claim)


@dataclass(frozen=True, eq=False)
class DaskRecords:
    """Records of a Dask DataFrame, which are counted on the workers.

    Attributes
    ----------
    frame : dask.dataframe.DataFrame
        With all columns that the encoder and the roles need.
    client : distributed.Client or None
        By default the current client.
    """

    frame: Any
    client: Client | None = None

    def count(self, encoder: RestrictedEncoder, reading: Reading, request: CountRequest) -> CountedRecords:
        """Count the records; only counts leave the workers."""
        refuse_draw(reading, request, "on a cluster")
        engine = DaskEngine(self.frame, self.client)
        return count_pieces(encoder, engine, list(self.frame.columns), reading, request)


@dataclass(frozen=True, eq=False)
class FramePiece:
    """A partition, as a pandas DataFrame."""

    frame: Any

    def blocks(self, reading: BlockReader) -> Iterator[Block]:
        """Read the whole partition."""
        yield reading.read(self.frame[reading.columns])


class DaskEngine:
    """Processes the partitions of a Dask DataFrame on its cluster.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    client : distributed.Client, optional
        By default the current client.
    """

    def __init__(self, frame: Any, client: Client | None = None) -> None:
        from distributed import get_client

        try:
            self._client = get_client() if client is None else client
        except ValueError as error:
            raise TableError(
                "There is no Dask cluster. Start one with distributed.Client(), or connect to one."
            ) from error
        self._parts: list[Delayed] = frame.to_delayed()
        self.n_pieces: int = len(self._parts)
        self.n_records: int | None = None

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        return self._client

    def map(self, work: Callable[..., Any], *each: Sequence[Any]) -> list[Future]:
        """Compute ``work(piece, *arguments)`` for each partition, and keep the results on the workers."""
        from dask import delayed

        shared, run = delayed(work, pure=False), delayed(_work)
        futures = self._client.compute(
            [run(shared, part, *rest) for part, *rest in zip(self._parts, *each, strict=True)]
        )
        return list(futures)

    def reduce(
        self,
        work: Callable[..., T],
        merge: Callable[[Sequence[T]], T],
        each: Sequence[Any] | None = None,
        progress: Share | None = None,
    ) -> T:
        """Merge the results of ``work`` for all partitions, in order, by a tree of tasks."""
        futures = self.map(work, *([] if each is None else [each]))
        _watch(futures, progress)
        return tree_merge(self._client, merge, futures).result()  # type: ignore[no-any-return]

    def code(self, plan: Plan, lengths: Sequence[int], progress: Share | None = None) -> DaskSource:
        """Code all partitions, and keep them on the workers."""
        from dask import delayed

        shared, run, join = delayed(plan, pure=False), delayed(_code), delayed(_join)
        coded = [run(shared, part, length) for part, length in zip(self._parts, lengths, strict=True)]
        threads = self._client.nthreads()
        n_bytes = 4 * sum(lengths) * plan.layout.width
        # With b blocks a round takes b · cost + bytes / b, which is least at this number.
        n_blocks = max(len(threads), math.isqrt(n_bytes // BLOCK_COST))
        n_blocks = max(1, min(len(coded), n_blocks, BLOCKS_PER_THREAD * sum(threads.values())))
        bounds = [len(coded) * i // n_blocks for i in range(n_blocks + 1)]
        blocks = [join(coded[a:b]) if b > a + 1 else coded[a] for a, b in pairwise(bounds)]
        futures = self._client.compute(blocks)
        _watch(futures, progress)
        # Blocks on the same worker are adjacent, so that their counts are added up before they are sent.
        where = self._client.who_has(futures)
        futures.sort(key=lambda future: min(where.get(future.key, ()), default=""))
        return DaskSource(self._client, futures, plan.layout)


class Cut(NamedTuple):
    """A split of a node: records whose code in ``column`` goes left are in node ``left``, the others in ``right``."""

    node: int
    column: int
    goes_left: NDArray[np.uint8]  # packed bits
    shape: tuple[int, ...]  # codes, or groups and codes
    left: int
    right: int


@dataclass(frozen=True)
class Orders:
    """A request to blocks: splits to apply and nodes to count.

    Attributes
    ----------
    growth : int
        Number of the growth; another one starts with unsplit records.
    cuts : tuple of Cut
        All splits made so far, parents before children.
    count : tuple of int
        Nodes to count.
    """

    growth: int
    cuts: tuple[Cut, ...]
    count: tuple[int, ...]


class CodedBlock:
    """Coded records on a worker, sorted by the splits that it has applied.

    Orders sort the block but do not change its records, so it can be used for any later orders.
    """

    def __init__(self, words: NDArray[np.uint32], layout: Layout) -> None:
        # Data from the network may be read-only.
        self.words = words if words.flags.writeable else words.copy()
        self.layout = layout
        self._records = Records(self.words, layout)
        self._growth = 0
        self._runs = {0: (0, len(words))}
        self._lock = threading.Lock()

    def count(self, orders: Orders) -> NDArray[np.int64]:
        """Return the histograms of the nodes in the orders: (nodes, classes and sums, codes)."""
        with self._lock:
            if orders.growth != self._growth:
                self._growth, self._runs = orders.growth, {0: (0, len(self.words))}
            for cut in orders.cuts:
                if cut.left not in self._runs:
                    start, stop = self._runs[cut.node]
                    sides = np.unpackbits(cut.goes_left, count=math.prod(cut.shape))
                    goes_left = sides.astype(bool).reshape(cut.shape)
                    middle = self._records.divide((start, stop), cut.column, goes_left)
                    self._runs[cut.left], self._runs[cut.right] = (start, middle), (middle, stop)
            n_rows = self.layout.n_classes + self.layout.n_sums
            counts = np.empty((len(orders.count), n_rows, sum(self.layout.n_codes)), dtype=np.int64)
            for of_node, node in zip(counts, orders.count, strict=True):
                of_node[:] = self._records.count(self._runs[node])
            return counts

    def __sizeof__(self) -> int:
        return int(self.words.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        # A block that is moved while a task sorts it would lose records; the runs need not be sent.
        with self._lock:
            return CodedBlock, (self.words.copy(), self.layout)


@dataclass
class DaskSource:
    """Computes histograms on a cluster, for several splits in one round.

    Attributes
    ----------
    client : distributed.Client
    blocks : list of Future
        Futures of `CodedBlock`.
    layout : Layout
        Layout of the coded records.
    ahead : int
        Number of expected splits that the grower should announce.
    rounds, bytes : int
        Number of requests to workers, and bytes of counts that came back to the client.
    """

    client: Client
    blocks: list[Future]
    layout: Layout
    ahead: int = AHEAD
    rounds: int = 0
    bytes: int = 0
    _growth: int = 0
    _all: Histogram | None = None
    _cuts: list[Cut] = field(default_factory=list)
    _key: dict[int, int] = field(default_factory=dict)
    _children: dict[int, tuple[int, int]] = field(default_factory=dict)
    _histograms: dict[int, Histogram] = field(default_factory=dict)
    _expected: Sequence[Split] = ()

    def root(self) -> Histogram:
        """Start another growth, with the histogram of all records."""
        self._growth += 1
        self._cuts, self._children, self._expected = [], {}, ()
        if self._all is None:
            self._all = self._ask((0,))[0]
        # Nodes that are split ahead of the grower have no number yet, so they have their own keys.
        self._key, self._histograms = {0: 0}, {0: self._all}
        return self._all

    def expect(self, splits: Sequence[Split]) -> None:
        """Note which splits will probably be requested."""
        self._expected = splits

    def split(
        self, node: int, column: int, goes_left: NDArray[np.bool_], left: int, right: int
    ) -> tuple[Histogram, Histogram]:
        """Return the histograms of both children; computed together with those of expected splits, or earlier."""
        if self._key[node] not in self._children:
            self._make([(node, column, goes_left), *((s.node, s.column, s.goes_left) for s in self._expected)])
        self._key[left], self._key[right] = self._children[self._key[node]]
        return self._histograms[self._key[left]], self._histograms[self._key[right]]

    def leaves(self, growth: Growth) -> list[Histogram]:
        """Return the histograms of the cells of the tree that was grown last."""
        self._make([(s.node, s.column, s.goes_left) for s in growth.splits if s.node in self._key])
        for j, split in enumerate(growth.splits):
            self._key[2 * j + 1], self._key[2 * j + 2] = self._children[self._key[split.node]]
        return [self._histograms[self._key[node]] for node in growth.leaves().tolist()]

    def _make(self, splits: Sequence[tuple[int, int, NDArray[np.bool_]]]) -> None:
        """Split nodes in one round: count the smaller child of each, and compute the other as the difference."""
        made: list[tuple[int, int, int]] = []
        for node, column, goes_left in splits:
            key = self._key[node]
            if key in self._children:
                continue
            left, right = 2 * len(self._cuts) + 1, 2 * len(self._cuts) + 2
            self._children[key] = left, right
            self._cuts.append(Cut(key, column, np.packbits(goes_left), goes_left.shape, left, right))
            left_is_smaller = self._histograms[key].smaller_is_left(column, goes_left)
            made.append((key, left, right) if left_is_smaller else (key, right, left))
        if not made:
            return
        for (key, smaller, larger), histogram in zip(made, self._ask(tuple(m[1] for m in made)), strict=True):
            self._histograms[smaller] = histogram
            self._histograms[larger] = self._histograms[key] - histogram

    def _ask(self, nodes: tuple[int, ...]) -> list[Histogram]:
        from dask import delayed

        # The orders are a separate task, so that they are sent once to each worker and can be recreated.
        orders = delayed(Orders(self._growth, tuple(self._cuts), nodes), pure=False, traverse=False)
        count = delayed(_count, pure=False)
        total = tree_merge(self.client, add_counts, [count(block, orders) for block in self.blocks]).result()
        self.rounds += 1
        self.bytes += total.nbytes
        return [Histogram(of_node, self.layout.offsets, self.layout.n_sums) for of_node in total]


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


def _watch(futures: Sequence[Future], progress: Share | None) -> None:
    """Wait for futures, and report how many are done."""
    from distributed import as_completed, wait

    if progress is None:
        wait(futures)
        return
    for done, _ in enumerate(as_completed(futures), start=1):
        progress(done / len(futures))


def _work(work: Callable[..., T], part: Any, *each: Any) -> T:
    return work(FramePiece(part), *each)


def _code(plan: Plan, part: Any, length: int) -> CodedBlock:
    blocks = list(plan.blocks(FramePiece(part)))
    n_records = sum(map(len, blocks))
    if n_records != length:
        raise TableError(f"The table changed while it was read: a partition had {length:,} records, now {n_records:,}.")
    layout = plan.layout
    words = np.empty((n_records, layout.width), dtype=np.uint32)
    records = Records(words, layout)
    start = 0
    for block in blocks:
        plan.write(records, start, block)
        start += len(block)
    return CodedBlock(words, layout)


def _join(blocks: Sequence[CodedBlock]) -> CodedBlock:
    words = np.concatenate([block.words for block in blocks])
    return CodedBlock(words, blocks[0].layout)


def _count(block: CodedBlock, orders: Orders) -> NDArray[np.int64]:
    return block.count(orders)


def _merge(merge: Callable[[Sequence[T]], T], *parts: T) -> T:
    return merge(parts) if len(parts) > 1 else parts[0]


def _combine(
    encoder: RestrictedEncoder, X: Any, y: Any, sensitive_features: Any
) -> tuple[Any, tuple[Role, ...], tuple[Role, ...], list[str]]:
    """Combine features, labels and groups in one dataframe, so that their partitions stay together."""
    names = list(X.columns)
    if not all(isinstance(name, str) for name in names):
        raise TableError("Some column names are not text. Convert them: X = X.rename(columns=str).")
    if (sensitive_features is None) == (encoder.sensitive is None):
        raise GroupError("Pass the groups once: sensitive_features=…, or sensitive= in the constructor.")
    groups: tuple[Role, ...]
    frame = X
    if encoder.sensitive is not None:
        listed = [encoder.sensitive] if isinstance(encoder.sensitive, str | int) else list(encoder.sensitive)
        positions = Frame(X._meta_nonempty)
        groups = tuple(Role(name, name) for name in (positions.names[positions.position(s)] for s in listed))
    else:
        frame, groups = _attach(frame, sensitive_features, "sensitive", names)
    labels: tuple[Role, ...] = ()
    if y is not None:
        frame, labels = _attach(frame, y, "label", names)
    features = [name for name in names if name not in {role.column for role in groups}]
    return frame, labels, groups, features


def _attach(frame: Any, values: Any, what: str, names: Sequence[str]) -> tuple[Any, tuple[Role, ...]]:
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
