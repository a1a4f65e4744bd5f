"""What a report shows of an encoder, read from its published file: cells in words, and the tree or the map to draw."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np

from certifare.encoders import load_encoder
from certifare.encoders.document import BoostedDocument, Document, Rule, TreeDocument, read_document

#: Of a long list of categories this many are named at a split.
MOST_NAMED = 5


def describe_encoder(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Describe an encoder's file in plain data, for :func:`certifare.report.report_data`.

    Parameters
    ----------
    path : path
        ``encoder.json``.

    Returns
    -------
    dict
        ``kind``, ``parameters``, ``columns``, ``labels``, ``group_column``, ``cells`` (each with its rules), and for
        a tree ``nodes``, for a boosted encoder ``map``.
    """
    document = read_document(path)
    cells = load_encoder(path).describe()
    return {
        "kind": {"TreeDocument": "fair tree", "BoostedDocument": "boosted"}.get(type(document).__name__, "k-means"),
        "parameters": {name: value for name, value in document.parameters.items() if _plain(value)},
        "columns": [column.name for column in document.columns],
        "labels": [label.name for label in document.labels],
        "group_column": document.group_column,
        "cells": [{"cell": cell.cell, "rules": list(cell.rules)} for cell in cells],
        "nodes": _tree(document) if isinstance(document, TreeDocument) else None,
        "map": _map(document) if isinstance(document, BoostedDocument) else None,
    }


def _plain(value: Any) -> bool:
    return isinstance(value, int | float | str)


def _tree(document: TreeDocument) -> list[dict[str, Any]]:
    """List the nodes from top to bottom and left to right: what is asked, and the cell at the end of each path."""
    split_of = {rule.node: j for j, rule in enumerate(document.splits)}
    nodes: list[dict[str, Any]] = []
    n_cells = 0
    stack = [(0, 0, "")]
    while stack:
        node, depth, answer = stack.pop()
        j = split_of.get(node)
        entry: dict[str, Any] = {"depth": depth, "answer": answer, "question": None, "cell": None}
        if j is None:
            entry["cell"], n_cells = n_cells, n_cells + 1
        else:
            entry["question"] = _question(document, document.splits[j])
            entry["column"] = document.splits[j].column
            stack += [(2 * j + 2, depth + 1, "no"), (2 * j + 1, depth + 1, "yes")]
        nodes.append(entry)
    return nodes


def _question(document: Document, rule: Rule) -> str:
    """Say in words what goes left."""
    may_be_missing = any(column.missing for column in document.columns if column.name == rule.column)
    if rule.categories is not None:
        names = [str(category) for category in rule.categories]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        text = f"{rule.column} is {', '.join(names[:MOST_NAMED]) + more or 'rare or new'}"
    elif rule.at_most is None:
        text = f"{rule.column} is known"
    else:
        text = f"{rule.column} ≤ {rule.at_most:.6g}"
    return f"{text}, or missing" if rule.missing == "left" and may_be_missing else text


def _map(document: BoostedDocument) -> dict[str, Any] | None:
    """Return the grid of cells over the first axis of each side; other axes are seen through.

    Where there are more axes (several labels or groups) or clusters, a square shows the cell that most of the squares
    behind it belong to.
    """
    cell_of = _cells_of_leaves(document)
    shape = [len(axis.coordinates) for axis in document.axes]
    n_clusters = 1 if document.clusters is None else len(document.clusters.centres)
    label = next(i for i, axis in enumerate(document.axes) if axis.side == "label")
    group = next(i for i, axis in enumerate(document.axes) if axis.side == "group")
    squares = np.array([cell_of[leaf] for leaf in document.squares]).reshape(*shape, n_clusters)
    columns = np.moveaxis(squares, (label, group), (0, 1)).reshape(shape[label], shape[group], -1)
    return {
        "x": {"name": document.axes[label].name, "places": list(document.axes[label].coordinates)},
        "y": {"name": document.axes[group].name, "places": list(document.axes[group].coordinates)},
        "cells": [[Counter(column.tolist()).most_common(1)[0][0] for column in row] for row in columns],
        "flattened": columns.shape[2] > 1,
    }


def _cells_of_leaves(document: BoostedDocument) -> dict[int, int]:
    """Return the cell of each leaf: they are numbered from left to right."""
    children = {parent: (2 * j + 1, 2 * j + 2) for j, parent in enumerate(document.parents)}
    cell_of: dict[int, int] = {}
    stack = [0]
    while stack:
        node = stack.pop()
        if node in children:
            left, right = children[node]
            stack += [right, left]
        else:
            cell_of[node] = len(cell_of)
    return cell_of
