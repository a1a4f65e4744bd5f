import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.evaluation.stacked import predict_stacked  # noqa: E402


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1500, 2)) * np.array([1.0, 50.0])
    y = ((z[:, 0] > 0) ^ (z[:, 1] > 0)).astype(int)
    flip = rng.random(1500) < 0.1
    return z.astype(np.float32), np.where(flip, 1 - y, y)


def test_as_good_as_scikit_learn(problem):
    z, y = problem
    stacked = predict_stacked(
        np.stack([z[:1000], z[:1000, ::-1]]),
        y[:1000],
        np.stack([z[1000:], z[1000:, ::-1]]),
        repeats=2,
        max_epochs=120,
        device="cpu",
    )
    assert stacked.shape == (2, 2, 500)
    ours = (stacked == y[1000:]).mean(-1)
    scaler = StandardScaler().fit(z[:1000])
    model = MLPClassifier((50,), max_iter=120, random_state=0, early_stopping=False, tol=1e-9, n_iter_no_change=200)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scaler.transform(z[:1000]), y[:1000])
    theirs = model.score(scaler.transform(z[1000:]), y[1000:])
    assert theirs > 0.8
    assert (np.abs(ours - theirs) < 0.04).all()
    assert (stacked[0, 0] != stacked[0, 1]).any()  # repeats differ


@pytest.mark.slow
def test_several_classes(problem):
    z, _ = problem
    y = np.digitize(z[:, 0], [-0.5, 0.5])
    predicted = predict_stacked(
        z, y, z, hidden=(20,), repeats=1, n_classes=3, max_epochs=60, batch_size=50, device="cpu"
    )
    assert (predicted[0, 0] == y).mean() > 0.85


@pytest.mark.slow
def test_logistic_regression(problem):
    z, _ = problem
    y = (z[:, 0] > 0).astype(int)
    predicted = predict_stacked(z, y, z, hidden=(), repeats=1, max_epochs=150, batch_size=50, device="cpu")
    assert (predicted[0, 0] == y).mean() > 0.95


def test_constant_columns_do_no_harm():
    z = np.ones((100, 2), dtype=np.float32)
    predicted = predict_stacked(z, np.zeros(100, dtype=int), z, repeats=1, max_epochs=2, device="cpu")
    assert (predicted == 0).all()


def test_a_compiled_loss_gives_the_same_predictions(problem, monkeypatch):
    """Traced as for a GPU, but with PyTorch's own operations; more often than a function may be compiled by default."""
    z, y = problem
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **options: compile_(f, **options, backend="aot_eager"))
    options = {"repeats": 2, "max_epochs": 2, "device": "cpu"}
    expected = predict_stacked(z[:200], y[:200], z, **options)
    for _ in range(10):
        np.testing.assert_array_equal(predict_stacked(z[:200], y[:200], z, fuse=True, **options), expected)
