"""The groups of records that are encoded: found among those that the encoder was fitted with."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import GroupValue
from certifare.errors import EncoderError, GroupError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import INTERSECTION, UNKNOWN, name_of
from certifare.tables.frames import Field

UnknownGroupsRule: TypeAlias = Literal["refuse", "common"]


def check_unknown_groups(unknown_groups: Any) -> None:
    """Refuse what is no way to treat unknown groups."""
    if unknown_groups not in ("refuse", "common"):
        raise EncoderError(f"unknown_groups is {unknown_groups!r}; give 'refuse' or 'common'.")


def group_codes(
    fields: Sequence[Field], known: Sequence[GroupValue], column: str, unknown_groups: UnknownGroupsRule
) -> NDArray[np.uint16]:
    """Find each record's group among the known ones, by its name; ``len(known)`` stands for another, or for none.

    A file may hold as numbers what was text when the encoder was fitted: ``1`` and ``"1"`` are one group.

    Parameters
    ----------
    fields : sequence of Field
        The sensitive columns.
    known : sequence of groups
    column : str
        What the sensitive column is called, or several: ``sex × race``.
    unknown_groups : {"refuse", "common"}
        Whether other groups are allowed.
    """
    check_unknown_groups(unknown_groups)
    _check_columns(len(fields), known, column)
    place_of = {name_of(group): place for place, group in enumerate(known)}
    parts = [field.levels() for field in fields]
    shape = tuple(len(part.values) + 1 for part in parts)  # missing values come last
    joint = np.ravel_multi_index([part.codes % (len(part.values) + 1) for part in parts], shape)
    table = np.full(int(np.prod(shape)), len(known), dtype=np.uint16)
    others: Counter[str] = Counter()
    counts = np.bincount(joint, minlength=len(table))
    for i in np.flatnonzero(counts).tolist():
        found = [(*part.values, None)[j] for part, j in zip(parts, np.unravel_index(i, shape), strict=True)]
        # Whoever counted missing values as a group of their own called it so.
        name = name_of(tuple(UNKNOWN if value is None else value for value in found))
        if name in place_of:
            table[i] = place_of[name]
        else:
            others["missing" if None in found else repr(tuple(found) if len(found) > 1 else found[0])] += int(counts[i])
    if others and unknown_groups == "refuse":
        raise GroupError(
            f"{others.total():,} of {len(joint):,} records have a group that the encoder was not fitted with "
            f"({column!r}: {', '.join(f'{n:,} {name}' for name, n in others.most_common(5))}); it knows "
            f"{listing(known)}. Leave these records out, or give them the thresholds that the groups have in common: "
            'unknown_groups="common".'
        )
    groups: NDArray[np.uint16] = table[joint]
    return groups


def _check_columns(n: int, known: Sequence[GroupValue], column: str) -> None:
    """Refuse another number of columns than the groups were made from; they may come in one, by their joint names."""
    n_columns = len(known[0]) if isinstance(known[0], tuple) else column.count(INTERSECTION) + 1
    if n not in (1, n_columns):
        raise GroupError(f"The encoder reads the group from {n_columns} columns ({column!r}), and {n} were given.")
