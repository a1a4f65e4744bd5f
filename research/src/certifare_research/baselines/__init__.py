"""Published methods for fair representations, in PyTorch (extra: ``baselines``).

LAFTR, CVIB, FCRL, FNF (on categories and on numbers), sIPM-LFR, FairPath, and the identity. Models and training loops
need PyTorch and NumPy alone; the scikit-learn transformers are in :mod:`~certifare_research.baselines.transformers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certifare_research.baselines.transformers import (
        CVIB,
        FCRL,
        LAFTR,
        SIPMLFR,
        Baseline,
        ContinuousFNF,
        DiscreteFNF,
        FairPath,
        Identity,
    )

__all__ = [
    "CVIB",
    "FCRL",
    "LAFTR",
    "SIPMLFR",
    "Baseline",
    "ContinuousFNF",
    "DiscreteFNF",
    "FairPath",
    "Identity",
]


def __getattr__(name: str) -> Any:
    # PyTorch is an extra: it is imported when a method is first asked for.
    if name in __all__:
        try:
            return getattr(import_module("certifare_research.baselines.transformers"), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ModuleNotFoundError(
                "The published methods need PyTorch: pip install 'certifare-research[baselines]'.", name="torch"
            ) from error
    raise AttributeError(f"module 'certifare_research.baselines' has no attribute {name!r}")
