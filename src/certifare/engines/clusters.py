"""Connect to a cluster by its address, and open Parquet files on it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from certifare.errors import ArgumentError, MissingPackageError, TableError
from certifare.tables.stores import Store, store_address

CONNECT_SECONDS = 10
"""How long to wait for a scheduler."""
ADDRESSES = "dask: (workers on this machine), dask://host:8786, spark: (as configured here) or spark://host:7077"


@contextlib.contextmanager
def open_on(engine: str, path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open Parquet files as a dataframe of a cluster, and disconnect at the end.

    - ``engine``: the address of the cluster: ``dask:``, ``dask://host:port``, ``spark:`` or ``spark://host:port``.
    - ``path``: of a file or folder, or an address in an object store, which all workers must reach.
    """
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
    store = store_address(path)
    found = Store(store) if store is not None else None
    with contextlib.ExitStack() as stack:
        try:
            # A cluster of one's own is closed at the end, and its page about itself takes a port that is free.
            where = f"tcp:{address}" if address else stack.enter_context(LocalCluster(dashboard_address=":0"))
            client = stack.enter_context(Client(where, timeout=CONNECT_SECONDS))
        except (OSError, TimeoutError, ValueError) as error:
            raise TableError(f"No Dask scheduler answers at {address.removeprefix('//')}: {error}.") from error
        with client.as_current():
            location = os.path.abspath(os.fspath(path)) if found is None else found.path
            filesystem = "arrow" if found is None else found.system
            yield dd.read_parquet(location, filesystem=filesystem)


@contextlib.contextmanager
def _open_spark(address: str, path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPackageError("--engine spark needs Spark: pip install 'certifare[spark]', and Java.") from error
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName("certifare").config("spark.ui.showConsoleProgress", "false")
    session = (builder.master(f"spark:{address}") if address else builder).getOrCreate()
    try:
        # Spark's own name for S3.
        location = (store_address(path) or os.path.abspath(os.fspath(path))).replace("s3://", "s3a://", 1)
        yield session.read.parquet(location)
    finally:
        if running is None:
            session.stop()
