"""Writing certificate files in one form; reading hostile ones."""

import base64
import hashlib
import json
import stat
import warnings
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from securesystemslib.dsse import Envelope

from certifare import CellCounts, CertifareError, certify_counts
from certifare.certificates import Exclusion, Subsample
from certifare.certificates.counts import THINNED
from certifare.certificates.sampling import assumptions_of, drawn_population
from certifare.certificates.tail import Tail
from certifare.document import (
    digest,
    make_statement,
    new_key,
    read_document,
    schema,
    sign,
    verify_document,
    write_document,
)
from certifare.document.envelopes import MAX_BYTES, MOST_LISTS
from certifare.document.statement import PREDICATE, canonical
from certifare.errors import ArgumentError, CountsError, DocumentError, ExpiredVersionError, FileError

from .documents import CONTEXT, certificate, changed, encoder_file, fixed_key, in_sequence, plain, signed

GOLDEN = Path(__file__).parent / "golden"
FILES = ["plain.json", "signed.json", "suppressed.json", "several-groups.json", "sequence.json", "capped.json"]
DOCS = Path(__file__).parents[2] / "docs"


def golden_documents():
    unwitnessed = certificate(confidence=0.9, witness=False)
    labelled = CellCounts(
        np.arange(24).reshape(4, 3, 2) * 20 + 30, groups=["<b>&\"'", "größer", "x"], labels=["no", "yes"]
    )
    several = certify_counts(labelled, "equal_opportunity", candidates=3)
    tail = Tail(cap=2.5, largest=10.0, beyond=((3,), (1,)))
    thinned = Subsample(
        np.ones(1416, dtype=bool),
        (Exclusion(THINNED, 900),),
        1800.5,
        3,
        assumptions_of(10.0, None, weighted=True),
        drawn_population(weighted=True),
    )
    calibrated = certify_counts(
        CellCounts([[200, 150], [150, 100], [149, 99]], groups=["Female", "Male"]), method="calibrated"
    )
    capped = certificate(confidence=0.9, witness=False, tail=tail, drawn=thinned)
    return {
        "plain.json": sign(make_statement(unwitnessed, **CONTEXT), None),
        "signed.json": sign(make_statement(unwitnessed, **CONTEXT), fixed_key()),
        "suppressed.json": sign(make_statement(unwitnessed, suppress_below=10, **CONTEXT), None),
        "several-groups.json": sign(
            make_statement(several, created=CONTEXT["created"], tool=CONTEXT["tool"], encoder_digest="2c" * 32), None
        ),
        "sequence.json": sign(
            make_statement(in_sequence(), **{**CONTEXT, "selection": {"tried": 40, "correction": "sequence"}}), None
        ),
        "calibrated.json": sign(make_statement(calibrated, **CONTEXT), None),
        "capped.json": sign(
            make_statement(capped, **{**CONTEXT, "reading": {**CONTEXT["reading"], "weight": "w", "cap": 2.5}}), None
        ),
    }


@pytest.mark.parametrize("name", FILES)
def test_files_are_as_they_always_were(name):
    written = golden_documents()[name]

    assert written.to_bytes() == (GOLDEN / name).read_bytes()
    assert read_document(GOLDEN / name) == written


def test_a_bound_by_monte_carlo_is_verified_whatever_other_versions_draw():
    """Other versions of numpy may give another bound, so that the file is not compared byte by byte."""
    verdict = verify_document(GOLDEN / "calibrated.json")

    assert verdict.passed
    assert verdict.bound == pytest.approx(golden_documents()["calibrated.json"].certificate.bound, rel=0.01)


def test_the_published_schema_is_that_of_the_types():
    assert json.loads((DOCS / "certificate.schema.json").read_text("utf-8")) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize(
    "name",
    ["plain.json", "suppressed.json", "several-groups.json", "sequence.json", "capped.json", "calibrated.json"],
)
def test_files_fit_the_published_schema(name):
    validator = Draft202012Validator(schema())
    validator.check_schema(schema())
    document = json.loads((GOLDEN / name).read_bytes())

    validator.validate(document)
    document["predicate"]["certificate"]["bound"] = "small"
    assert not validator.is_valid(document)


def test_an_encoder_with_other_cells_is_not_written_about(tmp_path):
    with pytest.raises(CountsError, match="The encoder has 4 cells, the counts have 5"):
        write_document(tmp_path / "c.json", certificate(), encoder=encoder_file(tmp_path / "encoder.json", 4))
    assert not (tmp_path / "c.json").exists()


