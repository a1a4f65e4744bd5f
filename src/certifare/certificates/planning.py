"""Plans of calibrated cells: the T* that a number of records allows, and the records that a target needs.

Both follow from :mod:`~certifare.certificates.calibrated` before any record is looked at. Cells here hold equal shares
of every group; a fitted plan gives some cells more, and spends a part of the target on order between groups.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.calibrated import DRAWS, MOST_RECORDS, Gaps, calibrated_bound, forecast_bound
from certifare.certificates.rounding import round_up_digits
from certifare.errors import ArgumentError

#: Numbers of cells that a table of plans shows.
PLANNED_CELLS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
#: A plan is drawn with fewer tables than a certificate: its T* is valid, and about one percent larger.
_DRAWS = DRAWS // 10


def equal_gaps(sizes: Sequence[int], cells: int) -> Gaps:
    """Return gaps of cells that hold equal shares of every group, as nearly as whole numbers allow.

    >>> equal_gaps([8, 10], 2).tolist()
    [[4, 5], [5, 6]]
    """
    ends = np.arange(cells + 1)
    return np.diff([(size + 1) * ends // cells for size in sizes], axis=1).T.astype(np.int64)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One line of a table of plans."""

    cells: int
    bound: float
    needed: int | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Plain data, ready for JSON."""
        return {"cells": self.cells, "bound": self.bound, "records_needed": self.needed}


def plan_table(
    sizes_by_group: Mapping[str, int],
    cells: Sequence[int] = PLANNED_CELLS,
    epsilon: float = 0.05,
    *,
    target: float | None = None,
) -> tuple[PlanRow, ...]:
    """Return T* by the number of cells, for numbers of records that are planned or at hand. Nothing is fitted.

    >>> [(row.cells, round(row.bound, 3)) for row in plan_table({"f": 320, "m": 480}, cells=(2, 6))]
    [(2, 0.071), (6, 0.103)]
    """
    sizes = _check_sizes(sizes_by_group)
    rows = []
    for k in cells:
        if k < 2 or min(sizes) + 1 < k:
            continue
        bound = calibrated_bound(equal_gaps(sizes, k), epsilon, draws=_DRAWS)
        needed = None if target is None else records_needed(target, k, dict(sizes_by_group), epsilon)
        rows.append(PlanRow(k, bound, needed))
    return tuple(rows)


def records_needed(target: float, cells: int, shares_by_group: Mapping[str, float], epsilon: float = 0.05) -> int:
    """Return how many certification records bring T* of equal cells down to a target, to three digits and enough.

    >>> 3000 < records_needed(0.05, 6, {"f": 0.4, "m": 0.6}) < 3600
    True
    """
    if not 0.0 < target < 1.0:
        raise ArgumentError(f"target={target}: give a number between 0 and 1.")
    shares = np.array(list(shares_by_group.values()), dtype=np.float64)
    if len(shares) < 2 or not (np.isfinite(shares) & (shares > 0)).all():
        raise ArgumentError("Give the shares of at least two groups, each above 0.")
    shares /= shares.sum()

    def bound_with(records: int) -> float:
        return calibrated_bound(equal_gaps(_sizes(records, shares), cells), epsilon, draws=_DRAWS)

    # T* falls as 1/√n: a quick forecast finds the place, and a few steps by T* itself make sure of it.
    most, records = int(MOST_RECORDS / shares.max() / 2), max(100, math.ceil(cells / shares.min()))
    low = records
    for _ in range(6):
        ratio = forecast_bound(equal_gaps(_sizes(records, shares), cells), epsilon) / target
        records = min(most, max(low, math.ceil(records * ratio**2)))
    while bound_with(records) > target:
        if records >= most:
            raise ArgumentError(f"target={target:g}: more records than can be planned for ({most:,}) would be needed.")
        records = min(most, math.ceil(records * 1.01))
    return round_up_digits(records, 3)


def plan_words(rows: Sequence[PlanRow], sizes_by_group: Mapping[str, int], target: float | None = None) -> str:
    """Say a table of plans in a sentence or two, for messages that have no room for a table.

    >>> plan_words([PlanRow(2, 0.0706, 1600), PlanRow(6, 0.1032, 3470)], {"f": 320, "m": 480}, 0.05)
    'With 320 + 480 certification records T* is 0.071 for 2 cells and 0.104 for 6. T* ≤ 0.05 needs about 1,600 for 2 \
cells and 3,470 for 6.'
    """
    if not rows:
        return "The smallest group has too few certification records for two cells."

    def listed(values: Sequence[str]) -> str:
        texts = [f"{value} for {row.cells}" for row, value in zip(rows, values, strict=True)]
        texts[0] += " cells"
        return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"

    sizes = " + ".join(f"{size:,}" for size in sizes_by_group.values())
    bounds = listed([f"{math.ceil(1000 * row.bound) / 1000:.3f}" for row in rows])
    words = f"With {sizes} certification records T* is {bounds}."
    if target is None or any(row.needed is None for row in rows):
        return words
    return f"{words} T* ≤ {target:g} needs about {listed([f'{row.needed:,}' for row in rows])}."


def _check_sizes(sizes_by_group: Mapping[str, int]) -> list[int]:
    """Return the numbers of records; refuse what no distance can be planned for."""
    sizes = list(sizes_by_group.values())
    if len(sizes) < 2:
        raise ArgumentError("Give the records of at least two groups.")
    for group, size in sizes_by_group.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size <= MOST_RECORDS:
            raise ArgumentError(f"Group {group!r} has {size!r} records: give a whole number, at least 1.")
    return [int(size) for size in sizes]


def _sizes(records: int, shares: NDArray[np.float64]) -> list[int]:
    """Return the records of each group, given the number of all records."""
    return [max(1, math.floor(records * share)) for share in shares]
