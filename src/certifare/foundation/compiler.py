"""How every kernel is compiled: to run without the interpreter's lock, and kept on disk, so that it compiles once.

What belongs together is handed to a kernel as a plain tuple, never as a named one: what is kept on disk names the
class, and could not be read any more once a later version has no such class.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit, types

WORTH_COMPILING = 1 << 16
"""With fewer records NumPy is done before a kernel is compiled."""

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called. Division by zero gives an infinity or NaN, not an exception."""
    return _compiled(function)


def kernel_for(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function at once, for these types of arguments only, whatever else arrays could be told apart by."""
    return lambda function: _compiled(function, arguments)


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels of the same module call: with no way in from Python it compiles faster."""
    options = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Callable[P, R], njit(**options)(function))


def read_only(dtype: Any, ndim: int) -> Any:
    """Give the type of an array that is only read: it may have gaps, and may be one that cannot be written to."""
    return types.Array(dtype, ndim, "A", readonly=True)


def _compiled(function: Callable[P, R], *signature: Any) -> Callable[P, R]:
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Callable[P, R], njit(*signature, cache=True, **options)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        # No folder can be written to (a read-only installation): every process compiles for itself.
        return cast(Callable[P, R], njit(*signature, **options)(function))
