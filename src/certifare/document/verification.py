"""Verify a certificate: check it, compare it with a policy, and test it on other records."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.assumptions import READS_GROUP, VOID
from certifare.certificates.bounding import Evidence, lower_limit
from certifare.certificates.chance import confirming_words, distance_by_chance, records_to_confirm
from certifare.certificates.claims import stratum
from certifare.certificates.counts import GROUP_MISSING
from certifare.certificates.population import draw_of, whom
from certifare.certificates.rounding import percent, round_down, round_up
from certifare.certificates.wording import plain_claim
from certifare.document.envelopes import Document, digest, read_document
from certifare.document.keys import load_public_key
from certifare.document.policy import Policy
from certifare.document.statement import claim_of, counts_digest, epsilon_of, groups_of
from certifare.encoders.documents import AnyDocument, CalibratedDocument
from certifare.encoders.format import EncoderFile, digest_of
from certifare.errors import (
    ArgumentError,
    CertifareError,
    ExpiredVersionError,
    FileError,
    GroupError,
    TrainingOverlapError,
    UnprovedClaimError,
)
from certifare.foundation.formatting import amount
from certifare.foundation.levels import UNKNOWN, name_of
from certifare.foundation.randomness import stream
from certifare.tables.reading import POOLED, Reading

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey

    from certifare.engines.counting import CountedRecords
    from certifare.tables.table import Table

#: Recomputing takes time in proportion to pairs of groups × (√records + cells / 20). This much takes half a minute; a
#: file that needs more (a thousand groups, more records than there are people) is made to keep its reader busy.
MAX_WORK = 2_000_000

#: A policy without requirements: only the document itself is checked.
ANY = Policy(min_confidence=0.0)

Outcome = Literal["PASS", "FAIL", "INCONCLUSIVE"]


class Check(msgspec.Struct, frozen=True):
    """The result of one check.

    Attributes
    ----------
    name : str
        What was checked: version, signature, statement, figures, validity, encoder; what the policy requires
        (confidence, bound, metric, groups, looks); valid until, if its producer states that; classifier; thresholds;
        data, training records, data bound.
    ok : bool or None
        Whether it holds; None if it was not checked, or is undecided.
    message : str
        The finding, as a sentence.
    undecided : bool
        Whether it was required, but the verifier's records neither contradict it nor confirm it.
    """

    name: str
    ok: bool | None
    message: str
    undecided: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a certificate is accepted, and why.

    Attributes
    ----------
    claim : str or None
        The claim in words, if the certificate could be read.
    bound : float or None
        T* as the certificate states it.
    checks : tuple of Check
        All checks, in order.
    headline : str or None
        After several looks: the claim in short, with the joint confidence of all of them.
    """

    claim: str | None
    bound: float | None
    checks: tuple[Check, ...]
    headline: str | None = None

    @property
    def outcome(self) -> Outcome:
        """PASS: every required check holds. FAIL: one does not. INCONCLUSIVE: your records leave one undecided."""
        if self.failures:
            return "FAIL"
        return "INCONCLUSIVE" if any(check.undecided for check in self.checks) else "PASS"

    @property
    def passed(self) -> bool:
        """Whether the outcome is PASS."""
        return self.outcome == "PASS"

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.ok is False)

    @property
    def unchecked(self) -> tuple[Check, ...]:
        """The checks that were not made: a PASS does not cover them."""
        return tuple(check for check in self.checks if check.ok is None and not check.undecided)

    @property
    def figures_hold(self) -> bool:
        """Whether texts and figures follow from the counts, whatever else was found."""
        found = {check.name: check.ok for check in self.checks}
        return found.get("statement") is True and found.get("figures") is True

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "outcome": self.outcome,
            "passed": self.passed,
            "claim": self.claim,
            "bound": self.bound,
            "checks": [msgspec.to_builtins(check) for check in self.checks],
            "unchecked": [check.name for check in self.unchecked],
        }

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "not checked"}
        lines = [
            f"{check.name}: {'undecided' if check.undecided else mark[check.ok]}: {check.message}"
            for check in self.checks
        ]
        return "\n".join([*lines, self.outcome])


