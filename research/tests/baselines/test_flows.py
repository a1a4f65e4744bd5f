import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.flows import RealNVP, alternating_masks, normal_log_density, random_masks  # noqa: E402
from certifare_research.baselines.fnf_continuous import Unbounded, symmetric_divergence, train_prior  # noqa: E402
from certifare_research.baselines.networks import each, joined, part, seeded  # noqa: E402


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


def divergence_of(flow, prior, normals, settings):
    """The training's own steps: samples of the priors (label, group, split) through flows (group, split, setting)."""
    pools = len(flow) // settings
    samples, log_density = (of.unflatten(0, (-1, pools)).transpose(0, 1).flatten(1, 2) for of in prior.sample(normals))
    z, log_det = flow(each(samples, settings))
    return symmetric_divergence(flow, prior, z, each(log_density, settings) - log_det, settings)


def test_divergence_of_equal_groups_is_zero_and_of_others_is_not():
    flow = RealNVP(2, random_masks(4, 2, seeded(0)), (8,), seeded(0))
    prior, shifted = (RealNVP(1, alternating_masks(2, 2), (8,), seeded(seed)) for seed in (1, 2))
    normals = torch.randn(2, 2000, 2, generator=seeded(3))
    assert divergence_of(flow, joined([prior, prior]), normals, 1).item() == pytest.approx(0, abs=1e-4)
    assert divergence_of(flow, joined([prior, shifted]), normals, 1).item() > 0.01


@pytest.mark.parametrize("labels", [1, 2])
def test_divergence_by_hand_for_labels_splits_and_settings(labels):
    """Two splits of three settings: each pair of flows with the priors of its own split."""
    splits, settings, generator = 2, 3, seeded(4)
    flow = RealNVP(2 * splits * settings, random_masks(4, 2, seeded(0)), (8,), seeded(0))
    prior = RealNVP(labels * 2 * splits, alternating_masks(2, 2), (8,), seeded(1))
    for own in (*flow.parameters(), *prior.parameters()):
        own.data += 0.2 * torch.randn(own.shape, generator=generator)
    normals = torch.randn(len(prior), 50, 2, generator=generator)
    found = divergence_of(flow, prior, normals, settings).view(splits, settings)

    def only(stack, *at):
        place = int(np.ravel_multi_index(at, (2, splits, settings) if stack is flow else (labels, 2, splits)))
        return part(stack, place, 1), place

    for split in range(splits):
        for setting in range(settings):
            parts = []
            for label in range(labels):
                for group in (0, 1):
                    own, place = only(prior, label, group, split)
                    x, log_prior = own.sample(normals[place : place + 1])
                    z, log_det = only(flow, group, split, setting)[0](x)
                    back, back_det = only(flow, 1 - group, split, setting)[0].inverse(z)
                    other = only(prior, label, 1 - group, split)[0].log_density(back) + back_det
                    parts.append((log_prior - log_det - other).mean().item())
            assert found[split, setting].item() == pytest.approx(sum(parts) / (2 * labels), abs=1e-4)


def test_a_prior_learns_a_density():
    generator = seeded(0)
    x = torch.randn(600, 2, generator=generator) * torch.tensor([0.5, 2.0]) + torch.tensor([1.0, -1.0])
    prior = train_prior([x], epochs=15, seed=0)
    entropy = float(np.log(2 * np.pi * np.e) + np.log(0.5 * 2.0))
    assert -prior.log_density(x.unsqueeze(0)).mean().item() < entropy + 0.15


def test_unbounded_values_are_finite_and_keep_order():
    x = np.array([[0.0, 5.0], [1.0, 5.0], [3.0, 5.0]])
    unbounded = Unbounded.fit(x)
    np.testing.assert_array_equal(unbounded.gap, [1.0, 0.0])
    values = unbounded.apply(np.array([[0.0, 5.0], [3.0, 5.0], [99.0, 5.0]]), seed=0)
    assert np.isfinite(values).all()
    assert values[0, 0] < values[1, 0] <= values[2, 0]
