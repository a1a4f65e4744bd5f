"""A column that is already there (a decision, a band, a score) as a representation, so that it can be certified.

The cells are the values of the column, or bins of a score. They are written as a small tree, which is saved, counted in
databases and verified as any other encoder.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from certifare.encoders.documents import ColumnDocument, Place, Rule, TreeDocument
from certifare.encoders.format import FORMAT
from certifare.encoders.loading import build_tree
from certifare.errors import ArgumentError, TableError
from certifare.foundation.formatting import amount, exact
from certifare.foundation.levels import plain
from certifare.foundation.version import __version__
from certifare.growth import Dictionary
from certifare.tables.frames import Value, read_arrow, read_values

if TYPE_CHECKING:
    from certifare.certificates import CellCounts
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.tree import FairTreeEncoder
    from certifare.tables.frames import ColumnType, Field

MOST_VALUES = 256
"""A column with more distinct values is refused: it is a quantity, of which only the bins that are used matter."""

VALUES = (
    "A cell is a value of the column {column!r}. The column has no values but those that were found; the lower limit "
    "rests on that, the bound does not."
)
CUTS = (
    "A cell is a bin of the column {column!r}, cut at {cuts}: each bin holds its upper end. The cuts were fixed before "
    "the certification records were drawn, and decisions use no more than the bin."
)


def column_encoder(column: Any, *, name: str = "column", cuts: Sequence[float] | None = None) -> FairTreeEncoder:
    """Make an encoder whose cells are the values of a column, or the bins of a score.

    Parameters
    ----------
    column : array, series or sequence
        Numbers, booleans or text. Without ``cuts``, a cell for each value that occurs, one for missing values, and one
        for any other.
    name : str
        What the column is called in tables that are encoded.
    cuts : sequence of float, optional
        Where a score is cut: ``(0.3, 0.6)`` makes the bins up to 0.3, above 0.3 up to 0.6, above 0.6, and one for
        missing values. Fix them before you look at certification records.

    Returns
    -------
    FairTreeEncoder

    Examples
    --------
    >>> import pyarrow as pa
    >>> encoder = column_encoder(["yes", "no", "no", None], name="decision")
    >>> encoder.n_cells_, encoder.apply(pa.table({"decision": ["no", "yes", None, "maybe"]})).tolist()
    (4, [0, 1, 2, 3])
    >>> encoder = column_encoder([0.1, 0.9], name="score", cuts=[0.5])
    >>> encoder.apply(pa.table({"score": [0.5, 0.7, None]})).tolist()
    [0, 1, 2]
    """
    field = read_column(column, name)
    return encoder_of(name, field.type, [] if cuts is not None else distinct_values(field), cuts)


def encoder_of_arrow(column: pa.ChunkedArray, name: str, cuts: Sequence[float] | None = None) -> FairTreeEncoder:
    """Make the encoder of an Arrow column, as :func:`column_encoder` does; only its distinct values are converted."""
    with contextlib.suppress(pa.ArrowNotImplementedError):  # of a type whose values Arrow cannot tell apart
        column = column.drop_null().unify_dictionaries().unique()
    field = read_arrow(column, name)
    return encoder_of(name, field.type, [] if cuts is not None else distinct_values(field), cuts)


def encoder_of(
    name: str, type_: ColumnType, values: Sequence[Value], cuts: Sequence[float] | None = None
) -> FairTreeEncoder:
    """Make the encoder of a column whose type and values are known, as :func:`column_encoder` does."""
    if cuts is not None:
        return build_tree(_document(name, type_, edges=_checked(name, type_, cuts)))
    if type_ == "boolean":
        return build_tree(_document(name, type_, edges=[0.0]))
    if len(values) > MOST_VALUES:
        number = type_ == "number"
        remedy = (
            "Name the cuts of the bins that are used, fixed before these records are looked at (--cuts 0.3,0.6; in "
            "Python cuts=)."
            if number
            else "Certify the column that the decision is made from, or group its values first."
        )
        raise ArgumentError(
            f"Column {name!r} has {len(values):,} different values, and {MOST_VALUES} are the most that are taken as "
            f"cells. {remedy}"
        )
    if not values:
        raise TableError(f"Column {name!r} has no value in any record.")
    return build_tree(_document(name, type_, categories=sorted(values)))


def words_of(encoder: RestrictedEncoder) -> tuple[str, ...]:
    """Say in a certificate what the cells of a column's encoder are; nothing if it is none."""
    if not encoder.is_column:
        return ()
    edges = _edges(encoder)
    words = VALUES if edges is None else CUTS
    cuts = "" if edges is None else ", ".join(map(exact, edges))
    return (words.format(column=encoder.columns_[0].name, cuts=cuts),)


