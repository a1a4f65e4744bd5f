"""How a table becomes counted records: decided once, stored in certificates and counts files, read by every command.

``fit`` makes a :class:`Reading`. Whatever looks at other records of the same encoder (``certify``, ``verify``,
``monitor``, ``count``, ``encode``) takes it from the certificate, so that all of them see the records that the
certificate is about. Nothing is inferred from the names of groups or labels.
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

#: The group of those that are too small to be one each.
POOLED = "other groups"
#: The most names, cuts or words that a reading from a file may have.
MOST_NAMES = 1_000

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
_Names = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=MOST_NAMES)]


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a table becomes counted records.

    Attributes
    ----------
    sensitive : tuple of str
        Sensitive columns, or comparisons such as ``"age>=60"``; several are intersected.
    label : str or None
        The label column, or a comparison, that metrics may condition on.
    label_cuts : tuple of float
        Where a label that is a quantity is cut into bands. Empty: it is not cut.
    positive : str or None
        The positive label, for equal opportunity.
    kept_groups : tuple of str or None
        Groups that stay as they are; all others are pooled into one. None: no group is pooled.
    unknown_groups : bool
        Whether records without a group are counted as a group of their own. If not, they are left out.
    weight : str or None
        Column of survey weights, by which records are drawn.
    cap : float or None
        Weights are capped here. None: they are not.
    max_weight : float or None
        The largest weight, or size of a cluster, in the population, on which several holders agree. None: the largest
        of the records that are read.
    cluster : str or None
        Column of clusters of dependent records, of which one is drawn each.
    population : {"clusters", "records"}
        With clusters: what a claim is about.
    missing_words : tuple of str
        _Text that stands for a missing value in CSV files, besides the usual.
    decimal : str or None
        The decimal sign of CSV files. None: it is recognised.

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

    def __post_init__(self) -> None:
        check_cuts(self.label_cuts)
        if self.label is None and (self.label_cuts or self.positive is not None):
            raise RoleError("Cuts or a positive label need a label column: name it.")
        if self.cluster is None and self.population != "clusters":
            raise RoleError('population="records" is about clusters, and there is no column of clusters: name it.')
        if self.cap is not None and (self.weight is None or self.cluster is not None):
            raise RoleError("A cap needs weights, and no clusters: leave it out.")
        if self.max_weight is not None and not self.thinned:
            raise RoleError('max_weight needs weights, or clusters with population="records": leave it out.')

    @property
    def drawn(self) -> bool:
        """Whether independent records are drawn by weights or clusters before they are counted."""
        return self.weight is not None or self.cluster is not None

    @property
    def draw(self) -> tuple[str | None, str | None, str, float | None]:
        """What makes the draw: readings that differ here see other records."""
        return self.weight, self.cluster, self.population, self.cap

    @property
    def thinned(self) -> bool:
        """Whether records are left out in proportion to weights or sizes, whose scale all holders must share."""
        return self.population == "records" if self.cluster is not None else self.weight is not None

    @property
    def about(self) -> tuple[Phrase, ...]:
        """Phrases that the draw adds to the population of a claim."""
        population = None if self.cluster is None else self.population
        return drawn_population(weighted=self.weight is not None, population=population)

    @property
    def naming(self) -> tuple[Any, ...]:
        """What names groups and labels: counts that differ here are of other groups or labels."""
        return self.sensitive, self.label, self.label_cuts, self.kept_groups, self.unknown_groups

    @property
    def missing_groups(self) -> Literal["unknown", "drop"]:
        """What becomes of records without a group."""
        return "unknown" if self.unknown_groups else "drop"

    def unlabelled(self) -> Reading:
        """Return the same reading without a label, for metrics that look at none."""
        return msgspec.structs.replace(self, label=None, label_cuts=(), positive=None)


def check_cuts(cuts: Sequence[float]) -> None:
    """Refuse cuts of a label that are not finite numbers in ascending order."""
    if not all(math.isfinite(cut) for cut in cuts) or any(low >= high for low, high in pairwise(cuts)):
        raise RoleError(f"label_cuts={list(cuts)}: give numbers in ascending order.")
