"""Files without a header, dates, markers for missing values, keys, numeric labels and small groups."""

import datetime

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from certifare.bundle import produce
from certifare.certificates.claims import Claim
from certifare.errors import FileError, GroupError, RoleError, TableError
from certifare.frontier import Grid
from certifare.frontier.job import _pool
from certifare.tables.files import inspect_csv, open_batches, read_file
from certifare.tables.splitting import split, training_quantiles
from certifare.tables.table import Table, read_table


def write(path, text):
    path.write_text(text)
    return path


def test_a_file_without_a_header_gets_names(tmp_path):
    path = write(tmp_path / "adult.data", "39, Private, Male\n50, Self-emp, Female\n")
    numbered, _ = read_file(path, header=False)
    assert numbered.column_names == ["column_1", "column_2", "column_3"]
    named, _ = read_file(path, names=["age", "work", "sex"])
    assert named.to_pylist()[0] == {"age": 39, "work": "Private", "sex": "Male"}
    assert named.num_rows == 2
    assert [batch.num_rows for batch in open_batches(path, {"sex": None}, names=["age", "work", "sex"])] == [2]
    less, notes = read_file(path, names=["age", "", "sex"])
    assert less.column_names == ["age", "sex"]
    assert "left out column 2: it has no name" in notes[0]


def test_names_that_do_not_fit_the_file_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", "1,2\n3,4\n")
    with pytest.raises(FileError, match=r"2 columns .* 3 names"):
        inspect_csv(path, names=["a", "b", "c"])
    with pytest.raises(TableError, match="several columns called"):
        inspect_csv(path, names=["a", "a"])


def test_a_first_line_that_is_a_record_is_pointed_out(tmp_path):
    path = write(tmp_path / "t.csv", "39,Private\n50,State\n")
    assert "--names" in inspect_csv(path).notes[0]
    assert inspect_csv(path, header=False).notes == ()


def test_names_on_the_command_line_stand_for_a_header(cli, make_people, files, tmp_path):
    people = make_people(600, 3)
    people.to_csv(tmp_path / "bare.csv", index=False, header=False)
    arguments = ["certify", files / "encoder.json", tmp_path / "bare.csv", "--sensitive", "sex", "--json"]
    bound = cli(*arguments, "--names", "sex,age,job,approved").json["bound"]
    people.to_csv(tmp_path / "headed.csv", index=False)
    assert cli("certify", files / "encoder.json", tmp_path / "headed.csv", "--sensitive", "sex", "--json").json[
        "bound"
    ] == pytest.approx(bound)


def test_encode_to_parquet_keeps_types(cli, make_people, files, tmp_path):
    people = make_people(50, 3).assign(
        zip=[f"{i:05d}" for i in range(50)], day="2026-11-15", member=True, income=[1.5, None] * 25
    )
    people.to_csv(tmp_path / "p.csv", index=False)
    kept = ["--keep", "approved,zip", "--keep", "d*", "--keep", "member", "--keep", "income", "--keep", "age"]
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


def test_one_error_names_all_date_columns(tmp_path):
    path = write(tmp_path / "t.csv", "x,born,joined,s,y\n1,1980-01-02,2020-01-01,f,0\n2,1981-01-02,2021-01-01,m,1\n")
    with pytest.raises(TableError, match="dates or times: 'born'.*'joined'.*--drop born,joined"):
        read_table(path, label="y", sensitive="s")
    assert read_table(path, label="y", sensitive="s", drop="born,joined").features.column_names == ["x"]
    days = pd.date_range("2020-01-01", periods=2)
    people = pd.DataFrame({"day (of birth)": days, "end": days, "x": [1, 2], "y": [0, 1]})
    with pytest.raises(TableError, match="--drop 'day \\(of birth\\),end'"):
        Table.from_frame(people, label="y")


def test_values_that_may_stand_for_missing_are_suggested(tmp_path):
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