def verify_document(
    source: str | os.PathLike[str] | bytes | Document,
    policy: Policy | None = None,
    *,
    key: str | os.PathLike[str] | SSlibKey | None = None,
    encoder: str | os.PathLike[str] | None = None,
    data: Table | str | os.PathLike[str] | None = None,
    predictions: ArrayLike | None = None,
    certified_on: Table | str | os.PathLike[str] | None = None,
) -> Verdict:
    """Verify a certificate: check it, compare it with a policy, and test its claim on other records.

    Parameters
    ----------
    source : path, bytes or Document
        The certificate file, or a folder with ``certificate.json`` (and possibly ``encoder.json``).
    policy : Policy, optional
        The requirements; by default a confidence of at least 0.95.
    key : path or public key, optional
        The key that must have signed it. Without it no signature is checked, and the verdict says so.
    encoder : path, optional
        The encoder's file. It must be the certified one, byte by byte, and have as many cells.
    data : Table or path, optional
        The verifier's own records, on which the encoder is certified again. Needs ``encoder``. A file is read as the
        certificate says; a table has its roles (:func:`certifare.read_table`). They are looked up among the training
        records if the encoder's folder has their fingerprint.
    predictions : array-like, optional
        One classifier, as its prediction for each cell, to get a confidence interval of its distance.
    certified_on : Table or path, optional
        The certification records themselves, for cells whose thresholds they have set: are the thresholds the order
        statistics that the plan asks for? Needs ``encoder``.

    Returns
    -------
    Verdict

    Raises
    ------
    CertifareError
        The file is not a certificate, or another file cannot be read. A certificate that can be read but is not
        accepted raises nothing: the verdict says why.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> from certifare.document import sign, make_statement
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> content = sign(make_statement(c), None).to_bytes()
    >>> verdict = verify_document(content, Policy(max_bound=0.3))
    >>> verdict.outcome, [check.name for check in verdict.unchecked]
    ('PASS', ['signature', 'encoder', 'data'])
    >>> verify_document(content, Policy(max_bound=0.2)).outcome
    'FAIL'
    """
    policy = Policy() if policy is None else policy
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        folder, source = Path(source), Path(source) / "certificate.json"
        if encoder is None and (folder / "encoder.json").exists():
            encoder = folder / "encoder.json"
    if encoder is not None:
        encoder = EncoderFile.of(encoder)
    if encoder is None and not (data is None and certified_on is None):
        raise ArgumentError("Records can only be looked at with the encoder. Give its file as well.")
    public = load_public_key(key) if isinstance(key, str | os.PathLike) else key
    try:
        document = source if isinstance(source, Document) else read_document(source)
    except ExpiredVersionError as error:
        return Verdict(claim=None, bound=None, checks=(Check("version", False, str(error)),))

    checks = [
        Check("version", True, f"The file is a certificate in version {document.statement.version} of the format."),
        _signature(document, public, policy.require_signature),
        _statement(document),
        _figures(document),
        _validity(document),
        _encoder(document, encoder, policy.require_encoder),
    ]
    sound = all(check.ok is not False for check in checks[2:])
    checks += _requirements(document, policy)
    if (last_day := document.statement.predicate.stated_terms.last_day) is not None:
        checks.append(_expiry(last_day))
    max_bound = policy.max_bound
    if predictions is not None:
        # The required bound is then that of this classifier.
        unmade = Check("classifier", None, "Its distance was not computed: what fails above comes first.")
        checks.append(_classifier(document, predictions, max_bound) if sound else unmade)
        max_bound = None
    elif max_bound is not None:
        checks.append(_bound(document.certificate, max_bound))
    if certified_on is not None and encoder is not None:
        unmade = Check("thresholds", None, "The records were not looked at: what fails above comes first.")
        checks.append(_thresholds(document, encoder, certified_on) if sound else unmade)
    if data is None or encoder is None:
        checks.append(Check("data", None, "No records of your own were given: the counts are the producer's word."))
    elif not sound:
        checks.append(Check("data", None, "Your records were not looked at: what fails above comes first."))
    else:
        checks += _records(document, encoder, data, max_bound)
    predicate = document.statement.predicate
    certificate = document.certificate
    headline = plain_claim(certificate) if certificate.several_looks else None
    return Verdict(claim=predicate.claim.words, bound=certificate.bound, checks=tuple(checks), headline=headline)


