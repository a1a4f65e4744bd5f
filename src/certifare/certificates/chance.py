"""How large a measured distance is by chance alone, and how many records would confirm a bound.

The distance between groups in a sample lies above the true one, because every cell differs a little by chance. If the
groups are alike, that is all there is: about 0.4·√(k(1/n_0 + 1/n_1)) for k equal cells. Both figures here are
expectations that help to read a result; nothing is claimed with them.
"""

import math

import numpy as np

from certifare.certificates.certificate import Certificate
from certifare.certificates.claims import combine, pair_of
from certifare.certificates.rounding import round_up_digits


def distance_by_chance(certificate: Certificate) -> float:
    """Return the distance that records like these show on average if all groups are alike.

    Of several pairs of groups, that of the largest is returned.

    >>> from certifare import CellCounts, certify_counts
    >>> c = certify_counts(CellCounts([[250, 252], [250, 248], [250, 260], [250, 240]], groups=["f", "m"]))
    >>> round(distance_by_chance(c), 3)
    0.031
    """
    found = []
    for part in certificate.parts:
        table = pair_of(certificate.claim, certificate.counts, part).table(certificate.counts)
        shares = table.sum(axis=1) / table.sum()
        spread = float(np.sqrt(shares * (1 - shares)).sum()) * math.sqrt(sum(1 / n for n in part.records))
        # The mean of half the absolute differences, taken for normal.
        found.append((part.label, min(1.0, spread / math.sqrt(2 * math.pi))))
    return combine(certificate.claim.distance, found)


def records_to_confirm(certificate: Certificate, target: float) -> int | None:
    """Estimate how many records, with groups in the same proportions, would bring T* down to a target.

    What chance adds to the distance, and what T* adds for chance, fall as 1/√n; the rest of the distance stays.

    Returns: to three digits. None if the distance seems to be above the target, so that no number of records suffices.

    >>> from certifare import CellCounts, certify_counts
    >>> c = certify_counts(CellCounts([[250, 252], [250, 248], [250, 260], [250, 240]], groups=["f", "m"]))
    >>> c.bound > 0.04, records_to_confirm(c, 0.04)
    (True, 5840)
    """
    by_chance = distance_by_chance(certificate)
    true = max(0.0, certificate.estimate - by_chance)
    if true >= target:
        return None
    falls = by_chance + certificate.bound - certificate.estimate
    return round_up_digits(certificate.counts.n_records * (falls / (target - true)) ** 2, 3)


def confirming_words(needed: int | None, target: float) -> str:
    """Say how many records would confirm a target.

    >>> confirming_words(5840, 0.04), confirming_words(None, 0.04)
    ('about 5,840 records would confirm 0.04', 'the distance seems to be above 0.04, so more records may refute it')
    """
    if needed is None:
        return f"the distance seems to be above {target:.4g}, so more records may refute it"
    return f"about {needed:,} records would confirm {target:.4g}"
