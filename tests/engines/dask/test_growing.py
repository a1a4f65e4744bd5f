"""Encoders fitted on a cluster of two worker processes equal those fitted in memory."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.conftest import assert_same_encoder, make_people, tables

from certifare import BoostedEncoder, FairTreeEncoder, certify
from certifare.errors import (
    ArgumentError,
    EncoderError,
    GroupError,
    MissingColumnError,
    TableError,
)

dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed (pip install 'certifare[dask]')")

from certifare.engines.dask import growing as engine  # noqa: E402
from certifare.engines.dask.growing import CodedBlock, Cut, Orders, prepare_dask  # noqa: E402
from certifare.growth.histograms import Layout  # noqa: E402


def distribute(parts: Sequence[pd.DataFrame], folder: Path) -> Any:
    """A Dask frame whose partitions are exactly these, read by the workers from files."""
    paths = [folder / f"{i}.parquet" for i in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        part.to_parquet(path)
    return dd.from_map(pd.read_parquet, paths, meta=parts[0].head(0), enforce_metadata=False)


def cut(frame: pd.DataFrame, bounds: Sequence[int]) -> list[pd.DataFrame]:
    return [frame.iloc[a:b] for a, b in zip([0, *bounds], [*bounds, len(frame)], strict=True)]


def fit_both(frame: pd.DataFrame, parts: Sequence[pd.DataFrame], folder: Path, **options: Any) -> Any:
    """Fit in memory and on the cluster; the encoders and the training records on the cluster."""
    one = FairTreeEncoder(**options).fit(
        frame.drop(columns=["paid", "sex"]), frame["paid"], sensitive_features=frame["sex"]
    )
    spread = distribute(parts, folder)
    other = FairTreeEncoder(**options)
    training = prepare_dask(
        other, spread.drop(columns=["paid", "sex"]), spread["paid"], sensitive_features=spread["sex"]
    )
    return one, other.fit_from(training), training


def test_equal_to_memory(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    options = {"gamma": 0.6, "max_cells": 40, "min_cell_size": 20, "max_bins": 60}
    one, other, training = fit_both(many_people, cut(many_people, [1500, 1600, 4000]), tmp_path, **options)
    assert one.n_cells_ == 40
    assert_same_encoder(one, other)
    # One leaf at a time would take a round for each of 38 splits, beside those for the root and the last cells.
    assert training.records.rounds < 20
    # The same coded records serve another growth.
    again = FairTreeEncoder(**(options | {"gamma": 0.1})).fit_from(training)
    X = many_people.drop(columns=["paid", "sex"])
    local = FairTreeEncoder(**(options | {"gamma": 0.1})).fit(
        X, many_people["paid"], sensitive_features=many_people["sex"]
    )
    assert_same_encoder(local, again)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=tables(),
    bounds=st.lists(st.integers(0, 300), max_size=3),
    max_bins=st.sampled_from([4, 255]),
    gamma=st.sampled_from([0.0, 0.5, 0.9]),
)
def test_equal_to_memory_on_any_table(
    client: Any, tmp_path: Path, frame: pd.DataFrame, bounds: list[int], max_bins: int, gamma: float
) -> None:
    """Missing values, rare categories, those that a partition does not know, empty partitions: whatever comes."""
    parts = cut(frame, sorted(min(bound, len(frame)) for bound in bounds))
    for i, part in enumerate(parts[1:], start=1):
        kept = {name: part[name].cat.remove_unused_categories() for name in part.select_dtypes("category")}
        parts[i] = part.assign(**kept)
    options = {"gamma": gamma, "max_cells": 8, "min_cell_size": 2, "max_bins": max_bins}
    options["allow_sensitive_feature"] = True  # tiny tables may repeat the groups by chance
    one, other, _ = fit_both(frame, parts, tmp_path, **options)
    assert_same_encoder(one, other)


@pytest.mark.parametrize(
    ("n_parts", "cost", "n_blocks"), [pytest.param(20, 1, 20, marks=pytest.mark.slow), (20, 1 << 30, 2), (1, 1, 1)]
)
def test_number_of_blocks(
    client: Any,
    many_people: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    n_parts: int,
    cost: int,
    n_blocks: int,
) -> None:
    """However many blocks the records are held in, the tree is the same."""
    monkeypatch.setattr(engine, "BLOCKS_PER_THREAD", 50)
    monkeypatch.setattr(engine, "BLOCK_COST", cost)
    parts = cut(many_people, [6000 * i // n_parts for i in range(1, n_parts)])
    one, other, training = fit_both(many_people, parts, tmp_path, max_cells=10, min_cell_size=20)
    assert len(training.records.blocks) == n_blocks
    assert_same_encoder(one, other)


def test_partitions_with_different_categories(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    """Categories in another order, some unseen in a partition, one partition empty, one without any job."""
    parts = cut(many_people, [2000, 2000, 4500])
    parts[0] = parts[0].assign(town=parts[0]["town"].cat.remove_unused_categories())
    parts[2] = parts[2].assign(town=parts[2]["town"].cat.set_categories([f"town {i}" for i in (7, 3, 1, 12, 2)]))
    parts[3] = parts[3].assign(job=None)
    frame = pd.concat([part.astype({"town": "str"}) for part in parts])
    frame["town"] = frame["town"].astype("category")
    one, other, _ = fit_both(frame, parts, tmp_path, max_cells=20, min_cell_size=20)
    assert_same_encoder(one, other)


def test_a_worker_is_lost_while_the_tree_grows(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    options = {"gamma": 0.6, "max_cells": 30, "min_cell_size": 20}
    one = FairTreeEncoder(**options).fit(
        many_people.drop(columns=["paid", "sex"]), many_people["paid"], sensitive_features=many_people["sex"]
    )
    spread = distribute(cut(many_people, [1000, 2500, 5000]), tmp_path)
    killed: list[int] = []

    def progress(step: str, share: float) -> None:
        if step == "grow" and share >= 0.5 and not killed:
            holders = next(iter(client.who_has(training.records.blocks).values()))
            killed.append(client.run(os.getpid)[holders[0]])
            os.kill(killed[0], signal.SIGKILL)

    other = FairTreeEncoder(**options)
    training = prepare_dask(
        other,
        spread.drop(columns=["paid", "sex"]),
        spread["paid"],
        sensitive_features=spread["sex"],
        progress=progress,
    )
    other.fit_from(training)
    assert killed
    assert_same_encoder(one, other)
    client.wait_for_workers(2, timeout=60)


def test_orders_can_be_carried_out_twice_late_or_again() -> None:
    """A block gives the same counts whatever it has been asked before, and after it was copied."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (1000, 1), dtype=np.uint32) & np.uint32(0x03030301)

    def made() -> CodedBlock:
        return CodedBlock(words.copy(), Layout((4, 4, 4), 2))

    def order(growth: int, *nodes: int, column: int = 0) -> Orders:
        first = Cut(0, column, np.packbits([1, 1, 0, 0]), 4, 1, 2)
        second = Cut(2, 1, np.packbits([0, 1, 0, 1]), 4, 3, 4)
        return Orders(growth, (first, second), nodes)

    fresh = made().count(order(1, 0, 1, 2, 3, 4))
    np.testing.assert_array_equal(fresh[0], fresh[1] + fresh[2])
    np.testing.assert_array_equal(fresh[2], fresh[3] + fresh[4])
    used = made()
    used.count(order(5, 2, column=2))
    for _ in range(2):
        np.testing.assert_array_equal(used.count(order(1, 4, 3, 0)), fresh[[4, 3, 0]])
    make, (moved, *rest) = used.__reduce__()
    moved.setflags(write=False)  # as after a journey
    np.testing.assert_array_equal(make(moved, *rest).count(order(1, 1)), fresh[[1]])


