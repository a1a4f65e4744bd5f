"""Cells in words: the rules that lead to each, how many training records it holds, and of which groups and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.drawing.card import html_card
from certifare.encoders.training import ColumnSchema
from certifare.foundation.formatting import amount
from certifare.foundation.levels import Levels
from certifare.growth import Bins, CategoricalBins, Growth

#: Of a long list of categories this many are named.
MOST_NAMED = 4
#: Shares of labels are published with this many significant digits, shares of groups with this many after the point.
DIGITS = 3


@dataclass(frozen=True, slots=True)
class CellDescription:
    """One cell in words."""

    cell: int
    rules: tuple[str, ...]  # all of them hold for every record of the cell
    records: int | None  # training records in it; None (and no shares) if the encoder was saved without statistics
    groups: dict[str, dict[str, float]]  # for the sensitive column, each group's share of them
    labels: dict[str, dict[str, float]]  # for each label column, each label's share of them

    def __str__(self) -> str:
        parts = [" and ".join(self.rules) or "every record"]
        if self.records is not None:
            parts.append(f"{self.records:,} records")
        parts += [_shares(name, shares) for name, shares in [*self.groups.items(), *self.labels.items()]]
        return f"cell {self.cell}: " + " · ".join(parts)


class Description(Sequence[CellDescription]):
    """All cells in words: a sequence that prints as text, and as a table in notebooks."""

    def __init__(self, cells: Sequence[CellDescription]) -> None:
        self._cells = tuple(cells)

    def __getitem__(self, index: Any) -> Any:
        return Description(self._cells[index]) if isinstance(index, slice) else self._cells[index]

    def __len__(self) -> int:
        return len(self._cells)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the names of columns, and a row of texts for each cell."""
        head = ("cell", "rules", records_described(self._cells[0].labels), "groups", "labels")
        return head, [
            (
                str(cell.cell),
                "; ".join(cell.rules) or "every record",
                "" if cell.records is None else f"{cell.records:,}",
                "; ".join(_shares(name, shares) for name, shares in cell.groups.items()),
                "; ".join(_shares(name, shares) for name, shares in cell.labels.items()),
            )
            for cell in self._cells
        ]

    def _repr_html_(self) -> str:
        head, rows = self.rows()
        return html_card("Encoder", amount(len(self), "cell"), rows, head=head)


def records_described(labels: object) -> str:
    """Name the records that statistics of cells are of: without labels, nothing was trained."""
    return "training records" if labels else "records"


@dataclass(frozen=True, eq=False)
class Statistics:
    """Training records of each place (a cell, or a node of a tree), and the shares of groups and labels among them."""

    records: NDArray[np.int64]
    groups: NDArray[np.float64]
    labels: tuple[NDArray[np.float64], ...]

    @classmethod
    def of_cells(
        cls, cells: NDArray[np.integer], n_cells: int, groups: Levels | None, labels: Sequence[Levels]
    ) -> "Statistics":
        """Count training records whose cells are known."""
        records = np.bincount(cells, minlength=n_cells)

        def shares(levels: Levels) -> NDArray[np.float64]:
            n = len(levels.values)
            counts = np.bincount(cells.astype(np.int64) * n + levels.codes, minlength=n_cells * n).reshape(n_cells, n)
            return np.asarray(counts / np.maximum(records, 1)[:, None])

        return cls(
            records=records,
            groups=np.zeros((n_cells, 0)) if groups is None else shares(groups),
            labels=tuple(map(shares, labels)),
        )

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> "Statistics":
        """Keep some places, in the given order."""
        return Statistics(self.records[places], self.groups[places], tuple(shares[places] for shares in self.labels))


