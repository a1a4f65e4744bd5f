"""KMeansEncoder: cells around the centres of k-means, which looks at neither labels nor groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.description import Statistics, nearest_rules
from certifare.encoders.representatives import Representatives, find_representatives
from certifare.encoders.space import Space, find_centres
from certifare.encoders.training import Training, in_memory
from certifare.errors import EncoderError
from certifare.tables.frames import Field


@dataclass(eq=False, repr=False)
class KMeansEncoder(RestrictedEncoder):
    """Cells are the regions nearest to each of k centres, among standardised numbers and one-hot categories.

    The paper's example of an encoder that ignores fairness: it can be certified like any other.

    Parameters
    ----------
    n_cells : int
        How many centres.
    max_bins, categorical_features, sensitive, allow_sensitive_feature, output, random_state, n_jobs
        As in :class:`FairTreeEncoder`. Labels and groups are optional; they are only described.

    Attributes
    ----------
    n_cells_ : int
        How many cells there are: at most ``n_cells``, fewer if there are fewer distinct records.
    centres_ : ndarray of float64
        One row per cell, in the coordinates of the standardised, one-hot columns.
    representatives_ : ndarray
        One row per cell.
    columns_, groups_, labels_, fingerprint_, n_features_in_, feature_names_in_
        As in :class:`~certifare.encoders.base.RestrictedEncoder`.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare import KMeansEncoder
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> encoder = KMeansEncoder(n_cells=2).fit(X)
    >>> encoder.transform(X).ravel()
    array([0., 0., 5., 5.])
    """

    _needs_labels = False
    _needs_groups = False

    n_cells: int = 50

    centres_: NDArray[np.float64] = attribute(init=False)
    _space: Space = attribute(init=False)
    _representatives: Representatives = attribute(init=False)
    _statistics: Statistics | None = attribute(init=False)

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Find the centres.

        Parameters
        ----------
        X : dataframe or array
            The features; with ``sensitive=`` also the sensitive columns.
        y, sensitive_features : optional
            Labels and groups, for :meth:`describe` only.
        sample_weight : array, optional
            How much each record counts for the centres, as in :meth:`FairTreeEncoder.fit`.

        Returns
        -------
        self
        """
        return super().fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def _grow(self, training: Training) -> None:
        training = in_memory(training)
        if not isinstance(self.n_cells, int | np.integer) or self.n_cells < 1:
            raise EncoderError(f"n_cells is {self.n_cells!r}; give a whole number from 1.")
        self._space = Space.fit(training.fields, training.bins)
        points = self._space.points(training.fields)
        self.centres_ = find_centres(points, int(self.n_cells), self.seed, self.n_threads)
        self.n_cells_ = n_centres = len(self.centres_)
        cells = self._space.nearest(training.fields, self.centres_)
        ranges = np.stack([np.arange(n_centres), np.arange(n_centres) + 1], axis=1)
        self._representatives = find_representatives(
            training.columns, training.fields, training.bins, training.codes, cells, ranges
        )
        self._statistics = Statistics.of_cells(cells, n_centres, training.groups, training.labels)

    def find_cells(
        self,
        fields: Sequence[Field],
        groups: NDArray[np.uint16] | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Find the cells of records that were read."""
        return self._space.nearest(fields, self.centres_)

    def _cell_representatives(self) -> Representatives:
        return self._representatives

    def cell_statistics(self) -> Statistics | None:
        """Training statistics of the cells, if they are known."""
        return self._statistics

    def _rules(self) -> list[tuple[str, ...]]:
        return nearest_rules([column.name for column in self.columns_], self._representatives.values)

    def _to_document(self, statistics: bool) -> Any:
        from certifare.encoders.writing import kmeans_document

        return kmeans_document(self, statistics)
