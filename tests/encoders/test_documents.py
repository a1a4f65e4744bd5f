"""What an encoder's file asks for is bounded before it is done."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from certifare import FairTreeEncoder, load_encoder
from certifare.encoders import documents
from certifare.encoders.documents import sum_over_cells
from certifare.errors import EncoderError, FileError

COMMON = {
    "format": "certifare/encoder",
    "version": 1,
    "certifare": "1",
    "parameters": {},
    "named": True,
    "group_column": "s",
    "groups": ["f", "m"],
    "labels": [{"name": "y", "values": [0, 1]}],
}
NUMBER = {"name": "a", "type": "number", "edges": [1.0]}


def chain(n_splits, column=NUMBER, **rule):
    """A tree that is all depth: every split parts the right child of the one before."""
    what = {"column": "a", "missing": "left", **({"at_most": 1.0} if "edges" in column else {}), **rule}
    return {
        **COMMON,
        "kind": "tree",
        "columns": [column],
        "splits": [{"node": 2 * j, **what} for j in range(n_splits)],
        "nodes": [{"representative": {"a": None}}] * (2 * n_splits + 1),
    }


def boosted(n_splits, tree, n_trees=1):
    edges = [i / 10 for i in range(63)]
    axes = [{"name": side, "side": side, "edges": edges, "coordinates": [*edges, 7.0]} for side in ("label", "group")]
    return {
        **COMMON,
        "version": 3,
        "kind": "boosted",
        "columns": [{**NUMBER, "edges": []}],
        "means": {},
        "models": [{"baseline": [0.0], "trees": [tree] * n_trees}] * 2,
        "axes": axes,
        "clusters": None,
        "parents": [2 * j for j in range(n_splits)],
        "squares": [2 * n_splits] * 4096,
        "nodes": [{"representative": {"a": None}}] * (2 * n_splits + 1),
    }


STUMP = {"features": [-1], "numbers": [0.1], "missing_left": []}


def deep(n, step=0.0):
    """A tree that is all depth; its thresholds are ``step`` apart."""
    return {
        "features": [0, -1] * n + [-1],
        "numbers": [i * step for i in range(2 * n + 1)],
        "missing_left": [],
    }


CATEGORIES = {"name": "a", "type": "text", "categories": [f"{i:05d}" for i in range(60_000)]}
TOO_MUCH = {
    "splits of a column with many categories": (
        lambda: chain(1_200, CATEGORIES, categories=[], unseen="left"),
        "72,002,400 codes of splits",
    ),
    "rules of a column with many categories": (
        lambda: chain(200, CATEGORIES, categories=[], unseen="left"),
        "codes on the ways",
    ),
    "depth": (lambda: chain(3_000), "4,504,500 steps to its cells"),
    "empty cells of a map": (lambda: boosted(1_000, STUMP), "a cell has none"),
    "leaves of a score model": (lambda: boosted(0, deep(5_000)), "5,001 leaves in a tree"),
    "thresholds of a score model": (lambda: boosted(0, deep(1_000, 0.5), 9), "entries of tables"),
    "columns": (
        lambda: {
            **chain(0),
            "columns": [{**NUMBER, "name": f"c{i}"} for i in range(10_001)],
            "nodes": [{"representative": {f"c{i}": None for i in range(10_001)}}],
        },
        "10,001 columns",
    ),
    "lists": (lambda: {**chain(1), "surprise": [[]] * (1 << 21)}, "2,097,1.. lists"),
    "groups": (lambda: {**chain(1), "groups": list(range(1_001))}, "1,001 groups"),
    "labels": (
        lambda: {**chain(1), "labels": [{"name": "y", "values": list(range(1_001))}]},
        "1,001 values of the label 'y'",
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_file_that_asks_for_too_much_is_refused(name, tmp_path):
    make, message = TOO_MUCH[name]
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps(make(), separators=(",", ":")))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=message):
            load_encoder(path)
        # A parsed document takes some ten times its size; what it asks for is not made.
        assert tracemalloc.get_traced_memory()[1] < 40 * path.stat().st_size + (8 << 20)
    finally:
        tracemalloc.stop()


def test_what_is_below_the_limits_works(tmp_path):
    path = tmp_path / "encoder.json"
    for document, n_cells in ((chain(1_000), 1_001), (boosted(0, deep(1_000)), 1)):
        path.write_text(json.dumps(document))
        encoder = load_encoder(path)
        assert encoder.n_cells_ == len(encoder.describe()) == n_cells
        column = encoder.columns_[0].name
        assert encoder.apply(pd.DataFrame({column: [0.0, 1.0, 2.0, np.nan]})).max() < n_cells


def test_numbers_out_of_range_are_one_line(tmp_path):
    path = tmp_path / "encoder.json"
    for change in (
        {"nodes": [{"representative": {"a": 10**400}}] * 5},
        {"nodes": [{"representative": {"a": 1}, "records": 2**70, "groups": [0, 1], "labels": [[0, 1]]}] * 5},
    ):
        path.write_text(json.dumps({**chain(2), **change}))
        with pytest.raises(FileError):
            load_encoder(path)
    path.write_text(json.dumps(boosted(0, {**STUMP, "features": [2**31, -1, -1], "numbers": [0, 0, 0]})))
    with pytest.raises(FileError, match="there is no feature 2147483648"):
        load_encoder(path)


def test_a_file_does_not_choose_the_number_of_threads(tmp_path):
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps({**chain(2), "parameters": {"n_jobs": 10**6}}))
    with pytest.raises(FileError, match="n_jobs"):
        load_encoder(path)


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    X = np.arange(100.0)[:, None]
    encoder = FairTreeEncoder(0.1, 8, 2).fit(X, X[:, 0] > 50, sensitive_features=np.arange(100) % 2)
    encoder.save(tmp_path / "before.json")
    monkeypatch.setattr(documents, "MOST_CELLS", 1)
    with pytest.raises(EncoderError, match="cells, where 1 are the most"):
        encoder.save(tmp_path / "encoder.json")
    assert not (tmp_path / "encoder.json").exists()
    with pytest.raises(FileError, match="cells, where 1 are the most"):
        load_encoder(tmp_path / "before.json")


def test_steps_to_cells_add_up():
    assert sum_over_cells([], []) == 0
    assert sum_over_cells([0, 1, 2], [1, 1, 1]) == 8
    assert sum_over_cells([0, 2, 4], [1, 1, 1]) == 1 + 2 + 3 + 3
