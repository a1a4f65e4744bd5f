"""Main comparison (figures 3, 4 and 10): accuracy over distance on ACSIncome-CA, ACSIncome-US and Health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from certifare_research import extensions
from certifare_research.experiments import as_published, charts, own, published
from certifare_research.experiments.delivered import METRIC, WAYS, claims, command, course, delivered, row
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import by_split, front, within
from certifare_research.experiments.published import PublishedRun

TITLES = {"ca": "ACSIncome-CA 2018", "us": "ACSIncome-US 2018", "health": "Health"}
AUTHORS = {"ca": "ACSIncome-CA-2014", "us": "ACSIncome-ALL-2014", "health": "health_notransfer"}
#: Methods that bound nothing and hide nothing: what a classifier reaches on the table itself.
REFERENCES = {
    "mlp50": "the paper's network, one-hot columns standardised",
    "mlp50-raw": "the paper's network, columns as they are",
    "logistic": "logistic regression",
    "gbm": "gradient boosting",
}
#: Consumers of the published methods' codes.
CONSUMERS = ("mlp50", "gbm")


def measured(runs: Sequence[PublishedRun], data: str, classifier: str = "mlp50") -> list[dict[str, Any]]:
    """Each setting of each published method: the paper's protocol, and the strongest adversary that was tried."""
    attacks: dict[tuple[Any, ...], list[Any]] = {}
    for r in runs:
        if r.data == data and r.target == "s" and r.metric == METRIC:
            attacks.setdefault(_name(r), []).extend(r.evaluation.outcomes)
    records = []
    for r in published.select(runs, data=data, task="y", classifier=classifier, target="y", metric=METRIC):
        strongest = max(attacks.get(_name(r), []), key=lambda o: o.distance(), default=None)
        records.append(
            {
                "kind": r.method,
                "classifier": classifier,
                "split": r.split,
                "setting": r.setting,
                "effort": r.effort,
                "arguments": r.arguments,
                "bound": r.bound,
                "accuracy": r.evaluation.accuracy,
                "distance": r.evaluation.mean_distance(),
                "max_distance": r.evaluation.max_distance(),
                "adversary": None if strongest is None else strongest.distance(),
                "attack": strongest,
            }
        )
    return records


def _name(r: PublishedRun) -> tuple[Any, ...]:
    return r.method, r.split, r.setting, r.effort, r.arguments


def run(run: Run) -> Page:
    """Compare what ``certifare fit`` delivers, certified, with the published methods, measured."""
    data = (*(("ca", "us", "health") if not run.quick else ("ca",)), *extensions.DATASETS)
    splits = len(run.splits)
    runs = [*published.runs_of(run), *own.runs(run, data, splits)]
    items = [(name, way, i, METRIC) for name in data for way in WAYS for i in run.splits]
    ours = [r for found in run.each(delivered, items) for r in found]
    blocks: list[Block] = []
    points: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    behind = {}
    for name in data:
        title = TITLES.get(name, name)
        certified = [r for r in ours if r["data"] == name]
        theirs = [
            r
            for classifier in REFERENCES
            for r in measured(runs, name, classifier)
            if classifier in CONSUMERS or r["kind"] == "identity"
        ]
        network = [r for r in theirs if r["classifier"] == "mlp50"]
        behind[title] = _behind(network)
        rows = [[*row(certified, way, splits), None] for way in WAYS]
        rows += [line for method in _methods(network) for line in _rows(method, theirs, splits)]
        rows += [line for kind in REFERENCES if (line := _reference(kind, theirs)) is not None]
        rows += _authors(name)
        columns = ["best accuracy at", *[f"{v:.2f}" for v in LEVELS], "most accurate"]
        blocks += [Block(title, columns, rows), _grounds(title, certified, theirs)]
        blocks.append(_attacks(title, certified, [r for r in network if r["split"] == 0]))
        records += certified + [{"data": name, **{k: v for k, v in r.items() if k != "attack"}} for r in theirs]
        points += [{**p, "panel": title} for p in _points(certified, network)]
    return Page(
        title="Main comparison",
        text="Best accuracy on the test records at a demographic parity distance of at most .05, .10, .15, .20; mean "
        "over five splits ± standard deviation. “2 of 5”: on the other splits no setting has so small a distance. "
        "“Certified”: the limit is on T*, which bounds every classifier's distance with 95 % confidence; the encoder "
        "was chosen without the test records. “Measured”: the limit is on the distance of one classifier on the test "
        "records, which says nothing about others; settings are chosen on the test records, in the method's favour. "
        "Solid lines are certified, dashed lines measured.",
        blocks=blocks,
        records=[{k: v for k, v in r.items() if k != "outcome"} for r in records],
        claims=claims(ours),
        chart=charts.fronts(points, "T* (solid) or measured distance (dashed)", facet="panel"),
        notes=(
            f"Certified rows: what the command delivers ({'; '.join(f'{way}: `{command(way)}`' for way in WAYS)}); the "
            "level is its target. It gets four fifths of the records and deals them itself; accuracy is that of the "
            "cells' majority vote. Calibrated cells read the group when they encode, as LAFTR and FNF do.",
            "“FARE as published”: the paper's orderings of categories, three lemmas, sweeps (CA 171 settings, US 54, "
            "Health 80) and the median of each cell through the paper's network, five times. Settings whose tree ends "
            "with fewer cells than asked for are the smaller tree again, and are left out.",
            "Rows without another word: the published number of epochs. “At its best length”: the best of all lengths "
            "that were trained. All five splits have the published number; shorter trainings are of the first split, "
            "on CA 10 and 30 % (LAFTR 10 %) of the others, too. On CA, with 40,660 training records (the paper: "
            "165,546), the published number overfits.",
            "“Boosting as consumer”: gradient boosting instead of the paper's network, on the codes of the published "
            "length. “Nothing hidden”: what a classifier reaches on the table itself. The paper's network on "
            "standardised one-hot columns overfits rare categories on CA.",
            "“Steady” and “narrow” are not the published configurations but variants that hide the group better "
            "(`docs/baselines.md`); one split.",
            "The adversary is gradient boosting that predicts the group, measured on fresh records with exact 95 % "
            "limits. For certified rows: the largest distance that any classifier on the cells has on the test "
            "records; above T* it would be the chance of the test records, or one of the 5 %.",
            "The authors' numbers are for other years (2014) and more records: compare order and shape, not digits.",
            *_not_reproduced({title: points for title, points in behind.items() if points is not None}),
        ),
    )


