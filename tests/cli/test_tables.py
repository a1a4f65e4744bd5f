"""Issue 15, item 6: tables as they are."""

import datetime

import pandas as pd
import pyarrow.parquet as pq
import pytest

from certifare.errors import ColumnTypeError, DuplicateColumnError, FileFormatError, RoleError
from certifare.files import inspect_csv, open_batches, read_file
from certifare.table import Table, read_table


def write(path, text):
    path.write_text(text)
    return path


def test_item_6_a_file_without_a_header(tmp_path):
    path = write(tmp_path / "adult.data", "39, Private, Male\n50, Self-emp, Female\n")
    numbered, _ = read_file(path, header=False)
    assert numbered.column_names == ["column_1", "column_2", "column_3"]
    named, _ = read_file(path, names=["age", "work", "sex"])
    assert named.to_pylist()[0] == {"age": 39, "work": "Private", "sex": "Male"}
    assert named.num_rows == 2
    assert [batch.num_rows for batch in open_batches(path, {"sex": None}, names=["age", "work", "sex"])] == [2]
    less, notes = read_file(path, names=["age", "", "sex"])
    assert less.column_names == ["age", "sex"]
    assert "column 2 has no name" in notes[0]


def test_item_6_names_fit_the_file(tmp_path):
    path = write(tmp_path / "t.csv", "1,2\n3,4\n")
    with pytest.raises(FileFormatError, match=r"2 columns .* 3 names"):
        inspect_csv(path, names=["a", "b", "c"])
    with pytest.raises(DuplicateColumnError, match="list of names"):
        inspect_csv(path, names=["a", "a"])


def test_item_6_a_first_line_that_is_a_record_is_pointed_out(tmp_path):
    path = write(tmp_path / "t.csv", "39,Private\n50,State\n")
    assert "--header none" in inspect_csv(path).notes[0]
    assert inspect_csv(path, header=False).notes == ()


def test_item_6_header_none_on_the_command_line(cli, make_people, files, tmp_path):
    people = make_people(600, 3)
    people.to_csv(tmp_path / "bare.csv", index=False, header=False)
    arguments = ["certify", files / "encoder.json", tmp_path / "bare.csv", "--sensitive", "sex", "--json"]
    bound = cli(*arguments, "--names", "sex,age,job,approved").json["bound"]
    people.to_csv(tmp_path / "headed.csv", index=False)
    assert cli("certify", files / "encoder.json", tmp_path / "headed.csv", "--sensitive", "sex", "--json").json[
        "bound"
    ] == pytest.approx(bound)
    assert "no column" in cli(*arguments, "--header", "none").stderr
    assert "choose first" in cli(*arguments, "--header", "2").stderr


def test_item_6_encode_to_parquet_keeps_types(cli, make_people, files, tmp_path):
    people = make_people(50, 3).assign(
        zip=[f"{i:05d}" for i in range(50)], day="2026-11-15", member=True, income=[1.5, None] * 25
    )
    people.to_csv(tmp_path / "p.csv", index=False)
    kept = [part for name in ("approved", "zip", "day", "member", "income", "age") for part in ("--keep", name)]
    for source, name in ((tmp_path / "p.csv", "from_csv"), (None, "from_parquet")):
        if source is None:
            source = tmp_path / "p.parquet"
            people.assign(day=datetime.date(2026, 11, 15)).to_parquet(source)
        result = cli("encode", files / "encoder.json", source, tmp_path / f"{name}.parquet", "--as", "cells", *kept)
        assert result.status == 0, result.stderr
        schema = pq.read_schema(tmp_path / f"{name}.parquet")
        assert [str(schema.field(f).type) for f in ("approved", "day", "member", "income")] == [
            "int64", "date32[day]", "bool", "double",
        ]  # fmt: skip
        assert pd.read_parquet(tmp_path / f"{name}.parquet")["zip"][7] == "00007"
        assert pd.read_parquet(tmp_path / f"{name}.parquet")["income"].isna().sum() == 25


