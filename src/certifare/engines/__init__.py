"""Engines: fit encoders and count records if a table does not fit into one machine's memory.

An engine holds the pieces of a table (row groups of Parquet files, partitions of a Dask DataFrame) and computes
histograms for the grower, which does not depend on the engine; so the trees are equal.
"""

from certifare.tables.elsewhere import Prepare, is_dask, register_engine


def register_engines() -> None:
    """Register the engines that encoders can be fitted with. Each is imported when it is first used."""
    register_engine("dask", _load_dask, takes=is_dask)
    register_engine("parquet", _load_parquet)


def _load_dask() -> Prepare:
    from certifare.engines.dask.cluster import prepare_dask

    return prepare_dask


def _load_parquet() -> Prepare:
    from certifare.engines.parquet.streaming import prepare_parquet

    return prepare_parquet
