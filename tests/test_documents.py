"""The commands and the code of the README and of the pages run as printed, and print what is printed there."""

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from glob import glob
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from scipy.stats import beta, norm

from certifare import CellCounts, certify_counts
from certifare.cli import main
from certifare.data import adult
from certifare.tables.stores import store_file

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
#: Three columns and trees alone: a target that they can meet.
TREE = {"--kind": "tree", "--target": "0.1"}


class CodeBlock(NamedTuple):
    """A fenced block of a page; ``reason`` says why it is not run, if it is not: ``<!-- not run: … -->`` above it."""

    language: str
    text: str
    reason: str


def all_blocks(page):
    """Give all blocks of a page, in order."""
    text = (ROOT / page).read_text("utf-8")
    found = re.findall(
        r"^(?:<!-- not run(?: here)?: ([^\n]+) -->\n+)?```([a-z]*)[^\n]*\n(.*?)^```$",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    return [CodeBlock(language, block, reason) for reason, language, block in found]


def blocks(page, language="[a-z]*"):
    """Give the blocks of a page that are run or compared, in order: (language, text)."""
    return [(b.language, b.text) for b in all_blocks(page) if not b.reason and re.fullmatch(language, b.language)]


def execute(page, names=None, only=None, without=None):
    """Run the Python blocks of a page, but for those that hold a word; return the variables that they leave."""
    names = {} if names is None else names
    found = [text for _, text in blocks(page, "python")]
    assert found
    for text in found if only is None else found[only]:
        if without is None or without not in text:
            exec(compile(text, page, "exec"), names)  # noqa: S102  (our own document)
    return names


#: Commands that are not run, by a pattern of "page: command", each with the reason.
NOT_RUN_COMMANDS = {
    r": make ": "CI runs them",
    r": pip install ": "needs the network",
    r": uv tool install ": "needs the network",
    r": python benchmarks/": "hours; reduced forms run in the tests",
    r": head ": "its output is compared with the file",
    r": certifare .* postgresql:": "needs a server; tests/engines start one",
    r": certifare demo *$": "seconds; tests/cli/test_demo.py runs a part",
    r"docs/cli.md: certifare key new": "its test has the keys from the beginning; docs/producer.md makes them",
}


def left_out(page, line):
    """Whether a command is not run, with a reason."""
    return any(re.search(pattern, f"{page}: {line}") for pattern in NOT_RUN_COMMANDS)


def commands(page):
    """Give the commands of a page that are run, each with the lines that it is said to print."""
    found = []
    for language, text in blocks(page):
        if language in ("sh", "console"):
            found += commands_in(page, language, text)
    return found


def commands_in(page, language, text):
    """Give the commands of a block that are run; in a console, other lines are output."""
    found, kept = [], False
    for line in text.replace("\\\n", " ").splitlines():
        command = line.removeprefix("$ ") if language == "console" else line.partition("#")[0]
        if language == "console" and not line.startswith("$ "):
            if kept:
                found[-1][1].append(line)
            continue
        if not command.strip():
            continue
        kept = not left_out(page, command)
        if kept:
            assert language == "console" or command.startswith("certifare "), f"{page}: {line}"
            found.append((shlex.split(command, comments=True), []))
    return found


def run(words, monkeypatch, capsys):
    """Run a command; gives its exit status and what it printed."""
    words = [name for word in words for name in (sorted(glob(word)) or [word])]
    if words[0] == "cd":
        monkeypatch.chdir(words[1])
        return 0, ""
    if words[0] != "certifare":
        return subprocess.run(words, check=False).returncode, ""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", words)
    try:
        main()
        status = 0
    except SystemExit as end:
        status = end.code or 0
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def compare(words, said, status, printed):
    """Compare what a command printed with what the page says, and its exit status with what follows from that."""
    told = any(line.startswith(("Error: ", "NO SOLUTION", "FAIL")) for line in said)
    assert (status != 0) == told, f"{shlex.join(words)}\n{printed}"
    printed = printed.replace("│", " ")
    for line in said:
        # What follows an ellipsis, or stands before one, is another each time.
        for part in re.split(r"\S*…\S*", line):
            assert " ".join(part.split()) in " ".join(printed.split()), f"{shlex.join(words)}\n{printed}"


def run_all(page, monkeypatch, capsys, fit=None):
    """Run the commands of a page, ``fit`` with other values of these options, and compare what they print."""
    done = []
    for words, said in commands(page):
        if words[1] == "fit":
            for option, value in (fit or {}).items():
                if option in words:
                    words[words.index(option) : words.index(option) + 2] = []
                words += [option, value]
        status, printed = run(words, monkeypatch, capsys)
        compare(words, said, status, printed)
        done.append(words[1] if words[0] == "certifare" else words[0])
    return done


def write_people(path, rows):
    """Write a file as the pages expect it: a label ``approved``, the column ``sex``, and a name to be dropped."""
    table = adult().take(rows)
    columns = {"approved": table.y, "sex": table.sensitive.column("sex")}
    columns |= {name: table.features.column(name) for name in ("age", "education_num", "hours_per_week")}
    arrays = {name: pa.array(column.to_pylist()) for name, column in columns.items()}
    arrays["name"] = pa.array([f"person {i}" for i in rows])
    return pacsv.write_csv(pa.table(arrays), path) if path.suffix == ".csv" else pq.write_table(pa.table(arrays), path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A folder in which someone followed the README: people, fresh records, keys and a bundle."""
    folder = tmp_path_factory.mktemp("documents")
    order = np.random.default_rng(0).permutation(48_842).tolist()
    write_people(folder / "people.csv", order[:20_000])
    write_people(folder / "fresh.csv", order[20_000:36_000])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in (
            "certifare key new producer",
            "certifare fit people.csv --label approved --sensitive sex --drop name --target 0.1 --kind tree "
            "--key producer.pem -o bundle",
        ):
            patch.setattr(sys, "argv", shlex.split(line))
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as errors, pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code, errors.getvalue()
    return folder


@pytest.fixture
def desk(bundle, tmp_path, monkeypatch):
    """A copy of that folder, in which the commands of a page are run."""
    shutil.copytree(bundle, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    return tmp_path / "desk"


@pytest.fixture
def inside(desk, monkeypatch):
    """The bundle itself, with the producer's public key and fresh records, as an auditor has them."""
    for name in ("producer.pub.pem", "fresh.csv"):
        shutil.copy(desk / name, desk / "bundle")
    monkeypatch.chdir(desk / "bundle")
    return desk / "bundle"


def test_the_code_of_the_readme_prints_what_it_says(capsys):
    ((_, block),) = blocks("README.md", "python")
    execute("README.md")
    said = re.search(r"# (demographic parity distance .*)", block)
    assert said is not None
    assert capsys.readouterr().out.strip() == said.group(1)


def test_the_commands_of_the_readme_run(desk, monkeypatch, capsys):
    shutil.rmtree("bundle")
    assert run_all("README.md", monkeypatch, capsys, fit=TREE) == ["fit", "encode", "verify"]


@pytest.mark.slow
def test_the_plan_of_the_readme_is_what_the_command_prints(monkeypatch, capsys):
    """Of the rows, 60 % set the thresholds."""
    rows = re.findall(r"^\| \**([\d,]+000)\** \|(.*0\.\d{3}.*)\|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(rows) == 4, rows
    for size, figures in rows:
        certify = int(size.replace(",", "")) * 3 // 5
        words = shlex.split(f"certifare plan --records {certify}")
        _, printed = run(words, monkeypatch, capsys)
        assert re.findall(r"0\.\d{3}", figures) == re.findall(r"^ *(?:2|8|16) +(0\.\d{3})", printed, re.M)


@pytest.mark.slow
def test_the_producers_page_runs_as_printed(desk, monkeypatch, capsys):
    for name in ("bundle", "producer.pem", "producer.pub.pem"):
        shutil.rmtree(desk / name) if (desk / name).is_dir() else (desk / name).unlink()
    done = run_all("docs/producer.md", monkeypatch, capsys)
    assert done == ["check", "fit", "encode", "key", "sign"]
    shutil.rmtree("bundle")
    names = execute("docs/producer.md")
    assert names["bundle"].verdict == "PASS"


@pytest.mark.slow
def test_the_page_on_choosing_runs_as_printed(desk, monkeypatch, capsys):
    monkeypatch.setenv("CERTIFARE_STATE", "off")  # ways to do the same, not looks one after another
    assert run_all("docs/choosing.md", monkeypatch, capsys) == ["sweep"]
    execute("docs/choosing.md")


@pytest.mark.slow
def test_the_pages_of_the_api_have_an_example_for_every_public_name(tmp_path, monkeypatch):
    """Every example runs, each public name occurs in one, and each page has one."""
    import certifare

    monkeypatch.chdir(tmp_path)
    execute("docs/api.md")
    sections = re.split(r"^## ", (ROOT / "docs" / "api.md").read_text("utf-8"), flags=re.M)[1:]
    assert all("```python\n" in section for section in sections)
    code = "\n".join(block.text for block in all_blocks("docs/api.md"))
    shown = re.findall(r"^::: ([\w.]+)", "".join(sections), re.M)
    names = {path.rpartition(".")[2] for path in shown} - {"errors", "Drawing"} | set(certifare.__all__)
    assert not {name for name in names if not re.search(rf"\b{name}\b", code)}


def build_wheel(folder):
    """Build the wheel of this checkout."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder / "wheel"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ROOT], check=True)
    (wheel,) = (folder / "wheel").glob("certifare-*.whl")
    return wheel


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """What ``certifare demo --audit-kit`` writes, made by the wheel in a fresh folder, away from this checkout."""
    folder = tmp_path_factory.mktemp("audit")
    wheel = build_wheel(folder)
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "installed")
    environment = {**os.environ, "PYTHONPATH": str(folder / "installed"), "CERTIFARE_STATE": "off"}
    words = [sys.executable, "-m", "certifare", "demo", "--audit-kit"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_the_auditors_page_ends_as_printed(kit, monkeypatch, capsys):
    """Every command of the page, in the kit that its first command makes."""
    folder, printed = kit
    first, *others = commands("docs/auditor.md")
    assert first[0] == ["certifare", "demo", "--audit-kit"]
    assert [line for line in first[1] if line] == printed.splitlines()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys.modules[__name__], "commands", lambda _: others)
    done = run_all("docs/auditor.md", monkeypatch, capsys)
    assert done == ["cd", "verify", "key", *["verify"] * 3, "encode", "cmp", *["verify"] * 4, "--help"]
    assert execute("docs/auditor.md")["verdict"].passed
    assert Path.cwd() == folder / "certifare-audit-kit"


class Fresh(NamedTuple):
    """An environment with nothing but the wheel and what it requires, and a home of its own."""

    folder: Path
    programs: Path

    def shell(self, words, place=None):
        """Run a command in a shell; gives its exit status and what it printed."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CERTIFARE", "VIRT"))
        }
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", shlex.join(words)],
            cwd=place or self.folder,
            env=kept | {"HOME": str(self.folder), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def follow(self, page):
        """Run the Python blocks of a page in one program, then its commands, as printed."""
        code = "\n".join(text for _, text in blocks(page, "python"))
        if code and page != "docs/auditor.md":
            status, printed = self.shell(["python", "-c", code])
            assert status == 0, printed
        place = self.folder
        for words, said in commands(page):
            if words[0] == "cd":
                place = place / words[1]
                continue
            compare(words, said, *self.shell(words, place))
        if code and page == "docs/auditor.md":  # it reads what the commands wrote
            status, printed = self.shell(["python", "-c", code + "print(verdict.outcome)"], place)
            assert (status, printed) == (0, "PASS\n")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    made = Fresh(folder, folder / "venv" / "bin")
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], check=True)
    install = [*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", made.programs / "python"]
    if subprocess.run([*install, build_wheel(folder)], check=False).returncode:
        pytest.skip("uv cannot install certifare here: is there a network?")
    yield made
    shutil.rmtree(folder / "venv")


@pytest.mark.slow
def test_the_producers_journey_in_a_fresh_environment(fresh):
    """Install and follow the quickstart; pandas is not there."""
    assert fresh.shell(["python", "-c", "import pandas"])[0] == 1
    fresh.follow("docs/quickstart.md")
    assert (fresh.folder / "encoded.csv").exists()


@pytest.mark.slow
def test_the_platform_engineers_journey_in_a_fresh_environment(fresh):
    """The producer's bundle: a gate that passes and one that fails, the encoder as SQL, and JSON."""
    status, printed = fresh.shell(shlex.split("certifare verify richer --max 0.04 --json"))
    assert (status, json.loads(printed)["outcome"]) == (0, "PASS")
    assert fresh.shell(shlex.split("certifare verify richer --max 0.001"))[0] == 1
    status, printed = fresh.shell(shlex.split("certifare sql richer --dialect postgres --table people"))
    assert (status, printed.split()[0]) == (0, "SELECT")


@pytest.mark.slow
def test_the_auditors_journey_in_a_fresh_environment(fresh):
    """The auditor's page to the letter, from the kit that its first command makes."""
    fresh.follow("docs/auditor.md")


@pytest.mark.slow
def test_the_consumers_and_the_notebook_users_journeys_in_a_fresh_environment(fresh):
    """Both use pandas, as their pages say; the consumer has the auditor's kit."""
    install = ["pip", "install", "--quiet", "--python", str(fresh.programs / "python"), "pandas"]
    subprocess.run([sys.executable, "-m", "uv", *install], check=True)
    for page, place in (("docs/consumer.md", "certifare-audit-kit"), ("docs/notebooks.md", ".")):
        code = "\n".join(text for _, text in blocks(page, "python"))
        status, printed = fresh.shell(["python", "-c", code], fresh.folder / place)
        assert status == 0, printed


@pytest.mark.slow
def test_the_researchers_journey_in_a_fresh_environment(fresh):
    """The code of README, which prints what it says."""
    ((_, block),) = blocks("README.md", "python")
    assert fresh.shell(["python", "-c", block])[1].strip() in block


@pytest.mark.slow
def test_the_kit_has_what_each_check_prints(kit):
    """The page shows the commands of the kit, and the kit's expected outputs end with their exit status."""
    from certifare.cli.kit import CHECKS, is_kit

    folder = kit[0] / "certifare-audit-kit"
    assert is_kit(folder)
    shown = [shlex.join(words) for words, _ in commands("docs/auditor.md")]
    for name, line in CHECKS.items():
        assert line in shown
        expected = (folder / "expected" / f"{name}.txt").read_text("utf-8")
        assert expected.startswith(f"$ {line}\n")
        failing = name in ("8-too-strict", "9-altered")
        assert expected.endswith(f"exit status {int(failing)}\n")
        assert line in (folder / "README.txt").read_text("utf-8")
    (folder / "notes.txt").write_text("an auditor's own")
    assert not is_kit(folder)
    (folder / "notes.txt").unlink()
    assert not any("private" in path.name or path.name == "producer.pem" for path in folder.rglob("*"))


def test_how_many_records_an_auditor_needs():
    """The table of the auditor's page."""
    page = (ROOT / "docs" / "auditor.md").read_text("utf-8")
    sizes, bounds = (re.findall(r"[\d,.]+", line) for line in re.findall(r"^\| (?:n, each|T\\\*) \|.*$", page, re.M))
    for n, said in zip((int(size.replace(",", "")) for size in sizes if size != ","), bounds, strict=True):
        more, less = round(n * 0.525), round(n * 0.475)
        bound = certify_counts(CellCounts([[more, less], [n - more, n - less]], groups=["a", "b"])).bound
        assert bound <= float(said) + 1e-9
        assert float(said) < bound + 0.001


def test_t_star_by_hand_is_what_certifare_prints(capsys):
    """The spreadsheet's formulas, and what certifare prints."""
    execute("docs/meaning.md")
    first, exact, approximate, second = (text.strip() for language, text in blocks("docs/meaning.md", "text"))
    assert capsys.readouterr().out.splitlines() == [exact, second]
    assert first == "=2*BETA.INV(0.95,1101,900)-1"
    assert f"{2 * beta.ppf(0.95, 1101, 900) - 1:.4f}" == "0.1370"
    assert approximate == "=0.1+NORM.S.INV(0.95)*SQRT(0.25/1000+0.25/2000)"
    assert f"{0.1 + norm.ppf(0.95) * (0.25 / 1000 + 0.25 / 2000) ** 0.5:.4f}" == "0.1319"
    page = (ROOT / "docs" / "meaning.md").read_text("utf-8")
    assert "**0.1370**" in page
    assert "gives 0.1319. certifare gives 0.1321" in page


@pytest.mark.slow
def test_the_consumers_page_runs_as_printed(kit, monkeypatch, capsys):
    """In the kit: the rows that are shown, predictions for records and cells, and the distance of this model."""
    monkeypatch.chdir(kit[0] / "certifare-audit-kit")
    ((_, rows),) = blocks("docs/consumer.md", "text")
    assert Path("encoded.csv").read_text("utf-8").startswith(rows)
    assert Path("fresh.csv").read_text("utf-8").splitlines()[1].startswith("53,")
    execute("docs/consumer.md")
    encoded, predicted = (Path(name).read_text("utf-8").count("\n") for name in ("encoded.csv", "predicted.csv"))
    assert predicted == encoded
    status, printed = run(shlex.split("certifare verify certificate.json --predictions mine.csv"), monkeypatch, capsys)
    assert status == 0
    assert "The distance of this classifier is" in printed


def test_the_first_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute("docs/index.md")
    ((_, said),) = blocks("docs/index.md", "text")
    assert capsys.readouterr().out == said


def covered():
    """Say which blocks the tests of this file run or compare, by page: Python blocks by number, others by language."""
    python, others, texts = {}, {}, set()
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))):
        if isinstance(node, ast.Constant):
            texts.add(node.value)
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        name, page = getattr(node.func, "id", ""), node.args[0].value
        if name == "execute":
            n = len(blocks(page, "python"))
            only = next((ast.unparse(word.value) for word in node.keywords if word.arg == "only"), "slice(None)")
            bounds = [None if text == "None" else int(text) for text in re.findall(r"None|\d+", only)]
            python.setdefault(page, set()).update(range(n)[slice(*bounds)])
        elif name in ("run_all", "commands"):
            others.setdefault(page, set()).update(("sh", "console"))
        elif name == "blocks" and len(node.args) > 1:
            others.setdefault(page, set()).add(node.args[1].value)
    # A recipe is named by its title.
    for title, text in recipes().items():
        if title in texts:
            python.setdefault("docs/recipes.md", set()).update(
                i for i, (_, block) in enumerate(blocks("docs/recipes.md", "python")) if block in text
            )
    return python, others


