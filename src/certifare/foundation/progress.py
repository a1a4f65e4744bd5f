"""Progress reporting for nested work.

A caller listens to progress (:func:`listening`); code many calls below counts its steps (:func:`counter`), whether or
not anyone listens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with the number of steps done and the total.
Listener = Callable[[int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(tell: Listener) -> Iterator[None]:
    """Receive progress updates inside this context."""
    token = _LISTENER.set(tell)
    try:
        yield
    finally:
        _LISTENER.reset(token)


#: Called with what a user may wonder about while it takes long.
Notice = Callable[[str], None]
_NOTICE: list[Notice] = []


@contextmanager
def noticing(tell: Notice) -> Iterator[None]:
    """Receive notices inside this context, from any thread."""
    _NOTICE.append(tell)
    try:
        yield
    finally:
        _NOTICE.remove(tell)


def notice(text: str) -> None:
    """Tell whoever listens what takes long."""
    for tell in list(_NOTICE):
        tell(text)


def counter(total: int) -> Callable[[], None]:
    """Start counting steps; return a function to call, from any thread, when a step is done.

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