def test_a_file_tells_the_whole_story(tmp_path):
    private, _ = new_key(tmp_path / "producer")
    encoder = encoder_file(tmp_path / "encoder.json")
    path = tmp_path / "certificate.json"

    written = write_document(path, certificate(), private, encoder=encoder, suppress_below=10)

    document = read_document(path)
    assert document == written
    assert document.id == hashlib.sha256(document.payload).hexdigest()[:16]
    predicate = document.statement.predicate
    assert document.statement.digest_of("encoder") == digest(encoder)
    assert document.statement.digest_of("data") is None
    assert document.certificate.bound == certificate().bound
    assert predicate.suppression is not None
    assert predicate.certificate.pools == ((1, 4), (2, 3))
    assert [(g.name, g.records) for g in predicate.groups] == [("Female", 700), ("Male", 716)]
    assert predicate.epsilon == 0.05
    assert document.certificate.exclusions == certificate().exclusions
    assert document.certificate.assumptions == certificate().assumptions
    assert document.certificate.not_claimed == certificate().not_claimed
    assert {p.name for p in tmp_path.iterdir()} == {
        "producer.pem",
        "producer.pub.pem",
        "encoder.json",
        "certificate.json",
    }
    assert stat.S_IMODE(path.stat().st_mode) & 0o044


def test_signed_files_are_envelopes_that_others_can_check():
    """securesystemslib, the in-toto project's own library, reads and verifies them."""
    key = fixed_key().public_key
    envelope = Envelope.from_dict(json.loads(signed()))

    assert list(envelope.verify([key], 1)) == [key.keyid]
    assert json.loads(envelope.payload)["_type"] == "https://in-toto.io/Statement/v1"


def test_url_safe_base64_is_read_too():
    envelope = json.loads(signed())
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        envelope["payload"] = alphabet(base64.b64decode(envelope["payload"])).decode()
        assert read_document(json.dumps(envelope).encode()).signed_by(fixed_key().public_key)


def test_reading_what_was_written_gives_the_same_bytes():
    for content in (plain(), signed(), plain(suppress_below=5)):
        assert read_document(content).to_bytes() == content


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), min_size=3, max_size=3, unique=True))
def test_any_names_survive(names):
    *groups, command = names
    counts = CellCounts([[400, 300], [300, 400]], groups=groups)

    document = read_document(sign(make_statement(certify_counts(counts), command=command), None).to_bytes())

    assert list(document.certificate.counts.groups) == groups
    assert document.statement.predicate.command == command


def test_lone_surrogates_are_no_text():
    counts = CellCounts([[400, 300], [300, 400]], groups=["\ud800", "m"])

    with pytest.raises(DocumentError, match="surrogates"):
        make_statement(certify_counts(counts))


# -- versions -----------------------------------------------------------------------------------------------------


def test_newer_and_expired_versions_have_their_own_messages():
    newest = read_document(changed(plain(), "predicateType", to=f"{PREDICATE}4"))
    assert newest.statement.version == 4
    with pytest.raises(DocumentError, match="version 5 .*Install a newer"):
        read_document(changed(plain(), "predicateType", to=f"{PREDICATE}5"))
    with pytest.raises(ExpiredVersionError, match="version 2 .*expired.*Ask its producer"):
        read_document(changed(plain(), "predicateType", to=f"{PREDICATE}2"))


@pytest.mark.parametrize(
    "kind", ["https://slsa.dev/provenance/v1", PREDICATE, f"{PREDICATE}1.5", f"{PREDICATE}-1", 3, None]
)
def test_statements_of_another_kind(kind):
    with pytest.raises(DocumentError, match="Not a certificate"):
        read_document(changed(plain(), "predicateType", to=kind))


# -- hostile files ------------------------------------------------------------------------------------------------


