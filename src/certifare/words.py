"""Words that depend on a number or on the word that follows."""


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
