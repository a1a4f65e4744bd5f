"""Checks of a table before an encoder is fitted: what makes a result impossible, wrong or useless.

Every job runs them at its start, so ``fit`` and ``check`` say the same. Nothing here uses the
certification records, except how many there are of each group and label.
"""

from __future__ import annotations

import shlex
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.hashes import count_repeats
from certifare.errors import ArgumentError, GroupError, RoleError
from certifare.foundation.levels import Levels, sort_key
from certifare.growth.columns import Dictionary
from certifare.tables.frames import Field, Frame
from certifare.tables.quality import FEW_NUMBERS, TableFinding
from certifare.tables.table import Table, refuse_quantity, suggest_comparison

#: A sensitive column of more numbers than this is perhaps a quantity; of more than FEW_NUMBERS, it is refused.
MANY_NUMBERS = 12
#: A column that removes this share of the errors of always predicting the commonest label is nearly a copy of it.
NEAR_COPY = 0.95
#: At most this many training records are searched for copies, and a column of more values is cut into this many bins.
LEAK_RECORDS, LEAK_BINS = 20_000, 256
#: A group with fewer certification records makes T* large.
SMALL_GROUP = 100
#: A column with a larger share of missing values is mentioned.
MOSTLY_MISSING = 0.5


def check_roles(table: Table, *, labelled: bool = True) -> None:
    """Refuse a table without groups, or without a label, that something can be learnt about."""
    if labelled and not table.labels:
        raise RoleError("The table has no label: name one, so that encoders know what to keep.")
    if table.roles.given is not None and len(table.strata.values) < 2:
        raise RoleError(f"--given {table.roles.given} has one value only: leave it out.")
    for label in table.labels:
        refuse_quantity(label.name, label.names, "label")
        if len(label.values) < 2:
            found = f"one value only, {label.names[0]!r}" if label.values else "no value in any record"
            raise RoleError(f"The label {label.name!r} has {found}: there is nothing to predict.")
        _refuse_numbers(label, "label", "class")
    groups = table.groups
    if groups is None:
        raise GroupError("The table has no groups: name a sensitive column.")
    refuse_quantity(groups.name, groups.names, "sensitive column")
    if len(groups.names) < 2:
        raise GroupError(
            f"The sensitive column {groups.name!r} has one group only, {groups.names[0]!r}: a distance between groups "
            "needs two."
        )
    _refuse_numbers(groups, "sensitive column", "group")


def _refuse_numbers(levels: Levels, role: str, each: str) -> None:
    """Refuse a label or a sensitive column of many numbers, perhaps with a few texts that mean missing."""
    if len(levels.names) <= FEW_NUMBERS:
        return
    numbers = [float(name) for name in levels.names if sort_key(name)[0] == 0]
    texts = [name for name in levels.names if sort_key(name)[0] != 0]
    if len(numbers) <= 0.9 * len(levels.names):
        return
    suggested = suggest_comparison(levels.name, numbers, role)
    but = f" Name the text for missing values first (--missing {shlex.quote(texts[0])})." if texts else ""
    raise RoleError(
        f"The {role} {levels.name!r} has {len(numbers)} different numbers, and each would be a {each}.{but}{suggested} "
        "If they are codes, write them as text."
    )


def suggested_comparison(groups: Levels) -> str:
    """Suggest a comparison if groups are many numbers; return "" otherwise."""
    numbers = [float(name) for name in groups.names if sort_key(name)[0] == 0]
    if len(groups.names) <= MANY_NUMBERS or len(numbers) < len(groups.names):
        return ""
    return suggest_comparison(groups.name, numbers, "sensitive column")


def check_part(table: Table, part: str) -> None:
    """Refuse a part of the table in which a group has no record with a label."""
    assert table.groups is not None  # noqa: S101  (checked at the start)
    found = table.groups.codes[table.labelled]
    lacking = np.flatnonzero(np.bincount(found, minlength=len(table.groups.names)) == 0)
    if len(lacking):
        raise ArgumentError(
            f"Group {table.groups.names[lacking[0]]!r} has no record with a label in the {part} part: pool it with "
            "another group, or add records of it."
        )


