"""Help in two steps: what most people need, and all."""

import re

import pytest
import typer

from certifare.cli import app
from certifare.cli.options import KINDS, METRICS, UTILITIES

COMMANDS = {
    name: command
    for name, command in typer.main.get_command(app).commands.items()
    if not hasattr(command, "commands") and name != "reproduce"
}


def shown(text):
    """The options of a help text, each by its long name."""
    rows = re.findall(r"^│ +(?:\* +)?(--[a-z-]+)", text, re.M)
    assert rows
    return rows


def test_the_help_of_fit_shows_at_most_20_options_and_where_the_others_are(cli):
    text = cli("fit", "--help").stdout
    options, every = shown(text), shown(cli("fit", "--help-all").stdout)
    assert len(options) <= 20
    assert set(options) < set(every)
    assert f"{len(every) - len(options)} more options: certifare fit --help-all" in text
    assert options[:2] == ["--label", "--sensitive"]


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_of_a_command_are_in_one_of_two_helps(cli, name):
    declared = {max(p.opts, key=len) for p in COMMANDS[name].params if p.param_type_name == "option"}
    text = cli(name, "--help-all").stdout
    assert set(shown(text)) == declared | {"--help"}
    assert "<bool>" not in text
    assert not re.search(r"--.*<list", text)
    # Help that was asked for once does not change what is shown next.
    assert len(shown(cli(name, "--help").stdout)) == sum(not getattr(p, "hidden", False) for p in COMMANDS[name].params
                                                        if p.param_type_name == "option") + 1  # fmt: skip


def test_choices_are_listed_and_completed(cli):
    text = "".join(cli("fit", "--help-all").stdout.split())
    for choices in (METRICS, KINDS, UTILITIES, ("clusters", "records")):
        assert "|".join(choices) in text


def test_a_function_that_another_distribution_names_is_a_command(cli, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "greetings-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    lines = ("greet = certifare_greetings:greet", "fit = certifare_greetings:greet", "lost = certifare_absent:run")
    (folder / "entry_points.txt").write_text("\n".join(["[certifare.commands]", *lines, ""]))
    (tmp_path / "certifare_greetings.py").write_text("def greet(name: str) -> None:\n    print(f'hello {name}')\n")
    assert cli("greet", "Ada").stdout == "hello Ada\n"
    assert "From certifare_greetings." in cli("--help").stdout
    assert cli("greet").status == 2  # its arguments are checked
    assert "--sensitive" in cli("fit", "--help").stdout  # certifare's own commands come first
    lost = cli("lost")
    assert lost.status == 2
    assert "No module named 'certifare_absent'" in lost.stderr