def published(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round shares of labels as they are published: rare ones as finely as others."""
    return np.array([[float(f"{share:.{DIGITS}g}") for share in row] for row in shares]).reshape(shares.shape)


def path_rules(growth: Growth, bins: Sequence[Bins], columns: Sequence[ColumnSchema], k: int) -> list[tuple[str, ...]]:
    """Return the rules of each cell of the tree with k cells: the splits on its path, merged by column."""
    masks: dict[int, dict[int, NDArray[np.bool_]]] = {0: {}}
    for j, split in enumerate(growth.splits[: k - 1]):
        path = masks.pop(split.node)
        for child, side in ((2 * j + 1, split.goes_left), (2 * j + 2, ~split.goes_left)):
            before = path.get(split.column)
            masks[child] = path | {split.column: side if before is None else before & side}
    return [
        tuple(rule_of(bins[column], columns[column], masks[node][column]) for column in sorted(masks[node]))
        for node in growth.leaves(k).tolist()
    ]


def map_rules(
    axes: Sequence[tuple[str, Sequence[float] | NDArray[np.float64]]], cells: NDArray[np.integer], clustered: bool
) -> list[tuple[str, ...]]:
    """Describe each cell of a score map: its extent along each axis, and its number of squares."""
    rules = []
    for cell in range(int(cells.max()) + 1):
        places = np.nonzero(cells == cell)
        texts = []
        for (name, coordinates), place in zip(axes, places, strict=False):
            texts.append(f"{name} from {coordinates[place.min()]:.2f} to {coordinates[place.max()]:.2f}")
        if clustered:
            texts.append(f"cluster in {{{', '.join(str(c) for c in np.unique(places[-1]))}}}")
        rules.append((*texts, f"{len(places[0]):,} of {cells.size:,} squares"))
    return rules


def rule_of(bins: Bins, column: ColumnSchema, allowed: NDArray[np.bool_]) -> str:
    """Describe which values of a column are allowed, given the allowed codes."""
    missing = bool(allowed[bins.missing_code])
    present = np.delete(allowed, bins.missing_code)
    if not present.any():
        return f"{column.name} is missing"
    if present.all():
        return f"{column.name} is known"
    text = (
        _category_rule(bins, column, present)
        if isinstance(bins, CategoricalBins)
        else _number_rule(bins.edges, column, np.flatnonzero(present))
    )
    return f"{text} or missing" if missing and column.missing else text


def _number_rule(edges: NDArray[np.float64], column: ColumnSchema, codes: NDArray[np.intp]) -> str:
    low, high = int(codes[0]), int(codes[-1])
    if column.type == "boolean":
        return f"{column.name} is {'true' if low else 'false'}"
    if low == 0:
        return f"{column.name} ≤ {edges[high]:.6g}"
    if high == len(edges):
        return f"{column.name} > {edges[low - 1]:.6g}"
    return f"{edges[low - 1]:.6g} < {column.name} ≤ {edges[high]:.6g}"


def _category_rule(bins: CategoricalBins, column: ColumnSchema, present: NDArray[np.bool_]) -> str:
    listed = present[: len(bins.categories)]
    inside, outside = np.flatnonzero(listed), np.flatnonzero(~listed)
    others = bool(present[bins.infrequent_code])
    if not len(inside):
        return f"{column.name} is rare or new"
    if others and len(outside) <= len(inside):
        return f"{column.name} not in {_set(bins, outside)}"
    return f"{column.name} in {_set(bins, inside)}" + (", or rare or new" if others else "")


def _set(bins: CategoricalBins, codes: NDArray[np.intp]) -> str:
    shown = [str(bins.categories[code]) for code in codes[:MOST_NAMED]]
    more = len(codes) - len(shown)
    return "{" + ", ".join([*shown, f"{more} more"] if more else shown) + "}"


def _shares(name: str, shares: dict[str, float]) -> str:
    most = list(shares.items())
    if len(most) > MOST_NAMED:
        most = sorted(most, key=lambda item: -item[1])[:MOST_NAMED]
    text = ", ".join(f"{value} {share:.0%}" for value, share in most)
    return f"{name}: {text}" + (", …" if len(shares) > MOST_NAMED else "")


def describe(
    rules: Sequence[tuple[str, ...]],
    statistics: Statistics | None,
    groups: tuple[str, Sequence[str]],
    labels: Sequence[tuple[str, Sequence[str]]],
) -> Description:
    """Combine the rules and statistics of the cells."""
    cells = []
    for cell, rule in enumerate(rules):
        if statistics is None:
            cells.append(CellDescription(cell, rule, None, {}, {}))
            continue
        of_labels = {
            name: dict(zip(values, shares[cell].tolist(), strict=True))
            for (name, values), shares in zip(labels, statistics.labels, strict=True)
        }
        of_groups = (
            {groups[0]: dict(zip(groups[1], statistics.groups[cell].tolist(), strict=True))} if groups[1] else {}
        )
        cells.append(CellDescription(cell, rule, int(statistics.records[cell]), of_groups, of_labels))
    return Description(cells)
