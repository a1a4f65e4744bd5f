"""Explain one record: its cell, why it is there, and the smallest change of one column that leads to another cell.

A tree explains a cell by the rules on the path. Cells of a boosted encoder are regions of a map of scores. So each
score is split into contributions of the columns: on the record's path through every tree of the models, each step adds
its change of the mean leaf value, and the sum of all steps is the score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.calibrated_cells import CalibratedEncoder, Directions
from certifare.encoders.description import records_described, rule_of
from certifare.encoders.forest import Forest
from certifare.encoders.scores import Scores
from certifare.encoders.tree import FairTreeEncoder
from certifare.errors import EncoderError
from certifare.foundation.levels import name_of, plain
from certifare.growth import Bins, Dictionary
from certifare.tables.frames import Field, Frame, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.scoremap import Axis

GRID = 201
"""Values of a column that are tried where no model has thresholds: a column that is the score, or of clusters."""

MOST_CATEGORIES = 5_000
"""Categories of a column that are tried."""

Parts = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""The average of each output, and what each number of a row adds to it: (outputs), (numbers, outputs)."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A rule on the way to a cell: the column, and in words what holds for the record."""

    column: str
    rule: str


@dataclass(frozen=True, slots=True)
class AxisScore:
    """A score that a boosted encoder places a record by, as contributions of the columns.

    - ``name``: what the score is of: a label, or the groups.
    - ``side``: {"label", "group"}
    - ``score``: log-odds of the second of two values; with more values, or several labels, a weighted sum of
      probabilities.
    - ``average``: the score where no column has said anything yet: that of the average cell.
    - ``columns``: what each column adds, from the largest to the smallest. ``average`` and these add up to ``score``.
    """

    name: str
    side: str
    score: float
    average: float
    columns: dict[str, float]


@dataclass(frozen=True, slots=True)
class Change:
    """The smallest change of one column that leads to another cell."""

    column: str
    value: Value | None  # what the record has
    direction: str
    to: Value  # the number to come above, or at most to; or the value to have
    cell: int  # where that leads

    def __str__(self) -> str:
        return f"{self.column} {self.direction} {_shown(self.to)} (is {_shown(self.value)}) → cell {self.cell}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a record is in its cell. Made by ``encoder.explain``.

    - ``rules``: the cell in words: all of them hold for each of its records.
    - ``records``: training records of the cell; None (and no shares) if the encoder was saved without statistics. Where
      nothing was trained (a score without a label), the records that set the thresholds.
    - ``groups``, ``labels``: shares of groups and labels among them.
    - ``values``: what the record has in each column; None is missing.
    - ``steps``: the rules on the record's way through a tree; empty for other encoders.
    - ``scores``: for a boosted encoder: each score, by columns; empty for other encoders.
    - ``changes``: for each column that has one, the smallest change that leads to another cell.
    """

    cell: int
    rules: tuple[str, ...]
    records: int | None
    groups: dict[str, dict[str, float]]
    labels: dict[str, dict[str, float]]
    values: dict[str, Value | None]
    steps: tuple[TreeStep, ...]
    scores: tuple[AxisScore, ...]
    changes: tuple[Change, ...]

    @property
    def deciding(self) -> tuple[str, ...]:
        """Columns that decided, the most important first: those on the way, or by their contributions to all scores."""
        if not self.scores:
            return tuple(dict.fromkeys(step.column for step in self.steps))
        sizes: dict[str, float] = {}
        for score in self.scores:
            for column, part in score.columns.items():
                sizes[column] = sizes.get(column, 0.0) + abs(part)
        return tuple(sorted((c for c, size in sizes.items() if size > 0), key=lambda c: -sizes[c]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "deciding": list(self.deciding)}

    def __str__(self) -> str:
        lines = [f"cell {self.cell}: {' and '.join(self.rules) or 'every record'}"]
        if self.records is not None:
            lines.append(f"  {self.records:,} {records_described(self.labels)}")
        for name, shares in (*self.groups.items(), *self.labels.items()):
            lines.append(f"  {name}: " + ", ".join(f"{value} {share:.0%}" for value, share in shares.items()))
        if self.steps:
            lines.append("on the way")
            lines += [f"  {step.rule}{self._own(step.column)}" for step in self.steps]
        for score in self.scores:
            lines.append(f"{score.name}: {score.score:+.3f}, of which the average is {score.average:+.3f}")
            lines += [f"  {part:+.3f} {column}{self._own(column)}" for column, part in score.columns.items()]
        lines.append("smallest changes to another cell" if self.changes else "no change of one column leads elsewhere")
        lines += [f"  {change}" for change in self.changes]
        return "\n".join(lines)

    def _own(self, column: str) -> str:
        """Return the record's value of a column in words; nothing for scores and groups."""
        return f" (is {_shown(self.values[column])})" if column in self.values else ""


