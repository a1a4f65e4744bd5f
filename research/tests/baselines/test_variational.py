import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.variational import (  # noqa: E402
    CVIBSetting,
    contrastive_estimate,
    divergence_from_prior,
    label_loss,
    pairwise_divergence,
    reconstruction_loss,
    train_cvib,
)


def test_pairwise_divergence_by_hand():
    """N(0, 1) and N(1, 4) in one dimension: the four divergences, by their formula."""
    mean = torch.tensor([[[0.0], [1.0]]])
    deviation = torch.tensor([[[1.0], [2.0]]])

    def kl(m, v, n, w):
        return 0.5 * (math.log(w / v) + (v + (m - n) ** 2) / w - 1)

    expected = (kl(0, 1, 1, 4) + kl(1, 4, 0, 1)) / 4
    assert pairwise_divergence(mean, deviation).item() == pytest.approx(expected, abs=1e-6)


def test_pairwise_divergence_equals_the_double_sum():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(2, 7, 3, generator=generator, dtype=torch.float64)
    deviation = torch.rand(2, 7, 3, generator=generator, dtype=torch.float64) + 0.2
    total = torch.zeros(2, dtype=torch.float64)
    for i in range(7):
        for j in range(7):
            v, w = deviation[:, i] ** 2, deviation[:, j] ** 2
            total += 0.5 * (torch.log(w / v) + (v + (mean[:, i] - mean[:, j]) ** 2) / w - 1).sum(-1)
    torch.testing.assert_close(pairwise_divergence(mean, deviation), total / 49, rtol=1e-5, atol=1e-5)


def test_divergence_from_prior_equals_pytorchs():
    from torch.distributions import Normal, kl_divergence

    mean, deviation = torch.tensor([[[0.3, -1.0]]]), torch.tensor([[[0.5, 2.0]]])
    expected = kl_divergence(Normal(mean, deviation), Normal(0.0, 1.0)).sum()
    assert divergence_from_prior(mean, deviation).item() == pytest.approx(expected.item(), abs=1e-5)


def test_reconstruction_and_label_loss_are_cross_entropies():
    logits = torch.tensor([[[0.5, -2.0], [1.0, 3.0]]])
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[0], x, reduction="none").sum(1).mean()
    assert reconstruction_loss(logits, x).item() == pytest.approx(expected.item(), abs=1e-6)
    y = torch.tensor([1.0, 0.0])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[0, :, 0], y)
    assert label_loss(logits[..., :1], y).item() == pytest.approx(expected.item(), abs=1e-6)


def test_contrastive_estimate_by_hand():
    scores = torch.tensor([[[2.0, 1.0, 9.0], [4.0, 3.0, 9.0], [9.0, 9.0, 5.0]]])
    s = torch.tensor([0.0, 0.0, 1.0])
    # Within group 0 the means are (2+1)/2 and (4+3)/2; record 2 is alone in its group.
    expected = (math.log(2 / 1.5) + math.log(3 / 3.5) + math.log(5 / 5)) / 3
    assert contrastive_estimate(scores, s).item() == pytest.approx(expected, abs=1e-6)


def test_same_seed_same_representation():
    x = np.random.default_rng(0).random((200, 4)).astype(np.float32)
    y, s = (x[:, 0] > 0.5).astype(np.float32), (x[:, 1] > 0.5).astype(np.float32)
    codes = [train_cvib(x, y, s, [CVIBSetting(0.1, 0.1)], epochs=1, seed=3, device="cpu").encode(x) for _ in range(2)]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert codes[0].shape == (1, 200, 8)
