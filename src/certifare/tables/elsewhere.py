"""Find the engine for a table that is not in memory.

An encoder reads a table in memory by itself. Any other table goes to the engine that registered for it, so that
encoders need not know the engines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Prepare = Callable[..., Any]
"""Reads and codes training records in place; ``RestrictedEncoder.fit_from`` grows cells from the result."""


class _Engine(NamedTuple):
    load: Callable[[], Prepare]
    takes: Callable[[Any], bool] | None


_ENGINES: dict[str, _Engine] = {}


def register_engine(name: str, load: Callable[[], Prepare], takes: Callable[[Any], bool] | None = None) -> None:
    """Register an engine: ``load`` imports it when it is first needed, ``takes`` says which dataframes it accepts."""
    _ENGINES[name] = _Engine(load, takes)


def engine_of(table: Any) -> Prepare | None:
    """Return the function that prepares the training records of a dataframe; None if the dataframe is in memory."""
    return next((engine.load() for engine in _ENGINES.values() if engine.takes and engine.takes(table)), None)


def engine_called(name: str) -> Prepare:
    """Return the function that prepares training records in the engine with this name."""
    return _ENGINES[name].load()


def is_dask(table: Any) -> bool:
    """Return whether a table is a Dask DataFrame or Series: its records are on a cluster, and stay there."""
    return type(table).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(table, "__dask_graph__")
