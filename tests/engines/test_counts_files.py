"""Counts files: added up, they certify what the records together would; mistakes are noticed."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from certifare import CellCounts, FairTreeEncoder, certify_counts, one_per_cluster, thin
from certifare.certificates.issuing import NOT_LOOKED_UP
from certifare.document import digest
from certifare.document.counts_files import OTHER_PEOPLE, OWN_CLUSTERS, CountsFile, Drawn, Named, is_counts_file, pool
from certifare.engines.counting import lay_out
from certifare.engines.memory.batches import PART, count_file
from certifare.errors import (
    ArgumentError,
    CountsFileError,
    DrawError,
    DuplicateCountsError,
    EncoderMismatchError,
    FileError,
    LabelsRequiredError,
    MissingColumnError,
)
from certifare.levels import INTERSECTION
from certifare.records import read_records
from certifare.table import POOLED

from .conftest import make_people


@pytest.fixture(scope="module")
def encoder(many_people: pd.DataFrame) -> FairTreeEncoder:
    X = many_people.drop(columns=["paid", "sex", "race"])
    return FairTreeEncoder(max_cells=12).fit(X, many_people["paid"], sensitive_features=many_people["sex"])


@pytest.fixture(scope="module")
def encoder_file(encoder: FairTreeEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "encoder.json"
    encoder.save(path)
    return path


def count(encoder: FairTreeEncoder, encoder_digest: str, path: Path, label: str | None = None) -> CountsFile:
    tally = count_file(encoder, path, sensitive=["sex"], label=label, salt=bytes.fromhex(encoder_digest)[:16])
    counts = lay_out(tally.entries, encoder.n_cells_, labelled=label is not None, missing="drop")
    return CountsFile.make(counts, encoder_digest, sensitive=["sex"], label=label, checksum=tally.checksum)


@pytest.fixture(scope="module")
def holders(encoder: FairTreeEncoder, encoder_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three holders with their records, in files of three kinds, and their counts files."""
    folder = tmp_path_factory.mktemp("holders")
    frames = {name: make_people(n, seed) for name, n, seed in [("a", 900, 21), ("b", 1100, 22), ("c", 700, 23)]}
    frames["c"] = frames["c"].query("sex == 'male'")
    frames["a"].to_csv(folder / "a.csv", index=False)
    frames["b"].to_parquet(folder / "b.parquet")
    frames["c"].reset_index(drop=True).to_feather(folder / "c.feather")
    files = {}
    for path in sorted(folder.iterdir()):
        made = count(encoder, digest(encoder_file), path)
        made.save(folder / f"{path.stem}.json")
        files[path.stem] = folder / f"{path.stem}.json"
    return {"frames": frames, "files": files}


def load(files: dict[str, Path]) -> dict[str, CountsFile]:
    return {name: CountsFile.load(path) for name, path in files.items()}


def test_pooled_counts_certify_all_records(encoder: FairTreeEncoder, holders: dict[str, Any]) -> None:
    pooled = pool(load(holders["files"]))
    whole = pd.concat(holders["frames"].values())
    counts = CellCounts.from_cells(encoder.apply(whole), whole["sex"], None, encoder.n_cells_)
    assert pooled.counts == counts
    certificate = pooled.certify(confidence=0.99)
    assert certificate.bound == certify_counts(counts, confidence=0.99).bound
    assert certificate.assumptions[-2:] == (NOT_LOOKED_UP, OTHER_PEOPLE)
    assert OTHER_PEOPLE not in pool({"b": load(holders["files"])["b"]}).certify().assumptions


def test_a_file_that_is_there_twice(holders: dict[str, Any]) -> None:
    files = load(holders["files"] | {"copy of b": holders["files"]["b"]})
    with pytest.raises(DuplicateCountsError, match="'copy of b' and 'b' are the same counts"):
        pool(files)


def test_records_counted_twice(
    encoder: FairTreeEncoder, encoder_file: Path, holders: dict[str, Any], tmp_path: Path
) -> None:
    """The same records in another order and another kind of file."""
    holders["frames"]["b"].sample(frac=1, random_state=0).to_parquet(tmp_path / "b.parquet", row_group_size=300)
    again = count(encoder, digest(encoder_file), tmp_path / "b.parquet")
    files = load(holders["files"])
    assert again.id != files["b"].id
    with pytest.raises(DuplicateCountsError, match="'d' and 'b' count the same records"):
        pool(files | {"d": again})


