from hypothesis import given
from hypothesis import strategies as st

from certifare.frontier import knee, pareto

points = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40)


@given(points)
def test_the_front_is_what_no_point_beats(found):
    bounds, accuracies = [b / 20 for b, _ in found], [a / 20 for _, a in found]
    front = pareto(bounds, accuracies)
    for i in range(len(found)):
        beaten = any(
            bounds[j] <= bounds[i]
            and accuracies[j] >= accuracies[i]
            and (bounds[j] < bounds[i] or accuracies[j] > accuracies[i])
            for j in range(len(found))
        )
        if i in front:
            assert not beaten
        else:
            same = any(bounds[j] == bounds[i] and accuracies[j] == accuracies[i] for j in front)
            assert beaten or same
    assert [bounds[i] for i in front] == sorted(bounds[i] for i in front)


@given(points)
def test_the_knee_is_on_the_front(found):
    bounds, accuracies = zip(*found, strict=True)
    assert knee(bounds, accuracies) in pareto(bounds, accuracies)


def test_the_knee_is_where_the_curve_bends():
    bounds = [0.01, 0.02, 0.03, 0.10, 0.20, 0.30]
    assert knee(bounds, [0.60, 0.70, 0.80, 0.81, 0.82, 0.83]) == 2
    assert knee([0.1], [0.5]) == 0
    assert knee([0.1, 0.2], [0.5, 0.6]) == 1
