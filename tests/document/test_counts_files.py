"""Counts files: added up, they certify what the records together would; mistakes are noticed."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from tests.engines.conftest import make_people

from certifare import CellCounts, FairTreeEncoder, certify_counts, load_encoder, one_per_cluster, thin
from certifare.certificates import Claim
from certifare.certificates.assumptions import NOT_LOOKED_UP
from certifare.certificates.provenance import Provenance
from certifare.certification.certifying import TableSource, count_records
from certifare.document import digest
from certifare.document.counts_files import LOOKED_UP, OTHER_PEOPLE, OWN_CLUSTERS, CountsFile, is_counts_file, pool
from certifare.encoders.records import read_records
from certifare.engines.counting import CountedRecords, CountRequest, PieceRecords
from certifare.engines.memory.tables import CERTIFY
from certifare.errors import ArgumentError, CountsError, FileError, MissingColumnError
from certifare.foundation.levels import INTERSECTION
from certifare.tables.reading import POOLED, Reading


@pytest.fixture(scope="module")
def encoder() -> FairTreeEncoder:
    many_people = make_people(6000)
    X = many_people.drop(columns=["paid", "sex", "race"])
    return FairTreeEncoder(max_cells=12).fit(X, many_people["paid"], sensitive_features=many_people["sex"])


@pytest.fixture(scope="module")
def encoder_file(encoder: FairTreeEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "encoder.json"
    encoder.save(path)
    return path


@pytest.fixture(scope="module")
def published(encoder_file: Path) -> Any:
    """The encoder as a holder has it, who cannot tell training records."""
    return load_encoder(encoder_file)


def count_table(encoder: Any, path: Path, reading: Reading, **request: Any) -> CountedRecords:
    """Count the records of a file that fits into memory, as ``certifare count`` does."""
    labelled = reading.label is not None
    source = TableSource(read_records(encoder, path, reading, labelled=labelled))
    return count_records(encoder, source, reading, CountRequest(labelled=labelled, **request))


def count(encoder: Any, encoder_digest: str, path: Path, label: str | None = None) -> CountsFile:
    reading = Reading(sensitive=("sex",), label=label)
    counted = count_table(encoder, path, reading, salt=bytes.fromhex(encoder_digest)[:16])
    return CountsFile.make(counted, encoder_digest, reading)


@pytest.fixture(scope="module")
def holders(published: Any, encoder_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three holders with their records, in files of three kinds, and their counts files."""
    folder = tmp_path_factory.mktemp("holders")
    frames = {name: make_people(n, seed) for name, n, seed in [("a", 900, 21), ("b", 1100, 22), ("c", 700, 23)]}
    frames["a"].to_csv(folder / "a.csv", index=False)
    frames["b"].to_parquet(folder / "b.parquet")
    frames["c"].to_feather(folder / "c.feather")
    files = {}
    for path in sorted(folder.iterdir()):
        made = count(published, digest(encoder_file), path)
        made.save(folder / f"{path.stem}.json")
        files[path.stem] = folder / f"{path.stem}.json"
    return {"frames": frames, "files": files}


def load(files: dict[str, Path]) -> dict[str, CountsFile]:
    return {name: CountsFile.load(path) for name, path in files.items()}


def test_pooled_counts_certify_all_records(encoder: FairTreeEncoder, holders: dict[str, Any]) -> None:
    pooled = pool(load(holders["files"]))
    whole = pd.concat(holders["frames"].values())
    counts = CellCounts.from_cells(encoder.apply(whole), whole["sex"], None, encoder.n_cells_)
    assert pooled.counted.counts == counts
    certificate = pooled.counted.certify(Claim(confidence=0.99))
    assert certificate.bound == certify_counts(counts, confidence=0.99).bound
    assert certificate.assumptions[-2:] == (NOT_LOOKED_UP, OTHER_PEOPLE)
    assert OTHER_PEOPLE not in pool({"b": load(holders["files"])["b"]}).counted.certify(Claim()).assumptions
    assert pooled.reading == Reading(sensitive=("sex",))


