"""The certificate: an immutable value that holds a bound and everything needed to compute it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
from numpy.typing import ArrayLike

from certifare.certificates.assumptions import ASSUMPTIONS, FIXED_LOOKS, NOT_CLAIMED, OTHER_PEOPLE, VOID, assumed
from certifare.certificates.bounding import Evidence, Figures, check_figures, compute_figures
from certifare.certificates.claims import METHODS, Claim, Part, Scope, Witness, check_witnesses, combine, stratum
from certifare.certificates.classifier import Interval, classifier_interval
from certifare.certificates.consequences import Consequences
from certifare.certificates.counts import CellCounts, Exclusion, decode_counts, encode_counts
from certifare.certificates.looks import NOT_COUNTED, Look
from certifare.certificates.picture import draw_interval
from certifare.certificates.population import BY_WEIGHT, Phrase, among_whom, population_of
from certifare.certificates.rounding import percent, round_down, round_up
from certifare.certificates.sampling import check_draw
from certifare.certificates.sequence import FixedSequence
from certifare.certificates.tail import Tail
from certifare.certificates.wording import plain_claim
from certifare.drawing.card import html_card
from certifare.errors import CertifareError, DocumentError, GroupError
from certifare.foundation.display import Drawing

#: The fewest records of an intersection of attributes for which its bound is stated.
SMALLEST_INTERSECTION = 30


class Certificate(Consequences, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """An upper confidence bound T* on a distance between groups, for every classifier on the cells.

    Made by :func:`certifare.certify` and :func:`certifare.certify_counts`. The class is long because a certificate
    describes each of its fields here, and refuses fields that contradict each other wherever it comes from.

    Attributes
    ----------
    bound : float
        T*: with the stated confidence no classifier on the cells has a larger distance.
    estimate : float
        The distance of the worst classifier as it appears in the sample (biased upwards); of calibrated cells, as their
        plan has it.
    lower : float
        With the stated confidence, some classifier has at least this distance.
    confidence : float
        1 − ε. Where there were several ``candidates``, it holds in spite of the choice among them.
    metric, method : str
        What was bounded, and how.
    counts : CellCounts
        The certification sample, by cell, group and (where the metric needs it) label.
    parts : tuple of Part
        The bound of every pair of groups (and label). Of calibrated cells each holds by itself, not with the others.
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
    scope : Scope, optional
        Attributes, each of which is claimed, or the column within whose values groups are compared, if any.
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
    # Samples of the paper's bound, which certifare no longer issues. Older readers look for the fields.
    base_counts: None = None
    sum_counts: None = None
    budget: None = None
    seed: int | None = None
    effective_size: float | None = None
    pools: tuple[tuple[int, ...], ...] = ()
    population: tuple[Phrase, ...] = ()
    look: int | None = None
    spent: float = 0.0
    planned_looks: int | None = None
    assumptions: tuple[str, ...] = ASSUMPTIONS
    not_claimed: tuple[str, ...] = NOT_CLAIMED
    scope: Scope | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Refuse a certificate whose parts do not fit together; :meth:`verify` checks its figures."""
        try:
            self._check_ranges()
            self._check_claim()
            self._check_evidence()
        except DocumentError:
            raise
        except CertifareError as error:
            raise DocumentError(str(error)) from error

    def _check_ranges(self) -> None:
        """Refuse numbers that no certificate has."""
        for name in ("bound", "estimate", "lower"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise DocumentError(f"{name} must lie in [0, 1].")
        if self.candidates < 1:
            raise DocumentError("candidates must be at least 1.")
        if self.effective_size is not None and not 0.0 < self.effective_size < math.inf:
            raise DocumentError("effective_size must be a positive number.")
        if self.population != population_of((), *self.population):
            raise DocumentError("phrases of the population are repeated, or out of order.")
        if self.look is None and (self.spent or self.planned_looks is not None):
            raise DocumentError("looks were not counted, and figures of other looks are given.")
        if self.counted_look is not None:
            self.counted_look.check(self.confidence)

    def _check_claim(self) -> None:
        """Refuse labels, groups and pairs that do not fit the metric and the counts."""
        metric, counts, strata = self.claim.distance, self.counts, self._strata
        self.claim.epsilon(strata)
        if metric.labelled == (counts.labels is None):
            raise DocumentError(f"the metric {self.metric} looks at no labels, and the counts have some.")
        if self.positive != (strata[0] if metric.strata == "positive" else None):
            raise DocumentError(f"positive={self.positive!r} does not fit the metric {self.metric}.")
        if not self.parts:
            raise DocumentError("no pair of groups.")
        pairs = {(pair.attribute, frozenset(pair.groups), pair.label) for pair in self.claim.pairs(counts)}
        if any((part.attribute, frozenset(part.groups), part.label) not in pairs for part in self.parts):
            raise DocumentError("a bound is about groups or a label that the counts do not have.")

    def _check_evidence(self) -> None:
        """Refuse evidence that does not fit the counts, the method or the figures."""
        if self.sequence is not None and (
            (self.method, self.candidates, self.bound) != ("exact", self.sequence.length, self.sequence.target)
        ):
            raise DocumentError(
                "a sequence is tested by the exact method; its target is the bound, its length the candidates."
            )
        self.evidence.check(self.method)
        counts = self.counts
        check_witnesses(self.claim, counts, self.witnesses)
        check_pools(self.pools, counts, self.witnesses)
        if self.tail is not None:
            self.tail.check(counts)
        if self.method == "calibrated" and self.pools:
            raise DocumentError("the bound of calibrated cells looks at single cells, which pools do not show.")

    # -- what it rests on ---------------------------------------------------------------------------------------

    @cached_property
    def claim(self) -> Claim:
        """The claim. :meth:`verify` checks the method, which this version may not know."""
        return Claim(
            metric=self.metric,
            confidence=self.confidence,
            candidates=self.candidates,
            positive=self.positive,
            min_group_size=1,  # which groups were large enough was decided when it was made
            **({} if isinstance(self.scope, msgspec.UnsetType) else msgspec.structs.asdict(self.scope)),
        )

    @property
    def evidence(self) -> Evidence:
        """The counts and samples that the figures are computed from."""
        return Evidence(self.counts, self.sequence, self.tail, self.witnesses)

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """Records left out, and why."""
        return self.counts.exclusions

    @property
    def silences(self) -> tuple[str, ...]:
        """Sentences on assumptions, and on what is not claimed, that this certificate should state and leaves out."""
        several = (FIXED_LOOKS,) if self.look is not None and self.look > 1 else ()
        required = (*assumed(self.method), *self.evidence.assumptions(self.method), *several)
        # A certificate that is void says so in the place of the first assumption.
        if any(text.startswith(VOID) for text in self.assumptions):
            required = required[1:]
        return (
            *(text for text in required if text not in self.assumptions),
            *(text for text in NOT_CLAIMED if text not in self.not_claimed),
        )

    @property
    def _strata(self) -> tuple[str | None, ...]:
        """Labels of the strata that the metric looks at."""
        return self.claim.strata(self.counts)

    @property
    def epsilon_used(self) -> float:
        """ε of one bound: what is left of it for one of several candidates (all of it in a sequence), and strata."""
        claim = self.claim if self.sequence is None else replace(self.claim, candidates=1)
        return claim.epsilon(self._strata)

    @property
    def worst(self) -> Part:
        """The pair of groups (and label) with the largest bound; of equal ones, that with the largest estimate."""
        return max(self.parts, key=lambda part: (part.bound, part.estimate))

    @property
    def of_each(self) -> dict[str, float]:
        """T* of each attribute, the largest first. Each holds by itself with the confidence; ``bound`` holds for all.

        Empty unless each of several attributes is claimed.
        """
        distance = self.claim.distance
        found = {
            name: min(self.bound, combine(distance, [(p.label, p.bound) for p in self.parts if p.attribute == name]))
            for name in self.claim.each
        }
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    @cached_property
    def intersection(self) -> float | None:
        """T* between any two intersections of the attributes, by itself; None if records do not suffice.

        Every combination of values must have records: nothing is known about one that was never seen.

        An encoder that was chosen from a sequence by these records has a share of ε here: its tests were of another
        claim.
        """
        if not self.claim.each or self.pools or self.method != "exact":
            return None
        if len(self.counts.groups) < math.prod(len(groups) for _, groups in self.claim.divided(self.counts.groups)):
            return None
        claim = replace(self.claim, method=self.method, each=(), min_group_size=SMALLEST_INTERSECTION)
        evidence = Evidence(self.counts, tail=self.tail)
        try:
            bound = compute_figures(evidence.fitted(claim), claim).bound
        except GroupError:
            return None
        return bound if bound < 1.0 else None

    @property
    def cap_words(self) -> tuple[str, ...]:
        """Say in a sentence how much weight lies above the cap; nothing if there is none."""
        return (
            ()
            if self.tail is None
            else (self.tail.words(self.counts, self.claim.pairs(self.counts), self.epsilon_used),)
        )

    # -- looks ------------------------------------------------------------------------------------------------

    @property
    def counted_look(self) -> Look | None:
        """The look at the certification records that it rests on; None if looks were not counted."""
        return None if self.look is None else Look(number=self.look, spent=self.spent, planned=self.planned_looks)

    @property
    def several_looks(self) -> bool:
        """Whether several looks at these records were made or planned."""
        return self.look is not None and (self.look > 1 or self.planned_looks is not None)

    @property
    def joint_confidence(self) -> float:
        """Confidence with which all looks at these records hold together, so far and as planned.

        If looks were not counted, it is that of this certificate alone.
        """
        return self.confidence if self.counted_look is None else self.counted_look.joint(self.confidence)

    @property
    def look_words(self) -> str:
        """Say in a sentence which look at the certification records this is."""
        return NOT_COUNTED if self.counted_look is None else self.counted_look.words(self.confidence)

    def at_look(self, look: Look | None) -> Certificate:
        """Return the certificate with the look that it rests on."""
        if look is None:
            return self
        assumptions = (*self.assumptions, *((FIXED_LOOKS,) if look.number > 1 else ()))
        spent = max(look.spent, look.least_spent(self.confidence))
        figures = {"look": look.number, "spent": spent, "planned_looks": look.planned}
        return msgspec.structs.replace(self, **figures, assumptions=assumptions)

    # -- computing ----------------------------------------------------------------------------------------------

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
        return classifier_interval(self, predictions)

    def verify(self) -> Certificate:
        """Recompute every figure from the counts; an error names the first that they do not support.

        Assumptions, and what is not claimed, must be stated as well.
        """
        if self.silences:
            raise DocumentError(f"The certificate leaves out what every one must say: {self.silences[0]}")
        claim = replace(self.claim, method=self.method)
        evidence = self.evidence.fitted(claim)
        claim.check_left_out(self.counts)
        by_weight = () if self.tail is None else (BY_WEIGHT,)
        unsaid = [phrase for phrase in population_of(self.exclusions, *by_weight) if phrase not in self.population]
        if unsaid:
            raise DocumentError(
                f"Records were left out, and the certificate does not say that it is about records {unsaid[0]} only."
            )
        self._check_draw()
        check_figures(evidence, claim, Figures(self.bound, self.estimate, self.lower, self.parts))
        return self

    def _check_draw(self) -> None:
        """Refuse statements about a draw by weights or clusters, or its seed, that contradict each other."""
        check_draw(
            self.population,
            self.exclusions,
            records=self.counts.n_records,
            effective_size=self.effective_size,
            capped=self.tail is not None,
        )
        drawn = self.effective_size is not None
        # Several holders have a seed each.
        if drawn and self.seed is None and OTHER_PEOPLE not in self.assumptions:
            raise DocumentError("Records were drawn, and the certificate does not say by which seed.")
        if self.seed is not None and not drawn:
            raise DocumentError(f"The certificate has the seed {self.seed} of a draw, and no draw.")

    # -- showing it -------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dictionaries, strings and numbers, ready for JSON."""
        return dict(msgspec.to_builtins(self, enc_hook=encode_counts))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Certificate:
        """Read what :meth:`to_dict` wrote, checking types, ranges and names; :meth:`verify` checks the figures."""
        try:
            check_method(document)
            return msgspec.convert(dict(document), cls, dec_hook=decode_counts)
        except (msgspec.ValidationError, TypeError, CertifareError) as error:
            raise DocumentError(f"Not a certificate: {error}") from error

    def plot(self) -> Drawing:
        """Draw the interval from the lower limit to T*, which have the confidence each, with the estimate in it."""
        return draw_interval(self)

    def __str__(self) -> str:
        words = self.claim.distance.words
        if self.bound >= 1.0:
            return f"no bound below 1 on the {words} could be certified{among_whom(self.population)} ({self._sample()})"
        return (
            f"{words} of any classifier <= {round_up(self.bound)} with {percent(self.joint_confidence)} confidence"
            f"{self._for_each()}{among_whom(self.population)} ({self._sample()})"
        )

    def _for_each(self) -> str:
        return f" for each of {', '.join(map(repr, self.claim.each))}" if self.claim.each else ""

    def _sample(self) -> str:
        positive = "" if self.positive is None else f" with label {self.positive!r}"
        sizes = [self.counts.n_records] if self.claim.each else stratum(self.counts, self.positive).group_sizes.values()
        looks = f"; look {self.look}, {percent(self.confidence)} by itself" if self.several_looks else ""
        return f"{' + '.join(f'{n:,}' for n in sizes)} records{positive}, {self.counts.n_cells} cells{looks}"

    def _repr_html_(self) -> str:
        rows = [
            ("bound T*", round_up(self.bound)),
            *((f"bound T* of {name}, by itself", round_up(bound)) for name, bound in self.of_each.items()),
            ("estimate", f"{self.estimate:.4f}"),
            ("lower limit", round_down(self.lower)),
            ("confidence", f"{percent(self.joint_confidence)}, of T* and of the lower limit each"),
            ("method", self.method),
            ("candidates", str(self.candidates) if self.sequence is None else f"{self.candidates}, in sequence"),
            *(("weights", words) for words in self.cap_words),
            ("look", self.look_words),
            *((f"records of {group}", f"{n:,}") for group, n in self.counts.group_sizes.items()),
            *((f"excluded: {e.reason}", f"{e.records:,}") for e in self.exclusions),
        ]
        return html_card("Certificate", plain_claim(self), rows, drawing=self.plot())

    def __repr__(self) -> str:
        return f"<Certificate: {self}>"


