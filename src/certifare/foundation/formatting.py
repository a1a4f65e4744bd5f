"""Text formatting helpers: numbers, plurals, articles and lists of names."""

import re
import unicodedata
from collections.abc import Sequence

#: Unicode characters that change the direction of the text after them: marks, embeddings, overrides and isolates.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def amount(number: int, what: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> amount(1, "record"), amount(2500, "record")
    ('1 record', '2,500 records')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def one(what: str) -> str:
    """Return a noun with its indefinite article, chosen by the first letter.

    >>> one("equalized odds distance"), one("group")
    ('an equalized odds distance', 'a group')
    """
    return f"{'an' if what[0] in 'aeiou' else 'a'} {what}"


def exact(number: float) -> str:
    """Return the shortest text from which a number can be read back exactly.

    >>> exact(20000.0), exact(0.1), exact(0.30000001192092896)
    ('20000', '0.1', '0.30000001192092896')
    """
    short = f"{number:.15g}"
    return short if float(short) == number else repr(float(number))


def listing(names: Sequence[object], most: int = 8) -> str:
    """Return names in quotes, cut after the first few.

    >>> listing(["a", "b", "c", "d"], 2)
    "'a', 'b' and 2 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def shortened(text: str, most: int = 120) -> str:
    """Return a text without space around it, cut where it has more letters.

    >>> shortened("twelve letters ", 7)
    'twelve…'
    """
    text = text.strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def undirected(text: str) -> str:
    """Replace characters that change the direction of text: a name could change how text around it reads.

    >>> undirected(f"T* of {chr(0x202E)}50.0 = x")
    'T* of �50.0 = x'
    """
    return _DIRECTIONS.sub("\ufffd", text)


def unseen(text: str) -> str | None:
    """Return the name of the first character of a text that a reader cannot see, or that reorders the others.

    These are control and format characters, line breaks, and code points without a character. Joiners are allowed:
    Persian and Indic names need them.

    >>> unseen("Bank of Ghent"), unseen(f"Bank{chr(0x202E)}")
    (None, 'U+202E RIGHT-TO-LEFT OVERRIDE')
    """
    for character in text:
        kind = unicodedata.category(character)
        if (kind[0] == "C" or kind in ("Zl", "Zp")) and character not in "\u200c\u200d":
            return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
    return None