@pytest.mark.slow
def test_certificates_are_those_of_memory(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    X, y, s = many_people.drop(columns=["paid", "sex"]), many_people["paid"], many_people["sex"]
    encoder = FairTreeEncoder(max_cells=10).fit(X, y, sensitive_features=s)
    fresh = make_people(3000, seed=8)
    spread = distribute(cut(fresh, [0, 1700]), tmp_path)
    mine = certify(encoder, spread, spread["paid"], sensitive_features=spread["sex"], metric="equalized_odds")
    assert mine == certify(encoder, fresh, fresh["paid"], sensitive_features=fresh["sex"], metric="equalized_odds")
    two = certify(encoder, spread, sensitive_features=spread[["sex", "race"]])
    assert two.counts == certify(encoder, fresh, sensitive_features=fresh[["sex", "race"]]).counts
    by_name = certify(encoder, spread, sensitive_features=["sex", "race"], each=True)
    assert by_name == certify(encoder, fresh, sensitive_features=fresh[["sex", "race"]], each=True)
    assert by_name.claim.each == ("sex", "race")
    with pytest.raises(MissingColumnError, match="'wage'"):
        certify(encoder, spread.drop(columns="wage"), sensitive_features=spread["sex"])


def test_sensitive_named_by_the_encoder(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    spread = distribute([many_people], tmp_path)
    encoder = FairTreeEncoder(sensitive=["sex", "race"], max_cells=6)
    training = prepare_dask(encoder, spread.drop(columns="paid"), spread["paid"])
    local = FairTreeEncoder(sensitive=["sex", "race"], max_cells=6).fit(
        many_people.drop(columns="paid"), many_people["paid"]
    )
    assert_same_encoder(local, encoder.fit_from(training))
    # The encoder notices by itself that the table is elsewhere.
    again = FairTreeEncoder(sensitive=["sex", "race"], max_cells=6).fit(spread.drop(columns="paid"), spread["paid"])
    assert_same_encoder(local, again)


def test_bad_input_is_refused(client: Any, many_people: pd.DataFrame, tmp_path: Path) -> None:
    people = many_people.assign(
        copy=many_people["sex"] == "male", gap=many_people["paid"].where(many_people.index != 4711)
    )
    spread = distribute(cut(people, [2000]), tmp_path)
    X, y, s = spread[["age", "job"]], spread["paid"], spread["sex"]
    encoder = FairTreeEncoder()
    with pytest.raises(GroupError, match="once"):
        prepare_dask(encoder, X, y)
    with pytest.raises(TableError, match="partitions"):
        prepare_dask(encoder, X, many_people["paid"], sensitive_features=s)
    with pytest.raises(TableError, match="partitions"):
        prepare_dask(encoder, X, y.repartition(npartitions=1), sensitive_features=s)
    with pytest.raises(TableError, match="'gap'.* 1 records"):
        prepare_dask(encoder, X, spread["gap"], sensitive_features=s)
    with pytest.raises(GroupError, match="'copy'"):
        prepare_dask(encoder, spread[["age", "copy"]], y, sensitive_features=s)
    with pytest.raises(TableError, match="names"):
        prepare_dask(encoder, X.rename(columns={"age": 0}), y, sensitive_features=s)
    with pytest.raises(EncoderError, match="retain= needs the whole table in memory"):
        prepare_dask(FairTreeEncoder(retain=0.5), X, y, sensitive_features=s)
    with pytest.raises(EncoderError, match="BoostedEncoder needs the whole table in memory"):
        BoostedEncoder(max_cells=4).fit(X, y, sensitive_features=s)
    for option in ({"weights": y}, {"clusters": y}):
        with pytest.raises(ArgumentError, match="whole table"):
            certify(encoder, X, sensitive_features=s, **option)
