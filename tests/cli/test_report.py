"""Reports from the command line."""

import json

import pandas as pd
import pytest

from certifare.document import read_document


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


def test_another_encoder_is_not_mixed_in(cli, bundle):
    content = (bundle / "encoder.json").read_text("utf-8")
    (bundle / "encoder.json").write_text(content + " ", "utf-8")

    result = cli("report", bundle, "-o", bundle / "report.html")

    assert result.status == 2
    assert "not the encoder that the certificate is about" in result.stderr
    assert not (bundle / "report.html").exists()


def test_files_that_cannot_be_used(cli, bundle, tmp_path):
    assert cli("report", tmp_path / "absent").status == 2
    pd.DataFrame({"accuracy": [1]}).to_csv(bundle / "frontier.csv", index=False)
    result = cli("report", bundle, "-o", bundle / "report.html")
    assert result.status == 2
    assert "no column 'bound'" in result.stderr
    assert cli("report", bundle / "certificate.json", "-o", bundle / "absent" / "report.html").status == 2