def test_every_code_block_runs_or_has_a_reason():
    """Block by block: one that is neither run nor compared here, nor marked above it, is an error."""
    python, others = covered()
    unaccounted = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "research").glob("*.md"))]:
        page, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        assert len(re.findall(r"^\s*(?:```|~~~)", text, re.M)) == 2 * len(all_blocks(page)), f"{page}: a fence is open"
        found = {"python": -1}
        for language, block in blocks(page):
            found["python"] += language == "python"
            if language == "python":
                fine = found["python"] in python.get(page, ())
            elif language in ("sh", "console"):
                fine = not commands_in(page, language, block) or language in others.get(page, ())
            else:
                fine = language in others.get(page, ())
            if not fine:
                unaccounted.append(f"{page}: ```{language} {block.splitlines()[0]}")
    assert not unaccounted, "\n".join(["not run, and no <!-- not run: … --> above them:", *unaccounted])


def test_an_unaccounted_block_is_found(tmp_path, monkeypatch):
    """The account above can fail."""
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "new.md"
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "covered", lambda: ({}, {}))
    (tmp_path / "README.md").write_text("# Nothing\n")
    for block in (
        "```python\n1 + 1\n```\n",
        "```sh\ncertifare fit x.csv\n```\n",
        "```text\nx\n```\n",
        "```sh\nls\n```\n",
    ):
        page.write_text(f"# A page\n\n{block}")
        with pytest.raises(AssertionError, match=r"docs/new\.md"):
            test_every_code_block_runs_or_has_a_reason()
        page.write_text(f"# A page\n\n<!-- not run: a reason -->\n\n{block}")
        test_every_code_block_runs_or_has_a_reason()


