"""Scores instead of cells.

Every cell has a score: how often the label occurred in it. At any threshold the shares of two groups above it differ
by at most T*.
"""

import altair as alt
import numpy as np

from certifare import FairTreeEncoder, certify
from certifare.data import adult

table = adult()
order = np.random.default_rng(2).permutation(len(table)).tolist()
people, fresh = table.take(order[:32_000]), table.take(order[32_000:])
encoder = FairTreeEncoder(gamma=0.85, max_cells=24).fit(people.features, people.y, sensitive_features=people.sensitive)
certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
scores = encoder.predict_proba(fresh.features)[:, 1]
sex = np.array(fresh.sensitive.column("sex").to_pylist())

points, largest = [], 0.0
for threshold in np.linspace(0, 1, 51):
    shares = {group: float((scores > threshold)[sex == group].mean()) for group in ("Female", "Male")}
    largest = max(largest, abs(shares["Female"] - shares["Male"]))
    points += [{"threshold": threshold, "group": group, "above": share} for group, share in shares.items()]
print(certificate)
print(f"The largest gap at any threshold is {largest:.4f} on these records")

chart = (
    alt.Chart(alt.Data(values=points), title="Share of each group above a threshold")
    .mark_line(interpolate="step-after")
    .encode(x="threshold:Q", y=alt.Y("above:Q", axis=alt.Axis(format="%"), title="above it"), color="group:N")
)