def _methods(records: Sequence[Any]) -> list[str]:
    found = dict.fromkeys((as_published.METHOD, *published.METHODS, *(r["kind"] for r in records)))
    return [method for method in found if method != "identity"]


def _rows(method: str, records: Sequence[Any], splits: int) -> list[list[Any]]:
    """Rows of one method: at its published length, at its best length, and with another consumer."""
    mine = [r for r in records if r["kind"] == method and r["classifier"] == "mlp50"]
    if not mine:
        return [[f"{method}: {published.ABSENT}", *[None] * (len(LEVELS) + 1)]]
    rows = []
    if mine[0]["bound"] is not None:
        rows.append([f"{method}: T* by the lemmas ≤, best on test", *within(mine, LEVELS, splits), None])
    whole = [r for r in mine if r["effort"] == 1]
    lengths = f" ({_splits(mine)})" if len({r["split"] for r in mine}) < splits else ""
    if whole:
        rows.append([f"{method}{lengths}: measured ≤", *within(whole, LEVELS, splits, "distance"), _top(whole)])
    if any(r["effort"] != 1 for r in mine):
        words = f"{method}{lengths}, at its best length" if whole else f"{method} ({_splits(mine)}, shorter)"
        rows.append([f"{words}: measured ≤", *within(mine, LEVELS, splits, "distance"), _top(mine)])
    boosted = [r for r in records if r["kind"] == method and r["classifier"] == "gbm"]
    if boosted:
        some = f" ({_splits(boosted)})" if len({r["split"] for r in boosted}) < splits else ""
        words = f"{method}{some}, boosting as consumer: measured ≤"
        rows.append([words, *within(boosted, LEVELS, splits, "distance"), _top(boosted)])
    return rows


def _splits(records: Sequence[Any]) -> str:
    count = len({r["split"] for r in records})
    return "1 split" if count == 1 else f"{count} splits"


def _reference(kind: str, records: Sequence[Any]) -> list[Any] | None:
    own = [r for r in records if r["kind"] == "identity" and r["classifier"] == kind and r["effort"] == 1]
    return [f"nothing hidden: {REFERENCES[kind]}", *[None] * len(LEVELS), _top(own)] if own else None


def _top(records: Sequence[Any]) -> str:
    """Return accuracy and distance of the most accurate setting, means over splits."""
    tops = [max(own, key=lambda r: r["accuracy"]) for own in by_split(records)]
    return f"{fmean(r['accuracy'] for r in tops):.3f} at {fmean(r['distance'] for r in tops):.3f}"


def _grounds(title: str, certified: Sequence[Any], theirs: Sequence[Any]) -> Block:
    """Say what each row rests on: which rows of the CSV, who chose what on which records, splits and settings."""
    rows: list[list[Any]] = []
    for way in WAYS:
        mine = [r for r in certified if r["kind"] == way]
        rows.append(
            [f"{way}: certified", f"kind = {way}", "the command, on training and select records", 1, _count(mine), "–"]
        )
    for method in dict.fromkeys((r["kind"], r["classifier"]) for r in theirs):
        mine = [r for r in theirs if (r["kind"], r["classifier"]) == method]
        settings = len({r["setting"] for r in mine})
        efforts = ", ".join(f"{100 * e:g} %" for e in sorted({r["effort"] for r in mine}))
        chosen = "nothing to choose" if method[0] == "identity" else "we, on the test records, for every level"
        rows.append(
            [
                f"{method[0]}: measured, {method[1]}",
                f"kind = {method[0]}, classifier = {method[1]}",
                chosen,
                settings,
                _count(mine),
                efforts,
            ]
        )
    return Block(
        f"{title}: what each row rests on",
        ["row", "rows of comparison.csv", "chosen by, on", "settings", "splits", "lengths of training"],
        rows,
    )


