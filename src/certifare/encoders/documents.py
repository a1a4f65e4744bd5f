"""What an encoder's file holds, by kind: each structure checks itself when it is read, and what it asks for.

A short file can ask for much: a split of a column with 60,000 categories is one word in the file and 60,000 entries in
memory, and a tree that is all depth takes quadratic time to be put into words. Each limit is far above what ``fit``
makes, and is named in the error.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from certifare.errors import FileError

MOST_COLUMNS = 10_000
MOST_CELLS = 1 << 16
MOST_CODES_OF_COLUMN = (1 << 16) - 2
MOST_SQUARES = 4096
#: Groups, and values of a label.
MOST_GROUPS = 1_000
#: Steps from the root to every cell of a tree, added up.
MOST_STEPS = 1 << 22
#: Leaves of a tree of a score model.
MOST_LEAVES = 1 << 12
#: Entries of the tables that score models are looked up in, added up.
MOST_ENTRIES = 1 << 24
#: Codes of the columns of all splits, added up: the bytes that the splits take in memory.
MOST_CODES = 1 << 26
#: Codes of the columns of all splits on the ways to all cells, added up: the work of putting the cells into words.
MOST_RULES = 1 << 30
#: What a code may add to a coordinate of a record.
MOST_ADDED = ((1 << 15) - 1) << 14

Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]
Proportion = Annotated[float, Meta(ge=0.0, le=1.0)]
GapCounts = list[Annotated[int, Meta(ge=1, le=(1 << 53) - 1)]]
Side = Literal["left", "right"]
Parameter = bool | int | float | str | None


def require(condition: bool, problem: str) -> None:
    """Refuse a document that contradicts itself."""
    if not condition:
        raise FileError(problem)


def require_rows(rows: Sequence[Sequence[float]], where: str) -> None:
    """Require a matrix."""
    require(len({len(row) for row in rows}) == 1 and len(rows[0]) > 0, f"{where}: rows of different lengths, or none")


def _limit(found: int, most: int, what: str) -> None:
    if found > most:
        raise FileError(f"The file asks for too much: {found:,} {what}, where {most:,} are the most that are accepted.")


class ColumnDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A feature: its type, and the edges or the categories that matter for cells."""

    name: str
    type: Literal["number", "boolean", "text"]
    missing: bool = False
    edges: list[float] | None = None
    categories: list[str | Whole | float] | None = None

    def __post_init__(self) -> None:
        require((self.edges is None) != (self.categories is None), "a column has either edges or categories")
        require(self.type != "text" or self.edges is None, "text has categories, not edges")
        text = {isinstance(category, str) for category in self.categories or ()}
        require(text <= {self.type == "text"}, "categories are not of its type")
        values: list[Any] = (self.categories if self.edges is None else self.edges) or []
        require(all(a < b for a, b in pairwise(values)), "edges or categories are not sorted")
        require(len(values) <= MOST_CODES_OF_COLUMN, "too many edges or categories")


class LabelDocument(Struct, forbid_unknown_fields=True):
    """A label column."""

    name: str
    values: list[bool | int | float | str]


