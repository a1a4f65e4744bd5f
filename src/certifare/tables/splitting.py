"""Split a table into a train, a select and a certify part.

The *certify* part is drawn first, stratified by group but not by label: within a group it is a simple random sample, so
its records are independent of the other parts, as the certificate requires. Stratifying it by label would tie its label
shares to those of the training records, so an encoder chosen on those would depend on it. The other parts are then
stratified by group and label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.errors import ArgumentError, RoleError
from certifare.foundation.randomness import stream
from certifare.tables.roles import Names, as_names
from certifare.tables.table import Table, as_numbers, table_of

#: Default share of each part.
PARTS = {"train": 0.5, "select": 0.1, "certify": 0.4}
#: Name of the part whose records must be independent of all others.
CERTIFY = "certify"


def split(
    table: Table, parts: Mapping[str, float] = PARTS, seed: int = 0, *, by_group: bool = True
) -> dict[str, NDArray[np.int64]]:
    """Assign each record, or each whole cluster, to exactly one part; return the rows of each part.

    - ``parts``: shares are positive and add up to 1. A part named ``certify`` is drawn as described above.
    - ``seed``: different tables are split independently even with the same one, because the random stream also depends
      on their records.
    - ``by_group``: whether to stratify by group. If not, the other parts carry no information about the certify part.

    >>> import pandas as pd
    >>> people = pd.DataFrame({"x": range(100), "s": ["f", "m"] * 50, "y": [0, 0, 1, 1] * 25})
    >>> rows = split(Table.from_frame(people, label="y", sensitive="s"))
    >>> {name: len(part) for name, part in rows.items()}
    {'train': 50, 'select': 10, 'certify': 40}
    """
    names, shares = _checked(parts)
    rng = stream(seed, "split", table.records)
    # Units are records, or clusters; each has a group and a stratum (its group and labels).
    # Groups of one of several attributes are independent draws only if their intersections are not balanced.
    by_group = by_group and not table.roles.each
    unit, groups, strata = _units(table if by_group else replace(table, groups=None))
    part = np.full(len(strata), -1, dtype=np.int64)
    rest = np.arange(len(strata))
    others = [i for i, name in enumerate(names) if name != CERTIFY]
    if CERTIFY in names:
        certify = names.index(CERTIFY)
        drawn = _allocate(groups, [shares[certify], 1 - shares[certify]], rng) == 0
        part[drawn] = certify
        rest = np.flatnonzero(~drawn)
    if others:
        remaining = np.array([shares[i] for i in others])
        part[rest] = np.array(others)[_allocate(strata[rest], (remaining / remaining.sum()).tolist(), rng)]
    of_record = part[unit]
    rows = {name: np.flatnonzero(of_record == i) for i, name in enumerate(names)}
    empty = [name for name, part_rows in rows.items() if not len(part_rows)]
    if empty:
        what = "clusters" if table.clusters is not None else "records"
        raise ArgumentError(
            f"Too few {what} ({len(strata):,}) to split into {', '.join(names)}: {empty[0]!r} would be empty. "
            f"Add {what}."
        )
    return rows


def training_quantiles(
    table: Any,
    n: int,
    *,
    label: Names,
    parts: Mapping[str, float] = PARTS,
    seed: int = 0,
    by_group: bool = True,
    **roles: Any,
) -> tuple[float, ...]:
    """Return the quantiles of a numeric label in the train and select parts, which cut it into bands of similar size.

    Certification records are not used. The certify part is the same as in a later split with these bands as labels,
    because it is drawn first, without the labels, from a random stream that does not depend on roles. There are fewer
    than n − 1 cuts if many records have the same value.
    """
    names = as_names(label)
    if n < 2 or len(names) != 1:
        raise RoleError("Quantiles need one label column and at least two bands.")
    features = {"feature": names, "categorical": (), "drop": ()}
    whole = table_of(table, **{**roles, **features})
    column = whole.features.column(0)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise RoleError(f"Column {names[0]!r} holds {column.type}: quantiles need numbers.")
    rows = split(whole, parts, seed, by_group=by_group)
    numbers = as_numbers(column)[np.concatenate([rows[p] for p in rows if p != CERTIFY])]
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        raise RoleError(f"Column {names[0]!r} has no value in any training record.")
    cuts = np.unique(np.quantile(numbers, np.arange(1, n) / n, method="higher"))
    return tuple(float(cut) for cut in cuts if cut > numbers.min())


def _checked(parts: Mapping[str, float]) -> tuple[list[str], list[float]]:
    names, shares = list(parts), [float(share) for share in parts.values()]
    if not names or not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        shown = ", ".join(f"{name}: {share:g}" for name, share in zip(names, shares, strict=True))
        raise ArgumentError(f"Shares of the parts must be positive and add up to 1; got {shown or 'none'}.")
    return names, shares


def _units(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the unit of each record, the group of each unit, and the stratum (group and labels) of each unit."""
    groups = np.zeros(len(table), dtype=np.int64) if table.groups is None else table.groups.codes
    strata = groups
    for values in table.labels:
        # Records without a label, whose code is −1, form their own stratum.
        strata = np.unique(strata * (len(values.names) + 1) + values.codes + 1, return_inverse=True)[1]
    if table.clusters is None:
        return np.arange(len(table)), groups, strata
    _, first, unit = np.unique(table.clusters, return_index=True, return_inverse=True)
    # If clusters mix groups, stratifying by group would make the certify part depend on the other parts.
    pure = bool((groups == groups[first][unit]).all())
    return unit, groups[first] if pure else np.zeros(len(first), dtype=np.int64), strata[first]


def _allocate(strata: NDArray[np.int64], shares: Sequence[float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose a part for each unit at random within its stratum, with sizes as close to the shares as possible.

    A part that loses records to rounding in one stratum gets them back in the next, so that the totals are right too.
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
