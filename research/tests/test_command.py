import json

import typer
from typer.testing import CliRunner

from certifare_research.command import reproduce
from certifare_research.errors import ExperimentError
from certifare_research.experiments.registry import EXPERIMENTS

app = typer.Typer()
app.command()(reproduce)


def test_list():
    result = CliRunner().invoke(app, ["--list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in EXPERIMENTS)


def test_list_for_machines():
    result = CliRunner().invoke(app, ["--list", "--json"])
    printed = json.loads(result.output)
    assert {name: experiment.words for name, experiment in EXPERIMENTS.items()}.items() <= printed.items()
    assert (printed["outcome"], printed["exit_status"]) == ("DONE", 0)


def test_one_experiment_or_all():
    assert isinstance(CliRunner().invoke(app, []).exception, ExperimentError)
    assert isinstance(CliRunner().invoke(app, ["comparison", "--all"]).exception, ExperimentError)


def test_unknown_experiment_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["compare", "--output", str(tmp_path)])
    assert "Did you mean" in str(result.exception)


def test_audit_without_results(tmp_path):
    result = CliRunner().invoke(app, ["audit", "--output", str(tmp_path)])
    assert "run some experiments first" in str(result.exception)
