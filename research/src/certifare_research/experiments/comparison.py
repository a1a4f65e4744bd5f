"""Main comparison (figures 3, 4 and 10): accuracy over distance on ACSIncome-CA, ACSIncome-US and Health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certifare_research.evaluation.pareto import pareto_front
from certifare_research.experiments import charts, published
from certifare_research.experiments.framework import LEVELS, Block, Page, Run
from certifare_research.experiments.growths import best, choose, claims_of, explore, independent_parts
from certifare_research.experiments.published import PublishedRun

TITLES = {"ca": "ACSIncome-CA 2018", "us": "ACSIncome-US 2018", "health": "Health"}
AUTHORS = {"ca": "ACSIncome-CA-2014", "us": "ACSIncome-ALL-2014", "health": "health_notransfer"}
KINDS = ("tree", "boosted")


def restricted(run: Run, item: Sequence[str]) -> dict[str, Any]:
    """All encoders of one kind on one data set, and those chosen for each level."""
    data, kind = item
    dataset = run.load(data)
    parts = independent_parts(dataset, run.shares(), run.seed)
    points = list(explore(dataset, parts, run.grid(kinds=[kind]), seed=run.seed))
    chosen = []
    for level in LEVELS:
        choice = choose(points, level)
        if choice is not None:
            record = choice.point.record()
            attack = choice.point.adversary().interval()
            chosen.append(
                {
                    **record,
                    "level": level,
                    "bound": choice.certificate.bound,
                    "tried": choice.tried,
                    "adversary_lower": attack.lower,
                    "adversary_upper": attack.upper,
                }
            )
    return {"records": [point.record() for point in points], "chosen": chosen}


def measured(runs: Sequence[PublishedRun], data: str) -> list[dict[str, Any]]:
    """Each setting of each published method: the paper's protocol, and the strongest adversary that was tried."""
    attacks: dict[tuple[str, str, float], list[Any]] = {}
    for r in runs:
        if r.data == data and r.target == "s" and r.metric == "demographic_parity":
            attacks.setdefault((r.method, r.setting, r.effort), []).extend(r.evaluation.outcomes)
    records = []
    for r in published.select(runs, data=data, task="y", classifier="mlp50", target="y", metric="demographic_parity"):
        found = attacks.get((r.method, r.setting, r.effort), [])
        strongest = max(found, key=lambda o: o.distance(), default=None)
        records.append(
            {
                "kind": r.method,
                "setting": r.setting,
                "effort": r.effort,
                "accuracy": r.evaluation.accuracy,
                "distance": r.evaluation.mean_distance(),
                "max_distance": r.evaluation.max_distance(),
                "adversary": None if strongest is None else strongest.distance(),
                "attack": strongest,
            }
        )
    return records


