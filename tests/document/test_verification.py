"""One policy: what passes, and what each refusal says."""

import ast
import base64
import json
import re
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from certifare import (
    CalibratedEncoder,
    CellCounts,
    CertifareError,
    FairTreeEncoder,
    Policy,
    certify_counts,
    one_per_cluster,
    thin,
)
from certifare.certificates import Exclusion, Tail, Witness
from certifare.certificates.assumptions import ASSUMPTIONS, READS_GROUP, SET_THRESHOLDS
from certifare.certificates.looks import Look
from certifare.document import digest, make_statement, new_key, sign, verify_document, write_document
from certifare.document.statement import PREDICATE, canonical
from certifare.document.verification import ANY
from certifare.errors import ArgumentError, DocumentError
from certifare.tables.reading import Reading

from .documents import certificate, changed, encoder_of, fixed_key, in_sequence, plain, signed


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
    encoder_of(range(5)).save(encoder)
    write_document(tmp_path / "certificate.json", certificate(), private, encoder=encoder, suppress_below=10)
    return tmp_path


def test_everything_in_order(bundle):
    verdict = verify_document(
        bundle / "certificate.json",
        Policy(max_bound=0.3),
        key=bundle / "producer.pub.pem",
        encoder=bundle / "encoder.json",
    )

    assert verdict.passed
    assert {check.name: check.ok for check in verdict.checks} == {
        **dict.fromkeys(("version", "signature", "statement", "figures", "validity", "encoder"), True),
        **dict.fromkeys(("confidence", "bound"), True),
        "data": None,
    }
    assert verdict.bound == certificate().bound
    assert str(verdict).endswith("PASS")


def test_a_folder_stands_for_the_certificate_in_it(bundle):
    assert verify_document(bundle, encoder=bundle / "encoder.json").passed


def test_what_was_not_checked_is_said(bundle):
    checks = {check.name: check for check in verify_document(bundle / "certificate.json").checks}

    assert checks["signature"].ok is None
    assert "give the public key" in checks["signature"].message
    assert checks["encoder"].ok is None
    assert {name for name, check in checks.items() if check.ok} == {
        "version", "statement", "figures", "validity", "confidence"
    }  # fmt: skip
    verdict = verify_document(bundle / "certificate.json")
    assert verdict.outcome == "PASS"
    assert verdict.to_dict()["unchecked"] == ["signature", "encoder", "data"]
    unsigned = {check.name: check for check in verify_document(plain()).checks}
    assert unsigned["signature"].ok is None
    assert "not signed" in unsigned["signature"].message


# -- tampering: each with its own message -----------------------------------------------------------------------------


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
    content = bytearray((bundle / "encoder.json").read_bytes())
    content[-3] ^= 1
    (bundle / "encoder.json").write_bytes(content)

    failure = refusal(verify_document(bundle, key=bundle / "producer.pub.pem", encoder=bundle / "encoder.json"))

    assert failure.name == "encoder"
    assert "not the certified one" in failure.message


def test_no_encoder_was_certified(bundle):
    document = sign(make_statement(certificate()), None).to_bytes()

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
    with pytest.raises(DocumentError, match="Install a newer"):
        verify_document(changed(plain(), "predicateType", to=f"{PREDICATE}5"))


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
        (("certificate", "pools"), [], "not pooled as stated"),
        (("certificate", "pools"), [[1, 4]], "not pooled as stated"),
        (("suppression", "still_small"), [], "not pooled as stated"),
        (("suppression", "below"), 20, None),
        (("reading", "cluster"), "home", "its records were not read as it says"),
        (("reading", "weight"), "w", "its records were not read as it says"),
        (("reading", "positive"), ">50K", "its records were not read as it says"),
        (("reading", "kept_groups"), ["Female"], "its records were not read as it says"),
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
        (("method",), "calibrated"),
    ],
)
def test_figures_that_the_counts_do_not_support(path, to):
    try:
        verdict = verify_document(changed(plain(), "predicate", "certificate", *path, to=to))
    except DocumentError:
        # Labels, a group or a sample are missing: no such certificate can be.
        assert (path[-1], to) in [
            ("metric", "equalized_odds"),
            ("groups", ["Male", "Nobody"]),
            ("method", "calibrated"),
        ]
        return
    assert "figures" in {check.name for check in verdict.failures}


