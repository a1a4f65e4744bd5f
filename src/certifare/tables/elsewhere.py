"""Find the engine for a table that is not in memory.

Engines register for the tables that they take: dataframes of Dask and Spark, Parquet files. Encoders, and code that
counts records, ask here, so that they need not know the engines.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EngineEntry:
    """What an engine registers.

    - ``takes``: says whether a dataframe is for this engine.
    - ``worker``: returns a :class:`~certifare.engines.blocks.Worker` that holds the table's pieces.
    - ``encode``: ``encode(encoder, table, sensitive_features)`` returns the encoded table, lazily.
    - ``prepare``: reads and codes training records in place; ``fit_from`` grows cells from the result.
    """

    takes: Callable[[Any], bool]
    worker: Callable[..., Any]
    encode: Callable[..., Any] | None = None
    prepare: Callable[..., Any] | None = None


_ENGINES: dict[str, EngineEntry] = {}


def register_engine(name: str, engine: EngineEntry) -> None:
    """Register an engine under a name."""
    _ENGINES[name] = engine


def engine_of(table: Any) -> EngineEntry | None:
    """Return the engine that takes a dataframe; None if the dataframe is in memory."""
    return next((engine for engine in _ENGINES.values() if engine.takes(table)), None)


def engine_called(name: str) -> EngineEntry:
    """Return the engine with a name."""
    return _ENGINES[name]


def open_elsewhere(table: Any) -> Any:
    """Return a worker that holds the pieces of a dataframe or of Parquet files; None if the table is in memory."""
    engine = engine_called("parquet") if _is_path(table) else engine_of(table)
    return None if engine is None else engine.worker(table)


def _is_path(table: Any) -> bool:
    listed = isinstance(table, list | tuple) and bool(table)
    return all(isinstance(path, str | os.PathLike) for path in (table if listed else [table]))


def comes_from(table: Any, *packages: str) -> bool:
    """Return whether a table's class is of one of these packages, without importing them."""
    return type(table).__module__.partition(".")[0] in packages
