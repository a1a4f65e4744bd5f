"""The settings of a sweep: kinds of encoders, γ, sizes of cells, and numbers of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import TYPE_CHECKING, Any

from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.encoders import RestrictedEncoder

KINDS = ("boosted", "tree")
GAMMAS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 0.985, 0.995, 0.999)
#: For trees that are searched beside boosted encoders, which are better in nearly all tables.
GAMMAS_BESIDE = (0.5, 0.85, 0.985)
CELLS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
#: Smallest cell sizes to try, as shares of the training records; trees beside boosted encoders have the last.
CELL_SHARES = (0.001, 0.01)


@dataclass(frozen=True, slots=True)
class Setting:
    """One growth: an encoder's parameters. Its path holds an encoder for every smaller number of cells.

    Attributes
    ----------
    kind : {"boosted", "tree", "calibrated"}
    gamma, min_cell_size : float, int
        None for cells that are no growth.
    max_cells : int
    """

    kind: str
    gamma: float | None
    min_cell_size: int | None
    max_cells: int

    def encoder(self, **common: Any) -> RestrictedEncoder:
        """Return an unfitted encoder with these parameters."""
        from certifare.encoders import BoostedEncoder, FairTreeEncoder

        kind: type[RestrictedEncoder] = {"boosted": BoostedEncoder, "tree": FairTreeEncoder}[self.kind]
        return kind(
            gamma=self.gamma,
            max_cells=self.max_cells,
            min_cell_size=self.min_cell_size,
            **common,
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """Settings and numbers of cells to try.

    Attributes
    ----------
    kinds : sequence of {"boosted", "tree"}
    gammas : sequence of float, optional
        By default many close to 1, fewer for trees beside boosted encoders.
    min_cell_sizes : sequence of int, optional
        By default in proportion to the number of training records: two sizes, one for trees beside boosted encoders.
    cells : sequence of int
        Numbers of cells; the smaller ones come from the same growth.

    Examples
    --------
    >>> from certifare.frontier import Grid
    >>> grid = Grid(kinds=["tree"], gammas=[0.5, 0.9], min_cell_sizes=[100], cells=[2, 5, 10])
    >>> [setting.gamma for setting in grid.settings(10_000)]
    [0.5, 0.9]
    """

    kinds: Sequence[str] = ("boosted", "tree")
    gammas: Sequence[float] | None = None
    min_cell_sizes: Sequence[int] | None = None
    cells: Sequence[int] = CELLS

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) is not None and not len(getattr(self, field.name)):
                raise ArgumentError(f"{field.name} is empty: there is nothing to try.")
        unknown = sorted(set(self.kinds) - set(KINDS))
        if unknown:
            raise ArgumentError(f"Unknown kind of encoder {unknown[0]!r}: choose from {', '.join(KINDS)}.")
        wrong = [gamma for gamma in self.gammas or () if not 0.0 <= gamma <= 1.0]
        if wrong:
            raise ArgumentError(f"gamma={wrong[0]}: give numbers from 0 to 1.")
        if any(k < 2 for k in self.cells):
            raise ArgumentError(f"cells={min(self.cells)}: an encoder needs at least two cells.")
        if self.min_cell_sizes is not None and any(size < 1 for size in self.min_cell_sizes):
            raise ArgumentError(f"min_cell_size={min(self.min_cell_sizes)}: give whole numbers from 1.")

    def settings(self, n_train: int) -> Iterator[Setting]:
        """Yield all growths for this number of training records."""
        smallest = 5 if self.min_cell_sizes is None else min(self.min_cell_sizes)
        if 2 * smallest > n_train:
            raise ArgumentError(f"{n_train:,} training records are too few for cells of {smallest}.")
        for kind in dict.fromkeys(self.kinds):
            beside = kind == "tree" and "boosted" in self.kinds
            gammas, sizes = self.gammas, self.min_cell_sizes
            if gammas is None:
                gammas = GAMMAS_BESIDE if beside else GAMMAS
            if sizes is None:
                sizes = [max(5, round(share * n_train)) for share in (CELL_SHARES[-1:] if beside else CELL_SHARES)]
            for gamma, size in product(dict.fromkeys(gammas), dict.fromkeys(sizes)):
                if 2 * size <= n_train:
                    yield Setting(kind, float(gamma), int(size), max(self.cells))

    def path(self, n_cells: int) -> tuple[int, ...]:
        """Return the numbers of cells to use from a growth with ``n_cells`` cells; this number is always included."""
        if n_cells < 2:
            return ()
        return tuple(sorted({k for k in self.cells if k < n_cells} | {n_cells}))