def test_a_certificate_that_calls_itself_void():
    void = msgspec.structs.replace(
        certificate(), assumptions=("VOID: 12 of 90 records occur among the training records.", *ASSUMPTIONS[1:])
    )

    failure = refusal(verify_document(sign(make_statement(void), None).to_bytes()))

    assert failure.name == "validity"
    assert "VOID: 12 of 90" in failure.message


# -- the bound and the classifier -------------------------------------------------------------------------------------


def test_the_largest_bound_accepted():
    bound = certificate().bound

    assert verify_document(plain(), Policy(max_bound=bound)).passed
    failure = refusal(verify_document(plain(), Policy(max_bound=bound - 1e-6)))
    assert failure.name == "bound"
    assert "above the" in failure.message
    for nonsense in (-0.1, 1.5, float("nan")):
        with pytest.raises(ArgumentError, match=r"give a distance in"):
            verify_document(plain(), Policy(max_bound=nonsense))


def test_a_classifier_of_the_consumer():
    document = plain()

    verdict = verify_document(document, predictions=[1, 1, 0, 0, 0])
    (check,) = [c for c in verdict.checks if c.name == "classifier"]
    assert str(certificate().for_classifier([1, 1, 0, 0, 0])) in check.message
    assert verify_document(document, Policy(max_bound=0.05), predictions=[1] * 5).passed  # a constant classifier
    assert refusal(verify_document(document, Policy(max_bound=0.05), predictions=[1, 1, 0, 0, 0])).name == "classifier"
    with pytest.raises(ArgumentError, match="for 5 cells: give one for each"):
        verify_document(document, predictions=[1, 0])


def test_a_classifier_that_is_nearly_the_worst_has_the_bound_of_all():
    """Its interval has half of ε on each side, and so may reach above T*, which holds for it as well."""
    counts = CellCounts([[700, 300], [300, 700]], ["f", "m"])
    document, worst = sign(make_statement(certify_counts(counts)), None), [1, 0]
    bound, upper = certify_counts(counts).bound, certify_counts(counts).for_classifier(worst).upper
    assert bound < upper
    verdict = verify_document(document, Policy(max_bound=bound), predictions=worst)
    assert verdict.passed
    (check,) = [c for c in verdict.checks if c.name == "classifier"]
    assert "holds for it as for every other" in check.message
    assert refusal(verify_document(document, Policy(max_bound=bound - 1e-4), predictions=worst)).name == "classifier"


def test_a_classifier_that_parts_a_pool():
    document = plain(suppress_below=10)

    def classifier(*predictions):
        checks = verify_document(document, predictions=predictions).checks
        return next(check for check in checks if check.name == "classifier")

    assert "The distance of this classifier" in classifier(1, 0, 1, 1, 0).message
    parted = classifier(1, 1, 1, 1, 0)
    assert parted.ok is None
    assert "cells 1, 4" in parted.message
    assert not verify_document(document, Policy(max_bound=0.1), predictions=[1, 1, 1, 1, 0]).passed


# -- What a verifier requires -----------------------------------------------------------------------------------------


def test_a_bound_at_hardly_any_confidence_is_refused():
    """T* = .03 is easily had at a confidence of one half, the least that there is."""
    sloppy = certify_counts(CellCounts([[600, 590], [400, 410]], groups=["f", "m"]), confidence=0.5)
    content = sign(make_statement(sloppy), None).to_bytes()
    assert sloppy.bound < 0.03

    failure = refusal(verify_document(content, Policy(max_bound=0.03)))

    assert failure.name == "confidence"
    assert "50 %" in failure.message
    assert "95 %" in failure.message
    assert verify_document(content, Policy(max_bound=0.03, min_confidence=0.0)).passed


