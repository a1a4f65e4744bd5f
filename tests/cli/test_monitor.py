"""``certifare monitor``."""

import json
import shutil

import duckdb
import numpy as np
import pytest


def said(result):
    """Return what a command printed on standard error, in one line."""
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def world(tmp_path_factory, make_people, files):
    """A bundle, and three months of records; in the last, the ages of one group have changed."""
    folder = tmp_path_factory.mktemp("monitored")
    (folder / "bundle").mkdir()
    shutil.copy(files / "encoder.json", folder / "bundle" / "encoder.json")
    for i, month in enumerate(("october", "may", "june", "july"), 20):
        people = make_people(6_000, i)
        if month == "july":
            people.loc[people["sex"] == "m", "age"] += 25
        people.to_csv(folder / f"{month}.csv", index=False)
        with duckdb.connect(str(folder / "people.db")) as connection:
            connection.register("frame", people)
            connection.execute(f"CREATE TABLE {month} AS SELECT * FROM frame")  # noqa: S608
    return folder


@pytest.fixture
def desk(cli, world, tmp_path, monkeypatch):
    shutil.copytree(world, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    made = cli(
        "certify", "bundle/encoder.json", "october.csv", "--sensitive", "sex", "-o", "bundle/certificate.json",
    )  # fmt: skip
    assert made.status == 0, made.stderr
    return tmp_path / "desk"


def test_files_counts_and_databases_give_the_same_findings(cli, desk):
    for month in ("may", "june"):
        counted = cli("count", "bundle", f"{month}.csv", "--sensitive", "sex", "-o", f"{month}.json")
        assert counted.status == 0, counted.stderr
        for history, records in (
            ("of-files.json", [f"{month}.csv"]),
            ("of-counts.json", [f"{month}.json"]),
            ("of-a-database.json", ["--sql", f"duckdb:///{desk}/people.db", "--table", month, "--period", month]),
        ):
            result = cli("monitor", "bundle", *records, "--history", history, "--json")
            assert result.status == 0, result.stderr
    courses = [
        cli("monitor", "bundle", "--history", f"of-{way}.json", "--json").json["periods"]
        for way in ("files", "counts", "a-database")
    ]
    assert courses[0] == courses[1] == courses[2]
    assert [period["name"] for period in courses[0]] == ["may", "june"]


def test_counts_files_are_called_by_their_names(cli, desk):
    for month in ("may", "june"):
        assert cli("count", "bundle", f"{month}.csv", "--sensitive", "sex", "-o", f"{month}.json").status == 0
    for command in (["monitor", "bundle"], ["certify", "bundle"]):
        for times in (2, 3):
            result = cli(*command, "may.json", *["june.json"] * times)
            assert result.status == 2
            assert "'june.json, again' and 'june.json' are the same counts" in result.stderr
    other = json.loads((desk / "june.json").read_text()) | {"encoder": "ab" * 32}
    (desk / "other.json").write_text(json.dumps(other))
    assert "'other.json' was counted with another encoder" in cli("monitor", "bundle", "may.json", "other.json").stderr
    mixed = cli("monitor", "bundle", "may.csv", "may.json")
    assert mixed.status == 2
    assert "'may.csv' is no counts file, and the others are" in mixed.stderr


def test_each_run_adds_a_period_and_a_refuted_target_exits_with_1(cli, desk):
    first = cli("monitor", "bundle", "may.csv", "--target", "0.12", "--periods", "12", "--output", "course.html")
    assert first.status == 0, first.stderr
    assert "all findings hold together with 95 % confidence" in first.stdout
    assert "<svg" in (desk / "course.html").read_text()
    before = (desk / "history.json").read_bytes()
    again = cli("monitor", "bundle", "may.csv", "--period", "June")
    assert again.status == 2
    assert "already in the history, as 'may'" in again.stderr
    assert (desk / "history.json").read_bytes() == before
    moved = cli("monitor", "bundle", "july.csv", "--output", "course.html", "--json")
    assert moved.status == 1
    assert moved.json["outcome"] == "REFUTED"
    assert len(json.loads((desk / "history.json").read_text())["periods"]) == 2
    # The course can be looked at again, and is what it was.
    course = cli("monitor", "bundle")
    assert course.status == 1
    assert "REFUTED" in course.stdout
    assert len(json.loads((desk / "history.json").read_text())["periods"]) == 2


def test_a_history_that_says_something_else_than_the_certificate_is_refused(cli, desk):
    assert cli("monitor", "bundle", "may.csv", "--target", "0.12").status == 0
    written = (desk / "history.json").read_text()
    document = json.loads(written)
    forged = {
        "trials": {**document, "trials": 1_000_000},
        "pools": {**document, "pools": [[0, 1]]},
        "training": {**document, "training": {**document["training"], "table": document["reference"]["table"]}},
    }
    for name, changed in forged.items():
        (desk / "history.json").write_text(json.dumps(changed))
        result = cli("monitor", "bundle", "june.csv")
        assert result.status == 2
        assert f"it differs from the bundle in {name}. Name another file with --history." in said(result)
    (desk / "history.json").write_text(written.replace('"target":', '"target":1.0,"target":', 1))
    twice = cli("monitor", "bundle", "june.csv")
    assert twice.status == 2
    assert "the key 'target' occurs twice" in said(twice)


def test_what_the_first_run_chose_is_in_every_output(cli, desk):
    options = ["--target", "0.12", "--confidence", "0.9", "--periods", "4", "--min-group-size", "50"]
    result = cli("monitor", "bundle", "may.csv", *options, "--output", "course.html")
    assert result.status == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "target 0.12 (T* of the certificate: 0." in told
    assert "with 90 % confidence, over 4 planned periods; groups of fewer than 50 records" in told
    found = cli("monitor", "bundle", "--json").json
    assert [found[name] for name in ("target", "confidence", "planned", "min_group_size")] == [0.12, 0.9, 4, 50]
    certificate = json.loads((desk / "bundle" / "certificate.json").read_text())["predicate"]["certificate"]
    assert found["certified"] == certificate["bound"]
    page = (desk / "course.html").read_text()
    for words in ("target 0.12", "90 % confidence", "for the 4 periods", "fewer than 50 records"):
        assert words in page


def test_a_group_that_is_missing_leaves_the_target_open(cli, desk, make_people):
    three = make_people(6_000, 30)
    three.loc[::3, "sex"] = "x"
    three.to_csv("three.csv", index=False)
    (desk / "bundle" / "certificate.json").unlink()
    arguments = ["bundle/encoder.json", "three.csv", "--sensitive", "sex"]
    assert cli("certify", *arguments, "-o", "bundle/certificate.json").status == 0
    result = cli("monitor", "bundle", "may.csv", "--target", "0.9", "--json")
    assert result.status == 0
    assert (result.json["outcome"], result.json["periods"][0]["small"]) == ("NOT REFUTED", ["x"])
    shown = cli("monitor", "bundle")
    assert "no record of x in this period: nothing is said of them, and the target is not confirmed" in said(shown)
    assert "CONFIRMED" not in shown.stdout


def test_training_records_are_refused(cli, desk, make_people, files):
    from certifare import FairTreeEncoder

    train = make_people(3_000, 0)
    encoder = FairTreeEncoder(sensitive="sex", max_cells=8, min_cell_size=50)
    encoder.fit(train.drop(columns="approved"), train["approved"])
    (desk / "bundle" / "private").mkdir()
    encoder.fingerprint_.save(desk / "bundle" / "private" / "fingerprint.npz")
    train.to_csv(desk / "train.csv", index=False)
    result = cli("monitor", "bundle", "train.csv")
    assert result.status == 2
    assert "played no part in fitting" in result.stderr
    assert not (desk / "history.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no records to begin one with"),
        (["may.csv", "june.csv"], "one file of records"),
        (["may.csv", "--target", "3"], "[0, 1]"),
        (["may.csv", "--sensitive", "sex"], "No such option: --sensitive"),
        (["--sql", "duckdb:///people.db", "--table", "may"], "--period"),
        (["few.csv"], "Choose a longer period"),
        (["may.csv", "--history", "may.csv"], "is not a history"),
    ],
)
def test_bad_input_leaves_nothing_behind(cli, desk, arguments, words):
    lines = (desk / "may.csv").read_text().splitlines()
    (desk / "few.csv").write_text("\n".join(lines[:40]) + "\n")
    before = sorted(desk.iterdir())
    result = cli("monitor", "bundle", *arguments)
    assert result.status == 2
    assert words in " ".join(result.stderr.split())
    assert sorted(desk.iterdir()) == before


