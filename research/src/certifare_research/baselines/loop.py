"""The training loop: shuffled batches of row numbers, kept on the device; a CUDA graph where there is a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from certifare_research.baselines.networks import seeded

Step = Callable[[Tensor], None]
Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""
Column = NDArray[np.float32] | Sequence[NDArray[np.float32]]
"""An array of one split, or one for each of several."""

WARM_UP_STEPS = 3
#: Steps that one CUDA graph holds: launching them one by one would take longer than computing them.
UNROLLED = 16
_CAPTURE = threading.Lock()
"""Threads may train side by side on streams of their own, but only one may capture a graph at a time."""


Lengths = Mapping[int, Callable[[Any], None]]
"""Epochs after which a training hands over what it has so far, and to whom: shorter trainings for nothing."""


def at_lengths(lengths: Lengths | None, trained: Callable[[], Any]) -> Callable[[int], None]:
    """Return what :func:`train` is to call before each epoch, so that each length is handed over."""

    def on_epoch(epoch: int) -> None:
        if lengths and epoch in lengths:
            lengths[epoch](trained())

    return on_epoch


def fused(function: Callable[..., Any], fuse: bool) -> Callable[..., Any]:
    """Return the function compiled, if asked: its small operations become few (on a GPU, this needs Triton).

    Compiling takes half a minute, so it pays for long trainings.
    """
    if not fuse:
        return function
    from torch._dynamo import config

    config.recompile_limit = 1000  # functions of equal text count as one that is compiled again
    return torch.compile(function, fullgraph=True, dynamic=False)


def pick_device(device: str | torch.device | None = None) -> torch.device:
    """Return the device asked for; else a GPU where there is one, else the CPU."""
    if device is not None:
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one CPU thread: these products are far too small to share."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def by_split(column: Column) -> list[NDArray[np.float32]]:
    """Return an array for each split."""
    return [column] if isinstance(column, np.ndarray) else list(column)


class Pools:
    """Records that batches are taken from: a pool for each split, or for each group of each split.

    Parameters
    ----------
    columns : sequence
        What is known of the records, such as x and y: each an array, or for several pools one for each.
    device : torch.device

    Examples
    --------
    >>> import torch
    >>> from certifare_research.baselines.loop import Pools
    >>> pools = Pools([[torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])]], torch.device("cpu"))
    >>> pools.sizes, pools.take(torch.tensor([[0], [2]]))
    ([2, 3], [tensor([[1.],
            [5.]])])
    """

    def __init__(self, columns: Sequence[Any], device: torch.device) -> None:
        self.sizes = [len(own) for own in by_split(columns[0])]
        self.columns = [torch.cat([torch.as_tensor(own).to(device) for own in by_split(column)]) for column in columns]
        starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)
        self.starts = starts.unsqueeze(1).to(device)

    def take(self, rows: Tensor) -> list[Tensor]:
        """Return what is known of these records, (pools, batch) numbers, each (pools, batch, ...)."""
        rows = rows + self.starts
        return [column[rows] for column in self.columns]


def epochs_of(
    pools: Sequence[int], batch_size: int, epochs: int, seed: int, device: torch.device
) -> Iterator[tuple[int, Tensor]]:
    """Yield each epoch and its rows: (steps, pools, batch) numbers, drawn without replacement.

    A pool is a set of records from which each step takes its own batch (all records, or one pool per group). An epoch
    ends with the smallest pool; its incomplete last batch is left out, and every epoch has an order of its own.
    """
    generator = seeded(seed, device)
    size = min(batch_size, *pools)
    steps = min(pools) // size
    for epoch in range(epochs):
        orders = [torch.randperm(n, generator=generator, device=device)[: steps * size] for n in pools]
        yield epoch, torch.stack(orders).view(len(pools), steps, size).transpose(0, 1).contiguous()


def steps_per_epoch(pools: Sequence[int], batch_size: int) -> int:
    """Return how many steps an epoch of :func:`epochs_of` has."""
    return min(pools) // min(batch_size, *pools)


def train(
    step: Step,
    pools: Sequence[int],
    *,
    batch_size: int,
    epochs: int,
    seed: int,
    device: torch.device,
    generators: Sequence[torch.Generator] = (),
    on_epoch: Callable[[int], bool | None] | None = None,
    progress: Progress | None = None,
    max_steps: int | None = None,
    unrolled: int = UNROLLED,
) -> int:
    """Call ``step`` with the rows of every batch, and return how many steps were taken.

    Parameters
    ----------
    step : callable
        Takes one batch of row numbers per pool, (pools, batch), and updates parameters in place. On a GPU it is
        captured once as a graph and replayed, so it must not depend on Python values that change.
    pools, batch_size, epochs, seed
        See :func:`epochs_of`.
    generators : sequence of torch.Generator
        Those that the step draws noise from.
    on_epoch : callable, optional
        Called with the number of each epoch before it begins, for schedules; True ends the training.
    progress : callable, optional
    max_steps : int, optional
        Stop after so many steps.
    unrolled : int
        Steps in one CUDA graph; fewer where a step is long.
    """
    total = steps_per_epoch(pools, batch_size) * epochs
    total = total if max_steps is None else min(total, max_steps)
    with one_thread():
        return _run(step, pools, batch_size, epochs, seed, device, generators, on_epoch, progress, total, unrolled)


def _run(
    step: Step,
    pools: Sequence[int],
    batch_size: int,
    epochs: int,
    seed: int,
    device: torch.device,
    generators: Sequence[torch.Generator],
    on_epoch: Callable[[int], bool | None] | None,
    progress: Progress | None,
    total: int,
    unrolled: int,
) -> int:
    run = _Captured(step, generators, unrolled) if device.type == "cuda" else _one_by_one(step)
    done = 0
    for epoch, rows in epochs_of(pools, batch_size, epochs, seed, device):
        if on_epoch is not None and on_epoch(epoch):
            break
        if progress is not None:
            progress(done, total)
        run(rows[: total - done])
        done += min(len(rows), total - done)
        if done == total:
            break
    if device.type == "cuda":
        torch.cuda.current_stream().synchronize()
    if progress is not None:
        progress(done, total)
    return done


def _one_by_one(step: Step) -> Callable[[Tensor], None]:
    def run(rows: Tensor) -> None:
        for own in rows.unbind(0):
            step(own)

    return run


class _Captured:
    """A step that runs as written a few times, then in CUDA graphs of several steps."""

    def __init__(self, step: Step, generators: Sequence[torch.Generator], unrolled: int) -> None:
        self.step = step
        self.generators = generators
        self.unrolled = unrolled
        self.calls = 0
        self.graphs: dict[int, tuple[Tensor, torch.cuda.CUDAGraph]] = {}

    def __call__(self, rows: Tensor) -> None:
        """Run the steps of an epoch: (steps, pools, batch)."""
        at = 0
        while at < len(rows):
            if self.calls < WARM_UP_STEPS:
                self.calls += 1
                self.step(rows[at])
                at += 1
                continue
            several = self.unrolled if len(rows) - at >= self.unrolled else 1
            kept, graph = self.graphs.get(several) or self._capture(rows[at : at + several])
            kept.copy_(rows[at : at + several])
            graph.replay()
            at += several

    def _capture(self, rows: Tensor) -> tuple[Tensor, torch.cuda.CUDAGraph]:
        kept, graph = rows.clone(), torch.cuda.CUDAGraph()
        with _CAPTURE:
            for generator in self.generators:
                graph.register_generator_state(generator)
            torch.cuda.current_stream().synchronize()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for own in kept.unbind(0):
                    self.step(own)
        self.graphs[len(rows)] = kept, graph
        return kept, graph
