"""Charts show what the data say: counted in the drawings themselves."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from certifare.drawing.palette import LEANS
from certifare.report.charts import _named, draw_charts, drawn_points, largest_difference, lean

from .samples import SCRIPT, encoder_report, hostile_report


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return {
        "tree": encoder_report(tmp_path_factory.mktemp("tree"), "tree"),
        "boosted": encoder_report(tmp_path_factory.mktemp("boosted"), "boosted"),
        "hostile": hostile_report(),
    }


@pytest.fixture(scope="module")
def drawn(reports):
    return {name: draw_charts(data) for name, data in reports.items()}


def elements(svg, name=None):
    """The elements of a drawing that have a class."""
    found = ElementTree.fromstring(svg).iter()  # noqa: S314
    return [element for element in found if name is None or name in (element.get("class") or "").split()]


def share(text):
    return float(text.removesuffix("%")) / 100


def test_each_report_has_its_charts(drawn):
    common = {"interval", "frontier", "ratios"}

    assert set(drawn["tree"]) == common
    assert set(drawn["boosted"]) == common | {"map"}
    assert set(drawn["hostile"]) == common | {"map"}


@pytest.mark.parametrize("report", ["tree", "boosted", "hostile"])
def test_one_drawing_with_known_elements_and_no_colours_of_its_own(drawn, report):
    for svg in drawn[report].values():
        for element in elements(svg):
            assert element.tag in ("svg", "line", "rect", "circle", "path", "text")
            assert not {"fill", "stroke", "href", "id"} & set(element.attrib)
            assert not any(name.startswith("on") for name in element.attrib)
        assert SCRIPT not in svg


def test_the_interval_lies_where_the_figures_are(reports, drawn):
    figures, target = reports["tree"]["figures"], reports["tree"]["target"]["value"]
    (band,) = elements(drawn["tree"]["interval"], "band")
    (line,) = elements(drawn["tree"]["interval"], "target")
    unit = share(line.get("x1")) / target

    assert share(band.get("x")) == pytest.approx(figures["lower"] * unit, abs=1e-3)
    assert share(band.get("width")) == pytest.approx((figures["bound"] - figures["lower"]) * unit, abs=1e-3)


def test_certified_and_predicted_points_have_different_marks(reports, drawn):
    data, svg = reports["tree"], drawn["tree"]["frontier"]
    shown = drawn_points(data)

    assert sum(point["certified"] for point in shown) == 1
    assert len(elements(svg, "certified")) == 1
    assert len(elements(svg, "ring")) == 1
    predicted = elements(svg, "predicted")
    assert {element.tag for element in predicted} == {"circle"}
    assert len(predicted) == len(shown) - 1


def test_the_chosen_one_is_named_above_all_points(drawn):
    svg = drawn["tree"]["frontier"]
    (name,) = [element for element in elements(svg, "strong") if element.text == "chosen"]

    assert name.get("y") == "0%"
    assert name.get("dy").startswith("-")
    assert min(share(dot.get("cy")) for dot in elements(svg, "predicted")) > 0.0


def test_encoders_far_beyond_the_front_are_left_out():
    points = [
        {"bound": bound, "utility": utility, "best": best, "certified": False}
        for bound, utility, best in [(0.1, 0.7, True), (0.12, 0.6, False), (0.2, 0.7, False), (0.1, None, False)]
    ]

    assert [p["bound"] for p in drawn_points({"frontier": {"points": points}})] == [0.1, 0.12]
    assert drawn_points({"frontier": None}) == []


def test_every_cell_of_the_map_is_named_inside_itself(reports, drawn):
    grid = np.array(reports["boosted"]["encoder"]["map"]["cells"])
    names = elements(drawn["boosted"]["map"], "name")

    # A cell may lie in several places, each with its name.
    assert sorted({int(name.text) for name in names}) == list(range(len(reports["boosted"]["cells"]["rows"])))
    for name in names:
        i, j = (share(name.get("x")) * len(grid), (1 - share(name.get("y"))) * grid.shape[1])
        assert grid[int(i), int(j)] == int(name.text)


def test_the_map_is_covered_once(reports, drawn):
    """The areas of the colours add up to the whole grid, each square in the colour of its cell."""
    data = reports["boosted"]
    grid = np.array(data["encoder"]["map"]["cells"])
    painted = np.full(grid.shape, "", dtype=object)
    for name in LEANS:
        for area in elements(drawn["boosted"]["map"], name):
            for i, j, height in re.findall(r"M(\d+) (\d+)h1v(\d+)h-1z", area.get("d")):
                column = slice(grid.shape[1] - int(j) - int(height), grid.shape[1] - int(j))
                assert set(painted[int(i), column]) == {""}
                painted[int(i), column] = name
    largest = largest_difference(data["cells"])
    differences = [row["difference"] for row in data["cells"]["rows"]]
    assert (painted == np.vectorize(lambda cell: lean(differences[cell], largest))(grid)).all()


def test_colours_go_from_the_first_group_to_the_second():
    assert [lean(difference, 0.2) for difference in (0.2, 0.0, -0.2)] == [LEANS[0], LEANS[3], LEANS[6]]
    assert lean(None, 0.2) == LEANS[3]  # what a pooled cell leans to is not published
    rows = [{"pool": None, "difference": -0.2}, {"pool": 1, "difference": 0.9}]
    assert largest_difference({"rows": rows}) == 0.2
    assert largest_difference({"rows": [{"pool": None, "difference": 0.0}]}) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_every_region_of_the_score_map_is_numbered_once_inside_itself(seed):
    """Regions are counted a second way, by scipy; cells lie in several regions, some of a single square."""
    from scipy.ndimage import label

    grid = np.random.default_rng(seed).integers(0, 3, (9, 7))
    named = _named(grid.tolist())

    for cell in range(3):
        regions, count = label(grid == cell)
        numbered = [regions[i, j] for found, i, j, _ in named if found == cell]
        assert sorted(numbered) == list(range(1, count + 1))
        sizes = [size for found, _, _, size in named if found == cell]
        assert sizes == [int((regions == number).sum()) for number in numbered]
