"""Explain one record."""

import json

import numpy as np
import pandas as pd
import pytest

from certifare import BoostedEncoder, CalibratedEncoder, FairTreeEncoder, load_encoder
from certifare.encoders.explanation import decompose
from certifare.encoders.forest import Forest
from certifare.encoders.scoremap import split_sides
from certifare.errors import EncoderError
from certifare.tables.frames import Frame

N = 1_500


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, N).astype(float),
            "hours": rng.normal(40, 8, N),
            "job": rng.choice(list("abcdefghijkl"), N),
            "member": rng.random(N) < 0.5,
        }
    )
    X.loc[rng.random(N) < 0.1, "hours"] = np.nan
    s = rng.choice(["f", "m", "x"], N, p=[0.45, 0.45, 0.1])
    raw = X["age"] / 20 + (X["job"] < "d") + X["member"] + rng.normal(size=N) + (s == "m")
    return X, (raw > 4).to_numpy(), np.digitize(raw, [3, 5]), s


def test_a_record_on_a_threshold_is_explained_in_the_cell_that_its_row_has():
    rng = np.random.default_rng(4)
    X, s = pd.DataFrame({"score": rng.integers(0, 5, 2_000)}), rng.choice(["f", "m"], 2_000)
    encoder = CalibratedEncoder(target=0.2, score_column="score").fit(X, sensitive_features=s)
    encoder.calibrate(X, sensitive_features=s)
    cells, rows = encoder.apply(X, sensitive_features=s), range(40)
    found = [encoder.explain(X.iloc[[i]], sensitive_features=s[[i]], row=i) for i in rows]
    assert [one.cell for one in found] == cells[:40].tolist()
    assert [encoder.explain(X.iloc[[i]], sensitive_features=s[[i]]).cell for i in rows] != cells[:40].tolist()
    for i, one in zip(rows, found, strict=True):
        for change in one.changes:
            value = np.nextafter(change.to, np.inf) if change.direction == "above" else change.to
            other = X.astype(float)
            other.loc[i, "score"] = value
            assert encoder.apply(other, sensitive_features=s)[i] == change.cell


def boosted(**options):
    return BoostedEncoder(gamma=0.4, max_cells=8, min_cell_size=30, folds=2, grid=6, **options)


def check_changes(encoder, X, row, explanation, groups=None):
    """Each change leads where it says, and what lies before it does not."""
    options = {} if groups is None else {"sensitive_features": groups[row : row + 1]}
    for change in explanation.changes:
        record = X.iloc[[row]].copy()
        value = record[change.column].iloc[0]
        if change.direction == "is":
            record[change.column] = change.to
            assert encoder.apply(record, **options)[0] == change.cell
            continue
        record[change.column] = np.nextafter(change.to, np.inf) if change.direction == "above" else change.to
        assert encoder.apply(record, **options)[0] == change.cell != explanation.cell
        if not np.isnan(value):
            for share in (0.3, 0.9, 1.0):
                record[change.column] = value + share * (change.to - value)
                if change.direction == "above" or share < 1.0:
                    assert encoder.apply(record, **options)[0] == explanation.cell


@pytest.mark.parametrize("row", [0, 3, 17, 100])
@pytest.mark.parametrize("kind", ["tree", "boosted"])
def test_changes_of_every_kind_of_encoder_lead_where_they_say(people, kind, row, request):
    X, _, _, _ = people
    encoder = request.getfixturevalue(f"of_{kind}")
    explanation = encoder.explain(X.iloc[[row]])
    assert explanation.cell == encoder.apply(X)[row]
    assert explanation.rules == encoder.describe()[explanation.cell].rules
    assert explanation.records == encoder.describe()[explanation.cell].records
    assert explanation.deciding
    check_changes(encoder, X, row, explanation)
    json.dumps(explanation.to_dict(), allow_nan=False)
    assert f"cell {explanation.cell}" in str(explanation)


@pytest.fixture(scope="module")
def of_tree(people):
    X, y, _, s = people
    return FairTreeEncoder(gamma=0.4, max_cells=10, min_cell_size=30).fit(X, y, sensitive_features=s)


@pytest.fixture(scope="module")
def of_boosted(people):
    X, y, _, s = people
    return boosted().fit(X, y, sensitive_features=s)


def test_the_steps_of_a_tree_hold_for_its_record_and_lead_to_its_cell(people, of_tree):
    X, _, _, _ = people
    ways = {}
    for row in range(60):
        explanation = of_tree.explain(X.iloc[[row]])
        way = tuple((step.column, step.rule) for step in explanation.steps)
        ways.setdefault(explanation.cell, way)
        assert ways[explanation.cell] == way  # a cell has one way
        for step in explanation.steps:
            value = explanation.values[step.column]
            if " ≤ " in step.rule and value is not None:
                assert value <= float(step.rule.split(" ≤ ")[1].split()[0])
            if " > " in step.rule and value is not None:
                assert value > float(step.rule.split(" > ")[1].split()[0])
    assert len(set(ways.values())) == len(ways)


