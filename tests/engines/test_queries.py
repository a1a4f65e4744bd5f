"""Draws by a hash in the database: the same everywhere, in the right proportions, and the bound holds with them."""

import contextlib
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from certifare import FairTreeEncoder
from certifare.certificates.counts import OTHER_KEPT, THINNED, THINNED_CLUSTERS
from certifare.engines.sql import warehouse as warehouse_module
from certifare.engines.sql.queries import INCOMPLETE, KEPT, Draw, draw_query, uniform_of
from certifare.engines.sql.warehouse import DuckDB, SQLite, Warehouse, certify_sql, connect
from certifare.errors import ArgumentError, ColumnTypeError, MissingColumnError, MissingValueError, RoleError
from certifare.randomness import number

duckdb = pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def encoder() -> FairTreeEncoder:
    """Two cells: x up to 0, and above."""
    X = pd.DataFrame({"x": [0.0, 1.0] * 50})
    return FairTreeEncoder(gamma=0, min_cell_size=5).fit(X, X["x"], sensitive_features=np.arange(100) % 3 % 2)


def panel(n: int, seed: int = 0) -> pd.DataFrame:
    """People with one to five visits each, weights (some zero, some missing), and people without a number."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": np.arange(n), "person": rng.integers(0, n // 3, n), "x": rng.integers(0, 2, n) * 1.0})
    frame["weight"] = np.where(rng.random(n) < 0.1, 0.0, rng.lognormal(size=n))
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["paid"] = rng.integers(0, 2, n).astype(float)
    frame["person"] = frame["person"].astype(float)
    frame.loc[::17, "weight"] = np.nan
    frame.loc[::19, "person"] = np.nan
    frame.loc[::23, "paid"] = np.nan
    return frame


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    people = panel(900)
    with contextlib.ExitStack() as stack:
        if request.param == "duckdb":
            connection = stack.enter_context(duckdb.connect())
            connection.register("people", people)
            yield DuckDB(connection)
        elif request.param == "sqlite":
            connection = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
            people.to_sql("people", connection, index=False)
            yield SQLite(connection)
        else:
            sqlalchemy = pytest.importorskip("sqlalchemy")
            address = request.getfixturevalue("postgres")
            engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
            people.to_sql("people", engine, index=False)
            engine.dispose()
            yield stack.enter_context(connect(address))


def draw_by_hand(people: pd.DataFrame, draw: Draw) -> dict[int, str]:
    """Say what becomes of each record, by the definition."""
    ends: dict[int, str] = {}
    numbers: dict[int, list[float]] = {}
    for row in people.itertuples():
        key = hashlib.md5(str(row.id).encode()).hexdigest()  # noqa: S324
        salts = [
            f"{number(draw.seed, purpose, draw.part, bits=128):032x}" for purpose in ("one per cluster", "thinning")
        ]
        numbers[row.id] = [uniform_of(salt + key) for salt in salts]
        if np.isnan(row.paid):
            ends[row.id] = INCOMPLETE
        elif draw.cluster and np.isnan(row.person):
            ends[row.id] = "cluster missing"
        elif draw.weight and np.isnan(row.weight):
            ends[row.id] = "weight missing"
        elif draw.weight and row.weight == 0:
            ends[row.id] = OTHER_KEPT if draw.cluster else THINNED
    left = people[~people["id"].isin(ends)]
    left = left.assign(w=left["weight"] if draw.weight else 1.0, c=left["person"] if draw.cluster else left["id"])
    largest = left.groupby("c")["w"].sum().max()
    for _, members in left.groupby("c"):
        best = max(members.itertuples(), key=lambda row: np.log(numbers[row.id][0]) / row.w)
        for row in members.itertuples():
            ends[row.id] = KEPT if row.id == best.id else OTHER_KEPT
        if draw.thins and numbers[best.id][1] * largest >= members["w"].sum():
            ends[best.id] = THINNED_CLUSTERS if draw.cluster else THINNED
    return ends


DRAWS = [("weight", None, "clusters"), (None, "person", "clusters"), ("weight", "person", "records")]


@pytest.mark.parametrize(("weight", "cluster", "population"), DRAWS)
def test_item_3_every_database_draws_the_same_records(
    encoder: FairTreeEncoder, place: Warehouse, weight: str, cluster: str, population: str
) -> None:
    draw = Draw(weight, cluster, population, None, ("id",), 7, "some records")
    sql = draw_query(encoder, place.dialect, "people", place.columns(["people"]), draw, sensitive="id", label="paid")
    found = {int(row[1]): row[3] for row in place.query(sql)}
    assert found == draw_by_hand(panel(900), draw)
    assert set(Counter(found.values()).values()) != {0}


def test_item_3_certificates_say_how_records_were_drawn(encoder: FairTreeEncoder, place: Warehouse) -> None:
    people = panel(900)
    plain = {"sensitive": "sex", "missing": "drop", "key": "id", "min_group_size": 5}
    weighted = certify_sql(encoder, place, "people", weight="weight", seed=3, **plain)
    known = people["weight"].dropna()
    reasons = {exclusion.reason: exclusion.records for exclusion in weighted.exclusions}
    assert reasons["weight missing"] == people["weight"].isna().sum()
    assert reasons[THINNED] == len(known) - weighted.counts.n_records
    assert weighted.effective_size == pytest.approx(known.sum() ** 2 / (known**2).sum())
    assert weighted.seed == 3
    assert "hash of id" in weighted.assumptions[-1]
    assert f"largest weight in the sample, {known.max():g}" in " ".join(weighted.assumptions)

    clustered = certify_sql(encoder, place, "people", cluster="person", **plain)
    assert clustered.counts.n_records == people["person"].nunique()
    assert {e.reason for e in clustered.exclusions} == {"cluster missing", OTHER_KEPT}
    assert clustered.population == ("with a known cluster", "one at random of a random cluster")

    odds = certify_sql(encoder, place, "people", cluster="person", label="paid", metric="equalized_odds", **plain)
    assert "label missing" in {e.reason for e in odds.exclusions}
    assert odds.counts.n_records == people.dropna(subset=["paid"])["person"].nunique()

    known_most = certify_sql(encoder, place, "people", weight="weight", max_weight=60.0, **plain)
    assert known_most.counts.n_records < weighted.counts.n_records
    with pytest.raises(ArgumentError, match="max_weight"):
        certify_sql(encoder, place, "people", weight="weight", max_weight=0.5, **plain)
    with pytest.raises(MissingValueError, match="label"):
        certify_sql(
            encoder, place, "people", cluster="person", label="paid", metric="equalized_odds", sensitive="sex", key="id"
        )


def test_item_3_what_cannot_be_drawn_is_refused(encoder: FairTreeEncoder, place: Warehouse) -> None:
    for options, error, message in [
        ({"weight": "weight"}, ArgumentError, "identifies"),
        ({"key": "id"}, ArgumentError, "no weight or cluster"),
        ({"weight": "weight", "key": "sex"}, RoleError, "'sex' does not identify"),
        ({"weight": "weight", "key": ["sex", "paid"]}, RoleError, "does not identify"),
        ({"weight": "weight", "key": "nothing"}, MissingColumnError, "'nothing'"),
        ({"weight": "sex", "key": "id"}, ColumnTypeError, "weights must be numbers"),
        ({"cluster": "person", "key": "id", "population": "rows"}, ArgumentError, "population"),
        ({"cluster": "persons", "key": "id"}, MissingColumnError, "person"),
    ]:
        with pytest.raises(error, match=message):
            certify_sql(encoder, place, "people", sensitive="sex", missing="drop", **options)


def test_item_3_bad_weights_are_refused(encoder: FairTreeEncoder) -> None:
    with duckdb.connect() as connection:
        for weight in ("-1", "'inf'::DOUBLE", "0"):
            connection.execute(
                f"CREATE OR REPLACE TABLE people AS SELECT i AS id, i % 2 AS x, i % 3 % 2 AS sex, {weight} AS w "  # noqa: S608
                "FROM range(300) AS t(i)"
            )
            with pytest.raises(RoleError, match="'w'"):
                certify_sql(encoder, DuckDB(connection), "people", sensitive="sex", weight="w", key="id")


def ends_of(encoder: FairTreeEncoder, warehouse: Warehouse, draw: Draw) -> dict[int, str]:
    sql = draw_query(encoder, warehouse.dialect, "people", warehouse.columns(["people"]), draw, sensitive="id")
    return {int(row[1]): row[2] for row in warehouse.query(sql)}


def test_item_3_draws_are_in_proportion(encoder: FairTreeEncoder) -> None:
    """One of each cluster in proportion to its weight; thinning in proportion to the weight; both independently."""
    n = 4000
    people = pd.DataFrame({"id": np.arange(4 * n), "person": np.arange(4 * n) // 4, "x": 0.0})
    people["w"] = np.array([0.25, 1.0, 2.0, 4.0])[people["id"] % 4]
    with duckdb.connect() as connection:
        connection.register("people", people)
        warehouse = DuckDB(connection)
        draw = Draw(None, "person", "clusters", None, ("id",), 1, "a")
        even = [i for i, end in ends_of(encoder, warehouse, draw).items() if end == KEPT]
        assert stats.chisquare(np.bincount(np.array(even) % 4)).pvalue > 1e-4
        weighted = [i for i, end in ends_of(encoder, warehouse, replace(draw, weight="w")).items() if end == KEPT]
        shares = np.array([0.25, 1, 2, 4]) / 7.25
        assert stats.chisquare(np.bincount(np.array(weighted) % 4, minlength=4), n * shares).pvalue > 1e-4
        thinned = [
            i for i, end in ends_of(encoder, warehouse, replace(draw, weight="w", cluster=None)).items() if end == KEPT
        ]
        kept = np.bincount(np.array(thinned) % 4, minlength=4)
        assert kept[3] == n
        for count, probability in zip(kept[:3], (1 / 16, 1 / 4, 1 / 2), strict=True):
            assert stats.binomtest(int(count), n, probability).pvalue > 1e-4
        # Neighbours are kept independently of each other.
        both = np.isin(np.arange(2, 4 * n, 4), thinned)
        assert stats.binomtest(int((both[1:] & both[:-1]).sum()), n - 1, 1 / 4).pvalue > 1e-4


def test_item_3_draws_of_other_seeds_and_parts_are_independent(
    encoder: FairTreeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables with the same keys, and one seed: the i-th person keeps the same visit in one of five cases only."""
    n = 2000
    rng = np.random.default_rng(0)
    draws: list[Draw] = []
    kept = []

    def spy(*args: Any, **options: Any) -> str:
        draws.append(args[4])
        return draw_query(*args, **options)

    monkeypatch.setattr(warehouse_module, "draw_query", spy)
    with duckdb.connect() as connection:
        for seed in (0, 0, 1):
            people = pd.DataFrame({"id": np.arange(5 * n), "person": np.arange(5 * n) // 5})
            people["x"], people["sex"] = rng.integers(0, 2, 5 * n) * 1.0, people["person"] % 2
            connection.register("people", people)
            certify_sql(encoder, DuckDB(connection), "people", sensitive="sex", cluster="person", key="id", seed=seed)
            ends = ends_of(encoder, DuckDB(connection), draws[-1])
            kept.append({i // 5: i % 5 for i, end in ends.items() if end == KEPT})
    for one, other in ((0, 1), (0, 2), (1, 2)):
        same = sum(kept[one][person] == kept[other][person] for person in range(n))
        assert stats.binomtest(same, n, 1 / 5).pvalue > 1e-4


def misses(encoder: FairTreeEncoder, jobs: int, **options: Any) -> int:
    """Certify samples of a panel whose distance is .2: five visits of 200 people a group, all in one cell."""
    rng = np.random.default_rng(5)
    missed = 0
    with duckdb.connect() as connection:
        warehouse = DuckDB(connection)
        for _ in range(jobs):
            sex = np.arange(400) % 2
            cell = rng.random(400) < np.where(sex, 0.6, 0.4)
            people = pd.DataFrame({"x": cell, "sex": sex, "person": np.arange(400)}).astype({"x": float})
            connection.register("people", people.loc[people.index.repeat(5)].assign(id=np.arange(2000)))
            missed += certify_sql(encoder, warehouse, "people", sensitive="sex", **options).bound < 0.2
    return missed


def test_item_3_the_bound_holds_on_a_panel(encoder: FairTreeEncoder) -> None:
    jobs = 60
    assert stats.binomtest(misses(encoder, jobs, cluster="person", key="id"), jobs, 0.05, "greater").pvalue > 1e-3
    # The same panel tells when clusters are ignored.
    assert stats.binomtest(misses(encoder, jobs), jobs, 0.05, "greater").pvalue < 1e-3
