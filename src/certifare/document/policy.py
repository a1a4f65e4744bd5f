"""What it takes for a certificate to be accepted: one policy, for the command line and for programs alike."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from certifare.certificates import CellCounts, Certificate, certify, certify_counts
from certifare.certificates.certificate import percent, round_down, round_up
from certifare.certificates.claims import metric_of, strata_of
from certifare.document.files import Document, digest, read_document
from certifare.document.keys import load_public_key
from certifare.document.statement import claim_of, counts_digest, epsilon_of, groups_of
from certifare.errors import ArgumentError, CertifareError, ExpiredVersionError

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey

    from certifare.encoders import RestrictedEncoder
    from certifare.table import Table

#: Recomputing takes time in proportion to pairs of groups × √records. This much takes some minutes; a file that
#: asks for more (a thousand groups, more records than there are people) is made to keep its reader busy.
MAX_WORK = 2_000_000


class Check(msgspec.Struct, frozen=True):
    """One thing that was checked.

    Attributes
    ----------
    name : str
        What was checked: version, signature, statement, figures, validity, encoder, bound, data or classifier.
    ok : bool or None
        Whether it holds; None where it could not be decided, or was not asked for.
    message : str
        What was found, in a sentence.
    """

    name: str
    ok: bool | None
    message: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a certificate is accepted, and why.

    Attributes
    ----------
    passed : bool
        True if no check failed.
    claim : str or None
        The claim in words, where the certificate could be read.
    bound : float or None
        T* as the certificate states it.
    checks : tuple of Check
        What was checked, in order.
    """

    passed: bool
    claim: str | None
    bound: float | None
    checks: tuple[Check, ...]

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.ok is False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    def __str__(self) -> str:
        mark = {True: "ok", False: "FAILED", None: "not checked"}
        lines = [f"{check.name}: {mark[check.ok]}: {check.message}" for check in self.checks]
        return "\n".join([*lines, "PASS" if self.passed else "FAIL"])


def verify_document(
    source: str | os.PathLike[str] | bytes,
    *,
    key: str | os.PathLike[str] | SSlibKey | None = None,
    encoder: str | os.PathLike[str] | None = None,
    data: Table | str | os.PathLike[str] | None = None,
    sensitive: Sequence[str] = (),
    label: str | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    max_bound: float | None = None,
    predictions: ArrayLike | None = None,
) -> Verdict:
    """Check a certificate: its version, signature, figures, encoder and bound, and its claim on other records.

    Parameters
    ----------
    source : path or bytes
        The certificate file; for a folder, the ``certificate.json`` in it (and the ``encoder.json``, if there is one).
    key : path or public key, optional
        Whose signature is asked for. Without it no signature is checked, and the verdict says so.
    encoder : path, optional
        The encoder's file. It must be, byte by byte, the one that was certified.
    data : Table or path, optional
        The verifier's own records, on which the encoder is certified anew. Needs ``encoder``.
    sensitive, label, weight, cluster : optional
        Roles of columns where ``data`` is a file. The sensitive columns and the label are those that the certificate
        names, unless they are called differently there.
    max_bound : float, optional
        The largest T* to be accepted; with ``data``, also of the certificate on those records; with ``predictions``,
        instead, the largest distance of that classifier.
    predictions : array-like, optional
        One classifier, by its prediction for each cell, to learn the interval of its own distance.

    Returns
    -------
    Verdict

    Raises
    ------
    CertifareError
        The file is no certificate, or another file cannot be read. A certificate that can be read and is not
        accepted raises nothing: the verdict says why.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> from certifare.document import sign, statement
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> content = sign(statement(c), None).to_bytes()
    >>> verify_document(content, max_bound=0.3).passed, verify_document(content, max_bound=0.2).passed
    (True, False)
    """
    if max_bound is not None and not 0.0 <= max_bound <= 1.0:
        raise ArgumentError(f"max={max_bound}: a distance between groups lies in [0, 1].")
    if not isinstance(source, bytes) and Path(source).is_dir():
        folder, source = Path(source), Path(source) / "certificate.json"
        if encoder is None and (folder / "encoder.json").exists():
            encoder = folder / "encoder.json"
    if data is not None and encoder is None:
        raise ArgumentError("Records can be certified anew only with the encoder: give its file as well.")
    public = load_public_key(key) if isinstance(key, str | os.PathLike) else key
    try:
        document = read_document(source)
    except ExpiredVersionError as error:
        return _verdict(None, [Check("version", False, str(error))])

    checks = [
        Check("version", True, f"The file is a certificate in version {document.statement.version} of the format."),
        _signature(document, public),
        _statement(document),
        _figures(document),
        _validity(document),
        _encoder(document, encoder),
    ]
    if predictions is not None:
        checks.append(_classifier(document, predictions, max_bound))
    elif max_bound is not None:
        checks.append(_bound("bound", document.certificate, max_bound, "The certificate bounds"))
    if data is not None and encoder is not None and all(check.ok is not False for check in checks[2:6]):
        from certifare.encoders import load_encoder

        loaded = load_encoder(encoder)
        if isinstance(data, str | os.PathLike):
            data = _read_records(document, loaded, data, sensitive, label, weight, cluster)
        checks += _records(document.certificate, loaded, data, max_bound if predictions is None else None)
    return _verdict(document, checks)


