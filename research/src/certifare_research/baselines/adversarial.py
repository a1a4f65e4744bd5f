"""LAFTR (Madras et al. 2018) and sIPM-LFR (Kim et al. 2022): an opponent tries to tell the groups apart.

Differences from the published configurations, each harmless to the comparison or in the method's favour:

- LAFTR's batches come in a new order every epoch (there, a seed reset made every epoch alike), and no fifth of the
  training
  records is set aside that nothing uses.
- sIPM-LFR's 100 epochs of fine-tuning are left out: they train the head alone, which is no part of the
  representation. (There,
  the frozen encoder went on drifting by the momentum of its optimiser.)
- An epoch's incomplete last batch is left out.

Both published opponents can stop learning: their losses are flat where they are sure and wrong, and an encoder escapes
them by the scale of its codes. ``opponent="steady"`` sets against either encoder one that goes on learning (see
:class:`Opponent`); the encoder's own loss stays what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from certifare_research.baselines import native
from certifare_research.baselines.loop import (
    Column,
    Lengths,
    Pools,
    Progress,
    at_lengths,
    by_split,
    fused,
    pick_device,
    train,
)
from certifare_research.baselines.networks import (
    StackedMLP,
    adam,
    clipped,
    descend,
    each,
    part,
    per_setting,
    seeded,
    with_group,
)

OpponentName = Literal["published", "steady"]
STEADY_HIDDEN = (100, 100)
STEADY_STEPS = 5
STEADY_RATE = 3e-3


@dataclass(frozen=True, slots=True)
class LAFTRSetting:
    """Weights of LAFTR's loss: ``g`` of the auditor, ``reconstruction``."""

    g: float
    reconstruction: float = 0.0


@dataclass(frozen=True, slots=True)
class SIPMSetting:
    """Weights of sIPM-LFR's loss: ``task``, ``fairness``, ``reconstruction`` (λ, λ_F, λ_R)."""

    task: float
    fairness: float
    reconstruction: float = 0.0


def leaky(slope: float) -> nn.LeakyReLU:
    """Leaky rectifier of this slope."""
    return nn.LeakyReLU(slope)


def balanced_mean(losses: Tensor, s: Tensor, shares: Tensor) -> Tensor:
    """Mean over records of loss / P(s), for each setting: each group weighs the same."""
    return (losses / torch.where(s > 0.5, shares[1], shares[0])).mean(-1)


def audit_loss(guess: Tensor, s: Tensor, shares: Tensor) -> Tensor:
    """|s − ŝ| / P(s), mean over records, for each setting."""
    return balanced_mean((guess - s).abs(), s, shares)


def sigmoid_ipm(scores: Tensor, s: Tensor) -> Tensor:
    """|mean of the discriminator in one group − mean in the other|, for each setting."""
    means = [(scores * own).sum(-1) / own.sum(-1).clamp(min=1.0) for own in (s, 1.0 - s)]
    return (means[0] - means[1]).abs()


def balanced_cross_entropy(logits: Tensor, s: Tensor, shares: Tensor) -> Tensor:
    """Cross-entropy of a guess at s, the mean of both groups' means, for each setting."""
    return balanced_mean(functional.softplus(logits) - logits * s, s, shares) / 2


class Opponent:
    """A network for each setting that guesses the group from a code.

    A steady one sees codes standardised over the batch, so that their scale is no way out, has two hidden layers, and
    takes several steps down the cross-entropy for each of the encoder's: a loss that is steepest where it is wrong.
    """

    def __init__(self, network: StackedMLP, optimizer: torch.optim.Optimizer, *, steady: bool) -> None:
        self.network = network
        self.optimizer = optimizer
        self.steady = steady

    def logits(self, z: Tensor) -> Tensor:
        """Return the guess at each record before the sigmoid: (settings, rows)."""
        if self.steady:
            z = (z - z.mean(1, keepdim=True)) / (z.std(1, keepdim=True) + 1e-4)
        return self.network(z).squeeze(-1)  # type: ignore[no-any-return]

    def guess(self, z: Tensor) -> Tensor:
        """Return the probability of s = 1 for each record: (settings, rows)."""
        return torch.sigmoid(self.logits(z))

    def learn(self, z: Tensor, s: Tensor, shares: Tensor) -> None:
        """Take a steady opponent's steps on one batch of codes."""
        for _ in range(STEADY_STEPS):
            descend(self.optimizer, balanced_cross_entropy(self.logits(z), s, shares).sum())