def _signature(document: Document, key: SSlibKey | None, required: bool) -> Check:
    # A required check that cannot be made has failed; any other was not checked.
    missing = False if required else None
    signers = ", ".join(signature.keyid[:16] or "unnamed" for signature in document.signatures)
    ok: bool | None = False
    if not document.signatures and key is None:
        ok, words = missing, "The certificate is not signed: nothing shows who wrote it."
    elif not document.signatures:
        words = "The certificate is not signed, and a signature by your key was asked for."
    elif key is None:
        ok, words = missing, f"The certificate is signed (key {signers}); give the public key to check it."
    elif document.signed_by(key):
        ok, words = True, f"The signature is by your key ({key.keyid[:16]}) over exactly this content."
    elif any(signature.keyid == key.keyid for signature in document.signatures):
        words = (
            f"The signature names your key ({key.keyid[:16]}) but does not fit the content: it was altered after "
            "signing, or the signature is forged."
        )
    else:
        words = f"The certificate is signed with another key ({signers}), not with yours ({key.keyid[:16]})."
    return Check("signature", ok, words)


def _statement(document: Document) -> Check:
    """Check that everything the statement repeats follows from its certificate."""
    stated, certificate = document.statement.predicate, document.certificate
    selection = stated.selection
    corrected = {
        "none": selection.tried == certificate.candidates == 1,
        "holdout": selection.tried >= certificate.candidates,
        "simultaneous": selection.tried == certificate.candidates,
        "sequence": selection.tried >= certificate.candidates,
    }
    subjects = [subject.name for subject in document.statement.subject]
    in_sequence = (selection.correction == "sequence") == (certificate.sequence is not None)
    counted, version = document.statement.digest_of("counts"), document.statement.version
    findings = {
        "the claim does not say what the figures say": stated.claim == claim_of(certificate),
        "ε is not 1 − confidence": stated.epsilon == epsilon_of(certificate),
        "the groups do not have the stated numbers of records": stated.groups == groups_of(certificate),
        "the digest of the counts is that of other counts": counted == counts_digest(certificate.counts),
        "the correction for trying several encoders does not fit their number": (
            corrected[selection.correction] and in_sequence
        ),
        "cells are not pooled as stated": _pooled_as_stated(document),
        "it names a subject twice": len(set(subjects)) == len(subjects),
        "its version does not fit its claim": version == document.statement.needed_version,
        "its records were not read as it says": stated.reading is None or _read_so(stated.reading, certificate),
        "what every certificate assumes and does not claim is missing in part": not certificate.silences,
    }
    wrong = [words for words, holds in findings.items() if not holds]
    if wrong:
        return Check("statement", False, f"The statement contradicts its own certificate: {'; '.join(wrong)}.")
    return Check("statement", True, "Words, groups and digests of the statement agree with its certificate.")


def _read_so(reading: Reading, certificate: Certificate) -> bool:
    """Return whether a reading fits a certificate: its labels, positive label, groups and sampling."""
    named = {*(reading.kept_groups or ()), POOLED, UNKNOWN}
    return (
        (reading.counted(labelled=True).label is not None or not certificate.claim.labelled)
        and (reading.given or None) == certificate.claim.given
        and certificate.claim.each in ((), reading.sensitive)
        and reading.positive in (None, certificate.positive)
        and (reading.kept_groups is None or named.issuperset(certificate.counts.groups))
        and reading.drawn == (certificate.effective_size is not None)
        and draw_of(certificate.population) == reading.about
        and (reading.cap is not None) >= (certificate.tail is not None)
        and not (reading.unknown_groups and GROUP_MISSING in {found.reason for found in certificate.exclusions})
    )


