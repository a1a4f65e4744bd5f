"""The claim of a certificate as one plain sentence."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from certifare.certificates.rounding import round_up

if TYPE_CHECKING:
    from certifare.certificates.certificate import Certificate

#: Longer names of groups are left out of the headline.
LONGEST_NAME = 40


def plain_headline(certificate: Certificate) -> str:
    """Return the claim as one sentence in percentage points.

    >>> from certifare import CellCounts, certify_counts
    >>> plain_headline(certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])))
    'Selection rates of f and m differ by at most 26.6 percentage points, whatever is trained on these cells.'
    """
    if certificate.bound >= 1.0:
        return "No bound could be certified: a rule on these cells may select one group only."
    points = (100 * Decimal(round_up(certificate.bound))).quantize(Decimal("0.1"), ROUND_CEILING).normalize()
    words = (
        f"{_where(certificate)}selection rates of {_groups(certificate)} differ by at most {points:f} percentage "
        "points, whatever is trained on these cells."
    )
    return words[0].upper() + words[1:]


def _groups(certificate: Certificate) -> str:
    """Name two groups; of more, say how many there are."""
    names = certificate.counts.groups
    if certificate.claim.each:
        return "any two groups of each attribute"
    if len(names) > 2:
        return f"any two of the {len(names):,} groups"
    return " and ".join(names) if max(map(len, names)) <= LONGEST_NAME else "the two groups"


def _where(certificate: Certificate) -> str:
    """Say among which records the rates are compared, if not among all of a group."""
    claim = certificate.claim
    if claim.given is not None:
        return f"Within each value of {claim.given}, "
    if certificate.positive is not None:
        return f"Among records with the label {certificate.positive}, "
    if not claim.labelled:
        return ""
    return "On average over the labels, " if claim.distance.combine == "mean" else "Within each label, "
