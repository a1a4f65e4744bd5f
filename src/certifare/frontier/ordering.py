"""The order in which encoders are tested against a target: from safe to bold, with no target in sight.

The order is made from training and select records alone, so that it is fixed before the certification records are
looked at; and without the target, so that a larger target passes at least as far. Only encoders on the front of
predicted bound and utility are worth a step, and not all of them: a step that fails ends the walk, so a step that
gains nothing is a risk for nothing. At most a dozen are kept, such that over all targets (on a logarithmic scale) as
little utility as possible is lost against the whole front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from certifare.frontier.fronts import pareto

#: The most encoders that are put in order.
LONGEST = 12
#: Utility, times the logarithm of the range of targets that it is good for, that makes a further step worth taking.
WORTH_A_STEP = 1e-4
#: Targets below and above these are not thought of when steps are spaced.
SMALLEST_TARGET, LARGEST_TARGET = 1e-3, 0.4
#: So many standard errors must an encoder's forecasts go with the label: on the select records to be worth a test; on
#: the certification records lest it be noted that it tells nothing (5 % of cells that do are not found out).
WORTH_TESTING, BEYOND_CHANCE = 1.0, float(-ndtri(0.05))
#: Where the select records are not expected to show so many, training records must, at an eighth of their number.
SHOWN = 2.0


def chain(bounds: Sequence[float], utilities: Sequence[float], longest: int = LONGEST) -> list[int]:
    """Put encoders in order.

    Parameters
    ----------
    bounds, utilities : sequence of float
        Predicted bound and utility of each encoder.
    longest : int
        The most to keep.

    Returns
    -------
    list of int
        Positions, by increasing bound and utility.

    Examples
    --------
    >>> chain([0.02, 0.05, 0.051, 0.1, 0.2], [0.1, 0.3, 0.30001, 0.2, 0.5])
    [0, 1, 4]
    """
    front = pareto(bounds, utilities)
    if not front:
        return []
    u = np.array([utilities[i] for i in front])
    edges = np.maximum([bounds[i] for i in front], SMALLEST_TARGET)
    widths = np.diff(np.log([*edges, max(LARGEST_TARGET, 1.2 * edges[-1])]))
    # lost[i, j]: what is lost where step i serves for the targets of i, …, j − 1.
    span, worth = (np.concatenate([[0.0], np.cumsum(part)]) for part in (widths, widths * u))
    lost = (worth[None, :] - worth[:-1, None]) - u[:, None] * (span[None, :] - span[:-1, None])
    lost[np.arange(len(u))[:, None] >= np.arange(len(u) + 1)[None, :]] = np.inf
    # least[j]: the least that k steps lose before j; before[k][j]: the last of them.
    least = lost[0]
    totals, before = [least[-1]], [np.zeros(len(u) + 1, dtype=np.int64)]
    for _ in range(1, min(longest, len(u))):
        extended = least[:-1, None] + lost
        before.append(extended.argmin(axis=0))
        least = extended.min(axis=0)
        totals.append(least[-1])
    steps = int(np.argmax(np.array(totals) <= min(totals) + WORTH_A_STEP)) + 1
    chosen, end = [], len(u)
    for k in range(steps - 1, -1, -1):
        end = int(before[k][end])
        chosen.append(front[end])
    return chosen[::-1]
