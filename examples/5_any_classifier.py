"""Any classifier, even a malicious one.

Models are trained on the cells: some for the label, some to tell the groups apart. None of them exceeds T*, whatever
it was trained for.
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from certifare import FairTreeEncoder, certify
from certifare.data import adult
from certifare.drawing import Panel, Scale, Series, draw_panels

table = adult()
order = np.random.default_rng(1).permutation(len(table)).tolist()
people, fresh, test = table.take(order[:24_000]), table.take(order[24_000:36_000]), table.take(order[36_000:])
encoder = FairTreeEncoder(gamma=0.8, max_cells=20, output="onehot")
encoder.fit(people.features, people.y, sensitive_features=people.sensitive)
certificate = certify(encoder, fresh.features, sensitive_features=fresh.sensitive)
print(certificate)

Z, Z_test = encoder.transform(people.features).to_pandas(), encoder.transform(test.features).to_pandas()
rich = np.array(people.y.to_pylist()) == ">50K"
male, male_test = (np.array(part.sensitive.column("sex").to_pylist()) == "Male" for part in (people, test))
models = {
    "logistic regression": LogisticRegression(max_iter=500),
    "decision tree": DecisionTreeClassifier(random_state=0),
    "random forest": RandomForestClassifier(50, random_state=0),
}
points: dict[str, list[tuple[float, float]]] = {}
for aim, target in (("the label", rich), ("the group", male)):
    for row, (name, model) in enumerate(models.items()):
        # To tell the groups apart, both weigh the same.
        weights = None if aim == "the label" else np.where(target, 1 / target.mean(), 1 / (1 - target.mean()))
        selected = model.fit(Z, target, sample_weight=weights).predict(Z_test)
        distance = abs(selected[male_test].mean() - selected[~male_test].mean())
        print(f"{name}, trained for {aim}: {distance:.3f}")
        points.setdefault(aim, []).append((distance, row + 0.5))

chart = draw_panels(
    "Distance between the groups on fresh records, and T*",
    [
        Panel(
            [Series(f"trained for {aim}", places, "dots") for aim, places in points.items()],
            Scale("distance", zero=True),
            Scale(names=list(models)),
            rules=[("x", certificate.bound, "T*")],
            height=140,
        )
    ],
)
