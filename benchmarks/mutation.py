"""Do the tests notice? Small changes to the core, one at a time, each against the tests that should fail.

A mutant is the source with one change that a slip of the hand could make: a comparison that takes in its boundary or is
turned round, a sum for a difference, a constant a tenth larger, the smaller for the larger, a rounding in the other
direction, a slice that is one too short. Every mutant runs in a copy of the source tree, with those tests of its module
that run the changed line, the quickest first. One that no test notices *survives*, and is printed as a diff. Runs are
forks of one process that has imported the libraries, so that most take half a second.

Some changes change nothing that could be noticed (a guess at the width of an interval, say). They are listed with their
reasons in ``benchmarks/equivalent_mutants.toml``, by module, line and what becomes of it, and are not run.

    python benchmarks/mutation.py --mutants 200 --seed 0
    python benchmarks/mutation.py --module certificates/exact.py --mutants 50
    python benchmarks/mutation.py --again survivors.json

Ends with status 1 if fewer than 95 % of the mutants that are not equivalent were noticed. A mutant of a compiled module
has a folder of its own for what is compiled, so that it is really compiled and run.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import queue
import random
import re
import shutil
import signal
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import cache_from_source
from multiprocessing import get_context
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PACKAGE = Path("src/certifare")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
#: The share of mutants that must be noticed.
REQUIRED = 0.95
#: Folders that mutants change or write to are copied; the others are only linked.
COPIED = ("src", "tests", "conftest.py", "pyproject.toml")
LINKED = ("docs", "research", "benchmarks", "examples", "README.md", "CHANGELOG.md", "Makefile", "mkdocs.yml")

#: The tests that are to notice a change in a module, the nearest ones first.
CERTIFICATES = "tests/certificates/"
TESTS = {
    "certificates/exact.py": ["test_exact.py", "test_bounding.py", "test_certificate.py"],
    "certificates/bounding.py": [
        "test_bounding.py", "test_certificate.py", "test_tail.py", "test_population.py",
        "test_sequence.py", "test_calibrated_certificate.py",
    ],
    "certificates/calibrated.py": ["test_calibrated.py", "test_calibrated_certificate.py", "test_planning.py"],
    "certificates/planning.py": ["test_planning.py"],
    "certificates/rounding.py": ["test_rounding.py"],
    "certificates/means.py": ["test_means.py"],
    "certificates/issuing.py": ["test_bounding.py", "test_certificate.py", "test_population.py"],
    "certificates/consequences.py": ["test_consequences.py", "test_certificate.py"],
    "certificates/classifier.py": [
        "test_classifier.py", "test_certificate.py", "test_tail.py", "test_calibrated_certificate.py",
        "../document/test_suppression.py",
    ],
    "certificates/claims.py": [
        "test_claims.py", "test_claims_scope.py", "test_certificate.py", "test_bounding.py", "test_consequences.py",
    ],
    "certificates/sequence.py": ["test_sequence.py", "test_tail.py", "test_bounding.py"],
    "certificates/tail.py": ["test_tail.py", "test_bounding.py", "test_certificate.py"],
    "certificates/looks.py": ["test_looks.py", "test_certificate.py", "../certification/test_ledger.py"],
    "certificates/sampling.py": ["test_sampling.py", "test_tail.py", "test_population.py"],
    "certificates/counts.py": [
        "test_counts.py", "test_population.py", "test_certificate.py", "../engines/test_entries.py",
    ],
    "certificates/population.py": ["test_population.py", "test_certificate.py", "../document/test_verification.py"],
    "certification/monitoring.py": [
        "../certification/test_monitoring_levels.py", "../certification/test_monitoring.py", "../cli/test_monitor.py",
    ],
    "tables/splitting.py": ["../tables/test_splitting.py", "../test_walk.py"],
    "document/verification.py": [
        "../document/test_verification.py", "../document/test_verification_own_records.py", "../cli/test_verify.py",
        "../document/test_verification_thresholds.py", "../document/test_statement.py",
    ],
    "document/suppression.py": ["../document/test_suppression.py", "../document/test_verification.py"],
    "document/envelopes.py": ["../document/test_envelopes.py", "../document/test_verification.py"],
    "foundation/randomness.py": ["../foundation/test_randomness.py", "test_sampling.py", "../tables/test_splitting.py"],
}  # fmt: skip

#: Pytest would rewrite assertions of hypothesis, which is imported before it.
UNHEARD = "ignore::pytest.PytestAssertRewriteWarning"
#: Each run is a fork of a process that has imported what the tests need, but nothing of this project.
FORKS = get_context("forkserver")
IMPORTED = [
    "numba", "pytest", "hypothesis", "pandas", "polars", "pyarrow.parquet", "pyarrow.compute", "scipy.stats",
    "scipy.optimize", "sklearn.base", "lightgbm", "narwhals.stable.v2", "msgspec", "securesystemslib.signer", "sqlglot",
    "typer.testing", "rich.console", "jinja2", "duckdb",
]  # fmt: skip

COMPARISONS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
    "in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",),
}  # fmt: skip
OPERATIONS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}  # fmt: skip
#: Names that stand for the opposite of one another.
OPPOSITES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin",
    "ceil": "floor", "floor": "ceil", "any": "all", "all": "any",
    "ROUND_FLOOR": "ROUND_CEILING", "ROUND_CEILING": "ROUND_FLOOR",
}  # fmt: skip
#: What only guards against a slip in the code itself, and what only says how something is shown.
UNTOUCHED_KEYWORDS = {"strict", "frozen", "slots", "kw_only", "forbid_unknown_fields", "eq", "order"}
UNTOUCHED_FUNCTIONS = {"__repr__", "__str__", "_repr_html_"}
#: Words in code that is about to refuse something, or that says what it does, are no arithmetic.
WORDS = (ast.JoinedStr, ast.Raise)


@dataclass(frozen=True)
class Mutant:
    """One change of a module's source.

    Attributes
    ----------
    module : str
        Path within the package.
    number : int
        Of the first line.
    line, becomes : str
        The lines that change, and what becomes of them, each line without what stands around it.
    start, end, text
        The bytes that are replaced, and by what.
    """

    module: str
    number: int
    line: str
    becomes: str
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by, wherever its line moves."""
        return self.module, self.line, self.becomes

    def diff(self) -> str:
        """Show where it is, and what changes."""
        return "\n".join(
            [f"{PACKAGE / self.module}:{self.number}", *(f"  - {part}" for part in self.line.split("\n"))]
            + [f"  + {part}" for part in self.becomes.split("\n")]
        )