def test_item_6_all_date_columns_in_one_error(tmp_path):
    path = write(tmp_path / "t.csv", "x,born,joined,s,y\n1,1980-01-02,2020-01-01,f,0\n2,1981-01-02,2021-01-01,m,1\n")
    with pytest.raises(ColumnTypeError, match="dates or times: 'born'.*'joined'.*--drop born,joined"):
        read_table(path, label="y", sensitive="s")
    assert read_table(path, label="y", sensitive="s", drop="born,joined").features.column_names == ["x"]
    days = pd.date_range("2020-01-01", periods=2)
    people = pd.DataFrame({"day (of birth)": days, "end": days, "x": [1, 2], "y": [0, 1]})
    with pytest.raises(ColumnTypeError, match="--drop 'day \\(of birth\\),end'"):
        Table.from_frame(people, label="y")


def test_item_6_values_that_may_stand_for_missing_are_suggested(tmp_path):
    rows = [f"{i},{i % 7},nurse" for i in range(60)]
    rows[3], rows[5] = "-,-9,unknown", "41,-9,cook"
    path = write(tmp_path / "t.csv", "\n".join(["income,rank,job", *rows]) + "\n")
    (note,) = read_file(path)[1]
    for words in ("'-' in 'income' (1 record)", "'-9' in 'rank' (2 records)", "'unknown' in 'job'", "--missing"):
        assert words in note
    clean, notes = read_file(path, missing=("-", "-9", "unknown"))
    assert notes == ()
    assert str(clean.schema.field("income").type) == "int64"
    assert clean.column("rank").null_count == 2


def test_item_6_a_marker_is_one_more(cli, files, make_people, tmp_path):
    """Whoever names a marker does not lose the usual ones."""
    people = make_people(600, 3)
    people["age"] = people["age"].astype(object)
    people.loc[:9, "age"], people.loc[10:19, "age"] = "?", "n.k."
    people.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["certify", files / "encoder.json", tmp_path / "t.csv", "--sensitive", "sex"]
    assert "'n.k.' where numbers" in cli(*arguments).stderr
    assert cli(*arguments, "--missing", "n.k.").status == 0


def test_item_6_a_numeric_sensitive_column_gets_the_suggestion_of_a_comparison():
    people = pd.DataFrame({"x": range(300), "age": range(300), "y": [0, 1] * 150})
    with pytest.raises(RoleError, match='quantity.*"age>=150"'):
        Table.from_frame(people, label="y", sensitive="age")
    with pytest.raises(RoleError, match='quantity.*"x>=150"'):
        Table.from_frame(people, label="x", sensitive="y")


@pytest.fixture
def apart(make_people, tmp_path):
    """Records in one file, their groups in another, by a key."""
    people = make_people(600, 3).assign(id=range(600))
    people.drop(columns="sex").to_csv(tmp_path / "records.csv", index=False)
    groups = people[["id", "sex"]].sample(frac=1, random_state=0)
    groups.to_csv(tmp_path / "groups.csv", index=False)
    people.to_csv(tmp_path / "whole.csv", index=False)
    return tmp_path, groups


def test_item_6_sensitive_columns_from_a_second_file(cli, files, apart):
    folder, groups = apart
    joined = ["--sensitive", "sex", "--sensitive-file", folder / "groups.csv", "--on", "id", "--json"]
    whole = cli("certify", files / "encoder.json", folder / "whole.csv", "--sensitive", "sex", "--json").json
    apart_ = cli("certify", files / "encoder.json", folder / "records.csv", *joined).json
    assert apart_["counts"] == whole["counts"]
    groups.iloc[25:].assign(id=lambda t: t["id"].astype(float)).to_parquet(folder / "fewer.parquet")
    fewer = read_table(
        folder / "records.csv", label="approved", sensitive="sex", sensitive_file=folder / "fewer.parquet", on="id"
    )
    assert len(fewer) == 575
    assert [(e.reason, e.records) for e in fewer.exclusions] == [("group missing", 25)]
    assert "25 of 600 records have no group" in fewer.notes[0]
    assert fewer.features.column_names == ["age", "job"]  # the key is none


