"""Encoders as JSON: what is saved comes back bit by bit; what was never an encoder is refused."""

import copy
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certifare import BoostedEncoder, FairTreeEncoder, load_encoder
from certifare.encoders import format
from certifare.encoders.format import format_json
from certifare.errors import FileError

pytestmark = pytest.mark.usefixtures("few_trees")


def boosted(**parameters):
    return BoostedEncoder(**{"gamma": 0.2, "max_cells": 6, "min_cell_size": 5, "folds": 2, **parameters})


ENCODERS = {
    "tree": FairTreeEncoder(gamma=0.2, max_cells=10, min_cell_size=5),
    "boosted": boosted(),
    "boosted, retain": boosted(retain=0.4),
}


def same(one, two, X):
    assert type(one) is type(two)
    assert np.array_equal(one.apply(X), two.apply(X))
    for a, b in zip(one.representatives_.ravel(), two.representatives_.ravel(), strict=True):
        assert a == b or (a is None and b is None) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


@pytest.fixture(scope="module")
def table(people):
    return pd.DataFrame(people)


@pytest.fixture(scope="module", params=list(ENCODERS))
def encoder(request, table):
    return copy.deepcopy(ENCODERS[request.param]).fit(
        table.drop(columns=["income", "sex"]), table["income"], sensitive_features=table["sex"]
    )


@pytest.fixture
def saved(encoder, tmp_path):
    path = tmp_path / "encoder.json"
    encoder.save(path)
    return path


def strange(table, seed=0):
    """The table with missing and unseen values, and numbers between and beyond those seen."""
    rng = np.random.default_rng(seed)
    table = table.copy()
    table["age"] = rng.normal(40, 100, len(table))
    table.loc[rng.random(len(table)) < 0.2, "age"] = np.nan
    table.loc[rng.random(len(table)) < 0.2, "job"] = "unheard of"
    table.loc[rng.random(len(table)) < 0.2, "job"] = None
    return table


def test_round_trip(encoder, saved, table):
    loaded = load_encoder(saved)
    same(encoder, loaded, table)
    same(encoder, loaded, strange(table))
    assert loaded.digest() == encoder.digest()
    assert loaded.columns_ == encoder.columns_
    assert loaded.groups_ == encoder.groups_
    assert loaded.labels_ == encoder.labels_
    assert loaded.feature_names_in_.tolist() == encoder.feature_names_in_.tolist()
    assert [cell.rules for cell in loaded.describe()] == [cell.rules for cell in encoder.describe()]
    assert [cell.records for cell in loaded.describe()] == [cell.records for cell in encoder.describe()]


def test_saving_again_writes_the_same_bytes(saved, tmp_path):
    load_encoder(saved).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == saved.read_bytes()


def test_smaller_encoders_survive(encoder, saved, table):
    loaded = load_encoder(saved)
    for k in (1, 2, encoder.n_cells_):
        same(encoder.at(k), loaded.at(k), table)


def test_a_smaller_encoder_publishes_only_itself(encoder, table, tmp_path):
    encoder.at(3).save(tmp_path / "small.json")
    loaded = load_encoder(tmp_path / "small.json")
    same(encoder.at(3), loaded, table)
    assert len(json.loads((tmp_path / "small.json").read_text())["nodes"]) == 5


def test_statistics_are_the_producers_choice(encoder, tmp_path):
    encoder.save(tmp_path / "encoder.json", statistics=False)
    assert '"records"' not in (tmp_path / "encoder.json").read_text()
    cell = load_encoder(tmp_path / "encoder.json").describe()[0]
    assert cell.records is None
    assert cell.groups == {}


def test_nothing_tells_who_was_in_the_training_data(encoder, saved, table):
    assert "fingerprint" not in saved.read_text()
    assert load_encoder(saved).training_overlap(table) is None