def test_only_columns_on_the_way_have_changes(people, of_tree):
    X, _, _, _ = people
    explanation = of_tree.explain(X.iloc[[5]])
    used = {of_tree.columns_[split.column].name for split in of_tree.growth_.splits}
    assert {change.column for change in explanation.changes} <= used


@pytest.mark.parametrize("labels", ["two", "three", "both"])
def test_contributions_add_up_to_the_scores(people, labels):
    """Two values, several values, several labels; three groups."""
    X, y, rating, s = people
    target = {"two": y, "three": rating, "both": pd.DataFrame({"y": y, "rating": rating})}[labels]
    encoder = boosted().fit(X, target, sensitive_features=s)
    score_map = encoder.score_map_
    for row in (0, 9, 44):
        explanation = encoder.explain(X.iloc[[row]])
        scores = score_map.scores.score(encoder.read_fields(Frame(X.iloc[[row]])))
        sides = split_sides(scores, score_map.n_label_targets)
        assert len(explanation.scores) == len(score_map.axes)
        for axis, score in zip(score_map.axes, explanation.scores, strict=True):
            along = sides[axis.side]
            expected = along[0, 0] if axis.weights is None else (along[0] * axis.weights).sum()
            assert score.score == pytest.approx(expected, abs=1e-9)
            assert score.average + sum(score.columns.values()) == pytest.approx(expected, abs=1e-9)
            assert set(score.columns) <= set(X.columns)


def test_contributions_of_one_tree_are_those_by_hand():
    """One tree: number 0 at most 1 goes left to a leaf; else number 1 at most 0."""
    forest = Forest(
        n_classes=2,
        baseline=np.array([0.5]),
        starts=np.array([0, 5]),
        feature=np.array([0, -1, 1, -1, -1], dtype=np.int32),
        threshold=np.array([1.0, 0, 0.0, 0, 0]),
        missing_left=np.array([True, False, False, False, False]),
        right=np.array([2, 0, 4, 0, 0], dtype=np.int32),
        value=np.array([0, -1.0, 0, 2.0, 6.0]),
    )
    others = np.array([[0.0, 0.0], [2.0, -1.0], [2.0, 1.0], [np.nan, 5.0]])
    weights = np.array([1.0, 2.0, 1.0, 4.0])
    # On the right: (2·2 + 1·6) / 3; at the root: (5·−1 + 3·10/3) / 8.
    right, root = 10 / 3, 5 / 8
    average, added = decompose(forest, np.array([3.0, 4.0]), others, weights)
    assert average == pytest.approx([0.5 + root])
    assert added[:, 0] == pytest.approx([right - root, 6.0 - right])
    average, added = decompose(forest, np.array([np.nan, 4.0]), others, weights)
    assert added[:, 0] == pytest.approx([-1.0 - root, 0.0])


def test_a_column_that_no_tree_looks_at_contributes_nothing(people):
    X, y, _, s = people
    encoder = boosted().fit(X.assign(idle=1.0), y, sensitive_features=s)
    for score in encoder.explain(X.assign(idle=1.0).iloc[[0]]).scores:
        assert "idle" not in score.columns


def test_explanations_know_the_cell_of_the_group(people):
    X, y, _, s = people
    encoder = CalibratedEncoder(target=0.4, max_cells=6, folds=2).fit(X, y, sensitive_features=s)
    for row in (0, 20):
        explanation = encoder.explain(X.iloc[[row]], sensitive_features=s[row : row + 1])
        assert explanation.cell == encoder.apply(X.iloc[[row]], sensitive_features=s[row : row + 1])[0]
        check_changes(encoder, X, row, explanation, s)


@pytest.mark.parametrize("labelled", [True, False])
def test_records_are_called_training_records_only_if_something_was_trained(people, labelled):
    """Without a label, the records that set the thresholds of a score are those that describe a cell."""
    X, y, _, s = people
    encoder = CalibratedEncoder(target=0.4, max_cells=4, score_column="age")
    encoder.fit(X[["age"]], y if labelled else None, sensitive_features=s)
    told = str(encoder.explain(X[["age"]].iloc[[0]], sensitive_features=s[:1]))
    assert " training records\n" in told if labelled else "training" not in told
    head, _ = encoder.describe().rows()
    assert ("training records" in head) == labelled
    assert ("training records" in encoder.plot().markup) == labelled


def test_explanations_are_the_same_after_a_file(people, of_boosted, tmp_path):
    X, _, _, _ = people
    of_boosted.save(tmp_path / "encoder.json", statistics=True)
    first, second = (e.explain(X.iloc[[7]]) for e in (of_boosted, load_encoder(tmp_path / "encoder.json")))
    assert (first.cell, first.scores, first.changes) == (second.cell, second.scores, second.changes)
    of_boosted.save(tmp_path / "bare.json", statistics=False)
    bare = load_encoder(tmp_path / "bare.json").explain(X.iloc[[7]])
    assert (bare.cell, bare.records, bare.labels) == (first.cell, None, {})


def test_more_than_one_record_is_refused(people, of_tree):
    with pytest.raises(EncoderError, match="one record"):
        of_tree.explain(people[0])
