"""One policy: what passes, and what each refusal says."""

import base64
import json

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from certifare import CellCounts, CertifareError, certify_counts
from certifare.document import new_key, sign, statement, verify_document, write_document
from certifare.document.statement import PREDICATE, canonical
from certifare.errors import ArgumentError, CertificateFormatError, NewerVersionError

from .documents import certificate, changed, fixed_key, plain, signed


def refusal(verdict):
    """The message of the one check that failed."""
    assert not verdict.passed
    (failure,) = verdict.failures
    return failure


@pytest.fixture
def bundle(tmp_path):
    """A producer's files: encoder, signed certificate, keys."""
    private, _ = new_key(tmp_path / "producer")
    encoder = tmp_path / "encoder.json"
    encoder.write_bytes(b'{"an encoder": "of any content"}')
    write_document(tmp_path / "certificate.json", certificate(), private, encoder=encoder, suppress_below=10)
    return tmp_path


def test_everything_in_order(bundle):
    verdict = verify_document(
        bundle / "certificate.json", key=bundle / "producer.pub.pem", encoder=bundle / "encoder.json", max_bound=0.3
    )

    assert verdict.passed
    assert [check.ok for check in verdict.checks] == [True] * 7
    assert verdict.bound == certificate().bound
    assert str(verdict).endswith("PASS")


def test_a_folder_stands_for_the_certificate_in_it(bundle):
    assert verify_document(bundle, encoder=bundle / "encoder.json").passed


def test_what_was_not_checked_is_said(bundle):
    checks = {check.name: check for check in verify_document(bundle / "certificate.json").checks}

    assert checks["signature"].ok is None
    assert "give the public key" in checks["signature"].message
    assert checks["encoder"].ok is None
    assert {name for name, check in checks.items() if check.ok} == {"version", "statement", "figures", "validity"}
    unsigned = {check.name: check for check in verify_document(plain()).checks}
    assert unsigned["signature"].ok is None
    assert "not signed" in unsigned["signature"].message


# -- tampering: each with its own message ---------------------------------------------------------------------------


def test_one_count_changed(bundle):
    content = changed(plain(), "predicate", "certificate", "counts", "table", 0, 0, to=399)

    verdict = verify_document(content)

    assert not verdict.passed
    figures = next(check for check in verdict.checks if check.name == "figures")
    assert "states bound" in figures.message
    assert "its counts give" in figures.message


def test_one_count_changed_in_a_signed_document():
    envelope = json.loads(signed())
    payload = changed(
        base64.b64decode(envelope["payload"]), "predicate", "certificate", "counts", "table", 0, 0, to=399
    )
    envelope["payload"] = base64.b64encode(payload).decode()

    verdict = verify_document(json.dumps(envelope).encode(), key=fixed_key().public_key)

    assert {check.name for check in verdict.failures} == {"signature", "statement", "figures"}
    assert "altered after signing" in verdict.failures[0].message


def test_a_count_moved_so_that_the_figures_stay():
    """Counts that give the same figures are not noticed by recomputing, but by digest and signature."""
    content = changed(
        plain(), "predicate", "certificate", "counts", "table", to=[[400, 300], [8, 5], [290, 402], [2, 9], [0, 0]]
    )

    assert "digest of the counts" in refusal(verify_document(content)).message


def test_one_byte_of_the_encoder_changed(bundle):
    (bundle / "encoder.json").write_bytes(b'{"an encoder": "of any conten7"}')

    failure = refusal(verify_document(bundle, key=bundle / "producer.pub.pem", encoder=bundle / "encoder.json"))

    assert failure.name == "encoder"
    assert "not the certified one" in failure.message


def test_no_encoder_was_certified(bundle):
    document = sign(statement(certificate()), None).to_bytes()

    assert "names no encoder" in refusal(verify_document(document, encoder=bundle / "encoder.json")).message


def test_the_wrong_key(bundle):
    new_key(bundle / "other")

    failure = refusal(verify_document(bundle, key=bundle / "other.pub.pem"))

    assert failure.name == "signature"
    assert "signed with another key" in failure.message


