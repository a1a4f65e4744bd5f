"""The training loop: shuffled batches of row numbers, kept on the device; a CUDA graph where there is a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from certifare_research.baselines.networks import seeded

Step = Callable[[Sequence[Tensor]], None]
Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""

WARM_UP_STEPS = 3
_CAPTURE = threading.Lock()
"""Threads may train side by side on streams of their own, but only one may capture a graph at a time."""


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


def batches(
    pools: Sequence[int], batch_size: int, epochs: int, seed: int, device: torch.device
) -> Iterator[tuple[int, Tensor]]:
    """Yield the epoch and the rows of each step: (pools, batch) numbers, drawn without replacement within an epoch.

    A pool is a set of records from which each step takes its own batch (all records, or one pool per group). An epoch
    ends with the smallest pool; its incomplete last batch is left out, and every epoch has an order of its own.
    """
    generator = seeded(seed, device)
    size = min(batch_size, *pools)
    steps = min(pools) // size
    for epoch in range(epochs):
        orders = [torch.randperm(n, generator=generator, device=device)[: steps * size] for n in pools]
        for rows in torch.stack(orders).view(len(pools), steps, size).unbind(1):
            yield epoch, rows


def steps_per_epoch(pools: Sequence[int], batch_size: int) -> int:
    """Return how many steps an epoch of :func:`batches` has."""
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
) -> int:
    """Call ``step`` with the rows of every batch, and return how many steps were taken.

    Parameters
    ----------
    step : callable
        Takes one batch of row numbers per pool and updates parameters in place. On a GPU it is captured once as a graph
        and replayed, so it must not depend on Python values that change.
    pools, batch_size, epochs, seed
        See :func:`batches`.
    generators : sequence of torch.Generator
        Those that the step draws noise from.
    on_epoch : callable, optional
        Called with the number of each epoch before it begins, for schedules; True ends the training.
    progress : callable, optional
    max_steps : int, optional
        Stop after so many steps.
    """
    total = steps_per_epoch(pools, batch_size) * epochs
    total = total if max_steps is None else min(total, max_steps)
    with one_thread():
        return _run(step, pools, batch_size, epochs, seed, device, generators, on_epoch, progress, total)


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
) -> int:
    run = _Captured(step, generators) if device.type == "cuda" else step
    done, current = 0, -1
    for epoch, rows in batches(pools, batch_size, epochs, seed, device):
        if epoch != current:
            current = epoch
            if on_epoch is not None and on_epoch(epoch):
                break
            if progress is not None:
                progress(done, total)
        run(rows)
        done += 1
        if done == total:
            break
    if device.type == "cuda":
        torch.cuda.current_stream().synchronize()
    if progress is not None:
        progress(done, total)
    return done


class _Captured:
    """A step that runs as written a few times, then as one CUDA graph."""

    def __init__(self, step: Step, generators: Sequence[torch.Generator]) -> None:
        self.step = step
        self.generators = generators
        self.calls = 0
        self.rows: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, rows: Tensor) -> None:
        if self.graph is None and self.calls < WARM_UP_STEPS:
            self.calls += 1
            self.step(rows)
            return
        if self.graph is None or self.rows is None:
            self.rows = rows.clone()
            self.graph = torch.cuda.CUDAGraph()
            with _CAPTURE:
                for generator in self.generators:
                    self.graph.register_generator_state(generator)
                torch.cuda.current_stream().synchronize()
                with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                    self.step(self.rows)
        self.rows.copy_(rows)
        self.graph.replay()
