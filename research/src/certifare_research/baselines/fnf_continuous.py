"""Fair normalizing flows (Balunović et al. 2022) on numbers: one flow per group, aligned in the latent space.

A prior density is fitted to each group; then a flow per group maps records to a latent space in which the two groups'
densities are brought together (symmetric Kullback-Leibler divergence) while a classifier keeps the label. Encoding
needs the group.

For equal opportunity the priors describe the records with y = 1 alone; for equalized odds there is a pair of priors
for each label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from certifare_research.baselines.flows import RealNVP, alternating_masks, random_masks
from certifare_research.baselines.loop import Column, Pools, Progress, by_split, fused, pick_device, train
from certifare_research.baselines.networks import (
    StackedMLP,
    adam,
    descend,
    each,
    joined,
    part,
    per_setting,
    scale_rate,
    seeded,
)

Metric = Literal["demographic_parity", "equal_opportunity", "equalized_odds"]
SHRINK = 0.95
EDGE = 0.025


@dataclass(frozen=True, slots=True)
class FlowSetting:
    """``gamma``: weight of the divergence between the groups; 1 − γ is the label's."""

    gamma: float


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Maps features with gaps between their values to the real line: scale, spread within the gap, logit.

    Fitted on training records; values outside their range end at the edge.
    """

    low: NDArray[np.float64]
    width: NDArray[np.float64]
    gap: NDArray[np.float64]

    @classmethod
    def fit(cls, x: NDArray[np.floating]) -> Unbounded:
        """Take range and smallest gap of each feature."""
        low = x.min(0).astype(np.float64)
        gaps = np.array([_smallest_gap(column) for column in x.T.astype(np.float64)])
        width = x.max(0).astype(np.float64) - low + gaps
        return cls(low, np.where(width > 0, width, 1.0), gaps)

    def apply(self, x: NDArray[np.floating], seed: int) -> NDArray[np.float32]:
        """Spread each value uniformly over its gap, and take it to the real line."""
        noise = np.random.default_rng(seed).random(x.shape)
        unit = (x - self.low + self.gap * noise) / self.width
        squeezed = np.clip(0.5 + SHRINK * (unit - 0.5), EDGE, 1 - EDGE)
        return np.log(squeezed / (1 - squeezed)).astype(np.float32)


def _smallest_gap(column: NDArray[np.float64]) -> float:
    distinct = np.unique(column)
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0


def train_prior(
    x: Sequence[Tensor],
    *,
    epochs: int = 80,
    batch_size: int = 256,
    couplings: int = 4,
    hidden: Sequence[int] = (20,),
    seed: int = 0,
    progress: Progress | None = None,
    fuse: bool = False,
) -> RealNVP:
    """Fit the density of one group's records in each split by maximum likelihood, and freeze it."""
    place = x[0].device
    pools = Pools([x], place)
    flow = RealNVP(len(x), alternating_masks(couplings, x[0].shape[1]), hidden, seeded(seed)).to(place)
    optimizer = adam(flow.parameters(), place, lr=1e-2, weight_decay=1e-4)

    def loss_of(batch: Tensor) -> Tensor:
        return -flow.log_density(batch).mean(-1).sum()

    loss = fused(loss_of, fuse)

    def step(rows: Tensor) -> None:
        descend(optimizer, loss(*pools.take(rows)))

    train(
        step,
        pools.sizes,
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=place,
        on_epoch=_thirds(optimizer, epochs),
        progress=progress,
    )
    return flow.requires_grad_(False)


