"""FairPath (Shui et al. 2022): features on which the best head of each group is the same head.

It aims at sufficiency (equal meaning of a score in both groups), not at demographic parity; it stands in the
comparison because the paper has it. The implicit path alignment differentiates through the optimal heads by the
implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from certifare_research.baselines.loop import Progress, pick_device, steps_per_epoch, train
from certifare_research.baselines.networks import StackedMLP, adam, per_setting, seeded

INNER_STEPS = 15
CONJUGATE_STEPS = 5


@dataclass(frozen=True, slots=True)
class FairPathSetting:
    """``kappa``: weight of the distance between the two heads."""

    kappa: float


def with_one(features: Tensor) -> Tensor:
    """Features and a constant, so that a head is one vector."""
    return functional.pad(features, (0, 1), value=1.0)


def head_gradient(head: Tensor, inputs: Tensor, y: Tensor) -> Tensor:
    """Gradient of a logistic head's mean cross-entropy: (settings, size)."""
    errors = torch.sigmoid((inputs @ head.unsqueeze(-1)).squeeze(-1)) - y
    return (inputs.mT @ errors.unsqueeze(-1)).squeeze(-1) / inputs.shape[1]


def hessian_product(head: Tensor, inputs: Tensor, vector: Tensor) -> Tensor:
    """Hessian of a logistic head's mean cross-entropy, times a vector: (settings, size)."""
    p = torch.sigmoid((inputs @ head.unsqueeze(-1)).squeeze(-1))
    curved = p * (1 - p) * (inputs @ vector.unsqueeze(-1)).squeeze(-1)
    return (inputs.mT @ curved.unsqueeze(-1)).squeeze(-1) / inputs.shape[1]


def solve(head: Tensor, inputs: Tensor, target: Tensor, steps: int = CONJUGATE_STEPS) -> Tensor:
    """Solve H·v = target by conjugate gradients, H the Hessian of the head's loss, for each setting."""
    v = torch.zeros_like(target)
    rest = target.clone()
    direction = rest
    square = rest.square().sum(-1, keepdim=True)
    for _ in range(steps):
        image = hessian_product(head, inputs, direction)
        length = square / ((direction * image).sum(-1, keepdim=True) + 1e-12)
        v = v + length * direction
        rest = rest - length * image
        new = rest.square().sum(-1, keepdim=True)
        direction = rest + new / (square + 1e-12) * direction
        square = new
    return v


class FairPathFeatures:
    """Trained feature networks, one per setting."""

    def __init__(self, features: StackedMLP, device: torch.device) -> None:
        self.features = features
        self.device = device

    def encode(self, x: NDArray[np.float32], s: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Representation of each record: (settings, rows, 200). The group is not needed."""
        with torch.no_grad():
            parts = [
                torch.relu(self.features(chunk.to(self.device))).cpu()
                for chunk in torch.split(torch.as_tensor(x), 1 << 14)
            ]
        return torch.cat(parts, dim=1).numpy()


def train_fairpath(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    s: NDArray[np.float32],
    settings: Sequence[FairPathSetting],
    *,
    size: int = 200,
    iterations: int = 1000,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> FairPathFeatures:
    """Train one FairPath feature network for each setting; an iteration takes one batch of each group."""
    place = pick_device(device)
    X, Y = (torch.as_tensor(a, device=place) for a in (x, y))
    members = [torch.as_tensor(np.flatnonzero(s == group), device=place) for group in (0, 1)]
    k, d = len(settings), X.shape[1]
    weights = seeded(seed)
    features = StackedMLP(k, (d, size, size), torch.relu, weights).to(place)
    limit = 1 / size**0.5
    starts = [torch.empty(1, size + 1).uniform_(-limit, limit, generator=weights) for _ in members]
    heads = [start.repeat(k, 1).to(place).requires_grad_() for start in starts]
    feature_adam = adam(features.parameters(), place, lr=1e-3, eps=1e-3)
    head_adams = [adam([head], place, lr=1e-3, eps=1e-3) for head in heads]
    kappa = per_setting([setting.kappa for setting in settings], place).unsqueeze(-1)
    parameters = list(features.parameters())

    def step(rows: Tensor) -> None:
        picked = [group[own] for group, own in zip(members, rows, strict=True)]
        labels = [Y[own] for own in picked]
        inputs = [with_one(torch.relu(features(X[own]))) for own in picked]
        fixed = [batch.detach() for batch in inputs]
        for head, optimizer, batch, by in zip(heads, head_adams, fixed, labels, strict=True):
            for _ in range(INNER_STEPS):
                with torch.no_grad():
                    head.grad = head_gradient(head, batch, by)
                optimizer.step()
        apart = (heads[0] - heads[1]).detach()
        loss = torch.zeros((), device=place)
        for head, batch, still, by, sign in zip(heads, inputs, fixed, labels, (1.0, -1.0), strict=True):
            h = head.detach()
            target = head_gradient(h, still, by) + sign * kappa * apart
            path = solve(h, still, target)
            logits = (batch @ h.unsqueeze(-1)).squeeze(-1)
            loss = loss + (functional.softplus(logits) - logits * by).mean(-1).sum()
            loss = loss - (head_gradient(h, batch, by) * path).sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient.contiguous()
        feature_adam.step()

    pools = [len(group) for group in members]
    train(
        step,
        pools,
        batch_size=batch_size,
        epochs=-(-iterations // steps_per_epoch(pools, batch_size)),
        seed=seed,
        device=place,
        progress=progress,
        max_steps=iterations,
        unrolled=1,
    )
    return FairPathFeatures(features, place)