def test_a_key_but_no_signature(bundle):
    failure = refusal(verify_document(plain(), key=bundle / "producer.pub.pem"))

    assert failure.name == "signature"
    assert "is not signed" in failure.message


def test_an_expired_version():
    failure = refusal(verify_document(changed(plain(), "predicateType", to=f"{PREDICATE}0")))

    assert failure.name == "version"
    assert "expired" in failure.message


def test_a_newer_version_cannot_be_judged():
    with pytest.raises(NewerVersionError, match="install a newer certifare"):
        verify_document(changed(plain(), "predicateType", to=f"{PREDICATE}2"))


def test_a_forged_signature(bundle):
    envelope = json.loads((bundle / "certificate.json").read_bytes())
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    (bundle / "certificate.json").write_text(json.dumps(envelope))

    assert "forged" in refusal(verify_document(bundle, key=bundle / "producer.pub.pem")).message


def test_the_name_of_a_key_proves_nothing():
    """A signature that names the expected key but was made with another is refused; the reverse passes."""
    envelope = json.loads(signed(seed=9))
    envelope["signatures"][0]["keyid"] = fixed_key(7).public_key.keyid

    content = json.dumps(envelope).encode()

    assert not verify_document(content, key=fixed_key(7).public_key).passed
    assert verify_document(content, key=fixed_key(9).public_key).passed


def test_one_good_signature_among_several_suffices():
    envelope = json.loads(signed(seed=9))
    envelope["signatures"] += json.loads(signed(seed=7))["signatures"]

    assert verify_document(json.dumps(envelope).encode(), key=fixed_key(7).public_key).passed


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("claim", "words"), "Nobody is ever treated differently.", "the claim does not say"),
        (("claim", "formula"), "0 = 0", "the claim does not say"),
        (("epsilon",), 0.01, "ε is not"),
        (("groups", 0, "records"), 70_000, "stated numbers of records"),
        (("groups", 0, "name"), "Everyone", "stated numbers of records"),
        (("selection",), {"tried": 40, "correction": "simultaneous"}, "trying several encoders"),
        (("selection",), {"tried": 40, "correction": "none"}, "trying several encoders"),
        (("suppression", "pooled"), [[1, 4], [0, 3]], "not pooled as stated"),
        (("suppression", "pooled"), [[1, 4], [2, 99]], "not pooled as stated"),
        (("suppression", "pooled"), [[1, 4], [4, 2]], "not pooled as stated"),
        (("suppression", "still_small"), [], "not pooled as stated"),
        (("suppression", "below"), 20, None),
    ],
)
def test_words_that_the_figures_do_not_support(path, to, message):
    verdict = verify_document(changed(plain(suppress_below=10), "predicate", *path, to=to))

    if message is None:  # the same cells are small at 20
        assert verdict.passed
    else:
        assert message in refusal(verdict).message


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("bound",), 0.01),
        (("estimate",), 0.01),
        (("lower",), 0.0),
        (("confidence",), 0.99),
        (("candidates",), 3),
        (("parts", 0, "bound"), 0.01),
        (("parts", 0, "records"), [1, 2]),
        (("parts", 0, "groups"), ["Male", "Female"]),
        (("witnesses", 0, "cells"), [0, 2]),
        (("witnesses", 0, "groups"), ["Male", "Nobody"]),
        (("metric",), "equalized_odds"),
        (("method",), "lemmas"),
        (("method",), "luck"),
    ],
)
def test_figures_that_the_counts_do_not_support(path, to):
    try:
        verdict = verify_document(changed(plain(), "predicate", "certificate", *path, to=to))
    except CertificateFormatError:
        assert path == ("metric",)  # labels are missing: no such certificate can be
        return
    assert "figures" in {check.name for check in verdict.failures}


