"""Numbers on the pages and in README follow from the CSV files beside the pages.

Everything is computed here a second time, from the files alone.
"""

import csv
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
LEVELS = (0.05, 0.10, 0.15, 0.20)
PUBLISHED = ("LAFTR", "CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath")


def rows_of(name):
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def tables(name):
    """Read the tables of a page: caption → rows, each a mapping from the column's name."""
    found = {}
    for caption, text in re.findall(r"^## (.*?)\n\n((?:\|.*\n)+)", (RESULTS / f"{name}.md").read_text(), re.M):
        head, _, *lines = [[cell.strip() for cell in line.strip("|\n").split(" |")] for line in text.splitlines()]
        head = [cell.strip("| ") for cell in head]
        found[caption] = [(head, [cell.strip("| ") for cell in line]) for line in lines]
    return found


def shown(values, splits):
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.3f}" if splits == 1 else f"{values[0]:.3f} (1 of {splits})"
    return f"{fmean(values):.3f} ± {stdev(values):.3f}" + (
        "" if len(values) == splits else f" ({len(values)} of {splits})"
    )


def best(rows, level, by):
    """Return the highest accuracy of each split among the settings within a level."""
    found = []
    for split in sorted({r["split"] for r in rows}):
        own = [float(r["accuracy"]) for r in rows if r["split"] == split and float(r[by]) <= level]
        found += [max(own)] if own else []
    return found


def delivered(rows, kind, level):
    return [float(r["accuracy"]) for r in rows if r["kind"] == kind and r["level"] and float(r["level"]) == level]


def near(text, expected):
    """Compare cells; digits may differ by one in the last place, since the file has six."""
    numbers, others = (re.findall(r"\d*\.\d+", cell) for cell in (text, expected))
    assert re.sub(r"\d*\.\d+", "#", text) == re.sub(r"\d*\.\d+", "#", expected)
    for a, b in zip(numbers, others, strict=True):
        assert float(a) == pytest.approx(float(b), abs=0.0011), (text, expected)


@pytest.mark.parametrize(
    ("data", "title"), [("ca", "ACSIncome-CA 2018"), ("us", "ACSIncome-US 2018"), ("health", "Health")]
)
def test_the_main_comparison(data, title):
    rows = [r for r in rows_of("comparison") if r["data"] == data]
    checked = 0
    for _, (label, *cells) in tables("comparison")[title]:
        name, _, what = label.partition(": ")
        if label.startswith("authors'") or name == "nothing hidden":
            continue
        method = re.sub(r" \(.*\)|, at its best length|, boosting as consumer", "", name)
        mine = [r for r in rows if r["kind"] == method]
        classifier = "gbm" if "boosting as consumer" in name else "mlp50"
        measured = [r for r in mine if r["classifier"] == classifier]
        if "at its best length" not in name and "shorter" not in name and classifier == "mlp50":
            measured = [r for r in measured if float(r["effort"]) == 1]
        for level, cell in zip(LEVELS, cells, strict=False):
            if what.startswith("certified"):
                near(cell, shown(delivered(rows, name, level), 5))
            else:
                by = "bound" if what.startswith("T*") else "distance"
                splits = 1 if len({r["split"] for r in measured}) == 1 else 5
                near(cell, shown(best(measured, level, by), splits))
            checked += 1
    assert checked > 40


def test_what_each_row_of_the_comparison_rests_on():
    found = rows_of("comparison")
    for data, title in (("ca", "ACSIncome-CA 2018"), ("us", "ACSIncome-US 2018"), ("health", "Health")):
        for _, (_, where, _, settings, splits, _) in tables("comparison")[f"{title}: what each row rests on"]:
            conditions = dict(part.split(" = ") for part in where.split(", "))
            rows = [r for r in found if r["data"] == data and all(r[k] == v for k, v in conditions.items())]
            assert len({r["split"] for r in rows}) == int(splits)
            if "classifier" in conditions:
                assert len({r["setting"] for r in rows}) == int(settings)


@pytest.mark.parametrize("name", ["opportunity", "odds"])
def test_other_metrics(name):
    rows = rows_of(name)
    for _, (label, *cells) in tables(name)["Best accuracy at"]:
        kind, _, what = label.partition(": ")
        if label.startswith("authors'"):
            continue
        method, _, trained = kind.partition(", made for ")
        own = [r for r in rows if r["kind"] == method and r["trained_for"] == trained.replace(" ", "_")]
        for level, cell in zip(LEVELS, cells, strict=True):
            if what.startswith("certified"):
                near(cell, shown(delivered(rows, kind, level), 5))
            else:
                splits = 1 if len({r["split"] for r in own}) == 1 else 5
                near(cell, shown(best(own, level, "bound" if what.startswith("T*") else "distance"), splits))


