from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.arrays import Arrays
from certifare_research.baselines.fnf_continuous import FlowSetting
from certifare_research.baselines.grids import (
    IDENTITY,
    METHODS,
    STACKED,
    VARIANTS,
    arguments,
    describe,
    encode_grid,
    encode_grids,
    grid,
)


@pytest.mark.parametrize(
    ("method", "family", "settings"),
    [
        ("CVIB", "acs", 57),
        ("FCRL", "health", 29),
        ("LAFTR", "acs", 32),
        ("sIPM-LFR", "acs", 40),
        ("sIPM-LFR", "health", 20),
        ("FairPath", "acs", 14),
        ("FNF", "acs", 16),
        ("FNF", "health", 6),
        (IDENTITY, "acs", 1),
    ],
)
def test_the_papers_grids(method, family, settings):
    assert len(grid(method, family)) == settings
    assert len(grid(method, family, thin=5)) <= 5


def test_unknown_method_is_refused():
    with pytest.raises(ValueError, match="LAFTR"):
        grid("magic", "acs")


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    n = 240
    s = rng.integers(0, 2, n).astype(np.int8)
    codes = np.stack([rng.integers(0, 3, n), rng.integers(0, 2, n)], axis=1).astype(np.int16)
    return Arrays(
        name="small",
        family="acs",
        numbers=rng.random((n, 2)).astype(np.float32),
        codes=codes,
        sizes=(3, 2),
        y=(codes[:, 0] > 0).astype(np.int8),
        s=s,
        train=np.arange(n) < 200,
        discrete=codes,
        discrete_sizes=(3, 2),
    )


def test_arrays_survive_a_file(tmp_path):
    one = arrays()
    one.save(tmp_path / "a.npz")
    two = Arrays.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(one.matrix(), two.matrix())
    assert two.discrete_sizes == (3, 2)
    assert one.matrix().shape == (240, 7)
    assert (one.matrix()[:, 2:].sum(1) == 2).all()


@pytest.mark.parametrize("method", [*METHODS, *VARIANTS, IDENTITY])
def test_every_method_runs_on_arrays(method):
    settings = grid(method, "acs", thin=2)
    few = {"iterations": 4} if method.startswith("FairPath") else {}
    z = encode_grid(method, arrays(), settings, effort=0.004, device="cpu", **few)
    assert z.shape[:2] == (len(settings), 240)
    assert np.isfinite(z).all()
    assert all(isinstance(value, float) for value in describe(settings[0]).values())


def test_fairpaths_iterations_are_never_scaled_and_epochs_are():
    assert arguments("FairPath", "acs", effort=0.01)["iterations"] == 1000
    assert arguments("FairPath", "health", effort=0.01)["iterations"] == 2000
    assert arguments("CVIB", "health", effort=0.1) == {"hidden": 100, "epochs": 20, "batch_size": 128}
    assert arguments("LAFTR", "health", size=32)["size"] == 32


@pytest.mark.parametrize("method", ["CVIB", "FCRL", "LAFTR", "sIPM-LFR"])
def test_a_shorter_training_comes_with_the_longer_one(method):
    settings, short = grid(method, "acs", thin=2), []
    encode_grid(method, arrays(), settings, epochs=4, device="cpu", shorter={0.5: short.append})
    alone = encode_grid(method, arrays(), settings, epochs=2, device="cpu")
    np.testing.assert_allclose(short[0], alone, atol=1e-5)


@pytest.mark.parametrize("method", [*STACKED[:-1]])
def test_splits_in_one_stack_are_trained_as_alone(method):
    """The first pool's order is the same beside another, for an epoch."""
    settings, options = grid(method, "acs", thin=2), {"epochs": 1, "device": "cpu"}
    for first, second in ((0, 1), (1, 0)):
        together = encode_grids(method, [arrays(first), arrays(second)], settings, **options)
        np.testing.assert_allclose(together[0], encode_grid(method, arrays(first), settings, **options), atol=1e-5)
        assert np.abs(together[0] - together[1]).max() > 1e-3


def test_flows_of_splits_in_one_stack_are_trained_as_alone():
    """Whole groups as batches and no divergence: no draw decides anything."""
    settings = [FlowSetting(0.0)] * 2
    options = {"batch_size": 1000, "epochs": 4, "prior_epochs": 1, "device": "cpu"}
    splits = [flow_arrays(0), flow_arrays(1)]
    together = encode_grids("FNF", splits, settings, **options)
    for own, split in zip(together, splits, strict=True):
        np.testing.assert_allclose(own, encode_grid("FNF", split, settings, **options), atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def flow_arrays(seed):
    rng = np.random.default_rng(seed)
    s = np.arange(200, dtype=np.int8) % 2
    numbers = rng.random((200, 101)).round(1).astype(np.float32)
    y = (numbers[:, 2] > 0.5).astype(np.int8)
    none = np.zeros((200, 0), dtype=np.int16)
    return Arrays(
        name="few", family="health", numbers=numbers, codes=none, sizes=(), y=y, s=s, train=np.ones(200, dtype=bool)
    )


def test_splits_that_cannot_be_stacked_are_refused():
    with pytest.raises(ValueError, match="one split at a time"):
        encode_grids("FairPath", [arrays(), arrays()], grid("FairPath", "acs", thin=2), device="cpu")
    with pytest.raises(ValueError, match="equally wide"):
        encode_grids(
            "CVIB", [arrays(), replace(arrays(), sizes=(4, 2))], grid("CVIB", "acs", thin=2), effort=0.01, device="cpu"
        )
