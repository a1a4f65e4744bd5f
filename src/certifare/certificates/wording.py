"""The claim of a certificate in the reader's units: percentage points of selection rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from certifare.certificates.population import among_whom
from certifare.certificates.rounding import percent, percent_up

if TYPE_CHECKING:
    from certifare.certificates.certificate import Certificate

#: The most groups that are named, and their longest name; else only their number is said.
MOST_NAMED, LONGEST_NAME = 4, 40


def plain_claim(certificate: Certificate) -> str:
    """Return the claim as one sentence, with the confidence of all looks at the records together.

    >>> from certifare import CellCounts, certify_counts
    >>> plain_claim(certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])))
    "Selection rates of 'f' and 'm' differ by at most 25.9 percentage points with any classifier on the cells \
(95 % confidence)."
    """
    claim = certificate.claim
    named = []
    for attribute, groups in claim.divided(certificate.counts.groups):
        of = "" if attribute is None else f" ({attribute})"
        named.append(f"{'' if len(groups) == 2 else 'any two of '}{_listed(list(groups))}{of}")
    rates = f"selection rates of {'; or of '.join(named)}"
    stratum = "label" if claim.given is None else f"value of {claim.given!r}"
    within = {
        "all": "",
        "positive": f"among records with the label {certificate.positive!r}, ",
        "each label": f"on average over each {stratum}, "
        if claim.distance.combine == "mean"
        else f"at any {stratum}, ",
    }[claim.distance.strata]
    whom = among_whom(certificate.population)
    if certificate.bound >= 1.0:
        words = f"no limit on the difference of {rates} could be certified{whom}"
    else:
        points = percent_up(certificate.bound).removesuffix(" %")
        unit = "point" if points == "1" else "points"
        words = f"{rates} differ by at most {points} percentage {unit} with any classifier on the cells{whom}"
    sentence = f"{within}{words} ({percent(certificate.joint_confidence)} confidence)."
    return sentence[0].upper() + sentence[1:]


def _listed(groups: Sequence[str]) -> str:
    """Name the groups, or say how many there are."""
    if len(groups) > MOST_NAMED or max(map(len, groups)) > LONGEST_NAME:
        return "the two groups" if len(groups) == 2 else f"the {len(groups):,} groups"
    names = list(map(repr, groups))
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