class LAFTRCodes:
    """Trained LAFTR encoders, one per setting. They take the group beside x unless they were trained without."""

    def __init__(self, encoder: StackedMLP, device: torch.device, *, sees_group: bool) -> None:
        self.encoder = encoder
        self.device = device
        self.sees_group = sees_group

    def encode(self, x: NDArray[np.float32], s: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Representation of each record: (settings, rows, size)."""
        return _encode(self.encoder, _laftr_inputs(x, s, self.sees_group), self.device)


def _laftr_inputs(x: NDArray[np.float32], s: NDArray[np.float32] | None, sees_group: bool) -> NDArray[np.float32]:
    if not sees_group:
        return x
    if s is None:
        raise ValueError("This encoder takes the group beside the record: pass s.")
    return np.column_stack([x, s]).astype(np.float32)


class SIPMCodes:
    """Trained sIPM-LFR encoders, one per setting of each split."""

    def __init__(self, encoder: StackedMLP, settings: int, device: torch.device) -> None:
        self.encoder = encoder
        self.settings = settings
        self.device = device

    def encode(
        self, x: NDArray[np.float32], s: NDArray[np.float32] | None = None, *, split: int = 0
    ) -> NDArray[np.float32]:
        """Representation of each record: (settings, rows, 60). The group is not needed."""
        return _encode(part(self.encoder, split, self.settings), x, self.device)


def _encode(encoder: nn.Module, x: NDArray[np.float32], device: torch.device) -> NDArray[np.float32]:
    with torch.no_grad():
        parts = [encoder(chunk.to(device)).cpu() for chunk in torch.split(torch.as_tensor(x), 1 << 15)]
    return torch.cat(parts, dim=1).numpy()


def train_laftr(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    s: NDArray[np.float32],
    settings: Sequence[LAFTRSetting],
    *,
    size: int = 32,
    hidden: tuple[int, int] = (100, 50),
    sees_group: bool = True,
    opponent: OpponentName = "published",
    epochs: int = 500,
    batch_size: int = 64,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    lengths: Lengths | None = None,
    fuse: bool = False,
) -> LAFTRCodes:
    """Train one LAFTR encoder for each setting.

    Encoder, classifier and decoder minimise L = ⅓·mean(|y − ŷ| + r·‖x − x̂‖²/d − g·|s − ŝ|/P(s)); the auditor
    minimises −L, or with ``opponent="steady"`` the cross-entropy of its guess. ``hidden``: width of encoder and
    decoder, and of classifier and auditor. ``sees_group``: whether the encoder's input has s beside x. ``fuse``: train
    with compiled code, whole (:mod:`~certifare_research.baselines.native`) where there is some for these sizes, else
    the losses.
    """
    place = pick_device(device)
    X, Y, S = (torch.as_tensor(a, device=place) for a in (_laftr_inputs(x, s, sees_group), y, s))
    k, d = len(settings), X.shape[1]
    wide, narrow = hidden
    weights = seeded(seed)

    def network(*sizes: int) -> StackedMLP:
        return StackedMLP(k, sizes, leaky(0.2), weights, init="xavier").to(place)

    steady = opponent == "steady"
    encoder, classifier = network(d, wide, size), network(size, narrow, 1)
    judge = network(size, *(STEADY_HIDDEN if steady else (narrow,)), 1)
    rebuilds = any(setting.reconstruction for setting in settings)
    decoder = network(size + 1, wide, d) if rebuilds else None
    model = nn.ModuleList([encoder, classifier, *([decoder] if decoder is not None else [])])
    model_adam = adam(model.parameters(), place)
    audit_adam = adam(judge.parameters(), place, lr=STEADY_RATE if steady else 1e-3)
    auditor = Opponent(judge, audit_adam, steady=steady)
    g = per_setting([setting.g for setting in settings], place)
    reconstruction = per_setting([setting.reconstruction for setting in settings], place)
    shares = torch.stack([1.0 - S.mean(), S.mean()])

    codes = LAFTRCodes(encoder, place, sees_group=sees_group)
    course: dict[str, Any] = {
        "epochs": epochs,
        "seed": seed,
        "device": place,
        "on_epoch": at_lengths(lengths, lambda: codes),
        "progress": progress,
        "max_steps": max_steps,
    }
    if fuse and not steady and decoder is None and native.able(place, (wide, size, narrow), batch_size, len(x)):
        native.train_natively((encoder, classifier, judge), g, _laftr_inputs(x, s, sees_group), y, s, **course)
        return codes

    def audit_of(z: Tensor, bs: Tensor) -> Tensor:
        return g * audit_loss(auditor.guess(z), bs, shares) / 3

    def model_loss_of(bx: Tensor, by: Tensor, bs: Tensor) -> Tensor:
        z = encoder(bx)
        loss = (torch.sigmoid(classifier(z)).squeeze(-1) - by).abs().mean(-1)
        if decoder is not None:
            rebuilt = decoder(with_group(z, bs))
            loss = loss + reconstruction * (rebuilt - bx).square().mean((-1, -2))
        return (loss / 3 - audit_of(z, bs)).sum()

    def codes_of(bx: Tensor) -> Tensor:
        with torch.no_grad():
            return encoder(bx)  # type: ignore[no-any-return]

    def auditor_loss_of(bx: Tensor, bs: Tensor) -> Tensor:
        return audit_of(codes_of(bx), bs).sum()

    model_loss, auditor_loss = fused(model_loss_of, fuse), fused(auditor_loss_of, fuse)

    def step(rows: Tensor) -> None:
        bx, by, bs = X[rows[0]], Y[rows[0]], S[rows[0]]
        descend(model_adam, model_loss(bx, by, bs))
        if steady:
            auditor.learn(codes_of(bx), bs, shares)
        else:
            descend(audit_adam, auditor_loss(bx, bs))

    train(step, [len(X)], batch_size=batch_size, **course)
    return codes


def train_sipm(
    x: Column,
    y: Column,
    s: Column,
    settings: Sequence[SIPMSetting],
    *,
    size: int = 60,
    opponent: OpponentName = "published",
    epochs: int = 300,
    batch_size: int = 512,
    lr: float = 0.02,
    seed: int = 100,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    lengths: Lengths | None = None,
    fuse: bool = False,
) -> SIPMCodes:
    """Train one sIPM-LFR encoder for each setting.

    Encoder, head and decoder minimise λ·BCE(y) + λ_F·|mean disc(z | s=0) − mean disc(z | s=1)| + λ_R·‖x − x̂‖²; after
    each of their steps the discriminator takes two to make the middle term large, or with ``opponent="steady"`` five
    to guess the group better.
    """
    place = pick_device(device)
    pools = Pools([x, y, s], place)
    k, splits, d = len(settings), len(pools.sizes), pools.columns[0].shape[1]
    weights = seeded(seed)
    encoder = StackedMLP(k * splits, (d, size, size), leaky(0.01), weights).to(place)
    head = StackedMLP(k * splits, (size, size, 1), torch.sigmoid, weights).to(place)
    steady = opponent == "steady"
    judge = StackedMLP(k * splits, (size, *(STEADY_HIDDEN if steady else ()), 1), torch.sigmoid, weights).to(place)
    rebuilds = any(setting.reconstruction for setting in settings)
    decoder = StackedMLP(k * splits, (size, size, d), leaky(0.01), weights).to(place) if rebuilds else None
    model = nn.ModuleList([encoder, head, *([decoder] if decoder is not None else [])])
    model_adam = adam(model.parameters(), place, lr=lr)
    judge_adam = adam(judge.parameters(), place, lr=STEADY_RATE if steady else lr)
    discriminator = Opponent(judge, judge_adam, steady=steady)
    share = per_setting([float(np.mean(own)) for own in by_split(s)], place).repeat_interleave(k).unsqueeze(1)
    shares = torch.stack([1.0 - share, share])
    task = per_setting([setting.task for setting in settings], place, splits)
    fairness = per_setting([setting.fairness for setting in settings], place, splits)
    reconstruction = per_setting([setting.reconstruction for setting in settings], place, splits)

    def gap(z: Tensor, s_: Tensor) -> Tensor:
        return sigmoid_ipm(discriminator.guess(z), s_)

    def model_loss_of(bx: Tensor, by: Tensor, bs: Tensor) -> Tensor:
        by, bs = each(by, k), each(bs, k)
        z = encoder(bx)
        logits = head(z).squeeze(-1)
        loss = task * (functional.softplus(logits) - logits * by).mean(-1) + fairness * gap(z, bs)
        if decoder is not None:
            loss = loss + reconstruction * (torch.sigmoid(decoder(z)) - each(bx, k)).square().sum(-1).mean(-1)
        return loss.sum()

    def judge_loss_of(z: Tensor, bs: Tensor) -> Tensor:
        return -(fairness * gap(z, each(bs, k))).sum()

    model_loss, judge_loss = fused(model_loss_of, fuse), fused(judge_loss_of, fuse)
    clip = fused(partial(clipped, most=5.0), fuse)

    def step(rows: Tensor) -> None:
        bx, by, bs = pools.take(rows)
        descend(model_adam, model_loss(bx, by, bs), clip)
        with torch.no_grad():
            z = encoder(bx)
        if steady:
            discriminator.learn(z, each(bs, k), shares)
            return
        for _ in range(2):
            descend(judge_adam, judge_loss(z, bs), clip)

    train(
        step,
        pools.sizes,
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=place,
        on_epoch=at_lengths(lengths, lambda: SIPMCodes(encoder, k, place)),
        progress=progress,
        max_steps=max_steps,
    )
    return SIPMCodes(encoder, k, place)
