"""The paper's protocol: train a classifier on the representation several times, look at the test records."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning

from certifare.growth import Dictionary
from certifare.tables.frames import Frame
from certifare_research.evaluation.classifiers import make_classifier
from certifare_research.evaluation.outcomes import Evaluation, Outcome


def as_matrix(z: Any) -> NDArray[np.float64]:
    """Return a representation as numbers: categories become their positions in sorted order, as in the paper."""
    if isinstance(z, np.ndarray) and z.ndim == 2 and z.dtype.kind in "buif":
        return z
    frame = Frame(z)
    columns = []
    for name in frame.names:
        column = frame.read(name).column
        if isinstance(column, Dictionary):
            order = np.argsort(np.argsort(np.array(column.values, dtype=np.str_)))
            column = np.where(column.indices < 0, -1, order[np.maximum(column.indices, 0)])
        columns.append(np.nan_to_num(np.asarray(column, dtype=np.float64), nan=-1.0))
    return np.stack(columns, axis=1)


def evaluate(
    z_train: Any,
    y_train: ArrayLike,
    z_test: Any,
    y_test: ArrayLike,
    s_test: ArrayLike,
    classifier: str = "mlp50",
    *,
    repeats: int = 5,
    seed: int = 0,
) -> Evaluation:
    """Train a classifier on a representation and count what it predicts for the test records.

    Labels and groups are whole numbers from 0; ``classifier`` is a name of
    :data:`certifare_research.evaluation.classifiers.CLASSIFIERS`. The runs differ in their seed.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare_research.evaluation.protocol import evaluate
    >>> rng = np.random.default_rng(0)
    >>> z, s = rng.normal(size=(400, 2)), rng.integers(0, 2, 400)
    >>> y = (z[:, 0] > 0).astype(int)
    >>> result = evaluate(z[:200], y[:200], z[200:], y[200:], s[200:], "logistic", repeats=1)
    >>> result.accuracy > 0.9
    True
    """
    train, test = as_matrix(z_train), as_matrix(z_test)
    labels = np.asarray(y_train)
    n_labels = int(max(np.max(labels), np.max(np.asarray(y_test)), 1)) + 1
    outcomes = []
    for repeat in range(repeats):
        model = make_classifier(classifier, seed + repeat)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the protocol says how long to train
            model.fit(train, labels)
        outcomes.append(Outcome.of(s_test, y_test, model.predict(test), n_labels=n_labels))
    return Evaluation.of(outcomes)


def attack(
    z_train: Any, s_train: ArrayLike, z_test: Any, y_test: ArrayLike, s_test: ArrayLike, *, seed: int = 0
) -> Outcome:
    """Let gradient boosting predict the group from the representation, to be as unfair as it can.

    It selects the records that it thinks belong to group 1 with more than that group's share, which makes the
    difference of the two groups' rates largest. The outcome's ``interval()`` is exact: the test records are fresh.

    With more than two groups the most probable one relative to its share is predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare_research.evaluation.protocol import attack
    >>> s = np.random.default_rng(0).integers(0, 2, 2000)
    >>> z = s[:, None] + np.random.default_rng(1).normal(size=(2000, 1))
    >>> outcome = attack(z[:1000], s[:1000], z[1000:], s[1000:], s[1000:])
    >>> interval = outcome.interval()
    >>> interval.lower < outcome.distance() < interval.upper
    True
    """
    groups = np.asarray(s_train)
    model = HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=seed)
    scores = model.fit(as_matrix(z_train), groups).predict_proba(as_matrix(z_test))
    shares = np.array([np.mean(groups == group) for group in model.classes_])
    guesses = np.asarray(model.classes_)[np.argmax(scores / shares, axis=1)]
    n_labels = int(max(np.max(np.asarray(y_test)), np.max(guesses), 1)) + 1
    return Outcome.of(s_test, y_test, guesses, n_labels=n_labels)
