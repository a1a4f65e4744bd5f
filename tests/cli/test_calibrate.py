"""``certifare calibrate``: thresholds for each group on a score that is there already."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from certifare import CalibratedEncoder, load_encoder
from certifare.document import read_document

N = 1200


def scored(n=N, seed=0):
    """A coarse score that is higher in one group, and a label whose last value goes with low scores."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(["f", "m"], [2 * n // 5, n - 2 * n // 5]))
    risk = np.round(rng.beta(2, 2 + (group == "m"), n), 2)
    table = pd.DataFrame({"customer": np.arange(n), "risk": risk, "sex": group, "w": rng.integers(1, 3, n)})
    return table.assign(repaid=np.where(risk + 0.3 * rng.normal(size=n) > 0.5, "no", "yes"), home=np.arange(n) // 2)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "scored.csv"
    scored().to_csv(path, index=False)
    return path


def calibrate(cli, table, *options, score="risk", target=0.1, status=0):
    result = cli(
        "calibrate", table, "--score", score, "--sensitive", "sex", "--target", target, *options,
        "-o", table.parent / "bundle",
    )  # fmt: skip
    assert result.status == status, result.stderr
    return result


def test_without_a_label_every_record_sets_thresholds_and_cells_hold_equal_shares(cli, table):
    result = calibrate(cli, table, "--json")
    document = read_document(table.parent / "bundle" / "certificate.json")
    counts = document.certificate.counts
    assert counts.group_sizes == scored().value_counts("sex").sort_index().to_dict()
    shares = counts.table / counts.table.sum(axis=0)
    assert np.abs(shares - 1 / len(shares)).max() < 0.01
    assert result.json["bound"] <= 0.1
    assert any("Nothing was learnt from any record" in words for words in document.certificate.assumptions)
    report = (table.parent / "bundle" / "report.html").read_text(encoding="utf-8")
    assert "risk" in report


def test_as_many_cells_as_the_target_allows_and_no_more_than_asked_for(cli, table):
    assert len(calibrate(cli, table, "--json").json["counts"]["table"]) > 3
    assert len(calibrate(cli, table, "--max-cells", 3, "--replace", "--json").json["counts"]["table"]) == 3


def test_a_decision_rule_selects_the_same_share_of_every_group(cli, table):
    calibrate(cli, table, "--select", 0.2, "--tie-column", "customer")
    encoded = table.parent / "cells.csv"
    columns = ["--as", "cells", "--keep", "sex"]
    assert cli("encode", table.parent / "bundle", table, encoded, *columns).status == 0
    rates = pd.read_csv(encoded).groupby("sex")["cell"].mean()
    assert rates.between(0.2 - 2 / (0.4 * N), 0.2 + 2 / (0.4 * N)).all()


def test_verify_finds_the_thresholds_in_the_records_and_not_in_others(cli, table):
    calibrate(cli, table, "--tie-column", "customer")
    assert cli("verify", table.parent / "bundle", "--certified-on", table, "--max", 0.1).status == 0
    other = table.parent / "other.csv"
    changed = scored()
    changed["risk"] = changed["risk"].to_numpy()[::-1]
    changed.to_csv(other, index=False)
    assert cli("verify", table.parent / "bundle", "--certified-on", other, "--max", 0.1).status == 1


def test_with_a_label_a_fifth_of_the_records_choose_how_large_cells_are(cli, table):
    calibrate(cli, table, "--label", "repaid", target=0.15)
    counts = read_document(table.parent / "bundle" / "certificate.json").certificate.counts
    assert counts.n_records == pytest.approx(0.8 * N, abs=2)
    shares = counts.table.sum(axis=1) / counts.n_records
    assert np.abs(shares - 1 / len(shares)).max() > 0.02


@pytest.mark.parametrize(("options", "share"), [(["--weight", "w"], 0.75), (["--cluster", "home"], 0.5)])
def test_weights_are_thinned_and_one_record_of_each_cluster_sets_thresholds(cli, table, options, share):
    calibrate(cli, table, *options, "--max-cells", 4, target=0.2)
    counts = read_document(table.parent / "bundle" / "certificate.json").certificate.counts
    assert counts.n_records == pytest.approx(share * N, rel=0.06)


def test_too_few_records_are_told_with_the_table_of_plans(cli, table):
    result = calibrate(cli, table, target=0.02, status=1)
    assert "NO SOLUTION" in result.stdout
    assert "records for T* ≤ 0.02" in " ".join(result.stdout.split())
    assert not (table.parent / "bundle").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", 1.5], "give a share between 0 and 1"),
        (["--select", 0.2, "--label", "repaid"], "--select would be ignored"),
        (["--metric", "equal_opportunity"], "name its column with --label"),
        (["--positive", "yes"], "--positive would be ignored"),
        (["--tie-column", "home"], "same value in several certification records"),
        (["--tie-column", "nobody"], "No column 'nobody' (--tie-column)"),
    ],
)
def test_what_cannot_be_honoured_is_refused(cli, table, options, message):
    assert message in calibrate(cli, table, *options, status=2).stderr