def test_a_certificate_that_calls_itself_void():
    void = msgspec.structs.replace(
        certificate(), assumptions=("VOID: 12 of 90 records occur among the training records.",)
    )

    failure = refusal(verify_document(sign(statement(void), None).to_bytes()))

    assert failure.name == "validity"
    assert "VOID: 12 of 90" in failure.message


# -- the bound and the classifier ------------------------------------------------------------------------------------


def test_the_largest_bound_accepted():
    bound = certificate().bound

    assert verify_document(plain(), max_bound=bound).passed
    failure = refusal(verify_document(plain(), max_bound=bound - 1e-6))
    assert failure.name == "bound"
    assert "above the" in failure.message
    for nonsense in (-0.1, 1.5, float("nan")):
        with pytest.raises(ArgumentError, match=r"lies in \[0, 1\]"):
            verify_document(plain(), max_bound=nonsense)


def test_a_classifier_of_the_consumer():
    document = plain()

    verdict = verify_document(document, predictions=[1, 1, 0, 0, 0])
    (check,) = [c for c in verdict.checks if c.name == "classifier"]
    assert str(certificate().for_classifier([1, 1, 0, 0, 0])) in check.message
    assert verify_document(document, predictions=[1] * 5, max_bound=0.05).passed  # a constant classifier
    assert refusal(verify_document(document, predictions=[1, 1, 0, 0, 0], max_bound=0.05)).name == "classifier"
    with pytest.raises(ArgumentError, match="one entry for each of the 5 cells"):
        verify_document(document, predictions=[1, 0])


def test_a_classifier_that_parts_a_pool():
    document = plain(suppress_below=10)

    whole = verify_document(document, predictions=[1, 0, 1, 1, 0])
    assert "The distance of this classifier" in whole.checks[-1].message
    parted = verify_document(document, predictions=[1, 1, 1, 1, 0])
    assert parted.checks[-1].ok is None
    assert "cells 1, 4" in parted.checks[-1].message
    assert not verify_document(document, predictions=[1, 1, 1, 1, 0], max_bound=0.1).passed


# -- files made to waste time ---------------------------------------------------------------------------------------


def test_too_many_groups_to_recompute():
    counts = CellCounts(np.full((2, 200), 10**5), groups=range(200))
    small = certify_counts(counts.of_groups(0, 1), method="mcdiarmid")
    document = sign(statement(small), None).statement.to_dict()
    document["predicate"]["certificate"]["counts"] = counts.to_dict()

    with pytest.raises(ArgumentError, match="19,900 pairs"):
        verify_document(canonical(document))


def test_parts_missing():
    assert (
        "lists 2 bounds for 1 pairs"
        in verify_document(
            changed(
                plain(),
                "predicate",
                "certificate",
                "parts",
                to=json.loads(plain())["predicate"]["certificate"]["parts"] * 2,
            )
        )
        .failures[0]
        .message
    )


# -- the policy as a whole -------------------------------------------------------------------------------------------


SCALARS = st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(0, 1) | st.text(max_size=4)


def leaves(document, prefix=()):
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for step, child in children:
        yield from leaves(child, (*prefix, step)) if isinstance(child, dict | list) else [(*prefix, step)]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_change_anywhere_goes_unnoticed_under_a_signature(data):
    envelope = json.loads(signed())
    payload = base64.b64decode(envelope["payload"])
    document = json.loads(payload)
    path = data.draw(st.sampled_from(list(leaves(document))))
    altered = changed(payload, *path, to=data.draw(SCALARS))
    assume(json.loads(altered) != document)
    envelope["payload"] = base64.b64encode(altered).decode()
    try:
        verdict = verify_document(json.dumps(envelope).encode(), key=fixed_key().public_key)
    except CertifareError:
        return
    assert not verdict.passed


def test_verdicts_are_plain_data(bundle):
    verdict = verify_document(bundle, max_bound=0.01)

    document = json.loads(json.dumps(verdict.to_dict()))
    assert document["passed"] is False
    assert document["claim"] == verdict.claim
    assert [c["name"] for c in document["checks"]] == [c.name for c in verdict.checks]
    assert str(verdict).endswith("FAIL")
