"""Commands that other distributions bring, as pip installs them: a folder with metadata on the path."""

import os
import subprocess
import sys

import pytest

MODULE = '''
import typer

app = typer.Typer(help="A group of commands.")

@app.command()
def left() -> None:
    print("left")

@app.command()
def right() -> None:
    print("right")

def greet(name: str, loud: bool = False) -> None:
    """Say hello."""
    print(f"HELLO {name}" if loud else f"hello {name}")

def unclear(value: int | str) -> None:
    """Ask for what no command line can give."""

number = 3
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution whose entry points name commands."""
    monkeypatch.syspath_prepend(tmp_path)

    def add(commands, dist="greetings"):
        folder = tmp_path / f"{dist}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in commands.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[certifare.commands]", *lines, ""]))
        (tmp_path / "certifare_greetings.py").write_text(MODULE)
        (tmp_path / "certifare_exits.py").write_text("import sys; sys.exit(3)")

    return add


def test_a_command_of_another_distribution_runs_and_is_listed(install, cli):
    install({"greet": "certifare_greetings:greet"})
    result = cli("greet", "Ada", "--loud")
    assert (result.status, result.stdout) == (0, "HELLO Ada\n")
    assert "Say hello." in cli("--help").stdout
    assert cli("greet").status == 2  # its arguments are checked


def test_a_group_of_commands(install, cli):
    install({"way": "certifare_greetings:app"})
    assert cli("way", "right").stdout == "right\n"
    assert "A group of commands." in cli("--help").stdout


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("certifare_nowhere:greet", "ModuleNotFoundError"),
        ("certifare_greetings:nothing", "AttributeError"),
        ("certifare_greetings:number", "is no function and no typer.Typer"),
        ("certifare_greetings:unclear", "AssertionError"),
        ("certifare_exits:greet", "SystemExit"),
    ],
)
def test_a_broken_command_breaks_no_other(install, cli, value, why):
    install({"broken": value, "greet": "certifare_greetings:greet"})
    listed = cli("--help")
    assert listed.status == 0
    (line,) = listed.stderr.splitlines()
    assert line.startswith("warning: greetings: the command 'broken' cannot be used (")
    assert why in line
    assert "greet" in listed.stdout
    assert "broken" not in listed.stdout
    # Its own name is answered by the reason, others do not notice.
    named = cli("broken")
    assert (named.status, named.stdout) == (2, "")
    assert why in named.stderr
    assert cli("greet", "Ada").stdout == "hello Ada\n"
    assert cli("key", "--help").stderr == ""


def test_own_commands_cannot_be_replaced(install, cli):
    install({"verify": "certifare_greetings:greet"})
    assert "Say hello." not in cli("verify", "--help").stdout
    listed = cli("--help")
    assert "greetings: certifare has a command 'verify' of its own" in listed.stderr
    assert "Say hello." not in listed.stdout


def test_one_name_from_two_distributions_is_refused(install, cli):
    install({"greet": "certifare_greetings:greet"})
    install({"greet": "certifare_greetings:greet"}, dist="salutations")
    result = cli("greet", "Ada")
    assert result.status == 2
    assert "greetings and salutations: each brings a command 'greet'" in result.stderr
    assert "Say hello." not in cli("--help").stdout


def test_unknown_commands_are_still_refused(install, cli):
    install({})
    assert "No such command 'greet'" in cli("greet").stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [("certifare gre", ["greet"]), ("certifare greet --l", ["--loud"]), ("certifare broken --x", [])],
)
def test_shell_completion_knows_them_and_prints_no_warning(install, tmp_path, words, completed):
    install({"broken": "certifare_nowhere:greet", "greet": "certifare_greetings:greet"})
    code = "import sys; sys.argv = ['certifare']; from certifare.cli import main; main()"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "_CERTIFARE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (completed, "")
