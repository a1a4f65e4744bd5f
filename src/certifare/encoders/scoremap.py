"""The score map: scores cut into a grid of squares, and a fair tree grown over lines through it.

For any group-blind rule that trades accuracy for a smaller distance between groups, whether a record is accepted
depends on a linear function of P(y|x) and P(s|x). So squares are ordered along many directions in that plane, and
each split of the tree is a line. Squares are placed by the scores, not by the labels counted inside them, so a fine
grid does not overfit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.documents import MOST_SQUARES
from certifare.encoders.proxies import Clusters
from certifare.encoders.scores import Scores
from certifare.foundation.compiler import kernel
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import stream
from certifare.growth import Bins, CategoricalBins, Codes, ContinuousBins, Growth, Histogram, Split
from certifare.tables.frames import Field

N_DIRECTIONS = 64
MANY_DIRECTIONS = 256
"""With more than two axes directions are drawn at random, and there must be more of them."""

FEWEST_BINS, MOST_BINS = 8, 32
RECORDS_PER_SQUARE = 25
"""A grid is as fine as it can be with about this many training records in a square."""

MOST_CUTS, MOST_COUNTS = 1 << 14, 1 << 20
"""Lines that are tried at a node, in all directions together; and the same times classes, which ``retain`` has many."""

MOST_AXES, GROUP_AXES = 4, 2
LEAST_SHARE = 0.05
"""Further axes of a side that has several dimensions are kept while they explain this share of its spread."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One direction of the map.

    - ``side``: {"label", "group"}
    - ``weights``: what each class probability of that side counts; None: the side has a single score of two classes,
      taken as is.
    - ``edges``: the bin of a score is the number of edges below it.
    - ``coordinates``: where each bin lies: the mean of its training records' classes (a probability), made monotone.
    """

    name: str
    side: Literal["label", "group"]
    weights: NDArray[np.float64] | None
    edges: NDArray[np.float64]
    coordinates: NDArray[np.float64]

    def bins_of(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the bins of records, given the scores of the axis's side."""
        along = scores[:, 0] if self.weights is None else (scores * self.weights).sum(axis=1)
        return np.searchsorted(self.edges, along, side="left")


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """A map of scores, cut into squares.

    Squares are numbered row by row: over the bins of the axes, then over clusters where ``retain`` asked for them.
    """

    scores: Scores
    n_label_targets: int
    axes: tuple[Axis, ...]
    clusters: Clusters | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Bins of each axis, then the number of clusters if there are any."""
        clusters = () if self.clusters is None else (len(self.clusters.centres),)
        return tuple(len(axis.coordinates) for axis in self.axes) + clusters

    @property
    def n_squares(self) -> int:
        """Number of squares."""
        return int(np.prod(self.shape))

    def squares(self, fields: Sequence[Field], n_threads: int = 1) -> Codes:
        """Find the square of each record."""
        return self.locate(self.scores.score(fields, n_threads), fields)

    def locate(self, scores: Sequence[NDArray[np.float64]], fields: Sequence[Field]) -> Codes:
        """Find the squares of records whose scores are known."""
        sides = split_sides(scores, self.n_label_targets)
        places = [axis.bins_of(sides[axis.side]) for axis in self.axes]
        if self.clusters is not None:
            places.append(self.clusters.levels(fields).codes)
        squares = np.ravel_multi_index(tuple(places), self.shape)
        return Codes((squares.astype(np.uint16),), (self.n_squares,))

    def columns(self, n_classes: int = 1) -> tuple[tuple[Bins, ...], list[NDArray[Any]]]:
        """Columns of squares to grow over: the rank of each square along each direction, and its cluster.

        The more classes are counted, the fewer ranks there are where directions are many.
        """
        grid = np.meshgrid(*(axis.coordinates for axis in self.axes), indexing="ij")
        points = np.stack([coordinate.ravel() for coordinate in grid], axis=1)
        repeats = self.n_squares // len(points)
        bins: list[Bins] = []
        codes: list[NDArray[Any]] = []
        vectors = directions(len(self.axes))
        most = max(2, min(MOST_CUTS, MOST_COUNTS // n_classes) // len(vectors))
        for i, direction in enumerate(vectors):
            # Rounded, so that squares which differ by the last bit only are equal along the direction.
            keys, ranks = np.unique(np.round(points @ direction, 12), return_inverse=True)
            n_codes = min(len(keys), most)
            code_of = np.arange(len(keys)) * n_codes // len(keys)
            last = np.searchsorted(code_of, np.arange(n_codes), side="right") - 1
            bins.append(ContinuousBins(f"direction {i}", keys[last[:-1]]))
            codes.append(np.repeat(code_of[ranks], repeats).astype(np.uint16))
        if self.clusters is not None:
            bins.append(CategoricalBins("cluster", tuple(range(repeats))))
            codes.append(np.tile(np.arange(repeats), len(points)).astype(np.uint16))
        return tuple(bins), codes


class SquareSource:
    """A histogram source over squares instead of records: growth takes milliseconds, however many records there are.

    - ``counts`` (squares, classes): training records of each class in each square.
    - ``codes``: columns over the squares.
    """

    def __init__(self, counts: NDArray[np.int64], codes: Sequence[NDArray[Any]], n_codes: Sequence[int]) -> None:
        self._counts = counts
        self._codes = np.array(codes, dtype=np.uint16)
        self._offsets = np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)
        self._squares: dict[int, NDArray[np.intp]] = {}
        self._histograms: dict[int, Histogram] = {}  # of nodes whose squares are more than the codes of a column

    def root(self) -> Histogram:
        """Count all squares."""
        self._squares = {0: np.arange(len(self._counts))}
        self._histograms = {0: self._count(self._squares[0])}
        return self._histograms[0]

    def split(
        self, node: int, column: int, goes_left: NDArray[np.bool_], left: int, right: int
    ) -> tuple[Histogram, Histogram]:
        """Split a node's squares. Of many, the smaller part is counted, and the other is the difference."""
        squares, parent = self._squares.pop(node), self._histograms.pop(node, None)
        side = goes_left[self._codes[column, squares]]
        self._squares[left], self._squares[right] = squares[side], squares[~side]
        small, large = (left, right) if 2 * side.sum() <= len(side) else (right, left)
        found = {small: self._count(self._squares[small])}
        found[large] = self._count(self._squares[large]) if parent is None else parent - found[small]
        for child, histogram in found.items():
            # A few squares are counted as fast as two tables are subtracted, and tables of all nodes take much memory.
            if len(self._squares[child]) * len(self._codes) > self._offsets[-1]:
                self._histograms[child] = histogram
        return found[left], found[right]

    def _count(self, squares: NDArray[np.intp]) -> Histogram:
        counts = np.zeros((self._counts.shape[1], int(self._offsets[-1])), dtype=np.int64)
        _add_squares(self._counts, self._codes, self._offsets, squares, counts)
        return Histogram(counts, self._offsets)


