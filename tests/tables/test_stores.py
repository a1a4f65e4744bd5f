"""Addresses in object stores: which ones are known, what they may hold, and that files appear whole or not at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as pafs
import pytest
from tests.cli.conftest import cli  # noqa: F401  (a fixture)
from tests.engines.conftest import make_people

from certifare import FairTreeEncoder
from certifare.errors import ArgumentError, FileError
from certifare.tables import stores
from certifare.tables.stores import SCHEMES, Store, reachable, store_address, store_file


@pytest.mark.parametrize("scheme", SCHEMES)
def test_addresses_of_every_store_are_known(scheme: str) -> None:
    """Also if a path on a command line has lost a slash."""
    address = f"{scheme}://container/people/year=2024"
    assert store_address(address) == store_address(Path(address)) == address


@pytest.mark.parametrize("path", ["people.parquet", "/srv/s3/people.parquet", "s3", "ftp://host/people.parquet", "s3:"])
def test_other_paths_are_on_this_machine(path: str) -> None:
    assert store_address(path) is None


@pytest.mark.parametrize(
    "address", ["s3://key:secret@bucket/x", "gs://secret@bucket/x", "abfs://c/x?sig=secret", "abfs://c:secret@a.net/x"]
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ArgumentError, match="belong into the environment") as refused:
        Store(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("gs://bucket/people/part.parquet", "bucket/people/part.parquet"),
        ("abfs://container@account.dfs.core.windows.net/people/part.parquet", "container/people/part.parquet"),
        ("abfss://container@account.dfs.core.windows.net/people", "container/people"),
    ],
)
def test_addresses_of_other_stores_than_s3_are_read(address: str, path: str) -> None:
    """Without a connection: none of these servers is there."""
    assert Store(address).path == path


def test_a_store_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS needs libraries of Hadoop; without them, or without a name node, the error says so."""
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    with pytest.raises(FileError, match=r"'hdfs://127.0.0.1:9/people' cannot be used"):
        Store("hdfs://127.0.0.1:9/people")


def test_an_error_of_a_store_names_the_file_and_no_key() -> None:
    with pytest.raises(FileError) as raised, reachable("s3://bucket/x"):
        raise OSError("request failed, SecretKey=do-not-show-me was rejected.\nmore")
    assert "s3://bucket/x" in str(raised.value)
    assert "do-not-show-me" not in str(raised.value)
    assert raised.value.__suppress_context__  # a traceback would show what the store said
    with pytest.raises(FileError, match="There is no file 's3://bucket/x'"), reachable("s3://bucket/x"):
        raise FileNotFoundError
    # What the packages of fsspec raise is no OSError.
    with pytest.raises(FileError, match="set the store's credentials"), reachable("abfs://c@a.net/x"):
        raise RuntimeError("403: Forbidden")


class Interrupted:
    """A file system in which every file is interrupted after its first block, as by Ctrl-C."""

    def __init__(self, system: Any) -> None:
        self.system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    @contextlib.contextmanager
    def open_output_stream(self, path: str) -> Iterator[Any]:
        with self.system.open_output_stream(path) as file:

            def write(block: bytes) -> None:
                file.write(block)
                raise KeyboardInterrupt

            yield SimpleNamespace(write=write)


@pytest.mark.parametrize("kind", ["s3", "a file system"])
def test_an_upload_that_is_interrupted_leaves_nothing(
    kind: str,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An S3 client ends the upload with what there is; in other file systems an older file stays as it was."""
    address = f"{bucket}/people.csv"
    known = Store(address)
    system = known.system if kind == "s3" else pafs.LocalFileSystem()
    path = known.path if kind == "s3" else str(tmp_path / "people.csv")
    (tmp_path / "people.csv").write_text("older")

    def opened(_: str) -> Any:
        return SimpleNamespace(system=Interrupted(system), path=path)

    monkeypatch.setattr(stores, "Store", opened)
    with pytest.raises(KeyboardInterrupt), store_file(address) as local:
        local.write_text("new")
    assert not known.exists
    assert [found.name for found in tmp_path.iterdir()] == ["people.csv"]
    assert (tmp_path / "people.csv").read_text() == "older"


def test_a_file_appears_whole_or_not_at_all(bucket: str) -> None:
    with contextlib.suppress(RuntimeError), store_file(f"{bucket}/a/half.txt") as local:
        local.write_text("half")
        raise RuntimeError
    assert not Store(f"{bucket}/a/half.txt").exists
    for name in ("a/1.txt", "a/b/2.txt", "c/3.csv"):
        with store_file(f"{bucket}/{name}") as local:
            local.write_text(name)
    assert Store(f"{bucket}/a").is_folder
    assert Store(f"{bucket}/a/1.txt").reader().read() == b"a/1.txt"
    assert [str(found) for found in Store(f"{bucket}/a").files()] == [f"{bucket}/a/1.txt", f"{bucket}/a/b/2.txt"]
    assert [str(found) for found in Store(f"{bucket}/**/*.txt").matching()] == [
        f"{bucket}/a/1.txt",
        f"{bucket}/a/b/2.txt",
    ]


def test_every_command_reads_a_partitioned_folder_in_a_store(
    bucket: str,
    cli: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    train, fresh = (make_people(1000, seed=seed).astype({"town": "str"}) for seed in (8, 9))
    encoder = FairTreeEncoder(max_cells=4).fit(train[["age", "wage"]], train["paid"], sensitive_features=train["sex"])
    encoder.save(tmp_path / "encoder.json")
    for year, rows in ((2023, slice(0, 300)), (2024, slice(300, 1000))):
        with store_file(f"{bucket}/year={year}/people.parquet") as local:
            fresh[rows].to_parquet(local)
    certified = cli("certify", tmp_path / "encoder.json", bucket, "--sensitive", "sex", "--output", tmp_path / "c.json")
    assert certified.status == 0, certified.stderr
    assert "(488 + 512 records, 4 cells)" in certified.stdout
    counted = cli("count", tmp_path / "encoder.json", bucket, "--sensitive", "sex", "--output", tmp_path / "n.json")
    assert counted.status == 0, counted.stderr
    encoded = cli("encode", tmp_path / "encoder.json", bucket, f"{bucket}-encoded/cells.csv")
    assert encoded.status == 0, encoded.stderr
    assert Store(f"{bucket}-encoded/cells.csv").reader().read().count(b"\n") == 1001
    for written in ("c.json", "n.json"):
        assert "people/" not in (tmp_path / written).read_text()