def test_the_page_on_reports_runs_as_printed(desk, monkeypatch, capsys):
    assert run_all("docs/report.md", monkeypatch, capsys) == ["report"]
    monkeypatch.chdir(desk / "bundle")
    assert execute("docs/report.md")["html"].startswith("<!DOCTYPE html>")


def test_the_page_on_the_certificate_format_runs_as_printed(inside):
    from certifare.document import read_document

    certificate = read_document("certificate.json").certificate
    Path("producer.pub.pem").unlink()
    names = execute("docs/certificate-format.md", {"certificate": certificate})
    assert names["document"].certificate.bound >= certificate.bound


@pytest.mark.slow
def test_the_page_on_commands_runs_as_printed(desk, monkeypatch, capsys):
    """The page on commands, but for the demo and the experiments, which have tests of their own."""
    monkeypatch.setenv("CERTIFARE_STATE", "off")  # ways to do the same, not looks one after another
    shutil.rmtree("bundle")
    done = run_all("docs/cli.md", monkeypatch, capsys, fit=TREE)
    assert done == [
        "plan",
        "check",
        "fit",
        "encode",
        "certify",
        "count",
        "verify",
        "monitor",
        "sweep",
        "show",
        "explain",
        "sql",
        "report",
        "key",
    ]


@pytest.mark.slow
def test_the_page_on_warehouses_runs_as_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("duckdb", reason="DuckDB (the extra 'duckdb') is not installed")
    monkeypatch.chdir(tmp_path)
    execute("docs/warehouse.md", only=slice(1))
    done = run_all("docs/warehouse.md", monkeypatch, capsys)
    assert done == [
        "fit", "certify", "count", "certify", "mkdir", *["count"] * 3, "certify", "certify", "cp", "certify"
    ]  # fmt: skip
    execute("docs/warehouse.md", only=slice(1, None))
    assert "<= 0.1431 with 95 % confidence" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_on_claims_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute("docs/claims.md")
    assert run_all("docs/claims.md", monkeypatch, capsys) == ["fit", "verify"] * 2