def test_a_score_that_is_not_there_is_named_by_its_option(cli, table):
    assert "No column 'nobody' (--score)" in calibrate(cli, table, score="nobody", status=2).stderr


def test_a_score_of_text_is_refused(cli, table):
    scored().assign(risk=lambda t: "r" + t["risk"].astype(str)).to_csv(table, index=False)
    assert "a score is a number" in calibrate(cli, table, status=2).stderr


def test_the_command_and_the_encoder_in_python_agree(cli, table):
    calibrate(cli, table)
    people = scored()
    encoder = CalibratedEncoder(target=0.1, score_column="risk")
    X, sex = people[["risk"]], people["sex"]
    certificate = encoder.fit(X, sensitive_features=sex).calibrate(X, sensitive_features=sex)
    written = read_document(table.parent / "bundle" / "certificate.json").certificate
    assert certificate.bound == written.bound
    assert np.array_equal(encoder.thresholds_.at, load_encoder(table.parent / "bundle" / "encoder.json").thresholds_.at)
    assert json.loads((table.parent / "bundle" / "encoder.json").read_text(encoding="utf-8"))["labels"] == []


def test_shares_are_for_a_score_without_a_label():
    people = scored()
    X, sex = people[["risk"]], people["sex"]
    encoder = CalibratedEncoder(target=0.2, score_column="risk", shares=(0.7, 0.2, 0.1)).fit(X, sensitive_features=sex)
    encoder.calibrate(X, sensitive_features=sex)
    shares = encoder.plan_.gaps / encoder.plan_.totals
    assert np.abs(shares - np.array([[0.7], [0.2], [0.1]])).max() < 0.01
    with pytest.raises(ValueError, match="Leave the label or shares out"):
        CalibratedEncoder(score_column="risk", shares=(0.5, 0.5)).fit(X, people["repaid"], sensitive_features=sex)
    with pytest.raises(ValueError, match="add up to 1"):
        CalibratedEncoder(score_column="risk", shares=(0.5, 0.6)).fit(X, sensitive_features=sex)


@pytest.mark.slow
def test_the_true_distance_exceeds_the_bound_as_often_as_stated_although_every_record_was_used():
    rng = np.random.default_rng(0)
    above, runs = 0, 120
    for _ in range(runs):
        people = scored(400, int(rng.integers(1 << 30)))
        X, sex = people[["risk"]], people["sex"]
        encoder = CalibratedEncoder(target=0.25, max_cells=4, score_column="risk").fit(X, sensitive_features=sex)
        bound = encoder.calibrate(X, sensitive_features=sex).bound
        fresh = scored(10_000, int(rng.integers(1 << 30)))
        cells = encoder.apply(fresh[["risk"]], sensitive_features=fresh["sex"])
        shares = [np.bincount(cells[fresh["sex"] == g], minlength=4) / (fresh["sex"] == g).sum() for g in "fm"]
        above += np.abs(shares[0] - shares[1]).sum() / 2 > bound
    assert 0 < above < 16


@pytest.mark.parametrize("command", ["certify", "monitor", "count"])
def test_the_records_that_set_the_thresholds_are_refused_as_fresh_ones(cli, table, tmp_path, command):
    """Without a label nothing was trained; but their cells are alike in all groups because they set them."""
    people = scored().assign(risk=lambda t: t["risk"] + np.random.default_rng(1).normal(0, 0.002, N))
    people.to_csv(table, index=False)
    bundle = table.parent / "bundle"
    calibrate(cli, table)
    where = {"certify": ["-o", tmp_path / "c.json"], "monitor": ["--history", tmp_path / "h.json"],
             "count": ["-o", tmp_path / "n.json"]}[command]  # fmt: skip
    for changed in (people, people.sample(frac=0.5, random_state=0), people.round({"risk": 5})):
        changed.to_csv(tmp_path / "again.csv", index=False)
        result = cli(command, bundle, tmp_path / "again.csv", *where)
        assert result.status == 2
        assert "are among the training records" in result.stderr
    assert json.loads((bundle / "private" / "run.json").read_text("utf-8"))["verdict"] == "PASS"
    fresh = scored(seed=7).assign(risk=lambda t: t["risk"] + np.random.default_rng(2).normal(0, 0.002, N))
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    assert cli(command, bundle, tmp_path / "fresh.csv", *where).status == 0
    shutil.rmtree(bundle / "private")
    refused = cli(command, bundle, table, *where, *(["--period", "again"] if command == "monitor" else []))
    assert "too near the plan of the thresholds" in refused.stderr


def test_coarse_scores_without_a_column_that_breaks_ties_are_noted(cli, table):
    assert "encode whole tables, not one record at a time" in calibrate(cli, table).stderr.replace("\n", " ")
    result = calibrate(cli, table, "--tie-column", "customer", "--replace")
    assert "lie on a threshold" in result.stderr
    assert "one record at a time" not in result.stderr
