"""FairGini from class counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_allclose, assert_array_equal

from certifare.errors import ArgumentError
from certifare.growth import Criterion, Targets

METRICS = ["demographic_parity", "equal_opportunity", "equalized_odds"]


@st.composite
def criteria(draw: st.DrawFn) -> Criterion:
    n_labels = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    return Criterion(
        draw(st.floats(0, 1)),
        draw(st.sampled_from(METRICS)),
        n_labels,
        draw(st.integers(1, 4)),
        tuple(draw(st.floats(0.1, 2)) for _ in n_labels),
        positive=draw(st.integers(0, n_labels[0] - 1)),
    )


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Criterion, np.ndarray]:
    criterion = draw(criteria())
    return criterion, draw(npst.arrays(np.int64, criterion.n_classes, elements=st.integers(0, 8)))


def slow_impurity(criterion: Criterion, counts: np.ndarray) -> float:
    """Record by record, from the definition."""
    records = [
        np.unravel_index(k, (*criterion.n_labels, criterion.n_groups)) for k in np.repeat(range(len(counts)), counts)
    ]

    def gini(values: list[int], empty: float) -> float:
        return 1 - sum((values.count(v) / len(values)) ** 2 for v in set(values)) if values else empty

    worst = 1 - 1 / criterion.n_groups
    weights = np.array(criterion.label_weights) / sum(criterion.label_weights)
    labels = sum(w * gini([int(r[i]) for r in records], 0.0) for i, w in enumerate(weights))
    if criterion.metric == "demographic_parity":
        groups = gini([int(r[-1]) for r in records], worst)
    elif records:
        of_label = {y: gini([int(r[-1]) for r in records if r[0] == y], worst) for y in {int(r[0]) for r in records}}
        if criterion.metric == "equal_opportunity":
            of_label = {y: own if y == criterion.positive else worst for y, own in of_label.items()}
        groups = sum(of_label[int(r[0])] for r in records) / len(records)
    else:
        groups = worst
    return float((1 - criterion.gamma) * labels + criterion.gamma * (worst - groups))


@given(nodes())
def test_impurity_is_its_definition(node: tuple[Criterion, np.ndarray]) -> None:
    criterion, counts = node
    assert criterion.impurity(counts) == pytest.approx(slow_impurity(criterion, counts), abs=1e-12)


@given(nodes())
def test_impurity_is_between_zero_and_its_largest_value(node: tuple[Criterion, np.ndarray]) -> None:
    criterion, counts = node
    labels = sum(w * (1 - 1 / n) for w, n in zip(criterion.shares, criterion.n_labels, strict=True))
    largest = (1 - criterion.gamma) * labels + criterion.gamma * (1 - 1 / criterion.n_groups)
    assert -1e-12 <= criterion.impurity(counts) <= largest + 1e-12


def test_binary_impurity_reaches_both_ends() -> None:
    """As in the paper: from 0 to 1/2."""
    criterion = Criterion(0.5, "demographic_parity", (2,), 2)
    assert criterion.impurity([5, 5, 0, 0]) == 0.0
    assert criterion.impurity([5, 0, 5, 0]) == pytest.approx(0.5)


def test_nodes_are_scored_together() -> None:
    criterion = Criterion(0.3, "equalized_odds", (2,), 3)
    counts = np.random.default_rng(0).integers(0, 9, (4, 5, 6))
    together = criterion.impurity(counts)
    assert together.shape == (4, 5)
    assert_allclose(together[2, 3], criterion.impurity(counts[2, 3]))


@given(nodes(), st.randoms(use_true_random=False))
def test_terms_give_the_gain_of_a_split(node: tuple[Criterion, np.ndarray], random: object) -> None:
    """Σ coefficient · D²·N/(N_L·N_R) is the decrease of n·FairGini; the groups' part of it never rewards a split."""
    criterion, counts = node
    if random.random() < 0.5:  # type: ignore[attr-defined]
        codes = [random.randint(0, 2) for _ in range(criterion.n_groups)]  # type: ignore[attr-defined]
        criterion = replace(criterion, attributes=(tuple(codes), tuple(range(criterion.n_groups))))
    left = np.array([random.randint(0, int(c)) for c in counts])  # type: ignore[attr-defined]
    right = counts - left
    if min(left.sum(), right.sum()) == 0:
        return
    decrease = (
        counts.sum() * criterion.impurity(counts)
        - left.sum() * criterion.impurity(left)
        - right.sum() * criterion.impurity(right)
    )
    terms = criterion.terms()
    total, of_left = terms.weights @ counts, terms.weights @ left
    gain = 0.0
    for axis, (coefficient, stratum) in enumerate(zip(terms.coefficients, terms.stratum_of, strict=True)):
        n, n_left = total[stratum], of_left[stratum]
        if 0 < n_left < n:
            beyond = of_left[terms.n_strata + axis] - total[terms.n_strata + axis] / n * n_left
            gain += coefficient * beyond**2 * n / (n_left * (n - n_left))
    assert gain == pytest.approx(decrease, abs=1e-9)
    assert (terms.coefficients[terms.n_label_axes :] <= 0.0).all()


