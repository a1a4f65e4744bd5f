"""Monitor a certificate: test it on fresh records in every period, with one confidence for all periods together.

A history holds only counts: those of the certificate, and those of every period. Findings are always computed from
them, so the file holds no claims to trust. Every period has a share of ε, and every statement a share of that;
``docs/theory.md`` proves that all statements of a history hold together with its confidence.

If the certificate claims each of several attributes, or parity within the values of a column, each attribute and value
has a *course* of its own: a history of its own groups and records, with its share of ε.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from certifare.certificates import CellCounts, Certificate, certify_counts, difference_limit, hoeffding_radius
from certifare.certificates.bounding import Evidence, lower_limit
from certifare.certificates.chance import confirming_words, distance_by_chance, records_to_confirm
from certifare.certificates.claims import Claim, Scope, estimate_of, gaps_of, metric_of, stratum
from certifare.certificates.counts import Exclusion, decode_counts, encode_counts
from certifare.certificates.exact import epsilon_at
from certifare.errors import ArgumentError, CertifareError, CountsError, FileError, GroupError
from certifare.foundation.formatting import listing
from certifare.foundation.randomness import stream
from certifare.foundation.storage import atomic_file, distinct_keys, read_regular

FORMAT: Literal["certifare/history"] = "certifare/history"
VERSION = 3
MAX_BYTES = 64 << 20
MOST_PERIODS = 1_000
#: Most statements about one period: three, and two for each group and label.
MOST_STATEMENTS = 10_000
#: Weight of a period relative to the next one, when the direction of a movement is estimated.
FORGETTING = 0.5

SEVERITY = {"CONFIRMED": 0, "NOT REFUTED": 1, "REFUTED": 2}

NEW_GROUP = "a group that the certificate does not know"
NEW_VALUE = "a value of the given column that the certificate does not know"
TOO_FEW = "too few records of the group {group} in this period"

HexDigest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
PeriodName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Period(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counts of a period, and when they were added."""

    name: PeriodName
    added: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
    counts: CellCounts
    digest: HexDigest | None = None


