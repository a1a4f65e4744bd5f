"""Methods, data sets and years of one's own."""

import re
from pathlib import Path

import pytest

from certifare_research import extensions
from certifare_research.datasets import load_acs_income
from certifare_research.errors import DataFileError, ExperimentError
from certifare_research.experiments import published, shift, years
from certifare_research.experiments.framework import Run
from certifare_research.experiments.registry import reproduce

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture
def clean():
    yield
    extensions.METHODS.clear()
    extensions.DATASETS.clear()
    extensions._read.clear()


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside this checkout")
def test_the_thirty_lines_of_the_page_add_a_method_and_a_data_set_to_the_comparison(tmp_path, clean, monkeypatch):
    page = (ROOT / "docs" / "baselines.md").read_text()
    (code,) = re.findall(r'^```python title="mine.py"\n(.*?)^```', page, re.M | re.S)
    file = tmp_path / "mine.py"
    file.write_text(code.replace("4000", "900"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    extensions.read(file)
    few = tmp_path / "few.csv"
    few.write_text("data,method,setting,counts\nca,Theirs,a=1,4 1 1 4 3 2 0 5\n")
    monkeypatch.setattr("certifare_research.experiments.comparison.WAYS", {"tree": "--kind tree"})
    run = Run(
        name="comparison", out=tmp_path, data=SHARED, quick=True, jobs=1, baselines=few, also=(few,), extensions=(file,)
    )
    reproduce(run)
    page = (tmp_path / "comparison.md").read_text()
    assert "## Survey" in page
    assert page.count("| PCA: measured ≤ |") == 2
    assert "PCA, most accurate (size=" in page
    assert "| Theirs: measured ≤ |" in page
    assert "--baselines few.csv --also few.csv --with mine.py" in page


def test_what_cannot_be_registered_is_refused(tmp_path, clean):
    with pytest.raises(ExperimentError, match="register\\(\\) takes"):
        extensions.register(3)
    with pytest.raises(ExperimentError, match="'FCRL' is taken"):
        extensions.register(extensions.Method("FCRL", lambda train, X, s: None))
    with pytest.raises(ExperimentError, match="no file"):
        extensions.read(tmp_path / "none.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ExperimentError, match="registers nothing"):
        extensions.read(tmp_path / "empty.py")


def test_names_of_the_paper_are_taken(clean):
    results = published.read_runs()
    methods = {*published.METHODS, *(r.method for r in results)}
    data = {"classes", *(r.data for r in results), *(name for name, *_ in years.SIZES.values())}
    data |= {f"{name}{part}" for name, places, _ in shift.POPULATIONS.values() for part in ("", f"-{places[0]}")}
    assert {*extensions.TAKEN} <= methods | data
    for name in methods | data:
        with pytest.raises(ExperimentError, match=f"'{name}' is taken"):
            extensions.register(extensions.Method(name, lambda train, X, s: None))


def test_the_papers_year_is_read_as_folktables_keeps_it(tmp_path):
    folder = tmp_path / "2014" / "1-Year"
    folder.mkdir(parents=True)
    names = "SERIALNO,PWGTP,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP,ESR"
    rows = [
        "1,10,40,1,21,1,1020,6,0,40,1,1,90000,1",
        "2,8,30,2,16,5,4720,303,2,20,2,8,18000,1",
        "3,8,12,,,5,,6,2,,2,1,,",
    ]
    (folder / "ss14pca.csv").write_text("\n".join([names, *rows]) + "\n")
    dataset = load_acs_income("CA", 2014, data=tmp_path)
    assert (dataset.name, len(dataset)) == ("ACSIncome-CA-2014", 2)
    assert dataset.y.tolist() == [1, 0]
    assert dataset.s.tolist() == [1, 0]
    assert Run(name="x", out=tmp_path, data=tmp_path, year=2014, states=("CA",)).load("ca").name == "ACSIncome-CA-2014"
    with pytest.raises(DataFileError, match="no state"):
        Run(name="x", out=tmp_path, data=tmp_path, year=2014, states=("XX",)).load("ca")
