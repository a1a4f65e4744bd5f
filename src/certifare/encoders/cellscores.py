"""Scores of records: how often each label occurred among the training records of a record's cell.

A score is a function of the cell, so the certificate of the cells bounds it too. It is made from the shares that are
published with an encoder, rounded as they are there: an encoder that was saved and read back gives the same scores.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.description import Statistics, published
from certifare.errors import EncoderError
from certifare.foundation.levels import name_of
from certifare.tables.frames import Value

#: How many records of average behaviour are added to a cell before its shares are taken: no score is 0 or 1.
SMOOTHING = 5.0


def cell_scores(statistics: Statistics | None, labels: Sequence[str]) -> tuple[NDArray[np.float64], ...]:
    """Give the score of each class in each cell, for each label column: (cells, classes), rows add up to 1."""
    if not labels:
        raise EncoderError("The encoder was fitted without labels, so it has no scores: fit it with y.")
    if statistics is None:
        raise EncoderError(
            "The encoder was saved without its cells' statistics, so it has no scores. Ask the producer for a file "
            "with them (encoder.save(path); certifare fit without --suppress)."
        )
    sizes = statistics.records.astype(np.float64)[:, None]
    return tuple(_smoothed(sizes, published(shares)) for shares in statistics.labels)


def score_names(labels: Sequence[tuple[str, Sequence[Value]]]) -> list[tuple[str, int, int]]:
    """Name the columns of scores: one for a label of two values, that of the second; else one for each value."""
    found: dict[str, tuple[int, int]] = {}
    for i, (label, values) in enumerate(labels):
        for j in range(len(values)) if len(values) != 2 else (1,):
            name = f"score_{label}" if len(values) == 2 else f"score_{label}_{name_of(values[j])}"
            while name in found:
                name += "_"
            found[name] = i, j
    return [(name, *place) for name, place in found.items()]


def calibration(
    scores: Sequence[NDArray[np.float64]],
    labels: Sequence[tuple[str, Sequence[Value]]],
    counts: Sequence[NDArray[np.int64]],
) -> list[dict[str, Any]]:
    """Compare the scores of cells with the frequencies of labels among other records, as plain data."""
    found = []
    for _, i, j in score_names(labels):
        sizes = counts[i].sum(axis=1)
        shares = counts[i][:, j] / np.maximum(sizes, 1)
        error = (sizes * np.abs(scores[i][:, j] - shares)).sum() / max(int(sizes.sum()), 1)
        cells = [
            {"cell": cell, "score": float(score), "records": int(n), "share": float(share) if n else None}
            for cell, (score, n, share) in enumerate(zip(scores[i][:, j], sizes, shares, strict=True))
        ]
        name, values = labels[i]
        found.append({"label": name, "value": name_of(values[j]), "error": float(error), "cells": cells})
    return found


def _smoothed(sizes: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw each cell a little towards all records."""
    counts = sizes * shares
    # A file may say that there was no record at all; then every class is as likely.
    average = counts.sum(axis=0) / counts.sum() if counts.any() else np.full(counts.shape[1], 1.0 / counts.shape[1])
    drawn = counts + SMOOTHING * average
    scores: NDArray[np.float64] = drawn / drawn.sum(axis=1, keepdims=True)
    return scores
