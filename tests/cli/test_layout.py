"""The rooms of the command line: a module per command, and what commands share elsewhere."""

import ast
from pathlib import Path

import pytest
import typer

import certifare.cli
from certifare.cli import app

FOLDER = Path(certifare.cli.__file__).parent
#: Modules of commands are called as their command.
COMMANDS = sorted(set(typer.main.get_command(app).commands) & {path.stem for path in FOLDER.glob("*.py")})


def imported(path):
    """Modules of the command line that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("certifare.cli.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "certifare.cli":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.removeprefix("certifare.cli.")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_the_application_imports_commands(path):
    assert len(COMMANDS) > 10
    if path.stem != "__init__":
        assert not set(COMMANDS) & set(imported(path))
