"""Every number in a table of the pages of results, and in README's comparison, follows from the CSV files.

Each cell is computed a second time, from the files alone: a page is read, and every row must be what the files say of
its label. A digit that is changed by one makes a test fail. Sentences that compare are computed, too.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from runpy import run_path
from statistics import fmean, stdev

import numpy as np
import pytest

from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments import ablation, efficiency, published, transfer
from certifare_research.experiments.arrays import SHARES, load

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "docs" / "results"
EXPERIMENTS = sorted(path.stem for path in RESULTS.glob("*.md") if path.stem not in ("index", "fidelity"))
LEVELS = (0.05, 0.10, 0.15, 0.20)
#: Levels that tables have columns for; each function below knows those of its page.
SHOWN = ((), LEVELS, (0.02, 0.03, *LEVELS), (0.02, 0.03, *LEVELS[:3]), (0.10, 0.15, 0.20, 0.30))
METHODS = ("LAFTR", "CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath")
FARE = "FARE as published"
TITLES = {"ca": "ACSIncome-CA 2018", "us": "ACSIncome-US 2018", "health": "Health"}
YEARS = {"2015", "2016", "2017", "2018"}
NUMBERS = {
    "split", "level", "bound", "cells", "accuracy", "distance", "effort", "adversary", "any_classifier", "lemmas",
    "gamma", "seed", "M", "estimate", "lower", "seconds", "share", "missing", "measured", "first_bound",
    "positive", "male", "peak_gb", "knob", "majority", "gpu_gb", "settings",
}  # fmt: skip


@cache
def rows_of(name):
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return [
            {k: float(v) if (k in NUMBERS and v) or (k == "records" and v.isdigit()) else v
             for k, v in row.items()}
            for row in csv.DictReader(file)
        ]  # fmt: skip


def where(rows: Iterable[dict], **wanted):
    return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]


@cache
def tables(name):
    """Read the tables of a page: caption → the names of its columns, and its rows."""
    found = {}
    for caption, text in re.findall(r"^## (.*?)\n\n((?:\|.*\n)+)", (RESULTS / f"{name}.md").read_text(), re.M):
        head, _, *lines = [[cell.strip() for cell in line.strip("\n")[1:-1].split(" |")] for line in text.splitlines()]
        found[caption] = head, lines
    return found


def near(cell, expected):
    """Compare a cell with what the files say, to the last digit that it shows; the files have six."""
    numbers, others = (re.findall(r"\d+\.\d+", text) for text in (cell, expected))
    assert re.sub(r"\d+\.\d+", "#", cell) == re.sub(r"\d+\.\d+", "#", expected), (cell, expected)
    for a, b in zip(numbers, others, strict=True):
        digits = len(a.partition(".")[2])
        halfway = 0.5 * 10.0**-digits + 2e-6 + 2e-6 * float(b)
        assert abs(float(a) - float(b)) <= halfway, (cell, expected)


def number(value):
    return "–" if value is None or value == "" else f"{value:.9f}"


def quoted(value):
    """One of the authors' numbers, which have four digits: three, as the page rounds them."""
    return "–" if value is None else f"{value:.3f}"


def over(values, splits=5):
    """Mean ± standard deviation, and of how many splits."""
    if len(values) < 2:
        return number(*values or [None]) + (f" (1 of {splits})" if values and splits > 1 else "")
    some = "" if len(values) == splits else f" ({len(values)} of {splits})"
    return f"{number(fmean(values))} ± {number(stdev(values))}{some}"


def splits_of(rows):
    return [list(own) for _, own in groupby(sorted(rows, key=lambda r: r["split"]), key=lambda r: r["split"])]


def best(rows, level, by="bound"):
    """Return the highest accuracy of each split among the settings within a level."""
    kept = [[r["accuracy"] for r in own if r[by] <= level] for own in splits_of(rows)]
    return [max(own) for own in kept if own]


def within(rows, levels, by="bound"):
    return [over(best(rows, level, by), 5 if len(splits_of(rows)) > 1 else 1) for level in levels]


def delivered(rows, kind, level):
    return [r["accuracy"] for r in rows if r["kind"] == kind and r["level"] == level]


def stored(dataset, method, metric="dp", by="mean"):
    return [quoted(published.anchor(dataset, method, f"acc@{by}<={v:.2f}", metric)) for v in LEVELS]


@cache
def runs():
    return published.read_runs()


def signed(value):
    return f"{value:.9f}" if value >= 0 else f"-{-value:.9f}"


# One function for each page: its caption, the names of its columns and a row's cells → the cells as they must be.


def comparison(caption, head, row):
    title, _, what = caption.partition(": ")
    data = next(key for key, name in TITLES.items() if name == title)
    rows = where(rows_of("comparison"), data=data)
    label = row[0]
    if what.startswith("what each row rests on"):
        conditions = dict(part.split(" = ") for part in row[1].split(", "))
        mine = where(rows, **conditions)
        certified = "classifier" not in conditions
        lengths = ", ".join(f"{100 * e:g} %" for e in sorted({r["effort"] for r in mine})) if not certified else "–"
        settings = 1 if certified else len({r["setting"] for r in mine})
        return [label, row[1], row[2], str(settings), str(len(splits_of(mine))), lengths]
    if what:
        return adversary(rows, data, label, row)
    name, _, words = label.partition(": ")
    top = None
    if words.startswith("certified") and not label.startswith("authors'"):
        return [label, *[over(delivered(rows, name, level)) for level in LEVELS], "–"]
    if label.startswith("authors'"):
        dataset = {"ca": "ACSIncome-CA-2014", "us": "ACSIncome-ALL-2014", "health": "health_notransfer"}[data]
        method = name.split()[1].replace("FARE", "tree")
        if words.startswith("certified"):
            return [label, *stored(dataset, method, by="T"), "–"]
        top, at = (published.anchor(dataset, method, c) for c in ("max_acc", "unf_at_max_acc"))
        return [label, *stored(dataset, method), f"{quoted(top)} at {quoted(at)}"]
    method = re.sub(r" \(.*\)|, at its best length|, boosting as consumer", "", name)
    words_of = {"boosting": "gbm", "as they are": "mlp50-raw", "logistic": "logistic"}
    classifier = next((kind for words, kind in words_of.items() if words in label), "mlp50")
    mine = where(rows, kind="identity" if name == "nothing hidden" else method, classifier=classifier)
    if not re.search("best length|shorter", name):
        mine = where(mine, effort=1.0)
    tops = [max(own, key=lambda r: r["accuracy"]) for own in splits_of(mine)]
    top = f"{number(fmean(r['accuracy'] for r in tops))} at {number(fmean(r['distance'] for r in tops))}"
    if name == "nothing hidden":
        return [label, *["–"] * 4, top]
    by_lemmas = words.startswith("T*")
    return [label, *within(mine, LEVELS, "bound" if by_lemmas else "distance"), "–" if by_lemmas else top]