def _read_records(
    document: Document,
    encoder: RestrictedEncoder,
    path: str | os.PathLike[str],
    sensitive: Sequence[str],
    label: str | None,
    weight: str | None,
    cluster: str | None,
) -> Table:
    """Read the verifier's file, with the roles that the certificate names unless others are given."""
    from certifare.table import read_table

    columns = document.statement.predicate.columns
    groups = tuple(sensitive) or (columns.sensitive if columns else ())
    if not groups:
        raise ArgumentError("The certificate does not say which column is sensitive: name it.")
    labelled = metric_of(document.certificate.metric).strata != "all"
    label = label or (columns.label if columns else None)
    if labelled and label is None:
        raise ArgumentError("The metric looks at labels, and the certificate does not say which column: name it.")
    return read_table(
        path,
        sensitive=groups,
        label=label if labelled else None,
        weight=weight,
        cluster=cluster,
        categorical=[column.name for column in encoder.columns_ if column.type == "text"],
    )


def _verdict(document: Document | None, checks: Sequence[Check]) -> Verdict:
    return Verdict(
        passed=all(check.ok is not False for check in checks),
        claim=None if document is None else document.statement.predicate.claim.words,
        bound=None if document is None else document.certificate.bound,
        checks=tuple(checks),
    )


def _signature(document: Document, key: SSlibKey | None) -> Check:
    if not document.signatures:
        if key is None:
            return Check("signature", None, "The certificate is not signed: nothing shows who wrote it.")
        return Check("signature", False, "The certificate is not signed, and a signature by your key was asked for.")
    signers = ", ".join(signature.keyid[:16] or "unnamed" for signature in document.signatures)
    if key is None:
        return Check("signature", None, f"The certificate is signed (key {signers}); give the public key to check it.")
    if document.signed_by(key):
        return Check("signature", True, f"The signature is by your key ({key.keyid[:16]}) over exactly this content.")
    if any(signature.keyid == key.keyid for signature in document.signatures):
        return Check(
            "signature",
            False,
            f"The signature names your key ({key.keyid[:16]}) but does not fit the content: it was altered after "
            "signing, or the signature is forged.",
        )
    return Check(
        "signature",
        False,
        f"The certificate is signed with another key ({signers}), not with yours ({key.keyid[:16]}).",
    )


