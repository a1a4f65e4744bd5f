"""Connect to a cluster by its address, and open Parquet files on it."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator

from certifare.engines.blocks import Worker
from certifare.errors import ArgumentError, MissingPackageError, TableError
from certifare.tables.parquet import ParquetFiles
from certifare.tables.stores import store_address

#: How long to wait for a scheduler.
CONNECT_SECONDS = 10
ADDRESSES = "dask: (workers on this machine), dask://host:8786, spark: (as configured here) or spark://host:7077"


@contextlib.contextmanager
def open_on(engine: str, path: str | os.PathLike[str]) -> Iterator[Worker]:
    """Open Parquet files on a cluster, whose workers read them and must reach their path; disconnect at the end."""
    if re.search("[@?#]", engine):
        raise ArgumentError(f"--engine: give host and port alone, without user, password or options: {ADDRESSES}.")
    kind, colon, address = engine.partition(":")
    if not colon or kind not in ("dask", "spark") or (address and not address.removeprefix("//")):
        raise ArgumentError(f"--engine {engine}: give the address of a cluster: {ADDRESSES}.")
    files = ParquetFiles.find(store_address(path) or os.path.abspath(os.fspath(path)))
    with _open_dask(address, files) if kind == "dask" else _open_spark(address, files) as worker:
        yield worker


@contextlib.contextmanager
def _open_dask(address: str, files: ParquetFiles) -> Iterator[Worker]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingPackageError("--engine dask needs Dask: pip install 'certifare[dask]'.") from error
    from certifare.engines.dask.engine import DaskFiles

    with contextlib.ExitStack() as stack:
        try:
            # A cluster of one's own is closed at the end, and its page about itself takes a port that is free.
            where = f"tcp:{address}" if address else stack.enter_context(LocalCluster(dashboard_address=":0"))
            client = stack.enter_context(Client(where, timeout=CONNECT_SECONDS))
        except (OSError, TimeoutError, ValueError) as error:
            raise TableError(f"No Dask scheduler answers at {address.removeprefix('//')}: {error}.") from error
        yield DaskFiles(files, client)


@contextlib.contextmanager
def _open_spark(address: str, files: ParquetFiles) -> Iterator[Worker]:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPackageError("--engine spark needs Spark: pip install 'certifare[spark]', and Java.") from error
    from certifare.engines.spark.engine import SparkFiles

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        running = SparkSession.getActiveSession()
        builder = SparkSession.builder.appName("certifare").config("spark.ui.showConsoleProgress", "false")
        try:
            session = (builder.master(f"spark:{address}") if address else builder).getOrCreate()
        except (PySparkException, Py4JError) as error:
            raise TableError(f"No Spark session starts (it needs Java): {_reason(error)}") from None
        try:
            yield SparkFiles(files, session)
        finally:
            if running is None:
                session.stop()


def _reason(error: Exception) -> str:
    """Return what went wrong of all that Java says."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("An error occurred while calling")), "unknown")[:300]
