import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from certifare_research.evaluation import best_within, pareto_front

points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30)


@given(points)
def test_front_is_what_no_point_beats(pairs):
    accuracy, distance = np.array(pairs, dtype=float).T
    front = pareto_front(accuracy, distance)
    for i in front:
        beaten = (
            (accuracy >= accuracy[i])
            & (distance <= distance[i])
            & ((accuracy > accuracy[i]) | (distance < distance[i]))
        )
        assert not beaten.any()
    for j in range(len(pairs)):
        assert any(accuracy[i] >= accuracy[j] and distance[i] <= distance[j] for i in front)
    assert (np.diff(distance[front]) > 0).all()


@given(points, st.integers(-1, 6))
def test_best_within(pairs, limit):
    accuracy, distance = ([float(v) for v in column] for column in zip(*pairs, strict=True))
    found = best_within(accuracy, distance, limit)
    allowed = [a for a, d in pairs if d <= limit]
    assert (found is None) == (not allowed)
    if found is not None:
        assert accuracy[found] == max(allowed)