def test_item_6_keys_that_do_not_join(cli, files, apart):
    folder, groups = apart

    def told(frame, *arguments):
        frame.to_csv(folder / "bad.csv", index=False)
        result = cli("certify", files / "encoder.json", folder / "records.csv", "--sensitive", "sex", *arguments)
        assert result.status == 2
        return " ".join(result.stderr.split())

    file = ["--sensitive-file", folder / "bad.csv"]
    assert "Pass --on" in told(groups, *file)
    assert "--on would be ignored" in told(groups, "--on", "id")
    assert "The key 'id' repeats in 'bad.csv' (1 value" in told(pd.concat([groups, groups[:1]]), *file, "--on", "id")
    assert "is it the same key" in told(groups.assign(id=lambda t: t["id"] + 1000), *file, "--on", "id")
    assert "no column 'ident'" in told(groups, *file, "--on", "ident")
    assert "have a column 'age'" in told(groups.assign(age=1), *file, "--on", "id", "--sensitive", "age>=40")
    assert "no column 'sex'" in told(groups.drop(columns="sex"), *file, "--on", "id")


def test_item_6_certify_takes_several_files(cli, files, make_people, tmp_path):
    people = make_people(900, 3)
    people.to_csv(tmp_path / "all.csv", index=False)
    people[:300].to_csv(tmp_path / "1.csv", index=False)
    people[300:500].assign(extra=1).to_parquet(tmp_path / "2.parquet")
    people[500:].to_csv(tmp_path / "3.csv", index=False)
    parts = [tmp_path / name for name in ("1.csv", "2.parquet", "3.csv")]
    whole = cli("certify", files / "encoder.json", tmp_path / "all.csv", "--sensitive", "sex", "--json").json
    several = cli("certify", files / "encoder.json", *parts, "--sensitive", "sex", "--json").json
    assert several["counts"] == whole["counts"]
    column = ["--column", "job", "--sensitive", "sex", "--json"]
    assert (
        cli("certify", *parts, *column).json["counts"] == cli("certify", tmp_path / "all.csv", *column).json["counts"]
    )
    twice = cli("certify", files / "encoder.json", parts[0], parts[0], "--sensitive", "sex")
    assert twice.status == 2
    assert "named twice" in twice.stderr


def test_item_6_certify_finds_the_sensitive_columns_in_the_bundle(cli, files, make_people, tmp_path):
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "encoder.json").write_bytes((files / "encoder.json").read_bytes())
    make_people(600, 3).to_csv(tmp_path / "fresh.csv", index=False)
    assert "Pass --sensitive" in cli("certify", bundle, tmp_path / "fresh.csv").stderr
    first = ["certify", bundle, tmp_path / "fresh.csv", "--sensitive", "sex", "--label", "approved", "--json"]
    certificate = cli(*first, "-o", bundle / "certificate.json").json
    make_people(600, 4).to_csv(tmp_path / "more.csv", index=False)
    found = cli("certify", bundle, tmp_path / "more.csv")
    assert found.status == 0
    assert "read from sex, as in the certificate" in found.stderr
    odds = cli("certify", bundle, tmp_path / "more.csv", "--metric", "equalized_odds", "--json").json
    assert list(odds["counts"]["labels"]) == ["0", "1"]
    assert certificate["counts"]["labels"] is None
    (bundle / "encoder.json").write_text((files / "encoder.json").read_text() + "\n")  # another encoder
    assert "Pass --sensitive" in cli("certify", bundle, tmp_path / "more.csv").stderr
