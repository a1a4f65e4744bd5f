"""What a classifier did on test records, as counts: every figure follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certifare.certificates import CellCounts, Interval, certify_counts
from certifare.errors import ArgumentError

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")


@dataclass(frozen=True, eq=False, slots=True)
class Outcome:
    """Counts of test records by group, label and prediction.

    Examples
    --------
    >>> from certifare_research.evaluation.outcomes import Outcome
    >>> outcome = Outcome.of(s=[0, 0, 1, 1], y=[0, 1, 0, 1], predictions=[0, 0, 0, 1])
    >>> outcome.accuracy, outcome.distance()
    (0.75, 0.5)
    """

    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        s: ArrayLike,
        y: ArrayLike,
        predictions: ArrayLike,
        n_groups: int | None = None,
        n_labels: int | None = None,
    ) -> Outcome:
        """Count records; groups, labels and predictions are whole numbers from 0."""
        groups, labels, guesses = (np.asarray(a).astype(np.int64) for a in (s, y, predictions))
        g = n_groups or int(groups.max()) + 1
        c = n_labels or int(max(labels.max(), guesses.max(), 1)) + 1
        flat = (groups * c + labels) * c + guesses
        return cls(np.bincount(flat, minlength=g * c * c).reshape(g, c, c))

    @classmethod
    def parse(cls, text: str) -> Outcome:
        """Read what :meth:`text` wrote."""
        rows = [[label.split() for label in group.split("/")] for group in text.split(";")]
        return cls(np.array(rows, dtype=np.int64))

    def text(self, metric: str = "demographic_parity") -> str:
        """Return the counts as text, as far as the metric needs them: demographic parity does without labels.

        >>> from certifare_research.evaluation.outcomes import Outcome
        >>> Outcome.of(s=[0, 0, 1, 1], y=[0, 1, 0, 1], predictions=[0, 0, 0, 1]).text()
        '2 0;1 1'
        """
        counts = self.counts.sum(1, keepdims=True) if metric == "demographic_parity" else self.counts
        return ";".join("/".join(" ".join(map(str, label)) for label in group) for group in counts.tolist())

    @property
    def accuracy(self) -> float:
        """Share of records whose label was predicted."""
        return float(np.trace(self.counts, axis1=1, axis2=2).sum() / self.counts.sum())

    @property
    def majority(self) -> float:
        """Accuracy of the constant prediction."""
        return float(self.counts.sum((0, 2)).max() / self.counts.sum())

    def distance(self, metric: str = "demographic_parity") -> float:
        """Largest difference between two groups in how often a class is predicted.

        Equal opportunity looks at records with label 1; equalized odds is the mean over labels.
        """
        if metric == "demographic_parity":
            return _gap(self.counts.sum(1))
        if metric == "equal_opportunity":
            return _gap(self.counts[:, 1])
        if metric == "equalized_odds":
            return math.fsum(_gap(self.counts[:, i]) for i in range(self.counts.shape[1])) / self.counts.shape[1]
        raise ArgumentError(f"Unknown metric {metric!r}: choose one of {', '.join(METRICS)}.")

    def interval(self, confidence: float = 0.95, metric: str = "demographic_parity") -> Interval:
        """Exact limits of the classifier's distance, which hold together with this confidence.

        Valid where the classifier was made without these records.
        """
        table = self.counts.transpose(2, 0, 1)
        groups = [f"group {i}" for i in range(table.shape[1])]
        counts = CellCounts(table, groups, [str(i) for i in range(table.shape[2])])
        certificate = certify_counts(counts, metric, confidence, min_group_size=1)
        return certificate.for_classifier(np.arange(len(table)))


def _gap(rates_by_group: NDArray[np.int64]) -> float:
    """Largest difference in the share of a class, over classes and pairs of groups."""
    sizes = rates_by_group.sum(1, keepdims=True)
    rates = rates_by_group[sizes[:, 0] > 0] / sizes[sizes[:, 0] > 0]
    return float((rates.max(0) - rates.min(0)).max()) if len(rates) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Repeated runs of one classifier on one representation."""

    outcomes: tuple[Outcome, ...]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Evaluation:
        """Collect the runs."""
        return cls(tuple(outcomes))

    @property
    def accuracy(self) -> float:
        """Mean accuracy of the runs."""
        return math.fsum(o.accuracy for o in self.outcomes) / len(self.outcomes)

    def mean_distance(self, metric: str = "demographic_parity") -> float:
        """Mean distance of the runs (what the paper's figures show)."""
        return math.fsum(o.distance(metric) for o in self.outcomes) / len(self.outcomes)

    def max_distance(self, metric: str = "demographic_parity") -> float:
        """Largest distance of the runs (what the paper says its figures show)."""
        return max(o.distance(metric) for o in self.outcomes)
