"""The pages say of the research what is so."""

import re
from pathlib import Path

import pytest
import typer

from certifare.data import adult
from certifare_research.command import reproduce
from certifare_research.experiments.registry import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_the_code_of_the_page_on_published_methods_runs():
    pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")
    table = adult().take(range(1500))
    X, y, s = table.features.to_pandas(), table.y.to_pandas(), table.sensitive.column("sex").to_pandas()
    names = {"X_train": X[:1000], "y_train": y[:1000], "s_train": s[:1000], "X_test": X[1000:]}
    (block,) = re.findall(r"^```python\n(.*?)^```", (DOCS / "baselines.md").read_text(), re.M | re.S)
    exec(compile(block, "baselines.md", "exec"), names)  # noqa: S102  (our own document)
    assert names["Z"].shape == (500, 8)


def test_every_option_is_on_the_page_of_commands():
    app = typer.Typer()
    app.command()(reproduce)
    section = re.search(r"^## reproduce\n(.*?)(?=^## |\Z)", (DOCS / "cli.md").read_text(), re.M | re.S)
    for parameter in typer.main.get_command(app).params:
        if parameter.param_type_name == "option":
            for option in parameter.opts:
                assert f"`{option}`" in section[1] or option.endswith("-completion")


def test_every_experiment_has_a_page_in_the_overview():
    pages = re.findall(r"\]\((\w+)\.md\)", (DOCS / "results" / "index.md").read_text())
    assert set(EXPERIMENTS) | {"fidelity"} == set(pages)
    assert all((DOCS / "results" / f"{name}.md").is_file() for name in EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_page_names_its_command_date_and_versions(name):
    last = (DOCS / "results" / f"{name}.md").read_text().strip().splitlines()[-1]
    assert re.fullmatch(rf"\*`certifare reproduce {name}`, \d{{4}}-\d\d-\d\d; Python [\d.]+, certifare .*\*", last)


def test_no_method_is_extrapolated():
    page = (DOCS / "results" / "efficiency.md").read_text()
    assert "~" not in page
    (table,) = re.findall(r"^## One setting to its end, Vermont\n\n.*\n.*\n((?:\|.*\n)+)", page, re.M)
    assert len(table.splitlines()) == 8