def test_what_the_first_run_fixed_stays(cli, desk):
    assert cli("monitor", "bundle", "may.csv", "--target", "0.5", "--periods", "2").status == 0
    changed = cli("monitor", "bundle", "june.csv", "--target", "0.6")
    assert changed.status == 2
    assert "what was fixed then stays" in changed.stderr
    assert cli("monitor", "bundle", "june.csv", "--target", "0.5").status == 0
    third = cli("monitor", "bundle", "july.csv")
    assert third.status == 2
    assert "2 periods were planned" in third.stderr


def test_another_certificate_has_another_history(cli, desk):
    assert cli("monitor", "bundle", "may.csv").status == 0
    made = cli("certify", "bundle/encoder.json", "june.csv", "--sensitive", "sex", "-o", "other.json")
    assert made.status == 0, made.stderr
    shutil.copy("other.json", "bundle/certificate.json")
    other = cli("monitor", "bundle", "july.csv")
    assert other.status == 2
    assert "another certificate" in other.stderr


def test_a_forged_certificate_is_not_monitored(cli, desk):
    path = desk / "bundle" / "certificate.json"
    text = path.read_text()
    document = json.loads(text)
    assert np.isfinite(document["predicate"]["certificate"]["bound"])
    document["predicate"]["certificate"]["bound"] = 0.001
    path.write_text(json.dumps(document))
    result = cli("monitor", "bundle", "may.csv")
    assert result.status == 2
    assert "figures: " in " ".join(result.stderr.split())


