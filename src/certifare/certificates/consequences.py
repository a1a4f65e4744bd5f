"""Consequences of a bound, for each metric: ratios of rates, score gaps, guessing the group, shifts, noise.

:data:`CONSEQUENCES` lists the form in which ``docs/theory.md`` proves each of them; anything else is refused. The
methods of a certificate, the report and the documentation all use it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from certifare.certificates.assumptions import READS_GROUP
from certifare.certificates.claims import METRICS, Claim, Part, combine
from certifare.certificates.counts import CellCounts
from certifare.certificates.rounding import at_least, percent_up, round_up, written
from certifare.errors import ArgumentError, UnprovedClaimError
from certifare.foundation.levels import name_of

#: Why a metric that conditions on labels has no consequence for whole groups.
WHOLE_GROUPS = (
    "The {metric} is about records of one {stratum}: nothing follows from it for the selection rates of whole groups, "
    "and so for the four-fifths rule."
)


class Basis(Enum):
    """The records that a consequence is about, and the bound that proves it."""

    GROUPS = "whole groups, by T*"
    LABEL = "records of one label, by T*"
    OWN_LIMIT = "records of one label, by that label's own limit"


@dataclass(frozen=True, slots=True)
class Consequence:
    """A consequence of a bound: for each metric, the form in which ``docs/theory.md`` proves it.

    A metric that is not among ``forms`` has no such consequence.
    """

    name: str
    words: str
    forms: Mapping[str, Basis]
    two_groups: bool = False

    def basis(self, claim: Claim, groups: Sequence[str]) -> Basis:
        """Return the form for a claim; raise if it is not proved."""
        metric = claim.distance
        if claim.given is not None:
            metric = METRICS["equalized_odds_max"]  # the given column stands in the label's place
        if metric.name not in self.forms:
            raise UnprovedClaimError(f"Nothing about the {self.words} is proved for the metric {metric.name}.")
        if self.two_groups and len(groups) != 2:
            raise UnprovedClaimError(
                f"The {self.words} is known for two groups; this certificate has {len(groups)}. Certify two of them "
                "(CellCounts.of_groups)."
            )
        return self.forms[metric.name]


_FORMS = {
    "demographic_parity": Basis.GROUPS,
    "equal_opportunity": Basis.LABEL,
    "equalized_odds": Basis.OWN_LIMIT,
    "equalized_odds_max": Basis.LABEL,
}
#: Consequences of a bound, by the name of the certificate's method. ``docs/theory.md`` proves each entry.
CONSEQUENCES = {
    consequence.name: consequence
    for consequence in (
        Consequence(
            "within",
            "distance among the records of one label",
            {name: basis for name, basis in _FORMS.items() if basis is not Basis.GROUPS},
        ),
        Consequence("impact_ratio", "ratio of selection rates", _FORMS),
        Consequence("score_gap", "difference of mean scores", _FORMS),
        Consequence("guessing_accuracy", "accuracy of guessing the group", _FORMS, two_groups=True),
        Consequence("under_shift", "bound after a shift", _FORMS),
        Consequence("under_group_noise", "correction for noisy groups", _FORMS, two_groups=True),
    )
}


def target_for_ratio(ratio: float, rate: float) -> float:
    """Return the largest T* that guarantees a ratio of selection rates, from some selection rate on.

    T* = ``rate`` × (1 − ``ratio``): every classifier that selects at least ``rate`` of some group then has selection
    rates whose ratio is at least ``ratio``. For demographic parity.

    >>> target_for_ratio(0.8, 0.3)
    0.06
    """
    if not 0.0 < ratio < 1.0:
        raise ArgumentError(f"min_ratio={ratio:g}: give a ratio between 0 and 1, such as 0.8.")
    if not 0.0 < rate <= 1.0:
        raise ArgumentError(f"min_rate={rate:g}: give a selection rate in (0, 1], such as 0.3.")
    return -at_least(-written(rate) * (1 - written(ratio)))


class Consequences:
    """Methods for the consequences of a bound, which :class:`~certifare.certificates.Certificate` inherits."""

    method: str
    bound: float
    counts: CellCounts
    parts: tuple[Part, ...]
    assumptions: tuple[str, ...]

    @property
    def claim(self) -> Claim:
        """What was asked for."""
        raise NotImplementedError

    def within(self, label: object) -> float:
        """Return a bound on the distance between groups among the records with one label.

        It holds for all labels of the metric together, with the certificate's confidence. If the metric is a mean over
        labels, it is the label's own bound, or with a sequence T* times the number of labels; otherwise it is T*.

        >>> from certifare import CellCounts, certify_counts
        >>> counts = CellCounts([[[500, 90], [480, 60]], [[500, 60], [520, 90]]], ["f", "m"], ["no", "yes"])
        >>> c = certify_counts(counts, "equalized_odds")
        >>> c.within("no") < c.bound < c.within("yes")
        True
        """
        name, limits = name_of(label), self._limits()
        if name not in limits:
            named = " or ".join(map(self.claim.records_of, limits))
            raise UnprovedClaimError(
                f"The certificate is about records {named}: nothing follows for those {self.claim.records_of(name)}."
            )
        return limits[name]

    def _limits(self) -> dict[str | None, float]:
        """Return the bound within each label of the metric."""
        basis = self._basis("within")
        if basis is Basis.LABEL:
            return dict.fromkeys(self.claim.strata(self.counts), self.bound)
        limits: dict[str | None, float] = {}
        for part in self.parts:
            limits[part.label] = max(part.bound, limits.get(part.label, 0.0))
        return limits

    def impact_ratio(self, rate: float, *, label: object = None) -> float:
        """Return the smallest possible ratio of selection rates of a classifier whose highest group rate is ``rate``.

        The four-fifths rule requires 0.8. It compares rates of whole groups, and so follows from demographic parity
        only. With a metric that conditions on labels, name the ``label``: rate and ratio are then those among its
        records. If each of several attributes is claimed, both are those of the groups of one attribute.

        >>> from certifare import CellCounts, certify_counts
        >>> c = certify_counts(CellCounts([[5000, 5050], [5000, 4950]], groups=["f", "m"]))
        >>> c.impact_ratio(0.5) > 0.9
        True
        """
        if not 0.0 < rate <= 1.0:
            raise ArgumentError(f"rate={rate}: a selection rate lies in (0, 1].")
        limit = self._limit("impact_ratio", label)
        return max(0.0, -at_least(written(limit) / written(rate) - 1))

    def rate_for_impact_ratio(self, ratio: float = 0.8, *, label: object = None) -> float | None:
        """Return the smallest highest selection rate from which ``ratio`` is guaranteed; None if no rate suffices."""
        if not 0.0 <= ratio < 1.0:
            raise ArgumentError(f"ratio={ratio}: a ratio below 1 is needed.")
        rate = at_least(written(self._limit("impact_ratio", label)) / (1 - written(ratio)))
        return rate if rate <= 1.0 else None

    def score_gap(self, low: float, high: float, *, label: object = None) -> float:
        """Return the largest possible difference of two groups' mean scores, for scores between ``low`` and ``high``.

        With a metric that conditions on labels, name the ``label``: the means are then those over its records.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(f"low={low}, high={high}: give the smallest and the largest score.")
        return at_least((written(high) - written(low)) * written(self._limit("score_gap", label)))

    def guessing_accuracy(self, *, label: object = None) -> float:
        """Return the largest balanced accuracy with which any rule on the cells guesses a record's group (two groups).

        With a metric that conditions on labels, name the ``label``: the records are then those with that label.
        """
        return at_least((1 + written(self._limit("guessing_accuracy", label))) / 2)

    def under_shift(self, rho: float | Mapping[object, float], *, given_label: bool = False) -> float:
        """Return the bound after each group's distribution over cells moved by at most ρ in total variation.

        Shares of groups, and of labels, may change freely.

        - ``rho``: one number for all groups, or one per group; of several attributes, for every group of that name.
        - ``given_label``: with a metric that conditions on labels, ρ must hold among the records of each label of the
          metric; pass True to confirm that. A small shift of a whole group can be a large one among its positives.
        """
        self._about_the_same_records("under_shift", "rho", given_label)
        groups = {group for part in self.parts for group in part.groups}
        if isinstance(rho, Mapping):
            moves = {name_of(group): float(value) for group, value in rho.items()}
            missing = groups - set(moves)
            if missing:
                raise ArgumentError(f"rho lacks the group {sorted(missing)[0]!r}.")
        else:
            moves = dict.fromkeys(groups, float(rho))
        if not all(0.0 <= value <= 1.0 for value in moves.values()):
            raise ArgumentError("rho: a total variation distance lies in [0, 1].")
        moved = [moves[p.groups[0]] + moves[p.groups[1]] for p in self.parts]
        whole = min(1.0, self.bound + max(moved))
        if self.method == "calibrated":
            # Bounds of single pairs do not hold together: which pair is the worst depends on the thresholds.
            return whole
        shifted = [(p.label, p.bound + move) for p, move in zip(self.parts, moved, strict=True)]
        return min(whole, combine(self.claim.distance, shifted))

    def under_group_noise(self, error_rates: Sequence[float], *, given_label: bool = False) -> float:
        """Return the bound for the true groups if recorded groups are wrong at known rates (two groups).

        - ``error_rates``: the largest share of the records *recorded* as group 0, and as group 1, that belongs to the
          other group. Given the true group, the error must not depend on the cell. If the encoder reads the group, it
          does, and an error is raised.
        - ``given_label``: with a metric that conditions on labels, the shares must hold among the records of each label
          of the metric, and the error must not depend on the cell given group and label; pass True to confirm that.
        """
        self._about_the_same_records("under_group_noise", "error_rates", given_label)
        if READS_GROUP in self.assumptions:
            raise UnprovedClaimError(
                "The encoder reads the group as it is recorded, so whether that is wrong does depend on the cell: "
                "nothing follows for the true groups. Certify an encoder that does not read the group."
            )
        rates = [float(rate) for rate in error_rates]
        if len(rates) != 2:
            raise ArgumentError(f"error_rates={rates}: give one for each of the two groups.")
        if not (min(rates) >= 0.0 and sum(rates) < 1.0):
            raise ArgumentError(f"error_rates={rates}: rates cannot be negative and must sum to less than 1.")
        return min(1.0, at_least(written(self.bound) / (1 - sum(map(written, rates)))))

    def cases(self, consequence: str) -> tuple[tuple[str | None, str], ...]:
        """Return the labels for which a consequence has a separate bound, each with a description of its records.

        (None, "") means whole groups. If all labels share T*, the first one represents them. Of several attributes,
        each has a highest rate of its own.
        """
        basis = self._basis(consequence)
        strata = self.claim.strata(self.counts)
        each = "the groups of any one attribute" if self.claim.each else ""
        if basis is Basis.GROUPS:
            return ((None, each and f"among {each}"),)
        each = each and f" and {each}"
        if basis is Basis.LABEL and len(strata) > 1:
            return ((strata[0], f"among the records of any one {self.claim.stratum}{each}"),)
        return tuple((label, f"among the records {self.claim.records_of(label)}{each}") for label in strata)

    def what_follows(self) -> tuple[str, ...]:
        """Return the consequences of the bound in sentences, in the form that is proved for the metric."""
        sentences = []
        for label, among in self.cases("impact_ratio"):
            limit = self.bound if label is None else self.within(label)
            if limit >= 1.0:
                continue
            found = [f"mean scores between 0 and 1 of two groups differ by at most {round_up(limit)}."]
            rate = self.rate_for_impact_ratio(label=label)
            if rate is not None:
                found.append(
                    f"a classifier that selects at least {percent_up(rate)} of the group it selects most has selection "
                    "rates whose ratio is at least 0.8."
                )
            if len(self.counts.groups) == 2:
                accuracy = round_up(self.guessing_accuracy(label=label))
                found.append(f"no rule guesses a record's group with a balanced accuracy above {accuracy}.")
            for text in found:
                whole = f"{among}, {text}" if among else text
                sentences.append(whole[0].upper() + whole[1:])
        if self.claim.strata(self.counts) != (None,):
            sentences.append(WHOLE_GROUPS.format(metric=self.claim.distance.words, stratum=self.claim.stratum))
        return tuple(sentences)

    def _basis(self, consequence: str) -> Basis:
        """Return the form in which something follows from the bound; raise if it is not proved."""
        return CONSEQUENCES[consequence].basis(self.claim, self.counts.groups)

    def _limit(self, consequence: str, label: object) -> float:
        """Return the bound that a consequence uses: for whole groups, or among the records with one label."""
        declared, metric, strata = CONSEQUENCES[consequence], self.claim.distance, self.claim.strata(self.counts)
        basis = self._basis(consequence)
        if basis is not Basis.GROUPS and label is not None:
            return self.within(label)
        if basis is not Basis.GROUPS:
            raise UnprovedClaimError(
                WHOLE_GROUPS.format(metric=metric.words, stratum=self.claim.stratum)
                + f" Pass label= one of {', '.join(map(repr, strata))} for the {declared.words} among the records of "
                "that label."
            )
        if label is not None:
            raise UnprovedClaimError(
                f"The {metric.words} is about whole groups: nothing follows from it among the records of one label."
            )
        return self.bound

    def _about_the_same_records(self, consequence: str, argument: str, given_label: bool) -> None:
        """Raise unless the caller confirms that an argument is about the records of the metric."""
        metric, basis = self.claim.distance, self._basis(consequence)
        if basis is not Basis.GROUPS and not given_label:
            labels = " and ".join(map(repr, self.claim.strata(self.counts)))
            raise UnprovedClaimError(
                f"The {metric.words} is about records of one {self.claim.stratum}: {argument} must be that among the "
                f"records of each of {labels}, not that of whole groups, which can be much smaller. Pass "
                "given_label=True to say that it is."
            )
        if basis is Basis.GROUPS and given_label:
            raise UnprovedClaimError(
                f"The {metric.words} is about whole groups: {argument} must be that of whole groups. Leave given_label "
                "out."
            )
