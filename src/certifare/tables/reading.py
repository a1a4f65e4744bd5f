"""How records are read and counted: stored in certificates and counts files, used by every command.

``fit`` creates a :class:`Reading`. Commands that count other records of the same encoder (``certify``, ``verify``,
``monitor``, ``count``, ``encode``) take it from the certificate, so that all of them read records in the way that the
certificate describes. Nothing is inferred from the names of groups or labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from certifare.certificates.population import Phrase
from certifare.certificates.sampling import drawn_population
from certifare.errors import RoleError

#: Name of the group that pools all small groups.
POOLED = "other groups"
#: The most names, cuts or words that a reading in a file may have.
MOST_NAMES = 1_000

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
_Names = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=MOST_NAMES)]


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a table is read and its records are counted.

    Attributes
    ----------
    sensitive : tuple of str
        Sensitive columns, or comparisons such as ``"age>=60"``; several columns are intersected.
    label : str or None
        The label column, or a comparison, for metrics that condition on a label.
    given : str
        The column within whose values groups are compared; unset if there is none.
    label_cuts : tuple of float
        Thresholds that cut a numeric label into bands. Empty: it is not cut.
    positive : str or None
        The positive label, for equal opportunity.
    kept_groups : tuple of str or None
        Groups that are kept; all others are pooled into one. None: no group is pooled.
    unknown_groups : bool
        Whether records without a group are counted as a separate group. If not, they are left out.
    weight : str or None
        Column of survey weights, by which records are sampled.
    cap : float or None
        Upper limit of the weights. None: weights are not capped.
    max_weight : float or None
        The largest weight, or cluster size, in the population, which several data holders agree on. None: the largest
        one in the records.
    cluster : str or None
        Column of clusters of dependent records; one record of each cluster is sampled.
    population : {"clusters", "records"}
        If there are clusters: whether a claim is about clusters or about records.
    missing_words : tuple of str
        Text that means a missing value in CSV files, in addition to the defaults.
    decimal : str or None
        The decimal sign of CSV files. None: it is detected.

    Examples
    --------
    >>> Reading(sensitive=("sex",), cluster="person").drawn
    True
    """

    sensitive: _Names = ()
    label: _Text | None = None
    label_cuts: Annotated[tuple[float, ...], msgspec.Meta(max_length=MOST_NAMES)] = ()
    positive: _Text | None = None
    kept_groups: _Names | None = None
    unknown_groups: bool = False
    weight: _Text | None = None
    cap: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_weight: Annotated[float, msgspec.Meta(gt=0)] | None = None
    cluster: _Text | None = None
    population: Literal["clusters", "records"] = "clusters"
    missing_words: _Names = ()
    decimal: Literal[".", ","] | None = None
    given: _Text | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_cuts(self.label_cuts)
        if self.label is None and (self.label_cuts or self.positive is not None):
            raise RoleError("Cuts or a positive label need a label column. Name it.")
        if self.cluster is None and self.population != "clusters":
            raise RoleError('population="records" needs a cluster column. Name one.')
        if self.cap is not None and (self.weight is None or self.cluster is not None):
            raise RoleError("A cap needs weights and no clusters. Leave it out.")
        if self.max_weight is not None and not self.thinned:
            raise RoleError('max_weight needs weights, or clusters with population="records". Leave it out.')

    @property
    def drawn(self) -> bool:
        """Whether independent records are sampled, by weights or clusters, before they are counted."""
        return self.weight is not None or self.cluster is not None

    @property
    def draw(self) -> tuple[str | None, str | None, str, float | None]:
        """The fields that determine the sampling: readings that differ here count different records."""
        return self.weight, self.cluster, self.population, self.cap

    @property
    def thinned(self) -> bool:
        """Whether records are sampled by weight or cluster size, whose scale all data holders must share."""
        return self.population == "records" if self.cluster is not None else self.weight is not None

    @property
    def about(self) -> tuple[Phrase, ...]:
        """The phrases that the sampling adds to the population of a claim."""
        population = None if self.cluster is None else self.population
        return drawn_population(weighted=self.weight is not None, population=population)

    @property
    def naming(self) -> tuple[Any, ...]:
        """The fields that determine the names of groups and labels: counts that differ here cannot be compared."""
        return self.sensitive, self.label, self.label_cuts, self.kept_groups, self.unknown_groups, self.given

    @property
    def missing_groups(self) -> Literal["unknown", "drop"]:
        """What happens to records without a group."""
        return "unknown" if self.unknown_groups else "drop"

    def unlabelled(self) -> Reading:
        """Return the same reading without a label, for metrics that do not use one."""
        return msgspec.structs.replace(self, label=None, label_cuts=(), positive=None)

    def counted(self, *, labelled: bool) -> Reading:
        """Return the reading by which records are counted: the given column takes the label's place, if there is one.

        >>> Reading(sensitive=("sex",), label="paid", given="product").counted(labelled=True).label
        'product'
        """
        if self.given:
            return msgspec.structs.replace(self.unlabelled(), label=self.given, given=msgspec.UNSET)
        return self if labelled else self.unlabelled()


def check_cuts(cuts: Sequence[float]) -> None:
    """Refuse cuts of a label that are not finite numbers in ascending order."""
    if not all(math.isfinite(cut) for cut in cuts) or any(low >= high for low, high in pairwise(cuts)):
        raise RoleError(f"label_cuts={list(cuts)}: give finite numbers in ascending order.")
