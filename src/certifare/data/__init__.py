"""The Adult table that comes with the package (UCI; Becker & Kohavi 1996; CC BY 4.0, see ATTRIBUTION.md)."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from certifare.tables.table import Table


def adult() -> Table:
    """Return Adult: 48,842 people, with the label *income* (above 50,000 dollars) and the sensitive column *sex*.

    ``fnlwgt`` (a sampling weight) and ``split`` are left out.

    Examples
    --------
    >>> from certifare.data import adult
    >>> table = adult()
    >>> len(table), table.groups.names, table.labels[0].names
    (48842, ('Female', 'Male'), ('<=50K', '>50K'))
    """
    from certifare.tables.table import read_table

    with as_file(files(__name__) / "adult.parquet") as path:
        return read_table(path, label="income", sensitive="sex", drop=("fnlwgt", "split"))
