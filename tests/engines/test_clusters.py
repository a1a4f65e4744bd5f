"""A command works on a cluster that it is given the address of."""

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.cli.conftest import cli  # noqa: F401  (a fixture)
from tests.engines.conftest import make_people

from certifare.engines.clusters import open_on
from certifare.errors import ArgumentError, FileError, TableError
from certifare.frontier import large
from certifare.tables.parquet import ParquetFiles
from certifare.tables.stores import store_file

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")

FIT = ["--label", "paid", "--sensitive", "sex", "--target", "0.3", "--no-ledger"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_people(3000, seed=1).to_parquet(tmp_path / "people.parquet", row_group_size=800)
    return tmp_path / "people.parquet"


@pytest.mark.parametrize("engine", ["dask", "spark"])
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


def test_dask_reads_partitioned_files_in_an_object_store(bucket: str, s3_server: dict[str, str], client: Any) -> None:
    """Workers take keys from their own environment. Folders' names are columns of the types that a stream has."""
    client.run(os.environ.update, s3_server)
    people = make_people(300, seed=1).astype({"town": "str"})
    for year, rows in ((2023, slice(0, 100)), (2024, slice(100, 300))):
        with store_file(f"{bucket}/year={year}/people.parquet") as local:
            people[rows].to_parquet(local, row_group_size=50)
    address = client.scheduler.address.replace("tcp:", "dask:")
    with open_on(address, bucket) as frame:
        found, streamed = frame.compute(), ParquetFiles.find(bucket).read().to_pandas()
        assert frame.npartitions == 6
    pd.testing.assert_frame_equal(found.reset_index(drop=True), streamed, check_dtype=False)
    assert found["year"].dtype == "int64"


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_files_that_a_cluster_cannot_read_are_named(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "dask":
        address = request.getfixturevalue("client").scheduler.address.replace("tcp:", "dask:")
    else:
        request.getfixturevalue("spark")
        address = "spark:"
    (tmp_path / "people.csv").write_text("age,sex\n30,f\n")
    (tmp_path / "empty").mkdir()
    for name in ("missing.parquet", "people.csv", "empty"):
        with pytest.raises((FileError, TableError), match=name), open_on(address, tmp_path / name):
            pass


@pytest.mark.parametrize("engine", ["dask", "flink://host", "spark://", "10.0.0.1:8786"])
def test_an_address_of_no_cluster_is_refused(engine: str, path: Path) -> None:
    with pytest.raises(ArgumentError, match="give the address of a cluster: dask:"), open_on(engine, path):
        pass


@pytest.mark.parametrize("engine", ["dask://me:secret@host:8786", "spark://secret@host:7077", "dask://host?key=secret"])
def test_credentials_in_the_address_of_a_cluster_are_refused_and_not_repeated(engine: str, path: Path) -> None:
    with pytest.raises(ArgumentError, match="without user, password") as refused, open_on(engine, path):
        pass
    assert "secret" not in str(refused.value)


def test_a_scheduler_that_does_not_answer_is_an_error(path: Path) -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(TableError, match="No Dask scheduler answers at 127.0.0.1:9"),
        open_on("dask://127.0.0.1:9", path),
    ):
        pass