def test_a_missing_marker_is_added_to_the_usual_ones(cli, files, make_people, tmp_path):
    """Whoever names a marker does not lose the usual ones."""
    people = make_people(600, 3)
    people["age"] = people["age"].astype(object)
    people.loc[:9, "age"], people.loc[10:19, "age"] = "?", "n.k."
    people.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["certify", files / "encoder.json", tmp_path / "t.csv", "--sensitive", "sex"]
    assert "'n.k.' where numbers" in cli(*arguments).stderr
    assert cli(*arguments, "--missing", "n.k.").status == 0


def test_a_numeric_sensitive_column_gets_the_suggestion_of_a_comparison():
    people = pd.DataFrame({"x": range(300), "age": range(300), "y": [0, 1] * 150})
    with pytest.raises(RoleError, match='It is a number.*"age>=150"'):
        produce(people, label="y", sensitive="age")
    with pytest.raises(RoleError, match='It is a number.*"x>=150"'):
        produce(people, label="x", sensitive="y")


@pytest.fixture
def apart(make_people, tmp_path):
    """Records in one file, their groups in another, by a key."""
    people = make_people(600, 3).assign(id=range(600))
    people.drop(columns="sex").to_csv(tmp_path / "records.csv", index=False)
    groups = people[["id", "sex"]].sample(frac=1, random_state=0)
    groups.to_csv(tmp_path / "groups.csv", index=False)
    people.to_csv(tmp_path / "whole.csv", index=False)
    return tmp_path, groups


def test_sensitive_columns_from_a_second_file_give_the_same_counts(cli, files, apart):
    folder, groups = apart
    joined = ["--sensitive", "sex", "--sensitive-file", folder / "groups.csv", "--json"]
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


def test_keys_that_do_not_join_are_refused_with_the_remedy(cli, files, apart):
    folder, groups = apart

    def told(frame, *arguments):
        frame.to_csv(folder / "bad.csv", index=False)
        result = cli("certify", files / "encoder.json", folder / "records.csv", "--sensitive", "sex", *arguments)
        assert result.status == 2
        return " ".join(result.stderr.split())

    file = ["--sensitive-file", folder / "bad.csv"]
    assert "have no column in common" in told(groups.rename(columns={"id": "number"}), *file)
    assert "have 'id', 'age' in common" in told(groups.assign(age=1), *file)
    assert "The key 'id' repeats in 'bad.csv' (1 value" in told(pd.concat([groups, groups[:1]]), *file)
    assert "it is the same key" in told(groups.assign(id=lambda t: t["id"] + 1000), *file)
    assert "No column 'sex'" in told(groups.drop(columns="sex"), *file)


def test_certify_takes_several_files(cli, files, make_people, tmp_path):
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
    assert "listed twice" in twice.stderr


def test_certify_finds_the_sensitive_columns_in_the_bundle(cli, files, make_people, tmp_path):
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
    refused = cli("certify", bundle, tmp_path / "more.csv", "--sensitive", "sex")
    assert refused.status == 2
    assert "The encoder is not the certified one" in refused.stderr


def quantities(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c", "d"], n, p=[0.6, 0.37, 0.015, 0.015])
    x = rng.normal(size=n)
    income = np.round(np.exp(10 + 0.5 * x + 0.3 * rng.normal(size=n)))
    return pd.DataFrame({"x": x, "race": race, "income": income})


TREES = {"grid": Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[100], cells=[2, 4]), "ledger": False}


def test_cuts_turn_a_numeric_label_into_bands():
    people = quantities()
    people.loc[:4, "income"] = np.nan
    table = Table.from_frame(people, label="income", sensitive="race", label_cuts=[20_000, 50_000])
    names = ["20000 <= income < 50000", "income < 20000", "income >= 50000"]
    assert list(table.labels[0].names) == names
    expected = np.select(
        [people["income"].isna(), people["income"] < 20_000, people["income"] < 50_000], ["", *names[1::-1]], names[2]
    )
    found = np.array([*names, ""])[table.labels[0].codes]
    assert (found == expected).all()
    with pytest.raises(RoleError, match="ascending"):
        Table.from_frame(people, label="income", sensitive="race", label_cuts=[2, 1])
    with pytest.raises(TableError, match="must hold numbers"):
        Table.from_frame(people, label="race", sensitive="x>0", label_cuts=[1])
    with pytest.raises(RoleError, match="one label"):
        Table.from_frame(people.assign(z=people["x"]), label=["income", "x"], sensitive="race", label_cuts=[1])


