"""A command works on a cluster that it is given the address of."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import cli  # noqa: F401  (a fixture)
from tests.engines.conftest import make_people

from certifare.engines.clusters import open_on
from certifare.errors import ArgumentError, TableError
from certifare.frontier import large
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
    assert "all others" in done.stdout + done.stderr
    assert cli("verify", tmp_path / "bundle", "--max", "0.3").status == 0
    refused = cli("fit", path, *FIT, "--weight", "wage", "--output", tmp_path / "other", "--engine", address)
    assert refused.status == 2
    assert "Fit on a sample of the records" in refused.stderr


def test_dask_reads_from_an_object_store(path: Path, bucket: str, client: Any) -> None:
    """With what is in the environment; the address holds nothing else."""
    with store_file(f"{bucket}/people.parquet") as local:
        local.write_bytes(path.read_bytes())
    address = client.scheduler.address.replace("tcp:", "dask:")
    with open_on(address, f"{bucket}/people.parquet") as frame:
        assert list(frame.columns) == pq.read_schema(path).names


@pytest.mark.parametrize("engine", ["dask", "flink://host", "spark://", "10.0.0.1:8786"])
def test_an_address_of_no_cluster_is_refused(engine: str, path: Path) -> None:
    with pytest.raises(ArgumentError, match="give the address of a cluster: dask:"), open_on(engine, path):
        pass


def test_a_scheduler_that_does_not_answer_is_an_error(path: Path) -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(TableError, match="No Dask scheduler answers at 127.0.0.1:9"),
        open_on("dask://127.0.0.1:9", path),
    ):
        pass