class Source:
    """A module, and where its nodes and tokens are, in bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.lines = content.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.tokens = [
            (self._place(*token.start), self._place(*token.end), token.string)
            for token in tokenize.tokenize(io.BytesIO(content).readline)
            if token.type in (tokenize.OP, tokenize.NAME)
        ]

    def _place(self, row: int, column: int) -> int:
        """Bytes before a token, whose column counts characters."""
        return self.starts[row - 1] + len(self.lines[row - 1].decode()[:column].encode()) if row else 0

    def start(self, node: ast.AST) -> int:
        """Bytes before a node."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        """Bytes up to its end."""
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        """Its source."""
        return self.content[self.start(node) : self.end(node)].decode()

    def token(self, after: int, before: int, words: str) -> tuple[int, int]:
        """Where an operator (of one or two words) stands between two places."""
        first, *rest = words.split()
        inside = [token for token in self.tokens if after <= token[0] and token[1] <= before]
        for i, (start, end, string) in enumerate(inside):
            if string == first and [t[2] for t in inside[i + 1 : i + 1 + len(rest)]] == rest:
                return start, inside[i + len(rest)][1] if rest else end
        raise LookupError(f"no {words!r} in {self.content[after:before]!r}")

    def mutant(self, module: str, start: int, end: int, text: str) -> Mutant:
        """Put a text in the place of some bytes."""
        changed = self.content[:start] + text.encode() + self.content[end:]
        first = self.content.rfind(b"\n", 0, start) + 1
        last = self.content.find(b"\n", end)
        was = self.content[first:last]
        becomes = changed[first : last + len(changed) - len(self.content)]
        number = self.content.count(b"\n", 0, start) + 1
        return Mutant(module, number, _stripped(was), _stripped(becomes), start, end, text)


def _stripped(lines: bytes) -> str:
    return "\n".join(line.strip() for line in lines.decode().split("\n"))


SYMBOLS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<",
    ast.RShift: ">>", ast.And: "and", ast.Or: "or", ast.MatMult: "@",
}  # fmt: skip


def nodes_of(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.FunctionDef | None]]:
    """Give the nodes that are worth changing, and the function that each is in: no types, no words, no options."""
    waiting: list[tuple[ast.AST, ast.FunctionDef | None]] = [(tree, None)]
    while waiting:
        node, function = waiting.pop()
        yield node, function
        if isinstance(node, ast.FunctionDef):
            function = node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_comment", "type_params"):
                continue
            if isinstance(node, ast.ClassDef) and field in ("bases", "keywords"):
                continue
            children = value if isinstance(value, list) else [value]
            if _is_isinstance(node) and field == "args":
                children = children[:1]
            for child in children:
                if isinstance(child, ast.AST) and not _untouched(child):
                    waiting.append((child, function))


def _is_isinstance(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"


def _untouched(node: ast.AST) -> bool:
    if isinstance(node, WORDS):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in UNTOUCHED_KEYWORDS
    if isinstance(node, ast.FunctionDef):
        return node.name in UNTOUCHED_FUNCTIONS
    if isinstance(node, ast.IfExp):
        return all(_is_words(branch) for branch in (node.body, node.orelse))
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


def _is_words(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_words(node.body) and _is_words(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def changes(source: Source, node: ast.AST, function: ast.FunctionDef | None) -> Iterator[tuple[int, int, str]]:
    """Say what could be changed at a node: from where to where, and what would stand there."""
    whole = partial(lambda n, text: (source.start(n), source.end(n), text))
    if isinstance(node, ast.Compare):
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            symbol = SYMBOLS[type(operator)]
            place = source.token(source.end(left), source.start(right), symbol)
            yield from ((*place, other) for other in COMPARISONS[symbol])
            left = right
    elif isinstance(node, ast.BinOp):
        symbol = SYMBOLS[type(node.op)]
        joined = any(_is_words(side) or isinstance(side, ast.List | ast.Tuple) for side in (node.left, node.right))
        if symbol in OPERATIONS and not joined:
            yield (*source.token(source.end(node.left), source.start(node.right), symbol), OPERATIONS[symbol])
    elif isinstance(node, ast.AugAssign):
        symbol = SYMBOLS[type(node.op)]
        place = source.token(source.end(node.target), source.start(node.value), f"{symbol}=")
        if symbol in OPERATIONS:
            yield (*place, f"{OPERATIONS[symbol]}=")
    elif isinstance(node, ast.BoolOp):
        symbol = SYMBOLS[type(node.op)]
        for left, right in zip(node.values, node.values[1:], strict=False):
            other = {"and": "or", "or": "and"}[symbol]
            yield (*source.token(source.end(left), source.start(right), symbol), other)
    elif isinstance(node, ast.UnaryOp):
        yield whole(node, f"({source.text(node.operand)})")
    elif isinstance(node, ast.Constant):
        yield from (whole(node, text) for text in other_constants(node.value))
    elif isinstance(node, ast.Name) and node.id in OPPOSITES:
        yield whole(node, OPPOSITES[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in OPPOSITES:
        yield source.end(node) - len(node.attr), source.end(node), OPPOSITES[node.attr]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("nextafter"):
        yield whole(node.args[1], f"-({source.text(node.args[1])})")
    elif isinstance(node, ast.Slice):
        yield from slices(source, node)
    elif isinstance(node, ast.Return) and node.value is not None and function is not None:
        yield from (whole(node.value, text) for text in other_values(source.text(node.value), node.value, function))
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
        node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant | ast.NamedExpr
    ):
        yield whole(node.test, f"not ({source.text(node.test)})")


def other_constants(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield from (str(value + 1), str(value - 1) if value > 0 else "(-1)")
    elif isinstance(value, float):
        yield from (repr(value * 1.1), repr(value / 1.1)) if value else ("0.1", "(-0.1)")


def slices(source: Source, node: ast.Slice) -> Iterator[tuple[int, int, str]]:
    """One element less at either end, and one more where an end is named."""
    colon = source.token(source.start(node), source.end(node), ":")
    if node.lower is None:
        yield colon[0], colon[0], "1"
    else:
        yield source.start(node.lower), source.end(node.lower), f"({source.text(node.lower)}) + 1"
    if node.upper is None:
        yield colon[1], colon[1], "-1"
    else:
        yield source.start(node.upper), source.end(node.upper), f"({source.text(node.upper)}) - 1"
        yield source.start(node.upper), source.end(node.upper), f"({source.text(node.upper)}) + 1"


def other_values(text: str, value: ast.AST, function: ast.FunctionDef) -> Iterator[str]:
    """Another value of the type that a function returns."""
    kind = "" if function.returns is None else ast.unparse(function.returns)
    if isinstance(value, ast.Constant) or kind in ("str", "None", ""):
        return
    if kind == "float":
        yield from (f"({text}) * 1.1", f"({text}) * 0.9")
    elif kind == "int":
        yield f"({text}) + 1"
    elif kind == "bool":
        yield f"not ({text})"
    elif kind == "NDArray[np.bool_]":
        yield f"~({text})"
    elif kind.startswith(("tuple", "list", "NDArray")):
        yield f"({text})[::-1]"
    else:
        yield "None"


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module, in the order of their lines."""
    content = (REPOSITORY / PACKAGE / module).read_bytes()
    source = Source(content)
    found: dict[tuple[int, int, str], Mutant] = {}
    for node, function in nodes_of(ast.parse(content)):
        for start, end, text in changes(source, node, function):
            mutant = source.mutant(module, start, end, text)
            try:
                compile(mutated(content, mutant), module, "exec")
            except (SyntaxError, ValueError):
                continue
            found[start, end, text] = mutant
    return [found[place] for place in sorted(found)]


