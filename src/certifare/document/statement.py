"""The content of a certificate file: an in-toto Statement v1 with certifare's predicate.

The types below are the file format; ``docs/certificate.schema.json`` is generated from them. The predicate holds the
certificate itself, its claim in words, and how it was made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

import msgspec

from certifare.certificates import CellCounts, Certificate
from certifare.certificates.certificate import check_method
from certifare.certificates.counts import decode_counts, encode_counts
from certifare.certificates.exact import epsilon_at
from certifare.certificates.population import among_whom
from certifare.certificates.rounding import confidence_text, percent, round_up
from certifare.document.suppression import Suppression, suppress
from certifare.errors import ArgumentError, CertifareError, DocumentError
from certifare.foundation.formatting import amount, unseen
from certifare.foundation.version import __version__
from certifare.tables.reading import Reading

StatementType = Literal["https://in-toto.io/Statement/v1"]
STATEMENT_TYPE: StatementType = "https://in-toto.io/Statement/v1"
#: Type of the predicate, without its version.
PREDICATE = "https://certifare.readthedocs.io/certificate/v"
#: The newest version of the format, and the oldest that is read. Certificates of each of several attributes, within the
#: values of a column, or with terms are of version 4; all others are written in version 3, which older readers know.
VERSION, OLDEST_VERSION = 4, 3

#: Format of times.
TIME = "%Y-%m-%dT%H:%M:%SZ"

#: Upper limit of the number of encoders tried.
MAX_TRIED = 10**9

# A pattern alone lets a line break follow.
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=100_000)]
#: Longest name for people.
MAX_NAME = 200
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
#: Longest purpose.
MAX_PURPOSE = 500
Purpose = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_PURPOSE)]
Day = Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the statement: unknown fields are refused, because a reader would assume that they are checked."""


class Digest(_Strict, frozen=True, kw_only=True):
    """A SHA-256 digest in hexadecimal digits."""

    sha256: Sha256


class Subject(_Strict, frozen=True, kw_only=True):
    """A subject of the statement: the encoder's file, the certification data, or the table of counts."""

    name: Literal["encoder", "data", "counts"]
    digest: Digest


class Wording(_Strict, frozen=True, kw_only=True):
    """The claim as a sentence and as a formula. Both follow from the certificate and are checked against it."""

    words: Text
    formula: Text


class Group(_Strict, frozen=True, kw_only=True):
    """A group and its number of certification records."""

    name: str
    records: Annotated[int, msgspec.Meta(ge=0)]


class Selection(_Strict, frozen=True, kw_only=True):
    """How many encoders were tried, and how the confidence accounts for the choice.

    ``none``: only one was tried. ``holdout``: the choice was made on other records, and only the chosen encoder was
    certified. ``simultaneous``: all were certified on the same records, each at ε / tried. ``sequence``: some were
    ordered on other records and tested against a target one after another, until one failed.
    """

    tried: Annotated[int, msgspec.Meta(ge=1, le=MAX_TRIED)]
    correction: Literal["none", "holdout", "simultaneous", "sequence"]


class Terms(_Strict, frozen=True, kw_only=True, omit_defaults=True):
    """What the producer states for the reader: who it is, what the data may be used for, and until when.

    Nothing here follows from the counts. A signature shows that the holder of its key stated it.

    Attributes
    ----------
    producer : str or None
        The organisation or person that answers for the certificate.
    purpose : str or None
        What the encoded data are for.
    valid_until : str or None
        The last day (UTC) on which the certificate may be relied on, such as ``2030-12-31``.
    """

    producer: Name | None = None
    purpose: Purpose | None = None
    valid_until: Day | None = None

    def __post_init__(self) -> None:
        for name in ("producer", "purpose"):
            text = getattr(self, name)
            if text is None:
                continue
            if (character := unseen(text)) is not None:
                raise ValueError(f"{name}: it has a character that readers cannot see ({character}). Take it out.")
            if not text.strip() or text != text.strip():
                raise ValueError(f"{name}: give a text without space around it.")
        self.last_day  # noqa: B018  (validates the day)

    @property
    def last_day(self) -> date | None:
        """The last day as a date."""
        return None if self.valid_until is None else date.fromisoformat(self.valid_until)


