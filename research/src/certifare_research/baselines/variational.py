"""CVIB (Moyer et al. 2018) and FCRL (Gupta et al. 2021): codes that are noisy, and pay for what they tell about s.

Both encode x as a diagonal normal distribution of eight dimensions and publish a sample of it. CVIB bounds the
information between code and group by reconstruction and by the divergences between the codes of different records;
FCRL bounds it by the divergence from a prior, less a contrastive estimate of what the code tells about x within each
group.

Differences from the published configurations: an epoch's incomplete last batch is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from certifare_research.baselines.loop import (
    Column,
    Lengths,
    Pools,
    Progress,
    at_lengths,
    fused,
    pick_device,
    train,
)
from certifare_research.baselines.networks import (
    StackedMLP,
    adam,
    descend,
    each,
    part,
    per_setting,
    seeded,
    with_group,
)

CODE_SIZE = 8
TINY = 1e-8


@dataclass(frozen=True, slots=True)
class CVIBSetting:
    """Weights of CVIB's loss: ``lambda_`` of reconstruction and divergence, ``beta`` of divergence again."""

    lambda_: float
    beta: float


@dataclass(frozen=True, slots=True)
class FCRLSetting:
    """Weights of FCRL's loss: ``lambda_`` of the contrastive estimate, ``beta`` of the divergence from the prior."""

    lambda_: float
    beta: float


