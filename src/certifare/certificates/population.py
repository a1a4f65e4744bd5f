"""The population of a claim, if it is not everybody that the records were sampled from.

A population is a tuple of phrases that follow the word "records"; an empty one means all records. Part of it follows
from the records that were left out, so a certificate that left some out must say so.
"""

from collections.abc import Iterable
from typing import Literal, get_args

from certifare.certificates.counts import (
    CLUSTER_MISSING,
    GIVEN_MISSING,
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
    "with a known value of the given column",
    "drawn one at random from each cluster",
    "in proportion to their weights",
]

#: Phrases for sampled records.
ONE_OF_CLUSTER: Phrase = "drawn one at random from each cluster"
BY_WEIGHT: Phrase = "in proportion to their weights"

#: Phrases that follow from records that were left out.
_IMPLIED: dict[str, Phrase] = {
    GROUP_MISSING: "with a known group",
    LABEL_MISSING: "with a known label",
    WEIGHT_MISSING: "with a known weight",
    CLUSTER_MISSING: "with a known cluster",
    GIVEN_MISSING: "with a known value of the given column",
    THINNED: BY_WEIGHT,
}


def population_of(exclusions: Iterable[Exclusion], *more: Phrase) -> tuple[Phrase, ...]:
    """Return the phrases that follow from records that were left out, and further ones, in a fixed order.

    >>> from certifare.certificates.counts import Exclusion
    >>> population_of([Exclusion("label missing", 3), Exclusion("no consent", 2)], "with a known group")
    ('with a known group', 'with a known label')
    """
    # Records that were left out before a split, for example, have a remark in brackets.
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
    """Return the end of a claim, such as " among records with a known group"; "" if it is about all records."""
    named = whom(population)
    return "" if named == whom(()) else f" among {named}"


def draw_of(population: Iterable[Phrase]) -> tuple[Phrase, ...]:
    """Return the phrases about sampling: records that were sampled in other ways are of other populations."""
    return tuple(phrase for phrase in population if phrase in (ONE_OF_CLUSTER, BY_WEIGHT))
