"""Order encoders for testing against a target: from safe to bold, without knowing the target.

The order comes from the train and select parts only, so it is fixed before certification records are used; and it does
not depend on the target, so a larger target passes at least as many encoders. Only encoders on the front of predicted
bound and utility are worth a test, and not all of them: the first failure ends the tests, so a test that gains nothing
is a needless risk. At most a dozen are kept, chosen to lose as little utility as possible compared with the whole
front, over all targets on a logarithmic scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from certifare.frontier.fronts import pareto

#: The most encoders in the order.
LONGEST = 12
#: Utility, times the logarithm of the range of targets that it serves, that makes another step worthwhile.
WORTH_A_STEP = 1e-4
#: Range of targets for which the steps are spaced.
SMALLEST_TARGET, LARGEST_TARGET = 1e-3, 0.4
#: Standard errors by which an encoder's predictions must beat chance: on the select records to be worth a test; on the
#: certification records to avoid the note that it is uninformative (5 % of uninformative cells pass).
WORTH_TESTING, BEYOND_CHANCE = 1.0, float(-ndtri(0.05))
#: If the select records are expected to show less, training records must show it, at an eighth of their number.
SHOWN = 2.0


def chain(bounds: Sequence[float], utilities: Sequence[float], longest: int = LONGEST) -> list[int]:
    """Choose and order the encoders to test.

    - ``bounds``, ``utilities``: predicted bound and utility of each encoder.
    - ``longest``: the most encoders to keep.
    - returns: positions, by increasing bound and utility.

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
    # lost[i, j]: the loss if step i serves the targets of i, …, j − 1.
    span, worth = (np.concatenate([[0.0], np.cumsum(part)]) for part in (widths, widths * u))
    lost = (worth[None, :] - worth[:-1, None]) - u[:, None] * (span[None, :] - span[:-1, None])
    lost[np.arange(len(u))[:, None] >= np.arange(len(u) + 1)[None, :]] = np.inf
    # least[j]: the smallest loss of k steps before j; before[k][j]: the last of them.
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
