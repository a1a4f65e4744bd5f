"""Group-aware trees: the group is read when records are encoded, and what follows from that."""

import contextlib
import copy
import json
import re
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from certifare import FairTreeEncoder, KMeansEncoder, certify, load_encoder
from certifare.certification.certifying import count_records
from certifare.engines.sql.warehouse import DatabaseRecords, DuckDB
from certifare.errors import ArgumentError, EncoderError, FileError, GroupError
from certifare.tables.frames import Frame
from certifare.tables.reading import Reading
from certifare.tables.roles import parse_role

OPTIONS = {"gamma": 0.7, "max_cells": 16, "min_cell_size": 30, "group_aware": True}


def people(n=4000, seed=0):
    """The second group is older and has other jobs; the label depends on age and job within the group."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    male = sex == "m"
    rank = rng.random(n)
    age = np.round(20 + 40 * rank + 12 * male)
    job = rng.choice(["clerk", "nurse", "smith", "driver"], n)
    job = np.where(male & (job == "nurse"), "smith", job).astype(object)
    paid = rank + 0.3 * (job == "smith") + 0.2 * rng.normal(size=n) > 0.6
    age[rng.random(n) < 0.05] = np.nan
    job[rng.random(n) < 0.03] = None
    return pd.DataFrame({"age": age, "hours": rng.normal(38, 6, n).round(1), "job": job, "sex": sex, "paid": paid})


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def encoder(table):
    X = table[["age", "hours", "job"]]
    return FairTreeEncoder(**OPTIONS).fit(X, table["paid"], sensitive_features=table["sex"])


@pytest.fixture(scope="module")
def named(table):
    return FairTreeEncoder(**OPTIONS, sensitive="sex").fit(table.drop(columns="paid"), table["paid"])


def test_cells_tell_less_about_the_group_and_more_about_the_label(encoder, table):
    fresh = people(4000, seed=1)
    bound, accuracy = {}, {}
    for aware in (False, True):
        tree = FairTreeEncoder(**OPTIONS | {"group_aware": aware}).fit(
            table[["age", "hours", "job"]], table["paid"], sensitive_features=table["sex"]
        )
        bound[aware] = certify(tree, fresh, sensitive_features=fresh["sex"]).bound
        groups = {"sensitive_features": fresh["sex"]} if aware else {}
        cells = tree.apply(fresh, **groups)
        votes = pd.Series(fresh["paid"]).groupby(cells).agg(lambda labels: max(labels.mean(), 1 - labels.mean()))
        accuracy[aware] = float((votes * np.bincount(cells)[votes.index]).sum() / len(cells))
    assert bound[True] < bound[False] - 0.02
    assert accuracy[True] > accuracy[False] - 0.02


def test_the_group_is_given_or_read_from_the_named_column(encoder, named, table):
    X = table[["age", "hours", "job"]]
    cells = encoder.apply(X, sensitive_features=table["sex"])
    assert encoder.reads_groups
    assert encoder.n_cells_ == 16
    assert np.array_equal(named.apply(table), cells)
    assert np.array_equal(encoder.apply(X, sensitive_features=table["sex"].tolist()), cells)
    frame = pl.from_pandas(table)
    assert np.array_equal(encoder.apply(frame, sensitive_features=frame["sex"]), cells)
    assert np.array_equal(named.apply(frame), cells)
    assert np.array_equal(encoder.apply_codes(encoder.codes(X, sensitive_features=table["sex"])), cells)
    assert encoder.transform(X, sensitive_features=table["sex"]).equals(named.transform(table))
    kept = encoder.retained_information(X, sensitive_features=table["sex"])
    assert kept.mean == named.retained_information(table).mean
    other = np.where(table["sex"] == "f", "m", "f")
    assert not np.array_equal(encoder.apply(X, sensitive_features=other), cells)


def test_encoding_without_the_group_is_refused(encoder, named, table):
    X = table[["age", "hours", "job"]]
    with pytest.raises(GroupError, match="depends on its group: give sensitive_features="):
        encoder.apply(X)
    with pytest.raises(GroupError, match="depends on its group"):
        encoder.transform(X)
    with pytest.raises(GroupError, match="'sex'"):
        named.apply(X)
    with pytest.raises(GroupError, match="given twice"):
        named.apply(table, sensitive_features=table["sex"])
    with pytest.raises(ArgumentError, match="inconsistent"):
        encoder.apply(X, sensitive_features=["f", "m"])
    with pytest.raises(GroupError, match="from 1 columns"):
        encoder.apply(X, sensitive_features=table[["sex", "paid"]])
    blind = FairTreeEncoder(max_cells=3).fit(X, table["paid"], sensitive_features=table["sex"])
    assert not blind.reads_groups
    with pytest.raises(GroupError, match="do not depend on the group"):
        blind.apply(X, sensitive_features=table["sex"])
    with pytest.raises(GroupError, match="do not depend on the group"):
        KMeansEncoder(2).fit(X[["hours"]]).apply(X, sensitive_features=table["sex"])


def test_unknown_groups_are_refused_or_take_common_thresholds_and_are_counted(named, table):
    strange = table.copy()
    strange.loc[:4, "sex"] = "x"
    strange.loc[5:7, "sex"] = None
    message = r"8 of 4,000 records .*'sex': 5 'x', 3 missing\).*'f', 'm'.*unknown_groups=\"common\""
    with pytest.raises(GroupError, match=message):
        named.apply(strange)
    common = copy.copy(named).set_params(unknown_groups="common")
    with pytest.warns(UserWarning, match=r"8 of 4,000 records"):
        cells = common.apply(strange)
    assert np.array_equal(cells[8:], named.apply(table)[8:])
    # By hand: the split as records of no known group see it.
    codes = common.codes_of(common.read_fields(Frame(strange)))
    nodes = np.zeros(8, dtype=np.int64)
    for j, split in enumerate(common.growth_.splits):
        left = split.of(None).goes_left[codes.columns[split.column][:8]]
        here = nodes == split.node
        nodes[here] = np.where(left, 2 * j + 1, 2 * j + 2)[here]
    assert np.array_equal(common.growth_.leaves()[cells[:8]], nodes)
    with pytest.raises(EncoderError, match="unknown_groups is 'drop'"):
        FairTreeEncoder(**OPTIONS, unknown_groups="drop", sensitive="sex").fit(
            table.drop(columns="paid"), table["paid"]
        )


def test_smaller_encoders_are_inside(named, table):
    cells = named.apply(table)
    for k in (1, 2, 7, 16):
        smaller = FairTreeEncoder(**OPTIONS | {"max_cells": k}, sensitive="sex")
        smaller.fit(table.drop(columns="paid"), table["paid"])
        assert np.array_equal(named.at(k).apply(table), smaller.apply(table))
        assert np.array_equal(named.cells_at(k)[cells], smaller.apply(table))


def test_describe_names_the_threshold_of_each_group():
    table = pd.DataFrame({"age": [30, 40, 50, 60] * 50, "sex": ["f"] * 100 + ["m"] * 100})
    table["age"] += 13 * (table["sex"] == "m")
    tree = FairTreeEncoder(gamma=0.9, max_cells=2, min_cell_size=10, sensitive="sex", group_aware=True)
    tree.fit(table, [False, False, True, True] * 50)
    assert [cell.rules for cell in tree.describe()] == [("age ≤ 40 (f), ≤ 53 (m)",), ("age > 40 (f), > 53 (m)",)]


def test_rules_hold_for_every_record_of_the_group(named, table):
    """Numbers only: each group's part of a rule, read as a person would."""
    cells = named.apply(table)
    seen = 0
    for cell in named.describe():
        for group in ("f", "m"):
            inside = table[(cells == cell.cell) & (table["sex"] == group)]
            for rule in (rule for rule in cell.rules if rule.startswith(("age", "hours"))):
                column = rule.split()[0]
                part = rule if "(" not in rule else next(p for p in re.split(r"(?<=\)), ", rule) if f"({group}" in p)
                found = re.search(r"(≤|>) ([\d.]+)", part)
                if found is None or "<" in part:
                    continue
                values = inside[column].dropna()
                assert (values <= float(found[2]) if found[1] == "≤" else values > float(found[2])).all()
                seen += len(values)
    assert seen > 1000


