import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines import native  # noqa: E402
from certifare_research.baselines.adversarial import LAFTRSetting, train_laftr  # noqa: E402
from certifare_research.baselines.arrays import Arrays  # noqa: E402
from certifare_research.baselines.grids import encode_grid, grid  # noqa: E402

CPU = torch.device("cpu")
SETTINGS = [LAFTRSetting(g) for g in (0.1, 1.0, 50.0)]
with_compiler = pytest.mark.skipif(native.compiler(CPU) is None, reason="there is no C++ compiler (g++)")


@pytest.fixture(scope="module")
def people():
    """Numbers, a column with rare categories and one with frequent ones."""
    rng = np.random.default_rng(0)
    n = 1000
    rare = np.minimum(rng.geometric(0.08, n), 40) - 1
    parts = [rng.random((n, 3)), np.eye(40)[rare], np.eye(5)[rng.integers(0, 5, n)]]
    x = np.column_stack(parts).astype(np.float32)
    s = (rare % 3 == 0).astype(np.float32)
    y = ((x[:, 0] + s * 0.5 + rng.random(n)) > 1.2).astype(np.float32)
    return x, y, s


@pytest.mark.slow
@with_compiler
@pytest.mark.parametrize(("hidden", "size"), [((100, 50), 32), ((100, 50), 8), ((20, 20), 32), ((20, 20), 8)])
def test_compiled_code_takes_pytorchs_steps(people, hidden, size):
    x, y, s = people
    options = {"size": size, "hidden": hidden, "epochs": 1, "device": "cpu"}
    expected, found = (  # few steps: differences of rounding grow with every one
        train_laftr(x, y, s, SETTINGS, fuse=fuse, max_steps=10, **options).encode(x, s) for fuse in (False, True)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)
    untrained = train_laftr(x, y, s, SETTINGS, max_steps=1, **options).encode(x, s)
    assert np.abs(found - untrained).max() > 0.01


@pytest.mark.slow
@with_compiler
def test_compiled_code_hands_over_shorter_trainings(people):
    x, y, s = people
    kept = {}
    whole = train_laftr(
        x, y, s, SETTINGS, size=8, epochs=4, fuse=True, lengths={2: lambda codes: kept.update(z=codes.encode(x, s))}
    )
    half = train_laftr(x, y, s, SETTINGS, size=8, epochs=2, fuse=True)
    np.testing.assert_allclose(kept["z"], half.encode(x, s), atol=1e-6)
    assert np.abs(whole.encode(x, s) - kept["z"]).max() > 1e-3


def test_other_shapes_and_batches_are_not_for_compiled_code():
    assert not native.able(CPU, (100, 20, 50), 64, 1000)
    assert not native.able(CPU, (100, 32, 50), 128, 1000)
    assert not native.able(CPU, (100, 32, 50), 64, 60)


def test_ones_are_listed_for_each_record():
    bits = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=np.float32)
    np.testing.assert_array_equal(native._ones(bits), [[1, 2], [-1, -1], [0, -1]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "family"),
    [*((method, "health") for method in ("CVIB", "FCRL", "sIPM-LFR", "FNF", "LAFTR")), ("FNF", "acs")],
)
def test_a_loss_is_one_graph_and_gives_the_same_codes(method, family, people, monkeypatch):
    """Traced as for a GPU, but with PyTorch's own operations: code generation takes a minute."""
    x, y, s = people
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **options: compile_(f, **options, backend="aot_eager"))
    monkeypatch.setattr(native, "able", lambda *_: False)
    numbers = np.random.default_rng(1).normal(size=(len(x), 101)).astype(np.float32)
    arrays = Arrays(
        name="people",
        family=family,
        numbers=numbers,
        codes=np.zeros((len(x), 0), dtype=np.int16),
        discrete=x[:, 40:43].astype(np.int16),
        discrete_sizes=(2, 2, 2),
        sizes=(),
        y=y.astype(np.int8),
        s=s.astype(np.int8),
        train=np.ones(len(x), dtype=bool),
    )
    settings = grid(method, family, thin=2)
    expected, found = (
        encode_grid(method, arrays, settings, effort=0.02, device="cpu", fuse=fuse) for fuse in (False, True)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)
