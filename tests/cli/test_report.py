"""Reports from the command line."""

import json

import pandas as pd
import pytest

from certifare.document import new_key, read_document, sign


@pytest.fixture
def bundle(cli, files, tmp_path):
    (tmp_path / "encoder.json").write_bytes((files / "encoder.json").read_bytes())
    result = cli(
        "certify", tmp_path / "encoder.json", files / "fresh.csv", "--sensitive", "sex",
        "--output", tmp_path / "certificate.json",
    )  # fmt: skip
    assert result.status == 0, result.stderr
    points = pd.DataFrame(
        {
            "kind": ["tree", "boosted"],
            "bound": [0.1, 0.2],
            "accuracy": [0.7, 0.8],
            "cells": [4, 9],
            "chosen": [False, True],
        }
    )
    points.to_csv(tmp_path / "frontier.csv", index=False)
    return tmp_path


def test_a_bundle_becomes_a_page(cli, bundle):
    result = cli("report", bundle, "--output", bundle / "report.html", "--target", "0.9")

    assert result.status == 0, result.stderr
    assert result.stdout.strip() == str(bundle / "report.html")
    page = (bundle / "report.html").read_text("utf-8")
    for chart in ("interval", "frontier", "cells", "tree", "four-fifths"):
        assert f'id="chart-{chart}"' in page
    assert "PASS" in page


def test_a_certificate_alone_will_do(cli, bundle):
    result = cli("report", bundle / "certificate.json", "-o", bundle / "report.md")

    assert result.status == 0
    bound = read_document(bundle / "certificate.json").certificate.bound
    assert (bundle / "report.md").read_text("utf-8").startswith(f"# T\\* = {bound + 5e-5:.4f}"[:12])


def test_forms(cli, bundle, monkeypatch):
    monkeypatch.chdir(bundle)

    assert cli("report", bundle, "--format", "json").stdout.strip() == "report.json"
    data = json.loads((bundle / "report.json").read_text("utf-8"))
    assert data == cli("report", bundle, "--json").json
    assert data["frontier"]["chosen"] == 1
    assert data["encoder"]["nodes"]
    assert cli("report", bundle, "--format", "pdf").status == 2


def test_item_14_another_encoder_is_not_mixed_in(cli, bundle):
    content = (bundle / "encoder.json").read_text("utf-8")
    (bundle / "encoder.json").write_text(content + " ", "utf-8")

    result = cli("report", bundle, "-o", bundle / "report.html", "--target", "0.9")

    assert result.status == 1
    assert "not the certified one" in " ".join(result.stderr.split())
    page = (bundle / "report.html").read_text("utf-8")
    assert page.index("not the certified one") < page.index('class="bound"')
    assert ">PASS<" not in page
    assert 'id="chart-tree"' not in page


@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_item_14_an_altered_certificate_gets_no_pass(cli, bundle, form):
    path = bundle / "certificate.json"
    document = json.loads(path.read_text("utf-8"))
    document["predicate"]["certificate"]["bound"] = 0.01
    path.write_text(json.dumps(document), "utf-8")

    result = cli("report", bundle, "-o", bundle / f"report.{form}", "--target", "0.9")

    assert result.status == 1
    assert result.stderr.startswith("FAIL")
    report = (bundle / f"report.{form}").read_text("utf-8")
    assert "its counts give" in report
    assert ">PASS<" not in report
    assert "**PASS" not in report
    assert cli("report", bundle, "--json").status == 1


def test_item_14_a_signature_is_checked_or_said_to_be_unchecked(cli, bundle):
    certificate = read_document(bundle / "certificate.json")
    private, public = new_key(bundle / "producer")
    (bundle / "certificate.json").write_bytes(sign(certificate.statement, private).to_bytes())

    def words(*options):
        result = cli("report", bundle / "certificate.json", "--json", *options)
        return result.status, result.json["signature"]["words"]

    assert words() == (0, "not checked")
    assert words("--key", public) == (0, "checked")
    _, other = new_key(bundle / "other")
    assert words("--key", other) == (1, "does not hold")


def test_item_14_a_bundle_is_verified_when_its_report_is_written(cli, bundle, tmp_path, make_people):
    """The state that the report inside a bundle tells is that of the bundle."""
    make_people(3_000, 4).to_csv(tmp_path / "people.csv", index=False)
    private, _ = new_key(tmp_path / "producer")
    options = ("--label", "approved", "--sensitive", "sex", "--kind", "tree", "--gamma", "0.9", "--max-cells", "4")
    made = cli("fit", tmp_path / "people.csv", *options, "--confidence", "0.8", "--key", private, "-o", tmp_path / "b")
    assert made.status == 0, made.stderr
    page = " ".join((tmp_path / "b" / "report.html").read_text("utf-8").split())

    assert "<dt>Signature</dt><dd>checked: " in page
    assert '<th scope="row">encoder</th><td>yes</td>' in page
    assert "FAIL" not in page


def test_files_that_cannot_be_used(cli, bundle, tmp_path):
    assert cli("report", tmp_path / "absent").status == 2
    pd.DataFrame({"accuracy": [1]}).to_csv(bundle / "frontier.csv", index=False)
    result = cli("report", bundle, "-o", bundle / "report.html")
    assert result.status == 2
    assert "no column 'bound'" in result.stderr
    assert cli("report", bundle / "certificate.json", "-o", bundle / "absent" / "report.html").status == 2