def test_a_file_from_another_encoder(encoder: FairTreeEncoder, holders: dict[str, Any], encoder_file: Path) -> None:
    files = load(holders["files"])
    other = CountsFile.make(files["b"].counts, "ab" * 32, sensitive=["sex"])
    with pytest.raises(EncoderMismatchError, match="'other' was counted with another encoder"):
        pool(files | {"other": other})
    with pytest.raises(EncoderMismatchError, match="'a' was counted with another encoder"):
        pool(files, "cd" * 32)
    assert pool(files, digest(encoder_file)).n_files == 3


def test_files_that_count_other_columns(encoder: FairTreeEncoder, encoder_file: Path, holders: dict[str, Any]) -> None:
    files = load(holders["files"])
    other = CountsFile.make(files["b"].counts, digest(encoder_file), sensitive=["race"])
    with pytest.raises(EncoderMismatchError, match="'race'"):
        pool(files | {"other": other})
    with pytest.raises(ArgumentError, match="No counts file"):
        pool({})


def test_files_that_name_groups_or_labels_in_other_ways(holders: dict[str, Any]) -> None:
    """One holder pools b and c, the other does not: 'other groups' of the one are b and c of the other."""
    a, b = (CountsFile.load(holders["files"][name]) for name in "ab")
    ways = [Named(unknown_groups=True), Named(groups=("female", "male", POOLED)), Named(cuts=(20.0,))]
    for way in ways:
        other = msgspec.structs.replace(b, named=way)
        with pytest.raises(EncoderMismatchError, match="'b' and 'a' name groups or labels in different ways"):
            pool({"a": a, "b": other})
        assert pool({"a": msgspec.structs.replace(a, named=way), "b": other}).n_files == 2


def test_labels(encoder: FairTreeEncoder, encoder_file: Path, tmp_path: Path) -> None:
    frames = [make_people(800, seed) for seed in (31, 32)]
    files = {}
    for i, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{i}.csv", index=False)
        files[str(i)] = count(encoder, digest(encoder_file), tmp_path / f"{i}.csv", label="paid")
    whole = pd.concat(frames)
    counts = CellCounts.from_cells(encoder.apply(whole), whole["sex"], whole["paid"], encoder.n_cells_)
    pooled = pool(files)
    assert pooled.counts == counts
    assert pooled.certify("equalized_odds").bound == certify_counts(counts, "equalized_odds").bound
    assert pooled.certify().counts == counts.without_labels()


def test_text_files_give_the_names_that_typed_files_give(encoder: FairTreeEncoder, tmp_path: Path) -> None:
    frame = make_people(300, 7).astype({"race": float})
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_parquet(tmp_path / "p.parquet")
    for roles in ({"sensitive": ["race", "member"]}, {"sensitive": ["age>=40"], "label": "miles>1000"}):
        csv, parquet = (
            lay_out(
                count_file(encoder, tmp_path / name, **roles).entries,
                encoder.n_cells_,
                labelled="label" in roles,
                missing="drop",
            )
            for name in ("p.csv", "p.parquet")
        )
        assert csv == parquet
    assert f"3{INTERSECTION}True" in count_names(encoder, tmp_path / "p.csv")


def count_names(encoder: FairTreeEncoder, path: Path) -> tuple[str, ...]:
    tally = count_file(encoder, path, sensitive=["race", "member"])
    return lay_out(tally.entries, encoder.n_cells_, labelled=False).groups


def test_progress_and_missing_columns(encoder: FairTreeEncoder, tmp_path: Path) -> None:
    make_people(50, 1).drop(columns="wage").to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(MissingColumnError, match="'wage'"):
        count_file(encoder, tmp_path / "p.csv", sensitive=["sex"])
    make_people(50, 1).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(MissingColumnError, match="sexe"):
        count_file(encoder, tmp_path / "p.csv", sensitive=["sexe"])
    shares: list[float] = []
    count_file(encoder, tmp_path / "p.csv", sensitive=["sex"], progress=shares.append)
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    "change",
    [
        {"version": "one"},
        {"id": "short"},
        {"counts": {"groups": ["f"], "table": [[-1]]}},
        {"counts": [1, 2]},
        {"counts": {"groups": ["f", "m"], "table": [[1]]}},
        {"sensitive": []},
        {"format": "certifare/other"},
        {"surprise": 1},
        {"encoder": "g" * 64},
        {"cells": 1},
        {"cells": None},
        {"label": "paid"},
        {"drawn": {"seed": -1, "effective_size": 1.0}},
    ],
)
def test_broken_files(holders: dict[str, Any], tmp_path: Path, change: dict[str, Any]) -> None:
    content = json.loads(holders["files"]["a"].read_text()) | change
    (tmp_path / "counts.json").write_text(json.dumps(content))
    with pytest.raises(CountsFileError, match=r"counts\.json"):
        CountsFile.load(tmp_path / "counts.json")