HOSTILE = {
    "empty": (b"", "empty"),
    "blank": (b" \n\t ", "empty"),
    "binary": (bytes(range(256)) * 40, "not valid JSON"),
    "truncated": (plain()[:-200], "not valid JSON"),
    "nan": (plain().replace(b'"epsilon":0.05', b'"epsilon":NaN'), "not valid JSON"),
    "infinity": (plain().replace(b'"epsilon":0.05', b'"epsilon":1e999'), "not valid JSON"),
    "bom": (b"\xef\xbb\xbf" + plain(), "not valid JSON"),
    "latin-1": (plain().replace(b"Female", b"Fem\xe4le"), "not valid JSON"),
    "lone surrogate": (plain().replace(b"Female", b"\\ud800"), "not valid JSON"),
    "duplicate key": (plain().replace(b'"epsilon"', b'"epsilon":0.05,"epsilon"'), "'epsilon' occurs twice"),
    "hidden duplicate": (plain().replace(b'"epsilon"', b'"\\u0065psilon":0.05,"epsilon"'), "occurs twice"),
    "deep": (b"[" * 500_000, "nested too deeply"),
    "many lists": (b"[" + b"[]," * 2_000_000 + b"[]]", "2,000,002 lists; at most 1,048,576 are allowed"),
    "deep object": (b'{"a":' * 500_000, "nested too deeply"),
    "list": (b"[]", "no predicateType"),
    "number": (b"17", "no predicateType"),
    "null": (b"null", "no predicateType"),
    "another kind": (b'{"predicateType": 3}', "another kind"),
    "huge integer": (plain().replace(b"400", b"4" + b"0" * 5000), "not valid JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name):
    content, message = HOSTILE[name]

    with pytest.raises(DocumentError, match=message):
        read_document(content)


def test_large_files_are_not_read_to_their_end(tmp_path):
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(40 * MAX_BYTES)

    with pytest.raises(DocumentError, match="16 MB"):
        read_document(path)


@pytest.mark.slow
def test_a_large_file_of_nothing_but_lists_is_refused():
    content = b"[" + b"[]," * (MAX_BYTES // 40) + b"[]]"

    with pytest.raises(DocumentError, match="no predicateType"):
        read_document(content)


@pytest.mark.parametrize("path", ["absent.json", "."])
def test_paths_that_are_no_files(tmp_path, path):
    with pytest.raises(FileError, match="cannot be read"):
        read_document(tmp_path / path)


WRONG = [
    (("predicate", "certificate", "bound"), "0.1"),
    (("predicate", "certificate", "bound"), -0.1),
    (("predicate", "certificate", "bound"), True),
    (("predicate", "certificate", "confidence"), 1),
    (("predicate", "certificate", "metric"), "fairness"),
    (("predicate", "certificate", "candidates"), 10**400),
    (("predicate", "certificate", "candidates"), 0),
    (("predicate", "certificate", "parts"), []),
    (("predicate", "certificate", "parts"), {}),
    (("predicate", "certificate", "witnesses", 0, "cells"), [99]),
    (("predicate", "certificate", "counts"), []),
    (("predicate", "certificate", "counts", "table"), "table"),
    (("predicate", "certificate", "counts", "table"), {}),
    (("predicate", "certificate", "counts", "table", 0), [1]),
    (("predicate", "certificate", "counts", "table", 0), [1, 2.5]),
    (("predicate", "certificate", "counts", "table", 0), [1, -2]),
    (("predicate", "certificate", "counts", "table", 0), [1, None]),
    (("predicate", "certificate", "counts", "table", 0), [True, False]),
    (("predicate", "certificate", "counts", "table", 0), [2**62, 2**62]),
    (("predicate", "certificate", "counts", "groups"), ["Female", "Female"]),
    (("predicate", "certificate", "counts", "groups"), ["Female", 3]),
    (("predicate", "selection", "tried"), 0),
    (("predicate", "selection", "correction"), "luck"),
    (("predicate", "created"), "yesterday"),
    (("predicate", "tool"), None),
    (("predicate", "command"), "x" * 200_000),
    (("predicate", "suppression"), {"below": 1, "still_small": []}),
    (("predicate", "surprise"), "unknown fields would be taken for checked ones"),
    (("predicate", "certificate", "surprise"), 1),
    (("surprise",), 1),
    (("subject", 0, "digest", "sha256"), "00"),
    (("subject", 0, "name"), "somebody else"),
    (("subject",), None),
    (("_type",), "https://in-toto.io/Statement/v2"),
]


@pytest.mark.parametrize(
    ("path", "to"), WRONG, ids=lambda v: ".".join(map(str, v)) if isinstance(v, tuple) else repr(v)[:20]
)
def test_wrong_types_and_ranges_are_refused(path, to):
    with pytest.raises(DocumentError, match="Not a certificate"):
        read_document(changed(plain(), *path, to=to))


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("payload",), "not base64 §"),
        (("payload",), json.loads(signed())["payload"] + "!"),
        (("payload",), 3),
        (("payload",), base64.b64encode(b"{}").decode()),
        (("payload",), base64.b64encode(b"[" * 100_000).decode()),
        (("payloadType",), "text/plain"),
        (("signatures",), []),
        (("signatures",), [{"sig": "AAAA", "keyid": "a"}] * 100),
        (("signatures", 0), {"keyid": "a"}),
        (("surprise",), 1),
    ],
)
def test_broken_envelopes_are_refused(path, to):
    with pytest.raises(DocumentError):
        read_document(changed(signed(), *path, to=to))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def places(document, prefix=()):
    yield prefix
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for step, child in children:
        if isinstance(child, dict | list):
            yield from places(child, (*prefix, step))
        else:
            yield (*prefix, step)


