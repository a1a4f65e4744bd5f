"""Engines: count, sample and encode tables that do not fit into one machine's memory, and grow trees on them.

An engine holds the pieces of a table (row groups of Parquet files, partitions of a dataframe) and does the same work
with each: survey, sample, count, encode. So results do not depend on the engine. Trees grow on Dask and Parquet files.
"""

from certifare.tables.elsewhere import Backend, comes_from, register_engine


def register_engines() -> None:
    """Register the engines. Each is imported when it is first used."""
    register_engine("dask", lambda table: comes_from(table, "dask", "dask_expr"), _dask)
    register_engine("spark", lambda table: comes_from(table, "pyspark"), _spark)
    register_engine("parquet", lambda _: False, _parquet)
    # Files that were opened on a cluster are a worker already.
    register_engine("files", lambda table: comes_from(table, "certifare.engines"), lambda: Backend(lambda table: table))


def _dask() -> Backend:
    from certifare.engines.dask import engine, growing

    return Backend(engine.DaskEngine, engine.encode_dask, growing.prepare_dask)


def _spark() -> Backend:
    from certifare.engines.spark import engine

    return Backend(engine.SparkEngine, engine.encode_spark)


def _parquet() -> Backend:
    from certifare.engines.parquet import engine, growing
    from certifare.tables.parquet import ParquetFiles

    return Backend(lambda paths: engine.ParquetEngine(ParquetFiles.find(paths)), prepare=growing.prepare_parquet)
