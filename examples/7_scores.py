"""Scores instead of cells.

Every cell has a score: how often the label occurred in it. At any threshold the shares of two groups above it differ
by at most T*.
"""

import numpy as np

from certifare import FairTreeEncoder, certify
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels

table = adult()
order = np.random.default_rng(2).permutation(len(table)).tolist()
people, fresh = table.take(order[:32_000]), table.take(order[32_000:])
encoder = FairTreeEncoder(gamma=0.85, max_cells=24).fit(people.features, people.y, sensitive_features=people.sensitive)
certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
scores = encoder.predict_proba(fresh.features)[:, 1]
sex = np.array(fresh.sensitive.column("sex").to_pylist())

points, largest = {"Female": [], "Male": []}, 0.0
for threshold in np.linspace(0, 1, 51):
    shares = {group: float((scores > threshold)[sex == group].mean()) for group in points}
    largest = max(largest, abs(shares["Female"] - shares["Male"]))
    for group, share in shares.items():
        points[group].append((float(threshold), share))
print(certificate)
print(f"The largest gap at any threshold is {largest:.4f} on these records")

chart = draw_panels(
    "Share of each group above a threshold",
    [
        Panel(
            [Series(group, places, "steps") for group, places in points.items()],
            Scale("threshold", limits=(0, 1)),
            Scale("share of the group above it", zero=True, percent=True),
        )
    ],
)
