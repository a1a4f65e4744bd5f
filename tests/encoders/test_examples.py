"""Examples in docstrings run, and say what they print."""

import doctest
import importlib

import pytest

MODULES = [
    "encoders.boosted",
    "encoders.cellscores",
    "encoders.existing",
    "encoders.fingerprint",
    "encoders.information",
    "encoders.kmeans",
    "encoders.loading",
    "encoders.tree",
    "tables.frames",
    "certification.monitoring",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    outcome = doctest.testmod(importlib.import_module(f"certifare.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
