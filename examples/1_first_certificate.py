"""A first certificate.

Two thirds of the Adult table make an encoder, the rest certifies it. The chart shows what a certificate is computed
from: the share of each group in each cell. No rule that sees the cell alone can select the groups more differently
than the bars differ in sum.
"""

import altair as alt
import numpy as np

from certifare import FairTreeEncoder, certify
from certifare.data import adult

table = adult()
order = np.random.default_rng(0).permutation(len(table)).tolist()
people, fresh = table.take(order[:32_000]), table.take(order[32_000:])

encoder = FairTreeEncoder(gamma=0.9, max_cells=8, min_cell_size=300)
encoder.fit(people.features, people.y, sensitive_features=people.sensitive)
certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
print(certificate)
print(f"estimate {certificate.estimate:.4f}, some rule really reaches {certificate.lower:.4f}")

counts = certificate.counts.table
shares = counts / counts.sum(axis=0)
points = [
    {"cell": cell, "group": group, "share": shares[cell, i]}
    for cell in range(encoder.n_cells_)
    for i, group in enumerate(certificate.counts.groups)
]
chart = (
    alt.Chart(alt.Data(values=points), title="Share of each group by cell")
    .mark_bar()
    .encode(x="cell:O", xOffset="group:N", y=alt.Y("share:Q", axis=alt.Axis(format="%")), color="group:N")
)
