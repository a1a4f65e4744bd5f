from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from certifare_research.datasets import (
    load_acs_employment,
    load_acs_income,
    load_acs_income_classes,
    load_adult,
    load_compas,
    load_german_credit,
    load_health,
    load_law_school,
)
from certifare_research.errors import DataFileError

SHARED = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data folder is not beside this checkout")


def test_adult_ships_with_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("CERTIFARE_DATA", str(tmp_path))
    data = load_adult()
    assert len(data) == 48_842
    assert data.label_names == ("<=50K", ">50K")
    assert round(float(data.y.mean()), 3) == 0.239
    assert "sex" not in data.X.column_names


@needs_data
@pytest.mark.parametrize(
    ("load", "records", "positive", "share"),
    [
        (lambda: load_acs_income("CA", data=SHARED), 50_825, 0.410, 0.529),
        (lambda: load_acs_employment(years=[2018], data=SHARED), 70_131, 0.505, 0.483),
        (lambda: load_health(data=SHARED), 218_414, 0.681, 0.356),
        (lambda: load_compas(data=SHARED), 6_172, 0.455, 0.514),
        (lambda: load_german_credit(data=SHARED), 1_000, 0.700, 0.690),
        (lambda: load_law_school(data=SHARED), 20_798, 0.890, 0.841),
    ],
    ids=["income", "employment", "health", "compas", "german", "law"],
)
def test_records_and_rates(load, records, positive, share):
    data = load()
    assert len(data) == records
    assert round(float(data.y.mean()), 3) == positive
    assert round(float(data.s.mean()), 3) == share
    matrix = data.take(np.arange(500)).design().fit(data.X.slice(0, 500)).transform(data.X.slice(0, 500))
    assert np.isfinite(matrix).all()


@needs_data
def test_health_has_the_papers_columns():
    data = load_health(data=SHARED)
    names = data.design().fit(data.X).column_names()
    assert len(names) == 101  # the paper's 100, and a bit for sexes never seen
    assert names[2] == "DrugCount_total"
    assert names[33] == "PrimaryConditionGroup=METAB3"
    assert names[92] == "PlaceSvc=Office"
    assert data.clusters is not None


@needs_data
def test_transfer_tasks():
    data = load_health(transfer=True, data=SHARED)
    assert not [name for name in data.X.column_names if name.startswith("PrimaryConditionGroup")]
    assert set(data.tasks) == {"MISCHRT", "NEUMENT", "ARTHSPIN", "METAB3", "MSC2a3"}


@needs_data
def test_asian_records_keep_their_features():
    data = load_acs_income_classes("CA", data=SHARED)
    asian = data.X.filter(pa.array(data.s == 2))
    assert len(set(asian["Age"].to_pylist())) > 50
    assert data.label_names[data.y.max()] == ">100k"


@needs_data
def test_unknown_sensitive_column_is_refused():
    with pytest.raises(DataFileError, match="choose"):
        load_acs_income(sensitive="shoe size", data=SHARED)
