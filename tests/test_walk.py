"""The walk of a record through a job (docs/architecture.md): each step once, and no conversion undone later."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from certifare import Grid, Table, produce
from certifare.cli import main, sources
from certifare.document import verify_document
from certifare.encoders import fitting, format
from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.grown import GrownEncoder
from certifare.foundation import storage
from certifare.foundation.levels import Levels
from certifare.frontier import large
from certifare.tables import files, frames


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["f", "m"], n), rng.integers(20, 70, n)
    paid = rng.random(n) < 0.3 + 0.006 * (age - 20)
    hours = rng.normal(40, 5, n).round(2)
    return pa.table({"age": age, "hours": hours, "sex": sex, "paid": paid})


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.from_frame(people(3000, 0), label="paid", sensitive="sex")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            found[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    watch(fitting, "read_training")
    watch(Fingerprint, "of")
    watch(format, "open_regular")
    watch(Levels, "to_arrow")
    watch(Levels, "of")
    original = GrownEncoder.codes

    def codes(self: Any, X: Any, **options: Any) -> Any:
        found[f"{type(self).__name__} codes {X.num_rows}"] += 1
        return original(self, X, **options)

    monkeypatch.setattr(GrownEncoder, "codes", codes)
    return found


def test_records_are_read_and_coded_once_for_all_kinds(table: Table, calls: Counter[str], tmp_path: Path) -> None:
    grid = Grid(kinds=("boosted", "tree"), gammas=(0.5,), min_cell_sizes=(100,), cells=(2, 4))
    bundle = produce(table, target=0.9, grid=grid, n_jobs=1)
    assert bundle.encoder is not None
    assert calls["read_training"] == 1
    assert calls["of"] == 1  # a fingerprint; no column was coded again
    assert calls["to_arrow"] == 0
    # Each part is coded once for each kind: select, and certify for the kind that was tested.
    assert max(n for name, n in calls.items() if "codes" in name) == 1
    bundle.save(tmp_path / "bundle")
    assert calls["open_regular"] == 0  # its document is in memory
    assert calls["to_arrow"] == 0
    assert max(n for name, n in calls.items() if "codes" in name) == 1


def test_an_encoder_file_is_read_once_to_verify_it(table: Table, calls: Counter[str], tmp_path: Path) -> None:
    grid = Grid(kinds=("tree",), gammas=(0.5,), min_cell_sizes=(100,), cells=(2, 4))
    folder = produce(table, target=0.9, grid=grid, n_jobs=1).save(tmp_path / "bundle")
    assert verify_document(folder, data=table).outcome != "INCONCLUSIVE"
    assert calls["open_regular"] == 1


# -- commands -----------------------------------------------------------------------------------------------------


FRESH = 1500
FORMS = ("csv", "parquet", "arrow")
COMMANDS: dict[str, list[str]] = {
    "certify": ["certify", "bundle", "DATA"],
    "count": ["count", "bundle", "DATA", "-o", "new.json"],
    "monitor": ["monitor", "bundle", "DATA"],
    "verify": ["verify", "bundle", "--data", "DATA"],
}
COLUMN = ["certify", "DATA", "--column", "paid", "--sensitive", "sex"]


@pytest.fixture(scope="module")
def made(table: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with the fingerprint of its training records, and fresh records in every form."""
    folder = tmp_path_factory.mktemp("walk")
    grid = Grid(kinds=("tree",), gammas=(0.5,), min_cell_sizes=(100,), cells=(2, 4))
    produce(table, target=0.9, grid=grid, n_jobs=1).save(folder / "bundle")
    fresh = people(FRESH, 1)
    pyarrow.csv.write_csv(fresh, folder / "fresh.csv")
    pq.write_table(fresh, folder / "fresh.parquet", row_group_size=FRESH // 3)
    pyarrow.feather.write_feather(fresh, folder / "fresh.arrow")
    return folder


class Watch:
    """What a command does, as it is watched.

    Attributes
    ----------
    opened : Counter
        How often each file was opened, by its name.
    read : Counter
        How often a whole table was read from each file.
    converted : Counter
        How often each column was converted.
    looked_up : Counter
        How often records were looked up among the training records, and how many they were.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.opened, self.read, self.converted, self.looked_up = (Counter[str]() for _ in range(4))
        self._patch = monkeypatch
        monkeypatch.chdir(folder)
        # Every file that is not our own is opened in one place.
        monkeypatch.setattr(storage, "open", self._counting(open, lambda path: (self.opened, path)), raising=False)
        for reader in ("_read_csv", "_read_binary"):
            reading = self._counting(getattr(files, reader), lambda path: (self.read, path))
            monkeypatch.setattr(files, reader, reading)
        original, look_up = frames._read_series, Fingerprint.look_up

        def converting(series: Any, name: str) -> Any:
            self.converted[name] += 1
            return original(series, name)

        def looking(fingerprint: Fingerprint, fields: Any) -> Any:
            self.looked_up["times"] += 1
            self.looked_up["records"] += len(fields[0])
            return look_up(fingerprint, fields)

        monkeypatch.setattr(frames, "_read_series", converting)
        monkeypatch.setattr(Fingerprint, "look_up", looking)

    def _counting(self, original: Any, place: Any) -> Any:
        def counting(path: Any, *arguments: Any, **options: Any) -> Any:
            counter, named = place(path)
            counter[Path(named).name] += 1
            return original(path, *arguments, **options)

        return counting

    def run(self, command: list[str], data: str) -> None:
        arguments = [data if text == "DATA" else text for text in command]
        self._patch.setattr(sys, "argv", ["certifare", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (None, 0)


@pytest.fixture
def watch(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watch commands in a folder of their own, which holds what was made."""
    for path in made.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return Watch(tmp_path, monkeypatch)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reads_converts_and_looks_up_records_once(watch: Watch, command: str, form: str) -> None:
    watch.run(COMMANDS[command], f"fresh.{form}")
    assert watch.read == {f"fresh.{form}": 1}
    assert watch.converted == {"age": 1, "hours": 1}
    assert watch.looked_up == {"times": 1, "records": FRESH}


@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_is_certified_is_read_and_converted_once(watch: Watch, form: str) -> None:
    """So are the others, by which copies of records are recognised."""
    watch.run(COLUMN, f"fresh.{form}")
    assert watch.read == {f"fresh.{form}": 1}
    assert watch.converted == {"paid": 1, "age": 1, "hours": 1, "sex": 1}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", [*COMMANDS.values(), COLUMN], ids=[*COMMANDS, "column"])
def test_a_command_opens_a_data_file_once(watch: Watch, command: list[str], form: str) -> None:
    """Nobody opens it to ask what kind of file it is, or how large: the reader takes over the same open file."""
    watch.run(command, f"fresh.{form}")
    assert watch.opened[f"fresh.{form}"] == 1


def test_of_many_files_few_are_held_open(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may hold a thousand files, and there may be more of them. Each beyond the first is opened twice."""
    monkeypatch.setattr(sources, "MOST_OPEN", 1)
    pyarrow.csv.write_csv(people(FRESH, 2), "more.csv")
    watch.run(["certify", "bundle", "DATA", "more.csv"], "fresh.csv")
    assert (watch.opened["fresh.csv"], watch.opened["more.csv"]) == (1, 2)


@pytest.mark.parametrize(
    ("command", "data"),
    [*((command, "fresh.csv") for command in COMMANDS), ("certify", "counts.json"), ("monitor", "counts.json")],
)
def test_a_command_reads_the_files_of_a_bundle_once(watch: Watch, command: str, data: str) -> None:
    """Read twice, a file might be another one the second time: what was checked must be what is used."""
    if data == "counts.json":
        watch.run(COMMANDS["count"], "fresh.csv")
        Path("new.json").rename("counts.json")
        watch.opened.clear()
    watch.run(COMMANDS[command], data)
    bundled = {"certificate.json": 1, "encoder.json": 1}
    assert {name: n for name, n in watch.opened.items() if name in bundled} == bundled
    if data == "counts.json":
        assert watch.opened[data] == 1
    else:
        assert watch.opened["fingerprint.npz"] == 1


@pytest.mark.parametrize("command", ["certify", "count", "monitor"])
def test_a_stream_is_read_once(watch: Watch, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Of a file that is too large for memory, too, each row group is read once, and so is what describes it."""
    monkeypatch.setattr(large, "LARGE", 0)
    calls: Counter[str] = Counter()
    groups: Counter[int] = Counter()
    describe, read = pq.read_metadata, pq.ParquetFile.iter_batches

    def describing(*arguments: Any, **options: Any) -> Any:
        calls["described"] += 1
        return describe(*arguments, **options)

    def reading(file: Any, *arguments: Any, row_groups: list[int], **options: Any) -> Any:
        groups.update(row_groups)
        return read(file, *arguments, row_groups=row_groups, **options)

    monkeypatch.setattr(pq, "read_metadata", describing)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", reading)
    watch.run(COMMANDS[command], "fresh.parquet")
    assert watch.read == {}
    assert groups == {0: 1, 1: 1, 2: 1}
    assert watch.converted == {"age": 3, "hours": 3, "sex": 3}  # in each of three pieces
    assert watch.looked_up == {"times": 3, "records": FRESH}
    assert calls["described"] == 1
