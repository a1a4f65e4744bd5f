import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.adversarial import (  # noqa: E402
    LAFTRSetting,
    Opponent,
    SIPMSetting,
    audit_loss,
    balanced_cross_entropy,
    sigmoid_ipm,
    train_laftr,
    train_sipm,
)
from certifare_research.baselines.networks import StackedMLP, adam, descend, seeded  # noqa: E402


def test_audit_loss_by_hand():
    guess, s = torch.tensor([[0.2, 0.9, 0.5]]), torch.tensor([0.0, 1.0, 1.0])
    shares = torch.tensor([0.25, 0.75])
    expected = (0.2 / 0.25 + 0.1 / 0.75 + 0.5 / 0.75) / 3
    assert audit_loss(guess, s, shares).item() == pytest.approx(expected, abs=1e-6)


def test_balanced_cross_entropy_by_hand():
    logits, s = torch.tensor([[0.0, 2.0, -1.0]]), torch.tensor([0.0, 1.0, 1.0])
    p = 1 / (1 + np.exp([-0.0, -2.0, 1.0]))
    expected = (-np.log(1 - p[0]) / (2 * 0.25) - np.log(p[1]) / (2 * 0.75) - np.log(p[2]) / (2 * 0.75)) / 3
    shares = torch.tensor([0.25, 0.75])
    assert balanced_cross_entropy(logits, s, shares).item() == pytest.approx(expected, abs=1e-6)


def test_a_steady_opponent_does_not_mind_the_scale_of_codes():
    weights = seeded(0)
    network = StackedMLP(1, (4, 8, 1), torch.sigmoid, weights)
    z = torch.randn(1, 50, 4, generator=weights)
    steady, published = (Opponent(network, adam(network.parameters(), z.device), steady=kind) for kind in (True, False))
    torch.testing.assert_close(steady.guess(z), steady.guess(1000 * z + 3), atol=1e-3, rtol=0)
    assert (published.guess(z) - published.guess(1000 * z + 3)).abs().max() > 0.01


def test_a_steady_opponent_recovers_from_being_sure_and_wrong():
    """The published loss is flat there: that opponent stays where it is."""
    s = torch.tensor([0.0, 1.0] * 32)
    z = (2 * s - 1).view(1, -1, 1)
    shares = torch.tensor([0.5, 0.5])
    missed = {}
    for steady in (True, False):
        network = StackedMLP(1, (1, 1), torch.sigmoid, seeded(0))
        with torch.no_grad():
            network.weights[0].fill_(-30.0)
            network.biases[0].zero_()
        opponent = Opponent(network, torch.optim.SGD(network.parameters(), lr=1.0), steady=steady)
        for _ in range(100):
            if steady:
                opponent.learn(z, s, shares)
            else:
                descend(opponent.optimizer, audit_loss(opponent.guess(z), s, shares).sum())
        missed[steady] = audit_loss(opponent.guess(z), s, shares).item() / 2
    assert missed[True] < 0.1
    assert missed[False] > 0.9


def test_sigmoid_ipm_by_hand():
    scores, s = torch.tensor([[0.2, 0.9, 0.5], [0.5, 0.5, 0.5]]), torch.tensor([0.0, 1.0, 1.0])
    torch.testing.assert_close(sigmoid_ipm(scores, s), torch.tensor([0.7 - 0.2, 0.0]))


def test_sigmoid_ipm_of_a_batch_with_one_group():
    assert torch.isfinite(sigmoid_ipm(torch.rand(2, 4), torch.ones(4))).all()


@pytest.mark.parametrize("reconstruction", [0.0, 1.0])
def test_shapes(reconstruction):
    x = np.random.default_rng(0).random((150, 5)).astype(np.float32)
    y, s = (x[:, 0] > 0.5).astype(np.float32), (x[:, 1] > 0.5).astype(np.float32)
    laftr = train_laftr(x, y, s, [LAFTRSetting(0.1, reconstruction)] * 2, epochs=1, size=6, device="cpu")
    assert laftr.encode(x, s).shape == (2, 150, 6)
    assert np.abs(laftr.encode(x, s) - laftr.encode(x, 1 - s)).max() > 0  # the group is an input
    sipm = train_sipm(x, y, s, [SIPMSetting(1.0, 1.0, reconstruction)], epochs=1, device="cpu")
    assert sipm.encode(x).shape == (1, 150, 60)


def test_an_encoder_without_the_group_does_without_it():
    x = np.random.default_rng(0).random((150, 5)).astype(np.float32)
    y, s = (x[:, 0] > 0.5).astype(np.float32), (x[:, 1] > 0.5).astype(np.float32)
    options = {"epochs": 1, "size": 3, "opponent": "steady", "device": "cpu"}
    without = train_laftr(x, y, s, [LAFTRSetting(0.1)], sees_group=False, **options)
    assert without.encode(x).shape == (1, 150, 3)
    within = train_laftr(x, y, s, [LAFTRSetting(0.1)], **options)
    with pytest.raises(ValueError, match="takes the group"):
        within.encode(x)
