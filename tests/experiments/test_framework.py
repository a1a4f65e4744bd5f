import csv
import json

import altair as alt
import pytest

from certifare.errors import ExperimentError
from certifare.experiments.framework import Block, Page, Run, show, write_page
from certifare.experiments.registry import EXPERIMENTS, reproduce


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def double(run, item):
    with (run.out / "calls").open("a") as file:
        file.write("x")
    return {"twice": 2 * item}


def test_slow_parts_are_remembered(tmp_path):
    run = Run(name="demo", out=tmp_path, jobs=1)
    assert run.each(double, [1, 2]) == [{"twice": 2}, {"twice": 4}]
    assert run.each(double, [1, 2, 3])[2] == {"twice": 6}
    assert (tmp_path / "calls").read_text() == "xxx"
    # Another seed is another result.
    Run(name="demo", out=tmp_path, jobs=1, seed=1).each(double, [1])
    assert (tmp_path / "calls").read_text() == "xxxx"


def test_page_csv_chart_and_claims(tmp_path):
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="x:Q")
    page = Page(
        title="A page",
        text="Some text.",
        blocks=[Block("Table", ["a", "b|c"], [["row", 0.12345], ["other", None]])],
        records=[{"a": 1, "b": 0.5}, {"a": 2}],
        chart=chart,
        notes=["mind this"],
        claims=[{"data": "d", "encoder": "e", "classifier": "c", "measured": 0.1, "bound": 0.2}],
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


def test_values_in_tables():
    assert [show(v) for v in (0.5, None, 3, "a|b")] == ["0.500", "–", "3", "a\\|b"]


def test_unknown_experiment(tmp_path):
    with pytest.raises(ExperimentError, match="Did you mean 'ablation'"):
        reproduce(Run(name="ablaton", out=tmp_path))


def test_every_table_and_figure_is_there():
    assert len(EXPERIMENTS) == 17
    json.dumps({name: experiment.words for name, experiment in EXPERIMENTS.items()})


def test_nothing_to_audit(tmp_path):
    with pytest.raises(ExperimentError, match="run some experiments first"):
        reproduce(Run(name="audit", out=tmp_path))


def test_audit_counts_what_is_above(tmp_path):
    claims = [
        {"data": "d", "encoder": "e", "classifier": str(i), "measured": m, "bound": 0.2}
        for i, m in enumerate((0.1, 0.15, 0.19, 0.25))
    ]
    write_page(Page(title="x", text="", claims=claims), Run(name="x", out=tmp_path))
    reproduce(Run(name="audit", out=tmp_path))
    rows = rows_of(tmp_path / "audit.csv")
    assert rows[-1]["experiment"] == "all"
    assert (rows[-1]["above"], rows[-1]["share"]) == ("1", "25.00%")
