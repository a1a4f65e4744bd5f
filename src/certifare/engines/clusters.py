"""Connect to a cluster by its address, and open Parquet files on it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from certifare.errors import ArgumentError, MissingPackageError, TableError
from certifare.tables.parquet import ParquetFiles, RowGroup
from certifare.tables.stores import store_address

CONNECT_SECONDS = 10
"""How long to wait for a scheduler."""
ADDRESSES = "dask: (workers on this machine), dask://host:8786, spark: (as configured here) or spark://host:7077"


@contextlib.contextmanager
def open_on(engine: str, path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open Parquet files as a dataframe of a cluster, and disconnect at the end.

    - ``engine``: the address of the cluster: ``dask:``, ``dask://host:port``, ``spark:`` or ``spark://host:port``.
    - ``path``: of a file or folder, or an address in an object store, which all workers must reach.
    """
    if re.search("[@?#]", engine):
        raise ArgumentError(f"--engine: give host and port alone, without user, password or options: {ADDRESSES}.")
    kind, colon, address = engine.partition(":")
    if not colon or kind not in ("dask", "spark") or (address and not address.removeprefix("//")):
        raise ArgumentError(f"--engine {engine}: give the address of a cluster: {ADDRESSES}.")
    opened = _open_dask(address, path) if kind == "dask" else _open_spark(address, path)
    with opened as frame:
        yield frame


@contextlib.contextmanager
def _open_dask(address: str, path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        import dask.dataframe as dd
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingPackageError("--engine dask needs Dask: pip install 'certifare[dask]'.") from error
    files = ParquetFiles.find(store_address(path) or os.path.abspath(os.fspath(path)))
    groups = files.row_groups()
    if not groups:
        raise TableError(f"{files.paths[0]!r} has columns but no records.")
    with contextlib.ExitStack() as stack:
        try:
            # A cluster of one's own is closed at the end, and its page about itself takes a port that is free.
            where = f"tcp:{address}" if address else stack.enter_context(LocalCluster(dashboard_address=":0"))
            client = stack.enter_context(Client(where, timeout=CONNECT_SECONDS))
        except (OSError, TimeoutError, ValueError) as error:
            raise TableError(f"No Dask scheduler answers at {address.removeprefix('//')}: {error}.") from error
        with client.as_current():
            names = files.schema.names
            meta = files.schema.empty_table().to_pandas()
            yield dd.from_map(_read, groups, names=names, meta=meta, enforce_metadata=False)


def _read(rows: RowGroup, names: list[str]) -> Any:
    """Read a row group, on a worker."""
    return pa.concat_tables(rows.tables(names)).to_pandas()


@contextlib.contextmanager
def _open_spark(address: str, path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPackageError("--engine spark needs Spark: pip install 'certifare[spark]', and Java.") from error
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName("certifare").config("spark.ui.showConsoleProgress", "false")
    try:
        session = (builder.master(f"spark:{address}") if address else builder).getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise TableError(f"No Spark session starts (it needs Java): {_reason(error)}") from None
    try:
        # Spark's own name for S3.
        location = (store_address(path) or os.path.abspath(os.fspath(path))).replace("s3://", "s3a://", 1)
        try:
            frame = session.read.parquet(location)
        except (PySparkException, Py4JError) as error:
            raise TableError(f"Spark cannot read Parquet files at {os.fspath(path)!r}: {_reason(error)}") from None
        yield frame
    finally:
        if running is None:
            session.stop()


def _reason(error: Exception) -> str:
    """Return what went wrong of all that Java says."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("An error occurred while calling")), "unknown")[:300]
