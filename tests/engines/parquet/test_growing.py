"""Encoders fitted from Parquet files equal those fitted in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engines.conftest import assert_same_encoder, make_people, tables

from certifare import FairTreeEncoder
from certifare.certification.certifying import certify_records
from certifare.engines.counting import PieceRecords
from certifare.engines.parquet.growing import map_words, prepare_parquet
from certifare.errors import (
    EncoderError,
    FileError,
    GroupError,
    MissingColumnError,
    RepeatedRecordsError,
    RoleError,
    TableError,
)
from certifare.tables.reading import Reading


def write(frame: pd.DataFrame, path: Path, rows: int = 700) -> Path:
    frame.to_parquet(path, row_group_size=rows)
    return path


def in_memory(frame: pd.DataFrame, label: Any, sensitive: Any, **options: Any) -> FairTreeEncoder:
    taken = {label, sensitive} if isinstance(sensitive, str) else {label, *sensitive}
    X = frame.drop(columns=list(taken))
    return FairTreeEncoder(**options).fit(X, frame[label], sensitive_features=frame[sensitive])


def streamed(path: Any, label: Any, sensitive: Any, **options: Any) -> FairTreeEncoder:
    return FairTreeEncoder(**options).fit_parquet(path, label=label, sensitive=sensitive)


def test_visits_of_one_person_in_different_pieces_are_found(many_people: pd.DataFrame, tmp_path: Path) -> None:
    encoder = in_memory(many_people, "paid", "sex", max_cells=10)
    fresh = make_people(3000, seed=8)
    rng = np.random.default_rng(0)
    visits = fresh.iloc[rng.permutation(np.repeat(np.arange(len(fresh)), 1 + rng.poisson(0.5, len(fresh))))]
    reading = Reading(sensitive=("sex",))
    one = PieceRecords.of(write(fresh, tmp_path / "fresh.parquet", 200))
    assert certify_records(encoder, one, reading).bound < 1
    with pytest.raises(RepeatedRecordsError, match=r"certification records equal another one.*--cluster"):
        certify_records(encoder, PieceRecords.of(write(visits, tmp_path / "visits.parquet", 200)), reading)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds"])
def test_equal_to_memory(many_people: pd.DataFrame, tmp_path: Path, metric: str, n_jobs: int) -> None:
    options = {"gamma": 0.6, "max_cells": 25, "min_cell_size": 40, "metric": metric, "max_bins": 40}
    path = write(many_people.drop(columns="race"), tmp_path / "people.parquet")
    one = in_memory(many_people.drop(columns="race"), "paid", "sex", **options)
    other = streamed(path, "paid", "sex", n_jobs=n_jobs, **options)
    assert one.n_cells_ > 10
    assert_same_encoder(one, other)
    X = make_people(500, seed=9)
    np.testing.assert_array_equal(one.apply(X), other.apply(X))


def test_several_files_labels_and_sensitive_columns(many_people: pd.DataFrame, tmp_path: Path) -> None:
    for i, start in enumerate(range(0, 6000, 2500)):
        write(many_people.iloc[start : start + 2500], tmp_path / f"{i}.parquet")
    y, s = many_people[["paid", "member"]], many_people[["sex", "race"]]
    X = many_people.drop(columns=["paid", "member", "sex", "race"])
    one = FairTreeEncoder(max_cells=15).fit(X, y, sensitive_features=s)
    for paths in (tmp_path, str(tmp_path / "*.parquet"), [tmp_path / f"{i}.parquet" for i in range(3)]):
        assert_same_encoder(one, streamed(paths, ["paid", "member"], ["sex", "race"], max_cells=15))


def test_roles_by_comparison(many_people: pd.DataFrame, tmp_path: Path) -> None:
    frame = many_people.assign(age=many_people["age"].fillna(30)).drop(columns="wage")
    path = write(frame.assign(wage=make_people(6000)["wage"].fillna(0)), tmp_path / "people.parquet")
    old = np.where(frame["age"] >= 60, "age >= 60", "age < 60")
    rich = np.where(make_people(6000)["wage"].fillna(0) > 20, "wage > 20", "wage <= 20")
    X = frame.drop(columns="age")
    one = FairTreeEncoder(max_cells=8).fit(
        X, pd.Series(rich, name="wage > 20"), sensitive_features=pd.Series(old, name="age >= 60")
    )
    assert_same_encoder(one, streamed(path, "wage>20", "age>=60", max_cells=8))


def test_sensitive_named_by_the_encoder(many_people: pd.DataFrame, tmp_path: Path) -> None:
    path = write(many_people, tmp_path / "people.parquet")
    encoder = FairTreeEncoder(sensitive="sex", max_cells=5)
    encoder.fit_from(prepare_parquet(encoder, path, label="paid", drop="race"))
    assert encoder.groups_ == ("female", "male")
    assert "race" not in encoder.feature_names_in_
    assert encoder.apply(many_people.head(3)).shape == (3,)


def test_one_preparation_serves_many_growths(many_people: pd.DataFrame, tmp_path: Path) -> None:
    path = write(many_people, tmp_path / "people.parquet")
    training = prepare_parquet(FairTreeEncoder(), path, label="paid", sensitive="sex")
    for gamma in (0.2, 0.9, 0.2):
        other = FairTreeEncoder(gamma=gamma, max_cells=12).fit_from(training)
        assert_same_encoder(in_memory(many_people, "paid", "sex", gamma=gamma, max_cells=12), other)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=tables(),
    rows=st.integers(40, 150),
    max_bins=st.sampled_from([2, 5, 255]),
    min_cell_size=st.integers(1, 20),
)
def test_equal_to_memory_on_any_table(
    tmp_path: Path, frame: pd.DataFrame, rows: int, max_bins: int, min_cell_size: int
) -> None:
    options = {"gamma": 0.5, "max_cells": 9, "min_cell_size": min(min_cell_size, len(frame)), "max_bins": max_bins}
    options["allow_sensitive_feature"] = True  # tiny tables may repeat the groups by chance
    path = write(frame, tmp_path / "people.parquet", rows)
    assert_same_encoder(in_memory(frame, "paid", "sex", **options), streamed(path, "paid", "sex", **options))


def test_large_sample_is_the_same_sample(tmp_path: Path) -> None:
    """Beyond 200,000 rows quantiles come from a sample, and the stream finds its rows."""
    rng = np.random.default_rng(3)
    n = 230_000
    frame = pd.DataFrame({"x": rng.normal(size=n), "s": rng.integers(0, 2, n)})
    frame["y"] = (frame["x"] + rng.normal(size=n) > 0).astype(int)
    path = write(frame, tmp_path / "numbers.parquet", 90_000)
    assert_same_encoder(in_memory(frame, "y", "s", max_cells=6), streamed(path, "y", "s", max_cells=6))


def test_records_without_label_or_group(many_people: pd.DataFrame, tmp_path: Path) -> None:
    frame = many_people.astype({"paid": float})
    frame.loc[10:19, "paid"] = np.nan
    frame.loc[15:39, "sex"] = None
    path = write(frame, tmp_path / "people.parquet")
    encoder = FairTreeEncoder(max_cells=8)
    with pytest.raises(TableError, match=r"'paid'.* 10 records"):
        prepare_parquet(encoder, path, label="paid", sensitive="sex")
    kept = frame.dropna(subset=["paid", "sex"])
    training = prepare_parquet(encoder, path, label="paid", sensitive="sex", missing="drop")
    assert len(training) == len(kept) == 5970
    assert_same_encoder(in_memory(kept, "paid", "sex", max_cells=8), encoder.fit_from(training))


def test_progress_is_told(many_people: pd.DataFrame, tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    encoder = FairTreeEncoder(max_cells=4)
    path = write(many_people, tmp_path / "people.parquet")
    encoder.fit_from(
        prepare_parquet(encoder, path, label="paid", sensitive="sex", progress=lambda *step: told.append(step))
    )
    assert list(dict.fromkeys(step for step, _ in told)) == ["survey", "sample", "code", "grow", "medians"]
    for step in ("survey", "sample", "code", "medians"):
        shares = [share for name, share in told if name == step]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_fingerprint_knows_training_records(many_people: pd.DataFrame, tmp_path: Path) -> None:
    encoder = streamed(write(many_people, tmp_path / "people.parquet"), "paid", "sex", max_cells=4)
    assert encoder.training_overlap(many_people).seen == 6000
    assert encoder.training_overlap(many_people).excessive
    assert not encoder.training_overlap(make_people(1000, seed=4)).excessive


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"wage": np.inf}, TableError, "'wage'"),
        ({"copy": lambda frame: frame["sex"].map({"female": "f", "male": "m"})}, GroupError, "'copy'"),
        ({"sex": "female"}, EncoderError, "one group"),
        ({"paid": 1}, EncoderError, "one label"),
        ({"paid": lambda frame: np.arange(len(frame))}, EncoderError, "256"),
        ({"born": pd.Timestamp("2000-01-01")}, TableError, "'born'"),
    ],
)
def test_bad_columns_are_refused(
    many_people: pd.DataFrame, tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    path = write(many_people.assign(**change), tmp_path / "people.parquet")
    with pytest.raises(error, match=message):
        streamed(path, "paid", "sex")


def test_bad_files_are_refused(many_people: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="No file matches"):
        streamed(str(tmp_path / "*.parquet"), "paid", "sex")
    with pytest.raises(FileError, match="has no file"):
        streamed(tmp_path, "paid", "sex")
    text = tmp_path / "people.csv"
    many_people.head(5).to_csv(text)
    with pytest.raises(FileError, match="not a Parquet file"):
        streamed(text, "paid", "sex")
    empty = write(many_people.head(0), tmp_path / "empty.parquet")
    with pytest.raises(TableError):
        streamed(empty, "paid", "sex")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(FileError, match="damaged"):
        streamed(damaged, "paid", "sex")
    whole = write(many_people, tmp_path / "whole.parquet")
    part = write(many_people.drop(columns="job"), tmp_path / "part.parquet")
    with pytest.raises(MissingColumnError, match="'job'"):
        streamed([whole, part], "paid", "sex")
    with pytest.raises(MissingColumnError, match="did you mean|Did you mean"):
        streamed(whole, "payd", "sex")
    with pytest.raises(RoleError, match="sensitive"):
        prepare_parquet(FairTreeEncoder(), whole, label="paid")
    with pytest.raises(EncoderError, match="retain= needs the whole table in memory"):
        streamed(whole, "paid", "sex", retain=0.5)


def test_column_that_is_text_in_one_file_and_numbers_in_another(many_people: pd.DataFrame, tmp_path: Path) -> None:
    write(many_people, tmp_path / "1.parquet")
    write(many_people.assign(job=1.0), tmp_path / "2.parquet")
    with pytest.raises(TableError, match="'job'"):
        streamed(tmp_path, "paid", "sex")


def test_column_without_values_in_one_file(many_people: pd.DataFrame, tmp_path: Path) -> None:
    head, tail = many_people.iloc[:3000], many_people.iloc[3000:].assign(job=None, wage=None)
    write(head, tmp_path / "1.parquet")
    pq.write_table(pa.Table.from_pandas(tail, preserve_index=False), tmp_path / "2.parquet")
    whole = pd.concat([head, tail.astype({"job": "str", "wage": float})])
    assert_same_encoder(in_memory(whole, "paid", "sex", max_cells=7), streamed(tmp_path, "paid", "sex", max_cells=7))


def test_mapped_file_needs_room(tmp_path: Path) -> None:
    words = map_words(10, 3, tmp_path)
    words[:] = 7
    assert words.sum() == 210
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="TMPDIR"):
        map_words(10, 3, tmp_path / "nowhere")
    with pytest.raises(FileError, match="GB"):
        map_words(2**60, 1, tmp_path)