@given(st.data())
def test_classes_hold_labels_and_group(data: st.DataObject) -> None:
    n_labels = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    n_groups = data.draw(st.integers(1, 5))
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in (*n_labels, n_groups))), min_size=1))
    *labels, groups = np.array(rows).T
    targets = Targets.from_columns(labels, groups, n_labels, n_groups)
    assert targets.classes.dtype == (np.uint8 if targets.n_classes < 256 else np.uint16)
    assert_array_equal(np.transpose(np.unravel_index(targets.classes, (*n_labels, n_groups))), rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": float("nan")}, "gamma is nan"),
        ({"metric": "parity"}, "metric is 'parity'"),
        ({"label_weights": (1.0, 2.0)}, "2 weights for 1 label"),
        ({"label_weights": (0.0,)}, "not all of them 0"),
        ({"label_weights": (float("inf"),)}, "finite"),
        ({"metric": "equal_opportunity", "positive": 2}, "positive is 2"),
        ({"n_groups": 0}, "at least one value"),
        ({"n_labels": (300,), "n_groups": 300}, "more than 65,535 classes"),
    ],
)
def test_settings_out_of_range_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Criterion(**{"gamma": 0.5, "metric": "demographic_parity", "n_labels": (2,), "n_groups": 2} | changes)  # type: ignore[arg-type]


def test_codes_out_of_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="label column 1: the code 2 is not one of 0 … 1"):
        Targets.from_columns([np.array([0, 2])], np.array([0, 0]), (2,), 1)
    with pytest.raises(ArgumentError, match="the groups: the code -1"):
        Targets.from_columns([np.array([0, 1])], np.array([0, -1]), (2,), 2)
    with pytest.raises(ArgumentError, match="label column 1: 3 values for 2 records"):
        Targets.from_columns([np.array([0, 1, 1])], np.array([0, 1]), (2,), 2)
    with pytest.raises(ArgumentError, match="1 label columns were given, but 2 sizes"):
        Targets.from_columns([np.array([0, 1])], np.array([0, 1]), (2, 2), 2)
    with pytest.raises(ArgumentError, match="counts of"):
        Criterion(0.5, "demographic_parity", (2,), 2).impurity([1, 2, 3])


@pytest.mark.parametrize("metric", METRICS)
def test_several_attributes_are_averaged(metric):
    """With groups sex × race, Gini_s is the mean of that of sex and that of race, in impurities and in the search."""
    counts = np.random.default_rng(0).integers(0, 9, (20, 2, 4))
    both = Criterion(0.4, metric, (2,), 4, attributes=((0, 0, 1, 1), (0, 1, 0, 1)))
    sex, race = counts.reshape(20, 2, 2, 2).sum(axis=3), counts.reshape(20, 2, 2, 2).sum(axis=2)
    alone = Criterion(0.4, metric, (2,), 2)
    own = (alone.impurity(sex.reshape(20, -1)) + alone.impurity(race.reshape(20, -1))) / 2
    assert_allclose(both.impurity(counts.reshape(20, -1)), own)
    assert both.terms().n_group_axes == 2
    # XOR of the two attributes: the groups differ as far as they can, and neither attribute does.
    xor = np.array([0, 1, 1, 0, 0, 1, 1, 0]) * 10
    assert both.impurity(xor) == pytest.approx(0.6 * 0.5)
    assert Criterion(0.4, metric, (2,), 4).impurity(xor) > both.impurity(xor) + 0.04


def test_attributes_that_do_not_fit_the_groups_are_refused():
    with pytest.raises(ArgumentError, match="each of the 2 groups"):
        Criterion(0.5, "demographic_parity", (2,), 2, attributes=((0, 1, 0),))