def test_only_edges_that_are_used_are_published(table, tmp_path):
    encoder = copy.deepcopy(ENCODERS["tree"]).fit(
        table[["age", "hours"]], table["income"], sensitive_features=table["sex"]
    )
    encoder.save(tmp_path / "encoder.json")
    document = json.loads((tmp_path / "encoder.json").read_text())
    assert sum(len(column["edges"]) for column in document["columns"]) <= encoder.n_cells_ - 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.one_of(st.floats(allow_infinity=False, width=32), st.floats(-1, 1)),
            st.one_of(st.none(), st.text(max_size=2)),
            st.integers(0, 3),
            st.booleans(),
        ),
        min_size=20,
        max_size=40,
    ),
    st.sampled_from(["tree", "boosted"]),
)
def test_round_trip_of_any_table(tmp_path, rows, kind):
    table = pd.DataFrame(rows, columns=["number", "text", "code", "flag"])
    table = table.astype({"code": "category", "text": pd.ArrowDtype(__import__("pyarrow").string())})
    n = len(table)
    encoder = copy.deepcopy(ENCODERS[kind]).set_params(allow_sensitive_feature=True)
    encoder.fit(table, np.arange(n) % 3, sensitive_features=np.arange(n) // 2 % 2)
    encoder.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    same(encoder, loaded, table)
    near = table.assign(number=np.nextafter(table["number"].to_numpy(), np.inf))
    near["number"] = near["number"].where(np.isfinite(near["number"]), np.nan)
    same(encoder, loaded, near)


def test_several_classes_groups_and_labels(table, tmp_path):
    labels = pd.DataFrame({"income": table["income"], "grade": np.arange(len(table)) % 3})
    encoder = boosted().fit(table[["age", "hours", "job"]], labels, sensitive_features=table[["sex", "member"]])
    encoder.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    same(encoder, loaded, table)
    assert loaded.groups_ == encoder.groups_


def test_arrays_without_names(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    encoder = FairTreeEncoder(min_cell_size=5, sensitive=2)
    encoder.fit(np.column_stack([X, np.arange(100) % 2]), X[:, 0] > 0)
    encoder.save(tmp_path / "encoder.json")
    loaded = load_encoder(tmp_path / "encoder.json")
    same(encoder, loaded, X)
    assert not hasattr(loaded, "feature_names_in_")


class TestHostileFiles:
    """Each is refused with an FileError."""

    @pytest.fixture
    def refused(self, tmp_path):
        def refuse(content, match="."):
            path = tmp_path / "hostile.json"
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
            with pytest.raises(FileError, match=match):
                load_encoder(path)

        return refuse

    def test_no_file(self, tmp_path):
        with pytest.raises(FileError, match="cannot be read"):
            load_encoder(tmp_path / "nothing.json")
        with pytest.raises(FileError, match="cannot be read"):
            load_encoder(tmp_path)

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
    def test_truncated(self, saved, refused, share):
        content = saved.read_bytes()
        refused(content[: int(share * len(content))])

    def test_too_large(self, saved, monkeypatch):
        monkeypatch.setattr(format, "MAX_BYTES", 100)
        with pytest.raises(FileError, match="more than 100 bytes"):
            load_encoder(saved)

    @pytest.mark.parametrize(
        "content",
        [b"[" * 1_000_000, b'{"a":' * 1_000_000, b"\xff\xfe\x00", b"null", b"[]", b"{}", b'"x"', b"\x80\x04K\x01."],
        ids=["brackets", "braces", "bytes", "null", "list", "empty", "text", "pickle"],
    )
    def test_what_is_something_else(self, refused, content):
        refused(content)

    def test_nested_deeply_inside(self, saved, refused):
        content = saved.read_bytes().replace(b'"parameters": {', b'"parameters": {"x": ' + b"[" * 100_000 + b", ", 1)
        refused(content)

    @pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"-1e999"])
    def test_numbers_that_are_none(self, saved, refused, number):
        content = saved.read_bytes()
        assert b'"random_state": 0' in content
        refused(content.replace(b'"random_state": 0', b'"random_state": ' + number))

    def test_another_format_or_version(self, saved, refused):
        document = json.loads(saved.read_text())
        refused(document | {"format": "something/else"}, "not an encoder")
        refused(document | {"version": 4, "more": []}, "newer than this certifare knows")
        refused(document | {"version": 0}, "no version 0")
        refused(document | {"version": "1"})
        refused(document | {"kind": "neural"})

    def test_every_field_is_needed_and_none_besides(self, saved, refused):
        document = json.loads(saved.read_text())
        for field in document:
            refused({name: value for name, value in document.items() if name != field})
        refused(document | {"surprise": 1})

    def test_every_field_has_a_type(self, saved, refused):
        document = json.loads(saved.read_text())
        for field, value in document.items():
            for wrong in (3.5, "x", [[[]]], {"x": {}}):
                if type(wrong) is not type(value):
                    refused(document | {field: wrong})

    def change(self, saved, *path, value):
        """The document with one value changed."""
        document = json.loads(saved.read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return document

    @pytest.mark.parametrize("key", ["version", "group_column", "representative", "missing"])
    def test_a_key_that_occurs_twice(self, saved, refused, key):
        """Two readers may each take another of the two values, and the file has one digest."""
        plain = json.dumps(json.loads(saved.read_text()))
        start = plain.index(f'"{key}": ')
        value = json.JSONDecoder().raw_decode(plain, start + len(f'"{key}": '))[1]
        once = plain[start:value]
        refused((plain[:start] + once + ", " + plain[start:]).encode(), f"'{key}' occurs twice")
        hidden = f'"\\u{ord(key[0]):04x}{key[1:]}"' + once[len(f'"{key}"') :]
        refused((plain[:start] + hidden + ", " + plain[start:]).encode(), f"'{key}' occurs twice")

    def test_common_nonsense(self, saved, refused):
        refused(self.change(saved, "parameters", "surprise", value=1), "parameters")
        refused(self.change(saved, "columns", value=[]), "columns")
        refused(self.change(saved, "columns", 0, "name", value="hours"), "a name occurs twice")
        refused(self.change(saved, "columns", 0, "type", value="text"))
        refused(self.change(saved, "columns", 0, "categories", value=["a"]), "either edges or categories")
        refused(self.change(saved, "columns", 2, "categories", value=["b", "a"]), "not sorted")
        refused(self.change(saved, "columns", 2, "categories", value=[1, 2]), "not of its type")
        refused(self.change(saved, "columns", 0, "edges", value=[2.0, 1.0]), "not sorted")

    @pytest.mark.parametrize("encoder", ["tree"], indirect=True)
    def test_trees_that_are_none(self, saved, refused):
        refused(self.change(saved, "splits", 0, "node", value=1), "not a leaf")
        refused(self.change(saved, "splits", 1, "node", value=0), "not a leaf")
        refused(self.change(saved, "splits", 1, "node", value=-1))
        refused(self.change(saved, "splits", 1, "node", value=10**9), "not a leaf")
        refused(self.change(saved, "splits", 0, "column", value="x"), "no column 'x'")
        refused(self.change(saved, "splits", 0, "missing", value="up"))
        refused(self.change(saved, "splits", 0, "at_most", value=1e300))
        refused(self.change(saved, "splits", 0, "categories", value=["x"]))
        refused(self.change(saved, "splits", value=[]), "nodes: 19 instead of 1")
        refused(self.change(saved, "nodes", 0, "representative", value={}), "other columns")
        refused(self.change(saved, "nodes", 0, "representative", "age", value="old"), "'age' is a number")
        refused(self.change(saved, "nodes", 0, "representative", "job", value=1), "'job' is text")
        refused(self.change(saved, "nodes", 0, "groups", value=[1.0]), "share per group")
        refused(self.change(saved, "nodes", 0, "labels", value=[]), "share per label")
        refused(self.change(saved, "nodes", 0, "records", value=None), "incomplete")

    @pytest.mark.parametrize("encoder", ["boosted", "boosted, retain"], indirect=True)
    def test_score_models_that_are_none(self, saved, refused):
        tree = ("models", 0, "trees", 0)
        refused(self.change(saved, "version", value=2), "Fit it again")
        refused(self.change(saved, *tree, "features", 0, value=-1), "a node cannot be reached")
        refused(self.change(saved, *tree, "features", 0, value=99), "no feature 99")
        refused(self.change(saved, *tree, "features", value=[]), "length >= 1")
        refused(self.change(saved, *tree, value={"features": [0], "numbers": [1.0], "missing_left": []}), "no child")
        refused(self.change(saved, *tree, "numbers", 0, value=None))
        refused(self.change(saved, *tree, "missing_left", value=[10**6]), "missing_left lists")
        refused(self.change(saved, *tree, "missing_left", value=[-1]))
        refused(self.change(saved, "models", value=[]), "models: not one per label")
        refused(self.change(saved, "means", value={"age": [[1.0]]}), "means")
        refused(self.change(saved, "models", 0, "baseline", value=[]), "baseline")
        refused(self.change(saved, "axes", 0, "edges", value=[1.0, 0.0]), "not sorted")
        refused(self.change(saved, "axes", 0, "coordinates", value=[1.0]), "coordinate per bin")
        refused(self.change(saved, "axes", 0, "weights", value=[1.0]), "need no weights")
        refused(self.change(saved, "axes", 0, "side", value="group"), "labels and groups")
        refused(self.change(saved, "squares", 0, value=10**9), "out of range")
        refused(self.change(saved, "squares", 0, value=0), "no cell")
        refused(self.change(saved, "squares", value=[0]), "squares: 1 instead of")
        refused(self.change(saved, "parents", 0, value=2), "not a leaf")
        refused(self.change(saved, "labels", value=[]), "has labels and groups")

    @pytest.mark.parametrize("encoder", ["boosted, retain"], indirect=True)
    def test_centres_that_are_none(self, saved, refused):
        refused(self.change(saved, "clusters", "scales", 0, value=0.0), "> 0.0")
        refused(self.change(saved, "clusters", "means", value=[]), "one mean and scale")
        refused(self.change(saved, "clusters", "centres", value=[]), "rows")
        refused(self.change(saved, "clusters", "centres", 0, value=[1.0]), "rows")
        refused(self.change(saved, "clusters", "centres", value=[[1.0]] * 16), "other coordinates")


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=20,
    ),
    st.integers(1, 120),
)
def test_layout_changes_nothing(value, width):
    assert json.loads(format_json(value, width=width)) == value


def test_layout_is_for_readers():
    text = format_json({"numbers": list(range(60)), "short": {"a": [1, 2]}})
    assert text.splitlines()[1].startswith(' "numbers": [')
    assert max(map(len, text.splitlines())) <= 120
    assert '"short": {"a": [1, 2]}' in text
