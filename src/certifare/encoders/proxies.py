"""``retain``: what stands for the table itself, so that cells stay useful for tasks that are not known yet."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import MemoryTraining
from certifare.errors import EncoderError
from certifare.foundation.compiler import kernel
from certifare.foundation.levels import Levels
from certifare.foundation.randomness import number, stream
from certifare.growth import Bins, CategoricalBins, Codes
from certifare.growth.summary import sample_positions
from certifare.growth.threads import blocks
from certifare.tables.frames import Field, scaled

N_CLUSTERS = 16
#: Five unseen tasks on Health: 8 to 16 are equally good, fewer retain less, all 54 columns serve tasks less well.
N_COORDINATES = 12
#: Clusters and components are found on at most this many records.
SAMPLE = 50_000
#: Up to this many axes, the covariance matrix is built and all components are found; beyond, the leading ones.
FEW_AXES = 1000
#: Numbers whose skewness is larger are taken the logarithm of.
SKEWED = 2.0
#: No coordinate of a point is beyond this, so that distances stay finite.
FAR = 1e100
#: Coordinates of the sample reach up to the first; those of other records are cut off at the second.
LARGEST, MOST = 1 << 14, (1 << 15) - 1


@dataclass(frozen=True, eq=False)
class Space:
    """Turns records into points: numbers standardised, categories one-hot; fitted on training records.

    A point is never built when cells are found: a category adds a term that is looked up, a number one that is
    multiplied, in a fixed order, so the nearest centre is the same whatever the batch.

    - ``bins``: categorical columns have one coordinate per code; the others one coordinate.
    - ``means``, ``scales`` (columns,): what numbers are shifted and divided by; missing ones lie at the mean. 0 and 1
      for categories.
    """

    bins: tuple[Bins, ...]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]

    @classmethod
    def fit(cls, fields: Sequence[Field], bins: tuple[Bins, ...]) -> "Space":
        """Measure means and scales on training records."""
        means, scales = np.zeros(len(bins)), np.ones(len(bins))
        for i, (field, column_bins) in enumerate(zip(fields, bins, strict=True)):
            if not isinstance(column_bins, CategoricalBins):
                values = field.numbers()
                values = values[~np.isnan(values)]
                if len(values):
                    values, exponent = scaled(values)
                    means[i] = np.ldexp(values.mean(), exponent)
                    scales[i] = np.ldexp(values.std(), exponent) or 1.0
        return cls(bins, means, scales)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Coordinates of column c are ``offsets[c] … offsets[c+1]-1``."""
        widths = [b.n_codes if isinstance(b, CategoricalBins) else 1 for b in self.bins]
        return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)

    def points(self, fields: Sequence[Field]) -> Any:
        """Return records as a matrix for a learner: a sparse one if there are categories."""
        from scipy.sparse import csr_array

        values, coordinates = self._coordinates(fields)
        n, width = values.shape
        if width == self.offsets[-1]:
            return values
        return csr_array(
            (values.ravel(), coordinates.ravel(), np.arange(0, n * width + 1, width, dtype=np.int32)),
            shape=(n, int(self.offsets[-1])),
        )

    def nearest(self, fields: Sequence[Field], centres: NDArray[np.float64]) -> NDArray[np.int32]:
        """Find the nearest centre of each record; the first of those equally near."""
        values, coordinates = self._coordinates(fields)
        return _nearest(values, coordinates, centres, (centres * centres).sum(axis=1))  # type: ignore[no-any-return]

    def _coordinates(self, fields: Sequence[Field]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Return the values and coordinates of each record's point, one per column; all others are 0."""
        n = len(fields[0])
        values = np.ones((n, len(self.bins)))
        coordinates = np.empty((n, len(self.bins)), dtype=np.int32)
        for i, (field, bins, offset) in enumerate(zip(fields, self.bins, self.offsets[:-1], strict=True)):
            if isinstance(bins, CategoricalBins):
                coordinates[:, i] = bins.encode(field.column).astype(np.int32) + offset
            else:
                coordinates[:, i] = offset
                with np.errstate(over="ignore"):
                    column = (field.numbers() - self.means[i]) / self.scales[i]
                values[:, i] = np.clip(np.where(np.isnan(column), 0.0, column), -FAR, FAR)
        return values, coordinates


def find_centres(points: Any, n_centres: int, seed: int) -> NDArray[np.float64]:
    """Find centres by k-means, all different and each nearest to some point; possibly fewer than asked for."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    model = KMeans(min(n_centres, points.shape[0]), n_init=1, random_state=number(seed, "centres"))
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than centres
        model.fit(points)
    # Centres that are nearest to no point stand where fewer different points than centres are.
    used = np.unique(model.predict(points))
    _, first = np.unique(model.cluster_centers_[used], axis=0, return_index=True)
    return np.ascontiguousarray(model.cluster_centers_[used[np.sort(first)]], dtype=np.float64)


@kernel
def _nearest(values: Any, coordinates: Any, centres: Any, lengths: Any) -> Any:
    n, width = values.shape
    nearest = np.empty(n, dtype=np.int32)
    for i in range(n):
        best = np.inf
        for c in range(len(centres)):
            distance = lengths[c]
            for j in range(width):
                distance -= 2.0 * values[i, j] * centres[c, coordinates[i, j]]
            if distance < best:
                best = distance
                nearest[i] = c
    return nearest


@dataclass(frozen=True, eq=False)
class Clusters:
    """k-means clusters of the training records; the cluster's id is the additional label."""

    space: Space
    centres: NDArray[np.float64]

    @classmethod
    def fit(cls, training: MemoryTraining, seed: int) -> "Clusters":
        """Find clusters."""
        space = Space.fit(training.fields, training.bins)
        points = space.points(training.fields)
        if points.shape[0] > SAMPLE:
            points = points[np.sort(stream(seed, "records to cluster").choice(points.shape[0], SAMPLE, replace=False))]
        return cls(space, find_centres(points, N_CLUSTERS, seed))

    def levels(self, fields: Sequence[Field]) -> Levels:
        """Cluster of each record, as a label."""
        codes = self.space.nearest(fields, self.centres).astype(np.int64)
        return Levels("cluster", codes, tuple(range(len(self.centres))))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What is to be retained of a record: the leading principal components of its columns, as whole numbers.

    Numbers are standardised (skewed ones after a logarithm) and categories are one-hot, scaled so that every column has
    the spread 1. A coordinate is a sum over columns of what the column's code adds, so it is the same wherever a record
    lies, and sums of it are exact. Missing numbers are at the mean.
    """

    tables: tuple[NDArray[np.int32], ...]  # (codes, coordinates): what each code of a column adds
    spread: float  # mean squared deviation of all columns together, in the same units

    @classmethod
    def fit(
        cls, sample: Sequence[NDArray[Any]], bins: Sequence[Bins], n_coordinates: int = N_COORDINATES
    ) -> "Coordinates":
        """Find the components, from the codes of some training records (a column each)."""
        counts = [np.bincount(column, minlength=b.n_codes) for column, b in zip(sample, bins, strict=True)]
        places = [_places(b, of_codes) for b, of_codes in zip(bins, counts, strict=True)]
        tables = _components(sample, counts, places, n_coordinates)
        totals = np.zeros((len(sample[0]), tables[0].shape[1]))
        for table, column in zip(tables, sample, strict=True):
            totals += table[column]
        largest = float(np.abs(totals).max())
        scale = LARGEST / largest if largest > 0 else 1.0
        n_varying = max(sum(bool(values.any()) for values, _ in places), 1)
        return cls(tuple(np.rint(table * scale).astype(np.int32) for table in tables), n_varying * scale * scale)

    @classmethod
    def of_training(cls, training: MemoryTraining, seed: int) -> "Coordinates":
        """Find the components of training records in memory."""
        rows = sample_positions(len(training), SAMPLE, stream(seed, "coordinates"))
        return cls.fit([column[rows] for column in training.codes.columns], training.bins)

    @property
    def n_coordinates(self) -> int:
        """How many coordinates a record has."""
        return int(self.tables[0].shape[1])

    def of(self, codes: Codes) -> NDArray[np.int16]:
        """Find the coordinates of records, (records, coordinates)."""
        coordinates = np.empty((len(codes), self.n_coordinates), dtype=np.int16)
        for rows in blocks(0, len(codes)):
            total = np.zeros((rows.stop - rows.start, self.n_coordinates), dtype=np.int32)
            for table, column in zip(self.tables, codes.columns, strict=True):
                total += table[column[rows]]
            coordinates[rows] = total.clip(-MOST, MOST)
        return coordinates


def _places(bins: Bins, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For each code of a column how far out it lies, and along which of the column's axes; its spread is 1."""
    if isinstance(bins, CategoricalBins):
        shares = counts / counts.sum()
        impurity = 1.0 - float(shares @ shares)
        # Each category is an axis of its own.
        return (counts > 0) / np.sqrt(impurity) if impurity > 0 else np.zeros(len(counts)), np.arange(len(counts))
    edges = bins.edges
    # The last bin has no upper edge; it is taken to be as wide as the one before.
    numbers = np.append(edges, 2 * edges[-1] - edges[-2] if len(edges) > 1 else edges[-1:] + 1.0)
    numbers = numbers if len(edges) else np.zeros(1)
    known = counts[:-1]
    values = _standardise(numbers, known)
    if abs(float((known * values**3).sum())) > SKEWED * known.sum():
        values = _standardise(np.sign(numbers) * np.log1p(np.abs(numbers)), known)
    # Where many are missing, and so at the mean, the others count for more.
    values *= np.sqrt(counts.sum() / max(int(known.sum()), 1))
    return np.append(values, 0.0), np.zeros(len(counts), dtype=np.int64)


def _standardise(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    total = max(int(counts.sum()), 1)
    beyond = numbers - (counts * numbers).sum() / total
    deviation = np.sqrt((counts * beyond**2).sum() / total)
    return beyond / deviation if deviation > 0 else np.zeros(len(numbers))


def _components(
    sample: Sequence[NDArray[Any]],
    counts: Sequence[NDArray[np.int64]],
    places: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]],
    n_coordinates: int,
) -> list[NDArray[np.float64]]:
    """Find what each code adds to each of the leading principal components, (codes, components)."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, eigsh

    n, width = len(sample[0]), len(sample)
    starts = np.cumsum([0, *(int(axes[-1]) + 1 for _, axes in places)])
    values = np.column_stack([v[column] for (v, _), column in zip(places, sample, strict=True)])
    axes = np.column_stack([a[column] + s for (_, a), column, s in zip(places, sample, starts, strict=False)])
    points = csr_array((values.ravel(), axes.ravel(), np.arange(0, n * width + 1, width)), shape=(n, int(starts[-1])))
    means = points.sum(axis=0) / n
    if starts[-1] <= FEW_AXES:
        _, vectors = np.linalg.eigh((points.T @ points).toarray() / n - np.outer(means, means))
        vectors = vectors[:, ::-1][:, :n_coordinates]
    else:
        covariance = LinearOperator(
            (starts[-1], starts[-1]), lambda v: points.T @ (points @ v) / n - means * (means @ v), dtype=np.float64
        )
        _, vectors = eigsh(covariance, n_coordinates, v0=np.ones(starts[-1]))
    tables = []
    for (v, a), of_codes, start in zip(places, counts, starts, strict=False):
        table = v[:, None] * vectors[a + start]
        tables.append(table - of_codes @ table / n)
    return tables


def check_retain(retain: float) -> None:
    """Refuse a weight outside 0 to 1."""
    if not 0.0 <= retain <= 1.0:
        raise EncoderError(f"retain is {retain!r}; give a weight from 0 to 1.")