def test_transfer():
    rows = rows_of("transfer")
    for caption, table in tables("transfer").items():
        for head, cells in table:
            if head[0] != "task":
                continue
            own = [r for r in rows if r["task"] == cells[0]]
            level = float(cells[1].removeprefix("≤ "))
            for name, cell in zip(head[2:], cells[2:], strict=True):
                if caption.startswith("Certified") and name in ("calibrated cells", "tree"):
                    near(cell, shown(delivered(own, name, level), 5))
                elif name in {r["kind"] for r in rows if not r["level"]} and not name.startswith("paper"):
                    if head.index(name) != head[::-1].index(name) and cells[head.index(name)] != cell:
                        continue  # a column of the paper of the same name
                    mine = [r for r in own if r["kind"] == name]
                    by = "distance" if head[1] == "distance" else "bound"
                    near(cell, shown(best(mine, level, by), len({r["split"] for r in mine})))


def test_what_fit_delivers_on_adult():
    rows = [r for r in rows_of("adult") if r["table"] == "frontier"]
    for _, (kind, *cells) in tables("adult")["Accuracy of what fit delivers, T* at most"]:
        for level, cell in zip(LEVELS, cells, strict=True):
            near(cell, shown(delivered(rows, kind, level), 5))


@pytest.mark.parametrize("name", ["adult", "size"])
def test_certificates_over_the_size_of_the_data(name):
    rows = [r for r in rows_of(name) if r.get("table", "size") == "size"]
    for head, cells in tables(name)["T* over M"]:
        kind, gamma, k = re.fullmatch(r"(\w+), γ = ([\d.]+), k = (\d+)", cells[0]).groups()
        own = {int(r["M"]): r for r in rows if (r["kind"], float(r["gamma"]), r["cells"]) == (kind, float(gamma), k)}
        for column, cell in zip(head[1:], cells[1:], strict=True):
            times = int(re.search(r"\d+|$", column)[0] or 1)
            by = "lemmas" if "lemmas" in column else "estimate" if column == "estimate" else "bound"
            near(cell, f"{float(own[times][by]):.3f}")


def test_ablation():
    rows = rows_of("ablation")
    for caption, table in tables("ablation").items():
        name, kind = re.match(r"(\w+), (.*?) \(γ", caption).groups()
        own = [r for r in rows if r["setting"] == name and r["kind"] == kind]
        for head, cells in table:
            k = int(cells[0].split()[0])
            reached = [
                max((r for r in own if r["seed"] == seed and int(r["cells"]) <= k), key=lambda r: int(r["cells"]))
                for seed in sorted({r["seed"] for r in own})
            ]
            for column, field in (("accuracy", "accuracy"), ("distance", "distance"), ("T* (exact)", "bound")):
                near(cells[head.index(column)], f"{fmean(float(r[field]) for r in reached):.3f}")


def readme_table():
    text = re.search(r"^\| \| CA, \.05.*?\n\n", (ROOT / "README.md").read_text(), re.M | re.S)[0]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]


def test_the_comparison_in_the_readme():
    rows = rows_of("comparison")
    columns = [(data, level) for data in ("ca", "us", "health") for level in LEVELS[:2]]
    for label, *cells in readme_table():
        for (data, level), cell in zip(columns, cells, strict=True):
            of_data = [r for r in rows if r["data"] == data]
            measured = [r for r in of_data if r["classifier"] == "mlp50"]
            if "certified, T" in label:
                found = delivered(of_data, label.split(":")[0], level)
            elif label.startswith("FARE as published"):
                fare = [r for r in measured if r["kind"] == "FARE as published"]
                found = best(fare, level, "bound" if "lemmas" in label else "distance")
            else:
                whole = "published length" in label
                methods = [
                    best(
                        [r for r in measured if r["kind"] == m and (not whole or float(r["effort"]) == 1)],
                        level,
                        "distance",
                    )
                    for m in PUBLISHED
                ]
                found = max((m for m in methods if m), key=fmean, default=[])
            expected = "–" if not found else f"{fmean(found):.3f}".removeprefix("0")
            expected += "" if len(found) in (0, 5) else f" ({len(found)} of 5)"
            assert cell == expected, (label, data, level)


def test_the_overview_quotes_the_audit():
    rows = {r["experiment"]: r for r in rows_of("audit")}
    text = (RESULTS / "index.md").read_text().split("## The audit")[1]
    everything = rows["all"]
    assert f"{int(everything['above']):,} of {int(everything['measured']):,}" in text
    assert f"in {everything['certainly_above']} of them" in text
    for name in ("comparison", "multi"):
        assert f"{rows[name]['above']} of {int(rows[name]['measured']):,}" in text
    assert f"{rows['ablation']['measured']} measured distances: {rows['ablation']['above']} above" in text
