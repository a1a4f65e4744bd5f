"""What drives the cells."""

import numpy as np
import pandas as pd
import pytest

from certifare import BoostedEncoder, CalibratedEncoder, CellCounts, FairTreeEncoder, certify_counts
from certifare.encoders.cellscores import calibration
from certifare.errors import ArgumentError, EncoderError

N = 3_000


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    s = rng.choice(["f", "m"], N)
    X = pd.DataFrame(
        {
            "skill": rng.normal(size=N),
            "proxy": (s == "m") + 0.5 * rng.normal(size=N),
            "noise": rng.normal(size=N),
            "town": rng.choice(list("abc"), N),
        }
    )
    y = X["skill"] + 0.8 * (s == "m") + 0.5 * rng.normal(size=N) > 0.4
    return X, y, s


@pytest.mark.parametrize(
    "encoder",
    [
        FairTreeEncoder(gamma=0.0, max_cells=8, min_cell_size=30),
        BoostedEncoder(gamma=0.0, max_cells=8, min_cell_size=30, folds=2, grid=8),
        CalibratedEncoder(target=0.3, max_cells=8, folds=2),
    ],
    ids=["tree", "boosted", "calibrated"],
)
def test_shuffling_a_column_costs_what_the_column_drives(people, encoder):
    X, y, s = people
    half = N // 2
    encoder.fit(X[:half], y[:half], sensitive_features=s[:half])
    driven = encoder.importances(X[half:], y[half:], sensitive_features=s[half:], repeats=3)
    by_name = {c.column: c for c in driven.columns}
    assert set(by_name) == set(X.columns)
    assert by_name["skill"].explained > 0.2
    assert by_name["skill"].explained > 5 * abs(by_name["noise"].explained)
    if not encoder.reads_groups:
        assert by_name["proxy"].distance > 0.1
        assert by_name["proxy"].distance > by_name["skill"].distance
    # The figures without a shuffle are those of the counts.
    options = {"sensitive_features": s[half:]} if encoder.reads_groups else {}
    cells = encoder.apply(X[half:], **options)
    counts = CellCounts.from_cells(cells, s[half:], n_cells=encoder.n_cells_)
    assert driven.distance == pytest.approx(certify_counts(counts).estimate)
    rates = pd.Series(y[half:].to_numpy()).groupby(cells).transform("mean")
    assert driven.explained == pytest.approx(rates.var() / y[half:].var(), rel=1e-6)
    assert driven.records == half
    assert "with all columns" in str(driven)


def test_the_same_seed_gives_the_same_importances(people):
    X, y, s = people
    labels = pd.DataFrame({"y": y.map({True: "yes", False: "no"}), "rating": np.digitize(X["skill"], [-0.5, 0.5])})
    encoder = FairTreeEncoder(max_cells=6).fit(X, y, sensitive_features=s)
    labels.loc[:100, "y"] = None
    first, again = (encoder.importances(X, labels, sensitive_features=s, repeats=1, seed=4) for _ in range(2))
    assert first == again
    assert first != encoder.importances(X, labels, sensitive_features=s, repeats=1, seed=5)


def test_a_column_that_is_not_used_has_no_importance(people):
    X, y, s = people
    encoder = FairTreeEncoder(gamma=0.0, max_cells=3, min_cell_size=30).fit(
        X[["skill"]].assign(idle=0.0), y, sensitive_features=s
    )
    driven = encoder.importances(X[["skill"]].assign(idle=0.0), y, sensitive_features=s, repeats=1)
    assert {c.column: (c.explained, c.distance) for c in driven.columns}["idle"] == (0.0, 0.0)


def test_no_repeats_and_a_single_group_are_refused(people):
    X, y, s = people
    encoder = FairTreeEncoder(max_cells=3).fit(X, y, sensitive_features=s)
    with pytest.raises(ArgumentError, match="repeats=0"):
        encoder.importances(X, y, sensitive_features=s, repeats=0)
    with pytest.raises(EncoderError, match="one group"):
        encoder.importances(X, y, sensitive_features=["f"] * N)


def test_calibration_is_the_mean_gap_between_score_and_share():
    scores = [np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])]
    counts = [np.array([[80, 20], [50, 50], [0, 0]])]
    (found,) = calibration(scores, [("approved", ["no", "yes"])], counts)
    assert (found["label"], found["value"]) == ("approved", "yes")
    assert [cell["share"] for cell in found["cells"]] == [0.2, 0.5, None]
    assert found["error"] == pytest.approx((100 * 0.1 + 100 * 0.0) / 200)
