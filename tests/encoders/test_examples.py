"""Examples in docstrings and documents run, and say what they print."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

MODULES = [
    "columns",
    "encoders.boosted",
    "encoders.fingerprint",
    "encoders.kmeans",
    "encoders.loading",
    "encoders.retained",
    "encoders.tree",
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(f"certifare.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", ["encoders.md", "boosted.md"])
def test_documents(name, capsys):
    text = (Path(__file__).parents[2] / "docs" / name).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), name, "exec"), {})  # noqa: S102  (our own documents)
