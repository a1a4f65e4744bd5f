"""One reader for a fitted encoder's records: a file means the same to every command."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from certifare import FairTreeEncoder, certify
from certifare.encoders import RestrictedEncoder
from certifare.encoders.records import GroupColumns, load_fitted, open_records, read_records
from certifare.errors import FileError, MissingColumnError, TableError
from certifare.tables.files import TEXT
from certifare.tables.reading import Reading
from certifare.tables.roles import as_names


def people(n: int, seed: int) -> pd.DataFrame:
    """Records whose code is text that looks like numbers, save for a rare value."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    code = rng.choice(["007", "08", "11"], n).astype(object)
    age = rng.integers(18, 80, n).astype(float)
    paid = (age + 20 * (code == "007") + 5 * (sex == "m") + rng.normal(0, 9, n) > 55).astype(int)
    return pd.DataFrame({"code": code, "age": age, "sex": sex, "home": rng.integers(0, n // 2, n), "paid": paid})


@pytest.fixture(scope="module")
def encoder() -> FairTreeEncoder:
    train = people(1500, 0)
    train.loc[:20, "code"] = "none"
    return FairTreeEncoder(max_cells=6).fit(train[["code", "age"]], train["paid"], sensitive_features=train["sex"])


@pytest.mark.parametrize("sensitive", ["sex", ("sex", "age>=60"), "code"])
def test_text_that_looks_like_numbers(encoder: RestrictedEncoder, tmp_path: Path, sensitive: str) -> None:
    """The column ``code`` holds only digits here; roles may be features, comparisons and intersections."""
    fresh = people(1200, 1)
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    fresh.to_parquet(tmp_path / "fresh.parquet")
    reading = Reading(sensitive=as_names(sensitive))
    tables = [read_records(encoder, tmp_path / f"fresh.{kind}", reading) for kind in ("csv", "parquet")]
    for table in tables:
        assert table.features.column_names == ["code", "age"]
        assert np.array_equal(encoder.apply(table.features), encoder.apply(fresh))
        assert certify(encoder, table.features, sensitive_features=table.sensitive).bound < 1
    assert tables[0].groups.names == tables[1].groups.names


@pytest.mark.parametrize(
    ("groups", "type_"),
    [
        (("007", "08"), TEXT), (("1", "2"), pa.float64()), (("0.5", "-3"), pa.float64()), (("a", "1"), TEXT),
        (("True", "False"), pa.bool_()), (("nan", "1"), TEXT), ((str(2**63 + 1), "1"), TEXT),
    ],
)  # fmt: skip
def test_groups_are_read_from_csv_as_they_are_written(groups: tuple[str, ...], type_: pa.DataType) -> None:
    encoder = SimpleNamespace(group_column_="code", sensitive=None, groups_=groups, other_group=None)
    assert GroupColumns.of(encoder, ["code"]).types == {"code": type_}


def test_batches_hold_what_the_whole_table_holds(encoder: RestrictedEncoder, tmp_path: Path) -> None:
    fresh = people(1200, 2)
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    whole = read_records(encoder, tmp_path / "fresh.csv", Reading(sensitive=("sex",), label="paid", cluster="home"))
    batches = open_records(encoder, tmp_path / "fresh.csv", {"sex": TEXT, "code": None})
    found = pa.Table.from_batches(list(batches))
    assert found.select(["code", "age"]).to_pylist() == whole.features.to_pylist()
    assert found.column("sex").to_pylist() == whole.groups.to_arrow().to_pylist()
    assert np.array_equal(np.unique(whole.clusters), np.arange(fresh["home"].nunique()))


def test_what_is_wrong_with_a_file_is_said(encoder: RestrictedEncoder, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("code,age,sex\n007,x,f\n08,2,m\n")
    with pytest.raises(TableError, match="Column 'age' .* holds 'x' where numbers are expected"):
        read_records(encoder, tmp_path / "a.csv", Reading(sensitive=("sex",)))
    (tmp_path / "b.csv").write_text("cod,age,sex\n007,1,f\n08,2,m\n")
    for read in (lambda: read_records(encoder, tmp_path / "b.csv", Reading(sensitive=("sex",))),
                 lambda: open_records(encoder, tmp_path / "b.csv")):  # fmt: skip
        with pytest.raises(MissingColumnError, match=r"No column 'code' \(feature of the encoder\). Did you"):
            read()


def test_the_fingerprint_lies_in_one_place(encoder: RestrictedEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "encoder.json")
    assert load_fitted(tmp_path / "encoder.json").fingerprint_ is None
    (tmp_path / "private").mkdir()
    encoder.fingerprint_.save(tmp_path / "private" / "fingerprint.npz")
    assert load_fitted(tmp_path / "encoder.json").fingerprint_.records == 1500
    frame = people(200, 3)
    other = FairTreeEncoder().fit(frame[["age"]], frame["paid"], sensitive_features=frame["sex"])
    other.fingerprint_.save(tmp_path / "private" / "fingerprint.npz")
    with pytest.raises(FileError, match="belongs to another encoder"):
        load_fitted(tmp_path / "encoder.json")