@kernel
def _add_squares(counts: Any, codes: Any, offsets: Any, squares: Any, histogram: Any) -> None:
    for column in range(len(codes)):
        for square in squares:
            code = offsets[column] + codes[column, square]
            for c in range(counts.shape[1]):
                histogram[c, code] += counts[square, c]


def fit_axes(
    scores: Sequence[NDArray[np.float64]],
    labels: Sequence[Levels],
    groups: Levels,
    n_bins: int | None,
    n_clusters: int,
    label_weights: Sequence[float],
    attributes: Sequence[Sequence[int]] = (),
) -> tuple[Axis, ...]:
    """Fit the axes of a map to out-of-fold scores of training records.

    A side (the labels, the groups) with one target of two classes has one axis, its score. Otherwise the side's class
    probabilities are reduced to their first principal directions: at most 2 for groups, and 4 axes in all.

    - ``scores``: for each label column, then for the groups.
    - ``n_bins``: bins of each axis; None: chosen from the number of records.
    - ``n_clusters``: how many clusters multiply the squares; 1 without ``retain``.
    - ``attributes``: if groups are intersections and each column matters by itself: the code of its value in each
      group. The axes of the groups are then principal directions of the columns' own probabilities.
    """
    sides = split_sides(scores, len(labels))
    of_groups = side_axes([groups], sides["group"], [1.0], GROUP_AXES, attributes)
    of_labels = side_axes(labels, sides["label"], [np.sqrt(w) for w in label_weights], MOST_AXES - len(of_groups))
    n_axes = len(of_labels) + len(of_groups)
    most = int((MOST_SQUARES / n_clusters) ** (1.0 / n_axes) + 1e-9)
    if n_bins is None:
        fine = int((len(groups.codes) / n_clusters / RECORDS_PER_SQUARE) ** (1.0 / n_axes))
        n_bins = min(max(fine, FEWEST_BINS), MOST_BINS)
    n_bins = max(2, min(n_bins, most))
    return (
        *(_axis(name, "label", weights, truth, sides["label"], n_bins) for name, weights, truth in of_labels),
        *(_axis(name, "group", weights, truth, sides["group"], n_bins) for name, weights, truth in of_groups),
    )