def test_three_groups_and_intersections(table):
    table = table.assign(race=np.arange(len(table)) % 3)
    X = table[["age", "hours", "job"]]
    for groups in (table["race"], table[["sex", "race"]]):
        tree = FairTreeEncoder(**OPTIONS).fit(X, table["paid"], sensitive_features=groups)
        cells = tree.apply(X, sensitive_features=groups)
        assert np.array_equal(np.bincount(cells), [cell.records for cell in tree.describe()])
        fresh = people(3000, seed=3).assign(race=lambda t: np.arange(len(t)) % 3)
        names = list(groups.columns) if groups.ndim == 2 else groups.name
        assert certify(tree, fresh, sensitive_features=fresh[names]).bound < 0.5


def test_certify_reads_the_groups(encoder, named):
    fresh = people(3000, seed=5)
    X = fresh[["age", "hours", "job"]]
    one = certify(encoder, X, sensitive_features=fresh["sex"])
    assert one == certify(named, fresh)
    # Another attribute can be certified where the encoder finds its own.
    by_paid = certify(named, fresh, sensitive_features=fresh["paid"])
    assert by_paid.counts.groups != one.counts.groups
    with pytest.raises(GroupError, match="3,000 of 3,000"):
        certify(encoder, X, sensitive_features=fresh["paid"])