def _statement(document: Document) -> Check:
    """Everything that the statement repeats in words must follow from the certificate that it holds."""
    stated, certificate = document.statement.predicate, document.certificate
    selection = stated.selection
    corrected = {
        "none": selection.tried == certificate.candidates == 1,
        "holdout": selection.tried >= 1,
        "simultaneous": selection.tried == certificate.candidates,
    }
    findings: list[tuple[str, bool]] = [
        ("the claim does not say what the figures say", stated.claim == claim_of(certificate)),
        ("ε is not 1 − confidence", stated.epsilon == epsilon_of(certificate)),
        ("the groups do not have the stated numbers of records", stated.groups == groups_of(certificate)),
        (
            "the digest of the counts is that of other counts",
            document.statement.digest_of("counts") == counts_digest(certificate.counts),
        ),
        ("the correction for trying several encoders does not fit their number", corrected[selection.correction]),
        ("cells are not pooled as stated", _pooled_as_stated(document)),
    ]
    wrong = [words for words, holds in findings if not holds]
    if wrong:
        return Check("statement", False, f"The statement contradicts its own certificate: {'; '.join(wrong)}.")
    return Check("statement", True, "Words, groups and digests of the statement agree with its certificate.")


def _pooled_as_stated(document: Document) -> bool:
    suppression = document.statement.predicate.suppression
    if suppression is None:
        return True
    counts = document.certificate.counts
    table = counts.table.reshape(counts.n_cells, -1)
    pooled = [cell for pool in suppression.pooled for cell in pool]
    if len(set(pooled)) != len(pooled) or not all(0 <= cell < counts.n_cells for cell in pooled):
        return False
    empty = [cell for pool in suppression.pooled for cell in pool[1:]]
    shown = np.setdiff1d(np.arange(counts.n_cells), empty)
    small = shown[table[shown].min(axis=1) < suppression.below]
    return (
        all(list(pool) == sorted(pool) and len(pool) > 1 for pool in suppression.pooled)
        and not table[empty].any()
        and small.tolist() == list(suppression.still_small)
        and all(
            len({cell in witness.cells for cell in pool}) == 1
            for witness in document.certificate.witnesses
            for pool in suppression.pooled
        )
    )


def _figures(document: Document) -> Check:
    certificate = document.certificate
    groups = len(certificate.counts.groups)
    strata = strata_of(metric_of(certificate.metric), certificate.counts, certificate.positive)
    pairs = groups * (groups - 1) // 2 * len(strata)
    if pairs * math.sqrt(certificate.counts.n_records) > MAX_WORK:
        raise ArgumentError(
            f"The certificate has {pairs:,} pairs of groups and {certificate.counts.n_records:,} records: "
            "recomputing its figures would take too long."
        )
    if len(certificate.parts) != pairs:
        return Check("figures", False, f"The certificate lists {len(certificate.parts)} bounds for {pairs} pairs.")
    try:
        certificate.verify()
    except (CertifareError, ArithmeticError) as error:
        return Check("figures", False, str(error))
    return Check(
        "figures",
        True,
        f"T* = {round_up(certificate.bound)}, the estimate and the lower limit were recomputed from the counts.",
    )


def _validity(document: Document) -> Check:
    void = [text for text in document.certificate.assumptions if text.startswith("VOID")]
    if void:
        return Check("validity", False, f"The certificate itself says that it is not valid: {void[0]}")
    return Check("validity", True, "The certificate says nothing that would void it.")


def _encoder(document: Document, encoder: str | os.PathLike[str] | None) -> Check:
    certified = document.statement.digest_of("encoder")
    if encoder is None:
        return Check("encoder", None, "No encoder was given: nothing shows which one the certificate is about.")
    if certified is None:
        return Check("encoder", False, "The certificate names no encoder, so it cannot be about this one.")
    found = digest(encoder)
    if found != certified:
        return Check(
            "encoder",
            False,
            f"The encoder is not the certified one: its SHA-256 digest is {found[:16]}…, the certificate is about "
            f"{certified[:16]}….",
        )
    return Check("encoder", True, f"The encoder is the certified one (SHA-256 {found[:16]}…).")


def _bound(name: str, certificate: Certificate, max_bound: float, subject: str) -> Check:
    words = f"{subject} the {metric_of(certificate.metric).words} by T* = {round_up(certificate.bound)}"
    if certificate.bound <= max_bound:
        return Check(name, True, f"{words}, within the {max_bound:g} asked for.")
    return Check(name, False, f"{words}, above the {max_bound:g} asked for.")


