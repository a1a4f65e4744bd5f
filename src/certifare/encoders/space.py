"""Records as points: numbers standardised, categories one-hot, among which ``retain`` finds clusters.

A point is never built when cells are found: a category adds a term that is looked up, a number one that is
multiplied, in a fixed order, so the nearest centre is the same whatever the batch.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.foundation.compiler import kernel
from certifare.foundation.randomness import number
from certifare.growth import Bins, CategoricalBins
from certifare.tables.frames import Field, scaled

FAR = 1e100
"""No coordinate is beyond this, so that distances stay finite."""


@dataclass(frozen=True, eq=False)
class Space:
    """Turns records into points, fitted on training records.

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


def find_centres(points: Any, n_centres: int, seed: int, n_threads: int = 1) -> NDArray[np.float64]:
    """Find centres by k-means, all different and each nearest to some point; possibly fewer than asked for."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    model = KMeans(min(n_centres, points.shape[0]), n_init=1, random_state=number(seed, "centres"))
    with warnings.catch_warnings(), threadpool_limits(n_threads, user_api="openmp"):
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
