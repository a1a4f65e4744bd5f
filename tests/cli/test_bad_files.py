"""Files as people really have them: each is read, or refused with a message of its own, and nothing is written."""

import gzip
import shutil

import numpy as np
import pandas as pd
import pytest

from certifare.bundle import produce
from certifare.frontier import Grid

QUICK = ["--kind", "tree"]


def csv_of(frame, **options):
    return frame.to_csv(index=False, **options)


@pytest.fixture(scope="session")
def frame(make_people):
    return make_people(2_000, 3)


BAD = {
    "empty": (lambda f: b"", "is empty"),
    "header only": (lambda f: b"age,sex,job,approved\n", "no records"),
    "ragged": (lambda f: csv_of(f).encode() + b"30,f\n", "does not have 4 columns"),
    "binary": (lambda f: bytes(range(256)) * 100, "binary"),
    "excel": (lambda f: b"PK\x03\x04" + b"\0" * 100, "Excel"),
    "truncated parquet": (lambda f: f.to_parquet()[:-20], "damaged"),
    "truncated gzip": (lambda f: gzip.compress(csv_of(f).encode())[:-2000], "damaged"),
    "open quotation mark": (lambda f: csv_of(f).encode() + b'f,30,nurse,"1\nm,31,cook,0\n', "never closed"),
    "duplicate headers": (lambda f: csv_of(f).replace("age", "job", 1).encode(), "several columns called 'job'"),
    "no label": (lambda f: csv_of(f.drop(columns="approved")).encode(), "No column 'approved'"),
    "no sensitive column": (lambda f: csv_of(f.rename(columns={"sex": "sexe"})).encode(), "Did you mean 'sexe'"),
    "single label": (lambda f: csv_of(f.assign(approved=1)).encode(), "one value only"),
    "single group": (lambda f: csv_of(f.assign(sex="f")).encode(), "one group only"),
    "small group": (
        lambda f: csv_of(f.assign(sex=np.where(np.arange(len(f)) < 40, "f", "m"))).encode(),
        "Group 'f' has",
    ),
    "too few records": (lambda f: csv_of(f.head(3)).encode(), "Too few"),
    "all labels missing": (lambda f: csv_of(f.assign(approved=None)).encode(), "no value in any record"),
    "dates": (lambda f: csv_of(f.assign(since="2020-01-31")).encode(), "'since' (date32[day])"),
    "infinite": (lambda f: csv_of(f.assign(age=np.inf)).encode(), "'age' holds inf; give"),
    "sensitive twice": (lambda f: csv_of(f.assign(gender=f["sex"])).encode(), "'gender' says which group"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused(cli, frame, tmp_path, name):
    content, message = BAD[name]
    source = tmp_path / "people.csv"
    source.write_bytes(content(frame))
    result = cli("fit", source, "--label", "approved", "--sensitive", "sex", *QUICK, "-o", tmp_path / "bundle")
    assert result.status == 2, result
    assert message in result.stderr
    assert result.stderr.count("Error:") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


GOOD = {
    "semicolons": lambda f: csv_of(f, sep=";").encode(),
    "tabs": lambda f: csv_of(f, sep="\t").encode(),
    "bars": lambda f: csv_of(f, sep="|").encode(),
    "byte order mark": lambda f: csv_of(f).encode("utf-8-sig"),
    "UTF-16": lambda f: csv_of(f).encode("utf-16"),
    "Latin-1": lambda f: csv_of(f.replace("nurse", "infirmière")).encode("latin-1"),
    "gzip": lambda f: gzip.compress(csv_of(f).encode()),
    "parquet": lambda f: f.to_parquet(),
    "feather": lambda f: _feather(f),
    "spaces": lambda f: csv_of(f).replace(",", ", ").encode(),
    "an index": lambda f: f.to_csv().encode(),
    "windows lines": lambda f: csv_of(f, lineterminator="\r\n").encode(),
    "an empty column": lambda f: csv_of(f.assign(nothing=None)).encode(),
}


def _feather(frame):
    import io

    buffer = io.BytesIO()
    frame.to_feather(buffer)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def plain(frame, tmp_path_factory):
    """The table as a plain CSV file, and a bundle fitted to it."""
    folder = tmp_path_factory.mktemp("plain")
    frame.to_csv(folder / "people.csv", index=False)
    produce(frame, label="approved", sensitive="sex", grid=Grid(kinds=["tree"], gammas=[0.7], cells=[8])).save(
        folder / "bundle"
    )
    return folder


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("tabs", "bars", "an index", "parquet"))) for name in GOOD],
)
def test_other_forms_are_read(cli, frame, plain, tmp_path, name):
    source = tmp_path / "people.data"
    source.write_bytes(GOOD[name](frame))
    roles = ["--label", "approved", "--sensitive", "sex"]
    # A target that nothing meets: the table is read and searched, and no report has to be drawn.
    result = cli("fit", source, *roles, *QUICK, "--target", "0.001", "-o", tmp_path / "bundle", "--json")
    assert result.status == 1, result.stderr
    assert result.json["tested"]
    encoded = cli("encode", plain / "bundle", source, tmp_path / "encoded.csv", "--as", "cells", "--keep", "approved")
    assert encoded.status == 0, encoded.stderr
    assert "2,000 records" in encoded.stdout
    if name == "Latin-1":
        return
    assert cli("encode", plain / "bundle", plain / "people.csv", tmp_path / "plain.csv", "--as", "cells").status == 0
    assert (
        pd.read_csv(tmp_path / "encoded.csv")["cell"].tolist() == pd.read_csv(tmp_path / "plain.csv")["cell"].tolist()
    )
    # In whatever form they come, records that the encoder was fitted on are recognised.
    seen = cli("certify", plain / "bundle", source, "--sensitive", "sex")
    assert seen.status == 2
    assert "training records" in seen.stderr


