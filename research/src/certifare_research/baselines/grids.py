"""The paper's grids: which settings each method is run with, and a grid trained at once.

``thin`` keeps at most so many settings, spread evenly; ``effort`` scales epochs (1 is the published configuration;
FairPath's iterations, one batch each, are never scaled). Needs PyTorch and NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from certifare_research.baselines.adversarial import LAFTRSetting, SIPMSetting, train_laftr, train_sipm
from certifare_research.baselines.arrays import Arrays
from certifare_research.baselines.fairpath import FairPathSetting, train_fairpath
from certifare_research.baselines.fnf_continuous import FlowSetting, train_fnf_continuous
from certifare_research.baselines.fnf_discrete import MatchingSetting, train_fnf_discrete
from certifare_research.baselines.loop import Progress
from certifare_research.baselines.variational import CVIBSetting, FCRLSetting, train_cvib, train_fcrl
from certifare_research.evenly import evenly

METHODS = ("LAFTR", "CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath")
#: Methods whose published configuration hides little from an adversary, changed so that they hide more.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LAFTR steady": (
        "LAFTR",
        {"opponent": "steady", "sees_group": False, "size": 8, "batch_size": 512, "epochs": 100},
    ),
    "sIPM-LFR steady": ("sIPM-LFR", {"opponent": "steady", "size": 8, "lr": 1e-3, "epochs": 100}),
    "FairPath narrow": ("FairPath", {"size": 8}),
}
IDENTITY = "identity"
#: Methods that train several splits in one stack (FNF where it is a flow of numbers).
STACKED = ("CVIB", "FCRL", "sIPM-LFR", "sIPM-LFR steady", "FNF")
#: Columns of Health's design matrix that the continuous flow uses.
HEALTH_FLOW_COLUMNS = (2, 3, 4, 5, 8, 19, 33, 61, 71, 77, 92)
TRANSFER_FLOW_COLUMNS = (0, 1, 2, 3, 16, 31, 44)


@dataclass(frozen=True, slots=True)
class IdentitySetting:
    """The unfair baseline: records as they are."""


class Trained(Protocol):
    """Encoders of all settings of a grid."""

    def encode(self, x: Any, s: Any) -> NDArray[np.float32]:
        """Representations: (settings, records, size)."""


def grid(method: str, family: str, thin: int | None = None) -> list[Any]:
    """Return the settings of a method for a family of data sets ("acs", "health", "transfer"), mildest first.

    >>> from certifare_research.baselines.grids import grid
    >>> len(grid("CVIB", "acs")), grid("FCRL", "health", thin=2)
    (57, [FCRLSetting(lambda_=0.01, beta=0.005), FCRLSetting(lambda_=2.0, beta=1.0)])
    """
    cents, tenths = [i / 100 for i in range(1, 10)], [i / 10 for i in range(1, 11)]
    settings: list[Any]
    if method == IDENTITY:
        settings = [IdentitySetting()]
    elif method == "CVIB":
        settings = [CVIBSetting(a, b) for b in (0.001, 0.01, 0.1) for a in cents + tenths]
    elif method == "FCRL":
        ratio = 1.0 if family == "acs" else 0.5
        settings = [FCRLSetting(a, a * ratio) for a in cents + [i / 10 for i in range(1, 21)]]
    elif method == "LAFTR":
        middle = [*tenths, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
        if family == "acs":
            gs = [*middle, *(i / 2 for i in range(10, 18)), 10.0, 18.0, 20.0, 50.0, 100.0, 500.0, 1e3, 1e4]
            settings = [LAFTRSetting(g) for g in gs]
        else:
            gs = [1e-4, 1e-3, 1e-2, *middle, 10.0, 50.0]
            settings = [LAFTRSetting(g, r) for r in ((0.0, 1.0) if family == "transfer" else (0.0,)) for g in gs]
    elif method == "sIPM-LFR":
        tasks = (1.0, 0.1, 1e-2, 1e-3, 1e-4)
        all_strengths = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 50.0, 100.0)
        strengths = all_strengths if family == "acs" else (0.1, 1.0, 10.0, 50.0)
        settings = [SIPMSetting(t, f) for t in tasks for f in strengths]
        if family == "transfer":  # the authors' stored runs, not the grid of their script
            few = dict.fromkeys((0.0001, 0.001, 0.01, 10.0), (10.0, 50.0, 100.0))
            stored = {**few, 0.1: (0.1, 1.0, 10.0, 50.0, 100.0), 1.0: all_strengths}
            settings = [SIPMSetting(t, f, r) for r in (0.0, 1.0) for t, own in stored.items() for f in own]
    elif method == "LAFTR steady":
        settings = [LAFTRSetting(g) for g in (0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)]
    elif method == "sIPM-LFR steady":
        settings = [SIPMSetting(1.0, f) for f in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)]
    elif method in ("FairPath", "FairPath narrow"):
        kappas = (0.0, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0)
        settings = [FairPathSetting(kappa) for kappa in kappas]
    elif method == "FNF" and family == "acs":
        gammas = [0.0, 0.01, 0.02, 0.04, 0.06, 0.08, *[i / 10 for i in range(1, 11)]]
        settings = [MatchingSetting(gamma) for gamma in gammas]
    elif method == "FNF":
        settings = [FlowSetting(gamma) for gamma in (0.0, 0.05, 0.1, 0.2, 0.5, 0.95)]
    else:
        raise ValueError(f"There is no method {method!r}: choose one of {', '.join([*METHODS, *VARIANTS])}.")
    return evenly(settings, thin)


def stacks(method: str, family: str) -> bool:
    """Whether a method trains several splits in one stack."""
    return method in STACKED and (method != "FNF" or family != "acs")


def describe(setting: Any) -> dict[str, float]:
    """Hyper-parameters by name."""
    return {name.rstrip("_"): float(value) for name, value in asdict(setting).items()}


def arguments(method: str, family: str, effort: float = 1.0, **changes: Any) -> dict[str, Any]:
    """Return the published arguments of a method's training, epochs scaled by ``effort``, with changes.

    >>> from certifare_research.baselines.grids import arguments
    >>> arguments("LAFTR", "acs", effort=0.1, size=8)
    {'size': 8, 'hidden': (100, 50), 'epochs': 50, 'batch_size': 64}
    >>> arguments("FairPath", "acs", effort=0.1)
    {'size': 200, 'iterations': 1000, 'batch_size': 128}
    """
    method, own = VARIANTS.get(method, (method, {}))
    health = family != "acs"
    published: dict[str, Any]
    if method == IDENTITY:
        published = {}
    elif method in ("CVIB", "FCRL"):
        published = {"hidden": 100 if health else 50, "epochs": 200, "batch_size": 128}
    elif method == "LAFTR":
        size = {"acs": 32, "health": 8, "transfer": 20}[family]
        published = {"size": size, "hidden": (20, 20) if health else (100, 50), "epochs": 500, "batch_size": 64}
    elif method == "sIPM-LFR":
        published = {"size": 60, "epochs": 300, "batch_size": 512, "lr": 0.02}
    elif method == "FairPath":
        published = {"size": 200, "iterations": 2000 if health else 1000, "batch_size": 128}
    elif method == "FNF" and not health:
        published = {"epochs": 100}
    elif method == "FNF":
        epochs, ramp = (60, 5) if family == "transfer" else (80, 10)
        published = {"prior_epochs": 80, "epochs": epochs, "ramp_epochs": ramp, "batch_size": 256}
    else:
        raise ValueError(f"There is no method {method!r}: choose one of {', '.join([*METHODS, *VARIANTS])}.")
    published |= own | changes
    return {k: max(1, round(v * effort)) if k in ("epochs", "prior_epochs") else v for k, v in published.items()}


def encode_grids(
    method: str,
    splits: Sequence[Arrays],
    settings: Sequence[Any],
    *,
    effort: float = 1.0,
    seed: int = 0,
    metric: str = "demographic_parity",
    device: Any = None,
    progress: Progress | None = None,
    shorter: Mapping[float, Callable[[list[NDArray[np.float32]]], None]] | None = None,
    fuse: bool = False,
    **changes: Any,
) -> list[NDArray[np.float32]]:
    """Train all settings on the training records of each split and encode every record: (settings, records, size).

    Splits of equal width are trained in one stack by the methods in ``STACKED``, with as many steps as one; by others,
    several are refused. ``shorter`` has shares of the epochs after which the encoders so far are used as well (not for
    methods whose learning rate follows a plan), and what is called with their codes. ``fuse``: compile their losses, as
    :func:`~certifare_research.baselines.loop.fused` says. ``changes`` are arguments of the training.
    """
    family = splits[0].family
    if len(splits) > 1 and not stacks(method, family):
        raise ValueError(f"{method} is trained on one split at a time here.")
    if method == IDENTITY:
        return [splits[0].matrix()[None]]
    options = arguments(method, family, effort, **changes)
    options |= {"seed": seed, "device": device, "progress": progress}
    method = VARIANTS.get(method, (method, {}))[0]

    def inputs(arrays: Arrays) -> NDArray[Any]:
        if method != "FNF":
            return arrays.matrix()
        if family != "acs":
            return arrays.matrix()[:, TRANSFER_FLOW_COLUMNS if family == "transfer" else HEALTH_FLOW_COLUMNS]
        if arrays.discrete is None:
            raise ValueError("FNF on this family of data needs category numbers.")
        return arrays.discrete

    def encoded(codes: Any) -> list[NDArray[np.float32]]:
        which = [{"split": i} for i in range(len(splits))] if len(splits) > 1 else [{}]
        return [codes.encode(inputs(a), a.s.astype(np.float32), **own) for a, own in zip(splits, which, strict=True)]

    if method != "FairPath":
        options["fuse"] = fuse
    if method == "FNF":
        options |= {"sizes": splits[0].discrete_sizes} if family == "acs" else {"metric": metric}
    elif method != "FairPath":
        options["lengths"] = {
            round(options["epochs"] * share): lambda codes, use=use: use(encoded(codes))
            for share, use in (shorter or {}).items()
        }
    trainers: dict[str, Callable[..., Trained]] = {
        "CVIB": train_cvib,
        "FCRL": train_fcrl,
        "LAFTR": train_laftr,
        "sIPM-LFR": train_sipm,
        "FairPath": train_fairpath,
        "FNF": train_fnf_discrete if family == "acs" else train_fnf_continuous,
    }
    x = [inputs(arrays)[arrays.train] for arrays in splits]
    if len({own.shape[1] for own in x}) > 1:
        raise ValueError(f"Splits of one stack must be equally wide, not {[own.shape[1] for own in x]} columns.")
    y, s = ([getattr(a, of)[a.train].astype(np.float32) for a in splits] for of in ("y", "s"))
    columns = (x, y, s) if len(splits) > 1 else (x[0], y[0], s[0])
    return encoded(trainers[method](*columns, settings, **options))


def encode_grid(
    method: str,
    arrays: Arrays,
    settings: Sequence[Any],
    *,
    shorter: Mapping[float, Callable[[NDArray[np.float32]], None]] | None = None,
    **options: Any,
) -> NDArray[np.float32]:
    """Do as :func:`encode_grids`, for one split."""
    uses = {share: lambda codes, use=use: use(codes[0]) for share, use in (shorter or {}).items()}
    return encode_grids(method, [arrays], settings, shorter=uses, **options)[0]
