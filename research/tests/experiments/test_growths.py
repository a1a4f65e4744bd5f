import numpy as np
import pyarrow as pa
import pytest

from certifare.encoders import FairTreeEncoder
from certifare.frontier import Grid
from certifare_research.datasets import Dataset
from certifare_research.experiments.growths import best, distinct, explore, front, independent_parts
from certifare_research.experiments.shift import spoil


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 8000
    s = rng.integers(0, 2, n)
    skill, money = rng.normal(size=n), rng.normal(size=n) + 0.8 * s
    job = rng.integers(0, 6, n) + 2 * s
    y = (skill + 0.5 * money + 0.5 * rng.normal(size=n) > 0.3).astype(np.int64)
    return Dataset(
        name="people",
        X=pa.table({"skill": skill, "money": money, "job": job}),
        y=y,
        s=s,
        label_names=("no", "yes"),
        group_names=("a", "b"),
        categorical=("job",),
        tasks={"rich": (money > 1).astype(np.int64)},
        clusters=np.arange(n) // 2,
    )


@pytest.fixture(scope="module")
def parts(data):
    return independent_parts(data, {"train": 0.4, "select": 0.1, "certify": 0.3, "test": 0.2})


@pytest.fixture(scope="module")
def points(data, parts):
    return list(explore(data, parts, Grid(kinds=["tree"], gammas=(0.0, 0.7), cells=(2, 4, 8), min_cell_sizes=(50,))))


def test_certification_keeps_one_record_per_cluster(data, parts):
    clusters = data.clusters[parts["certify"]]
    assert len(np.unique(clusters)) == len(clusters)
    assert set(data.clusters[parts["train"]]).isdisjoint(clusters)


def test_points_agree_with_an_encoder(data, parts, points):
    point = next(p for p in points if p.setting.gamma == 0.7 and p.cells == 4)
    train, test = data.take(parts["train"]), data.take(parts["test"])
    encoder = FairTreeEncoder(gamma=0.7, max_cells=8, min_cell_size=50, categorical_features=["job"])
    encoder = encoder.fit(train.X, train.y, sensitive_features=train.s).at(4)
    cells, train_cells = encoder.apply(test.X), encoder.apply(train.X)
    votes = np.array([np.bincount(train.y[train_cells == i], minlength=2).argmax() for i in range(4)])
    assert point.vote().accuracy == pytest.approx(np.mean(votes[cells] == test.y))
    rates = [votes[cells][test.s == g].mean() for g in (0, 1)]
    assert point.vote().distance() == pytest.approx(abs(rates[0] - rates[1]))


def test_adversary_is_at_least_as_unfair_on_training_records(points):
    for point in points:
        assert point.adversary("train").distance() >= point.vote("train").distance() - 1e-12
        certificate = point.certificate()
        assert certificate.lower <= certificate.estimate <= certificate.bound


def test_certificates_of_larger_samples_are_tighter(points):
    point = points[-1]
    assert point.certificate(times=16).bound < point.certificate().bound
    assert point.lemmas() > point.certificate().bound


def test_best():
    records = [{"accuracy": 0.7, "bound": 0.1}, {"accuracy": 0.9, "bound": 0.3}]
    assert best(records, 0.2)["accuracy"] == 0.7
    assert best(records, 0.01) is None


def test_front():
    figures = [(0.9, 0.3, 0.2), (0.7, 0.1, 0.3), (0.6, 0.2, 0.1)]
    records = [dict(zip(("accuracy", "bound", "distance"), own, strict=True)) for own in figures]
    assert front(records, "bound", "tree", panel="Health") == [
        {"series": "tree", "panel": "Health", "distance": 0.1, "accuracy": 0.7, "certified": True},
        {"series": "tree", "panel": "Health", "distance": 0.3, "accuracy": 0.9, "certified": True},
    ]
    assert [(p["distance"], p["certified"]) for p in front(records, "distance", "tree")] == [(0.1, False), (0.2, False)]


def test_spoiled_values(data):
    complete, damaged = np.arange(4000), np.arange(4000, 8000)
    missing = spoil(data, complete, damaged, 0.1, "missing", 0)
    assert missing["skill"].slice(0, 4000).null_count == 0
    assert 300 < missing["skill"].slice(4000).null_count < 500
    imputed = spoil(data, complete, damaged, 0.1, "imputed", 0)
    assert imputed["job"].null_count == 0


def test_encoders_that_do_not_feel_their_setting_are_there_once(data, parts):
    grid = Grid(kinds=["tree"], gammas=(0.2,), cells=(2, 4), min_cell_sizes=(1, 2, 100))
    points = list(explore(data, parts, grid))
    once = list(distinct(points))
    assert len(once) < len(points)
    figures = [(p.cells, p.vote("train").text(), p.adversary("train").text(), p.vote().text()) for p in points]
    assert {f for p, f in zip(points, figures, strict=True) if p in once} == set(figures)