def mutated(content: bytes, mutant: Mutant) -> bytes:
    return content[: mutant.start] + mutant.text.encode() + content[mutant.end :]


def equivalents(path: Path = EQUIVALENT) -> dict[tuple[str, str, str], str]:
    """Reasons why mutants change nothing that could be noticed, by module, line and what becomes of it."""
    found = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["equivalent"] if path.exists() else []:
        if not entry["reason"].strip():
            raise SystemExit(f"{path.name}: {entry['line']!r} has no reason.")
        for becomes in entry["becomes"]:
            found[entry["module"], entry["line"], becomes] = entry["reason"]
    return found


def stale(known: dict[tuple[str, str, str], str], modules: set[str]) -> list[tuple[str, str, str]]:
    """List the entries of these modules that are no mutants of the source as it is now."""
    made = {mutant.key for module in modules for mutant in mutants_of(module)}
    return [key for key in known if key[0] in modules and key not in made]


class Tree:
    """A copy of the source tree, in which one mutant at a time is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            path = REPOSITORY / name
            if path.is_dir():
                shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
            else:
                shutil.copy(path, folder / name)
        for name in LINKED:
            (folder / name).symlink_to(REPOSITORY / name)
        self.compiled = folder / "compiled"

    def run(self, module: str, content: bytes, tests: Sequence[str], usual: dict[str, float]) -> str | None:
        """Run tests, of which the usual seconds are known, with this content in a module's place.

        Say what noticed, None if nothing did.
        """
        path = self.folder / PACKAGE / module
        original = path.read_bytes()
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        # A kernel that was compiled before must not stand for one that has changed.
        compiled = self.folder / "compiled for one" if b"@kernel" in content else self.compiled
        path.write_bytes(content)
        # Python knows what it has compiled by a file's second and size, which a mutant may share.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        try:
            status, output = self.pytest(tests, compiled, 900, "--tb=no", usual=usual)
        finally:
            path.write_bytes(original)
            if compiled != self.compiled:
                shutil.rmtree(compiled, ignore_errors=True)
        if status == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return failed[1] if failed else output if status is None else f"status {status}"

    def pytest(
        self,
        tests: Sequence[str],
        compiled: Path,
        seconds: float,
        *options: str,
        usual: dict[str, float] | None = None,
    ) -> tuple[int | None, str]:
        """Run tests up to the first failure; return the exit status (None: no end in time) and what was printed."""
        output = self.folder / "output"
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-W", UNHEARD, *options, *tests]
        process = FORKS.Process(target=run_pytest, args=(self.folder, compiled, output, arguments, usual))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return None, f"no end within {seconds:.0f} s"
        return process.exitcode, output.read_text(encoding="utf-8", errors="replace")


class Patience:
    """End the process if a test takes much longer than usual: a loop of a mutant may never end."""

    def __init__(self, usual: dict[str, float]) -> None:
        self.usual = usual

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Give a test that begins its seconds."""
        # Of the processor, however many others use it; enough to compile a module.
        signal.setitimer(signal.ITIMER_PROF, 30 + 5 * self.usual.get(nodeid, 0.0))