def _pooled_as_stated(document: Document) -> bool:
    """Return whether exactly the rows that are listed as small are small."""
    suppression, certificate = document.statement.predicate.suppression, document.certificate
    if suppression is None:
        return True
    table = certificate.counts.table.reshape(certificate.counts.n_cells, -1)
    shown = np.setdiff1d(np.arange(len(table)), [cell for pool in certificate.pools for cell in pool[1:]])
    small = shown[table[shown].min(axis=1) < suppression.below]
    return bool(list(suppression.still_small) == small.tolist())


def _figures(document: Document) -> Check:
    certificate = document.certificate
    pairs = len(certificate.claim.pairs(certificate.counts))
    counts = certificate.counts
    tested = 0 if certificate.sequence is None else len(certificate.sequence.steps)
    if pairs * ((1 + tested) * math.sqrt(counts.n_records) + counts.n_cells / 20) > MAX_WORK:
        several = f"{tested:,} encoders in sequence, " if tested else ""
        raise ArgumentError(
            f"The certificate has {several}{pairs:,} pairs of groups, {counts.n_records:,} records and "
            f"{counts.n_cells:,} cells. Recomputing its figures would take too long."
        )
    if len(certificate.parts) != pairs:
        return Check("figures", False, f"The certificate lists {len(certificate.parts)} bounds for {pairs} pairs.")
    try:
        certificate.verify()
    except (CertifareError, ArithmeticError) as error:
        return Check("figures", False, str(error))
    bound = f"T* = {round_up(certificate.bound)}"
    if certificate.sequence is not None:
        bound = f"{bound}, the limits of all {tested:,} encoders that were tested against it"
    if certificate.method == "calibrated":
        words = f"{bound} and the lower limit follow from the plan that the counts show, by a random seed of our own."
        return Check("figures", True, words)
    return Check("figures", True, f"{bound}, the estimate and the lower limit were recomputed from the counts.")


def _validity(document: Document) -> Check:
    void = [text for text in document.certificate.assumptions if text.startswith(VOID)]
    if void:
        return Check("validity", False, f"The certificate itself says that it is not valid: {void[0]}")
    return Check("validity", True, "The certificate is not marked invalid.")


def _encoder(document: Document, encoder: str | os.PathLike[str] | None, required: bool) -> Check:
    if encoder is None:
        words = "No encoder was given: nothing shows which one the certificate is about."
        return Check("encoder", False if required else None, words)
    certified, found = document.statement.digest_of("encoder"), digest(encoder)
    if certified is None:
        return Check("encoder", False, "The certificate names no encoder, so it cannot be about this one.")
    if found != certified:
        words = f"its SHA-256 digest is {found[:16]}…, the certificate is about {certified[:16]}…."
        return Check("encoder", False, f"The encoder is not the certified one: {words}")
    try:
        content = EncoderFile.of(encoder).document
    except FileError as error:
        return Check("encoder", False, f"The certified file cannot be used as an encoder: {error}")
    sequence, counts = document.certificate.sequence, document.certificate.counts
    tested = None if sequence is None or sequence.published is None else sequence.published.encoder
    claimed_to_read = READS_GROUP in document.certificate.assumptions
    if tested is not None and tested != digest_of(content):
        wrong = "The encoder is not the last one that passed the certificate's sequence."
    elif content.n_cells != counts.n_cells:
        wrong = f"The encoder has {content.n_cells:,} cells, and the certificate counts {counts.n_cells:,}."
    elif content.reads_groups != claimed_to_read:
        does, says = ("reads", "does not") if content.reads_groups else ("does not read", "does")
        wrong = f"The encoder {does} the group, and the certificate says that it {says}: it is about another encoder."
    elif document.certificate.method == "calibrated" and not _has_its_plan(content, document.certificate):
        wrong = "The encoder's thresholds were set by another plan than the one that the certificate counts."
    else:
        words = f"The encoder is the certified one (SHA-256 {found[:16]}…), with {content.n_cells:,} cells."
        return Check("encoder", True, words)
    return Check("encoder", False, wrong)