@dataclass(frozen=True, slots=True)
class Movement:
    """How far the distribution of a group over cells has moved since the certificate."""

    group: str
    label: str | None  # the label that it is conditional on, if the metric uses labels
    estimate: float  # distance of the group's distributions over cells then and now, in the records; biased upwards
    lower: float  # lower bound of the movement, with the history's confidence

    @property
    def moved(self) -> bool:
        """Whether the lower bound shows that there is a movement."""
        return self.lower > 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one period's records show. All findings of a history hold together, with its confidence."""

    number: int  # of the period, from 1
    name: str
    groups: dict[str, int]  # records of each group
    small: tuple[str, ...]  # groups of the certificate that have too few records in this period for a statement
    epsilon: float  # the period's share of ε
    bound: float  # T* in this period
    estimate: float  # the plug-in distance
    lower: float  # lower bound of the distance
    by_chance: float  # the average estimate for equal groups, by chance alone
    needed: int | None  # about how many records would confirm the target; None if the distance seems to be above it
    target: float
    movements: tuple[Movement, ...]
    exclusions: tuple[Exclusion, ...]  # records that were left out
    course: str | None = None  # the attribute, or value of the given column, if the certificate is about several

    @property
    def refuted(self) -> bool:
        """Whether the lower bound of the distance is above the target."""
        return self.lower > self.target

    @property
    def moved(self) -> tuple[Movement, ...]:
        """Groups that have moved, by their lower bounds."""
        return tuple(movement for movement in self.movements if movement.moved)

    @property
    def outcome(self) -> Literal["REFUTED", "CONFIRMED", "NOT REFUTED"]:
        """Whether the target is exceeded (REFUTED), met (CONFIRMED), or neither is proved (NOT REFUTED).

        It is met only if it is met for all groups of the certificate, including those with few records.
        """
        if self.refuted:
            return "REFUTED"
        return "CONFIRMED" if self.bound <= self.target and not self.small else "NOT REFUTED"

    @property
    def words(self) -> str:
        """Compare the measured distance with the target, in a sentence."""
        measured = f"{self.estimate:.4f} in these records, of which chance alone gives about {self.by_chance:.4f}"
        if self.outcome != "NOT REFUTED" or self.bound <= self.target:
            return f"The distance is {measured}."
        return f"The distance is {measured}: the target is not refuted; {confirming_words(self.needed, self.target)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            **asdict(self),
            "outcome": self.outcome,
            "words": self.words,
            "moved": [asdict(movement) for movement in self.moved],
        }


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counts of a certificate, and of all periods since.

    The class is long because it is a file's content with its checks, and the statements that follow from it: all of
    them share one ε, which only the whole history can divide.

    Attributes
    ----------
    encoder : str
        SHA-256 digest of the encoder's file.
    metric, positive
        What is bounded, as in the certificate.
    confidence : float
        Confidence with which all findings of all periods hold together.
    target : float
        The distance that periods are compared with.
    planned : int or None
        Number of periods that share ε evenly. None: no end is planned, and later periods get smaller shares.
    trials : int
        Number of encoders from which the certified one was chosen on the same records.
    reference : CellCounts
        The certification records.
    set_thresholds : bool
        Whether these set the thresholds of the encoder: the counts are then those of a plan.
    training : CellCounts or None
        The encoder's training records by cell and group, if known: they show in which direction cells move.
    pools : tuple of tuple of int
        Cells that are published as one.
    min_group_size : int
        Groups with fewer records in a period are left out of it.
    scope : Scope, optional
        The attributes, each of which is claimed, or the column within whose values groups are compared.
    periods : tuple of Period

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> then = CellCounts([[1200, 1150], [300, 360]], groups=["f", "m"])
    >>> history = History.begin(certify_counts(then), "0" * 64, target=0.1)
    >>> history = history.add("May", CellCounts([[810, 790], [190, 210]], groups=["f", "m"]))
    >>> finding = history.latest()
    >>> finding.outcome, finding.moved
    ('CONFIRMED', ())
    """

    format: Literal["certifare/history"] = FORMAT
    version: Annotated[int, msgspec.Meta(ge=1)] = 2  # 3 with a scope
    encoder: HexDigest
    metric: Annotated[str, msgspec.Meta(max_length=100)]
    positive: Annotated[str, msgspec.Meta(max_length=10_000)] | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0.5, lt=1.0)]
    target: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    planned: Annotated[int, msgspec.Meta(ge=1, le=MOST_PERIODS)] | None = None
    trials: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 1
    reference: CellCounts
    set_thresholds: bool = False
    training: CellCounts | None = None
    pools: tuple[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], ...] = ()
    min_group_size: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 30
    scope: Scope | msgspec.UnsetType = msgspec.UNSET
    periods: tuple[Period, ...] = ()

    def __post_init__(self) -> None:
        metric = metric_of(self.metric)
        if self.scope is not msgspec.UNSET and self.version < VERSION:
            raise FileError(f"A history of several courses has version {VERSION} of the format.")
        if metric.labelled and self.reference.labels is None:
            raise ArgumentError(f"The {metric.words} needs labels, but the certification records have none.")
        pooled = [cell for pool in self.pools for cell in pool]
        if any(cell >= self.reference.n_cells for cell in pooled) or len(set(pooled)) < len(pooled) or () in self.pools:
            raise FileError("Pools contain a cell that does not exist, a cell twice, or no cell.")
        if self.scope is msgspec.UNSET:
            self._strata(self.reference)
        if self.training is not None and self.training.n_cells != self.reference.n_cells:
            raise CountsError("Training records and certification records were counted with different cells.")
        if 3 + 2 * len(self.reference.groups) * len(self.reference.labels or (None,)) > MOST_STATEMENTS:
            raise FileError(f"Too many groups and labels: more than {MOST_STATEMENTS:,} statements per period.")
        if len(self.periods) > MOST_PERIODS:
            raise FileError(f"There are {len(self.periods):,} periods; at most {MOST_PERIODS:,} are allowed.")
        if self.planned is not None and len(self.periods) > self.planned:
            raise FileError(
                f"{self.planned} periods were planned, and they share all of ε, so no more can be added. Start a new "
                "history."
            )
        names = [period.name for period in self.periods]
        if len(set(names)) < len(names):
            raise FileError("A period occurs twice.")
        courses = () if self.scope is msgspec.UNSET else courses_of(self).values()
        in_a_course = {period.name for course in courses for period in course.periods}
        for period in self.periods:
            if period.counts.n_cells != self.reference.n_cells:
                raise CountsError(
                    f"The period {period.name!r} has {period.counts.n_cells:,} cells, the certificate has "
                    f"{self.reference.n_cells:,}. It was counted with another encoder."
                )
            if self.scope is msgspec.UNSET:
                self._usable(period)
            elif period.name not in in_a_course:
                raise GroupError(
                    f"The period {period.name!r} has too few records to compare groups: at least "
                    f"{self.min_group_size:,} are needed in two groups of an attribute. Choose a longer period."
                )

    @classmethod
    def begin(
        cls,
        certificate: Certificate,
        encoder: str,
        *,
        target: float | None = None,
        confidence: float = 0.95,
        planned: int | None = None,
        training: CellCounts | None = None,
        min_group_size: int = 30,
    ) -> History:
        """Start the history of a certificate.

        Parameters
        ----------
        certificate : Certificate
        encoder : str
            SHA-256 digest of the encoder's file.
        target : float, optional
            By default the certificate's bound T*.
        confidence : float
            Confidence with which all findings of all periods hold together.
        planned : int, optional
            Number of planned periods.
        training : CellCounts, optional
            ``encoder.training_counts_``: with them a movement is detected earlier.
        min_group_size : int
            Groups with fewer records in a period are left out of it.
        """
        epsilon_at(confidence)
        if target is not None and not 0.0 <= target <= 1.0:
            raise ArgumentError(f"target={target}: give a distance in [0, 1].")
        if certificate.tail is not None:
            raise ArgumentError("The certificate uses capped weights; monitoring does not support them.")
        labelled = certificate.claim.labelled
        return cls(
            encoder=encoder,
            metric=certificate.metric,
            positive=certificate.positive,
            confidence=float(confidence),
            target=float(certificate.bound if target is None else target),
            planned=planned,
            # An encoder that was chosen on these records, by this or an earlier look, looks better on them than it is.
            trials=certificate.candidates * (certificate.look or 1),
            reference=certificate.counts if labelled else certificate.counts.without_labels(),
            set_thresholds=certificate.method == "calibrated",
            training=_training_of(certificate, training),
            pools=certificate.pools,
            min_group_size=min_group_size,
            scope=certificate.scope,
            version=2 if certificate.scope is msgspec.UNSET else VERSION,
        )

    def check_against(self, certificate: Certificate, encoder: str, training: CellCounts | None = None) -> None:
        """Raise if this is not the history of a certificate, or if it contradicts the certificate.

        The file may come from a stranger, so everything that the certificate states is compared. Target, confidence,
        planned periods and smallest group size were chosen when the history was started; findings show them.

        Parameters
        ----------
        certificate : Certificate
        encoder : str
            SHA-256 digest of the encoder's file.
        training : CellCounts, optional
            ``encoder.training_counts_``; only needed if the history has training counts.
        """
        own = History.begin(certificate, encoder, training=training)
        names = ["encoder", "metric", "positive", "trials", "pools", "reference", "set_thresholds", "scope"]
        if self.training is not None:
            names.append("training")
        stated, known = self.to_dict(), own.to_dict()
        other = [name for name in names if stated.get(name) != known.get(name)]
        if other:
            raise FileError(
                f"This is the history of another certificate, or it was changed: it differs from the bundle in "
                f"{', '.join(other)}."
            )

    def add(self, name: str, counts: CellCounts, *, digest: str | None = None, added: str | None = None) -> History:
        """Return the history with another period.

        Parameters
        ----------
        name : str
            Name of the period, which must be unique.
        counts : CellCounts
            Counts of fresh records by the same cells; groups that the certificate does not have are left out.
        digest : str, optional
            Digest of the records, which detects that they are added again.
        added : str, optional
            When it is added (UTC); by default now.
        """
        for period in self.periods:
            if period.name == name:
                raise FileError(f"The period {name!r} is already in the history. Choose another name (--period).")
            if (digest is not None and digest == period.digest) or _same(counts, period.counts):
                raise FileError(f"These records are already in the history, as {period.name!r}. Add fresh records.")
        if _same(counts, self.reference):
            raise FileError("These are the certification records. Add fresh records.")
        added = added or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            period = msgspec.convert(
                {"name": name, "added": added, "counts": counts, "digest": digest}, Period, dec_hook=decode_counts
            )
        except msgspec.ValidationError as error:
            raise FileError(f"The period {name[:60]!r} is invalid: {error}.") from error
        return msgspec.structs.replace(self, periods=(*self.periods, period))

    def epsilon_of(self, number: int) -> float:
        """Return the share of ε of a period, by its number from 1; all shares add up to at most ε."""
        epsilon = epsilon_at(self.confidence)
        return epsilon / self.planned if self.planned is not None else epsilon * 6.0 / (math.pi * number) ** 2

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of all periods; if there are several courses, of each of them in turn."""
        if self.scope is msgspec.UNSET:
            return tuple(self.finding(number) for number in range(1, len(self.periods) + 1))
        number = {period.name: i for i, period in enumerate(self.periods, 1)}
        return tuple(
            replace(finding, course=name, number=number[finding.name])
            for name, course in courses_of(self).items()
            for finding in course.findings()
        )

    def latest(self) -> Finding:
        """Return the finding of the last period; of several courses, the worst.

        A course without enough records in it is named as a small group: nothing is said of it.
        """
        if not self.periods:
            raise FileError("The history has no period yet.")
        if self.scope is msgspec.UNSET:
            return self.finding(len(self.periods))
        courses, last = courses_of(self), self.periods[-1].name
        found = [
            replace(course.finding(len(course.periods)), course=name, number=len(self.periods))
            for name, course in courses.items()
            if course.periods and course.periods[-1].name == last
        ]
        worst = max(found, key=lambda finding: (SEVERITY[finding.outcome], finding.lower, finding.bound))
        silent = sorted(set(courses) - {str(finding.course) for finding in found})
        return replace(worst, small=(*worst.small, *silent))

    def finding(self, number: int) -> Finding:
        """Return the finding of a period, by its number from 1, of a history with one course."""
        if self.scope is not msgspec.UNSET:
            raise ArgumentError("A period has a finding for each attribute or value of the column: see findings().")
        period = self.periods[number - 1]
        counts, small = self._usable(period)
        strata = self._strata(counts)
        epsilon = self.epsilon_of(number)
        # One upper and two lower bounds of the distance, and two bounds of each movement.
        level = epsilon / (3 + 2 * len(counts.groups) * len(strata))
        # Rounded up, so that at most the level is spent.
        confidence = math.nextafter(1.0 - level, 1.0)
        past = self._past(number).like(counts)
        certificate = certify_counts(
            counts, self.metric, confidence, witness=past, positive=self.positive, min_group_size=1
        )
        # A witness from the past cannot show a sudden change; the closed form detects a large one.
        at_once = lower_limit(Evidence(certificate.counts), certificate.claim)
        return Finding(
            number=number,
            name=period.name,
            groups=_sizes(period.counts, self.reference.groups),
            small=small,
            epsilon=epsilon,
            bound=certificate.bound,
            estimate=certificate.estimate,
            lower=max(certificate.lower, at_once),
            by_chance=distance_by_chance(certificate),
            needed=records_to_confirm(certificate, self.target),
            target=self.target,
            movements=tuple(
                self._movement(number, counts, group, label, level) for group in counts.groups for label in strata
            ),
            exclusions=counts.exclusions,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dict(msgspec.to_builtins(self, enc_hook=encode_counts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the history, completely or not at all."""
        with atomic_file(path) as name:
            name.write_bytes(msgspec.json.encode(self, enc_hook=encode_counts) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> History:
        """Read and validate a history."""
        content = read_regular(path, MAX_BYTES + 1, replaceable=True)
        if len(content) > MAX_BYTES:
            raise FileError(f"{os.fspath(path)!r} is larger than {MAX_BYTES >> 20} MB, too large for a history.")
        try:
            # Readers may disagree about a key that occurs twice.
            document = json.loads(content, object_pairs_hook=distinct_keys)
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise FileError(f"{os.fspath(path)!r} is not a history (certifare monitor writes them).")
            if (version := msgspec.convert(document.get("version"), int)) > VERSION:
                raise FileError(
                    f"{os.fspath(path)!r} has version {version} of the format, but this certifare only reads "
                    f"versions up to {VERSION}. Install a newer one."
                )
            return msgspec.json.decode(content, type=cls, dec_hook=decode_counts)
        except FileError:
            raise
        except (ValueError, RecursionError, OverflowError, CertifareError) as error:
            raise FileError(f"{os.fspath(path)!r} is not a history, or is damaged: {error}") from error

    # -- counts ---------------------------------------------------------------------------------------------------

    def _usable(self, period: Period) -> tuple[CellCounts, tuple[str, ...]]:
        """Return the counts of a period for groups with enough records, and the names of the other groups."""
        labelled = metric_of(self.metric).labelled
        if labelled and period.counts.labels is None:
            raise ArgumentError(
                f"The {metric_of(self.metric).words} needs labels, but the period {period.name!r} was counted without "
                "labels."
            )
        counts = period.counts if labelled else period.counts.without_labels()
        sizes = _sizes(counts, counts.groups)
        exclusions = [*counts.exclusions]
        unknown = sum(size for group, size in sizes.items() if group not in self.reference.groups)
        if unknown:
            exclusions.append(Exclusion(NEW_GROUP, unknown))
        known = [group for group in self.reference.groups if group in sizes]
        if not known:
            raise GroupError(
                f"The period {period.name!r} has the groups {listing(counts.groups)}, but the certificate has "
                f"{listing(self.reference.groups)}. Check how the groups are written."
            )
        counts = counts.of_groups(*known)
        counts = counts.like(self.reference.of_groups(*known)) if labelled else counts
        kept, small = [], []
        for group in self.reference.groups:
            if self._least(counts, group) >= max(1, self.min_group_size) <= self._least(self.reference, group):
                kept.append(group)
            else:
                small.append(group)
                if sizes.get(group):
                    exclusions.append(Exclusion(TOO_FEW.format(group=group), sizes[group]))
        if len(kept) < 2:
            found = ", ".join(f"{group}: {sizes.get(group, 0):,}" for group in self.reference.groups)
            raise GroupError(
                f"The period {period.name!r} has too few records to compare groups ({found}; at least "
                f"{self.min_group_size:,} are needed in two groups). Choose a longer period."
            )
        return counts.of_groups(*kept).with_exclusions(exclusions), tuple(small)

    def _strata(self, counts: CellCounts) -> tuple[str | None, ...]:
        return Claim(metric=self.metric, positive=self.positive).strata(counts)

    def _least(self, counts: CellCounts, group: str) -> int:
        """Return the number of records of a group in the stratum where it has the fewest."""
        if group not in counts.groups:
            return 0
        try:
            strata = self._strata(counts)
        except CertifareError:  # no record has the label
            return 0
        return min(int(stratum(counts, label).of_groups(group).table.sum()) for label in strata)

    def _pooled(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add up cells that the certificate publishes as one, to compare them with its counts."""
        pooled = column.copy()
        for first, *others in self.pools:
            pooled[first] += pooled[others].sum()
            pooled[others] = 0
        return pooled

    def _past(self, number: int) -> CellCounts:
        """Return all records before a period, on which cells can be chosen that are then tested on the period."""
        table = self.reference.table.copy()
        past = CellCounts(table, self.reference.groups, self.reference.labels)
        for period in self.periods[: number - 1]:
            earlier, _ = self._usable(period)
            for g, group in enumerate(past.groups):
                if group in earlier.groups and earlier.labels == past.labels:
                    table[:, g] += earlier.table[:, earlier.groups.index(group)]
        return CellCounts(table, past.groups, past.labels)

    def _movement(self, number: int, counts: CellCounts, group: str, label: str | None, level: float) -> Movement:
        """Return a lower bound of a group's movement, at this level."""
        now = self._pooled(_column(counts, group, label))
        level /= self.trials
        if self.set_thresholds:
            return self._from_plan(now, group, label, level)
        then = _column(self.reference, group, label)
        pair = np.stack([now, then], axis=1)
        n, m = int(now.sum()), int(then.sum())
        estimate = estimate_of(pair)
        bias = 0.5 * math.sqrt((len(now) - 1) * (1.0 / n + 1.0 / m))
        lower = max(0.0, estimate - bias - hoeffding_radius(n, m, level))
        if number > 1 and not self.pools:
            # Pools depend on the records, so a set of pools would, too.
            lower = max(lower, self._in_direction(number, now, then, group, label, level))
        return Movement(group, label, estimate, lower)

    def _from_plan(self, now: NDArray[np.int64], group: str, label: str | None, level: float) -> Movement:
        """Bound a movement from below if the reference is a plan, and the shares then were Dirichlet."""
        gaps = gaps_of(self.reference, label)[:, self.reference.groups.index(group)]
        n, m = int(now.sum()), int(gaps.sum())
        estimate = estimate_of(np.stack([now, gaps], axis=1))
        # For every set of cells at once: 2^k of them (docs/theory.md).
        radius = math.sqrt((1.0 / n + 1.0 / (m + 1)) * (len(now) * math.log(2.0) - math.log(level)) / 2)
        return Movement(group, label, estimate, max(0.0, estimate - radius))

    def _in_direction(
        self, number: int, now: NDArray[np.int64], then: NDArray[np.int64], group: str, label: str | None, level: float
    ) -> float:
        """Return a lower bound of a movement from a set of cells that was chosen on other records."""
        if label is None and self.training is not None and group in self.training.groups:
            # Training records are independent of the reference, all of which is left for the test.
            chosen, tested = _column(self.training, group, None), then
        else:
            chosen, tested = (_column(half, group, label) for half in self._halves())
        cells = self._direction(number, group, label, chosen)
        n, rest = int(now.sum()), int(tested.sum())
        if not cells.any() or not rest:
            return 0.0
        gap = rest * int(now[cells].sum()) - n * int(tested[cells].sum())
        return -difference_limit(rest, n, -gap, level)

    def _direction(self, number: int, group: str, label: str | None, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the cells that are more frequent in earlier periods (recent ones weigh more) than in other records."""
        total: NDArray[np.float64] = np.zeros(len(chosen))
        for i, period in enumerate(self.periods[: number - 1]):
            earlier, _ = self._usable(period)
            if group in earlier.groups and (label is None or label in (earlier.labels or ())):
                total += FORGETTING ** (number - 2 - i) * _column(earlier, group, label)
        if not total.any() or not chosen.any():
            return np.zeros(len(chosen), dtype=bool)
        more: NDArray[np.bool_] = total / total.sum() > chosen / chosen.sum()
        return more

    def _halves(self) -> tuple[CellCounts, CellCounts]:
        """Split the certification records at random into two halves: one to choose cells on, one to test on."""
        table = self.reference.table
        digest = hashlib.sha256(repr(self.reference.to_dict()).encode()).hexdigest()
        first = stream(0, "halves of a reference", digest).binomial(table, 0.5)
        groups, labels = self.reference.groups, self.reference.labels
        return CellCounts(first, groups, labels), CellCounts(table - first, groups, labels)


def courses_of(history: History) -> dict[str, History]:
    """Return the history of each attribute, and of each value of the given column; all of them share ε evenly.

    Periods in which a course has too few records are not in it.
    """
    scope = history.scope
    assert scope is not msgspec.UNSET  # noqa: S101  (the caller has checked)
    claim = Claim(metric=history.metric, each=scope.each, given=scope.given, left_out=scope.left_out)
    if scope.given is not None and history.training is not None:
        history = msgspec.structs.replace(history, training=None)  # it is not by the values of the column
    values = claim.strata(history.reference) if scope.given is not None else (None,)
    names = {_course_name(a, scope.given, v): (a, v) for v in values for a in scope.each or (None,)}
    shared = math.nextafter(1.0 - epsilon_at(history.confidence) / len(names), 1.0)
    courses = {}
    for name, (attribute, value) in names.items():
        course = msgspec.structs.replace(
            history,
            scope=msgspec.UNSET,
            confidence=shared,
            reference=_cut(history.reference, claim, attribute, value),
            training=None if history.training is None else claim.counts_of(history.training, attribute),
            periods=(),
        )
        kept = []
        for period in history.periods:
            if value not in (period.counts.labels or (value,)) and value is not None:
                continue
            counts = _cut(period.counts, claim, attribute, value)
            if new := _unknown_values(period.counts, history.reference, scope.given):
                counts = counts.with_exclusions((*counts.exclusions, Exclusion(NEW_VALUE, new)))
            own = msgspec.structs.replace(period, counts=counts)
            with contextlib.suppress(GroupError):
                course._usable(own)
                kept.append(own)
        courses[name] = msgspec.structs.replace(course, periods=tuple(kept))
    return courses


def _training_of(certificate: Certificate, training: CellCounts | None) -> CellCounts | None:
    """Return training records by cell and group; None if the encoder was fitted with groups of other attributes."""
    if training is None:
        return None
    try:
        certificate.claim.divided(training.groups)
    except GroupError:
        return None
    return training.without_labels()


def _unknown_values(counts: CellCounts, reference: CellCounts, given: str | None) -> int:
    """Return the number of records whose value of the given column was not among the certification records."""
    if given is None or counts.labels is None:
        return 0
    known = [value in (reference.labels or ()) for value in counts.labels]
    return int(counts.table.sum(axis=(0, 1))[~np.array(known)].sum())


def _course_name(attribute: str | None, given: str | None, value: str | None) -> str:
    within = None if given is None else f"{given} {value!r}"
    return ", ".join(part for part in (attribute, within) if part is not None)


def _cut(counts: CellCounts, claim: Claim, attribute: str | None, value: str | None) -> CellCounts:
    """Return the counts of one attribute, and of one value of the given column."""
    counts = claim.counts_of(counts, attribute)
    if value is None:
        return counts
    if counts.labels is None:
        raise ArgumentError(f"The counts are not by {claim.given!r}: count with --given {claim.given}.")
    return counts.given_label(value)


def _column(counts: CellCounts, group: str, label: str | None) -> NDArray[np.int64]:
    """Return the counts of one group's cells, for all its records or those with a label."""
    of_label = stratum(counts, label)
    return of_label.table[:, of_label.groups.index(group)]


def _sizes(counts: CellCounts, groups: Sequence[str]) -> dict[str, int]:
    found = counts.group_sizes
    return {group: found.get(group, 0) for group in groups}


def _same(one: CellCounts, other: CellCounts) -> bool:
    return one.groups == other.groups and one.labels == other.labels and np.array_equal(one.table, other.table)
