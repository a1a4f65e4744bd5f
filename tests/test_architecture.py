"""docs/architecture.md says what is so: its rooms are the modules and the layers, its walks name what there is."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
PRODUCT = REPOSITORY / "src" / "certifare"
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
TESTS = REPOSITORY / "tests"
#: Test modules that show something of several modules at once, and what.
ACROSS = {
    "certificates/test_guarantee.py": "how often T* is exceeded, by simulation",
    "cli/test_agreement.py": "all commands on all sources of records",
    "cli/test_bad_files.py": "files as people have them, through all commands",
    "cli/test_fuzz_documents.py": "damaged documents, through all commands",
    "cli/test_fuzz_tables.py": "damaged tables, through all commands",
    "cli/test_group_aware.py": "--group-aware, in all commands",
    "cli/test_layout.py": "the modules of the command line",
    "cli/test_looks.py": "the ledger, through all commands that certify",
    "cli/test_reference.py": "the page on commands",
    "cli/test_strangers.py": "hostile files and names, through all commands",
    "cli/test_tables.py": "options for how tables are read, through all commands",
    "cli/test_words.py": "what several commands print on the way",
    "encoders/test_sklearn.py": "scikit-learn's own checks, on all encoders",
}
RULES = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_rooms_are_the_modules_and_the_layers_in_their_order() -> None:
    rooms = re.findall(r"^\| `(\w+)` \|", section("The rooms"), re.MULTILINE)
    modules = {path.stem for path in PRODUCT.glob("*.py")} | {
        path.parent.name for path in PRODUCT.glob("*/__init__.py")
    }
    assert sorted(rooms) == sorted(modules - {"__init__"})
    (contract,) = [rule for rule in RULES["contracts"] if rule["name"] == "Data flows one way"]
    assert contract["exhaustive"]
    layers = [layer.split(" | ") for layer in contract["layers"]]
    assert rooms == [room for layer in layers for room in layer]


def test_what_walks_and_tables_name_is_there() -> None:
    walks = section("The walk of a record")
    names = re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`", walks)
    assert len(names) > 20
    for name in names:
        found: Any = importlib.import_module("certifare")
        for part in name.split("."):
            if not hasattr(found, part):
                found = importlib.import_module(f"{found.__name__}.{part}")
            else:
                found = getattr(found, part)
    for room, inside in re.findall(r"^\| `(\w+)` \| (.*) \|$", section("The rooms"), re.MULTILINE):
        if (PRODUCT / room).is_dir():
            known = {path.stem for path in (PRODUCT / room).iterdir()} | {"certify"}
            assert not set(re.findall(r"`([a-z_]+)`", inside)) - known, room


def test_no_import_goes_by_a_string() -> None:
    """The import linter reads import statements. Lists of names are stubs beside their package, read by lazy_loader."""
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", None))
            assert name not in ("import_module", "__import__"), path
            assert name != "attach_stub" or path.name == "__init__.py", path
    for stub in sorted(PRODUCT.rglob("__init__.pyi")):
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            assert not isinstance(node, ast.ImportFrom) or node.level == 1 or stub.parent == PRODUCT, stub


def test_no_import_rule_has_an_exception() -> None:
    assert not [rule["name"] for rule in RULES["contracts"] if "ignore_imports" in rule]


def test_a_class_of_more_than_350_lines_says_why() -> None:
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno >= 350:
                words = " ".join((ast.get_docstring(node) or "").split())
                assert "The class is long because" in words, f"{path}: {node.name}"


def test_a_test_module_is_named_after_the_module_that_it_tests() -> None:
    """``tests/<room>/test_<module>.py``, or ``test_<module>_<aspect>.py``; other modules are listed above."""
    modules = {str(path.relative_to(PRODUCT)) for path in PRODUCT.rglob("*.py")}
    for path in sorted(TESTS.glob("*/**/test_*.py")):
        name, room = str(path.relative_to(TESTS)), path.parent.relative_to(TESTS)
        parts = path.stem.removeprefix("test_").split("_")
        named = {str(room / ("_".join(parts[:end]) + ".py")) for end in range(1, len(parts) + 1)} & modules
        assert bool(named) != (name in ACROSS or room.name == "website"), f"{name}: tests no module of its name"
    assert not [name for name in ACROSS if not (TESTS / name).is_file()]
