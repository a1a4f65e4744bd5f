"""Give freed memory back to the system."""

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Give back what was freed but is kept by Arrow or by the C library, where it can (glibc).

    Both keep apart what each thread freed, so what the threads of one step leave is not used again by the next one.
    """
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
