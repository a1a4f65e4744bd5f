"""The walk of a record through a job (docs/architecture.md): each step once, and no conversion undone later."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from certifare import Grid, Table, produce
from certifare.document import verify_document
from certifare.encoders import base, format
from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.grown import GrownEncoder
from certifare.levels import Levels


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    sex, age = rng.choice(["f", "m"], 3000), rng.integers(20, 70, 3000)
    paid = rng.random(3000) < 0.3 + 0.006 * (age - 20)
    hours = rng.normal(40, 5, 3000).round(2)
    frame = pa.table({"age": age, "hours": hours, "sex": sex, "paid": paid})
    return Table.from_frame(frame, label="paid", sensitive="sex")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            found[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    watch(base, "read_training")
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
    grid = Grid(kinds=("boosted", "tree", "kmeans"), gammas=(0.5,), min_cell_sizes=(100,), cells=(2, 4))
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