def test_quantiles_come_from_training_records_only():
    people = quantities()
    roles = {"label": "income", "sensitive": "race==a"}
    cuts = training_quantiles(people, 4, **roles)
    assert len(cuts) == 3
    bundle = produce(people, label_quantiles=4, **roles, **TREES)
    search = bundle.frontier.search
    assert search.table.roles.label_cuts == cuts
    shares = np.bincount(search.train.labels[0].codes) / len(search.train)
    assert abs(shares - 0.25).max() < 0.02
    # They are the quantiles of all records but those that certify; the stream that splits does not know the label.
    others = np.concatenate([search.rows["train"], search.rows["select"]])
    assert cuts == tuple(np.quantile(people["income"][others], [0.25, 0.5, 0.75], method="higher"))
    assert cuts != tuple(np.quantile(people["income"], [0.25, 0.5, 0.75], method="higher"))


def test_small_groups_are_pooled_and_the_certificate_says_so():
    people = quantities()
    roles = {"label": "income>22000", "sensitive": "race"}
    with pytest.raises(GroupError, match="--pool-groups 30"):
        produce(people, **roles, **TREES)
    with pytest.raises(RoleError, match='It is a number.*"age>='):
        produce(people.assign(age=np.arange(len(people)) % 99), label="income>22000", sensitive="age", **TREES)
    bundle = produce(people, pool_groups=30, **roles, **TREES)
    certificate = bundle.certificate
    assert certificate.counts.groups == ("a", "b", "other groups")
    n = people["race"].value_counts()
    (said,) = [text for text in certificate.assumptions if "pools" in text]
    assert f"'c' ({n['c']} records), 'd' ({n['d']} records)" in said
    assert said in bundle.notes
    nothing = produce(people[people["race"] < "c"], pool_groups=30, **roles, **TREES)
    assert not any("pools" in text for text in nothing.certificate.assumptions)
    with pytest.raises(GroupError, match="leave no other group"):
        produce(people, pool_groups=100_000, **roles, **TREES)


@pytest.mark.parametrize(
    ("metric", "kept", "words"),
    [
        ("demographic_parity", ("a", "b", "c", "d"), None),
        ("equal_opportunity", ("a", "d", "other groups"), "with label '1'"),
        ("equalized_odds", ("a", "other groups"), "of each label"),
        ("equalized_odds_max", ("a", "other groups"), "of each label"),
    ],
)
def test_small_groups_are_those_with_few_records_of_the_labels_that_the_metric_looks_at(metric, kept, words):
    """Of equal size; in "b" hardly anyone has the label 1, in "c" few, in "d" hardly anyone has 0."""
    rng = np.random.default_rng(2)
    group = rng.choice(["a", "b", "c", "d"], 4_000, p=[0.55, 0.15, 0.15, 0.15])
    y = (rng.random(4_000) < pd.Series(group).map({"a": 0.5, "b": 0.05, "c": 0.1, "d": 0.95}).to_numpy()).astype(int)
    people = pd.DataFrame({"x": rng.normal(size=4_000) + y, "group": group, "y": y})
    roles = {"label": "y", "sensitive": "group", "metric": metric}
    if words is not None:
        with pytest.raises(GroupError, match=r"with label.*--pool-groups 30"):
            produce(people, **roles, **TREES)
    certificate = produce(people, pool_groups=30, **roles, **TREES).certificate
    assert certificate.counts.groups == kept
    said = [text for text in certificate.assumptions if "pools" in text]
    assert len(said) == (words is not None)
    assert all(f"fewer than 30 certification records {words}" in text for text in said)
    if metric == "equal_opportunity":
        with pytest.raises(GroupError, match=r"no records with label '1'.*--pool-groups 30"):
            produce(people[(people["group"] != "b") | (people["y"] == 0)], **roles, **TREES)