def adversary(rows, data, label, row):
    first = where(rows, split=0.0)
    if found := re.fullmatch(r"(.*), for T\* ≤ (.*)", label):
        (r,) = where(first, kind=found[1], level=float(found[2]))
        return [label, *(number(r[c]) for c in ("accuracy", "distance", "any_classifier", "bound"))]
    method, which, setting = re.fullmatch(r"(.*), (most|least) .*\((.*)\)", label).groups()
    mine = [r for r in where(first, kind=method, classifier="mlp50") if r["adversary"] != ""]
    if which == "most":
        r = max(mine, key=lambda r: r["accuracy"])
    else:
        useful = [r for r in mine if r["accuracy"] >= min(r["accuracy"] for r in mine) + 0.02] or mine
        r = min(useful, key=lambda r: r["distance"])
    assert r["setting"] == setting
    attacks = [
        outcome
        for a in published.select(runs(), data=data, method=method, target="s", setting=setting, split=0)
        if (a.effort, a.arguments) == (r["effort"], r["arguments"])
        for outcome in a.evaluation.outcomes
    ]
    limits = max(attacks, key=lambda o: o.distance()).interval()
    found = f"{number(r['adversary'])} [{number(limits.lower)}, {number(limits.upper)}]"
    return [label, number(r["accuracy"]), number(r["distance"]), found, "–"]


def other_metric(name, short):
    def cells(caption, head, row):
        label = row[0]
        kind, _, what = label.partition(": ")
        if label.startswith("authors'"):
            rest = kind.removeprefix("authors' ")
            method = {"FARE": f"tree-{short}", "FARE, made for demographic parity": "tree"}.get(rest, rest)
            return [label, *stored("health_notransfer", method, short, "T" if what.startswith("T*") else "mean")]
        if what.startswith("certified"):
            return [label, *[over(delivered(rows_of(name), kind, level)) for level in LEVELS]]
        method, _, trained = kind.partition(", made for ")
        own = where(rows_of(name), kind=method, trained_for=trained.replace(" ", "_"))
        return [label, *within(own, LEVELS, "bound" if what.startswith("T*") else "distance")]

    return cells


