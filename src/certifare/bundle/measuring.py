"""What classifiers do on the certification records: the votes of the chosen cells, and gradient boosting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from certifare.certificates import Certificate, Interval
from certifare.certificates.bounding import Evidence
from certifare.certificates.issuing import issue
from certifare.frontier.ordering import BEYOND_CHANCE
from certifare.frontier.paths import PartCounts
from certifare.frontier.utility import Performance, base_rates, beyond_chance

if TYPE_CHECKING:
    from certifare.frontier.calibrating import CalibratedSearch
    from certifare.frontier.search import Search

#: Below this AUC, or this share of the label's variance if there is no AUC, cells predict almost nothing.
LITTLE_AUC, LITTLE_EXPLAINED = 0.6, 0.02


@dataclass(frozen=True, slots=True)
class Measured:
    """What a classifier does on the certification records, none of which it was made from."""

    performance: Performance  # accuracy, AUC and explained share
    distance: Interval  # between the groups: of the values of the first label that it predicts
    # Whether its forecasts go with the label no more than chance would have it. That is said, and decides nothing:
    # were such encoders withheld, those that are delivered would be chosen by the certification records
    worthless: bool = False

    @property
    def little(self) -> bool:
        """Return whether its forecasts are of almost no use, or no better than chance."""
        auc, explained = self.performance.auc, self.performance.explained
        low = explained.estimate < LITTLE_EXPLAINED if auc is None else auc.estimate < LITTLE_AUC
        return self.worthless or low

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        distance = msgspec.to_builtins(self.distance)
        return {**self.performance.to_dict(), "distance": distance, "worthless": self.worthless, "little": self.little}


def measure_votes(search: Search | CalibratedSearch, number: int, encoder: Any, certificate: Certificate) -> Measured:
    """Measure the forecasts of the chosen encoder's cells, in spite of the choice: each candidate has a share of ε."""
    candidate, table = search.candidates[number], search.certify_sample.table
    counted = PartCounts.of(table, search.certify_cells(encoder, candidate), candidate.cells)
    return Measured(
        candidate.path.performance(
            candidate.cells, counted.labels, certificate.confidence, candidates=certificate.candidates
        ),
        certificate.for_classifier(candidate.path.votes(candidate.cells)[0]),
        bool(beyond_chance(candidate.path.at("train", candidate.cells).labels, counted.labels) <= BEYOND_CHANCE),
    )


def measure_boosting(search: Search | CalibratedSearch) -> Measured | None:
    """Measure gradient boosting on the table itself, where it was fitted. It was not chosen: it has the whole of ε."""
    table, train = search.certify_sample.table, search.train
    forecasts = search.boosting(table)
    if forecasts is None:
        return None
    labelled = [y.codes >= 0 for y in table.labels]
    predicted = forecasts[0].argmax(axis=1)
    counts = table.count(predicted, forecasts[0].shape[1], labels=search.claim.labelled)
    claim = replace(search.claim, method="exact", min_group_size=1)
    certificate = issue(Evidence(counts, tail=search.certify_sample.tail), claim)
    return Measured(
        Performance.of(
            [p[known] for p, known in zip(forecasts, labelled, strict=True)],
            [base_rates(np.bincount(y.codes[y.codes >= 0], minlength=len(y.names))[None]) for y in train.labels],
            [
                np.eye(len(y.names), dtype=np.int64)[y.codes[known]]
                for y, known in zip(table.labels, labelled, strict=True)
            ],
            search.claim.confidence,
            by_cell=False,
        ),
        certificate.for_classifier(np.arange(counts.n_cells)),
    )
