"""Many encoders at once, and the frontier of utility and distance that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa

from certifare.certificates import Certificate
from certifare.certificates.certificate import round_up
from certifare.certificates.looks import Look
from certifare.errors import ArgumentError, CandidateError
from certifare.frontier.fronts import knee, pareto
from certifare.frontier.search import Progress, Search
from certifare.frontier.settings import Grid
from certifare.ledger import open_ledger
from certifare.parts import PARTS
from certifare.table import Table

if TYPE_CHECKING:
    import altair

Correction = Literal["simultaneous", "holdout"]


@dataclass(frozen=True, slots=True)
class Point:
    """One encoder of a frontier.

    Attributes
    ----------
    number : int
        Identifies the encoder within its frontier.
    kind, gamma, min_cell_size, cells
        How it was made.
    utility : float
        What encoders are compared by, on the select and training parts.
    accuracy, auc, explained : float
        Of the cells' forecasts (from training records), on the select part; ``auc`` is None where a label has more than
        two values.
    retained : float
        Retained information, on the select part.
    bound, estimate, lower : float
        If ``certified``: T*, the plug-in distance and the lower limit on the certify part. Else what may be expected
        of the bound and the estimate, from other records; the lower limit is None.
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
        """Plain data, ready for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


class Frontier:
    """Encoders by utility and distance.

    Attributes
    ----------
    points : tuple of Point
        Every encoder that was tried.
    correction : {"simultaneous", "holdout"}
        ``simultaneous``: some points were certified together, and their bounds hold together. ``holdout``: bounds
        are predictions, and one encoder can be certified (:meth:`certify`).
    confidence : float
    utility : str
        What encoders are compared by.
    notes : tuple of str
        What a reader should know.
    """

    def __init__(
        self,
        search: Search,
        correction: Correction,
        certified: Mapping[int, tuple[Any, Certificate]] | None = None,
    ) -> None:
        self._search = search
        self._certified = dict(certified or {})
        self.correction = correction
        self.confidence = search.confidence
        self.metric = search.metric
        self.utility = search.utility
        self.notes = (*search.table.notes, *search.notes)
        self.points = tuple(self._point(number) for number in range(len(search.candidates)))

    def __len__(self) -> int:
        return len(self.points)

    def _point(self, number: int) -> Point:
        candidate = self._search.candidates[number]
        bound, estimate, lower = candidate.prediction.bound, candidate.prediction.estimate, None
        if number in self._certified:
            certificate = self._certified[number][1]
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
            certified=number in self._certified,
        )

    @property
    def look(self) -> Look | None:
        """Which look at the certification records this was; None where nothing was certified, or looks not counted."""
        return self._search.look

    @property
    def usable(self) -> tuple[Point, ...]:
        """Points to choose from: those that were certified, or all where none was."""
        return tuple(point for point in self.points if point.certified) or self.points

    def pareto(self) -> tuple[Point, ...]:
        """Points (of :attr:`usable`) that no other beats, by increasing bound."""
        usable = self.usable
        return tuple(usable[i] for i in pareto([p.bound for p in usable], [p.utility for p in usable]))

    def best(self, max_bound: float | None = None, *, min_cells: int = 2) -> Point:
        """Choose the encoder of the highest utility within a bound; without one, the knee of the frontier.

        Parameters
        ----------
        max_bound : float, optional
        min_cells : int
        """
        usable = [point for point in self.usable if point.cells >= min_cells]
        if not usable:
            raise CandidateError(f"No encoder has {min_cells} cells or more.")
        if max_bound is None:
            return usable[knee([p.bound for p in usable], [p.utility for p in usable])]
        within = [point for point in usable if point.bound <= max_bound]
        if not within:
            smallest = min(usable, key=lambda point: point.bound)
            raise CandidateError(
                f"No encoder has a bound of {max_bound:g} or less; the smallest is {round_up(smallest.bound)}."
            )
        return max(within, key=lambda point: (point.utility, -point.number))

    def encoder(self, point: Point) -> Any:
        """Return the fitted encoder of a point."""
        number = self._checked(point)
        return self._certified[number][0] if number in self._certified else self._search.encoder(number)

    def certificate(self, point: Point) -> Certificate:
        """Return the certificate of a point that was certified."""
        number = self._checked(point)
        if number not in self._certified:
            raise CandidateError("This encoder was not certified; its bound is a prediction from other records.")
        return self._certified[number][1]

    def certify(self, point: Point) -> Certificate:
        """Certify one encoder, chosen on other records, on the certify part. With ``holdout``; once."""
        number = self._checked(point)
        if self.correction != "holdout":
            raise CandidateError(
                'The points of this frontier were certified together; sweep with correction="holdout".'
            )
        self._certified[number] = self._search.certify([number])[0]
        self.points = tuple(self._point(i) if i == number else p for i, p in enumerate(self.points))
        return self._certified[number][1]

    def rows(self) -> list[dict[str, Any]]:
        """Every point as plain data, by bound."""
        return [point.to_dict() for point in sorted(self.points, key=lambda p: (p.bound, -p.utility, p.number))]

    def table(self) -> pa.Table:
        """Every point as a row of a table, by bound."""
        return pa.Table.from_pylist(self.rows())

    def plot(self, highlight: Point | None = None) -> altair.LayerChart | altair.FacetChart:
        """Draw utility against the bound: all points, the front that they make, and one of them if asked."""
        import altair as alt

        words = "T*" if any(point.certified for point in self.points) else "predicted T*"
        front = {point.number for point in self.pareto()}
        rows = [
            {**point.to_dict(), "front": point.number in front, "label": f"{point.kind}, {point.cells} cells"}
            for point in self.usable
        ]
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("bound:Q", title=f"{words}: bound on the distance", scale=alt.Scale(zero=True)),
            y=alt.Y("utility:Q", title=self.utility, scale=alt.Scale(zero=False), axis=alt.Axis(format="%")),
            tooltip=[
                alt.Tooltip("label:N", title="encoder"),
                alt.Tooltip("gamma:Q", title="γ"),
                *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("utility", "accuracy", "auc", "explained")),
                alt.Tooltip("bound:Q", format=".4f"),
                alt.Tooltip("retained:Q", format=".3f"),
            ],
        )
        layers = [
            base.mark_circle(size=25).encode(
                color=alt.Color("kind:N", title="encoder"),
                opacity=alt.condition("datum.front", alt.value(1.0), alt.value(0.25)),
            ),
            base.transform_filter("datum.front").mark_line(interpolate="step-after", strokeWidth=1, color="gray"),
        ]
        if highlight is not None:
            layers.append(
                base.transform_filter(f"datum.number === {highlight.number}").mark_point(size=160, color="black")
            )
        return alt.layer(*layers).properties(width=480, height=300, title="Utility and distance")

    def _checked(self, point: Point) -> int:
        if not 0 <= point.number < len(self.points) or self._point(point.number) != point:
            raise CandidateError("The point is not one of this frontier.")
        return point.number

    def __repr__(self) -> str:
        return f"<Frontier: {len(self.points):,} encoders, {len(self._certified)} certified, {self.correction}>"


def sweep(
    table: Table,
    grid: Grid | None = None,
    *,
    correction: Correction = "simultaneous",
    candidates: Literal["front", "all"] = "front",
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    positive: str | None = None,
    utility: str = "information",
    retain: float = 0.0,
    parts: Mapping[str, float] = PARTS,
    population: str = "clusters",
    min_group_size: int = 30,
    seed: int = 0,
    n_jobs: int = 2,
    state: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    ledger: bool = True,
    looks: int | None = None,
) -> Frontier:
    """Try many encoders and certify those worth choosing from.

    Parameters
    ----------
    table : Table
        With a label and groups.
    grid : Grid, optional
        What to try.
    correction : {"simultaneous", "holdout"}
        Certify m encoders together, each at ε/m, so that one may choose after seeing all their bounds; or certify
        none yet, choose by predicted bounds, and certify one with :meth:`Frontier.certify`.
    candidates : {"front", "all"}
        With ``simultaneous``: whether the encoders that are certified are those on the front of predicted bound and
        utility (fewer, so each has a larger share of ε) or all of them.
    metric, confidence, positive, min_group_size
        Of the certificates (:func:`certifare.certify_counts`).
    utility : {"information", "explained", "accuracy"}
        What encoders are compared by (:mod:`certifare.frontier.utility`).
    retain : float
        As in :class:`~certifare.FairTreeEncoder`.
    parts, seed
        How the table is split (:func:`certifare.parts.split`).
    population
        With clusters: what the claim is about.
    n_jobs : int
        How many growths are fitted at a time.
    state : path, optional
        A file in which a sweep that was interrupted finds what was done.
    progress : callable, optional
        Told what is being done, how much is done and how much there is.
    ledger : bool
        Whether looks at the certification records are counted (:mod:`certifare.ledger`).
    looks : int, optional
        How many looks are planned: each has its share of ε, and all of them hold together with ``confidence``.

    Returns
    -------
    Frontier

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare.frontier import Grid, sweep
    >>> from certifare.table import Table
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=4000), "s": rng.integers(0, 2, 4000)})
    >>> people["y"] = (people["x"] + rng.normal(size=4000) > 0).astype(int)
    >>> table = Table.from_frame(people, label="y", sensitive="s")
    >>> frontier = sweep(table, Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[50], cells=[2, 4, 8]))
    >>> frontier.best(max_bound=0.2).accuracy > 0.6
    True
    """
    if correction not in ("simultaneous", "holdout"):
        raise ArgumentError(f'correction={correction!r}: choose "simultaneous" or "holdout".')
    if candidates not in ("front", "all"):
        raise ArgumentError(f'candidates={candidates!r}: choose "front" or "all".')
    search = Search(
        table,
        grid or Grid(),
        metric=metric,
        confidence=confidence,
        positive=positive,
        utility=utility,
        retain=retain,
        parts=parts,
        population=population,
        min_group_size=min_group_size,
        seed=seed,
        n_jobs=n_jobs,
        ledger=open_ledger(ledger),
        looks=looks,
    ).run(state=state, progress=progress)
    if correction == "holdout":
        return Frontier(search, correction)
    numbers: Sequence[int] = search.front() if candidates == "front" else range(len(search.candidates))
    certified = search.certify(numbers, progress=progress)
    return Frontier(search, correction, dict(zip(numbers, certified, strict=True)))
