"""Some of a list, evenly along it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def evenly(items: Sequence[Any], most: int | None) -> list[Any]:
    """Return at most so many items, first and last among them.

    >>> from certifare_research.evenly import evenly
    >>> evenly("abcdefg", 4)
    ['a', 'c', 'e', 'g']
    """
    if most is None or most >= len(items):
        return list(items)
    return [items[round(i * (len(items) - 1) / max(1, most - 1))] for i in range(most)]