class Tool(_Strict, frozen=True, kw_only=True):
    """The program that wrote the statement."""

    name: str
    version: str


class Predicate(_Strict, frozen=True, kw_only=True):
    """The claim about the subjects.

    Attributes
    ----------
    claim, epsilon, groups
        Derived from the certificate, for people; checked against it.
    certificate : Certificate
        The bound and everything needed to compute it again.
    reading : Reading or None
        How a table is read to get the records of the claim, so that others can read it in the same way.
    selection, suppression, dataset, tool, command, created
        How it was made; ``dataset`` is the producer's name for the data.
    terms : Terms, optional
        What the producer states for the reader. Present only if something is stated.
    """

    claim: Wording
    epsilon: float
    groups: tuple[Group, ...]
    certificate: Certificate
    selection: Selection
    suppression: Suppression | None = None
    reading: Reading | None = None
    dataset: Name | None = None
    tool: Tool
    command: Text | None = None
    created: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
    terms: Terms | msgspec.UnsetType = msgspec.UNSET

    @property
    def stated_terms(self) -> Terms:
        """What the producer states for the reader; empty terms if nothing."""
        return Terms() if isinstance(self.terms, msgspec.UnsetType) else self.terms

    @property
    def time(self) -> datetime:
        """When it was made, by its own date."""
        return datetime.strptime(self.created, TIME).replace(tzinfo=UTC)