def transfers(caption, head, row):
    rows = rows_of("transfer")
    if caption.startswith("What each"):
        own = where(rows, kind=row[1].removeprefix("kind = "))
        counts = sorted({len({r["setting"] for r in of_split}) for of_split in splits_of(own)})
        return [*row[:3], " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))), str(len(splits_of(own)))]
    task, level = row[0], float(row[1].removeprefix("≤ "))
    own = where(rows, task=task)
    voted = where(own, kind="FARE's trees, majority vote")
    rates = [[int(n) for n in of_split[0]["counts"].split()] for of_split in splits_of(voted)]
    positive = [sum(c[i] for i in (2, 3, 6, 7)) / sum(c) for c in rates]
    cells = [task, row[1], number(fmean(max(p, 1 - p) for p in positive))]
    paper = head.index("paper: FARE") if "paper: FARE" in head else len(head)
    for name in head[3:paper]:
        mine = where(own, kind=name)
        if name == "its T*":
            settings = [
                max((r for r in of_split if r["distance"] <= level), key=lambda r: r["accuracy"], default=None)
                for of_split in splits_of(where(own, kind=FARE))
            ]
            cells.append(over([r["bound"] for r in settings if r]))
            continue
        if name.startswith("best of the methods"):
            found = {kind: best(where(own, kind=kind, level=""), level, "distance")
                     for kind in dict.fromkeys(r["kind"] for r in own)}  # fmt: skip
            kind, at = max(((k, v) for k, v in found.items() if v), key=lambda pair: fmean(pair[1]))
            cells.append(f"{number(fmean(at))} ({kind}, {len(at)} split{'s' * (len(at) > 1)})")
        elif mine[0]["level"] != "":
            cells.append(over(delivered(mine, name, level)))
        else:
            cells += within(mine, [level], "distance" if head[1] == "distance" else "bound")
    bound, fare, *others = transfer.PAPER[task][level]
    percent = [None if v is None else v / 100 for v in (fare, *others)]
    percent.insert(1, bound)
    return [*cells, *map(number, percent if paper < len(head) else [])]


def adult(caption, head, row):
    rows = rows_of("adult")
    if caption.startswith("Accuracy"):
        own = where(rows, table="frontier")
        return [row[0], *[over(delivered(own, row[0].partition(":")[0], level)) for level in LEVELS]]
    if caption.startswith("T*"):
        return sizes(where(rows, table="size"), head, row)
    setting, k = re.fullmatch(r"(\w+), k = (\d+)", row[0]).groups()
    means = averages(where(rows, table="ablation", setting=setting), int(k))
    return [row[0], *(number(means[c]) for c in ("cells", "accuracy", "distance", "lemmas", "bound", "lower"))]


def sizes(rows, head, row):
    kind, gamma, k = re.fullmatch(r"(\w+), γ = ([\d.]+), k = (\d+)", row[0]).groups()
    own = {r["M"]: r for r in where(rows, kind=kind, gamma=float(gamma), cells=float(k))}
    cells = [row[0], number(own[1]["estimate"])]
    for column in head[2:]:
        cells.append(number(own[int(re.search(r"\d+", column)[0])]["lemmas" if "lemmas" in column else "bound"]))
    return cells


def averages(rows, k):
    """Means over splits of the largest trees with at most k cells."""
    assert k in ablation.CELLS
    reached = [
        max((r for r in rows if r["seed"] == seed and r["cells"] <= k), key=lambda r: r["cells"])
        for seed in sorted({r["seed"] for r in rows})
    ]
    columns = ("cells", "accuracy", "distance", "lemmas", "bound", "lower", "seconds")
    return {column: fmean(r[column] for r in reached) for column in columns if column in reached[0]}


def ablations(caption, head, row):
    name, kind = re.match(r"(\w+), (.*?) \(γ", caption).groups()
    k = int(row[0].split()[0])
    means = averages(where(rows_of("ablation"), setting=name, kind=kind), k)
    label = f"{k}" if means["cells"] == k else f"{k} ({number(means['cells'])} reached)"
    cells = [label, *(number(means[c]) for c in ("accuracy", "distance", "lemmas", "bound", "lower"))]
    paper = ablation.PAPER[name][ablation.CELLS.index(k)] if len(head) > len(cells) + 1 else ()
    return [*cells, f"{number(means['seconds'])} s", *map(number, paper)]


@cache
def lower_limit(counts, metric):
    return Outcome.parse(counts).interval(0.9, metric).lower


def far_above(row):
    """Whether it is worth computing the exact limit: it lies more than a standard deviation below what was measured."""
    if row["metric"] != "demographic_parity":
        return True
    counts = Outcome.parse(row["counts"]).counts.sum(1)
    sizes = counts.sum(1, keepdims=True)
    rates = counts / sizes
    variances = (rates * (1 - rates) / sizes)[:, np.ptp(rates, axis=0).argmax()]
    return row["measured"] - row["bound"] > np.sqrt(2 * variances.min())


def audits(caption, head, row):
    claims = {
        path.name.removesuffix(".claims.csv"): rows_of(path.name.removesuffix(".csv"))
        for path in sorted(RESULTS.glob("*.claims.csv"))
    }
    own = [(name, r) for name, rows in claims.items() if row[0] in (name, "all") for r in rows]
    above = [r for _, r in own if r["measured"] > r["bound"]]
    certain = [r for r in above if far_above(r) and lower_limit(r["counts"], r["metric"]) > r["bound"]]
    encoders = len({(name, r["data"], r["encoder"]) for name, r in own})
    excess = max(0.0, *(r["measured"] - r["bound"] for _, r in own))
    shares = [f"{100 * len(some) / len(own):.9f}%" for some in (above, certain)]
    return [row[0], f"{encoders:,}", f"{len(own):,}", str(len(above)), shares[0], str(len(certain)), shares[1],
            number(excess)]  # fmt: skip


def twenty_four(caption, head, row):
    rows = rows_of("classifiers24")
    target = "y" if row[0].endswith("label") else "s"
    model = {"unlimited tree": "raw-tree", "SVM": "svm"}.get(row[0].partition(", ")[0])
    own = [
        r
        for r in where(rows, target=target)
        if (r["model"] == model if model else r["model"] not in ("raw-tree", "svm"))
    ]
    worst = max(own, key=lambda r: r["distance"])
    label = row[0] if model else f"{len(own)} trained for the {'label' if target == 'y' else 'group'}"
    accuracy = max(r["accuracy"] for r in own) if target == "y" else None
    return [label, number(accuracy), number(worst["distance"]), worst["model"],
            *(number(worst[c]) for c in ("lower", "bound", "lemmas"))]  # fmt: skip


def downstreams(caption, head, row):
    name = {
        "Network (50)": "mlp50", "Decision tree, 100 leaves (the authors' code)": "raw-tree100",
        "Decision tree, 2,500 leaves (the paper)": "raw-tree2500", "Random forest, 100 trees": "raw-forest100",
        "Logistic regression": "logistic", "Network (50, 50)": "mlp50-50",
    }[caption]  # fmt: skip
    label = row[0]
    kind, _, what = label.partition(": ")
    if label.startswith("authors'"):
        data = "ACSIncome-CA-2014" + {"raw-tree100": "-tree", "raw-forest100": "-forest", "logistic": "-logreg",
                                      "mlp50-50": "-nn2"}.get(name, "")  # fmt: skip
        return [label, *stored(data, kind.split()[1].replace("FARE", "tree"))]
    rows = where(rows_of("downstream"), classifier=name, kind=kind)
    if what.startswith("certified"):
        return [label, *[number(next(iter(delivered(rows, kind, level)), None)) for level in LEVELS]]
    if what == "no results":
        assert not rows
        return [label, *["–"] * 4]
    count = "nothing hidden" if kind == "identity" else f"{len(rows)} settings"
    return [f"{kind}: measured ≤ ({count})", *within(rows, LEVELS, "distance")]


def efficiencies(caption, head, row):
    rows = rows_of("efficiency")

    def span(seconds):
        return f"{seconds:.9f} s" if seconds < 90 else f"{seconds / 60:.9f} min"

    if caption.startswith("Time"):
        own = {r["M"]: r for r in where(rows, method=row[0], data="ca")}
        cells = [f"{span(own[m]['seconds'])}, {number(own[m]['peak_gb'])} GB" for m in (1, 4, 16)]
        return [row[0], *cells, *efficiency.PAPER.get(row[0], ("–",) * 3)]
    if caption.endswith("Vermont"):
        (own,), (tree,) = (where(rows, method=method, data="us-VT") for method in (row[0], "fair tree"))
        times = f"{own['seconds'] / tree['seconds']:,.0f}"
        return [row[0], span(own["seconds"]), f"{number(own['peak_gb'])} GB", times]

    def measured(place, times):
        (own,) = where(rows, method=row[0], data=f"ca, {place}", M=times)
        share = float(own["share"])
        limit, part = ("≤ ", f" ({100 * share:.0f} %)") if share < 1 else ("", "")
        return f"{limit}{span(own['seconds'])}{part}, {number(own['peak_gb'])} GB"

    cells = [measured("one core", 1), *[measured("GPU", m) for m in (1, 4, 16)]]
    return [row[0], *cells, *efficiency.PAPER.get(row[0], ("–",) * 3)]


def imbalances(caption, head, row):
    own = where(rows_of("imbalance"), share=float(row[0].removeprefix("c = ")))
    counts = sorted({int(r["records"]) for r in own})
    return [row[0], " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1]))), *within(own, LEVELS)]


def imputations(caption, head, row):
    share, _, how = row[0].partition("% ")
    own = where(rows_of("imputation"), missing=float(share) / 100) if how else where(rows_of("imputation"), missing=0.0)
    return [row[0], *within(where(own, how=how) if how else own, (*LEVELS, 1.0))]


def interpretabilities(caption, head, row):
    (own,) = where(rows_of("interpretability"), cell=row[0])
    return [row[0], own["description"], own["occupations"], *(number(own[c]) for c in ("share", "male", "positive"))]


def k_means(caption, head, row):
    rows = rows_of("kmeans")
    if caption == "K-means":
        own = where(rows, kind="kmeans", cells=float(row[0]))
        return [row[0], *(over([r[c] for r in own]) for c in ("accuracy", "distance", "adversary", "lower", "bound"))]
    levels = (0.10, 0.15, 0.20, 0.30)
    if row[0].startswith("authors'"):
        return [row[0], *[quoted(published.anchor("ACSIncome-CA-2014", "kmeans", f"acc@T<={v:.2f}")) for v in levels]]
    own = where(rows, kind="kmeans" if row[0].startswith("k-means") else "tree")
    return [row[0], *within(own, levels, "bound" if "T*" in row[0] else "distance")]


def several(caption, head, row):
    levels = (0.10, 0.15, 0.20, 0.30)
    kind, _, what = row[0].partition(": ")
    if row[0].startswith("authors'"):
        return [
            row[0],
            *[quoted(published.anchor("ACSIncomeMulti-CA-2014", "tree", f"acc@T<={v:.2f}")) for v in levels],
        ]
    by = "lemmas" if "lemmas" in what else "bound" if what.startswith("T*") else "distance"
    return [row[0], *within(where(rows_of("multi"), kind=kind), levels, by)]


def shifts(caption, head, row):
    by = "states" if "state" in caption else "years"
    place, what = re.fullmatch(r"(\w+), (.*) ≤", row[0]).groups()
    own = where(rows_of("shift"), by=by, place=place)
    cells = within(own, (0.02, 0.03, *LEVELS), "bound" if what.startswith("T*") else "distance")
    beyond = [max(r["distance"], r["adversary"]) - r["first_bound"] for r in own if r["first_bound"] != ""]
    last = [f"{sum(e > 0 for e in beyond)} of {len(beyond)}", signed(max(beyond))] if beyond else ["–", "–"]
    return [row[0], *cells, *last]


def year_by_year(caption, head, row):
    size, what = re.fullmatch(r"(.*), (.*) ≤", row[0]).groups()
    how = {"a random half": "us half", "all records": "us all"}.get(size, f"employment {size}")
    rows = where(rows_of("years"), data=how)
    trees, unfair = where(rows, kind="tree"), where(rows, kind="gradient boosting")
    tops = [max(r["accuracy"] for r in own) for own in splits_of(trees)]
    gaps = [r["accuracy"] - top for r, top in zip(sorted(unfair, key=lambda r: r["split"]), tops, strict=True)]
    beside = " at ".join(number(fmean(r[c] for r in unfair)) for c in ("accuracy", "distance"))
    cells = within(trees, (0.02, 0.03, 0.05, 0.10, 0.15), "bound" if what == "T*" else "distance")
    return [row[0], f"{int(unfair[0]['records']):,}", *cells, over(tops), beside, over(gaps)]


def knobs(caption, head, row):
    data = {"Adult": "adult", "ACSIncome-CA 2018": "ca"}
    rows = rows_of("learning")
    if caption.startswith("In short"):
        method, title = row[0].split(", ")
        own = sorted(where(rows, method=method, data=data[title]), key=lambda r: r["knob"])
        useful = [r for r in own if r["accuracy"] >= r["majority"] + 0.02]
        weakest = min(useful, key=lambda r: r["adversary"])
        last = [weakest[c] for c in ("adversary", "accuracy", "distance")]
        return [row[0], *map(number, [own[0]["adversary"], own[0]["accuracy"], *last, own[0]["majority"]])]
    if row[0] == "records as they are":
        own = published.select(runs(), data=data[caption], method="identity", task="y", split=0)
        top = max(published.select(own, target="y", classifier="mlp50"), key=lambda r: r.evaluation.accuracy).evaluation
        attack = max((r.evaluation.outcomes[0] for r in published.select(own, target="s")), key=Outcome.distance)
        return [row[0], "–", number(top.accuracy), number(top.mean_distance()), guessed([attack])]
    method, _, setting = row[0].partition(", ")
    (own,) = (
        r
        for r in where(rows, method=method, data=data[caption])
        if r["setting"].replace(" reconstruction=0", "") == setting
    )
    attacks = [Outcome.parse(part) for part in own["counts"].split(" | ")]
    return [row[0], f"{100 * own['effort']:.0f}%", number(own["accuracy"]), number(own["distance"]), guessed(attacks)]


def guessed(attacks):
    """An adversary's accuracy on the group: half of what is above one half is the distance."""
    each = [(1 + outcome.distance()) / 2 for outcome in attacks]
    if len(each) > 1:
        return f"{number(fmean(each))} ({number(min(each))} to {number(max(each))})"
    limits = attacks[0].interval()
    return f"{number(each[0])} [{number((1 + limits.lower) / 2)}, {number((1 + limits.upper) / 2)}]"


PAGES = {
    "ablation": ablations,
    "adult": adult,
    "audit": audits,
    "classifiers24": twenty_four,
    "comparison": comparison,
    "downstream": downstreams,
    "efficiency": efficiencies,
    "imbalance": imbalances,
    "imputation": imputations,
    "interpretability": interpretabilities,
    "kmeans": k_means,
    "learning": knobs,
    "multi": several,
    "odds": other_metric("odds", "eo"),
    "opportunity": other_metric("opportunity", "eopp"),
    "shift": shifts,
    "size": lambda caption, head, row: sizes(rows_of("size"), head, row),
    "transfer": transfers,
    "years": year_by_year,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("audit", "comparison", "transfer")))
        for name in EXPERIMENTS
    ],
)
def test_every_cell_of_every_table_follows_from_the_files(name):
    assert tables(name)
    for caption, (head, rows) in tables(name).items():
        assert tuple(float(level) for level in head if re.fullmatch(r"0\.\d\d", level)) in SHOWN
        for row in rows:
            assert set(re.findall(r"20\d\d", row[0])) <= ({"2014"} if row[0].startswith("authors'") else YEARS)
            expected = PAGES[name](caption, head, row)
            assert len(row) == len(head) == len(expected), (caption, row)
            for cell, says in zip(row, expected, strict=True):
                near(cell, says)


