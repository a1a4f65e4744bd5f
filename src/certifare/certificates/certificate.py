"""The certificate: an immutable value that holds a bound and everything needed to compute it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates.claims import (
    CONSEQUENCES,
    RECOMPUTATION_TOLERANCE,
    Basis,
    Claim,
    Part,
    Witness,
    check_witnesses,
    combine,
    stratum,
)
from certifare.certificates.counts import CellCounts, Exclusion, encode_counts, merge_exclusions
from certifare.certificates.exact import difference_limit, hoeffding_radius
from certifare.certificates.looks import FIXED_LOOKS, NOT_COUNTED, Look
from certifare.certificates.population import Phrase, among_whom, population_of
from certifare.certificates.sampling import check_draw
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import CAP_FIXED, Tail, distance_level, lowered, raised
from certifare.errors import (
    ArgumentError,
    CertifareError,
    CertificateFormatError,
    CertificateMismatchError,
    CountsError,
    UnprovedClaimError,
)
from certifare.levels import name_of
from certifare.notebook import Drawing, html_table

#: What every certificate takes for granted.
ASSUMPTIONS = (
    "The encoder was fixed before the certification records were drawn, and none of them was used to fit it.",
    "The certification records of each group are independent draws from the population that the claim is about.",
)
#: How an assumption begins that says that the certificate is not valid.
VOID = "VOID"
#: What the bound of the paper takes for granted besides.
ONE_POPULATION = (
    "The samples for base rates, cells and sum were drawn from one population, shares of the groups included, the last "
    "independently of the others."
)
#: What a bound by a fixed sequence takes for granted besides.
FIXED_IN_ADVANCE = (
    "The encoders of the sequence, their order and the target were fixed before any certification record was looked at."
)
#: What a certificate of an encoder that reads the group takes for granted besides.
READS_GROUP = (
    "The encoder reads the group: each record is encoded by the group that it is counted in. A record for which "
    "another group is stated may fall into another cell, and nothing is claimed about such records."
)
#: What counts of several holders take for granted besides.
OTHER_PEOPLE = "Records that different holders counted are of different people, and drawn independently of each other."
#: What no certificate says.
NOT_CLAIMED = (
    "Nothing is claimed about individuals, or about groups that were not counted.",
    "Nothing is claimed about the label being just, or about the accuracy of any classifier.",
    "Nothing is claimed about other data joined to the representation.",
)
#: Why a metric that looks at labels has no consequence for whole groups.
WHOLE_GROUPS = (
    "The {metric} is about records of one label: nothing follows from it for the selection rates of whole groups, and "
    "so for the four-fifths rule."
)


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate between two limits, both of which hold with the stated confidence: each has half of ε."""

    lower: float
    estimate: float
    upper: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} in [{round_down(self.lower)}, {round_up(self.upper)}] ({percent(self.confidence)})"


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """An upper confidence bound T* on a distance between groups, for every classifier on the cells.

    Made by :func:`certifare.certify` and :func:`certifare.certify_counts`.

    Attributes
    ----------
    bound : float
        T*: with the stated confidence no classifier on the cells has a larger distance.
    estimate : float
        The distance of the worst classifier as it appears in the sample (biased upwards).
    lower : float
        With the stated confidence, some classifier has at least this distance.
    confidence : float
        1 − ε. Where there were several ``candidates``, it holds in spite of the choice among them.
    metric, method : str
        What was bounded, and how.
    counts : CellCounts
        The certification sample, by cell, group and (where the metric needs it) label.
    parts : tuple of Part
        The bound of every pair of groups (and label).
    candidates : int
        Among how many encoders the choice was made on these records. Each has a share of ε, but for the bound where
        there is a ``sequence``.
    sequence : FixedSequence or None
        How the encoder came to be chosen, where several were tested against a target: the bound is the target.
    tail : Tail or None
        Where the records were thinned to capped weights: the cap, and the records that tell how much weight is above
        it. The bound and the lower limit are about whole weights; the counts and the estimate are by capped ones.
    witnesses : tuple of Witness
        The set of cells, chosen on other records, that the lower limit rests on; one for each label where the metric is
        a mean over labels.
    base_counts, sum_counts : CellCounts or None
        For ``method="lemmas"``: the other samples, by the same cells, groups and labels. Where there are no
        ``base_counts``, ``counts`` serve for base rates, too.
    pools : tuple of tuple of int
        Cells that the counts show together, in the row of the first; the rows of the others are zero
        (:func:`certifare.document.suppress`).
    population : tuple of str
        Which records the claim is about, where it is not all: phrases such as ``"with a known group"``.
    look : int or None
        Which look at the certification records this is, from 1; None where looks were not counted.
    spent : float
        The ε of earlier looks at them.
    planned_looks : int or None
        How many looks were planned, if any were.
    """

    metric: str
    method: str
    confidence: float
    bound: float
    estimate: float
    lower: float
    counts: CellCounts
    parts: tuple[Part, ...]
    candidates: int = 1
    sequence: FixedSequence | None = None
    tail: Tail | None = None
    positive: str | None = None
    witnesses: tuple[Witness, ...] = ()
    base_counts: CellCounts | None = None
    sum_counts: CellCounts | None = None
    budget: tuple[float, float, float] | None = None
    seed: int | None = None
    effective_size: float | None = None
    pools: tuple[tuple[int, ...], ...] = ()
    population: tuple[Phrase, ...] = ()
    look: int | None = None
    spent: float = 0.0
    planned_looks: int | None = None
    assumptions: tuple[str, ...] = ASSUMPTIONS
    not_claimed: tuple[str, ...] = NOT_CLAIMED

    def __post_init__(self) -> None:
        """Refuse a certificate whose parts do not fit together; :meth:`verify` checks its figures."""
        try:
            self._check()
        except CertificateFormatError:
            raise
        except CertifareError as error:
            raise CertificateFormatError(str(error)) from error

    def _check(self) -> None:
        """Cells, groups and labels of all that it holds must agree, and ranges must be those of figures."""
        for name in ("bound", "estimate", "lower"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise CertificateFormatError(f"{name} must lie in [0, 1].")
        if self.candidates < 1:
            raise CertificateFormatError("candidates must be at least 1.")
        if self.effective_size is not None and not 0.0 < self.effective_size < math.inf:
            raise CertificateFormatError("effective_size must be a positive number.")
        if self.population != population_of((), *self.population):
            raise CertificateFormatError("phrases of the population are repeated, or out of order.")
        if self.look is None and (self.spent or self.planned_looks is not None):
            raise CertificateFormatError("looks were not counted, and figures of other looks are given.")
        if self.counted_look is not None:
            self.counted_look.check(self.confidence)
        metric, counts, strata = self.claim.distance, self.counts, self._strata()
        self.claim.epsilon(strata)
        if metric.labelled == (counts.labels is None):
            raise CertificateFormatError(f"the metric {self.metric} looks at no labels, and the counts have some.")
        if self.positive != (strata[0] if metric.strata == "positive" else None):
            raise CertificateFormatError(f"positive={self.positive!r} does not fit the metric {self.metric}.")
        if not self.parts:
            raise CertificateFormatError("no pair of groups.")
        groups, labels = set(counts.groups), set(strata)
        for part in self.parts:
            if not groups.issuperset(part.groups) or part.label not in labels:
                raise CertificateFormatError("a bound is about groups or a label that the counts do not have.")
        check_witnesses(metric, counts, strata, self.witnesses)
        self._check_pools()
        if self.tail is not None:
            self.tail.check(counts)
            if self.method == "lemmas":
                raise CertificateFormatError('method="lemmas" knows no cap on the weights.')
        besides = {"base_counts": self.base_counts, "sum_counts": self.sum_counts, "budget": self.budget}
        if self.method != "lemmas" and any(value is not None for value in besides.values()):
            raise CertificateFormatError(f'{", ".join(besides)} are for method="lemmas" only.')
        if self.method == "lemmas" and (self.sum_counts is None or self.budget is None):
            raise CertificateFormatError('method="lemmas" needs sum_counts and a budget.')
        for name, other in (("base_counts", self.base_counts), ("sum_counts", self.sum_counts)):
            if other is not None and (
                (other.n_cells, other.groups, other.labels) != (counts.n_cells, counts.groups, counts.labels)
            ):
                raise CertificateFormatError(f"{name} and counts have different cells, groups or labels.")
        if self.sequence is not None and (
            (self.method, self.candidates, self.bound) != ("exact", self.sequence.length, self.sequence.target)
        ):
            raise CertificateFormatError(
                "a sequence is tested by the exact method; its target is the bound, its length the candidates."
            )
        if self.seed is not None and self.base_counts is not None:
            raise CertificateFormatError("records dealt into halves by a seed leave none for base_counts.")

    def _check_pools(self) -> None:
        """Pools are sets of two cells or more, in order; each lies inside a witness or outside."""
        pooled = [cell for pool in self.pools for cell in pool]
        if (
            any(len(pool) < 2 or list(pool) != sorted(pool) for pool in self.pools)
            or list(self.pools) != sorted(self.pools)
            or len(set(pooled)) != len(pooled)
            or not all(0 <= cell < self.counts.n_cells for cell in pooled)
        ):
            raise CertificateFormatError(
                "pools must name two cells of the counts or more, in order, and no cell twice."
            )
        if self.counts.table[[cell for pool in self.pools for cell in pool[1:]]].any():
            raise CertificateFormatError(
                "the records of a pool stand in the row of its first cell, and others have some."
            )
        for witness in self.witnesses:
            inside = set(witness.cells)
            if any(len({cell in inside for cell in pool}) > 1 for pool in self.pools):
                raise CertificateFormatError("a witness holds a part of a pool.")
        if self.pools and self.method == "lemmas":
            raise CertificateFormatError('method="lemmas" looks at single cells, which pools do not show.')

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Records left out, and why."""
        tables = (self.counts, self.base_counts, self.sum_counts)
        return merge_exclusions([exclusion for table in tables if table is not None for exclusion in table.exclusions])

    @property
    def silences(self) -> tuple[str, ...]:
        """What a certificate of this kind must assume, or say that it does not claim, and this one leaves out."""
        required = (
            *ASSUMPTIONS,
            *((ONE_POPULATION,) if self.method == "lemmas" else ()),
            *((FIXED_IN_ADVANCE,) if self.sequence is not None else ()),
            *((CAP_FIXED,) if self.tail is not None else ()),
            *((FIXED_LOOKS,) if self.look is not None and self.look > 1 else ()),
        )
        # A certificate that is void says so in the place of the first assumption.
        if any(text.startswith(VOID) for text in self.assumptions):
            required = required[1:]
        return (
            *(text for text in required if text not in self.assumptions),
            *(text for text in NOT_CLAIMED if text not in self.not_claimed),
        )

    @property
    def worst(self) -> Part:
        """The pair of groups (and label) with the largest bound; of equal ones, that with the largest estimate."""
        return max(self.parts, key=lambda part: (part.bound, part.estimate))

    # -- looks ------------------------------------------------------------------------------------------------

    @property
    def joint_confidence(self) -> float:
        """Confidence with which all looks at these records hold together, so far and as planned.

        Where looks were not counted, it is that of this certificate alone.
        """
        return self.confidence if self.counted_look is None else self.counted_look.joint(self.confidence)

    @property
    def look_words(self) -> str:
        """Say in a sentence which look at the certification records this is."""
        if self.look is None:
            return NOT_COUNTED
        together = f"all of them hold together with {percent(self.joint_confidence)} confidence"
        if self.planned_looks is not None:
            planned = f"look {self.look} of {self.planned_looks} that are planned"
            return f"By the producer's ledger this is {planned} at the certification records; {together}."
        if self.look == 1:
            return "By the producer's ledger this is the first look at the certification records."
        return (
            f"By the producer's ledger this is look {self.look} at the certification records, or some of them; earlier "
            f"ones spent ε = {self.spent:g}, and {together}."
        )

    def at_look(self, look: Look | None) -> Certificate:
        """Return the certificate with the look that it is."""
        if look is None:
            return self
        assumptions = (*self.assumptions, *((FIXED_LOOKS,) if look.number > 1 else ()))
        spent = max(look.spent, look.least_spent(self.confidence))
        figures = {"look": look.number, "spent": spent, "planned_looks": look.planned}
        return msgspec.structs.replace(self, **figures, assumptions=assumptions)

    @property
    def counted_look(self) -> Look | None:
        """The look that it is; None where looks were not counted."""
        return None if self.look is None else Look(number=self.look, spent=self.spent, planned=self.planned_looks)

    @property
    def several_looks(self) -> bool:
        """Whether there is more to say than that these records were looked at once."""
        return self.look is not None and (self.look > 1 or self.planned_looks is not None)

    @cached_property
    def claim(self) -> Claim:
        """What was asked for; the method, which may be unknown to this version, is checked by :meth:`verify`."""
        return Claim(
            metric=self.metric,
            confidence=self.confidence,
            candidates=self.candidates,
            positive=self.positive,
            min_group_size=1,  # which groups were large enough was decided when it was made
        )

    @property
    def epsilon_used(self) -> float:
        """ε of one bound: what is left of it for one of several candidates (all of it in a sequence), and strata."""
        claim = self.claim if self.sequence is None else replace(self.claim, candidates=1)
        return claim.epsilon(self._strata())

    # -- weights ----------------------------------------------------------------------------------------------

    @property
    def cap_words(self) -> tuple[str, ...]:
        """Say in a sentence how much weight lies above the cap; nothing where there is none."""
        if self.tail is None:
            return ()
        epsilon = self.epsilon_used
        above = max(self._above(part.groups, part.label, epsilon) for part in self.parts)
        within = "" if self._strata() == (None,) else ", among the records of a label,"
        return (
            f"Records were thinned to weights capped at {self.tail.cap:g} (the largest is {self.tail.largest:g}). At "
            f"most {percent_up(above)} of the weight of any group{within} lies above the cap, which T* and the lower "
            "limit allow for; the estimate is by capped weights.",
        )

    # -- what follows from the bound ------------------------------------------------------------------------

    def within(self, label: object) -> float:
        """Bound on the distance between groups among the records of one label.

        It holds for all labels of the metric together, with the certificate's confidence. Where the metric is a mean
        over labels, it is the label's own limit, or with a sequence T* times the number of labels; else it is T*.

        >>> from certifare import CellCounts, certify_counts
        >>> counts = CellCounts([[[500, 90], [480, 60]], [[500, 60], [520, 90]]], ["f", "m"], ["no", "yes"])
        >>> c = certify_counts(counts, "equalized_odds")
        >>> c.within("no") < c.bound < c.within("yes")
        True
        """
        name, limits = name_of(label), self._limits
        if name not in limits:
            raise UnprovedClaimError(
                f"The certificate is about records with the label {' or '.join(map(repr, limits))}: nothing follows "
                f"for those with the label {name!r}."
            )
        return limits[name]

    @cached_property
    def _limits(self) -> dict[str | None, float]:
        """Bound within each label that the metric looks at."""
        basis = self.claim.basis("within", self.counts.groups)
        if basis is Basis.LABEL:
            return dict.fromkeys(self._strata(), self.bound)
        limits: dict[str | None, float] = {}
        for part in self.parts:
            limits[part.label] = max(part.bound, limits.get(part.label, 0.0))
        return limits

    def impact_ratio(self, rate: float, *, label: object = None) -> float:
        """Smallest possible ratio of selection rates of a classifier whose highest group rate is ``rate``.

        The four-fifths rule asks for 0.8. It compares rates of whole groups, and so follows from demographic parity
        alone. With a metric that looks at labels, name the ``label``: rate and ratio are then those among the records
        of that label.

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
        """Smallest highest selection rate from which ``ratio`` is guaranteed; None where no rate suffices."""
        if not 0.0 <= ratio < 1.0:
            raise ArgumentError(f"ratio={ratio}: a ratio below 1 is needed.")
        rate = at_least(written(self._limit("impact_ratio", label)) / (1 - written(ratio)))
        return rate if rate <= 1.0 else None

    def score_gap(self, low: float, high: float, *, label: object = None) -> float:
        """Largest possible difference of two groups' mean scores, for scores between ``low`` and ``high``.

        With a metric that looks at labels, name the ``label``: the means are then those over its records.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(f"low={low}, high={high}: give the smallest and the largest score.")
        return at_least((written(high) - written(low)) * written(self._limit("score_gap", label)))

    def guessing_accuracy(self, *, label: object = None) -> float:
        """Largest balanced accuracy with which any rule on the cells guesses a record's group (two groups).

        With a metric that looks at labels, name the ``label``: the records are then those of that label.
        """
        return at_least((1 + written(self._limit("guessing_accuracy", label))) / 2)

    def under_shift(self, rho: float | Mapping[object, float], *, given_label: bool = False) -> float:
        """Bound after each group's distribution of cells moved by at most ρ in total variation.

        Shares of groups, and of labels, may change freely.

        Parameters
        ----------
        rho : float or mapping
            One number for all groups, or one per group.
        given_label : bool
            With a metric that looks at labels, ρ must be that among the records of each label it looks at; True says
            that it is. A small shift of a whole group can be a large one among its positives.
        """
        self._about_the_same_records("under_shift", "rho", given_label)
        if isinstance(rho, Mapping):
            moves = {name_of(group): float(value) for group, value in rho.items()}
            missing = set(self.counts.groups) - set(moves)
            if missing:
                raise ArgumentError(f"rho lacks the group {sorted(missing)[0]!r}.")
        else:
            moves = dict.fromkeys(self.counts.groups, float(rho))
        if not all(0.0 <= value <= 1.0 for value in moves.values()):
            raise ArgumentError("rho: a total variation distance lies in [0, 1].")
        moved = [moves[p.groups[0]] + moves[p.groups[1]] for p in self.parts]
        shifted = [(p.label, p.bound + move) for p, move in zip(self.parts, moved, strict=True)]
        return min(1.0, combine(self.claim.distance, shifted), self.bound + max(moved))

    def under_group_noise(self, error_rates: Sequence[float], *, given_label: bool = False) -> float:
        """Bound for the true groups where recorded groups are wrong at known rates (two groups).

        Parameters
        ----------
        error_rates : two floats
            At most which share of the records *recorded* as group 0, and as group 1, belongs to the other group. Given
            the true group, the error must not depend on the cell. Where the encoder reads the group, it does, and the
            bound is refused.
        given_label : bool
            With a metric that looks at labels, the shares must be those among the records of each label it looks at,
            and the error must not depend on the cell given group and label; True says that it is so.
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
        """Labels for which a consequence has a limit of its own, each with words that say which records are meant.

        (None, "") stands for whole groups. Where all labels share T*, the first one stands for them.
        """
        basis = self.claim.basis(consequence, self.counts.groups)
        strata = self._strata()
        if basis is Basis.GROUPS:
            return ((None, ""),)
        if basis is Basis.LABEL and len(strata) > 1:
            return ((strata[0], "among the records of any one label"),)
        return tuple((label, f"among the records with label {label!r}") for label in strata)

    def what_follows(self) -> tuple[str, ...]:
        """Say in sentences what follows from the bound, in the form that is proved for the metric."""
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
        if self._strata() != (None,):
            sentences.append(WHOLE_GROUPS.format(metric=self.claim.distance.words))
        return tuple(sentences)

    def _limit(self, consequence: str, label: object) -> float:
        """Return the limit that a consequence rests on: for whole groups, or among the records of one label."""
        declared, metric = CONSEQUENCES[consequence], self.claim.distance
        basis = self.claim.basis(consequence, self.counts.groups)
        if basis is not Basis.GROUPS and label is not None:
            return self.within(label)
        if basis is not Basis.GROUPS:
            raise UnprovedClaimError(
                WHOLE_GROUPS.format(metric=metric.words)
                + f" Pass label= one of {', '.join(map(repr, self._strata()))} for the {declared.words} among the "
                "records of that label."
            )
        if label is not None:
            raise UnprovedClaimError(
                f"The {metric.words} is about whole groups: nothing follows from it among the records of one label."
            )
        return self.bound

    def _about_the_same_records(self, consequence: str, argument: str, given_label: bool) -> None:
        """Make the caller say that an argument is about the records that the metric looks at."""
        metric, basis = self.claim.distance, self.claim.basis(consequence, self.counts.groups)
        if basis is not Basis.GROUPS and not given_label:
            raise UnprovedClaimError(
                f"The {metric.words} is about records of one label: {argument} must be that among the records with the "
                f"label {' and '.join(map(repr, self._strata()))}, not that of whole groups, which can be much "
                "smaller. Pass given_label=True to say that it is."
            )
        if basis is Basis.GROUPS and given_label:
            raise UnprovedClaimError(
                f"The {metric.words} is about whole groups: {argument} must be that of whole groups. Leave given_label "
                "out."
            )

    def for_classifier(self, predictions: ArrayLike) -> Interval:
        """Interval for the distance of one classifier, given by its prediction for each cell.

        With the certificate's confidence the distance lies in the interval, so each limit has half of ε. T*, which has
        all of ε, bounds the same distance by itself; for a classifier that is nearly the worst it can be the smaller.

        The classifier must have been made without looking at the certification records. (The bound of the
        certificate itself needs no such care.)

        Parameters
        ----------
        predictions : array-like
            One entry per cell: a class (two or more classes: the distance is the largest over classes), or a
            probability in [0, 1] as floating-point number. Cells that are published together (:attr:`pools`) must have
            the same.
        """
        values = np.asarray(predictions)
        if values.ndim != 1 or len(values) != self.counts.n_cells:
            raise ArgumentError(f"predictions must hold one entry for each of the {self.counts.n_cells} cells.")
        for pool in self.pools:
            if len(np.unique(values[list(pool)])) > 1:
                shown = f"{', '.join(map(str, pool[:6]))}{' …' if len(pool) > 6 else ''}"
                raise UnprovedClaimError(
                    f"The classifier treats cells differently that are published as one pool (cells {shown}), so its "
                    f"own interval cannot be computed. T* = {round_up(self.bound)} holds for it as for every other."
                )
        if values.dtype.kind == "f" and not np.isin(values, (0.0, 1.0)).all():
            if not (np.all(values >= 0.0) and np.all(values <= 1.0)):
                raise ArgumentError("Probabilities must lie in [0, 1].")
            scores = [values.astype(np.float64)]
        else:
            classes = np.unique(values)
            # Two classes have one distance; a constant classifier has none.
            scores = [(values == c).astype(np.float64) for c in (classes[1:] if len(classes) <= 2 else classes)]
        limits = [self._classifier_part(scores, label) for label in self._strata()]
        metric = self.claim.distance
        merge = (lambda v: math.fsum(v) / len(v)) if metric.combine == "mean" else max
        lower, estimate, upper = (merge([limit[i] for limit in limits]) for i in range(3))
        return Interval(lower=lower, estimate=estimate, upper=min(upper, 1.0), confidence=self.confidence)

    def _strata(self) -> tuple[str | None, ...]:
        return self.claim.strata(self.counts)

    def _classifier_part(self, scores: Sequence[NDArray[np.float64]], label: str | None) -> tuple[float, float, float]:
        """Lower limit, estimate and upper limit in one stratum, largest over classes and pairs of groups.

        Each side has half of ε. The worst class, pair and sign are facts of the population: upper limits of a maximum
        share no ε. Lower limits of a maximum do.
        """
        epsilon = self.claim.epsilon(self._strata()) / 2
        counts = stratum(self.counts, label)
        g = len(counts.groups)
        ways = max(1, len(scores)) * g * (g - 1)
        if self.claim.distance.combine == "max":
            ways *= len(self._strata())
        lower = estimate = upper = 0.0
        for first, second in permutations(range(g), 2):
            pair, names = counts.table[:, [first, second]], (counts.groups[first], counts.groups[second])
            above, above_shared = (self._above(names, label, level) for level in (epsilon, epsilon / ways))
            for score in scores:
                estimate = max(estimate, _mean_gap(pair, score))
                upper = max(upper, raised(_gap_limit(pair, score, self._level(epsilon)), above))
                limit = -_gap_limit(pair[:, ::-1], score, self._level(epsilon / ways))
                lower = max(lower, lowered(limit, above_shared))
        return lower, estimate, upper

    def _level(self, epsilon: float) -> float:
        """Return what of ε bounds distances in the counts."""
        return distance_level(epsilon, capped=self.tail is not None)

    def _above(self, groups: tuple[str, str], label: str | None, epsilon: float) -> float:
        """Upper limit of the share of weight above the cap; 0 where there is none."""
        return 0.0 if self.tail is None else self.tail.share(self.counts, groups, label, epsilon)

    # -- computing it again -----------------------------------------------------------------------------------

    def verify(self) -> Certificate:
        """Recompute every figure from the counts; an error names the first that they do not support.

        What the bound takes for granted, and what is not claimed, must be said as well.
        """
        from certifare.certificates.issuing import issue

        if self.silences:
            raise CertificateMismatchError(f"The certificate leaves out what every one must say: {self.silences[0]}")
        again = issue(
            self.counts,
            replace(self.claim, method=self.method),
            sequence=self.sequence,
            tail=self.tail,
            witness=self.witnesses or None,
            base_counts=self.base_counts,
            sum_counts=self.sum_counts,
            budget=self.budget,
        )
        unsaid = [phrase for phrase in again.population if phrase not in self.population]
        if unsaid:
            raise CertificateMismatchError(
                f"Records were left out, and the certificate does not say that it is about records {unsaid[0]} only."
            )
        self._check_draw()
        for name in ("bound", "estimate", "lower"):
            stated, computed = getattr(self, name), getattr(again, name)
            if abs(stated - computed) > RECOMPUTATION_TOLERANCE:
                raise CertificateMismatchError(
                    f"The certificate states {name} = {stated:.9g}, but its counts give {computed:.9g}."
                )
        if [part.groups for part in again.parts] != [part.groups for part in self.parts] or any(
            abs(a.bound - b.bound) > RECOMPUTATION_TOLERANCE
            or abs(a.estimate - b.estimate) > RECOMPUTATION_TOLERANCE
            or (a.label, a.records) != (b.label, b.records)
            for a, b in zip(again.parts, self.parts, strict=True)
        ):
            raise CertificateMismatchError("The bounds of single pairs of groups do not follow from the counts.")
        return self

    def _check_draw(self) -> None:
        """Refuse what is said of a draw by weights or clusters, and of its seed, where that contradicts itself."""
        tables = [table for table in (self.counts, self.base_counts, self.sum_counts) if table is not None]
        check_draw(
            self.population,
            self.exclusions,
            records=sum(table.n_records for table in tables),
            effective_size=self.effective_size,
            capped=self.tail is not None,
        )
        drawn = self.effective_size is not None
        # Several holders have a seed each. Halves for the paper's bound are drawn, or given.
        if drawn and self.seed is None and OTHER_PEOPLE not in self.assumptions:
            raise CertificateMismatchError("Records were drawn, and the certificate does not say by which seed.")
        if self.seed is not None and not drawn and self.method != "lemmas":
            raise CertificateMismatchError(f"The certificate has the seed {self.seed} of a draw, and no draw.")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries, strings and numbers, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self, enc_hook=encode_counts)
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote, checking types, ranges and names; :meth:`verify` checks the figures."""
        try:
            certificate = msgspec.convert(dict(document), cls, dec_hook=_decode)
        except (msgspec.ValidationError, TypeError, CertifareError) as error:
            raise CertificateFormatError(f"Not a certificate: {error}") from error
        return certificate

    # -- showing it -------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        words = self.claim.distance.words
        if self.bound >= 1.0:
            return f"no bound below 1 on the {words} could be certified{among_whom(self.population)} ({self._sample()})"
        return (
            f"{words} of any classifier <= {round_up(self.bound)} with {percent(self.confidence)} confidence"
            f"{among_whom(self.population)} ({self._sample()})"
        )

    def _sample(self) -> str:
        positive = "" if self.positive is None else f" with label {self.positive!r}"
        sizes = stratum(self.counts, self.positive).group_sizes.values()
        looks = f"; look {self.look}, all together {percent(self.joint_confidence)}" if self.several_looks else ""
        return f"{' + '.join(f'{n:,}' for n in sizes)} records{positive}, {self.counts.n_cells} cells{looks}"

    def _repr_html_(self) -> str:
        rows = [
            ("bound T*", round_up(self.bound)),
            ("estimate", f"{self.estimate:.4f}"),
            ("lower limit", round_down(self.lower)),
            ("confidence", f"{percent(self.confidence)}, of T* and of the lower limit each"),
            ("method", self.method),
            ("candidates", str(self.candidates) if self.sequence is None else f"{self.candidates}, in sequence"),
            *(("weights", words) for words in self.cap_words),
            ("look", self.look_words),
            *((f"records of {group}", f"{n:,}") for group, n in self.counts.group_sizes.items()),
            *((f"excluded: {e.reason}", f"{e.records:,}") for e in self.exclusions),
        ]
        return html_table(str(self), rows)

    def plot(self) -> Drawing:
        """Draw the interval from the lower limit to T*, which have the confidence each, with the estimate in it."""
        import altair as alt

        row = {"what": "T*", "low": self.lower, "high": self.bound, "estimate": self.estimate}
        base = alt.Chart(alt.InlineData(values=[row])).encode(y=alt.Y("what:N", title=None, axis=None))
        title = f"{self.claim.distance.words}, {percent(self.confidence)} confidence each limit"
        across = alt.Scale(domain=[0.0, min(1.0, max(1.15 * self.bound, 0.02))])
        layers = [
            base.mark_bar(size=14, opacity=0.35).encode(x=alt.X("low:Q", title=title, scale=across), x2="high:Q"),
            base.mark_tick(size=28, thickness=2).encode(x="high:Q"),
            base.mark_tick(size=28, thickness=2).encode(x="low:Q"),
            base.mark_circle(size=60).encode(x="estimate:Q"),
        ]
        limits = f"T* = {round_up(self.bound)}, estimate {self.estimate:.4f}, lower limit {round_down(self.lower)}"
        return Drawing(alt.layer(*layers).properties(width=480, height=60, title=limits))


def _mean_gap(pair: NDArray[np.int64], score: NDArray[np.float64]) -> float:
    n0, n1 = (int(n) for n in pair.sum(axis=0))
    first, second = (math.fsum((column * score).tolist()) for column in pair.T)
    return first / n0 - second / n1


def _gap_limit(pair: NDArray[np.int64], score: NDArray[np.float64], epsilon: float) -> float:
    """Upper confidence limit of E[score | first group] − E[score | second group]."""
    n0, n1 = (int(n) for n in pair.sum(axis=0))
    if np.isin(score, (0.0, 1.0)).all():
        c0, c1 = (int(c) for c in pair[score == 1.0].sum(axis=0))
        return difference_limit(n0, n1, n1 * c0 - n0 * c1, epsilon)
    spread = float(score.max() - score.min())
    return _mean_gap(pair, score) + spread * hoeffding_radius(n0, n1, epsilon) + 1e-12


def round_up(value: float, digits: int = 4) -> str:
    """Decimal text that is never below the value as it is written: 0.1 is shown as 0.1000.

    The nearest binary number may be above 0.1 by 10⁻¹⁷, which the margins of the bounds cover.
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(10) ** -digits, ROUND_CEILING))


