from pathlib import Path

import pytest

from certifare_research.experiments.framework import Run
from certifare_research.experiments.registry import EXPERIMENTS, reproduce

SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside this checkout")
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "audit"])
def test_every_experiment_writes_its_page(name, tmp_path):
    run = Run(name=name, out=tmp_path, data=SHARED, quick=True, jobs=1)
    files = reproduce(run)
    page = (tmp_path / f"{name}.md").read_text()
    assert page.startswith("# ")
    assert f"certifare reproduce {name} --quick" in page
    assert "| " in page
    assert (tmp_path / f"{name}.csv").stat().st_size > 50
    assert all(path.is_file() for path in files)
    if (tmp_path / f"{name}.claims.csv").is_file():
        reproduce(Run(name="audit", out=tmp_path))
        assert "| all |" in (tmp_path / "audit.md").read_text()