def run_pytest(
    folder: Path, compiled: Path, output: Path, arguments: list[str], usual: dict[str, float] | None
) -> None:
    """Run pytest on a tree, in a process that has imported what tests need.

    With the usual seconds of tests none may take much longer. Without them nothing has changed: keep what is compiled.
    """
    import numba
    import pytest

    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(folder)
    places = [str(folder / name) for name in ("src", "research/src")]
    sys.path[:0] = places
    sys.argv = ["pytest"]
    sys.dont_write_bytecode = usual is not None
    os.environ |= {"PYTHONPATH": os.pathsep.join(places), "NUMBA_CACHE_DIR": str(compiled)}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "" if usual is None else "1"
    numba.config.CACHE_DIR = str(compiled)
    status = pytest.main(arguments, plugins=[] if usual is None else [Patience(usual)])
    sys.stdout.flush()
    os._exit(status)


@dataclass(frozen=True)
class Selection:
    """The tests of a module: all of them, those that run each line (quickest first), and their seconds."""

    all: list[str]
    by_line: dict[int, list[str]]
    seconds: dict[str, float]

    def of(self, mutant: Mutant) -> tuple[list[str], dict[str, float]]:
        """Return the tests that run a mutant's lines (all, if none is known), and the usual seconds of all tests."""
        lines = range(mutant.number, mutant.number + mutant.line.count("\n") + 1)
        found = {test for line in lines for test in self.by_line.get(line, [])}
        tests = sorted(found, key=lambda test: self.seconds.get(test, 0.0)) or self.all
        return tests, self.seconds


