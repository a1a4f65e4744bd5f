"""LAFTR's training as compiled code (``laftr.cu``): on a GPU each network is trained by a block of threads.

The published 500 epochs are 2.7 million steps on ACSIncome-US, and in PyTorch a step of so small a network is sixty
operations of some microseconds each. The compiled code takes the same steps, with rounding of its own.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from certifare_research.baselines.loop import Progress, epochs_of, steps_per_epoch
from certifare_research.baselines.networks import StackedMLP

SOURCE = Path(__file__).with_name("laftr.cu")
BATCH = 64
#: Widths of encoder, code and heads that the code is compiled for.
SHAPES = frozenset({(100, 32, 50), (100, 8, 50), (20, 32, 20), (20, 8, 20)})
RATE, BETAS = 1e-3, (0.9, 0.999)
#: Steps after which Adam's corrections are one in single precision.
CORRECTED = 1 << 15


class _Problem(ctypes.Structure):
    """What ``laftr.cu`` calls Problem."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("numbers", "columns", "y", "s", "rows", "small", "wide", "last")),
        ("g", ctypes.c_void_p),
        ("rates", ctypes.c_void_p),
        ("share0", ctypes.c_float),
        ("share1", ctypes.c_float),
        *((name, ctypes.c_int) for name in ("dense", "ones", "width", "steps", "before", "known")),
    )


def compiler(device: torch.device) -> str | None:
    """Return the compiler for a device, where there is one."""
    return shutil.which("nvcc" if device.type == "cuda" else "g++")


def able(device: torch.device, shape: tuple[int, int, int], batch_size: int, records: int) -> bool:
    """Whether there is compiled code for such a training."""
    return shape in SHAPES and min(batch_size, records) == BATCH and compiler(device) is not None


@cache
def _library(kind: str) -> Any:
    """Compile once per process."""
    device = torch.device(kind)
    folder = Path(tempfile.mkdtemp(prefix="certifare-"))
    target = folder / "laftr.so"
    command = [str(compiler(device)), "-O3", "-shared", "-o", str(target)]
    if kind == "cuda":
        major, minor = torch.cuda.get_device_capability()
        command += [f"-arch=sm_{major}{minor}", "-Xcompiler", "-fPIC"]
    else:
        command += ["-fPIC", "-Wno-unknown-pragmas", "-x", "c++"]
    subprocess.run([*command, str(SOURCE)], check=True)  # noqa: S603 - our own source
    library = ctypes.CDLL(str(target))
    shutil.rmtree(folder)
    library.laftr.argtypes = [_Problem, *[ctypes.c_int] * 4, ctypes.c_void_p]
    return library.laftr


def train_natively(
    networks: tuple[StackedMLP, StackedMLP, StackedMLP],
    g: Tensor,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    s: NDArray[np.float32],
    *,
    epochs: int,
    seed: int,
    device: torch.device,
    on_epoch: Callable[[int], None],
    progress: Progress | None = None,
    max_steps: int | None = None,
) -> None:
    """Train encoders, classifiers and auditors of all settings in place."""
    encoder, classifier = networks[:2]
    k, _, hidden = encoder.weights[0].shape
    size, narrow = classifier.weights[0].shape[1:]
    bits = ((x == 0) | (x == 1)).all(0)
    numbers, columns = x[:, ~bits], _ones(x[:, bits])
    dense_at, bits_at = (torch.as_tensor(np.flatnonzero(of), device=device) for of in (~bits, bits))

    def put(array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=device)

    def parts() -> list[Tensor]:
        """Small weights, in the order of ``laftr.cu``; the first are copies."""
        others = [p for net in networks for pair in zip(net.weights, net.biases, strict=True) for p in pair][1:]
        return [encoder.weights[0][:, dense_at], *others]

    small = torch.cat([p.detach().reshape(k, -1) for p in parts()], dim=1)
    small = torch.stack([small, torch.zeros_like(small), torch.zeros_like(small)], dim=1).contiguous()
    wide = encoder.weights[0].detach()[:, bits_at]
    wide = torch.stack([wide, torch.zeros_like(wide), torch.zeros_like(wide)], dim=1).contiguous()
    steps = np.arange(1, CORRECTED + 1, dtype=np.float64)
    rates = np.stack([RATE / (1 - BETAS[0] ** steps), 1 / np.sqrt(1 - BETAS[1] ** steps)], axis=1)
    kept = {
        "numbers": put(numbers),
        "columns": put(columns),
        "y": put(y),
        "s": put(s),
        "small": small,
        "wide": wide,
        "last": torch.zeros((k, len(bits_at)), dtype=torch.int32, device=device),
        "g": g.contiguous(),
        "rates": put(rates.astype(np.float32)),
    }
    problem = _Problem(**{name: tensor.data_ptr() for name, tensor in kept.items()})
    problem.share1 = float(s.mean())
    problem.share0 = 1.0 - problem.share1
    problem.dense, problem.ones, problem.width = numbers.shape[1], columns.shape[1], len(bits_at)
    problem.known = CORRECTED
    call = _library(device.type)
    stream = torch.cuda.current_stream().cuda_stream if device.type == "cuda" else None

    def run(rows: Tensor | None) -> None:
        problem.rows, problem.steps = (None, 0) if rows is None else (rows.data_ptr(), len(rows))
        status = call(problem, hidden, size, narrow, k, stream)
        if status:
            raise RuntimeError(f"laftr.cu ended with CUDA error {status}.")
        problem.before += problem.steps

    def write() -> None:
        """Hand the weights over to the networks."""
        run(None)
        with torch.no_grad():
            encoder.weights[0][:, bits_at] = wide[:, 0]
            at = 0
            for i, part in enumerate(parts()):
                own = small[:, 0, at : at + part[0].numel()].view(part.shape)
                at += part[0].numel()
                if i:
                    part.copy_(own)
                else:
                    encoder.weights[0][:, dense_at] = own

    total = steps_per_epoch([len(x)], BATCH) * epochs
    total = total if max_steps is None else min(total, max_steps)
    for epoch, rows in epochs_of([len(x)], BATCH, epochs, seed, device):
        write()
        on_epoch(epoch)
        if progress is not None:
            progress(problem.before, total)
        run(rows[: total - problem.before, 0].to(torch.int32).contiguous())
        if problem.before == total:
            break
    write()
    if device.type == "cuda":
        torch.cuda.current_stream().synchronize()
    if progress is not None:
        progress(total, total)


def _ones(bits: NDArray[np.float32]) -> NDArray[np.int32]:
    """Numbers of the columns that are one, for each record, filled up with -1."""
    records, columns = np.nonzero(bits)
    counts = np.bincount(records, minlength=len(bits))
    listed = np.full((len(bits), max(1, counts.max(initial=0))), -1, dtype=np.int32)
    listed[records, np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)] = columns
    return listed