def round_down(value: float, digits: int = 4) -> str:
    """Decimal text that is never above the value as it is written."""
    return str(Decimal(repr(float(value))).quantize(Decimal(10) ** -digits, ROUND_FLOOR))


def confidence_text(confidence: float) -> str:
    """Confidence as a decimal, such as "0.95": never above it, and with three digits of what it lacks of 1 at least."""
    return f"{_shown(confidence):f}"


def percent(confidence: float) -> str:
    """Confidence as text, such as "95 %", rounded like :func:`confidence_text`."""
    return f"{(100 * _shown(confidence)).normalize():f} %"


def percent_up(rate: float) -> str:
    """Return a share as text, such as "13.3 %", that is never below it."""
    return f"{(100 * Decimal(repr(float(rate)))).quantize(Decimal('0.1'), ROUND_CEILING).normalize():f} %"


def _shown(confidence: float) -> Decimal:
    # What was written, not the nearest binary number: 0.95, not 0.94999…
    value = Decimal(repr(float(confidence)))
    places = max(5 - value.adjusted(), 2 - (1 - value).adjusted())
    return value.quantize(Decimal(1).scaleb(-places), ROUND_FLOOR).normalize()


def written(value: float) -> Fraction:
    """Return a number as it is written: 0.8, not the nearest binary number. Margins of the bounds cover 10⁻¹⁶."""
    return Fraction(repr(float(value)))


def at_least(value: Fraction) -> float:
    """Smallest floating-point number that, as it is written, is not below the value."""
    nearest = float(value)
    return nearest if written(nearest) >= value else math.nextafter(nearest, math.inf)


def _decode(kind: type, value: object) -> object:
    if kind is CellCounts:
        if not isinstance(value, Mapping):
            raise CountsError("counts must be an object with groups and table.")
        return CellCounts.from_dict(value)
    raise NotImplementedError(f"cannot read {kind.__name__}")
