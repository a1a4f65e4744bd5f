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
class Backend:
    """What an engine can do with a table."""

    worker: Callable[..., Any]  # returns a :class:`~certifare.engines.blocks.Worker` that holds the table's pieces
    encode: Callable[..., Any] | None = None  # ``encode(encoder, table, sensitive_features)``, lazily
    prepare: Callable[..., Any] | None = None  # reads and codes training records in place, for ``fit_from``


_ENGINES: dict[str, tuple[Callable[[Any], bool], Callable[[], Backend]]] = {}


def register_engine(name: str, takes: Callable[[Any], bool], load: Callable[[], Backend]) -> None:
    """Register an engine: which dataframes it takes, and how it is imported."""
    _ENGINES[name] = takes, load


def engine_of(table: Any) -> Backend | None:
    """Return the engine that takes a dataframe; None if the dataframe is in memory."""
    return next((load() for takes, load in _ENGINES.values() if takes(table)), None)


def engine_called(name: str) -> Backend:
    """Return the engine with a name."""
    return _ENGINES[name][1]()


def open_elsewhere(table: Any) -> Any:
    """Return a worker that holds the pieces of a dataframe or of Parquet files; None if the table is in memory."""
    listed = table if isinstance(table, list | tuple) and table else [table]
    files = all(isinstance(path, str | os.PathLike) for path in listed)
    engine = engine_called("parquet") if files else engine_of(table)
    return None if engine is None else engine.worker(table)


def comes_from(table: Any, *packages: str) -> bool:
    """Return whether a table's class is of one of these packages, without importing them."""
    return f"{type(table).__module__}.".startswith(tuple(f"{package}." for package in packages))
