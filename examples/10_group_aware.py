"""Reading the group, to tell less about it.

An encoder that may read the group cuts each group where the same share lies on either side. At the same bound it
keeps more of the label; it has to be told the group of each record.
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
order = np.random.default_rng(5).permutation(len(table)).tolist()
people, fresh = table.take(order[:28_000]), table.take(order[28_000:])
rich = np.array(fresh.y.to_pylist())
points: dict[str, list[tuple[float, float]]] = {}
for aware in (False, True):
    for gamma in (0.5, 0.8, 0.95):
        encoder = FairTreeEncoder(gamma=gamma, max_cells=16, group_aware=aware)
        encoder.fit(people.features, people.y, sensitive_features=people.sensitive)
        given = {"sensitive_features": fresh.sensitive} if aware else {}
        certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
        accuracy = float((encoder.predict(fresh.features, **given) == rich).mean())
        kind = "reads the group" if aware else "does not"
        print(f"{kind}, γ = {gamma}: T* = {up(certificate.bound):.4f}, accuracy {accuracy:.3f}")
        points.setdefault(kind, []).append((certificate.bound, accuracy))

chart = draw_panels(
    "Accuracy of majority votes by T*",
    [
        Panel(
            [Series(kind, sorted(places)) for kind, places in points.items()],
            Scale("T*"),
            Scale("accuracy", percent=True),
        )
    ],
)
