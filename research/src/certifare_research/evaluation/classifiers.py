"""What a consumer might train: the paper's downstream classifiers, as scikit-learn estimators.

Names: ``mlp50`` is the paper's protocol. ``raw-`` means without standardisation, as the paper trains trees and some
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier


def _mlp(*hidden: int) -> Callable[[int], Any]:
    return lambda seed: MLPClassifier(hidden, max_iter=1000, n_iter_no_change=10, random_state=seed)


def _logistic(seed: int) -> Any:
    return LogisticRegression(C=1.0, max_iter=1000, random_state=seed)


def _forest(trees: int) -> Callable[[int], Any]:
    return lambda seed: RandomForestClassifier(trees, random_state=seed)


def _tree(leaves: int | None) -> Callable[[int], Any]:
    return lambda seed: DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)


def _svm(seed: int) -> Any:
    return SVC(random_state=seed)


def _standardised(make: Callable[[int], Any]) -> Callable[[int], Any]:
    return lambda seed: make_pipeline(StandardScaler(), make(seed))


#: Name to a function of the seed that makes the classifier.
CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "mlp50": _standardised(_mlp(50)),
    "mlp50-50": _standardised(_mlp(50, 50)),
    "mlp200": _standardised(_mlp(200)),
    "mlp200-100": _standardised(_mlp(200, 100)),
    "logistic": _standardised(_logistic),
    "forest100": _standardised(_forest(100)),
    "raw-mlp50": _mlp(50),
    "raw-mlp50-50": _mlp(50, 50),
    "raw-logistic": _logistic,
    "raw-forest100": _forest(100),
    "raw-forest1000": _forest(1000),
    "raw-tree100": _tree(100),
    "raw-tree2500": _tree(2500),
    "raw-tree": _tree(None),
    "svm": _standardised(_svm),
}
#: The paper's twelve models; each is trained to predict the label, and again to predict the group.
TWELVE = tuple(name for name in CLASSIFIERS if name not in ("raw-tree", "raw-tree2500", "svm"))


def make_classifier(name: str, seed: int = 0) -> Any:
    """Return an untrained classifier.

    >>> from certifare_research.evaluation.classifiers import make_classifier
    >>> type(make_classifier("raw-tree100")).__name__
    'DecisionTreeClassifier'
    """
    if name not in CLASSIFIERS:
        from certifare.errors import ArgumentError

        raise ArgumentError(f"There is no classifier {name!r}: choose one of {', '.join(CLASSIFIERS)}.")
    return CLASSIFIERS[name](seed)
