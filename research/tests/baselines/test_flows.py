import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.flows import RealNVP, alternating_masks, normal_log_density, random_masks  # noqa: E402
from certifare_research.baselines.fnf_continuous import Unbounded, symmetric_divergence, train_prior  # noqa: E402
from certifare_research.baselines.networks import seeded  # noqa: E402


@pytest.fixture
def flow():
    return RealNVP(2, random_masks(6, 3, seeded(1)), (16, 8), seeded(0)).double()


def test_flows_invert(flow):
    x = torch.randn(2, 50, 3, generator=seeded(2)).double() * 3
    z, forth = flow(x)
    back, there = flow.inverse(z)
    torch.testing.assert_close(back, x, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(forth, -there)
    assert (z - x).abs().max() > 0.1


def test_log_determinant_is_that_of_the_jacobian(flow):
    x = torch.randn(2, 1, 3, generator=seeded(3)).double()
    jacobian = torch.autograd.functional.jacobian(lambda v: flow(v)[0], x)
    for k in range(2):
        expected = torch.linalg.slogdet(jacobian[k, 0, :, k, 0, :])[1]
        assert flow(x)[1][k, 0].item() == pytest.approx(expected.item(), abs=1e-8)


def test_density_integrates_to_one():
    flow = RealNVP(1, alternating_masks(2, 2), (8,), seeded(0)).double()
    grid = torch.linspace(-9, 9, 241, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid).unsqueeze(0)
    mass = flow.log_density(points).exp().sum() * (grid[1] - grid[0]) ** 2
    assert mass.item() == pytest.approx(1.0, abs=1e-3)


def test_samples_come_with_their_density():
    flow = RealNVP(1, alternating_masks(4, 3), (8,), seeded(0)).double()
    z = torch.randn(1, 20, 3, generator=seeded(5)).double()
    x, log_det = flow.inverse(z)
    torch.testing.assert_close(normal_log_density(z) - log_det, flow.log_density(x))


def test_masks_come_in_complementary_pairs():
    masks = random_masks(6, 5, seeded(0))
    torch.testing.assert_close(masks[::2] + masks[1::2], torch.ones(3, 5))


def test_divergence_of_equal_groups_is_zero_and_of_others_is_not():
    flow = RealNVP(1, random_masks(4, 2, seeded(0)), (8,), seeded(0))
    prior = RealNVP(1, alternating_masks(2, 2), (8,), seeded(1))
    shifted = RealNVP(1, alternating_masks(2, 2), (8,), seeded(2))
    noise = seeded(3)
    same = [prior.sample(torch.randn(1, 500, 2, generator=noise)) for _ in range(2)]
    assert symmetric_divergence((flow, flow), (prior, prior), tuple(same)).item() == pytest.approx(0, abs=1e-4)
    different = tuple(of.sample(torch.randn(1, 2000, 2, generator=noise)) for of in (prior, shifted))
    assert symmetric_divergence((flow, flow), (prior, shifted), different).item() > 0.01


def test_a_prior_learns_a_density():
    generator = seeded(0)
    x = torch.randn(600, 2, generator=generator) * torch.tensor([0.5, 2.0]) + torch.tensor([1.0, -1.0])
    prior = train_prior(x, epochs=15, seed=0)
    entropy = float(np.log(2 * np.pi * np.e) + np.log(0.5 * 2.0))
    assert -prior.log_density(x.unsqueeze(0)).mean().item() < entropy + 0.15


def test_unbounded_values_are_finite_and_keep_order():
    x = np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]])
    unbounded = Unbounded.fit(x)
    np.testing.assert_array_equal(unbounded.gap, [1.0, 0.0])
    values = unbounded.apply(np.array([[0.0, 5.0], [3.0, 5.0], [99.0, 5.0]]), seed=0)
    assert np.isfinite(values).all()
    assert values[0, 0] < values[1, 0] <= values[2, 0]
