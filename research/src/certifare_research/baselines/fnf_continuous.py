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
from certifare_research.baselines.loop import Progress, fused, pick_device, train
from certifare_research.baselines.networks import StackedMLP, adam, descend, per_setting, scale_rate, seeded

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
    x: Tensor,
    *,
    epochs: int = 80,
    batch_size: int = 256,
    couplings: int = 4,
    hidden: Sequence[int] = (20,),
    seed: int = 0,
    progress: Progress | None = None,
) -> RealNVP:
    """Fit the density of one group's records by maximum likelihood, and freeze it."""
    place = x.device
    flow = RealNVP(1, alternating_masks(couplings, x.shape[1]), hidden, seeded(seed)).to(place)
    optimizer = adam(flow.parameters(), place, lr=1e-2, weight_decay=1e-4)

    def step(rows: Sequence[Tensor]) -> None:
        descend(optimizer, -flow.log_density(x[rows[0]].unsqueeze(0)).mean())

    train(
        step,
        [len(x)],
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=place,
        on_epoch=_thirds(optimizer, epochs),
        progress=progress,
    )
    return flow.requires_grad_(False)


def symmetric_divergence(
    flows: tuple[RealNVP, RealNVP],
    priors: tuple[RealNVP, RealNVP],
    samples: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Tensor:
    """Half of KL(z_0 ‖ z_1) + KL(z_1 ‖ z_0), by samples (x, log density) of the priors, for each setting."""
    total: Tensor | None = None
    for own, other in ((0, 1), (1, 0)):
        x, log_prior = samples[own]
        z, log_det = flows[own](x.expand(_settings(flows[own]), *x.shape[-2:]))
        back, back_det = flows[other].inverse(z)
        own_density = log_prior - log_det
        other_density = priors[other].log_density(back.flatten(0, 1).unsqueeze(0)).view(back.shape[:2]) + back_det
        part = (own_density - other_density).mean(-1)
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - for the type checker
    return 0.5 * total


def _settings(flow: RealNVP) -> int:
    return int(next(flow.parameters()).shape[0])


class FlowPairs:
    """Trained pairs of flows, one per setting."""

    def __init__(self, flows: tuple[RealNVP, RealNVP], unbounded: Unbounded, device: torch.device, seed: int) -> None:
        self.flows = flows
        self.unbounded = unbounded
        self.device = device
        self.seed = seed

    def encode(self, x: NDArray[np.float32], s: NDArray[np.float32]) -> NDArray[np.float32]:
        """Z of each record's own group's flow: (settings, rows, features)."""
        values = torch.as_tensor(self.unbounded.apply(x, self.seed + 1))
        groups = torch.as_tensor(s).to(self.device)
        parts = []
        with torch.no_grad():
            for rows in torch.split(torch.arange(len(values)), 1 << 15):
                chunk = values[rows].to(self.device).unsqueeze(0)
                both = [flow(chunk.expand(_settings(flow), -1, -1))[0] for flow in self.flows]
                own = groups[rows.to(self.device)].view(1, -1, 1) > 0.5
                parts.append(torch.where(own, both[1], both[0]).cpu())
        return torch.cat(parts, dim=1).numpy()


def train_fnf_continuous(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    s: NDArray[np.float32],
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
    unbounded = Unbounded.fit(x)
    X = torch.as_tensor(unbounded.apply(x, seed), device=place)
    Y = torch.as_tensor(y, device=place)
    k, d = len(settings), X.shape[1]
    members = [torch.as_tensor(np.flatnonzero(s == group), device=place) for group in (0, 1)]
    priors = [
        (
            train_prior(X[_stratum(members[0], Y, label)], epochs=prior_epochs, seed=seed, progress=progress),
            train_prior(X[_stratum(members[1], Y, label)], epochs=prior_epochs, seed=seed, progress=progress),
        )
        for label in _labels(metric)
    ]
    weights = seeded(seed)
    masks = random_masks(6, d, weights)
    start = weights.get_state()
    pair = []
    for _ in members:
        weights.set_state(start)  # both flows start from the same weights
        pair.append(RealNVP(k, masks, (100, 100, 50), weights).to(place))
    flows = (pair[0], pair[1])
    classifier = StackedMLP(k, (d, 100, 50, 20, 2), torch.relu, weights).to(place)
    modules = nn.ModuleList([*flows, classifier])
    optimizer = adam(modules.parameters(), place)
    gamma = per_setting([setting.gamma for setting in settings], place)
    ramp = torch.zeros((), device=place)
    noise = seeded(seed, place)

    def loss_of(batches: Sequence[Tensor], labels: Sequence[Tensor], normals: Tensor) -> Tensor:
        errors = []
        for flow, bx, by in zip(flows, batches, labels, strict=True):
            z, _ = flow(bx.expand(k, -1, -1))
            logits = classifier(z)
            gap = logits[..., 1] - logits[..., 0]
            errors.append((functional.softplus(gap) - gap * by).mean(-1))
        divergences = []
        for pair, drawn in zip(priors, normals, strict=True):
            samples = (pair[0].sample(drawn[0]), pair[1].sample(drawn[1]))
            divergences.append(symmetric_divergence(flows, pair, samples))
        divergence = torch.stack(divergences).mean(0)
        weight = gamma * ramp
        return (weight * divergence + (1 - weight) * 0.5 * (errors[0] + errors[1])).sum()

    loss = fused(loss_of, fuse)

    def step(rows: Sequence[Tensor]) -> None:
        picked = [group[own] for group, own in zip(members, rows, strict=True)]
        normals = torch.randn(len(priors), 2, 1, len(rows[0]), d, generator=noise, device=place)
        descend(optimizer, loss([X[own] for own in picked], [Y[own] for own in picked], normals))

    slow_down = _thirds(optimizer, epochs)

    def on_epoch(epoch: int) -> None:
        slow_down(epoch)
        ramp.fill_(min(1.0, epoch / ramp_epochs) if ramp_epochs else 1.0)

    train(
        step,
        [len(group) for group in members],
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
    return FlowPairs(flows, unbounded, place, seed)


def _labels(metric: Metric) -> tuple[int | None, ...]:
    return {"demographic_parity": (None,), "equal_opportunity": (1,), "equalized_odds": (0, 1)}[metric]


def _stratum(rows: Tensor, y: Tensor, label: int | None) -> Tensor:
    return rows if label is None else rows[y[rows] == label]


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