class Statement(_Strict, frozen=True, kw_only=True):
    """An in-toto Statement, version 1."""

    type_: StatementType = msgspec.field(name="_type", default=STATEMENT_TYPE)
    subject: tuple[Subject, ...]
    predicate_type: str = msgspec.field(name="predicateType", default=f"{PREDICATE}{OLDEST_VERSION}")
    predicate: Predicate

    @property
    def version(self) -> int:
        """The version of the format."""
        return int(self.predicate_type.removeprefix(PREDICATE))

    @property
    def needed_version(self) -> int:
        """The oldest version of the format that can say this, which is the one to be written."""
        new = (self.predicate.certificate.scope, self.predicate.terms)
        return OLDEST_VERSION if all(isinstance(part, msgspec.UnsetType) for part in new) else VERSION

    def digest_of(self, name: str) -> str | None:
        """Return the SHA-256 digest of a subject; None if the statement does not have it."""
        return next((subject.digest.sha256 for subject in self.subject if subject.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dictionaries, strings and numbers, as in the file."""
        return dict(msgspec.to_builtins(self, enc_hook=encode_counts))

    @classmethod
    def from_dict(cls, document: Any) -> Statement:
        """Read plain data and validate types and ranges; verification checks the figures."""
        try:
            predicate = document.get("predicate") if isinstance(document, Mapping) else None
            check_method(predicate.get("certificate") if isinstance(predicate, Mapping) else None)
            statement = msgspec.convert(document, cls, dec_hook=decode_counts)
            if statement.predicate.certificate.candidates > MAX_TRIED:
                raise DocumentError("Not a certificate: impossibly many candidates.")
            statement.predicate.time  # noqa: B018  (validates the date)
        except DocumentError:
            raise
        except (msgspec.ValidationError, CertifareError, TypeError, ValueError, OverflowError) as error:
            raise DocumentError(f"Not a certificate: {error}") from error
        return statement


def make_statement(
    certificate: Certificate,
    *,
    encoder_digest: str | None = None,
    data_digest: str | None = None,
    selection: Selection | Mapping[str, Any] | None = None,
    suppress_below: int | None = None,
    reading: Reading | Mapping[str, Any] | None = None,
    dataset: str | None = None,
    terms: Terms | Mapping[str, Any] | None = None,
    command: str | None = None,
    created: str | None = None,
    tool: Tool | Mapping[str, str] | None = None,
) -> Statement:
    """Make the statement of a certificate, which is the content of its file.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    encoder_digest, data_digest : str, optional
        SHA-256 digests of the encoder's file and of the certification data (:func:`certifare.document.digest`).
    selection : Selection or mapping, optional
        ``{"tried": 40, "correction": "holdout"}``; by default from the certificate's ``candidates``.
    suppress_below : int, optional
        Pool cells with a count below this (:func:`certifare.document.suppress`).
    reading : Reading or mapping, optional
        How the records were read, for auditors: ``{"sensitive": ["sex"], "label": "income"}``.
    dataset : str, optional
        Name of the data, for people; at most 200 characters.
    terms : Terms or mapping, optional
        What the producer states: ``{"producer": …, "purpose": …, "valid_until": "2030-12-31"}``, each optional.
    command : str, optional
        The command that made the certificate.
    created : str, optional
        The time, such as ``2030-01-31T12:00:00Z``; by default now.
    tool : Tool or mapping, optional
        ``{"name": …, "version": …}``; by default certifare.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> print(make_statement(c).predicate.claim.formula.split(" ≤")[0])
    P( sup over g: cells → [0, 1] of max over groups s, t of |E[g | s] − E[g | t]|
    """
    suppression = None
    if suppress_below is not None:
        certificate, suppression = suppress(certificate, suppress_below)
    if selection is None:
        tried = certificate.candidates
        shared = "none" if tried == 1 else "simultaneous"
        selection = {"tried": tried, "correction": shared if certificate.sequence is None else "sequence"}
    predicate = Predicate(
        claim=claim_of(certificate),
        epsilon=epsilon_of(certificate),
        groups=groups_of(certificate),
        certificate=certificate,
        selection=_made(selection, Selection, "selection"),
        suppression=suppression,
        reading=None if reading is None else _made(reading, Reading, "reading"),
        tool=Tool(name="certifare", version=__version__) if tool is None else _made(tool, Tool, "tool"),
        dataset=None if dataset is None else _made(dataset, Name, "dataset"),
        command=command,
        created=datetime.now(UTC).strftime(TIME) if created is None else created,
        terms=_terms(terms),
    )
    digests = {"encoder": encoder_digest, "data": data_digest, "counts": counts_digest(certificate.counts)}
    subject = [{"name": name, "digest": {"sha256": value}} for name, value in digests.items() if value is not None]
    return _stated(_made(subject, tuple[Subject, ...], "digest"), predicate)


def with_terms(statement: Statement, terms: Terms | Mapping[str, Any]) -> Statement:
    """Return a statement with other terms, and nothing else changed: not even its date."""
    predicate = msgspec.structs.replace(statement.predicate, terms=_terms(terms))
    return _stated(statement.subject, predicate)


def _stated(subject: tuple[Subject, ...], predicate: Predicate) -> Statement:
    """Make a statement in the oldest version that can say this, and validate it as a reader would."""
    stated = Statement(subject=subject, predicate=predicate)
    stated = msgspec.structs.replace(stated, predicate_type=f"{PREDICATE}{stated.needed_version}")
    return Statement.from_dict(stated.to_dict())


def _terms(terms: Terms | Mapping[str, Any] | None) -> Terms | msgspec.UnsetType:
    """Return the terms that are stated, if any."""
    made = _made(terms or {}, Terms, "terms")
    return msgspec.UNSET if made == Terms() else made


def claim_of(certificate: Certificate) -> Wording:
    """Return the claim of a certificate in words and as a formula."""
    claim = certificate.claim
    between = _between(certificate)
    about = among_whom(certificate.population)
    metric, bound = claim.distance, round_up(certificate.bound)
    y = "y" if claim.given is None else claim.given
    given = {
        "all": "",
        "positive": f", y = {certificate.positive!r}",
        "each label": f", {y}",
    }[metric.strata]
    over = {
        "all": "",
        "positive": "",
        "each label": f"mean over {y} of " if metric.combine == "mean" else f"max over {y} of ",
    }
    of_each = " max over attributes of" if claim.each else ""
    every = "" if certificate.sequence is None else "for every encoder of the sequence that passes, "
    formula = (
        f"P( {every}sup over g: cells → [0, 1] of{of_each} {over[metric.strata]}max over groups s, t of "
        f"|E[g | s{given}] − E[g | t{given}]| ≤ T* ) ≥ {confidence_text(certificate.confidence)}, "
        f"P over certification samples{about.replace(' among', ', E over', 1)}; here T* = {bound}"
    )
    if certificate.bound >= 1.0:
        words = f"No bound below 1 on the {metric.words} {between} could be certified{about}."
    else:
        words = (
            f"With {percent(certificate.confidence)} confidence, no classifier, score or rule that sees only the cell "
            f"of a record has a{'n' if metric.words[0] in 'aeiou' else ''} {metric.words} above {bound} {between}"
            f"{about}."
        )
    words = " ".join([words, *_besides(certificate)])
    if certificate.several_looks:
        words = f"{words} {certificate.look_words}"
    return Wording(words=words, formula=formula)


def _between(certificate: Certificate) -> str:
    """Name the groups that are compared, of each attribute if several are claimed."""
    claim, found = certificate.claim, []
    for attribute, groups in claim.divided(certificate.counts.groups):
        # Quoted as in Python: a group called "a' and 'b" is clearly one group.
        names = [repr(group) for group in groups]
        listed = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
        of = "" if attribute is None else f" of {attribute!r}:"
        found.append(f"the groups{of} {listed}" if len(names) == 2 else f"any two of the groups{of} {listed}")
    return f"between {'; or '.join(found)}"


def _besides(certificate: Certificate) -> list[str]:
    """Say what is claimed by itself, and what is not claimed."""
    claim, found = certificate.claim, []
    if claim.given is not None:
        values = ", ".join(repr(value) for value in claim.strata(certificate.counts))
        found.append(f"The values of {claim.given!r} are {values}.")
        if claim.left_out:
            small = ", ".join(
                f"{value!r} ({amount(claim.smallest(certificate.counts, value), 'record')} of its smallest group)"
                for value in claim.left_out
            )
            found.append(f"Nothing is claimed within {small}.")
    if claim.each and certificate.bound < 1.0:
        alone = [f"{round_up(bound)} for {name!r}" for name, bound in certificate.of_each.items()]
        if certificate.sequence is None:
            found.append(f"Each by itself, with this confidence: at most {', '.join(alone)}.")
        if certificate.intersection is not None:
            found.append(
                "By itself, with this confidence, the distance between any two intersections of these attributes is at "
                f"most {round_up(certificate.intersection)}."
            )
    return found


def epsilon_of(certificate: Certificate) -> float:
    """Return ε = 1 − confidence, without rounding noise."""
    return epsilon_at(certificate.confidence)


def groups_of(certificate: Certificate) -> tuple[Group, ...]:
    """Return the groups with their numbers of records."""
    return tuple(Group(name=name, records=n) for name, n in certificate.counts.group_sizes.items())


def counts_digest(counts: CellCounts) -> str:
    """Return the SHA-256 digest of a table of counts in canonical JSON."""
    return hashlib.sha256(canonical(counts.to_dict())).hexdigest()


def canonical(document: Any) -> bytes:
    """Return canonical JSON: sorted keys, no white space, UTF-8, shortest numbers."""
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except ValueError as error:
        raise DocumentError(f"This cannot be written as JSON: {error}") from error


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a statement, the plain form of a certificate file."""
    (reference,), definitions = msgspec.json.schema_components([Statement], schema_hook=_schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://certifare.readthedocs.io/certificate.schema.json",
        "title": f"certifare certificate, version {VERSION}",
        **reference,
        "$defs": definitions,
    }


def _made(value: Any, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"{name}: {error}") from error


def _schema(kind: type) -> dict[str, Any]:
    if kind is not CellCounts:
        raise NotImplementedError(f"no schema for {kind.__name__}")
    count = {"type": "integer", "minimum": 0}
    by_group = {"type": "array", "items": {"anyOf": [count, {"type": "array", "items": count}]}}
    exclusion = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "records": count},
        "required": ["reason", "records"],
        "additionalProperties": False,
    }
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
    return {
        "type": "object",
        "title": "CellCounts",
        "description": "Records by cell (rows), group and, if there are labels, label.",
        "properties": {
            "groups": names,
            "labels": {"anyOf": [names, {"type": "null"}]},
            "table": {"type": "array", "items": by_group, "minItems": 1},
            "exclusions": {"type": "array", "items": exclusion},
        },
        "required": ["groups", "table"],
        "additionalProperties": False,
    }