def test_a_table_that_a_page_shows_is_found():
    for name in EXPERIMENTS:
        text = (RESULTS / f"{name}.md").read_text()
        assert len(re.findall(r"^\|---", text, re.M)) == len(tables(name)), name


def test_a_digit_that_is_off_by_one_is_noticed():
    near("0.820 ± 0.006", "0.819600000 ± 0.006400000")
    with pytest.raises(AssertionError):
        near("0.821 ± 0.006", "0.819600000 ± 0.006400000")
    with pytest.raises(AssertionError):
        near("0.820 (2 of 5)", "0.820000000 (3 of 5)")


def readme_table():
    text = re.search(r"^\| \| CA, \.05.*?\n\n", (ROOT / "README.md").read_text(), re.M | re.S)[0]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]


def test_the_comparison_in_the_readme():
    rows = rows_of("comparison")
    columns = [(data, level) for data in ("ca", "us", "health") for level in LEVELS[:2]]
    for label, *cells in readme_table():
        for (data, level), cell in zip(columns, cells, strict=True):
            of_data = where(rows, data=data)
            measured = where(of_data, classifier="mlp50")
            if "certified, T" in label:
                found = delivered(of_data, label.split(":")[0], level)
            elif label.startswith(FARE):
                found = best(where(measured, kind=FARE), level, "bound" if "lemmas" in label else "distance")
            else:
                whole = where(measured, effort=1.0) if "published length" in label else measured
                methods = [best(where(whole, kind=m), level, "distance") for m in METHODS]
                found = max((m for m in methods if m), key=fmean, default=[])
            expected = "–" if not found else f"{fmean(found):.3f}".removeprefix("0")
            expected += "" if len(found) in (0, 5) else f" ({len(found)} of 5)"
            assert cell == expected, (label, data, level)


@pytest.mark.slow
def test_the_certificates_in_the_readme():
    """What the benchmark prints for 33,000 records in two equal groups at a true distance of .1."""
    text = (ROOT / "README.md").read_text()
    said = [re.findall(r"[\d.]+", line) for line in re.findall(r"^\| (?:10|50|200) \|.*\*\*.*$", text, re.M)]
    benchmark = run_path(str(ROOT / "benchmarks" / "certificates.py"))
    found = [row[2:8] for row in benchmark["rows"](benchmark["SIZES"][:3]) if row[:2] == (33_000, 0.5)]
    figures = [
        [str(k), f"{estimate:.4f}", f"{paper:.4f}", f"{closed:.4f}", f"{exact:.4f}", f"{paper / exact:.1f}"]
        for k, distance, estimate, paper, closed, exact in found
        if (k, distance) in ((10, 0.1), (50, 0.1), (200, 0.1))
    ]
    assert said == figures
    assert f"{figures[0][-1]} to {figures[-1][-1]} times smaller than the paper's" in text


