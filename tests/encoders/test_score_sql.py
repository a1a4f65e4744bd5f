"""Boosted and calibrated encoders as SQL: the same cells, row by row, in DuckDB and SQLite (and in PostgreSQL, where
tests of the databases and of the commands count).
"""

import contextlib
import sqlite3
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest

from certifare import BoostedEncoder, CalibratedEncoder, load_encoder
from certifare.encoders.sql import feature_columns, write_cell
from certifare.engines.sql.warehouse import SQLite
from certifare.errors import EncoderError, TableError

N = 3000
TOWNS = np.array(["it's", 'a "b"', "é", "e", "E", " e", "x\\y", "new\nline", "%s", "ten", "eleven"])


def people(n=N, seed=0):
    """Numbers, missing values, few and many categories, truth values, and a column that identifies records."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["f", "m"], n)
    frame = pd.DataFrame(
        {
            "Age": rng.integers(18, 70, n).astype(float),
            "wage": rng.lognormal(3, 1, n) / 3,
            "town": pd.Series(rng.choice(TOWNS, n), dtype=object),
            "job": pd.Series(rng.choice(["nurse", "smith", ""], n), dtype=object),
            "member": rng.random(n) < 0.5,
        }
    )
    score = frame["Age"] / 20 + frame["wage"] / 20 + (frame["town"] == "é") + (group == "f") + rng.normal(size=n)
    frame.loc[rng.random(n) < 0.1, "Age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "town"] = None
    return frame, pd.Series(group, name="sex"), (score > score.median()).astype(int).rename("paid")


@pytest.fixture(scope="module")
def fresh():
    """Other records, some with categories that nobody has seen."""
    frame, group, _ = people(seed=1)
    frame.loc[:50, "town"] = "é "
    frame.loc[50:60, "job"] = None
    return frame, group


def asked(encoder, frame, **columns):
    """Let DuckDB and SQLite find the cells; they must find the same."""
    table = frame.assign(**columns, position=np.arange(len(frame)))
    with duckdb.connect() as connection:
        connection.register("fresh", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
        rows = connection.execute(encoder.to_sql("duckdb", "people") + " ORDER BY position").fetchall()
        cells = [row[-1] for row in rows]
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        SQLite(connection)
        table.to_sql("people", connection, index=False)
        rows = connection.execute(encoder.to_sql("sqlite", "people") + " ORDER BY position").fetchall()
    assert cells == [row[-1] for row in rows]
    return cells


def test_a_map_of_two_scores_has_the_same_cells(fresh, tmp_path):
    frame, group, label = people()
    encoder = BoostedEncoder(gamma=0.3, max_cells=12, folds=2).fit(frame, label, sensitive_features=group)
    expected = encoder.apply(fresh[0]).tolist()
    assert len(set(expected)) == encoder.n_cells_ > 3
    assert asked(encoder, fresh[0]) == expected
    assert asked(encoder.at(2), fresh[0]) == encoder.at(2).apply(fresh[0]).tolist()
    encoder.save(tmp_path / "encoder.json")
    assert load_encoder(tmp_path / "encoder.json").to_sql() == encoder.to_sql()


def test_trees_with_many_leaves_are_hardly_nested(fresh, monkeypatch):
    """SQLite gave up on trees of 31 leaves: "parser stack overflow"."""
    frame, group, label = people()
    settings = {"n_estimators": 4, "num_leaves": 200, "min_child_samples": 3}
    monkeypatch.setattr("certifare.encoders.scores.MODELS", ((0, (settings,)),))
    encoder = BoostedEncoder(max_cells=5, folds=2).fit(frame, label, sensitive_features=group)
    few = fresh[0][:300]
    assert asked(encoder, few) == encoder.apply(few).tolist()


def test_collations_do_not_take_records_for_one_another():
    """DuckDB computes the cell of equal records once: records that differ by an accent alone must not be equal."""
    frame, group, label = people()
    encoder = BoostedEncoder(gamma=0, max_cells=12, folds=2).fit(frame, label, sensitive_features=group)
    alike = frame[:2].assign(Age=40.0, wage=5.0, job="smith", member=True, town=["e", "é"])
    expected = encoder.apply(alike).tolist()
    assert len(set(expected)) == 2
    types = '"Age" DOUBLE, wage DOUBLE, town VARCHAR COLLATE NOCASE.NOACCENT, job VARCHAR, member BOOLEAN'
    with duckdb.connect() as connection:
        connection.register("fresh", alike)
        connection.execute(f"CREATE TABLE people ({types})")
        connection.execute("INSERT INTO people SELECT * FROM fresh")
        assert connection.execute("SELECT COUNT(DISTINCT town) FROM people").fetchone() == (1,)
        rows = connection.execute(encoder.to_sql("duckdb", "people")).fetchall()
    assert {row[2]: row[-1] for row in rows} == dict(zip(alike["town"], expected, strict=True))


@pytest.fixture(scope="module")
def calibrated():
    """Thresholds that many records equal: scores of few different values."""
    frame, group, label = people()
    frame = frame[["Age", "job"]].assign(Age=frame["Age"] // 20, person=[f"{i}é" for i in range(N)])
    half = N // 2
    encoder = CalibratedEncoder(target=0.3, folds=2, tie_column="person", random_state=1)
    encoder.fit(frame[:half], label[:half], sensitive_features=group[:half])
    encoder.calibrate(frame[half:], sensitive_features=group[half:])
    return encoder


def test_a_hash_of_the_tie_column_decides_about_equal_scores(fresh, calibrated):
    frame = fresh[0][["Age", "job"]].assign(Age=fresh[0]["Age"] // 20, person=[f"né {i}" for i in range(N)])
    expected = calibrated.apply(frame, sensitive_features=fresh[1])
    assert len(set(expected)) == calibrated.n_cells_ > 3
    assert asked(calibrated, frame, sex=fresh[1]) == expected.tolist()
    other = calibrated.apply(frame.assign(person=frame["person"] + "!"), sensitive_features=fresh[1])
    assert (other != expected).sum() > 100  # so it is the hash that decides
    lost = asked(calibrated, frame.assign(person=None), sex=fresh[1])
    assert lost == [None] * N


def test_an_existing_score_has_the_same_cells(fresh):
    rng = np.random.default_rng(2)
    score, group, label = (people(seed=3)[0]["wage"] * 10).round() / 7, *people(seed=3)[1:]
    X = pd.DataFrame({"score": score, "person": rng.permutation(N)})
    encoder = CalibratedEncoder(target=0.3, score_column="score", tie_column="person")
    encoder.fit(X[:1500], label[:1500], sensitive_features=group[:1500])
    encoder.calibrate(X[1500:], sensitive_features=group[1500:])
    other = pd.DataFrame({"score": (fresh[0]["wage"] * 10).round() / 7, "person": rng.permutation(N) + 10**15})
    other.loc[:20, "score"] = np.nan
    expected = encoder.apply(other, sensitive_features=fresh[1])
    assert encoder.thresholds_.on_threshold(
        other[["score"]].to_numpy(), encoder.read_group_codes(other, fresh[1])
    ).any()
    assert asked(encoder, other, sex=fresh[1]) == expected.tolist()
    types = {"score": "DOUBLE", "person": "DOUBLE"}
    with pytest.raises(TableError, match="'person' .tie_column. holds neither whole numbers nor text"):
        write_cell(encoder, feature_columns(encoder, "duckdb", types), "duckdb", 0, [])


def test_a_group_that_pools_others_has_every_name_but_a_missing_one(fresh, calibrated):
    frame, group, label = people()
    frame = frame[["Age", "job"]].assign(Age=frame["Age"] // 20, person=[f"{i}é" for i in range(N)])
    half, group = N // 2, group.replace({"f": "others"})
    encoder = CalibratedEncoder(target=0.3, folds=2, tie_column="person", other_group="others")
    encoder.fit(frame[:half], label[:half], sensitive_features=group[:half])
    encoder.calibrate(frame[half:], sensitive_features=group[half:])
    named = pd.Series(np.where(group == "m", "m", np.array(["f", "x", "others"])[np.arange(N) % 3]), name="sex")
    expected = encoder.apply(frame, sensitive_features=group)
    assert encoder.apply(frame, sensitive_features=named).tolist() == expected.tolist()
    assert asked(encoder, frame, sex=named) == expected.tolist()
    assert asked(encoder, frame[:9], sex=None) == [None] * 9
    with pytest.raises(EncoderError, match="other_group='z' is none of the groups"):
        CalibratedEncoder(folds=2, other_group="z").fit(frame, label, sensitive_features=group)


def test_what_cannot_be_written(fresh, calibrated):
    frame, group, label = people()
    three = pd.Series(np.digitize(frame["wage"], [3, 10]), name="three")
    for y, s, others, problem in (
        (label, three, {}, "groups of three and more cannot be written as SQL"),
        (three, group, {}, "or of a label or groups of three"),
        (label, group, {"retain": 0.5}, "An encoder with retain cannot"),
    ):
        encoder = BoostedEncoder(max_cells=4, folds=2, **others).fit(frame, y, sensitive_features=s)
        with pytest.raises(EncoderError, match=problem):
            encoder.to_sql()
    with pytest.raises(EncoderError, match="written for duckdb, postgres, sqlite, not for spark"):
        encoder.to_sql("spark")
    with pytest.raises(EncoderError, match="Fit with a column that identifies records: certifare fit --tie-column"):
        calibrated.__class__(**{**calibrated.get_params(), "tie_column": None}).fit(
            frame, label, sensitive_features=group
        ).to_sql()


@pytest.mark.parametrize("factor", [0.3, 2.0**40])
def test_leaves_that_do_not_add_up_exactly_are_refused(factor):
    frame, group, label = people(400)
    encoder = BoostedEncoder(max_cells=3, folds=2, min_cell_size=20).fit(frame, label, sensitive_features=group)
    score_map = encoder.score_map_
    forest = replace(score_map.scores.models[0], value=score_map.scores.models[0].value * factor)
    scores = replace(score_map.scores, models=(forest, *score_map.scores.models[1:]))
    encoder.score_map_ = replace(score_map, scores=scores)
    with pytest.raises(EncoderError, match="leaves are not whole, or too large"):
        encoder.to_sql()
