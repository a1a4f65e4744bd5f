import shutil

import duckdb
import numpy as np
import pandas as pd
import pytest

from certifare import CellCounts, Certificate, certify_counts, load_encoder
from certifare.document import read_document


def certificate_of(result):
    """The certificate that a command printed, without the keys that all JSON documents have."""
    return Certificate.from_dict(
        {name: value for name, value in result.json.items() if name not in ("schema_version", "outcome", "exit_status")}
    )


def test_equals_the_library(cli, files):
    fresh = pd.read_csv(files / "fresh.csv")
    encoder = load_encoder(files / "encoder.json")
    expected = certify_counts(CellCounts.from_cells(encoder.apply(fresh), fresh["sex"], n_cells=encoder.n_cells_))
    result = cli("certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--json")
    assert result.status == 0, result.stderr
    certificate = certificate_of(result)
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
    assert "10 certification records" in small.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--sensitive"),
        (["--sensitive", "sexx"], "Did you mean 'sex'"),
        (["--sensitive", "sex", "--label", "approved", "--metric", "parity"], "demographic_parity"),
        (["--sensitive", "sex", "--metric", "equalized_odds"], "--label"),
        (["--sensitive", "sex", "--confidence", "2"], "Confidence 2"),
        (["--sensitive", "sex", "--max", "3"], "[0, 1]"),
        (["--sensitive", "sex", "--key", "key.pem"], "--output"),
        (["--sensitive", "sex", "--min-group-size", "5000"], "min_group_size"),
        (["--nonsense"], "No such option"),
    ],
)
def test_bad_input_is_refused(cli, files, arguments, words):
    result = cli("certify", files / "encoder.json", files / "fresh.csv", *arguments)
    assert result.status == 2
    assert words in result.stderr


@pytest.fixture
def weighted(files, tmp_path):
    fresh = pd.read_csv(files / "fresh.csv")
    weights = np.where(np.arange(len(fresh)) % 50 == 0, 40.0, 1.0 + np.arange(len(fresh)) % 3)
    fresh.assign(w=weights).to_csv(tmp_path / "weighted.csv", index=False)
    return [files / "encoder.json", tmp_path / "weighted.csv", "--sensitive", "sex", "--weight", "w"]


def test_a_cap_on_the_weights_keeps_more_records(cli, weighted):
    whole = certificate_of(cli("certify", *weighted, "--json"))
    result = cli("certify", *weighted, "--cap", 3, "--json")
    certificate = certificate_of(result).verify()
    assert certificate.counts.n_records > 3 * whole.counts.n_records
    assert (certificate.tail.cap, certificate.tail.largest) == (3.0, 40.0)
    assert certificate.population == whole.population == ("in proportion to their weights",)
    printed = cli("certify", *weighted, "--cap", 3)
    assert "capped at 3 (the largest is 40)" in printed.stderr
    assert certificate_of(cli("certify", *weighted, "--cap", "inf", "--json")) == whole


def test_certify_takes_the_cap_of_the_bundle(cli, files, weighted, tmp_path):
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    shutil.copy(files / "encoder.json", bundle)
    assert cli("certify", *weighted, "--cap", 2, "-o", bundle / "certificate.json").status == 0
    again = cli("certify", bundle, weighted[1], "--json").json
    assert again["tail"]["cap"] == 2.0
    other = cli("certify", bundle, weighted[1], "--cap", 3, "--json").json
    assert other["tail"]["cap"] == 3.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cap", "-1"], "above 0"),
        (["--cap", "nan"], "above 0"),
        (["--cap", "3", "--cluster", "age"], "without clusters"),
    ],
)
def test_a_cap_that_cannot_be_used_is_refused(cli, weighted, arguments, words):
    result = cli("certify", *weighted, *arguments)
    assert result.status == 2
    assert words in result.stderr


def test_a_certificate_with_a_cap_is_shown_and_reported(cli, weighted, tmp_path):
    file = tmp_path / "certificate.json"
    assert cli("certify", *weighted, "--cap", 3, "-o", file).status == 0
    assert cli("verify", file).status == 0
    assert "weights capped at 3" in cli("show", file).stdout
    cli("report", file, "-o", tmp_path / "report.html")
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "for weights above the cap" in report
    assert "weights capped at 3" in report


def test_metric_label_and_positive_label_are_those_of_the_bundle(cli, make_people, tmp_path):
    """Of labels that do not say which one is good, nobody guesses."""
    for name, seed in (("people", 40), ("fresh", 41)):
        frame = make_people(4_000, seed)
        frame["approved"] = np.where(frame["approved"] == 1, "approved", "denied")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    asked = ["--label", "approved", "--sensitive", "sex", "--metric", "equal_opportunity", "--kind", "tree"]
    fitted = cli("fit", tmp_path / "people.csv", *asked, "--target", "0.5", "--positive", "approved",
                 "-o", tmp_path / "bundle", "--json")  # fmt: skip
    assert fitted.status == 0, fitted.stderr
    counted = cli("count", tmp_path / "bundle", tmp_path / "fresh.csv", "--label", "approved",
                  "-o", tmp_path / "counts.json")  # fmt: skip
    assert counted.status == 0, counted.stderr
    database = f"duckdb:///{tmp_path}/people.db"
    with duckdb.connect(str(tmp_path / "people.db")) as connection:
        connection.execute(f"CREATE TABLE fresh AS SELECT * FROM '{tmp_path}/fresh.csv'")  # noqa: S608
    places = ([tmp_path / "fresh.csv"], [tmp_path / "counts.json"], ["--sql", database, "--table", "fresh"])
    for records in places:
        made = cli("certify", tmp_path / "bundle", *records, "--json")
        assert made.status == 0, made.stderr
        assert (made.json["metric"], made.json["positive"]) == ("equal_opportunity", "approved")
        other = cli("certify", tmp_path / "bundle", *records, "--positive", "denied", "--json")
        assert (other.json["metric"], other.json["positive"]) == ("equal_opportunity", "denied")
        assert other.json["bound"] != made.json["bound"]
    parity = cli("certify", tmp_path / "bundle", tmp_path / "fresh.csv", "--metric", "demographic_parity",
                 "--positive", "denied")  # fmt: skip
    assert parity.status == 2
    assert "--positive would be ignored" in parity.stderr
    unsaid = cli("fit", tmp_path / "people.csv", *asked, "--target", "0.5", "-o", tmp_path / "unsaid")
    assert unsaid.status == 2
    assert "Which label is the positive one? Name one of 'approved', 'denied' (--positive" in unsaid.stderr


def test_a_column_may_be_called_like_a_comparison(cli, make_people, tmp_path):
    """What the file says counts: its column, not what the name would mean."""
    make_people(3_000, 42).rename(columns={"approved": "score>=600"}).to_csv(tmp_path / "fresh.csv", index=False)
    made = cli("certify", tmp_path / "fresh.csv", "--column", "job", "--sensitive", "sex", "--label", "score>=600",
               "--metric", "equal_opportunity", "--json")  # fmt: skip
    assert made.status == 0, made.stderr
    assert made.json["positive"] == "1"
