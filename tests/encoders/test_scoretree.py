"""Group-aware boosted encoders: scores that know the group, and a threshold for each group in the tree over them."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from certifare import BoostedEncoder, FairTreeEncoder, certify, load_encoder
from certifare.encoders.scoretree import fit_columns
from certifare.encoders.training import Levels
from certifare.errors import EncoderError, FileError, GroupError
from certifare.report.encoder import describe_encoder
from certifare.tables.frames import Frame


def quick():
    return HistGradientBoostingClassifier(max_iter=10, learning_rate=0.3, random_state=0)


OPTIONS = {"gamma": 0.3, "max_cells": 8, "min_cell_size": 30, "folds": 2, "score_model": quick(), "group_aware": True}
FEATURES = ["age", "hours", "job"]


def people(n=2500, seed=0):
    """The second group is older; the label depends on the rank of the age within the group."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    rank = rng.random(n)
    age = np.round(20 + 40 * rank + 15 * (sex == "m"))
    job = rng.choice([f"job{i}" for i in range(12)], n).astype(object)
    paid = rank + 0.3 * (job == "job3") + 0.2 * rng.normal(size=n) > 0.6
    age[rng.random(n) < 0.05] = np.nan
    job[rng.random(n) < 0.03] = None
    return pd.DataFrame({"age": age, "hours": rng.normal(38, 6, n).round(1), "job": job, "sex": sex, "paid": paid})


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def encoder(table):
    return BoostedEncoder(**OPTIONS).fit(table[FEATURES], table["paid"], sensitive_features=table["sex"])


@pytest.fixture(scope="module")
def named(table):
    return BoostedEncoder(**OPTIONS, sensitive="sex").fit(table.drop(columns="paid"), table["paid"])


@pytest.fixture(scope="module")
def retaining(table):
    options = OPTIONS | {"retain": 0.5, "max_cells": 24, "gamma": 0.5}
    return BoostedEncoder(**options, sensitive="sex").fit(table.drop(columns="paid"), table["paid"])


def test_the_scores_know_the_group_and_so_the_label(table):
    """Age tells the label only together with the group; the cells hide the group all the same."""
    fresh = people(4000, seed=1)
    bound, accuracy = {}, {}
    for aware in (False, True):
        options = OPTIONS | {"group_aware": aware, "gamma": 0.5 if aware else 0.6, "max_cells": 3}
        boosted = BoostedEncoder(**options).fit(table[FEATURES], table["paid"], sensitive_features=table["sex"])
        bound[aware] = certify(boosted, fresh, sensitive_features=fresh["sex"]).bound
        cells = boosted.apply(fresh, **({"sensitive_features": fresh["sex"]} if aware else {}))
        votes = np.array([cell.labels["paid"]["True"] > 0.5 for cell in boosted.describe()])
        accuracy[aware] = (votes[cells] == fresh["paid"]).mean()
    assert bound[True] < bound[False]
    assert accuracy[True] > accuracy[False] + 0.02


def test_cells_are_those_of_a_group_aware_tree_over_the_scores(table):
    """The same growth as that of a tree whose only column is the score."""
    boosted = BoostedEncoder(**OPTIONS)
    training = boosted.prepare(table[FEATURES], table["paid"], sensitive_features=table["sex"])
    boosted.fit_from(training)
    codes = training.derived.codes
    score = codes.columns[0].astype(float)[:, None]
    options = {name: OPTIONS[name] for name in ("gamma", "max_cells", "min_cell_size", "group_aware")}
    tree = FairTreeEncoder(**options, max_bins=4000).fit(score, table["paid"], sensitive_features=table["sex"])
    assert boosted.n_cells_ == tree.n_cells_ > 2
    assert np.array_equal(boosted.apply_codes(codes), tree.apply(score, sensitive_features=table["sex"]))


def test_a_record_goes_by_its_groups_threshold(encoder, table):
    """By hand, from the models' scores."""
    fields = encoder.read_fields(Frame(table[FEATURES]))
    groups = (table["sex"] == "m").to_numpy().astype(np.uint16)
    score = encoder._score_tree.scores.score(fields, groups=groups)[0][:, 0]
    edges = np.append(encoder._score_tree.columns[0].edges, np.inf)
    nodes = np.zeros(len(table), dtype=int)
    for j, split in enumerate(encoder.growth_.splits):
        for group in (0, 1):
            threshold = split.of(group).threshold
            left = score <= (edges[threshold] if threshold >= 0 else -np.inf)
            here = (nodes == split.node) & (groups == group)
            nodes[here] = np.where(left, 2 * j + 1, 2 * j + 2)[here]
    cells = encoder.apply(table[FEATURES], sensitive_features=table["sex"])
    assert np.array_equal(encoder.growth_.leaves()[cells], nodes)


