"""``certifare check`` finds what is odd about a table, and spends no look; ``fit`` makes the same checks."""

import numpy as np
import pytest

#: Checking spends no look: one is counted by the fit that follows.
LEDGER = True
ROLES = ("--label", "approved", "--sensitive", "sex")


@pytest.fixture(scope="session")
def odd(tmp_path_factory, make_people):
    """A table with everything that may be odd about one."""
    rng = np.random.default_rng(0)
    people = make_people(6_000, 5)
    people = people.assign(
        sex=people["sex"][:3_000].repeat(2).to_numpy(),
        person=rng.permutation(10**6)[:3_000].repeat(2),
        number=np.arange(6_000),
        decision=np.where(rng.random(6_000) < 0.99, people["approved"], 1 - people["approved"]),
        day=np.datetime64("2024-01-01") + rng.integers(0, 300, 6_000),
        years=18 + np.arange(6_000) % 62,
        rare=np.where(rng.random(6_000) < 0.9, np.nan, 1.0),
    )
    path = tmp_path_factory.mktemp("check") / "odd.csv"
    people.to_csv(path, index=False)
    return path


def test_everything_odd_is_found_by_column_and_severity(cli, odd):
    result = cli("check", odd, *ROLES, "--json")
    assert (result.status, result.json["outcome"], result.json["exit_status"]) == (1, "NOT READY", 1)
    found = [(finding["severity"], finding["column"]) for finding in result.json["findings"]]
    assert found == [
        ("error", "day"),
        ("warning", "number"),
        ("warning", "person"),
        ("warning", "decision"),
        ("note", "rare"),
    ]
    assert all(finding["remedy"] for finding in result.json["findings"] if finding["severity"] != "note")


def test_a_clean_table_is_ready_and_the_printed_fit_runs(cli, make_people, tmp_path, monkeypatch):
    make_people(3_000, 1).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    quick = ("--kind", "tree")
    result = cli("check", "people.csv", "--target", "0.3", *quick)
    assert result.status == 0
    assert "READY  people.csv: 3,000 records, 4 columns" in result.stdout
    assert "label      approved (a guess): 0 1," in result.stdout
    assert "sensitive  sex (a guess): f 1," in result.stdout
    assert "T* of 0.0" in result.stdout
    assert "fit takes about" in result.stdout
    command = result.stdout.splitlines()[-1].split("certifare ")[1]
    fitted = cli(*command.split(), "--json")
    assert fitted.status == 0, fitted.stderr
    # No look was spent by checking, before or after.
    assert fitted.json["look"]["number"] == 1
    after = cli("check", "people.csv", "--target", "0.3", *quick)
    assert after.status == 1
    assert "95 % confidence cannot be reached" in after.stdout


def test_records_that_are_left_out_are_counted_even_if_the_table_is_refused(cli, tmp_path):
    rows = [f"{i},{i % 7},{'' if i % 4 == 0 else 'fm'[i % 2]},2020-01-01\n" for i in range(400)]
    (tmp_path / "people.csv").write_text("id,x,sex,day\n" + "".join(rows))
    result = cli("check", tmp_path / "people.csv", "--label", "x>=3", "--sensitive", "sex", "--min-group-size", "900")
    assert result.status == 1
    assert "left out: 100 records (group missing)" in result.stdout


@pytest.mark.parametrize("command", ["check", "fit"])
def test_a_sensitive_column_of_62_numbers_stops_at_once_with_a_comparison(cli, odd, command, tmp_path):
    output = ("-o", tmp_path / "bundle") if command == "fit" else ()
    result = cli(command, odd, "--label", "approved", "--sensitive", "years", "--drop", "day", *output)
    assert result.status == {"check": 1, "fit": 2}[command]
    assert "62 different numbers" in result.stdout + result.stderr
    assert 'such as "years>=49"' in result.stdout + result.stderr


def test_fit_notes_what_check_finds(cli, odd, tmp_path):
    quick = ("--kind", "tree", "--drop", "day")
    result = cli("fit", odd, *ROLES, *quick, "-o", tmp_path / "bundle")
    assert result.status == 0, result.stderr
    assert "note: 'decision' alone predicts 'approved' almost without error" in result.stderr
    assert "note: 'person' has 3,000 values in 6,000 records" in result.stderr


def test_a_target_that_no_encoder_can_meet_is_said(cli, odd):
    result = cli("check", odd, *ROLES, "--drop", "day", "--target", "0.01")
    assert result.status == 0
    assert "no encoder can meet the target 0.01: with these records T* is at least 0.03" in result.stdout


def test_equal_opportunity_asks_for_the_positive_label_unless_it_is_certain(cli, make_people, tmp_path):
    people = make_people(3_000, 1)
    people["outcome"] = np.where(people["approved"] == 1, "accepted", "rejected")
    people.to_csv(tmp_path / "people.csv", index=False)
    metric = ("--sensitive", "sex", "--metric", "equal_opportunity")
    asked = cli("check", tmp_path / "people.csv", "--label", "outcome", "--drop", "approved", *metric)
    assert asked.status == 1
    assert "Which label is the positive one? Name one of 'accepted', 'rejected' (--positive" in asked.stdout
    named = ("--label", "outcome", "--drop", "approved", "--positive", "accepted")
    assert cli("check", tmp_path / "people.csv", *named, *metric).status == 0
    assert cli("check", tmp_path / "people.csv", "--label", "approved", "--drop", "outcome", *metric).status == 0
    assert (
        cli("check", tmp_path / "people.csv", "--label", "outcome==accepted", "--drop", "approved", *metric).status == 0
    )


def test_roles_that_cannot_be_guessed_are_asked_for(cli, tmp_path):
    (tmp_path / "people.csv").write_text("a,b\n" + "\n".join(f"{i},{i * 2}" for i in range(100)))
    result = cli("check", tmp_path / "people.csv")
    assert result.status == 2
    assert "Name it: --sensitive.\n" in result.stderr
    (tmp_path / "people.csv").write_text("geschlecht,b\n" + "\n".join(f"{'mw'[i % 2]},{i * 2}" for i in range(100)))
    assert "Name it: --sensitive. Columns of few values: 'geschlecht'" in cli("check", tmp_path / "people.csv").stderr


def test_the_suggested_target_is_within_reach(cli, make_people, tmp_path):
    make_people(400, 1).to_csv(tmp_path / "people.csv", index=False)
    result = cli("check", tmp_path / "people.csv", *ROLES, "--json")
    line = cli("check", tmp_path / "people.csv", *ROLES).stdout.splitlines()[-1]
    assert 0.08 < result.json["least_bound"] < float(line.split("--target ")[1])
    make_people(6_000, 1).to_csv(tmp_path / "people.csv", index=False)
    assert cli("check", tmp_path / "people.csv", *ROLES).stdout.splitlines()[-1].endswith("--target 0.08")
