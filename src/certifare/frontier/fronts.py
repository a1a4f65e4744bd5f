"""Find the Pareto front of points, and its knee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pareto(bounds: Sequence[float], accuracies: Sequence[float]) -> list[int]:
    """Return the points that no other point beats: smaller bound, or higher accuracy.

    Parameters
    ----------
    bounds, accuracies : sequence of float

    Returns
    -------
    list of int
        Positions, by increasing bound (and accuracy). Of equal points, the first.

    Examples
    --------
    >>> pareto([0.1, 0.2, 0.15], [0.7, 0.8, 0.6])
    [0, 1]
    """
    front: list[int] = []
    best = -np.inf
    for i in sorted(range(len(bounds)), key=lambda i: (bounds[i], -accuracies[i], i)):
        if accuracies[i] > best:
            front.append(i)
            best = accuracies[i]
    return front


def knee(bounds: Sequence[float], accuracies: Sequence[float]) -> int:
    """Return the knee of a front: beyond this point accuracy costs more than before it.

    It is the point of the front that is farthest above the line between its ends, with both axes scaled to [0, 1]
    (Satopää et al. 2011). For a front of fewer than three points it is the most accurate one.

    Parameters
    ----------
    bounds, accuracies : sequence of float
        Any points; those that are beaten are ignored.

    Examples
    --------
    >>> knee([0.01, 0.02, 0.20], [0.70, 0.80, 0.81])
    1
    """
    front = pareto(bounds, accuracies)
    if len(front) < 3:
        return front[-1]
    x = np.array([bounds[i] for i in front])
    y = np.array([accuracies[i] for i in front])
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    return front[int(np.argmax(above))]