class Posterior(nn.Module):
    """The encoder of both methods: x to the mean and deviation of its code."""

    def __init__(self, settings: int, inputs: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.network = StackedMLP(settings, (inputs, hidden, 2 * CODE_SIZE), torch.relu, generator)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation, each (settings, rows, 8)."""
        pairs = self.network(x).unflatten(-1, (CODE_SIZE, 2))
        return pairs[..., 0], functional.softplus(pairs[..., 1])


def pairwise_divergence(mean: Tensor, deviation: Tensor) -> Tensor:
    """Mean over all ordered pairs (i, j) of KL(N_i ‖ N_j) of diagonal normals, for each setting.

    The logarithms cancel in the mean, and what is left is sums of single records: linear in the batch, not quadratic.
    """
    variance = deviation.square() + TINY
    precision = variance.reciprocal()
    squares = mean.square()
    scale = variance.mean(1) * precision.mean(1)
    shift = (
        precision.mean(1) * squares.mean(1)
        - 2 * (precision * mean).mean(1) * mean.mean(1)
        + (precision * squares).mean(1)
    )
    return 0.5 * (scale + shift - 1.0).sum(-1)


def divergence_from_prior(mean: Tensor, deviation: Tensor) -> Tensor:
    """Mean over records of KL(N(μ, σ²) ‖ N(0, 1)), for each setting."""
    terms = mean.square() + deviation.square() - 2 * torch.log(deviation + TINY) - 1.0
    return 0.5 * terms.sum(-1).mean(-1)


def reconstruction_loss(logits: Tensor, x: Tensor) -> Tensor:
    """Binary cross-entropy between sigmoid(logits) and x, summed over features, mean over records.

    Also for features outside [0, 1] (Health's counts), as the published configuration has it; there the loss has no
    lower limit, so logits count up to ±16, where a sigmoid in single precision is full.
    """
    logits = logits.clamp(-16.0, 16.0)
    return functional.softplus(logits).sum(-1).mean(-1) - (logits * x).sum(-1).mean(-1)


def label_loss(logits: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of the label, mean over records, for each setting."""
    logits = logits.squeeze(-1)
    return (functional.softplus(logits) - logits * y).mean(-1)


class ContrastiveCritic(nn.Module):
    """Estimates what the code tells about x within each group."""

    def __init__(self, settings: int, inputs: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.of_x = StackedMLP(settings, (inputs, hidden, CODE_SIZE), torch.relu, generator)
        self.of_z = StackedMLP(settings, (CODE_SIZE, CODE_SIZE), torch.relu, generator)
        bilinear = torch.empty(1, 2, CODE_SIZE, CODE_SIZE).normal_(generator=generator)
        self.bilinear = nn.Parameter(bilinear.repeat(settings, 1, 1, 1))

    def forward(self, x: Tensor, z: Tensor, s: Tensor) -> Tensor:
        """Mean estimate of the information, for each setting; s is (rows) or (settings, rows)."""
        fx, fz = self.of_x(x), self.of_z(z)
        by_group = torch.einsum("kia,kgab->kgib", fx, self.bilinear)
        chosen = torch.where(s.unsqueeze(-1) > 0.5, by_group[:, 1], by_group[:, 0])
        scores = functional.softplus(chosen @ fz.mT)
        return contrastive_estimate(scores, s)


def contrastive_estimate(scores: Tensor, s: Tensor) -> Tensor:
    """Mean over i of log score(x_i, z_i) − log mean_j score(x_i, z_j), j over the records of i's own group.

    ``scores`` is (settings, rows, rows): row i, column j; s is (rows) or (settings, rows).
    """
    same = (s.unsqueeze(-2) == s.unsqueeze(-1)).to(scores.dtype)
    matched = torch.log(scores.diagonal(dim1=-2, dim2=-1) + TINY)
    others = (scores * (same / same.sum(-1, keepdim=True))).sum(-1)
    return (matched - torch.log(others + TINY)).mean(-1)


class Codes:
    """Trained encoders, one per setting of each split."""

    def __init__(self, posterior: Posterior, settings: int, device: torch.device, seed: int) -> None:
        self.posterior = posterior
        self.settings = settings
        self.device = device
        self.seed = seed

    def encode(
        self, x: NDArray[np.float32], s: NDArray[np.float32] | None = None, *, split: int = 0
    ) -> NDArray[np.float32]:
        """One sample of the code of each record: (settings, rows, 8). The group is not needed."""
        generator = seeded(self.seed + 1, self.device)
        posterior = part(self.posterior, split, self.settings)
        parts = []
        with torch.no_grad():
            for chunk in torch.split(torch.as_tensor(x), 1 << 16):
                mean, deviation = posterior(chunk.to(self.device))
                parts.append((mean + deviation * _noise(len(chunk), generator)).cpu())
        return torch.cat(parts, dim=1).numpy()


def _noise(rows: int, generator: torch.Generator) -> Tensor:
    """Draw what is added to the codes of so many records, equal for all settings."""
    return torch.randn((rows, CODE_SIZE), generator=generator, device=generator.device)


#: Makes what is trained beside the encoder, and the loss of x, y, s, the code's mean and deviation, and a sample of it.
Build = Callable[[int, int, torch.Generator, torch.device, int], tuple[list[nn.Module], Callable[..., Tensor]]]


def _train(
    build: Build,
    x: Column,
    y: Column,
    s: Column,
    settings: int,
    *,
    hidden: int = 50,
    epochs: int = 200,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    lengths: Lengths | None = None,
    fuse: bool = False,
) -> Codes:
    place = pick_device(device)
    pools = Pools([x, y, s], place)
    splits, d = len(pools.sizes), pools.columns[0].shape[1]
    weights = seeded(seed)
    posterior = Posterior(settings * splits, d, hidden, weights).to(place)
    beside, loss_with = build(d, hidden, weights, place, splits)
    modules = nn.ModuleList([posterior, *beside])
    optimizer = adam(modules.parameters(), place, lr=1e-3, weight_decay=1e-4)
    noise = seeded(seed, place)

    def loss_of(bx: Tensor, by: Tensor, bs: Tensor, drawn: Tensor) -> Tensor:
        mean, deviation = posterior(bx)
        z = mean + deviation * drawn
        return loss_with(bx, each(by, settings), each(bs, settings), mean, deviation, z).sum()

    loss = fused(loss_of, fuse)

    def step(rows: Tensor) -> None:
        descend(optimizer, loss(*pools.take(rows), _noise(rows.shape[1], noise)))

    train(
        step,
        pools.sizes,
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=place,
        generators=[noise],
        on_epoch=at_lengths(lengths, lambda: Codes(posterior, settings, place, seed)),
        progress=progress,
        max_steps=max_steps,
    )
    return Codes(posterior, settings, place, seed)


def train_cvib(x: Column, y: Column, s: Column, settings: Sequence[CVIBSetting], **course: Any) -> Codes:
    """Train one CVIB encoder for each setting: loss = BCE(y) + λ·(R + C) + β·C.

    ``course``: hidden, epochs, batch_size, seed, device, progress, max_steps, lengths, fuse.
    """
    k = len(settings)

    def build(d: int, hidden: int, weights: torch.Generator, place: torch.device, splits: int) -> Any:
        decoder = StackedMLP(k * splits, (CODE_SIZE + 1, hidden, d), torch.relu, weights).to(place)
        predictor = StackedMLP(k * splits, (CODE_SIZE, 50, 1), torch.relu, weights).to(place)
        lambda_ = per_setting([setting.lambda_ for setting in settings], place, splits)
        beta = per_setting([setting.beta for setting in settings], place, splits)

        def loss(bx: Tensor, by: Tensor, bs: Tensor, mean: Tensor, deviation: Tensor, z: Tensor) -> Tensor:
            divergence = pairwise_divergence(mean, deviation)
            rebuilt = reconstruction_loss(decoder(with_group(z, bs)), each(bx, k))
            return label_loss(predictor(z), by) + lambda_ * (rebuilt + divergence) + beta * divergence

        return [decoder, predictor], loss

    return _train(build, x, y, s, k, **course)


def train_fcrl(x: Column, y: Column, s: Column, settings: Sequence[FCRLSetting], **course: Any) -> Codes:
    """Train one FCRL encoder for each setting: loss = BCE(y | z, s) + β·KL(z ‖ prior) − λ·I(x; z | s).

    ``course``: hidden, epochs, batch_size, seed, device, progress, max_steps, lengths, fuse.
    """
    k = len(settings)

    def build(d: int, hidden: int, weights: torch.Generator, place: torch.device, splits: int) -> Any:
        predictor = StackedMLP(k * splits, (CODE_SIZE + 1, 50, 1), torch.relu, weights).to(place)
        critic = ContrastiveCritic(k * splits, d, hidden, weights).to(place)
        lambda_ = per_setting([setting.lambda_ for setting in settings], place, splits)
        beta = per_setting([setting.beta for setting in settings], place, splits)

        def loss(bx: Tensor, by: Tensor, bs: Tensor, mean: Tensor, deviation: Tensor, z: Tensor) -> Tensor:
            label = label_loss(predictor(with_group(z, bs)), by)
            return label + beta * divergence_from_prior(mean, deviation) - lambda_ * critic(bx, z, bs)

        return [predictor, critic], loss

    return _train(build, x, y, s, k, **course)
