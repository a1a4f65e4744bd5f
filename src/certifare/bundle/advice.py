"""Advice: what would help if there is no solution, or if the cells predict almost nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certifare.bundle.measuring import Measured
from certifare.certificates.rounding import percent, round_up_digits
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.target import growth_needed

if TYPE_CHECKING:
    from certifare.frontier.search import Search
    from certifare.frontier.sweeping import Point

#: Targets of which a forecast is given if the cells predict almost nothing.
LARGER_TARGETS = (0.05, 0.08, 0.12, 0.2, 0.3)
#: A larger target is named if it is expected to give this much more.
WORTH_NAMING = 0.01


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help where no encoder met the target."""

    text: str
    records: int | None = None  # how many records in all would do, at this estimate
    target: float | None = None  # which target would probably be met


def advise(
    search: Search | CalibratedSearch, order: Sequence[Point], target: float | None, min_cells: int
) -> tuple[Advice, ...]:
    """Say what would help: more records, or a larger target.

    Nothing here comes from the certification records: following the advice is no choice by them.
    """
    if isinstance(search, CalibratedSearch):
        return _plan_advice(search, target, min_cells)
    if not order or target is None:
        fewer = max((search.candidates[i].cells for i in search.useful()), default=None)
        if fewer is not None:
            words = f"No encoder with {min_cells:,} cells or more predicts the label better than chance"
            return (Advice(f"{words}; some with {fewer:,} do: ask for fewer cells."),)
        return (
            Advice(
                "No encoder predicts the label better than chance, as far as "
                f"{len(search.select):,} select records can show: more records, other columns or another label would "
                "help."
            ),
        )
    candidates = [search.candidates[i] for i in search.useful(min_cells)]
    advice = []
    factors = [
        growth_needed(candidate.outlook, target, 1.0 - search.claim.confidence)
        for candidate in candidates
        if candidate.outlook is not None
    ]
    known = [factor for factor in factors if factor is not None]
    certify_records = len(search.certify_sample.table)
    if known and min(known) > 1.0:
        factor = min(known)
        total, certified = (round_up_digits(factor * n, 2) for n in (len(search.table), certify_records))
        advice.append(
            Advice(
                f"About {total:,} records instead of {len(search.table):,} would do, at this estimate of the distance: "
                f"{certified:,} of them to certify on, instead of {certify_records:,}.",
                records=total,
            )
        )
    elif not known:
        advice.append(
            Advice("No number of records would do for the encoders that were tried: their distances are too large. "
                   "Values of gamma closer to 1 make them smaller.")
        )  # fmt: skip
    within_reach = min(candidate.prediction.reachable() for candidate in candidates)
    reachable = math.ceil(1000 * max(within_reach, target + 0.001)) / 1000
    if reachable < 1.0:
        advice.append(
            Advice(f"A target of {reachable:g} would probably be met with as many records.", target=reachable)
        )
    return (*advice, _next_look(search))


def _plan_advice(search: CalibratedSearch, target: float | None, min_cells: int) -> tuple[Advice, ...]:
    """Say which targets and numbers of records calibrated cells would do with."""
    useful = search.useful(min_cells)
    if target is None or not useful:
        return (Advice(f"No plan with {min_cells:,} cells or more predicts the label better than chance."),)
    reachable = math.ceil(1000 * min(search.bound(i) for i in _smallest(search, useful))) / 1000
    return (
        Advice(f"No calibrated cells have T* ≤ {target:g} with so few records."),
        Advice(f"A target of {reachable:g} would be met with these records; none was looked at.", target=reachable),
        Advice(
            "More records or pooled groups (--pool-groups) would help: T* falls as one over the root of a group's size."
        ),
    )


def _smallest(search: CalibratedSearch, numbers: Sequence[int]) -> list[int]:
    """Return the plans with the smallest forecasts of T*: few enough to compute T* itself."""
    return sorted(numbers, key=lambda i: search.candidates[i].prediction.bound)[:3]


def _next_look(search: Search | CalibratedSearch) -> Advice:
    """Say what another look at the same certification records costs, or how many fresh ones would do."""
    look, confidence = search.look, search.claim.confidence
    n = int(search.certify_sizes().sum())
    fresh = f"As many fresh records ({n:,}) to certify on would keep {percent(search.asked)}."
    if look is None:
        return Advice(f"Another run on these records is another look at them, and looks are not counted here. {fresh}")
    if look.planned is not None and look.number < look.planned:
        return Advice(f"This was look {look.number} of {look.planned} that are planned: the next one is paid for.")
    after = look.next(confidence)
    return Advice(
        f"Another run on these records would be look {after.number} at them: {percent(search.asked)} confidence cannot "
        f"be reached any more, and both looks together hold with {percent(after.joint(confidence))} "
        f"(--confidence {after.joint(confidence):.4g}). {fresh}"
    )


def warn_of_little(search: Search | CalibratedSearch, measured: Measured, target: float | None, min_cells: int) -> str:
    """Say that an encoder predicts almost nothing, and which larger targets the search expects more of."""
    performance = measured.performance
    auc = performance.auc
    figure = f"explains {performance.explained.estimate:.1%} of the label" if auc is None else f"AUC {auc.estimate:.3f}"
    words = f"predicts almost nothing ({figure}; the commonest label is right for {performance.baseline:.1%})"
    useful, expected = [search.candidates[i] for i in search.useful(min_cells)], {}
    most = performance.explained.estimate if auc is None else auc.estimate
    targets = [larger for larger in LARGER_TARGETS if larger > (target or measured.distance.estimate)]
    for larger in targets:
        within = [candidate for candidate in useful if candidate.prediction.reachable() <= larger]
        if not within:
            continue
        best = max(within, key=lambda candidate: candidate.utility)
        value = best.explained if best.auc is None else best.auc
        if value >= most + WORTH_NAMING:
            most = value
            expected[f"{larger:g}"] = f"{value:.1%}" if best.auc is None else f"{value:.2f}"
    if not expected:
        return f"{words}; no larger target is expected to help." if targets else f"{words}."
    what = "of the label explained" if auc is None else "AUC"
    return f"{words}; with --target {' / '.join(expected)} expect about {what} {' / '.join(expected.values())}."
