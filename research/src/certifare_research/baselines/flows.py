"""Invertible networks (RealNVP) whose density is known: stacks of coupling layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from certifare_research.baselines.networks import StackedMLP


class RealNVP(nn.Module):
    """A stack of flows: x ↔ z with the logarithm of the Jacobian's determinant.

    Each coupling keeps the masked features and moves the others by a scale (bounded by tanh) and a shift computed
    from those it keeps, so that the way back is as cheap as the way forth.

    Parameters
    ----------
    settings : int
    masks : Tensor
        (couplings, features), 1 where a coupling keeps a feature.
    hidden : sequence of int
        Hidden layers of scale and shift networks.
    generator : torch.Generator

    Examples
    --------
    >>> import torch
    >>> from certifare_research.baselines.flows import RealNVP, alternating_masks
    >>> from certifare_research.baselines.networks import seeded
    >>> flow = RealNVP(1, alternating_masks(4, 3), (8,), seeded(0))
    >>> x = torch.randn(1, 5, 3)
    >>> z, log_det = flow(x)
    >>> back, log_det_back = flow.inverse(z)
    >>> bool(torch.allclose(back, x, atol=1e-5)), bool(torch.allclose(log_det, -log_det_back, atol=1e-5))
    (True, True)
    """

    masks: Tensor

    def __init__(self, settings: int, masks: Tensor, hidden: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        d = masks.shape[1]
        self.register_buffer("masks", masks)
        sizes = (d, *hidden, d)
        self.scales = nn.ModuleList([StackedMLP(settings, sizes, torch.relu, generator) for _ in masks])
        self.shifts = nn.ModuleList([StackedMLP(settings, sizes, torch.relu, generator) for _ in masks])

    def __len__(self) -> int:
        """How many flows."""
        return len(next(self.parameters()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x to z: (settings, rows, features), and log |det dz/dx|: (settings, rows)."""
        total = x.new_zeros(x.shape[:-1])
        for mask, scale_net, shift_net in zip(self.masks, self.scales, self.shifts, strict=True):
            kept = x * mask
            scale = torch.tanh(scale_net(kept)) * (1 - mask)
            x = kept + (1 - mask) * (x * torch.exp(scale) + shift_net(kept))
            total = total + scale.sum(-1)
        return x, total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map z back to x, with log |det dx/dz|."""
        total = z.new_zeros(z.shape[:-1])
        layers = list(zip(self.masks, self.scales, self.shifts, strict=True))
        for mask, scale_net, shift_net in reversed(layers):
            kept = z * mask
            scale = torch.tanh(scale_net(kept)) * (1 - mask)
            z = kept + (1 - mask) * (z - shift_net(kept)) * torch.exp(-scale)
            total = total - scale.sum(-1)
        return z, total

    def log_density(self, x: Tensor) -> Tensor:
        """Log density of x where z is standard normal: (settings, rows)."""
        z, log_det = self(x)
        return normal_log_density(z) + log_det

    def sample(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map standard normals to samples, with their log density."""
        x, log_det = self.inverse(z)
        return x, normal_log_density(z) - log_det


def normal_log_density(z: Tensor) -> Tensor:
    """Log density of independent standard normals, summed over features."""
    return -0.5 * (z.square() + math.log(2 * math.pi)).sum(-1)


def alternating_masks(couplings: int, features: int) -> Tensor:
    """Every other feature is kept, in turn."""
    even = (torch.arange(features) % 2 == 0).float()
    return torch.stack([even if i % 2 == 0 else 1 - even for i in range(couplings)])


def random_masks(couplings: int, features: int, generator: torch.Generator) -> Tensor:
    """Random halves, each followed by its complement."""
    masks: list[Tensor] = []
    while len(masks) < couplings:
        half = torch.zeros(features)
        half[torch.randperm(features, generator=generator)[: (features + 1) // 2]] = 1.0
        masks += [half, 1 - half]
    return torch.stack(masks[:couplings])
