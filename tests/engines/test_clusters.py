"""A command works on a cluster that it is given the address of."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import cli  # noqa: F401  (a fixture)
from tests.engines.conftest import make_people

from certifare.bundle import produce
from certifare.engines.clusters import open_on
from certifare.errors import ArgumentError, FileError, TableError
from certifare.frontier import large
from certifare.frontier.settings import Grid
from certifare.tables.stores import store_file

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")

#: In `make test`, one test of Spark is enough: it is in ``test_counting.py``.
ENGINES = ["dask", pytest.param("spark", marks=pytest.mark.slow)]
FIT = ["--label", "paid", "--sensitive", "sex", "--target", "0.3"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_people(3000, seed=1).to_parquet(tmp_path / "people.parquet", row_group_size=800)
    return tmp_path / "people.parquet"


@pytest.mark.parametrize("engine", ENGINES)
def test_fit_on_a_cluster(
    engine: str,
    path: Path,
    tmp_path: Path,
    cli: Any,  # noqa: F811
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reduced: cells that read the group. Progress is shown, and the bundle is checked by another command."""
    monkeypatch.setattr(large, "SAMPLE_RECORDS", 2000)
    if engine == "dask":
        address = request.getfixturevalue("client").scheduler.address.replace("tcp:", "dask:")
    else:
        request.getfixturevalue("spark")
        address = "spark:"
    options = ["--group-aware", "--max-cells", "4", "--output", tmp_path / "bundle"]
    done = cli("fit", path, *FIT, *options, "--engine", address)
    assert done.status == 0, done.stderr
    assert "setting thresholds" in done.stderr
    assert "of all 3,000 were certified on where they are" in done.stdout + done.stderr
    assert cli("verify", tmp_path / "bundle", "--max", "0.3").status == 0
    refused = cli("fit", path, *FIT, "--weight", "wage", "--output", tmp_path / "other", "--engine", address)
    assert refused.status == 2
    assert "Fit on a sample of the records" in refused.stderr


@pytest.mark.parametrize("cells", [pytest.param("compared", marks=pytest.mark.slow), "calibrated"])
@pytest.mark.parametrize("engine", ENGINES)
def test_partitioned_files_in_an_object_store_give_the_bundle_of_a_stream(
    engine: str,
    cells: str,
    bucket: str,
    s3_server: dict[str, str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers read the same row groups, with keys from their own environment; names of folders are columns."""
    monkeypatch.setattr(large, "LARGE", 0)
    monkeypatch.setattr(large, "SAMPLE_RECORDS", 2000)
    people = make_people(3000, seed=1)
    for year, rows in ((2023, slice(0, 1000)), (2024, slice(1000, 3000))):
        with store_file(f"{bucket}/year={year}/people.parquet") as local:
            people[rows].to_parquet(local, row_group_size=500)
    address = "spark:"
    if engine == "dask":
        client = request.getfixturevalue("client")
        client.run(os.environ.update, s3_server)
        address = client.scheduler.address.replace("tcp:", "dask:")
    else:
        request.getfixturevalue("spark")
    job = {"label": "paid", "sensitive": "sex", "target": 0.4, "ledger": False}
    job |= {"grid": Grid(cells=[2, 4]), "group_aware": True} if cells == "calibrated" else {"grid": Grid(cells=[2, 4])}
    streamed = produce(bucket, **job)
    with open_on(address, bucket) as table:
        found = produce(table, **job)
    assert "year" in [column.name for column in found.encoder.columns_]
    assert found.verdict == "PASS"
    assert found.encoder.to_document() == streamed.encoder.to_document()
    assert found.certificate == streamed.certificate


@pytest.mark.parametrize("engine", ["dask:", "spark:"])
def test_files_that_a_cluster_cannot_read_are_named_before_it_starts(engine: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,sex\n30,f\n")
    (tmp_path / "empty").mkdir()
    for name in ("missing.parquet", "people.csv", "empty"):
        with pytest.raises((FileError, TableError), match=name):
            open_on(engine, tmp_path / name).__enter__()


@pytest.mark.parametrize("engine", ["dask", "flink://host", "spark://", "10.0.0.1:8786"])
def test_an_address_of_no_cluster_is_refused(engine: str, path: Path) -> None:
    with pytest.raises(ArgumentError, match="give the address of a cluster: dask:"), open_on(engine, path):
        pass


@pytest.mark.parametrize("engine", ["dask://me:secret@host:8786", "spark://secret@host:7077", "dask://host?key=secret"])
def test_credentials_in_the_address_of_a_cluster_are_refused_and_not_repeated(engine: str, path: Path) -> None:
    with pytest.raises(ArgumentError, match="without user, password") as refused, open_on(engine, path):
        pass
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("engine", ["dask:", "spark:"])
def test_credentials_in_the_address_of_files_are_refused_and_not_repeated(engine: str) -> None:
    with pytest.raises(ArgumentError, match="belong into the environment") as refused:
        open_on(engine, "s3://key:secret@bucket/people").__enter__()
    assert "secret" not in str(refused.value)


def test_a_scheduler_that_does_not_answer_is_an_error(path: Path) -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(TableError, match="No Dask scheduler answers at 127.0.0.1:9"),
        open_on("dask://127.0.0.1:9", path),
    ):
        pass
