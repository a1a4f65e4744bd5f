"""``certify --column`` and ``--feature``."""

import duckdb
import numpy as np
import pytest

from certifare import load_encoder
from certifare.document import read_document


@pytest.fixture(scope="module")
def scored(tmp_path_factory, make_people):
    folder = tmp_path_factory.mktemp("scored")
    people = make_people(3_000, 7)
    people["score"] = (1 / (1 + np.exp(-(people["age"].fillna(40) - 42) / 6))).round(3)
    people["decision"] = np.where(people["score"] > 0.5, "yes", "no")
    people.to_csv(folder / "scored.csv", index=False)
    with duckdb.connect(str(folder / "scored.db")) as connection:
        connection.register("frame", people)
        connection.execute("CREATE TABLE loans AS SELECT * FROM frame")
    return folder


@pytest.mark.parametrize("column", [["decision"], ["score", "--cuts", "0.3,0.6"], ["approved"]])
def test_certifying_a_column_gives_the_same_counts_from_files_and_databases(cli, scored, tmp_path, column):
    options = ["--column", *column, "--sensitive", "sex"]
    bundle = tmp_path / "bundle"
    file = cli("certify", scored / "scored.csv", *options, "--json", "-o", bundle)
    assert file.status == 0, file.stderr
    database = cli("certify", "--sql", f"duckdb:///{scored}/scored.db", "--table", "loans", *options, "--json")
    assert database.status == 0, database.stderr
    assert database.json["counts"]["table"] == file.json["counts"]["table"]
    assert database.json["assumptions"][-1] == file.json["assumptions"][-1]
    assert f"column '{column[0]}'" in file.json["assumptions"][-1]

    # What was written is an encoder like any other.
    assert load_encoder(bundle / "encoder.json").n_cells_ == len(file.json["counts"]["table"])
    verified = cli("verify", bundle)
    assert verified.status == 0, verified.stderr
    assert read_document(bundle / "certificate.json").statement.digest_of("encoder") is not None
    counted = cli("count", bundle, scored / "scored.csv", "--sensitive", "sex", "-o", tmp_path / "n.json")
    assert counted.status == 0, counted.stderr
    assert cli("certify", tmp_path / "n.json", "--json").json["bound"] == file.json["bound"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--column", "score", "--sensitive", "sex"], "Name the cuts of the bins that are used"),
        (["--column", "decisions", "--sensitive", "sex"], "Did you mean 'decision'"),
        (["--column", "decision"], "Pass --sensitive"),
        (["--column", "score", "--cuts", "a,b", "--sensitive", "sex"], "--cuts a,b: give numbers"),
        (["--column", "decision", "--cuts", "0.5", "--sensitive", "sex"], "cannot be cut"),
    ],
)
def test_bad_columns_and_cuts_are_refused_with_the_remedy(cli, scored, tmp_path, arguments, words):
    result = cli("certify", scored / "scored.csv", *arguments, "-o", tmp_path / "never")
    assert result.status == 2
    assert words in " ".join(result.stderr.split())
    assert not (tmp_path / "never").exists()


def test_certify_without_an_encoder_points_to_column(cli):
    result = cli("certify")
    assert result.status == 2
    assert "with --column" in result.stderr


@pytest.mark.parametrize(
    "names", [["--feature", "score"], ["--feature", "sc*"], ["--drop", "age,j*", "--drop", "decision"]]
)
def test_features_are_named_or_matched(cli, scored, tmp_path, names):
    result = cli(
        "fit", scored / "scored.csv", "--label", "approved", "--sensitive", "sex", *names, "--kind", "tree",
        "--max-cells", "4", "-o", tmp_path / "bands",
    )  # fmt: skip
    assert result.status == 0, result.stderr
    assert [column.name for column in load_encoder(tmp_path / "bands" / "encoder.json").columns_] == ["score"]


def test_a_feature_with_a_role_is_refused(cli, scored, tmp_path):
    arguments = ["fit", scored / "scored.csv", "--label", "approved", "--sensitive", "sex", "-o", tmp_path / "x"]
    result = cli(*arguments, "--feature", "sex")
    assert result.status == 2
    assert "as both sensitive and feature" in result.stderr
    assert "No column 'scores'" in cli(*arguments, "--feature", "scores").stderr
