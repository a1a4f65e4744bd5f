"""The groups of records that are encoded: found among those that the encoder was fitted with."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import GroupValue
from certifare.errors import EncoderError, SensitiveFeatureError, UnknownGroupError
from certifare.frames import Field, listing
from certifare.levels import intersect

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
    groups = intersect([field.levels() for field in fields])
    places = groups.places(known)
    counts = groups.counts().tolist()
    others = Counter({repr(groups.values[i]): counts[i] for i in np.flatnonzero(places[:-1] < 0)})
    if groups.missing.any():
        others["missing"] += int(groups.missing.sum())
    if others and unknown_groups == "refuse":
        raise UnknownGroupError(
            f"{others.total():,} of {len(groups):,} records have a group that the encoder was not fitted with "
            f"({column!r}: {', '.join(f'{n:,} {name}' for name, n in others.most_common(5))}); it knows "
            f"{listing(known)}. Leave these records out, or give them the thresholds that the groups have in common: "
            'unknown_groups="common".'
        )
    return np.where(places < 0, len(known), places).astype(np.uint16)[groups.codes]
