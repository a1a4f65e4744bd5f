"""Whom a claim is about, where that is not everybody whom the records are a sample of.

A population is a tuple of phrases that follow the word "records"; an empty one stands for all records. Part of it can
be read off the records that were left out, so a certificate that left some out cannot forget to say so.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from certifare.certificates.counts import (
    CLUSTER_MISSING,
    GROUP_MISSING,
    LABEL_MISSING,
    THINNED,
    WEIGHT_MISSING,
    Exclusion,
)

Phrase = Literal[
    "with a known group",
    "with a known label",
    "with a known weight",
    "with a known cluster",
    "one at random of a random cluster",
    "in proportion to their weights",
]

#: Phrases that a draw adds.
ONE_OF_CLUSTER: Phrase = "one at random of a random cluster"
BY_WEIGHT: Phrase = "in proportion to their weights"

#: What leaving records out says about those that were counted.
_IMPLIED: dict[str, Phrase] = {
    GROUP_MISSING: "with a known group",
    LABEL_MISSING: "with a known label",
    WEIGHT_MISSING: "with a known weight",
    CLUSTER_MISSING: "with a known cluster",
    THINNED: BY_WEIGHT,
}


def population_of(exclusions: Iterable[Exclusion], *more: Phrase) -> tuple[Phrase, ...]:
    """Say what follows from records that were left out, and what is known besides, in a fixed order.

    >>> from certifare.certificates.counts import Exclusion
    >>> population_of([Exclusion("label missing", 3), Exclusion("no consent", 2)], "with a known group")
    ('with a known group', 'with a known label')
    """
    # What was left out before a split, say, has a remark in brackets.
    found = {*more, *(_IMPLIED.get(exclusion.reason.partition(" (")[0]) for exclusion in exclusions)}
    return tuple(phrase for phrase in get_args(Phrase) if phrase in found)


def whom(population: Iterable[Phrase]) -> str:
    """Name the records that a claim is about.

    >>> whom(["with a known group", "in proportion to their weights"]), whom([])
    ('records with a known group, in proportion to their weights', 'all records')
    """
    phrases = ", ".join(population)
    return f"records {phrases}" if phrases else "all records"


def among_whom(population: Iterable[Phrase]) -> str:
    """Name them at the end of a claim: " among records with a known group"; nothing where they are all."""
    named = whom(population)
    return "" if named == whom(()) else f" among {named}"


def draw_of(population: Iterable[Phrase]) -> tuple[Phrase, ...]:
    """Take what a draw by weights or clusters says: records drawn in other ways are of other populations."""
    return tuple(phrase for phrase in population if phrase in (ONE_OF_CLUSTER, BY_WEIGHT))
