import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import certifare_research
from certifare_research.errors import ExperimentError
from certifare_research.evaluation.outcomes import Outcome
from certifare_research.experiments import framework
from certifare_research.experiments.charts import lines
from certifare_research.experiments.framework import Block, Page, Run, claim, provenance, show, write_page, write_text
from certifare_research.experiments.registry import reproduce


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def double(run, item):
    with (run.out / "calls").open("a") as file:
        file.write("x")
    return {"twice": 2 * item}


def test_slow_parts_are_remembered(tmp_path, monkeypatch):
    run = Run(name="demo", out=tmp_path, jobs=1)
    assert run.each(double, [1, 2]) == [{"twice": 2}, {"twice": 4}]
    assert run.each(double, [1, 2, 3])[2] == {"twice": 6}
    assert (tmp_path / "calls").read_text() == "xxx"
    # Another seed is another result.
    Run(name="demo", out=tmp_path, jobs=1, seed=1).each(double, [1])
    assert (tmp_path / "calls").read_text() == "xxxx"
    # And so are other data, and other code.
    Run(name="demo", out=tmp_path, jobs=1, data=tmp_path).each(double, [1])
    monkeypatch.setattr("certifare_research.experiments.framework._source", lambda module: "changed")
    run.each(double, [1])
    assert (tmp_path / "calls").read_text() == "xxxxxx"


@pytest.mark.parametrize("changed", [*framework.COMMON, "kmeans"])
def test_other_code_that_a_result_was_computed_with_is_another_result(tmp_path, monkeypatch, changed):
    source = framework._source.__wrapped__
    package = shutil.copytree(
        certifare_research.__path__[0], tmp_path / "package", ignore=shutil.ignore_patterns("*.csv", "__pycache__")
    )
    monkeypatch.setattr(certifare_research, "__path__", [str(package)])
    modules = [f"certifare_research.experiments.{name}" for name in ("kmeans", "multi")]
    before = [source(module) for module in modules]
    with (package / "experiments" / f"{changed}.py").open("a") as file:
        file.write("changed = True\n")
    after = [source(module) for module in modules]
    assert [old != new for old, new in zip(before, after, strict=True)] == [True, changed != "kmeans"]


@pytest.mark.parametrize("name", framework.COMMON)
def test_common_modules_compute_with_no_others(name):
    text = Path(framework.__file__).with_name(f"{name}.py").read_text()
    assert set(re.findall(r"certifare_research\.experiments(?:\.| import )(\w+)", text)) <= {*framework.COMMON}


@pytest.mark.slow
def test_progress_counts_what_is_there_already(tmp_path):
    told = []
    Run(name="demo", out=tmp_path, jobs=1).each(double, [1])
    Run(name="demo", out=tmp_path, jobs=2, tell=lambda *at: told.append(at)).each(double, [1, 2, 3])
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_interruption_leaves_the_old_file(tmp_path, monkeypatch):
    write_text(tmp_path / "a.md", "old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("certifare_research.experiments.framework.os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a.md", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]
    assert (tmp_path / "a.md").read_text() == "old"


def test_page_csv_chart_and_claims(tmp_path):
    chart = lines([{"series": "a", "x": 1, "y": 2}], "x", "y")
    page = Page(
        title="A page",
        text="Some text.",
        blocks=[Block("Table", ["a", "b|c"], [["row", 0.12345], ["other", None]])],
        records=[{"a": 1, "b": 0.5}, {"a": 2}],
        chart=chart,
        notes=["mind this"],
        claims=[claim("d", "e", "c", "90 10;80 20", 0.2)],
    )
    files = write_page(page, Run(name="demo", out=tmp_path, quick=True))
    assert {path.name for path in files} == {"demo.md", "demo.csv", "demo.claims.csv", "demo.svg"}
    text = (tmp_path / "demo.md").read_text()
    assert "| row | 0.123 |" in text
    assert "| other | – |" in text
    assert "certifare reproduce demo --quick" in text
    assert "mean nothing" in text
    assert rows_of(tmp_path / "demo.csv") == [{"a": "1", "b": "0.5"}, {"a": "2", "b": ""}]
    assert (tmp_path / "demo.svg").read_text().startswith("<svg")
    assert not list(tmp_path.glob(".demo*"))


def test_a_page_names_the_command_that_makes_it_again(tmp_path):
    assert provenance(Run(name="kmeans", out=tmp_path, data=tmp_path, jobs=8)).startswith(
        "`certifare reproduce kmeans`, "
    )
    run = Run(
        name="comparison",
        out=tmp_path,
        data=tmp_path,
        quick=True,
        seed=3,
        baselines=tmp_path / "published.csv",
        also=(tmp_path / "theirs.csv", tmp_path / "of others.csv"),
        extensions=(tmp_path / "mine.py",),
        year=2014,
        states=("TX", "NY"),
    )
    command = (
        "`certifare reproduce comparison --quick --seed 3 --year 2014 --states TX --states NY "
        "--baselines published.csv --also theirs.csv --also 'of others.csv' --with mine.py`, "
    )
    assert provenance(run).startswith(command)
    assert str(tmp_path) not in provenance(run)


def test_values_in_tables():
    assert [show(v) for v in (0.5, None, 3, "a|b")] == ["0.500", "–", "3", "a\\|b"]


def test_unknown_experiment_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="Did you mean 'ablation'"):
        reproduce(Run(name="ablaton", out=tmp_path))


def test_nothing_to_audit(tmp_path):
    with pytest.raises(ExperimentError, match="run some experiments first"):
        reproduce(Run(name="audit", out=tmp_path))


def test_audit_counts_what_is_above(tmp_path):
    # Of group a 100 in 1,000 are accepted; of group b more and more.
    claims = [
        claim("d", "e", str(i), Outcome(np.array([[[900, 100]], [[1000 - n, n]]])).text(), 0.2)
        for i, n in enumerate((200, 250, 310, 500))
    ]
    assert [c["measured"] for c in claims] == pytest.approx([0.1, 0.15, 0.21, 0.4])
    write_page(Page(title="x", text="", claims=claims), Run(name="x", out=tmp_path))
    reproduce(Run(name="audit", out=tmp_path))
    total = rows_of(tmp_path / "audit.csv")[-1]
    assert (total["experiment"], total["above"], float(total["share"])) == ("all", "2", 0.5)
    # .21 is above .2, but its lower limit is not; that of .4 is.
    assert (total["certainly_above"], float(total["certain_share"])) == ("1", 0.25)
    assert float(total["excess"]) == pytest.approx(0.2)


def test_audit_leaves_blank_what_it_cannot_know(tmp_path):
    known = claim("d", "e", "fine", "900 100;800 200", 0.2)
    write_page(Page(title="x", text="", claims=[{**known, "counts": ""}]), Run(name="x", out=tmp_path))
    high = {**claim("d", "e", "unknown", "900 100;500 500", 0.2), "counts": ""}
    write_page(Page(title="y", text="", claims=[known, high]), Run(name="y", out=tmp_path))
    reproduce(Run(name="audit", out=tmp_path))
    assert [row["certainly_above"] for row in rows_of(tmp_path / "audit.csv")] == ["0", "", ""]


def test_nested_values_stay_out_of_the_csv(tmp_path):
    write_page(Page(title="x", text="", records=[{"a": 1, "outcomes": {"b": "c"}}]), Run(name="x", out=tmp_path))
    assert rows_of(tmp_path / "x.csv") == [{"a": "1"}]
