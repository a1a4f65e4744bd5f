"""Tables that are not in memory are handed to an engine that can work on them where they are.

This is the one place that knows which; engines are imported only when such a table comes.
"""

from importlib import import_module
from typing import Any


def engine_for(table: Any) -> Any:
    """Find the module that works on tables of this kind; None for tables in memory.

    It has ``prepare``, which does what an encoder's ``prepare`` does, and ``certify``, which does what
    :func:`certifare.certify` does.
    """
    if type(table).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(table, "__dask_graph__"):
        return import_module("certifare.engines.dask.cluster")
    return None
