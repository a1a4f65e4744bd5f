from pathlib import Path

import pytest

from certifare_research.experiments.framework import Run
from certifare_research.experiments.registry import EXPERIMENTS, reproduce

SHARED = Path(__file__).parents[4] / "shared" / "data"
#: For pages with published methods, what they say where there are no results.
MISSING = {
    "comparison": ("FCRL: no results", "FairPath: no results"),
    "learning": ("LAFTR steady: no results", "CVIB, Adult: no results", "records as they are: no results"),
    "downstream": ("FairPath: no results", "identity: no results"),
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside this checkout")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "size")) for name in EXPERIMENTS if name != "audit"],
)
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
    if name in MISSING:
        check_that_missing_methods_are_named(name, tmp_path)


def check_that_missing_methods_are_named(name, folder):
    """Make the page again, with kept results of our encoders and hardly any of the published methods."""
    few = folder / "few.csv"
    few.write_text(
        "data,method,metric,effort,setting,task,classifier,target,counts\n"
        "none,FNF,demographic_parity,1,gamma=1,y,mlp50,y,4 1 1 4 3 2 0 5\n"
    )
    reproduce(Run(name=name, out=folder, data=SHARED, quick=True, jobs=1, baselines=few))
    page = (folder / f"{name}.md").read_text()
    assert all(words in page for words in MISSING[name])
