"""Fair normalizing flows (Balunović et al. 2022) on discrete features: a matching of configurations by density.

The density of each group over all combinations of categories is fitted by an autoregressive network (MADE). Sorting
all combinations by both densities gives a bijection that takes group 0's mass to group 1's: the *global* map; sorting
within each predicted class gives the *label-preserving* one. Records of group 1 stay; a record of group 0 is mapped
by the first with probability γ and by the second otherwise. Encoding needs the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from certifare_research.baselines.loop import Progress, fused, pick_device, train
from certifare_research.baselines.networks import adam, descend, scale_rate, seeded

MOST_CONFIGURATIONS = 4_000_000


@dataclass(frozen=True, slots=True)
class MatchingSetting:
    """``gamma``: probability that a record of group 0 is mapped regardless of the label."""

    gamma: float


class MADE(nn.Module):
    """Autoregressive density over one-hot vectors: each bit given the bits before it.

    Two hidden layers and a direct linear path, masked so that an output sees only earlier inputs.
    """

    def __init__(self, bits: int, hidden: Sequence[int], generator: torch.Generator) -> None:
        super().__init__()
        degrees = [torch.arange(bits)]
        for width in hidden:
            degrees.append(torch.arange(width) % max(bits - 1, 1))
        self.layers = nn.ParameterList()
        self.biases = nn.ParameterList()
        sizes = (bits, *hidden, bits)
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            last = i == len(sizes) - 2
            to = degrees[0] if last else degrees[i + 1]
            mask = to.unsqueeze(0) > degrees[i].unsqueeze(1) if last else to.unsqueeze(0) >= degrees[i].unsqueeze(1)
            limit = inputs**-0.5
            self.layers.append(nn.Parameter(torch.empty(inputs, outputs).uniform_(-limit, limit, generator=generator)))
            self.biases.append(nn.Parameter(torch.empty(outputs).uniform_(-limit, limit, generator=generator)))
            self.register_buffer(f"mask{i}", mask.float())
        limit = bits**-0.5
        self.direct = nn.Parameter(torch.empty(bits, bits).uniform_(-limit, limit, generator=generator))
        self.register_buffer("direct_mask", (degrees[0].unsqueeze(0) > degrees[0].unsqueeze(1)).float())

    def forward(self, bits: Tensor) -> Tensor:
        """Log odds of each bit given those before it."""
        h = bits
        last = len(self.layers) - 1
        for i, (weight, bias) in enumerate(zip(self.layers, self.biases, strict=True)):
            h = h @ (weight * self.get_buffer(f"mask{i}")) + bias
            if i < last:
                h = torch.relu(h)
        return h + bits @ (self.direct * self.get_buffer("direct_mask"))

    def log_density(self, bits: Tensor) -> Tensor:
        """Log probability of each row of bits."""
        logits = self(bits)
        return (bits * logits - functional.softplus(logits)).sum(-1)


def fit_density(
    bits: NDArray[np.float32],
    *,
    hidden: Sequence[int] = (50, 50),
    epochs: int = 100,
    batch_size: int = 128,
    validation_share: float = 0.2,
    seed: int = 0,
    device: torch.device,
    progress: Progress | None = None,
    max_steps: int | None = None,
    fuse: bool = False,
) -> MADE:
    """Fit one group's density; the state with the best validation loss is kept."""
    order = np.random.default_rng(seed).permutation(len(bits))
    held = max(1, int(validation_share * len(bits)))
    fresh = torch.as_tensor(bits[order[:held]], device=device)
    X = torch.as_tensor(bits[order[held:]], device=device)
    model = MADE(bits.shape[1], hidden, seeded(seed)).to(device)
    optimizer = adam(model.parameters(), device, lr=1e-2, weight_decay=1e-4)
    best = torch.full((), float("inf"), device=device)
    kept = [p.detach().clone() for p in model.parameters()]

    def keep_best() -> None:
        with torch.no_grad():
            now = -model.log_density(fresh).mean()
            better = now < best
            best.copy_(torch.where(better, now, best))
            for old, new in zip(kept, model.parameters(), strict=True):
                old.copy_(torch.where(better, new, old))

    def on_epoch(epoch: int) -> None:
        if epoch:
            keep_best()
        if epoch == epochs // 2:
            scale_rate(optimizer, 0.1)

    def loss_of(batch: Tensor) -> Tensor:
        return -model.log_density(batch).mean()

    loss = fused(loss_of, fuse)

    def step(rows: Tensor) -> None:
        descend(optimizer, loss(X[rows[0]]))

    train(
        step,
        [len(X)],
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=device,
        on_epoch=on_epoch,
        progress=progress,
        max_steps=max_steps,
    )
    keep_best()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), kept, strict=True):
            parameter.copy_(value)
    return model.requires_grad_(False)


def configurations(sizes: Sequence[int]) -> NDArray[np.int16]:
    """All combinations of categories, one per row, the last column fastest."""
    grids = np.meshgrid(*[np.arange(n, dtype=np.int16) for n in sizes], indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1)


