"""What a consumer might train on a representation, and how unfair it can get.

``outcomes`` holds what a classifier did as counts; ``protocol`` trains classifiers as the paper does, and an
adversary; ``stacked`` trains the paper's network for many representations at once (PyTorch).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certifare_research.evaluation.classifiers import CLASSIFIERS, OTHERS, TWELVE, make_classifier
    from certifare_research.evaluation.outcomes import Evaluation, Outcome
    from certifare_research.evaluation.protocol import attack, evaluate, twenty_four
    from certifare_research.evaluation.stacked import predict_stacked

# Loaded when first asked for: the stacked networks need PyTorch, and a bare GPU machine has little else.
_HOME = {
    "CLASSIFIERS": "classifiers",
    "OTHERS": "classifiers",
    "TWELVE": "classifiers",
    "Evaluation": "outcomes",
    "Outcome": "outcomes",
    "attack": "protocol",
    "evaluate": "protocol",
    "make_classifier": "classifiers",
    "predict_stacked": "stacked",
    "twenty_four": "protocol",
}

__all__ = [
    "CLASSIFIERS",
    "OTHERS",
    "TWELVE",
    "Evaluation",
    "Outcome",
    "attack",
    "evaluate",
    "make_classifier",
    "predict_stacked",
    "twenty_four",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"certifare_research.evaluation.{_HOME[name]}"), name)
    raise AttributeError(f"module 'certifare_research.evaluation' has no attribute {name!r}")
