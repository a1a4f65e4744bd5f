import pandas as pd
import pytest

from certifare import CellCounts, Certificate, certify_counts, load_encoder
from certifare.document import read_document


def test_equals_the_library(cli, files):
    fresh = pd.read_csv(files / "fresh.csv")
    encoder = load_encoder(files / "encoder.json")
    expected = certify_counts(CellCounts.from_cells(encoder.apply(fresh), fresh["sex"], n_cells=encoder.n_cells_))
    result = cli("certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--json")
    assert result.status == 0, result.stderr
    certificate = Certificate.from_dict(result.json)
    assert certificate.bound == expected.bound
    assert certificate.verify() is certificate


def test_file_is_written_and_verifies(cli, files, tmp_path):
    target = tmp_path / "certificate.json"
    result = cli(
        "certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--label", "approved",
        "--metric", "equalized_odds", "--output", target, "--suppress", 20,
    )  # fmt: skip
    assert result.status == 0, result.stderr
    assert "equalized odds distance" in result.stdout
    assert "not signed" in result.stderr
    assert read_document(target).certificate.metric == "equalized_odds"
    assert cli("verify", target, "--encoder", files / "encoder.json").status == 0


def test_records_left_out_are_counted(cli, files, tmp_path):
    fresh = pd.read_csv(files / "fresh.csv")
    fresh.loc[:9, "sex"] = None
    fresh.to_csv(tmp_path / "gaps.csv", index=False)
    result = cli("certify", files / "encoder.json", tmp_path / "gaps.csv", "--sensitive", "sex")
    assert result.status == 0
    assert "left out: 10 records" in result.stderr
    again = cli("certify", files / "encoder.json", tmp_path / "gaps.csv", "--sensitive", "sex", "--json")
    assert sum(e["records"] for e in again.json["counts"]["exclusions"]) == 10
    small = cli("certify", files / "encoder.json", tmp_path / "gaps.csv", "--sensitive", "sex", "--unknown-groups")
    assert small.status == 2
    assert "10 records" in small.stderr


def test_limit(cli, files):
    arguments = ["certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex"]
    assert cli(*arguments, "--max", 1.0).status == 0
    result = cli(*arguments, "--max", 0.001)
    assert result.status == 1
    assert "above --max" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--sensitive"),
        (["--sensitive", "sexx"], "Did you mean 'sex'"),
        (["--sensitive", "sex", "--label", "approved", "--metric", "parity"], "demographic_parity"),
        (["--sensitive", "sex", "--metric", "equalized_odds"], "--label"),
        (["--sensitive", "sex", "--confidence", "2"], "confidence"),
        (["--sensitive", "sex", "--max", "3"], "[0, 1]"),
        (["--sensitive", "sex", "--key", "key.pem"], "--output"),
        (["--sensitive", "sex", "--min-group-size", "5000"], "min_group_size"),
        (["--nonsense"], "No such option"),
    ],
)
def test_bad_input(cli, files, arguments, words):
    result = cli("certify", files / "encoder.json", files / "fresh.csv", *arguments)
    assert result.status == 2
    assert words in result.stderr
