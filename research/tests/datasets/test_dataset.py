import numpy as np
import pyarrow as pa

from certifare_research.datasets import Dataset


def people(n=1000, clusters=None):
    rng = np.random.default_rng(0)
    return Dataset(
        name="people",
        X=pa.table({"x": rng.normal(size=n)}),
        y=rng.integers(0, 2, n),
        s=rng.integers(0, 2, n),
        label_names=("no", "yes"),
        group_names=("a", "b"),
        clusters=clusters,
        tasks={"other": np.arange(n)},
    )


def test_parts_hold_every_record_once():
    parts = people().parts({"train": 0.5, "certify": 0.3, "test": 0.2})
    assert [len(rows) for rows in parts.values()] == [500, 300, 200]
    np.testing.assert_array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(1000))


def test_clusters_stay_whole():
    clusters = np.arange(1000) // 3
    data = people(clusters=clusters)
    parts = data.parts({"train": 0.6, "test": 0.4}, seed=1)
    assert not set(clusters[parts["train"]]) & set(clusters[parts["test"]])
    sample = data.sample(100)
    assert len(sample) <= 100
    whole = np.unique(sample.clusters, return_counts=True)[1]
    assert (whole[:-1] == 3).all()


def test_take_takes_everything_along():
    data = people().take(np.array([5, 3]))
    assert len(data) == 2
    np.testing.assert_array_equal(data.tasks["other"], [5, 3])


def test_repeated_records():
    assert len(people(10).repeated(4)) == 40
