"""Charts that can be read: no panel has more series than can be told apart."""

import math

import pytest

from certifare.drawing import draw_figures
from certifare.drawing.figure import MOST_SERIES
from certifare_research.experiments.charts import _panels, bars, dendrogram, dots, fronts, lines


def points(certified, measured, panels=("one",)):
    names = [(f"T{i}", True) for i in range(certified)] + [(f"M{i}", False) for i in range(measured)]
    return [
        {"series": name, "certified": sure, "distance": x, "accuracy": 0.5 + x, "panel": panel}
        for panel in panels
        for name, sure in names
        for x in (0.1, 0.2)
    ]


def test_at_most_seven_series_a_panel():
    for certified, measured in ((2, 10), (0, 9), (8, 0), (1, 1), (2, 5)):
        given = points(certified, measured, ("ca", "us"))
        dealt = _panels(given, "panel")
        assert all(len(series) <= MOST_SERIES for _, _, series in dealt)
        shown = {(p["panel"], p["series"]) for _, own, _ in dealt for p in own}
        assert shown == {(p["panel"], p["series"]) for p in given}
        if certified == 2:  # what is certified is in every panel
            assert all({"T0", "T1"} <= set(series) for _, _, series in dealt)


def test_few_series_are_one_chart():
    assert len(fronts(points(2, 3))) == 1
    assert len(fronts(points(2, 10))) == 2
    assert len(lines(points(0, 9), "distance", "accuracy")) == 2


def looks(figure, name):
    """How many elements of a plane have a class."""
    return sum(f'class="{name}' in element for element in figure.plane.drawn)


def test_what_is_certified_is_solid_and_what_is_measured_dashed():
    (figure,) = fronts(
        [*points(2, 3), *({**p, "certified": False, "distance": p["distance"] + 0.1} for p in points(1, 0))]
    )
    assert looks(figure, "course series") == 2
    assert looks(figure, "course dashed series") == 4
    assert [name for _, name in figure.key] == ["T0", "T1", "M0", "M1", "M2"]
    solid, dashed = (next(e for e in figure.plane.drawn if f'"course {look}series-1' in e) for look in ("", "dashed "))
    assert solid != dashed  # one colour, two lines


def test_a_series_has_its_colour_in_every_panel():
    given = points(1, 2, ("ca", "us"))
    one, other = fronts([p for p in given if (p["panel"], p["series"]) != ("us", "M0")], facet="panel")
    assert [name for _, name in one.key] == ["T0", "M0", "M1"]
    assert other.key == [one.key[0], one.key[2]]
    assert looks(other, "course dashed series-2") == 0
    assert looks(other, "course dashed series-3") == 1


def test_data_without_some_series_have_no_empty_panel():
    given = [*points(0, 6, ("ca",)), *({**p, "series": f"years {p['series']}"} for p in points(0, 6, ("ma",)))]
    assert [figure.heading for figure in fronts(given, facet="panel")] == ["ca", "ma"]


def test_dots_bars_and_trees():
    classifiers = [{"series": s, "distance": d, "accuracy": 0.7} for s, d in (("y", 0.1), ("s", 0.2), ("y", 0.05))]
    (figure,) = dots(classifiers, 0.3)
    assert "T* = 0.3000" in "".join(figure.plane.drawn)
    (figure,) = bars([{"method": "a", "seconds": 0.5}, {"method": "b", "seconds": 50.0}], "seconds", "method", log=True)
    assert figure.plane.across(math.log10(0.5)) == pytest.approx(math.log10(5) / math.log10(575), abs=1e-6)
    assert looks(figure, "bar") == 2
    (figure,) = dendrogram([[0, 0, 0], [0, 0, 1], [0, 1, 2]], ["a", "<b>", "c"])
    assert looks(figure, "leader") == 4
    assert "<b>" not in draw_figures("A tree", [figure]).svg()