def test_the_confidence_that_counts_is_the_joint_one():
    """Twenty candidates at 90 % together have 99.5 % each: it is the 90 % that counts."""
    many = sign(make_statement(certificate(confidence=0.9, candidates=20)), None).to_bytes()

    assert refusal(verify_document(many, Policy())).name == "confidence"
    assert verify_document(many, Policy(min_confidence=0.9)).passed


AGO = datetime.now(UTC) - timedelta(days=40)
DAY = AGO.date()


@pytest.mark.parametrize(
    ("policy", "failing"),
    [
        (Policy(min_confidence=0.95), None),
        (Policy(min_confidence=0.951), "confidence"),
        (Policy(metrics=["demographic_parity"]), None),
        (Policy(metrics=["equalized_odds", "demographic_parity"]), None),
        (Policy(metrics=["equalized_odds"]), "metric"),
        (Policy(groups=["Male"]), None),
        (Policy(groups=["Male", "Female"]), None),
        (Policy(groups=["Male", "Other"]), "groups"),
        (Policy(max_looks=1_000), "looks"),
        (Policy(require_signature=True), "signature"),
        (Policy(require_encoder=True), "encoder"),
    ],
)
def test_each_requirement_of_a_policy_passes_or_fails_by_name(policy, failing):
    created = AGO.strftime("%Y-%m-%dT%H:%M:%SZ")
    content = sign(make_statement(certificate(candidates=3), created=created), None).to_bytes()

    verdict = verify_document(content, policy)

    assert [check.name for check in verdict.failures] == ([] if failing is None else [failing])
    assert verdict.outcome == ("PASS" if failing is None else "FAIL")


def test_a_required_signature_and_encoder_pass_once_they_are_shown(bundle):
    files = {"key": bundle / "producer.pub.pem", "encoder": bundle / "encoder.json"}
    both = Policy(require_signature=True, require_encoder=True)

    assert verify_document(bundle / "certificate.json", both, **files).passed
    unshown = verify_document(bundle / "certificate.json", both)
    assert {check.name for check in unshown.failures} == {"signature", "encoder"}


def test_a_day_that_no_month_has_is_refused():
    with pytest.raises(DocumentError):
        verify_document(changed(plain(), "predicate", "created", to="2030-02-30T12:00:00Z"))


def test_a_certificate_whose_looks_were_not_counted_does_not_meet_a_number_of_looks():
    assert "was not counted" in refusal(verify_document(plain(), Policy(max_looks=1))).message


@pytest.mark.parametrize(
    "nonsense",
    [
        {"min_confidence": 1.0}, {"min_confidence": -0.1}, {"min_confidence": float("nan")}, {"min_confidence": "0.9"},
        {"max_bound": 1.5}, {"max_bound": True}, {"metrics": "demographic_parity"}, {"metrics": ["luck"]},
        {"groups": "m"}, {"groups": [1]}, {"max_looks": 0}, {"max_looks": 1.5}, {"require_signature": "no"},
    ],
)  # fmt: skip
def test_policies_that_mean_nothing_are_refused(nonsense):
    with pytest.raises(CertifareError, match=str(next(iter(nonsense)))[:5] if "metrics" not in nonsense else "metric"):
        Policy(**nonsense)


# -- What must agree --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_encoder_with_another_number_of_cells_is_refused(tmp_path):
    """A certificate on one cell says nothing about an encoder of four, though it names that encoder's digest."""
    encoder = tmp_path / "encoder.json"
    encoder_of(range(4)).save(encoder)
    one = certify_counts(CellCounts([[1000, 1000]], groups=["f", "m"]))
    write_document(tmp_path / "certificate.json", one, encoder_digest=digest(encoder))

    failure = refusal(verify_document(tmp_path))

    assert failure.name == "encoder"
    assert "has 4 cells, and the certificate counts 1" in failure.message


def test_a_certified_file_that_is_no_encoder(tmp_path):
    (tmp_path / "encoder.json").write_text("{}")
    write_document(tmp_path / "certificate.json", certificate(), encoder_digest=digest(b"{}"))

    assert "cannot be used as an encoder" in refusal(verify_document(tmp_path)).message