def test_one_training_serves_blind_and_group_aware_growths(table):
    X = table[["age", "hours", "job"]]
    training = FairTreeEncoder().prepare(X, table["paid"], sensitive_features=table["sex"])
    aware = FairTreeEncoder(**OPTIONS).fit_from(training)
    alone = FairTreeEncoder(**OPTIONS).fit(X, table["paid"], sensitive_features=table["sex"])
    assert np.array_equal(aware.representatives_.astype(str), alone.representatives_.astype(str))
    assert not FairTreeEncoder().fit_from(training).reads_groups


def test_two_charges_are_the_same_and_a_third_is_refused(table):
    X = table[["age", "hours", "job"]]
    one, other = (
        FairTreeEncoder(**OPTIONS, charge=charge).fit(X, table["paid"], sensitive_features=table["sex"])
        for charge in ("every", "distance")
    )
    assert str(one.describe()) == str(other.describe())
    with pytest.raises(EncoderError, match="leave charge as it is"):
        FairTreeEncoder(**OPTIONS, charge="crossing").fit(X, table["paid"], sensitive_features=table["sex"])
    blind = FairTreeEncoder(gamma=0.3, charge="distance").fit(X, table["paid"], sensitive_features=table["sex"])
    assert blind.n_cells_ > 1
    assert not blind.reads_groups


class TestAmongScikitLearn:
    def test_clones_and_parameters(self, named):
        copied = clone(named)
        assert copied.get_params() == named.get_params()
        assert copied.get_params()["group_aware"] is True
        assert not hasattr(copied, "n_cells_")

    def test_a_pipeline_needs_no_routing_where_the_column_is_named(self, table):
        tree = FairTreeEncoder(**OPTIONS, sensitive="sex", output="onehot")
        pipeline = make_pipeline(tree, LogisticRegression())
        X, y = table.drop(columns="paid"), table["paid"]
        assert pipeline.fit(X, y).score(X, y) > 0.75
        search = GridSearchCV(pipeline, {"fairtreeencoder__gamma": [0.3, 0.9]}, cv=2).fit(X, y)
        assert search.best_score_ > 0.7

    def test_a_pipeline_routes_the_groups(self, table):
        X, y = table[["age", "hours", "job"]], table["paid"]
        with sklearn.config_context(enable_metadata_routing=True):
            tree = FairTreeEncoder(**OPTIONS, output="onehot")
            tree.set_fit_request(sensitive_features=True)
            pipeline = make_pipeline(tree, LogisticRegression()).fit(X, y, sensitive_features=table["sex"])
            assert pipeline.predict(X, sensitive_features=table["sex"]).mean() > 0

    def test_fit_transform(self, encoder, named, table):
        X, y = table[["age", "hours", "job"]], table["paid"]
        expected = encoder.transform(X, sensitive_features=table["sex"])
        assert clone(encoder).fit_transform(X, y, sensitive_features=table["sex"]).equals(expected)
        assert clone(named).fit_transform(table.drop(columns="paid"), y).equals(expected)


