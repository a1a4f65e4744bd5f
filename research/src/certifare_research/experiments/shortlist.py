"""A shortlist of encoders that share ε: how certifare chose before it tested in sequence.

The published results were made with it, and ``benchmarks/choice.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from certifare.frontier.target import LIKELY, Outlook

#: Chances of meeting the target for which an encoder is put on the shortlist, from bold to safe.
CHANCES = (0.2, 0.5, 0.8, 0.95)


def shortlist(
    outlooks: Sequence[Outlook],
    target: float,
    epsilon: float,
    best: Callable[[Sequence[int]], int],
) -> list[int]:
    """Choose the encoders to be certified, from bold to safe.

    For each chance, the best encoder among those that meet the target with at least that probability when as many
    encoders as are on the list are certified together, each at ε divided by their number. Where not even the safest
    of them is likely to, one encoder is the whole list, with the whole of ε: the best that is likely to meet the
    target, or else the likeliest.

    Parameters
    ----------
    outlooks : sequence of Outlook
        One per encoder.
    target : float
        The largest T* to be accepted.
    epsilon : float
        The error that all certificates may have together.
    best : callable
        Told positions of encoders, returns that of the best one.

    Returns
    -------
    list of int
        Positions of encoders.
    """
    size = len(CHANCES)
    while size > 1:
        reached = [outlook.predict(epsilon / size).chance(target) for outlook in outlooks]
        able = [[i for i, value in enumerate(reached) if value >= chance] for chance in CHANCES]
        chosen = list(dict.fromkeys(best(numbers) for numbers in able if numbers))
        if not chosen or max(reached[i] for i in chosen) < LIKELY:
            break
        # A shorter list leaves each encoder a larger share of ε, which may change what belongs on it.
        if len(chosen) >= size:
            return chosen
        size = len(chosen)
    reached = [outlook.predict(epsilon).chance(target) for outlook in outlooks]
    likely = [i for i, value in enumerate(reached) if value >= LIKELY]
    return [best(likely) if likely else int(np.argmax(reached))]
