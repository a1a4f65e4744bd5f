"""Stacks of small networks: one network for each hyper-parameter setting, all trained in the same batched products.

The methods here are cheap models with large grids of settings. A stack holds the weights of all settings in one
tensor (settings × inputs × outputs), so that a whole grid costs about as many kernel launches as one model. Every
setting starts from the same weights and sees the same batches and noise: its result does not depend on its neighbours
in the stack. A stack may hold the settings of several splits of a data set, one split behind the other; each split has
batches of its own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

Init = Literal["uniform", "xavier"]
Module = TypeVar("Module", bound=nn.Module)


def seeded(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a random number generator of its own."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return generator


class StackedMLP(nn.Module):
    """Networks of equal shape, one per setting.

    Parameters
    ----------
    settings : int
        How many networks.
    sizes : sequence of int
        Inputs, hidden layers, outputs.
    activation : callable
        Between layers, not after the last.
    generator : torch.Generator
        Draws the weights, equal for all settings.
    init : {"uniform", "xavier"}
        PyTorch's default for linear layers, or Xavier's for weights and biases.

    Examples
    --------
    >>> import torch
    >>> from certifare_research.baselines.networks import StackedMLP, seeded
    >>> stack = StackedMLP(3, (4, 8, 2), torch.relu, seeded(0))
    >>> stack(torch.ones(5, 4)).shape
    torch.Size([3, 5, 2])
    """

    def __init__(
        self,
        settings: int,
        sizes: Sequence[int],
        activation: Callable[[Tensor], Tensor],
        generator: torch.Generator,
        init: Init = "uniform",
    ) -> None:
        super().__init__()
        self.activation = activation
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for inputs, outputs in pairwise(sizes):
            weight = torch.empty(1, inputs, outputs)
            bias = torch.empty(1, 1, outputs)
            if init == "uniform":
                limits = 1 / math.sqrt(inputs), 1 / math.sqrt(inputs)
            else:
                limits = math.sqrt(6 / (inputs + outputs)), math.sqrt(3 / outputs)
            for tensor, limit in zip((weight, bias), limits, strict=True):
                tensor.uniform_(-limit, limit, generator=generator)
            self.weights.append(nn.Parameter(weight.repeat(settings, 1, 1)))
            self.biases.append(nn.Parameter(bias.repeat(settings, 1, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows, inputs), shared by all, or (settings, rows, inputs) to (settings, rows, outputs).

        Of several splits' settings, also (splits, rows, inputs).
        """
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = affine(x, weight, bias)
            if i < last:
                x = self.activation(x)
        return x


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Product with each setting's weights, plus its bias; x may be shared by all settings, or by those of a split."""
    if x.dim() == 2:
        x = x.unsqueeze(0)
    if len(x) == 1:
        x = x.expand(len(weight), -1, -1)
    if len(x) == len(weight):
        return torch.baddbmm(bias, x, weight)
    k = len(weight) // len(x)  # a product for each split: x need not be copied for each setting
    return torch.cat([affine(own, *of) for own, *of in zip(x, weight.split(k), bias.split(k), strict=True)])


def each(values: Tensor, settings: int) -> Tensor:
    """Repeat what a split has for each of its settings: (splits, ...) to (splits · settings, ...)."""
    return values.unsqueeze(1).expand(-1, settings, *values.shape[1:]).flatten(0, 1)


def joined(modules: Sequence[Module]) -> Module:
    """Return one stack of several of equal shape, one behind the other, as a copy."""
    stack = copy.deepcopy(modules[0])
    for own, *parts in zip(stack.parameters(), *[module.parameters() for module in modules], strict=True):
        own.data = torch.cat([part.detach() for part in parts])
    return stack


def part(module: Module, place: int, settings: int) -> Module:
    """Return one split's settings of a stack, as a copy: the place-th so many."""
    stack = copy.deepcopy(module)
    for own in stack.parameters():
        own.data = own.data[place * settings : (place + 1) * settings]
    return stack


def adam(
    parameters: Iterable[Tensor],
    device: torch.device,
    *,
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    eps: float = 1e-8,
) -> torch.optim.Adam:
    """Adam whose steps can be captured in a CUDA graph; its rate is a tensor, so that a schedule can change it."""
    on_gpu = device.type == "cuda"
    rate = torch.tensor(lr, device=device) if on_gpu else lr
    return torch.optim.Adam(
        list(parameters), lr=rate, weight_decay=weight_decay, eps=eps, fused=on_gpu or None, capturable=on_gpu
    )


def scale_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Multiply the learning rate, in place where it is a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].mul_(factor)
        else:
            group["lr"] *= factor


def clipped(gradients: Sequence[Tensor], most: float) -> list[Tensor]:
    """Limit the norm of each setting's gradient, as if it were trained alone."""
    square = torch.stack([g.square().flatten(1).sum(1) for g in gradients]).sum(0)
    scale = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)
    return [g * scale.view(-1, *([1] * (g.dim() - 1))) for g in gradients]


def descend(
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    clip: Callable[[Sequence[Tensor]], Sequence[Tensor]] | None = None,
) -> None:
    """Take one step down ``loss`` in the optimiser's parameters alone; ``clip`` limits its gradients."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    gradients: Sequence[Tensor] = torch.autograd.grad(loss, parameters)
    if clip is not None:
        gradients = clip(gradients)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.contiguous()  # fused optimisers want the parameters' own memory order
    optimizer.step()


def with_group(z: Tensor, s: Tensor) -> Tensor:
    """Codes (settings, rows, size), and the group of each record, (rows) or (settings, rows), behind them."""
    return torch.cat([z, s.expand(len(z), -1).unsqueeze(-1)], dim=-1)


def per_setting(values: Sequence[float], device: torch.device, splits: int = 1) -> Tensor:
    """Hyper-parameters as a tensor, one entry per setting (of each split)."""
    return torch.tensor(list(values) * splits, dtype=torch.float32, device=device)