def test_other_files(holders: dict[str, Any], tmp_path: Path) -> None:
    for content in (b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 10**5):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(CountsFileError):
            CountsFile.load(tmp_path / "x.json")
        assert not is_counts_file(tmp_path / "x.json")
    for version, words in ((4, "newer certifare"), (2, "does not say how many cells")):
        other = json.loads(holders["files"]["a"].read_text()) | {"version": version}
        (tmp_path / "x.json").write_text(json.dumps(other))
        with pytest.raises(CountsFileError, match=words):
            CountsFile.load(tmp_path / "x.json")
    with pytest.raises(FileError, match="nowhere"):
        CountsFile.load(tmp_path / "nowhere.json")
    assert is_counts_file(holders["files"]["a"])
    assert not is_counts_file(tmp_path / "nowhere.json")
    assert CountsFile.load(holders["files"]["a"]) == CountsFile.load(holders["files"]["a"])


def test_item_9_the_table_has_the_rows_that_the_encoder_has_cells(holders: dict[str, Any], tmp_path: Path) -> None:
    content = json.loads(holders["files"]["a"].read_text())
    content["counts"]["table"] = [[sum(column) for column in zip(*content["counts"]["table"], strict=True)]]
    (tmp_path / "one.json").write_text(json.dumps(content))
    with pytest.raises(CountsFileError, match="The encoder has 12 cells, but the table of counts has 1 rows"):
        CountsFile.load(tmp_path / "one.json")


def test_records_without_a_label_are_not_left_out_of_demographic_parity(
    encoder: FairTreeEncoder, encoder_file: Path, tmp_path: Path
) -> None:
    frame = make_people(800, 31).astype({"paid": float})
    frame.loc[:99, "paid"] = None
    frame.to_parquet(tmp_path / "p.parquet")
    pooled = pool({"p": count(encoder, digest(encoder_file), tmp_path / "p.parquet", label="paid")})
    assert pooled.certify("equalized_odds").exclusions[0].records == 100
    with pytest.raises(LabelsRequiredError, match="100 records without a label are not in these counts"):
        pooled.certify()


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
    ("roles", "population"),
    [
        ({"weight": "w"}, "clusters"),
        ({"cluster": "home"}, "clusters"),
        ({"cluster": "home"}, "records"),
        ({"weight": "w", "cluster": "home"}, "records"),
    ],
)
@pytest.mark.parametrize("missing_groups", ["drop", "unknown"])
def test_item_3_drawn_counts_are_those_of_the_whole_table(
    encoder: FairTreeEncoder, panel: Path, roles: dict[str, Any], population: str, missing_groups: Any
) -> None:
    """Reading a file in pieces draws the records that reading it as a whole draws."""
    for name in ("panel.csv", "panel.parquet"):
        table = read_records(encoder, panel / name, sensitive="sex", missing_groups=missing_groups, **roles)
        if table.clusters is None:
            sample = thin(table.weights, seed=5, part=PART)
        else:
            sample = one_per_cluster(table.clusters, weights=table.weights, population=population, seed=5, part=PART)
        expected = CellCounts.from_cells(
            encoder.apply(table.features)[sample.keep],
            np.array(table.groups.to_arrow().to_pylist())[sample.keep],
            n_cells=encoder.n_cells_,
        )
        tally = count_file(
            encoder,
            panel / name,
            sensitive=["sex"],
            population=population,
            seed=5,
            missing_groups=missing_groups,
            **roles,
        )
        counts = tally.table(encoder.n_cells_, labelled=False, missing=missing_groups)
        exclusions = (*table.exclusions, *sample.exclusions)
        assert counts == CellCounts(expected.table, expected.groups, exclusions=exclusions)
        assert tally.drawn is not None
        assert tally.drawn.assumptions == sample.assumptions
        assert tally.drawn.effective_size == pytest.approx(sample.effective_size)


