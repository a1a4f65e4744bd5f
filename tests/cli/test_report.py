"""Reports from the command line."""

import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from certifare.certificates.rounding import round_up
from certifare.document import new_key, read_document, sign
from certifare.report.pdf import PROGRAMS


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
    result = cli("report", bundle, "--output", bundle / "report.html")

    assert result.status == 0, result.stderr
    assert result.stdout.strip() == str(bundle / "report.html")
    page = (bundle / "report.html").read_text("utf-8")
    for chart in ("interval", "frontier", "cells", "ratios"):
        assert f'id="chart-{chart}"' in page
    assert 'class="tree"' in page


def test_a_certificate_alone_will_do(cli, bundle):
    result = cli("report", bundle / "certificate.json", "-o", bundle / "alone.html")

    assert result.status == 0
    bound = read_document(bundle / "certificate.json").certificate.bound
    text = (bundle / "alone.html").read_text("utf-8")
    assert "<h1>Selection rates of &#39;f&#39; and &#39;m&#39; differ by at most " in text
    assert f"<b>T* = {round_up(bound)}</b>" in text


def test_commands_on_the_page_name_the_files_as_they_are_called(cli, bundle):
    (bundle / "certificate.json").rename(bundle / "loans 2026.json")
    result = cli("report", bundle / "loans 2026.json", "--json")

    assert result.status == 0, result.stderr
    commands = [step["command"] for step in result.json["verify"]]
    assert all(command.startswith("certifare verify 'loans 2026.json'") for command in commands)


def test_the_json_report_holds_the_chosen_encoder(cli, bundle, monkeypatch):
    monkeypatch.chdir(bundle)

    assert cli("report", bundle, "-o", "report.json").stdout.strip() == "report.json"
    data = json.loads((bundle / "report.json").read_text("utf-8"))
    head = {"schema_version": 1, "outcome": "PASS", "exit_status": 0}
    assert head | data == cli("report", bundle, "--json").json
    assert data["frontier"]["chosen"] == 1
    assert data["encoder"]["nodes"]
    assert cli("report", bundle, "-o", "report.docx").status == 2


@pytest.mark.skipif(not any(map(shutil.which, PROGRAMS)), reason="no Chromium here to print with")
def test_a_bundle_becomes_a_pdf(cli, bundle):
    result = cli("report", bundle, "--output", bundle / "report.pdf")

    assert result.status == 0, result.stderr
    assert (bundle / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_pdf_needs_chromium_and_says_so(cli, bundle, monkeypatch):
    monkeypatch.setattr("certifare.report.pdf.PROGRAMS", ())
    result = cli("report", bundle, "--output", bundle / "report.pdf")

    assert result.status == 2
    assert "package is called chromium" in " ".join(result.stderr.split())
    assert not (bundle / "report.pdf").exists()


def test_bounds_are_rounded_up_in_every_form(cli, bundle, monkeypatch):
    """One function writes bounds: the same digits in the page and in the terminal."""
    bound = round_up(read_document(bundle / "certificate.json").certificate.bound)
    assert float(bound) >= read_document(bundle / "certificate.json").certificate.bound
    points = pd.read_csv(bundle / "frontier.csv")
    points.loc[points["chosen"], "bound"] = read_document(bundle / "certificate.json").certificate.bound
    points.to_csv(bundle / "frontier.csv", index=False)

    assert bound in cli("show", bundle).stdout
    assert cli("report", bundle, "-o", bundle / "report.html").status == 0
    # At the top, in the claim, where it is put together, and among the encoders that were tried.
    assert (bundle / "report.html").read_text("utf-8").count(bound) >= 4


def test_a_prediction_is_no_certified_bound(cli, bundle):
    points = cli("report", bundle, "--json").json["frontier"]["points"]
    assert [(point["certified"], point["bound"]) for point in points] == [(False, 0.1), (True, 0.2)]


@pytest.mark.parametrize("content", [b"bound\nx\n", b"bound\n\xff\xfe\n", b"", b"\x00"])
def test_a_frontier_that_is_none(cli, bundle, content):
    (bundle / "frontier.csv").write_bytes(content)
    result = cli("report", bundle, "-o", bundle / "report.html")

    assert result.status == 2
    assert "frontier.csv" in "".join(result.stderr.split())


@pytest.mark.slow
def test_a_report_needs_no_estimators(bundle, tmp_path):
    """Drawing a report does not import scikit-learn: that was most of its time."""
    script = (
        "import sys; sys.argv = ['certifare', 'report', sys.argv[1], '-o', sys.argv[2]]\n"
        "from certifare.cli import main\n"
        "try: main()\n"
        "except SystemExit as done: print(done.code, 'sklearn' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(bundle), str(tmp_path / "report.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False"


def test_an_encoder_that_is_not_the_certified_one_fails_and_is_not_shown(cli, bundle):
    content = (bundle / "encoder.json").read_text("utf-8")
    (bundle / "encoder.json").write_text(content + " ", "utf-8")

    result = cli("report", bundle, "-o", bundle / "report.html")

    assert result.status == 1
    assert "not the certified one" in " ".join(result.stderr.split())
    page = (bundle / "report.html").read_text("utf-8")
    assert page.index("not the certified one") < page.index('class="bound"')
    assert ">PASS<" not in page
    assert 'class="tree"' not in page


@pytest.mark.parametrize("form", ["html", "json"])
def test_an_altered_certificate_gets_no_pass(cli, bundle, form):
    path = bundle / "certificate.json"
    document = json.loads(path.read_text("utf-8"))
    document["predicate"]["certificate"]["bound"] = 0.01
    path.write_text(json.dumps(document), "utf-8")

    result = cli("report", bundle, "-o", bundle / f"report.{form}")

    assert result.status == 1
    assert result.stderr.startswith("FAIL")
    report = (bundle / f"report.{form}").read_text("utf-8")
    assert "its counts give" in report
    assert ">PASS<" not in report
    assert "**PASS" not in report
    assert cli("report", bundle, "--json").status == 1


def test_a_signature_is_checked_or_said_to_be_unchecked(cli, bundle):
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


def test_a_bundle_is_verified_when_its_report_is_written(cli, bundle, tmp_path, make_people):
    """The state that the report inside a bundle tells is that of the bundle."""
    make_people(3_000, 4).to_csv(tmp_path / "people.csv", index=False)
    private, _ = new_key(tmp_path / "producer")
    options = ("--label", "approved", "--sensitive", "sex", "--kind", "tree", "--max-cells", "4")
    options = (*options, "--confidence", "0.8", "--key", private)
    made = cli("fit", tmp_path / "people.csv", *options, "-o", tmp_path / "b")
    assert made.status == 0, made.stderr
    page = " ".join((tmp_path / "b" / "report.html").read_text("utf-8").split())

    assert "<dt>Signature</dt><dd>checked</dd>" in page
    assert '<th scope="row">encoder</th><td>yes</td>' in page
    assert "FAIL" not in page


def test_files_that_cannot_be_used(cli, bundle, tmp_path):
    assert cli("report", tmp_path / "absent").status == 2
    pd.DataFrame({"accuracy": [1]}).to_csv(bundle / "frontier.csv", index=False)
    result = cli("report", bundle, "-o", bundle / "report.html")
    assert result.status == 2
    assert "no column 'bound'" in result.stderr
    assert cli("report", bundle / "certificate.json", "-o", bundle / "absent" / "report.html").status == 2
