import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.fairpath import head_gradient, hessian_product, solve, with_one  # noqa: E402


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    inputs = with_one(torch.randn(2, 40, 3, generator=generator, dtype=torch.float64))
    head = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    y = (torch.rand(40, generator=generator) > 0.5).double()
    return head, inputs, y


def loss(head, inputs, y):
    logits = (inputs @ head.unsqueeze(-1)).squeeze(-1)
    return (torch.nn.functional.softplus(logits) - logits * y).mean(-1).sum()


def test_gradient_equals_autograd(problem):
    head, inputs, y = problem
    head.requires_grad_()
    (expected,) = torch.autograd.grad(loss(head, inputs, y), head)
    torch.testing.assert_close(head_gradient(head, inputs, y).detach(), expected)


def test_hessian_product_by_finite_differences(problem):
    head, inputs, y = problem
    vector = torch.tensor([[1.0, -2.0, 0.5, 0.3], [0.0, 1.0, 1.0, -1.0]], dtype=torch.float64)
    step = 1e-6
    difference = (head_gradient(head + step * vector, inputs, y) - head_gradient(head - step * vector, inputs, y)) / (
        2 * step
    )
    torch.testing.assert_close(hessian_product(head, inputs, vector), difference, rtol=1e-6, atol=1e-8)


def test_conjugate_gradients_solve(problem):
    head, inputs, _ = problem
    target = torch.ones(2, 4, dtype=torch.float64)
    found = solve(head, inputs, target, steps=8)
    torch.testing.assert_close(hessian_product(head, inputs, found), target, rtol=1e-4, atol=1e-5)
