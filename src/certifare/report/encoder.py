"""Describe an encoder for a report, from its document: rules of the cells, and the tree or the score map to draw."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from certifare.encoders.documents import BoostedDocument, CalibratedDocument, Rule, TreeDocument
from certifare.encoders.format import EncoderFile
from certifare.encoders.loading import describe_document, map_of

if TYPE_CHECKING:
    from certifare.encoders import RestrictedEncoder

#: Number of categories that are named at a split; longer lists are cut.
MOST_NAMED = 5
#: A tree with more nodes, or deeper than this, is not drawn: it would fill pages, and the rules of the cells suffice.
MOST_NODES, DEEPEST = 4_000, 100
KINDS: dict[type, str] = {
    TreeDocument: "fair tree",
    BoostedDocument: "boosted",
    CalibratedDocument: "calibrated",
}


def describe_encoder(encoder: RestrictedEncoder | str | os.PathLike[str]) -> dict[str, Any]:
    """Describe an encoder as plain data, for :func:`certifare.report.report_data`.

    Parameters
    ----------
    encoder : RestrictedEncoder or path
        A fitted encoder, or its file ``encoder.json``.

    Returns
    -------
    dict
        ``kind``, ``reads_groups``, ``cells`` (each with its rules and figures of its training records), and for a tree
        ``nodes`` (unless it is too large to draw), for a boosted encoder ``map``.
    """
    document = EncoderFile.of(encoder).document if isinstance(encoder, str | os.PathLike) else encoder.to_document()
    return {
        "kind": KINDS[type(document)],
        "reads_groups": document.reads_groups,
        "cells": [{**asdict(cell), "rules": list(cell.rules)} for cell in describe_document(document)],
        "nodes": _tree(document) if isinstance(document, TreeDocument) else None,
        "map": _map(document) if isinstance(document, BoostedDocument) else None,
    }


def _tree(document: TreeDocument) -> list[dict[str, Any]] | None:
    """Return the nodes from top to bottom and left to right: their questions, and the cell at the end of each path."""
    if 2 * len(document.splits) + 1 > MOST_NODES:
        return None
    split_of = {rule.node: j for j, rule in enumerate(document.splits)}
    may_be_missing = {column.name for column in document.columns if column.missing}
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
            rule = document.splits[j]
            entry["question"] = f"{rule.column} {_question(rule, rule.column in may_be_missing)}"
            stack += [(2 * j + 2, depth + 1, "no"), (2 * j + 1, depth + 1, "yes")]
        nodes.append(entry)
    return nodes if max(node["depth"] for node in nodes) <= DEEPEST else None


def _question(rule: Rule, may_be_missing: bool) -> str:
    """Describe what goes left."""
    if rule.categories is not None:
        shown = [str(category) for category in rule.categories[:MOST_NAMED]]
        more = f" and {len(rule.categories) - MOST_NAMED} more" if len(rule.categories) > MOST_NAMED else ""
        text = f"is {', '.join(shown) + more or 'rare or new'}"
    else:
        text = "is known" if rule.at_most is None else f"≤ {rule.at_most:.6g}"
    return f"{text}, or missing" if rule.missing == "left" and may_be_missing else text


def _map(document: BoostedDocument) -> dict[str, Any]:
    """Return the grid of cells over the first axis of each side.

    If there are more axes (several labels or groups) or clusters, a square shows the most common cell among the squares
    behind it.
    """
    label = next(i for i, axis in enumerate(document.axes) if axis.side == "label")
    group = next(i for i, axis in enumerate(document.axes) if axis.side == "group")
    squares = np.moveaxis(map_of(document), (label, group), (0, 1))
    columns = squares.reshape(*squares.shape[:2], -1)
    return {
        "x": {"name": document.axes[label].name, "places": list(document.axes[label].coordinates)},
        "y": {"name": document.axes[group].name, "places": list(document.axes[group].coordinates)},
        "cells": [[Counter(column.tolist()).most_common(1)[0][0] for column in row] for row in columns],
        "flattened": columns.shape[2] > 1,
    }