def test_a_wrong_delimiter_is_refused(cli, frame, tmp_path):
    (tmp_path / "people.csv").write_text(csv_of(frame))
    roles = ["--label", "approved", "--sensitive", "sex"]
    result = cli("fit", tmp_path / "people.csv", *roles, "--delimiter", ";", "-o", tmp_path / "bundle")
    assert result.status == 2
    assert "delimiter seems to be ','" in result.stderr


@pytest.mark.slow
def test_very_many_columns_are_read(cli, frame, tmp_path):
    numbers = np.random.default_rng(0).integers(0, 3, (400, 300))
    wide = frame.head(400).join(pd.DataFrame(numbers, columns=[f"c{i}" for i in range(300)]))
    source = tmp_path / "wide.parquet"
    wide.to_parquet(source)
    roles = ["--label", "approved", "--sensitive", "sex"]
    result = cli("fit", source, *roles, *QUICK, "--max-cells", "4", "-o", tmp_path / "bundle", "--json")
    assert result.status == 0, result.stderr
    assert result.json["encoder"]["cells"] <= 4


@pytest.mark.parametrize("name", ["encoder.json", "certificate.json"])
def test_a_bundle_from_a_newer_version_is_refused(cli, plain, tmp_path, name):
    bundle = tmp_path / "bundle"
    shutil.copytree(plain / "bundle", bundle)
    text = (bundle / name).read_text()
    newer = text.replace('"version": 1', '"version": 99', 1).replace('"version":1,', '"version":99,', 1)
    newer = newer.replace("certificate/v3", "certificate/v99")
    assert newer != text
    (bundle / name).write_text(newer)
    result = cli("show", bundle)
    assert result.status == 2
    assert "99" in result.stderr


DAMAGE = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "empty": lambda file: file.write_bytes(b""),
    "altered": lambda file: file.write_text(file.read_text().replace('"metric":"demographic', '"metric":"another')),
    "a bound that does not follow": lambda file: file.write_text(file.read_text().replace('"bound":0.', '"bound":0.0')),
    "newer": lambda file: file.write_text(file.read_text().replace("certificate/v3", "certificate/v99")),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a link to nothing": lambda file: (file.unlink(), file.symlink_to("absent")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_certificate_that_is_there_is_never_ignored(cli, frame, plain, tmp_path, damage):
    """Without it, another claim would be bounded: only a certificate that is absent is none."""
    bundle, people = shutil.copytree(plain / "bundle", tmp_path / "bundle"), tmp_path / "people.csv"
    frame.to_csv(people, index=False)
    before = (bundle / "certificate.json").read_bytes()
    DAMAGE[damage](bundle / "certificate.json")
    assert damage in ("a folder", "a link to nothing") or (bundle / "certificate.json").read_bytes() != before
    for command in (
        ["certify", bundle, people, "--sensitive", "sex"],
        ["count", bundle, people, "--sensitive", "sex", "-o", tmp_path / "counts.json"],
        ["encode", bundle, people, tmp_path / "encoded.csv"],
        ["explain", bundle, people, "1"],
        ["monitor", bundle, people],
    ):
        result = cli(*command)
        assert result.status == 2, (command[0], result.stdout)
        assert "certificate.json" in result.stderr, command[0]
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", "people.csv"}