class TestFiles:
    @pytest.fixture
    def saved(self, named, tmp_path):
        named.save(tmp_path / "encoder.json")
        return tmp_path / "encoder.json"

    @pytest.fixture
    def document(self, saved):
        return json.loads(saved.read_text())

    @pytest.fixture
    def refused(self, tmp_path):
        def refuse(document, match):
            (tmp_path / "hostile.json").write_text(json.dumps(document))
            with pytest.raises(FileError, match=match):
                load_encoder(tmp_path / "hostile.json")

        return refuse

    @pytest.mark.filterwarnings("ignore:.*records have a group")
    def test_round_trip(self, named, saved, table, tmp_path):
        loaded = load_encoder(saved)
        assert loaded.reads_groups
        strange = people(2000, seed=9).assign(job=lambda t: t["job"].replace("nurse", "pilot"))
        strange.loc[:9, "sex"] = "x"
        for encoder in (named, loaded):
            encoder = copy.copy(encoder).set_params(unknown_groups="common")
            cells = encoder.apply(strange) if encoder.n_cells_ else None
            assert np.array_equal(cells, copy.copy(named).set_params(unknown_groups="common").apply(strange))
        assert np.array_equal(loaded.at(5).apply(table), named.at(5).apply(table))
        assert [c.rules for c in loaded.describe()] == [c.rules for c in named.describe()]
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()
        with pytest.raises(GroupError, match="10 of 2,000"):
            loaded.apply(strange)

    def test_three_groups_round_trip(self, table, tmp_path):
        table = table.assign(race=np.arange(len(table)) % 3)
        tree = FairTreeEncoder(**OPTIONS, sensitive=["sex", "race"])
        tree.fit(table.drop(columns="paid"), table["paid"]).save(tmp_path / "encoder.json")
        assert np.array_equal(load_encoder(tmp_path / "encoder.json").apply(table), tree.apply(table))

    def test_blind_encoders_are_written_as_before(self, document, table, tmp_path):
        assert document["version"] == 2
        FairTreeEncoder(sensitive="sex").fit(table.drop(columns="paid"), table["paid"]).save(tmp_path / "blind.json")
        blind = json.loads((tmp_path / "blind.json").read_text())
        assert blind["version"] == 1
        assert not {"group_aware", "unknown_groups"} & set(blind["parameters"])
        assert not any("by_group" in rule for rule in blind["splits"])

    def test_hostile_sides_are_refused(self, document, refused):
        def changed(change):
            other = copy.deepcopy(document)
            change(other)
            return other

        numbers = next(i for i, rule in enumerate(document["splits"]) if "categories" not in rule)
        words = next(i for i, rule in enumerate(document["splits"]) if "categories" in rule)
        each = "a side for each group"
        refused(changed(lambda d: d["splits"][0]["by_group"].pop()), each)
        refused(changed(lambda d: d["splits"][0].pop("by_group")), each)
        refused(changed(lambda d: d["parameters"].pop("group_aware")), each)
        refused(changed(lambda d: d["splits"][numbers]["by_group"][0].update(at_most=1e6)), "not an edge")
        refused(changed(lambda d: d["splits"][numbers]["by_group"][0].update(known="right", at_most=1.0)), "or none do")
        refused(changed(lambda d: d["splits"][numbers]["by_group"][0].update(known="left")), "damaged")
        refused(changed(lambda d: d["splits"][numbers]["by_group"][0].update(categories=["x"])), "no categories")
        refused(changed(lambda d: d["splits"][words]["by_group"][1].update(categories=["x"])), "not a category")
        refused(changed(lambda d: d["splits"][words]["by_group"][1].update(known="right")), "lists categories")
        refused(changed(lambda d: d["splits"][words]["by_group"][1].update(more=1)), "damaged")
        refused(changed(lambda d: d.update(groups=["f"])), "has groups")


