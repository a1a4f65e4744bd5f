"""Two distributions: the product knows nothing of the research, and both work as they are installed."""

import ast
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "src" / "certifare"
RESEARCH = ROOT / "research" / "src" / "certifare_research"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Both wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ROOT, ROOT / "research"], check=True)
    (product,), (research,) = folder.glob("certifare-*.whl"), folder.glob("certifare_research-*.whl")
    return product, research


@pytest.fixture
def installed(wheels, tmp_path, monkeypatch):
    """Run the command with what the wheels hold, away from this checkout."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(tmp_path / "site")
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.delenv("CERTIFARE_DATA", raising=False)

    def run(*words, module=("-m", "certifare")):
        command = [sys.executable, *module, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    where = run(module=("-c", "import certifare, certifare_research as r; print(certifare.__path__, r.__path__)"))
    assert where.stdout.count(str(tmp_path / "site")) == 2
    return run


def test_the_products_wheel_holds_the_product_alone(wheels):
    names = zipfile.ZipFile(wheels[0]).namelist()
    packages = {"/".join(name.split("/")[:2]) for name in names if name.startswith("certifare/")}
    assert {name.split("/")[0] for name in names} == {"certifare", "certifare-0.1.0.dist-info"}
    assert {f"certifare/{path.name}" for path in PRODUCT.iterdir() if path.name != "__pycache__"} == packages
    assert not any(word in name for name in names for word in ("research", "experiment", "baseline", "reproduce"))


def test_the_researchs_wheel_holds_the_results_it_needs(wheels):
    names = zipfile.ZipFile(wheels[1]).namelist()
    assert {name.split("/")[0] for name in names} == {"certifare_research", "certifare_research-0.1.0.dist-info"}
    needed = ("baselines.csv", "anchors.csv", "times.jsonl")
    assert {f"certifare_research/experiments/{name}" for name in needed} <= set(names)


def test_an_installed_wheel_adds_reproduce(installed):
    assert "reproduce" in installed("--help").stdout
    done = installed("reproduce", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--baselines" in done.stdout


@pytest.mark.slow
def test_published_methods_are_shown_outside_a_checkout(installed):
    done = installed("reproduce", "learning", "--quick", "--output", "pages")
    assert done.returncode == 0, done.stderr
    page = Path("pages/learning.md").read_text()
    assert all(f"{method}, Adult" in page for method in ("CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath", "LAFTR"))


def test_without_the_research_there_is_no_reproduce(wheels, tmp_path):
    with zipfile.ZipFile(wheels[0]) as file:
        file.extractall(tmp_path)
    # As in an environment in which nothing brings commands.
    code = (
        "import certifare.cli.help as h; h._brought = dict; import sys; "
        "sys.argv = ['certifare', 'reproduce']; from certifare.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "No such command 'reproduce'" in done.stderr


def test_both_have_one_version():
    product, research = (tomllib.loads((ROOT / path / "pyproject.toml").read_text()) for path in (".", "research"))
    version = product["project"]["version"]
    assert research["project"]["version"] == version
    assert f"certifare=={version}" in research["project"]["dependencies"]


def imports(path):
    """Every name that a module imports, with dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_product_does_not_name_the_research():
    assert [path for path in PRODUCT.rglob("*.py") if "certifare_research" in path.read_text()] == []


def test_the_research_uses_no_private_name_of_the_product():
    found = {name for path in RESEARCH.rglob("*.py") for name in imports(path) if name.startswith("certifare.")}
    assert "certifare.certificates.certify_counts" in found
    assert [name for name in found if any(part.startswith("_") for part in name.split("."))] == []
