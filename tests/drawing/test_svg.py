"""Drawings: whatever is drawn is escaped, and lies where it should, at any width."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.drawing.svg import Plane, tag, ticks

HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'}</style></svg>", "long " * 60]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_drawn_is_text(name):
    plane = Plane((0, 1), (0, 1))
    plane.text(0.5, 0.5, name, class_=name)
    drawn = ElementTree.fromstring(plane.svg("10rem"))  # noqa: S314

    (text,) = drawn
    assert text.text == name
    assert text.get("class") == name


def test_attributes_are_written_as_svg_names_them():
    assert (
        tag("line", x1="0%", stroke_width=2, class_="a", y1=None) == '<line x1="0%" stroke-width="2" class="a"></line>'
    )


def test_places_are_shares_of_the_plane():
    plane = Plane((0, 2), (10, 20))
    plane.line((0, 10), (2, 20))
    plane.box((1, 20), (2, 15))
    plane.dot(0.5, 17.5, 3)
    line, box, dot = ElementTree.fromstring(plane.svg("10rem"))  # noqa: S314

    assert line.attrib == {"x1": "0%", "y1": "100%", "x2": "100%", "y2": "0%"}
    assert box.attrib == {"x": "50%", "y": "0%", "width": "50%", "height": "50%"}
    assert dot.attrib == {"cx": "25%", "cy": "25%", "r": "3"}


@given(low=st.floats(-1e3, 1e3), span=st.floats(1e-6, 1e3), most=st.integers(2, 10))
def test_ticks_are_few_round_and_inside(low, span, most):
    high = low + span
    found = ticks(low, high, most)

    assert len(found) <= most + 1
    assert all(low - 1e-6 * span <= place <= high + 1e-6 * span for place, _ in found)
    assert all(float(text) == pytest.approx(place, abs=1e-9 + 1e-9 * abs(place)) for place, text in found)
    assert len({text for _, text in found}) == len(found)
    steps = [b - a for (a, _), (b, _) in pairwise(found)]
    assert all(step == pytest.approx(steps[0], rel=1e-6) for step in steps)
