"""The public names, each listed once."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
PACKAGES = ["certificates", "drawing", "encoders", "frontier", "document", "report"]


def shown() -> dict[str, list[str]]:
    """Paths that the page shows, by where it says that they are imported from."""
    found: dict[str, list[str]] = {}
    place = ""
    for line in PAGE.read_text().splitlines():
        heading = re.fullmatch(r"Imported from `([\w.]+)`:", line)
        if heading or line.startswith("Errors"):
            place = heading[1] if heading else "certifare.errors"
        elif line.startswith("::: "):
            found.setdefault(place, []).append(line.removeprefix("::: "))
    return found


def test_the_page_of_the_api_shows_every_public_name_once():
    paths = [path for of_place in shown().values() for path in of_place]
    assert len(set(paths)) == len(paths)
    names = {path.rpartition(".")[2] for path in paths}
    assert "errors" in names
    for package in ["certifare", *(f"certifare.{name}" for name in PACKAGES)]:
        assert set(importlib.import_module(package).__all__) - names <= {"CertifareError"}, package


def test_what_the_page_shows_is_imported_from_where_it_says():
    for place, paths in shown().items():
        for path in paths:
            if path == place:
                continue
            home, _, name = path.rpartition(".")
            assert getattr(importlib.import_module(place), name) is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize("package", ["certifare", "certifare.encoders", "certifare.growth"])
def test_names_that_are_loaded_late_are_there(package):
    module = importlib.import_module(package)
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError):
        module.nothing  # noqa: B018


def test_importing_certifare_imports_nothing_slow():
    code = "import sys, certifare, certifare.encoders, certifare.growth; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "sklearn", "numpy", "pyarrow"} & set(loaded)