def _has_its_plan(content: AnyDocument, certificate: Certificate) -> bool:
    """Return whether records set the thresholds of an encoder by the plan that its certificate counts."""
    from certifare.encoders.loading import plan_of

    if not isinstance(content, CalibratedDocument) or not content.calibrated:
        return False
    names = [name_of(tuple(group) if isinstance(group, list) else group) for group in content.groups]
    counts = stratum(certificate.counts, certificate.positive)
    same = set(names) == set(counts.groups)
    return same and np.array_equal(counts.of_groups(*names).table, plan_of(content).counts)


def _requirements(document: Document, policy: Policy) -> list[Check]:
    """Compare the certificate with the policy, except for its bound."""
    certificate = document.certificate
    checks = []
    if policy.min_confidence > 0.0:
        joint = certificate.joint_confidence
        several = "" if joint == certificate.confidence else ", all looks at its records together"
        words = f"The certificate holds with {percent(joint)} confidence{several}"
        enough = joint >= policy.min_confidence
        than = "at least" if enough else "less than"
        checks.append(Check("confidence", enough, f"{words}, {than} the {percent(policy.min_confidence)} asked for."))
    if policy.metrics:
        metric, asked = certificate.metric, ", ".join(policy.metrics)
        checks.append(Check("metric", metric in policy.metrics, f"The metric is {metric}; asked for: {asked}."))
    if policy.groups:
        counted = certificate.counts.groups
        missing = [group for group in policy.groups if group not in counted]
        but = f", not about {_listed(missing)}" if missing else ""
        checks.append(Check("groups", not missing, f"The certificate is about the groups {_listed(counted)}{but}."))
    if policy.max_looks is not None:
        enough = certificate.look is not None and certificate.look <= policy.max_looks
        checks.append(Check("looks", enough, f"{certificate.look_words} Asked for: {policy.max_looks:,} at most."))
    return checks


def _expiry(last_day: date) -> Check:
    today = datetime.now(UTC).date()
    if today <= last_day:
        return Check("valid until", True, f"The certificate is valid until {last_day}, by its producer's statement.")
    ago = amount((today - last_day).days, "day")
    words = f"The certificate expired on {last_day}, {ago} ago. Ask its producer for a new one."
    return Check("valid until", False, words)


def _bound(certificate: Certificate, max_bound: float) -> Check:
    words = f"The certificate bounds the {certificate.claim.distance.words} by T* = {round_up(certificate.bound)}"
    met = certificate.bound <= max_bound
    return Check("bound", met, f"{words}, {'within' if met else 'above'} the {max_bound:g} asked for.")


def _classifier(document: Document, predictions: ArrayLike, max_bound: float | None) -> Check:
    certificate = document.certificate
    try:
        interval = certificate.for_classifier(predictions)
    except UnprovedClaimError as error:
        return Check("classifier", None if max_bound is None else certificate.bound <= max_bound, str(error))
    words = f"The distance of this classifier is {interval}"
    if max_bound is None:
        return Check("classifier", True, f"{words}.")
    if interval.upper <= max_bound:
        return Check("classifier", True, f"{words}, within the {max_bound:g} asked for.")
    if certificate.bound <= max_bound:
        own = f"T* = {round_up(certificate.bound)} holds for it as for every other, within the {max_bound:g} asked for"
        return Check("classifier", True, f"{words}; {own}.")
    return Check("classifier", False, f"{words}, above the {max_bound:g} asked for.")