def explain(encoder: RestrictedEncoder, X: Any, sensitive_features: Any = None, row: int = 0) -> Explanation:
    """Explain one record (``encoder.explain``)."""
    check_is_fitted(encoder)
    frame = Frame(X)
    if len(frame) != 1:
        raise EncoderError(
            f"explain is about one record, and {len(frame):,} were given: take one, such as X.iloc[[17]]."
        )
    fields = encoder.read_fields(frame)
    groups = encoder.read_group_codes(frame, sensitive_features)
    cell = int(encoder.find_cells(fields, groups, np.array([row]))[0])
    described = encoder.describe()[cell]
    place = _place_in_group(encoder, groups, cell) if isinstance(encoder, CalibratedEncoder) else ()
    return Explanation(
        cell=cell,
        rules=(*described.rules, *place),
        records=described.records,
        groups=described.groups,
        labels=described.labels,
        values={field.name: _value(field) for field in fields},
        steps=_steps(encoder, fields) if isinstance(encoder, FairTreeEncoder) else (),
        scores=_scores(encoder, fields) if isinstance(encoder, BoostedEncoder) else (),
        changes=tuple(_changes(encoder, fields, groups, row, cell)),
    )


def _place_in_group(encoder: CalibratedEncoder, groups: NDArray[np.uint16] | None, cell: int) -> tuple[str, ...]:
    """Describe the cell as a part of the record's group, by the planned shares, if there is one score."""
    if groups is None or len(encoder.directions_.columns) > 1 or encoder.n_cells_ == 1:
        return ()
    group = int(groups[0])
    gaps = encoder.plan_.gaps[:, group] / encoder.plan_.totals[group]
    above, below = float(gaps[cell + 1 :].sum()), float(gaps[cell:].sum())
    score, name = encoder.directions_.columns[0].name, name_of(encoder.groups_[group])
    if cell == encoder.n_cells_ - 1:
        return (f"{score} in the top {below:.0%} of its group ({name})",)
    if cell == 0:
        return (f"{score} in the bottom {1.0 - above:.0%} of its group ({name})",)
    return (f"{score} between the top {above:.0%} and the top {below:.0%} of its group ({name})",)


def _steps(encoder: FairTreeEncoder, fields: Sequence[Field]) -> tuple[TreeStep, ...]:
    """List the rules on the record's path through the tree."""
    split_of = {split.node: (j, split) for j, split in enumerate(encoder.growth_.splits[: encoder.n_cells_ - 1])}
    codes = encoder.codes_of(fields)
    steps, node = [], 0
    while node in split_of:
        j, split = split_of[node]
        left = bool(split.goes_left[int(codes.columns[split.column][0])])
        allowed = split.goes_left if left else ~split.goes_left
        schema = encoder.columns_[split.column]
        steps.append(TreeStep(schema.name, rule_of(encoder.bins_[split.column], schema, allowed)))
        node = 2 * j + (1 if left else 2)
    return tuple(steps)


