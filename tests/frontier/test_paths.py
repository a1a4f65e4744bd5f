import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from certifare import BoostedEncoder, FairTreeEncoder
from certifare.frontier import Grid
from certifare.frontier.paths import Explorer
from certifare.tables.splitting import split

COMMON = {"metric": "demographic_parity", "positive_label": None, "retain": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def parts(make_table):
    table = make_table(label=["paid", "promoted"], drop=("weight", "home", "region"))
    return {name: table.take(rows) for name, rows in split(table).items()}


def explore(parts, grid):
    return Explorer(parts["train"], {"select": parts["select"], "certify": parts["certify"]}, grid, COMMON)


@pytest.mark.parametrize("kind", ["tree", "boosted"])
def test_counts_of_a_path_are_those_of_each_encoder_by_itself(parts, kind):
    grid = Grid(kinds=[kind], gammas=[0.6], min_cell_sizes=[40], cells=[2, 3, 7])
    explorer = explore(parts, grid)
    for setting in explorer.settings:
        path = explorer.walk(setting)
        whole = explorer.fit(setting)
        assert set(path.starts) <= {2, 3, 7, whole.n_cells_}
        for place, k in enumerate(path.starts):
            encoder = whole if k == whole.n_cells_ else whole.at(k)
            for name in ("select", "certify"):
                cells = encoder.apply(parts[name].features)
                counted = path.at(name, k).groups
                assert np.array_equal(counted[:, :, :-1], parts[name].count(cells, k, labels=True).table)
                assert not counted[:, :, -1].any()
                right = [
                    (vote[cells] == y.codes).mean() for vote, y in zip(path.votes(k), parts[name].labels, strict=True)
                ]
                assert path.figures(name).accuracy[place] == pytest.approx(np.mean(right))
            assert np.array_equal(path.probe_cells(k), encoder.apply(explorer.probe.features))
            assert path.retained[k] == pytest.approx(
                encoder.retained_information(explorer.probe.features).mean, abs=0.05
            )


@pytest.mark.parametrize(("kind", "encoder"), [("tree", FairTreeEncoder), ("boosted", BoostedEncoder)])
def test_an_explored_encoder_is_the_one_that_fit_gives(parts, kind, encoder):
    explorer = explore(parts, Grid(kinds=[kind], gammas=[0.7], min_cell_sizes=[60], cells=[5]))
    train = parts["train"]
    labels = pa.table({label.name: label.to_arrow() for label in train.labels})
    alone = encoder(0.7, 5, 60).fit(train.features, labels, sensitive_features=train.sensitive)
    found = explorer.fit(explorer.settings[0])
    assert np.array_equal(found.apply(parts["certify"].features), alone.apply(parts["certify"].features))


def test_training_votes_come_from_training_records(parts):
    explorer = explore(parts, Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[40], cells=[4]))
    path = explorer.walk(explorer.settings[0])
    train = parts["train"]
    cells = explorer.fit(explorer.settings[0]).apply(train.features)
    for y, vote in zip(train.labels, path.votes(4), strict=True):
        expected = [np.bincount(y.codes[cells == cell]).argmax() for cell in range(4)]
        assert vote.tolist() == expected


def test_boosting_on_the_table_itself(parts):
    explorer = explore(parts, Grid(gammas=[0.5], min_cell_sizes=[40], cells=[4]))
    assert explorer.boosting(parts["certify"]) is None, "nothing is fitted only for comparison"
    explorer.prepare("boosted")
    forecasts = explorer.boosting(parts["certify"])
    assert len(forecasts) == 2
    for y, shares in zip(parts["certify"].labels, forecasts, strict=True):
        assert shares.shape == (len(y), len(y.names))
        assert np.allclose(shares.sum(axis=1), 1)
        assert roc_auc_score(y.codes, shares[:, 1]) > 0.7
