from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.frontier.fronts import pareto
from certifare.frontier.ordering import LARGEST_TARGET, LONGEST, WORTH_A_STEP, chain


def lost(steps, front, bounds, utilities):
    """Utility lost against the whole front, integrated over the logarithm of the target."""
    edges = [*(bounds[i] for i in front), max(LARGEST_TARGET, 1.2 * bounds[front[-1]])]
    total = 0.0
    for i, low, high in zip(front, edges, edges[1:], strict=False):
        serving = max((utilities[s] for s in steps if bounds[s] <= bounds[i]), default=-np.inf)
        total += (utilities[i] - serving) * np.log(high / low)
    return total


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_no_other_choice_of_steps_loses_less(seed, longest):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    bounds, utilities = rng.uniform(0.01, 0.5, n).tolist(), rng.uniform(0, 1, n).tolist()
    front = pareto(bounds, utilities)
    steps = chain(bounds, utilities, longest)
    assert set(steps) <= set(front)
    assert len(steps) <= longest
    choices = [c for k in range(1, longest + 1) for c in combinations(front, min(k, len(front)))]
    assert lost(steps, front, bounds, utilities) <= min(lost(c, front, bounds, utilities) for c in choices) + (
        WORTH_A_STEP + 1e-9
    )


def test_the_order_goes_from_safe_to_bold_and_is_short():
    rng = np.random.default_rng(0)
    bounds = rng.uniform(0.01, 0.4, 500)
    steps = chain(bounds.tolist(), (bounds**0.5 + rng.normal(0, 0.02, 500)).tolist())
    assert 6 <= len(steps) <= LONGEST
    assert sorted(steps, key=lambda i: bounds[i]) == steps


def test_steps_that_gain_nothing_are_not_taken():
    assert chain([0.05, 0.050001, 0.2], [0.3, 0.300001, 0.5]) == [0, 2]
    assert chain([0.1], [0.2]) == [0]
    assert chain([], []) == []


def test_the_safest_is_always_a_step():
    """However little it tells: for the smallest targets it is all there is."""
    bounds, utilities = [0.01, 0.3, 0.31, 0.32], [0.001, 0.5, 0.6, 0.7]
    assert chain(bounds, utilities, 2)[0] == 0


@pytest.mark.parametrize("longest", [1, 2, 12])
def test_the_length_is_respected(longest):
    bounds = np.linspace(0.01, 0.4, 40)
    assert len(chain(bounds.tolist(), np.sqrt(bounds).tolist(), longest)) == longest