def _scores(encoder: BoostedEncoder, fields: Sequence[Field]) -> tuple[AxisScore, ...]:
    """Split each score of the map into contributions of the columns."""
    scores = encoder.score_map_.scores
    background, weights = _background(encoder)
    # The column that each number of a row is made of.
    widths = [table.shape[1] for table in scores.means]
    owner = np.array([*range(scores.features.n_numbers), *np.repeat(scores.features.averaged, widths)], dtype=np.int64)
    own, others = (_rows(scores, of) for of in (fields, background))
    parts = []
    for model in scores.models:
        raw = decompose(model, own[0], others, weights)
        parts.append(_through(_softmax, *raw) if model.n_classes > 2 else raw)
    n_labels = len(encoder.labels_)
    names = [column.name for column in encoder.columns_]
    sides = {"label": parts[:n_labels], "group": parts[n_labels:]}
    return tuple(_along(axis, sides[axis.side], names, owner) for axis in encoder.score_map_.axes)


def _along(axis: Axis, parts: Sequence[Parts], names: Sequence[str], owner: NDArray[np.int64]) -> AxisScore:
    """Add up what the columns contribute to one score: log-odds as they are, or a weighted sum of probabilities."""
    weights = axis.weights
    if weights is None:
        average, contributions = parts[0][0][0], parts[0][1][:, 0]
    else:
        # Among several labels, log-odds of two values become a pair of probabilities.
        pairs = [_through(_pair, *part) if len(part[0]) == 1 else part for part in parts]
        average = float(np.concatenate([base for base, _ in pairs]) @ weights)
        contributions = np.hstack([added for _, added in pairs]) @ weights
    by_column = np.bincount(owner, weights=contributions, minlength=len(names))
    order = np.argsort(-np.abs(by_column), kind="stable")
    return AxisScore(
        name=f"log-odds of {axis.name}" if weights is None else axis.name,
        side=axis.side,
        score=float(average + contributions.sum()),
        average=float(average),
        columns={names[i]: float(by_column[i]) for i in order if by_column[i] != 0.0},
    )


def decompose(
    forest: Forest, row: NDArray[np.float64], others: NDArray[np.float64], weights: NDArray[np.float64]
) -> Parts:
    """Split the raw score of a row into contributions.

    The value of a node is the mean of the leaf values of the other rows that reach it (of its children, where none
    does). A step from a node to its child adds the difference of their values to the number that the node looks at.
    """
    feature, children = np.maximum(forest.feature, 0), _children(forest)
    n_outputs = len(forest.baseline)
    covers = np.zeros(len(feature))
    for nodes, moved, _ in _descend(forest, others):
        np.add.at(covers, nodes[moved], np.broadcast_to(weights[:, None], nodes.shape)[moved])
    values = forest.value.copy()
    for node in np.flatnonzero(forest.feature >= 0)[::-1].tolist():  # children come after their parents
        left, right = children[node]
        a, b = (covers[left], covers[right]) if covers[left] + covers[right] > 0 else (1.0, 1.0)
        values[node] = (a * values[left] + b * values[right]) / (a + b)
    contributions = np.zeros((others.shape[1], n_outputs))
    before = forest.starts[:-1]
    outputs = np.arange(len(before)) % n_outputs
    for nodes, moved, parents in _descend(forest, row[None]):
        added = values[nodes[0]] - values[parents[0]]
        np.add.at(contributions, (feature[parents[0]][moved[0]], outputs[moved[0]]), added[moved[0]])
    average = forest.baseline.copy()
    np.add.at(average, outputs, values[before])
    return average, contributions


def _descend(forest: Forest, matrix: NDArray[np.float64]) -> Iterator[tuple[Any, Any, Any]]:
    """Move rows down all trees together; yield nodes, which of them are new, and their parents: (rows, trees)."""
    feature, children = np.maximum(forest.feature, 0), _children(forest)
    nodes = np.broadcast_to(forest.starts[:-1], (len(matrix), len(forest.starts) - 1))
    rows = np.arange(len(matrix))[:, None]
    while (forest.feature[nodes] >= 0).any():
        x = matrix[rows, feature[nodes]]
        right = ~np.where(np.isnan(x), forest.missing_left[nodes], x <= forest.threshold[nodes])
        following = children[nodes, right.astype(np.int64)]
        yield following, following != nodes, nodes
        nodes = following


