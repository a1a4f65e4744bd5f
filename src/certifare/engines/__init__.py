"""Engines: count, sample and encode tables that do not fit into one machine's memory, and grow trees on them.

An engine holds the pieces of a table (row groups of Parquet files, partitions of a dataframe) and does the same work
with each: survey, sample, count, encode. So results do not depend on the engine. Trees grow on Dask and Parquet files.
"""

from typing import Any

from certifare.tables.elsewhere import EngineEntry, comes_from, register_engine


def register_engines() -> None:
    """Register the engines. Each is imported when it is first used."""
    register_engine(
        "dask",
        EngineEntry(lambda table: comes_from(table, "dask", "dask_expr"), _open_dask, _encode_dask, _prepare_dask),
    )
    register_engine("spark", EngineEntry(lambda table: comes_from(table, "pyspark"), _open_spark, _encode_spark))
    register_engine("parquet", EngineEntry(lambda _: False, _open_parquet, None, _prepare_parquet))


def _open_dask(table: Any, **options: Any) -> Any:
    from certifare.engines.dask.engine import DaskEngine

    return DaskEngine(table, **options)


def _encode_dask(*arguments: Any) -> Any:
    from certifare.engines.dask.engine import encode_dask

    return encode_dask(*arguments)


def _prepare_dask(*arguments: Any, **options: Any) -> Any:
    from certifare.engines.dask.growing import prepare_dask

    return prepare_dask(*arguments, **options)


def _open_spark(table: Any) -> Any:
    from certifare.engines.spark.engine import SparkEngine

    return SparkEngine(table)


def _encode_spark(*arguments: Any) -> Any:
    from certifare.engines.spark.engine import encode_spark

    return encode_spark(*arguments)


def _open_parquet(table: Any, **options: Any) -> Any:
    from certifare.engines.parquet.engine import ParquetEngine
    from certifare.tables.parquet import ParquetFiles

    return ParquetEngine(ParquetFiles.find(table), **options)


def _prepare_parquet(*arguments: Any, **options: Any) -> Any:
    from certifare.engines.parquet.growing import prepare_parquet

    return prepare_parquet(*arguments, **options)
