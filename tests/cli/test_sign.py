"""``certifare sign``, on a bundle and on a certificate file."""

import json
import shutil

import pytest

from certifare.document import new_key, read_document


@pytest.fixture(scope="module")
def made(tmp_path_factory, make_people):
    """An unsigned bundle."""
    from certifare import produce
    from certifare.frontier import Grid

    folder = tmp_path_factory.mktemp("made")
    bundle = produce(
        make_people(3_000, 4),
        label="approved",
        sensitive="sex",
        target=0.5,
        grid=Grid(kinds=("tree",), gammas=(0.9,)),
        ledger=False,
    )
    return bundle.save(folder / "bundle")


@pytest.fixture
def bundle(made, tmp_path):
    return shutil.copytree(made, tmp_path / "bundle")


@pytest.fixture
def keys(tmp_path):
    return new_key(tmp_path / "producer")


def test_a_bundle_is_signed_afterwards_and_its_report_written_again(cli, bundle, keys):
    before = json.loads((bundle / "certificate.json").read_text("utf-8"))
    page = (bundle / "report.html").read_text("utf-8")
    private, public = keys
    stated = ("--producer", "Bank of Ghent", "--purpose", "Credit scoring", "--valid-until", "2999-12-31")
    result = cli("sign", bundle, "--key", private, *stated)

    assert result.status == 0, result.stderr
    document = read_document(bundle / "certificate.json")
    assert json.loads(document.payload)["predicate"]["certificate"] == before["predicate"]["certificate"]
    assert document.statement.predicate.created == before["predicate"]["created"]
    assert cli("verify", bundle, "--key", public).status == 0
    again = (bundle / "report.html").read_text("utf-8")
    assert "<dt>Signature</dt><dd>not signed</dd>" in page
    assert "<dt>Signature</dt><dd>checked</dd>" in again
    assert "Bank of Ghent, holder of key" in again
    assert f"certificate {document.id}" in again
    for part in (">PASS<", "target 0.5", 'id="worth"', 'id="drives"', 'id="calibration"', 'id="retained"'):
        assert part in page
        assert part in again  # nothing is lost


def test_what_is_stated_already_stays_unless_it_is_given(cli, bundle, keys):
    file = bundle / "certificate.json"
    from certifare.document import sign, with_terms

    terms = {"producer": "Old Bank", "purpose": "Research"}
    file.write_bytes(sign(with_terms(read_document(file).statement, terms), None).to_bytes())
    result = cli("sign", file, "--key", keys[0], "--producer", "New Bank", "--json")

    assert result.json["terms"] == {"producer": "New Bank"}
    stated = read_document(file).statement.predicate.stated_terms
    assert (stated.producer, stated.purpose) == ("New Bank", "Research")


def test_a_signed_certificate_and_one_that_does_not_hold_are_refused_and_left_alone(cli, bundle, keys):
    file = bundle / "certificate.json"
    assert cli("sign", bundle, "--key", keys[0]).status == 0
    signed = file.read_bytes()
    result = cli("sign", bundle, "--key", keys[0])
    assert result.status == 2
    assert "signed already" in result.stderr
    assert file.read_bytes() == signed

    document = json.loads(read_document(file).payload)
    document["predicate"]["certificate"]["lower"] += 0.01
    file.write_text(json.dumps(document), "utf-8")
    result = cli("sign", bundle, "--key", keys[0])
    assert result.status == 2
    assert "was not signed" in result.stderr
    assert json.loads(file.read_text("utf-8")) == document


def test_an_encoder_that_is_not_the_certified_one_is_not_signed_for(cli, bundle, keys):
    encoder = bundle / "encoder.json"
    encoder.write_text(encoder.read_text("utf-8") + " ", "utf-8")
    result = cli("sign", bundle, "--key", keys[0])
    assert result.status == 2
    assert "not the certified one" in " ".join(result.stderr.split())


def test_a_report_written_again_keeps_target_verdict_and_figures(cli, bundle, tmp_path):
    assert cli("report", bundle, "-o", tmp_path / "again.html").status == 0
    assert (tmp_path / "again.html").read_text("utf-8") == (bundle / "report.html").read_text("utf-8")