def prepare(tree: Tree, modules: Sequence[str]) -> dict[str, Selection]:
    """Run tests of modules as they are, to see which run which line; and of each with a fault that none can miss."""
    from coverage import CoverageData

    files = {module: [os.path.normpath(CERTIFICATES + name) for name in TESTS[module]] for module in modules}
    missing = [name for names in files.values() for name in names if not (REPOSITORY / name).is_file()]
    if missing:
        raise SystemExit(f"There are no tests {', '.join(missing)}.")
    for module in modules:
        files[module].append(str(PACKAGE / module))  # its examples
    measured = [f"--cov={folder}" for folder in sorted({str((PACKAGE / module).parent) for module in modules})]
    measured += ["--cov-context=test", "--cov-report=", "--durations=0", "-vv", "--tb=short"]
    # A file once, wherever it is named: many tests are of several modules.
    tests = list(dict.fromkeys(name for names in files.values() for name in names))
    status, output = tree.pytest(tests, tree.compiled, 7200, *measured)
    if status != 0:
        raise SystemExit(f"The tests fail without any change:\n{output[-2000:]}")
    seconds = {test: float(taken) for taken, test in re.findall(r"^([\d.]+)s call +(\S.*)$", output, re.MULTILINE)}
    data = CoverageData(str(tree.folder / ".coverage"))
    data.read()
    selections = {}
    for module in modules:
        own = {test: taken for test, taken in seconds.items() if test.partition("::")[0] in files[module]}
        by_line = {}
        for line, found in data.contexts_by_lineno(str(tree.folder / PACKAGE / module)).items():
            names = {context.rpartition("|")[0] for context in found}
            by_line[line] = sorted(name for name in names if name.partition("::")[0] in files[module])
        selections[module] = Selection(files[module], by_line, own)
        broken = (REPOSITORY / PACKAGE / module).read_bytes() + b"\nraise ArithmeticError\n"
        if tree.run(module, broken, files[module], own) is None:
            raise SystemExit(f"The tests of {module} do not import the copy that mutants change.")
    return selections


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    if arguments.again is not None:
        named = {tuple(entry[name] for name in ("module", "line", "becomes")) for entry in json.loads(
            arguments.again.read_text(encoding="utf-8"))["survivors"]}  # fmt: skip
        every = [mutant for module in sorted({key[0] for key in named}) for mutant in mutants_of(module)]
        return [mutant for mutant in every if mutant.key in named]
    every = [mutant for module in arguments.module or TESTS for mutant in mutants_of(module)]
    if arguments.lines is not None:
        first, last = arguments.lines
        every = [mutant for mutant in every if first <= mutant.number <= last]
    if arguments.mutants is None or arguments.mutants >= len(every):
        return every
    drawn = random.Random(arguments.seed).sample(range(len(every)), arguments.mutants)  # noqa: S311
    return [every[i] for i in sorted(drawn)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, help="how many, drawn at random; all unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", action="append", choices=list(TESTS), help="only this one; may be given again")
    parser.add_argument("--lines", type=int, nargs=2, metavar=("FIRST", "LAST"), help="only these lines")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only the survivors of an earlier run's --output")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the summary and survivors as JSON")
    parser.add_argument("--list", action="store_true", help="show the mutants, and run none")
    arguments = parser.parse_args()

    known = equivalents()
    drawn = chosen(arguments)
    for module, line, becomes in stale(known, {mutant.module for mutant in drawn}):
        print(f"{EQUIVALENT.name}: {module} has no line {line!r} any more that could become {becomes!r}")
    if arguments.list:
        for mutant in drawn:
            reason = known.get(mutant.key)
            print(mutant.diff() + ("" if reason is None else f"\n  equivalent: {reason}"))
        print(f"{len(drawn):,} mutants, {sum(mutant.key in known for mutant in drawn):,} of them equivalent")
        return 0
    waiting = [mutant for mutant in drawn if mutant.key not in known]
    # Before anything is imported: one thread each, and the same examples every time.
    os.environ |= {"OMP_NUM_THREADS": "1", "CI": "1"}
    FORKS.set_forkserver_preload(IMPORTED)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        outcomes = run_all(waiting, Path(folder), max(1, arguments.processes))
    survivors = [mutant for mutant in waiting if outcomes[mutant] is None]
    for mutant in survivors:
        print(f"\nSURVIVED {mutant.diff()}")
    share = 1.0 - len(survivors) / len(waiting) if waiting else 1.0
    summary = {
        "mutants": len(drawn),
        "caught": len(waiting) - len(survivors),
        "survived": len(survivors),
        "equivalent": len(drawn) - len(waiting),
        "share": share,
    }
    print()
    print("| module | caught | survived | equivalent |")
    print("|:--|--:|--:|--:|")
    for module in sorted({mutant.module for mutant in drawn}):
        own = [mutant for mutant in drawn if mutant.module == module]
        lived = sum(mutant in survivors for mutant in own)
        same = sum(mutant.key in known for mutant in own)
        print(f"| {module} | {len(own) - lived - same} | {lived} | {same} |")
    print(f"\n{summary['caught']} of {len(waiting)} mutants that are not equivalent were noticed: {share:.1%}")
    if arguments.output is not None:
        found = {**summary, "survivors": [asdict(mutant) for mutant in survivors]}
        arguments.output.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if share >= REQUIRED else 1