def check_method(document: object) -> None:
    """Refuse a certificate by a bound that certifare does not verify, before anything else is read."""
    method = document.get("method") if isinstance(document, Mapping) else None
    if isinstance(method, str) and method not in METHODS:
        raise DocumentError(
            f"The certificate is by the method {method!r}, which this version of certifare does not verify. Ask for "
            f"one by the method {' or '.join(map(repr, METHODS))}."
        )


def check_pools(pools: Sequence[tuple[int, ...]], counts: CellCounts, witnesses: Sequence[Witness]) -> None:
    """Refuse pools that are not sets of two cells or more, in order, or that lie partly inside a witness."""
    pooled = [cell for pool in pools for cell in pool]
    if (
        any(len(pool) < 2 or list(pool) != sorted(pool) for pool in pools)
        or list(pools) != sorted(pools)
        or len(set(pooled)) != len(pooled)
        or not all(0 <= cell < counts.n_cells for cell in pooled)
    ):
        raise DocumentError("pools must name two cells of the counts or more, in order, and no cell twice.")
    if counts.table[[cell for pool in pools for cell in pool[1:]]].any():
        raise DocumentError("the records of a pool stand in the row of its first cell, and others have some.")
    for witness in witnesses:
        inside = set(witness.cells)
        if any(len({cell in inside for cell in pool}) > 1 for pool in pools):
            raise DocumentError("a witness holds a part of a pool.")