def test_the_speed_in_the_readme_is_that_of_the_page_on_growth():
    text = " ".join((ROOT / "README.md").read_text().split())
    seconds, tree, lightgbm = re.search(
        r"take ([\d.]+) seconds: (\d+) times less than .*?, ([\d.]+) times less than LightGBM", text
    ).groups()
    line = re.search(r"^\| 2,648,736 \| 50 \| 2 \|.*$", (ROOT / "docs" / "growth.md").read_text(), re.M)[0]
    cells = line.split(" | ")
    assert f"{float(cells[5]):.1f}" == seconds
    assert f"({tree}×)" in cells[6]
    assert f"({lightgbm}×)" in cells[7]


# Figures in the text of pages: each function gives the words that must be there, from the files.


def decimals(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def audit_of_everything():
    (own,) = where(rows_of("audit"), experiment="all")
    above, measured, certain = (int(own[c]) for c in ("above", "measured", "certainly_above"))
    return (
        f"{above:,} of {measured:,} ({100 * above / measured:.1f} %) are above their T*, and in {certain} of them "
        f"({100 * certain / measured:.2f} %)"
    )


def audit_of_the_comparison():
    (own,) = where(rows_of("audit"), experiment="comparison")
    assert own["certainly_above"] == "0"
    return (
        f"{own['above']} of {int(own['measured']):,} over five splits, by up to {decimals(float(own['excess']))}; none "
        "of the lower limits"
    )


def audit_of_several_labels():
    (own,) = where(rows_of("audit"), experiment="multi")
    return f"{own['above']} of {int(own['measured']):,}, by up to {decimals(float(own['excess']))}"


def ablation_test_records():
    """How many there are, and the standard deviation of a distance of which every label is as probable."""
    (groups,) = {tuple(map(int, Outcome.parse(r["counts"]).counts.sum((1, 2)))) for r in rows_of("ablation.claims")[:1]}
    return sum(groups), decimals((sum(0.25 / n for n in groups)) ** 0.5)


def audit_of_the_ablation():
    (own,) = where(rows_of("audit"), experiment="ablation")
    records, deviation = ablation_test_records()
    return (
        f"{own['measured']:g} measured distances: {own['above']} above T*. Its test parts hold {records:,} records "
        f"(the paper's 10 %), on which a distance has a standard deviation of about {deviation}"
    )


def ablation_by_seed():
    rows = rows_of("ablation")
    seeds = sorted({r["seed"] for r in rows})
    above = [sum(max(r["distance"], r["adversary"]) > r["bound"] for r in where(rows, seed=s)) for s in seeds]
    words = ", ".join(f"{n} (seed {s:g})" for n, s in zip(above, seeds, strict=True))
    records, deviation = ablation_test_records()
    return (
        f"is above T*: {words}, of {len(rows) // len(seeds)} each. A distance measured on {records:,} records has a "
        f"standard deviation of about {deviation}"
    )


def readable_tree():
    r = rows_of("interpretability")[0]
    return (
        f"accuracy {r['accuracy']:.3f} (the constant prediction: {r['majority']:.3f}), measured distance "
        f"{r['distance']:.4f}, T* = {r['bound']:.4f} (by the paper's lemmas {r['lemmas']:.4f})"
    )


def readable_tree_beside_the_paper():
    r = rows_of("interpretability")[0]
    accuracy, distance, bound, lemmas = (decimals(r[c]) for c in ("accuracy", "distance", "bound", "lemmas"))
    return f"accuracy {accuracy}, distance {distance}, T* {bound} ({lemmas} by the lemmas)"


def constant_of_mischrt():
    rates = []
    for of_split in splits_of(where(rows_of("transfer"), task="MISCHRT", kind="FARE's trees, majority vote")):
        counts = [int(n) for n in of_split[0]["counts"].split()]
        positive = sum(counts[i] for i in (2, 3, 6, 7)) / sum(counts)
        rates.append(max(positive, 1 - positive))
    return fmean(rates)


def mischrt_is_constant():
    return f"on MISCHRT it is {decimals(constant_of_mischrt())}"


def mischrt_is_hardly_predictable():
    rows = where(rows_of("transfer"), task="MISCHRT")
    kinds = [where(rows, kind=kind) for kind in dict.fromkeys(r["kind"] for r in rows)]
    most = max(top(own) for own in kinds) - constant_of_mischrt()
    return f"on MISCHRT nothing is more than {100 * most + 0.05:.1f} points above it"


def far_behind_the_most_accurate():
    behind = sorted(behind_the_most_accurate())
    return f"{behind[0]} to {behind[-1]} points below the most accurate of the published methods and the unfair network"


def trees_on_one_hot_columns():
    best_of = {
        (kind, classifier): max(r["accuracy"] for r in where(rows_of("downstream"), kind=kind, classifier=classifier))
        for kind, classifier in (
            ("FCRL", "raw-tree100"), ("identity", "raw-tree100"), ("identity", "raw-tree2500"),
        )
    }  # fmt: skip
    fcrl, small, large = map(decimals, best_of.values())
    return (
        f"under a tree of 100 leaves FCRL ({fcrl}) stays below the records as they are ({small}), which it passes in "
        f"the paper. A tree of 2,500 leaves, the paper's number, overfits one-hot columns ({large})"
    )


def unfair_references_on_us():
    unfair = where(rows_of("comparison"), data="us", kind="identity", effort=1.0)
    three = [top(where(unfair, classifier=c)) for c in ("mlp50", "mlp50-raw", "gbm")]
    return f"On US the three agree ({decimals(min(three))} to {decimals(max(three))})"


def settings_of_fare():
    counts = {
        data: [
            len({r["setting"] for r in own}) for own in splits_of(where(rows_of("comparison"), data=data, kind=FARE))
        ]
        for data in ("ca", "us")
    }
    voted = where(rows_of("transfer"), kind="FARE's trees, majority vote")
    counts["transfer"] = [len({r["setting"] for r in own}) for own in splits_of(voted)]
    ca, us, transferred = (f"{min(own)} to {max(own)}" for own in counts.values())
    return f"settings on a split: CA {ca}, US {us}, transfer {transferred}"


def mildest_cvib_on_ca():
    own = where(rows_of("learning"), data="ca", method="CVIB")
    return f"({decimals(min(own, key=lambda r: r['knob'])['adversary'], 2)} at the mildest)"


#: Page → the words that must be on it.
FIGURES = {
    "index": (audit_of_everything, audit_of_the_comparison, audit_of_several_labels, audit_of_the_ablation),
    "ablation": (ablation_by_seed,),
    "fidelity": (
        readable_tree_beside_the_paper, mischrt_is_constant, far_behind_the_most_accurate, trees_on_one_hot_columns,
        unfair_references_on_us, settings_of_fare,
    ),
    "interpretability": (readable_tree,),
    "learning": (mildest_cvib_on_ca,),
    "transfer": (mischrt_is_hardly_predictable,),
}  # fmt: skip


@pytest.mark.parametrize(("page", "words"), [(page, words) for page, own in FIGURES.items() for words in own])
def test_a_figure_in_the_text_follows_from_the_files(page, words):
    assert words() in " ".join((RESULTS / f"{page}.md").read_text().split())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside this checkout")
@pytest.mark.parametrize(("name", "data"), [("ACSIncome-CA", "ca"), ("ACSIncome-US", "us"), ("Health", "health")])
def test_the_table_of_data_sets_follows_from_the_data(name, data):
    line = re.search(rf"^\| {name} \|(.*)\|$", (RESULTS / "fidelity.md").read_text(), re.M)[1]
    dataset = load(data, SHARED)
    test = len(dataset.parts(SHARES, 0)["test"])
    shares = (min(np.mean(of == value) for value in (0, 1)) for of in (dataset.s, dataset.y))
    group, label = shares
    for page in ("ablation", "efficiency") if data == "ca" else ():
        assert f"{len(dataset):,} records" in (RESULTS / f"{page}.md").read_text()
    expected = [f"{len(dataset) - test:,}", f"{test:,}", decimals(group, 2), decimals(1 - label)]
    assert [cell.strip() for cell in line.split("|")][4:] == expected


# Sentences that compare: each is on its page, in the table of the overview, and true by the files.

OURS = ("calibrated cells", "fit", "tree")
VARIANTS = ("LAFTR steady", "sIPM-LFR steady", "FairPath narrow")


def measured(data, classifier="mlp50"):
    return {
        kind: where(rows_of("comparison"), data=data, kind=kind, classifier=classifier)
        for kind in (FARE, *METHODS, *VARIANTS)
    }


def of_split(rows, split):
    return where(rows, split=split)


def top(rows):
    """Accuracy of the most accurate setting, mean over splits."""
    return fmean(max(r["accuracy"] for r in own) for own in splits_of(rows))


def fit_is_ahead_of_every_measured_method():
    ahead = {"fit": True, "tree": True}
    for data in TITLES:
        ours = [r for r in where(rows_of("comparison"), data=data) if r["kind"] in ahead]
        for own in [own for c in ("mlp50", "gbm") for rows in measured(data, c).values() for own in splits_of(rows)]:
            for level in LEVELS:
                theirs = best(own, level, "distance")
                for way in ahead:
                    (mine,) = delivered(of_split(ours, own[0]["split"]), way, level)
                    ahead[way] &= not theirs or mine > theirs[0]
    return ahead == {"fit": True, "tree": False}


def behind_the_most_accurate():
    behind = []
    for data in TITLES:
        network = where(rows_of("comparison"), data=data, kind="identity", classifier="mlp50")
        found = {**measured(data), "identity": network}
        tops = {kind: top(rows) for kind, rows in found.items() if rows and kind not in VARIANTS}
        behind.append(f"{100 * (max(tops.values()) - tops[FARE]):.1f}")
    return behind


def fare_is_behind():
    return behind_the_most_accurate() == ["1.7", "1.6", "1.3"]


def fare_is_the_best_measured_on_all_states():
    found = {kind: best(rows, 0.05, "distance") for kind, rows in measured("us").items()}
    return max((kind for kind in found if found[kind]), key=lambda kind: fmean(found[kind])) == FARE


def the_network_overfits_on_ca():
    tops = {
        (data, classifier): top(
            where(rows_of("comparison"), data=data, kind="identity", classifier=classifier, effort=1.0)
        )
        for data in ("ca", "us")
        for classifier in ("mlp50", "mlp50-raw", "gbm")
    }
    ca = [f"{tops['ca', c]:.3f}" for c in ("mlp50", "mlp50-raw", "gbm")]
    us = {f"{tops['us', c]:.3f}" for c in ("mlp50", "mlp50-raw", "gbm")}
    return ca == ["0.787", "0.820", "0.820"] and us == {"0.808", "0.809"}


def boosting_gains_little():
    changes = []
    for kind, boosted in measured("ca", "gbm").items():
        network = where(measured("ca")[kind], effort=1.0)
        for level in LEVELS:
            for own in splits_of(boosted):
                here, there = best(own, level, "distance"), best(of_split(network, own[0]["split"]), level, "distance")
                if here and there:
                    changes.append((kind, level, here[0] - there[0]))
    means = {key: fmean(c for kind, level, c in changes if (kind, level) == key) for key in {c[:2] for c in changes}}
    most, least = max(means, key=means.get), min(means, key=means.get)
    return (most[0], f"{100 * means[most]:.1f}", least, f"{-100 * means[least]:.1f}") == (
        "FNF", "0.6", ("CVIB", 0.05), "1.7",
    )  # fmt: skip


def calibrated_cells_are_ahead_on_four_tasks():
    rows = rows_of("transfer")
    ahead = {}
    for level in (0.30, 0.20, 0.05):
        for task in dict.fromkeys(r["task"] for r in rows):
            own = where(rows, task=task)
            theirs = [best(where(own, kind=kind), level, "distance")
                      for kind in dict.fromkeys(r["kind"] for r in own) if kind not in OURS]  # fmt: skip
            ahead[level, task] = fmean(delivered(own, "calibrated cells", level)) > max(fmean(t) for t in theirs if t)
    tasks = [task for level, task in ahead if level == 0.05]
    return [ahead[0.05, task] for task in tasks] == [task != "MISCHRT" for task in tasks] and not any(
        ahead[level, task] for level in (0.30, 0.20) for task in tasks
    )


def k_means_is_worse():
    rows = rows_of("kmeans")
    return all(
        best(where(own, kind="tree"), level) > best(where(own, kind="kmeans"), level)
        for own in splits_of(rows)
        for level in (0.10, 0.15, 0.20, 0.30)
    )


def fare_is_orders_of_magnitude_faster():
    rows = where(rows_of("efficiency"), data="us-VT")
    (tree,) = where(rows, method="fair tree")
    times = [r["seconds"] / tree["seconds"] for r in rows if r["method"] in METHODS]
    return len(times) == 6 and (round(min(times)), round(max(times))) == (105, 653)


def fare_is_the_same_under_every_classifier():
    rows = [r for r in rows_of("downstream") if r["setting"]]
    tops = {}
    for r in rows:
        kind, classifier = r["kind"], r["classifier"]
        if len(where(rows, kind=kind, classifier=classifier)) >= 10:
            tops.setdefault(kind, {})[classifier] = max(r["accuracy"], tops.get(kind, {}).get(classifier, 0))
    fare = {f"{v:.3f}" for v in tops.pop(FARE).values()}
    changes = [max(v.values()) - min(v.values()) for v in tops.values()]
    return len(tops) == 6 and fare == {"0.783"} and max(changes) < 0.016


def more_cells_higher_bound():
    rows = rows_of("ablation")
    pairs = [
        (a, b)
        for r in rows
        for a, b in [
            (r, s) for s in rows if s["cells"] > r["cells"] and all(s[k] == r[k] for k in ("kind", "setting", "seed"))
        ]
    ]
    return all(a["lemmas"] < b["lemmas"] for a, b in pairs)


def levels_of(rows, levels=LEVELS, by="bound"):
    """Best accuracy within each level, mean over splits; as far as every split has any."""
    found = [best(rows, level, by) for level in levels]
    return [fmean(v) if len(v) == len(splits_of(rows)) else None for v in found]


def imputed_values_cost_little():
    rows = rows_of("imputation")
    pairs = zip(levels_of(where(rows, missing=0.0)), levels_of(where(rows, missing=0.1, how="imputed")), strict=True)
    lost = [f"{100 * (whole - imputed):.1f}" for whole, imputed in pairs]
    return (min(lost), max(lost)) == ("1.1", "1.5")


def the_gap_does_not_grow():
    gaps = []
    for how in ("us half", "us all", "employment 2015", "employment 2015 and 2016"):
        own = where(rows_of("years"), data=how)
        gaps.append(f"{100 * (top(where(own, kind='gradient boosting')) - top(where(own, kind='tree'))):.1f}")
    return gaps == ["2.2", "1.9", "0.7", "0.5"]


def elsewhere(by, home):
    """Loss of accuracy at each level and place, and excesses over the certificate of home and of the place itself."""
    rows = where(rows_of("shift"), by=by)
    places = [place for place in dict.fromkeys(r["place"] for r in rows) if place != home]
    at_home = levels_of(where(rows, place=home))
    lost = [100 * (a - b) for p in places for a, b in zip(at_home, levels_of(where(rows, place=p)), strict=True)]
    worst = {p: [(max(r["distance"], r["adversary"]), r) for r in where(rows, place=p)] for p in places}
    first = {p: [d - r["first_bound"] for d, r in own] for p, own in worst.items()}
    itself = {p: [d - r["bound"] for d, r in own] for p, own in worst.items()}
    return lost, first, itself


def states_are_another_population():
    lost, first, _ = elsewhere("states", "CA")
    above = {place: (sum(e > 0 for e in own), len(own)) for place, own in first.items()}
    return (
        (f"{min(lost):.1f}", f"{max(lost):.1f}", f"{max(first['TX']):.3f}") == ("1.6", "2.8", "0.025")
        and above == {"TX": (36, 200), "NY": (3, 200), "FL": (0, 200)}
    )  # fmt: skip


def years_are_nearly_the_same():
    lost, first, itself = elsewhere("years", "2015")
    then, now = ([e for own in found.values() for e in own] for found in (first, itself))
    counts = sum(e > 0 for e in then), sum(e > 0 for e in now), len(then)
    return max(lost) < 0.3 and counts == (40, 40, 531) and (f"{max(then):.3f}", f"{max(now):.3f}") == ("0.014", "0.010")


def imbalance_hardly_matters():
    rows = rows_of("imbalance")
    found = [levels_of(where(rows, share=share)) for share in (0.5, 0.6, 0.7, 0.8, 0.9)]
    orders = {tuple(sorted(range(5), key=lambda i: at[i])) for at in zip(*found, strict=True)}
    return max(max(at) - min(at) for at in zip(*found, strict=True)) < 0.008 and len(orders) == len(LEVELS)


def steady_opponents_hide_more():
    found = []
    for method in ("LAFTR steady", "sIPM-LFR steady"):
        path = sorted(where(rows_of("learning"), data="adult", method=method), key=lambda r: r["knob"])
        useful = [r for r in path if r["accuracy"] >= r["majority"] + 0.02]
        weakest = min(useful, key=lambda r: r["adversary"])
        found.append([f"{v:.2f}" for v in (path[0]["adversary"], weakest["adversary"])]
                     + [f"{v:.3f}" for v in (path[0]["accuracy"], weakest["accuracy"])])  # fmt: skip
    return found == [["0.75", "0.59", "0.854", "0.852"], ["0.72", "0.58", "0.854", "0.831"]]


def epochs_change_little_on_us():
    moves = []
    for kind in ("CVIB", "FCRL", "sIPM-LFR", "LAFTR"):
        first = of_split(measured("us")[kind], 0.0)
        lengths = [max(r["accuracy"] for r in first if (r["effort"] == 1) is whole) for whole in (True, False)]
        moves.append(abs(lengths[0] - lengths[1]))
    return max(moves) < 0.003


def epochs_overfit_on_ca():
    lost = [
        top(where(measured("ca")[kind], effort=0.1)) - top(where(measured("ca")[kind], effort=1.0))
        for kind in ("CVIB", "FCRL")
    ]
    return [f"{100 * v:.0f}" for v in lost] == ["3", "3"]


#: Page, sentence, and whether it is so.
SENTENCES = {
    fit_is_ahead_of_every_measured_method: (
        "docs/results/fidelity.md",
        "what `fit` delivers with a certificate is ahead of every measured method on every split, the certified tree "
        "is not",
    ),
    fare_is_behind: (
        "docs/results/comparison.md",
        "1.7 on ACSIncome-CA 2018, 1.6 on ACSIncome-US 2018, 1.3 on Health",
    ),
    fare_is_the_best_measured_on_all_states: (
        "docs/results/fidelity.md",
        "on all states at .05 FARE as published is the most accurate of what is measured",
    ),
    the_network_overfits_on_ca: (
        "docs/results/fidelity.md",
        "On standardised one-hot columns it overfits rare occupations (.787); on columns as they are it reaches .820, "
        "as gradient boosting does",
    ),
    boosting_gains_little: (
        "docs/results/fidelity.md",
        "It gains at most .6 points over the paper's network (FNF) and loses up to 1.7 (CVIB at .05)",
    ),
    calibrated_cells_are_ahead_on_four_tasks: (
        "docs/results/fidelity.md",
        "at .05, calibrated cells with a certificate are ahead of what any method measures on every task but MISCHRT; "
        "at .20 and .30 some measured method is ahead of them on every task",
    ),
    k_means_is_worse: ("docs/results/fidelity.md", "worse than fair trees at every level, on every split"),
    fare_is_orders_of_magnitude_faster: (
        "docs/results/fidelity.md",
        "105 to 653 times faster than one setting of the published methods, on one core",
    ),
    fare_is_the_same_under_every_classifier: (
        "docs/results/fidelity.md",
        "FARE's medians reach .783 under every classifier with ten settings or more; the codes of the other methods "
        "change by less than 1.6 points",
    ),
    more_cells_higher_bound: ("docs/results/fidelity.md", "more cells, a higher T* by the lemmas"),
    the_gap_does_not_grow: (
        "docs/results/fidelity.md",
        "the gap to unfair gradient boosting does not grow: US 2.2 points with half, 1.9 with all; Massachusetts .7 "
        "with one year, .5 with two",
    ),
    states_are_another_population: (
        "docs/results/fidelity.md",
        "states: 1.6 to 2.8 points of accuracy less than at home; in Texas 36 of 200 trees exceed California's "
        "certificate, by up to .025, in New York 3, in Florida none",
    ),
    years_are_nearly_the_same: (
        "docs/results/fidelity.md",
        "years: at most .3 points less; 40 of 531 trees exceed the certificate of 2015, by up to .014, and as many one "
        "that was made in these years, by up to .010",
    ),
    imbalance_hardly_matters: ("docs/results/fidelity.md", "within .8 points, in no order"),
    imputed_values_cost_little: ("docs/results/fidelity.md", "10 % imputed costs 1.1 to 1.5 points"),
    steady_opponents_hide_more: (
        "docs/baselines.md",
        "On Adult the adversary falls from .75 to .59 (LAFTR, accuracy .854 and .852) and from .72 to .58 (sIPM-LFR, "
        ".854 and .831)",
    ),
    epochs_change_little_on_us: (
        "docs/baselines.md",
        "On US the most accurate setting of no method moves by more than .003 between the two lengths",
    ),
    epochs_overfit_on_ca: (
        "docs/baselines.md",
        "CVIB's and FCRL's most accurate settings lose three points from 10 % of the epochs to all of them",
    ),
}


def span(numbers):
    return f"{min(numbers)} to {max(numbers)}"


def tried(*groups):
    """Settings of each method, and splits, of some rows."""
    counts = [len({r["setting"] for r in rows}) for rows in groups if rows]
    (splits,) = {len(splits_of(rows)) for rows in groups if rows}
    return counts, splits


def trees(name, **wanted):
    """How many growths there are, each with up to how many numbers of cells, and splits."""
    rows = [r for r in where(rows_of(name), **wanted) if r["kind"] == "tree"]
    one = ("gamma", "min_cell_size", "split", "data", "place", "missing", "how", "share")
    most = max(Counter(tuple(r.get(column) for column in one) for r in rows).values())
    growths = len({r["gamma"] for r in rows})
    return f"{growths} growths, each with up to {most} numbers of cells", f"; {len(splits_of(rows))}"


def of_methods(data, classifier="mlp50", methods=METHODS):
    return [measured(data, classifier)[kind] for kind in methods]


def sides():
    """What the overview says of how many settings and splits the two sides of a sentence had."""
    counts, splits = tried(*[rows for data in TITLES for rows in of_methods(data, methods=(FARE, *METHODS))])
    yield fit_is_ahead_of_every_measured_method, f"{span(counts)}, every length; {splits}"
    fare, splits = tried(*(measured(data)[FARE] for data in TITLES))
    yield fare_is_behind, f"{', '.join(map(str, fare))}; {splits}"
    yield fare_is_behind, f"{tried(measured('ca')['LAFTR'])[0][0]} and 1; 5"
    counts, splits = tried(measured("us")[FARE])
    yield fare_is_the_best_measured_on_all_states, f"{counts[0]}; {splits}"
    counts, splits = tried(*of_methods("us"))
    yield fare_is_the_best_measured_on_all_states, f"{span(counts)}; {splits}"
    yield boosting_gains_little, f"{span(tried(*of_methods('ca', methods=METHODS[1:]))[0])}; splits on which"
    transferred = {kind: where(rows_of("transfer"), kind=kind) for kind in (FARE, *METHODS[1:5])}
    voted = where(rows_of("transfer"), kind="FARE's trees, majority vote")
    fare = {
        span([len({r["setting"] for r in own}) for own in splits_of(rows)]) for rows in (voted, transferred.pop(FARE))
    }
    others = {kind: tried(rows) for kind, rows in transferred.items() if rows}
    (splits,) = {splits for _, splits in others.values()}
    yield (
        calibrated_cells_are_ahead_on_four_tasks,
        f"FARE {' or '.join(fare)} (medians and votes), "
        f"{', '.join(f'{kind} {counts[0]}' for kind, (counts, _) in others.items())}; {splits}",
    )
    growths, splits = trees("kmeans")
    yield (
        k_means_is_worse,
        f"{growths} and {len({r['min_cell_size'] for r in rows_of('kmeans')} - {''})} smallest cells{splits}",
    )
    yield k_means_is_worse, f"the same; {len({r['cells'] for r in where(rows_of('kmeans'), kind='kmeans')})}{splits}"
    for check, name, wanted in (
        (imputed_values_cost_little, "imputation", {}),
        (the_gap_does_not_grow, "years", {}),
        (states_are_another_population, "shift", {"by": "states"}),
        (imbalance_hardly_matters, "imbalance", {}),
    ):
        yield check, "".join(trees(name, **wanted))
    rows = rows_of("ablation")
    yield (
        more_cells_higher_bound,
        f"{len({(r['kind'], r['setting']) for r in rows})} growths; {len({r['seed'] for r in rows})}",
    )
    adult = [len(where(rows_of("learning"), data="adult", method=f"{kind} steady")) for kind in ("LAFTR", "sIPM-LFR")]
    yield steady_opponents_hide_more, f"{adult[0]} and {adult[1]}; 1"
    moved = [of_split(measured("us")[kind], 0.0) for kind in ("CVIB", "FCRL", "sIPM-LFR", "LAFTR")]
    yield epochs_change_little_on_us, f"{span(tried(*moved)[0])}; {tried(*moved)[1]}"
    lost, splits = tried(*(measured("ca")[kind] for kind in ("CVIB", "FCRL")))
    yield epochs_overfit_on_ca, f"{lost[0]} and {lost[1]}; {splits}"


@pytest.mark.slow
def test_the_overview_says_how_many_settings_and_splits_each_side_had():
    rows = dict(re.findall(r"^\| “(.*?)” (\|.*)$", (RESULTS / "index.md").read_text(), re.M))
    for check, words in sides():
        assert words in rows[SENTENCES[check][1]], (check.__name__, words)


@pytest.mark.parametrize("check", SENTENCES, ids=lambda check: check.__name__)
def test_a_sentence_that_compares_is_true_by_the_files_and_listed_in_the_overview(check):
    page, sentence = SENTENCES[check]
    assert sentence in " ".join((ROOT / page).read_text().split())
    assert f"“{sentence}”" in (RESULTS / "index.md").read_text()
    assert check()


def test_every_sentence_of_the_overview_is_checked():
    table = re.search(r"## Sentences that compare\n.*?\n\n(\|.*?)\n\n", (RESULTS / "index.md").read_text(), re.S)[1]
    listed = [re.match(r"\| “(.*?)”", line)[1] for line in table.splitlines()[2:]]
    assert sorted(listed) == sorted(sentence for _, sentence in SENTENCES.values())
