import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines import (
    CVIB,
    FCRL,
    LAFTR,
    SIPMLFR,
    ContinuousFNF,
    DiscreteFNF,
    FairPath,
    Identity,
)
from certifare_research.errors import BaselineError

STEADY_LAFTR = {"opponent": "steady", "sees_group": False, "size": 3, "batch_size": 64, "epochs": 6}
STEADY_SIPM = {"opponent": "steady", "size": 4, "batch_size": 256, "epochs": 10, "lr": 1e-3}


@pytest.fixture(scope="module")
def people():
    """The label depends on skill, and on money, which tells the groups apart."""
    rng = np.random.default_rng(0)
    n = 3000
    s = rng.integers(0, 2, n)
    table = pd.DataFrame(
        {
            "skill": rng.normal(size=n),
            "money": rng.normal(size=n) + 1.6 * s,
            "noise": rng.normal(size=n),
            "job": np.where(rng.random(n) < 0.75, np.where(s == 1, "a", "b"), "c"),
        }
    )
    y = (table["skill"] + 0.4 * table["money"] + 0.4 * rng.normal(size=n) > 0.4).astype(int)
    return table, y.to_numpy(), np.array(["f", "m"])[s]


def accuracy(z, wanted):
    half = len(z) // 2
    return LogisticRegression(max_iter=500).fit(z[:half], wanted[:half]).score(z[half:], wanted[half:])


@pytest.mark.parametrize(
    ("mild", "strong"),
    [
        pytest.param(mild, strong, marks=[pytest.mark.slow] * (type(strong) is not CVIB), id=type(strong).__name__)
        for mild, strong in (
            (CVIB(0.001, 0.001, epochs=12), CVIB(0.01, 0.1, epochs=12)),
            (FCRL(0.001, epochs=12), FCRL(0.1, 0.15, epochs=12)),
            (Identity(), DiscreteFNF(0.0, epochs=10)),
            (
                Identity(),
                ContinuousFNF(0.7, columns=["skill", "money", "noise"], prior_epochs=6, epochs=6, batch_size=128),
            ),
            (LAFTR(0.0, **STEADY_LAFTR), LAFTR(2.0, **STEADY_LAFTR)),
            (SIPMLFR(0.0, **STEADY_SIPM), SIPMLFR(3.0, **STEADY_SIPM)),
        )
    ],
)
def test_the_adversary_gets_weaker_and_the_label_stays(people, mild, strong):
    X, y, s = people
    guessed, kept = [], []
    for method in (mild, strong):
        method.set_params(device="cpu")
        z = method.fit(X, y, s).transform(X, s)
        assert np.isfinite(z).all()
        guessed.append(accuracy(z, s))
        kept.append(accuracy(z, y))
    majority = max(np.mean(y), 1 - np.mean(y))
    assert guessed[1] < guessed[0] - 0.03
    assert kept[1] > majority + 0.03


def distance(z, y, s):
    half = len(z) // 2
    predicted = LogisticRegression(max_iter=500).fit(z[:half], y[:half]).predict(z[half:])
    return abs(predicted[s[half:] == "m"].mean() - predicted[s[half:] == "f"].mean())


@pytest.mark.slow
def test_laftr_lowers_the_distance_of_its_classifier(people):
    X, y, s = people
    mild, strong = (LAFTR(g, epochs=10, size=4, device="cpu").fit(X, y, s).transform(X, s) for g in (0.0, 1.0))
    assert distance(strong, y, s) < distance(mild, y, s)
    assert accuracy(strong, y) > 0.8


@pytest.mark.slow
def test_sipm_brings_the_groups_means_together(people):
    X, y, s = people
    gaps = []
    for fairness in (0.0, 5.0):
        z = SIPMLFR(fairness, epochs=40, device="cpu").fit(X, y, s).transform(X)
        apart = z[s == "m"].mean(0) - z[s == "f"].mean(0)
        gaps.append(np.linalg.norm(apart) / z.std(0).mean())
        assert accuracy(z, y) > 0.8
    assert gaps[1] < gaps[0]


def test_fairpath_keeps_the_label(people):
    """FairPath aims at sufficiency, so the adversary on the group need not get weaker."""
    X, y, s = people
    z = FairPath(0.1, iterations=150, device="cpu").fit(X, y, s).transform(X)
    assert z.shape[1] == 200
    assert accuracy(z, y) > max(np.mean(y), 1 - np.mean(y)) + 0.1


def test_identity_is_the_design_matrix(people):
    X, y, s = people
    z = Identity().fit(X, y, s).transform(X)
    assert z.shape == (3000, 3 + 4)
    assert accuracy(z, s) > 0.85


def test_transformers_are_cloned_and_repeat_themselves(people):
    X, y, s = people
    method = FCRL(0.1, epochs=1, device="cpu")
    again = clone(method)
    assert again.get_params() == method.get_params()
    np.testing.assert_array_equal(method.fit(X, y, s).transform(X), again.fit(X, y, s).transform(X))


def test_errors_say_what_to_do(people):
    X, y, s = people
    with pytest.raises(BaselineError, match="sensitive_features"):
        FCRL().fit(X, y)
    with pytest.raises(BaselineError, match="two labels"):
        FCRL().fit(X, np.arange(len(X)) % 3, s)
    fitted = LAFTR(epochs=1, size=2, device="cpu").fit(X.head(200), y[:200], s[:200])
    with pytest.raises(BaselineError, match="differently for each group"):
        fitted.transform(X)
    with pytest.raises(BaselineError, match="not among the training"):
        fitted.transform(X.head(2), ["m", "x"])
    with pytest.raises(BaselineError, match="no column"):
        ContinuousFNF(columns=["age"], device="cpu").fit(X, y, s)
    with pytest.raises(BaselineError, match="Unknown metric"):
        ContinuousFNF(metric="justice", device="cpu").fit(X, y, s)
    with pytest.raises(BaselineError, match="'published' or 'steady'"):
        LAFTR(opponent="fierce", device="cpu").fit(X, y, s)


def test_too_many_combinations():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"c{i}": rng.integers(0, 30, 900).astype(str) for i in range(6)})
    with pytest.raises(BaselineError, match=r"drop="):
        DiscreteFNF().fit(X, rng.integers(0, 2, 900), rng.integers(0, 2, 900))