def check_values(encoder: RestrictedEncoder, counts: CellCounts) -> None:
    """Refuse records whose value of the column was not there when its encoder was made: all such share one cell."""
    if not encoder.is_column or encoder.columns_[0].type == "boolean" or _edges(encoder) is not None:
        return
    new = int(counts.table[encoder.n_cells_ - 1].sum())
    if new:
        raise ArgumentError(
            f"{amount(new, 'record')} {'has a value' if new == 1 else 'have values'} of the column "
            f"{encoder.columns_[0].name!r} that were not there when it was certified. Rules on the column could tell "
            "them apart, and are not bounded here: certify the column again, on these records (certifare certify "
            "--column)."
        )


def _edges(encoder: RestrictedEncoder) -> Any:
    """Return the cuts of a score; None if cells are values."""
    (bins,) = encoder.bins_
    return None if encoder.columns_[0].type == "boolean" else getattr(bins, "edges", None)


def column_table(field: Field, name: str) -> pa.Table:
    """Give a column as a table that its encoder reads."""
    if isinstance(field.column, Dictionary):
        indices = pa.array(field.column.indices, mask=field.column.indices < 0)
        return pa.table({name: pa.DictionaryArray.from_arrays(indices, pa.array(field.column.values, pa.string()))})
    return pa.table({name: pa.array(field.column)})


def read_column(column: Any, name: str) -> Field:
    """Read what is one column."""
    fields = read_values(column, name)
    if len(fields) != 1:
        raise ArgumentError(f"Give one column, not {len(fields)}.")
    return fields[0]


def distinct_values(field: Field) -> list[Value]:
    """Values that occur, missing ones aside."""
    if isinstance(field.column, Dictionary):
        present = np.unique(field.column.indices[field.column.indices >= 0])
        return [field.column.values[i] for i in present]
    found = np.unique(field.numbers())
    return [plain(value) for value in found[~np.isnan(found)].tolist()]


def _checked(name: str, type_: ColumnType, cuts: Sequence[float]) -> list[float]:
    if type_ != "number":
        raise TableError(f"Column {name!r} holds no numbers, so it cannot be cut: leave the cuts out.")
    edges = [float(cut) for cut in cuts]
    if not edges or not all(map(math.isfinite, edges)) or any(a >= b for a, b in pairwise(edges)):
        raise ArgumentError(f"cuts={edges}: give one or more finite numbers in ascending order.")
    if len(edges) >= MOST_VALUES:
        raise ArgumentError(f"{len(edges):,} cuts are too many: {MOST_VALUES - 1} are the most.")
    return edges


def _document(
    name: str, type_: ColumnType, *, edges: list[float] | None = None, categories: list[Any] | None = None
) -> TreeDocument:
    """Write the tree that finds a column's value: each split parts one value, or bin, from those that follow."""
    values: list[Any] = edges or categories or []
    if edges is not None:
        rules = [Rule(2 * j, name, missing="right", at_most=edge) for j, edge in enumerate(edges)]
        # The last of the rest: numbers above all cuts go left, missing values right.
        rules.append(Rule(2 * len(values), name, missing="right"))
        places = [*values, values[-1], None]
    else:
        rules = [Rule(2 * j, name, missing="right", categories=[c], unseen="right") for j, c in enumerate(values)]
        rules.append(Rule(2 * len(values), name, missing="left", categories=[], unseen="right"))
        places = [*values, None, None]
    # Node 2j+1 is where split j leads; the others are inner nodes, of which the last is a cell too.
    nodes = [Place({name: None})]
    for j in range(len(rules)):
        nodes += [Place({name: places[j]}), Place({name: places[-1]})]
    return TreeDocument(
        format=FORMAT,
        version=1,
        certifare=__version__,
        parameters={"max_cells": len(rules) + 1, "min_cell_size": 1},
        named=True,
        columns=[ColumnDocument(name, type_, missing=True, edges=edges, categories=categories)],
        group_column="",
        groups=[],
        labels=[],
        splits=rules,
        nodes=nodes,
    )
