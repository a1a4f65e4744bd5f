"""Looks are counted by every command that certifies."""

import re
import shlex
import sqlite3

import numpy as np
import pandas as pd
import pytest

#: These tests count looks, each in a ledger of its own.
LEDGER = True


@pytest.fixture
def certify(cli, files):
    def run(*arguments, data=("fresh.csv",)):
        return cli("certify", files / "encoder.json", *(files / name for name in data), *arguments, "--json")

    return run


def test_a_second_certificate_on_the_same_file_is_a_second_look(certify, cli, files, tmp_path):
    first = certify("--sensitive", "sex")
    assert first.status == 0, first.stderr
    assert (first.json["look"], first.json["spent"]) == (1, 0.0)
    assert certify("--sensitive", "sex").json == first.json
    written = tmp_path / "certificate.json"
    second = certify("--sensitive", "sex", "--confidence", 0.99, "--output", written)
    assert (second.json["look"], second.json["spent"]) == (2, 0.05)
    for arguments, status in ((("--max-looks", 1), 1), (("--max-looks", 2, "--confidence", 0.94), 0), ((), 1)):
        assert cli("verify", written, *arguments).status == status
    said = cli("verify", written, "--confidence", 0.94).stdout.split("PASS  ")[1]
    assert "94 % confidence" in said.partition("99 % confidence")[0]  # the joint confidence comes first
    assert "all of them hold together with 94 % confidence" in cli("show", written).stdout
    report = cli("report", written, "--json").json
    assert (report["look"]["number"], report["look"]["joint_confidence"]) == (2, 0.94)


def test_a_key_or_an_output_that_is_not_there_spends_no_look(certify, tmp_path):
    for place in (
        ("-o", tmp_path / "c.json", "--key", tmp_path / "absent.pem"),
        ("-o", tmp_path / "absent" / "c.json"),
    ):
        assert certify("--sensitive", "sex", *place).status == 2
    assert certify("--sensitive", "sex").json["look"] == 1
    assert certify("--sensitive", "sex", "--confidence", 0.9).json["look"] == 2


def test_looks_can_be_planned(certify, monkeypatch):
    for n, confidence in enumerate((0.95, 0.94), 1):
        found = certify("--sensitive", "sex", "--looks", 2, "--confidence", confidence).json
        assert (found["look"], found["planned_looks"]) == (n, 2)
        assert found["confidence"] == pytest.approx(1 - (1 - confidence) / 2)
    third = certify("--sensitive", "sex", "--looks", 2, "--confidence", 0.93)
    assert third.status == 2
    assert "2 looks were planned" in third.stderr
    monkeypatch.setenv("CERTIFARE_STATE", "off")
    fourth = certify("--sensitive", "sex", "--looks", 2)
    assert fourth.status == 2
    assert "ledger is off" in fourth.stderr


def test_without_a_ledger_the_certificate_says_that_looks_were_not_counted(cli, files, tmp_path, monkeypatch):
    arguments = ("certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex")
    written = tmp_path / "certificate.json"
    monkeypatch.setenv("CERTIFARE_STATE", "off")
    result = cli(*arguments, "--output", written)
    assert "was not counted" in result.stderr
    assert "was not counted" in cli("show", written).stdout
    assert cli("verify", written).status == 0
    assert cli("verify", written, "--max-looks", 9).status == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CERTIFARE_STATE", str(tmp_path / "file"))
    result = cli(*arguments)
    assert result.status == 0
    assert "no ledger can be written in" in result.stderr


def test_a_damaged_ledger_ends_with_one_line(certify, state_folder):
    (state_folder / "ledger.sqlite").write_text("scribble" * 1000)
    result = certify("--sensitive", "sex")
    assert result.status == 2
    assert "move it away" in result.stderr


