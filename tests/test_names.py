"""No two things have one name: modules, and what they offer to others."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from certifare.cli.help import Commands

REPOSITORY = Path(__file__).parents[1]
PRODUCT = REPOSITORY / "src" / "certifare"
RESEARCH = REPOSITORY / "research" / "src" / "certifare_research"

COMMANDS = set(Commands.functions)
"""A command, its module in ``cli`` and its function have one name; what it runs may have it, too."""

ALLOWED = {
    "T": "a type variable",
    "Claim": "what is claimed, and its form in a certificate file: the schema has the name",
    "explain": "the command explains with the function",
    "certify": "the command certifies with the function",
    "encode": "the command encodes records; the function, of growth, columns: into codes",
    "sweep": "the command sweeps with the function",
    "sign": "the command signs with the function",
    "Terms": "what a producer states; of growth, the terms of a criterion",
    "show": "certifare show, and certifare key show",
    "main": "where a program starts",
    "arrays": "baselines' and experiments' own",
}


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    """Names of modules and packages, and where they are."""
    for path in sorted(package.rglob("*.py")):
        if path.name != "__main__.py":
            yield (path.parent.name if path.name == "__init__.py" else path.stem), path


def offered(path: Path) -> Iterator[tuple[str, bool]]:
    """Classes, functions and names of types that a module defines, and whether they are functions."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, False
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, True
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if not name.isupper() and name[0].isupper():
                    yield name, False


def repeated(found: Iterator[tuple[str, Path]]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, path in found:
        places[name].append(str(path.relative_to(REPOSITORY)))
    return {name: where for name, where in places.items() if len(where) > 1 and name not in ALLOWED}


@pytest.mark.parametrize("package", [PRODUCT, RESEARCH], ids=lambda path: path.name)
def test_modules_have_names_of_their_own(package: Path) -> None:
    others = [
        (name, path)
        for name, path in modules(package)
        # Backends of engines mirror one another, and are named after what they work on.
        if "engines" not in path.parts and not (path.parent.name == "cli" and name in COMMANDS)
    ]
    assert not repeated(iter(others))


@pytest.mark.parametrize("package", [PRODUCT, RESEARCH], ids=lambda path: path.name)
def test_classes_and_functions_have_names_of_their_own(package: Path) -> None:
    # An experiment is a module, and what it does has the same name in each: run, measure, encoders.
    found = (
        (name, path)
        for _, path in modules(package)
        for name, is_function in offered(path)
        if not name.startswith("_") and not (is_function and path.parent.name == "experiments")
    )
    assert not repeated(found)


def test_no_function_hides_a_module_beside_it() -> None:
    """``certifare.frontier.sweep`` is one thing: were it a module too, what it is would depend on what was imported."""
    for _, path in modules(PRODUCT):
        beside = {other.stem for other in path.parent.glob("*.py")}
        beside |= {package.parent.name for package in path.parent.glob("*/__init__.py")}
        hiding = {name for name, is_function in offered(path) if is_function} & beside
        if path.parent.name == "cli":
            hiding -= COMMANDS
        assert not hiding - set(ALLOWED), f"{path}: {hiding}"


def test_private_names_stay_in_their_package() -> None:
    """Also in the documentation: what a page imports is public."""
    for path in [*PRODUCT.rglob("*.py"), *RESEARCH.rglob("*.py"), *(REPOSITORY / "benchmarks").glob("*.py")]:
        home = ".".join(path.relative_to(REPOSITORY).parent.parts).removeprefix("research.").removeprefix("src.")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("certifare"):
                private = [alias.name for alias in node.names if alias.name.startswith("_")]
                own = node.module == home or node.module.startswith(f"{home}.")
                assert own or not set(private) - {"__version__"}, f"{path} imports {private} from {node.module}"
    for page in (REPOSITORY / "docs").rglob("*.md"):
        lines = [line.strip() for line in page.read_text().splitlines()]
        imports = [line for line in lines if line.startswith(("from certifare", "import certifare"))]
        assert not [line for line in imports if " _" in line or "._" in line], page


def test_private_attributes_of_encoders_and_searches_stay_in_their_package() -> None:
    for path in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr.startswith("_"):
                owner = {"encoder": "encoders", "fitted": "encoders", "search": "frontier"}.get(node.value.id)
                own = owner is None or owner in path.parts or node.attr.endswith("__")
                assert own, f"{path}: {node.value.id}.{node.attr}"


def test_nothing_is_named_after_a_list_that_readers_do_not_have() -> None:
    """A name says what is shown: no test, page or module refers to a numbered issue or item."""
    numbered = re.compile(r"\b(issue|item)s?[ _#]+\d", re.IGNORECASE)
    folders = ["src", "tests", "docs", "benchmarks", "examples", "research"]
    for path in (path for folder in folders for path in (REPOSITORY / folder).rglob("*")):
        if path.suffix in (".py", ".md", ".j2", ".sh"):
            found = [line for line in path.read_text("utf-8").splitlines() if numbered.search(line.replace("_", " "))]
            assert not found, path
