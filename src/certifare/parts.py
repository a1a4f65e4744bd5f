"""Train, select, certify: each record in one part, the parts alike.

The *certify* part is drawn first, and by group alone: within a group it is a simple random sample, so its records are
independent of all that happens to the others, which is what the certificate asks for. Drawn by label too, its label
shares would be tied to those of the training records, and an encoder chosen on the latter would have seen a little of
it. All other parts are then stratified by group and label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from certifare.errors import SplitError
from certifare.randomness import stream
from certifare.table import Table

#: Shares of the records in each part, unless others are named.
PARTS = {"train": 0.5, "select": 0.1, "certify": 0.4}
#: The part whose records must be independent of all others.
CERTIFY = "certify"


def split(table: Table, parts: Mapping[str, float] = PARTS, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Assign each record to exactly one part.

    Parameters
    ----------
    table : Table
        With clusters, whole clusters are assigned.
    parts : mapping of name to share
        Shares are positive and add up to 1. A part named ``certify`` is drawn as this module describes.
    seed : int

    Returns
    -------
    dict of name to ndarray of int64
        Rows of each part, in the table's order.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare.parts import split
    >>> from certifare.table import Table
    >>> people = pd.DataFrame({"x": range(100), "s": ["f", "m"] * 50, "y": [0, 0, 1, 1] * 25})
    >>> rows = split(Table.from_frame(people, label="y", sensitive="s"))
    >>> {name: len(part) for name, part in rows.items()}
    {'train': 50, 'select': 10, 'certify': 40}
    """
    names, shares = _checked(parts)
    rng = stream(seed, "split")
    # Units are records, or clusters, each with a group, a label and the records that belong to it.
    unit, groups, strata = _units(table)
    part = np.full(len(strata), -1, dtype=np.int64)
    rest = np.arange(len(strata))
    others = list(range(len(names)))
    if CERTIFY in names:
        others.remove(names.index(CERTIFY))
        drawn = _allocate(groups, [shares[names.index(CERTIFY)], 1 - shares[names.index(CERTIFY)]], rng) == 0
        part[drawn] = names.index(CERTIFY)
        rest = np.flatnonzero(~drawn)
    if others:
        remaining = np.array([shares[i] for i in others])
        part[rest] = np.array(others)[_allocate(strata[rest], (remaining / remaining.sum()).tolist(), rng)]
    of_record = part[unit]
    rows = {name: np.flatnonzero(of_record == i) for i, name in enumerate(names)}
    empty = [name for name, part_rows in rows.items() if not len(part_rows)]
    if empty:
        what = "clusters" if table.clusters is not None else "records"
        raise SplitError(
            f"{len(strata):,} {what} are too few to split into {', '.join(names)}: {empty[0]!r} would be empty."
        )
    return rows


def _checked(parts: Mapping[str, float]) -> tuple[list[str], list[float]]:
    names, shares = list(parts), [float(share) for share in parts.values()]
    if not names or not all(0 < share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        shown = ", ".join(f"{name}: {share:g}" for name, share in zip(names, shares, strict=True))
        raise SplitError(f"Shares of the parts must be positive and add up to 1; got {shown or 'none'}.")
    return names, shares


def _units(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find the unit of each record; the group of each unit; the group and labels of each unit."""
    groups = np.zeros(len(table), dtype=np.int64) if table.groups is None else table.groups.codes
    strata = groups
    for values in table.labels:
        # Records without a label, whose code is −1, are a stratum of their own.
        strata = np.unique(strata * (len(values.names) + 1) + values.codes + 1, return_inverse=True)[1]
    if table.clusters is None:
        return np.arange(len(table)), groups, strata
    _, first, unit = np.unique(table.clusters, return_index=True, return_inverse=True)
    # Clusters of several groups cannot be drawn by group without tying their make-up to that of the other parts.
    pure = bool((groups == groups[first][unit]).all())
    return unit, groups[first] if pure else np.zeros(len(first), dtype=np.int64), strata[first]


def _allocate(strata: NDArray[np.int64], shares: Sequence[float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose a part for each unit: at random within a stratum, in numbers as close to the shares as whole ones can be.

    What rounding takes from a part in one stratum is given back in the next, so that totals are right as well.
    """
    part = np.empty(len(strata), dtype=np.int64)
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    boundaries = np.flatnonzero(np.diff(strata[order], prepend=-1, append=-1))
    carried = np.zeros(len(shares))
    for start, end in pairwise(boundaries):
        wanted = np.asarray(shares) * (end - start) + carried
        sizes = np.maximum(np.floor(wanted), 0).astype(np.int64)
        while sizes.sum() > end - start:
            sizes[np.argmax(np.where(sizes > 0, sizes - wanted, -np.inf))] -= 1
        for i in np.argsort(sizes - wanted, kind="stable")[: end - start - sizes.sum()]:
            sizes[i] += 1
        carried = wanted - sizes
        part[order[start:end]] = np.repeat(np.arange(len(shares)), sizes)
    return part
