"""Charts: what the renderer gives back is checked before it goes into a page."""

from xml.etree import ElementTree

import pytest

from certifare.report.charts import _boxes, _difference, _leans, _named, _runs, adapted, charts
from certifare.report.palette import PALETTE

from .samples import SCRIPT, encoder_report, hostile_report

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">{}</svg>'


@pytest.mark.parametrize(
    "content",
    [
        "<script>1</script>",
        "<foreignObject/>",
        "<image href='x'/>",
        "<a href='javascript:1'><path/></a>",
        "<path onload='1'/>",
        "<path fill='javascript:1'/>",
        "<use/>",
        "<style>@import 'x'</style>",
    ],
)
def test_elements_without_a_place_in_a_report_are_refused(content):
    with pytest.raises(ValueError, match="has no place in a report"):
        adapted(SVG.format(content), "chart")


def test_ids_become_the_charts_own():
    text = adapted(SVG.format('<clipPath id="clip0"/><g clip-path="url(#clip0)"/>'), "frontier-wide")

    assert 'id="frontier-wide-clip0"' in text
    assert 'clip-path="url(#frontier-wide-clip0)"' in text


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return {
        "tree": charts(encoder_report(tmp_path_factory.mktemp("tree"), "tree")),
        "boosted": charts(encoder_report(tmp_path_factory.mktemp("boosted"), "boosted")),
        "hostile": charts(hostile_report()),
    }


def test_each_report_has_its_charts(drawn):
    common = {"interval", "frontier", "cells", "four-fifths"}

    assert set(drawn["tree"]) == common | {"tree"}
    assert set(drawn["boosted"]) == common | {"map"}
    assert set(drawn["hostile"]) == common | {"map"}


@pytest.mark.parametrize("report", ["tree", "boosted", "hostile"])
def test_every_colour_comes_from_the_palette(drawn, report):
    known = {pair[0] for pair in PALETTE.values()} | {"none", "transparent"}

    for versions in drawn[report].values():
        for svg in versions.values():
            for element in ElementTree.fromstring(svg).iter():  # noqa: S314
                for attribute in ("fill", "stroke"):
                    assert element.get(attribute, "none") in known


def test_names_are_text_in_charts(drawn):
    for versions in drawn["hostile"].values():
        for svg in versions.values():
            assert SCRIPT not in svg
            assert "<img" not in svg
    root = ElementTree.fromstring(drawn["hostile"]["map"]["wide"])  # noqa: S314
    titles = [element.text for element in root.iter() if element.text]
    assert any("<script>" in text for text in titles)


def test_boxes_of_a_tree_nest(tmp_path):
    data = encoder_report(tmp_path, "tree")
    boxes = _boxes(data["encoder"]["nodes"], data["cells"])

    assert (boxes[0]["left"], boxes[0]["right"]) == (0, 1)
    for i, box in enumerate(boxes):
        children = [
            other
            for other in boxes[i + 1 :]
            if other["depth"] == box["depth"] + 1 and box["left"] - 1e-9 <= other["left"] < box["right"] - 1e-9
        ]
        if data["encoder"]["nodes"][i]["cell"] is None:
            assert children[0]["left"] == pytest.approx(box["left"])
            assert children[-1]["right"] == pytest.approx(box["right"])
            assert sum(c["right"] - c["left"] for c in children) == pytest.approx(box["right"] - box["left"])


def test_leans_go_from_the_first_group_to_the_second():
    def row(cell, difference, pool=None):
        return {"cell": cell, "difference": difference, "pool": pool}

    assert _leans({"rows": [row(0, 0.2), row(1, 0.0), row(2, -0.2), row(3, 0.9, pool=3), row(4, 0, pool=3)]}) == [
        *(0, 3, 6),
        *(3, 3),  # what a pooled cell leans to is not published
    ]
    assert _leans({"rows": [row(0, 0.0)]}) == [3]


def test_a_difference_is_unknown_where_a_pool_is_parted():
    rows = [
        {"cell": 0, "difference": 0.3, "pool": None},
        {"cell": 1, "difference": 0.2, "pool": 1},
        {"cell": 2, "difference": 0.0, "pool": 1},
    ]

    assert _difference(rows, {0}) == 0.3
    assert _difference(rows, {0, 1}) == 0.0
    assert _difference(rows, {0, 1, 2}) == 0.5


def test_runs():
    assert _runs([1, 1, 2, 1]) == [(1, 0, 2), (2, 2, 3), (1, 3, 4)]
    assert _runs([]) == []


def test_names_on_the_map_keep_their_distance():
    grid = [[10 * i + j for j in range(10)] for i in range(10)]

    assert len(_named(grid, side=100)) == 100
    close = _named(grid, side=5)
    assert 0 < len(close) < 100
    assert all(abs(a[1] - b[1]) * 5 > 20 or abs(a[2] - b[2]) * 5 > 13 for a in close for b in close if a != b)
