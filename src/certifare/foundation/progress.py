"""How far work is that lies many calls below whoever wants to know.

Whoever wants to know listens (:func:`listening`); whoever does the work counts (:func:`counter`), and need not know
whether anyone does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Told how much is done, and how much there is.
Listener = Callable[[int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(tell: Listener) -> Iterator[None]:
    """Within this, hear of all that is counted."""
    token = _LISTENER.set(tell)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def counter(total: int) -> Callable[[], None]:
    """Begin to count; return a function to call, from any thread, when one more is done.

    >>> with listening(lambda done, total: print(done, "of", total)):
    ...     tick = counter(2)
    ...     tick()
    0 of 2
    1 of 2
    """
    tell = _LISTENER.get()
    if tell is None:
        return lambda: None
    done, lock = 0, threading.Lock()
    tell(0, total)

    def tick() -> None:
        nonlocal done
        with lock:
            done += 1
            tell(done, total)

    return tick
