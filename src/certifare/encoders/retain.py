"""``retain``: a label that stands for the table itself, so that cells stay useful for tasks not known yet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.columns import Field
from certifare.encoders.space import Space, find_centres
from certifare.encoders.training import Levels, Training
from certifare.errors import EncoderError
from certifare.randomness import stream

N_CLUSTERS = 16
SAMPLE = 50_000
"""Clusters are found on at most this many records."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """k-means clusters of the training records; the cluster's id is the additional label."""

    space: Space
    centres: NDArray[np.float64]

    @classmethod
    def fit(cls, training: Training, seed: int) -> "Clusters":
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


def check_retain(retain: float) -> None:
    """Refuse a weight outside 0 to 1."""
    if not 0.0 <= retain <= 1.0:
        raise EncoderError(f"retain is {retain!r}; give a weight from 0 to 1.")
