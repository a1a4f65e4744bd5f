"""One place hands out generators."""

import ast
import hashlib
from pathlib import Path

import numpy as np
import pytest

import certifare
from certifare.errors import ArgumentError
from certifare.foundation.randomness import number, stream

PACKAGE = Path(certifare.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "foundation" / "randomness.py")


def forbidden(source):
    """Lines that make a generator, or hand a library a seed that does not come from ``number``."""
    tree = ast.parse(source)
    annotations = {
        id(node)
        for parent in ast.walk(tree)
        for field in ("annotation", "returns")
        if getattr(parent, field, None) is not None
        for node in ast.walk(getattr(parent, field))
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wrong = any(name.name in ("random", "numpy.random") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            wrong = node.module in ("random", "numpy.random") or (
                node.module == "numpy" and any(name.name == "random" for name in node.names)
            )
        elif isinstance(node, ast.Attribute):
            wrong = node.attr == "random" and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")
        elif isinstance(node, ast.keyword):
            given = node.value.func if isinstance(node.value, ast.Call) else None
            wrong = node.arg == "random_state" and not (isinstance(given, ast.Name) and given.id == "number")
        else:
            wrong = False
        if wrong and id(node) not in annotations:
            found.append(node.lineno if hasattr(node, "lineno") else node.value.lineno)
    return found


def test_the_walk_finds_what_it_looks_for():
    assert len(MODULES) > 70
    for line in (
        "rng = np.random.default_rng(seed)",
        "rng = numpy.random.RandomState(0)",
        "np.random.seed(0)",
        "import random",
        "from numpy.random import SeedSequence",
        "from numpy import random",
        "KMeans(3, random_state=seed)",
    ):
        assert forbidden(line) == [1], line
    for line in ("def draw(rng: np.random.Generator) -> float: ...", "KMeans(3, random_state=number(seed, 'centres'))"):
        assert forbidden(line) == [], line


def test_no_other_module_makes_a_generator():
    texts = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in MODULES}
    found = {name: forbidden(text) for name, text in texts.items() if "random" in text}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_streams_of_other_seeds_or_purposes_are_independent():
    purposes = [(0, "thinning"), (1, "thinning"), (0, "split"), (0, "thinning", ""), (0, "thin", "ning"), (-1, "split")]
    draws = np.array([stream(*purpose).random(20_000) for purpose in purposes])
    np.testing.assert_allclose(np.corrcoef(draws), np.eye(len(purposes)), atol=0.04)
    # A generator of a bare seed is none of them.
    assert not np.isin(np.random.default_rng(0).random(100), draws).any()
    assert stream(0, "thinning").random() == stream(np.int64(0), "thinning").random() == draws[0, 0]


def test_numbers_are_the_same_in_every_version():
    """The same in every version and on every machine: published encoders are made again from them."""
    assert number(0, "folds") == 1906739050
    of_all_bits = np.random.default_rng(int.from_bytes(hashlib.sha256(b"1:05:folds").digest()))
    assert stream(0, "folds").random() == of_all_bits.random()
    assert number(0, "folds", bits=64) >> 33 == number(0, "folds")
    assert len({number(seed, "folds") for seed in range(1000)}) == 1000
    with pytest.raises(ArgumentError, match="whole number"):
        number("zero", "folds")
    with pytest.raises(ArgumentError, match="whole number"):
        stream(0.5, "folds")