@pytest.mark.slow
def test_the_quickstart_runs_as_printed(tmp_path, monkeypatch, capsys):
    """A NO SOLUTION, the second look that was planned, a third that is refused, and more records."""
    monkeypatch.chdir(tmp_path)
    execute("docs/quickstart.md")
    assert run_all("docs/quickstart.md", monkeypatch, capsys) == ["fit", "fit", "verify", "fit", "fit", "encode"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_the_page_on_large_tables_runs_as_printed(tmp_path, monkeypatch, capsys, request):
    """In memory, from files, from an S3 server, on Dask, in DuckDB, on Spark if Java is there; what these write."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'certifare[dask]')")
    pytest.importorskip("duckdb", reason="DuckDB (the extra 'duckdb') is not installed")
    spark = shutil.which("java") is not None and importlib.util.find_spec("pyspark") is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERTIFARE_STATE", "off")  # ways to do the same, not looks one after another
    # The port of a cluster's page about itself may be in use.
    monkeypatch.setattr(distributed, "LocalCluster", partial(distributed.LocalCluster, dashboard_address=":0"))
    for name, value in {**request.getfixturevalue("s3_server"), "PYSPARK_PYTHON": sys.executable}.items():
        monkeypatch.setenv(name, value)
    for folder, rows in (("people", range(6000)), ("fresh", range(6000, 12_000))):
        Path(folder).mkdir()
        write_people(Path(folder) / "part.parquet", rows)
    with store_file("s3://people/2024/part.parquet") as local:
        local.write_bytes(Path("people/part.parquet").read_bytes())
    if spark:  # Java that another test started has another working directory
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if (session := SparkSession.getActiveSession()) is not None:
            session.stop()
        if (gateway := SparkContext._gateway) is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(60)
            SparkContext._gateway = SparkContext._jvm = None
    names = execute("docs/scale.md", without=None if spark else "SparkSession")
    assert names["certificate"].bound < 1.0
    done = run_all("docs/scale.md", monkeypatch, capsys)
    assert done == ["fit", "encode", "fit", "encode", "fit", "fit", "certify", "sql"]
    written = ["encoded-by-dask", *(["encoded-by-spark"] if spark else [])]
    for encoded in [*map(pq.read_table, written), pq.read_table("encoded.parquet")]:
        assert encoded.num_rows == 6000


def test_the_page_on_encoders_runs_as_printed(capsys):
    execute("docs/encoders.md")
    printed = " ".join(capsys.readouterr().out.split())
    for _, shown in blocks("docs/encoders.md", "sql"):
        assert " ".join(shown.removesuffix("…\n").split()) in printed, shown


@pytest.mark.slow
def test_from_raw_files_to_certified_scores(tmp_path, monkeypatch, capsys):
    """Two commands for each of the shared tables, none of them edited."""
    if not SHARED.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    page = (ROOT / "docs" / "tables.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w.]+)`, [\d,]+ \| `([^`]+)` \|", page, re.M)
    assert {name for name, _ in rows} == {path.name for path in SHARED.glob("*.parquet")}
    monkeypatch.chdir(tmp_path)
    for i, (name, options) in enumerate(rows):
        fit = ["certifare", "fit", str(SHARED / name), *shlex.split(options), "--kind", "tree", "-o", f"bundle{i}"]
        status, printed = run(fit, monkeypatch, capsys)
        assert status == 0, printed
        encode = ["certifare", "encode", f"bundle{i}", str(SHARED / name), f"{i}.csv", "--as", "score"]
        assert run(encode, monkeypatch, capsys)[0] == 0
        scores = pacsv.read_csv(f"{i}.csv")
        assert len(scores) == pq.read_metadata(SHARED / name).num_rows
        assert all(pa.compute.min(column).as_py() > 0.0 for column in scores.columns)


@pytest.mark.slow
def test_the_page_on_existing_models_runs_as_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERTIFARE_STATE", "off")  # as the page says
    execute("docs/existing.md", only=slice(1))
    done = run_all("docs/existing.md", monkeypatch, capsys)
    assert done == ["certify"] * 3 + ["fit", "show", "encode", "calibrate", "encode", "calibrate", "certify", "verify"]
    execute("docs/existing.md")


def test_the_page_on_tables_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CERTIFARE_STATE", "off")  # ways to do the same, not looks one after another
    execute("docs/tables.md", only=slice(1))
    assert run_all("docs/tables.md", monkeypatch, capsys) == ["fit", "encode"]
    execute("docs/tables.md")
    assert str(pq.read_schema("cells.parquet").field("id").type) == "int64"


def test_the_page_on_notebooks_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute("docs/notebooks.md")
    assert "FairTreeEncoder: 8 cells of 12 columns" in capsys.readouterr().out
    assert (tmp_path / "cells.svg").read_text("utf-8").startswith("<svg")


def test_the_page_on_scores_and_explanations_runs_as_printed(desk, monkeypatch, capsys):
    assert run_all("docs/explain.md", monkeypatch, capsys) == ["encode", "explain", "explain"]
    execute("docs/explain.md")
    printed = " ".join(capsys.readouterr().out.split())
    ((_, shown),) = blocks("docs/explain.md", "text")
    assert " ".join(shown.split("…")[0].split()) in printed


@pytest.mark.slow
def test_the_page_on_group_aware_encoders_runs_as_printed(desk, monkeypatch, capsys):
    shutil.rmtree("bundle")
    assert run_all("docs/group-aware.md", monkeypatch, capsys) == ["plan", "fit", "encode"]
    execute("docs/group-aware.md")


def test_the_page_on_monitoring_runs_as_printed(desk, monkeypatch, capsys):
    order = np.random.default_rng(0).permutation(48_842).tolist()
    for name, rows in (
        ("2026-11", order[20_000:26_000]),
        ("2026-12", order[26_000:32_000]),
        ("2027-01", order[32_000:]),
    ):
        write_people(desk / f"{name}.csv", rows)
    done = run_all("docs/monitor.md", monkeypatch, capsys)
    assert done == ["monitor", "monitor", "count", "monitor"]
    execute("docs/monitor.md")
    assert "<svg" in (desk / "course.html").read_text()


def recipes():
    """Give the text of each recipe, by its title."""
    text = (ROOT / "docs/recipes.md").read_text("utf-8")
    return dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S))


def recipe(title):
    """Give the blocks of a recipe, in order."""
    return re.findall(r"^```[a-z]*\n(.*?)^```", recipes()[title], flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("title", ["A gate in GitHub Actions", "A pre-commit hook"])
def test_gates_pass_this_bundle_and_fail_a_larger_bound(desk, monkeypatch, capsys, title):
    """What the gates run holds on this bundle, and fails where the bound is too large."""
    yaml = pytest.importorskip("yaml")
    (block,) = recipe(title)
    assert ("yaml", block) in blocks("docs/recipes.md", "yaml")
    found = yaml.safe_load(block)
    if "jobs" in found:
        lines = [step["run"] for step in found["jobs"]["gate"]["steps"] if "run" in step]
        assert lines.pop(0) == "pip install certifare"
    else:
        lines = [hook["entry"] for repository in found["repos"] for hook in repository["hooks"]]
    for line in lines:
        assert run(shlex.split(line), monkeypatch, capsys)[0] == 0, line
        stricter = re.sub(r"--max \S+", "--max 0.0001", line)
        assert run(shlex.split(stricter), monkeypatch, capsys)[0] == 1, stricter


#: Airflow and dbt, which have an environment of their own.
RECIPES = ROOT / ".venv-recipes" / "bin"
with_recipes = pytest.mark.skipif(
    not (RECIPES.parent / ".ready").exists(), reason="Airflow and dbt are not installed: `make recipes` sets them up"
)


def run_recipe(words, folder, **environment):
    """Run a command of the recipes' environment; gives its exit status and what it printed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "CERTIFARE_STATE": "off", **environment}
    done = subprocess.run(
        [RECIPES / words[0], *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@with_recipes
def test_the_recipe_runs_in_airflow_and_finds_the_refuted_month(desk):
    """The task in Airflow itself: a month that is as expected, and one that refutes the target."""
    (desk / "dags").mkdir()
    (desk / "dags" / "watch.py").write_text(recipe("A monthly task in Airflow")[0])
    order = np.random.default_rng(0).permutation(48_842).tolist()
    write_people(desk / "2026-11.csv", order[36_000:42_000])
    table = pacsv.read_csv(desk / "2026-11.csv")
    for name, men, women in (("education_num", 16, 10), ("hours_per_week", 70, 20)):
        values = pa.compute.if_else(pa.compute.equal(table["sex"], "Male"), men, women)
        table = table.set_column(table.column_names.index(name), name, values)
    pacsv.write_csv(table, desk / "2026-12.csv")
    home = {
        "AIRFLOW_HOME": str(desk / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(desk / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    status, printed = run_recipe(["airflow", "db", "migrate"], desk, **home)
    assert status == 0, printed
    said = re.search(r"`(airflow dags test .*?)`", (ROOT / "docs/recipes.md").read_text("utf-8"))
    assert said is not None
    _, printed = run_recipe(shlex.split(said[1]), desk, **home)
    assert "state=success" in printed, printed
    assert "'name': '2026-11'" in printed
    _, printed = run_recipe(["airflow", "dags", "test", "certificate_watch", "2027-01-01"], desk, **home)
    assert "2026-12: the distance is at least" in printed, printed
    assert "state=failed" in printed


@pytest.mark.slow
@with_recipes
def test_the_recipe_runs_in_pre_commit_and_stops_an_altered_encoder(desk):
    """The hook in pre-commit itself: it lets the bundle pass, and stops one whose encoder was altered."""
    (desk / ".pre-commit-config.yaml").write_text(recipe("A pre-commit hook")[0])
    subprocess.run(["git", "init", "--quiet", "."], cwd=desk, check=True)
    subprocess.run(["git", "add", "bundle", ".pre-commit-config.yaml"], cwd=desk, check=True)
    home = {"PRE_COMMIT_HOME": str(desk / "hooks"), "PATH": f"{RECIPES}{os.pathsep}{os.environ['PATH']}"}
    status, printed = run_recipe(["pre-commit", "run", "--all-files"], desk, **home)
    assert (status, "Passed" in printed) == (0, True), printed
    with (desk / "bundle" / "encoder.json").open("a") as file:
        file.write("\n")
    status, printed = run_recipe(["pre-commit", "run", "--all-files"], desk, **home)
    assert (status, "Failed" in printed) == (1, True), printed


@pytest.mark.slow
@with_recipes
def test_the_recipe_runs_in_dbt_and_gives_the_same_cells(desk):
    """The model in dbt itself, on DuckDB."""
    from certifare import load_encoder

    names = {}
    exec(compile(recipe("A dbt model")[0], "dbt", "exec"), names)  # noqa: S102  (our own document)
    (desk / "models").mkdir()
    shutil.move(desk / "people_cells.sql", desk / "models")
    (desk / "seeds").mkdir()
    shutil.copy(desk / "fresh.csv", desk / "seeds" / "people.csv")
    (desk / "dbt_project.yml").write_text('name: shop\nversion: "1.0"\nprofile: shop\n')
    (desk / "profiles.yml").write_text("shop: {target: here, outputs: {here: {type: duckdb, path: shop.duckdb}}}\n")
    status, printed = run_recipe(["dbt", "build", "--profiles-dir", "."], desk, DBT_SEND_ANONYMOUS_USAGE_STATS="false")
    assert status == 0, printed
    copy = "import duckdb; duckdb.connect('shop.duckdb').execute(\"COPY people_cells TO 'cells.parquet'\")"
    assert run_recipe(["python", "-c", copy], desk)[0] == 0
    found = pq.read_table(desk / "cells.parquet")
    assert len(found) == 16_000
    assert np.array_equal(found["cell"], load_encoder("bundle/encoder.json").apply(found))


@pytest.mark.slow
def test_the_recipe_logs_t_star_and_files_in_mlflow(desk, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    import warnings

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database would be one package more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own
        mlflow.set_tracking_uri(f"file://{desk}/runs")
        names = {}
        exec(compile(recipe("MLflow")[0], "mlflow", "exec"), names)  # noqa: S102  (our own document)
        logged = mlflow.get_run(names["run"].info.run_id)
    assert logged.data.metrics["T_star"] == names["certificate"].bound
    assert sorted(path.name for path in desk.rglob("certifare/*")) == [
        "certificate.json",
        "encoder.json",
        "report.html",
    ]


def test_the_recipe_for_onnx_runs(desk):
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} (the extra 'onnx') is not installed")
    exec(compile(recipe("ONNX")[0], "onnx", "exec"), {})  # noqa: S102  (our own document)


def test_the_recipe_for_fastapi_answers(desk):
    for package in ("fastapi", "httpx2"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    names = {}
    for block in recipe("An endpoint that encodes"):
        exec(compile(block, "fastapi", "exec"), names)  # noqa: S102  (our own document)
    assert names["reply"].status_code == 200