def _classifier(document: Document, predictions: ArrayLike, max_bound: float | None) -> Check:
    certificate = document.certificate
    values = np.asarray(predictions)
    suppression = document.statement.predicate.suppression
    if suppression is not None and len(values) == certificate.counts.n_cells:
        mixed = [pool for pool in suppression.pooled if len(np.unique(values[list(pool)])) > 1]
        if mixed:
            return Check(
                "classifier",
                None if max_bound is None else certificate.bound <= max_bound,
                f"The classifier treats cells differently that are published as one pool ({_cells(mixed[0])}), so its "
                f"own interval cannot be computed. T* = {round_up(certificate.bound)} holds for it as for every other.",
            )
    interval = certificate.for_classifier(values)
    words = f"The distance of this classifier is {interval}"
    if max_bound is None:
        return Check("classifier", True, f"{words}.")
    if interval.upper <= max_bound:
        return Check("classifier", True, f"{words}, within the {max_bound:g} asked for.")
    return Check("classifier", False, f"{words}, above the {max_bound:g} asked for.")


def _records(certificate: Certificate, encoder: RestrictedEncoder, data: Table, max_bound: float | None) -> list[Check]:
    """Certify the encoder on other records, and ask whether they contradict the certificate.

    They do where a set of cells, chosen on one half of them, shows on the other half that some classifier exceeds T*.
    For a valid certificate of the same population that happens with probability at most ε, beside the certificate's
    own ε. The sets are chosen on the verifier's records alone: nothing in it is taken from the producer.
    """
    if encoder.n_cells_ != certificate.counts.n_cells:
        return [
            Check(
                "data",
                False,
                f"The encoder has {encoder.n_cells_} cells, the certificate counts {certificate.counts.n_cells}.",
            )
        ]
    labelled = metric_of(certificate.metric).strata != "all"
    if data.groups is None or (labelled and not data.labels):
        raise ArgumentError("Your records need a sensitive column, and a label where the metric looks at labels.")
    own = certify(
        encoder,
        data.features,
        data.y if labelled else None,
        sensitive_features=data.sensitive,
        metric=certificate.metric,
        confidence=certificate.confidence,
        positive=certificate.positive,
        weights=data.weights,
        clusters=data.clusters,
    )
    if set(own.counts.groups) != set(certificate.counts.groups):
        return [
            Check(
                "data",
                False,
                f"Your records have the groups {', '.join(own.counts.groups)}; the certificate is about "
                f"{', '.join(certificate.counts.groups)}.",
            )
        ]
    lower = _own_lower_limit(own)
    sample = f"{own.counts.n_records:,} records of your own"
    words = f"{sample} give T* = {round_up(own.bound)} (estimate {own.estimate:.4f}, lower limit {round_down(lower)})"
    if lower > certificate.bound:
        return [
            Check(
                "data",
                False,
                f"{words}: with {percent(certificate.confidence)} confidence some classifier exceeds the certificate's "
                f"{round_up(certificate.bound)} on your population.",
            )
        ]
    checks = [Check("data", True, f"{words}: they do not contradict the certificate.")]
    if max_bound is not None:
        checks.append(_bound("data bound", own, max_bound, f"A certificate on {sample} bounds"))
    return checks


def _own_lower_limit(own: Certificate) -> float:
    """Lower limit with sets of cells chosen on one random half of the records and tested on the other."""
    counts = own.counts
    # Each record goes either way with probability ½; the counts are all that is needed for that.
    half = np.random.default_rng(0).binomial(counts.table, 0.5)
    chosen_on, tested_on = (CellCounts(t, counts.groups, counts.labels) for t in (half, counts.table - half))
    if min(chosen_on.table.sum(axis=0).min(), tested_on.table.sum(axis=0).min()) == 0:
        return 0.0
    return certify_counts(
        tested_on, own.metric, own.confidence, positive=own.positive, witness=chosen_on, min_group_size=1
    ).lower


def _cells(pool: Sequence[int]) -> str:
    shown = ", ".join(map(str, pool[:6]))
    return f"cells {shown}{' …' if len(pool) > 6 else ''}"
