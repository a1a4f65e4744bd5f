"""The whole job on a file that is treated as too large for memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.engines.conftest import make_people

from certifare import CellCounts, Policy
from certifare.bundle import produce
from certifare.certificates import Claim
from certifare.document import verify_document
from certifare.engines.parquet.streaming import ParquetFiles
from certifare.errors import ArgumentError, RoleError
from certifare.foundation.randomness import number, stream
from certifare.frontier import parquet_search
from certifare.frontier.parquet_search import LargeSearch, RandomRows, is_large
from certifare.frontier.settings import Grid
from certifare.tables.reading import POOLED
from certifare.tables.roles import Roles
from certifare.tables.table import Table

GRID = Grid(kinds=["tree"], gammas=[0.5, 0.9], min_cell_sizes=[50], cells=[2, 4, 8])


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return make_people(24_000, seed=2)


@pytest.fixture(scope="module")
def path(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "people.parquet"
    people.to_parquet(path, row_group_size=5000)
    return path


CERTIFIED, TRAINED = (0.0, 0.4), (0.4, 1.0)


def sampled_rows(path: Path, n: int, seed: int) -> Any:
    """Rows of a file that are read into memory."""
    words = stream(seed, "records in memory", ParquetFiles.find(path).digest())
    return parquet_search.sample_positions(24_000, n, words)


def rows_of(path: Path, part: tuple[float, float], sampled: Any, seed: int = 0) -> Any:
    """Which rows of a file are in a part, without those of the sample."""
    key = number(seed, "parts", ParquetFiles.find(path).digest(), bits=64)
    return RandomRows(*part, sampled, key).mask(0, 24_000)


def test_rows_are_dealt_once() -> None:
    without = np.array([3, 50, 999])
    parts = [RandomRows(low, high, without, key=4) for low, high in ((0.0, 0.3), (0.3, 0.8), (0.8, 1.0))]
    masks = np.array([part.mask(0, 100_000) for part in parts])
    expected = np.ones(100_000)
    expected[without] = 0
    np.testing.assert_array_equal(masks.sum(axis=0), expected)
    np.testing.assert_allclose(masks.mean(axis=1), [0.3, 0.5, 0.2], atol=0.01)
    np.testing.assert_array_equal(parts[1].mask(40, 1000), masks[1, 40:1040])
    assert (RandomRows(0.0, 0.3, without, key=5).mask(0, 1000) != masks[0, :1000]).any()


def test_rows_of_other_files_are_dealt_independently(people: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    """At the same seed too: records that two searches certify on are not the same by their places."""
    people.assign(paid=1 - people["paid"]).to_parquet(tmp_path / "others.parquet", row_group_size=5000)
    samples = [sampled_rows(file, 6000, 0) for file in (path, tmp_path / "others.parquet")]
    assert np.isin(*samples).mean() == pytest.approx(0.25, abs=0.02)
    nothing = np.array([], dtype=np.int64)
    one, other = (rows_of(file, CERTIFIED, nothing) for file in (path, tmp_path / "others.parquet"))
    assert (one & other).mean() == pytest.approx(0.16, abs=0.01)


def test_whole_job(people: pd.DataFrame, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not is_large(path)
    monkeypatch.setattr(parquet_search, "LARGE", 100_000)
    monkeypatch.setattr(parquet_search, "SAMPLE_RECORDS", 6000)
    assert is_large(path)
    bundle = produce(path, label="paid", sensitive=["sex", "race"], target=0.5, grid=GRID, seed=3)
    assert bundle.verdict == "PASS"
    assert bundle.run["records"] == 24_000
    assert "large" in bundle.notes[-1]
    # The certificate counts the rows dealt to it, and nothing else.
    sampled = sampled_rows(path, 6000, 3)
    certified, trained = rows_of(path, CERTIFIED, sampled, 3), rows_of(path, TRAINED, sampled, 3)
    assert bundle.certificate.counts.n_records == certified.sum()
    cells = bundle.encoder.apply(people[certified])
    rows = people[certified]
    wanted = CellCounts.from_cells(cells, rows[["sex", "race"]], None, bundle.encoder.n_cells_)
    assert bundle.certificate.counts == wanted
    # The tree grew from the rows dealt to it.
    assert bundle.encoder.growth_.node_counts[0].sum() == trained.sum()
    assert not bundle.encoder.training_overlap(people[certified]).excessive
    saved = bundle.save(tmp_path / "bundle")
    assert (saved / "report.html").exists()


def test_counts_of_training_records_are_in_the_order_of_the_sample(people: pd.DataFrame, path: Path) -> None:
    search = LargeSearch(path, GRID, Roles.of(label=["paid", "member"], sensitive="race"), sample_records=4000).run()
    counted = search.paths[0].counts["train"]
    mask = rows_of(path, TRAINED, search._sampled)
    encoder = search.explorer.fit(search.paths[0].setting)
    rows, cells = people[mask], encoder.apply(people[mask])
    table = CellCounts.from_cells(cells, rows["race"], rows["paid"], encoder.n_cells_).table
    np.testing.assert_array_equal(counted.groups, np.pad(table, ((0, 0), (0, 0), (0, 1))))
    for name, by_label in zip(("paid", "member"), counted.labels, strict=True):
        np.testing.assert_array_equal(by_label, pd.crosstab(cells, rows[name]).to_numpy())


def test_pooled_groups_and_cut_labels_are_those_of_memory(people: pd.DataFrame, path: Path) -> None:
    """Streamed records fall into the groups and bands that the whole table in memory would give them."""
    roles = Roles.of(label="wage", label_cuts=[12, 30], sensitive=["sex", "town"])
    claim = Claim(metric="equalized_odds", min_group_size=1)
    search = LargeSearch(path, GRID, roles, claim, sample_records=8000, pool_groups=50).run()
    table = Table.from_frame(people, roles)
    kept = search.table.groups.names
    assert POOLED in kept
    assert 4 < len(kept) < len(table.groups.names)
    assert any("records of the sample" in note and "pools" in note for note in search.notes)
    (number,) = [len(search.candidates) - 1]
    ((encoder, certificate),) = search.certify([number])
    certified = rows_of(path, CERTIFIED, search._sampled)
    rows = table.take(np.flatnonzero(certified)).pooled(kept)
    cells = encoder.apply(people[certified])
    wanted = rows.count(cells, encoder.n_cells_, labels=True)
    assert certificate.counts.groups == wanted.groups
    assert certificate.counts.labels == ("12 <= wage < 30", "wage < 12", "wage >= 30")
    np.testing.assert_array_equal(certificate.counts.table, wanted.table)
    trained = table.take(np.flatnonzero(rows_of(path, TRAINED, search._sampled)))
    assert encoder.growth_.node_counts[0].sum() == trained.labelled.sum()
    assert any("pools" in text for text in certificate.assumptions)


def test_groups_in_a_second_file_are_refused_with_the_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_search, "LARGE", 100_000)
    roles = {"label": "paid", "sensitive": "sex", "grid": GRID}
    with pytest.raises(ArgumentError, match="Join the files first"):
        produce(path, sensitive_file="groups.csv", on="id", **roles)
    with pytest.raises(ArgumentError, match="label_cuts"):
        produce(path, label_quantiles=2, **roles)


def test_boosted_encoders_are_counted_over_one_map(people: pd.DataFrame, path: Path) -> None:
    """The certification records are scored once; each encoder's counts are what it would have found itself."""
    grid = Grid(kinds=["boosted"], gammas=[0.5, 0.9], min_cell_sizes=[50], cells=[2, 4, 8])
    search = LargeSearch(path, grid, Roles.of(label="paid", sensitive="sex"), sample_records=6000, seed=1).run()
    numbers = [0, len(search.candidates) // 2, len(search.candidates) - 1]
    rows = people[rows_of(path, CERTIFIED, search._sampled, 1)]
    told: list[tuple[str, int, int]] = []
    for encoder, certificate in search.certify(numbers, progress=lambda *what: told.append(what)):
        wanted = CellCounts.from_cells(encoder.apply(rows), rows["sex"], None, encoder.n_cells_)
        assert certificate.counts == wanted
    assert told.count(("counting certification records", 100, 100)) == 1


def test_the_whole_job_with_both_kinds(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a boosted encoder says about a large file can be checked from its bundle."""
    monkeypatch.setattr(parquet_search, "LARGE", 100_000)
    monkeypatch.setattr(parquet_search, "SAMPLE_RECORDS", 6000)
    grid = Grid(gammas=[0.9], min_cell_sizes=[50], cells=[2, 4, 8])
    bundle = produce(path, label="paid", sensitive="sex", target=0.3, grid=grid)
    assert {row["kind"] for row in bundle.rows()} == {"boosted", "tree"}
    folder = bundle.save(tmp_path / "bundle")
    verdict = verify_document(folder, Policy(max_bound=0.3))
    assert verdict.passed


def test_what_needs_memory_is_refused(path: Path) -> None:
    roles = {"label": "paid", "sensitive": "sex"}
    for option in ({"weight": "wage"}, {"cluster": "code"}, {"delimiter": ";"}, {"missing": ["none"]}, {"lable": "x"}):
        with pytest.raises(ArgumentError, match=next(iter(option))):
            parquet_search.search_large(path, GRID, {**roles, **option})


def test_a_label_that_the_sample_lacks(people: pd.DataFrame, tmp_path: Path) -> None:
    frame = people.assign(paid=people["paid"].where(people.index != 777, 2))
    path = tmp_path / "people.parquet"
    frame.to_parquet(path)
    # The row is a training record.
    seed = next(i for i in range(20) if rows_of(path, TRAINED, sampled_rows(path, 4000, i), i)[777])
    with pytest.raises(RoleError, match="rare"):
        LargeSearch(path, GRID, Roles.of(label="paid", sensitive="sex"), sample_records=4000, seed=seed).run()


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity"])
def test_records_without_a_label(people: pd.DataFrame, tmp_path: Path, metric: str) -> None:
    """Demographic parity counts them, other metrics leave them out and say so."""
    frame = people.assign(paid=people["paid"].where(people["miles"] % 3 > 0))
    path = tmp_path / "people.parquet"
    frame.to_parquet(path, row_group_size=5000)
    grid = Grid(kinds=["tree", "boosted"], gammas=[0.9], min_cell_sizes=[50], cells=[2, 4])
    search = LargeSearch(
        path,
        grid,
        Roles.of(label="paid", sensitive="sex"),
        Claim(metric=metric),
        sample_records=6000,
        seed=1,
    ).run()
    rows = frame[rows_of(path, CERTIFIED, search._sampled, 1)]
    numbers = [0, len(search.candidates) - 1]
    labels = None if metric == "demographic_parity" else rows["paid"]
    for encoder, certificate in search.certify(numbers):
        wanted = CellCounts.from_cells(encoder.apply(rows), rows["sex"], labels, encoder.n_cells_, missing="drop")
        assert certificate.counts == wanted
        assert certificate.population == (() if labels is None else ("with a known label",))
    # What was expected of the numbers of records, and of the training records without a label, is about right.
    assert search.certify_sizes().sum() == pytest.approx(certificate.counts.n_records, rel=0.05)
    for explored in search.paths:
        counted = explored.counts["train"].groups
        assert counted[:, :, -1].sum() / counted.sum() == pytest.approx(1 / 3, abs=0.03)
