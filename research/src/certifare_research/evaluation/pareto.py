"""Pareto fronts, and how accurate one can be below a given distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pareto_front(accuracy: ArrayLike, distance: ArrayLike) -> NDArray[np.int64]:
    """Positions of the points that no other point beats in both respects, by rising distance.

    A point is beaten by another that is at least as good in both and better in one; of equal points the first stays.
    (The paper's code removes only points that are beaten strictly in both.)

    Examples
    --------
    >>> from certifare_research.evaluation import pareto_front
    >>> pareto_front([0.8, 0.7, 0.75, 0.75], [0.2, 0.1, 0.1, 0.3]).tolist()
    [2, 0]
    """
    a, d = np.asarray(accuracy, dtype=np.float64), np.asarray(distance, dtype=np.float64)
    front: list[int] = []
    for i in np.lexsort((-a, d)):
        if not front or a[i] > a[front[-1]]:
            front.append(int(i))
    return np.array(front, dtype=np.int64)


def best_within(accuracy: Sequence[float], distance: Sequence[float], limit: float) -> int | None:
    """Position of the most accurate point whose distance is at most ``limit``; None where there is none.

    >>> from certifare_research.evaluation import best_within
    >>> best_within([0.8, 0.7], [0.2, 0.1], 0.15)
    1
    """
    allowed = [i for i, d in enumerate(distance) if d <= limit]
    return max(allowed, key=lambda i: accuracy[i]) if allowed else None