def configuration_ids(codes: NDArray[np.integer], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Position of each row among :func:`configurations`."""
    return np.ravel_multi_index(tuple(codes.T.astype(np.int64)), tuple(sizes))


def one_hot(codes: NDArray[np.integer], sizes: Sequence[int]) -> NDArray[np.float32]:
    """Codes as bits."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    bits = np.zeros((len(codes), int(np.sum(sizes))), dtype=np.float32)
    bits[np.arange(len(codes))[:, None], starts + codes] = 1.0
    return bits


def match_by_rank(
    first: NDArray[np.floating], second: NDArray[np.floating], classes: NDArray[np.integer] | None = None
) -> NDArray[np.int64]:
    """Bijection that takes the r-th densest configuration of one group to the r-th densest of the other.

    With ``classes``, within each class. Ties keep the configurations' order.
    """
    if classes is None:
        classes = np.zeros(len(first), dtype=np.int64)
    target = np.empty(len(first), dtype=np.int64)
    for value in np.unique(classes):
        own = np.flatnonzero(classes == value)
        target[own[np.argsort(-first[own], kind="stable")]] = own[np.argsort(-second[own], kind="stable")]
    return target


def weighted_logistic(
    bits: NDArray[np.float32],
    y: NDArray[np.float32],
    weights: NDArray[np.float32],
    device: torch.device,
    steps: int = 300,
) -> tuple[Tensor, Tensor]:
    """Logistic regression on bits, by full-batch L-BFGS with a small ridge."""
    X, Y, W = (torch.as_tensor(a, device=device) for a in (bits, y, weights / weights.mean()))
    coefficients = torch.zeros(X.shape[1], device=device, requires_grad=True)
    intercept = torch.zeros((), device=device, requires_grad=True)
    optimizer = torch.optim.LBFGS([coefficients, intercept], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = X @ coefficients + intercept
        value = (W * (functional.softplus(logits) - logits * Y)).mean() + coefficients.square().sum() / (2 * len(Y))
        value.backward()
        return value

    optimizer.step(loss)
    return coefficients.detach(), intercept.detach()


class Matchings:
    """The two bijections, and the settings that mix them."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        everywhere: NDArray[np.int64],
        within_class: NDArray[np.int64],
        settings: Sequence[MatchingSetting],
        seed: int,
    ) -> None:
        self.sizes = sizes
        self.everywhere = everywhere
        self.within_class = within_class
        self.settings = tuple(settings)
        self.seed = seed

    def map_ids(self, ids: NDArray[np.int64], s: NDArray[np.floating], gamma: float) -> NDArray[np.int64]:
        """Where each record's configuration goes."""
        draw = np.random.default_rng(self.seed + 1).random(len(ids))
        moved = np.where(draw < gamma, self.everywhere[ids], self.within_class[ids])
        return np.where(s > 0.5, ids, moved)

    def encode(self, codes: NDArray[np.integer], s: NDArray[np.floating]) -> NDArray[np.float32]:
        """Map the configuration of each record, as bits: (settings, rows, bits)."""
        ids = configuration_ids(codes, self.sizes)
        mapped = [self.map_ids(ids, s, setting.gamma) for setting in self.settings]
        return np.stack([one_hot(self.codes_of(m), self.sizes) for m in mapped])

    def codes_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Categories of configurations."""
        return np.stack(np.unravel_index(ids, self.sizes), axis=1)


def train_fnf_discrete(
    codes: NDArray[np.integer],
    y: NDArray[np.float32],
    s: NDArray[np.float32],
    settings: Sequence[MatchingSetting],
    *,
    sizes: Sequence[int],
    epochs: int = 100,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    fuse: bool = False,
) -> Matchings:
    """Fit both densities, label every configuration, and match. ``codes`` holds a category number per column."""
    place = pick_device(device)
    sizes = tuple(int(n) for n in sizes)
    total = int(np.prod([float(n) for n in sizes]))
    if total > MOST_CONFIGURATIONS:
        raise ValueError(
            f"{total:,} combinations of categories are more than {MOST_CONFIGURATIONS:,}: drop or bucket columns."
        )
    bits = one_hot(codes, sizes)
    course: dict[str, Any] = {"epochs": epochs, "seed": seed, "progress": progress, "max_steps": max_steps}
    models = [fit_density(bits[s == g], device=place, fuse=fuse, **course) for g in (0, 1)]
    share = float(np.mean(s))
    coefficients, intercept = weighted_logistic(bits, y, np.where(s > 0.5, 1 - share, share).astype(np.float32), place)
    everything = configurations(sizes)
    densities: list[list[Tensor]] = [[], []]
    classes = []
    with torch.no_grad():
        for start in range(0, total, 1 << 16):
            chunk = torch.as_tensor(one_hot(everything[start : start + (1 << 16)], sizes), device=place)
            for model, parts in zip(models, densities, strict=True):
                parts.append(model.log_density(chunk).double().cpu())
            classes.append((chunk @ coefficients + intercept > 0).cpu())
    first, second = (torch.cat(parts).numpy() for parts in densities)
    # Sorting needs no renormalisation over valid one-hot vectors: a constant factor keeps the order.
    predicted = torch.cat(classes).numpy().astype(np.int64)
    return Matchings(sizes, match_by_rank(first, second), match_by_rank(first, second, predicted), settings, seed)