class Place(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cell, or a node of a tree: its representative, and training statistics if they are published."""

    representative: dict[str, bool | Whole | float | str | None]
    records: Count | None = None
    groups: list[Proportion] | None = None
    labels: list[list[Proportion]] | None = None


class Rule(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A split of a node into the next two nodes: numbers up to ``at_most`` (all without it) go left, or categories."""

    node: Count
    column: str
    missing: Side
    at_most: float | None = None
    categories: list[str | Whole | float] | None = None
    unseen: Side | None = None


class Tree(Struct, forbid_unknown_fields=True):
    """One tree of a score model: its nodes, each followed by all that lies to its left, then by all to its right.

    At a node, ``numbers`` is the threshold, at a leaf (feature -1) what it adds, in units of 2⁻²⁰. ``missing_left``
    lists the nodes at which a missing number goes left.
    """

    features: Annotated[list[Annotated[int, Meta(ge=-1)]], Meta(min_length=1)]
    numbers: list[Whole | float]
    missing_left: list[Count]

    def __post_init__(self) -> None:
        # The nodes make one tree if there is always a place for the next, and none after the last.
        require(len(self.features) == len(self.numbers), "features and numbers have different lengths")
        free = 1
        for feature in self.features:
            require(free > 0, "a node cannot be reached")
            free += 1 if feature >= 0 else -1
        require(free == 0, "a node has no child")
        inner = (node < len(self.features) and self.features[node] >= 0 for node in self.missing_left)
        require(all(inner), "missing_left lists what is no node")


class Model(Struct, forbid_unknown_fields=True):
    """A score model: trees that add to the outputs in turn; the baseline is in units of 2⁻²⁰, too."""

    baseline: list[float]
    trees: list[Tree]


class AxisDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An axis of the score map."""

    name: str
    side: Literal["label", "group"]
    edges: list[float]
    coordinates: list[float]
    weights: list[float] | None = None

    def __post_init__(self) -> None:
        require(all(a < b for a, b in pairwise(self.edges)), "edges are not sorted")
        require(len(self.coordinates) == len(self.edges) + 1, "not one coordinate per bin")


class Centres(Struct, forbid_unknown_fields=True):
    """Centres among standardised numbers and one-hot categories."""

    means: list[float]
    scales: list[Annotated[float, Meta(gt=0.0)]]
    centres: list[list[float]]

    def __post_init__(self) -> None:
        require(len(self.means) == len(self.scales), "not one mean and scale per column")
        require_rows(self.centres, "centres")


class EncoderDocument(Struct, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    """What documents of all kinds have."""

    format: str
    version: int
    certifare: str
    parameters: dict[str, Parameter | list[Parameter]]
    named: bool
    columns: Annotated[list[ColumnDocument], Meta(min_length=1)]
    group_column: str
    groups: list[bool | int | float | str | list[bool | int | float | str]]
    labels: list[LabelDocument]

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group."""
        return False

    @property
    def parents(self) -> Sequence[int]:
        """The node that each split divides: split j makes the nodes 2j+1 and 2j+2."""
        return [split.node for split in self.splits]  # type: ignore[attr-defined]

    @property
    def n_cells(self) -> int:
        """The number of cells: each split makes one more."""
        return len(self.parents) + 1

    def __post_init__(self) -> None:
        require(len({column.name for column in self.columns}) == len(self.columns), "columns: a name occurs twice")
        split = set()
        for j, node in enumerate(self.parents):
            # It exists by then and was not divided before, so there is no cycle.
            require(node <= 2 * j and node not in split, f"split {j} parts node {node}, which is not a leaf then")
            split.add(node)

    def _check_places(self, where: str, places: Sequence[Place], n: int) -> None:
        """Require what is known of each cell, or node: its representative, and statistics of all or of none."""
        require(len(places) == n, f"{where}: {len(places)} instead of {n}")
        names = {column.name for column in self.columns}
        sizes = [len(label.values) for label in self.labels]
        known = any(place.records is not None or place.groups or place.labels for place in places)
        for i, place in enumerate(places):
            require(place.representative.keys() == names, f"{where}[{i}]: the representative has other columns")
            if known:
                complete = None not in (place.records, place.groups, place.labels)
                require(complete, f"{where}[{i}]: statistics are incomplete")
                require(len(place.groups or ()) == len(self.groups), f"{where}[{i}]: not one share per group")
                require(list(map(len, place.labels or ())) == sizes, f"{where}[{i}]: not one share per label")
        for column in self.columns:
            text = {isinstance(place.representative[column.name], str) for place in places}
            if column.type == "text":
                present = (place.representative[column.name] for place in places)
                require(all(v is None or isinstance(v, str) for v in present), f"{where}: {column.name!r} is text")
            else:
                require(text <= {False}, f"{where}: {column.name!r} is a number")

    def check_limits(self) -> None:
        """Refuse a document that asks for too much; the :class:`~certifare.errors.FileError` names the limit."""
        _limit(len(self.columns), MOST_COLUMNS, "columns")
        _limit(len(self.groups), MOST_GROUPS, "groups")
        for label in self.labels:
            _limit(len(label.values), MOST_GROUPS, f"values of the label {label.name[:60]!r}")
        _limit(self.n_cells, MOST_CELLS, "cells")


class TreeDocument(EncoderDocument, tag="tree", kw_only=True):
    """A :class:`FairTreeEncoder`: split j parts ``node`` into nodes 2j+1 (left) and 2j+2 (right)."""

    splits: list[Rule]
    nodes: list[Place]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_places("nodes", self.nodes, 2 * len(self.splits) + 1)
        allowed = {column.name: set(column.categories or column.edges or ()) for column in self.columns}
        categorical = {column.name for column in self.columns if column.categories is not None}
        for j, rule in enumerate(self.splits):
            where, values = f"splits[{j}]", allowed.get(rule.column)
            if values is None:
                raise FileError(f"{where}: there is no column {rule.column!r}")
            if rule.column in categorical:
                listed = rule.categories is not None and rule.unseen is not None and rule.at_most is None
                require(listed, f"{where} lists categories")
                require(values.issuperset(rule.categories or ()), f"{where}: not categories of {rule.column!r}")
            else:
                require(rule.categories is None and rule.unseen is None, f"{where}: {rule.column!r} has no categories")
                known = rule.at_most is None or rule.at_most in values
                require(known, f"{where}: {rule.at_most} is not an edge of {rule.column!r}")

    def check_limits(self) -> None:
        """Refuse a tree that is too deep, or whose splits look at too many codes."""
        super().check_limits()
        codes_of = {c.name: len(c.edges or ()) + len(c.categories or ()) + 2 for c in self.columns}
        codes = [codes_of.get(rule.column, 0) for rule in self.splits]
        _limit(sum(codes), MOST_CODES, "codes of splits")
        _limit(sum_over_cells(self.parents, [1] * len(codes)), MOST_STEPS, "steps to its cells")
        _limit(sum_over_cells(self.parents, codes), MOST_RULES, "codes on the ways to its cells")


class BoostedDocument(EncoderDocument, tag="boosted", kw_only=True):
    """A :class:`BoostedEncoder`: score models, axes, and the leaf (a node) that each square belongs to.

    ``means`` are those of the targets in each category, which the models look at.
    ``parents[j]`` is the node that split j parts into nodes 2j+1 and 2j+2; ``squares`` runs over the bins of the
    axes, then over the clusters.
    """

    means: dict[str, list[list[float]]]
    models: list[Model]
    axes: list[AxisDocument]
    clusters: Centres | None
    parents: list[Count]
    squares: list[Count]
    nodes: list[Place]

    @property
    def shape(self) -> tuple[int, ...]:
        """The squares along each axis, and the clusters if there are any."""
        clusters = () if self.clusters is None else (len(self.clusters.centres),)
        return (*(len(axis.coordinates) for axis in self.axes), *clusters)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.labels) > 0 and len(self.groups) > 1, "a boosted encoder has labels and groups")
        require({axis.side for axis in self.axes} == {"label", "group"}, "axes: labels and groups need one each")
        self._check_places("nodes", self.nodes, 2 * len(self.parents) + 1)
        n_squares, cells = math.prod(self.shape), set(self.squares)
        require(0 < n_squares <= MOST_SQUARES, f"axes: none, or more than {MOST_SQUARES} squares")
        require(len(self.squares) == n_squares, f"squares: {len(self.squares)} instead of {n_squares}")
        require(max(cells) < len(self.nodes), "squares: a node is out of range")
        require(cells.isdisjoint(self.parents), "squares: a node that was split is no cell")
        require(len(cells) == self.n_cells, "squares: a cell has none")

    def check_limits(self) -> None:
        """Refuse models that are too large."""
        super().check_limits()
        _limit(_entries(self.models), MOST_ENTRIES, "entries of tables of its score models")


class DirectionDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A direction of calibrated cells: a score of the labels (log-odds, if there are no weights), or a coordinate."""

    name: str
    weights: list[float] | None = None
    coordinate: Count | None = None


class Threshold(Struct, forbid_unknown_fields=True):
    """A split of a node: the threshold of each group, how equal values are parted, and the planned gaps.

    A record goes left if its direction is below its group's ``at``, or equal and its tie-breaking number at most
    ``ties``; ``gaps`` are the gaps of each group that go left.
    """

    node: Count
    direction: Count
    at: list[float]
    ties: list[float]
    gaps: GapCounts


class CalibratedDocument(EncoderDocument, tag="calibrated", kw_only=True):
    """A :class:`CalibratedEncoder`: score models that see the group, and thresholds that records have set.

    Without ``models`` the column ``score_column`` is the score. ``gaps`` has the gaps of each group at the root: one
    more than its certification records. ``tie_key`` keys the hash that breaks ties.
    """

    means: dict[str, list[list[float]]]
    models: list[Model]
    directions: list[DirectionDocument]
    coordinates: list[list[list[int]]]
    calibrated: bool
    tie_key: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    gaps: GapCounts
    splits: list[Threshold]
    cells: list[Place]

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group: it does."""
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        n_groups, n_directions = len(self.groups), len(self.directions)
        require(n_groups > 1, "a calibrated encoder has groups")
        require(len(self.gaps) == n_groups, "gaps: not one for each group")
        leaves: dict[int, list[int]] = {0: self.gaps}
        for j, split in enumerate(self.splits):
            where = f"splits[{j}]"
            require(split.direction < n_directions, f"{where}: there is no such direction")
            require(len(split.at) == len(split.ties) == len(split.gaps) == n_groups, f"{where}: not one for each group")
            rest = [m - r for m, r in zip(leaves.pop(split.node), split.gaps, strict=True)]
            require(min(rest) >= 1, f"{where}: no gap is left for a side")
            leaves[2 * j + 1], leaves[2 * j + 2] = split.gaps, rest
        self._check_places("cells", self.cells, self.n_cells)
        if self.models:
            require(len(self.labels) > 0, "a calibrated encoder with score models has labels")
        else:
            require(n_directions == 1, "without score models there is one direction")
        if self.coordinates:
            require(len(self.coordinates) == len(self.columns), "coordinates: not one table for each column")
            require_rows([row for table in self.coordinates for row in table], "coordinates")
            small = (abs(number) <= MOST_ADDED for table in self.coordinates for row in table for number in row)
            require(all(small), "coordinates: too large")
        n_classes = [len(label.values) for label in self.labels]
        n_coordinates = len(self.coordinates[0][0]) if self.coordinates else 0
        for i, direction in enumerate(self.directions):
            where = f"directions[{i}]"
            if direction.coordinate is not None:
                require(direction.coordinate < n_coordinates, f"{where}: there is no such coordinate")
            elif self.models and n_classes != [2]:
                require(len(direction.weights or ()) == sum(n_classes), f"{where}: not one weight per class")
            else:
                require(direction.weights is None, f"{where}: a single score needs no weights")

    def check_limits(self) -> None:
        """Refuse too many directions, splits that are too deep, and models that are too large."""
        super().check_limits()
        _limit(len(self.directions), MOST_COLUMNS, "directions")
        _limit(sum_over_cells(self.parents, [1] * len(self.splits)), MOST_STEPS, "steps to its cells")
        _limit(_entries(self.models), MOST_ENTRIES, "entries of tables of its score models")


