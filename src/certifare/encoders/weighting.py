"""Training records in proportion to weights: each is taken as often as its weight says."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from certifare.errors import ArgumentError
from certifare.foundation.randomness import stream

#: Whole weights repeat records until the table is this many times as long; larger weights are scaled down.
MOST_REPEATS = 4


def repeated_rows(weights: Any, n_records: int, seed: int) -> NDArray[np.int64] | None:
    """Rows to train on, in order: each as often as its weight says; None where each is there once.

    Small whole weights are numbers of records. Others are scaled to a mean of 1, and rounded up or down at random so
    that sums over any stretch of records are right to within one (systematic sampling).
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.ndim != 1:
        raise ArgumentError(f"Sample weights must be 1D array or scalar; got shape {given.shape}.")
    if len(given) != n_records:
        raise ArgumentError(f"sample_weight has {len(given):,} entries, X has {n_records:,} records.")
    if not np.isfinite(given).all() or (given < 0).any() or not (given > 0).any():
        raise ArgumentError("sample_weight must be finite, not negative, and not zero for all records.")
    if (given == 1.0).all():
        return None
    if (given == np.floor(given)).all() and given.sum() <= MOST_REPEATS * n_records:
        return np.repeat(np.arange(n_records), given.astype(np.int64))
    return systematic_rows(given, n_records, stream(seed, "sample weights"))


def systematic_rows(weights: NDArray[np.float64], total: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """About ``total`` rows, in order, each as often as its weight says, rounded up or down at random."""
    steps = np.cumsum(weights * (total / weights.sum())) + rng.random()
    times = np.diff(np.floor(steps), prepend=0.0).astype(np.int64)
    return np.repeat(np.arange(len(weights)), times)


def representative_rows(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return rows that represent the weighted population, resampled to the effective sample size (Kish), in order.

    They are for estimates only: they are not independent draws, which a certificate needs.
    """
    if not weights.any():
        return np.zeros(0, dtype=np.int64)
    return systematic_rows(weights, float(weights.sum() ** 2 / (weights @ weights)), rng)


def take_rows(values: Any, rows: NDArray[np.int64]) -> Any:
    """Take rows of a table or column of any kind."""
    if values is None:
        return None
    if isinstance(values, pa.Table | pa.Array | pa.ChunkedArray):
        return values.take(pa.array(rows))
    return _safe_indexing(values, rows)