def split_sides(scores: Sequence[NDArray[np.float64]], n_labels: int) -> dict[str, NDArray[np.float64]]:
    """Scores of the labels and of the groups, each side by side."""
    return {
        "label": scores[0] if n_labels == 1 else np.hstack([probabilities(score) for score in scores[:n_labels]]),
        "group": scores[n_labels],
    }


def directions(n_axes: int) -> NDArray[np.float64]:
    """Return unit vectors to order squares along; opposite ones give the same cuts, so half a sphere is enough."""
    if n_axes == 2:
        angles = np.pi * (np.arange(N_DIRECTIONS) / N_DIRECTIONS - 0.5)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    drawn = stream(0, "directions").normal(size=(MANY_DIRECTIONS, n_axes))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.concatenate([np.eye(n_axes), drawn])


def over_squares(growth: Growth, codes: Sequence[NDArray[Any]], n_squares: int) -> Growth:
    """Rewrite a growth over the columns of squares as one over a single column, the square itself."""
    inside = {0: np.ones(n_squares, dtype=bool)}
    splits = []
    for j, split in enumerate(growth.splits):
        here = inside.pop(split.node)
        goes_left = here & split.goes_left[codes[split.column]]
        inside[2 * j + 1], inside[2 * j + 2] = goes_left, here & ~goes_left
        splits.append(Split(split.node, 0, goes_left, None, split.gain, split.left_count, split.right_count))
    return Growth(tuple(splits), growth.node_counts)


def probabilities(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return class probabilities from scores; log-odds become a pair."""
    if score.shape[1] > 1:
        return score
    second = 1.0 / (1.0 + np.exp(-np.clip(score, -500.0, 500.0)))
    return np.hstack([1.0 - second, second])


def side_axes(
    targets: Sequence[Levels],
    scores: NDArray[np.float64],
    scales: Sequence[float],
    most: int,
    attributes: Sequence[Sequence[int]] = (),
) -> list[tuple[str, NDArray[np.float64] | None, NDArray[np.float64]]]:
    """Return the axes of one side: name, weights of the class probabilities, and each record's true value."""
    if len(targets) == 1 and len(targets[0].values) == 2:
        target = targets[0]
        return [(f"P({target.name} = {target.values[1]})", None, target.codes.astype(np.float64))]
    truth = np.hstack([target.codes[:, None] == np.arange(len(target.values)) for target in targets])
    scale = np.concatenate([np.full(len(t.values), s) for t, s in zip(targets, scales, strict=True)])
    spread, vectors = np.linalg.eigh(np.cov((scores * scale).T))
    if attributes:
        # Probabilities of the values of each column are sums over the groups that have them.
        values = np.hstack([np.array(codes)[:, None] == np.arange(max(codes) + 1) for codes in attributes]) * 1.0
        spread, vectors = np.linalg.eigh(np.cov((scores @ values).T))
        vectors = values @ vectors
    kept = [i for i in np.argsort(-spread)[:most] if spread[i] >= LEAST_SHARE * spread.sum() > 0] or [len(spread) - 1]
    name = " and ".join(target.name for target in targets)
    axes = []
    for rank, i in enumerate(kept):
        weights = vectors[:, i] * scale
        weights = weights if weights[np.abs(weights).argmax()] > 0 else -weights
        axes.append((f"{name}, direction {rank + 1}", weights, (truth * weights).sum(axis=1)))
    return axes


def _axis(
    name: str,
    side: Literal["label", "group"],
    weights: NDArray[np.float64] | None,
    truth: NDArray[np.float64],
    scores: NDArray[np.float64],
    n_bins: int,
) -> Axis:
    """Cut a score at its quantiles, and place each bin at the mean of the truth in it, made monotone."""
    from sklearn.isotonic import isotonic_regression

    along = scores[:, 0] if weights is None else (scores * weights).sum(axis=1)
    edges = np.unique(np.quantile(along, np.arange(1, n_bins) / n_bins, method="lower"))
    edges = edges[edges < along.max()]
    bins = np.searchsorted(edges, along, side="left")
    sizes = np.bincount(bins, minlength=len(edges) + 1).astype(np.float64)
    means = np.bincount(bins, weights=truth, minlength=len(edges) + 1) / sizes
    return Axis(name, side, weights, edges, isotonic_regression(means, sample_weight=sizes))
