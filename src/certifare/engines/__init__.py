"""Engines: the same growth and the same counts where one machine's memory is not enough.

An engine holds the pieces of a table (row groups of Parquet files, partitions of a Dask frame) and answers the grower's
questions; the grower does not know which engine it asks, so the trees are equal.
"""

from certifare.tables.elsewhere import Prepare, is_dask, register_engine


def register_engines() -> None:
    """Register the engines that encoders can grow from. Each is imported when its first table comes."""
    register_engine("dask", _load_dask, takes=is_dask)
    register_engine("parquet", _load_parquet)


def _load_dask() -> Prepare:
    from certifare.engines.dask.cluster import prepare_dask

    return prepare_dask


def _load_parquet() -> Prepare:
    from certifare.engines.parquet.streaming import prepare_parquet

    return prepare_parquet
