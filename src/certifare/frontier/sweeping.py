"""Try many encoders at once, and collect them in a frontier of utility and distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import msgspec
import pyarrow as pa

from certifare.certificates import Certificate
from certifare.certificates.claims import Claim
from certifare.certificates.looks import Look
from certifare.certificates.rounding import round_up
from certifare.certification.ledger import open_ledger
from certifare.drawing.card import html_card
from certifare.drawing.scatter import draw_scatter
from certifare.errors import ArgumentError
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import amount
from certifare.frontier.calibrating import PARTS as CALIBRATED_PARTS
from certifare.frontier.calibrating import CalibratedSearch, choose_parts
from certifare.frontier.fronts import knee, pareto
from certifare.frontier.job import Progress
from certifare.frontier.search import Search
from certifare.frontier.settings import Grid
from certifare.tables.elsewhere import engine_of
from certifare.tables.splitting import PARTS, training_quantiles
from certifare.tables.table import table_of

Correction = Literal["simultaneous", "holdout"]


@dataclass(frozen=True, slots=True)
class Point:
    """One encoder of a frontier.

    Attributes
    ----------
    number : int
        Identifies the encoder within its frontier.
    kind, gamma, min_cell_size, cells
        Its settings; for calibrated cells, ``gamma`` is the share θ of the order between groups that is kept.
    utility : float
        Utility by which encoders are compared, on the select and train parts.
    accuracy, auc, explained : float
        Of the cells' predictions on the select part; ``auc`` is None if a label has more than two values.
    retained : float
        Retained information, on the select part.
    bound, estimate, lower : float
        If ``certified``: T*, the plug-in distance and the lower bound on the certify part. Otherwise predictions of the
        bound and the estimate from other records; ``lower`` is None.
    certified : bool
    """

    number: int
    kind: str
    gamma: float | None
    min_cell_size: int | None
    cells: int
    utility: float
    accuracy: float
    auc: float | None
    explained: float
    retained: float
    bound: float
    estimate: float
    lower: float | None
    certified: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dict(msgspec.to_builtins(self))

    def __str__(self) -> str:
        gamma = "" if self.gamma is None else f", γ = {self.gamma:g}"
        words = "T*" if self.certified else "predicted T*"
        return f"{self.kind}, {amount(self.cells, 'cell')}{gamma}: {words} = {round_up(self.bound)}, {self.utility:.2%}"

    def same_encoder(self, other: Point) -> bool:
        """Return whether two points are the same encoder of one sweep, certified or not."""
        certified = {"bound", "estimate", "lower", "certified"}
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name not in certified)


class Frontier:
    """Encoders by utility and distance.

    Attributes
    ----------
    search : Search or CalibratedSearch
        The search that found them.
    points : tuple of Point
        Every encoder that was tried.
    correction : {"simultaneous", "holdout"}
        ``simultaneous``: some points were certified together, and their bounds hold together. ``holdout``: bounds
        are predictions, and one encoder can be certified (:meth:`certify`).
    confidence : float
    utility : str
        Utility by which encoders are compared.
    notes : tuple of str
        Warnings for the user.
    """

    def __init__(
        self,
        search: Search | CalibratedSearch,
        correction: Correction,
        certificates: Mapping[int, Certificate] | None = None,
        encoders: Mapping[int, Any] | None = None,
    ) -> None:
        self.search = search
        self._certificates = dict(certificates or {})
        self._encoders = dict(encoders or {})
        self.correction = correction
        self.confidence = search.asked
        self.metric = search.claim.metric
        self.utility = search.utility
        self.points = tuple(self._point(number) for number in range(len(search.candidates)))

    def __len__(self) -> int:
        return len(self.points)

    def _point(self, number: int) -> Point:
        candidate = self.search.candidates[number]
        bound, estimate, lower = candidate.prediction.bound, candidate.prediction.estimate, None
        if number in self._certificates:
            certificate = self._certificates[number]
            bound, estimate, lower = certificate.bound, certificate.estimate, certificate.lower
        setting = candidate.setting
        return Point(
            number=number,
            kind=setting.kind,
            gamma=setting.gamma,
            min_cell_size=setting.min_cell_size,
            cells=candidate.cells,
            utility=candidate.utility,
            accuracy=candidate.accuracy,
            auc=candidate.auc,
            explained=candidate.explained,
            retained=candidate.retained,
            bound=float(bound),
            estimate=float(estimate),
            lower=lower,
            certified=number in self._certificates,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        return (*self.search.table.notes, *self.search.notes)

    @property
    def look(self) -> Look | None:
        """The look at the certification records; None if nothing was certified, or if looks are not counted."""
        return self.search.look

    @property
    def usable(self) -> tuple[Point, ...]:
        """Points to choose from: the certified ones, or all if none is certified."""
        return tuple(point for point in self.points if point.certified) or self.points

    def pareto(self) -> tuple[Point, ...]:
        """Return the points of :attr:`usable` that no other beats, by increasing bound."""
        usable = self.usable
        return tuple(usable[i] for i in pareto([p.bound for p in usable], [p.utility for p in usable]))

    def best(self, max_bound: float | None = None, *, min_cells: int = 2) -> Point:
        """Return the encoder with the highest utility within a bound; without a bound, the knee of the frontier.

        Parameters
        ----------
        max_bound : float, optional
        min_cells : int
        """
        if max_bound is not None and not 0.0 <= max_bound <= 1.0:
            raise ArgumentError(f"max_bound={max_bound}: give a distance in [0, 1].")
        usable = [point for point in self.usable if point.cells >= min_cells]
        if not usable:
            raise ArgumentError(f"No encoder has {min_cells} cells or more.")
        if max_bound is None:
            return usable[knee([p.bound for p in usable], [p.utility for p in usable])]
        within = [point for point in usable if point.bound <= max_bound]
        if not within:
            smallest = min(usable, key=lambda point: point.bound)
            raise ArgumentError(
                f"No encoder has a bound of {max_bound:g} or less; the smallest is {round_up(smallest.bound)}."
            )
        return max(within, key=lambda point: (point.utility, -point.number))

    def encoder(self, point: Point) -> Any:
        """Return the fitted encoder of a point."""
        number = self.number_of(point)
        if number not in self._encoders:
            self._encoders[number] = self.search.encoder(number)
        return self._encoders[number]

    def certificate(self, point: Point) -> Certificate:
        """Return the certificate of a certified point."""
        number = self.number_of(point)
        if number not in self._certificates:
            raise ArgumentError(
                f"Point {number} was not certified: its bound is a prediction from other records. Choose one of those "
                "that the table marks as certified, or sweep with correction='holdout'."
            )
        return self._certificates[number]

    def certify(self, point: Point, progress: Progress | None = None) -> Certificate:
        """Certify one encoder, which was chosen on other records, on the certify part. With ``holdout``; once."""
        number = self.number_of(point)
        if self.correction != "holdout":
            raise ArgumentError('The points of this frontier were certified together; sweep with correction="holdout".')
        ((self._encoders[number], self._certificates[number]),) = self.search.certify([number], progress=progress)
        self.points = tuple(self._point(i) if i == number else p for i, p in enumerate(self.points))
        return self._certificates[number]

    def rows(self) -> list[dict[str, Any]]:
        """Return every point as plain data, by bound."""
        return [point.to_dict() for point in sorted(self.points, key=lambda p: (p.bound, -p.utility, p.number))]

    def table(self) -> pa.Table:
        """Return every point as a row of a table, by bound."""
        return pa.Table.from_pylist(self.rows())

    def plot(self, highlight: Point | None = None) -> Drawing:
        """Draw utility against the bound: every encoder by its kind, the fronts that they make, and one marked."""
        best = {
            of_sort[i].number
            for certified in (True, False)
            if (of_sort := [point for point in self.points if point.certified is certified])
            for i in pareto([p.bound for p in of_sort], [p.utility for p in of_sort])
        }
        chosen = None if highlight is None else self.number_of(highlight)
        rows = [
            {**point.to_dict(), "best": point.number in best, "chosen": point.number == chosen, "hint": str(point)}
            for point in self.points
        ]
        return draw_scatter(rows, self.utility)

    def number_of(self, point: Point) -> int:
        """Return the number of a point, which may have been certified since; refuse a point of another frontier."""
        if not 0 <= point.number < len(self.points) or not point.same_encoder(self.points[point.number]):
            raise ArgumentError("The point is not one of this frontier.")
        return point.number

    def __repr__(self) -> str:
        return f"<Frontier: {len(self.points):,} encoders, {len(self._certificates)} certified, {self.correction}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                point.number,
                f"{round_up(point.bound)}{'' if point.certified else ' (predicted)'}",
                f"{point.utility:.2%}",
                f"{point.accuracy:.2%}",
                point.cells,
                point.kind,
                "" if point.gamma is None else f"{point.gamma:g}",
            )
            for point in self.pareto()
        ]
        headline = (
            f"{amount(len(self.points), 'encoder')} tried, {len(self._certificates):,} certified "
            f"({self.correction}); those that no other beats:"
        )
        head = ("point", "T*", self.utility, "accuracy", "cells", "encoder", "γ")
        return html_card("Frontier", headline, rows, head=head, drawing=self.plot())


def default_parts(group_aware: bool) -> Mapping[str, float]:
    """Return the shares of the parts: train, select and certify, or train and certify for calibrated cells."""
    return CALIBRATED_PARTS if group_aware else PARTS


#: Keywords of a search that make its claim; those in the second line are options of its job.
_CLAIM = ("metric", "confidence", "positive", "population", "min_group_size", "looks")
_JOB = ("utility", "retain", "pool_groups", "seed", "n_jobs", "task", "elsewhere")
_CALIBRATED = ("tie_column", "score_column")
#: All keywords of a search; others are about reading the table.
SEARCH_KEYWORDS = (*_CLAIM, *_JOB, *_CALIBRATED, "group_aware", "label_quantiles", "parts", "ledger")


def open_search(table: Any, grid: Grid | None = None, **keywords: Any) -> Search | CalibratedSearch:
    """Read a table, split and check it, and return the search for its encoders, before anything is fitted.

    - ``**keywords``: as in :func:`sweep` and :func:`certifare.produce`; ``task`` says what else the result depends on,
      and calibrated cells choose their parts by the ``target``.
    """
    group_aware, quantiles = keywords.pop("group_aware", False), keywords.pop("label_quantiles", None)
    given, target = keywords.pop("parts", None), keywords.pop("target", None)
    parts = given or default_parts(group_aware)
    ledger = open_ledger(keywords.pop("ledger", True))
    claim, options, columns = (
        {name: keywords.pop(name) for name in names if name in keywords} for names in (_CLAIM, _JOB, _CALIBRATED)
    )
    if quantiles is not None:
        split = {"parts": parts, "seed": options.get("seed", 0), "by_group": options.get("pool_groups") is None}
        keywords["label_cuts"] = training_quantiles(table, quantiles, **split, **keywords)
    read, chosen = table_of(table, **keywords), grid or Grid()
    if not group_aware:
        if any(name is not None for name in columns.values()):
            raise ArgumentError("tie_column and score_column are about cells that read the group: add group_aware.")
        return Search(read, chosen, Claim(**claim), parts=parts, ledger=ledger, **options)
    if (chosen.kinds, chosen.gammas, chosen.min_cell_sizes) != (Grid().kinds, None, None):
        raise ArgumentError(
            "Cells that read the group (--group-aware; in Python group_aware=True) have no kinds, gammas or smallest "
            "cells to choose from. Leave these out."
        )
    besides = [options.get("elsewhere"), options.get("pool_groups"), columns.get("score_column")]
    why = None
    if all(choice is None for choice in (given, quantiles, *besides)):
        parts, why = choose_parts(read, Claim(**claim), target)
    options |= {"max_cells": max(chosen.cells), **columns}
    search = CalibratedSearch(read, Claim(**claim), parts=parts, ledger=ledger, **options)
    search.notes += [why] if why else []
    return search


def sweep(
    table: Any,
    grid: Grid | None = None,
    *,
    correction: Correction = "simultaneous",
    candidates: Literal["front", "all"] = "front",
    min_cells: int = 2,
    progress: Progress | None = None,
    **keywords: Any,
) -> Frontier:
    """Try many encoders, and certify the best ones.

    Parameters
    ----------
    table : Table, dataframe or path
        With a label and groups; a dataframe or a file needs ``label`` and ``sensitive`` as well.
    grid : Grid, optional
        The settings to try.
    correction : {"simultaneous", "holdout"}
        Certify m encoders together, each at ε/m, so that you can choose after seeing all their bounds; or certify
        none yet, choose by predicted bounds, and certify one with :meth:`Frontier.certify`.
    candidates : {"front", "all"}
        With ``simultaneous``: whether to certify the encoders on the front of predicted bound and utility (fewer, so
        each has a larger share of ε) or all of them.
    min_cells : int
        The fewest cells of a certified encoder.
    progress : callable, optional
        Told what is being done, how much is done and how much there is.
    **keywords
        All others of :func:`certifare.produce`, except ``target``, ``min_ratio`` and ``min_rate``: of the certificates
        (``metric``, ``confidence`` …), of the search (``utility``, ``seed`` …), and the roles of columns.

    Returns
    -------
    Frontier

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare.frontier import Grid, sweep
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=4000), "s": rng.integers(0, 2, 4000)})
    >>> people["y"] = (people["x"] + rng.normal(size=4000) > 0).astype(int)
    >>> grid = Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[50], cells=[2, 4, 8])
    >>> frontier = sweep(people, grid, label="y", sensitive="s")
    >>> frontier.best(max_bound=0.2).accuracy > 0.6
    True
    """
    if correction not in ("simultaneous", "holdout"):
        raise ArgumentError(f'correction={correction!r}: choose "simultaneous" or "holdout".')
    if candidates not in ("front", "all"):
        raise ArgumentError(f'candidates={candidates!r}: choose "front" or "all".')
    if engine_of(table) is not None:
        raise ArgumentError(
            "A sweep needs the table in memory: compute a sample of this dataframe, or let certifare.produce find one "
            "encoder where the records are."
        )
    task = (correction, candidates, min_cells, grid or Grid(), *(keywords.get(name) for name in _CALIBRATED))
    search = open_search(table, grid, task=repr(task), **keywords)
    search.run(progress=progress)
    if correction == "holdout":
        return Frontier(search, correction)
    large_enough = [i for i, candidate in enumerate(search.candidates) if candidate.cells >= min_cells]
    numbers = search.front(min_cells) if candidates == "front" else large_enough
    if not numbers:
        raise ArgumentError(f"No encoder has {min_cells} cells or more.")
    encoders, certificates = zip(*search.certify(numbers, progress=progress), strict=True)
    return Frontier(
        search, correction, dict(zip(numbers, certificates, strict=True)), dict(zip(numbers, encoders, strict=True))
    )
