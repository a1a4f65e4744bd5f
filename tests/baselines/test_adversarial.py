import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare.baselines.adversarial import (  # noqa: E402
    LAFTRSetting,
    SIPMSetting,
    audit_loss,
    sigmoid_ipm,
    train_laftr,
    train_sipm,
)


def test_audit_loss_by_hand():
    guess, s = torch.tensor([[0.2, 0.9, 0.5]]), torch.tensor([0.0, 1.0, 1.0])
    shares = torch.tensor([0.25, 0.75])
    expected = (0.2 / 0.25 + 0.1 / 0.75 + 0.5 / 0.75) / 3
    assert audit_loss(guess, s, shares).item() == pytest.approx(expected, abs=1e-6)


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