def test_the_group_is_given_or_read_from_the_named_column(encoder, named, table):
    cells = encoder.apply(table[FEATURES], sensitive_features=table["sex"])
    assert encoder.reads_groups
    assert np.array_equal(named.apply(table), cells)
    assert np.array_equal(encoder.apply_codes(encoder.codes(table[FEATURES], sensitive_features=table["sex"])), cells)
    assert encoder.transform(table[FEATURES], sensitive_features=table["sex"]).equals(named.transform(table))
    other = np.where(table["sex"] == "f", "m", "f")
    assert not np.array_equal(encoder.apply(table[FEATURES], sensitive_features=other), cells)
    with pytest.raises(GroupError, match="depends on its group"):
        encoder.apply(table[FEATURES])
    with pytest.raises(AttributeError, match="has no map"):
        encoder.cell_map_  # noqa: B018


def test_unknown_groups_are_refused_or_take_common_thresholds(named, table):
    strange = table.copy()
    strange.loc[:4, "sex"] = "x"
    strange.loc[5:7, "sex"] = None
    with pytest.raises(GroupError, match=r"8 of 2,500 records .*'sex': 5 'x', 3 missing"):
        named.apply(strange)
    common = copy.copy(named).set_params(unknown_groups="common")
    with pytest.warns(UserWarning, match="8 of 2,500 records"):
        cells = common.apply(strange)
    assert np.array_equal(cells[8:], named.apply(table)[8:])
    with pytest.raises(EncoderError, match="unknown_groups is 'drop'"):
        BoostedEncoder(**OPTIONS, unknown_groups="drop").fit(
            table[FEATURES], table["paid"], sensitive_features=table["sex"]
        )


def test_the_cells_distance_can_be_bounded_on_training_records(table, tmp_path):
    X, options = table.drop(columns="paid"), OPTIONS | {"gamma": 0.02, "max_cells": 4, "sensitive": "sex"}
    training = BoostedEncoder(**options).prepare(X, table["paid"])
    found = []
    for most in (0.0, 0.01, 0.03, None):
        boosted = BoostedEncoder(**options, max_distance=most).fit_from(training)
        shares = boosted.training_counts_.table / boosted.training_counts_.table.sum(axis=0)
        found.append(0.5 * float(np.abs(shares[:, 0] - shares[:, 1]).sum()))
        assert most is None or found[-1] <= most + 0.002  # shares are published with three digits
        boosted.save(tmp_path / "encoder.json")
        assert load_encoder(tmp_path / "encoder.json").max_distance == most
    assert found[0] <= found[1] <= found[2] <= found[3]
    assert found[0] < found[3]
    for wrong, message in (
        ({"max_distance": 0.1, "group_aware": False}, "group_aware=True"),
        ({"max_distance": 2}, "0 to 1"),
    ):
        with pytest.raises(EncoderError, match=message):
            FairTreeEncoder(**{"group_aware": True, "sensitive": "sex"} | wrong).fit(X, table["paid"])


def test_smaller_encoders_are_inside(named, table):
    cells = named.apply(table)
    training = named.prepare(table.drop(columns="paid"), table["paid"])
    for k in (1, 2, 5):
        grown = clone(named).set_params(max_cells=k).fit_from(training)
        assert np.array_equal(named.at(k).apply(table), grown.apply(table))
        assert np.array_equal(named.cells_at(k)[cells], grown.apply(table))


def test_blind_and_group_aware_encoders_do_not_share_scores(named, table):
    training = named.prepare(table.drop(columns="paid"), table["paid"])
    with pytest.raises(EncoderError, match="prepare them with it"):
        clone(named).set_params(group_aware=False).fit_from(training)


def test_describe_names_the_threshold_of_each_group(named):
    rule = named.at(2).describe()[0].rules
    assert len(rule) == 1
    assert rule[0].startswith("P(paid = True) ≤ 0.")
    assert "(f), ≤ 0." in rule[0]


def test_retain_lets_columns_be_split(named, retaining, table):
    fresh = people(2000, seed=3)
    assert retaining.retained_information(fresh).mean > named.retained_information(fresh).mean + 0.1
    columns = {split.column for split in retaining.growth_.splits}
    assert 0 in columns
    assert len(columns) > 1
    assert any(rule.startswith("hours") for cell in retaining.describe() for rule in cell.rules)


def test_several_labels_and_groups(table, tmp_path):
    table = table.assign(race=np.arange(len(table)) % 3)
    labels = table[["paid"]].assign(grade=np.digitize(table["hours"], [35, 41]))
    boosted = BoostedEncoder(**OPTIONS, sensitive=["sex", "race"])
    boosted.fit(table.drop(columns="paid"), labels)
    assert len(boosted._score_tree.columns) > 1
    cells = boosted.apply(table)
    assert boosted.n_cells_ > 2
    boosted.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    assert np.array_equal(loaded.apply(table), cells)
    assert [cell.rules for cell in loaded.describe()] == [cell.rules for cell in boosted.describe()]