def test_a_holder_without_a_group_or_a_label(
    encoder: FairTreeEncoder, published: Any, encoder_file: Path, tmp_path: Path
) -> None:
    """Groups and labels are matched by name; all holders together must have several, not each of them."""
    frames = [make_people(900, 21), make_people(700, 23).query("sex == 'male'").reset_index(drop=True)]
    frames.append(make_people(500, 25).query("paid == 1").reset_index(drop=True))
    whole = pd.concat(frames)
    cells = encoder.apply(whole)
    for label in (None, "paid"):
        wanted = CellCounts.from_cells(cells, whole["sex"], None if label is None else whole[label], encoder.n_cells_)
        for suffix, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
            files = {}
            for i, frame in enumerate(frames):
                write(frame, tmp_path / f"{i}.{suffix}", index=False)
                files[str(i)] = count(published, digest(encoder_file), tmp_path / f"{i}.{suffix}", label)
            assert pool(files).counted.counts == wanted


def test_the_producer_says_that_records_were_looked_up(
    encoder: FairTreeEncoder, encoder_file: Path, holders: dict[str, Any], tmp_path: Path
) -> None:
    """Only if every holder did."""
    make_people(900, 24).to_parquet(tmp_path / "d.parquet")
    producer = count(encoder, digest(encoder_file), tmp_path / "d.parquet")
    assert producer.looked_up
    assert LOOKED_UP in pool({"d": producer}).counted.certify(Claim()).assumptions
    assert NOT_LOOKED_UP in pool({"d": producer, **load(holders["files"])}).counted.certify(Claim()).assumptions


def test_a_file_that_is_there_twice(holders: dict[str, Any]) -> None:
    files = load(holders["files"] | {"copy of b": holders["files"]["b"]})
    with pytest.raises(CountsError, match="'copy of b' and 'b' are the same counts"):
        pool(files)


def test_records_counted_twice(published: Any, encoder_file: Path, holders: dict[str, Any], tmp_path: Path) -> None:
    """The same records in another order and another kind of file; or one that is too large for memory."""
    shuffled = holders["frames"]["b"].sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "b.csv", index=False)
    shuffled.to_parquet(tmp_path / "b.parquet", row_group_size=300)
    again = count(published, digest(encoder_file), tmp_path / "b.csv")
    request = CountRequest(salt=bytes.fromhex(digest(encoder_file))[:16])
    reading = Reading(sensitive=("sex",))
    counted = count_records(published, PieceRecords.of(tmp_path / "b.parquet"), reading, request)
    streamed = CountsFile.make(counted, digest(encoder_file), reading)
    files = load(holders["files"])
    assert again.id != files["b"].id
    for made in (again, streamed):
        assert made.counts == files["b"].counts
        with pytest.raises(CountsError, match="'d' and 'b' count the same records"):
            pool(files | {"d": made})


def test_a_file_from_another_encoder(holders: dict[str, Any], encoder_file: Path) -> None:
    files = load(holders["files"])
    other = changed(files["b"], encoder="ab" * 32)
    with pytest.raises(CountsError, match="'other' was counted with another encoder"):
        pool(files | {"other": other})
    with pytest.raises(CountsError, match="'a' was counted with another encoder"):
        pool(files, "cd" * 32)
    pooled = pool(files, digest(encoder_file))
    assert pooled.encoder == digest(encoder_file)
    assert pooled.counted.counts.n_records == sum(map(len, holders["frames"].values()))


def changed(file: CountsFile, **changes: Any) -> CountsFile:
    """Counts of other records that a holder read in another way."""
    return msgspec.structs.replace(file, id="ab" * 16, checksum=None, **changes)


def test_files_that_count_other_columns(holders: dict[str, Any]) -> None:
    files = load(holders["files"])
    other = changed(files["b"], reading=Reading(sensitive=("race",)))
    with pytest.raises(CountsError, match="'other' was counted by 'race', but 'a' is by 'sex'"):
        pool(files | {"other": other})
    with pytest.raises(CountsError, match="'a' was counted by 'sex', but the certificate of the bundle is by"):
        pool(files, reading=Reading(sensitive=("race",)))
    with pytest.raises(ArgumentError, match="No counts file"):
        pool({})


