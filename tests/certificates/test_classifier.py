"""The interval of one classifier, computed a second time from its definition."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from certifare import CellCounts, certify_counts
from certifare.certificates import difference_limit, hoeffding_radius
from certifare.certificates.claims import METRICS
from certifare.certificates.tail import Tail, share_limit
from certifare.errors import ArgumentError

EPSILON = Fraction(5, 100)
CELLS = 5
#: Predictions for each cell, and the scores of their classes: of two classes one, of more each.
RULES = {
    "two classes": (["no", "yes", "yes", "no", "no"], [[0, 1, 1, 0, 0]]),
    "classes as floats": ([0.0, 1.0, 1.0, 0.0, 1.0], [[0, 1, 1, 0, 1]]),
    "three classes, the first of which is the worst": (
        ["a", "b", "c", "a", "b"], [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0]],
    ),
    "probabilities": ([0.0, 0.3, 1.0, 0.6, 0.1], [[0.0, 0.3, 1.0, 0.6, 0.1]]),
    "probabilities in a part of the range": ([0.2, 0.3, 0.7, 0.6, 0.4], [[0.2, 0.3, 0.7, 0.6, 0.4]]),
}  # fmt: skip


def counts_of(groups, labels=None, n=900):
    """Counts that differ between groups and labels, with groups of different sizes."""
    rng = np.random.default_rng([groups, len(labels or ())])
    shape = (groups,) if labels is None else (groups, len(labels))
    table = np.zeros((CELLS, *shape), dtype=int)
    for place in np.ndindex(shape):
        table[(slice(None), *place)] = rng.multinomial(n + 40 * place[0], rng.dirichlet(np.full(CELLS, 2.0)))
    table[0, 0], table[0, 1] = table[0, 0] + 400, table[0, 1] // 3
    return CellCounts(table, [f"g{i}" for i in range(groups)], labels)


def expected(counts, scores, metric, *, candidates=1, tail=None):
    """Lower limit, estimate and upper limit: each limit has half of ε, which lower limits share."""
    known, groups = METRICS[metric], len(counts.groups)
    strata = {"all": [None], "positive": ["yes"], "each label": counts.labels}[known.strata]
    mean = known.combine == "mean"
    epsilon = float(EPSILON / (candidates * (len(strata) if mean else 1))) / 2
    ways = len(scores) * groups * (groups - 1) * (1 if mean else len(strata))
    part = 1.0 if tail is None else 0.9

    def limit(table, score, e):
        n0, n1 = (int(n) for n in table.sum(axis=0))
        c0, c1 = (float(column @ score) for column in table.T)
        if set(score) <= {0, 1}:
            return difference_limit(n0, n1, n1 * int(c0) - n0 * int(c1), part * e)
        spread = max(score) - min(score)
        return c0 / n0 - c1 / n1 + spread * math.sqrt((1 / n0 + 1 / n1) * math.log(1 / (part * e)) / 2)

    found = []
    for label in strata:
        table = counts.table if label is None else counts.table[:, :, counts.labels.index(label)]
        limits = [(0.0, 0.0, 0.0)]
        for pair in map(list, permutations(range(groups), 2)):
            above = [0.0, 0.0]
            if tail is not None:
                column = 0 if label is None else counts.labels.index(label)
                above = [
                    max(
                        share_limit(tail.beyond[g][column], int(table[:, g].sum()), tail.cap, tail.largest, e)
                        for g in pair
                    )
                    for e in (epsilon, epsilon / ways)
                ]
            for score in map(np.array, scores):
                own = table[:, pair]
                means = own.T @ score / own.sum(axis=0)
                upper = limit(own, score, epsilon)
                lower = -limit(own[:, ::-1], score, epsilon / ways)
                limits.append(
                    (lower - above[1] * (1 + lower), means[0] - means[1], upper + above[0] * (1 - upper))
                )  # fmt: skip
        found.append([max(values) for values in zip(*limits, strict=True)])
    together = (lambda v: sum(v) / len(v)) if mean else max
    lower, estimate, upper = (together(values) for values in zip(*found, strict=True))
    return lower, estimate, min(upper, 1.0)


def found(interval):
    return interval.lower, interval.estimate, interval.upper


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("metric", METRICS)
def test_the_interval_is_that_of_its_definition(metric, groups, rule):
    predictions, scores = RULES[rule]
    counts = counts_of(groups, None if metric == "demographic_parity" else ["no", "yes"])
    options = {"positive": "yes"} if metric == "equal_opportunity" else {}
    interval = certify_counts(counts, metric, **options).for_classifier(predictions)
    assert found(interval) == pytest.approx(expected(counts, scores, metric), abs=1e-9)
    assert interval.lower > 0.0 or (metric, groups) == ("demographic_parity", 2)
    assert interval.confidence == 0.95


@pytest.mark.parametrize("metric", METRICS)
def test_candidates_and_capped_weights_take_their_shares_of_epsilon(metric):
    labels = None if metric == "demographic_parity" else ["no", "yes"]
    counts, options = counts_of(3, labels), {"positive": "yes"} if metric == "equal_opportunity" else {}
    beyond = tuple(tuple(4 + 3 * g + 2 * y for y in range(len(labels or "-"))) for g in range(3))
    tail = Tail(cap=2.0, largest=5.0, beyond=beyond)
    predictions, scores = RULES["three classes, the first of which is the worst"]
    shared = certify_counts(counts, metric, candidates=4, **options).for_classifier(predictions)
    assert found(shared) == pytest.approx(expected(counts, scores, metric, candidates=4), abs=1e-9)
    capped = certify_counts(counts, metric, tail=tail, **options).for_classifier(predictions)
    if not METRICS[metric].labelled:
        assert capped.upper > certify_counts(counts).for_classifier(predictions).upper
    assert found(capped) == pytest.approx(expected(counts, scores, metric, tail=tail), abs=1e-9)


@pytest.mark.parametrize("same", [[0.0] * CELLS, [1.0] * CELLS, [True] * CELLS, ["no"] * CELLS])
def test_a_constant_classifier_has_no_distance(same):
    assert found(certify_counts(counts_of(2)).for_classifier(same)) == (0.0, 0.0, 0.0)


def test_groups_that_are_wholly_apart_differ_by_one_at_most():
    counts = CellCounts([[40, 0], [0, 50]], "fm")
    for predictions in ([0, 1], [0.0, 0.999]):
        interval = certify_counts(counts).for_classifier(predictions)
        assert interval.upper == 1.0
        assert interval.estimate == pytest.approx(max(predictions))


@pytest.mark.parametrize("predictions", [0.5, [0, 1], [[0, 1, 1, 0, 0]]])
def test_a_prediction_for_each_cell_is_asked_for(predictions):
    with pytest.raises(ArgumentError, match="5 cells: give one for each cell"):
        certify_counts(counts_of(2)).for_classifier(predictions)


@pytest.mark.parametrize("outside", [-0.01, 1.01])
def test_probabilities_lie_between_nothing_and_one(outside):
    with pytest.raises(ArgumentError, match=r"in \[0, 1\]"):
        certify_counts(counts_of(2)).for_classifier([0.0, 0.5, outside, 1.0, 0.2])


def test_the_limit_of_probabilities_is_that_of_hoeffding_rounded_up():
    """Of groups that are alike: their spread times the radius, and 10⁻¹² for the rounding of their means."""
    upper = certify_counts(CellCounts([[40, 50], [40, 50]], "fm")).for_classifier([0.25, 0.75]).upper
    assert upper == 0.5 * hoeffding_radius(80, 100, 0.025) + 1e-12
