"""What a producer states for the reader: validated, signed, and refused once it has expired."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from certifare.document import Terms, make_statement, read_document, sign, verify_document, with_terms
from certifare.document.statement import MAX_NAME, MAX_PURPOSE, canonical
from certifare.errors import ArgumentError, DocumentError

from .documents import certificate

TODAY = datetime.now(UTC).date()
TERMS = {"producer": "Bank of Ghent", "purpose": "Credit scoring", "valid_until": "2999-12-31"}


def test_terms_are_written_read_and_signed_for():
    document = sign(make_statement(certificate(), terms=TERMS), None)
    stated = json.loads(document.payload)

    assert stated["predicate"]["terms"] == TERMS
    assert stated["predicateType"].endswith("/v4")
    assert read_document(document.to_bytes()).statement.predicate.stated_terms == Terms(**TERMS)
    assert verify_document(document).outcome == "PASS"


def test_a_statement_without_terms_is_one_that_older_readers_know():
    stated = make_statement(certificate(), terms={})
    assert "terms" not in stated.to_dict()["predicate"]
    assert stated.predicate_type.endswith("/v3")
    assert stated.predicate.stated_terms == Terms()


def test_terms_of_a_version_that_has_none_do_not_verify():
    document = make_statement(certificate(), terms=TERMS).to_dict()
    document["predicateType"] = document["predicateType"].replace("/v4", "/v3")
    verdict = verify_document(canonical(document))
    assert [check.name for check in verdict.failures] == ["statement"]


def test_terms_can_be_added_and_nothing_else_changes():
    plain = make_statement(certificate(), created="2026-01-31T12:00:00Z")
    added = with_terms(plain, {"producer": "Bank of Ghent"})
    before, after = plain.to_dict(), added.to_dict()
    assert after["predicate"].pop("terms") == {"producer": "Bank of Ghent"}
    assert before["predicate"] == after["predicate"]
    assert with_terms(added, {}).to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    "terms",
    [
        {"producer": ""},
        {"producer": "x" * (MAX_NAME + 1)},
        {"purpose": "x" * (MAX_PURPOSE + 1)},
        {"producer": " Bank"},
        {"producer": "Bank\nof Ghent"},
        {"purpose": "scoring\u202e gnirocs"},
        {"purpose": "scoring\u2066"},
        {"producer": "Bank\u200b"},
        {"producer": "Bank\x00"},
        {"valid_until": "31.12.2030"},
        {"valid_until": "2030-02-30"},
        {"valid_until": "20301231"},
        {"owner": "Bank"},
        {"producer": 3},
    ],
)
def test_terms_that_mislead_or_cannot_be_read_are_refused_when_written_and_when_read(terms):
    with pytest.raises(ArgumentError, match="terms"):
        make_statement(certificate(), terms=terms)
    document = make_statement(certificate(), terms=TERMS).to_dict()
    document["predicate"]["terms"] = terms
    with pytest.raises(DocumentError):
        read_document(canonical(document))


def test_names_in_other_scripts_are_allowed():
    for name in ("شرکت\u200cها", "बैंक", "Ελλάδα Α.Ε.", "株式会社", "שלום"):
        assert make_statement(certificate(), terms={"producer": name}).predicate.stated_terms.producer == name


@pytest.mark.parametrize(("days", "outcome"), [(1, "PASS"), (0, "PASS"), (-1, "FAIL"), (-400, "FAIL")])
def test_a_certificate_is_refused_after_its_last_day_with_the_date(days, outcome):
    last = TODAY + timedelta(days=days)
    verdict = verify_document(sign(make_statement(certificate(), terms={"valid_until": str(last)}), None))
    (check,) = [check for check in verdict.checks if check.name == "valid until"]

    assert verdict.outcome == outcome
    assert str(last) in check.message
    assert ("expired" in check.message) == (outcome == "FAIL")
