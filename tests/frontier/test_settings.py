import pytest

from certifare.errors import ArgumentError
from certifare.frontier import Grid


def test_settings_are_every_combination_once():
    grid = Grid(kinds=["tree", "boosted", "tree"], gammas=[0.5, 0.9], min_cell_sizes=[10, 20], cells=[3, 9])
    found = [(s.kind, s.gamma, s.min_cell_size, s.max_cells) for s in grid.settings(1000)]
    assert len(found) == len(set(found)) == 8
    assert {s[3] for s in found} == {9}


def test_cell_sizes_follow_the_number_of_records():
    sizes = sorted({s.min_cell_size for s in Grid(kinds=["tree"]).settings(100_000)})
    assert sizes == [100, 1000]
    assert sorted({s.min_cell_size for s in Grid(kinds=["tree"]).settings(200)}) == [5]


def test_trees_beside_boosted_encoders_have_fewer_gammas():
    alone = {s.gamma for s in Grid(kinds=["tree"]).settings(10_000)}
    beside = {s.gamma for s in Grid().settings(10_000) if s.kind == "tree"}
    assert len(beside) < len(alone)
    assert {s.gamma for s in Grid(gammas=[0.1, 0.2]).settings(10_000) if s.kind == "tree"} == {0.1, 0.2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": []}, "kinds is empty"),
        ({"kinds": ["forest"]}, "Unknown kind of encoder 'forest'"),
        ({"gammas": [1.5]}, "gamma=1.5"),
        ({"gammas": [float("nan")]}, "gamma=nan"),
        ({"cells": [1, 2]}, "needs at least two cells"),
        ({"min_cell_sizes": [0]}, "min_cell_size=0"),
    ],
)
def test_grids_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        Grid(**options)


def test_cells_larger_than_the_table_are_refused():
    with pytest.raises(ArgumentError, match="too few"):
        list(Grid(kinds=["tree"], min_cell_sizes=[600]).settings(1000))


def test_a_path_has_the_asked_numbers_and_the_last():
    grid = Grid(cells=[2, 5, 10, 50])
    assert grid.path(1) == ()
    assert grid.path(7) == (2, 5, 7)
    assert grid.path(50) == (2, 5, 10, 50)
    assert grid.path(80) == (2, 5, 10, 50, 80)
