import json
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from certifare.bundle import Bundle, produce
from certifare.document import read_document
from certifare.errors import ArgumentError
from certifare.frontier import Grid, sweep


@pytest.fixture(scope="module")
def frontier(small, grid):
    return sweep(small, grid)


def test_certified_points_hold_together(frontier):
    certified = [point for point in frontier.points if point.certified]
    assert 1 < len(certified) < len(frontier)
    for point in certified:
        certificate = frontier.certificate(point)
        assert certificate.candidates == len(certified)
        assert (certificate.bound, certificate.estimate) == (point.bound, point.estimate)
        assert point.lower <= point.bound
        certificate.verify()
        assert frontier.encoder(point).n_cells_ == point.cells
    other = next(point for point in frontier.points if not point.certified)
    assert other.lower is None
    with pytest.raises(ArgumentError, match="was not certified"):
        frontier.certificate(other)


def test_all_candidates_can_be_certified(small):
    grid = Grid(kinds=["tree"], gammas=[0.8], min_cell_sizes=[40], cells=[2, 4])
    frontier = sweep(small, grid, candidates="all")
    assert all(point.certified for point in frontier.points)
    assert {frontier.certificate(point).candidates for point in frontier.points} == {len(frontier)}


def test_holdout_certifies_one_encoder_once_at_full_confidence(small, grid):
    frontier = sweep(small, grid, correction="holdout")
    assert not any(point.certified for point in frontier.points)
    chosen = frontier.best(0.3)
    certificate = frontier.certify(chosen)
    assert certificate.candidates == 1
    assert frontier.points[chosen.number].certified
    assert frontier.points[chosen.number].bound == certificate.bound
    other = next(point for point in frontier.points if not point.certified)
    with pytest.raises(ArgumentError, match="have been used"):
        frontier.certify(other)


def test_simultaneous_points_are_not_certified_again(frontier):
    with pytest.raises(ArgumentError, match="holdout"):
        frontier.certify(frontier.points[0])


def test_best_within_a_bound(frontier):
    best = frontier.best(max_bound=0.25)
    assert best.bound <= 0.25
    assert best.certified
    within = [point for point in frontier.usable if point.bound <= 0.25]
    assert best.utility == max(point.utility for point in within)
    assert frontier.best(0.25, min_cells=8).cells >= 8
    with pytest.raises(ArgumentError, match="the smallest is"):
        frontier.best(0.001)
    for nonsense in (float("nan"), -0.1, 1.5):
        with pytest.raises(ArgumentError, match="give a distance in"):
            frontier.best(nonsense)
    with pytest.raises(ArgumentError, match="1000 cells"):
        frontier.best(min_cells=1000)


def test_the_knee_lies_on_the_front(frontier):
    knee = frontier.best()
    assert knee.certified
    assert min(p.bound for p in frontier.pareto()) <= knee.bound <= max(p.bound for p in frontier.pareto())


def test_the_front_rises(frontier):
    front = frontier.pareto()
    assert [p.bound for p in front] == sorted(p.bound for p in front)
    assert [p.utility for p in front] == sorted(p.utility for p in front)


def test_the_table_has_every_encoder(frontier):
    table = frontier.table()
    assert table.num_rows == len(frontier)
    assert {
        "kind",
        "gamma",
        "min_cell_size",
        "cells",
        "utility",
        "accuracy",
        "auc",
        "explained",
        "bound",
        "estimate",
        "lower",
        "retained",
    } <= set(table.column_names)
    assert table["bound"].to_pylist() == sorted(table["bound"].to_pylist())
    json.dumps(frontier.rows(), allow_nan=False)


def marks(drawing, name):
    """Elements of the plane (the first nested drawing), by their class."""
    plane = ElementTree.fromstring(drawing.svg()).find(".//{*}svg")  # noqa: S314
    return [element for element in plane.iter() if name in (element.get("class") or "").split()]


def test_the_plot_has_every_encoder_and_both_fronts(frontier):
    certified = sum(point.certified for point in frontier.points)
    drawing = frontier.plot()
    assert len(marks(drawing, "certified")) == certified
    assert len(marks(drawing, "predicted")) == len(frontier) - certified
    assert len(marks(drawing, "front")) == 2
    assert marks(drawing, "ring") == []
    colours = {
        element.get("class").split()[-1] for name in ("certified", "predicted") for element in marks(drawing, name)
    }
    assert len(colours) == len({point.kind for point in frontier.points})


def test_the_plot_marks_the_chosen_encoder(frontier):
    assert len(marks(frontier.plot(frontier.best()), "ring")) == 1


def test_the_plot_of_a_fit_has_all_that_was_tried(small, grid):
    bundle = produce(small, grid=grid, ledger=False)
    assert len(marks(bundle.plot(), "predicted")) == bundle.tried - 1
    assert len(marks(bundle.plot(), "certified")) == len(marks(bundle.plot(), "ring")) == 1
    (front,) = marks(bundle.plot(), "front")
    corners = [[float(number) for number in corner.split()] for corner in front.get("d")[1:].split("L")]
    assert len(corners) > 2
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))


@pytest.mark.parametrize("correction", ["simultaneous", "holdout"])
def test_a_point_becomes_a_bundle_with_the_certificate_that_it_is_entitled_to(small, grid, tmp_path, correction):
    frontier = sweep(small, grid, correction=correction)
    point = frontier.best()
    assert point.certified is (correction == "simultaneous")
    bundle = Bundle.of(frontier, point)
    assert bundle.certificate == frontier.certificate(point)
    assert bundle.certificate.candidates == max(1, sum(p.certified for p in frontier.points))
    bundle.save(tmp_path / "bundle")
    assert read_document(tmp_path / "bundle" / "certificate.json").certificate.bound == bundle.certificate.bound
    other = next(p for p in frontier.points if not p.certified)
    with pytest.raises(ArgumentError, match="not certified" if point.certified else "have been used"):
        Bundle.of(frontier, other)


def test_points_of_other_frontiers_are_refused(frontier, small):
    other = sweep(small, Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[100], cells=[2, 3]), seed=7)
    with pytest.raises(ArgumentError, match="not one of this frontier"):
        frontier.encoder(other.points[0])
    with pytest.raises(ArgumentError, match="not one of this frontier"):
        Bundle.of(other, frontier.points[-1])


def test_unknown_choices_are_refused(small, grid):
    with pytest.raises(ArgumentError, match="correction"):
        sweep(small, grid, correction="bonferroni")
    with pytest.raises(ArgumentError, match="candidates"):
        sweep(small, grid, candidates="some")