def test_a_score_never_has_a_columns_name():
    scores, codes = np.linspace(-1, 1, 100)[:, None], np.arange(100) % 2
    label, groups = Levels("y", codes, (0, 1)), Levels("s", codes, (0, 1))
    (score,) = fit_columns([scores], [label], groups, 4, [1.0], ["P(y = 1)", "P(y = 1)′"])
    assert score.name == "P(y = 1)′′"
    assert len(score.edges) == 6


def test_a_pipeline_and_fit_transform(named, encoder, table):
    X, y = table.drop(columns="paid"), table["paid"]
    pipeline = make_pipeline(clone(named).set_params(output="onehot"), LogisticRegression())
    assert pipeline.fit(X, y).score(X, y) > 0.75
    expected = encoder.transform(table[FEATURES], sensitive_features=table["sex"])
    assert clone(named).fit_transform(X, y).equals(expected)


class TestFiles:
    @pytest.fixture(params=["named", "retaining"])
    def fitted(self, request):
        return request.getfixturevalue(request.param)

    @pytest.fixture
    def saved(self, fitted, tmp_path):
        fitted.save(tmp_path / "encoder.json")
        return tmp_path / "encoder.json"

    @pytest.mark.filterwarnings("ignore:.*records have a group")
    def test_round_trip(self, fitted, saved, table, tmp_path):
        loaded = load_encoder(saved)
        assert loaded.reads_groups
        strange = people(1000, seed=9).assign(job=lambda t: t["job"].replace("job1", "pilot"))
        strange.loc[:9, "sex"] = "x"
        one, other = (copy.copy(e).set_params(unknown_groups="common").apply(strange) for e in (fitted, loaded))
        assert np.array_equal(one, other)
        with pytest.raises(GroupError, match="10 of 1,000"):
            loaded.apply(strange)
        assert np.array_equal(loaded.at(3).apply(table), fitted.at(3).apply(table))
        assert [c.rules for c in loaded.describe()] == [c.rules for c in fitted.describe()]
        assert loaded.digest() == fitted.digest()
        loaded.save(tmp_path / "again.json")
        assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()

    def test_a_report_shows_the_tree(self, fitted, saved):
        shown = describe_encoder(saved)
        assert shown["kind"] == "boosted"
        assert shown["reads_groups"]
        assert shown["map"] is None
        assert len(shown["nodes"]) == 2 * fitted.n_cells_ - 1
        assert shown["nodes"][0]["question"].startswith(("P(paid = True) ≤ 0.", "age", "hours", "job"))
        assert [cell["rules"] for cell in shown["cells"]] == [list(cell.rules) for cell in fitted.describe()]

    def test_hostile_files_are_refused(self, named, tmp_path):
        named.save(tmp_path / "encoder.json")
        document = json.loads((tmp_path / "encoder.json").read_text())
        assert document["kind"] == "boosted tree"
        assert document["version"] == 3

        def refused(match, change):
            other = copy.deepcopy(document)
            change(other)
            (tmp_path / "hostile.json").write_text(json.dumps(other))
            with pytest.raises(FileError, match=match):
                load_encoder(tmp_path / "hostile.json")

        refused("is group-aware", lambda d: d["parameters"].update(group_aware=False))
        refused("a side for each group", lambda d: d["splits"][0]["by_group"].pop())
        refused("there are none", lambda d: d.update(scores=[]))
        refused("a name occurs twice", lambda d: d["scores"].append(d["scores"][0]))
        refused("a name occurs twice", lambda d: d["scores"][0].update(name="age"))
        refused("edges are not sorted", lambda d: d["scores"][0]["edges"].reverse())
        refused("need no weights", lambda d: d["scores"][0].update(weights=[1.0, 2.0]))
        refused("not an edge", lambda d: d["splits"][0]["by_group"][0].update(at_most=99.0))
        refused("there is no column", lambda d: d["splits"][0].update(column="age"))
        refused("there is no feature", lambda d: d["models"][0]["trees"][0]["features"].__setitem__(0, 99))
        refused("models: not one per label", lambda d: d["models"].append(d["models"][0]))

    def test_other_models_cannot_be_saved(self, table, tmp_path):
        X = table[["hours"]].assign(more=table["age"].fillna(0))
        boosted = BoostedEncoder(**OPTIONS | {"score_model": GaussianNB()})
        boosted.fit(X, table["paid"], sensitive_features=table["sex"])
        assert "P(paid = True) ≤ 0." in str(boosted.describe())
        with pytest.raises(EncoderError, match="GaussianNB"):
            boosted.save(tmp_path / "encoder.json")