def test_a_quantity_whose_values_are_groups_is_noted():
    people = quantities().assign(age=np.arange(4_000) % 20 + 30)
    roles = {"label": "income>22000", "sensitive": "age"}
    (said,) = [note for note in produce(people, **roles, **TREES).notes if "20 values of 'age'" in note]
    assert 'such as "age>=' in said
    few = produce(people.assign(age=people["age"] // 10), **roles, **TREES)
    assert not any("values of 'age'" in note for note in few.notes)


@pytest.mark.parametrize("written", ["%d.%m.%Y", "%m/%d/%y", "%Y-%m-%d", "%Y-%m-%dT%H:%M"])
def test_dates_as_text_are_noted(written):
    people = quantities()
    day = (pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(4_000) % 500, "D")).strftime(written)
    people["joined"] = day.where(np.arange(4_000) % 7 > 0, None)
    people["version"] = [f"{i % 30}.1" for i in range(4_000)]
    people["quarter"] = np.where(np.arange(4_000) % 2, "01.01.2024", "01.04.2024")  # two dates are categories
    (said,) = Table.from_frame(people, label="income>22000", sensitive="race").notes
    assert said.startswith("'joined': dates in text form")
    assert "--drop joined" in said
    categories = people.astype({"joined": "category"})
    assert Table.from_frame(categories, label="income>22000", sensitive="race").notes == (said,)


def test_too_many_groups_are_refused_with_a_remedy():
    people = quantities().assign(town=[f"t{i % 150}" for i in range(4_000)], age=np.arange(4_000) % 40)
    with pytest.raises(RoleError, match=r"150 different values.*Merge categories"):
        produce(people, label="income>22000", sensitive="town", **TREES)
    with pytest.raises(RoleError, match=r"147 different values; at most 100 are allowed"):
        produce(people, label="income>22000", sensitive=["race", "age"], **TREES)


def test_certification_records_are_not_used_to_choose_what_is_pooled():
    people = quantities()
    roles = {"label": "income>22000", "sensitive": "race", "pool_groups": 30}
    table = Table.from_frame(people, label=roles["label"], sensitive="race")
    rows = split(table, by_group=False)
    assert _pool(table, rows, 30, Claim())[0] == ("a", "b")
    people.loc[rows["certify"], "race"] = np.random.default_rng(0).choice(["a", "c"], len(rows["certify"]))
    changed = Table.from_frame(people, label=roles["label"], sensitive="race")
    assert _pool(changed, rows, 30, Claim())[0] == ("a", "b")  # though "c" is large there, and "b" has no record


def test_pooled_groups_and_cuts_are_the_same_on_the_command_line(cli, tmp_path):
    quantities().to_csv(tmp_path / "p.csv", index=False)
    made = cli(
        "fit", tmp_path / "p.csv", "--label", "income", "--label-cuts", "quantiles=2", "--sensitive", "race",
        "--pool-groups", "25", "--min-group-size", "20", "--kind", "tree", "--max-cells", "4",
        "-o", tmp_path / "bundle",
    )  # fmt: skip
    assert made.status == 0, made.stderr
    assert "pools 'c'" in made.stderr
    quantities(seed=1).to_csv(tmp_path / "fresh.csv", index=False)
    again = cli("certify", tmp_path / "bundle", tmp_path / "fresh.csv", "--json")
    assert again.json["counts"]["groups"] == ["a", "b", "other groups"]
    arguments = ["certify", tmp_path / "bundle", tmp_path / "fresh.csv", "--metric", "equalized_odds"]
    cut = cli(*arguments, "--label", "income", "--label-cuts", "22000", "--min-group-size", "1", "--json")
    assert cut.json["counts"]["labels"] == ["income < 22000", "income >= 22000"]
    own = cli("verify", tmp_path / "bundle", "--data", tmp_path / "fresh.csv", "--max", "1")
    assert own.status == 0, own.stdout
    assert (
        cli(
            *arguments,
            "--label",
            "income",
            "--label-cuts",
            "22000",
            "--min-group-size",
            "1",
            "-o",
            tmp_path / "eo.json",
        ).status
        == 0
    )
    encoder = tmp_path / "bundle" / "encoder.json"
    quantities(seed=2).to_csv(tmp_path / "third.csv", index=False)
    own = cli(
        "verify", tmp_path / "eo.json", "--encoder", encoder, "--data", tmp_path / "third.csv", "--max", "1", "--json"
    )
    told = [check["message"] for check in own.json["checks"] if check["name"].startswith("data")]
    assert "the certificate is not refuted" in told[0]
    swept = cli(
        "sweep", tmp_path / "p.csv", "--label", "income", "--label-cuts", "quantiles=2", "--sensitive", "race",
        "--pool-groups", "30", "--kind", "tree", "--max-cells", "4", "--json",
    )  # fmt: skip
    assert swept.status == 0, swept.stderr
    assert swept.json["certified"] > 0


def test_pooled_groups_and_cuts_are_the_same_from_a_database_and_in_counts(cli, tmp_path):
    """Wherever fresh records are counted, groups and bands of the label are those of the certificate."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    quantities().to_csv(tmp_path / "p.csv", index=False)
    made = cli(
        "fit", tmp_path / "p.csv", "--label", "income", "--label-cuts", "22000", "--sensitive", "race",
        "--pool-groups", "18", "--min-group-size", "5", "--kind", "tree", "--max-cells", "4",
        "--metric", "equalized_odds", "-o", tmp_path / "bundle",
    )  # fmt: skip
    assert made.status == 0, made.stderr
    bundle, fresh = tmp_path / "bundle", tmp_path / "fresh.csv"
    quantities(seed=1).to_csv(fresh, index=False)
    with duckdb.connect(str(tmp_path / "f.db")) as database:
        database.execute(f"CREATE TABLE fresh AS SELECT * FROM read_csv('{fresh}')")  # noqa: S608
    base = ["--sql", f"duckdb:///{tmp_path}/f.db", "--table", "fresh"]
    claim = ["--metric", "equalized_odds", "--min-group-size", "1", "--json"]
    wanted = cli("certify", bundle, fresh, *claim).json["counts"]
    assert wanted["groups"] == ["a", "b", "other groups"]
    assert wanted["labels"] == ["income < 22000", "income >= 22000"]
    assert cli("certify", bundle, *base, *claim).json["counts"] == wanted
    for place, source in (("file", [fresh]), ("base", [*base, "--sensitive", "race"])):
        counts = tmp_path / f"{place}.json"
        done = cli("count", bundle, *source, "--label", "income", "-o", counts)
        assert done.status == 0, done.stderr
        assert cli("certify", bundle, counts, *claim).json["counts"] == wanted
    groups = []
    for place, source in (("fresh", [fresh]), ("base", base), ("counts", [tmp_path / "file.json"])):
        history = ["--history", tmp_path / f"of-{place}.json", "--min-group-size", "1", "--period", "first", "--json"]
        done = cli("monitor", bundle, *source, *history)
        assert done.status in (0, 1), done.stderr
        groups.append(done.json["periods"][0]["groups"])
    assert groups[0] == groups[1] == groups[2]
    cut = ["--sensitive", "race>b", "--label", "income", "--label-cuts", "21000,23000"]
    assert cli("certify", bundle, *base, *cut, *claim).status == 2  # text cannot be ordered
    cut[1] = "race=a"
    assert (
        cli("certify", bundle, *base, *cut, *claim).json["counts"]
        == cli("certify", bundle, fresh, *cut, *claim).json["counts"]
    )
    refused = cli("certify", bundle, tmp_path / "file.json", "--label", "income", "--label-cuts", "5")
    assert (refused.status, "Count its records again" in refused.stderr) == (2, True)
    parity = ["--metric", "demographic_parity", "--label-cuts", "5"]
    bare = cli("certify", bundle, fresh, "--sensitive", "race", *parity)
    assert (bare.status, "--label" in bare.stderr) == (2, True)


@pytest.mark.parametrize("role", ["label", "sensitive"])
def test_an_infinite_label_or_group_is_refused(role):
    people = pd.DataFrame({"x": range(4), "a": [0.0, 1.0, np.inf, 1.0], "b": [0, 1, 0, 1]})
    roles = {"label": "b", "sensitive": "b"} | {role: "a"}
    with pytest.raises(TableError, match="infinite"):
        Table.from_frame(people, **roles)
    assert len(Table.from_frame(people, **(roles | {role: "a>0"}))) == 4
