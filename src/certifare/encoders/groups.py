"""The groups of records that are encoded: found among those that the encoder was fitted with."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import GroupValue
from certifare.errors import EncoderError, SensitiveFeatureError, UnknownGroupError
from certifare.frames import Field, levels, listing
from certifare.growth import Dictionary

UnknownGroupsRule: TypeAlias = Literal["refuse", "common"]


def check_unknown_groups(unknown_groups: Any) -> None:
    """Refuse what is no way to treat unknown groups."""
    if unknown_groups not in ("refuse", "common"):
        raise EncoderError(f"unknown_groups is {unknown_groups!r}; give 'refuse' or 'common'.")


def group_codes(
    fields: Sequence[Field], known: Sequence[GroupValue], column: str, unknown_groups: UnknownGroupsRule
) -> NDArray[np.uint16]:
    """Find each record's group among the known ones; ``len(known)`` stands for another, or for none.

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
    n_columns = len(known[0]) if isinstance(known[0], tuple) else 1
    if len(fields) != n_columns:
        raise SensitiveFeatureError(
            f"The encoder reads the group from {n_columns} columns ({column!r}), and {len(fields)} were given."
        )
    place_of = {group if isinstance(group, tuple) else (group,): place for place, group in enumerate(known)}
    parts = [_levels(field) for field in fields]
    shape = tuple(len(values) for _, values in parts)
    joint = np.ravel_multi_index([codes for codes, _ in parts], shape)
    table = np.full(int(np.prod(shape)), len(known), dtype=np.uint16)
    others: Counter[str] = Counter()
    counts = np.bincount(joint, minlength=len(table))
    for i in np.flatnonzero(counts).tolist():
        found = tuple(values[j] for (_, values), j in zip(parts, np.unravel_index(i, shape), strict=True))
        if found in place_of:
            table[i] = place_of[found]
        else:
            others["missing" if None in found else repr(found if n_columns > 1 else found[0])] += int(counts[i])
    if others and unknown_groups == "refuse":
        raise UnknownGroupError(
            f"{others.total():,} of {len(joint):,} records have a group that the encoder was not fitted with "
            f"({column!r}: {', '.join(f'{n:,} {name}' for name, n in others.most_common(5))}); it knows "
            f"{listing(known)}. Leave these records out, or give them the thresholds that the groups have in common: "
            'unknown_groups="common".'
        )
    groups: NDArray[np.uint16] = table[joint]
    return groups


def _levels(field: Field) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes of a column's values, and the values; None, the last, stands for missing ones."""
    absent = field.missing()
    codes = np.zeros(len(field), dtype=np.int64)
    column = field.column
    kept = Dictionary(column.indices[~absent], column.values) if isinstance(column, Dictionary) else column[~absent]
    codes[~absent], values = levels(Field(field.name, kept, field.type, field.categorical), "group")
    codes[absent] = len(values)
    return codes, [*values, None]
