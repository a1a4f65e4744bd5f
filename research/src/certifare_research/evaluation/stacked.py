"""Downstream networks for many representations at once: scikit-learn's MLPClassifier as a stack in PyTorch.

Same network, loss, optimiser and stopping rule as :class:`sklearn.neural_network.MLPClassifier` (ReLU, Adam at 0.001,
batches of 200, L2 penalty 0.0001, until ten epochs in a row improve the training loss by less than 0.0001). A stack
trains one network for each representation and repeat; repeats differ in their first weights. Needs PyTorch and NumPy
alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from certifare_research.baselines.loop import Progress, fused, pick_device, steps_per_epoch, train
from certifare_research.baselines.networks import StackedMLP, adam, descend, each, seeded

PATIENCE = 10


def predict_stacked(
    z_train: NDArray[np.float32],
    y_train: NDArray[np.integer],
    z_test: NDArray[np.float32],
    *,
    hidden: Sequence[int] = (50,),
    repeats: int = 5,
    n_classes: int = 2,
    alpha: float = 1e-4,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    batch_size: int = 200,
    standardise: bool = True,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    fuse: bool = False,
) -> NDArray[np.int8]:
    """Train a network on each representation and predict: (representations, repeats, test records).

    Parameters
    ----------
    z_train, z_test : ndarray
        (representations, records, features), or (records, features) for one.
    y_train : ndarray of int
        What to predict: a label, or the group.
    hidden : sequence of int
        Hidden layers; none gives logistic regression.
    repeats : int
        Networks per representation.
    fuse : bool
        Compile the loss, as :func:`~certifare_research.baselines.loop.fused` says.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare_research.evaluation.stacked import predict_stacked
    >>> z = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    >>> y = (z[:, 0] > 0).astype(int)
    >>> predicted = predict_stacked(z, y, z, repeats=2, max_epochs=300, device="cpu")
    >>> predicted.shape, bool((predicted[0] == y).mean() > 0.95)
    ((1, 2, 500), True)
    """
    place = pick_device(device)
    z_train, z_test = (z[None] if z.ndim == 2 else z for z in (z_train, z_test))
    Z, mean, deviation = _scaled(torch.as_tensor(z_train, dtype=torch.float32).to(place), standardise)
    Y = torch.as_tensor(np.asarray(y_train), dtype=torch.long).to(place)
    k, n, d = Z.shape
    model = _stack(k, repeats, (d, *hidden, 1 if n_classes == 2 else n_classes), seed).to(place)
    optimizer = adam(model.parameters(), place)
    stopping = _Stopping(model, steps_per_epoch([n], batch_size), tol)

    def losses_of(batch: Tensor, truth: Tensor) -> Tensor:
        loss = _loss(model(each(batch, repeats)), truth, n_classes)
        penalty = torch.stack([w.square().flatten(1).sum(1) for w in model.weights]).sum(0)
        return loss + 0.5 * alpha * penalty / batch.shape[1]

    losses = fused(losses_of, fuse)

    def step(rows: Tensor) -> None:
        loss = losses(Z[:, rows[0]], Y[rows[0]])
        stopping.add(loss)
        descend(optimizer, loss.sum())

    train(
        step,
        [n],
        batch_size=batch_size,
        epochs=max_epochs,
        seed=seed,
        device=place,
        on_epoch=stopping.on_epoch,
        progress=progress,
    )
    stopping.finish()
    parts = []
    with torch.no_grad():
        for chunk in torch.split(torch.as_tensor(z_test, dtype=torch.float32), 1 << 14, dim=1):
            z = each((chunk.to(place) - mean) / deviation, repeats)
            parts.append(_classes(model(z), n_classes).cpu())
    return torch.cat(parts, dim=1).view(k, repeats, -1).numpy().astype(np.int8)


def _scaled(Z: Tensor, standardise: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Scale representations if asked; return them, and the mean and deviation to scale others by."""
    if not standardise:
        return Z, Z.new_zeros(1, 1, 1), Z.new_ones(1, 1, 1)
    mean, deviation = Z.mean(1, keepdim=True), Z.std(1, keepdim=True, correction=0)
    deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    return (Z - mean) / deviation, mean, deviation


def _stack(k: int, repeats: int, sizes: Sequence[int], seed: int) -> StackedMLP:
    """Return networks for k representations; repeats differ in their first weights, representations do not."""
    starts = [StackedMLP(1, sizes, torch.relu, seeded(seed + r), init="xavier") for r in range(repeats)]
    model = StackedMLP(k * repeats, sizes, torch.relu, seeded(seed), init="xavier")
    with torch.no_grad():
        for own, *drawn in zip(model.parameters(), *[start.parameters() for start in starts], strict=True):
            own.copy_(torch.cat(drawn).repeat(k, *([1] * (own.dim() - 1))))
    return model


class _Stopping:
    """Which networks of a stack have stopped, and their weights at that moment; ``steps`` make an epoch."""

    def __init__(self, model: StackedMLP, steps: int, tol: float) -> None:
        self.model = model
        self.steps = steps
        self.tol = tol
        self.kept = [p.detach().clone() for p in model.parameters()]
        nets, place = len(self.kept[0]), self.kept[0].device
        self.total = torch.zeros(nets, device=place)
        self.best = torch.full((nets,), float("inf"), device=place)
        self.stale = torch.zeros(nets, dtype=torch.long, device=place)
        self.done = torch.zeros(nets, dtype=torch.bool, device=place)

    def add(self, losses: Tensor) -> None:
        """Take note of a step's losses."""
        self.total.add_(losses.detach())

    def on_epoch(self, epoch: int) -> bool:
        """Judge the epoch that has ended before this one; return whether all networks have stopped."""
        if not epoch:
            return False
        mean_loss = self.total / self.steps
        self.stale.copy_(torch.where(mean_loss > self.best - self.tol, self.stale + 1, torch.zeros_like(self.stale)))
        self.best.copy_(torch.minimum(self.best, mean_loss))
        self.total.zero_()
        self._keep(~self.done & (self.stale > PATIENCE))
        return bool(self.done.all())

    def finish(self) -> None:
        """Stop all networks, and give each the weights that it stopped with."""
        self._keep(~self.done)
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), self.kept, strict=True):
                parameter.copy_(value)

    def _keep(self, now: Tensor) -> None:
        with torch.no_grad():
            for old, new in zip(self.kept, self.model.parameters(), strict=True):
                old.copy_(torch.where(now.view(-1, *([1] * (new.dim() - 1))), new, old))
        self.done.logical_or_(now)


def _loss(logits: Tensor, y: Tensor, n_classes: int) -> Tensor:
    """Mean cross-entropy for each network."""
    if n_classes == 2:
        flat = logits.squeeze(-1)
        return (functional.softplus(flat) - flat * y).mean(-1)
    return (
        -functional.log_softmax(logits, -1).gather(-1, y.view(1, -1, 1).expand(len(logits), -1, 1)).squeeze(-1).mean(-1)
    )


def _classes(logits: Tensor, n_classes: int) -> Tensor:
    return (logits.squeeze(-1) > 0).long() if n_classes == 2 else logits.argmax(-1)
