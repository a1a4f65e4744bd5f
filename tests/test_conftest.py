"""Skips that CI must not have are failures, whole modules among them; elsewhere they keep their reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = """
import pytest
def test_that_needs_a_browser():
    pytest.skip("no Chromium here")
@pytest.mark.skipif(True, reason="PostgreSQL is not installed")
def test_that_needs_a_server():
    pass
@pytest.mark.skipif(True, reason="the superuser may write anywhere")
def test_that_needs_permissions():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("required", "status", "counted"),
    [
        ("", 0, "4 skipped"),
        ("chromium", 1, "1 failed, 3 skipped"),
        ("postgresql chromium", 1, "1 failed, 2 skipped, 1 error"),
        ("no_such_module", 2, "1 error"),
    ],
)
def test_a_skip_for_want_of_what_is_required_fails(tmp_path: Path, required: str, status: int, counted: str) -> None:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(SKIPPING)
    (tmp_path / "test_all.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."],
        cwd=tmp_path, env={**os.environ, "CERTIFARE_REQUIRE": required}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert counted in run.stdout
    assert run.returncode == status
