"""An existing model, as it is.

Gradient boosting on the table itself has no bound. Its decision is a column, though, and a column can be certified:
at every cut-off the interval of the true distance.
"""

import math

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from certifare import certify_column
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels


def up(bound: float) -> float:
    """Round a bound up."""
    return math.ceil(bound * 1e4) / 1e4


table = adult()
order = np.random.default_rng(3).permutation(len(table))
X = table.features.to_pandas()
y = np.array(table.y.to_pylist()) == ">50K"
sex = np.array(table.sensitive.column("sex").to_pylist())
past, now = order[:24_000], order[24_000:]

model = HistGradientBoostingClassifier(max_iter=60, categorical_features="from_dtype", random_state=0)
score = model.fit(X.iloc[past], y[past]).predict_proba(X.iloc[now])[:, 1]

corners = []
for cut in (0.1, 0.3, 0.5, 0.7, 0.9):
    decision = np.where(score > cut, "yes", "no")
    certificate = certify_column(decision, sensitive_features=sex[now], name="decision")
    print(f"cut-off {cut}: distance in [{certificate.lower:.3f}, {up(certificate.bound):.4f}]")
    corners += [(cut - 0.015, certificate.lower), (cut + 0.015, certificate.bound)]

chart = draw_panels(
    "Distance of the decision, by cut-off",
    [
        Panel(
            [Series("from the lower limit to T*", corners, "boxes")],
            Scale("cut-off", limits=(0, 1)),
            Scale("distance", zero=True),
        )
    ],
)
