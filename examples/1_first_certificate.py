"""A first certificate.

Two thirds of the Adult table make an encoder, the rest certifies it. The chart shows what a certificate is computed
from: the share of each group in each cell. No rule that sees the cell alone can select the groups more differently
than the bars differ in sum.
"""

import numpy as np

from certifare import FairTreeEncoder, certify
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels

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
bars = [
    Series(
        group,
        [c for i in range(len(shares)) for c in ((i + 0.15 + 0.35 * g, 0), (i + 0.5 + 0.35 * g, shares[i, g]))],
        "boxes",
    )
    for g, group in enumerate(certificate.counts.groups)
]
cells = Scale("cell", names=[str(cell) for cell in range(encoder.n_cells_)])
chart = draw_panels(
    "Share of each group by cell", [Panel(bars, cells, Scale("share of the group", zero=True, percent=True))]
)
