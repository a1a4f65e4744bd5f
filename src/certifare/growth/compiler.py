"""How every kernel is compiled: to run without the interpreter's lock, and kept on disk, so that it compiles once."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit, types

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called. Division by zero gives an infinity or NaN, not an exception."""
    return cast(Callable[P, R], njit(cache=True, nogil=True, error_model="numpy")(function))


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels of the same module call: with no way in from Python it compiles faster."""
    options = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Callable[P, R], njit(**options)(function))


def kernel_for(*arguments: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function at once, for these types of arguments only, whatever else arrays could be told apart by."""

    def compile_now(function: Callable[P, R]) -> Callable[P, R]:
        return cast(Callable[P, R], njit(arguments, cache=True, nogil=True, error_model="numpy")(function))

    return compile_now


def read_only(dtype: Any, ndim: int) -> Any:
    """Give the type of an array that is only read: it may have gaps, and may be one that cannot be written to."""
    return types.Array(dtype, ndim, "A", readonly=True)
