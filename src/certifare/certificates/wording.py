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
        number = "two" if len(groups) == 2 else f"{len(groups):,}"
        named.append(f"{'' if len(groups) == 2 else 'any two of '}{_listed([*groups], f'the {number} groups')}{of}")
    rates = f"selection rates of {'; or of '.join(named)}"
    within = {
        "all": "",
        "positive": f"among records with the label {certificate.positive!r}, ",
        "each label": "on average over the labels, " if claim.distance.combine == "mean" else "within each label, ",
    }[claim.distance.strata]
    if claim.given is not None:
        within = f"within each value of {claim.given!r}, "
        if small := claim.left_out:
            within = f"within each value of {claim.given!r} except {_listed(small, f'{len(small)} small ones')}, "
    whom = among_whom(certificate.population)
    if certificate.bound >= 1.0:
        words = f"no limit on the difference of {rates} could be certified{whom}"
    else:
        points = percent_up(certificate.bound).removesuffix(" %")
        unit = "point" if points == "1" else "points"
        words = f"{rates} differ by at most {points} percentage {unit} with any classifier on the cells{whom}"
    sentence = f"{within}{words} ({percent(certificate.joint_confidence)} confidence)."
    return sentence[0].upper() + sentence[1:]


def _listed(names: Sequence[str], otherwise: str) -> str:
    """Name groups or values; if they are many or long, return other words."""
    if len(names) > MOST_NAMED or max(map(len, names)) > LONGEST_NAME:
        return otherwise
    *others, last = map(repr, names)
    return f"{', '.join(others)} and {last}" if others else last
