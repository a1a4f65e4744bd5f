"""Grow trees on a Dask cluster: workers keep coded records, the client asks for counts.

Each task gets complete :class:`Orders`: every split made so far, and the nodes to count. A split only sorts a block of
records, and a block remembers which splits it has applied. So orders can be repeated or delayed, or run on a block that
was read and coded again after a worker was lost: the counts are the same.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.tree import FairTreeEncoder
from certifare.engines.blocks import FramePiece, Share
from certifare.engines.coding import Plan
from certifare.engines.dask.engine import DaskEngine, combine_frames, tree_merge, watch
from certifare.engines.preparing import EngineTraining, StepProgress, check_tree, feature_reader, prepare_over
from certifare.growth import Growth, Histogram, Split
from certifare.growth.histograms import Layout, Records
from certifare.tables.frames import Frame

if TYPE_CHECKING:
    from distributed import Client, Future

#: Number of splits that are computed in one round.
AHEAD = 16
#: Coded partitions are joined until there are at most this many blocks for each thread of the cluster.
BLOCKS_PER_THREAD = 2
#: Another block delays a round by about the time to count this many bytes of coded records.
BLOCK_COST = 4 << 20


def prepare_dask(
    encoder: FairTreeEncoder,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    progress: StepProgress | None = None,
) -> EngineTraining:
    """Read and code a Dask DataFrame on the cluster; ``encoder.fit_from`` fits on the result.

    The cells equal those that ``encoder.fit`` gives for the computed table.

    - ``X``: the features; with ``sensitive=`` in the encoder also the sensitive columns.
    - ``y``, ``sensitive_features``: Dask Series or DataFrames with the same partitions, or names of columns of X.
    """
    check_tree(encoder)
    frame, labels, groups = combine_frames(encoder, X, y, sensitive_features)
    taken = {role.column for role in (*labels, *groups)}
    sample = Frame(frame[[name for name in frame.columns if name not in taken]]._meta_nonempty)
    reading = feature_reader(encoder, sample, labels, groups)
    return prepare_over(encoder, GrowingDaskEngine(frame), reading, progress=progress)


class GrowingDaskEngine(DaskEngine):
    """A Dask engine that also codes records, for a grower."""

    n_records: int | None = None

    def code(self, plan: Plan, lengths: Sequence[int], progress: Share | None = None) -> DaskSource:
        """Code all partitions, and keep them on the workers."""
        from dask import delayed

        shared, run, join = delayed(plan, pure=False), delayed(_code), delayed(_join)
        coded = [run(shared, part, length) for part, length in zip(self.parts, lengths, strict=True)]
        threads = self.client.nthreads()
        n_bytes = 4 * sum(lengths) * plan.layout.width
        # With b blocks a round takes b · cost + bytes / b, which is least at this number.
        n_blocks = max(len(threads), math.isqrt(n_bytes // BLOCK_COST))
        n_blocks = max(1, min(len(coded), n_blocks, BLOCKS_PER_THREAD * sum(threads.values())))
        bounds = [len(coded) * i // n_blocks for i in range(n_blocks + 1)]
        blocks = [join(coded[a:b]) if b > a + 1 else coded[a] for a, b in pairwise(bounds)]
        futures = self.client.compute(blocks)
        watch(futures, progress)
        # Blocks on the same worker are adjacent, so that their counts are added up before they are sent.
        where = self.client.who_has(futures)
        futures.sort(key=lambda future: min(where.get(future.key, ()), default=""))
        return DaskSource(self.client, futures, plan.layout)


class Cut(NamedTuple):
    """A split of a node: records whose code in ``column`` goes left are in node ``left``, the others in ``right``."""

    node: int
    column: int
    goes_left: NDArray[np.uint8]  # packed bits
    n_codes: int
    left: int
    right: int


@dataclass(frozen=True)
class Orders:
    """A request to blocks: splits to apply and nodes to count."""

    growth: int  # number of the growth; another one starts with unsplit records
    cuts: tuple[Cut, ...]  # all splits made so far, parents before children
    count: tuple[int, ...]  # nodes to count


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
                    goes_left = np.unpackbits(cut.goes_left, count=cut.n_codes).astype(bool)
                    middle = self._records.divide((start, stop), cut.column, goes_left)
                    self._runs[cut.left], self._runs[cut.right] = (start, middle), (middle, stop)
            return np.array([self._records.count(self._runs[node]) for node in orders.count], dtype=np.int64)

    def __sizeof__(self) -> int:
        return int(self.words.nbytes)

    def __reduce__(self) -> tuple[Any, ...]:
        # A block that is moved while a task sorts it would lose records; the runs need not be sent.
        with self._lock:
            return CodedBlock, (self.words.copy(), self.layout)


@dataclass
class DaskSource:
    """Computes histograms on a cluster, for several splits in one round."""

    client: Client
    blocks: list[Future]  # futures of `CodedBlock`
    layout: Layout  # layout of the coded records
    ahead: int = AHEAD  # number of expected splits that the grower should announce
    # Number of requests to workers, and bytes of counts that came back to the client
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
            self._cuts.append(Cut(key, column, np.packbits(goes_left), len(goes_left), left, right))
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
        total = tree_merge(self.client, _add, [count(block, orders) for block in self.blocks]).result()
        self.rounds += 1
        self.bytes += total.nbytes
        return [Histogram(of_node, self.layout.offsets) for of_node in total]


def _code(plan: Plan, part: Any, length: int) -> CodedBlock:
    words = np.empty((length, plan.layout.width), dtype=np.uint32)
    plan.write(Records(words, plan.layout), FramePiece(part), 0, length)
    return CodedBlock(words, plan.layout)


def _join(blocks: Sequence[CodedBlock]) -> CodedBlock:
    words = np.concatenate([block.words for block in blocks])
    return CodedBlock(words, blocks[0].layout)


def _count(block: CodedBlock, orders: Orders) -> NDArray[np.int64]:
    return block.count(orders)


def _add(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    total: NDArray[np.int64] = np.sum(parts, axis=0)
    return total