def symmetric_divergence(flow: RealNVP, prior: RealNVP, z: Tensor, log_density: Tensor, settings: int) -> Tensor:
    """Half of KL(z_0 ‖ z_1) + KL(z_1 ‖ z_0), by samples, for each setting of each split.

    Parameters
    ----------
    flow : RealNVP
        Flows in the order (group, split, setting).
    prior : RealNVP
        Densities of x in the order (label, group, split); over labels the mean is taken.
    z, log_density : Tensor
        Samples of the priors through their own flows, and their densities there: (flows, labels · rows, features) and
        (flows, labels · rows).
    settings : int
    """
    nets, width, d = z.shape
    pools = nets // settings
    labels = len(prior) // pools
    back, back_det = flow.inverse(z.roll(nets // 2, 0))  # by the other group's flow
    by_prior = back.view(pools, settings, labels, -1, d).permute(2, 0, 1, 3, 4)
    other = prior.log_density(by_prior.reshape(labels * pools, -1, d)).view(by_prior.shape[:-1])
    other = other.permute(1, 2, 0, 3).reshape(nets, width) + back_det
    return 0.5 * (log_density - other).mean(-1).view(2, -1).sum(0)


class FlowPairs:
    """Trained pairs of flows, one per setting of each split, in the order (group, split, setting)."""

    def __init__(
        self, flow: RealNVP, unbounded: Sequence[Unbounded], settings: int, device: torch.device, seed: int
    ) -> None:
        self.flow = flow
        self.unbounded = unbounded
        self.settings = settings
        self.device = device
        self.seed = seed

    def encode(self, x: NDArray[np.float32], s: NDArray[np.float32], *, split: int = 0) -> NDArray[np.float32]:
        """Z of each record's own group's flow: (settings, rows, features)."""
        values = torch.as_tensor(self.unbounded[split].apply(x, self.seed + 1))
        groups = torch.as_tensor(s).to(self.device)
        flows = [part(self.flow, group * len(self.unbounded) + split, self.settings) for group in (0, 1)]
        parts = []
        with torch.no_grad():
            for rows in torch.split(torch.arange(len(values)), 1 << 15):
                chunk = values[rows].to(self.device).unsqueeze(0)
                both = [flow(chunk.expand(self.settings, -1, -1))[0] for flow in flows]
                own = groups[rows.to(self.device)].view(1, -1, 1) > 0.5
                parts.append(torch.where(own, both[1], both[0]).cpu())
        return torch.cat(parts, dim=1).numpy()


def train_fnf_continuous(
    x: Column,
    y: Column,
    s: Column,
    settings: Sequence[FlowSetting],
    *,
    metric: Metric = "demographic_parity",
    prior_epochs: int = 80,
    epochs: int = 80,
    ramp_epochs: int = 10,
    batch_size: int = 256,
    seed: int = 100,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    fuse: bool = False,
) -> FlowPairs:
    """Train one pair of flows for each setting: loss = γ_t·KL_sym + (1 − γ_t)·CE.

    γ_t rises to γ over the first epochs.

    The published code keeps a live reference where it means to keep the best prior; the last one is kept here, too.
    """
    place = pick_device(device)
    unbounded = [Unbounded.fit(own) for own in by_split(x)]
    values = [of.apply(own, seed) for of, own in zip(unbounded, by_split(x), strict=True)]
    members = [  # (group, split)
        tuple(torch.as_tensor(of[s_ == group], device=place) for of in (x_, y_))
        for group in (0, 1)
        for x_, y_, s_ in zip(values, by_split(y), by_split(s), strict=True)
    ]
    pools = Pools(list(zip(*members, strict=True)), place)
    k, splits, d = len(settings), len(unbounded), members[0][0].shape[1]
    labels = _labels(metric)
    prior = joined(
        [
            train_prior(
                [own if label is None else own[of == label] for own, of in group],
                epochs=prior_epochs,
                seed=seed,
                progress=progress,
                fuse=fuse,
            )
            for label in labels
            for group in (members[:splits], members[splits:])
        ]
    )
    weights = seeded(seed)
    flow = RealNVP(2 * splits * k, random_masks(6, d, weights), (100, 100, 50), weights).to(place)
    classifier = StackedMLP(splits * k, (d, 100, 50, 20, 2), torch.relu, weights).to(place)
    optimizer = adam(nn.ModuleList([flow, classifier]).parameters(), place)
    gamma = per_setting([setting.gamma for setting in settings], place, splits)
    ramp = torch.zeros((), device=place)
    noise = seeded(seed, place)

    def side_by_side(values: Tensor) -> Tensor:
        """(2 · stack, rows, ...) to (stack, 2 · rows, ...): both groups' records behind each other."""
        return values.unflatten(0, (2, -1)).transpose(0, 1).flatten(1, 2)

    def loss_of(bx: Tensor, by: Tensor, normals: Tensor) -> Tensor:
        samples, log_density = (
            of.unflatten(0, (len(labels), -1)).transpose(0, 1).flatten(1, 2) for of in prior.sample(normals)
        )
        z, log_det = flow(each(torch.cat([bx, samples], 1), k))
        rows = bx.shape[1]
        logits = classifier(side_by_side(z[:, :rows]))
        gap = logits[..., 1] - logits[..., 0]
        error = (functional.softplus(gap) - gap * each(side_by_side(by), k)).mean(-1)
        own_density = each(log_density, k) - log_det[:, rows:]
        divergence = symmetric_divergence(flow, prior, z[:, rows:], own_density, k)
        weight = gamma * ramp
        return (weight * divergence + (1 - weight) * error).sum()

    loss = fused(loss_of, fuse)

    def step(rows: Tensor) -> None:
        normals = torch.randn(len(prior), rows.shape[1], d, generator=noise, device=place)
        descend(optimizer, loss(*pools.take(rows), normals))

    slow_down = _thirds(optimizer, epochs)

    def on_epoch(epoch: int) -> None:
        slow_down(epoch)
        ramp.fill_(min(1.0, epoch / ramp_epochs) if ramp_epochs else 1.0)

    train(
        step,
        pools.sizes,
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=place,
        generators=[noise],
        on_epoch=on_epoch,
        progress=progress,
        max_steps=max_steps,
        unrolled=2,
    )
    return FlowPairs(flow, unbounded, k, place, seed)


def _labels(metric: Metric) -> tuple[int | None, ...]:
    return {"demographic_parity": (None,), "equal_opportunity": (1,), "equalized_odds": (0, 1)}[metric]


def _thirds(optimizer: torch.optim.Optimizer, epochs: int) -> _Schedule:
    return _Schedule(optimizer, {epochs // 3, 2 * epochs // 3} - {0})


class _Schedule:
    """Takes a tenth of the learning rate at given epochs."""

    def __init__(self, optimizer: torch.optim.Optimizer, at: set[int]) -> None:
        self.optimizer = optimizer
        self.at = at

    def __call__(self, epoch: int) -> None:
        if epoch in self.at:
            scale_rate(self.optimizer, 0.1)