@given(st.data())
def test_any_value_anywhere_is_read_or_refused(data):
    """No value at any place of a document leads to anything but a document or an error of ours."""
    document = json.loads(plain(suppress_below=10))
    *path, last = data.draw(st.sampled_from([p for p in places(document) if p]))
    place = document
    for step in path:
        place = place[step]
    place[last] = data.draw(JSON)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            content = canonical(document)
            read_document(content)
        except CertifareError:
            pass


# -- what a statement takes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [
        {"selection": {"tried": 0, "correction": "none"}},
        {"selection": "many"},
        {"reading": {"sensitive": "sex"}},
        {"encoder_digest": "no digest"},
        {"tool": {"name": "certifare"}},
    ],
)
def test_arguments_of_a_statement_are_checked(context):
    with pytest.raises(ArgumentError):
        make_statement(certificate(), **context)


def test_several_candidates_are_simultaneous_unless_said_otherwise():
    assert make_statement(certificate(candidates=7)).predicate.selection.correction == "simultaneous"
    stated = make_statement(in_sequence()).predicate
    assert (stated.selection.tried, stated.selection.correction) == (5, "sequence")
    assert "above 0.2500 between" in stated.claim.words
    assert make_statement(certificate()).predicate.selection.correction == "none"


def test_claims_in_words():
    words = make_statement(certificate()).predicate.claim.words
    assert words.startswith(
        "With 95 % confidence, no classifier, score or rule that sees only the cell of a record has"
    )
    assert words.endswith("between the groups 'Female' and 'Male' among records with a known group.")
    assert "a demographic parity distance above 0." in words
    hopeless = certify_counts(CellCounts([[50, 0], [0, 50]], groups=["a", "b"]))
    assert "No bound below 1" in make_statement(hopeless).predicate.claim.words
    labelled = CellCounts(np.full((2, 3, 2), 500), groups="abc", labels=["n", "y"])
    claims = {
        m: make_statement(certify_counts(labelled, m)).predicate.claim for m in ("equal_opportunity", "equalized_odds")
    }
    assert "has an equal opportunity distance" in claims["equal_opportunity"].words
    assert "between any two of the groups 'a', 'b' and 'c'" in claims["equal_opportunity"].words
    assert "E[g | s, y = 'y']" in claims["equal_opportunity"].formula
    assert "mean over y" in claims["equalized_odds"].formula


def test_a_high_confidence_is_not_called_certainty():
    predicate = make_statement(certificate(confidence=0.99999996)).predicate
    assert "99.999996 %" in predicate.claim.words
    assert "≥ 0.99999996, " in predicate.claim.formula
    assert predicate.epsilon == 4e-8


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text("old")

    with pytest.raises(FileError):
        write_document(tmp_path / "absent" / "certificate.json", certificate())
    with pytest.raises(ArgumentError):
        write_document(path, certificate(), reading={"sensitive": 3})

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_values_are_immutable():
    document = read_document(plain())
    with pytest.raises((AttributeError, msgspec.MsgspecError)):
        document.statement.predicate.epsilon = 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opening", "inner"), [(b"[", b"[],"), (b"[", b"{},"), (b'{"a":[', b"{},"), (b'{"a":[', b"[{}],")]
)
def test_lists_and_objects_are_counted_together_up_to_the_most(opening, inner):
    """As many as are accepted are read, and one more is not, whatever they are and however they lie in one another."""
    closing = b"]}" if opening.startswith(b"{") else b"]"
    each = inner.count(b"[") + inner.count(b"{")
    outer = opening.count(b"[") + opening.count(b"{")
    whole, rest = divmod(MOST_LISTS - outer, each)

    def content(more):
        return opening + inner * whole + b"[]," * (rest + more) + b"0" + closing

    for more, message in ((0, "no predicateType"), (1, "1,048,577 lists; at most 1,048,576 are allowed")):
        found = content(more)
        assert found.count(b"[") + found.count(b"{") == MOST_LISTS + more
        with pytest.raises(DocumentError, match=message):
            read_document(found)


def test_a_file_as_large_as_is_accepted_is_read(tmp_path):
    """Trailing blanks make it as long as one likes."""
    content = plain()
    path = tmp_path / "certificate.json"
    for more, read in ((0, True), (1, False)):
        path.write_bytes(content + b" " * (MAX_BYTES - len(content) + more))
        for source in (path, path.read_bytes()):
            if read:
                assert read_document(source).certificate == certificate()
            else:
                with pytest.raises(DocumentError, match="larger than 16 MB"):
                    read_document(source)