def test_group_aware_encoders_can_be_monitored(cli, desk, make_people):
    make_people(8_000, 40).to_csv("train.csv", index=False)
    made = cli(
        "fit", "train.csv", "--label", "approved", "--sensitive", "sex", "--group-aware", "--max-cells", "4",
        "-o", "aware",
    )  # fmt: skip
    assert made.status == 0, made.stderr
    for month in ("may", "june"):
        result = cli("monitor", "aware", f"{month}.csv", "--history", "aware.json", "--json")
        assert result.status in (0, 1), result.stderr
    assert [sum(period["groups"].values()) for period in result.json["periods"]] == [6_000, 6_000]


def test_periods_are_drawn_as_the_certification_records_were(cli, desk, make_people):
    """Visits of one person are not independent, wherever they are counted."""
    for name, seed in (("october", 30), ("may", 31)):
        people = make_people(2_000, seed)
        visits = people.loc[people.index.repeat(3)].assign(person=np.repeat(np.arange(2_000), 3))
        visits["age"] += np.tile([0.1, 0.2, 0.3], 2_000)
        visits.to_csv(f"visits-{name}.csv", index=False)
        with duckdb.connect("people.db") as connection:
            connection.register("frame", visits)
            connection.execute(f"CREATE TABLE visits_{name} AS SELECT * FROM frame")  # noqa: S608
    shutil.copytree("bundle", "drawn")
    made = cli(
        "certify", "bundle/encoder.json", "visits-october.csv", "--sensitive", "sex", "--cluster", "person",
        "-o", "drawn/certificate.json",
    )  # fmt: skip
    assert made.status == 0, made.stderr
    for bundle, file in (("bundle", "all.json"), ("drawn", "drawn.json")):
        made = cli("count", bundle, "visits-may.csv", "-o", file)
        assert made.status == 0, made.stderr
    database = ["--sql", "duckdb:///people.db", "--table", "visits_may", "--period", "may"]
    refused = cli("monitor", "drawn", *database)
    assert refused.status == 2
    assert "sampled by the column 'person', which needs all of them in memory" in refused.stderr
    refused = cli("monitor", "drawn", "all.json")
    assert refused.status == 2
    assert "counts all records, but the certificate of the bundle is about records drawn by the clusters" in said(
        refused
    )
    refused = cli("monitor", "bundle", "drawn.json")
    assert refused.status == 2
    assert "but the certificate of the bundle is about all records" in said(refused)
    # A file is drawn as the certificate says, and so is what count makes of it.
    of_file = cli("monitor", "drawn", "visits-may.csv", "--history", "a.json", "--json").json["periods"][0]
    of_counts = cli("monitor", "drawn", "drawn.json", "--history", "b.json", "--json").json["periods"][0]
    assert sum(of_file["groups"].values()) == 2_000
    assert {**of_file, "name": ""} == {**of_counts, "name": ""}


def test_new_values_of_a_certified_column_are_refused(cli, desk, make_people):
    """In one cell, they would hide what rules on the column can do."""
    made = cli("certify", "october.csv", "--column", "job", "--sensitive", "sex", "-o", "column")
    assert made.status == 0, made.stderr
    known = cli("monitor", "column", "may.csv", "--json")
    assert known.status == 0, known.stderr
    june = make_people(6_000, 22)
    june.loc[june.index < 40, "job"] = np.where(june["sex"] == "f", "weaver", "baker")[:40]
    june.to_csv("june.csv", index=False)
    refused = cli("monitor", "column", "june.csv")
    assert refused.status == 2
    assert "40 records have values of the column 'job' that were not there when it was certified" in said(refused)
    for command in (
        ["certify", "column", "june.csv"],
        ["count", "column", "june.csv", "-o", "june.json"],
        ["verify", "column", "--data", "june.csv"],
    ):
        again = cli(*command)
        assert again.status == 2
        assert said(again) == said(refused)


def test_groups_that_are_written_otherwise_are_named(cli, desk, make_people):
    make_people(2_000, 23).replace({"sex": {"f": "F", "m": "M"}}).to_csv("upper.csv", index=False)
    refused = cli("monitor", "bundle", "upper.csv")
    assert refused.status == 2
    assert "has the groups 'F', 'M', but the certificate has 'f', 'm'" in refused.stderr