def test_files_that_name_groups_or_labels_in_other_ways(
    published: Any, encoder_file: Path, holders: dict[str, Any], tmp_path: Path
) -> None:
    """One holder pools b and c, the other does not: 'other groups' of the one are b and c of the other."""
    for name, seed in (("a", 31), ("b", 32)):
        make_people(500, seed).to_parquet(tmp_path / f"{name}.parquet")
    plain = [CountsFile.load(holders["files"][name]) for name in "ab"]
    labelled = [count(published, digest(encoder_file), tmp_path / f"{name}.parquet", "paid") for name in "ab"]
    ways: list[tuple[list[CountsFile], dict[str, Any]]] = [
        (plain, {"unknown_groups": True}),
        (plain, {"kept_groups": ("female", "male", POOLED)}),
        (plain, {"kept_groups": ()}),
        (labelled, {"label_cuts": (20.0,)}),
    ]
    for (a, b), way in ways:
        reading = msgspec.structs.replace(b.reading, **way)
        other, same = (msgspec.structs.replace(file, reading=reading) for file in (b, a))
        with pytest.raises(CountsError, match="'b' names groups or labels differently from 'a'"):
            pool({"a": a, "b": other})
        with pytest.raises(CountsError, match="'b' names groups .* from the certificate of the bundle"):
            pool({"b": b}, reading=reading)
        assert pool({"a": same, "b": other}, reading=reading).counted.counts == a.counts + b.counts


def test_counts_with_labels_add_up(
    encoder: FairTreeEncoder, published: Any, encoder_file: Path, tmp_path: Path
) -> None:
    frames = [make_people(800, seed) for seed in (31, 32)]
    files = {}
    for i, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
        files[str(i)] = count(published, digest(encoder_file), tmp_path / f"{i}.csv", label="paid")
    whole = pd.concat(frames)
    counts = CellCounts.from_cells(encoder.apply(whole), whole["sex"], whole["paid"], encoder.n_cells_)
    pooled = pool(files)
    assert pooled.counted.counts == counts
    odds = pooled.counted.certify(Claim(metric="equalized_odds"))
    assert odds.bound == certify_counts(counts, "equalized_odds").bound
    assert pooled.counted.certify(Claim()).counts == counts.without_labels()


def test_text_files_give_the_names_that_typed_files_give(published: Any, tmp_path: Path) -> None:
    frame = make_people(300, 7).astype({"race": float})
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet")
    readings = [
        Reading(sensitive=("race", "member")),
        Reading(sensitive=("age>=40",), label="miles>1000"),
        Reading(sensitive=("age>=40",), label="wage", label_cuts=(20.0,)),
    ]
    for reading in readings:
        csv, parquet = (count_table(published, tmp_path / name, reading).counts for name in ("p.csv", "p.parquet"))
        request = CountRequest(labelled=reading.label is not None)
        streamed = count_records(published, PieceRecords.of(tmp_path / "p.parquet"), reading, request).counts
        assert csv == parquet == streamed
    assert f"3{INTERSECTION}True" in count_table(published, tmp_path / "p.csv", readings[0]).counts.groups


