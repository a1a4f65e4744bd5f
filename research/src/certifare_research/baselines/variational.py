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


#: Records with their group and label, their codes' mean, deviation and sample, and λ and β: the loss of each setting.
_Loss = Callable[[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]


def train_cvib(x: Column, y: Column, s: Column, settings: Sequence[CVIBSetting], **how: Any) -> Codes:
    """Train one CVIB encoder for each setting: loss = BCE(y) + λ·(R + C) + β·C.

    ``hidden``, ``epochs`` (200), ``batch_size`` (128), ``seed``, ``device``, ``progress``, ``max_steps``, ``lengths``
    and ``fuse`` are keywords.
    """

    def parts(stack: int, d: int, hidden: int, weights: torch.Generator) -> tuple[list[nn.Module], _Loss]:
        decoder = StackedMLP(stack, (CODE_SIZE + 1, hidden, d), torch.relu, weights)
        predictor = StackedMLP(stack, (CODE_SIZE, 50, 1), torch.relu, weights)

        def loss(records: tuple[Tensor, ...], codes: tuple[Tensor, ...], prices: tuple[Tensor, ...]) -> Tensor:
            (x, y, s), (mean, deviation, z), (lambda_, beta) = records, codes, prices
            divergence = pairwise_divergence(mean, deviation)
            rebuilt = reconstruction_loss(decoder(with_group(z, s)), each(x, len(settings)))
            return label_loss(predictor(z), y) + lambda_ * (rebuilt + divergence) + beta * divergence

        return [decoder, predictor], loss

    return _train_codes((x, y, s), settings, parts, **how)


def train_fcrl(x: Column, y: Column, s: Column, settings: Sequence[FCRLSetting], **how: Any) -> Codes:
    """Train one FCRL encoder for each setting: loss = BCE(y | z, s) + β·KL(z ‖ prior) − λ·I(x; z | s).

    Keywords as of :func:`train_cvib`.
    """

    def parts(stack: int, d: int, hidden: int, weights: torch.Generator) -> tuple[list[nn.Module], _Loss]:
        predictor = StackedMLP(stack, (CODE_SIZE + 1, 50, 1), torch.relu, weights)
        critic = ContrastiveCritic(stack, d, hidden, weights)

        def loss(records: tuple[Tensor, ...], codes: tuple[Tensor, ...], prices: tuple[Tensor, ...]) -> Tensor:
            (x, y, s), (mean, deviation, z), (lambda_, beta) = records, codes, prices
            price = beta * divergence_from_prior(mean, deviation) - lambda_ * critic(x, z, s)
            return label_loss(predictor(with_group(z, s)), y) + price

        return [predictor, critic], loss

    return _train_codes((x, y, s), settings, parts, **how)


def _train_codes(
    columns: tuple[Column, Column, Column],
    settings: Sequence[CVIBSetting] | Sequence[FCRLSetting],
    parts: Callable[[int, int, int, torch.Generator], tuple[list[nn.Module], _Loss]],
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
    """Train encoders together with the other networks of a method, by its loss."""
    place = pick_device(device)
    pools = Pools(list(columns), place)
    k, splits, d = len(settings), len(pools.sizes), pools.columns[0].shape[1]
    weights = seeded(seed)
    posterior = Posterior(k * splits, d, hidden, weights).to(place)
    others, method_loss = parts(k * splits, d, hidden, weights)
    modules = nn.ModuleList([posterior, *others]).to(place)
    optimizer = adam(modules.parameters(), place, lr=1e-3, weight_decay=1e-4)
    prices = tuple(
        per_setting([getattr(setting, name) for setting in settings], place, splits) for name in ("lambda_", "beta")
    )
    noise = seeded(seed, place)

    def loss_of(bx: Tensor, by: Tensor, bs: Tensor, drawn: Tensor) -> Tensor:
        mean, deviation = posterior(bx)
        records, codes = (bx, each(by, k), each(bs, k)), (mean, deviation, mean + deviation * drawn)
        return method_loss(records, codes, prices).sum()

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
        on_epoch=at_lengths(lengths, lambda: Codes(posterior, k, place, seed)),
        progress=progress,
        max_steps=max_steps,
    )
    return Codes(posterior, k, place, seed)