class TestSql:
    """SQL finds the cells that ``apply`` finds, with a tree for each group."""

    @pytest.fixture
    def fresh(self):
        fresh = people(3000, seed=11).astype({"sex": object})
        fresh.loc[::50, "job"] = "pilot"
        fresh.loc[::70, "sex"] = "x"
        fresh.loc[1::90, "sex"] = None
        return fresh

    def cells(self, sql, fresh):
        with duckdb.connect() as connection:
            connection.register("people", fresh)
            return connection.execute(sql).df()["cell"].astype("Int64")

    @pytest.mark.filterwarnings("ignore:.*records have a group")
    def test_equal_to_apply(self, named, fresh, tmp_path):
        common = copy.copy(named).set_params(unknown_groups="common")
        expected = common.apply(fresh)
        known = fresh["sex"].isin(["f", "m"])
        found = self.cells(named.to_sql("duckdb", "people"), fresh)
        assert found.isna().equals(~known)
        assert (found[known] == expected[known]).all()
        named.save(tmp_path / "encoder.json")
        loaded = load_encoder(tmp_path / "encoder.json").set_params(unknown_groups="common")
        for encoder in (common, loaded, loaded.at(3), loaded.at(1)):
            found = self.cells(encoder.to_sql("duckdb", "people"), fresh)
            assert (found == encoder.apply(fresh)).all()
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            fresh.to_sql("people", connection, index=False)
            rows = connection.execute(common.to_sql("sqlite", "people")).fetchall()
        assert [row[-1] for row in rows] == expected.tolist()

    def test_groups_of_every_kind(self, table):
        """Numbers, truth values, intersections and comparisons."""
        table = table.assign(race=np.arange(len(table)) % 3, old=table["age"].fillna(0) > 45)
        X = table[["hours", "job"]].assign(x=np.arange(len(table)) % 50)
        for columns in ("race", "old", ["sex", "race"]):
            tree = FairTreeEncoder(**OPTIONS).fit(X, table["paid"], sensitive_features=table[columns])
            found = self.cells(tree.to_sql("duckdb", "people"), table.assign(x=X["x"]))
            assert (found == tree.apply(X, sensitive_features=table[columns])).all()
        role = parse_role("hours>=38.5", ["hours"])
        groups = pd.Series(role.evaluate(pa.array(table["hours"])).to_pylist(), name=str(role))
        tree = FairTreeEncoder(**OPTIONS).fit(X[["x", "job"]], table["paid"], sensitive_features=groups)
        sql = tree.to_sql("duckdb", "people")
        assert '"hours" AS DOUBLE) >= 38.5' in sql
        assert (self.cells(sql, table.assign(x=X["x"])) == tree.apply(X, sensitive_features=groups)).all()

    def test_counts_in_a_database(self, encoder, named, fresh):
        fresh = fresh[fresh["sex"].isin(["f", "m"])].assign(race=1)
        with duckdb.connect() as connection:
            connection.register("people", fresh)
            connection.execute("CREATE TABLE store AS SELECT * FROM people")
            store, by_sex = DatabaseRecords(DuckDB(connection), "store"), Reading(sensitive=("sex",))
            expected = certify(named, fresh).counts
            for tree in (encoder, named):
                assert count_records(tree, store, by_sex).counts == expected
            with pytest.raises(GroupError, match=r"counted by \['race'\]"):
                count_records(named, store, Reading(sensitive=("race",)))
            connection.execute("UPDATE store SET sex = 'x' WHERE age < 25")
            with pytest.raises(GroupError, match="records have a group"):
                count_records(named, store, by_sex)
