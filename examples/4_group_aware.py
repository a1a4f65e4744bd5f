"""Reading the group, to tell less about it.

An encoder that may read the group sets thresholds for each group, from the certification records. At the same bound it
keeps more of the label; it has to be told the group of each record.
"""

import math

import numpy as np

from certifare import CalibratedEncoder, FairTreeEncoder, certify
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


table = adult()
order = np.random.default_rng(5).permutation(len(table)).tolist()
people, certifying, fresh = (table.take(order[a:b]) for a, b in ((0, 18_000), (18_000, 36_000), (36_000, None)))
rich = np.array(fresh.y.to_pylist())
points: dict[str, list[tuple[float, float]]] = {"reads the group": [], "does not": []}
for target in (0.03, 0.05, 0.1):
    calibrated = CalibratedEncoder(target=target).fit(people.features, people.y, sensitive_features=people.sensitive)
    certificate = calibrated.calibrate(certifying.features, sensitive_features=certifying.sensitive)
    votes = calibrated.predict(fresh.features, sensitive_features=fresh.sensitive)
    points["reads the group"].append((certificate.bound, float((votes == rich).mean())))
for gamma in (0.8, 0.95, 0.98):
    tree = FairTreeEncoder(gamma=gamma, max_cells=16)
    tree.fit(people.features, people.y, sensitive_features=people.sensitive)
    certificate = certify(tree, certifying.features, sensitive_features=certifying.sensitive)
    points["does not"].append((certificate.bound, float((tree.predict(fresh.features) == rich).mean())))
for kind, found in points.items():
    for bound, accuracy in found:
        print(f"{kind}: T* = {up(bound):.4f}, accuracy {accuracy:.3f}")

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