def run_all(waiting: list[Mutant], folder: Path, processes: int) -> dict[Mutant, str | None]:
    """Run mutants side by side, each in a tree that is free."""
    trees: queue.Queue[Tree] = queue.Queue()
    for i in range(processes):
        (folder / str(i)).mkdir()
        trees.put(Tree(folder / str(i)))

    def with_tree(job: partial) -> object:
        tree = trees.get()
        try:
            return job(tree)
        finally:
            trees.put(tree)

    def one(selections: dict[str, Selection], mutant: Mutant) -> str | None:
        content = mutated((REPOSITORY / PACKAGE / mutant.module).read_bytes(), mutant)
        noticed = with_tree(lambda tree: tree.run(mutant.module, content, *selections[mutant.module].of(mutant)))
        word = "SURVIVED" if noticed is None else "caught"
        shown = mutant.becomes.partition("\n")[0][:90]
        print(f"{word:8} {mutant.module}:{mutant.number}: {shown} ({noticed or 'by nothing'})", flush=True)
        return noticed

    modules = sorted({mutant.module for mutant in waiting})
    selections = with_tree(partial(prepare, modules=modules)) if modules else {}
    with ThreadPoolExecutor(processes) as pool:
        return dict(zip(waiting, pool.map(partial(one, selections), waiting), strict=True))


if __name__ == "__main__":
    sys.exit(main())
