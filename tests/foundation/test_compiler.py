"""Kernels work where nothing can be written, and what is kept of them can be read by later versions."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import certifare

PROGRAM = """
import numpy as np
import pathlib
import certifare
from certifare import CellCounts, certify_counts

assert pathlib.Path(certifare.__file__).is_relative_to({folder!r})
print(certify_counts(CellCounts(np.array([[50, 60], [50, 40]]), ("f", "m"))).bound)
"""


@pytest.mark.slow
def test_an_installation_that_cannot_be_written_to_compiles_without_a_cache(tmp_path):
    """A file stands where the folders of compiled code would be, so that even the superuser cannot make them."""
    package = tmp_path / "certifare"
    shutil.copytree(Path(certifare.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NUMBA")},
        "PYTHONPATH": str(tmp_path),
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
    }
    program = PROGRAM.format(folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0.1 < float(done.stdout) < 0.4


def test_kernels_take_no_named_tuples():
    """What is kept on disk would name their class, and could not be read by a version that has none of that name."""
    from numba.core.types import BaseNamedTuple

    from certifare.growth import Criterion, MemorySource, Targets, encode, fit_bins, grow, splits

    rng = np.random.default_rng(0)
    x, label, group = rng.integers(0, 4, 200), rng.integers(0, 2, 200), rng.integers(0, 2, 200)
    bins = fit_bins([x], ["x"], [True])
    source = MemorySource(encode(bins, [x]), Targets.from_columns([label], group, (2,), 2))
    for charge in ("every", "crossing"):
        criterion = Criterion(0.5, "demographic_parity", (2,), 2, charge=charge)
        grow(source, bins, criterion, max_cells=2, min_cell_size=1)
    kernels = [value for value in vars(splits).values() if hasattr(value, "signatures")]
    taken = [argument for kernel in kernels for signature in kernel.signatures for argument in signature]
    assert any("Tuple" in str(argument) for argument in taken)
    assert not any(isinstance(argument, BaseNamedTuple) for argument in taken)
