"""Words that depend on a number or on the word that follows, and lists of names."""

import re
from collections.abc import Sequence

#: Characters that change the direction of what follows: marks, embeddings, overrides and isolates.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def amount(number: int, what: str) -> str:
    """Write how many there are of something.

    >>> amount(1, "record"), amount(2500, "record")
    ('1 record', '2,500 records')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def one(what: str) -> str:
    """Put the indefinite article before something, by its first letter.

    >>> one("equalized odds distance"), one("group")
    ('an equalized odds distance', 'a group')
    """
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def exact(number: float) -> str:
    """Write a number so that it is read back as it is, as short as that may be.

    >>> exact(20000.0), exact(0.1), exact(0.30000001192092896)
    ('20000', '0.1', '0.30000001192092896')
    """
    short = f"{number:.15g}"
    return short if float(short) == number else repr(float(number))


def listing(names: Sequence[object], most: int = 8) -> str:
    """Write names in quotes, cut after the first few.

    >>> listing(["a", "b", "c", "d"], 2)
    "'a', 'b' and 2 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def undirected(text: str) -> str:
    """Replace what changes the direction of text: a name from a file could make the words around it read otherwise.

    >>> undirected(f"T* of {chr(0x202E)}50.0 = x")
    'T* of �50.0 = x'
    """
    return _DIRECTIONS.sub("\ufffd", text)
