import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.fnf_discrete import (  # noqa: E402
    MADE,
    MatchingSetting,
    configuration_ids,
    configurations,
    match_by_rank,
    one_hot,
    train_fnf_discrete,
    weighted_logistic,
)
from certifare_research.baselines.networks import seeded  # noqa: E402


def test_density_over_all_bits_sums_to_one():
    model = MADE(6, (10, 10), seeded(0))
    bits = torch.tensor([[(i >> j) & 1 for j in range(6)] for i in range(64)], dtype=torch.float32)
    assert model.log_density(bits).exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_outputs_see_only_earlier_bits():
    model = MADE(5, (12, 12), seeded(1))
    jacobian = torch.autograd.functional.jacobian(
        lambda b: model(b.unsqueeze(0))[0], torch.rand(5, generator=seeded(2))
    )
    assert torch.triu(jacobian).abs().max() == 0
    assert jacobian.abs().sum() > 0


def test_configurations_are_numbered():
    everything = configurations((2, 3, 4))
    np.testing.assert_array_equal(configuration_ids(everything, (2, 3, 4)), np.arange(24))
    bits = one_hot(everything, (2, 3, 4))
    assert bits.shape == (24, 9)
    assert (bits.sum(1) == 3).all()


def test_matching_is_a_bijection_by_rank():
    rng = np.random.default_rng(0)
    first, second, classes = rng.random(50), rng.random(50), rng.integers(0, 2, 50)
    everywhere = match_by_rank(first, second)
    np.testing.assert_array_equal(np.sort(everywhere), np.arange(50))
    np.testing.assert_array_equal(np.argsort(-first), np.argsort(-second[everywhere]))
    within = match_by_rank(first, second, classes)
    np.testing.assert_array_equal(np.sort(within), np.arange(50))
    np.testing.assert_array_equal(classes[within], classes)


def test_logistic_regression_finds_the_bit():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (400, 3)).astype(np.float32)
    coefficients, _ = weighted_logistic(bits, bits[:, 1], np.ones(400, np.float32), torch.device("cpu"))
    assert coefficients[1] > 2
    assert coefficients[[0, 2]].abs().max() < 1


def test_groups_become_alike():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 3000).astype(np.float32)
    # Group 1 prefers high categories of both columns, group 0 low ones.
    codes = np.where(rng.random((3000, 2)) < 0.8, 2 * s[:, None], rng.integers(0, 3, (3000, 2))).astype(np.int16)
    y = (codes[:, 0] == 1).astype(np.float32)
    trained = train_fnf_discrete(
        codes, y, s, [MatchingSetting(0.0), MatchingSetting(1.0)], sizes=(3, 3), epochs=8, device="cpu"
    )
    z = trained.encode(codes, s)
    assert z.shape == (2, 3000, 6)
    np.testing.assert_array_equal(z[:, s == 1], np.broadcast_to(one_hot(codes[s == 1], (3, 3)), (2, int(s.sum()), 6)))
    ids = configuration_ids(codes, (3, 3))
    mapped = trained.map_ids(ids, s, 1.0)

    def distance(cells):
        shares = [np.bincount(cells[s == g], minlength=9) / (s == g).sum() for g in (0, 1)]
        return np.abs(shares[0] - shares[1]).sum() / 2

    assert distance(ids) > 0.6
    assert distance(mapped) < 0.15


def test_too_many_configurations():
    with pytest.raises(ValueError, match="drop or bucket"):
        train_fnf_discrete(np.zeros((2, 4)), np.zeros(2), np.zeros(2), [], sizes=(100, 100, 100, 100))
