"""Compile functions with numba: without the global interpreter lock, and cached on disk.

Pass related arguments to a kernel as a plain tuple, never as a named one: the cache on disk names the class, and could
not be read once a later version has no such class.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit, types
from numba.core import event

from certifare.foundation.progress import notice

COMPILING = "compiling what is not kept on disk yet: up to ten seconds after an installation"


class _Telling(event.Listener):  # type: ignore[misc]
    """Tells users once why nothing seems to happen: compiled kernels are kept on disk, so it is only the first time."""

    told = False

    def on_start(self, event: Any) -> None:
        if not self.told:
            self.told = True
            notice(COMPILING)

    def on_end(self, event: Any) -> None:
        pass


TELLING = _Telling()
event.register("numba:compile", TELLING)

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called. Division by zero gives an infinity or NaN, not an exception."""
    return _compiled(function)


def kernel_for(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function at once, for these argument types only."""
    return lambda function: _compiled(function, arguments)


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels of the same module call: without an entry from Python it compiles faster."""
    options = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Callable[P, R], njit(**options)(function))


def read_only(dtype: Any, ndim: int) -> Any:
    """Return the type of a read-only array, which need not be contiguous."""
    return types.Array(dtype, ndim, "A", readonly=True)


def _compiled(function: Callable[P, R], *signature: Any) -> Callable[P, R]:
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    try:
        return cast(Callable[P, R], njit(*signature, cache=True, **options)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        # No cache folder is writable (a read-only installation): every process compiles for itself.
        return cast(Callable[P, R], njit(*signature, **options)(function))