def _children(forest: Forest) -> NDArray[np.int64]:
    """Return both children of each node, (nodes, 2); those of a leaf are the leaf."""
    first = np.repeat(forest.starts[:-1], np.diff(forest.starts))
    children = np.stack([first + forest.left, first + forest.right], axis=1)
    return np.where(forest.feature[:, None] >= 0, children, np.arange(len(first))[:, None])


def _through(function: Any, average: NDArray[np.float64], contributions: NDArray[np.float64]) -> Parts:
    """Carry contributions through a smooth function: the integral of its derivative on the way from the average.

    The sum of what comes out is the change of the function, as the sum of what goes in is that of its argument.
    """
    change = contributions.sum(axis=0)
    carried = 0.0
    for place, weight in zip(_NODES, _WEIGHTS, strict=True):
        _, derivative = function(average + place * change)
        carried = carried + weight * (contributions @ derivative)
    first, _ = function(average)
    last, _ = function(average + change)
    # What the quadrature leaves is shared out, so that the sum is exact.
    off = (last - first) - np.sum(carried, axis=0)
    sizes = np.abs(contributions).sum(axis=1)
    share = sizes / sizes.sum() if sizes.sum() > 0 else np.zeros_like(sizes)
    return first, carried + share[:, None] * off


def _softmax(raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return probabilities, and their derivative (inputs, outputs)."""
    p = np.exp(raw - raw.max())
    p /= p.sum()
    return p, np.diag(p) - np.outer(p, p)


def _pair(raw: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return probabilities of two values from log-odds of the second, and their derivative."""
    p = 1.0 / (1.0 + math.exp(-min(max(float(raw[0]), -500.0), 500.0)))
    return np.array([1.0 - p, p]), np.array([[-p * (1.0 - p), p * (1.0 - p)]])


def _background(encoder: BoostedEncoder) -> tuple[tuple[Field, ...], NDArray[np.float64]]:
    """Return what a record is compared with: the representatives of the cells, weighted by training records.

    So an explanation depends on the encoder and the record, and on no other data.
    """
    statistics = encoder.cell_statistics()
    weights = np.ones(encoder.n_cells_) if statistics is None else np.maximum(statistics.records, 1).astype(np.float64)
    representatives = encoder._cell_representatives()
    fields = tuple(
        Field(column.name, _column_of(values.tolist(), column.type == "text"), column.type, column.categorical)
        for column, values in zip(representatives.columns, representatives.values, strict=True)
    )
    return fields, weights


def _rows(scores: Scores, fields: Sequence[Field]) -> NDArray[np.float64]:
    codes = scores.features.codes(fields)
    return scores.features.rows(fields, codes, scores.features.means_in(codes, scores.means))


def _changes(
    encoder: RestrictedEncoder, fields: Sequence[Field], groups: NDArray[np.uint16] | None, row: int, cell: int
) -> Iterator[Change]:
    """For each column, try numbers beyond its thresholds, or its other categories; yield the nearest that changes."""
    for i, field in enumerate(fields):
        value = _value(field)
        tried = _tried(encoder, i, field, value)
        cells = _cells_with(encoder, fields, groups, row, i, [entry for entry, _, _ in tried])
        reached = [j for j in range(len(tried)) if cells[j] != cell]
        if reached:
            numbers = tried[0][1] != "is"
            away = [abs(tried[j][0] - float(value or 0.0)) if numbers else 0.0 for j in reached]
            nearest = reached[int(np.argmin(away))]
            _, direction, to = tried[nearest]
            yield Change(field.name, value, direction, to, int(cells[nearest]))


def _tried(encoder: RestrictedEncoder, column: int, field: Field, value: Any) -> list[tuple[Any, str, Any]]:
    """List what to try in place of a value: the entry, and the change in words (``above`` 4, ``is`` x)."""
    if field.type == "boolean":
        return [(float(not value), "is", not value)]
    if field.type == "text" or encoder.columns_[column].categorical:
        known = getattr(_bins(encoder)[column], "categories", ())
        return [(category, "is", category) for category in known[:MOST_CATEGORIES] if category != value]
    thresholds = _thresholds(encoder, column)
    above = [(float(np.nextafter(t, np.inf)), "above", plain(t)) for t in thresholds if value is None or t >= value]
    return above + [(t, "at most", plain(t)) for t in reversed(thresholds) if value is None or t < value]


def _thresholds(encoder: RestrictedEncoder, column: int) -> list[float]:
    """Numbers at which a column may lead to another cell."""
    if isinstance(encoder, FairTreeEncoder):
        edges = getattr(encoder.bins_[column], "edges", ())
        used = [split for split in encoder.growth_.splits[: encoder.n_cells_ - 1] if split.column == column]
        codes = {split.threshold for split in used if split.threshold is not None}
        return sorted(float(edges[c]) for c in codes if c < len(edges))
    found: set[float] = set()
    scores = encoder.score_map_.scores if isinstance(encoder, BoostedEncoder) else _directions(encoder).scores
    for model in () if scores is None else scores.models:
        found.update(model.threshold[model.feature == column].tolist())
    if isinstance(encoder, CalibratedEncoder) and encoder.directions_.coordinates is not None:
        found.update(getattr(encoder.directions_.bins[column], "edges", np.zeros(0)).tolist())
    if found:
        return sorted(t for t in found if abs(t) < 1e300)
    # Nothing has thresholds here: a grid over what the cells look like.
    values = np.asarray(encoder._cell_representatives().values[column], dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values) or values.min() == values.max():
        return []
    margin = float(values.max() - values.min())
    grid: list[float] = np.linspace(values.min() - margin, values.max() + margin, GRID).tolist()
    return grid


def _bins(encoder: RestrictedEncoder) -> tuple[Bins, ...]:
    if isinstance(encoder, FairTreeEncoder):
        return encoder.bins_
    return encoder.score_map_.scores.features.bins if isinstance(encoder, BoostedEncoder) else _directions(encoder).bins


def _directions(encoder: RestrictedEncoder) -> Directions:
    assert isinstance(encoder, CalibratedEncoder)  # noqa: S101  (there are three kinds)
    return encoder.directions_


def _cells_with(
    encoder: RestrictedEncoder,
    fields: Sequence[Field],
    groups: NDArray[np.uint16] | None,
    row: int,
    column: int,
    values: Sequence[Any],
) -> NDArray[np.int32]:
    """Find the cells of the record with other values of one column."""
    if not values:
        return np.zeros(0, dtype=np.int32)
    own = fields[column]
    varied = [field.take(np.zeros(len(values), dtype=np.int64)) for field in fields]
    varied[column] = Field(own.name, _column_of(values, own.type == "text"), own.type, own.categorical)
    return encoder.find_cells(
        varied, None if groups is None else np.repeat(groups, len(values)), np.full(len(values), row)
    )


def _column_of(values: Sequence[Any], text: bool) -> Any:
    if not text:
        return np.array([math.nan if value is None else float(value) for value in values])
    known = tuple(dict.fromkeys(value for value in values if value is not None))
    position: dict[Any, int] = {value: i for i, value in enumerate(known)}
    return Dictionary(np.array([position.get(value, -1) for value in values], dtype=np.int64), known)


def _value(field: Field) -> Value | None:
    """Return the value of the only record."""
    if isinstance(field.column, Dictionary):
        index = int(field.column.indices[0])
        return None if index < 0 else field.column.values[index]
    number = float(field.column[0])
    if math.isnan(number):
        return None
    return bool(number) if field.type == "boolean" else plain(number)


def _shown(value: Value | None) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