@pytest.mark.parametrize("name", ["assumptions", "not_claimed"])
def test_what_is_assumed_and_not_claimed_must_be_said(name):
    for texts in ([], json.loads(plain())["predicate"]["certificate"][name][1:], ["Nothing can go wrong."]):
        verdict = verify_document(changed(plain(), "predicate", "certificate", name, to=texts))

        assert "is missing in part" in next(check for check in verdict.failures if check.name == "statement").message


def test_more_candidates_than_were_tried():
    content = changed(plain(), "predicate", "selection", "tried", to=1)
    assert verify_document(content).passed
    few = sign(
        make_statement(certificate(candidates=3), selection={"tried": 2, "correction": "holdout"}), None
    ).to_bytes()
    assert "trying several encoders" in refusal(verify_document(few)).message


@pytest.mark.parametrize("correction", ["holdout", "sequence"])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_as_many_encoders_were_tried_as_were_corrected_for_or_more(correction, more):
    made = in_sequence() if correction == "sequence" else certificate(candidates=5)
    selection = {"tried": 5 + more, "correction": correction}
    verdict = verify_document(sign(make_statement(made, selection=selection), None).to_bytes())
    assert verdict.passed is (more >= 0)


def test_a_subject_named_twice():
    document = json.loads(plain())
    document["subject"].append({"name": "encoder", "digest": {"sha256": "ff" * 32}})

    assert "a subject twice" in refusal(verify_document(canonical(document))).message


# -- files made to waste time -----------------------------------------------------------------------------------------


def test_too_many_groups_to_recompute():
    counts = CellCounts(np.full((2, 200), 10**5), groups=range(200))
    small = certify_counts(counts.of_groups(0, 1))
    document = sign(make_statement(small), None).statement.to_dict()
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


# -- the policy as a whole --------------------------------------------------------------------------------------------


SCALARS = st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(0, 1) | st.text(max_size=4)


def leaves(document, prefix=()):
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for step, child in children:
        yield from leaves(child, (*prefix, step)) if isinstance(child, dict | list) else [(*prefix, step)]


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
    verdict = verify_document(bundle, Policy(max_bound=0.01))

    document = json.loads(json.dumps(verdict.to_dict()))
    assert document["passed"] is False
    assert document["claim"] == verdict.claim
    assert [c["name"] for c in document["checks"]] == [c.name for c in verdict.checks]
    assert str(verdict).endswith("FAIL")


# -- fixed sequences --------------------------------------------------------------------------------------------------


@pytest.fixture
def walked(tmp_path):
    """A producer's files, with a certificate by a fixed sequence whose second encoder is the published one."""
    encoder = encoder_of(range(5))
    encoder.save(tmp_path / "encoder.json")
    write_document(
        tmp_path / "certificate.json",
        in_sequence(encoder.digest()),
        encoder=tmp_path / "encoder.json",
        selection={"tried": 40, "correction": "sequence"},
        suppress_below=10,
    )
    return tmp_path


def test_a_sequence_is_verified(walked):
    verdict = verify_document(walked, Policy(max_bound=0.25), encoder=walked / "encoder.json")
    assert verdict.passed, verdict
    assert verdict.bound == 0.25
    checks = {check.name: check.message for check in verdict.checks}
    assert "the limits of all 3 encoders that were tested against it" in checks["figures"]
    assert not verify_document(walked, Policy(max_bound=0.24)).passed


@pytest.mark.parametrize(
    ("path", "to", "check", "message"),
    [
        (("selection", "correction"), "holdout", "statement", "trying several encoders"),
        (("selection", "tried"), 4, "statement", "trying several encoders"),
        (("certificate", "sequence", "steps", 0, "limit"), 0.01, "figures", "Encoder 1 of the sequence states"),
        (("certificate", "sequence", "steps", 2, "limit"), 0.2, "figures", "must go on to the first that fails"),
        (("certificate", "sequence", "steps", 1, "statistics"), [[700, 716, 5]], "figures", "states the limit"),
        (("certificate", "sequence", "steps", 0, "statistics"), [[7, 7, 5]], "figures", "other records"),
        (("certificate", "sequence", "steps", 0, "encoder"), "5f" * 32, "figures", "names an encoder twice"),
        (("certificate", "sequence", "steps", 0, "encoder"), None, "figures", "names some of them only"),
        (("certificate", "assumptions"), list(ASSUMPTIONS), "statement", "missing in part"),
    ],
)
def test_a_sequence_that_was_altered_is_refused(walked, path, to, check, message):
    content = changed((walked / "certificate.json").read_bytes(), "predicate", *path, to=to)
    failures = {failure.name: failure.message for failure in verify_document(content).failures}
    assert message in failures[check]