def run(run: Run) -> Page:
    """Compare restricted encoders, certified, with the published methods, measured."""
    data = ("ca", "us", "health") if not run.quick else ("ca",)
    runs = published.read_runs(run.baselines)
    items = [(name, kind) for name in data for kind in KINDS]
    ours = dict(zip(items, run.each(restricted, items), strict=True))
    blocks, points, records, claims = [], [], [], []
    for name in data:
        theirs = measured(runs, name)
        rows: list[list[Any]] = []
        for kind in KINDS:
            result = ours[name, kind]
            by_level = {c["level"]: c for c in result["chosen"]}
            rows.append([f"{kind}: certified, T* ≤", *[_get(by_level.get(v), "accuracy") for v in LEVELS], None])
            rows.append(
                [
                    f"{kind}: each certified for itself, best on test",
                    *[_get(best(result["records"], v), "accuracy") for v in LEVELS],
                    None,
                ]
            )
            records += [{"data": name, **r} for r in result["records"]]
            claims += claims_of(result["records"], name)
            points += _front(result["records"], "bound", f"{kind}, T*", TITLES[name], True)
        for method in dict.fromkeys((*(r["kind"] for r in theirs), *published.METHODS)):
            own = [r for r in theirs if r["kind"] == method]
            label = "unfair (identity)" if method == "identity" else method
            if not own:
                rows.append([f"{label}: {published.ABSENT}", *[None] * (len(LEVELS) + 1)])
                continue
            top = max(own, key=lambda r: r["accuracy"])
            rows.append(
                [
                    f"{label}: measured, distance ≤",
                    *[_get(best(own, v, "distance"), "accuracy") for v in LEVELS],
                    f"{top['accuracy']:.3f} at {top['distance']:.3f}",
                ]
            )
            records += [{"data": name, **{k: v for k, v in r.items() if k != "attack"}} for r in own]
            points += _front(own, "distance", label, TITLES[name], False)
        rows += _authors(name)
        columns = ["best accuracy at", *[f"{v:.2f}" for v in LEVELS], "most accurate"]
        blocks.append(Block(TITLES[name], columns, rows))
        blocks.append(_attacks(name, [c for k in KINDS for c in ours[name, k]["chosen"]], theirs))
    return Page(
        title="Main comparison",
        text="Best accuracy on the test records at a demographic parity distance of at most .05, .10, .15, "
        ".20. For restricted "
        "encoders the limit is on the *certificate* T*: no classifier whatsoever exceeds it, with 95 % "
        "confidence. For the "
        "published methods it is on the distance *measured* for one classifier, the mean of five runs of the "
        "paper's network "
        "(the paper's protocol), and their settings are chosen on the test records, in their favour.",
        blocks=blocks,
        records=records,
        claims=claims,
        chart=charts.fronts(points, "T* (solid) or measured distance (dashed)", facet="panel"),
        notes=(
            "“certified”: the encoder was chosen on training and select records, certified on untouched "
            "records (ε shared "
            "among the shortlist), and its accuracy read off on the test records once. “each certified for "
            "itself” is the "
            "paper's way: the best of the whole grid on the test records.",
            "Restricted encoders fit on 42 % of the records, choose on 8 %, certify on 30 %; published "
            "methods train on all "
            "80 %. The test part is the same 20 %. Accuracy of restricted encoders is that of the cells' "
            "majority vote.",
            "Health: all years of a patient are in one part; one record per patient is used to choose and to certify.",
            "Published methods: full published grids on one GPU (H200), `benchmarks/train_baselines.py`; on "
            "CA also with 3, 10 "
            "and 30 % of the published epochs, because with 40,660 training records (the paper: 165,546) the "
            "published number "
            "of epochs overfits; on US thinned grids with 6 % of the epochs. The table takes the best of all. "
            "Identity is the "
            "paper's network on one-hot columns, which overfits on CA.",
            "“Steady” and “narrow” are not the published configurations but variants that hide the group better "
            "(`docs/baselines.md`); FairPath narrow: means over five seeds, and the strongest of their adversaries.",
            "The adversary is gradient boosting that predicts the group. Its distance is measured on fresh records, "
            "with exact 95 % limits. One that is above T* while its lower limit is below is the chance of the test "
            "records; it would contradict the certificate if its lower limit were above T* as well "
            "([audit](audit.md)).",
            "The authors' numbers are for other years (2014) and more records: compare order and shape, not digits.",
        ),
    )


def _get(record: Any, name: str) -> Any:
    return None if record is None else record[name]


def _front(records: Sequence[Any], by: str, series: str, panel: str, certified: bool) -> list[dict[str, Any]]:
    index = pareto_front([r["accuracy"] for r in records], [r[by] for r in records])
    return [
        {
            "series": series,
            "panel": panel,
            "certified": certified,
            "distance": records[i][by],
            "accuracy": records[i]["accuracy"],
        }
        for i in index
    ]


def _authors(name: str) -> list[list[Any]]:
    rows: list[list[Any]] = []
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


def _attacks(name: str, chosen: Sequence[Any], theirs: Sequence[Any]) -> Block:
    """For each method, what an adversary makes of a representation that looks fair."""
    rows: list[list[Any]] = []
    for c in chosen:
        rows.append(
            [
                f"{c['kind']}, chosen for T* ≤ {c['level']:.2f}",
                c["accuracy"],
                c["distance"],
                f"{c['adversary']:.3f} [{c['adversary_lower']:.3f}, {c['adversary_upper']:.3f}]",
                c["bound"],
            ]
        )
    for method in dict.fromkeys((*(r["kind"] for r in theirs), *published.METHODS)):
        own = [r for r in theirs if r["kind"] == method and r["adversary"] is not None]
        if not own:
            rows.append([f"{method}: {published.ABSENT}", *[None] * 4])
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
        f"{TITLES[name]}: what an adversary finds",
        ["representation", "accuracy", "measured distance", "adversary's distance", "T*"],
        rows,
    )


def _fairest(records: Sequence[Any]) -> Any:
    """Smallest measured distance among the settings whose accuracy is not yet near the constant prediction's."""
    floor = min(r["accuracy"] for r in records)
    useful = [r for r in records if r["accuracy"] >= floor + 0.02] or list(records)
    return min(useful, key=lambda r: r["distance"])
