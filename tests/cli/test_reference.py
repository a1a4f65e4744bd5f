"""The page on commands says all there is to say."""

import re
from pathlib import Path

import pytest
import typer

from certifare.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def commands():
    """Every command with its options."""
    for name, command in typer.main.get_command(app).commands.items():
        for part in getattr(command, "commands", {name: command}).values():
            yield name, [option for p in part.params if p.param_type_name == "option" for option in p.opts]


@pytest.mark.parametrize(("name", "options"), list(commands()))
def test_every_option_is_on_the_page_of_commands(name, options):
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S))
    assert name in sections
    for option in options:
        assert f"`{option}`" in sections[name] or option == "--help", f"{name} {option}"