def _records(
    document: Document,
    encoder: str | os.PathLike[str],
    data: Table | str | os.PathLike[str],
    max_bound: float | None,
) -> list[Check]:
    """Certify the encoder on the verifier's records, and test whether they contradict the certificate.

    They do if a set of cells, chosen on one half of them, shows on the other half that some classifier exceeds T*.
    For a valid certificate of the same population that happens with probability at most ε, in addition to the
    certificate's own ε. The sets are chosen only on the verifier's records, without anything from the producer.
    """
    # Verifying a certificate alone needs no library that reads tables.
    from certifare.certification.certifying import TableSource, count_records
    from certifare.encoders.records import load_fitted, read_records
    from certifare.engines.counting import CountRequest

    certificate = document.certificate
    labelled = certificate.claim.labelled
    fitted = load_fitted(encoder)
    if isinstance(data, str | os.PathLike):
        reading = _reading(document)
        data = read_records(fitted, data, reading, labelled=labelled)
    else:
        stated = document.statement.predicate.reading or Reading()
        reading = msgspec.structs.replace(stated, sensitive=data.roles.sensitive or ("group",), cap=None)
        if labelled and data.labels:
            reading = msgspec.structs.replace(reading, label=data.labels[0].name)
    given = certificate.claim.given
    if given is not None and data.given is None:
        raise ArgumentError(f"Your records need the column {given!r}, within whose values groups are compared.")
    if data.groups is None or (labelled and given is None and not data.labels):
        raise ArgumentError("Your records need a sensitive column, and a label if the metric uses labels.")
    if certificate.method == "calibrated" and _thresholds(document, encoder, data).ok:
        words = (
            "These are the records that set the thresholds, or cannot be told from them: the exact bound does not hold "
            "on them. Use others."
        )
        return [Check("data", None, words, undecided=True)]
    try:
        counted = count_records(fitted, TableSource(data), reading, CountRequest(labelled=labelled))
    except TrainingOverlapError as error:
        return [Check("training records", False, f"The encoder was fitted on your records: {error}")]
    words = (
        "There is no fingerprint of the training records next to the encoder, so it was not checked whether the "
        "encoder was fitted on your records."
        if counted.overlap is None
        else f"The encoder was not fitted on your records: {counted.overlap}."
    )
    looked_up = Check("training records", None if counted.overlap is None else True, words)
    return [looked_up, *_compared(certificate, counted, max_bound)]


def _compared(certificate: Certificate, counted: CountedRecords, max_bound: float | None) -> list[Check]:
    """Certify the encoder on the verifier's counted records, and compare with its certificate."""

    def undecided(words: str) -> list[Check]:
        return [Check("data", None, words, undecided=True)]

    counts = counted.counts
    try:
        other = _other_claim(certificate, counts.groups, counts.labels or ())
        if other is not None:
            return undecided(f"{other} The check is inconclusive.")
        left_out = tuple(value for value in certificate.claim.left_out if value in (counts.labels or ()))
        own = counted.certify(replace(certificate.claim, candidates=1, left_out=left_out))
        if few := set(own.claim.left_out).difference(left_out):
            raise GroupError(f"A group has no record {own.claim.records_of(min(few))}.")
    except GroupError as error:
        return undecided(f"Your records do not suffice: {error}")
    if draw_of(own.population) != draw_of(certificate.population):
        return undecided(
            f"The certificate is about {whom(certificate.population)}; your records stand for {whom(own.population)}: "
            "name weights and clusters as its producer did. The check is inconclusive."
        )
    lower = _own_lower_limit(own, str(counted.digest))
    sample = f"{own.counts.n_records:,} records of your own"
    words = (
        f"{sample} give T* = {round_up(own.bound)} (estimate {own.estimate:.4f}, of which chance alone gives about "
        f"{distance_by_chance(own):.4f}; lower limit {round_down(lower)})"
    )
    if lower > certificate.bound:
        exceeded = f"some classifier exceeds the certificate's {round_up(certificate.bound)} on your population"
        return [Check("data", False, f"{words}: with {percent(certificate.confidence)} confidence {exceeded}.")]
    found = Check("data", True, f"{words}: the certificate is not refuted.")
    if max_bound is None:
        return [found]
    words = f"A certificate on {sample} bounds the {own.claim.distance.words} by T* = {round_up(own.bound)}"
    if own.bound <= max_bound:
        return [found, Check("data bound", True, f"{words}, within the {max_bound:g} asked for.")]
    more = confirming_words(records_to_confirm(own, max_bound), max_bound)
    words = f"{words}, above the {max_bound:g} asked for. It is not refuted: {more}."
    return [found, Check("data bound", None, words, undecided=True)]


