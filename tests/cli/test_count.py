"""``certifare count``, and ``certifare certify`` from counts."""

import json

import duckdb
import pandas as pd
import pytest

from certifare import FairTreeEncoder
from certifare.certificates.assumptions import NOT_LOOKED_UP
from certifare.document import read_document
from certifare.document.counts_files import OTHER_PEOPLE, OWN_CLUSTERS

from .conftest import people


@pytest.fixture
def counted(cli, files, tmp_path):
    """Counts files of three holders, and the records of all of them in one file."""
    frames = [people(n, seed) for n, seed in ((700, 11), (800, 12), (900, 13))]
    paths = []
    for i, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
        paths.append(tmp_path / f"{i}.json")
        result = cli(
            "count", files / "encoder.json", tmp_path / f"{i}.csv", "--sensitive", "sex", "--output", paths[-1],
        )  # fmt: skip
        assert result.status == 0
        assert f"{len(frame):,} records" in result.stdout
    pd.concat(frames).to_csv(tmp_path / "all.csv", index=False)
    return paths


def test_holders_certify_together(cli, files, counted, tmp_path):
    whole = cli("certify", files / "encoder.json", tmp_path / "all.csv", "--sensitive", "sex", "--json").json
    together = cli("certify", *counted, "--json").json
    assert together["counts"] == whole["counts"]
    assert together["bound"] == whole["bound"]
    assert together["assumptions"][-2:] == [NOT_LOOKED_UP, OTHER_PEOPLE]
    with_encoder = cli("certify", files / "encoder.json", *counted, "--output", tmp_path / "certificate.json")
    assert with_encoder.status == 0
    stated = read_document(tmp_path / "certificate.json").statement
    assert stated.predicate.reading.sensitive == ("sex",)
    verdict = cli("verify", tmp_path / "certificate.json", "--encoder", files / "encoder.json")
    assert verdict.status == 0