def test_one_encoder_cannot_be_all_of_a_sequence(walked):
    document = json.loads((walked / "certificate.json").read_bytes())
    steps = document["predicate"]["certificate"]["sequence"]["steps"]
    for step in steps:
        step["encoder"] = steps[1]["encoder"]
    failure = refusal(verify_document(json.dumps(document).encode(), encoder=walked / "encoder.json"))
    assert "names an encoder twice" in failure.message


def test_a_sequence_without_its_correction_and_the_other_way_round():
    document = make_statement(certificate(), selection={"tried": 40, "correction": "sequence"})
    assert "trying several encoders" in refusal(verify_document(sign(document, None).to_bytes())).message


def test_the_encoder_must_be_the_last_that_passed(walked):
    """Its file may be the certified one, byte by byte: the digest of its content must be that of the sequence."""
    write_document(
        walked / "certificate.json",
        in_sequence("6a" * 32),
        encoder=walked / "encoder.json",
        selection={"tried": 40, "correction": "sequence"},
    )
    failure = refusal(verify_document(walked, encoder=walked / "encoder.json"))
    assert failure.name == "encoder"
    assert "not the last one that passed" in failure.message


def test_the_digest_of_an_encoder_does_not_depend_on_published_statistics(tmp_path):
    from certifare.encoders.format import EncoderFile, digest_of

    encoder = encoder_of([0, 1, 2])
    for statistics in (True, False):
        encoder.save(tmp_path / "encoder.json", statistics=statistics)
        assert digest_of(EncoderFile(tmp_path / "encoder.json").document) == encoder.digest()
    assert encoder_of([0, 1, 3]).digest() != encoder.digest()


def test_a_sequence_that_would_take_too_long_is_refused(walked):
    document = json.loads((walked / "certificate.json").read_bytes())
    steps = document["predicate"]["certificate"]["sequence"]["steps"]
    document["predicate"]["certificate"]["sequence"]["steps"] = [steps[0]] * 60_000
    with pytest.raises(ArgumentError, match="60,000 encoders in sequence"):
        verify_document(json.dumps(document).encode())


# -- what contradicts itself ------------------------------------------------------------------------------------------


def stated(drawn):
    """A certificate as its producer would write it."""
    return sign(make_statement(drawn), None).to_bytes()


