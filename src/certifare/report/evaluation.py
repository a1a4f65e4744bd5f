"""Evaluate an encoder for a report on records that were not used to fit it: feature importance and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from certifare.encoders.cellscores import calibration
from certifare.foundation.levels import name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from certifare.encoders import RestrictedEncoder
    from certifare.tables.table import Table

#: Limits the number of records whose columns are shuffled: about this many cells are computed, over all columns.
SHUFFLED = 60_000
FEWEST, MOST = 500, 5_000


def evaluate(
    encoder: RestrictedEncoder,
    table: Table,
    *,
    cells: NDArray[np.integer[Any]] | None = None,
    calibrated: bool = True,
) -> dict[str, Any]:
    """Evaluate an encoder on other records; return plain data.

    - ``cells``: of all records, if already known.
    - ``calibrated``: whether to compare scores with the frequencies of labels in each cell.
    """
    most = min(max(SHUFFLED // len(encoder.columns_), FEWEST), MOST, len(table))
    some = table.take(np.linspace(0, len(table) - 1, most).astype(np.int64))
    features = some.select([column.name for column in encoder.columns_])
    driven = encoder.importances(features, some.labels, sensitive_features=some.groups, repeats=1)
    groups = {"sensitive_features": some.groups} if encoder.reads_groups and encoder.sensitive is None else {}
    kept = encoder.retained_information(features, **groups)
    return {
        "importances": driven.to_dict(),
        "retained": {"records": len(some), "mean": kept.mean, "columns": _by_share(kept.columns)},
        "calibration": _calibration(encoder, table, cells)
        if calibrated and encoder.cell_statistics() is not None
        else None,
    }


def _by_share(columns: dict[str, float]) -> list[dict[str, Any]]:
    """Return columns with their shares, the largest first."""
    return [{"column": name, "share": share} for name, share in sorted(columns.items(), key=lambda item: -item[1])]


def _calibration(
    encoder: RestrictedEncoder, table: Table, cells: NDArray[np.integer[Any]] | None
) -> list[dict[str, Any]]:
    if cells is None:
        by_group = encoder.reads_groups and encoder.sensitive is None
        features = table.select([column.name for column in encoder.columns_])
        cells = encoder.apply(features, **({"sensitive_features": table.groups} if by_group else {}))
    counts = []
    for (_, values), label in zip(encoder.labels_, table.labels, strict=True):
        known = label.codes >= 0
        # The table's names are the names of the encoder's values.
        place = {name: i for i, name in enumerate(map(name_of, values))}
        codes = np.array([place.get(name, -1) for name in label.names], dtype=np.int64)[label.codes[known]]
        seen = codes >= 0
        flat = cells[known][seen].astype(np.int64) * len(values) + codes[seen]
        counts.append(np.bincount(flat, minlength=encoder.n_cells_ * len(values)).reshape(encoder.n_cells_, -1))
    return calibration(encoder.cell_scores(), encoder.labels_, counts)