def _thresholds(document: Document, encoder: str | os.PathLike[str], records: Table | str | os.PathLike[str]) -> Check:
    """Check that the thresholds of calibrated cells are the order statistics that the certificate's gaps ask for."""
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.records import load_fitted, read_records

    certificate, fitted = document.certificate, load_fitted(encoder)
    if certificate.method != "calibrated" or not isinstance(fitted, CalibratedEncoder):
        raise ArgumentError("certified_on: only thresholds of cells that read the group are set by records.")
    labelled = certificate.claim.labelled
    if isinstance(records, str | os.PathLike):
        # These records were drawn already: their weights and clusters are of no use any more.
        reading = msgspec.structs.replace(_reading(document), weight=None, cluster=None)
        records = read_records(fitted, records, reading, labelled=labelled)
    names = [name_of(group) for group in fitted.groups_]
    features = records.select([column.name for column in fitted.columns_])
    setting = np.ones(len(records), dtype=bool)
    if labelled:
        setting = np.array([name == certificate.positive for name in records.labels[0].names])[records.labels[0].codes]
    try:
        wrong = fitted.misplaced(features, setting, sensitive_features=records.sensitive)
    except CertifareError as error:
        return Check("thresholds", False, f"These are not the records that set the thresholds: {error}")
    n = len(names) * (fitted.n_cells_ - 1)
    if wrong:
        split, group = wrong[0]
        words = (
            f"{len(wrong):,} of {n:,} thresholds are not the order statistics of these records that the plan asks for, "
            f"such as {fitted.thresholds_.at[split, group]:.6g} for {names[group]!r}."
        )
        return Check("thresholds", False, words)
    how = "" if fitted.tie_column else ", up to the random numbers that put equal scores in order"
    words = f"All {n:,} thresholds are the order statistics of these records that the plan asks for{how}."
    return Check("thresholds", True, words)


def _reading(document: Document) -> Reading:
    """Return how to read a file of the verifier's records: as the certificate states.

    Weights are not capped here: the lower bound uses whole weights.
    """
    stated = document.statement.predicate.reading
    if stated is None:
        raise ArgumentError(
            "The certificate does not state its sensitive column. Give your records as a table with roles "
            "(certifare.read_table)."
        )
    return msgspec.structs.replace(stated, cap=None)


def _other_claim(certificate: Certificate, groups: Sequence[str], labels: Sequence[str]) -> str | None:
    """Return why records with these groups and labels do not fit the claim; None if they do."""
    divided = certificate.claim.divided
    for (attribute, found), (_, wanted) in zip(divided(groups), divided(certificate.counts.groups), strict=True):
        if set(found) != set(wanted):
            of = "" if attribute is None else f" of {attribute!r}"
            return (
                f"Your records have the groups{of} {_listed([*found])}; the certificate is about {_listed([*wanted])}."
            )
    if certificate.positive is not None and certificate.positive not in labels:
        return f"Your records have the labels {_listed(labels)}; the certificate is about {certificate.positive}."
    strata, small = certificate.counts.labels or (), set(certificate.claim.left_out)
    if certificate.claim.distance.strata == "each label" and set(labels) - small != set(strata) - small:
        what = "labels" if certificate.claim.given is None else f"values of {certificate.claim.given!r}"
        return f"Your records have the {what} {_listed(labels)}; the certificate is about {_listed(strata)}."
    return None


def _own_lower_limit(own: Certificate, records: str) -> float:
    """Return the lower bound from sets of cells chosen on one random half of the records and tested on the other.

    The random stream depends on the records, so that different records are split independently.
    """
    counts = own.counts
    # Each record is in either half with probability ½; counts suffice for that.
    half = stream(0, "halves of the verifier's records", records).binomial(counts.table, 0.5)
    chosen_on, tested_on = (CellCounts(t, counts.groups, counts.labels) for t in (half, counts.table - half))
    pairs = own.claim.pairs(counts)
    if min(int(pair.table(half).sum(axis=0).min()) for pair in pairs for half in (chosen_on, tested_on)) == 0:
        return 0.0
    claim = replace(own.claim, candidates=1)
    return lower_limit(Evidence(tested_on, witness=chosen_on).fitted(claim), claim)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown} and {len(names) - 12:,} more" if len(names) > 12 else shown