def test_counts_files_are_known_by_checksum_and_sizes(cli, files, tmp_path):
    counts, labelled, drawn = (tmp_path / f"{name}.json" for name in ("counts", "labelled", "drawn"))
    count = ("count", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--output")
    assert cli(*count, counts).status == 0
    assert cli(*count, labelled, "--label", "approved").status == 0
    weighted = tmp_path / "weighted.csv"
    pd.read_csv(files / "fresh.csv").assign(w=lambda frame: 1 + frame.index % 2).to_csv(weighted, index=False)
    count = (*count[:2], weighted, *count[3:])
    assert cli(*count, drawn, "--weight", "w", "--max-weight", 2).status == 0
    assert cli("certify", counts, "--json").json["look"] == 1
    assert cli("certify", labelled, "--metric", "equalized_odds", "--json").json["look"] == 2
    assert cli("certify", drawn, "--json").json["look"] is None
    assert "cannot be counted" in cli("certify", drawn, "--looks", 2).stderr


def test_a_table_in_a_database_is_known_by_where_it_is(cli, files, tmp_path):
    fresh = pd.read_csv(files / "fresh.csv")
    with sqlite3.connect(tmp_path / "people.db") as database:
        fresh.to_sql("people", database, index=False)
        fresh.to_sql("again", database, index=False)
        fresh[:2000].to_sql("others", database, index=False)
    database.close()
    address = f"sqlite:///{tmp_path / 'people.db'}"
    found = []
    for table, confidence in (("people", 0.95), ("people", 0.9), ("again", 0.95), ("others", 0.95)):
        result = cli(
            "certify", files / "encoder.json", "--sql", address, "--table", table, "--sensitive", "sex",
            "--confidence", confidence, "--json",
        )  # fmt: skip
        assert result.status == 0, result.stderr
        found.append(result.json["look"])
    # The same table under another name says the same again, with the same encoder: it is the first look once more.
    assert found == [1, 2, 1, 1]


def test_fit_and_sweep_count_each_other(cli, make_people, tmp_path):
    make_people(3_000, 3).to_csv(tmp_path / "people.csv", index=False)
    roles = ("--label", "approved", "--sensitive", "sex", "--kind", "tree")
    swept = cli("sweep", tmp_path / "people.csv", *roles, "--json")
    assert swept.json["look"]["number"] == 1
    arguments = ("fit", tmp_path / "people.csv", *roles, "--seed", 1, "--output", tmp_path / "bundle")
    refused = cli(*arguments)
    assert refused.status == 2
    assert "95 % confidence cannot be reached" in refused.stderr
    assert not (tmp_path / "bundle").exists()
    fitted = cli(*arguments, "--confidence", 0.9, "--verbose")
    assert fitted.status == 0, fitted.stderr
    assert "look 2" in fitted.stdout
    fresh = cli(
        "fit", tmp_path / "people.csv", *roles, "--output", tmp_path / "b", "--drop", "job", "--confidence", 0.85,
        "--json",
    )  # fmt: skip
    assert fresh.json["look"]["number"] == 3
    assert fresh.json["look"]["joint_confidence"] == fresh.json["confidence"] == 0.85


def test_fit_and_the_verify_that_it_prints_agree_after_a_second_look(cli, make_people, tmp_path):
    make_people(6_000, 5).to_csv(tmp_path / "people.csv", index=False)
    roles = ("--label", "approved", "--sensitive", "sex", "--kind", "tree")
    fit = ("fit", tmp_path / "people.csv", *roles, "--target", 0.4, "--output")
    assert cli(*fit, tmp_path / "first").status == 0
    # The same again is not a new look; anything else is refused before it begins, and costs nothing.
    assert cli(*fit, tmp_path / "again").status == 0
    for _ in range(2):
        refused = cli(*fit, tmp_path / "second", "--seed", 1)
        assert refused.status == 2
        assert "were looked at once before, which spent ε = 0.05" in refused.stderr
    second = cli(*fit, tmp_path / "second", "--seed", 1, "--confidence", 0.9)
    assert second.status == 0
    assert "PASS" in second.stdout
    assert "90 % confidence" in second.stdout
    assert "95 %" not in second.stdout
    for name, printed in (("first", cli(*fit, tmp_path / "first", "--replace")), ("second", second)):
        (command,) = re.findall(r"certifare (verify .*?) &&", printed.stdout)
        assert str(tmp_path / name) in command
        verified = cli(*shlex.split(command))
        assert verified.status == 0, verified.stdout
        assert verified.stdout.count("PASS") == 1
    assert cli("verify", tmp_path / "second").status == 1
    assert "90 %" in cli("report", tmp_path / "second", "--json").json["figures"]["confidence_text"]


def test_planned_looks_keep_the_confidence_that_was_asked_for(cli, make_people, tmp_path):
    make_people(6_000, 5).to_csv(tmp_path / "people.csv", index=False)
    roles = ("--label", "approved", "--sensitive", "sex", "--kind", "tree")
    fit = ("fit", tmp_path / "people.csv", *roles, "--json", "--looks", 2, "--output")
    for n in (1, 2):
        found = cli(*fit, tmp_path / str(n), "--seed", n)
        assert found.status == 0, found.stderr
        assert found.json["confidence"] == 0.95
        assert cli("verify", tmp_path / str(n)).status == 0
    assert cli(*fit, tmp_path / "3", "--seed", 3).status == 2
    # Other records are not concerned.
    make_people(6_000, 6).to_csv(tmp_path / "people.csv", index=False)
    assert cli(*fit, tmp_path / "3", "--seed", 3).status == 0


def test_each_column_of_one_file_is_a_look_of_its_own(cli, tmp_path):
    rng = np.random.default_rng(0)
    scored = pd.DataFrame({f"d{i}": rng.integers(0, 2, 1000) for i in range(20)}).assign(
        sex=rng.choice(["f", "m"], 1000)
    )
    scored.to_csv(tmp_path / "scored.csv", index=False)
    found = [
        cli("certify", tmp_path / "scored.csv", "--column", f"d{i}", "--sensitive", "sex", "--json").json
        for i in (*range(20), 0)
    ]
    # The first column again says nothing new.
    assert [certificate["look"] for certificate in found] == [*range(1, 21), 1]
    assert found[19]["spent"] == 0.95
    for i in range(2):
        one = scored[["sex"]].assign(decision=scored[f"d{i}"])
        one.to_csv(tmp_path / f"model {i}.csv", index=False)
        result = cli("certify", tmp_path / f"model {i}.csv", "--column", "decision", "--sensitive", "sex", "--json")
        assert result.json["look"] == 21 + i


def test_each_choice_of_features_of_one_file_is_a_look_of_its_own(cli, make_people, tmp_path):
    people = make_people(3_000, 3)
    people.assign(again=people["age"].round(-1)).to_csv(tmp_path / "people.csv", index=False)
    roles = ("--label", "approved", "--sensitive", "sex", "--kind", "tree")
    for look, feature in enumerate(("age", "again"), 1):
        swept = cli("sweep", tmp_path / "people.csv", *roles, "--looks", 3, "--feature", feature, "--json")
        assert swept.status == 0, swept.stderr
        assert swept.json["look"]["number"] == look
    feature = ("--feature", "job,age", "--looks", 3)
    fitted = cli("fit", tmp_path / "people.csv", *roles, *feature, "--output", tmp_path / "b", "--json")
    assert fitted.status == 0, fitted.stderr
    assert fitted.json["look"]["number"] == 3


def test_a_file_is_known_by_another_name_and_after_changes(certify, make_people, tmp_path):
    people = make_people(3_000, 1)
    assert certify("--sensitive", "sex").json["look"] == 1
    changed = {
        "renamed": people,
        "shuffled": people.sample(frac=1.0, random_state=0),
        "half": people.sample(frac=0.5, random_state=0),
        "scaled": people.assign(age=2 * people["age"]),
        "recoded": people.sample(frac=1.0, random_state=1).assign(approved=lambda frame: frame["approved"] * 7),
        "joined": people.sample(frac=1.0, random_state=2).assign(score=np.arange(3_000) * 0.5),
    }
    for look, (name, frame) in enumerate(changed.items(), 2):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        result = certify("--sensitive", "sex", "--confidence", 0.9 - look / 100, data=(tmp_path / f"{name}.csv",))
        assert result.json["look"] == look, name
    make_people(3_000, 2).to_csv(tmp_path / "fresh.csv", index=False)
    assert certify("--sensitive", "sex", data=(tmp_path / "fresh.csv",)).json["look"] == 1