def check_repeats(table: Table) -> tuple[str, ...]:
    """Refuse a table most of whose records repeat, before it is split: equal ones would be on both sides.

    Returns what the certificate says of fewer. With clusters, equal records of one of them stay on one side.
    """
    if table.clusters is not None:
        return ()
    roles = (*table.labels, *([] if table.groups is None else [table.groups]))
    return count_repeats(Frame(table.features).fields(), [values.codes for values in roles]).check()


def group_findings(groups: Levels, sizes: NDArray[np.int64], pooling: str) -> list[TableFinding]:
    """Find groups that are many numbers, and groups with few certification records; say how to pool these."""
    found = []
    if suggested := suggested_comparison(groups):
        each = f"each of the {len(groups.names)} values of {groups.name!r} is a group of its own."
        found.append(TableFinding("warning", groups.name, each + suggested))
    for _, same in groupby(sorted(groups.names, key=str.casefold), key=str.casefold):
        if len(alike := [repr(name) for name in same]) > 1:
            text = f"{' and '.join(alike)} differ in upper and lower case only, and each is a group of its own"
            found.append(TableFinding("warning", groups.name, text, "write them alike if they mean the same"))
    small = [f"{name!r} ({n:,})" for name, n in zip(groups.names, sizes.tolist(), strict=True) if n < SMALL_GROUP]
    if small:
        least = 0.8 / np.sqrt(max(1, int(sizes.min())))  # the radius at 95 %, of the smallest group alone
        found.append(
            TableFinding(
                "warning",
                groups.name,
                f"few certification records of {', '.join(small)}: T* cannot be much below {min(1.0, least):.2f}",
                f"add records, or {pooling}",
            )
        )
    return found


def training_findings(train: Table) -> list[TableFinding]:
    """Find features that are nearly copies of the label, or mostly missing, among training records."""
    found = []
    sample = train.take(np.flatnonzero(train.trainable)[:LEAK_RECORDS])
    for field in Frame(sample.features).fields():
        name, codes = field.name, _codes(field)
        missing = float((codes == 0).mean()) if len(codes) else 0.0
        if missing > MOSTLY_MISSING:
            found.append(TableFinding("note", name, f"{name!r}: {missing:.0%} of the values are missing"))
        for label in sample.labels:
            if _explained_errors(codes, label.codes) >= NEAR_COPY:
                found.append(
                    TableFinding(
                        "warning",
                        name,
                        f"{name!r} alone predicts {label.name!r} almost without error: it may be a copy of the label, "
                        "or be known only after it",
                        f"leave it out (--drop {name}) if it is not known when decisions are made",
                    )
                )
    return found


def _codes(field: Field) -> NDArray[np.int64]:
    """Return the values of a column as numbers of categories or bins; 0 is missing."""
    if isinstance(field.column, Dictionary):
        return np.asarray(field.column.indices, dtype=np.int64) + 1
    values = np.asarray(field.column, dtype=np.float64)
    known = values[~np.isnan(values)]
    edges = np.unique(known)
    if len(edges) > LEAK_BINS:
        edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, LEAK_BINS)))
    return np.where(np.isnan(values), 0, np.searchsorted(edges, values, side="right") + 1).astype(np.int64)


def _explained_errors(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the share of the errors of the commonest label that a vote by value avoids, each record left out."""
    if not len(codes):
        return 0.0
    counts = np.zeros((int(codes.max()) + 1, int(labels.max()) + 1), dtype=np.int64)
    np.add.at(counts, (codes, labels), 1)
    others = counts[codes]  # a copy
    others[np.arange(len(codes)), labels] -= 1
    wrong = int(((others.argmax(axis=1) != labels) | (others.sum(axis=1) == 0)).sum())
    base = len(labels) - int(np.bincount(labels).max())
    return 1.0 - wrong / base if base else 0.0
