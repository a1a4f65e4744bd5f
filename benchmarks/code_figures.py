"""Print figures of the code: its size, its modules and classes, its options, its requirements and its times.

``python benchmarks/code_figures.py`` is about this checkout; ``python benchmarks/code_figures.py FOLDER`` about another
one, such as that of an earlier commit (``git worktree add FOLDER COMMIT``). Times are processor seconds with compiled
modules on disk: the median of seven starts, and of three fits to the Adult table (``certifare demo``).
"""

from __future__ import annotations

import ast
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STARTS, FITS = 7, 3
#: Prints the names of all options of all commands, but for --help.
OPTIONS = """
import json, typer
from certifare.cli import app

def options(command):
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)
    if not hasattr(command, "commands"):
        yield from (max(p.opts, key=len) for p in command.params if p.param_type_name == "option")

print(json.dumps(sorted(set(options(typer.main.get_command(app))) - {"--help"})))
"""


def main(folder: Path) -> None:
    """Print the figures of a checkout as a table."""
    package = folder / "src" / "certifare"
    modules = sorted(package.rglob("*.py"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in modules}
    classes = {f"{path.stem}.{node.name}": _length(node) for path, node in _nodes(trees, ast.ClassDef)}
    wide = [node for _, node in _nodes(trees, ast.FunctionDef) if _parameters(node) > 8]
    largest = max(classes, key=lambda name: classes[name])
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    options = json.loads(_run(folder, "-c", OPTIONS))
    with tempfile.TemporaryDirectory() as place:
        fit = _seconds(folder, "-m", "certifare", "demo", "--replace", "--output", f"{place}/bundle", times=FITS)
    figures = {
        "lines": f"{sum(len(path.read_text('utf-8').splitlines()) for path in modules):,}",
        "lines of code (no blank lines, comments, docstrings)": f"{sum(map(_code_lines, modules)):,}",
        "modules": f"{len(modules):,}",
        "largest class": f"`{largest}`, {classes[largest]:,} lines",
        "functions with more than eight parameters": f"{len(wide):,}",
        "of these, neither commands nor compiled kernels": f"{sum(not _special(node) for node in wide):,}",
        "different options": f"{len(options):,}",
        "requirements": f"{len(project['dependencies']):,}",
        "`certifare --help`, seconds": f"{_seconds(folder, '-m', 'certifare', '--help'):.2f}",
        "`import certifare`, seconds": f"{_seconds(folder, '-c', 'import certifare'):.2f}",
        "`fit` on Adult (`certifare demo`), seconds": f"{fit:.1f}",
    }
    print(f"| {folder.resolve().name} | |\n|---|--:|")
    for name, figure in figures.items():
        print(f"| {name} | {figure} |")


def _nodes(trees: dict[Path, ast.Module], kind: type) -> Iterator[tuple[Path, Any]]:
    for path, tree in trees.items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def _length(node: ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _parameters(node: ast.FunctionDef) -> int:
    """Count parameters, without ``self`` and ``cls``."""
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)


def _special(node: ast.FunctionDef) -> bool:
    """Whether a function is a command, whose parameters are its options, or a compiled kernel."""
    decorators = {name for text in node.decorator_list for name in ast.unparse(text).replace("(", ".").split(".")}
    return bool({"with_options", "with_policy", "njit", "jit", "kernel", "kernel_for", "helper"} & decorators) or any(
        "typer.Context" in ast.unparse(argument.annotation) for argument in node.args.args if argument.annotation
    )


def _code_lines(path: Path) -> int:
    """Count lines that hold code: no blank lines, comments or docstrings."""
    text = path.read_text("utf-8")
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def _run(folder: Path, *arguments: str) -> str:
    ours = {"PYTHONPATH": str(folder.resolve() / "src"), "COLUMNS": "100", "CERTIFARE_STATE": "off"}
    environment = {**os.environ, **ours}
    done = subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, cwd=folder
    )
    return done.stdout


def _seconds(folder: Path, *arguments: str, times: int = STARTS) -> float:
    """Measure the processor time of a command, user and system."""
    _run(folder, *arguments)
    found = []
    for _ in range(times):
        before = os.times()
        _run(folder, *arguments)
        after = os.times()
        found.append(after.children_user - before.children_user + after.children_system - before.children_system)
    return statistics.median(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])
