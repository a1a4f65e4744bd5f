"""The groups of records that are encoded: found among those that the encoder was fitted with."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import GroupValue
from certifare.errors import GroupError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import INTERSECTION, UNKNOWN, name_of
from certifare.tables.frames import Field


def group_codes(
    fields: Sequence[Field], known: Sequence[GroupValue], column: str, other: str | None = None
) -> NDArray[np.uint16]:
    """Find each record's group among the known ones, by its name; refuse records of another group, or of none.

    A file may hold as numbers what was text when the encoder was fitted: ``1`` and ``"1"`` are one group.

    - ``other``: the known group that pools all others; records of none are refused all the same.
    """
    n_columns = len(known[0]) if isinstance(known[0], tuple) else column.count(INTERSECTION) + 1
    if len(fields) not in (1, n_columns):  # they may come in one, by their joint names
        raise GroupError(
            f"The encoder reads the group from {n_columns} columns ({column!r}), and {len(fields)} were given."
        )
    place_of = {name_of(group): place for place, group in enumerate(known)}
    parts = [field.levels() for field in fields]
    shape = tuple(len(part.values) + 1 for part in parts)  # missing values come last
    joint = np.ravel_multi_index([part.codes % (len(part.values) + 1) for part in parts], shape)
    table = np.full(int(np.prod(shape)), len(known), dtype=np.uint16)
    others: Counter[str] = Counter()
    counts = np.bincount(joint, minlength=len(table))
    for i in np.flatnonzero(counts).tolist():
        found = [(*part.values, None)[j] for part, j in zip(parts, np.unravel_index(i, shape), strict=True)]
        # If missing values were counted as a group, it has this name.
        name = name_of(tuple(UNKNOWN if value is None else value for value in found))
        if name in place_of:
            table[i] = place_of[name]
        elif other is not None and None not in found:
            table[i] = place_of[other]
        else:
            others["missing" if None in found else repr(tuple(found) if len(found) > 1 else found[0])] += int(counts[i])
    if others:
        raise GroupError(
            f"{others.total():,} of {len(joint):,} records have a group that the encoder was not fitted with "
            f"({column!r}: {', '.join(f'{n:,} {name}' for name, n in others.most_common(5))}); it knows "
            f"{listing(known)}. Only these have thresholds: leave the other records out."
        )
    groups: NDArray[np.uint16] = table[joint]
    return groups
