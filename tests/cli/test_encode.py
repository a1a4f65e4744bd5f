import numpy as np
import pandas as pd
import pytest

from certifare import load_encoder
from certifare.tables import files as certifare_files


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_cells_equal_apply_in_every_format(cli, files, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(certifare_files, "BLOCK", 1 << 12)  # many batches
    target = tmp_path / f"cells{suffix}"
    result = cli("encode", files / "encoder.json", files / "fresh.csv", target, "--as", "cells", "--keep", "approved")
    assert result.status == 0, result.stderr
    assert "3,000 records in 8 cells" in result.stdout
    fresh = pd.read_csv(files / "fresh.csv")
    encoded = pd.read_csv(target) if suffix == ".csv" else pd.read_parquet(target)
    expected = load_encoder(files / "encoder.json").apply(fresh)
    assert np.array_equal(encoded["cell"], expected)
    assert np.array_equal(encoded["approved"].astype(int), fresh["approved"])
    assert "outside of the certificate: approved" in result.stderr


def test_representatives_and_one_hot(cli, files, tmp_path):
    fresh = pd.read_csv(files / "fresh.csv")
    encoder = load_encoder(files / "encoder.json")
    cli("encode", files / "encoder.json", files / "fresh.csv", tmp_path / "z.parquet")
    z = pd.read_parquet(tmp_path / "z.parquet")
    assert list(z.columns) == ["cell", "typical_age", "typical_job"]
    assert np.array_equal(z["cell"], encoder.apply(fresh))
    assert len(z.drop_duplicates()) == z["cell"].nunique()
    typical = encoder.set_params(output="representatives").transform(fresh)
    assert np.array_equal(z["typical_age"], typical["age"])
    assert list(z["typical_job"]) == list(typical["job"])
    cli("encode", files / "encoder.json", files / "fresh.csv", tmp_path / "o.csv", "--as", "onehot")
    onehot = pd.read_csv(tmp_path / "o.csv").to_numpy()
    assert np.array_equal(onehot.argmax(axis=1), encoder.apply(fresh))
    assert (onehot.sum(axis=1) == 1).all()


def test_a_kept_column_has_its_own_name_unless_that_is_taken(cli, files, tmp_path):
    """Typical values are marked in the header, so that the person's own value keeps the name of its column."""
    fresh = pd.read_csv(files / "fresh.csv").assign(cell="mine")
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    cli("encode", files / "encoder.json", tmp_path / "fresh.csv", tmp_path / "z.csv", "--keep", "job,cell")
    encoded = pd.read_csv(tmp_path / "z.csv")
    assert list(encoded.columns) == ["cell", "typical_age", "typical_job", "job", "cell_kept"]
    assert list(encoded["job"].fillna("")) == list(fresh["job"].fillna(""))


def test_what_the_encoder_reads_is_kept_as_it_is_written(cli, files, tmp_path, monkeypatch):
    """As a number of the encoder, 007 would be 7 and 1.50 would be 1.5; as its text, blanks would be gone."""
    monkeypatch.setattr(certifare_files, "BLOCK", 1 << 12)  # many batches
    fresh = pd.read_csv(files / "fresh.csv", dtype=str, keep_default_na=False)
    fresh["age"] = ("00" + fresh["age"]).where((np.arange(len(fresh)) % 2 == 0) & (fresh["age"] != ""), fresh["age"])
    fresh["job"] = " " + fresh["job"]
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    for ending in ("csv", "parquet"):
        target = tmp_path / f"z.{ending}"
        options = ["--as", "cells", "--keep", "age,job,approved"]
        result = cli("encode", files / "encoder.json", tmp_path / "fresh.csv", target, *options)
        assert result.status == 0, result.stderr
        found = pd.read_csv(target, dtype=str, keep_default_na=False) if ending == "csv" else pd.read_parquet(target)
        assert found["age"].tolist() == fresh["age"].tolist()
        assert found["job"].tolist() == fresh["job"].tolist()
        plain = load_encoder(files / "encoder.json").apply(pd.read_csv(files / "fresh.csv"))
        assert np.array_equal(found["cell"].astype(int), plain)


def test_json_says_what_was_written(cli, files, tmp_path):
    result = cli("encode", files / "encoder.json", files / "fresh.csv", tmp_path / "z.csv", "--json")
    assert result.json["records"] == 3_000
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.json", "fresh.csv", "z.csv"], "no encoder"),
        (["fresh.csv", "fresh.csv", "z.csv"], "encoder"),
        (["encoder.json", "nothing.csv", "z.csv"], "There is no file"),
        (["encoder.json", "fresh.csv", "z.txt"], "ends in .csv or .parquet"),
        (["encoder.json", "fresh.csv", "z.csv", "--as", "pixels"], "choose representatives"),
        (["encoder.json", "fresh.csv", "z.csv", "--keep", "salary"], "No column 'salary' (columns to keep)"),
        (["encoder.json", "lacking.csv", "z.csv"], "age"),
        (["encoder.json", "fresh.csv", "nowhere/z.csv"], "cannot be written"),
    ],
)
def test_bad_input_is_refused(cli, files, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(files)
    (files / "lacking.csv").write_text("job\nnurse\n")
    before = sorted(files.iterdir())
    result = cli("encode", *arguments)
    assert result.status == 2
    assert words in result.stderr
    assert sorted(files.iterdir()) == before


def test_interrupt_leaves_nothing_behind(cli, files, tmp_path, monkeypatch):
    from certifare.encoders.base import RestrictedEncoder

    def interrupt(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RestrictedEncoder, "transform_from", interrupt)
    result = cli("encode", files / "encoder.json", files / "fresh.csv", tmp_path / "z.csv")
    assert result.status == 130
    assert "nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_as_score_writes_the_score_of_each_record(cli, files, tmp_path):
    result = cli("encode", files / "encoder.json", files / "fresh.csv", tmp_path / "s.csv", "--as", "score")
    assert result.status == 0, result.stderr
    scores = load_encoder(files / "encoder.json").predict_proba(pd.read_csv(files / "fresh.csv"))
    written = pd.read_csv(tmp_path / "s.csv")
    assert list(written.columns) == ["score_approved"]
    assert np.allclose(written["score_approved"], scores[:, 1])


def test_a_published_encoder_without_statistics_has_no_scores(cli, files, tmp_path):
    load_encoder(files / "encoder.json").save(tmp_path / "bare.json", statistics=False)
    result = cli("encode", tmp_path / "bare.json", files / "fresh.csv", tmp_path / "s.csv", "--as", "score")
    assert result.status == 2
    assert "without its cells' statistics" in result.stderr