def test_drawing_leaves_the_checksum_as_it_is(encoder: FairTreeEncoder, panel: Path) -> None:
    """Records that were counted twice are noticed, whatever was drawn from them."""
    sums = {
        count_file(encoder, panel / name, sensitive=["sex"], salt=b"0" * 16, seed=seed, cluster=cluster).checksum
        for name, seed, cluster in (("panel.csv", 0, None), ("panel.csv", 1, "home"), ("panel.parquet", 2, "home"))
    }
    assert len(sums) == 1


def drawn_file(encoder: FairTreeEncoder, encoder_digest: str, **how: Any) -> CountsFile:
    drawn = Drawn(**{"seed": 1, "effective_size": 10.0, "cluster": "home", "assumptions": ("Clusters stay.",), **how})
    counts = CellCounts([[40, 50]] * encoder.n_cells_, groups=["female", "male"])
    return CountsFile.make(counts, encoder_digest, sensitive=["sex"], drawn=drawn)


def test_item_3_draws_of_several_holders(encoder: FairTreeEncoder, encoder_file: Path) -> None:
    make = partial(drawn_file, encoder, digest(encoder_file))
    one = pool({"a": make()}).certify()
    assert (one.seed, one.effective_size) == (1, 10.0)
    assert "Clusters stay." in one.assumptions
    assert OWN_CLUSTERS not in one.assumptions
    both = pool({"a": make(), "b": make(seed=2)}).certify()
    # That records were drawn is not forgotten: periods must be drawn as well.
    assert (both.seed, both.effective_size) == (None, 20.0)
    assert both.assumptions[-2:] == (OTHER_PEOPLE, OWN_CLUSTERS)
    assert both.assumptions.count("Clusters stay.") == 1
    assert one.population == both.population == ("one at random of a random cluster",)
    weights = {"cluster": None, "weight": "w", "max_weight": 9.0}
    weighted = pool({"a": make(**weights), "b": make(**weights, seed=2)})
    assert weighted.counts.n_records == 2 * 90 * encoder.n_cells_
    assert weighted.certify().population == ("in proportion to their weights",)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({}, {}, "the same seed, 1"),
        ({}, {"seed": 2, "cluster": "house"}, "the same --weight, --cluster"),
        ({}, {"seed": 2, "population": "records"}, "the same --weight, --cluster"),
        ({"population": "records"}, {"seed": 2, "population": "records"}, "agree on the largest"),
        ({"cluster": None, "weight": "w"}, {"seed": 2, "cluster": None, "weight": "w"}, "agree on the largest"),
        (
            {"cluster": None, "weight": "w", "max_weight": 2.0},
            {"seed": 2, "cluster": None, "weight": "w", "max_weight": 3.0},
            "--max-weight",
        ),
    ],
)
def test_item_3_draws_that_do_not_make_one_sample(
    encoder: FairTreeEncoder, encoder_file: Path, one: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    make = partial(drawn_file, encoder, digest(encoder_file))
    with pytest.raises(DrawError, match=words):
        pool({"a": make(**one), "b": make(**other)})


def test_item_3_drawn_and_whole_counts_do_not_add_up(
    encoder: FairTreeEncoder, encoder_file: Path, holders: dict[str, Any]
) -> None:
    drawn = drawn_file(encoder, digest(encoder_file))
    whole = CountsFile.load(holders["files"]["a"])
    for files in ({"drawn": drawn, "whole": whole}, {"whole": whole, "drawn": drawn}):
        with pytest.raises(DrawError, match="'drawn' counts records drawn by weights or clusters, 'whole' counts all"):
            pool(files)


def test_a_key_that_occurs_twice_is_refused(holders: dict[str, Any], tmp_path: Path) -> None:
    content = Path(holders["files"]["b"]).read_bytes()
    assert b'"groups":' in content
    for key in (b'"groups":', b'"encoder":'):
        twice = tmp_path / "twice.json"
        twice.write_bytes(content.replace(key, key + b'"0",' + key, 1))
        with pytest.raises(CountsFileError, match="occurs twice"):
            CountsFile.load(twice)
