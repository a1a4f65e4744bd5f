"""Any classifier, even a malicious one.

Models are trained on the cells: some for the label, some to tell the groups apart. None of them exceeds T*, whatever
it was trained for.
"""

import altair as alt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from certifare import FairTreeEncoder, certify
from certifare.data import adult

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
points = []
for aim, target in (("the label", rich), ("the group", male)):
    for name, model in models.items():
        # To tell the groups apart, both weigh the same.
        weights = None if aim == "the label" else np.where(target, 1 / target.mean(), 1 / (1 - target.mean()))
        selected = model.fit(Z, target, sample_weight=weights).predict(Z_test)
        distance = abs(selected[male_test].mean() - selected[~male_test].mean())
        print(f"{name}, trained for {aim}: {distance:.3f}")
        points.append({"model": name, "trained for": aim, "distance": distance})

dots = (
    alt.Chart(alt.Data(values=points), title="Distance on fresh records, and T*")
    .mark_point(filled=True, size=90)
    .encode(
        x=alt.X("distance:Q", scale=alt.Scale(zero=True)), y="model:N", color="trained for:N", shape="trained for:N"
    )
)
bound = alt.Chart(alt.Data(values=[{"T*": certificate.bound}])).mark_rule(strokeDash=[4, 3]).encode(x=alt.X("T*:Q"))
chart = dots + bound
