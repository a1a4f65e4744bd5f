"""Guess which columns of a table are the label and the group; the user confirms or corrects it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

#: Words of names that are likely to be those of groups, and of labels: the most likely first.
GROUPS = ("sex", "gender", "geschlecht", "race", "ethnicity", "religion", "nationality", "disability", "age")
LABELS = ("label", "target", "approved", "outcome", "income", "default", "hired", "admitted", "class", "risk", "y")
#: Names of columns that identify records, or are no property of a person.
LEFT_OUT = ("id", "uuid", "index", "fnlwgt", "split", "rowid")
#: A label or group has at most this many values.
MOST_VALUES = 20
#: The most records that values are counted in.
LOOKED_AT = 100_000


def guess_roles(table: pa.Table) -> dict[str, list[str]]:
    """Return names of columns for the roles ``label``, ``sensitive`` and ``drop``; none where no column is likely.

    Examples
    --------
    >>> people = pa.table({"id": [1, 2, 3], "sex": ["f", "m", "f"], "age": [3, 4, 5], "hired": [0, 1, 1]})
    >>> guess_roles(people)
    {'label': ['hired'], 'sensitive': ['sex'], 'drop': ['id']}
    """
    values = {name: _values(table.column(name)) for name in table.column_names}
    few = [name for name, n in values.items() if 2 <= n <= MOST_VALUES]
    sensitive = _first(few, GROUPS)
    label = _first([name for name in few if name not in sensitive], LABELS)
    if not label:
        label = [name for name in few if name not in sensitive and values[name] == 2][-1:]
    drop = [name for name in table.column_names if _words(name) and _words(name)[0] in LEFT_OUT]
    return {"label": label, "sensitive": sensitive, "drop": [n for n in drop if n not in (*label, *sensitive)]}


def _first(names: Sequence[str], likely: Sequence[str]) -> list[str]:
    """Return the column with the most likely word in its name."""
    return next(([name] for word in likely for name in names if word in _words(name)), [])


def _values(column: pa.ChunkedArray) -> int:
    """Return how many different values the first records have; 0 if that cannot be told."""
    try:
        return len(column.slice(0, LOOKED_AT).unique().drop_null())
    except pa.ArrowNotImplementedError:  # a list, say: no role is for it
        return 0


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.lower())
