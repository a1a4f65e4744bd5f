"""Colours: legible in light and dark."""

import pytest

from certifare.drawing.palette import LEANS, PALETTE, SERIES, variables


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """Contrast ratio of the Web Content Accessibility Guidelines."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("background", ["paper", "panel"])
@pytest.mark.parametrize("name", ["ink", "muted", "accent", "warm", "good", "bad", *SERIES])
def test_texts_and_marks_stand_out(mode, background, name):
    assert contrast(PALETTE[name][mode], PALETTE[background][mode]) >= 4.5


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", [*LEANS, "band"])
def test_texts_on_coloured_boxes_stand_out(mode, name):
    assert contrast(PALETTE["ink"][mode], PALETTE[name][mode]) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
def test_every_colour_is_a_variable(dark):
    assert all(f"--{name}: {pair[dark]};" in variables(dark) for name, pair in PALETTE.items())
