"""``certifare explain``."""

import pandas as pd
import pytest

from certifare import load_encoder
from certifare.tables import files as certifare_files


@pytest.fixture
def numbered(files, tmp_path):
    people = pd.read_csv(files / "fresh.csv")
    people.insert(0, "id", [f"p{i}" for i in range(len(people))])
    people["number"] = people.index
    people.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.mark.parametrize("how", ["1701", "id=p1700", "number=1700"])
def test_a_record_is_found_by_its_number_or_by_a_value(cli, files, numbered, how, monkeypatch):
    monkeypatch.setattr(certifare_files, "BLOCK", 1 << 12)  # many batches
    result = cli("explain", files / "encoder.json", numbered, how, "--json")
    assert result.status == 0, result.stderr
    expected = load_encoder(files / "encoder.json").explain(pd.read_csv(numbered).iloc[[1700]])
    assert result.json["record"] == 1701
    assert result.json["cell"] == expected.cell
    assert result.json["deciding"] == list(expected.deciding)
    text = cli("explain", files / "encoder.json", numbered, how)
    assert f"record 1,701, cell {expected.cell}" in text.stdout
    assert "smallest changes" in text.stdout


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("0", "Give its number, from 1"),
        ("p1", "Give its number, from 1, or a column and a value: id=4711"),
        ("=p1", "Give its number, from 1"),
        ("5000", "has 3,000 records"),
        ("idd=p1", "Did you mean 'id'"),
        ("id=nobody", "no record has"),
        ("job=nurse", "Name a column that identifies one"),
    ],
)
def test_a_record_that_is_not_named_or_not_there_is_refused(cli, files, numbered, how, words):
    result = cli("explain", files / "encoder.json", numbered, how)
    assert result.status == 2
    assert words in " ".join(result.stderr.split())