def test_progress_and_missing_columns(published: Any, tmp_path: Path) -> None:
    reading = Reading(sensitive=("sex",))
    make_people(50, 1).drop(columns="wage").to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(MissingColumnError, match="'wage'"):
        count_table(published, tmp_path / "p.csv", reading)
    make_people(50, 1).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(MissingColumnError, match="sexe"):
        count_table(published, tmp_path / "p.csv", Reading(sensitive=("sexe",)))
    make_people(50, 1).to_parquet(tmp_path / "p.parquet", row_group_size=20)
    shares: list[float] = []
    count_records(published, PieceRecords.of(tmp_path / "p.parquet"), reading, CountRequest(progress=shares.append))
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "one"},
        {"id": "short"},
        {"counts": {"groups": ["f"], "table": [[-1]]}},
        {"counts": [1, 2]},
        {"counts": {"groups": ["f", "m"], "table": [[1]]}},
        {"reading": {"sensitive": []}},
        {"reading": {"sensitive": ["sex"], "label": "paid"}},
        {"reading": {"sensitive": ["sex"], "cap": 2.0}},
        {"reading": {"sensitive": ["sex"], "surprise": 1}},
        {"reading": {"sensitive": ["sex"], "weight": "w"}},
        {"reading": {"sensitive": ["sex"], "weight": "w"}, "seed": -1, "effective_size": 1.0},
        {"reading": None},
        {"format": "certifare/other"},
        {"surprise": 1},
        {"encoder": "g" * 64},
        {"cells": 1},
        {"cells": None},
        {"seed": 1, "effective_size": 1.0},
        {"sensitive": ["sex"]},
    ],
)
def test_broken_files_are_refused(holders: dict[str, Any], tmp_path: Path, change: dict[str, Any]) -> None:
    content = json.loads(holders["files"]["a"].read_text()) | change
    (tmp_path / "counts.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"counts\.json"):
        CountsFile.load(tmp_path / "counts.json")


def test_other_files(holders: dict[str, Any], tmp_path: Path) -> None:
    for content in (b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 10**5):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(FileError):
            CountsFile.load(tmp_path / "x.json")
        assert not is_counts_file(tmp_path / "x.json")
    for version, words in (
        (5, "Install a newer"),
        (3, "does not state how its records were read. Count the records again"),
    ):
        other = json.loads(holders["files"]["a"].read_text()) | {"version": version}
        (tmp_path / "x.json").write_text(json.dumps(other))
        with pytest.raises(FileError, match=words):
            CountsFile.load(tmp_path / "x.json")
    with pytest.raises(FileError, match="nowhere"):
        CountsFile.load(tmp_path / "nowhere.json")
    assert is_counts_file(holders["files"]["a"])
    assert not is_counts_file(tmp_path / "nowhere.json")
    assert CountsFile.load(holders["files"]["a"]) == CountsFile.load(holders["files"]["a"])


def test_counts_need_a_row_for_each_cell_of_the_encoder(holders: dict[str, Any], tmp_path: Path) -> None:
    content = json.loads(holders["files"]["a"].read_text())
    content["counts"]["table"] = [[sum(column) for column in zip(*content["counts"]["table"], strict=True)]]
    (tmp_path / "one.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match="The encoder has 12 cells, but the table of counts has 1 rows"):
        CountsFile.load(tmp_path / "one.json")


def test_records_without_a_label_are_not_left_out_of_demographic_parity(
    published: Any, encoder_file: Path, tmp_path: Path
) -> None:
    frame = make_people(800, 31).astype({"paid": float})
    frame.loc[:99, "paid"] = None
    frame.to_parquet(tmp_path / "p.parquet")
    pooled = pool({"p": count(published, digest(encoder_file), tmp_path / "p.parquet", label="paid")})
    assert pooled.counted.certify(Claim(metric="equalized_odds")).exclusions[0].records == 100
    with pytest.raises(ArgumentError, match="100 records without a label are not in these counts"):
        pooled.counted.certify(Claim())


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of households, with weights, some of them without a weight, a household or a group."""
    frame = make_people(3000, 41)
    rng = np.random.default_rng(41)
    frame = frame.assign(home=rng.integers(0, 1200, 3000).astype(float), w=rng.choice([0.5, 1.0, 2.0], 3000))
    for column, rows in (("w", slice(0, 20)), ("home", slice(10, 40)), ("sex", slice(35, 60))):
        frame.loc[frame.index[rows], column] = None
    folder = tmp_path_factory.mktemp("panel")
    frame.to_csv(folder / "panel.csv", index=False)
    frame.to_parquet(folder / "panel.parquet")
    return folder


@pytest.mark.parametrize(
    "how",
    [
        {"weight": "w"},
        {"weight": "w", "max_weight": 3.0},
        {"weight": "w", "cap": 1.5},
        {"cluster": "home"},
        {"cluster": "home", "population": "records"},
        {"weight": "w", "cluster": "home", "population": "records"},
        {"weight": "w", "cluster": "home", "population": "records", "max_weight": 20.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("unknown_groups", [False, True])
def test_drawn_counts_are_those_of_the_whole_table(
    published: Any, panel: Path, how: dict[str, Any], unknown_groups: bool
) -> None:
    """Counting draws the records that drawing from the whole table draws."""
    reading = Reading(sensitive=("sex",), unknown_groups=unknown_groups, **how)
    for name in ("panel.csv", "panel.parquet"):
        table = read_records(published, panel / name, reading)
        part = f"{CERTIFY} {table.records}"
        if table.clusters is None:
            sample = thin(table.weights, seed=5, part=part, cap=reading.cap, max_weight=reading.max_weight)
        else:
            sample = one_per_cluster(
                table.clusters,
                weights=table.weights,
                population=reading.population,
                max_weight=reading.max_weight,
                seed=5,
                part=part,
            )
        expected = CellCounts.from_cells(
            published.apply(table.features)[sample.keep],
            np.array(table.groups.to_arrow().to_pylist())[sample.keep],
            n_cells=published.n_cells_,
        )
        counted = count_table(published, panel / name, reading, seed=5)
        exclusions = (*table.exclusions, *sample.exclusions)
        assert counted.counts == CellCounts(expected.table, expected.groups, exclusions=exclusions)
        made = CountsFile.make(counted, "ab" * 32, reading)
        assert set(sample.assumptions) <= set(made.assumptions)
        assert (made.seed, made.effective_size) == (5, pytest.approx(sample.effective_size))
        assert (made.tail is None) == (reading.cap is None)


def test_draws_of_two_files_at_the_same_seed_are_independent(published: Any, tmp_path: Path) -> None:
    """Two holders with people of the same weights draw others of them: a stream knows the records."""
    frame = make_people(3000, 51).assign(w=np.random.default_rng(51).choice([1.0, 2.0], 3000))
    kept = []
    for year in (2029, 2030):
        frame.assign(year=year).to_parquet(tmp_path / f"{year}.parquet")
        reading = Reading(sensitive=("sex",), weight="w")
        for seed in (5, 5, 6):
            kept.append(count_table(published, tmp_path / f"{year}.parquet", reading, seed=seed).counts)
    one, again, other_seed, other, other_again, _ = kept
    assert one == again
    assert other == other_again
    assert one != other
    assert one != other_seed


def test_drawing_leaves_the_checksum_as_it_is(published: Any, panel: Path) -> None:
    """Records that were counted twice in one way are noticed, whatever was drawn from them, and whoever read them."""
    reading, salt = Reading(sensitive=("sex",), cluster="home"), b"0" * 16
    sums = {
        count_table(published, panel / name, reading, salt=salt, seed=seed).checksum
        for name, seed in (("panel.csv", 1), ("panel.csv", 2), ("panel.parquet", 2))
    }
    assert len(sums) == 1
    assert None not in sums


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"unknown_groups": True},
        {"label": "w"},
        {"label": "w", "unknown_groups": True},
        {"kept_groups": ("female",)},
    ],
    ids=str,
)
def test_a_stream_has_the_checksum_of_the_table(published: Any, panel: Path, how: dict[str, Any]) -> None:
    """Whichever records were left out."""
    reading, salt = Reading(sensitive=("sex",), **how), b"0" * 16
    request = CountRequest(labelled=reading.label is not None, salt=salt)
    streamed = count_records(published, PieceRecords.of(panel / "panel.parquet"), reading, request)
    for name in ("panel.csv", "panel.parquet"):
        counted = count_table(published, panel / name, reading, salt=salt)
        assert counted.counts == streamed.counts
        assert counted.checksum == streamed.checksum


def drawn_file(encoder: FairTreeEncoder, encoder_digest: str, seed: int = 1, **how: Any) -> CountsFile:
    reading = Reading(**{"sensitive": ("sex",), "cluster": "home", **how})
    provenance = Provenance(besides=("Clusters stay.",), seed=seed, effective_size=10.0, population=reading.about)
    counts = CellCounts([[40, 50]] * encoder.n_cells_, groups=["female", "male"])
    return CountsFile.make(CountedRecords(counts=counts, provenance=provenance), encoder_digest, reading)


def test_draws_of_several_holders_add_up_with_their_assumptions(encoder: FairTreeEncoder, encoder_file: Path) -> None:
    make = partial(drawn_file, encoder, digest(encoder_file))
    one = pool({"a": make()}).counted.certify(Claim())
    assert (one.seed, one.effective_size) == (1, 10.0)
    assert "Clusters stay." in one.assumptions
    assert OWN_CLUSTERS not in one.assumptions
    # The seed may be the same: streams know the records.
    for seed in (1, 2):
        both = pool({"a": make(), "b": make(seed=seed)}).counted.certify(Claim())
        # That records were drawn is not forgotten: periods must be drawn as well.
        assert (both.seed, both.effective_size) == (None, 20.0)
        assert both.assumptions[-2:] == (OTHER_PEOPLE, OWN_CLUSTERS)
        assert both.assumptions.count("Clusters stay.") == 1
        assert one.population == both.population == ("drawn one at random from each cluster",)
    weights = {"cluster": None, "weight": "w", "max_weight": 9.0}
    weighted = pool({"a": make(**weights), "b": make(**weights, seed=2)})
    assert weighted.counted.counts.n_records == 2 * 90 * encoder.n_cells_
    assert weighted.counted.certify(Claim()).population == ("in proportion to their weights",)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({}, {"cluster": "house"}, "the same --weight, --cluster"),
        ({}, {"population": "records"}, "the same --weight, --cluster"),
        ({"population": "records"}, {"population": "records"}, "Agree on the largest"),
        ({"cluster": None, "weight": "w"}, {"cluster": None, "weight": "w"}, "Agree on the largest"),
        (
            {"cluster": None, "weight": "w", "max_weight": 2.0},
            {"cluster": None, "weight": "w", "max_weight": 3.0},
            "--max-weight",
        ),
        (
            {"cluster": None, "weight": "w", "max_weight": 2.0, "cap": 1.0},
            {"cluster": None, "weight": "w", "max_weight": 2.0, "cap": 1.0},
            "Weights of several holders cannot be capped",
        ),
    ],
)
def test_draws_that_do_not_make_one_sample_are_refused(
    encoder: FairTreeEncoder, encoder_file: Path, one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    make = partial(drawn_file, encoder, digest(encoder_file))
    with pytest.raises(CountsError, match=words):
        pool({"a": make(**one), "b": make(**other, seed=2)})


def test_drawn_and_whole_counts_are_not_added_up(
    encoder: FairTreeEncoder, encoder_file: Path, holders: dict[str, Any]
) -> None:
    drawn = drawn_file(encoder, digest(encoder_file))
    whole = CountsFile.load(holders["files"]["a"])
    with pytest.raises(
        CountsError, match="'whole' counts all records, but 'drawn' is about records drawn by the cluste"
    ):
        pool({"drawn": drawn, "whole": whole})
    with pytest.raises(CountsError, match="'drawn' counts records drawn by the clusters 'home'.*'whole' is about all"):
        pool({"whole": whole, "drawn": drawn})


def test_a_key_that_occurs_twice_is_refused(holders: dict[str, Any], tmp_path: Path) -> None:
    content = Path(holders["files"]["b"]).read_bytes()
    assert b'"groups":' in content
    for key in (b'"groups":', b'"encoder":'):
        twice = tmp_path / "twice.json"
        twice.write_bytes(content.replace(key, key + b'"0",' + key, 1))
        with pytest.raises(FileError, match="occurs twice"):
            CountsFile.load(twice)