AnyDocument: TypeAlias = TreeDocument | BoostedDocument | CalibratedDocument


def sum_over_cells(parents: Sequence[int], costs: Sequence[int]) -> int:
    """Add up, over all cells, the costs of the splits on the way from the root; split j parts node ``parents[j]``."""
    above = {0: 0}
    for j, (node, cost) in enumerate(zip(parents, costs, strict=True)):
        above[2 * j + 1] = above[2 * j + 2] = above.pop(node) + cost
    return sum(above.values())


def _entries(models: Sequence[Model]) -> int:
    """Count the entries of the tables that models are looked up in."""
    from certifare.encoders.forest import WORD  # which takes the compiler, slow to import

    cuts: dict[int, set[float]] = {}
    trees = [tree for model in models for tree in model.trees]
    for feature, number in _compared(trees):
        cuts.setdefault(feature, set()).add(number)
    total = 0
    for tree in trees:
        leaves = tree.features.count(-1)
        _limit(leaves, MOST_LEAVES, "leaves in a tree of a score model")
        total += -(-leaves // WORD) * sum(len(cuts[feature]) + 2 for feature, _ in _compared([tree]))
    return total


def _compared(trees: Sequence[Tree]) -> Iterator[tuple[int, float]]:
    """Yield the number that each node compares, and its threshold."""
    for tree in trees:
        yield from ((feature, cut) for feature, cut in zip(tree.features, tree.numbers, strict=True) if feature >= 0)