def test_the_producer_cannot_count_training_records(cli, tmp_path):
    train, fresh = people(2000, 0), people(800, 1)
    encoder = FairTreeEncoder(sensitive="sex", max_cells=4).fit(train.drop(columns="approved"), train["approved"])
    encoder.save(tmp_path / "encoder.json")
    (tmp_path / "private").mkdir()
    encoder.fingerprint_.save(tmp_path / "private" / "fingerprint.npz")
    for name, frame in (("train", train), ("fresh", fresh)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    arguments = ["--sensitive", "sex", "--output", tmp_path / "counts.json"]
    refused = cli("count", tmp_path, tmp_path / "train.parquet", *arguments)
    assert refused.status == 2
    assert "2,000 of 2,000" in refused.stderr
    assert not (tmp_path / "counts.json").exists()
    assert cli("count", tmp_path, tmp_path / "fresh.parquet", *arguments).status == 0
    assert json.loads((tmp_path / "counts.json").read_text())["looked_up"] is True
    assert NOT_LOOKED_UP not in cli("certify", tmp_path / "counts.json", "--json").json["assumptions"]


def test_a_database_counts(cli, files, counted, tmp_path):
    with duckdb.connect(str(tmp_path / "people.db")) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM read_csv('{tmp_path}/all.csv')")  # noqa: S608
    place = ("--sql", f"duckdb:///{tmp_path}/people.db", "--table", "people", "--sensitive", "sex")
    together = cli("certify", *counted, "--json").json
    certified = cli("certify", files / "encoder.json", *place, "--json").json
    assert certified["counts"] == together["counts"]
    assert certified["bound"] == together["bound"]
    result = cli("count", files / "encoder.json", *place, "--output", tmp_path / "db.json", "--json")
    assert result.json["records"] == 2400
    assert cli("certify", tmp_path / "db.json", "--json").json["bound"] == together["bound"]


def test_weights_and_clusters_are_drawn_before_counting(cli, files, tmp_path):
    """Counts with weights and clusters are of records that were drawn first, and the certificate says so."""
    frame = people(1500, 21).assign(home=lambda t: t.index // 3, w=lambda t: 1.0 + (t["sex"] == "m"))
    frame.to_csv(tmp_path / "people.csv", index=False)
    place = [files / "encoder.json", tmp_path / "people.csv", "--sensitive", "sex"]
    plain = cli("certify", *place, "--json").json
    for how in (["--weight", "w"], ["--cluster", "home"], ["--weight", "w", "--cluster", "home"]):
        whole = cli("certify", *place, *how, "--seed", 3, "--json").json
        results = []
        for seed in (3, 3, 4):
            drawing = ["--seed", seed, "--output", tmp_path / "counts.json"]
            assert cli("count", *place, *how, *drawing).status == 0
            results.append(cli("certify", tmp_path / "counts.json", "--json").json)
        one, again, other = results
        assert one["counts"] == again["counts"] == whole["counts"] != other["counts"]
        assert (one["seed"], one["effective_size"]) == (3, pytest.approx(whole["effective_size"]))
        assert one["bound"] > plain["bound"]
        assert set(whole["assumptions"]) <= set(one["assumptions"])
        left_out = sum(exclusion["records"] for exclusion in one["counts"]["exclusions"])
        counted = sum(map(sum, one["counts"]["table"]))
        assert counted + left_out == 1500
        assert "--cluster" not in how or counted == 500
    written = json.loads((tmp_path / "counts.json").read_text())
    assert (written["reading"]["weight"], written["reading"]["cluster"], written["seed"]) == ("w", "home", 4)


def test_holders_draw_independently(cli, files, tmp_path):
    """A draw knows its records, so that no two holders have the same draws, though both take the same seed."""
    for i in range(2):
        people(900, 31 + i).assign(home=lambda t: t.index // 3).to_csv(tmp_path / f"{i}.csv", index=False)
        arguments = [files / "encoder.json", tmp_path / f"{i}.csv", "--sensitive", "sex", "--cluster", "home"]
        assert cli("count", *arguments, "--output", tmp_path / f"{i}.json").status == 0
        assert json.loads((tmp_path / f"{i}.json").read_text())["seed"] == 0
    certificate = cli("certify", tmp_path / "0.json", tmp_path / "1.json", "--json").json
    assert sum(map(sum, certificate["counts"]["table"])) == 600
    assert OWN_CLUSTERS in certificate["assumptions"]
    assert certificate["seed"] is None
    # Other records of the same people, in the same homes and the same order: others of them are drawn.
    visits = people(900, 31).assign(home=lambda t: t.index // 3)
    tables = []
    for year in (2029, 2030):
        visits.assign(year=year).to_csv(tmp_path / "visits.csv", index=False)
        arguments = [files / "encoder.json", tmp_path / "visits.csv", "--sensitive", "sex", "--cluster", "home"]
        assert cli("count", *arguments, "--seed", 7, "--output", tmp_path / f"{year}.json").status == 0
        written = json.loads((tmp_path / f"{year}.json").read_text())
        assert written["seed"] == 7
        tables.append(written["counts"]["table"])
    assert sum(map(sum, tables[0])) == sum(map(sum, tables[1])) == 300
    assert tables[0] != tables[1]
    # They are of the same people all the same.
    twice = cli("certify", tmp_path / "2029.json", tmp_path / "2030.json")
    assert twice.status == 2
    assert "count the same records" in twice.stderr


def test_counts_with_another_number_of_cells_are_refused(cli, files, counted, tmp_path):
    """A table of one row for an encoder of several cells gave a tiny bound, which was signed and verified."""
    content = json.loads(counted[0].read_text())
    content["counts"]["table"] = [[sum(column) for column in zip(*content["counts"]["table"], strict=True)]]
    forged = tmp_path / "forged.json"
    for cells in (content["cells"], 1):
        forged.write_text(json.dumps({**content, "cells": cells}))
        result = cli("certify", files / "encoder.json", forged, "--output", tmp_path / "c.json")
        assert result.status == 2
        assert f"{'rows' if cells > 1 else 'The encoder has'}" in result.stderr
        assert not (tmp_path / "c.json").exists()
    # Without the encoder nobody can know; whoever verifies with it does.
    assert cli("certify", forged, "--output", tmp_path / "c.json").status == 0
    verdict = cli("verify", tmp_path / "c.json", "--encoder", files / "encoder.json")
    assert verdict.status == 1
    assert "cells" in verdict.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["count", "encoder.json", "--output", "x.json", "--sensitive", "sex"], "Which records"),
        (["count", "encoder.json", "fresh.csv", "--output", "x.json"], "--sensitive"),
        (["count", "encoder.json", "--sql", "duckdb:///x.db", "--output", "x.json", "--sensitive", "sex"], "--table"),
        (["count", "encoder.json", "fresh.csv", "--output", "nowhere/x.json", "--sensitive", "sex"], "nowhere"),
        (["certify", "encoder.json", "--sql", "duckdb:///no.db", "--table", "t", "--sensitive", "sex"], "no.db"),
        (["certify", "encoder.json", "--sql", "duckdb:///no.db", "--sensitive", "sex"], "--table"),
        (["certify", "encoder.json", "fresh.csv", "--sql", "duckdb:///no.db", "--table", "t"], "not both"),
        (["certify", "encoder.json", "--sensitive", "sex"], "Which records"),
        (["certify", "encoder.json", "fresh.csv", "fresh.csv", "--sensitive", "sex"], "is listed twice"),
    ],
)
def test_bad_input_is_refused(cli, files, monkeypatch, arguments, words):
    monkeypatch.chdir(files)
    result = cli(*arguments)
    assert result.status == 2
    assert words in " ".join(result.stderr.split())
    assert not (files / "x.json").exists()
