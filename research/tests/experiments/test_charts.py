"""Charts that can be read: no panel has more series than can be told apart."""

from certifare_research.experiments.charts import MOST, _panels, fronts, lines


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
        assert all(len(series) <= MOST for _, _, series in dealt)
        shown = {(p["panel"], p["series"]) for _, own, _ in dealt for p in own}
        assert shown == {(p["panel"], p["series"]) for p in given}
        if certified == 2:  # what is certified is in every panel
            assert all({"T0", "T1"} <= set(series) for _, _, series in dealt)


def test_few_series_are_one_chart():
    assert "concat" not in fronts(points(2, 3)).to_dict()
    assert len(fronts(points(2, 10)).to_dict()["concat"]) == 2
    assert len(lines(points(0, 9), "distance", "accuracy").to_dict()["concat"]) == 2
