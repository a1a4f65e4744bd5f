"""Charts that stand alone: what is drawn lies where the data say, and every text is inside."""

from xml.etree import ElementTree

import pytest

from certifare.drawing import Panel, Scale, Series, draw_panels
from certifare.drawing.figure import MOST_SERIES, SHAPES, WIDTH, draw_shares, shorten, stairs, text_width
from certifare.drawing.palette import PALETTE, SERIES

NAMES = ["<b>", "'}</style></svg>", "\u202eevil", "long " * 60, "\x00", "名前" * 30, ""]


def parsed(drawing):
    return ElementTree.fromstring(drawing.svg())  # noqa: S314


def of_class(element, name):
    return [e for e in element.iter() if name in (e.get("class") or "").split()]


def share(text):
    return float(text.removesuffix("%")) / 100


def test_a_drawing_says_what_it_shows_and_brings_its_colours_in_light_and_dark():
    drawn = parsed(draw_panels("A < B", [Panel([Series("a", [(0, 1)])], Scale(), Scale())], "One point."))
    title, description, style = list(drawn)[:3]
    assert (title.text, description.text, drawn.get("role")) == ("A < B", "One point.", "img")
    light, dark = style.text.split("@media screen and (prefers-color-scheme: dark)")
    for name in ("ink", "paper", SERIES[0]):
        assert PALETTE[name][0] in light
        assert PALETTE[name][1] in dark
    assert "var(" not in style.text
    assert "rem" not in style.text


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_and_fit(name):
    panel = Panel([Series(name, [(0, 0.5), (1, 0.5)])], Scale(name), Scale(name, names=[name or "a"]), heading=name)
    drawn = parsed(draw_panels(name, [panel, panel]))
    assert {e.tag.split("}")[1] for e in drawn.iter()} <= {"svg", "title", "style", "rect", "text", "g", "path", "line"}
    texts = [e.text or "" for e in drawn.iter() if e.tag.endswith("}text")]
    assert "\u202e" not in "".join(texts)
    assert all(text_width(text) <= WIDTH for text in texts)


def test_boxes_and_rules_lie_at_their_values():
    boxes = Series("a", [(1, 0.2), (3, 0.8), (0, 1.2), (4, 1.8)], "boxes")
    panel = Panel([boxes], Scale(limits=(0, 4)), Scale(names=["one", "two"]), rules=[("x", 2, "here")])
    drawn = parsed(draw_panels("x", [panel]))
    first, second = of_class(drawn, "bar")[-2:]
    assert [share(first.get(name)) for name in ("x", "y", "width", "height")] == pytest.approx([0.25, 0.1, 0.5, 0.3])
    assert [share(second.get(name)) for name in ("x", "y", "width", "height")] == pytest.approx([0.0, 0.6, 1.0, 0.3])
    (rule,) = of_class(drawn, "target")
    assert (rule.get("x1"), rule.get("x2")) == ("50%", "50%")
    texts = [e.text for e in drawn.iter() if e.tag.endswith("}text")]
    assert texts.index("one") < texts.index("two")


def test_a_logarithmic_axis_has_decades_at_equal_distances():
    axis = Scale(log=True)
    span = axis.span([1, 10_000], vertical=False)
    marks = axis.marks(span, 600, vertical=False)
    assert [text for _, text in marks] == ["1", "10", "100", "1,000", "10,000"]
    assert [place for place, _ in marks] == pytest.approx([0, 1, 2, 3, 4])
    assert len(axis.marks(axis.span([250, 50_000], vertical=False), 600, vertical=False)) >= 5


def test_percentages_and_large_numbers():
    assert Scale(percent=True).marks((0.0, 1.0), 400, vertical=False)[-1] == (1.0, "100 %")
    assert Scale().marks((0.0, 50_000.0), 400, vertical=False)[-1] == (50_000.0, "50,000")


def test_every_series_has_a_colour_and_a_shape_of_its_own():
    series = [Series(f"s{i}", [(i, i)]) for i in range(MOST_SERIES)]
    drawn = parsed(draw_panels("x", [Panel(series, Scale(), Scale())]))
    looks = {(e.get("class"), e.get("d")) for e in of_class(drawn, "wedge")}
    assert len(looks) == MOST_SERIES == len(set(SHAPES)) == 7


def test_a_single_value_has_room_around_it():
    for value in (0.0, 5.0, -3.0):
        low, high = Scale().span([value], vertical=True)
        assert low < value < high
    assert Scale(zero=True).span([2.0, 4.0], vertical=True)[0] == 0.0


def test_small_groups_are_drawn_together():
    counts = {f"g{i}": [10.0 * (i + 1), 5.0] for i in range(9)}
    drawn = parsed(draw_shares("cells", counts, ["0", "1"], "records"))
    names = [e.text for e in drawn.iter() if e.tag.endswith("}text")]
    assert "3 other groups" in names
    assert "g8" in names
    assert "g2" not in names
    boxes = [e for e in of_class(drawn, "bar") if e.tag.endswith("}rect")]
    assert len(boxes) == 2 * MOST_SERIES


def test_many_cells_have_few_names():
    marks = Scale(names=[str(i) for i in range(1000)]).marks((1000.0, 0.0), 1200, vertical=True)
    assert 20 < len(marks) <= 75


def test_steps():
    assert stairs([]) == []
    assert stairs([(0, 1), (1, 2), (2, 0)]) == [(0, 1), (1, 1), (1, 2), (2, 2), (2, 0)]


def test_wide_letters_need_more_room():
    assert text_width("名") == 2 * text_width("n")
    assert shorten("a\n b", 100) == "a b"