@pytest.mark.parametrize("population", ["clusters", "records"])
def test_a_draw_by_clusters_cannot_be_left_unsaid(population):
    """One visit of each patient was kept: without the phrase the claim would be about all visits."""
    clusters = np.repeat(np.arange(400), np.tile([1, 2, 5, 8], 100))
    sample = one_per_cluster(clusters, population=population, seed=2)
    kept = int(sample.keep.sum())
    honest = certify_counts(CellCounts([[kept // 4, kept // 4], [kept // 4, kept // 4]], "fm"), drawn=sample)
    assert verify_document(stated(honest)).passed
    other = () if honest.population else ("drawn one at random from each cluster",)

    failure = refusal(verify_document(stated(msgspec.structs.replace(honest, population=other))))

    assert failure.name == "figures"
    assert "drawn one at random from each cluster" in failure.message
    for changes in ({"effective_size": None}, {"seed": None}, {"effective_size": None, "seed": None}):
        assert not verify_document(stated(msgspec.structs.replace(honest, **changes))).passed


def test_records_without_a_group_are_counted_or_left_out_and_not_both():
    counts = CellCounts([[400, 300], [290, 402]], "fm", exclusions=[Exclusion("group missing", 9)])
    certificate = certify_counts(counts)
    for unknown in (False, True):
        reading = Reading(sensitive=("sex",), unknown_groups=unknown)
        verdict = verify_document(sign(make_statement(certificate, reading=reading), None).to_bytes())
        assert verdict.passed is not unknown
    assert "its records were not read as it says" in refusal(verdict).message


def test_capped_weights_cannot_be_left_unsaid():
    sample = thin(np.tile([1.0, 3.0, 9.0], 400), cap=2.0, seed=1)
    kept = int(sample.keep.sum())
    counts = CellCounts([[kept // 4, kept // 4], [kept // 4, kept // 4]], "fm")
    honest = certify_counts(counts, drawn=sample, tail=Tail(cap=2.0, largest=9.0, beyond=((9,), (8,))))
    assert verify_document(stated(honest)).passed

    for silent in ({"population": ()}, {"population": (), "counts": counts}):
        failure = refusal(verify_document(stated(msgspec.structs.replace(honest, **silent))))
        assert "in proportion to their weights" in failure.message


@pytest.mark.parametrize("aware", [False, True])
def test_whether_an_encoder_reads_the_group_is_said_as_it_is(tmp_path, aware):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    encoder = CalibratedEncoder(target=0.5, folds=2) if aware else FairTreeEncoder(max_cells=2, min_cell_size=20)
    encoder.fit(rng.normal(size=(400, 2)) + group[:, None], rng.integers(0, 2, 400), sensitive_features=group)
    encoder.save(tmp_path / "encoder.json")
    table = np.full((encoder.n_cells_, 2), 400)
    plainly = certify_counts(CellCounts(table, "fm"))
    by_group = msgspec.structs.replace(plainly, assumptions=(*plainly.assumptions, READS_GROUP))

    for said in (False, True):
        write_document(tmp_path / "c.json", by_group if said else plainly, encoder=tmp_path / "encoder.json")
        verdict = verify_document(tmp_path / "c.json", encoder=tmp_path / "encoder.json")
        if said == aware:
            assert verdict.passed, verdict
        else:
            assert refusal(verdict).name == "encoder"
            assert "read the group" in refusal(verdict).message or "reads the group" in refusal(verdict).message


@pytest.mark.parametrize("name", ["a' and 'b", 'a" and "b', "it's", "\\", "a\nb", "\u202eb"])
def test_a_name_with_quotes_stays_one_name_in_the_words_of_the_claim(name):
    """Two groups, one of which is called "a' and 'b": the words must not read as if there were three."""
    words = make_statement(certify_counts(CellCounts([[300, 200], [100, 90]], [name, "c"]))).predicate.claim.words
    quoted = words[words.index("groups ") + len("groups ") : -1]

    parsed = ast.parse(quoted, mode="eval").body

    assert isinstance(parsed, ast.BoolOp)
    assert [value.value for value in parsed.values] == [name, "c"]
    labels = CellCounts(np.full((2, 2, 2), 200), "fm", ["no", name])
    formula = make_statement(certify_counts(labels, "equal_opportunity", positive=name)).predicate.claim.formula
    assert f"y = {name!r}]" in formula


def test_times_are_written_in_ascii_digits():
    eastern = "".join(chr(0x660 + int(c)) for c in "2030") + "-01-31T12:00:00Z"
    assert datetime.strptime(eastern, "%Y-%m-%dT%H:%M:%SZ").year == 2030  # Python would read it
    with pytest.raises(DocumentError, match="created"):
        verify_document(changed(plain(), "predicate", "created", to=eastern))
    with pytest.raises(DocumentError, match="another kind"):
        verify_document(changed(plain(), "predicateType", to=f"{PREDICATE}{chr(0x662)}"))


# -- what is said of pooled cells -------------------------------------------------------------------------------------


def pooled_certificate(witness=()):
    """Cells 0, 1 and 4 are shown in row 0, cells 2 and 3 in row 2; cell 5 by itself."""
    table = [[400, 300], [3, 1], [290, 402], [2, 9], [5, 4], [500, 700]]
    return sign(make_statement(certify_counts(CellCounts(table, "fm"), witness=witness), suppress_below=10), None)


@pytest.mark.parametrize(
    "pools",
    [
        [[0, 4, 1], [2, 3]],  # not in order
        [[1, 0, 4], [2, 3]],
        [[0, 1, 4], [2, 3], [5]],  # a pool of one
        [[0, 1, 4], [2, 3], []],
        [[0, 1, 4], [2, 3, 5]],  # row 5 is not empty
        [[0, 1, 4], [2, 3, 6]],
        [[-1, 1, 4], [2, 3]],
        [[0, 1, 4], [2, 3, 3]],
        [[0, 1, 4], [2, 4]],
    ],
)
def test_pools_that_are_out_of_order_or_that_the_counts_do_not_show_are_refused(pools):
    document = pooled_certificate()
    assert document.certificate.pools == ((0, 1, 4), (2, 3))
    assert verify_document(document.to_bytes()).passed
    with pytest.raises(DocumentError, match="pool"):
        verify_document(changed(document.to_bytes(), "predicate", "certificate", "pools", to=pools))


def test_a_row_that_no_pool_empties_is_small_and_must_be_named():
    """Row 3 shows 0 records, and without the pool it belongs to nothing says why."""
    content = changed(pooled_certificate().to_bytes(), "predicate", "certificate", "pools", to=[[0, 1, 4]])
    assert "not pooled as stated" in refusal(verify_document(content)).message
    assert verify_document(changed(content, "predicate", "suppression", "still_small", to=[3])).passed


@pytest.mark.parametrize("cells", [(0, 1, 4), (2, 3), (0, 1, 4, 5), ()])
def test_a_witness_holds_pools_as_a_whole(cells):
    document = pooled_certificate([Witness(groups=("f", "m"), label=None, cells=cells)])
    assert verify_document(document.to_bytes()).passed
    # Rows that are empty could be in any set of cells: a set that parts a pool is refused for that alone.
    parted = sorted({*cells} ^ {4})
    with pytest.raises(DocumentError, match="part of a pool"):
        verify_document(changed(document.to_bytes(), "predicate", "certificate", "witnesses", 0, "cells", to=parted))


@pytest.mark.parametrize(("below", "accepted"), [(9, True), (10, True), (292, True), (293, False)])
def test_a_count_below_the_number_is_named(below, accepted):
    """The smallest count that is shown is 292: at 293 its row would be small, and is not named."""
    content = changed(pooled_certificate().to_bytes(), "predicate", "suppression", "below", to=below)
    assert verify_document(content).passed is accepted
    if not accepted:
        named = changed(content, "predicate", "suppression", "still_small", to=[2])
        assert verify_document(named).passed


# -- what is looked at, in what order, and at which edge --------------------------------------------------------------


def test_checks_come_in_order():
    policy = Policy(max_bound=0.9, metrics=["demographic_parity"], groups=["Male"], max_looks=9)
    content = plain(created="2020-01-31T12:00:00Z")
    names = [check.name for check in verify_document(content, policy).checks]
    assert names == [
        "version", "signature", "statement", "figures", "validity", "encoder", "confidence", "metric", "groups",
        "looks", "bound", "data",
    ]  # fmt: skip
    assert [check.name for check in verify_document(content, ANY).checks] == [*names[:6], "data"]


def test_as_many_looks_as_are_accepted():
    third = certificate().at_look(Look(number=3, spent=0.02))
    content = sign(make_statement(third), None).to_bytes()
    for most, accepted in ((2, False), (3, True), (4, True)):
        verdict = verify_document(content, Policy(min_confidence=0.0, max_looks=most))
        assert verdict.passed is accepted
    assert verify_document(content, Policy(min_confidence=0.93)).passed
    assert refusal(verify_document(content, Policy(min_confidence=0.9301))).name == "confidence"


def test_signers_are_named_by_the_beginning_of_their_keys():
    keyid = fixed_key().public_key.keyid
    (check,) = [check for check in verify_document(signed()).checks if check.name == "signature"]
    assert f"(key {keyid[:16]})" in check.message
    envelope = json.loads(signed())
    envelope["signatures"][0]["keyid"] = ""
    (check,) = [c for c in verify_document(json.dumps(envelope).encode()).checks if c.name == "signature"]
    assert "(key unnamed)" in check.message


def test_a_dozen_names_are_listed_and_others_are_counted():
    for n, listed in (
        (12, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."),
        (13, "9, 10, 11, 12 and 1 more."),
        (40, "12 and 28 more."),
    ):
        counts = CellCounts(np.full((2, n), 100), range(1, n + 1))
        content = sign(make_statement(certify_counts(counts)), None).to_bytes()
        (check,) = [c for c in verify_document(content, Policy(groups=["1"])).checks if c.name == "groups"]
        assert check.ok
        assert check.message.endswith(listed)


# -- calibrated cells: the records set the thresholds ------------------------------------------------------------------

PLAN = [[200, 150], [150, 100], [149, 99]]


def calibrated(table=PLAN, **options):
    """A document of a certificate by its plan."""
    counts = CellCounts(table, groups=[f"g{i}" for i in range(len(table[0]))])
    return sign(make_statement(certify_counts(counts, method="calibrated", **options)), None).to_bytes()


def test_a_plan_is_verified_with_a_seed_of_the_verifiers_own():
    verdict = verify_document(calibrated(), Policy(max_bound=0.1))

    assert verdict.passed
    figures = next(check for check in verdict.checks if check.name == "figures")
    assert "random seed of our own" in figures.message


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        (("bound",), lambda bound: 0.98 * bound, "plan that its counts show does not give|single pairs"),
        (("bound",), lambda bound: 1.2 * bound, "plan that its counts show does not give|single pairs"),
        (("lower",), lambda lower: 1.1 * lower, "plan that its counts show does not give"),
        (("parts", 0, "bound"), lambda bound: 0.97 * bound, "single pairs"),
        (("counts", "table", 0, 0), lambda count: count + 40, "bound|estimate|pairs"),
        (("assumptions",), lambda texts: [t for t in texts if t != SET_THRESHOLDS], "leaves out"),
        (("assumptions",), lambda texts: [t for t in texts if t != READS_GROUP], "leaves out"),
        (("method",), lambda _: "exact", "leaves out"),
        (("metric",), lambda _: "equalized_odds_max", "label"),
        (("candidates",), lambda _: 10_000, "from 0.0001"),
        (("confidence",), lambda _: 0.99, "plan that its counts show does not give"),
    ],
)
def test_what_was_changed_in_a_plan_is_refused(path, change, words):
    content = calibrated()
    place = json.loads(content)["predicate"]["certificate"]
    for step in path:
        place = place[step]
    try:
        verdict = verify_document(changed(content, "predicate", "certificate", *path, to=change(place)), ANY)
        found = " ".join(check.message for check in verdict.failures)
    except DocumentError as error:
        found = str(error)
    assert re.search(words, found), found


def test_a_plan_that_would_keep_its_reader_busy_is_refused_at_once():
    content = json.loads(calibrated())
    held = content["predicate"]["certificate"]
    groups = [f"g{i}" for i in range(40)]
    held["counts"] = {"groups": groups, "table": [[5] * 40] * 300}
    pairs = [(a, b) for i, a in enumerate(groups) for b in groups[i + 1 :]]
    held["parts"] = [{**held["parts"][0], "groups": pair, "records": [1500, 1500]} for pair in pairs]
    verdict = verify_document(json.dumps(content).encode(), ANY)
    assert "too many to bound" in next(check for check in verdict.checks if check.name == "figures").message


def test_small_cells_of_a_plan_are_not_suppressed():
    counts = CellCounts([[200, 3], [150, 100], [149, 99]], groups=["f", "m"])
    with pytest.raises(DocumentError, match="Publish without suppression"):
        make_statement(certify_counts(counts, method="calibrated"), suppress_below=10)


def test_one_classifier_on_calibrated_cells_has_its_own_interval():
    verdict = verify_document(calibrated(), Policy(max_bound=0.1), predictions=[1, 0, 1])

    assert verdict.passed
    assert "The distance of this classifier" in next(c for c in verdict.checks if c.name == "classifier").message
