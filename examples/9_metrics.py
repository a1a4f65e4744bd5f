"""One encoder, four metrics.

Demographic parity looks at everybody, equal opportunity at those with the positive label, equalized odds at each
label. A bound for one says little about another.
"""

import math

import numpy as np

from certifare import FairTreeEncoder, certify
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


table = adult()
order = np.random.default_rng(4).permutation(len(table)).tolist()
people, fresh = table.take(order[:28_000]), table.take(order[28_000:])
encoder = FairTreeEncoder(gamma=0.9, max_cells=12).fit(people.features, people.y, sensitive_features=people.sensitive)
metrics = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
corners = []
for row, metric in enumerate(metrics):
    positive = {"positive": ">50K"} if metric == "equal_opportunity" else {}
    certificate = certify(
        encoder, fresh.features, fresh.y, sensitive_features=fresh.sensitive, metric=metric, **positive
    )
    print(f"{metric}: [{certificate.lower:.4f}, {up(certificate.bound):.4f}]")
    corners += [(certificate.lower, row + 0.25), (certificate.bound, row + 0.75)]

names = [metric.replace("_", " ") for metric in metrics]
chart = draw_panels(
    "Lower limit to T*, by metric",
    [Panel([Series("", corners, "boxes")], Scale("distance", zero=True), Scale(names=names), height=140)],
)
