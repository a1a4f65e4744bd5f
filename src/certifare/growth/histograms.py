"""Histograms of a node: for each column, the number of records of each class with each code.

Histograms add up over rows, so blocks of rows can be counted by threads, files or machines, and a child's
histogram is its parent's minus its sibling's.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from certifare.errors import ArgumentError
from certifare.foundation.compiler import kernel
from certifare.growth.binning import Codes
from certifare.growth.criterion import Targets
from certifare.growth.threads import blocks, row_ranges

if TYPE_CHECKING:
    from certifare.growth.splits import Split

WORTH_A_THREAD = 1 << 14
"""Nodes with fewer records are split faster than a thread starts."""

STRETCH = 256
"""Number of records that are searched at a time for those on the wrong side."""

T = TypeVar("T")


class Layout(NamedTuple):
    """The layout of a record, and so of a histogram."""

    n_codes: tuple[int, ...]  # number of codes of each column
    n_classes: int
    n_coordinates: int = 0  # number of coordinates that are summed

    @property
    def width(self) -> int:
        """Number of words of a record."""
        return -(-(self.first_coordinate + self.n_coordinates) // 2)

    @property
    def first_coordinate(self) -> int:
        """Position of the coordinates in a record, after the codes, in half words."""
        return -(-sum(2 if size > 256 else 1 for size in (self.n_classes, *self.n_codes)) // 2)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index of the first code of each column among all codes."""
        return np.concatenate([[0], np.cumsum(self.n_codes)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of one node for all columns; below them, sums of coordinates. Histograms add up."""

    table: NDArray[np.int64]  # (classes + sums, codes of all columns)
    offsets: NDArray[np.int64]  # (columns + 1,): the codes of column c are ``offsets[c] … offsets[c+1]-1``
    n_sums: int = 0  # number of rows that are sums, one for each coordinate

    @property
    def counts(self) -> NDArray[np.int64]:
        """Records by class and code, (classes, codes of all columns)."""
        return self.table[: len(self.table) - self.n_sums]

    @property
    def sums(self) -> NDArray[np.int64]:
        """Sums of coordinates by code, (coordinates, codes of all columns)."""
        return self.table[len(self.table) - self.n_sums :]

    def __getitem__(self, column: int) -> NDArray[np.int64]:
        """Return the counts (codes, classes) of one column."""
        return self.counts[:, self.offsets[column] : self.offsets[column + 1]].T

    def ranges(self, columns: Sequence[int]) -> list[slice]:
        """Return the slices of some columns among all codes."""
        return [slice(self.offsets[column], self.offsets[column + 1]) for column in columns]

    def __sub__(self, other: "Histogram") -> "Histogram":
        return Histogram(self.table - other.table, self.offsets, self.n_sums)

    def left(self, column: int, goes_left: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of records of each class that a split sends left."""
        total: NDArray[np.int64] = self[column][goes_left].sum(axis=0)
        return total

    def smaller_is_left(self, column: int, goes_left: NDArray[np.bool_]) -> bool:
        """Return whether a split sends at most half of the records left, so that counting those is less work."""
        return bool(2 * self.left(column, goes_left).sum() <= self[column].sum())

    @property
    def classes(self) -> NDArray[np.int64]:
        """Number of records of each class in the node."""
        total: NDArray[np.int64] = self[0].sum(axis=0)
        return total


class HistogramSource(Protocol):
    """A source of histograms for the grower: memory, a stream of files, or a cluster."""

    def root(self) -> Histogram:
        """Return the histogram of all records, which are node 0."""
        ...

    def split(
        self, node: int, column: int, goes_left: NDArray[np.bool_], left: int, right: int
    ) -> tuple[Histogram, Histogram]:
        """Send the node's records whose code in ``column`` has ``goes_left`` to node ``left``, the others to ``right``.

        ``goes_left`` has a value for each code. Returns the histograms of both.
        """
        ...


class DistantSource(HistogramSource, Protocol):
    """A source with high latency: it is told which splits are expected, to compute several at once."""

    ahead: int  # number of expected splits that it wants

    def expect(self, splits: Sequence["Split"]) -> None:
        """Note which nodes will probably be split soon, and how, the most probable first.

        Called before each :meth:`split`. Other nodes may be split instead, or none.
        """
        ...


class RecordSource:
    """Records on one machine, packed in memory or in a memory-mapped file.

    A node is a run of records: a split moves the node's records, in place, so that those that go left come
    first, and counting always reads records in order. With several threads each has its own share of the records, and
    every node has a run in each share. Counts are integers, so any number of threads gives the same histograms.

    - ``records``: they are reordered.
    """

    def __init__(self, records: "Records", n_threads: int = 1) -> None:
        if n_threads < 1:
            raise ArgumentError(f"n_threads is {n_threads}; give 1 or more.")
        self._records = records
        self._shares = row_ranges(len(records), n_threads)
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._histograms: dict[int, Histogram] = {}
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def root(self) -> Histogram:
        """Count all records and forget all splits, so that another tree can grow from the same source."""
        self._runs = {0: self._shares}
        self._histograms = {0: self._sum(self._map(self._records.count, self._shares))}
        return self._histograms[0]

    def split(
        self, node: int, column: int, goes_left: NDArray[np.bool_], left: int, right: int
    ) -> tuple[Histogram, Histogram]:
        """Return the histograms of both children: the smaller one is counted, the other is the difference."""
        parent = self._histograms.pop(node)
        count_left = parent.smaller_is_left(column, goes_left)

        def divide(run: tuple[int, int]) -> tuple[int, NDArray[np.uint32]]:
            middle = self._records.divide(run, column, goes_left)
            return middle, self._records.count((run[0], middle) if count_left else (middle, run[1]))

        runs = self._runs.pop(node)
        divided = self._map(divide, runs)
        self._runs[left] = [(start, middle) for (start, _), (middle, _) in zip(runs, divided, strict=True)]
        self._runs[right] = [(middle, stop) for (_, stop), (middle, _) in zip(runs, divided, strict=True)]
        smaller, larger = (left, right) if count_left else (right, left)
        self._histograms[smaller] = self._sum([counts for _, counts in divided])
        self._histograms[larger] = parent - self._histograms[smaller]
        return self._histograms[left], self._histograms[right]

    def _map(self, work: Callable[[tuple[int, int]], T], runs: list[tuple[int, int]]) -> list[T]:
        if self._pool is None or sum(stop - start for start, stop in runs) < WORTH_A_THREAD:
            return [work(run) for run in runs]
        return list(self._pool.map(work, runs))

    def _sum(self, counts: list[NDArray[np.uint32]]) -> Histogram:
        layout = self._records.layout
        return Histogram(np.sum(counts, axis=0, dtype=np.int64), self._records.offsets, layout.n_coordinates)


class MemorySource(RecordSource):
    """Codes and classes in memory.

    - ``codes``: copied, so that many sources can start from the same codes.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.growth import Codes, MemorySource, Targets
    >>> codes = Codes((np.array([0, 0, 1], dtype=np.uint8),), (3,))
    >>> source = MemorySource(codes, Targets.from_columns([np.array([0, 1, 1])], np.array([0, 0, 0]), (2,), 1))
    >>> source.root()[0]  # codes × classes
    array([[1, 1],
           [0, 1],
           [0, 0]])
    """

    def __init__(self, codes: Codes, targets: Targets, n_threads: int = 1) -> None:
        if not codes.columns:
            raise ArgumentError("There are no columns to grow a tree from.")
        if len(codes) != len(targets):
            raise ArgumentError(f"{len(codes)} records have codes, but {len(targets)} have classes.")
        layout = Layout(codes.n_codes, targets.n_classes, targets.n_coordinates)
        records = Records.empty(len(codes), layout)
        records.write(0, codes, targets.classes, targets.coordinates)
        super().__init__(records, n_threads)


class Records:
    """Packed records: the codes that need two bytes, those that need one, then coordinates.

    The class is one of the codes. The same memory is read as bytes or as half words (two bytes), and moved as words
    (four bytes).

    - ``words`` (records, layout.width): memory of the records.
    - ``offsets`` (columns + 1,): index of the first code of each column among all codes.
    """

    def __init__(self, words: NDArray[np.uint32], layout: Layout) -> None:
        self.layout, self.offsets = layout, layout.offsets
        self._words, self._halves, self._bytes = words, words.view(np.uint16), words.view(np.uint8)
        is_wide = [size > 256 for size in (layout.n_classes, *layout.n_codes)]
        wide = [i for i, needs_two in enumerate(is_wide) if needs_two]
        narrow = [i for i, needs_two in enumerate(is_wide) if not needs_two]
        place = {i: at for at, i in enumerate(wide)} | {i: 2 * len(wide) + at for at, i in enumerate(narrow)}
        first = layout.first_coordinate
        self._coordinates = words.view(np.int16)[:, first : first + layout.n_coordinates]
        self._class_place, self._class_is_wide = place[0], is_wide[0]
        self._places = [(place[i], is_wide[i]) for i in range(1, len(is_wide))]
        # Index of the first code of each column among all codes, for the columns in the order of a record.
        self._wide_offsets = self.offsets[[i - 1 for i in wide if i > 0]].astype(np.uint64)
        self._narrow_offsets = self.offsets[[i - 1 for i in narrow if i > 0]].astype(np.uint64)

    @classmethod
    def empty(cls, n_records: int, layout: Layout) -> "Records":
        """Allocate memory for this many records."""
        return cls(np.empty((n_records, layout.width), dtype=np.uint32), layout)

    def __len__(self) -> int:
        return len(self._words)

    def write(
        self, start: int, codes: Codes, classes: NDArray[Any], coordinates: NDArray[np.int16] | None = None
    ) -> None:
        """Write records from row ``start`` on."""
        if coordinates is not None:
            self._coordinates[start : start + len(codes)] = coordinates
        columns = [(classes, self._class_place, self._class_is_wide)]
        columns += [(column, *place) for column, place in zip(codes.columns, self._places, strict=True)]
        for rows in blocks(0, len(codes)):
            for column, place, is_wide in columns:
                target = self._halves if is_wide else self._bytes
                target[start + rows.start : start + rows.stop, place] = column[rows]

    def count(self, run: tuple[int, int]) -> NDArray[Any]:
        """Return the histogram table of a run of records."""
        counts = np.zeros((self.layout.n_classes, self.offsets[-1]), dtype=np.uint32)
        places = (self._class_place, self._class_is_wide, self._wide_offsets, self._narrow_offsets)
        start, stop = run
        _count(self._halves, self._bytes, start, stop, *places, counts.shape[1], counts.reshape(-1))
        if not self.layout.n_coordinates:
            return counts
        sums = np.zeros((self.offsets[-1], self.layout.n_coordinates), dtype=np.int64)
        _add_coordinates(self._halves, self._bytes, start, stop, *places[1:], self._coordinates, sums)
        return np.vstack([counts, sums.T])

    def divide(self, run: tuple[int, int], column: int, goes_left: NDArray[np.bool_]) -> int:
        """Move the records of a run so that those that go left come first; return where the others begin."""
        lists = np.empty((2, STRETCH), dtype=np.int64)
        side = np.ascontiguousarray(goes_left).view(np.uint8)
        return _divide(self._words, self._halves, self._bytes, *run, *self._places[column], side, lists[0], lists[1])


@kernel
def _count(
    halves: NDArray[np.uint16],
    single: NDArray[np.uint8],
    start: int,
    stop: int,
    class_place: int,
    class_is_wide: bool,
    wide_offsets: NDArray[np.uint64],
    narrow_offsets: NDArray[np.uint64],
    n_codes: int,
    counts: NDArray[np.uint32],
) -> None:
    """Add a run of records to counts (classes × codes, flat)."""
    n_wide, n_narrow = len(wide_offsets), len(narrow_offsets)
    first_wide = 1 if class_is_wide else 0
    first_narrow = 2 * n_wide + (2 if class_is_wide else 1)
    one, stride = np.uint32(1), np.uint64(n_codes)
    for row in range(start, stop):
        # Indices are unsigned, because signed ones would each be checked for being negative.
        k = np.uint64(halves[row, class_place]) if class_is_wide else np.uint64(single[row, class_place])
        for c in range(n_wide):
            counts[k * stride + wide_offsets[c] + np.uint64(halves[row, first_wide + c])] += one
        for c in range(n_narrow):
            counts[k * stride + narrow_offsets[c] + np.uint64(single[row, first_narrow + c])] += one


@kernel
def _add_coordinates(
    halves: NDArray[np.uint16],
    single: NDArray[np.uint8],
    start: int,
    stop: int,
    class_is_wide: bool,
    wide_offsets: NDArray[np.uint64],
    narrow_offsets: NDArray[np.uint64],
    coordinates: NDArray[np.int16],
    sums: NDArray[np.int64],
) -> None:
    """Add the coordinates of a run of records to sums (codes × coordinates)."""
    n_wide, n_narrow = len(wide_offsets), len(narrow_offsets)
    first_wide = 1 if class_is_wide else 0
    first_narrow = 2 * n_wide + (2 if class_is_wide else 1)
    n_coordinates = sums.shape[1]
    for row in range(start, stop):
        own = coordinates[row]
        for c in range(n_wide):
            of_code = sums[wide_offsets[c] + np.uint64(halves[row, first_wide + c])]
            for v in range(n_coordinates):
                of_code[v] += own[v]
        for c in range(n_narrow):
            of_code = sums[narrow_offsets[c] + np.uint64(single[row, first_narrow + c])]
            for v in range(n_coordinates):
                of_code[v] += own[v]


@kernel
def _divide(
    words: NDArray[np.uint32],
    halves: NDArray[np.uint16],
    single: NDArray[np.uint8],
    start: int,
    stop: int,
    place: int,
    is_wide: bool,
    goes_left: NDArray[np.uint8],
    front: NDArray[np.int64],
    back: NDArray[np.int64],
) -> int:
    """Move the records that go left to the front of a run, in place, without a branch on where a record goes.

    Misplaced records are listed, some from the ``front`` and some from the ``back``, then exchanged in pairs (after
    Edelkamp and Weiss, BlockQuicksort, 2016).
    """
    n_front, n_back, used_front, used_back = 0, 0, 0, 0
    low, high = start, stop
    while low < high or (n_front > 0 and n_back > 0):
        if n_front == 0 and low < high:
            used_front = 0
            for row in range(low, min(low + STRETCH, high)):
                front[n_front] = row
                code = np.uint64(halves[row, place]) if is_wide else np.uint64(single[row, place])
                n_front += 1 - goes_left[code]
            low = min(low + STRETCH, high)
        if n_back == 0 and low < high:
            used_back = 0
            for row in range(high - 1, max(high - STRETCH, low) - 1, -1):
                back[n_back] = row
                code = np.uint64(halves[row, place]) if is_wide else np.uint64(single[row, place])
                n_back += goes_left[code]
            high = max(high - STRETCH, low)
        n_pairs = min(n_front, n_back)
        for pair in range(n_pairs):
            a, b = front[used_front + pair], back[used_back + pair]
            for w in range(words.shape[1]):
                words[a, w], words[b, w] = words[b, w], words[a, w]
        used_front, used_back = used_front + n_pairs, used_back + n_pairs
        n_front, n_back = n_front - n_pairs, n_back - n_pairs
    # All records are checked, and at most one list is left: its records change places with those at the border.
    for last in range(n_front - 1, -1, -1):
        low -= 1
        for w in range(words.shape[1]):
            a = front[used_front + last]
            words[a, w], words[low, w] = words[low, w], words[a, w]
    for last in range(n_back - 1, -1, -1):
        for w in range(words.shape[1]):
            b = back[used_back + last]
            words[b, w], words[low, w] = words[low, w], words[b, w]
        low += 1
    return low
