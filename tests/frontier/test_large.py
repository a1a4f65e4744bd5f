"""The whole job on Parquet files that are treated as too large for memory."""

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
from certifare.encoders.calibrated_cells import CalibratedEncoder
from certifare.encoders.hashes import share_of
from certifare.encoders.loading import load_encoder
from certifare.engines import thresholds
from certifare.errors import ArgumentError, GroupError, RoleError, TableError
from certifare.frontier import large
from certifare.frontier.large import Elsewhere, is_large, open_large
from certifare.frontier.search import Search
from certifare.frontier.settings import Grid
from certifare.tables.elsewhere import open_elsewhere
from certifare.tables.frames import Frame
from certifare.tables.reading import POOLED
from certifare.tables.splitting import PARTS
from certifare.tables.table import Table

GRID = Grid(kinds=["tree"], gammas=[0.5, 0.9], min_cell_sizes=[50], cells=[2, 4, 8])
ROWS = 5000


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return make_people(24_000, seed=2)


@pytest.fixture(scope="module")
def path(people: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "people.parquet"
    people.to_parquet(path, row_group_size=ROWS)
    return path


def places_of(frame: pd.DataFrame, elsewhere: Elsewhere) -> Any:
    """The place of each record of a file, from 0 to 1."""
    return share_of(hashes_of(frame, elsewhere))


def hashes_of(frame: pd.DataFrame, elsewhere: Elsewhere) -> Any:
    """The place of each record of a file, as it is hashed."""
    places = elsewhere.certified.places
    starts = range(0, len(frame), ROWS)
    return np.concatenate(
        [places.of(Frame(frame.iloc[start : start + ROWS]), i << 20) for i, start in enumerate(starts)]
    )


def search_in(path: Path, n: int, claim: Claim | None = None, grid: Grid = GRID, **options: Any) -> Search:
    roles = {name: options.pop(name) for name in ("label", "sensitive", "label_cuts") if name in options}
    table, elsewhere = open_large(path, roles, PARTS, options.get("seed", 0), sample_records=n)
    return Search(table, grid, claim, elsewhere=elsewhere, **options).run()


def test_the_sample_is_split_and_all_else_is_certified_on(people: pd.DataFrame, path: Path) -> None:
    sample, elsewhere = open_large(path, {"label": "paid", "sensitive": "sex"}, PARTS, sample_records=6000)
    places = places_of(people, elsewhere)
    assert len(sample) == (places < 0.25).sum() == pytest.approx(6000, abs=250)
    assert len(elsewhere.rows["train"]) == (places < 0.125).sum()
    assert len(elsewhere.rows["train"]) + len(elsewhere.rows["select"]) == (places < 0.15).sum()
    assert elsewhere.n_certify == (places >= 0.15).sum()
    sizes = elsewhere.sizes(sample, None, labelled=False)
    certified = people[places >= 0.15]
    np.testing.assert_array_equal(sizes[:, :2], pd.crosstab(certified["sex"], certified["paid"]).to_numpy())


def test_places_do_not_depend_on_what_records_hold() -> None:
    """Equal records get places of their own, and a piece gives the same records the same places in any order."""
    table = pd.DataFrame({"x": np.repeat([1.0, 2.0], 20_000), "s": "a"})
    places = large.RandomPlaces(("x", "s"), key=5)
    found = share_of(places.of(Frame(table), 0))
    assert (found[:20_000] < 0.3).mean() == pytest.approx(0.3, abs=0.012)
    assert len(np.unique(found)) == len(found)
    shuffled = table.sample(frac=1.0, random_state=0)
    again = share_of(places.of(Frame(shuffled), 0))
    for value in (1.0, 2.0):
        np.testing.assert_array_equal(np.sort(found[table["x"] == value]), np.sort(again[shuffled["x"] == value]))
    for other in (places.of(Frame(table), 1), large.RandomPlaces(("x", "s"), key=6).of(Frame(table), 0)):
        assert np.corrcoef(found, share_of(other))[0, 1] == pytest.approx(0.0, abs=0.03)


def test_other_tables_are_split_independently(people: pd.DataFrame, path: Path, tmp_path: Path) -> None:
    """At the same seed too: the records that two jobs certify on do not have the same rows."""
    frames = [people, people.assign(paid=1 - people["paid"])]
    frames[1].to_parquet(tmp_path / "others.parquet", row_group_size=ROWS)
    roles = {"label": "paid", "sensitive": "sex"}
    opened = [open_large(file, roles, PARTS)[1] for file in (path, tmp_path / "others.parquet")]
    one, other = (places_of(frame, found) for frame, found in zip(frames, opened, strict=True))
    assert ((one < 0.4) & (other < 0.4)).mean() == pytest.approx(0.16, abs=0.01)


def test_whole_job(people: pd.DataFrame, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not is_large(path)
    monkeypatch.setattr(large, "LARGE", 100_000)
    monkeypatch.setattr(large, "SAMPLE_RECORDS", 6000)
    assert is_large(path)
    bundle = produce(path, label="paid", sensitive=["sex", "race"], target=0.5, grid=GRID, seed=3)
    assert bundle.verdict == "PASS"
    assert bundle.run["records"] == 24_000
    assert any("certified on where they are" in note for note in bundle.notes)
    certified = places_of(people, bundle.frontier.search.elsewhere) >= 0.15
    rows = people[certified]
    cells = bundle.encoder.apply(rows)
    wanted = CellCounts.from_cells(cells, rows[["sex", "race"]], None, bundle.encoder.n_cells_)
    assert bundle.certificate.counts == wanted
    assert not bundle.encoder.training_overlap(rows).excessive
    saved = bundle.save(tmp_path / "bundle")
    assert (saved / "report.html").exists()


def test_pooled_groups_and_cut_labels_are_those_of_memory(people: pd.DataFrame, path: Path) -> None:
    """Counted records fall into the groups and bands that the whole table in memory would give them."""
    roles = {"label": "wage", "label_cuts": [12, 30], "sensitive": ["sex", "town"]}
    claim = Claim(metric="equalized_odds", min_group_size=1)
    search = search_in(path, 8000, claim, pool_groups=50, **roles)
    table = Table.from_frame(people, **roles)
    kept = search.table.groups.names
    assert POOLED in kept
    assert 4 < len(kept) < len(table.groups.names)
    ((encoder, certificate),) = search.certify([len(search.candidates) - 1])
    certified = places_of(people, search.elsewhere) >= 0.2
    rows = table.take(np.flatnonzero(certified)).pooled(kept)
    wanted = rows.count(encoder.apply(people[certified]), encoder.n_cells_, labels=True)
    assert certificate.counts.groups == wanted.groups
    assert certificate.counts.labels == ("12 <= wage < 30", "wage < 12", "wage >= 30")
    np.testing.assert_array_equal(certificate.counts.table, wanted.table)
    assert any("pools" in text for text in certificate.assumptions)


def test_what_needs_memory_is_refused_with_the_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 100_000)
    roles = {"label": "paid", "sensitive": "sex"}
    with pytest.raises(ArgumentError, match="Join the files first"):
        produce(path, sensitive_file="groups.csv", on="id", grid=GRID, **roles)
    with pytest.raises(ArgumentError, match="label_cuts"):
        produce(path, label_quantiles=2, grid=GRID, **roles)
    for option in ({"weight": "wage"}, {"cluster": "code"}, {"delimiter": ";"}, {"missing": ["none"]}, {"lable": "x"}):
        with pytest.raises(ArgumentError, match=next(iter(option))):
            open_large(path, {**roles, **option}, PARTS)


def test_all_encoders_are_counted_in_one_pass(people: pd.DataFrame, path: Path) -> None:
    """Each encoder's counts are what it would have found itself; boosted ones share the squares of one map."""
    grid = Grid(kinds=["boosted", "tree"], gammas=[0.5, 0.9], min_cell_sizes=[50], cells=[2, 4, 8])
    search = search_in(path, 6000, grid=grid, label="paid", sensitive="sex", seed=1)
    kinds = [candidate.setting.kind for candidate in search.candidates]
    numbers = [kinds.index("boosted"), kinds.index("tree"), len(kinds) - 1, kinds.index("boosted") + 1]
    rows = people[places_of(people, search.elsewhere) >= 0.15]
    told: list[tuple[str, int, int]] = []
    for encoder, certificate in search.certify(numbers, progress=lambda *what: told.append(what)):
        wanted = CellCounts.from_cells(encoder.apply(rows), rows["sex"], None, encoder.n_cells_)
        assert certificate.counts == wanted
    assert told.count(("counting records", 100, 100)) == 1


def test_the_whole_job_with_both_kinds(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The certificate of a large file can be checked from its bundle."""
    monkeypatch.setattr(large, "LARGE", 100_000)
    monkeypatch.setattr(large, "SAMPLE_RECORDS", 6000)
    grid = Grid(gammas=[0.9], min_cell_sizes=[50], cells=[2, 4, 8])
    bundle = produce(path, label="paid", sensitive="sex", target=0.3, grid=grid)
    assert {row["kind"] for row in bundle.rows()} == {"boosted", "tree"}
    folder = bundle.save(tmp_path / "bundle")
    assert verify_document(folder, Policy(max_bound=0.3)).passed


@pytest.mark.parametrize(("column", "value", "error"), [("paid", 2, RoleError), ("sex", "other", GroupError)])
def test_a_label_or_group_that_the_sample_lacks(
    people: pd.DataFrame, tmp_path: Path, column: str, value: object, error: type[Exception]
) -> None:
    path = tmp_path / "people.parquet"
    people.assign(**{column: people[column].where(people.index != 777, value)}).to_parquet(path)
    with pytest.raises(error, match="so rare that the sample has no record"):
        search_in(path, 500, label="paid", sensitive="sex")


def test_a_table_that_changes_while_it_is_read_is_refused(people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    people.to_parquet(path, row_group_size=ROWS)
    search = search_in(path, 6000, label="paid", sensitive="sex")
    people.sample(frac=1.0, random_state=1).to_parquet(path, row_group_size=ROWS)
    search.elsewhere.worker = open_elsewhere(path)
    with pytest.raises(TableError, match="changed while it was read"):
        search.certify([0])


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity"])
def test_records_without_a_label(people: pd.DataFrame, tmp_path: Path, metric: str) -> None:
    """Demographic parity counts them, other metrics leave them out and say so."""
    frame = people.assign(paid=people["paid"].where(people["miles"] % 3 > 0))
    path = tmp_path / "people.parquet"
    frame.to_parquet(path, row_group_size=ROWS)
    grid = Grid(kinds=["tree", "boosted"], gammas=[0.9], min_cell_sizes=[50], cells=[2, 4])
    search = search_in(path, 6000, Claim(metric=metric), grid, label="paid", sensitive="sex", seed=1)
    rows = frame[places_of(frame, search.elsewhere) >= 0.15]
    numbers = [0, len(search.candidates) - 1]
    labels = None if metric == "demographic_parity" else rows["paid"]
    for encoder, certificate in search.certify(numbers):
        wanted = CellCounts.from_cells(encoder.apply(rows), rows["sex"], labels, encoder.n_cells_, missing="drop")
        assert certificate.counts == wanted
        assert certificate.population == (() if labels is None else ("with a known label",))
    assert search.certify_sizes().sum() == certificate.counts.n_records


#: Roles and options of jobs for calibrated cells.
CALIBRATED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one score": ({"label": "paid", "sensitive": "sex", "drop": ["id"]}, {}),
    "a column breaks ties": ({"label": "paid", "sensitive": "sex"}, {"tie_column": "id"}),
    "a score of few values": ({"label": "paid", "sensitive": "sex", "drop": ["id"]}, {"score_column": "age"}),
    "opportunity": ({"label": "paid", "sensitive": ["sex", "member"]}, {"metric": "equal_opportunity"}),
    "pooled groups": ({"label": "paid", "sensitive": "sex", "drop": ["id"]}, {"pool_groups": 500}),
    "several directions": ({"label": ["paid", "member"], "sensitive": "sex", "drop": ["id"]}, {"retain": 0.2}),
}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        # Each case once in `make test`.
        pytest.param(name, most, marks=[pytest.mark.slow] * (i % 2 != j))
        for i, name in enumerate(CALIBRATED)
        for j, most in enumerate([1 << 20, 400])
    ],
)
def test_calibrated_cells_are_those_of_memory_for_the_same_split(
    people: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """The records that stay where they are set the thresholds that they would set in memory.

    Whether they are listed at once, or between edges that close in.
    """
    roles, options = CALIBRATED[name]
    people = people.assign(id=np.random.default_rng(0).permutation(len(people)), age=people["age"] // 10)
    people.loc[::50, "sex"] = None
    if name == "pooled groups":
        people.loc[1::40, "sex"], people.loc[2::80, "sex"] = "x", "y"
    people.to_parquet(tmp_path / "people.parquet", row_group_size=ROWS)
    monkeypatch.setattr(large, "LARGE", 100_000)
    monkeypatch.setattr(large, "SAMPLE_RECORDS", 6000)
    monkeypatch.setattr(thresholds, "MOST_LISTED", most)
    keys, key_ties = [], CalibratedEncoder.key_ties
    monkeypatch.setattr(CalibratedEncoder, "key_ties", lambda *given: keys.append(key_ties(*given)) or keys[-1])
    grid = Grid(cells=[2, 3, 4, 6])
    told: list[tuple[str, int, int]] = []
    bundle = produce(
        tmp_path / "people.parquet", **roles, **options, grid=grid, group_aware=True, target=0.3, seed=3,
        progress=lambda *what: told.append(what),
    )  # fmt: skip
    encoder, certificate = bundle.encoder, bundle.certificate
    assert told.count(("setting thresholds", 100, 100)) >= (3 if most == 400 else 2)
    hashes = hashes_of(people, bundle.frontier.search.elsewhere)
    start = bundle.frontier.search.elsewhere.certified.start
    certified = (share_of(hashes) >= start) & people["sex"].notna().to_numpy()
    rows = people[certified]
    fields = encoder.read_fields(Frame(rows))
    names = ["sex"] if roles["sensitive"] == "sex" else ["sex", "member"]
    groups = encoder.read_group_codes(Frame(rows), rows[names])
    ties = encoder.calibration_ties(fields, hashes[certified], keys[-1])
    setting = np.ones(len(rows), dtype=bool) if "metric" not in options else (rows["paid"] == 1).to_numpy()
    wanted = encoder.plan_.calibrate(
        encoder.directions_.values(fields, groups)[setting], groups[setting], ties[setting]
    )
    np.testing.assert_array_equal(encoder.thresholds_.at, wanted.at)
    np.testing.assert_array_equal(encoder.thresholds_.ties, wanted.ties)
    assert certificate.method == "calibrated"
    assert certificate.counts.n_records == len(rows)
    assert sum(exclusion.records for exclusion in certificate.counts.exclusions) == pytest.approx(480 * 0.875, abs=40)
    if name == "one score":
        assert encoder.tied_ == 0
    if name == "pooled groups":
        assert encoder.other_group in certificate.counts.groups
        assert len(certificate.counts.groups) == 3
    if name == "a score of few values":
        assert encoder.tied_ > 1000
    overlap = encoder.training_overlap(rows)
    assert overlap.excessive or name == "a score of few values"  # the records that set thresholds are no fresh ones
    fresh = make_people(500, seed=9).assign(id=np.arange(10**6, 10**6 + 500))
    again = load_encoder(bundle.save(tmp_path / "bundle") / "encoder.json")
    one, other = (of.apply(fresh, sensitive_features=fresh[names]) for of in (again, encoder))
    np.testing.assert_array_equal(one, other)
    assert verify_document(tmp_path / "bundle", Policy(max_bound=0.3)).passed


def test_a_column_that_repeats_breaks_no_ties_where_records_are(
    people: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value twice is found, wherever it lies."""
    people = people.assign(id=np.arange(len(people)) // 2)
    people.to_parquet(tmp_path / "people.parquet", row_group_size=ROWS)
    monkeypatch.setattr(large, "LARGE", 100_000)
    with pytest.raises(TableError, match="same value in several certification records"):
        produce(
            tmp_path / "people.parquet", label="paid", sensitive="sex", target=0.2, grid=Grid(cells=[2]),
            group_aware=True, tie_column="id",
        )  # fmt: skip
