from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra 'baselines') is not installed")

from certifare_research.baselines.loop import epochs_of, train  # noqa: E402
from certifare_research.baselines.networks import (  # noqa: E402
    StackedMLP,
    adam,
    clipped,
    descend,
    each,
    joined,
    part,
    seeded,
)
from certifare_research.baselines.variational import FCRLSetting, train_fcrl  # noqa: E402


def test_stack_equals_single_networks():
    stack = StackedMLP(3, (4, 6, 2), torch.relu, seeded(0))
    x = torch.randn(5, 4, generator=seeded(1))
    weights = [(w[0], b[0]) for w, b in zip(stack.weights, stack.biases, strict=True)]
    by_hand = torch.relu(x @ weights[0][0] + weights[0][1]) @ weights[1][0] + weights[1][1]
    for out in stack(x):
        torch.testing.assert_close(out, by_hand)
    torch.testing.assert_close(stack(x.expand(3, 5, 4)), stack(x))


def test_a_stack_of_splits_gives_each_its_own_input():
    stack = StackedMLP(6, (4, 5, 2), torch.relu, seeded(0))
    for own in stack.parameters():
        own.data += torch.randn(own.shape, generator=seeded(1))
    x = torch.randn(2, 7, 4, generator=seeded(2))
    found = stack(x)
    torch.testing.assert_close(found, stack(each(x, 3)))
    for split in (0, 1):
        own = part(stack, split, 3)
        torch.testing.assert_close(own(x[split]), found[3 * split : 3 * split + 3])
    torch.testing.assert_close(joined([part(stack, 0, 3), part(stack, 1, 3)])(each(x, 3)), found)


def test_gradients_are_clipped_per_setting():
    weights = torch.nn.Parameter(torch.zeros(2, 3))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    loss = (weights * torch.tensor([[30.0, 40.0, 0.0], [0.3, 0.4, 0.0]])).sum()
    descend(optimizer, loss, clip=partial(clipped, most=5.0))
    torch.testing.assert_close(
        weights.detach(), -torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0]]), rtol=1e-4, atol=1e-4
    )


def test_batches_use_every_record_once_an_epoch():
    seen = [rows for _, epoch in epochs_of([10, 7], 3, 2, 0, torch.device("cpu")) for rows in epoch]
    assert len(seen) == 4
    first = torch.cat([rows[0] for rows in seen[:2]])
    assert len(set(first.tolist())) == 6
    assert not torch.equal(seen[0], seen[2])


def test_training_can_be_ended_early():
    calls = []
    done = train(
        lambda rows: calls.append(rows),
        [8],
        batch_size=4,
        epochs=5,
        seed=0,
        device=torch.device("cpu"),
        on_epoch=lambda epoch: epoch == 2,
    )
    assert done == len(calls) == 4


def test_a_setting_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    x = rng.random((300, 6)).astype(np.float32)
    y, s = (x[:, 0] > 0.5).astype(np.float32), (x[:, 1] > 0.5).astype(np.float32)
    settings = [FCRLSetting(0.01, 0.01), FCRLSetting(0.5, 0.5)]
    together = train_fcrl(x, y, s, settings, epochs=2, device="cpu").encode(x)
    alone = train_fcrl(x, y, s, settings[1:], epochs=2, device="cpu").encode(x)
    np.testing.assert_allclose(together[1], alone[0], atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_adam_rate_can_be_changed():
    from certifare_research.baselines.networks import scale_rate

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = adam([weight], torch.device("cpu"), lr=0.5)
    scale_rate(optimizer, 0.1)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
