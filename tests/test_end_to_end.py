"""Three parties, one job: a producer fits and signs, a consumer trains, an auditor verifies. All by command."""

import base64
import contextlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from certifare.cli import main
from certifare.data import adult

TARGET = 0.12


@pytest.fixture(scope="module")
def run():
    """Run a command; its exit status and what it printed."""

    def command(*arguments):
        from io import StringIO

        printed, errors = StringIO(), StringIO()
        patch = pytest.MonkeyPatch()
        patch.setattr(sys, "argv", ["certifare", *map(str, arguments)])
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            try:
                main()
            except SystemExit as end:
                status = end.code
        patch.undo()
        assert "Traceback" not in errors.getvalue()
        return status, printed.getvalue() + errors.getvalue()

    return command


@pytest.fixture(scope="module")
def world(tmp_path_factory, run):
    """The producer's side: 60 % of Adult, a key pair and a signed bundle. The others have the rest."""
    folder = tmp_path_factory.mktemp("world")
    table = adult()
    frame = table.features.to_pandas()
    frame["sex"] = table.groups.to_arrow().to_pandas().to_numpy()
    frame["income"] = table.y.to_pandas().to_numpy()
    producers = np.random.default_rng(1).random(len(frame)) < 0.6
    frame[producers].to_csv(folder / "people.csv", index=False)
    frame[~producers].to_csv(folder / "fresh.csv", index=False)
    assert run("key", "new", folder / "producer")[0] == 0
    assert run("key", "new", folder / "stranger")[0] == 0
    status, printed = run(
        "fit", folder / "people.csv", "--label", "income", "--sensitive", "sex", "--target", TARGET,
        "--kind", "boosted", "--max-cells", 32,
        "--key", folder / "producer.pem", "-o", folder / "bundle",
    )  # fmt: skip
    assert status == 0, printed
    assert "PASS" in printed
    return folder


def bound(folder):
    envelope = json.loads((folder / "bundle" / "certificate.json").read_text())
    return json.loads(base64.b64decode(envelope["payload"]))["predicate"]["certificate"]["bound"]


def classifiers():
    """Twelve classifiers: six for the label, six for the group, which care for small groups as for large ones."""
    label = [
        LogisticRegression(max_iter=1000),
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(20, random_state=0),
        KNeighborsClassifier(25),
        MLPClassifier((20,), max_iter=60, early_stopping=True, random_state=0),
        BernoulliNB(),
    ]
    group = [
        LogisticRegression(max_iter=1000, class_weight="balanced"),
        DecisionTreeClassifier(class_weight="balanced", random_state=0),
        ExtraTreesClassifier(20, class_weight="balanced", random_state=0),
        HistGradientBoostingClassifier(max_iter=30, class_weight="balanced", random_state=0),
        LinearSVC(class_weight="balanced", random_state=0),
        RidgeClassifier(class_weight="balanced"),
    ]
    return [("income", model) for model in label] + [("sex", model) for model in group]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_consumer_exceeds_the_bound(world, run):
    for name in ("people", "fresh"):
        status, printed = run(
            "encode", world / "bundle", world / f"{name}.csv", world / f"{name}.encoded.csv",
            "--keep", "sex", "--keep", "income",
        )  # fmt: skip
        assert status == 0, printed
    frames = [pd.read_csv(world / f"{name}.encoded.csv") for name in ("people", "fresh")]
    roles = ["sex", "income"]
    columns = pd.concat([frame.drop(columns=roles) for frame in frames])
    features = pd.get_dummies(columns)
    features = ((features - features.mean()) / features.std().replace(0, 1)).to_numpy(dtype=float)
    seen = len(frames[0])
    women = (frames[1]["sex"] == "Female").to_numpy()
    t_star = bound(world)
    assert t_star <= TARGET
    distances = {}
    for target, model in classifiers():
        model.fit(features[:seen], frames[0][target])
        predicted = model.predict(features[seen:]) == model.classes_[1]
        distance = abs(predicted[women].mean() - predicted[~women].mean())
        distances[f"{type(model).__name__} for {target}"] = distance
    assert len(distances) == 12
    assert all(distance < t_star for distance in distances.values()), distances
    # They are real classifiers: some tell the groups apart as far as the cells allow.
    assert max(distances.values()) > 0.01


def test_the_auditor_accepts_the_bundle_and_recertifies_it(world, run):
    status, printed = run(
        "verify", world / "bundle", "--key", world / "producer.pub.pem", "--encoder", world / "bundle" / "encoder.json",
        "--data", world / "fresh.csv", "--max", TARGET,
    )  # fmt: skip
    assert status == 0, printed
    assert "PASS" in printed


def altered(world, tmp_path, change):
    """The signed certificate with its statement changed, and its signature as it was."""
    envelope = json.loads((world / "bundle" / "certificate.json").read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(envelope))
    return path


def count_changed(statement):
    statement["predicate"]["certificate"]["counts"]["table"][0][0] += 1


def version_expired(statement):
    statement["predicateType"] = statement["predicateType"].replace("/v3", "/v2")


def refused(result, *words):
    status, printed = result
    assert status == 1, printed
    assert "PASS" not in printed
    flat = " ".join(printed.split())
    for word in words:
        assert word in flat, flat
    return flat


def test_the_auditor_refuses_what_was_tampered_with(world, run, tmp_path):
    key = ["--key", world / "producer.pub.pem"]
    certificate = world / "bundle" / "certificate.json"
    messages = [
        # One count changed: the signature does not fit, and neither do the figures for those without a key.
        refused(run("verify", altered(world, tmp_path, count_changed), *key), "does not fit the content"),
        refused(run("verify", altered(world, tmp_path, count_changed)), "contradicts its own certificate"),
        # The wrong key.
        refused(run("verify", certificate, "--key", world / "stranger.pub.pem"), "signed with another key"),
        # An expired version of the format.
        refused(run("verify", altered(world, tmp_path, version_expired), *key), "has expired"),
        # A bound that is too large for this auditor.
        refused(run("verify", certificate, *key, "--max", 0.01), "above the 0.01 asked for"),
    ]
    # One byte of the encoder changed.
    content = bytearray((world / "bundle" / "encoder.json").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "encoder.json").write_bytes(bytes(content))
    messages.append(
        refused(run("verify", certificate, *key, "--encoder", tmp_path / "encoder.json"), "not the certified one")
    )
    assert len(set(messages)) == len(messages)


def test_records_of_the_producer_do_not_certify_the_encoder_again(world, run):
    status, printed = run("certify", world / "bundle", world / "people.csv", "--sensitive", "sex")
    assert status == 2
    assert "training records" in printed
    status, printed = run("certify", world / "bundle", world / "fresh.csv", "--sensitive", "sex", "--max", TARGET)
    assert status == 0, printed