def _count(records: Sequence[Any]) -> int:
    return len({r["split"] for r in records})


def _points(certified: Sequence[Any], network: Sequence[Any]) -> list[dict[str, Any]]:
    """Lines of the chart: means over splits for what is certified, fronts of the first split for what is measured."""
    points = course(certified, WAYS, LEVELS)
    first = [r for r in network if r["split"] == 0]
    fare = [r for r in first if r["kind"] == as_published.METHOD]
    points += front(fare, "bound", "FARE as published, T*") + front(fare, "distance", "FARE as published, measured")
    others = [r for r in first if r["kind"] in published.METHODS and r["kind"] != "identity"]
    return points + front(others, "distance", "best published method, measured")


def _not_reproduced(behind: Mapping[str, float]) -> tuple[str, ...]:
    if not behind:
        return ()
    found = ", ".join(f"{100 * points:.1f} on {name}" for name, points in behind.items())
    return (
        "What did not reproduce. The paper's trees come within 1.5 points of the unfair accuracy; here, as published "
        "and measured, they end behind the most accurate of the published methods and the network on the records as "
        f"they are by so many points: {found}. Likely reasons: a fourth "
        "of the paper's records on CA and US, and cells of at least 100 (US: 1,000) records whatever their number. T* "
        "of the published lemmas is higher by the same cause: it falls with the square root of the records (see "
        "[data size](size.md)).",
    )


def _behind(records: Sequence[Any]) -> float | None:
    """By how much FARE as published is less accurate than the most accurate method, in the mean over splits."""
    tops = {
        method: fmean(max(r["accuracy"] for r in own) for own in by_split(mine))
        for method in (as_published.METHOD, *published.METHODS)
        if (mine := [r for r in records if r["kind"] == method])
    }
    return max(tops.values()) - tops[as_published.METHOD] if as_published.METHOD in tops else None


def _authors(name: str) -> list[list[Any]]:
    rows: list[list[Any]] = []
    if name not in AUTHORS:
        return rows
    dataset = AUTHORS[name]
    year = "" if name == "health" else " (2014)"
    columns = [f"acc@T<={v:.2f}" for v in LEVELS]
    rows.append(
        [f"authors' FARE{year}: certified, T* ≤", *[published.anchor(dataset, "tree", c) for c in columns], None]
    )
    for method in ("tree", "LAFTR", "CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath", "identity"):
        values = [published.anchor(dataset, method, f"acc@mean<={v:.2f}") for v in LEVELS]
        top = published.anchor(dataset, method, "max_acc")
        at = published.anchor(dataset, method, "unf_at_max_acc")
        label = "FARE" if method == "tree" else method
        rows.append([f"authors' {label}{year}: measured", *values, f"{top:.3f} at {at:.3f}"])
    return rows


def _attacks(title: str, certified: Sequence[Any], theirs: Sequence[Any]) -> Block:
    """For each method, what an adversary makes of a representation that looks fair."""
    rows: list[list[Any]] = [
        [f"{r['kind']}, for T* ≤ {r['level']:.2f}", r["accuracy"], r["distance"], r["any_classifier"], r["bound"]]
        for r in certified
        if r["split"] == 0
    ]
    for method in _methods(theirs):
        own = [r for r in theirs if r["kind"] == method and r["adversary"] is not None]
        if not own:  # the T* of FARE as published bounds every adversary
            continue
        for label, r in (
            ("most accurate", max(own, key=lambda r: r["accuracy"])),
            ("least distance, above majority", _fairest(own)),
        ):
            limits = r["attack"].interval()
            rows.append(
                [
                    f"{method}, {label} ({r['setting'] or 'as is'})",
                    r["accuracy"],
                    r["distance"],
                    f"{limits.estimate:.3f} [{limits.lower:.3f}, {limits.upper:.3f}]",
                    None,
                ]
            )
    return Block(
        f"{title}: what an adversary finds (first split)",
        ["representation", "accuracy", "measured distance", "adversary's distance", "T*"],
        rows,
    )


def _fairest(records: Sequence[Any]) -> Any:
    """Smallest measured distance among the settings whose accuracy is not yet near the constant prediction's."""
    floor = min(r["accuracy"] for r in records)
    useful = [r for r in records if r["accuracy"] >= floor + 0.02] or list(records)
    return min(useful, key=lambda r: r["distance"])
